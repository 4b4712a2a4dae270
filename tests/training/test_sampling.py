"""The sampler against its definition: how many, no duplicates, all subsets equally likely."""

from collections import Counter
from itertools import combinations
from math import comb
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare
from torch import Tensor
from torch_geometric.sampler import NodeSamplerInput, SamplerOutput

from conftest import edge_lists
from erase.nn.sparse import Graph
from erase.training.sampling import CompiledSampler, CSRSampler, SampledNeighbours


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


class FakePygLib:
    """Stands for the compiled function: draws from torch's global generator, as it does."""

    def __init__(self) -> None:
        self.calls: list[tuple[Tensor, Tensor]] = []

    def neighbor_sample(
        self, colptr: Tensor, row: Tensor, seed: Tensor, num_neighbors: list[int], *_: Any
    ) -> tuple[Any, ...]:
        self.calls.append((colptr, row))
        ours = CSRSampler.__new__(CSRSampler)
        ours._indptr, ours._neighbours = colptr, row
        ours._num_neighbors, ours._stream = tuple(num_neighbors), torch.default_generator
        ours._place = torch.full((colptr.numel() - 1,), -1)
        out = drawn(ours, seed)
        return out.row, out.col, out.node, out.edge, out.num_sampled_nodes, out.num_sampled_edges


def test_pygs_compiled_sampler_draws_from_our_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    library = FakePygLib()
    monkeypatch.setattr("torch_geometric.typing.WITH_PYG_LIB", True)
    monkeypatch.setattr(torch.ops, "pyg", library, raising=False)
    graph = star(9)
    before = torch.get_rng_state()
    sampler = CompiledSampler(graph, (2, 2), stream(4))
    inputs = NodeSamplerInput(input_id=None, node=torch.tensor([0, 3]))
    first, second = (sampler.sample_from_nodes(inputs) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), before)
    again = CompiledSampler(graph, (2, 2), stream(4)).sample_from_nodes(inputs)
    assert torch.equal(first.node, again.node)
    assert not torch.equal(first.node, second.node)
    colptr, row = library.calls[0]
    assert row.data_ptr() == graph.edge_index[1].data_ptr()  # not a copy
    assert torch.equal(colptr, graph.indptr)
    before_batches = len(library.calls)
    batches()
    assert len(library.calls) == before_batches + 3  # the loader takes it where it is there
