"""What NodeTask keeps, what it drops, what it refuses."""

import copy
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from erase.data.task import NodeTask
from erase.errors import EraseError
from graphs import mask, path_graph


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


def quantised() -> Tensor:
    return torch.quantize_per_tensor(torch.eye(5), 0.1, 0, torch.qint8)


@pytest.mark.filterwarnings("ignore:.*quantize:UserWarning", "ignore:.*nested:UserWarning")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("x", quantised),
        ("x", lambda: torch.eye(5, device="meta")),
        ("x", lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])),
        ("edge_index", lambda: torch.zeros(2, 3, dtype=torch.long, device="meta")),
        ("edge_weight", lambda: quantised()[0, :4]),
        ("train_mask", lambda: torch.ones(5, dtype=torch.bool, device="meta")),
        ("node_ids", lambda: [[1], [2], [3], [4], [5]]),
        ("node_names", lambda: 7),
    ],
)
def test_values_of_odd_types_are_refused(field: str, value: Callable[[], Any]) -> None:
    data = path_graph()
    data[field] = value()
    with pytest.raises(EraseError):
        NodeTask.of(data)


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


def test_names_come_back_as_names_in_the_order_of_class_names() -> None:
    data = path_graph(y=["cat", "dog", "dog", "cat", "cat"], class_names=["dog", "cow", "cat"])
    task = NodeTask.from_data(data)
    assert task.y.tolist() == [2, 0, 0, -1, -1]
    assert task.label_values[task.y[task.train_mask]].tolist() == ["cat", "dog"]
    assert task.class_names == ("dog", "cow", "cat")
    assert task.notes == ("No training node has the class 'cow'.",)


def test_a_class_only_test_nodes_have_still_counts() -> None:
    task = NodeTask.from_data(path_graph(y=torch.tensor([0, 1, 1, 0, 7])))
    assert task.label_values.tolist() == [0, 1, 7]
    assert task.notes == ("No training node has the class '7'.",)


def test_many_classes_without_a_label_are_not_all_named() -> None:
    task = NodeTask.from_data(path_graph(num_classes=8))
    assert task.num_classes == 8
    assert task.notes == ("No training node has the class '2', '3', '4', '5', '6' and 1 more.",)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": torch.tensor([0, 1, 1, 0])}, "5 nodes and 4 labels|train_mask with one entry"),
        ({"x": None, "num_nodes": 6}, "6 nodes and 5 labels"),
        ({"node_names": ["a", "b"]}, "5 node_names.*2"),
    ],
)
def test_lengths_that_disagree_are_refused(changes: dict[str, Any], message: str) -> None:
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


def test_a_node_that_trains_and_validates_is_refused() -> None:
    message = "do not overlap; got 1 nodes in both, the first is node 1. Let each"
    with pytest.raises(EraseError, match=message):
        NodeTask.from_data(path_graph(val_mask=mask(1, 2)))


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
    with pytest.raises(EraseError, match=r"a HeteroData. Convert it: data.to_homogeneous\(\)"):
        NodeTask.of(HeteroData())
    with pytest.raises(EraseError, match="Pass a torch_geometric Data"):
        NodeTask.of((np.eye(2), np.eye(2)))
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
    assert task.label_values[task.y[seen]].tolist() == y[seen].tolist()
    assert bool((task.y[~seen] == -1).all())
    assert bool((task.y[seen] >= 0).all())
    assert task.label_values.tolist() == sorted({*labels} - {-1})
    assert bool(torch.isfinite(task.x.to_dense()).all())
    assert task.x.shape == (n, width or min(n, 256))
    if width:
        assert torch.equal(task.x.to_dense(), data.x.float())


def test_a_large_graph_is_checked_in_linear_time() -> None:
    n, e = 200_000, 2_000_000
    rng = np.random.default_rng(0)
    edges, y = rng.integers(0, n, (2, e)), rng.integers(0, 5, n)
    start = time.perf_counter()
    task = NodeTask.from_arrays(edges, y, x=np.ones((n, 4), np.float32))
    assert time.perf_counter() - start < 20  # seconds; a loop over edges takes minutes
    adjacency = sp.coo_matrix((np.ones(e), edges), shape=(n, n)).tocsr()
    both_ways = adjacency + adjacency.T
    assert task.num_edges == both_ways.nnz - np.count_nonzero(both_ways.diagonal())


def test_a_graph_to_predict_on_needs_no_labels() -> None:
    unlabelled = path_graph(y=None, train_mask=None, val_mask=None)
    with pytest.raises(EraseError, match=r"labels in data.y"):
        NodeTask.of(unlabelled)
    task = NodeTask.of(unlabelled, labelled=False)
    expected = NodeTask.of(path_graph())
    assert torch.equal(task.x, expected.x)
    assert torch.equal(task.edge_index, expected.edge_index)
    assert task.y.tolist() == [-1] * 5
    assert task.num_classes == 0
    assert not (task.train_mask | task.val_mask).any()


def test_labels_of_a_graph_to_predict_on_are_not_read() -> None:
    for graph in (path_graph(), path_graph(y=["wrong"]), NodeTask.of(path_graph())):
        task = NodeTask.of(graph, labelled=False)
        assert task.y.tolist() == [-1] * 5
        assert task.class_names == ()


@pytest.mark.parametrize("n", [2, 3])
def test_the_number_of_nodes_to_predict_on_comes_from_num_nodes_or_features(n: int) -> None:
    edges = torch.tensor([[0], [1]])
    assert NodeTask.of(Data(edge_index=edges, num_nodes=n), labelled=False).num_nodes == n
    assert NodeTask.of(Data(edge_index=edges, x=torch.ones(n, 1)), labelled=False).num_nodes == n
    with pytest.raises(EraseError, match="the number of nodes; got neither num_nodes nor x"):
        NodeTask.of(Data(edge_index=edges), labelled=False)


@pytest.mark.parametrize(
    "n", [0, -1, 2.5, float("nan"), "many", torch.ones(2), np.ma.masked, np.ma.array(3, mask=True)]
)
def test_an_odd_number_of_nodes_is_refused(n: Any) -> None:
    graph = Data(edge_index=torch.tensor([[0], [1]]))
    graph["num_nodes"] = n
    with pytest.raises(EraseError):
        NodeTask.of(graph, labelled=False)


def test_a_task_has_ids_and_names() -> None:
    task = NodeTask.of(path_graph(node_ids=[7, 8, 9, 10, 11], node_names=list("abcde")))
    assert task.node_ids == (7, 8, 9, 10, 11)
    assert task.node_names == ("a", "b", "c", "d", "e")
    with pytest.raises(EraseError, match="5 node_ids, one each; got 2"):
        NodeTask.of(path_graph(node_ids=[1, 2]))


def test_a_task_shows_its_sizes() -> None:
    task = NodeTask.of(path_graph())
    line = "<NodeTask: 5 nodes, 4 edges, 2 features, 2 classes, 2 training labels, 1 validation"
    assert repr(task) == f"{line} labels>"
    assert "<th>edges</th><td>4</td>" in task._repr_html_()
