"""Which records are the runs of a row: one rule for tables and figures.

A record belongs to a row by what was run, whichever study asked for it and in whatever words. A
parameter with the value of the method's preset is no change, so a sweep's usual value has the runs
of that value and the runs that changed nothing.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from erase.bench.records import Cell, Record
from erase.data.datasets import dataset_name
from erase.methods import METHODS, build_method

Changes = frozenset[tuple[str, Any]]
Run = tuple[str, str, float, int]  # protocol, noise, rate, seed: what two runs share to be a pair
Runs = dict[Run, float]


@cache
def preset_of(method: str, dataset: str) -> Mapping[str, Any]:
    """Return the parameters of a method's preset for a dataset."""
    model = build_method(method, dataset=dataset_name(dataset))
    params: dict[str, Any] = model.get_params(deep=False)
    return params


def changes_to_preset(method: str, dataset: str, params: Mapping[str, Any]) -> Changes:
    """Return those of `params` that differ from the method's preset for the dataset.

    >>> changes_to_preset("erase", "cora", {"keep": 0.6, "steps": 8})  # keep is 0.6 anyway
    frozenset({('steps', 8)})
    """
    preset = preset_of(method, dataset) if params and method in METHODS else {}
    return frozenset((k, v) for k, v in params.items() if k not in preset or preset[k] != v)


def has_usual_settings(cell: Cell) -> bool:
    """Return whether the cell is a method as its preset has it."""
    return not changes_to_preset(cell.method, cell.dataset, cell.params)


class Selection:
    """Records of finished runs, found by what was run."""

    def __init__(self, records: Iterable[Record]) -> None:
        self._groups: dict[tuple[str, str, Changes], list[Record]] = defaultdict(list)
        for record in records:
            cell = record.cell
            changes = changes_to_preset(cell.method, cell.dataset, cell.params)
            self._groups[cell.dataset, cell.method, changes].append(record)

    def runs(
        self,
        read: Callable[[Record], float | None],
        *,
        dataset: str,
        noise: str,
        rate: float | None,
        method: str = "erase",
        params: Mapping[str, Any] | None = None,
        labels_per_class: int | None = None,
    ) -> Runs:
        """Return the values of a row's runs.

        Where the same run was asked for in several words, the one with `params` as they are is
        taken, else the one with the fewest, whatever the order of the records; of two that were
        asked for alike, the later.

        Args:
            read: the value of a record; None leaves it out.
            dataset: of the runs.
            noise: of the runs; "any" joins all of them, at all rates.
            rate: of the runs.
            method: of the runs.
            params: of the runs; which of them are changes depends on method and dataset.
            labels_per_class: training labels kept of each class; None: all.
        """
        own = dict(params or {})
        changes = changes_to_preset(method, dataset, own)
        found: Runs = {}
        distances: dict[Run, tuple[bool, int, str]] = {}  # of the words from the row's own
        for record in self._groups.get((dataset, method, changes), ()):
            cell, value = record.cell, read(record)
            is_here = noise == "any" or (cell.noise, cell.rate) == (noise, rate)
            if value is None or not is_here or cell.labels_per_class != labels_per_class:
                continue
            run = (cell.protocol, cell.noise, cell.rate, cell.seed)
            words = dict(cell.params)
            distance = (words != own, len(words), json.dumps(words, sort_keys=True))
            if run not in found or distance <= distances[run]:
                found[run], distances[run] = value, distance
        return found


def with_the_runs_of_variants(found: Sequence[Runs], changes: Sequence[Changes]) -> list[Runs]:
    """Return the runs of each row, those of usual settings only where a variant has the run too.

    Usual settings often have more runs than their variants; a mean over other runs is no fair
    comparison. Without any run of a variant, all stay.

    Args:
        found: the runs of each row.
        changes: of each row to the preset; none are usual settings.
    """
    others = {run for runs, changed in zip(found, changes, strict=True) if changed for run in runs}
    return [
        runs if changed or not others else {run: runs[run] for run in runs if run in others}
        for runs, changed in zip(found, changes, strict=True)
    ]
