"""The sampler against its definition: how many, no duplicates, all subsets equally likely."""

from collections import Counter
from itertools import combinations
from math import comb
from typing import Any

import pytest
import torch
import torch_geometric
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare
from torch import Tensor
from torch_geometric.sampler import NodeSamplerInput, SamplerOutput

from erase.nn.sparse import Graph
from erase.training.sampling import CSRSampler, SampledNeighbours
from graphs import edge_lists


def stream(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def star(leaves: int) -> Graph:
    """Node 0 joined with every other node."""
    others = torch.arange(1, leaves + 1)
    hub = torch.zeros_like(others)
    return Graph(torch.cat([torch.stack([hub, others]), torch.stack([others, hub])], 1), leaves + 1)


def drawn(sampler: CSRSampler, seeds: Tensor) -> SamplerOutput:
    return sampler.sample_from_nodes(NodeSamplerInput(input_id=None, node=seeds))


@given(edge_lists(), st.integers(1, 4), st.integers(-1, 4).filter(bool), st.integers(0, 99))
def test_a_sample_is_what_it_is_defined_to_be(
    graph: tuple[Tensor, int], first: int, second: int, seed: int
) -> None:
    edge_index, n = graph
    around: dict[int, set[int]] = {i: set() for i in range(n)}
    for a, b in edge_index.T.tolist():
        around[a].add(b)
    seeds = torch.randperm(n, generator=stream(seed))[: max(1, n // 2)]
    out = drawn(CSRSampler(Graph(edge_index, n), (first, second), stream(seed)), seeds)
    nodes = out.node.tolist()
    assert nodes[: len(seeds)] == seeds.tolist()
    assert len(set(nodes)) == len(nodes)
    senders: dict[int, list[int]] = {}
    for source, target in zip(out.row.tolist(), out.col.tolist(), strict=True):
        senders.setdefault(nodes[target], []).append(nodes[source])
    known, frontier = set(seeds.tolist()), set(seeds.tolist())
    for wanted in (first, second):
        reached: set[int] = set()
        for node in frontier:
            found, size = senders.pop(node, []), len(around[node])
            assert len(found) == len(set(found)) == (size if wanted < 0 else min(wanted, size))
            assert set(found) <= around[node]
            reached |= set(found)
        frontier = reached - known
        known |= reached
    assert not senders  # no other node has messages
    assert known == set(nodes)
    assert out.num_sampled_nodes is not None
    assert sum(out.num_sampled_nodes) == len(nodes)


@pytest.mark.parametrize("wanted", [1, 2, 3, 5])
def test_every_subset_of_neighbours_is_equally_likely(wanted: int) -> None:
    sampler = CSRSampler(star(6), (wanted,), stream(1))
    counts = Counter[tuple[int, ...]]()
    rounds = 200 * comb(6, wanted)
    for _ in range(rounds):
        counts[tuple(sorted(drawn(sampler, torch.tensor([0])).node[1:].tolist()))] += 1
    subsets = list(combinations(range(1, 7), wanted))
    assert set(counts) == set(subsets)
    assert chisquare([counts[subset] for subset in subsets]).pvalue > 0.001


def test_all_neighbours_are_one_sample() -> None:
    out = drawn(CSRSampler(star(6), (-1,), stream()), torch.tensor([0]))
    assert sorted(out.node.tolist()) == list(range(7))
    assert len(out.row) == 6


def batches(**changes: Any) -> list[Any]:
    settings: dict[str, Any] = {"batch_size": 3, "num_neighbors": (2, 2), "stream": stream()}
    return list(SampledNeighbours(star(9), torch.arange(8), **(settings | changes)))


def test_batches_go_through_the_seeds_once_in_a_new_order_every_time() -> None:
    loader = SampledNeighbours(
        star(9), torch.arange(8), batch_size=3, num_neighbors=(2, 2), stream=stream()
    )
    first, second = list(loader), list(loader)
    for epoch in (first, second):
        seeds = [sample.nodes[: sample.hops[0]].tolist() for sample in epoch]
        assert [len(part) for part in seeds] == [3, 3, 2]
        assert sorted(node for part in seeds for node in part) == list(range(8))
    assert [s.nodes.tolist() for s in first] != [s.nodes.tolist() for s in second]


def test_the_same_stream_gives_the_same_batches() -> None:
    first, again, other = batches(), batches(), batches(stream=stream(1))
    same = [torch.equal(a.edge_index, b.edge_index) for a, b in zip(first, again, strict=True)]
    assert all(same)
    assert [a.nodes.tolist() for a in first] != [b.nodes.tolist() for b in other]


def test_edges_are_sorted_by_receiver_and_know_their_place_in_the_graph() -> None:
    for sample in batches(num_neighbors=(5, 3)):
        key = sample.edge_index[0] * sample.nodes.numel() + sample.edge_index[1]
        assert bool((key.diff() > 0).all())
        assert torch.equal(star(9).edge_index[:, sample.edges], sample.nodes[sample.edge_index])


def test_no_global_random_number_is_drawn() -> None:
    before = torch.get_rng_state()
    batches()
    assert torch.equal(torch.get_rng_state(), before)


def test_samples_are_the_same_where_pyg_lib_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its compiled sampler would draw others, so it is never called."""

    def batches() -> list[list[int]]:
        around = SampledNeighbours(
            star(50), torch.arange(51), batch_size=10, num_neighbors=[5, 3], stream=stream()
        )
        return [sample.nodes.tolist() for sample in around]

    before = batches()
    for module in (torch_geometric.typing, torch_geometric.sampler.neighbor_sampler):
        for name in ("WITH_PYG_LIB", "WITH_TORCH_SPARSE"):
            monkeypatch.setattr(module, name, True, raising=False)
    assert batches() == before
