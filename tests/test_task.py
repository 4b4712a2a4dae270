"""The door: what NodeTask keeps, what it drops, what it refuses."""

import copy
import time
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from erase.errors import EraseError
from erase.task import NodeTask, edge_ends, encode_labels, split_mask, structural_features

NAN = float("nan")


def path_graph(**changes: Any) -> Data:
    """Return 0 - 1 - 2 - 3 - 4, two classes, 0 and 1 train, 2 validates, 3 and 4 test."""
    data = Data(
        x=torch.arange(1.0, 11.0).reshape(5, 2),
        edge_index=torch.tensor([[0, 1, 1, 2, 2, 3, 3, 4], [1, 0, 2, 1, 3, 2, 4, 3]]),
        y=torch.tensor([0, 1, 1, 0, 1]),
        train_mask=torch.tensor([True, True, False, False, False]),
        val_mask=torch.tensor([False, False, True, False, False]),
    )
    for name, value in changes.items():
        if value is None:
            del data[name]
        else:
            data[name] = value
    return data


def mask(*nodes: int, n: int = 5) -> Tensor:
    return torch.zeros(n, dtype=torch.bool).index_fill_(0, torch.tensor(nodes).long(), True)


def test_a_clean_graph_is_kept_as_it_is_without_a_note() -> None:
    data = path_graph()
    task = NodeTask.from_data(data)
    assert torch.equal(task.x, data.x)
    assert torch.equal(task.edge_index, data.edge_index)
    assert task.train_index.tolist() == [0, 1]
    assert task.val_index.tolist() == [2]
    assert (task.num_nodes, task.num_edges, task.num_features, task.num_classes) == (5, 8, 2, 2)
    assert task.class_names == ("0", "1")
    assert task.label_values.tolist() == [0, 1]
    assert task.node_names is None
    assert task.notes == ()


def test_labels_of_other_nodes_are_dropped() -> None:
    assert NodeTask.from_data(path_graph()).y.tolist() == [0, 1, 1, -1, -1]


def test_no_tensor_of_the_task_holds_a_test_label() -> None:
    data = path_graph(y=torch.tensor([0, 1, 1, 3, 2]), num_classes=4)
    task = NodeTask.from_data(data)
    changed = NodeTask.from_data(path_graph(y=torch.tensor([0, 1, 1, 0, 0]), num_classes=4))
    for name, value in vars(task).items():
        other = getattr(changed, name)
        assert torch.equal(value, other) if isinstance(value, Tensor) else str(value) == str(other)


def test_the_wall_holds_even_for_tasks_built_by_hand() -> None:
    task = NodeTask.from_data(path_graph())
    with pytest.raises(EraseError, match=r"a label at node 3.*NodeTask\.from_data"):
        NodeTask(
            task.x,
            task.edge_index,
            torch.tensor([0, 1, 1, 0, -1]),
            task.train_mask,
            task.val_mask,
            task.class_names,
            task.label_values,
        )


def test_the_users_graph_is_neither_changed_nor_shared() -> None:
    data = path_graph()
    before = copy.deepcopy(data)
    task = NodeTask.from_data(data)
    for name in ("x", "edge_index", "y", "train_mask", "val_mask"):
        getattr(task, name).zero_()
    assert data.keys() == before.keys()
    for name in data.keys():  # noqa: SIM118  (a Data iterates over pairs)
        assert torch.equal(data[name], before[name])


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


def test_label_values_cannot_be_written_to() -> None:
    with pytest.raises(ValueError, match="read-only"):
        NodeTask.from_data(path_graph()).label_values[0] = 7


