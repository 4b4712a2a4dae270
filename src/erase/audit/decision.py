"""Decide which given labels are wrong from out-of-fold probabilities: functions of (given, proba).

The model of how labels go wrong is that of :mod:`erase.methods.relabelling.noise_model`; here it is
fitted to all labels, its uncertainty is measured, and labels are flagged. Before that, the
probabilities must predict the given labels better than chance: see :func:`agreement`.
"""

from dataclasses import astuple, dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta, norm

from erase.audit.feature_noise import (
    FEWEST_LABELS,
    LEAST_COVERAGE,
    FeatureNoise,
    find_feature_noise,
    joint_posterior,
    level_posterior,
    weigh_label,
    wrong_share,
)
from erase.audit.witnesses import Witnesses, pool
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
IGNORES_FEATURES = "mistakes depend on the class of a node, not on its features"
FOLLOWS_FEATURES = "mistakes follow the features, and neighbours make others"
MAY_FOLLOW_FEATURES = "mistakes may follow the features or depend on the class of a node alone"

_FOLDS, _WEIGHED = 5, 5_000  # labels that suffice to weight the noise models
# For probabilities that a method has corrected for noise. Their power τ is about (1 − rate)^-1.5:
# less than the likelihood prefers, since a method's own mistakes look like wrong labels. Chosen on
# draws 100 to 104 of symmetric and asymmetric noise at 10 and 30 % on Cora, CiteSeer and PubMed.
_CORRECTED_POWERS = tuple(np.geomspace(1.0, 8.0, 28).tolist())
_POWER_OF_RATE, _POWER_ERROR, _UNCHANGED = 1.5, 0.1, 0.35
_SHARED_MISTAKES = 0.5  # of features and neighbours, for each label on which they disagree
# Label weights at which features and graph contradict right labels only, and wrong ones only.
# Chosen on draws 100 and 101 of annotator noise at 10 and 30 % on the graphs of `annotators`.
_RIGHT_WEIGHT, _WRONG_WEIGHT = 3.2, 1.4
_RATE_ERROR = 0.02
_RESAMPLES, _RESAMPLED_STEPS = 50, 15
_INTERVAL = (5.0, 95.0)  # percentiles
_TAIL = 1.645  # standard errors that hold 90 %
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
            there are too few labels.
        neighbours: share of the labels that are the most common label of the node's neighbours;
            None where no neighbour has a label.
    """

    model: float
    majority: float
    correlation: float
    needed: float
    neighbours: float | None = None

    @property
    def is_informative(self) -> bool:
        """Whether the probabilities predict the labels well enough to call any of them wrong."""
        return self.correlation >= self.needed

    def __str__(self) -> str:
        """Return the numbers in words."""
        needed = f"{self.needed:.2f} is needed" if self.needed <= 1 else "with too few labels"
        around = (
            "" if self.neighbours is None else f", neighbours' labels with {self.neighbours:.1%}"
        )
        return (
            f"models that had not seen a label agree with {self.model:.1%} of the labels, the most "
            f"common class with {self.majority:.1%}{around} "
            f"(correlation {self.correlation:.2f}, {needed})"
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
        contradicted: [n] whether models without the label, or these with the graph, predict another
            class; such a label is not called right.
        noise_rate: the share of wrong labels, under the `assumption`.
        at_least: a share of wrong labels that there are at least, if the features and the
            neighbours of a node do not err together; its interval is that of this bound.
        assumption: what `noise_rate` rests on.
        feature_noise: whether mistakes follow the features; None where that is unknown.
        agreement: how well `proba` predicts the labels. Where it is not informative, nothing is
            flagged, every verdict is "can't tell", and the interval of the noise rate is [0, 1].
        transition: [K, K] P(given class | true class), ``[true, given]``.
        transition_low: [K, K] the lower ends of its 90 % intervals.
        transition_high: [K, K] the upper ends.
        expected_false_alarms: mean quality of the flagged labels; at most the limit that was set.
        threshold: the quality at and below which a label is flagged.
        confirmed: how many trusted labels drawn at random `noise_rate` rests on; 0 where it rests
            on the `assumption` alone.
    """

    quality: NDArray[np.float64]
    posterior: NDArray[np.float64]
    suggested: NDArray[np.int64]
    is_issue: NDArray[np.bool_]
    verdict: NDArray[np.str_]
    contradicted: NDArray[np.bool_]
    noise_rate: Estimate
    at_least: Estimate
    assumption: str
    feature_noise: FeatureNoise | None
    agreement: Agreement
    transition: NDArray[np.float64]
    transition_low: NDArray[np.float64]
    transition_high: NDArray[np.float64]
    expected_false_alarms: float
    threshold: float
    confirmed: int = 0

    @property
    def has_rate(self) -> bool:
        """Whether anything is known about the share of wrong labels."""
        return self.agreement.is_informative or self.confirmed > 0


