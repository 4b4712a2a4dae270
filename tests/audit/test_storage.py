"""A saved audit is loaded as it was, and continues to work."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch

import erase
from erase.audit import Decision
from erase.audit.storage import save_audit
from erase.data.files import load_arrays, save_arrays
from erase.errors import EraseError
from graphs import meaningless_graph, two_communities


def named_numbers() -> Any:
    graph = two_communities(size=40, classes=3)
    graph.y = torch.tensor([10, 200, 3000])[graph.y]
    graph.node_names = [f"node “{i}”" for i in range(120)]
    graph.node_ids = list(range(1000, 1120))
    return graph


def networkx_graph() -> Any:
    graph = nx.barbell_graph(20, 0)
    labels = ["left"] * 20 + ["right"] * 20
    labels[2] = "right"
    nx.set_node_attributes(graph, dict(enumerate(labels)), "label")
    return graph


GRAPHS = {
    "plain": two_communities,
    "named": named_numbers,
    "networkx": networkx_graph,
    "meaningless": meaningless_graph,
}


@pytest.mark.parametrize("kind", GRAPHS)
@pytest.mark.parametrize("method", ["label-propagation", "ce"])
def test_a_loaded_audit_is_the_one_that_was_saved(kind: str, method: str, tmp_path: Path) -> None:
    graph = GRAPHS[kind]()
    model = erase.methods.build_method(method, device="cpu")
    if method == "ce":
        model.set_params(epochs=3, hidden=8, heads=2)
    found = erase.audit(graph, method=model, folds=3)
    found.save(tmp_path / "audit")
    for path in (tmp_path / "audit", tmp_path / "audit" / "audit.safetensors"):
        again = erase.load_audit(path)
        pd.testing.assert_frame_equal(again.issues, found.issues)
        for each in fields(Decision):
            mine, theirs = getattr(again.decision, each.name), getattr(found.decision, each.name)
            np.testing.assert_array_equal(mine, theirs)
            assert np.asarray(mine).dtype == np.asarray(theirs).dtype
        for name in ("label_values", "pred_probs", "given", "embedding", "edge_index"):
            np.testing.assert_array_equal(getattr(again, name), getattr(found, name))
        for name in ("class_names", "node_names", "node_ids", "notes", "settings", "seconds"):
            assert getattr(again, name) == getattr(found, name)
        np.testing.assert_equal(again.summary(), found.summary())
        assert repr(again) == repr(found)
        np.testing.assert_array_equal(
            again.clean_labels(force=True), found.clean_labels(force=True)
        )


@pytest.mark.parametrize("kind", ["plain", "named", "networkx"])
def test_a_loaded_audit_cleans_the_graph_and_writes_the_page(kind: str, tmp_path: Path) -> None:
    graph = GRAPHS[kind]()
    if kind != "networkx":
        graph = erase.corrupt(graph, "symmetric", 0.2, on="train+val")
    found = erase.audit(graph, method="label-propagation")
    found.save(tmp_path)
    again = erase.load_audit(tmp_path)
    for each, name in ((found, "first.html"), (again, "second.html")):
        each.to_html(tmp_path / name)
    assert (tmp_path / "first.html").read_bytes() == (tmp_path / "second.html").read_bytes()
    mine, theirs = (each.clean_graph(graph, force=True) for each in (again, found))
    assert type(mine) is type(graph)
    read = erase.NodeTask.of
    assert torch.equal(read(mine).y, read(theirs).y)
    assert not torch.equal(read(mine).y, read(graph).y)


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(EraseError, match="an existing file or folder"):
        erase.load_audit(tmp_path)
    erase.methods.LabelPropagation().fit(two_communities()).save(tmp_path / "model.safetensors")
    with pytest.raises(EraseError, match="which holds a model, not an audit"):
        erase.load_audit(tmp_path / "model.safetensors")
    save_arrays(tmp_path / "audit.safetensors", {}, {"kind": "audit", "format": 99})
    with pytest.raises(EraseError, match=r"format 99.*update erase"):
        erase.load_audit(tmp_path)


def test_ids_join_corrected_labels_with_the_users_table(tmp_path: Path) -> None:
    nodes = pd.DataFrame({"id": [f"{i:03}" for i in range(40)], "label": [*"a" * 20, *"b" * 20]})
    nodes.loc[3, "label"] = None
    nodes.loc[2, "label"] = "b"
    edges = pd.DataFrame(nx.barbell_graph(20, 0).edges, columns=["source", "target"])
    edges = edges.apply(lambda end: end.map(nodes["id"]))
    found = erase.audit((nodes, edges), method="label-propagation")
    assert list(found.issues)[:3] == ["node", "id", "name"]
    found.save(tmp_path)
    clean = pd.read_csv(tmp_path / "labels_clean.csv", dtype=str)
    assert clean["id"].tolist() == nodes["id"].drop(3).tolist()
    joined = nodes.drop(columns="label").merge(clean[["id", "label"]], on="id", how="left")
    assert joined["label"].fillna("").tolist() == [*"aaa", "", *"a" * 16, *"b" * 20]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("decision/quality", np.nan),
        ("decision/posterior", -0.5),
        ("decision/transition", np.inf),
        ("decision/transition_low", np.nan),
        ("embedding", np.nan),
        ("pred_probs", 0.9),
        ("threshold", 7.0),
        ("expected_false_alarms", -1.0),
    ],
)
def test_numbers_that_are_no_probabilities_are_refused(
    name: str, value: float, tmp_path: Path
) -> None:
    erase.audit(two_communities(size=10), method="label-propagation").save(tmp_path)
    arrays, metadata = load_arrays(tmp_path / "audit.safetensors")
    if name in metadata:
        metadata[name] = value
    else:
        arrays[name].view(-1)[0] = value
    save_arrays(tmp_path / "audit.safetensors", arrays, metadata)
    with pytest.raises(EraseError, match="numbers that are not probabilities"):
        erase.load_audit(tmp_path)


def test_an_audit_that_does_not_say_what_is_contradicted_is_read(tmp_path: Path) -> None:
    found = erase.audit(two_communities(size=10), method="label-propagation")
    found.save(tmp_path)
    arrays, metadata = load_arrays(tmp_path / "audit.safetensors")
    del arrays["decision/contradicted"]
    save_arrays(tmp_path / "audit.safetensors", arrays, metadata)
    again = erase.load_audit(tmp_path)
    assert not again.decision.contradicted.any()
    assert again.issues.equals(found.issues)


def test_a_model_and_an_audit_are_not_taken_for_each_other(tmp_path: Path) -> None:
    graph = two_communities(size=10)
    model, audit = tmp_path / "model.safetensors", tmp_path / "audit.safetensors"
    erase.CrossEntropy(epochs=1, hidden=4, heads=1).fit(graph).save(model)
    save_audit(erase.audit(graph, method="label-propagation"), audit)
    with pytest.raises(EraseError, match=r"an audit, .*which holds a model, not an audit"):
        erase.load_audit(model)
    with pytest.raises(EraseError, match=r"a model file, .*which holds an audit, not a model"):
        erase.load_model(audit)
    (tmp_path / "predictions.csv").write_text("node,predicted\n0,a\n")
    with pytest.raises(EraseError, match=r"a model file, .*, which is no model file"):
        erase.load_model(tmp_path / "predictions.csv")
    model.write_bytes(model.read_bytes()[:100])
    with pytest.raises(EraseError, match="It may be cut short"):
        erase.load_model(model)
