"""The workflow runs what the README shows, with a browser that the tests of the page find."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from audit.report.test_audit_browser import NAMES

ROOT = Path(__file__).parent.parent
STEPS = re.findall(
    r"^\s+- run: ([^#\n]+)",
    (ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8"),
    flags=re.MULTILINE,
)


def test_the_workflow_runs_the_two_commands_of_the_readme() -> None:
    (first, *_) = re.findall(r"```console\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.S)
    shown = re.findall(r"^make \w+", first, flags=re.MULTILINE)
    assert shown == ["make demo", "make test"]
    assert [step.strip() for step in STEPS][-2:] == shown


def test_the_workflow_installs_a_browser_that_the_tests_look_for() -> None:
    installed = STEPS[0].split()
    assert STEPS[1].split() == ["chromium", "--version"]
    assert "chromium" in installed
    assert "chromium" in NAMES


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
@pytest.mark.parametrize(
    ("target", "installs"),
    [
        ("demo", ["torch", "."]),
        ("test", ["torch", ".", ".[dev]"]),
        ("docs", ["torch", ".", ".[docs]"]),
    ],
)
def test_a_target_installs_what_it_needs(target: str, installs: list[str], tmp_path: Path) -> None:
    """Torch first; the package alone for the demo; then the tools of the target."""
    order = ["make", "--dry-run", target, f"VENV={tmp_path / 'venv'}"]
    shown = subprocess.run(order, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert re.findall(r"pip install .* (?:-e )?'?(torch|\.[^\s']*)", shown) == installs
