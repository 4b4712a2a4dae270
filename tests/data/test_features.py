"""Features in every layout, as the task keeps them, and those refused."""

import re
from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor

from erase.data.features import spectral_features
from erase.data.task import NodeTask
from erase.errors import EraseError
from graphs import path_graph, rare_features


@pytest.mark.parametrize("layout", ["dense", "coo", "csr", "csc", "scipy", "unsorted", "float64"])
def test_rare_features_become_csr_whatever_their_layout(layout: str) -> None:
    x = rare_features()
    doubled: Tensor = torch.sparse_coo_tensor(
        torch.tensor([[4, 0, 0, 1], [0, 3, 3, 1]]),
        torch.tensor([-1.0, 1.0, 1.0, 0.0]),
        (5, 4),
        check_invariants=True,
    )
    forms: dict[str, Any] = {
        "dense": lambda: x,
        "coo": x.to_sparse,
        "csr": x.to_sparse_csr,
        "csc": x.to_sparse_csc,
        "scipy": lambda: sp.csr_array(x.numpy()),
        "unsorted": lambda: doubled,
        "float64": x.double,
    }
    task = NodeTask.from_data(path_graph(x=forms[layout]()))
    assert task.x.layout == torch.sparse_csr
    assert task.x.crow_indices().dtype == task.x.col_indices().dtype == torch.int64
    assert task.x.dtype == torch.float32
    assert task.x.values().numel() == 2
    assert torch.equal(task.x.to_dense(), x)


def test_the_border_between_sparse_and_dense_is_a_fifth() -> None:
    x = torch.zeros(5, 10)
    x[:, :2] = 1.0
    sparse = NodeTask.from_data(path_graph(x=x))
    assert sparse.x.layout == torch.sparse_csr
    assert sparse.notes == ("x is kept sparse: 20.0% of its entries are not zero.",)
    x[0, 5] = 1.0
    assert NodeTask.from_data(path_graph(x=x)).x.layout == torch.strided


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64, torch.bool, torch.bfloat16])
@pytest.mark.parametrize("dense", [True, False])
def test_features_become_float32(dtype: torch.dtype, dense: bool) -> None:
    x = torch.tensor([[1, 0]] * 5)
    given = x.to(dtype)
    task = NodeTask.from_data(path_graph(x=given if dense else given.to_sparse()))
    assert torch.equal(task.x.to_dense(), x.float())
    assert task.x.dtype == torch.float32


def test_zero_rows_are_allowed() -> None:
    x = path_graph().x
    x[1] = 0
    assert torch.equal(NodeTask.from_data(path_graph(x=x)).x, x)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("sparse", [False, True])
def test_features_that_are_not_finite_are_refused(value: float, sparse: bool) -> None:
    x = rare_features().double()
    x[3, 1] = value
    form = x.to_sparse_csr() if sparse else x
    with pytest.raises(
        EraseError, match=r"finite features; got .*(nan|inf) at node 3 \('d'\).*Fill"
    ):
        NodeTask.from_data(path_graph(x=form, node_names=list("abcde")))


@pytest.mark.parametrize("value", [1e300, -1e39])
@pytest.mark.parametrize("form", ["dense", "numpy", "csr", "coo", "csc", "scipy"])
def test_features_too_large_for_float32_are_reported(value: float, form: str) -> None:
    x = rare_features().double()
    x[3, 1] = value
    forms: dict[str, Any] = {
        "dense": lambda: x,
        "numpy": x.numpy,
        "csr": x.to_sparse_csr,
        "coo": x.to_sparse,
        "csc": x.to_sparse_csc,
        "scipy": lambda: sp.csc_matrix(x.numpy()),
    }
    message = re.escape(f"got {value:g} at node 3, column 1. It is too large: rescale that column")
    with pytest.raises(EraseError, match=message):
        NodeTask.from_data(path_graph(x=forms[form]()))


