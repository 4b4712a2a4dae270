"""Estimate how given labels arise from true classes, and which given labels are probably wrong.

From predicted class probabilities and given labels, :func:`calibrate` estimates the label noise and
corrects the model's confidence. The resulting :class:`Calibration` gives calibrated probabilities,
the transition matrix, and the posterior of each node's true class.

The model: a node has true class k with probability P_k, and its given label is g with probability
T[k, g], so that

    p(g) = Σ_k P_k T[k, g],        P(k | g) = P_k T[k, g] / p(g).

- T is fitted by expectation–maximisation on p(g). Prior counts, labels added to every class with
  flips that are equally likely for all classes, draw it towards symmetric noise.
- P ∝ proba^τ calibrates the probabilities: a model trained on wrong labels is less confident in the
  true class than it should be. Noise and uncertainty can be separated because under noise p(g)
  stays below 1 even where the model is most confident.
- Every pair of a power τ and a prior count is weighted by its likelihood on held-out labels, and by
  τ: where noise and uncertainty explain the labels equally well, noise is preferred.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

Floats = NDArray[np.float64]
Classes = NDArray[np.int64]

POWERS = tuple(np.geomspace(0.5, 8.0, 9).tolist())
PRIOR_COUNTS = (0.5, 5.0, 50.0)  # added to each class, with flips to all other classes alike
SMALLEST = 1e-6  # replaces zero probabilities
# Further counts in T: a class without nodes keeps its label, and any flip stays possible.
_KEPT, _POSSIBLE = 1.0, 0.01
_LEAST_NOISE = 1e-3
_SMALL_STEP = 1e-4
_MOST_STEPS = 100
_TEMPER = 0.1  # of the evidence against probabilities as they are
_NEGLIGIBLE = 0.01  # pairs with less than this share of the largest weight are left out
# After the first steps, a power is hopeless if its log-likelihood is so far below the best one's.
_FIRST_STEPS = 8
_HOPELESS, _HOPELESS_PER_LABEL = 40.0, 0.02


@dataclass(frozen=True, eq=False)
class Calibration:
    """A weighted set of fitted noise models, one for each pair of a power and a prior count.

    Attributes:
        powers: [C] τ of each model.
        prior_counts: [C] of each model.
        transitions: [C, K, K] T ``[true, given]`` of each model.
        weights: [C] of each model, from how well it predicts labels; they sum to 1.
        likelihood: [n] p(g) of every label, the weighted mean over models; with folds, T is fitted
            to the labels of other folds.
    """

    powers: Floats
    prior_counts: Floats
    transitions: Floats
    weights: Floats
    likelihood: Floats

    @property
    def transition(self) -> Floats:
        """The weighted mean of T [K, K] over the models."""
        mean: Floats = np.tensordot(self.weights, self.transitions, 1)
        return mean

    def refitted(self, given: Classes, proba: Floats) -> "Calibration":
        """Return the same powers, prior counts and weights, with T fitted to these labels."""
        order = np.argsort(given, kind="stable")
        logs = log_proba(proba)[order]
        transitions = [
            maximise(given[order], powered(logs, power)[None], count[None], start)[0]
            for power, count, start in zip(
                self.powers, self.prior_counts, self.transitions, strict=True
            )
        ]
        return replace(self, transitions=np.stack(transitions))

    def calibrated(self, proba: Floats) -> Floats:
        """Return calibrated probabilities of the true classes [..., K]."""
        return sharpened(proba, self.power_weights)

    @property
    def power_weights(self) -> Floats:
        """Each power τ and its weight [P, 2]: all that calibrated probabilities depend on."""
        powers = np.unique(self.powers)
        return np.array([[power, self.weights[self.powers == power].sum()] for power in powers])

    def posterior(self, given: Classes, proba: Floats) -> Floats:
        """Return P(true class | node, given label) [n, K]."""
        logs = log_proba(proba)
        mean = np.zeros_like(logs)
        for weight, power, transition in zip(
            self.weights, self.powers, self.transitions, strict=True
        ):
            own = posteriors(given, powered(logs, power), transition.astype(logs.dtype))
            mean += float(weight) * own
        return mean


def calibrate(
    given: Classes,
    proba: Floats,
    *,
    powers: Sequence[float] = POWERS,
    prior_counts: Sequence[float] = PRIOR_COUNTS,
    folds: NDArray[np.int64] | None = None,
    log_prior: Callable[[Floats, Floats], Floats] | None = None,
    unchanged: float = 0.0,
) -> Calibration:
    """Fit a noise model for every pair of a power and a prior count, and weight them.

    Models of negligible weight are left out.

    Args:
        given: [n] classes 0 … K−1.
        proba: [n, K] out-of-fold: each row by a model that did not see the node's label; where
            they are float32, so are the steps.
        powers: τ to try.
        prior_counts: numbers of labels to add to each class, to try.
        folds: [n] the labels of a fold are predicted by T of the others; None: by T of all.
        log_prior: of the pairs, from τ [C] and T [C, K, K]; None: log τ, which prefers noise.
        unchanged: share of the weight that models with τ = 1 have where others are as likely. It
            falls slowly where others are more likely: see :func:`_weigh`.
    """
    order = np.argsort(given, kind="stable")  # sums over a class become sums over a stretch
    given, logs = given[order], log_proba(proba)[order]
    power, count = (grid.ravel() for grid in np.meshgrid(powers, prior_counts, indexing="ij"))
    stack = np.stack([powered(logs, value) for value in powers]).repeat(len(prior_counts), 0)
    transitions = maximise(given, stack, count, most_steps=_FIRST_STEPS)
    so_far = np.log(predicted(given, stack, transitions)).sum(1)
    if log_prior is not None:
        so_far += log_prior(power, transitions)
    hopeful = _hopeful(so_far, count, len(given))
    if unchanged > 0:
        hopeful |= power == 1
    power, count, stack = power[hopeful], count[hopeful], stack[hopeful]
    steps = _MOST_STEPS - _FIRST_STEPS
    transitions = maximise(given, stack, count, transitions[hopeful], most_steps=steps)
    likelihood = np.empty(stack.shape[:2])
    if folds is None:
        likelihood[:] = predicted(given, stack, transitions)
    else:
        for fold in np.unique(folds):
            inside = folds[order] == fold
            others = maximise(given[~inside], stack[:, ~inside], count, transitions)
            likelihood[:, inside] = predicted(given[inside], stack[:, inside], others)
    prior = np.log(power) if log_prior is None else log_prior(power, transitions)
    weights = _weigh(np.log(likelihood).sum(1), prior, power, unchanged)
    kept = weights >= _NEGLIGIBLE * weights.max()
    weights = weights[kept] / weights[kept].sum()
    together = np.empty(len(given))
    together[order] = weights @ likelihood[kept]
    return Calibration(power[kept], count[kept], transitions[kept], weights, together)


def _hopeful(log_likelihood: Floats, prior_counts: Floats, labels: int) -> NDArray[np.bool_]:
    """Return which pairs [C] are compared: not those of a power far less likely than the best.

    Only pairs of the same prior count are compared here: the likelihood is that of labels which T
    was fitted to, and a small prior count fits them better.

    Args:
        log_likelihood: [C] of all labels.
        prior_counts: [C].
        labels: n.
    """
    margin = _HOPELESS + _HOPELESS_PER_LABEL * labels
    hopeful = np.empty(len(prior_counts), bool)
    for count in np.unique(prior_counts):
        same = prior_counts == count
        best = log_likelihood[same].max()
        hopeful[same] = log_likelihood[same] >= best - margin
    return hopeful


def _weigh(evidence: Floats, prior: Floats, power: Floats, unchanged: float) -> Floats:
    """Return weights of models [C] by evidence and prior; `unchanged` of them for τ = 1.

    Labels that a model gets wrong for one reason are not independent, so the evidence against τ = 1
    counts a tenth.
    """
    weights: Floats = softmax(evidence + prior)
    if unchanged > 0:
        as_given = power == 1
        doubt = evidence[weights.argmax()] - evidence[as_given].max()
        share = unchanged * np.exp(-max(doubt, 0.0) * _TEMPER)
        share /= share + 1 - unchanged
        weights *= 1 - share
        weights[as_given] += share * softmax(evidence[as_given])
    return weights


def sharpened(proba: Floats, power_weights: Floats) -> Floats:
    """Return the weighted mean of probabilities [..., K] to the powers of `power_weights` [P, 2].

    >>> sharpened(np.array([0.5, 0.25, 0.25]), np.array([[1.0, 0.5], [2.0, 0.5]]))
    array([0.58333333, 0.20833333, 0.20833333])
    """
    logs = log_proba(proba)
    mean = np.zeros_like(logs)
    for power, weight in power_weights:
        mean += float(weight) * powered(logs, power)
    return mean


def posteriors(given: Classes, calibrated: Floats, transition: Floats) -> Floats:
    """Return P(k | g) [..., n, K] from P [..., n, K] and T [..., K, K]."""
    joint: Floats = calibrated * transition.swapaxes(-1, -2)[..., given, :]
    joint /= joint.sum(-1, keepdims=True)
    return joint


def predicted(given: Classes, calibrated: Floats, transition: Floats) -> Floats:
    """Return p(g) [..., n], the probability of each given label."""
    chance: Floats = (calibrated * transition.swapaxes(-1, -2)[..., given, :]).sum(-1)
    return chance


def maximise(
    given: Classes,
    calibrated: Floats,
    prior_counts: Floats,
    start: Floats | None = None,
    *,
    weights: Floats | None = None,
    most_steps: int = _MOST_STEPS,
) -> Floats:
    """Fit T [C, K, K] by expectation–maximisation, from labels sorted by class.

    Row k holds the expected numbers of labels g of true class k, plus the prior counts: the
    estimated noise rate ρ of all classes together, spread evenly over the other classes.

    Args:
        given: [n] ascending.
        calibrated: [C, n, K].
        prior_counts: [C] numbers of labels added to each class.
        start: [C, K, K] or [K, K]; None: 90 % of labels are right.
        weights: [n] of the labels; None: 1.
        most_steps: the largest number of steps.
    """
    k = calibrated.shape[2]
    eye = np.eye(k)
    if start is None:
        start = np.full((k, k), 0.1 / max(k - 1, 1)) + (0.9 - 0.1 / max(k - 1, 1)) * eye
    transition: Floats = np.broadcast_to(start, (len(calibrated), k, k))
    if not len(given):
        return transition
    present, first = np.unique(given, return_index=True)
    stretches = list(zip(present, np.split(calibrated, first[1:], axis=1), strict=True))
    shares = [np.ones(size, calibrated.dtype) for size in np.diff(first, append=len(given))]
    if weights is not None:
        shares = np.split(weights.astype(calibrated.dtype, copy=False), first[1:])
    for _ in range(most_steps):
        counts = np.zeros((len(calibrated), k, k))
        for (g, stretch), share in zip(stretches, shares, strict=True):
            column = transition[:, :, g].astype(stretch.dtype, copy=False)
            chance = (stretch @ column[..., None])[..., 0]  # p(g) [C, m]
            counts[:, :, g] = column * ((share / chance)[:, None] @ stretch)[:, 0]
        kept = np.trace(counts, axis1=1, axis2=2) / counts.sum((1, 2))
        rate = np.maximum(1 - kept, _LEAST_NOISE)[:, None, None]
        alike = rate / max(k - 1, 1) * (1 - eye) + (1 - rate) * eye
        counts += prior_counts[:, None, None] * alike + _KEPT * eye + _POSSIBLE
        later = counts / counts.sum(2, keepdims=True)
        moved = np.abs(later - transition).max()
        transition = later
        if moved < _SMALL_STEP:
            break
    return transition


def assign_folds(classes: Classes, folds: int, stream: np.random.Generator) -> Classes:
    """Assign n labels to stratified folds [n].

    Labels are sorted by class, in random order within a class, and assigned to the folds in turn:
    folds differ in size by at most one, and so do the numbers of any class in them.

    Args:
        classes: [n].
        folds: how many; with fewer labels, each label is a fold of its own.
        stream: of the order within classes.
    """
    shuffled = stream.permutation(len(classes))
    order = shuffled[np.argsort(classes[shuffled], kind="stable")]
    fold = np.empty(len(classes), np.int64)
    fold[order] = np.arange(len(classes)) % folds
    return fold


def log_proba(proba: Floats) -> Floats:
    """Return the logarithms of probabilities; finite for a probability of zero."""
    logs: Floats = np.log(np.maximum(proba, SMALLEST))
    return logs


def powered(logs: Floats, power: float) -> Floats:
    """Return P ∝ exp(logs)^τ [..., K]."""
    shares: Floats = np.exp(float(power) * (logs - logs.max(-1, keepdims=True)))
    shares /= shares.sum(-1, keepdims=True)
    return shares
