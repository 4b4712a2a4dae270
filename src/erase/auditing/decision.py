"""What out-of-sample probabilities say about given labels: pure functions of (given, proba)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


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
