"""Intervals of the transition matrix that hold what is stated."""

from dataclasses import replace

import numpy as np

from erase.audit.decision import Decision


def with_even_intervals(decision: Decision) -> Decision:
    """Return the decision with intervals that reach as far to one side as to the other.

    The stated shares count mistakes that the noise model by class misses, and those that trusted
    labels show; the intervals are those of that model, extended to the shares. Where a share is
    then the end of its interval, nothing is known about what lies beyond.
    """
    share = decision.transition
    away = np.maximum(share - decision.transition_low, decision.transition_high - share)
    return replace(
        decision,
        transition_low=np.maximum(share - away, 0.0),
        transition_high=np.minimum(share + away, 1.0),
    )
