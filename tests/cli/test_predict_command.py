"""`erase predict` as a user types it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import Data

import erase
from erase.cli import main, predict
from erase.data.folder import write_folder
from erase.methods import METHODS
from graphs import two_communities

SMALL = ["--set", "hidden=16", "--set", "heads=2", "--set", "epochs=5", "--device", "cpu"]


def summary(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    return content


@pytest.fixture
def whole() -> Data:
    data = two_communities()
    data.class_names = ["apple", "pear"]
    data.node_names = [f"node {i}" for i in range(80)]
    return data


@pytest.fixture
def model(whole: Data, tmp_path: Path) -> Path:
    """A model that was fitted on nine tenths of the nodes."""
    known = whole.subgraph(torch.arange(72))
    known.node_names = whole.node_names[:72]
    erase.write_graph(known, tmp_path / "known.npz")
    fit = ["fit", str(tmp_path / "known.npz"), "--method", "ce", "--out", str(tmp_path / "fit")]
    longer = ["--set", "epochs=40", "--set", "lr=0.01"]
    assert main([*fit, *SMALL, *longer, "--quiet"]) == 0
    return tmp_path / "fit" / "model.safetensors"


@pytest.mark.parametrize("form", ["graph.npz", "folder"])
def test_a_graph_with_new_nodes_is_predicted(
    form: str,
    model: Path,
    whole: Data,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(predict, "_ROWS_AT_ONCE", 30)
    graph, out = tmp_path / form, tmp_path / "out"
    (write_folder if form == "folder" else erase.write_graph)(whole, graph)
    assert main(["predict", str(model), str(graph), "--out", str(out), "--proba"]) == 0
    assert {path.name for path in out.iterdir()} == {"predictions.csv", "summary.json"}
    table = pd.read_csv(out / "predictions.csv")
    columns = ["node", "name", "predicted", "probability", "p(apple)", "p(pear)"]
    assert list(table) == columns
    assert table.node.tolist() == list(range(80))
    assert table.name.tolist() == whole.node_names
    proba = erase.load_model(model).predict_proba(whole)
    np.testing.assert_allclose(table[["p(apple)", "p(pear)"]], proba, atol=1e-6)
    assert table.predicted.tolist() == np.array(["apple", "pear"])[proba.argmax(1)].tolist()
    np.testing.assert_allclose(table.probability, proba.max(1), atol=1e-6)
    found = summary(out)
    assert np.mean(proba.argmax(1) == whole.y.numpy()) > 0.9
    assert found["nodes"] == 80
    assert found["method"] == "CrossEntropy"
    assert found["predicted"] == table.predicted.value_counts().to_dict()
    assert found["mean_probability"] == pytest.approx(table.probability.mean())
    assert "80 nodes" in capsys.readouterr().out


def test_a_graph_needs_no_labels(model: Path, whole: Data, tmp_path: Path) -> None:
    data = {"x": whole.x, "edge_index": whole.edge_index}
    torch.save(data, tmp_path / "bare.pt")
    out = tmp_path / "out"
    assert main(["predict", str(model), str(tmp_path / "bare.pt"), "--out", str(out)]) == 0
    assert list(pd.read_csv(out / "predictions.csv")) == ["node", "predicted", "probability"]
    folder = str(tmp_path / "folder")
    assert main(["convert", str(tmp_path / "bare.pt"), folder, "--quiet"]) == 0
    assert main(["predict", str(model), folder, "--out", str(tmp_path / "again")]) == 0
    again = (tmp_path / "again" / "predictions.csv").read_text()
    assert again == (out / "predictions.csv").read_text()


def test_tables_are_read_by_the_contract_of_the_fit(tmp_path: Path) -> None:
    kind = np.arange(40) % 2
    for folder, rows in (("today", 30), ("tomorrow", 40)):
        (tmp_path / folder).mkdir()
        nodes = pd.DataFrame({"id": [f"p{i}" for i in range(rows)]})
        nodes["age"] = 30.5 + 20 * kind[:rows] + np.arange(rows) / 50
        nodes["town"] = np.array(["Rome", "Oslo"])[kind[:rows]]
        if folder == "today":
            nodes["label"] = np.array(["cat", "dog"])[kind[:rows]]
        else:
            nodes.loc[39, "town"] = "Paris"
        nodes.to_csv(tmp_path / folder / "nodes.csv", index=False)
        ends = nodes.id.to_numpy()
        edges = pd.DataFrame({"source": ends[:-2], "target": ends[2:]})
        edges.to_csv(tmp_path / folder / "edges.csv", index=False)
    fit = ["fit", str(tmp_path / "today"), "--out", str(tmp_path / "fit"), "--device", "cpu"]
    assert main([*fit, "--quiet"]) == 0
    model, out = str(tmp_path / "fit" / "model.safetensors"), tmp_path / "out"
    assert main(["predict", model, str(tmp_path / "tomorrow"), "--out", str(out), "--json"]) == 0
    table = pd.read_csv(out / "predictions.csv")
    assert list(table)[:2] == ["node", "id"]
    assert table.id.tolist() == [f"p{i}" for i in range(40)]
    assert table.predicted.tolist() == np.array(["cat", "dog"])[kind].tolist()


@pytest.mark.parametrize("target", ["folder", "graph.npz"])
def test_tables_are_converted_for_a_model(
    target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kind = np.arange(40) % 2
    nodes = pd.DataFrame({"code": 500 - np.arange(40), "class": np.where(kind, "dog", "cat")})
    nodes["title"] = [f"Number {i}" for i in range(40)]
    nodes["about"] = [f"{'barks' if k else 'meows'} and eats {i % 5}" for i, k in enumerate(kind)]
    ends = nodes.code.to_numpy()
    edges = pd.DataFrame({"source": ends[:-2], "target": ends[2:], "strength": 2})
    for folder, rows in (("today", 30), ("tomorrow", 40)):
        (tmp_path / folder).mkdir()
        table = nodes[:rows] if folder == "today" else nodes.assign(height=kind + 0.5)
        table.to_csv(tmp_path / folder / "nodes.csv", index=False)
        edges[: rows - 2].to_csv(tmp_path / folder / "edges.csv", index=False)
    columns = ["--id", "code", "--label", "class", "--name", "title", "--weight", "strength"]
    fit = ["fit", str(tmp_path / "today"), *columns, "--method", "smoothed", "--device", "cpu"]
    assert main([*fit, "--out", str(tmp_path / "fit"), "--quiet"]) == 0
    model = str(tmp_path / "fit" / "model.safetensors")
    new, converted = str(tmp_path / "tomorrow"), str(tmp_path / target)
    assert main(["convert", new, converted, "--model", model, "--json"]) == 0
    output = capsys.readouterr()
    assert json.loads(output.out)["features"] == erase.load_model(model).contract_.width
    assert "Note: Columns that were not in the fit are ignored: 'height'." in output.err
    for graph, out in ((new, "direct"), (converted, "converted")):
        words = ["predict", model, graph, "--out", str(tmp_path / out), "--proba", "--quiet"]
        assert main(words) == 0
    direct, through = (
        pd.read_csv(tmp_path / out / "predictions.csv") for out in ("direct", "converted")
    )
    assert direct.id.tolist() == nodes.code.tolist()
    pd.testing.assert_frame_equal(direct, through)
    # without the model, the words of the new table count
    assert main(["convert", new, converted, *columns, "--quiet"]) == 0
    assert main(["predict", model, converted, "--out", str(tmp_path / "no")]) == 2
    error = capsys.readouterr().err
    assert "with 'height' besides. Make the features as those of the fit: erase convert" in error
    assert "TABLES FOLDER --model MODEL" in error


def test_a_model_converts_tables_and_has_to_know_some(
    model: Path, whole: Data, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    erase.write_graph(whole, tmp_path / "graph.npz")
    erase.write_graph(whole, tmp_path / "tables")
    target = str(tmp_path / "target")
    for graph in (str(tmp_path / "graph.npz"), "debian"):
        assert main(["convert", graph, target, "--model", str(model)]) == 2
        assert "expected a graph in tables, for --model" in capsys.readouterr().err
    assert main(["convert", str(tmp_path / "tables"), target, "--model", str(model)]) == 2
    assert "expected a model that was fitted on tables" in capsys.readouterr().err
    assert not Path(target).exists()


def test_what_cannot_be_predicted_is_explained(
    model: Path, whole: Data, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole.x = whole.x[:, 1:]
    erase.write_graph(whole, tmp_path / "other.npz")
    out = tmp_path / "out"
    assert main(["predict", str(model), str(tmp_path / "other.npz"), "--out", str(out)]) != 0
    assert "16 features, as in the fit" in capsys.readouterr().err
    assert not (out / "predictions.csv").exists()
    assert main(["predict", str(tmp_path / "other.npz"), str(tmp_path / "other.npz")]) != 0
    assert "safetensors" in capsys.readouterr().err
    assert main(["predict", str(tmp_path / "none.safetensors"), str(tmp_path / "other.npz")]) != 0
    assert "expected a model file" in capsys.readouterr().err


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_has_the_command(name: str, whole: Data, tmp_path: Path) -> None:
    erase.write_graph(whole, tmp_path / "graph.npz")
    known = METHODS[name]().get_params()
    options = [part for part in SMALL if part == "--set" or part.split("=")[0] in known]
    settings = [part for part in options if part != "--set"]
    fit = ["fit", str(tmp_path / "graph.npz"), "--method", name, "--out", str(tmp_path / "fit")]
    fit += [word for setting in settings for word in ("--set", setting)]
    assert main([*fit, "--device", "cpu", "--quiet"]) == 0
    model, out = str(tmp_path / "fit" / "model.safetensors"), tmp_path / "out"
    again = ["predict", model, str(tmp_path / "graph.npz"), "--out", str(out), "--quiet"]
    assert main(again) == 0
    before = pd.read_csv(tmp_path / "fit" / "predictions.csv")
    after = pd.read_csv(out / "predictions.csv")
    assert before.predicted.tolist() == after.predicted.tolist()
    np.testing.assert_allclose(before.probability, after.probability, atol=1e-5)
