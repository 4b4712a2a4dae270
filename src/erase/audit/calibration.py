"""Noise models fitted to all labels, and a share of wrong ones that they have to find at least."""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from erase.audit.feature_noise import FEWEST_LABELS, LEAST_COVERAGE
from erase.audit.witnesses import Witnesses
from erase.methods.relabelling.noise_model import Calibration, calibrate
from erase.random import numpy_stream

Floats = NDArray[np.float64]
Classes = NDArray[np.int64]

_FOLDS, _WEIGHED = 5, 5_000  # labels that suffice to weight the noise models
# For probabilities that a method has corrected for noise. Their power τ is about (1 − rate)^-1.5:
# less than the likelihood prefers, since a method's own mistakes look like wrong labels. Chosen on
# draws 100 to 104 of symmetric and asymmetric noise at 10 and 30 % on Cora, CiteSeer and PubMed.
_CORRECTED_POWERS = tuple(np.geomspace(1.0, 8.0, 28).tolist())
_POWER_OF_RATE, _POWER_ERROR, _UNCHANGED = 1.5, 0.1, 0.35
_RATE_ERROR = 0.02
_SHARED_MISTAKES = 0.5  # of features and neighbours, for each label on which they disagree


def calibrated(
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
