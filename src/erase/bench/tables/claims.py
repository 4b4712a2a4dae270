"""Sentences that the cells of a filled table support."""

from statistics import mean

import pandas as pd

from erase.bench.detection import AUDIT, AUDIT_MODEL, DetectionSetup
from erase.bench.names import METHOD_NAMES
from erase.bench.tables.measures import MEASURES
from erase.bench.tables.numbers import signed

NEAR = 0.1
OURS = f"{AUDIT}:{AUDIT_MODEL['judge']}"


def detection_claims(cells: pd.DataFrame) -> tuple[str, ...]:
    """Return in how many cells the audit is best, keeps its promise, and knows the noise rate."""
    filled = cells[cells["runs"] > 0]
    claims = []
    for name in dict.fromkeys(cells["measure"]):
        here, words = filled[filled["measure"] == name], MEASURES[name].words
        words = f"{words[0].upper()}{words[1:]}"
        if MEASURES[name].ranks:
            claims.append(_best_claim(here, words))
            continue
        asked = DetectionSetup.max_false_alarms if name == "false_alarms" else 0.0
        means = here.loc[here["row"] == OURS, "mean"].astype(float)
        near = ((means / 100 - asked).abs() <= NEAR).sum()
        goal = f"{NEAR} of the {asked} asked for" if asked else f"{NEAR}"
        claims.append(f"{words}: within {goal} in {near} of {len(means)} cells.")
    return tuple(claims)


def _best_claim(cells: pd.DataFrame, words: str) -> str:
    """Return how often the audit is within a standard error of the best, where it has a rival."""
    columns = [
        column
        for _, column in cells.groupby("column")
        if (column["row"] == OURS).any() and (~column["is_sanity"] & (column["row"] != OURS)).any()
    ]
    rivals = sum(_is_best(column[~column["is_sanity"]]) for column in columns)
    all_rows = sum(map(_is_best, columns))
    return (
        f"{words}: the audit is best or within one standard error of the best in {rivals} "
        f"of {len(columns)} cells; among all rows, with any judge, in {all_rows}."
    )


def _is_best(column: pd.DataFrame) -> bool:
    """Return whether the audit's mean is within the best one's standard error of it."""
    errors = column["error"].fillna(0.0)
    best, error = max(zip(column["mean"], errors, strict=True))
    (ours,) = column.loc[column["row"] == OURS, "mean"]
    return bool(ours >= best - error)


def correction_claims(cells: pd.DataFrame) -> tuple[str, ...]:
    """Return what each method gains from corrected labels, on average over the cells."""
    means = cells.pivot(index="column", columns="row", values="mean").astype(float)
    claims = []
    for method in (key for key in METHOD_NAMES if f"{key}:corrected" in means):
        gains = (means[f"{method}:corrected"] - means[method]).dropna()
        if len(gains):
            claims.append(
                f"{METHOD_NAMES[method]}: corrected labels change the accuracy by "
                f"{signed(mean(gains), 2)} points on average over {len(gains)} cells, "
                f"from {signed(gains.min(), 2)} to {signed(gains.max(), 2)}."
            )
    return tuple(claims)


def beyond_claims(cells: pd.DataFrame) -> tuple[str, ...]:
    """Return how far relabelling is ahead on average over noisy cells, and where it is not."""
    cells = cells[cells["measure"] == "test_accuracy"]
    means = cells.pivot(index="column", columns="row", values="mean").astype(float)
    means = means[means["relabelling"].notna() & (means.notna().sum(axis=1) > 1)]
    places = cells.drop_duplicates("column").set_index("column").loc[means.index]
    noisy = means[places["noise"] != "none"]
    everywhere = [key for key in METHOD_NAMES if key in noisy and noisy[key].notna().all()]
    averages = {key: mean(noisy[key]) for key in everywhere if len(noisy)}
    rivals = {key: value for key, value in averages.items() if key != "relabelling"}
    if not rivals:
        return ()
    best = max(rivals, key=rivals.__getitem__)
    ours = averages["relabelling"]
    erase = f", ERASE {rivals['erase']:.2f}" if "erase" in rivals and best != "erase" else ""
    ahead = means["relabelling"] - means.drop(columns="relabelling").max(axis=1)
    worst = ahead.idxmin()
    return (
        f"Mean over {len(noisy)} noisy cells: relabelling {ours:.2f}, the best single rival "
        f"{METHOD_NAMES[best]} {rivals[best]:.2f} ({signed(ours - rivals[best], 2)}){erase}.",
        f"Against the best rival of each cell it is ahead in {(ahead >= 0).sum()} of "
        f"{len(ahead)}; its worst is {places.loc[worst, 'place_name']}, "
        f"{signed(ahead[worst], 2)}.",
    )