def test_the_largest_float32_is_a_feature() -> None:
    """And what rounds to it, as its shortest decimal writing does; the next float64 does not."""
    largest, end = float(np.finfo(np.float32).max), 2.0**128 - 2.0**103
    for value in (largest, 3.4028235e38, np.nextafter(end, 0)):
        x = torch.full((5, 1), value, dtype=torch.float64)
        assert float(NodeTask.from_data(path_graph(x=x)).x[0, 0]) == largest
    with pytest.raises(EraseError, match="too large"):
        NodeTask.from_data(path_graph(x=torch.full((5, 1), end, dtype=torch.float64)))


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.ones(5), r"\[N, F\].*shape \[5\].*x\[:, None\]"),
        (torch.ones(5, 2, dtype=torch.complex64), "real numbers.*complex64"),
        (np.array([["a"]] * 5), "numbers; got <U1. Turn them into numbers"),
        (torch.ones(4, 2), "4 nodes and 5 labels. Give every node a row in x"),
        (np.ones((5, 2), complex), "real numbers.*complex128"),
        (sp.csr_matrix(np.eye(5) * 1j), "real numbers; got complex128"),
        (torch.eye(5, dtype=torch.cfloat).to_sparse(), "real numbers; got complex64"),
        (torch.eye(5, dtype=torch.cfloat).to_sparse_csr(), "real numbers; got complex64"),
        ([[1.0], [1.0, 2.0]], "features as an array of numbers; got rows of different lengths"),
        (np.ma.masked_equal(np.arange(10).reshape(5, 2), 7), "finite features; got nan at node 3"),
    ],
)
def test_features_of_another_kind_are_refused(x: Any, message: str) -> None:
    with pytest.raises(EraseError, match=message):
        NodeTask.from_data(path_graph(x=x))


def test_a_sparse_matrix_with_an_index_out_of_bounds_is_refused() -> None:
    x = torch.sparse_csr_tensor(
        torch.tensor([0, 1, 1, 1, 1, 1]),
        torch.tensor([9]),
        torch.ones(1),
        (5, 2),
        check_invariants=False,
    )
    with pytest.raises(EraseError, match=r"well-formed sparse matrix.*Build it again"):
        NodeTask.from_data(path_graph(x=x))


@pytest.mark.parametrize("x", [None, torch.empty(5, 0)])
def test_nodes_without_features_get_a_spectral_embedding_and_a_note(x: Tensor | None) -> None:
    task = NodeTask.from_data(path_graph(x=x))
    assert torch.equal(task.x, spectral_features(task.edge_index, 5))
    assert task.x.shape == (5, 5)
    assert len(task.notes) == 1
    assert "5 features from a spectral embedding" in task.notes[0]


def test_spectral_features_equal_the_formula_on_dense_matrices() -> None:
    rng = np.random.default_rng(1)
    adjacency = np.triu(rng.random((30, 30)) < 0.2, 1)
    adjacency = (adjacency | adjacency.T).astype(float)
    adjacency[7] = adjacency[:, 7] = 0
    edge_index = torch.from_numpy(np.stack(np.nonzero(adjacency)))
    z = spectral_features(edge_index, 30).double().numpy()
    assert np.array_equal(z, spectral_features(edge_index, 30).double().numpy())

    loops = np.diag((adjacency.sum(1) > 0).astype(float))
    degree = np.maximum((adjacency + loops).sum(1), 1)
    matrix = (adjacency + loops) / np.sqrt(np.outer(degree, degree))
    square = matrix @ matrix  # rows of U·S have the inner products of the matrix's own rows
    length = np.sqrt(np.maximum(np.diag(square), 1e-24))
    np.testing.assert_allclose(z @ z.T, square / np.outer(length, length), atol=1e-5)
    assert not z[7].any()
    assert spectral_features(torch.empty(2, 0, dtype=torch.long), 4).tolist() == [[0.0] * 4] * 4


def test_spectral_features_tell_communities_apart() -> None:
    graph = nx.planted_partition_graph(4, 40, 0.3, 0.01, seed=0)
    edge_index = torch.tensor(list(graph.to_directed().edges)).t()
    order = np.lexsort(edge_index.flip(0).numpy())
    z = spectral_features(edge_index[:, order], 160)
    similarity = (z @ z.t()).fill_diagonal_(-1)
    group = torch.arange(160) // 40
    assert float((group[similarity.argmax(1)] == group).float().mean()) > 0.95


def test_sparse_features_are_not_shared_either() -> None:
    x = path_graph().x.to_sparse_csr()
    task = NodeTask.from_data(path_graph(x=x))
    task.x.values().zero_()
    assert float(x.values().sum()) == 55


def test_a_scipy_matrix_is_not_tidied_in_place() -> None:
    values = np.array([1.0, 1.0, 0.0], dtype=np.float32)
    x = sp.csr_matrix((values, [3, 3, 1], [0, 2, 3, 3, 3, 3]), shape=(5, 4))
    assert NodeTask.from_data(path_graph(x=x)).x.values().tolist() == [2.0]
    assert x.data.tolist() == [1.0, 1.0, 0.0]
    assert x.indices.tolist() == [3, 3, 1]


def test_numbers_wider_than_torch_knows_are_taken() -> None:
    x = np.arange(1, 11, dtype=np.longdouble).reshape(5, 2)
    assert torch.equal(NodeTask.from_data(path_graph(x=x)).x, path_graph().x)
