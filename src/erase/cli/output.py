"""What commands print: results to stdout, messages and progress to stderr."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from erase.display import count_of
from erase.errors import EraseError

if TYPE_CHECKING:
    from erase.audit import Audit


_HELD = ExitStack()  # output folders of the command that runs


# a field that only the summary.json of this command has
_OWN_FIELDS = {
    "audit": "agreement",
    "demo": "report",
    "fit": "graph_sha256",
    "predict": "predicted",
}


def hold_folder(folder: Path, command: str, graph: str | None = None) -> None:
    """Make an output folder, and keep other commands from it until this one ends.

    Raise an EraseError where it holds the results of another command, or is the graph itself.

    Args:
        folder: to write to.
        command: that writes.
        graph: GRAPH of the command.
    """
    from erase.data.datasets import dataset_name
    from erase.data.parts import locked_folder

    is_file = graph is not None and dataset_name(graph) is None
    if is_file and folder.is_dir() and folder.resolve() == Path(str(graph)).resolve():
        raise EraseError(
            "a folder for the results", f"{folder}, the graph", "Choose another --out."
        )
    owner = _owner(folder / "summary.json")
    if owner not in (None, command):
        raise EraseError(
            f"a new folder, or one of `erase {command}`",
            f"{folder}, which holds results of `erase {owner}`",
            "Choose another --out.",
        )
    _HELD.enter_context(locked_folder(folder))


def _owner(summary: Path) -> str | None:
    """Return the command that wrote a summary.json, None where none is known to have."""
    found: Any = None
    with suppress(OSError, ValueError, RecursionError):
        found = json.loads(summary.read_bytes())
    fields = found if isinstance(found, dict) else {}
    return next((command for command, field in _OWN_FIELDS.items() if field in fields), None)


@contextmanager
def held_folders() -> Iterator[None]:
    """Release the folders that a command holds when the block ends."""
    with _HELD:
        yield


@dataclass(frozen=True)
class Output:
    """How a command reports.

    Attributes:
        json: print the summary as JSON, and nothing else.
        quiet: print no messages, no progress and no table.
    """

    json: bool = False
    quiet: bool = False

    def message(self, text: str) -> None:
        """Print a message to stderr."""
        if not self.quiet:
            print(text, file=sys.stderr)

    def notes(self, notes: Iterable[str]) -> None:
        """Print notes on a graph to stderr."""
        for note in notes:
            self.message(f"Note: {note}")

    def report(self, summary: Mapping[str, Any], text: str, last: str) -> None:
        """Print a result: the summary as JSON, or `text`, an empty line and the `last` line."""
        if self.json:
            print(json.dumps(summary, indent=2, ensure_ascii=False))
        elif not self.quiet:
            print(f"{text}\n\n{last}")

    @contextmanager
    def progress(self, total: int) -> Iterator[Callable[[int, str], None]]:
        """Yield a function of how many steps are done, and a text about the last one.

        On a terminal it moves a bar with the time left; elsewhere it prints the text.
        """
        if self.quiet or not sys.stderr.isatty():
            yield lambda done, text: self.message(text)
            return
        from erase.training.progress import terminal_bar

        with terminal_bar() as bar:
            task = bar.add_task("", total=total)
            yield lambda done, text: bar.update(task, completed=done, description=text)


@contextmanager
def interrupt_hint(hint: Callable[[], str]) -> Iterator[None]:
    """Add a hint to the message of an interrupt: how to continue."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(hint()) from None


def print_names(entries: Mapping[str, str]) -> None:
    """Print names and their descriptions in two columns."""
    width = max(map(len, entries))
    if not sys.stdout.isatty():
        for name, text in entries.items():
            print(f"{name.ljust(width)}  {text}")
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    for name, text in entries.items():
        grid.add_row(Text(name, style="bold"), Text(text))
    Console().print(grid)


_SCORES = {
    "test_accuracy": "test accuracy",
    "correction_rate": "wrong labels corrected",
    "accuracy_correct": "right labels kept",
}


def labels_are(count: int, which: str = "") -> str:
    """Return a number of labels as the subject of a sentence.

    >>> labels_are(1), labels_are(1200, "of shop ")
    ('1 label is', '1,200 labels of shop are')
    """
    return f"{count_of(count, 'label')} {which}{'is' if count == 1 else 'are'}"


def score_table(scores: Mapping[str, Mapping[str, float]]) -> str:
    """Return the scores of each method as a table of percentages."""
    shown = [key for key in _SCORES if any(key in row for row in scores.values())]
    if not shown:
        return "There are no test labels to compare the predictions with."
    lines = [["method", *(_SCORES[key] for key in shown)]]
    for name, row in scores.items():
        lines.append([name, *(f"{100 * row[key]:.1f} %" if key in row else "–" for key in shown)])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(_aligned(line, widths) for line in lines)


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = (
        cell.rjust(width) if i else cell.ljust(width)
        for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return "  ".join([first, *rest])


def audit_text(found: "Audit") -> str:
    """Return how well the labels are predicted, how many are wrong and how many are flagged."""
    from erase.audit.statements import agreement_sentence, false_alarms, wrong_share_sentences

    summary = found.summary()
    settings = found.settings
    known = wrong_share_sentences(
        found.decision, settings.get("graph"), settings.get("tables") or {}
    )
    labels = f"{summary['labels']} given labels of {summary['nodes']} nodes"
    if "trusted" in summary:
        labels += f", {summary['trusted']} of them beside a trusted one"
    lines = [f"{labels}. {agreement_sentence(found.decision.agreement)}"]
    if not found.decision.agreement.is_informative:
        lines.append(
            "That may be chance. The audit cannot tell which labels are wrong, and flags none."
        )
        return "\n".join([*lines, *known])
    lines += known
    flagged = summary["flagged"]
    if not flagged:
        return "\n".join([*lines, "No label is suspicious enough to be flagged."])
    lines.append(
        f"{flagged} {'is' if flagged == 1 else 'are'} flagged: {summary['wrong']} with another "
        f"label to suggest, {summary['cannot_tell']} where one can't tell; "
        f"{false_alarms(found.decision)} of these alarms are expected to be false."
    )
    return "\n".join(lines)


def detection_text(noise: str, scores: dict[str, float]) -> str:
    """Return how good the audit was, where the true labels are known."""
    counts = f"{scores['mislabelled']} of {scores['labels']} labels"
    shares = {key: value for key, value in scores.items() if isinstance(value, float)}
    shown = ", ".join(f"{key.replace('_', ' ')} {value:.3f}" for key, value in shares.items())
    return f"{noise} made {counts} wrong. Against the truth: {shown}."
