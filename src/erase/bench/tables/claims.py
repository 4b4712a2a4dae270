"""Sentences that a filled table supports: how often what was hoped for is so."""

from collections.abc import Sequence
from statistics import mean

from erase.bench.detection import AUDIT, AUDIT_MODEL, DetectionSetup
from erase.bench.names import METHOD_NAMES
from erase.bench.tables.numbers import signed
from erase.bench.tables.table import Entry, Place, Spot, Table

NEAR = 0.1
OURS = f"{AUDIT}:{AUDIT_MODEL['judge']}"


def detection_claims(table: Table) -> tuple[str, ...]:
    """Return in how many cells the audit is best, keeps its promise, and knows the noise rate."""
    columns: dict[str, dict[str, list[Spot]]] = {}  # by measure and place
    for spot in table.spots():
        places = columns.setdefault(spot.panel.measure.name, {})
        places.setdefault(str(spot.place), []).append(spot)
    claims = []
    for panel in {panel.measure.name: panel for panel in table.panels}.values():
        measure = panel.measure
        filled = [c for c in columns[measure.name].values() if _ours(c).mean is not None]
        shown = f"{measure.words[0].upper()}{measure.words[1:]}"
        if measure.ranks:
            filled = [column for column in filled if _has_rival(column)]
            rivals = sum(_is_best([s for s in column if not s.row.sanity]) for column in filled)
            all_rows = sum(map(_is_best, filled))
            claims.append(
                f"{shown}: the audit is best or within one standard error of the best in {rivals} "
                f"of {len(filled)} cells; among all rows, with any judge, in {all_rows}."
            )
            continue
        asked = DetectionSetup.max_false_alarms if measure.name == "false_alarms" else 0.0
        near = sum(abs((_ours(c).mean or 0.0) / 100 - asked) <= NEAR for c in filled)
        goal = f"{NEAR} of the {asked} asked for" if asked else f"{NEAR}"
        claims.append(f"{shown}: within {goal} in {near} of {len(filled)} cells.")
    return tuple(claims)


def correction_claims(table: Table) -> tuple[str, ...]:
    """Return what each method gains from corrected labels, on average over the cells."""
    gains: dict[str, list[float]] = {}
    for panel in table.panels:
        means = {line.row.key: [entry.mean for entry in line.entries] for line in panel.lines}
        for method in (key for key in means if f"{key}:corrected" in means):
            for before, after in zip(means[method], means[f"{method}:corrected"], strict=True):
                if before is not None and after is not None:
                    gains.setdefault(method, []).append(after - before)
    return tuple(
        f"{METHOD_NAMES[method]}: corrected labels change the accuracy by "
        f"{signed(mean(found), 2)} points on average over {len(found)} cells, "
        f"from {signed(min(found), 2)} to {signed(max(found), 2)}."
        for method, found in gains.items()
    )


def beyond_claims(table: Table) -> tuple[str, ...]:
    """Return how far relabelling is ahead on average over noisy cells, and where it is not."""
    columns: dict[Place, dict[str, float]] = {}  # means by method
    for spot in table.spots():
        if spot.entry.mean is not None and spot.panel.measure.ranks:
            columns.setdefault(spot.place, {})[spot.row.key] = spot.entry.mean
    columns = {
        p: means for p, means in columns.items() if "relabelling" in means and len(means) > 1
    }
    noisy = [means for place, means in columns.items() if place.noise != "none"]
    everywhere = [key for key in METHOD_NAMES if noisy and all(key in means for means in noisy)]
    averages = {key: mean(means[key] for means in noisy) for key in everywhere}
    rivals = {key: value for key, value in averages.items() if key != "relabelling"}
    if not rivals:
        return ()
    best = max(rivals, key=lambda key: rivals[key])
    ours = averages["relabelling"]
    claims = [
        f"Mean over {len(noisy)} noisy cells: relabelling {ours:.2f}, the best single rival "
        f"{METHOD_NAMES[best]} {rivals[best]:.2f} ({signed(ours - rivals[best], 2)})"
        + (f", ERASE {rivals['erase']:.2f}." if "erase" in rivals and best != "erase" else ".")
    ]
    behind = {
        place: means["relabelling"] - max(v for k, v in means.items() if k != "relabelling")
        for place, means in columns.items()
    }
    worst = min(behind, key=lambda place: behind[place])
    claims.append(
        f"Against the best rival of each cell it is ahead in "
        f"{sum(gap >= 0 for gap in behind.values())} of {len(behind)}; its worst is {worst}, "
        f"{signed(behind[worst], 2)}."
    )
    return tuple(claims)


def _ours(column: Sequence[Spot]) -> Entry:
    (ours,) = (spot.entry for spot in column if spot.row.key == OURS)
    return ours


def _has_rival(column: Sequence[Spot]) -> bool:
    """Return whether a ranked row beside the audit has runs here."""
    return any(s.entry.runs for s in column if not s.row.sanity and s.row.key != OURS)


def _is_best(column: Sequence[Spot]) -> bool:
    """Return whether the audit's mean is within the best one's standard error of it."""
    entries = [spot.entry for spot in column]
    best, error = max((e.mean, e.error or 0.0) for e in entries if e.mean is not None)
    ours = _ours(column).mean
    return ours is not None and ours >= best - error
