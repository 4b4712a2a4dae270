"""Sentences that the cells of a filled table support."""

from statistics import mean
from typing import NamedTuple

import pandas as pd

from erase.bench.detection import AUDIT, AUDIT_MODEL, MODEL, DetectionSetup
from erase.bench.names import ABLATION_NAMES, METHOD_NAMES
from erase.bench.tables.measures import MEASURES
from erase.bench.tables.numbers import signed

NEAR = 0.1
OURS = f"{AUDIT}:{AUDIT_MODEL[MODEL]}"


class TimesBest(NamedTuple):
    """In how many cells the audit is within one standard error of the best.

    Attributes:
        cells: in which it has a rival.
        rivals: in which it is best among its rivals with their usual models.
        all_rows: in which it is best among all rows.
    """

    cells: int
    rivals: int
    all_rows: int


class TimesNear(NamedTuple):
    """In how many cells a measure of the audit is within `NEAR` of its goal, of how many."""

    near: int
    cells: int


class Lead(NamedTuple):
    """How relabelling compares with its rivals: mean test accuracies in %.

    Attributes:
        noisy: cells with noise, over which accuracies are averaged.
        ours: mean of relabelling.
        rival: the other method with the highest mean.
        theirs: its mean.
        erase: the mean of ERASE; None where that is the rival, or was not run.
        cells: with and without noise.
        ahead: of these, the cells in which relabelling is at least as good as any rival.
        worst: the smallest lead in a cell.
        worst_place: that cell.
    """

    noisy: int
    ours: float
    rival: str
    theirs: float
    erase: float | None
    cells: int
    ahead: int
    worst: float
    worst_place: str


def detection_claims(cells: pd.DataFrame) -> tuple[str, ...]:
    """Return in how many cells the audit is best, and near the false alarms and noise rate."""
    claims = []
    for name in dict.fromkeys(cells["measure"]):
        here, words = cells[cells["measure"] == name], MEASURES[name].words
        words = f"{words[0].upper()}{words[1:]}"
        if MEASURES[name].ranks:
            best = times_best(here)
            claims.append(
                f"{words}: the audit is best or within one standard error of the best in "
                f"{best.rivals} of {best.cells} cells; among all rows, with any model, in "
                f"{best.all_rows}."
            )
            continue
        allowed = DetectionSetup.max_false_alarms if name == "false_alarms" else 0.0
        count = times_near(here, name, allowed)
        goal = f"{NEAR} of the {allowed} allowed" if allowed else f"{NEAR}"
        claims.append(f"{words}: within {goal} in {count.near} of {count.cells} cells.")
    return tuple(claims)


def annotator_claims(cells: pd.DataFrame) -> tuple[str, ...]:
    """Return how the audit compares with its best rival on average, for each noise and rate."""
    claims = []
    for (noise, rate), here in cells.groupby(["noise", "rate"], sort=False):
        parts = []
        for name in ("auroc", "f1"):
            means = here[here["measure"] == name].pivot(
                index="column", columns="row", values="mean"
            )
            means = means.astype(float).dropna()
            if OURS not in means or means.empty:
                continue
            ours, rivals = means[OURS], means.drop(columns=OURS)
            best = rivals.mean().max()
            first = int((ours >= rivals.max(axis=1)).sum())
            parts.append(
                f"{MEASURES[name].words} {ours.mean():.1f} against {best:.1f} of the best single "
                f"rival, first in {first} of {len(means)} graphs"
            )
        bounds = {
            name: here.loc[here["measure"] == name, "mean"].astype(float).dropna()
            for name in ("bound_holds", "bound_share")
        }
        if parts and len(bounds["bound_holds"]):
            parts.append(
                f"the lower bound holds in {bounds['bound_holds'].mean():.0f} % of the draws and "
                f"is {bounds['bound_share'].mean():.0f} % of the true rate on average"
            )
        if parts:
            title = f"{noise[:1].upper()}{noise[1:]} {rate:g}"
            claims.append(f"{title}: {'; '.join(parts)}.")
    return tuple(claims)


def ablation_claims(cells: pd.DataFrame) -> tuple[str, ...]:
    """Return by how much AUROC changes without a part of the evidence, on average over graphs."""
    claims = []
    here = cells[(cells["measure"] == "auroc") & (cells["runs"] > 0)]
    for (noise, rate), of_noise in here.groupby(["noise", "rate"], sort=False):
        means = of_noise.pivot(index="column", columns="row", values="mean").astype(float)
        means = means.reindex(columns=dict.fromkeys([OURS, *of_noise["row"]])).dropna()
        changes = [
            f"{ABLATION_NAMES[part]} {signed((means[part] - means[OURS]).mean(), 1)}, from "
            f"{signed((means[part] - means[OURS]).min(), 1)} to "
            f"{signed((means[part] - means[OURS]).max(), 1)}"
            for part in means
            if part != OURS and len(means)
        ]
        if changes:
            title = f"{noise[:1].upper()}{noise[1:]} {rate:g}"
            claims.append(
                f"{title}, change of AUROC on average over {len(means)} graphs: "
                f"{'; '.join(changes)}."
            )
    return tuple(claims)


def review_claims(cells: pd.DataFrame) -> tuple[str, ...]:
    """Return what our choice gains over the best plain one, on average over the graphs."""
    gains = review_gains(cells)
    if not gains:
        return ()
    words = ", ".join(f"{signed(gain, 1)} after {count}" for count, gain in gains.items())
    return (
        "Mean over the graphs: the audit's own choice is ahead of the best choice of a regression "
        f"on the answers by {words} labels (points of accuracy).",
    )