def test_edges_are_mirrored_merged_sorted_and_freed_of_loops_with_counts() -> None:
    messy = torch.tensor([[4, 0, 0, 0, 2, 2, 1], [3, 1, 1, 1, 2, 1, 2]])
    task = NodeTask.from_data(path_graph(edge_index=messy))
    assert task.edge_index.tolist() == [[0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 4, 3]]
    assert task.notes == (
        "1 self-loops were dropped: the encoders add their own.",
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


def test_adj_t_of_torch_sparse_is_read_through_its_own_conversion() -> None:
    class SparseTensor:
        def to_torch_sparse_coo_tensor(self) -> Tensor:
            return torch.eye(5).roll(1, 0).to_sparse()

    task = NodeTask.from_data(path_graph(edge_index=None, adj_t=SparseTensor()))
    assert task.num_edges == 10


def test_edge_weights_are_said_to_be_unused() -> None:
    task = NodeTask.from_data(path_graph(edge_weight=torch.ones(8)))
    assert task.notes == ("edge_weight is not used: every edge counts the same.",)


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


def test_missing_edges_are_refused_and_how_to_have_none_is_said() -> None:
    with pytest.raises(EraseError, match=r"torch\.empty\(2, 0"):
        NodeTask.from_data(path_graph(edge_index=None))


def test_an_adjacency_that_is_not_square_is_refused() -> None:
    with pytest.raises(EraseError, match=r"square.*\[5, 4\].*\[2, E\]"):
        NodeTask.from_data(path_graph(edge_index=None, adj_t=torch.ones(5, 4).to_sparse()))


def rare_features() -> Tensor:
    x = torch.zeros(5, 4)
    x[0, 3], x[4, 0] = 2.0, -1.0
    return x


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
def test_features_become_float32(dtype: torch.dtype) -> None:
    x = torch.tensor([[1, 0]] * 5)
    task = NodeTask.from_data(path_graph(x=x.to(dtype)))
    assert torch.equal(task.x, x.float())
    assert task.x.dtype == torch.float32


def test_zero_rows_are_allowed() -> None:
    x = path_graph().x
    x[1] = 0
    assert torch.equal(NodeTask.from_data(path_graph(x=x)).x, x)


@pytest.mark.parametrize("value", [NAN, float("inf"), -float("inf"), 1e300])
@pytest.mark.parametrize("sparse", [False, True])
def test_features_that_are_not_finite_are_refused(value: float, sparse: bool) -> None:
    x = rare_features().double()
    x[3, 1] = value
    form = x.to_sparse_csr() if sparse else x
    with pytest.raises(
        EraseError, match=r"finite features; got .*(nan|inf) at node 3 \('d'\).*Fill"
    ):
        NodeTask.from_data(path_graph(x=form, node_names=list("abcde")))


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.ones(5), r"\[N, F\].*shape \[5\].*x\[:, None\]"),
        (torch.ones(5, 2, dtype=torch.complex64), "real numbers.*complex64"),
        (np.array([["a"]] * 5), "numbers; got <U1. Turn them into numbers"),
        (torch.ones(4, 2), "4 nodes and 5 labels. Give every node a row in x"),
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
def test_nodes_without_features_get_structural_ones_and_a_note(x: Tensor | None) -> None:
    task = NodeTask.from_data(path_graph(x=x))
    assert torch.equal(task.x, structural_features(task.edge_index, 5))
    assert task.x.shape == (5, 128)
    assert len(task.notes) == 1
    assert "128 structural features" in task.notes[0]


def test_structural_features_equal_the_formula_on_dense_matrices() -> None:
    rng = np.random.default_rng(1)
    adjacency = np.triu(rng.random((30, 30)) < 0.1, 1)
    adjacency = (adjacency | adjacency.T).astype(float)
    adjacency[7] = adjacency[:, 7] = 0
    edge_index = torch.from_numpy(np.stack(np.nonzero(adjacency)))
    z = structural_features(edge_index, 30).double().numpy()

    from erase.seeds import numpy_stream

    hop = numpy_stream(0, "structural features").standard_normal((30, 128), np.float32)
    degree = adjacency.sum(1)
    total = np.zeros((30, 128))
    for _ in range(3):
        hop = np.divide(adjacency @ hop, degree[:, None], where=degree[:, None] > 0, out=0 * total)
        for i in range(30):
            total[i] += hop[i] / max(np.linalg.norm(hop[i]), 1e-12)
    total /= np.maximum(np.linalg.norm(total, axis=1, keepdims=True), 1e-12)
    np.testing.assert_allclose(z, total, atol=1e-6)
    assert not z[7].any()


