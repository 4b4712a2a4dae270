"""The commands as a user types them: in process for speed, installed for truth."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import erase
from conftest import two_communities
from erase.cli import main
from erase.datasets import DATASETS
from erase.encoders import ENCODERS
from erase.heads import HEADS
from erase.io import write_graph
from erase.methods import METHODS
from erase.noise import NOISES

SMALL = ["--set", "hidden=16", "--set", "heads=2", "--set", "epochs=5", "--device", "cpu"]
ERASE_SMALL = [*SMALL, "--set", "width=12"]


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    data = two_communities(size=40, classes=3)
    data.class_names = ["apple", "pear", "plum"]
    data.node_names = [f"node {i}" for i in range(data.num_nodes)]
    write_graph(data, tmp_path / "fruit.npz")
    return tmp_path / "fruit.npz"


def summary(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    return content


def test_fit_writes_files_people_can_open(
    graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["fit", str(graph), "--out", str(out), *ERASE_SMALL]) == 0
    assert {p.name for p in out.iterdir()} == {
        "predictions.csv",
        "history.csv",
        "embeddings.npy",
        "model.safetensors",
        "summary.json",
    }
    table = pd.read_csv(out / "predictions.csv", keep_default_na=False)
    assert list(table) == ["node", "name", "given", "predicted", "probability", "semantic"]
    assert len(table) == 120
    assert table["name"][3] == "node 3"
    assert set(table["predicted"]) <= {"apple", "pear", "plum"}
    model = erase.load_model(out / "model.safetensors")
    names = np.array(["apple", "pear", "plum"])
    assert names[model.predict()].tolist() == table["predicted"].tolist()
    np.testing.assert_array_equal(np.load(out / "embeddings.npy"), model.transform())
    assert len(pd.read_csv(out / "history.csv")) == 5
    assert summary(out)["scores"]["test_accuracy"] == pytest.approx(
        model.score(erase.read_graph(graph))
    )
    printed = capsys.readouterr().out
    assert "test accuracy" in printed
    assert str(out) in printed


def test_fit_with_noise_reports_the_correction_rate(graph: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    noise = ["--noise", "symmetric:0.4", "--seed", "3", "--validation", "noisy"]
    assert main(["fit", str(graph), "--out", str(out), "--quiet", *noise, *ERASE_SMALL]) == 0
    told = summary(out)
    assert told["protocol"] == {"noise": "redrawn", "validation": "noisy"}
    clean = erase.read_graph(graph)
    given = erase.corrupt(clean, "symmetric", 0.4, seed=3, on="train+val")
    wrong = (given.y != clean.y) & clean.train_mask
    assert told["scores"]["mislabelled"] == int(wrong.sum()) > 0
    predicted = erase.load_model(out / "model.safetensors").predict()
    corrected = predicted[wrong.numpy()] == clean.y.numpy()[wrong.numpy()]
    assert told["scores"]["correction_rate"] == pytest.approx(corrected.mean())
    table = pd.read_csv(out / "predictions.csv", keep_default_na=False)
    assert (table["given"][clean.test_mask.numpy()] == "").all()


def test_json_is_the_summary_and_nothing_else(
    graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    arguments = ["fit", str(graph), "--method", "ce", "--json", "--out", str(out), *SMALL]
    assert main(arguments) == 0
    assert json.loads(capsys.readouterr().out) == summary(out)


def test_quiet_says_nothing(
    graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "out")
    main(["fit", str(graph), "--method", "ce", "--quiet", "--out", out, *SMALL])
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == ""


def test_presets_and_settings_reach_the_method(graph: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    more = ["--preset", "paper", "--set", "denoise=false", "--set", "trust=1", "--quiet"]
    main(["fit", str(graph), "--out", str(out), *ERASE_SMALL, *more])
    told = summary(out)
    assert (told["normalisation"], told["denoise"], told["trust"]) == ("symmetric", False, 1.0)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["fit", "nowhere"], "Datasets: cora"),
        (["fit", "nowhere.npz"], "nowhere.npz"),
        (["fit", "debian", "--set", "tust=1"], "Correct the name"),
        (["fit", "debian", "--set", "trust=2"], "trust"),
        (["fit", "debian", "--noise", "symmetric"], "symmetric:0.3"),
        (["fit", "debian", "--noise", "typo:0.3"], "symmetric, pair"),
        (["fit", "debian", "--device", "abacus"], "'auto', 'cpu' or 'cuda'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_a_sentence_and_leaves_nothing(
    arguments: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("erase: expected ")
    assert said in captured.err
    assert captured.out == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("methods", METHODS),
        ("datasets", DATASETS),
        ("noises", NOISES),
        ("encoders", ENCODERS),
        ("heads", HEADS),
        ("presets", {"reference": 0, "paper": 0}),
        ("protocols", {"paper": 0, "honest": 0}),
    ],
)
def test_lists_show_every_entry_of_a_registry_with_a_sentence(
    kind: str, names: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["list", kind]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(names)
    assert all(len(line.split()) > 2 for line in lines)
    main(["list", kind, "--json"])
    assert list(json.loads(capsys.readouterr().out)) == list(names)


def test_demo_writes_a_report_and_a_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--out", str(tmp_path), "--epochs", "3", "--device", "cpu"]) == 0
    page = (tmp_path / "report.html").read_text()
    assert page.count("<img") + page.count("<svg") >= 4
    told = summary(tmp_path)
    assert set(told["scores"]) == {"ERASE", "cross-entropy"}
    assert told["noise"] == "symmetric:0.4"
    printed = capsys.readouterr().out
    for row in told["scores"].values():
        assert f"{100 * row['test_accuracy']:.1f} %" in printed


def command(*arguments: str) -> list[str]:
    """The installed command, not a function of it."""
    return [str(Path(sys.executable).parent / "erase"), *arguments]


def test_the_installed_command_and_the_module_are_one() -> None:
    installed = subprocess.run(command("--version"), capture_output=True, text=True, check=True)
    module = subprocess.run(
        [sys.executable, "-m", "erase", "--version"], capture_output=True, text=True, check=True
    )
    assert installed.stdout == module.stdout == f"erase {erase.__version__}\n"


def fit_command(graph: Path, out: Path, *more: str) -> list[str]:
    size = [
        "--set",
        "hidden=64",
        "--set",
        "width=64",
        "--set",
        "epochs=150",
        "--set",
        "patience=150",
    ]
    return command("fit", str(graph), "--out", str(out), "--device", "cpu", "--quiet", *size, *more)


@pytest.mark.parametrize("death", [signal.SIGKILL, signal.SIGINT], ids=["kill -9", "Ctrl-C"])
def test_a_killed_fit_resumes_to_the_same_result(
    graph: Path, tmp_path: Path, death: signal.Signals
) -> None:
    """No chance to clean up: what was on disk, whole, must be enough."""
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    often = os.environ | {"ERASE_CHECKPOINT_SECONDS": "0.05"}
    subprocess.run(fit_command(graph, whole), check=True)
    process = subprocess.Popen(fit_command(graph, broken), env=often, stderr=subprocess.PIPE)
    checkpoint = broken / "checkpoint.safetensors"
    deadline = time.monotonic() + 60
    while not checkpoint.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(death)
    _, told = process.communicate()
    assert process.returncode == (-9 if death == signal.SIGKILL else 130)
    if death == signal.SIGINT:
        assert b"--resume" in told
    assert checkpoint.exists()
    assert not (broken / "summary.json").exists()
    subprocess.run(fit_command(graph, broken, "--resume"), check=True)
    assert not checkpoint.exists()
    for name in ("predictions.csv", "history.csv", "embeddings.npy"):
        assert (broken / name).read_bytes() == (whole / name).read_bytes()
