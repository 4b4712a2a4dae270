"""The share of wrong labels and the transition matrix, with intervals."""

from dataclasses import astuple, dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from erase.audit.feature_noise import joint_posterior, level_posterior, weigh_label, wrong_share
from erase.audit.witnesses import Witnesses
from erase.methods.relabelling.noise_model import (
    Calibration,
    log_proba,
    maximise,
    posteriors,
    powered,
)
from erase.random import numpy_stream

Floats = NDArray[np.float64]
Classes = NDArray[np.int64]

# Label weights at which features and graph contradict right labels only, and wrong ones only.
# Chosen on draws 100 and 101 of annotator noise at 10 and 30 % on the graphs of `annotators`.
_RIGHT_WEIGHT, _WRONG_WEIGHT = 3.2, 1.4
_RESAMPLES, _RESAMPLED_STEPS = 50, 15
_INTERVAL = (5.0, 95.0)  # percentiles
_TAIL = 1.645  # standard errors that hold 90 %
_ROUNDING = 1e-9  # of counts


@dataclass(frozen=True)
class Estimate:
    """A number with its 90 % interval [low, high]."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class NoiseModel:
    """A model of the noise, for all labels together."""

    rate: Estimate
    at_least: Estimate
    transition: Floats
    transition_low: Floats
    transition_high: Floats

    def mixed(self, other: "NoiseModel", share: float) -> "NoiseModel":
        """Return the mean of two models, in which the other has a share in [0, 1]."""

        def mean(one: Any, two: Any) -> Any:
            if isinstance(one, Estimate):
                ends = zip(astuple(one), astuple(two), strict=True)
                return Estimate(*(mean(*pair) for pair in ends))
            return (1 - share) * one + share * two

        names = [field.name for field in fields(self)]
        return NoiseModel(*(mean(getattr(self, name), getattr(other, name)) for name in names))


def noise_by_class(
    given: Classes, proba: Floats, calibration: Calibration, seed: int
) -> NoiseModel:
    """Return the noise if it depends on the class alone.

    The bound lies below the interval of the rate by as much as that many wrong labels vary by
    chance: nodes that a model gets wrong look like wrong labels, so that the rate is too high where
    many are. On CiteSeer with few labels the lower end of the interval was above the truth in half
    of the draws.

    Args:
        given: [n] classes.
        proba: [n, K].
        calibration: of `proba`.
        seed: of resamples.
    """
    rates, transitions = _resampled(given, proba, calibration, seed)
    rate = min(max(0.0, wrong_share(given, calibration.posterior(given, proba))), 1.0)
    low, high = _rate_interval(rate, rates, len(given))
    bound, _ = _count_interval(low, len(given))
    least, most = _count_interval(bound, len(given))
    return NoiseModel(
        Estimate(rate, low, high),
        Estimate(bound, least, max(rate, most)),
        calibration.transition,
        *_interval_of(transitions),
    )


def noise_by_features(given: Classes, witnesses: Witnesses, seed: int) -> NoiseModel:
    """Return the noise if it follows the features.

    How many labels are wrong remains unknown: where features and neighbours err together, no label
    looks wrong. So the interval of the rate has no upper end.

    Args:
        given: [n] classes.
        witnesses: of the same labels.
        seed: of resamples.
    """
    n = len(given)
    bound = independent_share(given, witnesses, follows_features=True)
    posterior = level_posterior(given, witnesses.near_graph, witnesses.around)
    stream = numpy_stream(seed, "resampled labels")
    drawn = [
        transition_of(given, posterior, stream.multinomial(n, np.full(n, 1 / n)))
        for _ in range(_RESAMPLES)
    ]
    return NoiseModel(
        Estimate(max(wrong_share(given, posterior), bound.value), bound.low, 1.0),
        bound,
        transition_of(given, posterior, np.ones(n)),
        *_interval_of(np.stack(drawn)),
    )


def transition_of(given: Classes, posterior: Floats, weights: NDArray[Any]) -> Floats:
    """Return T [K, K] ``[true, given]`` by expected counts; an empty class keeps its label."""
    k = posterior.shape[1]
    counts = posterior.T @ (np.eye(k)[given] * weights[:, None]) + 1e-6 * np.eye(k)
    transition: Floats = counts / counts.sum(1, keepdims=True)
    return transition


def independent_share(
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


def smaller(one: Estimate, other: Estimate) -> Estimate:
    """Return the smaller of two bounds; its interval reaches down to the smaller end."""
    value = min(one.value, other.value)
    return Estimate(value, min(one.low, other.low), max(value, min(one.high, other.high)))


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


def _interval_of(drawn: Floats) -> tuple[Floats, Floats]:
    """Return the ends of the 90 % intervals of what was drawn [B, …]."""
    low, high = np.percentile(drawn, _INTERVAL, axis=0)
    return low, high