def test_structural_features_tell_communities_apart() -> None:
    graph = nx.planted_partition_graph(4, 40, 0.3, 0.01, seed=0)
    edge_index = torch.tensor(list(graph.to_directed().edges)).t()
    order = np.lexsort(edge_index.flip(0).numpy())
    z = structural_features(edge_index[:, order], 160)
    similarity = (z @ z.t()).fill_diagonal_(-1)
    group = torch.arange(160) // 40
    assert float((group[similarity.argmax(1)] == group).float().mean()) > 0.95


@pytest.mark.parametrize(
    "y",
    [
        torch.tensor([0, 1, -1, 2, 1]),
        torch.tensor([[0], [1], [-1], [2], [1]]),
        torch.tensor([0.0, 1.0, NAN, 2.0, 1.0]),
        torch.tensor([0, 1, -1, 2, 1], dtype=torch.int8),
        np.array([0, 1, -1, 2, 1]),
        [0, 1, None, 2, 1],
        [0, 1, "", 2, 1],
        pd.Series([0, 1, None, 2, 1], dtype="Int64"),
    ],
)
def test_number_labels_in_every_form(y: Any) -> None:
    codes, names, values = encode_labels(Data(y=y))
    assert codes.tolist() == [0, 1, -1, 2, 1]
    assert codes.dtype == torch.int64
    assert names == ("0", "1", "2")
    assert values.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "y",
    [
        ["b", "a", None, "c", "a"],
        ["b", "a", "", "c", "a"],
        ["b", "a", NAN, "c", "a"],
        np.array(["b", "a", "", "c", "a"]),
        np.array([["b"], ["a"], [""], ["c"], ["a"]]),
        pd.Series(["b", "a", None, "c", "a"]),
        pd.Series(["b", "a", None, "c", "a"], dtype="category"),
    ],
)
def test_name_labels_in_every_form(y: Any) -> None:
    codes, names, values = encode_labels(Data(y=y))
    assert codes.tolist() == [1, 0, -1, 2, 0]
    assert names == ("a", "b", "c")
    assert values.tolist() == ["a", "b", "c"]


def test_names_come_back_as_names_in_the_order_of_class_names() -> None:
    data = path_graph(y=["cat", "dog", "dog", "cat", "cat"], class_names=["dog", "cow", "cat"])
    task = NodeTask.from_data(data)
    assert task.y.tolist() == [2, 0, 0, -1, -1]
    assert task.label_values[task.y[task.train_mask]].tolist() == ["cat", "dog"]
    assert task.class_names == ("dog", "cow", "cat")
    assert task.notes == ("No training node has the class 'cow'.",)


def test_number_labels_with_class_names_stay_numbers() -> None:
    task = NodeTask.from_data(path_graph(class_names=["a", "b", "c"]))
    assert task.class_names == ("a", "b", "c")
    assert task.label_values.tolist() == [0, 1, 2]


@pytest.mark.parametrize(("changes", "k"), [({}, 2), ({"num_classes": 5}, 5)])
def test_the_number_of_classes(changes: dict[str, Any], k: int) -> None:
    assert NodeTask.from_data(path_graph(**changes)).num_classes == k


