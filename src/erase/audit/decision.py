"""Decide which given labels are wrong from out-of-fold probabilities: functions of (given, proba).

The model of how labels go wrong is that of :mod:`erase.methods.relabelling.noise_model`; here it is
fitted to all labels, its uncertainty is measured, and labels are flagged. Before that, the
probabilities must predict the given labels better than chance: see :func:`agreement`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta, norm

from erase.errors import EraseError
from erase.methods.relabelling.noise_model import (
    Calibration,
    calibrate,
    log_proba,
    maximise,
    posteriors,
    powered,
)
from erase.random import numpy_stream

Floats = NDArray[np.float64]
Classes = NDArray[np.int64]

CANNOT_TELL = "can't tell"

_FOLDS, _WEIGHED = 5, 5_000  # labels that suffice to weight the noise models
_RESAMPLES, _RESAMPLED_STEPS = 50, 15
_INTERVAL = (5.0, 95.0)  # percentiles
_CHANCE = 0.01  # significance level of the test against chance
_DEPENDENCE = 2.0  # times the variance of independent predictions
_LEAST_CORRELATION = 0.05
_ROUNDING = 1e-9  # of probabilities that are the same for all nodes, and of counts


@dataclass(frozen=True)
class Estimate:
    """A number with its 90 % interval [low, high]."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Agreement:
    """How well out-of-fold probabilities predict the given labels.

    Attributes:
        model: share of the labels that are the most probable class of their node.
        majority: share of the labels that are the most common class; counted over these same
            labels, not out of fold, which favours it a little.
        correlation: of probabilities with labels; 0 by chance, 1 for certain and right predictions.
        needed: the correlation below which it may be chance, or is too weak to use; above 1 where
            there are too few labels to tell.
    """

    model: float
    majority: float
    correlation: float
    needed: float

    @property
    def is_informative(self) -> bool:
        """Whether the probabilities tell enough about the labels to call any of them wrong."""
        return self.correlation >= self.needed

    def __str__(self) -> str:
        """Return the numbers in words."""
        needed = f"{self.needed:.2f} is needed" if self.needed <= 1 else "with too few labels"
        return (
            f"models that had not seen a label agree with {self.model:.1%} of the labels, the most "
            f"common class with {self.majority:.1%} (correlation {self.correlation:.2f}, {needed})"
        )


@dataclass(frozen=True, eq=False)
class Decision:
    """Decisions about n given labels.

    Attributes:
        quality: [n] P(the given label is right): 1 surely right, 0 surely wrong.
        posterior: [n, K] P(true class | node, given label).
        suggested: [n] the most probable class; the given one where no other is more probable.
        is_issue: [n] whether the label is flagged; another class is then suggested.
        verdict: [n] "right", "wrong" or "can't tell".
        noise_rate: the share of wrong labels.
        agreement: how well `proba` predicts the labels. Where it is not informative, nothing is
            flagged, every verdict is "can't tell", and the interval of the noise rate is [0, 1].
        transition: [K, K] P(given class | true class), ``[true, given]``.
        transition_low: [K, K] the lower ends of its 90 % intervals.
        transition_high: [K, K] the upper ends.
        expected_false_alarms: mean quality of the flagged labels; at most the limit that was set.
        threshold: the quality at and below which a label is flagged.
    """

    quality: NDArray[np.float64]
    posterior: NDArray[np.float64]
    suggested: NDArray[np.int64]
    is_issue: NDArray[np.bool_]
    verdict: NDArray[np.str_]
    noise_rate: Estimate
    agreement: Agreement
    transition: NDArray[np.float64]
    transition_low: NDArray[np.float64]
    transition_high: NDArray[np.float64]
    expected_false_alarms: float
    threshold: float


