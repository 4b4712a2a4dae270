"""`erase demo` as a user types it."""

import json
from pathlib import Path
from typing import Any

import pytest

from command_line import parsed
from erase.cli import main
from graphs import two_communities


def summary(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    return content


@pytest.mark.parametrize("is_small", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_demo_writes_a_report_and_a_table(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    is_small: bool,
) -> None:
    if is_small:
        monkeypatch.setattr("erase.bench.demo.load_dataset", lambda name: two_communities())
    assert main(["demo", "--out", str(tmp_path), "--epochs", "3", "--device", "cpu"]) == 0
    assert "Training on the noisy labels" in (tmp_path / "report.html").read_text()
    written = summary(tmp_path)
    assert set(written["scores"]) == {"relabelling", "ERASE", "cross-entropy"}
    assert written["noise"] == "symmetric:0.4"
    printed = capsys.readouterr().out
    assert (
        f"made {written['audit']['mislabelled']} of {60 if is_small else 650} labels wrong"
        in printed
    )
    for row in written["scores"].values():
        assert f"{100 * row['test_accuracy']:.1f} %" in printed


def test_the_demo_passes_its_options_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}

    def recorded(out: Path, **options: Any) -> None:
        seen.update(options, out=out)
        raise KeyboardInterrupt  # there is nothing to show

    monkeypatch.setattr("erase.bench.demo.run_demo", recorded)
    arguments = ["--epochs", "2", "--seed", "3", "--rate", "0.3", "--device", "cpu", "--quiet"]
    assert main(["demo", "--out", str(tmp_path), *arguments]) == 130
    expected = {"epochs": 2, "seed": 3, "rate": 0.3, "device": "cpu", "progress": False}
    assert seen == expected | {"out": tmp_path}


def test_defaults() -> None:
    assert parsed("demo") == {
        "rate": 0.4,
        "epochs": 100,
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

    monkeypatch.setattr("erase.bench.demo.load_dataset", stop)
    assert main(["demo", "--out", str(tmp_path)]) == 130
    output = capsys.readouterr().err
    assert "interrupted." in output
    assert "--resume" not in output
