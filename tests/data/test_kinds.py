"""Every function that takes a graph takes every kind of it, and returns the kind it was given."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import Data

import erase
from erase.data.labels import encode_labels
from erase.data.task import NodeTask
from erase.errors import EraseError
from erase.methods import METHODS, LabelPropagation
from graphs import two_communities

NAMES = np.array(["apple", "pear", "plum"])


def arrays() -> Data:
    """Return 90 labelled nodes and 30 test nodes whose labels are known."""
    source = two_communities(size=40, classes=3)
    edges, x = source.edge_index, source.x
    graph = erase.from_arrays(
        edges, NAMES[source.y], x, train=source.train_mask, val=source.val_mask
    )
    graph.node_names = [f"n{i}" for i in range(120)]
    return graph


def tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    graph = arrays()
    split = np.where(graph.train_mask, "train", np.where(graph.val_mask, "val", "test"))
    nodes = pd.DataFrame({"id": graph.node_names, "label": graph.y, "split": split})
    features = pd.DataFrame(graph.x.numpy(), columns=[f"x{j}" for j in range(graph.x.size(1))])
    source, target = np.array(graph.node_names)[graph.edge_index.numpy()]
    return nodes.join(features), pd.DataFrame({"source": source, "target": target})


def networkx_graph() -> nx.Graph:
    nodes, edges = tables()
    graph = nx.Graph()
    for row in nodes.to_dict("records"):
        graph.add_node(row.pop("id"), **row)
    graph.add_edges_from(edges.to_numpy().tolist())
    return graph


KINDS: dict[str, Callable[[], Any]] = {
    "Data": arrays,
    "NodeTask": lambda: NodeTask.of(arrays()),
    "networkx": networkx_graph,
    "tables": tables,
    "from_networkx": lambda: erase.from_networkx(networkx_graph()),
    "from_tables": lambda: erase.from_tables(*tables()),
}
every_kind = pytest.mark.parametrize("graph", [make() for make in KINDS.values()], ids=list(KINDS))


def given(graph: Any) -> torch.Tensor:
    return NodeTask.of(graph).y


@every_kind
def test_every_kind_is_one_graph(graph: Any) -> None:
    task, expected = NodeTask.of(graph), NodeTask.of(arrays())
    assert torch.equal(task.edge_index, expected.edge_index)
    assert torch.equal(task.x.to_dense(), expected.x.to_dense())
    assert torch.equal(task.y, expected.y)
    assert task.class_names == expected.class_names


@every_kind
def test_every_kind_is_fitted_and_audited(graph: Any) -> None:
    model = LabelPropagation().fit(graph)
    assert model.score(arrays()) > 0.8
    expected = LabelPropagation().fit(arrays()).predict()
    np.testing.assert_array_equal(model.predict(), expected)
    assert len(erase.audit(graph, method="label-propagation").issues) == 90


@every_kind
def test_every_kind_is_scored(graph: Any) -> None:
    model = LabelPropagation().fit(arrays())
    if isinstance(graph, NodeTask):
        with pytest.raises(EraseError, match=r"labels to compare predictions with"):
            model.score(graph)
    else:
        assert model.score(graph) == model.score(arrays())


@every_kind
@pytest.mark.parametrize("noise", ["symmetric", "instance"])
def test_every_kind_is_corrupted_and_stays_what_it_is(noise: str, graph: Any) -> None:
    before = given(graph).clone()
    noisy = erase.corrupt(graph, noise, 0.3, seed=1)
    assert type(noisy) is type(graph)
    expected = erase.corrupt(arrays(), noise, 0.3, seed=1)
    assert torch.equal(given(noisy), given(expected))
    assert (given(noisy) != before).sum() > 5
    assert torch.equal(given(graph), before)
    if not isinstance(graph, NodeTask):
        assert bool((encode_labels(expected)[0][90:] == -1).all())
    assert NodeTask.of(noisy).num_edges == NodeTask.of(graph).num_edges


@every_kind
def test_every_kind_is_cleaned_and_stays_what_it_is(graph: Any) -> None:
    noisy = erase.corrupt(graph, "symmetric", 0.3, seed=1)
    found = erase.audit(noisy, method="label-propagation")
    clean = found.clean_graph(noisy)
    assert type(clean) is type(graph)
    data = erase.corrupt(arrays(), "symmetric", 0.3, seed=1)
    assert torch.equal(given(clean), given(found.clean_graph(data)))
    assert found.decision.is_issue.sum() > 5
    assert not torch.equal(given(clean), given(noisy))


@every_kind
def test_every_kind_is_written(graph: Any, tmp_path: Path) -> None:
    erase.write_graph(graph, tmp_path / "graph.npz")
    erase.write_graph(graph, tmp_path / "tables")
    erase.write_folder(graph, tmp_path / "folder")
    for written in ("graph.npz", "tables", "folder"):
        task = NodeTask.of(erase.read_graph(tmp_path / written))
        assert torch.equal(task.y, given(arrays()))
        assert torch.equal(task.edge_index, NodeTask.of(arrays()).edge_index)


def test_labels_are_written_as_the_graph_writes_them() -> None:
    graph = networkx_graph()
    number = {"apple": 7, "pear": 8, "plum": 9}
    for attributes in graph.nodes.values():
        attributes["label"] = number[attributes["label"]]
    noisy = erase.corrupt(graph, "pair", 0.5)
    labels = [attributes.get("label") for attributes in noisy.nodes.values()]
    assert set(labels) == {7, 8, 9, None}
    assert labels[90:] == [None] * 30
    nodes, edges = tables()
    nodes = nodes.assign(label=nodes["label"].map(number))
    column = erase.corrupt((nodes, edges), "pair", 0.5)[0]["label"]
    assert column.isna().tolist() == [False] * 90 + [True] * 30
    assert column[:90].tolist() == labels[:90]


def test_a_task_becomes_a_graph_and_a_task_again() -> None:
    data = arrays()
    data.edge_weight = torch.rand(data.edge_index.size(1))
    data.directed = True
    task = NodeTask.of(data)
    again = NodeTask.of(task.to_data())
    for name in ("x", "edge_index", "y", "train_mask", "val_mask", "edge_weight", "edge_is_given"):
        assert torch.equal(getattr(task, name), getattr(again, name)), name
    assert (again.node_names, again.class_names) == (task.node_names, task.class_names)
    assert again.feature_contract == task.feature_contract


def test_every_method_is_imported_by_its_name() -> None:
    from erase import methods

    for method in METHODS.values():
        assert getattr(methods, method.__name__) is method
        assert method.__name__ in methods.__all__