def decide(given: Classes, proba: Floats, *, max_false_alarms: float, seed: int = 0) -> Decision:
    """Return which of the `given` labels are wrong, according to `proba`.

    Labels are flagged by :func:`verdicts`, if `proba` predicts the labels better than chance by
    :func:`agreement`; otherwise nothing is flagged. The only label of its class is never flagged,
    since no model has seen another of its class. Such labels have no part in the agreement, in T,
    nor in the noise rate. Cost: linear in n.

    Args:
        given: [n] classes 0 … K−1.
        proba: [n, K] out-of-sample: a node's own label took no part in its row.
        max_false_alarms: the largest expected share of right labels among the flagged, in [0, 1].
        seed: of the folds and samples behind weights and intervals.
    """
    given, proba = _checked(given, proba, max_false_alarms)
    checkable = _checkable(given)
    calibration = _calibrated(given[checkable], proba[checkable], seed)
    posterior = np.empty_like(proba)
    posterior[checkable] = calibration.posterior(given[checkable], proba[checkable])
    posterior[~checkable] = posteriors(given[~checkable], proba[~checkable], calibration.transition)
    transition = calibration.transition
    rates, transitions = _resampled(given[checkable], proba[checkable], calibration, seed)
    quality = posterior[np.arange(len(given)), given]
    known = agreement(given[checkable], proba[checkable])
    is_issue, verdict = verdicts(given, posterior, max_false_alarms)
    if not known.is_informative:
        is_issue, verdict = np.zeros_like(is_issue), np.full_like(verdict, CANNOT_TELL)
    low, high = np.percentile(transitions, _INTERVAL, axis=0)
    rate = min(max(0.0, float(1 - quality[checkable].mean())), 1.0)
    within = (
        _rate_interval(rate, rates, int(checkable.sum())) if known.is_informative else (0.0, 1.0)
    )
    return Decision(
        quality=quality,
        posterior=posterior,
        suggested=_suggested(given, posterior),
        is_issue=is_issue,
        verdict=verdict,
        noise_rate=Estimate(rate, *within),
        agreement=known,
        transition=transition,
        transition_low=np.minimum(low, transition),
        transition_high=np.maximum(high, transition),
        expected_false_alarms=float(quality[is_issue].mean()) if is_issue.any() else 0.0,
        threshold=float(quality[is_issue].max()) if is_issue.any() else 0.0,
    )


def agreement(given: Classes, proba: Floats) -> Agreement:
    """Return how well `proba` predicts the `given` labels, and how well it must.

    The share of labels that are the most probable class is a poor measure where one class is
    common: probabilities can tell rare labels apart though they never exceed those of the common
    class. So the test uses the correlation of the centred probabilities X [n, K] with the centred
    labels Y [n, K] (one column per class, 1 where it is given),

        R = ⟨X, Y⟩ / (‖X‖ ‖Y‖),

    which is 0 for any constant prediction, however common a class is. For predictions of one class
    it is the Matthews correlation of K classes (Gorodkin 2004).

    If labels have nothing to do with the probabilities, every order of the labels is as likely,
    and R has the mean 0 and the variance tr(XᵀX YᵀY) / ((n − 1) ‖X‖² ‖Y‖²). Folds learn from each
    other's labels, so agreement by chance is counted twice, and the variance is doubled. The
    smallest R accepted is exceeded by chance once in a hundred times, and is at least 0.05: below,
    the probabilities explain a quarter of a percent of the labels' variance, and the verdicts would
    depend on the noise model only. Perfect predictions of two equally common classes pass
    from 12 labels on; of 350 graphs with random features, edges and labels (40 to 600 of them)
    passed 5, audited by relabelling.

    Args:
        given: [n] classes.
        proba: [n, K]; a node's own label took no part in its row.
    """
    n, k = proba.shape
    counts = np.bincount(given, minlength=k)
    x = proba - proba.mean(0)
    of_x, of_y = float((x**2).sum()), float(n - counts @ counts / n)  # ‖X‖², ‖Y‖²
    correlation, needed = 0.0, _LEAST_CORRELATION
    if of_x > n * _ROUNDING**2 and of_y > 0:
        correlation = float(x[np.arange(n), given].sum() / np.sqrt(of_x * of_y))
        product = float((x**2).sum(0) @ counts - ((x @ counts) ** 2).sum() / n)  # tr(XᵀX YᵀY)
        variance = _DEPENDENCE * product / ((n - 1) * of_x * of_y)
        needed = max(needed, float(norm.isf(_CHANCE) * np.sqrt(variance)))
    return Agreement(
        model=float(np.mean(proba.argmax(1) == given)),
        majority=float(counts.max() / n),
        correlation=correlation,
        needed=needed,
    )