def decide(
    given: Classes,
    proba: Floats,
    *,
    max_false_alarms: float,
    seed: int = 0,
    witnesses: Witnesses | None = None,
    corrected: bool = False,
) -> Decision:
    """Return which of the `given` labels are wrong, according to `proba` and `witnesses`.

    Labels are flagged by :func:`verdicts`, if `proba` predicts the labels better than chance by
    :func:`agreement`; otherwise nothing is flagged. The only label of its class is never flagged,
    since no model has seen another of its class, and its quality is at most 1/2. Such labels have
    no part in the agreement, in T, nor in the noise rate. Cost: linear in n.

    A label that predictions without it contradict is not called right, however probable it is:
    whether the label or the prediction is wrong rests on the assumption about the noise, which does
    not hold where labels go wrong at nodes that are hard anyway.

    With witnesses, `proba` is pooled with the prediction by the graph. Where mistakes follow the
    features (:mod:`erase.audit.feature_noise`), the labels around the node count in full, smoothed
    features and the given label by half (:func:`erase.audit.feature_noise.level_posterior`). Where
    they may, the decision is the mean of both, weighted by the probability that they do.

    Args:
        given: [n] classes 0 … K−1.
        proba: [n, K] out-of-sample: a node's own label took no part in its row.
        max_false_alarms: the largest expected share of right labels among the flagged, in [0, 1].
        seed: of the folds and samples behind weights and intervals.
        witnesses: class probabilities by features and by the graph, of the same labels; None:
            `proba` alone decides.
        corrected: whether `proba` are already those of the true classes, as far as a method can
            tell; then they are trusted more, and fewer labels are called wrong.
    """
    given, proba = _checked(given, proba, max_false_alarms)
    checkable = is_checkable(given)
    seen = None if witnesses is None else witnesses.rows(checkable)
    pooled = proba
    if witnesses is not None and seen is not None:
        pooled = proba.copy()
        parts = [proba[checkable], seen.graph]
        pooled[checkable] = pool(parts, given[checkable], seed, keep_confidence=True)
    known = agreement(given[checkable], pooled[checkable])
    own, model, noise = _explained(given[checkable], pooled[checkable], seen, seed, corrected)
    posterior = np.empty_like(proba)
    posterior[checkable] = own
    posterior[~checkable] = _unchecked(given[~checkable], proba[~checkable], model.rate, len(given))
    quality = posterior[np.arange(len(given)), given]
    contradicted = (_suggested(given, proba) != given) | (_suggested(given, pooled) != given)
    is_issue, verdict = verdicts(given, posterior, max_false_alarms, contradicted)
    rate, at_least = model.rate, model.at_least
    if not known.is_informative:
        is_issue, verdict = np.zeros_like(is_issue), np.full_like(verdict, CANNOT_TELL)
        rate, at_least = Estimate(rate.value, 0.0, 1.0), Estimate(0.0, 0.0, 1.0)
    return Decision(
        quality=quality,
        posterior=posterior,
        suggested=_suggested(given, posterior),
        is_issue=is_issue,
        verdict=verdict,
        contradicted=contradicted,
        noise_rate=rate,
        at_least=at_least,
        assumption=_assumption(noise),
        feature_noise=noise,
        agreement=known,
        transition=model.transition,
        transition_low=np.minimum(model.transition_low, model.transition),
        transition_high=np.maximum(model.transition_high, model.transition),
        expected_false_alarms=float(quality[is_issue].mean()) if is_issue.any() else 0.0,
        threshold=float(quality[is_issue].max()) if is_issue.any() else 0.0,
    )


