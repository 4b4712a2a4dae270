"""`erase convert`: any graph into a folder and back, and the folder wherever a graph can be."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch

from data.test_folder import a_graph, same_graph
from erase.cli import main
from erase.data.datasets import DATASETS, load_dataset, write_dataset
from erase.data.files import read_graph, write_graph
from erase.data.folder import MANIFEST
from erase.data.task import NodeTask

SMALL = ["--set", "num_nodes=300", "--set", "num_classes=3", "--set", "num_features=30"]


def converted(*words: Any) -> dict[str, Any]:
    assert main(["convert", *map(str, words), "--quiet"]) == 0
    manifest: dict[str, Any] = json.loads((Path(words[1]) / MANIFEST).read_text())
    return manifest


def write_source(kind: str, folder: Path) -> Path:
    named = a_graph(y=["c", "ham", "añb", ""], node_names=["w", "x", "y", "z"])
    if kind == "pt":
        torch.save(a_graph().to_dict(), folder / "graph.pt")
    elif kind == "graphml":
        graph = nx.path_graph(4)
        for node, label in enumerate(["a", "b", "a", "b"]):
            graph.nodes[node].update(
                label=label, weight=0.5 + node, split=["train", "test"][node // 2]
            )
        nx.write_graphml(graph, folder / "graph.graphml")
    else:
        write_graph(named, folder / ("graph.npz" if kind == "npz" else "graph"))
    (path,) = folder.iterdir()
    return path


@pytest.mark.parametrize("kind", ["npz", "pt", "graphml", "tables"])
def test_every_kind_of_file_goes_to_a_folder_and_back(kind: str, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    source = write_source(kind, tmp_path / "source")
    converted(source, tmp_path / "folder")
    same_graph(read_graph(source), read_graph(tmp_path / "folder"))
    assert main(["convert", str(tmp_path / "folder"), str(tmp_path / "back.npz"), "--quiet"]) == 0
    same_graph(read_graph(source), read_graph(tmp_path / "back.npz"))


def test_a_dataset_is_converted_by_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["convert", "Debian", str(tmp_path / "debian"), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    spec = DATASETS["debian"]
    shape = [spec.num_nodes, spec.num_edges, spec.num_features, spec.num_classes]
    assert [summary[key] for key in ("nodes", "edges", "features", "classes")] == shape
    assert summary["bytes"] == sum(f.stat().st_size for f in (tmp_path / "debian").iterdir())
    same_graph(load_dataset("debian"), read_graph(tmp_path / "debian"))
    assert main(["convert", str(tmp_path / "debian"), str(tmp_path / "debian.npz")]) == 0
    assert "4,092 nodes, 15,306 edges, 2,757 features, 13 classes" in capsys.readouterr().out


def test_options_and_the_seed_reach_the_dataset(tmp_path: Path) -> None:
    converted("citations", tmp_path / "a", *SMALL, "--set", "dense=True", "--seed", 3)
    options: dict[str, Any] = {"num_nodes": 300, "num_classes": 3, "num_features": 30}
    expected = load_dataset("citations", seed=3, dense=True, **options)
    same_graph(expected, read_graph(tmp_path / "a"))
    assert main(["convert", "citations", str(tmp_path / "a.npz"), *SMALL, "--quiet"]) == 0
    same_graph(load_dataset("citations", **options), read_graph(tmp_path / "a.npz"))


@pytest.mark.parametrize("dense", [False, True])
def test_a_generated_folder_is_the_generated_graph(
    dense: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("erase.data.datasets.citation_graphs.BLOCK", 64)
    options: dict[str, Any] = {"num_nodes": 500, "num_features": 20, "train_share": 0.5}
    write_dataset("citations", tmp_path / "a", seed=1, dense=dense, **options)
    opened = read_graph(tmp_path / "a")
    assert "notes" not in opened
    monkeypatch.undo()
    same_graph(load_dataset("citations", seed=1, dense=dense, **options), opened)


def test_a_folder_can_be_fitted_and_audited(tmp_path: Path) -> None:
    converted("citations", tmp_path / "folder", *SMALL)
    assert main(["convert", "citations", str(tmp_path / "file.npz"), *SMALL, "--quiet"]) == 0
    scores = []
    for graph in ("folder", "file.npz"):
        shared = [str(tmp_path / graph), "--method", "erase", "--set", "epochs=2", "--quiet"]
        out = tmp_path / f"out {graph}"
        assert main(["fit", *shared, "--out", str(out), "--noise", "symmetric:0.3"]) == 0
        scores.append(json.loads((out / "summary.json").read_text())["scores"])
        audited = tmp_path / f"audit {graph}"
        assert main(["audit", *shared, "--out", str(audited), "--folds", "2"]) == 0
    assert "test_accuracy" in scores[0]
    assert scores[0] == scores[1]
    predictions = [tmp_path / f"audit {g}" / "issues.csv" for g in ("folder", "file.npz")]
    assert predictions[0].read_text() == predictions[1].read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["citations", "graph.pt"], "expected a folder or FILE.npz to write"),
        (["citations", "graph", "--set", "nodes=3"], "KEY among num_nodes, num_edges"),
        (["citations", "graph", "--set", "num_nodes=3"], "expected num_nodes in 7.."),
        (["graph.npz", "graph", "--set", "num_nodes=3"], "expected --set with a dataset"),
        (["nowhere", "graph"], "a dataset's name or a file"),
        (["cut", "graph"], "its writer did not finish"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_left(
    words: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    write_graph(a_graph(), "graph.npz")
    converted("graph.npz", "cut")
    Path("cut", MANIFEST).unlink()
    assert main(["convert", *words]) == 2
    assert message in capsys.readouterr().err
    assert sorted(os.listdir()) == ["cut", "graph.npz"]


MEASURE = """
import resource, sys
from erase.cli import main
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
before = peak()
main(sys.argv[1:])
print(peak() - before)
"""


def megabytes(*words: Any) -> float:
    """Return by how much a command raises the peak memory of a fresh process."""
    command = [sys.executable, "-c", MEASURE, *map(str, words)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout.split()[-1])


@pytest.mark.slow
def test_a_million_nodes_are_written_in_bounded_memory(tmp_path: Path) -> None:
    size = ["num_nodes=1000000", "num_edges=10000000", "num_classes=40", "num_features=128"]
    options = [word for each in [*size, "dense=true"] for word in ("--set", each)]
    assert megabytes("convert", "citations", tmp_path / "graph", *options) < 450
    assert (tmp_path / "graph" / "x.npy").stat().st_size > 512e6
    assert megabytes("convert", tmp_path / "graph", tmp_path / "again") < 1_300


@pytest.mark.parametrize("target", ["graph.npz", "graph"])
def test_misspelt_classes_are_told_and_a_file_can_merge_them(
    target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = ["company"] * 40 + ["COMPANY"] + ["shop"] * 19
    nodes = pd.DataFrame({"id": range(60), "label": labels, "x0": np.arange(60) % 7})
    (tmp_path / "tables").mkdir()
    nodes.to_csv(tmp_path / "tables" / "nodes.csv", index=False)
    pd.DataFrame({"source": range(59), "target": range(1, 60)}).to_csv(
        tmp_path / "tables" / "edges.csv", index=False
    )
    assert main(["convert", str(tmp_path / "tables"), str(tmp_path / target)]) == 0
    shown = capsys.readouterr()
    note = "Probably misspelt classes: 'COMPANY' (1) for 'company' (40)"
    assert note in shown.err
    assert "3 classes" in shown.out
    task = NodeTask.of(read_graph(tmp_path / target))
    assert task.class_names == ("COMPANY", "company", "shop")
    assert sum(note in each for each in task.notes) == 1
    if target.endswith(".npz"):
        merged = NodeTask.of(read_graph(tmp_path / target, merge_classes=True))
        assert merged.class_names == ("company", "shop")


def test_a_folder_with_sparse_features_is_opened_without_a_warning(tmp_path: Path) -> None:
    converted("citations", tmp_path / "graph", *SMALL)
    words = ["-c", f"import erase; erase.read_graph({str(tmp_path / 'graph')!r})"]
    done = subprocess.run([sys.executable, *words], check=True, capture_output=True, text=True)
    assert done.stderr == ""


def test_tables_without_the_label_column_named_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_source("tables", tmp_path)
    nodes = (source / "nodes.csv").read_text("utf-8")
    (source / "nodes.csv").write_text(nodes.replace("label", "kind", 1), encoding="utf-8")
    for name in ("folder", "graph.npz"):
        target = str(tmp_path / name)
        assert main(["convert", str(source), target]) == 0
        note = "Note: The graph has no labels. Name the column that holds them: --label COLUMN."
        assert note in capsys.readouterr().err.splitlines()
        for command in ("audit", "fit", "tune", "review"):
            assert main([command, target]) == 2
            error = capsys.readouterr().err
            assert f"a graph with labels; got {target!r}, which has none." in error
            assert "Convert its tables again with --label COLUMN" in error
    assert main(["convert", str(tmp_path / "folder"), str(tmp_path / "again")]) == 0
    assert "Note: The graph has no labels.\n" in capsys.readouterr().err
    assert main(["convert", str(source), str(tmp_path / "named"), "--label", "kind"]) == 0
    assert "no labels" not in capsys.readouterr().err
