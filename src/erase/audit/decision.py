"""Decide which given labels are wrong from out-of-fold probabilities: functions of (given, proba).

The model of how labels go wrong is that of :mod:`erase.methods.relabelling.noise_model`; here it is
fitted to all labels (:mod:`erase.audit.calibration`), its uncertainty is measured
(:mod:`erase.audit.noise_rate`), and labels are flagged (:mod:`erase.audit.flags`). Before that, the
probabilities must predict the given labels better than chance: see :mod:`erase.audit.agreement`.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from erase.audit.agreement import Agreement, agreement
from erase.audit.calibration import calibrated, contradicted_share
from erase.audit.combination import combine, share_of_other_mistakes
from erase.audit.feature_noise import (
    FeatureNoise,
    find_feature_noise,
    level_posterior,
    wrong_share,
)
from erase.audit.flags import CANNOT_TELL, is_checkable, suggested, verdicts
from erase.audit.noise_rate import (
    Estimate,
    NoiseModel,
    independent_share,
    noise_by_class,
    noise_by_features,
    smaller,
    transition_of,
)
from erase.audit.witnesses import Witnesses, pool
from erase.errors import EraseError

Floats = NDArray[np.float64]
Classes = NDArray[np.int64]

IGNORES_FEATURES = "mistakes depend on the class of a node, not on its features"
FOLLOWS_FEATURES = "mistakes follow the features, and neighbours make others"
MAY_FOLLOW_FEATURES = "mistakes may follow the features or depend on the class of a node alone"

_ROUNDING = 1e-9  # of probabilities: where all others are 0, they are alike


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

    A noise model by class is fitted to `proba`. With witnesses, mistakes that do not depend on the
    class alone count too, by the labels around a node
    (:func:`erase.audit.feature_noise.level_posterior`), as far as
    :func:`erase.audit.combination.share_of_other_mistakes` says. The noise model is not fitted to
    `proba` pooled with the graph: where a third of a class is given as another, so are a third of
    its neighbours, and the pooled prediction takes that for uncertainty.

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
    own, model, noise = _explained(given[checkable], proba[checkable], seen, seed, corrected)
    posterior = np.empty_like(proba)
    posterior[checkable] = own
    posterior[~checkable] = _unchecked(given[~checkable], proba[~checkable], model.rate, len(given))
    quality = posterior[np.arange(len(given)), given]
    contradicted = (suggested(given, proba) != given) | (suggested(given, pooled) != given)
    is_issue, verdict = verdicts(given, posterior, max_false_alarms, contradicted)
    rate, at_least = model.rate, model.at_least
    if not known.is_informative:
        is_issue, verdict = np.zeros_like(is_issue), np.full_like(verdict, CANNOT_TELL)
        rate, at_least = Estimate(rate.value, 0.0, 1.0), Estimate(0.0, 0.0, 1.0)
    return Decision(
        quality=quality,
        posterior=posterior,
        suggested=suggested(given, posterior),
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


def _explained(
    given: Classes, proba: Floats, witnesses: Witnesses | None, seed: int, corrected: bool
) -> tuple[Floats, NoiseModel, FeatureNoise | None]:
    """Return posteriors [n, K], the noise, and whether it follows the features.

    Args:
        given: [n] classes.
        proba: [n, K].
        witnesses: of the same labels.
        seed: of folds and resamples.
        corrected: whether `proba` are corrected for noise.
    """
    least = 0.0 if witnesses is None else contradicted_share(given, witnesses)
    calibration = calibrated(given, proba, seed, corrected, least)
    posterior = calibration.posterior(given, proba)
    model = noise_by_class(given, proba, calibration, seed)
    if witnesses is None:
        return posterior, model, None
    noise = find_feature_noise(given, witnesses, posterior)
    follows = 0.0 if noise is None else noise.probability
    share = share_of_other_mistakes(given, witnesses, posterior, follows)
    if share > 0:
        level = level_posterior(given, witnesses.near_graph, witnesses.around)
        by_class = wrong_share(given, posterior)
        wrong = (1 - share) * by_class + share * max(by_class, wrong_share(given, level))
        posterior = combine(given, posterior, level, share, wrong)
    if noise is not None and follows < 1:
        bound = independent_share(given, witnesses)
        model = replace(model, at_least=smaller(model.at_least, bound))
    if follows > 0:
        model = model.mixed(noise_by_features(given, witnesses, seed), follows)
    if share > 0:
        model = replace(model, transition=transition_of(given, posterior, np.ones(len(given))))
    return posterior, model, noise


def _assumption(noise: FeatureNoise | None) -> str:
    """Return what an estimate rests on."""
    if noise is None or noise.probability == 0:
        return IGNORES_FEATURES
    return FOLLOWS_FEATURES if noise.is_certain else MAY_FOLLOW_FEATURES


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
