"""Edges in every layout, as the task keeps them, and those refused."""

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from torch import Tensor
from torch_geometric.data import Data

from erase.data.edges import edge_ends, without_weights
from erase.data.task import NodeTask
from erase.errors import EraseError
from graphs import path_graph


def test_edges_are_mirrored_merged_sorted_and_freed_of_loops_with_counts() -> None:
    messy = torch.tensor([[4, 0, 0, 0, 2, 2, 1], [3, 1, 1, 1, 2, 1, 2]])
    task = NodeTask.from_data(path_graph(edge_index=messy))
    assert task.edge_index.tolist() == [[0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 4, 3]]
    assert task.notes == (
        "1 self-loop was dropped: the encoders add their own.",
        "2 repeated edges were merged.",
        "2 one-way edges were mirrored: the graph is used as undirected.",
    )


@given(
    st.integers(2, 8).flatmap(
        lambda n: st.tuples(
            st.just(n),
            st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=30),
        )
    )
)
@settings(max_examples=60, deadline=None)
def test_edges_of_any_graph_equal_those_of_a_set(graph: tuple[int, list[tuple[int, int]]]) -> None:
    n, edges = graph
    ends = np.array(edges).reshape(-1, 2).T
    task = NodeTask.from_arrays(ends, y=np.arange(n) % 2, x=np.ones((n, 1)))
    expected = {(a, b) for a, b in edges if a != b} | {(b, a) for a, b in edges if a != b}
    assert list(zip(*task.edge_index.tolist(), strict=True)) == sorted(expected)
    assert task.edge_index.dtype == torch.int64
    loops = sum(a == b for a, b in edges)
    distinct = len({(a, b) for a, b in edges if a != b})
    counts = {note.split(" ", 1)[1][:4]: int(note.split()[0]) for note in task.notes[1:]}
    assert counts.get("self", 0) == loops
    assert counts.get("repe", 0) == len(edges) - loops - distinct
    assert counts.get("one-", 0) == len(expected) - distinct


@pytest.mark.parametrize("layout", ["coo", "csr", "csc", "scipy"])
def test_adj_t_gives_the_same_edges(layout: str) -> None:
    rows, cols = torch.tensor([[0, 1, 3], [1, 2, 4]])
    adj: Any = torch.sparse_coo_tensor(
        torch.stack([rows, cols]), torch.ones(3), (5, 5), check_invariants=True
    )
    adj = {
        "coo": lambda: adj,
        "csr": adj.to_sparse_csr,
        "csc": adj.to_sparse_csc,
        "scipy": lambda: sp.csc_matrix(adj.to_dense().numpy()),
    }[layout]()
    task = NodeTask.from_data(path_graph(edge_index=None, adj_t=adj))
    assert task.edge_index.tolist() == [[0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 4, 3]]


def test_adj_t_is_transposed() -> None:
    adj_t = torch.zeros(5, 5)
    adj_t[1, 0] = 1.0  # 0 → 1
    source, target = edge_ends(Data(adj_t=adj_t.to_sparse_csr()))
    assert (source.tolist(), target.tolist()) == ([0], [1])


def test_values_of_adj_t_are_weights() -> None:
    adj_t = torch.zeros(5, 5)
    adj_t[1, 0], adj_t[0, 1], adj_t[2, 1] = 3.0, 1.0, 0.5
    data = path_graph(edge_index=None, adj_t=adj_t.to_sparse_csr())
    task = NodeTask.from_data(data)
    assert task.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert task.edge_weight is not None
    assert task.edge_weight.tolist() == [2, 2, 0.5, 0.5]
    assert "adj_t is read as edge weights." in task.notes
    bare = without_weights(data)
    assert NodeTask.from_data(bare).edge_weight is None
    assert torch.equal(NodeTask.from_data(bare).edge_index, task.edge_index)
    assert "adj_t" in data


def test_adj_t_of_torch_sparse_is_read_through_its_own_conversion() -> None:
    class SparseTensor:
        def to_torch_sparse_coo_tensor(self) -> Tensor:
            return torch.eye(5).roll(1, 0).to_sparse()

    task = NodeTask.from_data(path_graph(edge_index=None, adj_t=SparseTensor()))
    assert task.num_edges == 10


WEIGHTED = Data(
    edge_index=torch.tensor([[0, 1, 0, 0, 2, 2], [1, 0, 1, 2, 2, 1]]),
    y=torch.tensor([0, 1, 0]),
    x=torch.ones(3, 1),
)


