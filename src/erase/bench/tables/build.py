"""From records to a table: means over runs, ranks, and paired tests."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from scipy.stats import ttest_rel

from erase.bench.published import PublishedTable, Value, published
from erase.bench.records import Record
from erase.bench.run import PROTOCOLS
from erase.bench.selection import (
    Changes,
    Runs,
    Selection,
    changes_to_preset,
    with_the_runs_of_variants,
)
from erase.bench.tables.layouts import TABLES, Frame, Layout
from erase.bench.tables.numbers import signed
from erase.bench.tables.table import (
    Contest,
    Entry,
    Line,
    Panel,
    Place,
    Rank,
    Row,
    Table,
    is_far,
)
from erase.errors import EraseError

CLOSE = 1.5  # points from the published mean
NOT_HERE = ("corafull", "ogbn-arxiv")  # no record of these was made: their data was not at hand


def build(name: str, records: Iterable[Record], protocol: str = "paper") -> Table:
    """Return a table of `TABLES`, filled from the records of one protocol.

    Cells are found by what they are, whichever study made them: a row whose parameter has the value
    of the method's preset is also filled from runs that changed nothing, with the seeds of the
    other rows.
    """
    layout = TABLES.get(name)
    if layout is None:
        raise EraseError(f"a table among {', '.join(TABLES)}", repr(name), "Choose one.")
    if protocol not in PROTOCOLS:
        raise EraseError(f"a protocol among {', '.join(PROTOCOLS)}", repr(protocol), "Choose one.")
    protocol = layout.only_protocol or protocol
    records = list(records)
    kept = [
        record
        for record in records
        if record.error is None and (layout.any_protocol or record.cell.protocol == protocol)
    ]
    selection = Selection(kept)
    paper = published().get(name)
    panels = tuple(_fill(frame, layout, selection, paper) for frame in layout.frames(kept))
    table = Table(name, layout.title, None if layout.any_protocol else protocol, panels)
    if not _is_filled(table):
        raise _nothing(name, layout, protocol, records)
    misprints = paper.notes if paper and table.is_comparable else ()
    notes = (*_closeness(table), *layout.claims(table), *layout.notes, *misprints)
    return replace(table, notes=notes)


def _is_filled(table: Table) -> bool:
    """Return whether there is an entry; in a table of changed settings, one of those."""
    spots = list(table.spots())
    changed = [s for s in spots if _changes(s.row, s.place)]
    return any(spot.entry.runs for spot in changed or spots)


def _nothing(name: str, layout: Layout, protocol: str, records: Sequence[Record]) -> EraseError:
    others = {record.cell.protocol for record in records} - {protocol}
    free = not layout.any_protocol and layout.only_protocol is None
    study = "honest" if layout.study == "paper" and protocol == "honest" else layout.study
    under = "" if layout.any_protocol else f" under protocol {protocol}"
    return EraseError(
        f"records for table {name}{under}",
        f"{len(records)} records, none of which belongs there",
        f"`erase bench {study}` makes them."
        + "".join(f" Or take --protocol {other}." for other in sorted(others) if free),
    )


def _changes(row: Row, place: Place) -> Changes:
    return changes_to_preset(row.method, place.dataset, row.params)


def _find(row: Row, place: Place, frame: Frame, selection: Selection) -> Runs:
    """Return the values of a row's runs at a place."""
    measure = row.measure or frame.measure

    def read(record: Record) -> float | None:
        return measure.read(record) if frame.machine in (None, record.machine) else None

    return selection.runs(
        read,
        dataset=place.dataset,
        noise=place.noise,
        rate=place.rate,
        method=row.method,
        params=row.params,
        labels_per_class=place.labels_per_class,
    )


def _fill(
    frame: Frame, layout: Layout, selection: Selection, paper: PublishedTable | None
) -> Panel:
    columns = [_column(frame, layout, place, selection, paper) for place in frame.places]
    lines = tuple(
        Line(row, tuple(column[i] for column in columns)) for i, row in enumerate(frame.rows)
    )
    lacking = ""
    if not any(entry.runs for line in lines for entry in line.entries):
        absent = {place.dataset for place in frame.places} <= set(NOT_HERE)
        lacking = "data not available here" if absent else "no records"
    return Panel(frame.title, frame.measure, tuple(frame.places), lines, lacking)


