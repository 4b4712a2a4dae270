"""The options that say which column of a table is what, on every command that reads GRAPH."""

import csv
import json
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import erase
from erase.cli import main
from erase.data.files import read_json
from erase.data.folder import write_folder
from erase.display import table_words
from erase.errors import EraseError
from graphs import two_communities

CLASSES = ["apple", "pear", "plum"]
COLUMNS = ["--id", "code", "--name", "title", "--label", "kind", "--source", "a", "--target", "b"]
QUICK = ["--method", "label-propagation", "--device", "cpu", "--quiet"]
# what each option is in Python, beside COLUMNS
CHOICES: list[tuple[list[str], dict[str, Any]]] = [
    (["--features", "x0, x1"], {"features": ["x0", "x1"]}),
    (["--features", ""], {"features": []}),
    (["--features", 'x0,"size, in m"'], {"features": ["x0", "size, in m"]}),
    (["--text", "part"], {"text": ["part"]}),
    (["--split", "part"], {"split": "part"}),
    (["--trusted", "kind"], {"trusted": "kind"}),
    (["--weight", "strength"], {"weight": "strength"}),
    (["--weight", "strength", "--no-weights"], {"weight": "strength", "no_weights": True}),
    (["--directed"], {"directed": True}),
    (["--merge-classes"], {"merge_classes": True}),
    (["--separator", ";"], {"separator": ";"}),
]


