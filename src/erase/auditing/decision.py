"""What out-of-sample probabilities say about given labels: pure functions of (given, proba).

A node's true class k has probability P_k, and becomes the given label g with probability T[k, g]:

    p(g) = Σ_k P_k T[k, g],        P(k | g) = P_k T[k, g] / p(g).

T is found by expectation–maximisation on p(g) over all labelled nodes. The judge's probabilities
are calibrated on the way by a power, P ∝ proba^τ: a judge that learnt from wrong labels is less
sure of the true class than it should be, and how far p(g) stays below 1 even where the judge is
surest tells noise from honest doubt. Every τ of a grid is weighed by how well it predicts the given
labels, which no model that judged a node has seen.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from erase.errors import EraseError
from erase.seeds import numpy_stream

Floats = NDArray[np.float64]
Classes = NDArray[np.int64]

_POWERS = np.geomspace(0.5, 8.0, 17)
_SMALLEST = 1e-6  # a judge's zero: nothing is impossible
# Counts added to T: a class that nobody holds keeps its label, and any flip is possible.
_PRIOR_KEPT, _PRIOR_FLIPPED = 1.0, 0.05
_MOST_STEPS, _SMALL_STEP = 300, 1e-5
_RESAMPLES, _RESAMPLED_STEPS = 50, 15
_NEGLIGIBLE = 0.01  # weight of a power that is not worth resampling
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
    expected share of false alarms, at or below `max_false_alarms`; a label that is itself the most
    probable one is never flagged. A flagged label is "wrong" where another class is more probable
    than all the rest together, and otherwise nobody can tell what it should be. Cost: linear in n.

    Args:
        given: [n] classes 0 … K−1.
        proba: [n, K] out-of-sample: a node's own label took no part in its row.
        max_false_alarms: the largest expected share of right labels among the flagged, in [0, 1].
        seed: of the resampling behind the intervals.
    """
    given, proba = _checked(given, proba, max_false_alarms)
    order = np.argsort(given, kind="stable")  # sums over a class become sums over a stretch
    fits = _fit_powers(given[order], proba[order])
    posterior = np.empty_like(proba)
    posterior[order] = sum(fit.weight * fit.posterior for fit in fits)
    transition = sum((fit.weight * fit.transition for fit in fits), np.zeros(()))
    rates, transitions = _resampled(given[order], fits, seed)
    quality = posterior[np.arange(len(given)), given]
    suggested = posterior.argmax(1)
    is_issue = flag(quality, suggested != given, max_false_alarms)
    sure = posterior.max(1) > 0.5
    verdict = np.where(is_issue & sure, "wrong", np.where(is_issue | ~sure, "can't tell", "right"))
    low, high = np.percentile(transitions, _INTERVAL, axis=0)
    rate = float(1 - quality.mean())
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


def flag(
    quality: Floats, suspicious: NDArray[np.bool_], max_false_alarms: float
) -> NDArray[np.bool_]:
    """Return the largest set [n] of suspicious labels, worst first, of mean quality ≤ the limit.

    Labels of equal quality are flagged together or not at all.

    >>> flag(np.array([0.0, 0.1, 0.5, 0.9]), np.array([True] * 4), 0.2).tolist()
    [True, True, True, False]
    """
    candidates = np.flatnonzero(suspicious)
    candidates = candidates[np.argsort(quality[candidates], kind="stable")]
    ranked = quality[candidates]
    means = np.cumsum(ranked) / np.arange(1, len(ranked) + 1)
    last_of_ties = np.append(np.diff(ranked) > 0, True)[: len(ranked)]
    within = np.flatnonzero((means <= max_false_alarms) & last_of_ties)
    flagged = np.zeros(len(quality), dtype=bool)
    if len(within):
        flagged[candidates[: within[-1] + 1]] = True
    return flagged


@dataclass(frozen=True, eq=False)
class _Fit:
    """A power of the judge's probabilities, and the transition matrix that goes with it.

    Attributes:
        calibrated: [n, K] P ∝ proba^τ.
        transition: [K, K].
        posterior: [n, K].
        weight: how well it predicts the given labels among all powers; weights sum to 1.
    """

    calibrated: Floats
    transition: Floats
    posterior: Floats
    weight: float


