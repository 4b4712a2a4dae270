"""What out-of-sample probabilities say about given labels: pure functions of (given, proba).

A node's true class k has probability P_k, and becomes the given label g with probability T[k, g]:

    p(g) = Σ_k P_k T[k, g],        P(k | g) = P_k T[k, g] / p(g).

T is found by expectation–maximisation on p(g) over all labelled nodes, drawn towards noise that
treats all classes alike by a number of imagined labels. The judge's probabilities are calibrated
on the way by a power, P ∝ proba^τ: a judge that learnt from wrong labels is less sure of the true
class than it should be, and how far p(g) stays below 1 even where the judge is surest tells noise
from honest doubt. Every power and every number of imagined labels is weighed by how well it
predicts given labels that took part neither in P nor in T.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from erase.errors import EraseError
from erase.seeds import numpy_stream

Floats = NDArray[np.float64]
Classes = NDArray[np.int64]

_POWERS = np.geomspace(0.5, 8.0, 9)
_IMAGINED = (0.5, 5.0, 50.0)  # labels of each class that are flipped to all others alike
_SMALLEST = 1e-6  # a judge's zero: nothing is impossible
# Counts added to T besides: a class that nobody holds keeps its label, and any flip is possible.
_KEPT, _POSSIBLE = 1.0, 0.01
_LEAST_NOISE = 1e-3
_MOST_STEPS, _SMALL_STEP = 100, 1e-4
_FOLDS, _WEIGHED = 5, 5_000  # labels that are enough to weigh a choice
_NEGLIGIBLE = 0.01  # weight below which a choice is left out
_RESAMPLES, _RESAMPLED_STEPS = 50, 15
_INTERVAL = (5.0, 95.0)  # percentiles


@dataclass(frozen=True)
class Estimate:
    """A number with its 90 % interval [low, high]."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Decision:
    """What is decided about n given labels.

    Attributes:
        quality: [n] P(the given label is right): 1 surely right, 0 surely wrong.
        posterior: [n, K] P(true class | node, given label).
        suggested: [n] the most probable class.
        is_issue: [n] whether the label is flagged.
        verdict: [n] "right", "wrong" or "can't tell".
        noise_rate: the share of wrong labels.
        transition: [K, K] P(given class | true class), ``[true, given]``.
        transition_low: [K, K] the lower ends of its 90 % intervals.
        transition_high: [K, K] the upper ends.
        expected_false_alarms: mean quality of what is flagged; at most what was asked for.
        threshold: the quality at and below which a label is flagged.
    """

    quality: NDArray[np.float64]
    posterior: NDArray[np.float64]
    suggested: NDArray[np.int64]
    is_issue: NDArray[np.bool_]
    verdict: NDArray[np.str_]
    noise_rate: Estimate
    transition: NDArray[np.float64]
    transition_low: NDArray[np.float64]
    transition_high: NDArray[np.float64]
    expected_false_alarms: float
    threshold: float


