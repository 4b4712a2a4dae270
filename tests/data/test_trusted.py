"""Trusted labels: read from every kind of graph, checked, kept apart from the given ones."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import Data

import erase
from erase.data.kinds import relabelled
from erase.data.labels import encode_labels
from erase.data.noise import corrupt
from erase.data.task import NodeTask, fingerprint
from erase.errors import EraseError

EDGES = [[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]]
X = np.arange(12, dtype=np.float32).reshape(6, 2)


def _graph(**fields: Any) -> Data:
    usual: dict[str, Any] = {
        "edge_index": torch.tensor(EDGES),
        "x": torch.from_numpy(X),
        "y": torch.tensor([0, 1, 0, 1, 0, -1]),
        "trusted": torch.tensor([1, -1, 0, -1, -1, 2]),
    }
    return Data(**(usual | fields))


def _named() -> Data:
    return erase.from_arrays(
        EDGES,
        ["a", "b", "a", "b", "a", None],
        X,
        trusted=["b", None, "a", None, None, "c"],
        trusted_random=[0, 5],
    )


def test_trusted_labels_stand_beside_the_given_ones() -> None:
    task = NodeTask.from_data(_graph())
    assert task.y.tolist() == [0, 1, 0, 1, 0, 2]  # the last node has no other label
    assert task.trusted is not None
    assert task.trusted.tolist() == [1, -1, 0, -1, -1, 2]
    assert task.learning_labels.tolist() == [1, 1, 0, 1, 0, 2]
    assert task.class_names == ("0", "1", "2")
    assert task.trusted_random is None
    assert "3 trusted labels" in repr(task)


@pytest.mark.parametrize("kind", [np.array, list, torch.tensor])
def test_a_mask_confirms_the_given_labels(kind: Any) -> None:
    task = NodeTask.from_data(_graph(trusted=kind([True, True, False, False, False, False])))
    assert task.trusted is not None
    assert task.trusted.tolist() == [0, 1, -1, -1, -1, -1]


def test_a_graph_without_trusted_labels_has_none() -> None:
    for graph in (_graph(trusted=None), _graph(trusted=torch.full((6,), -1))):
        task = NodeTask.from_data(graph)
        assert task.trusted is None
        assert task.learning_labels is task.y
        assert "trusted" not in repr(task)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"trusted": torch.tensor([0, 1])}, "each of 6 nodes; got 2 entries.*as long as y"),
        ({"trusted": torch.tensor([-2, 0, 0, 0, 0, 0])}, "trusted label -2 at node 0"),
        ({"num_classes": 2}, r"labels in 0\.\.1.*trusted label 2 at node 5"),
        ({"trusted": ["b", "a", "a", "a", "a", ""]}, "class numbers, as y.*got class names"),
        ({"trusted": torch.ones(6, dtype=torch.bool)}, "label in y at every.*none at node 5"),
        ({"trusted": torch.zeros(6, 2)}, r"trusted of shape \[N\]; got shape \[6, 2\]"),
        ({"trusted_random": torch.tensor([1])}, "trusted_random; got none at node 1"),
        ({"trusted": None, "trusted_random": torch.tensor([1])}, "trusted beside trusted_random"),
        (
            {"y": ["a"] * 6, "trusted": ["x"] * 6, "class_names": ["a", "b"]},
            "trusted label 'x' at node 0",
        ),
    ],
)
def test_wrong_trusted_labels_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(EraseError, match=message):
        NodeTask.from_data(_graph(**fields))


def test_trusted_labels_of_test_nodes_are_dropped() -> None:
    train = torch.tensor([True, True, True, True, False, False])
    task = NodeTask.from_data(_graph(train_mask=train))
    assert task.trusted is not None
    assert task.trusted.tolist() == [1, -1, 0, -1, -1, -1]
    assert task.y.tolist() == [0, 1, 0, 1, -1, -1]
    assert "1 trusted labels outside training and validation are not used." in task.notes
    with pytest.raises(EraseError, match="y = -1 outside"):
        replace(task, trusted=torch.ones(6, dtype=torch.long))


def test_a_task_without_labels_has_no_trusted_ones() -> None:
    val = torch.tensor([True, False, False, False, False, True])
    random = torch.tensor([True, False, False, False, False, False])
    task = NodeTask.from_data(_graph(val_mask=val, trusted_random=random))
    training = task.without_validation()
    assert training.trusted is not None
    assert training.trusted.tolist() == [-1, -1, 0, -1, -1, -1]
    assert training.trusted_random is not None
    assert not training.trusted_random.any()
    removed = task.with_classes(torch.tensor([1, 1, -1, 1, 0, -1]))
    assert removed.trusted is not None
    assert removed.trusted.tolist() == [1, -1, -1, -1, -1, -1]
    assert task.without_labels().trusted is None
    assert fingerprint([task]) != fingerprint([NodeTask.from_data(_graph(val_mask=val))])


@pytest.mark.parametrize("target", ["graph.npz", "csv", "parquet", "folder", "graph.pt"])
@pytest.mark.parametrize("named", [True, False])
def test_files_keep_trusted_labels(target: str, named: bool, tmp_path: Path) -> None:
    """Class numbers with gaps keep their numbers, names their names."""
    numbers = _graph(y=torch.tensor([10, 20, 10, 20, 10, -1]))
    numbers.trusted = torch.tensor([20, -1, 10, -1, -1, 30])
    graph = _named() if named else numbers
    path = tmp_path / target
    if target == "folder":
        erase.write_folder(graph, path)
    elif target == "graph.pt":
        lists = {key: np.asarray(graph[key]).tolist() for key in ("y", "trusted")}  # plain values
        torch.save(graph.to_dict() | lists, path)
    else:
        erase.write_graph(graph, path, tables="parquet" if target == "parquet" else "csv")
    task, before = NodeTask.of(erase.read_graph(path)), NodeTask.of(graph)
    assert task.trusted is not None
    assert before.trusted is not None
    assert task.trusted.tolist() == before.trusted.tolist()
    assert task.y.tolist() == before.y.tolist()
    assert task.label_values.tolist() == before.label_values.tolist()
    assert task.num_features == 2
    if named:
        assert task.trusted_random is not None
        assert task.trusted_random.tolist() == [True, False, False, False, False, True]
    again = NodeTask.of(task.to_data())
    assert fingerprint([again]) == fingerprint([task])


def _tables(**columns: Any) -> tuple[pd.DataFrame, pd.DataFrame]:
    nodes = pd.DataFrame({"id": range(6), "label": ["a", "b", "a", "b", "a", None], **columns})
    return nodes.assign(x0=X[:, 0]), pd.DataFrame({"source": EDGES[0], "target": EDGES[1]})


def test_columns_of_a_table_are_trusted_labels_and_no_features() -> None:
    trusted, random = ["b", None, "a", None, None, "c"], [True, None, "false", None, None, "TRUE"]
    nodes, edges = _tables(trusted=trusted, trusted_random=random)
    graph = nx.Graph(list(zip(*EDGES, strict=True)))
    for i, row in enumerate(nodes.drop(columns="id").to_dict("records")):
        graph.nodes[i].update({key: value for key, value in row.items() if not pd.isna(value)})
    renamed = nodes.rename(columns={"trusted": "checked", "trusted_random": "sample"})
    options = {"trusted": "checked", "trusted_random": "sample"}
    for task in (
        NodeTask.of((nodes, edges)),
        NodeTask.of(graph),
        NodeTask.from_tables(renamed, edges, **options),
    ):
        assert task.trusted is not None
        assert task.trusted.tolist() == [1, -1, 0, -1, -1, 2]
        assert task.trusted_random is not None
        assert task.trusted_random.tolist() == [True, False, False, False, False, True]
        assert task.num_features == 1
    with pytest.raises(EraseError, match="a column 'checked'"):
        NodeTask.from_tables(nodes, edges, trusted="checked")
    with pytest.raises(EraseError, match="true or false in the column 'trusted_random'; got 'x'"):
        NodeTask.of((nodes.assign(trusted_random="x"), edges))


def test_a_column_of_true_and_false_confirms_labels_unless_these_are_the_classes() -> None:
    nodes, edges = _tables(trusted=["true", None, "false", "True", "", None])
    task = NodeTask.of((nodes, edges))
    assert task.trusted is not None
    assert task.trusted.tolist() == [0, -1, -1, 1, -1, -1]
    words = nodes.assign(label=["true", "false", "true", "false", "true", None])
    task = NodeTask.of((words.assign(trusted=["false", None, "true", None, None, None]), edges))
    assert task.trusted is not None
    assert task.class_names == ("false", "true")
    assert task.trusted.tolist() == [0, -1, 1, -1, -1, -1]


def test_a_csv_with_one_class_name_among_numbers_has_names(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("id,label,trusted\n1,1,2x\n2,2,\n3,1,1\n")
    (tmp_path / "edges.csv").write_text("source,target\n1,2\n2,3\n")
    assert NodeTask.of(erase.read_graph(tmp_path)).class_names == ("1", "2", "2x")
    (tmp_path / "nodes.csv").write_text("id,label,trusted\n1,1,true\n2,2,\n3,1,false\n")
    task = NodeTask.of(erase.read_graph(tmp_path))
    assert task.label_values.tolist() == [1, 2]
    assert task.trusted is not None
    assert task.trusted.tolist() == [0, -1, -1]


def test_other_labels_leave_trusted_ones_as_they_are() -> None:
    """A mask confirms the labels it was given for: noise on these does not change what it says."""
    mask = torch.tensor([True, True, False, False, False, False])
    nodes, edges = _tables(trusted=[True, True, None, None, None, None])
    graph = nx.Graph(list(zip(*EDGES, strict=True)))
    for i, row in enumerate(nodes.drop(columns="id").to_dict("records")):
        graph.nodes[i].update({key: value for key, value in row.items() if not pd.isna(value)})
    task = NodeTask.of(_graph(trusted=mask))
    every: tuple[Any, ...] = (_graph(trusted=mask), task, (nodes, edges), graph)
    for each in every:
        noisy = NodeTask.of(corrupt(each, np.array([[0, 1], [1, 0]])))
        assert noisy.y.tolist() == [1, 0, 1, 0, 1, -1]
        assert noisy.trusted is not None
        assert noisy.trusted.tolist() == [0, 1, -1, -1, -1, -1]
    data = _named()
    y, names, values = encode_labels(data)
    cleaned = NodeTask.of(relabelled(data, y, np.array([1, 1, 0, 1, 0, 2]), names, values))
    assert cleaned.trusted is not None
    assert cleaned.trusted.tolist() == [1, -1, 0, -1, -1, 2]


def test_misspelt_trusted_classes_are_merged_with_the_labels() -> None:
    y = ["government"] * 30 + ["company"] * 30 + ["goverment"]
    trusted = ["goverment"] + [None] * 60
    graph = erase.from_arrays([[0], [1]], y, trusted=trusted, merge_classes=True)
    task = NodeTask.of(graph)
    assert task.class_names == ("company", "government")
    assert task.num_trusted == 1