@pytest.mark.parametrize("name", ["edge_weight", "edge_attr"])
@pytest.mark.parametrize("shape", [(6,), (6, 1)])
def test_weights_are_added_over_repeats_and_averaged_over_directions(
    name: str, shape: tuple[int, ...]
) -> None:
    data = WEIGHTED.clone()
    data[name] = torch.tensor([1.0, 5.0, 2.0, 4.0, 9.0, 0.5]).reshape(shape)
    task = NodeTask.from_data(data)
    assert task.edge_index.tolist() == [[0, 0, 1, 1, 2, 2], [1, 2, 0, 2, 0, 1]]
    assert task.edge_weight is not None
    assert task.edge_weight.tolist() == [4.0, 4.0, 4.0, 0.5, 4.0, 0.5]
    assert task.edge_is_given is None
    assert ("edge_attr is read as edge weights." in task.notes) == (name == "edge_attr")
    data[name][0] = -1.0
    with pytest.raises(EraseError, match="weights=False"):
        NodeTask.of(data)
    ignored = NodeTask.of(data, weights=False)
    assert ignored.edge_weight is None
    assert torch.equal(ignored.edge_index, task.edge_index)
    assert NodeTask.of(task, weights=False).edge_weight is None


def test_a_directed_graph_keeps_the_weight_of_each_direction_and_which_was_given() -> None:
    data = WEIGHTED.clone()
    data.edge_weight, data.directed = torch.tensor([1.0, 5.0, 2.0, 4.0, 9.0, 0.5]), True
    task = NodeTask.from_data(data)
    assert task.edge_weight is not None
    assert task.edge_is_given is not None
    assert task.edge_weight.tolist() == [3.0, 4.0, 5.0, 0.5, 4.0, 0.5]
    assert task.edge_is_given.tolist() == [True, True, True, False, False, True]
    assert "2 one-way edges were mirrored; the direction is kept" in " ".join(task.notes)


def test_edges_without_weights_have_none_and_wide_attributes_are_not_used() -> None:
    assert NodeTask.from_data(WEIGHTED).edge_weight is None
    task = NodeTask.from_data(path_graph(edge_attr=torch.ones(8, 2)))
    assert task.edge_weight is None
    assert task.notes == ("edge_attr is not used: it has several columns.",)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (torch.tensor([1.0] * 7 + [-1.0]), "edge weights from 0 on; got -1.0 at edge 7"),
        (torch.tensor([1.0, float("nan")] + [1.0] * 6), "from 0 on; got nan at edge 1"),
        (torch.ones(3), r"a number for each of 8 edges; got shape \[3\]"),
        (["a"] * 8, "edge_weight as an array of numbers"),
    ],
)
def test_bad_weights_are_refused(weight: Any, message: str) -> None:
    with pytest.raises(EraseError, match=message):
        NodeTask.from_data(path_graph(edge_weight=weight))


@pytest.mark.parametrize("edge_index", [torch.empty(2, 0), torch.empty(2, 0, dtype=torch.long)])
def test_a_graph_without_edges_is_allowed(edge_index: Tensor) -> None:
    assert NodeTask.from_data(path_graph(edge_index=edge_index)).edge_index.shape == (2, 0)


@pytest.mark.parametrize(
    ("edge_index", "message"),
    [
        ([[0, 1, 0], [1, 2, 5]], r"nodes 0\.\.4; got edge 2 from 0 to 5\. Number the nodes from 0"),
        ([[0, -1], [1, 2]], r"edge 1 from -1 to 2"),
        ([[0, 7], [1, 2]], r"edge 1 from 7 to 2"),
        ([[0, 1], [1, -2]], r"edge 1 from 1 to -2"),
        ([[0.5], [1.0]], r"whole node numbers.*\.long\(\)"),
        ([[0, 1], [1, 2], [2, 3]], r"\[2, E\]; got shape \[3, 2\].*transpose"),
    ],
)
def test_bad_edges_are_refused(edge_index: list[list[float]], message: str) -> None:
    with pytest.raises(EraseError, match=message):
        NodeTask.from_data(path_graph(edge_index=torch.tensor(edge_index)))


def test_missing_edges_are_refused_with_the_way_to_have_none() -> None:
    with pytest.raises(EraseError, match=r"torch\.empty\(2, 0"):
        NodeTask.from_data(path_graph(edge_index=None))


@pytest.mark.parametrize("n", [4, 6])
def test_an_adjacency_of_another_size_is_refused(n: int) -> None:
    message = f"as many labels as nodes; got an adjacency matrix of {n} nodes and 5 labels"
    with pytest.raises(EraseError, match=message):
        NodeTask.from_data(path_graph(edge_index=None, adj_t=torch.eye(n).to_sparse()))
    with pytest.raises(EraseError, match=message):
        NodeTask.from_arrays(sp.eye(n, k=1), [0, 1, 0, 1, 0])


def test_complex_edges_are_refused() -> None:
    with pytest.raises(EraseError, match=r"whole node numbers in edge_index; got torch\.complex64"):
        NodeTask.from_data(path_graph(edge_index=torch.tensor([[0j], [1 + 0j]])))
    with pytest.raises(EraseError, match="real numbers; got complex128"):
        NodeTask.from_data(path_graph(edge_index=None, adj_t=sp.csr_matrix(np.eye(5) * 1j)))


def test_an_adjacency_that_is_not_square_is_refused() -> None:
    with pytest.raises(EraseError, match=r"square.*\[5, 4\].*\[2, E\]"):
        NodeTask.from_data(path_graph(edge_index=None, adj_t=torch.ones(5, 4).to_sparse()))
