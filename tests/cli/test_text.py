"""Text that terminals, spreadsheets, pages and file systems take badly."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from erase.cli import main
from erase.data.fields import well_formed
from erase.data.files import safe_cells, write_graph
from graphs import two_communities

EVIL = "=cmd|'/C calc'!A0 <script>alert(1)</script> \udcff ü"


def evil_graph(path: Path) -> Path:
    graph = two_communities(size=10)
    graph.node_names = [f"{EVIL}{i}" for i in range(20)]
    graph.class_names = ["+a", "</script>"]
    write_graph(graph, path)
    return path


def test_names_in_every_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph, out = evil_graph(tmp_path / "g.npz"), tmp_path / "out"
    words = [str(graph), "--method", "label-propagation", "--out"]
    assert main(["audit", *words, str(out), "--safe-csv"]) == 0
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "<script>alert(1)" not in page
    issues = pd.read_csv(out / "issues.csv")
    assert issues["name"].str.startswith("'=cmd").all()
    assert set(issues["given"]) == {"'+a", "</script>"}
    assert main(["fit", *words, str(tmp_path / "fit")]) == 0
    predictions = pd.read_csv(tmp_path / "fit" / "predictions.csv")
    assert predictions["name"].str.startswith("=cmd").all()
    assert predictions["name"].str.contains(r"\udcff", regex=False).all()
    assert main(["convert", str(graph), str(tmp_path / "folder")]) == 0
    assert main(["convert", str(graph), str(tmp_path / "again")]) == 0
    capsys.readouterr()


def test_cells_that_are_formulas_are_escaped() -> None:
    table = pd.DataFrame({"=a": ["=1", "-2", "-x", "\tz", "ok"], "n": [1.5, -1, 0, 2, 3]})
    safe = safe_cells(table)
    assert safe["'=a"].tolist() == ["'=1", "-2", "'-x", "'\tz", "ok"]
    assert safe["n"].tolist() == table["n"].tolist()
    assert well_formed(["ü", "\ud800x"]) == ("ü", "\\ud800x")


@pytest.mark.parametrize("encoding", ["ascii", pytest.param("latin-1", marks=pytest.mark.slow)])
def test_a_file_whose_name_is_not_utf8_on_a_poor_terminal(encoding: str, tmp_path: Path) -> None:
    write_graph(two_communities(size=10), tmp_path / "g.npz")
    name = os.fsencode(tmp_path) + b"/caf\xe9.npz"
    os.rename(tmp_path / "g.npz", name)
    start: list[str | bytes] = [sys.executable, "-m", "erase"]
    command = [*start, "fit", name, "--method", "label-propagation"]
    done = subprocess.run(
        [*command, "--out", os.fsencode(tmp_path) + b"/out\xe9"],
        env=os.environ | {"PYTHONIOENCODING": encoding},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (out,) = (path for path in tmp_path.iterdir() if path.is_dir())
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert os.fsencode(summary["graph"]) == name
    again = ["predict", str(out / "model.safetensors"), os.fsdecode(name), "--quiet"]
    assert main([*again, "--out", str(tmp_path / "p")]) == 0


@pytest.mark.parametrize(
    "words",
    [
        ["--folds", "1e3"],
        ["--folds", "nan"],
        ["--folds", "99999999999999999999"],
        ["--seed", "9" * 30],
        ["--noise", "symmetric:nan"],
    ],
)
def test_odd_numbers_are_one_line(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_graph(two_communities(size=10), tmp_path / "g.npz")
    assert main(["audit", str(tmp_path / "g.npz"), "--out", str(tmp_path / "o"), *words]) == 2
    output = capsys.readouterr().err.splitlines()
    assert len([line for line in output if line.startswith("erase: ")]) == 1
    assert os.listdir(tmp_path) == ["g.npz"]


@pytest.mark.parametrize(
    "words",
    [
        ["bench", "smoke", "--threads", "9" * 20],
        ["bench", "smoke", "--jobs", "1000000"],
        ["tune", "debian", "--seeds", "1000000000"],
        ["tune", "debian", "--trials", "9" * 20],
    ],
)
def test_too_many_processes_threads_and_runs_are_refused(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--out", str(tmp_path / "out")]) == 2
    most = "100,000" if "--trials" in words else "1,000"
    assert f"must be at most {most}, not " in capsys.readouterr().err
    assert not any(tmp_path.iterdir())


def test_an_error_of_the_system_without_a_file_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise OSError("12 requested and 4 written")

    monkeypatch.setattr("erase.cli.lists.names", fail, raising=False)
    monkeypatch.setattr("erase.cli.output.print_names", fail)
    monkeypatch.setattr("erase.cli.lists.print_names", fail)
    assert main(["list", "methods"]) == 2
    assert capsys.readouterr().err == "erase: 12 requested and 4 written\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--noise", "symmetric:20"],
            "with a rate from 0 to 1; got symmetric:20",
        ),
        (["--folds", "5000"], "Pass --folds 5, for example."),
        (["--device", "cuda:99"], "Use --device cpu."),
        (["--max-false-alarms", "20%"], "must be a number such as 0.2, not '20%'"),
        (["--max-false-alarms", "3"], "Pass --max-false-alarms 0.2, for example."),
    ],
)
def test_errors_name_the_options_of_the_command_line(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_graph(two_communities(size=10), tmp_path / "g.npz")
    assert main(["audit", str(tmp_path / "g.npz"), "--out", str(tmp_path / "o"), *words]) == 2
    assert message in capsys.readouterr().err


def test_training_nodes_without_labels_are_told_in_plain_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = two_communities(size=10)
    graph.y = graph.y * 0
    write_graph(graph, tmp_path / "tables")
    assert main(["audit", str(tmp_path / "tables")]) == 2
    error = capsys.readouterr().err
    assert "Label training nodes of another class, or check which nodes train." in error