def verdicts(
    given: Classes, posterior: Floats, max_false_alarms: float
) -> tuple[NDArray[np.bool_], NDArray[np.str_]]:
    """Return which labels are flagged [n], and the verdict on each [n].

    Only a label for which another class is more probable can be flagged. Of these, flagged are the
    labels of least quality, as many as keep their mean quality, which is the expected share of
    false alarms, at or below `max_false_alarms`. A flagged label is "wrong" where the suggested
    class is more probable than all others together. A label is "right" where the given class is.
    All other labels are "can't tell".

    Args:
        given: [n] classes; the only label of its class is not flagged.
        posterior: [n, K] P(true class | node, given label).
        max_false_alarms: the largest expected share of right labels among the flagged.
    """
    checkable = _checkable(given)
    quality = posterior[np.arange(len(given)), given]
    doubtful = checkable & (_suggested(given, posterior) != given)
    is_issue = np.zeros(len(given), dtype=bool)
    is_issue[doubtful] = flag(quality[doubtful], max_false_alarms)
    wrong, right = is_issue & (posterior.max(1) > 0.5), checkable & (quality > 0.5)
    return is_issue, np.where(wrong, "wrong", np.where(right, "right", CANNOT_TELL))


def _checkable(given: Classes) -> NDArray[np.bool_]:
    """Return which labels [n] can be checked: those that share their class with another label."""
    checkable: NDArray[np.bool_] = np.bincount(given)[given] > 1
    return checkable


def _suggested(given: Classes, posterior: Floats) -> Classes:
    """Return the most probable class [n], the given one where others are only as probable."""
    own = posterior[np.arange(len(given)), given]
    return np.where(own >= posterior.max(1), given, posterior.argmax(1))


def flag(quality: Floats, max_false_alarms: float) -> NDArray[np.bool_]:
    """Return the largest set [n] of labels, worst first, whose mean quality is within the limit.

    Labels of equal quality are flagged together or not at all.

    >>> flag(np.array([0.0, 0.1, 0.5, 0.9]), 0.2).tolist()
    [True, True, True, False]
    """
    order = np.argsort(quality, kind="stable")
    ranked = quality[order]
    means = np.cumsum(ranked) / np.arange(1, len(ranked) + 1)
    last_of_ties = np.append(np.diff(ranked) > 0, True)[: len(ranked)]
    within = np.flatnonzero((means <= max_false_alarms) & last_of_ties)
    flagged = np.zeros(len(quality), dtype=bool)
    if len(within):
        flagged[order[: within[-1] + 1]] = True
    return flagged


def _calibrated(given: Classes, proba: Floats, seed: int) -> Calibration:
    """Return noise models weighted on a sample of the labels and fitted to all of them."""
    stream = numpy_stream(seed, "held-out labels")
    sample = np.sort(stream.permutation(len(given))[:_WEIGHED])
    folds = stream.permutation(len(sample)) % min(_FOLDS, len(sample))
    calibration = calibrate(given[sample], proba[sample], folds=folds)
    return calibration.refitted(given, proba) if len(sample) < len(given) else calibration