def write_tables(folder: Path, size: int = 40, separator: str = ";") -> Path:
    """Write communities of three classes as tables whose columns have names of their own."""
    data = two_communities(size=size, classes=3)
    folder.mkdir(parents=True)
    with (folder / "nodes.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, delimiter=separator)
        rows.writerow(["kind", "code", "title", "part", "size, in m", "x0", "x1"])
        for i, label in enumerate(data.y.tolist()):
            kind = "Plum" if i == 2 * size else CLASSES[label]
            part = ("train", "val", "test", "")[i % 4]
            title = f"{'red' if i % 2 else 'green'} thing of garden number {i}"
            rows.writerow([kind, f"n{i:03}", title, part, i % 7, *data.x[i, :2].tolist()])
    with (folder / "edges.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, delimiter=separator)
        rows.writerow(["strength", "a", "b"])
        rows.writerows(
            (1 + i % 3, f"n{a:03}", f"n{b:03}")
            for i, (a, b) in enumerate(data.edge_index.T.tolist())
        )
    return folder


def arrays(file: Path) -> dict[str, Any]:
    with np.load(file) as content:
        found = {key: content[key].tolist() for key in content.files}
    contract = json.loads(found.pop("feature_contract", "{}"))
    del contract["reading"]  # the options themselves
    return found | {"contract": contract}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_tables(tmp_path / "garden")


@pytest.mark.parametrize(("words", "chosen"), CHOICES, ids=lambda value: str(value))
def test_each_option_is_the_argument_of_its_name(
    words: list[str], chosen: dict[str, Any], folder: Path, tmp_path: Path
) -> None:
    columns = {"id": "code", "name": "title", "label": "kind", "source": "a", "target": "b"}
    target = tmp_path / "graph.npz"
    assert main(["convert", str(folder), str(target), *COLUMNS, *words, "--quiet"]) == 0
    erase.write_graph(erase.read_graph(folder, **columns, **chosen), tmp_path / "python.npz")
    ours, theirs = arrays(target), arrays(tmp_path / "python.npz")
    assert ours["node_ids"][:2] == ["n000", "n001"]
    assert ours == theirs
    erase.write_graph(erase.read_graph(folder, **columns), tmp_path / "plain.npz")
    # the separator is found without the option, and weights are not read without theirs
    is_found = "separator" in chosen or "no_weights" in chosen
    assert (arrays(tmp_path / "plain.npz") == ours) == is_found


def test_every_command_takes_them(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = [str(folder), *COLUMNS, "--weight", "strength"]
    chosen = {"id": "code", "name": "title", "label": "kind", "source": "a", "target": "b"}
    chosen["weight"] = "strength"
    assert main(["fit", *graph, *QUICK, "--out", str(tmp_path / "fit")]) == 0
    fitted = read_json(tmp_path / "fit" / "summary.json")
    assert fitted["tables"] == chosen
    assert "'size, in m'" in next(note for note in fitted["notes"] if "Features: " in note)
    model = str(tmp_path / "fit" / "model.safetensors")
    assert main(["predict", model, *graph, "--out", str(tmp_path / "new"), "--quiet"]) == 0
    assert read_json(tmp_path / "new" / "summary.json")["tables"] == chosen
    assert main(["audit", *graph, *QUICK, "--out", str(tmp_path / "audit")]) == 0
    audited = read_json(tmp_path / "audit" / "summary.json")
    assert audited["settings"]["tables"] == chosen
    used = next(note for note in audited["notes"] if note.startswith("Features: "))
    assert used.replace("'", "&#39;") in (tmp_path / "audit" / "report.html").read_text("utf-8")
    capsys.readouterr()
    tune = ["tune", *graph, *QUICK[:-1], "--split", "part", "--trials", "1", "--seeds", "1"]
    assert main([*tune, "--space", "steps=1:2", "--out", str(tmp_path / "tune")]) == 0
    command = capsys.readouterr().out.splitlines()[-1]
    assert command.startswith(f"erase fit {folder} --id code --name title --label kind ")
    assert "--split part" in command


def test_the_words_of_options_are_read_back(folder: Path) -> None:
    tables = {"features": ["x0", "size, in m"], "separator": "\t", "directed": True}
    words = ["--features", 'x0,"size, in m"', "--separator", "\\t", "--directed"]
    assert table_words(tables) == words


def test_the_printed_review_has_the_options_of_the_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_tables(tmp_path / "my garden")
    out = tmp_path / "audit"
    assert main(["audit", str(folder), *COLUMNS, *QUICK[:-1], "--out", str(out)]) == 0
    tables = "--id code --name title --label kind --source a --target b"
    command = f"erase review '{folder}' {tables} --strategy random"
    assert command in capsys.readouterr().out
    page = unescape((out / "report.html").read_text("utf-8"))
    assert command in page
    assert main(["fit", str(folder), *COLUMNS, "--clean", "--out", str(tmp_path / "fit")]) == 0
    assert command in capsys.readouterr().err


def test_a_tab_can_be_written_in_a_shell(tmp_path: Path) -> None:
    folder = write_tables(tmp_path / "tabs", separator="\t")
    out = str(tmp_path / "graph")
    assert main(["convert", str(folder), out, *COLUMNS, "--separator", "\\t", "--quiet"]) == 0


def test_missing_values_are_refused_on_request(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = folder / "nodes.csv"
    file.write_text(file.read_text().replace(";0;", ";;", 1))
    convert = ["convert", str(folder), str(tmp_path / "graph"), *COLUMNS, "--quiet"]
    assert main([*convert, "--strict"]) == 2
    assert "or leave out --strict, and gaps get" in capsys.readouterr().err
    assert main(convert) == 0


def test_a_model_keeps_its_features(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = [str(folder), *COLUMNS, "--features", "x0,x1"]
    smoothed = ["--method", "smoothed", *QUICK[2:]]
    assert main(["fit", *graph, *smoothed, "--out", str(tmp_path / "fit")]) == 0
    predict = ["predict", str(tmp_path / "fit" / "model.safetensors")]
    new = ["--out", str(tmp_path / "new"), "--quiet"]
    assert main([*predict, *graph, *new]) == 0
    assert main([*predict, *graph[:-1], "x0", *new]) == 2
    assert "the features of the model (x0, x1); got --features x0" in capsys.readouterr().err


@pytest.mark.parametrize("method", ["smoothed", "label-propagation"])
def test_a_model_reads_other_tables_with_the_options_of_its_fit(
    method: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*COLUMNS, "--weight", "strength", "--split", "part"]
    fit = ["fit", str(folder), *words, "--method", method, "--device", "cpu", "--quiet"]
    assert main([*fit, "--out", str(tmp_path / "fit")]) == 0
    file = folder / "nodes.csv"
    file.write_text("".join(f"{line};1\n" for line in file.read_text().splitlines()))
    file.write_text(file.read_text().replace("x1;1", "x1;height", 1))
    capsys.readouterr()
    model, out = str(tmp_path / "fit" / "model.safetensors"), str(tmp_path / "new")
    assert main(["predict", model, str(folder), "--out", out]) == 0
    if method == "smoothed":
        ignored = "Note: Columns that were not in the fit are ignored: 'height'."
        assert ignored in capsys.readouterr().err
    before = pd.read_csv(tmp_path / "fit" / "predictions.csv")
    after = pd.read_csv(tmp_path / "new" / "predictions.csv")
    columns = ["id", "name", "predicted"]
    assert after[columns].equals(before[columns])
    assert main(["predict", model, str(folder), "--id", "title", "--out", out]) == 2
    err = capsys.readouterr().err
    assert "in the column 'a', the edge from 'n" in err  # a given option counts
    assert main(["predict", model, str(folder), "--label", "typo", "--out", out]) == 2
    tables = tuple(pd.read_csv(folder / f"{name}.csv", sep=";") for name in ("nodes", "edges"))
    fitted = erase.load_model(model)
    assert fitted.predict(tables).tolist() == before["predicted"].tolist()
    unlabelled = (tables[0].drop(columns=["kind", "part", "title"]), tables[1])
    if method == "smoothed":
        assert fitted.predict(unlabelled).tolist() == before["predicted"].tolist()
        score = np.mean((before["predicted"] == tables[0]["kind"])[tables[0]["part"] == "test"])
        assert fitted.score(tables) == pytest.approx(score)
    with pytest.raises(EraseError, match="a column 'code'"):
        fitted.predict((tables[0].drop(columns="code"), tables[1]))


def test_edge_weights_can_be_ignored(folder: Path, tmp_path: Path) -> None:
    weighted = ["--weight", "strength"]
    fit = ["fit", str(folder), *COLUMNS, "--method", "smoothed", "--device", "cpu", "--quiet"]
    for name, words in (("all", weighted), ("none", [*weighted, "--no-weights"]), ("bare", [])):
        assert main([*fit, *words, "--out", str(tmp_path / name)]) == 0
    found = {name: pd.read_csv(tmp_path / name / "predictions.csv") for name in ("none", "bare")}
    assert found["none"].equals(found["bare"])
    model = str(tmp_path / "none" / "model.safetensors")
    assert main(["predict", model, str(folder), "--out", str(tmp_path / "new"), "--quiet"]) == 0
    graph = str(tmp_path / "g.npz")
    assert main(["convert", str(folder), graph, *COLUMNS, *weighted, "--quiet"]) == 0
    predict = ["predict", model, graph, "--out", str(tmp_path / "new"), "--quiet"]
    assert main(predict) == 2
    assert main([*predict, "--no-weights"]) == 0


@pytest.mark.parametrize("command", ["fit", "audit", "convert", "tune"])
@pytest.mark.parametrize(
    ("graph", "words", "message"),
    [
        ("debian", ["--directed"], "for --directed; got the dataset 'debian', which has no tables"),
        ("g.npz", ["--id", "a"], "--id … with tables; got 'g.npz', which has no tables. Leave"),
        ("arrays", ["--merge-classes"], "Leave out --merge-classes."),
        ("garden", [*COLUMNS, "--label", "typ"], "Add it, or name one of these: --label …."),
        ("garden", [*COLUMNS, "--separator", ";;"], "must be one character, not ';;'"),
    ],
    ids=["dataset", "npz", "folder of arrays", "typo", "separator"],
)
def test_what_cannot_be_names_the_option(
    command: str,
    graph: str,
    words: list[str],
    message: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder.parent)
    erase.write_graph(two_communities(), "g.npz")
    write_folder(two_communities(), "arrays")
    target = ["target"] if command == "convert" else []
    before = sorted(folder.parent.iterdir())
    assert main([command, graph, *target, *words]) == 2
    assert message in capsys.readouterr().err
    assert sorted(folder.parent.iterdir()) == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "the columns 'kind', 'code', 'title', 'part', 'size, in m', 'x0', 'x1'"),
        (["--separator", ","], "'kind;code;title;part;size'. Name what separates the columns: --s"),
        ([*COLUMNS, "--weight", "strength"], "or ignore weights: --no-weights."),
    ],
    ids=["no label", "another separator", "a negative weight"],
)
def test_errors_name_options_and_nothing_of_python(
    words: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edges = folder / "edges.csv"
    edges.write_text(edges.read_text().replace("\n3;", "\n-3;"))
    ends = [] if "--source" in words else ["--source", "a", "--target", "b", "--id", "code"]
    target = folder.parent / "g.npz"
    assert main(["audit", str(folder), *words, *ends, *QUICK, "--out", str(target)]) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert message in line
    assert "=" not in line
    assert "NodeTask" not in line


def test_a_list_of_columns_on_two_lines_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fit", str(folder), "--features", "a\nb"]) == 2
    assert "names of columns with commas between them" in capsys.readouterr().err
