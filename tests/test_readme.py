"""What the README shows works: its Python, its commands, its make targets."""

import re
import shlex
from functools import partial
from pathlib import Path

import pytest

import erase
from erase.bench.studies import check, read_study
from erase.cli import _parser

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


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
        assert callable(_parser().parse_args(words[1:]).run)


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
