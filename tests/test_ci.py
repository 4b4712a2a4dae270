"""The workflow runs what the README shows, with a browser that the tests of the page find."""

import json
import re
import shutil
import subprocess
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import dependencies
import erase
from browsers import NAMES
from dependencies import Row, pins, problems, rows
from release import examples

ROOT = Path(__file__).parent.parent
WORKFLOWS = {
    path.stem: path.read_text(encoding="utf-8")
    for path in (ROOT / ".github" / "workflows").glob("*.yml")
}
FIRST_JOB = WORKFLOWS["test"].partition("matrix:")[0]
STEPS = re.findall(r"^\s+- run: ([^#\n]+)", FIRST_JOB, flags=re.MULTILINE)


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


def test_workflows_run_targets_that_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert set(WORKFLOWS) == {"test", "docs", "release", "fuzz"}
    for name, text in WORKFLOWS.items():
        used = set(re.findall(r"- run: make ([a-z-]+)", text))
        assert used, name
        assert used <= targets, name
    assert "id-token: write" in WORKFLOWS["release"]


def test_supported_versions_are_the_same_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    series = [each.rsplit(" ", 1)[-1] for each in project["classifiers"] if ":: 3." in each]
    matrix = re.search(r"python: \[(.*)\]", WORKFLOWS["test"])
    assert matrix is not None
    assert re.findall(r"3\.\d+", matrix[1]) == series == ["3.11", "3.12", "3.13", "3.14"]
    lowest = dict(re.findall(r"([a-z-]+)>=([\d.]+)", " ".join(project["dependencies"])))
    page = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    newest = pins(ROOT / "constraints.txt")
    for title, name in (
        ("torch", "torch"),
        ("PyTorch Geometric", "torch-geometric"),
        ("scikit-learn", "scikit-learn"),
        ("numpy", "numpy"),
    ):
        tested = ".".join(newest[name].split(".")[:2])
        assert f"| {title} | {lowest[name]} | {tested} |" in page
    assert f"TORCH={lowest['torch']}.0" in WORKFLOWS["test"]


def test_dependencies_are_pinned_and_licensed() -> None:
    if version("numpy") == pins(ROOT / "constraints-oldest.txt")["numpy"]:
        pytest.skip("older versions need other packages")
    assert problems(rows()) == []


def test_what_torch_brings_for_gpus_is_no_dependency(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch's build for GPUs is what `pip install` gives on Linux: pins and page are the same."""
    needs = {
        "torch": ["numpy", "nvidia-cublas==13.1", "cuda-toolkit[cublas]==13.0", "triton==3.6"],
        "cuda-toolkit": ["nvidia-cufft==12"],
    }
    monkeypatch.setattr(
        dependencies, "requirements", lambda name, extra: map(Requirement, needs.get(name, []))
    )
    monkeypatch.setattr(dependencies, "OWN", "torch")
    assert dependencies.closure("") == {"numpy"}


def test_a_missing_pin_or_a_foreign_licence_is_found() -> None:
    wrong = problems([Row("nowhere", "1.0", "GPL-3.0", ("",))])
    assert wrong == [
        "nowhere has no pin in constraints.txt",
        "nowhere has the licence 'GPL-3.0'",
    ]


def test_vulnerabilities_and_pins_that_nobody_looked_up_are_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The check needs a program of its own: it never goes into the environment that is checked."""
    commands: list[list[str]] = []
    told: list[dict[str, object]] = [{"name": "good", "version": "1", "vulns": []}]

    def answers(words: list[str], **_: object) -> None:
        commands.append(words)
        if "--output" in words:
            out = Path(words[words.index("--output") + 1])
            out.write_text(json.dumps({"dependencies": told}), encoding="utf-8")

    monkeypatch.setattr(dependencies, "environment", lambda place: place / "bin")
    monkeypatch.setattr(dependencies, "run", lambda *words, cwd: answers([*map(str, words)]))
    monkeypatch.setattr(subprocess, "run", answers)
    assert dependencies.vulnerabilities() == 0
    assert all("erase-audit-" in words[0] for words in commands)
    assert capsys.readouterr().out == "1 pins: no known vulnerability\n"
    told.append(
        {"name": "old", "version": "2", "vulns": [{"id": "PYSEC-1", "fix_versions": ["3"]}]}
    )
    told.append({"name": "own", "skip_reason": "Dependency not found on PyPI"})
    assert dependencies.vulnerabilities() == 1
    assert capsys.readouterr().out.splitlines() == [
        "old 2: PYSEC-1, mended in 3",
        "1 of 3 not looked up: own",
    ]


def test_the_version_is_said_once() -> None:
    assert f"version: {erase.__version__}\n" in (ROOT / "CITATION.cff").read_text("utf-8")
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert f"## [{erase.__version__}]" in changes
    assert examples().count("import erase") == 1