def decide(given: Classes, proba: Floats, *, max_false_alarms: float, seed: int = 0) -> Decision:
    """Return what `proba` says about the `given` labels.

    Flagged are the labels of least quality, as many as keep their mean quality, which is the
    expected share of false alarms, at or below `max_false_alarms`. A flagged label is "wrong" where
    another class is more probable than all the rest together; otherwise nobody can tell what it
    should be. The only label of its class is never flagged, and nobody can tell: whoever judged it
    had not seen its class. Such labels have no part in T nor in the noise rate. Cost: linear in n.

    Args:
        given: [n] classes 0 … K−1.
        proba: [n, K] out-of-sample: a node's own label took no part in its row.
        max_false_alarms: the largest expected share of right labels among the flagged, in [0, 1].
        seed: of the folds and samples behind weights and intervals.
    """
    given, proba = _checked(given, proba, max_false_alarms)
    judged = np.bincount(given)[given] > 1
    order = np.argsort(given, kind="stable")  # sums over a class become sums over a stretch
    order = order[judged[order]]
    fits = _fit(given[order], np.log(np.maximum(proba[order], _SMALLEST)), seed)
    posterior = np.zeros_like(proba)
    transition = np.zeros((proba.shape[1], proba.shape[1]))
    for fit in fits:
        posterior[order] += fit.weight * _posterior(given[order], fit.calibrated, fit.transition)
        alone = _posterior(given[~judged], proba[~judged], fit.transition)
        posterior[~judged] += fit.weight * alone
        transition += fit.weight * fit.transition
    rates, transitions = _resampled(given[order], fits, seed)
    quality = posterior[np.arange(len(given)), given]
    suggested = posterior.argmax(1)
    is_issue = np.zeros(len(given), dtype=bool)
    is_issue[judged] = flag(quality[judged], max_false_alarms)
    sure = judged & (posterior.max(1) > 0.5)
    wrong = is_issue & sure & (suggested != given)
    verdict = np.where(wrong, "wrong", np.where(is_issue | ~sure, "can't tell", "right"))
    low, high = np.percentile(transitions, _INTERVAL, axis=0)
    rate = max(0.0, float(1 - quality[judged].mean()))
    return Decision(
        quality=quality,
        posterior=posterior,
        suggested=suggested,
        is_issue=is_issue,
        verdict=verdict,
        noise_rate=Estimate(rate, *_around(rate, rates)),
        transition=transition,
        transition_low=np.minimum(low, transition),
        transition_high=np.maximum(high, transition),
        expected_false_alarms=float(quality[is_issue].mean()) if is_issue.any() else 0.0,
        threshold=float(quality[is_issue].max()) if is_issue.any() else 0.0,
    )


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


@dataclass(frozen=True, eq=False)
class _Choice:
    """A power of the judge's probabilities, imagined labels, and the T that goes with them.

    Attributes:
        calibrated: [n, K] P ∝ proba^τ.
        imagined: labels of each class.
        transition: [K, K].
        weight: how well it predicts labels beside the others; weights sum to 1.
    """

    calibrated: Floats
    imagined: float
    transition: Floats
    weight: float


def _fit(given: Classes, logs: Floats, seed: int) -> list[_Choice]:
    """Return the choices that matter, for labels sorted by class and log-probabilities."""
    n, k = logs.shape
    stream = numpy_stream(seed, "held-out labels")
    some = np.sort(stream.permutation(n)[:_WEIGHED])
    fold = stream.permutation(len(some)) % min(_FOLDS, len(some))
    start = np.full((k, k), 0.1 / max(k - 1, 1)) + (0.9 - 0.1 / max(k - 1, 1)) * np.eye(k)
    choices, evidence = [], []
    for power in _POWERS:
        calibrated = _calibrated(logs[some], power)
        for imagined in _IMAGINED:
            transition = _maximise(given[some], calibrated, None, start, imagined, _MOST_STEPS)
            held_out = _held_out(given[some], calibrated, fold, transition, imagined)
            choices.append((power, imagined, transition))
            evidence.append(held_out)
    weights = _softmax(np.array(evidence))
    weights = np.where(weights < _NEGLIGIBLE, 0.0, weights)
    weights /= weights.sum()
    fits = []
    for (power, imagined, transition), weight in zip(choices, weights, strict=True):
        if weight > 0:
            calibrated = _calibrated(logs, power)
            transition = _maximise(given, calibrated, None, transition, imagined, _MOST_STEPS)
            fits.append(_Choice(calibrated, imagined, transition, float(weight)))
    return fits


def _calibrated(logs: Floats, power: float) -> Floats:
    calibrated: Floats = np.exp(power * (logs - logs.max(1, keepdims=True)))
    calibrated /= calibrated.sum(1, keepdims=True)
    return calibrated