def _column(
    frame: Frame, layout: Layout, place: Place, selection: Selection, paper: PublishedTable | None
) -> list[Entry]:
    """Return the entries of all rows at one place."""
    rows = frame.rows
    changes = [_changes(row, place) for row in rows]
    runs = [_find(row, place, frame, selection) for row in rows]
    if layout.same_runs:
        runs = with_the_runs_of_variants(runs, changes)
    figures = paper if frame.measure.is_printed else None
    printed = [figures.get(place.dataset, row.key, place.key) if figures else None for row in rows]
    entries = [_entry(found, value) for found, value in zip(runs, printed, strict=True)]
    if not frame.measure.ranks:
        return entries
    ranked = [i for i, row in enumerate(rows) if not row.sanity]
    means = [entries[i].mean for i in ranked]
    highest = max((mean for mean in means if mean is not None), default=None)
    for i in ranked:
        mean = entries[i].mean
        entries[i] = replace(entries[i], is_best=mean is not None and mean == highest)
    about = _about(layout, rows, changes)
    if about is None or entries[about].mean is None:
        return entries
    entries[about] = replace(
        entries[about],
        contest=_contest(about, [i for i in ranked if i != about], rows, runs, entries),
        rank=_rank(entries[about], [entries[i] for i in ranked]) if layout.is_ranked else None,
    )
    return entries


def _about(layout: Layout, rows: Sequence[Row], changes: Sequence[Changes]) -> int | None:
    """Return which row is compared with the others."""
    for i, row in enumerate(rows):
        if row.key == layout.about or (layout.about is None and not changes[i]):
            return i
    return None


def _entry(found: Runs, printed: Value | None) -> Entry:
    values = [found[run] for run in sorted(found)]  # the same mean for any order of records
    if not values:
        return Entry(published=printed)
    mean = float(np.mean(values))
    spread = len(values) > 1 and np.isfinite(mean)
    std = float(np.std(values, ddof=1)) if spread else None
    return Entry(mean, std, len(values), printed)


def _rank(ours: Entry, entries: Sequence[Entry]) -> Rank:
    means = [entry.mean for entry in entries if entry.mean is not None]
    printed = [entry.published.mean for entry in entries if entry.published is not None]
    there = ours.published
    return Rank(
        ours=1 + sum(mean > ours.mean for mean in means if ours.mean is not None),
        of=len(means),
        published=None if there is None else 1 + sum(mean > there.mean for mean in printed),
    )


def _contest(
    about: int,
    rivals: Sequence[int],
    rows: Sequence[Row],
    runs: Sequence[Runs],
    entries: Sequence[Entry],
) -> Contest | None:
    """Return the paired comparison with the rival of the highest mean; None without a pair."""
    means = {i: mean for i in rivals if (mean := entries[i].mean) is not None}
    if not means:
        return None
    rival = max(means, key=means.__getitem__)
    pairs = sorted(runs[about].keys() & runs[rival].keys())
    if not pairs:
        return None
    ours = np.array([runs[about][pair] for pair in pairs])
    theirs = np.array([runs[rival][pair] for pair in pairs])
    apart = ours - theirs
    varied = np.ptp(apart) > 1e-9  # never with one pair
    p_value = float(ttest_rel(ours, theirs).pvalue) if varied else None
    return Contest(rows[rival].label, float(apart.mean()), p_value, len(pairs))


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


def _closeness(table: Table) -> tuple[str, ...]:
    """Return how near the published means ERASE comes, where that is what the table is about."""
    if table.name not in ("main", "arxiv") or not table.is_comparable:
        return ()
    spots = [spot for spot in table.compared() if spot.row.key == "erase"]
    if not spots:
        return ()
    far = [spot for spot in spots if is_far(spot, CLOSE)]
    listed = ", ".join(f"{spot.place} {signed(spot.entry.difference or 0, 2)}" for spot in far)
    return (
        f"ERASE is within {CLOSE} points of the published mean in {len(spots) - len(far)} of "
        f"{len(spots)} cells" + (f"; further away: {listed}." if far else "."),
    )
