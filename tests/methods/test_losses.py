"""Methods that are a loss: each against its formula, and cross-entropy against Adam written out."""

import math
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, relu
from torch_geometric.data import Data

from erase.data.noise import corrupt
from erase.data.task import NodeTask
from erase.errors import EraseError
from erase.methods.losses import APL, GCE, CrossEntropy, CrossEntropyGCN
from erase.methods.network import SupervisedLearner
from erase.nn.encoders import Encoder
from erase.random import torch_stream
from erase.training.graphs import WholeGraph
from erase.training.loop import mean_cross_entropy
from graphs import random_logits

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
    assert isinstance(learner.data, WholeGraph)
    assert type(learner.encoder.first).__name__.lower() == f"{encoder}layer"
    twin = deepcopy(learner.encoder)
    adam = torch.optim.Adam(twin.parameters(), lr=0.02, weight_decay=0.1)
    stream = torch_stream(3, "dropout")
    for _ in range(4):
        x = learner.data.x.dropout(dropout, [stream]) if dropout else learner.data.x
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
        hidden = relu(twin.first(learner.data.x, learner.graph))
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


def test_ce_gcn_is_cross_entropy_with_a_gcn(communities: Data) -> None:
    assert CrossEntropyGCN().get_params() == CrossEntropy(encoder="gcn").get_params()
    small: dict[str, Any] = {"hidden": 16, "epochs": 5, "seed": 3, "device": "cpu"}
    ours = CrossEntropyGCN(**small).fit(communities)
    theirs = CrossEntropy(encoder="gcn", **small).fit(communities)
    np.testing.assert_array_equal(ours.predict_proba(), theirs.predict_proba())
    assert ours.history_ == theirs.history_


def test_another_encoder_is_refused(communities: Data) -> None:
    with pytest.raises(EraseError, match="Correct encoder of CrossEntropyGCN"):
        CrossEntropyGCN(encoder="gat").fit(communities)


def gce_by_hand(q: float, logits: Tensor, nodes: Tensor, classes: Tensor) -> list[float]:
    losses = []
    for run in range(len(logits)):
        terms = []
        for node, y in zip(nodes[run].tolist(), classes[run].tolist(), strict=True):
            exponentials = [math.exp(value) for value in logits[run, node].tolist()]
            terms.append((1 - (exponentials[y] / sum(exponentials)) ** q) / q)
        losses.append(sum(terms) / len(terms))
    return losses


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("scale", [0.1, 3.0, 100.0])
@pytest.mark.parametrize("q", [0.05, 0.7, 1.0])
def test_gce_is_the_formula(classes: int, scale: float, q: float) -> None:
    inputs = random_logits(classes, scale)
    expected = gce_by_hand(q, *inputs)
    assert GCE(q=q)._losses(*inputs).tolist() == pytest.approx(expected, rel=1e-12)
    logits, nodes, given = inputs
    single = GCE(q=q)._losses(logits.float(), nodes, given)
    assert single.tolist() == pytest.approx(expected, rel=1e-4)


def test_gradients_of_gce_are_those_of_the_formula_and_finite_where_p_vanishes() -> None:
    logits, nodes, classes = random_logits(3, 2.0)
    logits.requires_grad_()
    assert torch.autograd.gradcheck(lambda x: GCE()._losses(x, nodes, classes), [logits])
    sure = torch.full((1, 1, 3), -1e4)
    sure[..., 0] = 1e4
    for y in range(3):
        leaf = sure.clone().requires_grad_()
        loss = GCE()._losses(leaf, torch.tensor([[0]]), torch.tensor([[y]]))
        (gradient,) = torch.autograd.grad(loss.sum(), leaf)
        assert float(loss.detach()) == pytest.approx(0 if y == 0 else 1 / 0.7)
        assert torch.isfinite(gradient).all()


def test_the_limits_of_gce_are_cross_entropy_and_absolute_error() -> None:
    inputs = random_logits(4, 2.0)
    torch.testing.assert_close(
        GCE(q=1e-9)._losses(*inputs), mean_cross_entropy(*inputs), rtol=1e-6, atol=0
    )
    logits, nodes, classes = inputs
    proba = logits.softmax(2)
    wrong = [1 - proba[r, nodes[r], classes[r]].mean() for r in range(2)]
    torch.testing.assert_close(GCE(q=1.0)._losses(*inputs), torch.stack(wrong))


def test_the_default_of_gce_and_what_it_refuses(communities: Data) -> None:
    assert GCE().q == 0.7
    for q in (0, -0.1, 1.1):
        with pytest.raises(EraseError, match="Correct q of GCE"):
            GCE(q=q).fit(communities)
    traces = [
        [h["loss"] for h in GCE(q=q, hidden=8, heads=2, epochs=3, device="cpu").fit(g).history_]
        for q, g in ((0.7, communities), (0.3, communities))
    ]
    assert traces[0] != traces[1]


def apl_by_hand(a: float, b: float, logits: Tensor, nodes: Tensor, classes: Tensor) -> list[float]:
    losses = []
    for run in range(len(logits)):
        total = 0.0
        for node, y in zip(nodes[run].tolist(), classes[run].tolist(), strict=True):
            exponentials = [math.exp(value) for value in logits[run, node].tolist()]
            p = [value / sum(exponentials) for value in exponentials]
            normalised = math.log(p[y]) / sum(math.log(value) for value in p)
            one_hot = [float(k == y) for k in range(len(p))]
            reverse = -sum(p[k] * math.log(max(one_hot[k], 1e-4)) for k in range(len(p)))
            total += a * normalised + b * reverse
        losses.append(total / nodes.shape[1])
    return losses


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("scale", [0.1, 3.0, 100.0])
@pytest.mark.parametrize(("active", "passive"), [(1.0, 1.0), (2.0, 0.0), (0.0, 0.5)])
def test_apl_is_the_formula(classes: int, scale: float, active: float, passive: float) -> None:
    logits, nodes, given = random_logits(classes, scale)
    expected = apl_by_hand(active, passive, logits, nodes, given)
    method = APL(active=active, passive=passive)
    assert method._losses(logits, nodes, given).tolist() == pytest.approx(expected, rel=1e-9)
    single = method._losses(logits.float(), nodes, given)
    assert single.tolist() == pytest.approx(expected, rel=1e-4)


def test_gradients_of_apl_are_those_of_the_formula_and_finite_where_p_vanishes() -> None:
    logits, nodes, classes = random_logits(3, 2.0)
    logits.requires_grad_()
    assert torch.autograd.gradcheck(lambda x: APL()._losses(x, nodes, classes), [logits])
    sure = torch.full((1, 1, 3), -1e4)
    sure[..., 0] = 1e4
    # p = (1, 0, 0): NCE is 0 for the first class, ½ for the others, RCE is 0 and −log 10⁻⁴
    for y, expected in enumerate([0.0, 0.5 + math.log(1e4), 0.5 + math.log(1e4)]):
        leaf = sure.clone().requires_grad_()
        loss = APL()._losses(leaf, torch.tensor([[0]]), torch.tensor([[y]]))
        (gradient,) = torch.autograd.grad(loss.sum(), leaf)
        assert float(loss.detach()) == pytest.approx(expected)
        assert torch.isfinite(gradient).all()


def test_the_defaults_of_apl_and_what_it_refuses(communities: Data) -> None:
    assert (APL().active, APL().passive) == (1.0, 1.0)
    with pytest.raises(EraseError, match="Correct passive of APL"):
        APL(passive=-1.0).fit(communities)
    with pytest.raises(EraseError, match="Correct active of APL"):
        APL(active=-1.0).fit(communities)