def test_a_class_only_test_nodes_have_still_counts() -> None:
    task = NodeTask.from_data(path_graph(y=torch.tensor([0, 1, 1, 0, 7])))
    assert task.num_classes == 8
    assert task.notes == ("No training node has the class '2', '3', '4', '5', '6' and 1 more.",)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": None}, r"labels in data\.y; got none\. Set y \[N\]"),
        ({"y": torch.tensor([0, 1, -2, 0, 1])}, r"label -2 at node 2.*set it to -1"),
        ({"num_classes": 2, "y": torch.tensor([0, 1, 1, 2, 1])}, r"0\.\.1.*label 2 at node 3"),
        ({"class_names": ["a"]}, r"0\.\.0 \(1 classes\).*label 1 at node 1"),
        ({"y": torch.tensor([0.0, 1.5, 1, 0, 1])}, r"whole numbers.*1\.5 at node 1.*Number the"),
        ({"y": torch.tensor([0.0, 1, float("inf"), 0, 1])}, "inf at node 2"),
        ({"y": torch.eye(5)}, r"shape \[5, 5\]. Take y\.argmax\(1\)"),
        ({"y": ["a", 1, "b", "a", "b"]}, "all whole numbers or all names.*Use one kind"),
        ({"y": [[0], [1], {}, 0, 1]}, "all whole numbers or all names"),
        (
            {"y": list("abcab"), "class_names": ["a", "b"]},
            r"\(a, b\); got 'c' at node 2.*or add it",
        ),
        ({"class_names": ["a", "a"]}, "different class_names.*twice"),
        ({"y": torch.tensor([], dtype=torch.long)}, "0 nodes"),
        ({"y": torch.tensor([0, 1, 2000, 0, 1])}, r"label 2000 on .*without gaps"),
        ({"y": torch.tensor([0, 1, 1, 0])}, "5 nodes and 4 labels|train_mask with one entry"),
        ({"x": None, "num_nodes": 6}, "6 nodes and 5 labels"),
        ({"node_names": ["a", "b"]}, "5 node_names.*2"),
    ],
)
def test_bad_labels_and_lengths_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(EraseError, match=message):
        NodeTask.from_data(path_graph(**changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"train_mask": mask()},
        {"y": torch.full((5,), -1)},
        {"y": torch.tensor([-1, -1, 1, 0, 1])},
        {"y": ["", None, "b", "a", "b"]},
    ],
)
def test_no_training_label_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(EraseError, match=r"training node with a label; got none\. Give labels"):
        NodeTask.from_data(path_graph(**changes))


def test_one_class_only_is_refused() -> None:
    with pytest.raises(EraseError, match=r"two classes; got only class '1' on 2 training.*another"):
        NodeTask.from_data(path_graph(y=torch.tensor([1, 1, 0, 0, 0])))


@pytest.mark.parametrize(
    ("train", "val"),
    [
        ("train_mask", "val_mask"),
        ("train_idx", "val_idx"),
        ("train_index", "valid_idx"),
        ("train_mask", "valid_mask"),
        ("train_idx", "validation_index"),
    ],
)
@pytest.mark.parametrize("as_index", [False, True])
def test_masks_and_indices_under_every_name(train: str, val: str, as_index: bool) -> None:
    splits: dict[str, Any] = {"train_mask": None, "val_mask": None}
    splits[train] = torch.tensor([3, 0]) if as_index else mask(0, 3)
    splits[val] = torch.tensor([4]) if as_index else mask(4)
    task = NodeTask.from_data(path_graph(y=torch.tensor([0, 1, 1, 1, 0]), **splits))
    assert task.train_index.tolist() == [0, 3]
    assert task.val_index.tolist() == [4]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64])
def test_a_mask_of_zeros_and_ones_is_a_mask(dtype: torch.dtype) -> None:
    task = NodeTask.from_data(path_graph(train_mask=mask(3, 4).to(dtype)[:, None]))
    assert task.train_index.tolist() == [3, 4]


def test_split_mask_finds_the_test_nodes_and_says_none_where_there_are_none() -> None:
    assert split_mask(path_graph(), "test", 5) is None
    found = split_mask(path_graph(test_idx=torch.tensor([4, 3])), "test", 5)
    assert found is not None
    assert found.tolist() == [False, False, False, True, True]


def test_split_mask_is_fresh() -> None:
    data = path_graph()
    found = split_mask(data, "train", 5)
    assert found is not None
    found.zero_()
    assert data.train_mask.tolist() == [True, True, False, False, False]


