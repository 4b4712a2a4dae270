"""What probabilities say about given labels, if some of the labels are wrong.

A node's true class k has probability P_k, and becomes the given label g with probability T[k, g]:

    p(g) = Σ_k P_k T[k, g],        P(k | g) = P_k T[k, g] / p(g).

T is found by expectation–maximisation on p(g), drawn towards noise that treats all classes alike by
a number of imagined labels. The probabilities are calibrated on the way by a power, P ∝ proba^τ: a
model that learnt from wrong labels is less sure of the true class than it should be, and how far
p(g) stays below 1 even where it is surest tells noise from honest doubt. Every power and every
number of imagined labels is weighed by how well it predicts given labels that T has not seen, and
by τ: where doubt and noise explain the labels equally well, few nodes being all alike, noise does.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Classes = NDArray[np.int64]

POWERS = tuple(np.geomspace(0.5, 8.0, 9).tolist())
IMAGINED = (0.5, 5.0, 50.0)  # labels of each class that are flipped to all others alike
_SMALLEST = 1e-6  # a model's zero: nothing is impossible
# Counts added to T besides: a class that nobody holds keeps its label, and any flip is possible.
_KEPT, _POSSIBLE = 1.0, 0.01
_LEAST_NOISE = 1e-3
_SMALL_STEP = 1e-4
_MOST_STEPS = 100
_NEGLIGIBLE = 0.01  # weight below which a choice is left out


@dataclass(frozen=True, eq=False)
class Choices:
    """Powers and imagined labels, the T that goes with each, and how well each does.

    Attributes:
        powers: [C] τ.
        imagined: [C].
        transitions: [C, K, K] ``[true, given]``.
        weights: [C] how well each predicts labels, beside the others; they sum to 1.
        likelihood: [n] p(g) of every label, all choices together, under T of other labels.
    """

    powers: Floats
    imagined: Floats
    transitions: Floats
    weights: Floats
    likelihood: Floats

    @property
    def transition(self) -> Floats:
        """T [K, K] of all choices together."""
        mean: Floats = np.tensordot(self.weights, self.transitions, 1)
        return mean

    def refitted(self, given: Classes, proba: Floats) -> "Choices":
        """Return the same choices with T of these labels, which may be more or others."""
        order = np.argsort(given, kind="stable")
        logs = log_proba(proba)[order]
        transitions = [
            maximise(given[order], powered(logs, power)[None], imagined[None], start)[0]
            for power, imagined, start in zip(
                self.powers, self.imagined, self.transitions, strict=True
            )
        ]
        return replace(self, transitions=np.stack(transitions))

    def calibrated(self, proba: Floats) -> Floats:
        """Return the probabilities [..., K] of true classes."""
        logs = log_proba(proba)
        mean = np.zeros_like(logs)
        for power in np.unique(self.powers):
            mean += self.weights[self.powers == power].sum() * powered(logs, power)
        return mean

    def posterior(self, given: Classes, proba: Floats) -> Floats:
        """Return P(true class | node, given label) [n, K]."""
        logs = log_proba(proba)
        mean = np.zeros_like(logs)
        for weight, power, transition in zip(
            self.weights, self.powers, self.transitions, strict=True
        ):
            mean += weight * posteriors(given, powered(logs, power), transition)
        return mean


def choose(
    given: Classes,
    proba: Floats,
    *,
    powers: Sequence[float] = POWERS,
    imagined: Sequence[float] = IMAGINED,
    folds: NDArray[np.int64] | None = None,
) -> Choices:
    """Return every power with every number of imagined labels, weighed; negligible ones left out.

    Args:
        given: [n] classes 0 … K−1.
        proba: [n, K]; a node's own label took no part in its row.
        powers: τ to try.
        imagined: numbers of imagined labels to try.
        folds: [n] labels of one fold are predicted by T of the others; None: by T of all.
    """
    order = np.argsort(given, kind="stable")  # sums over a class become sums over a stretch
    given, logs = given[order], log_proba(proba)[order]
    power, count = (grid.ravel() for grid in np.meshgrid(powers, imagined, indexing="ij"))
    stack = np.stack([powered(logs, value) for value in powers]).repeat(len(imagined), 0)
    transitions = maximise(given, stack, count)
    likelihood = np.empty(stack.shape[:2])
    if folds is None:
        likelihood[:] = predicted(given, stack, transitions)
    else:
        for fold in np.unique(folds):
            inside = folds[order] == fold
            others = maximise(given[~inside], stack[:, ~inside], count, transitions)
            likelihood[:, inside] = predicted(given[inside], stack[:, inside], others)
    weights = softmax(np.log(likelihood).sum(1) + np.log(power))
    kept = weights >= _NEGLIGIBLE * weights.max()
    weights = weights[kept] / weights[kept].sum()
    together = np.empty(len(given))
    together[order] = weights @ likelihood[kept]
    return Choices(power[kept], count[kept], transitions[kept], weights, together)


def posteriors(given: Classes, calibrated: Floats, transition: Floats) -> Floats:
    """Return P(k | g) [..., n, K] from P [..., n, K] and T [..., K, K]."""
    joint: Floats = calibrated * transition.swapaxes(-1, -2)[..., given, :]
    joint /= joint.sum(-1, keepdims=True)
    return joint


def predicted(given: Classes, calibrated: Floats, transition: Floats) -> Floats:
    """Return p(g) [..., n]."""
    chance: Floats = (calibrated * transition.swapaxes(-1, -2)[..., given, :]).sum(-1)
    return chance


def maximise(
    given: Classes,
    calibrated: Floats,
    imagined: Floats,
    start: Floats | None = None,
    *,
    weights: Floats | None = None,
    most_steps: int = _MOST_STEPS,
) -> Floats:
    """Return the T [C, K, K] that expectation–maximisation ends at, from labels sorted by class.

    Row k is the expected counts of labels g of class k, plus imagined ones with the flips of all
    classes together: a share ρ leaves its class, for every other class alike.

    Args:
        given: [n] ascending.
        calibrated: [C, n, K].
        imagined: [C] numbers of imagined labels.
        start: [C, K, K] or [K, K]; None: nine labels in ten are right.
        weights: [n] what each label counts; None: 1.
        most_steps: after which it ends in any case.
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
    shares = [np.ones(size) for size in np.diff(first, append=len(given))]
    if weights is not None:
        shares = np.split(weights, first[1:])
    for _ in range(most_steps):
        counts = np.zeros((len(calibrated), k, k))
        for (g, stretch), share in zip(stretches, shares, strict=True):
            column = transition[:, :, g]
            chance = (stretch @ column[..., None])[..., 0]  # p(g) [C, m]
            counts[:, :, g] = column * ((share / chance)[:, None] @ stretch)[:, 0]
        kept = np.trace(counts, axis1=1, axis2=2) / counts.sum((1, 2))
        rate = np.maximum(1 - kept, _LEAST_NOISE)[:, None, None]
        alike = rate / max(k - 1, 1) * (1 - eye) + (1 - rate) * eye
        counts += imagined[:, None, None] * alike + _KEPT * eye + _POSSIBLE
        later = counts / counts.sum(2, keepdims=True)
        moved = np.abs(later - transition).max()
        transition = later
        if moved < _SMALL_STEP:
            break
    return transition