@dataclass(frozen=True, eq=False)
class _NoiseModel:
    """A model of the noise, for all labels together."""

    rate: Estimate
    at_least: Estimate
    transition: Floats
    transition_low: Floats
    transition_high: Floats

    def mixed(self, other: "_NoiseModel", share: float) -> "_NoiseModel":
        """Return the mean of two models, in which the other has a share in [0, 1]."""

        def mean(one: Any, two: Any) -> Any:
            if isinstance(one, Estimate):
                ends = zip(astuple(one), astuple(two), strict=True)
                return Estimate(*(mean(*pair) for pair in ends))
            return (1 - share) * one + share * two

        names = [field.name for field in fields(self)]
        return _NoiseModel(*(mean(getattr(self, name), getattr(other, name)) for name in names))


def _explained(
    given: Classes, proba: Floats, witnesses: Witnesses | None, seed: int, corrected: bool
) -> tuple[Floats, _NoiseModel, FeatureNoise | None]:
    """Return posteriors [n, K], the noise, and whether it follows the features.

    Args:
        given: [n] classes.
        proba: [n, K].
        witnesses: of the same labels.
        seed: of folds and resamples.
        corrected: whether `proba` are corrected for noise.
    """
    least = 0.0 if witnesses is None else contradicted_share(given, witnesses)
    calibration = _calibrated(given, proba, seed, corrected, least)
    posterior = calibration.posterior(given, proba)
    noise = None if witnesses is None else find_feature_noise(given, witnesses, posterior)
    if noise is None or witnesses is None:
        return posterior, _noise_by_class(given, proba, calibration, seed), None
    share = noise.probability
    found = []
    if share < 1:
        model = _noise_by_class(given, proba, calibration, seed)
        bound = _independent_share(given, witnesses)
        found.append((posterior, replace(model, at_least=_smaller(model.at_least, bound))))
    if share > 0:
        found.append(_noise_by_features(given, witnesses, seed))
    if len(found) == 1:
        return *found[0], noise
    (one, by_class), (two, by_both) = found
    return (1 - share) * one + share * two, by_class.mixed(by_both, share), noise


def _assumption(noise: FeatureNoise | None) -> str:
    """Return what an estimate rests on."""
    if noise is None or noise.probability == 0:
        return IGNORES_FEATURES
    return FOLLOWS_FEATURES if noise.is_certain else MAY_FOLLOW_FEATURES


def _noise_by_class(
    given: Classes, proba: Floats, calibration: Calibration, seed: int
) -> _NoiseModel:
    """Return the noise if it depends on the class alone.

    Args:
        given: [n] classes.
        proba: [n, K].
        calibration: of `proba`.
        seed: of resamples.
    """
    rates, transitions = _resampled(given, proba, calibration, seed)
    rate = min(max(0.0, wrong_share(given, calibration.posterior(given, proba))), 1.0)
    low, high = _rate_interval(rate, rates, len(given))
    fewest, most = _count_interval(low, len(given))
    return _NoiseModel(
        Estimate(rate, low, high),
        Estimate(low, min(low, fewest), max(rate, most)),
        calibration.transition,
        *_interval_of(transitions),
    )


def _unchecked(given: Classes, proba: Floats, rate: Estimate, labels: int) -> Floats:
    """Return posteriors [m, K] of labels of which each is the only one of its class.

    Either the class has the share of one label and this is it, or the label of another class went
    wrong and fell on this class as on any other. A single label cannot show that it is right, so
    the given class has at most half of the probability; the others share the rest as in `proba`.

    Args:
        given: [m] classes.
        proba: [m, K].
        rate: of wrong labels.
        labels: how many there are in all.
    """
    rows = np.arange(len(given))
    others = proba + _ROUNDING
    others[rows, given] = 0.0
    right = (1 - rate.value) / labels
    wrong = rate.value * (1 - 1 / labels) / max(proba.shape[1] - 1, 1)
    quality = min(0.5, right / (right + wrong))
    posterior: Floats = (1 - quality) * others / others.sum(1, keepdims=True)
    posterior[rows, given] = quality
    return posterior


def _noise_by_features(
    given: Classes, witnesses: Witnesses, seed: int
) -> tuple[Floats, _NoiseModel]:
    """Return posteriors [n, K] for noise that follows the features, and the noise.

    How many labels are wrong remains unknown: where features and neighbours err together, no label
    looks wrong. So the interval of the rate has no upper end.

    Args:
        given: [n] classes.
        witnesses: of the same labels.
        seed: of resamples.
    """
    n = len(given)
    bound = _independent_share(given, witnesses, follows_features=True)
    posterior = level_posterior(given, witnesses.near_graph, witnesses.around)
    stream = numpy_stream(seed, "resampled labels")
    drawn = [
        transition_of(given, posterior, stream.multinomial(n, np.full(n, 1 / n)))
        for _ in range(_RESAMPLES)
    ]
    return posterior, _NoiseModel(
        Estimate(max(wrong_share(given, posterior), bound.value), bound.low, 1.0),
        bound,
        transition_of(given, posterior, np.ones(n)),
        *_interval_of(np.stack(drawn)),
    )