def test_without_a_training_split_every_other_labelled_node_trains() -> None:
    y = torch.tensor([0, 1, 1, -1, 0])
    task = NodeTask.from_data(path_graph(y=y, train_mask=None))
    assert task.train_index.tolist() == [0, 1, 4]
    assert task.notes[0].startswith("No training split is given")
    hidden = NodeTask.from_data(path_graph(y=y, train_mask=None, test_mask=mask(4)))
    assert hidden.train_index.tolist() == [0, 1]
    assert hidden.y.tolist() == [0, 1, 1, -1, -1]


def test_without_a_validation_split_nobody_validates() -> None:
    task = NodeTask.from_data(path_graph(val_mask=None))
    assert task.val_index.tolist() == []
    assert task.y.tolist() == [0, 1, -1, -1, -1]


def test_nodes_without_a_label_leave_training_and_validation_with_a_note() -> None:
    task = NodeTask.from_data(
        path_graph(y=torch.tensor([0, 1, -1, -1, 1]), train_mask=mask(0, 1, 3))
    )
    assert task.train_index.tolist() == [0, 1]
    assert task.val_index.tolist() == []
    assert task.notes == (
        "1 training nodes have no label and are left out of training.",
        "1 validation nodes have no label and are left out of validation.",
    )


def test_a_training_node_that_is_tested_too_is_told() -> None:
    task = NodeTask.from_data(path_graph(test_mask=mask(1, 3, 4)))
    assert task.notes == ("1 training nodes are test nodes too: their label is not hidden.",)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"val_mask": mask(1, 2)},
            "do not overlap; got 1 nodes in both, the first is node 1. Remo",
        ),
        ({"train_mask": torch.ones(5, 3).bool()}, r"\[5, 3\]. Choose a column.*train_mask\[:, 0\]"),
        ({"train_mask": mask(0, 1)[:4]}, "each of 5 nodes; got 4 entries. Make the mask"),
        ({"val_mask": mask(2, n=6)}, "val_mask with one entry.*6 entries"),
        ({"train_mask": torch.tensor([0.0, 1.0])}, r"bool mask or node numbers.*\.bool\(\)"),
        ({"train_mask": torch.tensor([0, 1, 5])}, r"0\.\.4 in train_mask; got 5 at position 2"),
        ({"train_mask": torch.tensor([-1, 1])}, "got -1 at position 0. Count nodes from 0"),
    ],
)
def test_bad_splits_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(EraseError, match=message):
        NodeTask.from_data(path_graph(**changes))


EDGES = [[0, 1], [1, 2], [2, 3], [3, 4]]


@pytest.mark.parametrize("form", ["[2,E]", "[E,2]", "scipy", "list", "torch"])
def test_from_arrays_equals_from_data(form: str) -> None:
    data, array = path_graph(), np.array(EDGES)
    edges: Any = {
        "[2,E]": array.T,
        "[E,2]": array,
        "scipy": sp.coo_matrix((np.ones(4), (array[:, 0], array[:, 1])), shape=(5, 5)),
        "list": EDGES,
        "torch": torch.tensor(EDGES),
    }[form]
    task = NodeTask.from_arrays(
        edges, data.y.numpy(), data.x.numpy(), train=[0, 1], val=data.val_mask.numpy(), num_nodes=5
    )
    expected = NodeTask.from_data(data)
    for name in ("x", "edge_index", "y", "train_mask", "val_mask"):
        assert torch.equal(getattr(task, name), getattr(expected, name))


def test_two_by_two_edges_are_read_as_sources_and_targets() -> None:
    task = NodeTask.from_arrays([[0, 1], [2, 2]], y=[0, 1, 0])
    assert task.edge_index.tolist() == [[0, 1, 2, 2], [2, 2, 0, 1]]


