"""The page's section on settings tried to explain differences from the paper."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import mean
from typing import Any

from erase.bench.names import METHOD_NAMES, dataset_label
from erase.bench.published import published
from erase.bench.records import Cell, Record
from erase.bench.studies import STUDIES
from erase.bench.tables.numbers import fixed, signed
from erase.bench.tables.render import NOTHING
from grids import grid
from ledger import is_stale, stale_note

STUDY = "departures"
Place = tuple[str, str, float, str]  # dataset, noise, rate, method
Runs = Mapping[tuple[Place, int], float]  # accuracy in % by place and seed

SETTINGS = """\
`erase bench departures` runs other settings than the printed ones. The table shows ours minus the
paper's, averaged over the cells, and in brackets the mean and the largest absolute value, beside
the usual settings over the same cells and seeds. ERASE's three cells have asymmetric noise of 0.1,
0.3 and 0.5; a setting that comes nearer in only one of them explains nothing."""
EPOCHS = """\
`python benchmarks/epochs.py` takes other epochs than the one that validation labels select: the
last, or the one with the highest accuracy on the test nodes. Test labels are not available in
practice, so these runs only help to explain published figures; they are not results. Same cells and
seeds; a dash where it was not tried:"""


def causes_section(
    records: Mapping[str, Sequence[Record]], epochs: Sequence[Mapping[str, Any]]
) -> str:
    """Return the section; nothing where nothing was tried.

    Args:
        records: by study, `STUDY` and "paper" among them.
        epochs: lines of epochs.jsonl.
    """
    usual = _accuracies(
        r for study in (STUDY, "paper") for r in records.get(study, ()) if not r.cell.params
    )
    parts = [_settings(records.get(STUDY, ()), usual), _epochs(epochs, usual)]
    if not any(parts):
        return ""
    stale = {r.cell.method for r in records.get(STUDY, ()) if is_stale(r)}
    notes = [stale_note([METHOD_NAMES[method] for method in sorted(stale)])] if stale else []
    return "\n\n".join(["### What was tried", *notes, *(part for part in parts if part)])


def _settings(records: Sequence[Record], usual: Runs) -> str:
    """Return how far each departure from the settings is from the paper, and the usual ones."""
    tried: dict[tuple[str, str], list[Record]] = {
        (cell.method, _changes(cell)): [] for cell in STUDIES[STUDY].cells() if cell.params
    }
    for record in records:
        if record.cell.params:
            tried[record.cell.method, _changes(record.cell)].append(record)
    rows = []
    for (method, changes), found in tried.items():
        if runs := _accuracies(found):
            graphs = sorted({dataset_label(place[0]) for place, _ in runs})
            what = f"{METHOD_NAMES[method]}, {changes}"
            rows.append([what, ", ".join(graphs), *_beside(runs, [usual, runs])])
    head = ["", "graphs", "cells", "runs", "usual", "changed"]
    return f"{SETTINGS}\n\n{grid(head, rows, numbers=range(2, 6))}" if rows else ""


def _epochs(lines: Sequence[Mapping[str, Any]], usual: Runs) -> str:
    """Return how far the epochs chosen otherwise are from the paper."""
    chosen: dict[str, dict[tuple[Place, int], float]] = {"test": {}, "last": {}}
    for line in lines:
        place = (line["dataset"], line["noise"], line["rate"], line["method"])
        chosen[line["epoch"]][place, line["seed"]] = 100 * line["test_accuracy"]
    rows = []
    for method, dataset in sorted({(line["method"], line["dataset"]) for line in lines}):
        ways = [
            {key: value for key, value in runs.items() if key[0][::3] == (dataset, method)}
            for runs in chosen.values()
        ]
        chosen_runs = ways[0] or ways[1]
        what = f"{METHOD_NAMES[method]}, {dataset_label(dataset)}"
        rows.append([what, *_beside(chosen_runs, [usual, *ways])])
    head = ["", "cells", "runs", "by validation", "by test labels", "last"]
    return f"{EPOCHS}\n\n{grid(head, rows, numbers=range(1, 6))}" if rows else ""


def _beside(runs: Runs, ways: Iterable[Runs]) -> list[str]:
    """Return the number of cells and of runs in each, and how far each way is from the paper."""
    cells = {place for place, _ in runs}
    same = [{key: way[key] for key in runs if key in way} for way in ways]
    return [f"{len(cells)}", f"{len(runs) // len(cells)}", *map(_distance, same)]


def _distance(runs: Runs) -> str:
    """Return the mean difference from the paper over the cells, the mean and largest distance."""
    cells: dict[Place, list[float]] = {}
    for (place, _), accuracy in runs.items():
        cells.setdefault(place, []).append(accuracy)
    apart = []
    for (dataset, noise, rate, method), accuracies in cells.items():
        figure = published()["main"].get(dataset, method, f"{noise}:{rate:g}")
        if figure is not None:
            apart.append(mean(accuracies) - figure.mean)
    if not apart:
        return NOTHING
    distances = [abs(difference) for difference in apart]
    return f"{signed(mean(apart), 2)} ({fixed(mean(distances), 2)}; {fixed(max(distances), 2)})"


def _accuracies(records: Iterable[Record]) -> Runs:
    return {
        ((r.cell.dataset, r.cell.noise, r.cell.rate, r.cell.method), r.cell.seed): 100 * accuracy
        for r in records
        if (accuracy := r.scores.get("test_accuracy")) is not None
    }


def _changes(cell: Cell) -> str:
    return ", ".join(f"`{name}={value}`" for name, value in cell.params.items())
