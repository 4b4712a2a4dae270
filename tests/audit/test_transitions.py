"""Intervals of the transition matrix reach as far to one side as to the other."""

from dataclasses import replace

import numpy as np

from erase.audit.transitions import with_even_intervals
from synthetic_audits import planted_audit


def test_an_interval_reaches_as_far_to_both_sides_and_stays_a_share() -> None:
    """By hand: an end at the share, a share in the middle, one near 0, one near 1."""
    decision = planted_audit(30).decision
    shape = decision.transition.shape
    found = with_even_intervals(
        replace(
            decision,
            transition=np.full(shape, 0.3),
            transition_low=np.full(shape, 0.1),
            transition_high=np.full(shape, 0.3),
        )
    )
    np.testing.assert_allclose(found.transition_low, 0.1)
    np.testing.assert_allclose(found.transition, 0.3)
    np.testing.assert_allclose(found.transition_high, 0.5)
    even = with_even_intervals(found)
    np.testing.assert_allclose(even.transition_low, found.transition_low)
    np.testing.assert_allclose(even.transition_high, found.transition_high)
    near = replace(
        decision,
        transition=np.full(shape, 0.95),
        transition_low=np.full(shape, 0.8),
        transition_high=np.full(shape, 0.96),
    )
    np.testing.assert_allclose(with_even_intervals(near).transition_high, 1.0)
    few = replace(near, transition=np.full(shape, 0.05), transition_low=np.full(shape, 0.04))
    few = replace(few, transition_high=np.full(shape, 0.2))
    np.testing.assert_allclose(with_even_intervals(few).transition_low, 0.0)
    np.testing.assert_allclose(with_even_intervals(few).transition_high, 0.2)