def test_from_arrays_takes_names_sparse_features_and_no_edges() -> None:
    x = sp.csr_matrix(rare_features().numpy())
    task = NodeTask.from_arrays(
        [], ["no", "yes", None, "no", "no"], x, node_names=list("abcde"), class_names=["no", "yes"]
    )
    assert torch.equal(task.x.to_dense(), rare_features())
    assert task.num_edges == 0
    assert task.y.tolist() == [0, 1, -1, 0, 0]
    assert task.label_values.tolist() == ["no", "yes"]
    assert task.node_names == ("a", "b", "c", "d", "e")


@pytest.mark.parametrize("x", [None, np.ones((3, 2))])
def test_from_arrays_checks_the_number_of_nodes(x: Any) -> None:
    with pytest.raises(EraseError, match="4 nodes and 3 labels"):
        NodeTask.from_arrays([[0], [1]], [0, 1, 1], x, num_nodes=4)


def friends() -> nx.Graph:
    graph = nx.Graph()
    graph.add_node("ann", label="red", split="train", age=30, taste=[1.0, 0.0], home="Rome")
    graph.add_node("bob", label="blue", split="train", age=40, taste=[0.0, 1.0], home="Oslo")
    graph.add_node("cem", label="red", split="val", age=50, taste=[1.0, 1.0], home="Rome")
    graph.add_node("dan", label="blue", split="test", age=60, taste=[0.5, 0.5], home="Bonn")
    graph.add_node("eve", age=70, taste=[2.0, 0.5], home="Bonn")
    graph.add_edges_from([("ann", "cem"), ("bob", "dan"), ("eve", "eve")])
    return graph


def test_from_networkx() -> None:
    task = NodeTask.of(friends())
    assert task.node_names == ("ann", "bob", "cem", "dan", "eve")
    assert task.edge_index.tolist() == [[0, 1, 2, 3], [2, 3, 0, 1]]
    assert task.label_values[task.y[:3]].tolist() == ["red", "blue", "red"]
    assert task.y[3:].tolist() == [-1, -1]
    assert task.train_index.tolist() == [0, 1]
    assert task.val_index.tolist() == [2]
    assert task.x[4].tolist() == [70, 2.0, 0.5]
    assert "Columns that hold no numbers are ignored: 'home'." in task.notes


