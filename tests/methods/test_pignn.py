"""PI-GNN: its pairs against a dense loop in float64, drawn pairs on average, and memory."""

import math
import subprocess
import sys
from copy import deepcopy
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import cross_entropy, relu
from torch_geometric.data import Data

from erase.data.noise import corrupt
from erase.data.task import NodeTask
from erase.methods import pignn
from erase.methods.pignn import PIGNN, _PIGNNLearner, pairwise_losses
from erase.nn.sparse import Graph
from erase.random import torch_stream
from erase.training.graphs import WholeGraph
from graphs import LargestTensor, dense_adjacency, edge_lists, two_communities
from tf32 import on_a_gpu_that_may_round

SMALL: dict[str, Any] = {"hidden": 8, "heads": 2, "device": "cpu"}


def dense_loss(o: Tensor, y: Tensor, z: Tensor | None) -> Tensor:
    """Return norm · mean(BCE(o oᵀ, Y) · M) from the whole matrices [N, N], entry by entry."""
    n = len(y)
    ones = float(y.sum())
    positive = (n * n - ones) / ones
    norm = n * n / (2 * (n * n - ones))
    total = o.new_zeros(())
    for i in range(n):
        for j in range(n):
            p = torch.sigmoid(o[i] @ o[j])
            confidence = 1.0
            if z is not None:
                q = 1 / (1 + math.exp(-float(z[i].detach() @ z[j].detach())))
                confidence = q if y[i, j] else 1 - q
            bce = -positive * torch.log(p) if y[i, j] else -torch.log(1 - p)
            total = total + confidence * bce
    return norm * total / n**2


def outputs(runs: int, n: int, channels: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    shape = (runs, n, channels)
    return (
        torch.randn(shape, generator=random, dtype=torch.float64),
        torch.randn(shape, generator=random, dtype=torch.float64),
    )


@given(edge_lists(max_nodes=7), st.integers(1, 3), st.integers(0, 9), st.sampled_from([1, 20, 999]))
def test_losses_and_gradients_equal_the_dense_ones(
    graph: tuple[Tensor, int], channels: int, seed: int, at_once: int
) -> None:
    edge_index, n = graph
    y = dense_adjacency(edge_index, n) + torch.eye(n, dtype=torch.float64)
    if bool(y.all()):
        return  # a complete graph has no zeros to weigh the ones against
    o, z = (h.requires_grad_() for h in outputs(2, n, channels, seed))
    trust = torch.tensor([0.0, 1.0], dtype=torch.float64)  # run 0 believes all, run 1 asks z
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(pignn._NUMBERS_AT_ONCE, "cpu", at_once)
        losses = torch.cat(pairwise_losses(o, z, Graph(edge_index, n), trust=trust))
    expected = torch.stack(
        [
            dense_loss(o[0], y, None),
            dense_loss(o[1], y, z[1]),
            dense_loss(z[0], y, None),
            dense_loss(z[1], y, None),
        ]
    )
    torch.testing.assert_close(losses, expected)
    mixture = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64)
    found = torch.autograd.grad(losses @ mixture, (o, z))
    wanted = torch.autograd.grad(expected @ mixture, (o, z))
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b)


def test_a_complete_graph_costs_something_finite() -> None:
    o, z = outputs(1, 2, 3)
    graph = Graph(torch.tensor([[0, 1], [1, 0]]), 2)
    for loss in pairwise_losses(o, z, graph, trust=torch.ones(1, dtype=torch.float64)):
        assert torch.isfinite(loss).all()


def every_pair(runs: int, n: int) -> Tensor:
    """Return a draw [R, N, N] that has each pair once: N/m = 1."""
    return torch.arange(n)[None, :, None].expand(runs, n, n)


@given(edge_lists(max_nodes=9), st.sampled_from([1, 40, 999]))
def test_each_pair_drawn_once_is_the_exact_loss(graph: tuple[Tensor, int], at_once: int) -> None:
    edge_index, n = graph
    o, z = (h.requires_grad_() for h in outputs(2, n, 3))
    trust = torch.tensor([1.0, 0.5], dtype=torch.float64)
    whole = Graph(edge_index, n)
    exact = torch.cat(pairwise_losses(o, z, whole, trust=trust))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(pignn._NUMBERS_AT_ONCE, "cpu", at_once)
        drawn = torch.cat(pairwise_losses(o, z, whole, trust=trust, drawn=every_pair(2, n)))
    torch.testing.assert_close(drawn, exact)
    for a, b in zip(
        torch.autograd.grad(drawn.sum(), (o, z)),
        torch.autograd.grad(exact.sum(), (o, z)),
        strict=True,
    ):
        torch.testing.assert_close(a, b)