def _fit_powers(given: Classes, proba: Floats) -> list[_Fit]:
    """Return the powers that matter, for labels sorted by class."""
    logs = np.log(np.maximum(proba, _SMALLEST))
    prior = _prior(proba.shape[1])
    transition = prior / prior.sum(1, keepdims=True)
    every = np.ones(len(given))
    fits, evidence = [], []
    for power in _POWERS:
        calibrated = np.exp(power * (logs - logs.max(1, keepdims=True)))
        calibrated /= calibrated.sum(1, keepdims=True)
        transition = _maximise(given, calibrated, every, transition, _MOST_STEPS)
        joint = calibrated * transition[:, given].T
        likelihood = joint.sum(1)
        evidence.append(np.log(likelihood).sum() + (prior * np.log(transition)).sum())
        fits.append((calibrated, transition, joint / likelihood[:, None]))
    weights = _softmax(np.array(evidence))
    return [_Fit(*fit, weight=float(weight)) for fit, weight in zip(fits, weights, strict=True)]


def _prior(num_classes: int) -> Floats:
    prior = np.full((num_classes, num_classes), _PRIOR_FLIPPED)
    np.fill_diagonal(prior, _PRIOR_KEPT)
    return prior


def _maximise(
    given: Classes, calibrated: Floats, weights: Floats, transition: Floats, most_steps: int
) -> Floats:
    """Return the T [K, K] that expectation–maximisation ends at, from labels sorted by class."""
    prior = _prior(len(transition))
    present, starts = np.unique(given, return_index=True)
    for _ in range(most_steps):
        posterior = calibrated * transition[:, given].T
        posterior *= (weights / posterior.sum(1))[:, None]
        counts = prior.copy()
        counts[:, present] += np.add.reduceat(posterior, starts, axis=0).T
        later = counts / counts.sum(1, keepdims=True)
        moved = np.abs(later - transition).max()
        transition = later
        if moved < _SMALL_STEP:
            break
    return transition


def _resampled(given: Classes, fits: list[_Fit], seed: int) -> tuple[Floats, Floats]:
    """Return the noise rate [B] and T [B, K, K] of B samples of the nodes with replacement."""
    stream = numpy_stream(seed, "resampled labels")
    kept = [fit for fit in fits if fit.weight >= _NEGLIGIBLE]
    prior = _prior(len(kept[0].transition))
    rates, transitions = [], []
    for _ in range(_RESAMPLES):
        weights = stream.multinomial(len(given), np.full(len(given), 1 / len(given))).astype(float)
        evidence, rate, found = [], [], []
        for fit in kept:
            transition = _maximise(given, fit.calibrated, weights, fit.transition, _RESAMPLED_STEPS)
            likelihood = (fit.calibrated * transition[:, given].T).sum(1)
            own = fit.calibrated[np.arange(len(given)), given] * transition[given, given]
            evidence.append(weights @ np.log(likelihood) + (prior * np.log(transition)).sum())
            rate.append(1 - weights @ (own / likelihood) / len(given))
            found.append(transition)
        share = _softmax(np.array(evidence))
        rates.append(share @ np.array(rate))
        transitions.append(np.tensordot(share, np.array(found), 1))
    return np.array(rates), np.array(transitions)


def _around(value: float, samples: Floats) -> tuple[float, float]:
    low, high = np.percentile(samples, _INTERVAL)
    return min(float(low), value), max(float(high), value)


def _softmax(logs: Floats) -> Floats:
    shares: Floats = np.exp(logs - logs.max())
    shares /= shares.sum()
    return shares


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
    if not np.isfinite(proba).all() or (proba < 0).any() or not (proba.sum(1) > 0).all():
        raise EraseError(
            "probabilities", "a row that is not", "Pass rows of numbers ≥ 0 that sum to 1."
        )
    if not 0 <= max_false_alarms <= 1:
        raise EraseError(
            "a share of false alarms between 0 and 1", repr(max_false_alarms), "Correct it."
        )
    return given, proba / proba.sum(1, keepdims=True)