def test_from_networkx_with_chosen_attributes() -> None:
    graph = friends().to_directed()
    nx.set_node_attributes(graph, {"ann": 0, "bob": 1, "dan": 1}, "team")
    task = NodeTask.from_networkx(graph, label="team", features="age", split="nowhere")
    assert task.x.flatten().tolist() == [30, 40, 50, 60, 70]
    assert task.y.tolist() == [0, 1, -1, 1, -1]
    assert task.label_values.tolist() == [0, 1]
    both = NodeTask.from_networkx(graph, features=["taste", "age"])
    assert both.x[1].tolist() == [0, 1, 40]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"label": "colour"}, r"'colour'; got \['label', 'split', 'age'.*label=…"),
        ({"features": ["size"]}, "'size'"),
        ({"features": ["home"]}, "numbers; got something else in 'home'.*leave it out"),
    ],
)
def test_from_networkx_refuses_attributes_that_are_not_there(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(EraseError, match=message):
        NodeTask.from_networkx(friends(), **arguments)


def test_a_node_without_a_feature_is_named() -> None:
    graph = friends()
    del graph.nodes["dan"]["age"]
    with pytest.raises(EraseError, match=r"nan at node 3 \('dan'\)"):
        NodeTask.from_networkx(graph, features="age")


@pytest.mark.parametrize("vectors", [[[1.0], [1.0, 2.0]], [["a"], ["b"]], [[[1.0]], [[2.0]]]])
def test_vectors_that_do_not_make_a_matrix_are_ignored(vectors: list[Any]) -> None:
    nodes = pd.DataFrame({"id": [1, 2], "label": [0, 1], "v": vectors})
    task = NodeTask.from_tables(nodes, pd.DataFrame({"a": [1], "b": [2]}))
    assert task.notes[0] == "Columns that hold no numbers are ignored: 'v'."


def tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    nodes = pd.DataFrame(
        {
            "size": [1.0, 2.0, 3.0, 4.0],
            "id": [10, 20, 30, 40],
            "label": ["x", "y", None, "x"],
            "split": ["Train", " train ", None, "test"],
            "old": [True, False, True, True],
            "remark": list("abcd"),
        }
    )
    edges = pd.DataFrame({"weight": [1, 1], "source": [10, 20], "target": [30, 40]})
    return nodes, edges


def test_from_tables() -> None:
    task = NodeTask.of(tables())
    assert task.node_names == ("10", "20", "30", "40")
    assert task.x.tolist() == [[1, 1], [2, 0], [3, 1], [4, 1]]
    assert task.edge_index.tolist() == [[0, 1, 2, 3], [2, 3, 0, 1]]
    assert task.y.tolist() == [0, 1, -1, -1]
    assert task.notes[:2] == (
        "Columns of the edges are ignored: 'weight'.",
        "Columns that hold no numbers are ignored: 'remark'.",
    )


def test_from_tables_with_chosen_columns() -> None:
    nodes, edges = tables()
    nodes = nodes.rename(columns={"id": "key", "label": "kind", "split": "use"})
    edges = edges.rename(columns={"source": "from", "target": "to"})
    task = NodeTask.from_tables(nodes, edges, "key", "kind", ["old"], "use", "to", "from")
    assert task.x.tolist() == [[1], [0], [1], [1]]
    assert task.train_index.tolist() == [0, 1]
    assert task.edge_index.tolist() == [[0, 1, 2, 3], [2, 3, 0, 1]]


def test_ids_match_across_numbers_and_text() -> None:
    nodes, edges = tables()
    task = NodeTask.from_tables(nodes, edges.astype({"source": str, "target": str}))
    assert task.edge_index.tolist() == [[0, 1, 2, 3], [2, 3, 0, 1]]


def changed(which: int, **columns: Any) -> tuple[pd.DataFrame, pd.DataFrame]:
    both = list(tables())
    both[which] = both[which].assign(**columns)
    return both[0], both[1]


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        (changed(0, id=[10, 20, 20, 40]), "column 'id'; got 20 again in row 2"),
        (changed(0, split=["train", "dev", "", ""]), "got 'dev' in row 1. Use those words"),
        (changed(1, target=[30, 50]), "got 50 in the column 'target', row 1. Add that node"),
        (changed(1, source=["10", "zoe"], target=["30", "40"]), "'zoe' in the column 'source'"),
        ((tables()[0], tables()[1][["source"]]), r"a column 'target'; got \['source'\]. Add"),
        ((tables()[0], tables()[1][["target", "weight"]]), "'target' for both ends. Name them sou"),
        ((pd.DataFrame(), tables()[1]), r"a column 'id'; got \[\]"),
        ((tables()[0].drop(columns="label"), tables()[1]), "'label'.*Add it"),
        ((tables()[0].iloc[:0], tables()[1].iloc[:0]), "0 nodes"),
    ],
)
def test_bad_tables_are_refused(pair: tuple[pd.DataFrame, pd.DataFrame], message: str) -> None:
    with pytest.raises(EraseError, match=message):
        NodeTask.from_tables(*pair)


def test_a_column_that_is_not_there_is_refused() -> None:
    with pytest.raises(EraseError, match=r"a column 'key'; got \['size', 'id'"):
        NodeTask.from_tables(*tables(), id="key")


def test_of_returns_a_task_itself() -> None:
    task = NodeTask.from_data(path_graph())
    assert NodeTask.of(task) is task
    assert torch.equal(NodeTask.of(path_graph()).y, task.y)


@pytest.mark.parametrize("build", [NodeTask.of, NodeTask.from_data, NodeTask.from_networkx])
@pytest.mark.parametrize(
    ("thing", "message"),
    [
        ("cora", r"'cora'. Read a file with erase\.read_graph.*load_dataset\(name\)"),
        (Path("graph.npz"), r"'graph\.npz'\. Read a file"),
        (np.eye(3), r"numpy\.ndarray. Pass a torch_geometric Data"),
        (None, "NoneType"),
    ],
)
def test_what_is_not_a_graph_is_refused(build: Any, thing: Any, message: str) -> None:
    with pytest.raises(EraseError, match=message):
        build(thing)


