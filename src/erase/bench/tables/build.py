"""From runs to a table: a DataFrame of cells with means, ranks and paired tests."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import ttest_rel

from erase.bench.frame import (
    Runs,
    Wanted,
    changes_to_preset,
    find_runs,
    finished,
    plain_strings,
    run_frame,
    with_the_runs_of_variants,
)
from erase.bench.names import dataset_label, noise_place
from erase.bench.published import published
from erase.bench.records import Record
from erase.bench.run import PROTOCOLS
from erase.bench.tables.measures import MEASURES
from erase.bench.tables.numbers import signed
from erase.bench.tables.spec import TABLES, Panel, Place, Row, TableSpec
from erase.errors import EraseError

CLOSE = 1.5  # points from the published mean
NOT_HERE = ("corafull", "ogbn-arxiv")  # no record of these was made: their data was not at hand


@dataclass(frozen=True, eq=False)
class Table:
    """A filled table.

    Attributes:
        name: in `TABLES`.
        title: one line.
        protocol: of its records; None where it does not matter.
        cells: one row per cell, panel by panel, in reading order. Where it stands: ``panel`` (the
            title), ``panel_number``, ``column`` (a number within the table), ``place`` (the
            column's label), ``place_name`` (in words), ``place_key`` (in ``published.json``),
            ``dataset``, ``noise``, ``rate``, ``labels_per_class``, ``row`` (the row's key),
            ``label``, ``is_sanity``, ``has_changes``. What it shows: ``measure``,
            ``panel_measure``, ``unit``, ``mean``, ``std`` and standard ``error`` over ``runs``, the
            ``published`` figure with its ``published_std``, our ``difference`` from it where the
            two can be compared, and ``is_best`` for the highest of a column. Of the row that the
            table is about: ``rank`` among ``ranked``, ``published_rank``, and the paired comparison
            with the best ``rival``: ``rival_difference``, ``p_value`` and ``pairs``. NaN where
            there is nothing.
        notes: sentences to read beside it.
    """

    name: str
    title: str
    protocol: str | None
    cells: pd.DataFrame
    notes: tuple[str, ...]

    @property
    def is_comparable(self) -> bool:
        """Whether the published figures were made under the protocol of this table."""
        return self.protocol in (None, "paper")

    def panels(self) -> list[pd.DataFrame]:
        """Return the cells of each panel."""
        return [panel for _, panel in self.cells.groupby("panel_number")]

    def __eq__(self, other: object) -> bool:
        """Return whether two tables show the same."""
        return (
            isinstance(other, Table)
            and (self.name, self.protocol, self.notes) == (other.name, other.protocol, other.notes)
            and self.cells.equals(other.cells)
        )


def build(name: str, records: Iterable[Record] | pd.DataFrame, protocol: str = "paper") -> Table:
    """Return a table of `TABLES`, filled from the records of one protocol.

    Runs are found by what they are, whichever study made them: a row whose parameter has the value
    of the method's preset is also filled from runs that changed nothing, with the seeds of the
    other rows.
    """
    spec = TABLES.get(name)
    if spec is None:
        raise EraseError(f"a table among {', '.join(TABLES)}", repr(name), "Choose one.")
    if protocol not in PROTOCOLS:
        raise EraseError(f"a protocol among {', '.join(PROTOCOLS)}", repr(protocol), "Choose one.")
    runs = records if isinstance(records, pd.DataFrame) else run_frame(records)
    protocol = spec.only_protocol or protocol
    used = None if spec.any_protocol else protocol
    is_comparable = used in (None, "paper")
    kept = finished(runs, used)
    cells = _layout(name, spec, used, kept) if len(kept) else pd.DataFrame()
    found = find_runs(kept, list(cells["wanted"])) if len(cells) else []
    is_variant = cells["has_changes"] & spec.same_runs if found else ()
    of_variants = [scores for scores, variant in zip(found, is_variant, strict=True) if variant]
    if not any(of_variants or found):
        raise _nothing(name, spec, protocol, runs)
    cells = _fill(cells, spec, found, is_comparable)
    paper = published().get(name)
    misprints = paper.notes if paper and is_comparable else ()
    closeness = _closeness(cells) if name in ("main", "arxiv") and is_comparable else ()
    notes = (*closeness, *spec.claims(cells), *spec.notes, *misprints)
    return Table(name, spec.title, used, cells, notes)


def _nothing(name: str, spec: TableSpec, protocol: str, runs: pd.DataFrame) -> EraseError:
    others = set(runs["protocol"]) - {protocol}
    free = not spec.any_protocol and spec.only_protocol is None
    study = "honest" if spec.study == "paper" and protocol == "honest" else spec.study
    under = "" if spec.any_protocol else f" under protocol {protocol}"
    return EraseError(
        f"records for table {name}{under}",
        f"{len(runs)} records, none of which belongs there",
        f"`erase bench {study}` makes them."
        + "".join(f" Or take --protocol {other}." for other in sorted(others) if free),
    )


def _layout(name: str, spec: TableSpec, protocol: str | None, runs: pd.DataFrame) -> pd.DataFrame:
    """Return the cells of a table, still empty, in reading order."""
    pairs: list[tuple[str, Panel]] = list(product(spec.measures, spec.panels(runs)))
    if not spec.by_measure:
        datasets = list(dict.fromkeys(panel.dataset for _, panel in pairs))
        pairs.sort(key=lambda pair: datasets.index(pair[1].dataset))
    cells: list[dict[str, Any]] = []
    columns = 0
    for number, (measure, panel) in enumerate(pairs):
        of = "" if len(spec.measures) == 1 else f": {MEASURES[measure].words}"
        rows = spec.rows(panel.dataset, runs) if callable(spec.rows) else spec.rows
        only = MEASURES[measure].method
        for row in rows if only is None else [row for row in rows if row.method == only]:
            for i, place in enumerate(panel.places):
                about = {"panel_number": number, "column": columns + i, "panel_measure": measure}
                cells.append(about | {"panel": panel.title + of} | _cell(row, place, measure))
        columns += len(panel.places)
    return plain_strings(pd.DataFrame(cells)).assign(table=name, protocol=protocol)


def _cell(row: Row, place: Place, panel_measure: str) -> dict[str, Any]:
    measure = row.measure or panel_measure
    where = (place.dataset, place.noise, place.rate)
    kept, rate = place.labels_per_class, place.rate
    words = f"{place.noise} {rate:g}" if rate is not None else place.noise
    few = "" if kept is None else f" with {kept} labels a class"
    changes = changes_to_preset(row.method, place.dataset, row.params)
    return {
        "place": place.label,
        "place_name": f"{dataset_label(place.dataset)} "
        + ("without noise" if place.noise == "none" else f"{words}{few}"),
        "place_key": place.noise if rate is None else noise_place(place.noise, rate),
        "dataset": place.dataset,
        "noise": place.noise,
        "rate": rate,
        "labels_per_class": kept,
        "row": row.key,
        "label": row.label,
        "is_sanity": row.sanity,
        "changes": changes,
        "has_changes": bool(changes),
        "measure": measure,
        "unit": MEASURES[measure].unit,
        "wanted": Wanted(measure, *where, row.method, row.params, kept, place.machine),
    }


def _fill(
    cells: pd.DataFrame, spec: TableSpec, found: Sequence[Runs], is_comparable: bool
) -> pd.DataFrame:
    """Return the cells with their means, published figures, ranks and comparisons."""
    shown = [
        {run: MEASURES[measure].shown(score) for run, score in scores.items()}
        for measure, scores in zip(cells["measure"], found, strict=True)
    ]
    filled: list[dict[str, Any]] = [{}] * len(cells)
    for _, column in cells.groupby("column"):
        values = [shown[i] for i in column.index]
        if spec.same_runs:
            values = with_the_runs_of_variants(values, list(column["changes"]))
        for i, statistics in zip(column.index, _column(column, spec, values), strict=True):
            filled[i] = statistics
    cells = cells.join(pd.DataFrame(filled, index=cells.index, columns=_STATISTICS))
    is_alike = cells["measure"].map(lambda measure: MEASURES[measure].is_alike).astype(bool)
    apart = cells["mean"].astype(float) - cells["published"].astype(float)
    cells["difference"] = apart.where(is_alike & is_comparable)
    cells["error"] = cells["std"].astype(float) / np.sqrt(cells["runs"].astype(float))
    return cells.drop(columns=["wanted", "changes"])


_STATISTICS = ["mean", "std", "runs", "published", "published_std", "is_best"]
_STATISTICS += ["rank", "ranked", "published_rank"]
_STATISTICS += ["rival", "rival_difference", "p_value", "pairs"]


def _column(column: pd.DataFrame, spec: TableSpec, values: Sequence[Runs]) -> list[dict[str, Any]]:
    """Return what is shown of each cell of a column, given its runs."""
    first = column.iloc[0]
    measure = MEASURES[first["panel_measure"]]
    paper = published().get(first["table"]) if measure.is_printed else None
    cells = [_mean_and_deviation(runs) | {"is_best": False} for runs in values]
    for cell, row in zip(cells, column["row"], strict=True):
        printed = paper.get(first["dataset"], row, first["place_key"]) if paper else None
        if printed is not None:
            cell |= {"published": printed.mean, "published_std": printed.std}
    if not measure.ranks:
        return cells
    ranked = [i for i, is_sanity in enumerate(column["is_sanity"]) if not is_sanity]
    means = {i: cells[i]["mean"] for i in ranked if "mean" in cells[i]}
    for i, mean in means.items():
        cells[i]["is_best"] = mean == max(means.values())
    is_about = column["row"] == spec.about if spec.about else ~column["has_changes"]
    if not is_about.any() or "mean" not in cells[about := int(is_about.to_numpy().argmax())]:
        return cells
    ours = cells[about]
    if spec.is_ranked:
        theirs = [cells[i]["published"] for i in ranked if "published" in cells[i]]
        ours |= {"rank": 1 + sum(m > ours["mean"] for m in means.values()), "ranked": len(means)}
        if "published" in ours:
            ours["published_rank"] = 1 + sum(p > ours["published"] for p in theirs)
    rivals = {i: mean for i, mean in means.items() if i != about}
    if rivals:
        rival = max(rivals, key=rivals.__getitem__)
        ours |= _paired(values[about], values[rival], column["label"].iloc[rival])
    return cells


def _mean_and_deviation(runs: Runs) -> dict[str, Any]:
    values = [runs[run] for run in sorted(runs)]  # the same mean for any order of records
    if not values:
        return {"runs": 0}
    mean = float(np.mean(values))
    spread = len(values) > 1 and np.isfinite(mean)
    std = float(np.std(values, ddof=1)) if spread else None
    return {"runs": len(values), "mean": mean, "std": std}


def _paired(ours: Runs, theirs: Runs, rival: str) -> dict[str, Any]:
    """Return the difference from a rival over runs with equal seeds, and p of a paired t-test."""
    pairs = sorted(ours.keys() & theirs.keys())
    if not pairs:
        return {}
    a, b = (np.array([runs[pair] for pair in pairs]) for runs in (ours, theirs))
    varied = np.ptp(a - b) > 1e-9  # never with one pair
    return {
        "rival": rival,
        "rival_difference": float((a - b).mean()),
        "p_value": float(ttest_rel(a, b).pvalue) if varied else None,
        "pairs": len(pairs),
    }


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for their number by Holm's method, in their own order.

    The i-th smallest of m becomes min(1, (m − i + 1) p), and none is smaller than one before it: to
    reject below a level keeps the chance of any false rejection below that level, whether or not
    the tests are independent.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values, kind="stable")
    scaled = np.asarray(p_values, dtype=np.float64)[order] * np.arange(len(p_values), 0, -1)
    corrected = np.empty_like(scaled)
    corrected[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return [float(p) for p in corrected]


def is_far(cells: pd.DataFrame) -> pd.Series:
    """Return which cells, as shown, are more than `CLOSE` from the published figure."""
    decimals = [MEASURES[measure].decimals for measure in cells["panel_measure"]]
    shown = [round(d, n) for d, n in zip(cells["difference"], decimals, strict=True)]
    return pd.Series(shown, cells.index, dtype=float).abs() > CLOSE


def _closeness(cells: pd.DataFrame) -> tuple[str, ...]:
    """Return how near the published means ERASE comes."""
    ours = cells[(cells["row"] == "erase") & cells["difference"].notna()]
    if ours.empty:
        return ()
    far = ours[is_far(ours)]
    listed = ", ".join(
        f"{name} {signed(d, 2)}"
        for name, d in zip(far["place_name"], far["difference"], strict=True)
    )
    return (
        f"ERASE is within {CLOSE} points of the published mean in {len(ours) - len(far)} of "
        f"{len(ours)} cells" + (f"; further away: {listed}." if listed else "."),
    )
