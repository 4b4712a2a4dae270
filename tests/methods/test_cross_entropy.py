"""Cross-entropy against the same two layers and torch's Adam, written out."""

from copy import deepcopy
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy, relu
from torch_geometric.data import Data

from erase.data.noise import corrupt
from erase.data.task import NodeTask
from erase.errors import EraseError
from erase.methods.cross_entropy import CrossEntropy
from erase.methods.supervised import SupervisedLearner
from erase.nn.encoders import Encoder
from erase.random import torch_stream

SMALL: dict[str, Any] = {"hidden": 16, "heads": 4, "device": "cpu"}


@pytest.fixture
def noisy(communities: Data) -> Data:
    return corrupt(communities, "symmetric", 0.3, seed=1)


def test_the_defaults() -> None:
    assert CrossEntropy().get_params() == {
        "encoder": "gat",
        "hidden": 256,
        "heads": 8,
        "dropout": 0.5,
        "lr": 1e-3,
        "weight_decay": 5e-4,
        "epochs": 400,
        "patience": 150,
        "batch_size": 0,
        "num_neighbors": (15, 10),
        "seed": 0,
        "device": "auto",
    }


@pytest.mark.parametrize("encoder", ["gat", "gcn", "sage"])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_epochs_are_adam_steps_on_the_given_labels(
    noisy: Data, encoder: str, dropout: float
) -> None:
    task = NodeTask.from_data(noisy)
    method = CrossEntropy(**SMALL, encoder=encoder, dropout=dropout, lr=0.02, weight_decay=0.1)
    learner = SupervisedLearner(method, [task], [3])
    assert type(learner.encoder.first).__name__.lower() == f"{encoder}layer"
    twin = deepcopy(learner.encoder)
    adam = torch.optim.Adam(twin.parameters(), lr=0.02, weight_decay=0.1)
    stream = torch_stream(3, "dropout")
    for _ in range(4):
        x = learner.x.dropout(dropout, [stream]) if dropout else learner.x
        (logits,) = twin.second(relu(twin.first(x, learner.graph)), learner.graph)
        loss = cross_entropy(logits[task.train_mask], task.y[task.train_mask])
        adam.zero_grad()
        loss.backward()
        adam.step()
        record = learner.step()
        assert set(record) == {"loss"}
        torch.testing.assert_close(record["loss"], loss.detach()[None])
    for name, parameter in twin.named_parameters():
        torch.testing.assert_close(learner.encoder.get_parameter(name), parameter)
    with torch.no_grad():
        hidden = relu(twin.first(learner.x, learner.graph))
        proba = twin.second(hidden, learner.graph).softmax(2)
    outcome = learner.evaluate()  # without dropout
    torch.testing.assert_close(outcome.proba, proba)
    torch.testing.assert_close(outcome.embedding, hidden)
    assert torch.equal(outcome.labels, proba.argmax(2))


def test_every_run_starts_from_its_own_seed(noisy: Data) -> None:
    task, seeds = NodeTask.from_data(noisy), [3, 5]
    learner = SupervisedLearner(CrossEntropy(**SMALL), [task, task], seeds)
    twin = Encoder(
        "gat",
        in_width=task.num_features,
        hidden=16,
        width=2,
        heads=4,
        dropout=0.5,
        hidden_activation="relu",
        output_activation="none",
        streams=[torch_stream(seed, "weights") for seed in seeds],
    )
    for name, parameter in twin.named_parameters():
        assert torch.equal(learner.encoder.get_parameter(name), parameter)
    for run, seed in enumerate(seeds):
        state = torch_stream(seed, "dropout").get_state()
        assert torch.equal(learner.streams[f"dropout {run}"].get_state(), state)


@pytest.mark.parametrize("encoder", ["gat", "gcn", "sage"])
def test_a_training_that_diverges_is_an_error(noisy: Data, encoder: str) -> None:
    method = CrossEntropy(**SMALL, encoder=encoder, epochs=3)
    with pytest.raises(EraseError, match=r"a finite loss; got (nan|inf) in epoch [23]\. Lower lr"):
        method.set_params(lr=1e30).fit(noisy)
    huge = noisy.clone()
    huge.x = noisy.x * 3e38
    with pytest.raises(EraseError, match="a finite loss; got nan in epoch 1"):
        method.set_params(lr=1e-3).fit(huge)


def test_an_infinite_learning_rate_is_refused(noisy: Data) -> None:
    with pytest.raises(EraseError, match="Correct lr of"):
        CrossEntropy(**SMALL, lr=float("inf")).fit(noisy)
