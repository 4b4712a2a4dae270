"""The examples of docs/tables.md run."""

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "tables.md"


def test_the_examples_run(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), names)
    printed = capsys.readouterr().out
    assert "numbers: 'age'; categories: 'town'; text (TF-IDF): 'about'" in printed
    assert names["task"].node_names[0] == "Ann"
