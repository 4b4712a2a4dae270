"""The examples of docs/tables.md run."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from cli.test_table_options import write_tables
from erase.cli import main
from erase.data.files import read_json

PAGE = Path(__file__).parents[1] / "docs" / "tables.md"


def test_the_examples_run(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), names)
    printed = capsys.readouterr().out
    assert "numbers: 'age'; categories: 'town'; text (TF-IDF): 'about'" in printed
    assert names["task"].node_names[0] == "Ann"


def test_the_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_tables(tmp_path / "garden")
    blocks = re.findall(r"```console\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    for line in "".join(blocks).splitlines():
        assert main([*shlex.split(line)[1:], "--quiet"]) == 0, line
    for folder in ("audit", "model", "predicted"):
        assert (tmp_path / folder / "summary.json").exists()
    fitted = read_json("model/summary.json")
    assert fitted["tables"]["features"] == ["x0", "x1"]
    assert any("text (TF-IDF): 'title'" in note for note in fitted["notes"])
    before, after = Path("garden/nodes.csv"), Path("nodes-corrected.csv")
    assert len(before.read_text().splitlines()) == len(after.read_text().splitlines())