def _interval_of(drawn: Floats) -> tuple[Floats, Floats]:
    """Return the ends of the 90 % intervals of what was drawn [B, …]."""
    low, high = np.percentile(drawn, _INTERVAL, axis=0)
    return low, high


def transition_of(given: Classes, posterior: Floats, weights: NDArray[Any]) -> Floats:
    """Return T [K, K] ``[true, given]`` by expected counts; an empty class keeps its label."""
    k = posterior.shape[1]
    counts = posterior.T @ (np.eye(k)[given] * weights[:, None]) + 1e-6 * np.eye(k)
    transition: Floats = counts / counts.sum(1, keepdims=True)
    return transition


def _independent_share(
    given: Classes, witnesses: Witnesses, *, follows_features: bool = False
) -> Estimate:
    """Return the share of wrong labels by which a node's own features and its neighbours differ.

    Both are taken for independent predictions, and the label is weighed by how well it predicts the
    neighbours. Mistakes that repeat the features do not count in it, so it is a lower bound. The
    interval covers the error of the label's weight and the number of labels.

    Features and neighbours contradict right labels together, too: on CiteSeer 12 % of those that
    come with the graph. The more the label adds to the features, the more of what they contradict
    is right. Where mistakes follow the features, the share is therefore multiplied by a factor that
    falls from 1 to 0 with the label's weight.

    Args:
        given: [n] classes.
        witnesses: of the same labels.
        follows_features: whether mistakes do.
    """
    features, graph = witnesses.features, witnesses.graph
    if features is None:
        return Estimate(1.0, 1.0, 1.0)  # no bound
    weight = weigh_label(given, features, graph)
    rows = np.arange(len(given))

    def share(away: float) -> float:
        moved = replace(weight, weight=weight.weight + away * weight.error)
        posterior = joint_posterior(given, features, graph, moved)
        contradicted = float(1 - posterior[rows, given].mean())
        return contradicted * _wrong_among(moved.weight) if follows_features else contradicted

    value = share(0.0)
    low, high = _count_interval(value, len(given))
    return Estimate(value, min(low, share(_TAIL)), max(high, share(-_TAIL)))


def _wrong_among(weight: float) -> float:
    """Return how many of the contradicted labels are wrong at least, by a label's weight."""
    return float(np.clip((_RIGHT_WEIGHT - weight) / (_RIGHT_WEIGHT - _WRONG_WEIGHT), 0.0, 1.0))


def _smaller(one: Estimate, other: Estimate) -> Estimate:
    """Return the smaller of two bounds; its interval reaches down to the smaller end."""
    value = min(one.value, other.value)
    return Estimate(value, min(one.low, other.low), max(value, min(one.high, other.high)))


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
    given: Classes, posterior: Floats, max_false_alarms: float, contradicted: NDArray[np.bool_]
) -> tuple[NDArray[np.bool_], NDArray[np.str_]]:
    """Return which labels are flagged [n], and the verdict on each [n].

    Only a label for which another class is more probable can be flagged. Of these, flagged are the
    labels of least quality, as many as keep their mean quality, which is the expected share of
    false alarms, at or below `max_false_alarms`. A flagged label is "wrong" where the suggested
    class is more probable than all others together. A label is "right" where the given class is,
    and is not `contradicted`. All other labels are "can't tell".

    Args:
        given: [n] classes; the only label of its class is not flagged.
        posterior: [n, K] P(true class | node, given label).
        max_false_alarms: the largest expected share of right labels among the flagged.
        contradicted: [n] whether predictions without the label say another class.
    """
    checkable = is_checkable(given)
    quality = posterior[np.arange(len(given)), given]
    doubtful = checkable & (_suggested(given, posterior) != given)
    is_issue = np.zeros(len(given), dtype=bool)
    is_issue[doubtful] = flag(quality[doubtful], max_false_alarms)
    wrong = is_issue & (posterior.max(1) > 0.5)
    right = checkable & ~contradicted & (quality > 0.5)
    return is_issue, np.where(wrong, "wrong", np.where(right, "right", CANNOT_TELL))