def _resampled(
    given: Classes, proba: Floats, calibration: Calibration, seed: int
) -> tuple[Floats, Floats]:
    """Return the noise rate [B] and T [B, K, K] of B samples of the nodes with replacement.

    Each sample draws one noise model by its weight, so that the spread includes the uncertainty
    about the model.
    """
    stream = numpy_stream(seed, "resampled labels")
    n = len(given)
    order = np.argsort(given, kind="stable")
    given, logs = given[order], log_proba(proba[order])
    taken = stream.choice(len(calibration.weights), size=_RESAMPLES, p=calibration.weights)
    by_power = {power: powered(logs, power) for power in set(calibration.powers[taken])}
    rates, transitions = [], []
    for index in taken:
        weights = stream.multinomial(n, np.full(n, 1 / n)).astype(float)
        calibrated = by_power[calibration.powers[index]]
        transition = maximise(
            given,
            calibrated[None],
            calibration.prior_counts[index][None],
            calibration.transitions[index],
            weights=weights,
            most_steps=_RESAMPLED_STEPS,
        )[0]
        quality = posteriors(given, calibrated, transition)[np.arange(n), given]
        rates.append(max(0.0, 1 - weights @ quality / n))
        transitions.append(transition)
    return np.array(rates), np.array(transitions)


def _rate_interval(rate: float, resampled: Floats, labels: int) -> tuple[float, float]:
    """Return the 90 % interval of the noise rate: that of the resamples, or of the count if wider.

    Resamples measure how far the estimate depends on the labels at hand and on the noise model.
    They do not cover that few labels may all be right by luck: where no label seems wrong, none
    does in any resample. So each end is at least as far out as that of the Clopper–Pearson interval
    of n·rate wrong labels among n, Beta quantiles that are defined for fractions of a label too.

    >>> low, high = _rate_interval(0.0, np.zeros(50), labels=9)
    >>> low, round(high, 3)
    (0.0, 0.283)
    """
    low, high = np.percentile(resampled, _INTERVAL)
    tails = [percentile / 100 for percentile in _INTERVAL]
    wrong, right = labels * rate, labels * (1 - rate)
    fewest = beta.ppf(tails[0], wrong, right + 1) if wrong > _ROUNDING else 0.0
    most = beta.ppf(tails[1], wrong + 1, right) if right > _ROUNDING else 1.0
    return min(float(low), float(fewest), rate), max(float(high), float(most), rate)


def no_shared_class(count: int) -> EraseError:
    """Return the error where each of `count` labels is the only one of its class."""
    return EraseError(
        "two labels of one class, or more",
        f"{count} labels, each the only one of its class",
        "Label more nodes: a label can only be checked against others of its class.",
    )


def _checked(given: Classes, proba: Floats, max_false_alarms: float) -> tuple[Classes, Floats]:
    given, proba = np.asarray(given, np.int64), np.asarray(proba, np.float64)
    if proba.ndim != 2 or given.shape != proba.shape[:1] or not len(given):
        raise EraseError(
            "a given class [n] and probabilities [n, K] of at least one node",
            f"shapes {given.shape} and {proba.shape}",
            "Pass the labelled nodes only, each with its row.",
        )
    if given.min() < 0 or given.max() >= proba.shape[1]:
        raise EraseError(
            f"classes from 0 to {proba.shape[1] - 1}",
            f"{given.min()} to {given.max()}",
            "Leave out nodes without a label.",
        )
    if np.bincount(given).max() < 2:
        raise no_shared_class(len(given))
    if not np.isfinite(proba).all() or (proba < 0).any() or not (proba.sum(1) > 0).all():
        raise EraseError(
            "probabilities", "a row that is not", "Pass rows of numbers ≥ 0 that sum to 1."
        )
    if not 0 <= max_false_alarms <= 1:
        raise EraseError(
            "a share of false alarms between 0 and 1", repr(max_false_alarms), "Correct it."
        )
    return given, proba / proba.sum(1, keepdims=True)
