"""PTA: its loss by loops, its epochs and predictions on dense graphs, every option."""

import math
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import relu
from torch_geometric.data import Data

from erase.data.noise import corrupt
from erase.data.task import NodeTask
from erase.methods.pta import PTA, _PTALearner, adaptive_loss, spread
from erase.nn.sparse import Graph
from erase.random import torch_stream
from graphs import LargestTensor, dense_adjacency, two_communities, with_weights

SMALL: dict[str, Any] = {"hidden": 8, "device": "cpu"}


def doubles(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.fixture
def noisy(communities: Data) -> Data:
    return corrupt(communities, "symmetric", 0.3, seed=1)


def dense_spread(adjacency: Tensor, values: Tensor, keep: float, steps: int) -> Tensor:
    """Return Σ_t α (1−α)^t Ŝᵗ Z + (1−α)^T Ŝᵀ Z from powers of the dense matrix."""
    matrix = adjacency + torch.eye(len(adjacency))
    scale = torch.diag(matrix.sum(1) ** -0.5)
    matrix = scale @ matrix @ scale
    total = (1 - keep) ** steps * torch.linalg.matrix_power(matrix, steps)
    for t in range(steps):
        total = total + keep * (1 - keep) ** t * torch.linalg.matrix_power(matrix, t)
    result: Tensor = total @ values
    return result


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("keep", "steps"), [(0.1, 10), (0.4, 3), (1.0, 5), (0.1, 0)])
def test_labels_spread_as_by_powers_of_the_matrix(
    keep: float, steps: int, weighted: bool, communities: Data
) -> None:
    task = NodeTask.from_data(with_weights(communities) if weighted else communities)
    graph = Graph(task.edge_index, task.num_nodes, weight=task.edge_weight)
    values = doubles(2, task.num_nodes, 3).abs().float()
    adjacency = torch.zeros(task.num_nodes, task.num_nodes)
    ones = torch.ones(task.num_edges)
    adjacency[tuple(task.edge_index)] = ones if task.edge_weight is None else task.edge_weight
    expected = torch.stack([dense_spread(adjacency, own, keep, steps) for own in values])
    torch.testing.assert_close(spread(graph, values, keep, steps), expected)


@pytest.mark.parametrize("exponent", [0.0, 0.4, 2.0])
def test_the_loss_equals_the_loops(exponent: float) -> None:
    """In value and gradient: the weights are held fixed. A run without labels has no loss."""
    logits = doubles(2, 5, 3).requires_grad_()
    labels = doubles(2, 5, 3, seed=1).abs()
    labels[1] = 0.0
    found = adaptive_loss(logits, labels, torch.tensor([exponent] * 2, dtype=logits.dtype))
    (gradient,) = torch.autograd.grad(found.sum(), logits)
    f = logits.detach().softmax(2)
    weights = [
        [float(labels[0, i, k] * f[0, i, k] ** exponent) for k in range(3)] for i in range(5)
    ]
    total = sum(map(sum, weights))
    loss = 0.0
    for i in range(5):
        for k in range(3):
            loss -= weights[i][k] * math.log(f[0, i, k]) / total
            pull = sum(weights[i]) * float(f[0, i, k]) - weights[i][k]
            assert float(gradient[0, i, k]) == pytest.approx(pull / total)
    assert found.tolist() == pytest.approx([loss, 0.0])
    assert not gradient[1].any()


def test_the_defaults() -> None:
    assert PTA().get_params() == {
        "keep": 0.1,
        "steps": 10,
        "ramp": 100.0,
        "encoder": "mlp",
        "hidden": 64,
        "heads": 8,
        "dropout": 0.0,
        "lr": 0.1,
        "weight_decay": 5e-3,
        "epochs": 400,
        "patience": 150,
        "batch_size": 0,
        "num_neighbors": (15, 10),
        "seed": 0,
        "device": "auto",
    }


def test_on_two_graphs_weights_decay_less() -> None:
    assert PTA.preset(dataset="computers").weight_decay == 5e-4
    assert PTA.preset(dataset="cs").weight_decay == 5e-4
    assert PTA.preset(dataset="computers", weight_decay=0.1).weight_decay == 0.1
    assert PTA.preset(dataset="ogbn-arxiv").batch_size == 200
    assert PTA.preset(dataset="cora").get_params() == PTA().get_params()