def is_checkable(given: Classes) -> NDArray[np.bool_]:
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


def contradicted_share(given: Classes, witnesses: Witnesses) -> float:
    """Return a lower bound of the share of wrong labels, where features and neighbours agree.

    Where a node's own features and its neighbours agree on a class other than the label, the label
    is wrong, or both err together. How often they err together is not known; it is taken to be at
    most half as often as they disagree. Their disagreement is divided by that of chance, so that
    predictions which always name the most common class count for nothing:

        C = share(F = G ≠ label) − ½ · share(F ≠ G) / Σ_{j≠k} share(F = j) share(G = k).

    The share is 0 where that is negative, without features, with few labels, and where most nodes
    have no label.

    Args:
        given: [n] classes.
        witnesses: of the same labels.
    """
    if witnesses.features is None or witnesses.coverage < LEAST_COVERAGE:
        return 0.0
    n, k = witnesses.graph.shape
    if n < FEWEST_LABELS:
        return 0.0
    features, graph = witnesses.features.argmax(1), witnesses.graph.argmax(1)
    apart = features != graph
    by_chance = 1 - np.bincount(features, minlength=k) @ np.bincount(graph, minlength=k) / n**2
    if by_chance <= 0:
        return 0.0
    against = float(np.mean(~apart & (features != given)))
    return max(against - _SHARED_MISTAKES * float(apart.mean()) / float(by_chance), 0.0)


def _calibrated(
    given: Classes, proba: Floats, seed: int, corrected: bool, least: float
) -> Calibration:
    """Return noise models weighted on a sample of the labels and fitted to all of them.

    Where they find fewer wrong labels than `least`, models that do are left out.
    """
    stream = numpy_stream(seed, "held-out labels")
    sample = np.sort(stream.permutation(len(given))[:_WEIGHED])
    folds = stream.permutation(len(sample)) % min(_FOLDS, len(sample))
    fit = partial(calibrate, given[sample], proba[sample], folds=folds)
    if corrected:
        calibration = fit(
            powers=_CORRECTED_POWERS, log_prior=_prior_of_corrected, unchanged=_UNCHANGED
        )
    else:
        calibration = fit()
    if float(_rates(calibration.transition)) < least:
        calibration = fit(powers=_CORRECTED_POWERS, log_prior=partial(_prior_of_rate, least))
    return calibration.refitted(given, proba) if len(sample) < len(given) else calibration


def _rates(transitions: Floats) -> Floats:
    """Return the rate of wrong labels of transition matrices [..., K, K], all classes alike."""
    rates: Floats = 1 - np.trace(transitions, axis1=-2, axis2=-1) / transitions.shape[-1]
    return rates


def _prior_of_rate(least: float, power: Floats, transitions: Floats) -> Floats:
    """Return the log prior of models [C] that have a rate of wrong labels of at least `least`."""
    missing = np.maximum(least - _rates(transitions), 0.0)
    prior: Floats = -((missing / _RATE_ERROR) ** 2) / 2
    return prior


def _prior_of_corrected(power: Floats, transitions: Floats) -> Floats:
    """Return the log prior of models [C]: the power follows from the rate of wrong labels."""
    away = np.log(power) + _POWER_OF_RATE * np.log1p(-_rates(transitions))
    prior: Floats = -((away / _POWER_ERROR) ** 2) / 2
    return prior


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
    fewest, most = _count_interval(rate, labels)
    return min(float(low), fewest, rate), max(float(high), most, rate)


def _count_interval(rate: float, labels: int) -> tuple[float, float]:
    """Return the 90 % Clopper–Pearson interval of n·rate wrong labels among n."""
    tails = [percentile / 100 for percentile in _INTERVAL]
    wrong, right = labels * rate, labels * (1 - rate)
    fewest = beta.ppf(tails[0], wrong, right + 1) if wrong > _ROUNDING else 0.0
    most = beta.ppf(tails[1], wrong + 1, right) if right > _ROUNDING else 1.0
    return float(fewest), float(most)


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
            "rows of probabilities",
            "a row with a negative or infinite number, or with zeros only",
            "Pass rows of numbers ≥ 0 that sum to 1.",
        )
    if not 0 <= max_false_alarms <= 1:
        raise EraseError(
            "a share of false alarms between 0 and 1", repr(max_false_alarms), "Correct it."
        )
    return given, proba / proba.sum(1, keepdims=True)
