"""Arrays, networkx graphs and tables become the graph they describe."""

from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch

from conftest import path_graph, rare_features
from erase.errors import EraseError
from erase.task import NodeTask

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


def test_arrays_torch_dislikes_are_taken() -> None:
    """Read-only, reversed and big-endian arrays come from files, slices and pandas."""
    x = np.arange(1.0, 11.0, dtype=">f8").reshape(5, 2)[::-1]
    y = np.array([0, 1, 1, 0, 1], dtype=">i4")
    y.flags.writeable = False
    task = NodeTask.from_arrays(np.array(EDGES)[::-1], y, x, train=np.array([1, 0])[::-1])
    assert task.x[0].tolist() == [9.0, 10.0]
    assert task.y.tolist() == [0, 1, -1, -1, -1]
    assert task.edge_index.tolist() == NodeTask.from_data(path_graph()).edge_index.tolist()


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
