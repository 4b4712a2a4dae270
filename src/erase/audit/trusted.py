"""What trusted labels change in a decision: they show which given labels are right."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, logit
from scipy.stats import t as student

from erase.audit.decision import Decision
from erase.audit.flags import is_checkable, verdicts
from erase.audit.noise_rate import Estimate, transition_of
from erase.methods.relabelling.noise_model import assign_folds
from erase.methods.relabelling.trusted import Evidence, trusted_posterior
from erase.random import numpy_stream

Floats = NDArray[np.float64]
Classes = NDArray[np.int64]
Bools = NDArray[np.bool_]

FEWEST = 20  # trusted labels to learn from
FEWEST_RANDOM = 10  # trusted labels drawn at random to estimate from
BY_TRUSTED = "trusted labels show how labels go wrong"
_FOLDS = 5
_SHIFT, _SLOPE = 1.5, 0.5  # standard deviations of the prior of a calibration
_CERTAIN = 1e-4  # no quality is nearer to 0 or 1
_HALF_LABEL = 0.5  # squared error added to a sample: where none was wrong, one may have been
_TAIL = 0.95
_MIXING_STEPS = 50
_TINY = 1e-300  # where both exclude a class


@dataclass(frozen=True, eq=False)
class Trusted:
    """Trusted labels among n given ones.

    Attributes:
        label: [n] classes, -1 where there is none.
        is_random: [n] which of them were drawn at random from all given labels.
    """

    label: Classes
    is_random: Bools

    @property
    def known(self) -> Bools:
        """Which labels are trusted [n]."""
        known: Bools = self.label >= 0
        return known


def redo(
    decision: Decision,
    evidence: Evidence,
    trusted: Trusted,
    *,
    max_false_alarms: float,
    seed: int,
) -> Decision:
    """Return the decision about n labels once some are trusted, by `learn` and `apply_trusted`."""
    learnt = learn(decision, evidence, trusted, max_false_alarms=max_false_alarms, seed=seed)
    return apply_trusted(learnt, evidence.given, trusted.label, max_false_alarms)


def learn(
    decision: Decision,
    evidence: Evidence,
    trusted: Trusted,
    *,
    max_false_alarms: float,
    seed: int,
) -> Decision:
    """Return the decision that trusted labels lead to; without enough of them, `decision`.

    The regression of :mod:`erase.methods.relabelling.trusted` learns the true classes. Its
    probabilities are averaged with those of `decision`, with the shares under which the trusted
    labels are most probable: a few of them teach less than a noise model that fits. The quality is
    calibrated on all trusted labels, if enough of them were drawn at random: a label is chosen for
    review by its quality, not by whether it is right. No trusted label takes part in its own
    quality. The share of wrong labels is the mean of 1 − quality over all labels, corrected by its
    mean error on the random ones (prediction-powered inference, Angelopoulos et al. 2023):
    unbiased, whatever the model is worth. With too few random ones, the share stays that of
    `decision`.

    Args:
        decision: about the same n labels, without trusted ones.
        evidence: about their nodes.
        trusted: some of the labels.
        max_false_alarms: the largest expected share of right labels among the flagged.
        seed: of the folds.
    """
    known, given = trusted.known, evidence.given
    if known.sum() < FEWEST:
        return decision
    rows = np.arange(len(given))
    fold = np.full(len(given), -1)
    fold[known] = assign_folds(trusted.label[known], _FOLDS, numpy_stream(seed, "trusted folds"))
    learnt = trusted_posterior(evidence, trusted.label, fold)
    posterior = _mixed(learnt, decision.posterior, trusted.label, fold)
    sample = known & trusted.is_random
    right = (given == trusted.label)[sample]
    if sample.sum() >= FEWEST_RANDOM:
        posterior = _calibrated(posterior, given, trusted.label, fold)
    unchecked = ~is_checkable(given)
    posterior[unchecked] = decision.posterior[unchecked]
    quality = posterior[rows, given]
    if sample.sum() >= FEWEST_RANDOM:
        rate = wrong_share(quality, quality[sample], ~right)
        decision = replace(
            decision,
            noise_rate=rate,
            at_least=Estimate(rate.low, rate.low, rate.value),
            assumption=BY_TRUSTED,
            confirmed=int(sample.sum()),
        )
    is_issue, verdict = decision.is_issue, decision.verdict
    if decision.agreement.is_informative:
        is_issue, verdict = verdicts(given, posterior, max_false_alarms, decision.contradicted)
    transition = transition_of(given, posterior, np.ones(len(given)))
    return replace(
        decision,
        quality=quality,
        posterior=posterior,
        suggested=np.where(quality >= posterior.max(1), given, posterior.argmax(1)),
        is_issue=is_issue,
        verdict=verdict,
        transition=transition,
        transition_low=np.minimum(decision.transition_low, transition),
        transition_high=np.maximum(decision.transition_high, transition),
    )


def _mixed(learnt: Floats, before: Floats, trusted: Classes, fold: Classes) -> Floats:
    """Return the mean of two posteriors [n, K], with the shares that trusted labels fit best.

    Args:
        learnt: [n, K] from trusted labels; of a trusted label by a model without it.
        before: [n, K] without trusted labels.
        trusted: [n] classes, -1 where there is no trusted label.
        fold: [n] of the trusted labels, whose shares the other folds decide; -1 elsewhere.
    """
    known = trusted >= 0
    truth = trusted[known, None]
    fit = [np.take_along_axis(each[known], truth, 1)[:, 0] for each in (learnt, before)]
    mixed = np.empty_like(learnt)
    for this in np.unique(fold):
        share = _share(*(each[fold[known] != this] for each in fit))
        mixed[fold == this] = (share * learnt + (1 - share) * before)[fold == this]
    return mixed


def _share(one: Floats, other: Floats) -> float:
    """Return the share of the first in the mixture of two under which m labels are most probable.

    By expectation–maximisation, with one label for each of the two added.

    Args:
        one: [m] probability of each label by the first.
        other: [m] by the second.

    >>> round(_share(np.array([0.9, 0.9, 0.9]), np.array([0.1, 0.1, 0.1])), 2)
    0.78
    """
    share = 0.5
    for _ in range(_MIXING_STEPS):
        part = share * one
        total = part + (1 - share) * other + _TINY
        share = float((1 + (part / total).sum()) / (2 + len(one)))
    return share


def _calibrated(posterior: Floats, given: Classes, trusted: Classes, fold: Classes) -> Floats:
    """Return posteriors whose quality q is calibrated: logit q ← shift + slope · logit q.

    Args:
        posterior: [n, K]; of a trusted label by a model without it.
        given: [n] classes.
        trusted: [n] classes, -1 where there is no trusted label.
        fold: [n] of the trusted labels, which are calibrated by the other folds; -1 elsewhere.
    """
    known = trusted >= 0
    right = (given == trusted)[known]
    rows = np.arange(len(given))
    quality = posterior[rows, given].clip(_CERTAIN, 1 - _CERTAIN)
    logits = logit(quality)
    moved = np.empty_like(logits)
    for this in np.unique(fold):
        others = fold[known] != this
        shift, slope = _calibration(logits[known][others], right[others])
        moved[fold == this] = expit(shift + slope * logits[fold == this])
    calibrated: Floats = posterior * ((1 - moved) / (1 - quality))[:, None]
    calibrated[rows, given] = moved
    return calibrated


def _calibration(seen: Floats, right: Bools) -> tuple[float, float]:
    """Return shift and slope for logits [m] of labels that are right or not [m]."""

    def loss(z: Floats) -> tuple[float, Floats]:
        chance = expit(_SHIFT * z[0] + (1 + _SLOPE * z[1]) * seen)
        error = chance - right
        fit = np.log(np.maximum(np.where(right, chance, 1 - chance), 1e-12)).sum()
        slope = np.array([_SHIFT * error.sum(), _SLOPE * (error * seen).sum()])
        return float(z @ z / 2 - fit), slope + z

    shift, slope = minimize(loss, np.zeros(2), jac=True, method="L-BFGS-B").x
    return _SHIFT * float(shift), 1 + _SLOPE * float(slope)


def wrong_share(quality: Floats, sampled: Floats, wrong: Bools) -> Estimate:
    """Return the share of wrong labels with its 90 % interval.

    Args:
        quality: [n] of all labels.
        sampled: [m] of labels drawn at random, by a model that did not know whether they are right.
        wrong: [m] whether they are wrong.

    >>> sure = wrong_share(np.full(1000, 0.9), np.full(50, 0.9), np.arange(50) < 5)
    >>> round(sure.value, 3), round(sure.low, 2), round(sure.high, 2)
    (0.1, 0.03, 0.17)
    """
    n, m = len(quality), len(wrong)
    error = wrong - (1 - sampled)
    value = float((1 - quality).mean() + error.mean())
    around = error - error.mean()
    variance = (around @ around + _HALF_LABEL) / (m - 1) / m * (1 - m / n if n > m else 0.0)
    away = float(student.ppf(_TAIL, m - 1) * np.sqrt(variance))
    value = min(max(value, 0.0), 1.0)
    return Estimate(value, max(value - away, 0.0), min(value + away, 1.0))


def apply_trusted(
    decision: Decision,
    given: NDArray[np.int64],
    trusted: NDArray[np.int64],
    max_false_alarms: float,
) -> Decision:
    """Return the decision with the verdicts that trusted labels give, none of them flagged.

    The quality of a given label beside a trusted one is 1 or 0. The other labels are flagged among
    themselves, so that their expected share of false alarms keeps the limit.

    Args:
        decision: about n labels.
        given: [n] classes.
        trusted: [n] classes, -1 where there is no trusted label.
        max_false_alarms: the largest expected share of right labels among the flagged.
    """
    known = trusted >= 0
    is_right = (given == trusted)[known]
    posterior, quality = decision.posterior.copy(), decision.quality.copy()
    posterior[known] = np.eye(posterior.shape[1])[trusted[known]]
    quality[known] = is_right
    is_issue, verdict = np.zeros_like(decision.is_issue), decision.verdict.copy()
    if decision.agreement.is_informative and not known.all():
        is_issue[~known], verdict[~known] = verdicts(
            given[~known], posterior[~known], max_false_alarms, decision.contradicted[~known]
        )
    verdict[known] = np.where(is_right, "right", "wrong")
    return replace(
        decision,
        quality=quality,
        posterior=posterior,
        suggested=np.where(known, trusted, decision.suggested),
        is_issue=is_issue,
        verdict=verdict,
        expected_false_alarms=float(quality[is_issue].mean()) if is_issue.any() else 0.0,
        threshold=float(quality[is_issue].max()) if is_issue.any() else 0.0,
    )
