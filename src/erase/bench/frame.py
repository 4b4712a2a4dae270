"""Records as a tidy DataFrame, one row per run, and which of them are the runs of a table's cell.

A run belongs to a cell by what was run, whichever study it was made for. A parameter that is
set to the value of the method's preset counts as not set, so the usual value of a sweep also has
the runs that set nothing.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import pandas as pd

from erase.bench.records import Cell, Record
from erase.data.datasets import dataset_name
from erase.methods import METHODS, build_method

Changes = frozenset[tuple[str, Any]]
Run = tuple[str, str, float, int]  # protocol, noise, rate, seed: what two runs share to be a pair
Runs = dict[Run, float]
RUN = ["protocol", "noise", "rate", "seed"]


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
    """Return whether the cell has the settings of the method's preset."""
    return not changes_to_preset(cell.method, cell.dataset, cell.params)


def run_frame(records: Iterable[Record]) -> pd.DataFrame:
    """Return one row per run: the fields of its cell, its scores, its machine, times and error.

    Besides the fields of cell and record there are ``changes``, see `changes_to_preset`,
    ``ms_per_epoch``, and a column for each score, NaN where a run has none.
    """
    rows = [
        cell.fields
        | {
            "changes": changes_to_preset(cell.method, cell.dataset, cell.params),
            "machine": record.machine,
            "batch": record.batch,
            "error": record.error,
            "ms_per_epoch": _epoch_time(record),
        }
        | {name: _score(name, value) for name, value in record.scores.items()}
        for record in records
        for cell in [record.cell]
    ]
    columns = [*Cell.__annotations__, "changes", "machine", "batch", "error", "ms_per_epoch"]
    frame = plain_strings(pd.DataFrame(rows, columns=None if rows else columns))
    return frame.astype({"rate": float, "labels_per_class": float, "ms_per_epoch": float})


def plain_strings(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with Python's strings instead of Arrow's.

    Tables get values one at a time, which is slow with Arrow's.
    """
    names = [name for name in frame if pd.api.types.is_string_dtype(frame[name].dtype)]
    return frame.astype(dict.fromkeys(names, object))


def finished(runs: pd.DataFrame, protocol: str | None) -> pd.DataFrame:
    """Return the runs without an error, of one protocol or of all."""
    kept = runs["error"].isna()
    return runs[kept if protocol is None else kept & (runs["protocol"] == protocol)]


def _epoch_time(record: Record) -> float | None:
    if not record.epochs or record.seconds is None:
        return None
    return 1000 * record.seconds / record.epochs


def _score(name: str, value: float | None) -> float | None:
    """Return a score; a logarithm of zero is −∞, which a record cannot hold."""
    return -math.inf if name == "log_ntvr" and value is None else value


class Wanted(NamedTuple):
    """The runs of one cell of a table or of one point of a figure, and the score to read.

    Attributes:
        score: a column of `run_frame`.
        dataset: of the runs.
        noise: of the runs; "any" joins all of them, at all rates.
        rate: of the runs.
        method: of the runs.
        params: of the runs; which of them are changes depends on method and dataset.
        labels_per_class: training labels kept of each class; None: all.
        machine: the runs were made on; None: any.
    """

    score: str
    dataset: str
    noise: str
    rate: float | None
    method: str = "erase"
    params: Mapping[str, Any] = {}
    labels_per_class: int | None = None
    machine: str | None = None


def find_runs(runs: pd.DataFrame, wanted: Sequence[Wanted]) -> list[Runs]:
    """Return the score of the runs that belong to each of the `wanted`, by run.

    Where the same run was made with different params, the one with the wanted params is taken,
    else the one with the fewest, whatever the order of the records; of two with the same params,
    the later.

    Args:
        runs: of `run_frame`.
        wanted: what to find.
    """
    found: list[Runs] = [{} for _ in wanted]
    if not found or runs.empty:
        return found
    points = plain_strings(pd.DataFrame(wanted, columns=Wanted._fields))
    points = points.rename_axis("index").reset_index()
    points["changes"] = [changes_to_preset(w.method, w.dataset, w.params) for w in wanted]
    points = points.astype({"labels_per_class": float, "rate": float})
    keys = ["dataset", "method", "changes", "labels_per_class"]
    scores = sorted(set(points["score"]) & set(runs))
    joined = points.merge(
        runs[[*keys, *RUN, "params", "machine", *scores]].rename_axis("order").reset_index(),
        on=keys,
        suffixes=("_wanted", ""),
    )
    is_place = (joined["noise_wanted"] == joined["noise"]) & (
        joined["rate_wanted"] == joined["rate"]
    )
    is_place |= joined["noise_wanted"] == "any"
    is_place &= joined["machine_wanted"].isna() | (joined["machine_wanted"] == joined["machine"])
    joined = joined[is_place]
    value = pd.Series(math.nan, joined.index)
    for score in scores:
        value[joined["score"] == score] = joined[score]
    joined = joined.assign(value=value).dropna(subset="value")
    joined["has_other_params"] = [
        dict(a) != dict(b) for a, b in zip(joined["params_wanted"], joined["params"], strict=True)
    ]
    joined["number"] = joined["params"].map(len)
    is_repeated = joined.duplicated(["index", *RUN], keep=False)
    joined["text"] = [
        json.dumps(dict(params), sort_keys=True) if again else ""  # slow, and sorts these alone
        for params, again in zip(joined["params"], is_repeated, strict=True)
    ]
    order = ["has_other_params", "number", "text", "order"]
    joined = joined.sort_values(order, ascending=[True, True, True, False])
    joined = joined.drop_duplicates(["index", *RUN]).sort_values(RUN)
    for index, *run, value in joined[["index", *RUN, "value"]].itertuples(index=False):
        found[index][tuple(run)] = value
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