def test_epochs_are_adam_steps_on_a_dense_graph(noisy: Data) -> None:
    """Adam with a decay of the first layer's weights alone; γ rises by the epoch."""
    task, epochs, ramp = NodeTask.from_data(noisy), 6, 3.0
    settings: dict[str, Any] = {
        "lr": 0.05,
        "weight_decay": 0.1,
        "dropout": 0.3,
        "keep": 0.2,
        "steps": 4,
    }
    method = PTA(**SMALL, **settings, ramp=ramp, epochs=epochs)
    learner = _PTALearner(method, [task], [3])
    trained: Any = learner.perceptron
    twin: Any = deepcopy(trained)
    adam = torch.optim.Adam(twin.parameters(), lr=0.05)
    stream, n = torch_stream(3, "dropout"), task.num_nodes
    adjacency = dense_adjacency(task.edge_index, n).float()
    given = torch.zeros(n, task.num_classes)
    for i in task.train_index.tolist():
        given[i, task.y[i]] = 1.0
    labels = dense_spread(adjacency, given, 0.2, 4)

    def layers(x: Tensor) -> tuple[Tensor, Tensor]:
        hidden = relu(x @ twin.first.weight[0] + twin.first.bias[0])
        return hidden, (hidden @ twin.second.weight[0] + twin.second.bias[0]).softmax(1)

    for epoch in range(epochs):
        kept = torch.empty(task.x.shape).bernoulli_(0.7, generator=stream) / 0.7
        _, f = layers(task.x * kept)
        weights = (labels * f ** math.log(1 + epoch / ramp)).detach()
        loss = -(weights * f.log()).sum() / weights.sum()
        adam.zero_grad()
        (loss + 0.1 / 2 * (twin.first.weight**2).sum()).backward()
        adam.step()
        torch.testing.assert_close(learner.step()["loss"], loss.detach()[None], rtol=1e-4, atol=0)
    for name, parameter in twin.named_parameters():
        ours = trained.get_parameter(name)
        torch.testing.assert_close(ours, parameter, rtol=1e-3, atol=1e-3)
    with torch.no_grad():
        twin.load_state_dict(trained.state_dict())
        hidden, f = layers(task.x)
    proba = dense_spread(adjacency, f, 0.2, 4)
    outcome = learner.evaluate()
    torch.testing.assert_close(outcome.proba, (proba / proba.sum(1, keepdim=True))[None])
    torch.testing.assert_close(outcome.embedding, hidden[None])
    assert torch.equal(outcome.labels, outcome.proba.argmax(2))


@pytest.mark.parametrize(
    "change",
    [
        {"keep": 0.5},
        {"steps": 2},
        {"ramp": 3.0},
        {"dropout": 0.5},
        {"hidden": 5},
        {"weight_decay": 0.3},
    ],
    ids=str,
)
def test_every_option_changes_the_result(noisy: Data, change: dict[str, Any]) -> None:
    first = PTA(**SMALL, epochs=12).fit(noisy)
    other = PTA(**SMALL | {"epochs": 12} | change).fit(noisy)
    assert first.history_[-1]["loss"] != other.history_[-1]["loss"]


def test_runs_with_other_labels_equal_their_single_fits(noisy: Data) -> None:
    other = noisy.clone()
    other.y = two_communities().y
    order = torch.randperm(noisy.num_nodes, generator=torch.Generator().manual_seed(0))
    other.train_mask, other.val_mask = noisy.train_mask[order], noisy.val_mask[order]
    graphs, seeds = [noisy, other, noisy], [4, 0, 1]
    method = PTA(**SMALL, epochs=6)
    for model, graph, seed in zip(method.fit_many(graphs, seeds), graphs, seeds, strict=True):
        alone = PTA(**method.get_params() | {"seed": seed}).fit(graph)
        torch.testing.assert_close(
            torch.tensor(model.predict_proba()),
            torch.tensor(alone.predict_proba()),
            rtol=1e-3,
            atol=1e-3,
        )


def test_in_a_sample_labels_are_those_spread_over_the_graph(noisy: Data) -> None:
    task = NodeTask.from_data(noisy)
    learner = _PTALearner(PTA(**SMALL, batch_size=8, num_neighbors=(3, 2)), [task], [0])
    whole = _PTALearner(PTA(**SMALL), [task], [0])
    torch.testing.assert_close(learner.labels, whole.labels)
    for batch in learner.data.batches():
        logits = whole.data.z(whole.perceptron)[:, batch.nodes]
        expected = adaptive_loss(logits, whole.labels[:, batch.nodes], torch.zeros(1))
        torch.testing.assert_close(learner.losses(batch)["loss"], expected)


def test_no_tensor_is_as_large_as_all_pairs() -> None:
    data = two_communities(size=1000)
    with LargestTensor() as largest:
        PTA(**SMALL, epochs=1).fit(data)
    assert 2000 < largest.numbers < 2000**2 / 10


def test_its_encoder_is_the_hidden_layer(noisy: Data) -> None:
    model, task = PTA(**SMALL, epochs=3).fit(noisy), NodeTask.of(noisy)
    found = model.encoder_(task.x, task.edge_index).detach()
    torch.testing.assert_close(found, torch.tensor(model.transform()), atol=1e-5, rtol=0)
