"""The share of wrong labels from a random sample, errors left, and the stopping rule."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from erase.audit import Estimate
from erase.review.estimate import errors_left, may_stop, wrong_share
from synthetic_audits import planted_audit

AUDIT = planted_audit(400, unlabelled=0.0)


def sample(size: int, wrong: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return `trusted` and `trusted_random` of a sample in which some labels are wrong."""
    trusted = np.full(400, -1)
    trusted[:size] = AUDIT.given[:size]
    trusted[:wrong] = (AUDIT.given[:wrong] + 1) % len(AUDIT.class_names)
    return trusted, trusted >= 0


def test_the_interval_is_that_of_the_binomial_distribution() -> None:
    """At its ends, what was seen or more (or less) has a chance of 5 %."""
    found = wrong_share(AUDIT, *sample(50, 4))
    assert found.value == 0.08
    assert binom.sf(3, 50, found.low) == pytest.approx(0.05)
    assert binom.cdf(4, 50, found.high) == pytest.approx(0.05)


def test_labels_that_were_not_drawn_at_random_do_not_count() -> None:
    trusted, random = sample(50, 4)
    trusted[100:110] = (AUDIT.given[100:110] + 1) % len(AUDIT.class_names)
    found = wrong_share(AUDIT, trusted, random)
    assert (found.value, found.low) == (0.08, 14 / 400)  # what is found is wrong for sure
    assert errors_left(AUDIT, trusted, random).value == pytest.approx(32 - 14)
    trusted[110:150] = (AUDIT.given[110:150] + 1) % len(AUDIT.class_names)
    assert wrong_share(AUDIT, trusted, random).value == 54 / 400
    assert errors_left(AUDIT, trusted, random).value == 0
    assert errors_left(AUDIT, *sample(50, 4)).value == pytest.approx(32 - 4)


def test_without_a_sample_the_audit_answers_and_nobody_stops() -> None:
    own = AUDIT.decision.noise_rate
    for size in (0, 29):
        assert wrong_share(AUDIT, *sample(size, 0)) == own
        assert not may_stop(AUDIT, *sample(size, 0), below=1.0)
    assert wrong_share(AUDIT, *sample(30, 0)).value == 0
    assert may_stop(AUDIT, *sample(30, 0), below=1.0)
    trusted = (AUDIT.given + 1) % len(AUDIT.class_names)  # all are found to be wrong
    assert wrong_share(AUDIT, trusted, np.zeros(400, dtype=bool)) == Estimate(1.0, 1.0, 1.0)


def test_errors_left_are_labels_that_nobody_has_reviewed() -> None:
    trusted, random = sample(400, 4)
    random[40:] = False
    assert errors_left(AUDIT, trusted, random).high == 0
    trusted[390:] = -1
    assert errors_left(AUDIT, trusted, random).high == 10


def test_one_may_stop_when_few_errors_can_be_left() -> None:
    assert not may_stop(AUDIT, *sample(50, 0))
    assert may_stop(AUDIT, *sample(200, 0))
    assert not may_stop(AUDIT, *sample(200, 0), below=0.001)
