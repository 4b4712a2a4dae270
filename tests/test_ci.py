"""The workflow runs what the README shows, with a browser that the tests of the page find."""

import re
from pathlib import Path

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