def review_gains(cells: pd.DataFrame) -> dict[int, float]:
    """Return by how many points our choice is ahead of the best plain one, by reviewed labels."""
    here = cells[(cells["measure"] == "accuracy") & (cells["runs"] > 0)]
    means = here.groupby("row")["mean"].mean()
    gains = {}
    for row in means.index:
        name, count, errors = row.split(":")
        if name == "audit-gain":
            plain = [
                mean
                for other, mean in means.items()
                if other.startswith("plain-") and other.endswith(f":{count}:{errors}")
            ]
            if plain:
                gains[int(count)] = float(means[row] - max(plain))
    return dict(sorted(gains.items()))


def times_best(cells: pd.DataFrame) -> TimesBest:
    """Count the cells of one measure in which the audit is within a standard error of the best."""
    columns = [
        column
        for _, column in cells[cells["runs"] > 0].groupby("column")
        if (column["row"] == OURS).any() and (~column["is_sanity"] & (column["row"] != OURS)).any()
    ]
    rivals = sum(_is_best(column[~column["is_sanity"]]) for column in columns)
    return TimesBest(len(columns), rivals, sum(map(_is_best, columns)))


def times_near(cells: pd.DataFrame, measure: str, goal: float) -> TimesNear:
    """Count the cells in which a measure of the audit, a share of 1, is within `NEAR` of a goal."""
    of_audit = (cells["measure"] == measure) & (cells["row"] == OURS) & (cells["runs"] > 0)
    means = cells.loc[of_audit, "mean"].astype(float)
    return TimesNear(((means / 100 - goal).abs() <= NEAR).sum(), len(means))


def _is_best(column: pd.DataFrame) -> bool:
    """Return whether the audit's mean is within the best one's standard error of it."""
    errors = column["error"].fillna(0.0)
    best, error = max(zip(column["mean"], errors, strict=True))
    (ours,) = column.loc[column["row"] == OURS, "mean"]
    return bool(ours >= best - error)


def correction_claims(cells: pd.DataFrame) -> tuple[str, ...]:
    """Return what each method gains from corrected labels, on average over the cells."""
    return _gains(cells, "", ":corrected", "corrected labels change the accuracy by")


def inductive_claims(cells: pd.DataFrame) -> tuple[str, ...]:
    """Return what each method loses on nodes that its fit did not see, on average over cells."""
    return _gains(cells, ":seen", ":unseen", "not to have seen the nodes changes the accuracy by")


def _gains(cells: pd.DataFrame, before: str, after: str, words: str) -> tuple[str, ...]:
    """Return a sentence for each method: its rows `after` less `before`, suffixes of their keys."""
    means = cells.pivot(index="column", columns="row", values="mean").astype(float)
    claims = []
    for method in (key for key in METHOD_NAMES if f"{key}{after}" in means):
        gains = (means[f"{method}{after}"] - means[f"{method}{before}"]).dropna()
        if len(gains):
            claims.append(
                f"{METHOD_NAMES[method]}: {words} {signed(mean(gains), 2)} points on average over "
                f"{len(gains)} cells, from {signed(gains.min(), 2)} to {signed(gains.max(), 2)}."
            )
    return tuple(claims)


def relabelling_lead(cells: pd.DataFrame) -> Lead | None:
    """Return how far relabelling is ahead of the other methods; None without another method."""
    cells = cells[cells["measure"] == "test_accuracy"]
    means = cells.pivot(index="column", columns="row", values="mean").astype(float)
    means = means[means["relabelling"].notna() & (means.notna().sum(axis=1) > 1)]
    places = cells.drop_duplicates("column").set_index("column").loc[means.index]
    noisy = means[places["noise"] != "none"]
    everywhere = [key for key in METHOD_NAMES if key in noisy and noisy[key].notna().all()]
    averages = {key: mean(noisy[key]) for key in everywhere if len(noisy)}
    rivals = {key: value for key, value in averages.items() if key != "relabelling"}
    if not rivals:
        return None
    best = max(rivals, key=rivals.__getitem__)
    ahead = means["relabelling"] - means.drop(columns="relabelling").max(axis=1)
    worst = ahead.idxmin()
    return Lead(
        len(noisy),
        averages["relabelling"],
        METHOD_NAMES[best],
        rivals[best],
        None if best == "erase" else rivals.get("erase"),
        len(ahead),
        (ahead >= 0).sum(),
        ahead[worst],
        places.loc[worst, "place_name"],
    )


def beyond_claims(cells: pd.DataFrame) -> tuple[str, ...]:
    """Return how far relabelling is ahead on average over noisy cells, and where it is not."""
    lead = relabelling_lead(cells)
    if lead is None:
        return ()
    erase = "" if lead.erase is None else f", ERASE {lead.erase:.2f}"
    return (
        f"Mean over {lead.noisy} noisy cells: relabelling {lead.ours:.2f}, the best single rival "
        f"{lead.rival} {lead.theirs:.2f} ({signed(lead.ours - lead.theirs, 2)}){erase}.",
        f"Against the best rival of each cell it is ahead in {lead.ahead} of {lead.cells}; its "
        f"smallest lead is {signed(lead.worst, 2)}, on {lead.worst_place}.",
    )