def deal(classes: Classes, folds: int, stream: np.random.Generator) -> Classes:
    """Return the fold of each of n labels [n], every class spread as evenly as possible.

    Labels sorted by class, at random inside a class, are dealt out like cards: folds differ in
    size by one at most, and so do the numbers of any class in them.

    Args:
        classes: [n].
        folds: how many; of fewer labels each is a fold of its own.
        stream: of the order inside classes.
    """
    shuffled = stream.permutation(len(classes))
    order = shuffled[np.argsort(classes[shuffled], kind="stable")]
    fold = np.empty(len(classes), np.int64)
    fold[order] = np.arange(len(classes)) % folds
    return fold


def softmax(logs: Floats) -> Floats:
    """Return exp(logs) over its sum."""
    shares: Floats = np.exp(logs - logs.max())
    shares /= shares.sum()
    return shares


def log_proba(proba: Floats) -> Floats:
    """Return the logarithms of probabilities, those of zero being finite."""
    logs: Floats = np.log(np.maximum(proba, _SMALLEST))
    return logs


def powered(logs: Floats, power: float) -> Floats:
    """Return P ∝ exp(logs)^τ [..., K]."""
    shares: Floats = np.exp(power * (logs - logs.max(-1, keepdims=True)))
    shares /= shares.sum(-1, keepdims=True)
    return shares