def test_drawn_pairs_are_right_on_average() -> None:
    data = NodeTask.from_data(two_communities(size=6))
    graph, n, draws = Graph(data.edge_index, data.num_nodes), data.num_nodes, 4000
    o, z = outputs(1, n, 2)
    trust = torch.ones(1, dtype=torch.float64)
    exact_o, exact_z = (h.clone().requires_grad_() for h in (o, z))
    exact = torch.cat(pairwise_losses(exact_o, exact_z, graph, trust=trust))
    exact.sum().backward()
    many_o, many_z = (h.expand(draws, n, 2).clone().requires_grad_() for h in (o, z))
    drawn = torch.randint(n, (draws, 5, n), generator=torch.Generator().manual_seed(0))
    losses = torch.stack(
        pairwise_losses(many_o, many_z, graph, trust=trust.expand(draws), drawn=drawn)
    )
    losses.sum().backward()
    for samples, value in [
        *zip(losses.detach(), exact.detach(), strict=True),
        (many_o.grad, exact_o.grad),
        (many_z.grad, exact_z.grad),
    ]:
        assert samples is not None
        assert value is not None
        error = samples.std(0) / draws**0.5
        assert bool((error > 0).all())
        assert bool(((samples.mean(0) - value).abs() < 5 * error).all())


@pytest.fixture
def noisy(communities: Data) -> Data:
    return corrupt(communities, "symmetric", 0.3, seed=1)