def test_a_heterogeneous_graph_and_a_pair_of_arrays_are_refused() -> None:
    for thing in (HeteroData(), (np.eye(2), np.eye(2))):
        with pytest.raises(EraseError, match="Pass a torch_geometric Data"):
            NodeTask.of(thing)
    with pytest.raises(EraseError, match="Pass a torch_geometric Data"):
        NodeTask.from_tables(pd.DataFrame({"id": [1]}), np.eye(2))


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_the_promises_hold_on_any_graph(draw: st.DataObject) -> None:
    n = draw.draw(st.integers(2, 9), "nodes")
    node = st.integers(0, n - 1)
    edges = draw.draw(st.lists(st.tuples(node, node), max_size=20), "edges")
    labels = draw.draw(st.lists(st.integers(-1, 3), min_size=n, max_size=n), "labels")
    part = draw.draw(st.lists(st.sampled_from("tve"), min_size=n, max_size=n), "parts")
    width = draw.draw(st.integers(0, 3), "width")
    y, parts = torch.tensor(labels), np.array(part)
    data = Data(
        x=torch.arange(n * width).reshape(n, width),
        edge_index=torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t(),
        y=y,
        train_mask=torch.from_numpy(parts == "t"),
        val_mask=torch.from_numpy(parts == "v"),
    )
    trained = {label for label, p in zip(labels, part, strict=True) if p == "t" and label >= 0}
    if len(trained) < 2:
        with pytest.raises(EraseError, match="training"):
            NodeTask.from_data(data)
        return
    task = NodeTask.from_data(data)
    row, col = task.edge_index
    key = row * n + col
    assert bool((key[1:] > key[:-1]).all())
    assert bool((row != col).all())
    assert sorted((col * n + row).tolist()) == key.tolist()
    assert not bool((task.train_mask & task.val_mask).any())
    seen = task.train_mask | task.val_mask
    assert torch.equal(task.y[seen], y[seen])
    assert bool((task.y[~seen] == -1).all())
    assert bool((task.y[seen] >= 0).all())
    assert task.num_classes == max(labels) + 1
    assert bool(torch.isfinite(task.x.to_dense()).all())
    assert task.x.shape == (n, width or 128)
    if width:
        assert torch.equal(task.x.to_dense(), data.x.float())


def test_a_large_graph_passes_the_door_in_linear_time() -> None:
    n, e = 200_000, 2_000_000
    rng = np.random.default_rng(0)
    edges, y = rng.integers(0, n, (2, e)), rng.integers(0, 5, n)
    start = time.perf_counter()
    task = NodeTask.from_arrays(edges, y, x=np.ones((n, 4), np.float32))
    assert time.perf_counter() - start < 20  # seconds; a loop over edges takes minutes
    adjacency = sp.coo_matrix((np.ones(e), edges), shape=(n, n)).tocsr()
    both_ways = adjacency + adjacency.T
    assert task.num_edges == both_ways.nnz - np.count_nonzero(both_ways.diagonal())


def test_arrays_torch_dislikes_are_taken() -> None:
    """Read-only, reversed and big-endian arrays come from files, slices and pandas."""
    x = np.arange(1.0, 11.0, dtype=">f8").reshape(5, 2)[::-1]
    y = np.array([0, 1, 1, 0, 1], dtype=">i4")
    y.flags.writeable = False
    task = NodeTask.from_arrays(np.array(EDGES)[::-1], y, x, train=np.array([1, 0])[::-1])
    assert task.x[0].tolist() == [9.0, 10.0]
    assert task.y.tolist() == [0, 1, -1, -1, -1]
    assert task.edge_index.tolist() == NodeTask.from_data(path_graph()).edge_index.tolist()
