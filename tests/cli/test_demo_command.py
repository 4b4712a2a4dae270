"""`erase demo` as a user types it."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import erase
from command_line import parsed
from conftest import two_communities
from erase.bench import score
from erase.cli import main


def summary(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    return content


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


def test_the_demo_trains_both_methods_on_the_same_noisy_labels_and_seed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clean = two_communities(size=40, classes=3)
    seen: dict[str, Any] = {}
    monkeypatch.setattr("erase.data.datasets.load_dataset", lambda name: clean)
    monkeypatch.setattr(
        "erase.audit.report.demo.write_demo_report", lambda page, **parts: seen.update(parts)
    )
    arguments = ["--epochs", "2", "--seed", "3", "--rate", "0.3", "--device", "cpu", "--quiet"]
    assert main(["demo", "--out", str(tmp_path), *arguments]) == 0
    captured = capsys.readouterr()
    assert captured.out + captured.err == ""
    expected = erase.corrupt(clean, "symmetric", 0.3, seed=3, on="train+val")
    assert torch.equal(seen["given"].y, expected.y)
    assert (seen["graph"], seen["noise"]) == (clean, "symmetric:0.3")
    for name, model in seen["models"].items():
        assert (model.seed, model.epochs, len(model.history_)) == (3, 2, 2)
        assert seen["scores"][name] == score(model, clean, expected)
    told = summary(tmp_path)
    assert told["scores"] == seen["scores"]
    assert told["protocol"] == {"noise": "redrawn", "validation": "noisy"}


def test_defaults() -> None:
    assert parsed("demo") == {
        "rate": 0.4,
        "epochs": 150,
        "seed": 0,
        "device": "auto",
        "out": Path("demo"),
        "json": False,
        "quiet": False,
    }


def test_a_demo_of_no_epochs_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--epochs", "0"]) == 2
    assert "at least 1, not 0" in capsys.readouterr().err


def test_an_interrupted_demo_does_not_offer_to_resume(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("erase.data.datasets.load_dataset", stop)
    assert main(["demo", "--out", str(tmp_path)]) == 130
    told = capsys.readouterr().err
    assert "interrupted." in told
    assert "--resume" not in told
