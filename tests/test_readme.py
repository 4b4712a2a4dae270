"""README and documentation: their code runs, their commands, links, targets and names exist."""

import re
import shlex
from collections.abc import Iterable, Iterator
from contextlib import redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import subgraph

import erase
from erase.audit.detectors import DETECTORS
from erase.cli import main
from erase.data.datasets import DATASETS, load_dataset
from erase.data.noise import NOISES
from erase.methods import METHODS
from erase.nn.encoders import ENCODERS, take_rows
from erase.nn.heads import HEADS

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
README = (ROOT / "README.md").read_text(encoding="utf-8")
TUTORIALS = sorted((DOCS / "tutorials").glob("*.md"))
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]


def blocks(text: str, *languages: str) -> list[tuple[str, str]]:
    """Return the (language, content) of every fenced block of these languages, in order."""
    return re.findall(
        rf"^ *```({'|'.join(languages)})\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE
    )


def commands(content: str) -> Iterator[list[str]]:
    """Yield the words of every `erase` command of a block."""
    for line in content.splitlines():
        if line.startswith("erase "):
            yield shlex.split(line, comments=True)


def run_command(words: list[str]) -> int:
    """Run a command line in this process, and return its exit status."""
    try:
        return main(words[1:])
    except SystemExit as end:
        return int(end.code or 0)


def first_nodes(name: str, **options: Any) -> Data:
    """Return at most the first thousand nodes of a dataset."""
    graph = load_dataset(name, **options)
    if graph.num_nodes <= 1000:
        return graph
    rows = torch.arange(1000)
    part = {key: graph[key][:1000] for key in ("y", "train_mask", "val_mask", "test_mask")}
    return Data(
        x=take_rows(graph.x, rows),
        edge_index=subgraph(rows, graph.edge_index, num_nodes=graph.num_nodes)[0],
        node_names=graph.node_names[:1000],
        class_names=graph.class_names,
        **part,
    )


@pytest.mark.parametrize("page", [ROOT / "README.md", *TUTORIALS], ids=lambda page: page.stem)
def test_every_block_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of a page run in its order, in one folder; FILE and the like stand for the user's.

    Datasets have at most a thousand nodes here, so that it takes seconds.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(erase, "load_dataset", first_nodes)
    scope: dict[str, Any] = {"__name__": "page"}
    ran = 0
    for language, content in blocks(page.read_text(encoding="utf-8"), "python", "console"):
        if language == "python":
            exec(compile(content, page.name, "exec"), scope)
            ran += 1
            continue
        for words in commands(content):
            if not any(word.isupper() for word in words):
                assert run_command(words) == 0, words
                ran += 1
    assert ran >= 4
    if page.stem == "audit-a-csv":
        assert scope["found"] > 0.7
        assert scope["false_alarms"] < 0.3
        assert (tmp_path / "audit" / "report.html").exists()
    if page.stem == "review":
        assert len(scope["changed"]) == len(scope["found"]) > 25
    if page.stem == "train-and-apply":
        assert scope["model"].score(scope["clean"]) > scope["plain"].score(scope["clean"])


def test_the_examples_of_the_methods_page_run(communities: Data) -> None:
    """Its `graph` stands for the user's."""
    scope: dict[str, Any] = {"__name__": "page", "graph": communities}
    page = (DOCS / "methods.md").read_text(encoding="utf-8")
    for _, content in blocks(page, "python"):
        exec(compile(content, "methods.md", "exec"), scope)
    assert scope["model"].score(communities) > 0.8
    assert float(scope["loss"].detach()) < 0


@cache
def help_of(command: str) -> str:
    """Return the help text of a command, on lines that are wide enough for every option."""
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as written:
        patch.setenv("COLUMNS", "200")
        assert run_command(["erase", command, "--help"]) == 0
    return written.getvalue()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_option_shown_exists(page: Path) -> None:
    """Also those of commands that need a file of the user's, or hours."""
    for _, content in blocks(page.read_text(encoding="utf-8"), "console", "text"):
        for _, command, *words in commands(content):
            for option in (word.split("=")[0] for word in words if word.startswith("--")):
                assert re.search(rf"{option}\b", help_of(command)), f"{command} {option}"


