"""Links against dense matrices: entries, weights, convolutions, the reconstruction loss."""

from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from torch import Tensor
from torch.nn.functional import normalize

from erase.data.task import NodeTask
from erase.nn.links import Links
from erase.nn.sparse import Graph
from graphs import dense_adjacency, edge_lists, two_communities
from tf32 import on_a_gpu_that_may_round

DRAWN = st.tuples(edge_lists(max_nodes=8), st.integers(0, 99))


def doubles(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def links_of(graph: tuple[Tensor, int], seed: int, runs: int = 2) -> tuple[Links, Tensor]:
    """Return links with random candidates, and which are whose [R, N, N]."""
    edge_index, n = graph
    random = torch.Generator().manual_seed(seed)
    chosen = (torch.rand(runs, n, n, generator=random) < 0.4) & ~torch.eye(n, dtype=torch.bool)
    return Links.of(Graph(edge_index, n), [own.nonzero().T for own in chosen]), chosen


def dense(links: Links, values: Tensor) -> Tensor:
    """Return `values` [L] as matrices [R, N, N]."""
    n = links.graph.num_nodes
    whole = links.pattern.matrix(values).to_dense()
    return torch.stack([whole[r * n : r * n + n, r * n : r * n + n] for r in range(links.runs)])


@given(DRAWN)
def test_links_are_loops_edges_and_candidates_both_ways(drawn: tuple[Any, int]) -> None:
    links, chosen = links_of(*drawn)
    edge_index, n = drawn[0]
    adjacency, loops = dense_adjacency(edge_index, n) > 0, torch.eye(n, dtype=torch.bool)
    ones = torch.ones(links.loop.numel(), dtype=torch.float64)
    there = adjacency | loops | chosen | chosen.mT
    assert torch.equal(dense(links, ones) > 0, there)
    assert torch.equal(dense(links, links.edge.double()) > 0, adjacency.expand(2, -1, -1))
    assert torch.equal(dense(links, links.loop.double()) > 0, loops.expand(2, -1, -1))
    assert torch.equal(dense(links, links.of_row.double()) > 0, chosen)
    assert torch.equal(dense(links, links.of_column.double()) > 0, chosen.mT)
    assert links.pattern.matrix(ones).to_dense().sum() == there.sum()  # runs do not meet
    assert links.total(ones).tolist() == there.sum((1, 2)).tolist()


@given(DRAWN, st.sampled_from([0.0, 0.1, 0.6]))
def test_convolutions_equal_the_dense_ones(drawn: tuple[Any, int], min_weight: float) -> None:
    """Values and gradients of D^-1/2 W D^-1/2 M: only candidates of sources have a weight."""
    (edge_index, n), seed = drawn
    links, chosen = links_of((edge_index, n), seed)
    sources = torch.rand(2, n, generator=torch.Generator().manual_seed(seed + 1)) < 0.5
    h = normalize(doubles(2, n, 2, seed=seed), dim=2).requires_grad_()
    messages = doubles(2, n, 3, seed=seed + 1).requires_grad_()
    weights = links.weights(links.likeness(h), sources, min_weight)
    found = links.aggregate(links.normalised(weights), messages)
    adjacency = dense_adjacency(edge_index, n)
    expected = []
    for run in range(2):
        dots = h[run] @ h[run].T
        extra = torch.zeros(n, n, dtype=torch.float64)
        for i in range(n):
            for j in range(n):
                own = chosen[run, i, j] and sources[run, i]
                others = chosen[run, j, i] and sources[run, j]
                if (own or others) and not adjacency[i, j] and dots[i, j] >= min_weight:
                    extra[i, j] = 1.0
        matrix = adjacency + torch.eye(n) + dots * extra
        scale = torch.diag(matrix.sum(1) ** -0.5)
        expected.append(scale @ matrix @ scale @ messages[run])
    torch.testing.assert_close(found, torch.stack(expected))
    pull = doubles(2, n, 3, seed=seed + 2)
    for a, b in zip(
        torch.autograd.grad((found * pull).sum(), (h, messages)),
        torch.autograd.grad((torch.stack(expected) * pull).sum(), (h, messages)),
        strict=True,
    ):
        torch.testing.assert_close(a, b)


@given(DRAWN)
def test_reconstruction_with_all_pairs_equals_the_loops(drawn: tuple[Any, int]) -> None:
    links, _ = links_of(*drawn)
    edge_index, n = drawn[0]
    h = doubles(2, n, 3, seed=drawn[1]).requires_grad_()
    found = links.reconstruction_loss(links.likeness(h), h, negatives=10**6)
    edges = set(map(tuple, edge_index.T.tolist()))
    expected = []
    for run in range(2):
        total = h.new_zeros(())
        for i in range(n):
            for j in range(n):
                if i != j:
                    total = total + (float((i, j) in edges) - h[run, i] @ h[run, j]) ** 2
        expected.append(total * n / max(n * n - n, 1))
    torch.testing.assert_close(found, torch.stack(expected))
    if n > 1:
        (a,) = torch.autograd.grad(found.sum(), h)
        (b,) = torch.autograd.grad(torch.stack(expected).sum(), h)
        torch.testing.assert_close(a, b)


def test_reconstruction_is_the_mean_over_draws_of_negatives() -> None:
    task = NodeTask.from_data(two_communities(size=10))
    n = task.num_nodes
    links = Links.of(Graph(task.edge_index, n), [torch.empty(2, 0, dtype=torch.int64)])
    h = doubles(1, n, 3)
    dots, adjacency = h[0] @ h[0].T, dense_adjacency(task.edge_index, n)
    negative = (dots**2)[(adjacency == 0) & ~torch.eye(n, dtype=torch.bool)]
    positive = ((1 - dots) ** 2)[adjacency > 0]
    random, losses = torch.Generator().manual_seed(0), []
    for _ in range(2000):  # 3 negatives per node, without replacement
        chosen = torch.randperm(len(negative), generator=random)[: 3 * n]
        total = negative[chosen].sum() + positive.sum()
        losses.append(float(total * n / (3 * n + len(positive))))
    drawn = torch.tensor(losses)
    found = links.reconstruction_loss(links.likeness(h), h, negatives=3)
    error = 5 * float(drawn.std()) / 2000**0.5
    assert float(found) == pytest.approx(float(drawn.mean()), abs=error)


def test_reconstruction_survives_products_in_tf32() -> None:
    """Of all pairs those with an edge are taken away: rounding stays where little is left."""
    task = NodeTask.from_data(two_communities(size=10))
    n = task.num_nodes
    links = Links.of(Graph(task.edge_index, n), [torch.empty(2, 0, dtype=torch.int64)])
    h = doubles(1, n, 3)
    exact = links.reconstruction_loss(links.likeness(h), h, negatives=3)
    alike, rows = links.likeness(h).float(), h.float()
    with on_a_gpu_that_may_round() as products:
        found = links.reconstruction_loss(alike, rows, negatives=3)
    torch.testing.assert_close(found.double(), exact, rtol=1e-5, atol=1e-5)
    assert products.rounded == 0
