"""What the README shows works: its Python, its commands, its make targets."""

import re
import shlex
from functools import partial
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import erase
from command_line import parsed
from erase.bench.studies import check, read_study

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str, text: str = README) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def test_the_ten_lines_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(erase, "ERASE", partial(erase.ERASE, epochs=2, device="cpu"))
    (code,) = blocks("python")
    scope: dict[str, object] = {}
    exec(code, scope)
    assert (tmp_path / "debian.safetensors").exists()
    assert len([line for line in code.splitlines() if line.strip()]) <= 10


def test_every_command_shown_is_understood() -> None:
    shown = [
        shlex.split(line, comments=True)
        for block in blocks("console")
        for line in block.splitlines()
        if line.startswith("erase ")
    ]
    assert len(shown) >= 4
    for words in shown:
        assert parsed(*words[1:])


def test_the_study_shown_can_be_run(tmp_path: Path) -> None:
    (content,) = blocks("toml")
    (tmp_path / "own.toml").write_text(content, encoding="utf-8")
    study = read_study(str(tmp_path / "own.toml"))
    cells = study.cells()
    assert len(cells) == 2 * 2 * 2 * 3 * 5 * 2
    check(study, cells)


def test_every_make_target_shown_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    named = set(re.findall(r"make ([a-z-]+)", README))
    assert {"demo", "test"} <= named <= targets


def test_every_page_linked_exists() -> None:
    for link in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (ROOT / link).exists()


def test_the_method_that_contributing_shows_learns(communities: Data) -> None:
    """The toy method is a method like any other: it is compared with its formula in NumPy."""
    (code,) = blocks("python", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    scope: dict[str, Any] = {"__name__": "mine"}
    exec(dedent(code), scope)
    model = scope["BrierLoss"](epochs=40, hidden=16, heads=2, lr=0.01, device="cpu")
    assert model.fit(communities).score(communities) > 0.8
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(5, 3))
    proba = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    nodes, classes = np.array([4, 1, 2]), np.array([0, 2, 1])
    expected = ((proba[nodes] - np.eye(3)[classes]) ** 2).sum(1).mean()
    loss = model._losses(*(torch.from_numpy(part)[None] for part in (logits, nodes, classes)))
    assert float(loss[0]) == pytest.approx(expected)