def test_every_make_target_shown_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    named = {
        target
        for page in PAGES
        for target in re.findall(r"(?:`|DIR |^)make ([a-z-]+)", page.read_text(), re.MULTILINE)
    }
    assert {"demo", "test", "docs"} <= named <= targets


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_page_linked_exists(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for link in re.findall(r"\]\((?!http)([^)]+)\)", text):
        path, _, anchor = link.partition("#")
        target = (page.parent / path) if path else page
        assert target.exists(), link
        if anchor and target.stem not in ("api", "api-methods"):
            headings = re.findall(r"^#+ (.*)", target.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {slug(heading) for heading in headings}, link


def slug(heading: str) -> str:
    """Return the anchor of a heading, as GitHub and the site make it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_the_readme_is_short_and_starts_with_the_two_commands() -> None:
    assert len(README.split()) <= 800
    assert README.index("make demo") < README.index("make test") < README.index("## Install")


def test_every_public_name_is_documented() -> None:
    """In the Python reference, and in the list of what the deprecation policy covers."""
    reference = (DOCS / "api.md").read_text(encoding="utf-8")
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for name in set(erase.__all__) - {"__version__"}:
        assert re.search(rf"^::: erase\S*\.{name}$", reference, re.MULTILINE), name
        assert f"`{name}`" in contributing, name
    methods = (DOCS / "methods.md").read_text(encoding="utf-8")
    for name, method in METHODS.items():
        row = f"| `{name}` | `{method.__name__}` |"
        assert row in methods, f"add a row to the table of docs/methods.md: {row} source |"


PARTS: list[tuple[str, Iterable[str]]] = [
    ("Encoders", ENCODERS),
    ("Heads", HEADS),
    ("Noise", NOISES),
    ("Datasets", DATASETS),
    ("Detectors", DETECTORS),
]


@pytest.mark.parametrize(("row", "names"), PARTS, ids=[part[0] for part in PARTS])
def test_every_entry_of_a_registry_is_in_the_table_of_parts(row: str, names: Iterable[str]) -> None:
    text = (DOCS / "methods.md").read_text(encoding="utf-8")
    (listed,) = re.findall(rf"^\| {row} \| (.*) \|$", text, re.MULTILINE)
    for name in names:
        assert f"`{name}`" in listed, f"add `{name}` to the row {row} of docs/methods.md"


def test_the_architecture_page_lists_every_module() -> None:
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    tree = page.split("```")[1].split("\nbenchmarks/")[0]
    listed: dict[str, set[str]] = {}
    package = ""
    for line in tree.splitlines():
        if found := re.match(r" {2}([a-z]+)/", line):
            package = found[1]
        elif not line.startswith("    "):
            package = ""
        listed.setdefault(package, set()).update(re.findall(r"\b[a-z_0-9]+\.py\b", line))
    source = ROOT / "src" / "erase"
    for folder in (source, *(path.parent for path in source.glob("*/__init__.py"))):
        name = "" if folder == source else folder.name
        modules = {path.name for path in folder.glob("*.py") if not path.name.startswith("__")}
        if name != "cli":  # one module per command
            missing = sorted(modules - listed[name])
            assert not missing, f"add {missing} to the tree in docs/architecture.md, under {name}/"
        inside = {path.relative_to(folder).name for path in folder.rglob("*.py")}
        assert listed[name] <= inside, name


def test_the_method_that_contributing_shows_learns(communities: Data) -> None:
    """The toy method is a method like any other: it is compared with its formula in NumPy."""
    ((_, code),) = blocks((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), "python")
    scope: dict[str, Any] = {"__name__": "mine"}
    exec(dedent(code), scope)
    assert scope["__doc__"]  # which `make lint` requires of a module
    model = scope["BrierLoss"](epochs=40, hidden=16, heads=2, lr=0.01, device="cpu")
    assert model.fit(communities).score(communities) > 0.8
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(5, 3))
    proba = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    nodes, classes = np.array([4, 1, 2]), np.array([0, 2, 1])
    expected = ((proba[nodes] - np.eye(3)[classes]) ** 2).sum(1).mean()
    loss = model._losses(*(torch.from_numpy(part)[None] for part in (logits, nodes, classes)))
    assert float(loss[0]) == pytest.approx(expected)
