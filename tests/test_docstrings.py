"""The examples in docstrings give what they show.

A test for each module with examples: ``--doctest-modules`` would import every test module twice.
"""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PLACES = (ROOT / "src", ROOT / "tests")


def modules_with_examples() -> list[str]:
    """Return the names of the modules, those of tests without their folder."""
    return [
        ".".join(path.relative_to(place).with_suffix("").parts).removesuffix(".__init__")
        for place in PLACES
        for path in sorted(place.rglob("*.py"))
        if ">>> " in path.read_text(encoding="utf-8") and path != Path(__file__)
    ]


def test_there_are_examples() -> None:
    assert {"erase.errors", "erase.data.contract", "tf32"} < set(modules_with_examples())


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples_give_what_they_show(name: str) -> None:
    found = doctest.testmod(import_module(name))
    assert found.attempted > 0
    assert found.failed == 0