def _held_out(
    given: Classes, calibrated: Floats, fold: Classes, start: Floats, imagined: float
) -> float:
    """Return Σ log p(g) of every fold under the T of the others."""
    total = 0.0
    for index in range(fold.max() + 1):
        inside, outside = fold == index, fold != index
        transition = _maximise(
            given[outside], calibrated[outside], None, start, imagined, _MOST_STEPS
        )
        total += np.log((calibrated[inside] * transition[:, given[inside]].T).sum(1)).sum()
    return float(total)


def _posterior(given: Classes, calibrated: Floats, transition: Floats) -> Floats:
    """Return P(k | g) [n, K]."""
    joint: Floats = calibrated * transition[:, given].T
    joint /= joint.sum(1, keepdims=True)
    return joint


def _maximise(
    given: Classes,
    calibrated: Floats,
    weights: Floats | None,
    transition: Floats,
    imagined: float,
    most_steps: int,
) -> Floats:
    """Return the T [K, K] that expectation–maximisation ends at, from labels sorted by class.

    Row k is the expected counts of labels g of class k, plus imagined ones with the flips of all
    classes together: a share ρ leaves its class, for every other class alike.
    """
    k = len(transition)
    eye = np.eye(k)
    present, starts = np.unique(given, return_index=True)
    for _ in range(most_steps):
        posterior = _posterior(given, calibrated, transition)
        if weights is not None:
            posterior *= weights[:, None]
        counts = np.zeros((k, k))
        counts[:, present] = np.add.reduceat(posterior, starts, axis=0).T
        rate = max(1 - float(np.trace(counts)) / counts.sum(), _LEAST_NOISE)
        alike = rate / max(k - 1, 1) * (1 - eye) + (1 - rate) * eye
        counts += imagined * alike + _KEPT * eye + _POSSIBLE
        later = counts / counts.sum(1, keepdims=True)
        moved = np.abs(later - transition).max()
        transition = later
        if moved < _SMALL_STEP:
            break
    return transition


def _resampled(given: Classes, fits: list[_Choice], seed: int) -> tuple[Floats, Floats]:
    """Return the noise rate [B] and T [B, K, K] of B samples of the nodes with replacement.

    Each sample takes one of the choices, as often as its weight says: what is not known about the
    choice is part of the spread.
    """
    stream = numpy_stream(seed, "resampled labels")
    n = len(given)
    taken = stream.choice(len(fits), size=_RESAMPLES, p=[fit.weight for fit in fits])
    rates, transitions = [], []
    for fit in (fits[index] for index in taken):
        weights = stream.multinomial(n, np.full(n, 1 / n)).astype(float)
        transition = _maximise(
            given, fit.calibrated, weights, fit.transition, fit.imagined, _RESAMPLED_STEPS
        )
        quality = _posterior(given, fit.calibrated, transition)[np.arange(n), given]
        rates.append(max(0.0, 1 - weights @ quality / n))
        transitions.append(transition)
    return np.array(rates), np.array(transitions)


def _around(value: float, samples: Floats) -> tuple[float, float]:
    low, high = np.percentile(samples, _INTERVAL)
    return min(float(low), value), max(float(high), value)


def _softmax(logs: Floats) -> Floats:
    shares: Floats = np.exp(logs - logs.max())
    shares /= shares.sum()
    return shares


def lonely_labels(count: int) -> EraseError:
    """Return what to say where each of `count` labels is the only one of its class."""
    return EraseError(
        "two labels of one class, or more",
        f"{count} labels, each the only one of its class",
        "Label more nodes: who is to judge a label must have seen another of its class.",
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
        raise lonely_labels(len(given))
    if not np.isfinite(proba).all() or (proba < 0).any() or not (proba.sum(1) > 0).all():
        raise EraseError(
            "probabilities", "a row that is not", "Pass rows of numbers ≥ 0 that sum to 1."
        )
    if not 0 <= max_false_alarms <= 1:
        raise EraseError(
            "a share of false alarms between 0 and 1", repr(max_false_alarms), "Correct it."
        )
    return given, proba / proba.sum(1, keepdims=True)