def test_the_defaults() -> None:
    assert PIGNN().get_params() == {
        "pairs": 1.0,
        "warm_up": 50,
        "exact_up_to": 5_000,
        "negatives": 100,
        "estimator_decay": 0.0,
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


def test_epochs_are_adam_steps_of_both_networks(noisy: Data) -> None:
    """Two networks, each with an Adam of its own; pairs are trusted from the third epoch on."""
    task = NodeTask.from_data(noisy)
    method = PIGNN(
        **SMALL,
        dropout=0.3,
        lr=0.02,
        weight_decay=0.1,
        estimator_decay=0.2,
        warm_up=2,
        pairs=0.7,
    )
    learner = _PIGNNLearner(method, [task], [3])
    assert isinstance(learner.data, WholeGraph)
    twins = [deepcopy(learner.main), deepcopy(learner.estimator)]
    adams = [
        torch.optim.Adam(twin.parameters(), lr=0.02, weight_decay=decay)
        for twin, decay in zip(twins, (0.1, 0.2), strict=True)
    ]
    stream = torch_stream(3, "dropout")
    y = dense_adjacency(task.edge_index, task.num_nodes) + torch.eye(task.num_nodes)
    ones, n = float(y.sum()), task.num_nodes
    weight, norm = (n * n - ones) / ones, n * n / (2 * (n * n - ones))
    for epoch in range(4):
        o, z = (
            twin.second(
                relu(twin.first(learner.data.x.dropout(0.3, [stream]), learner.graph)),
                learner.graph,
            )[0]
            for twin in twins
        )
        bce = torch.nn.BCEWithLogitsLoss(reduction="none", pos_weight=torch.tensor(weight))
        linked = torch.sigmoid(z @ z.T).detach()
        confidence = (
            torch.where(y > 0, linked, 1 - linked) if epoch >= 2 else torch.ones_like(linked)
        )
        pairs = norm * (bce(o @ o.T, y.float()) * confidence).mean()
        estimated = norm * bce(z @ z.T, y.float()).mean()
        loss = cross_entropy(o[task.train_mask], task.y[task.train_mask]) + 0.7 * pairs
        for adam, part in zip(adams, (loss, estimated), strict=True):
            adam.zero_grad()
            part.backward()
            adam.step()
        record = learner.step()
        assert list(record) == ["loss", "pairs", "estimator"]
        for found, wanted in zip(record.values(), (loss, pairs, estimated), strict=True):
            torch.testing.assert_close(found, wanted.detach()[None], rtol=1e-4, atol=1e-5)
    for twin, ours in zip(twins, (learner.main, learner.estimator), strict=True):
        for name, parameter in twin.named_parameters():
            torch.testing.assert_close(ours.get_parameter(name), parameter, rtol=1e-3, atol=1e-4)
    with torch.no_grad():
        hidden = relu(twins[0].first(learner.data.x, learner.graph))
        proba = twins[0].second(hidden, learner.graph).softmax(2)
    outcome = learner.evaluate()
    torch.testing.assert_close(outcome.proba, proba, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(outcome.embedding, hidden, rtol=1e-3, atol=1e-4)
    assert torch.equal(outcome.labels, outcome.proba.argmax(2))


@pytest.mark.parametrize(
    ("base", "change"),
    [
        ({}, {"pairs": 0.5}),
        ({}, {"warm_up": 3}),
        ({}, {"exact_up_to": 79}),
        ({"exact_up_to": 0}, {"negatives": 50}),
        ({}, {"estimator_decay": 0.5}),
        ({}, {"encoder": "gcn"}),
    ],
    ids=str,
)
def test_every_option_changes_the_result(
    noisy: Data, base: dict[str, Any], change: dict[str, Any]
) -> None:
    settings = SMALL | {"epochs": 6, "lr": 0.02, "warm_up": 5} | base
    first = PIGNN(**settings).fit(noisy)
    other = PIGNN(**settings | change).fit(noisy)
    assert first.history_[-1]["loss"] != other.history_[-1]["loss"]


def test_a_graph_as_large_as_exact_up_to_is_exact(noisy: Data) -> None:
    assert noisy.num_nodes == 80
    losses = [
        PIGNN(**SMALL, epochs=3, exact_up_to=size).fit(noisy).history_[0]["pairs"]
        for size in (80, 10**6)
    ]
    assert losses[0] == losses[1]


def test_runs_that_draw_pairs_equal_their_single_fits(noisy: Data) -> None:
    method = PIGNN(**SMALL, epochs=5, lr=0.02, exact_up_to=0, negatives=7)
    graphs = [noisy, corrupt(noisy, "symmetric", 0.2, seed=5)]
    for model, graph, seed in zip(method.fit_many(graphs, [4, 0]), graphs, [4, 0], strict=True):
        alone = PIGNN(**method.get_params() | {"seed": seed}).fit(graph)
        assert [h["pairs"] for h in model.history_] == pytest.approx(
            [h["pairs"] for h in alone.history_], rel=1e-3
        )


@pytest.mark.parametrize("exact_up_to", [0, 2000])
def test_no_tensor_is_as_large_as_all_pairs(exact_up_to: int) -> None:
    data = two_communities(size=1000)
    method = PIGNN(**SMALL, epochs=1, exact_up_to=exact_up_to, negatives=10)
    with LargestTensor() as largest:
        method.fit(data)
    assert 2000 < largest.numbers < 2000**2 / 10


@pytest.mark.slow
@pytest.mark.parametrize("exact_up_to", [0, 20_000])
def test_a_fit_of_20000_nodes_does_not_hold_their_pairs(exact_up_to: int) -> None:
    """All pairs in float32 are 1.6 GB; the fit takes a fourth of that at most."""
    code = f"""
import resource, torch
from torch_geometric.data import Data
from erase.methods.pignn import PIGNN
n, random = 20_000, torch.Generator().manual_seed(0)
edge_index = torch.randint(n, (2, 60_000), generator=random)
y, train_mask = torch.arange(n) % 3, torch.arange(n) < 60
data = Data(x=torch.rand(n, 8, generator=random), y=y, train_mask=train_mask, edge_index=edge_index)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
PIGNN(hidden=8, heads=1, epochs=1, exact_up_to={exact_up_to}, device="cpu").fit(data)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(run.stdout) < 400  # MiB


def test_pairs_are_drawn_anew_for_every_seed_and_step(noisy: Data) -> None:
    task = NodeTask.from_data(noisy)
    method = PIGNN(**SMALL, exact_up_to=0, negatives=5)
    learner = _PIGNNLearner(method, [task, task], [3, 5])
    first, again = (learner._draw(learner.graph) for _ in range(2))
    assert first is not None
    assert again is not None
    assert first.shape == (2, 5, task.num_nodes)
    assert not torch.equal(first[0], first[1])
    assert not torch.equal(first, again)


def test_losses_of_pairs_survive_products_in_tf32() -> None:
    task = NodeTask.from_data(two_communities())
    graph = Graph(task.edge_index, task.num_nodes)
    both = outputs(1, task.num_nodes, 8)

    def losses(o: Tensor, z: Tensor) -> Tensor:
        return torch.cat(pairwise_losses(o, z, graph, trust=o.new_ones(1)))

    exact = losses(*both)
    with on_a_gpu_that_may_round() as products:
        found = losses(both[0].float(), both[1].float())
    torch.testing.assert_close(found.double(), exact, rtol=1e-6, atol=1e-6)
    assert products.rounded == 0
