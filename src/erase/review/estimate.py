"""How many labels are wrong, how many errors are left, and when to stop reviewing."""

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from erase.audit import Audit, Estimate

Classes = NDArray[np.int64]
Mask = NDArray[np.bool_]

ENOUGH = 30  # random labels: the interval of fewer is wider than what an audit knows


def is_sampled(audit: Audit, trusted: Classes, trusted_random: Mask) -> bool:
    """Say whether the random sample is large enough to estimate from it."""
    labelled = audit.given >= 0
    sample = trusted_random & (trusted >= 0) & labelled
    return 0 < min(ENOUGH, int(labelled.sum())) <= int(sample.sum())


def wrong_share(
    audit: Audit, trusted: Classes, trusted_random: Mask, confidence: float = 0.9
) -> Estimate:
    """Return the share of wrong labels, with the Clopper–Pearson interval of the random sample.

    While the sample has fewer than `ENOUGH` labels it is the audit's own estimate. It is at least
    the share that was found.

    Args:
        audit: of the graph.
        trusted: [N] the class that people agree on, -1 where unknown.
        trusted_random: [N] which of these were drawn at random.
        confidence: of the interval.
    """
    sample = trusted_random & (trusted >= 0) & (audit.given >= 0)
    known = _found(audit, trusted) / max(int((audit.given >= 0).sum()), 1)
    if not is_sampled(audit, trusted, trusted_random):
        guess = audit.decision.noise_rate
        return Estimate(max(guess.value, known), max(guess.low, known), max(guess.high, known))
    n = int(sample.sum())
    wrong = int((trusted != audit.given)[sample].sum())
    tail = (1 - confidence) / 2
    low = float(beta.ppf(tail, wrong, n - wrong + 1)) if wrong else 0.0
    high = float(beta.ppf(1 - tail, wrong + 1, n - wrong)) if wrong < n else 1.0
    return Estimate(max(wrong / n, known), max(low, known), max(high, known))


def errors_left(
    audit: Audit, trusted: Classes, trusted_random: Mask, confidence: float = 0.9
) -> Estimate:
    """Return how many wrong labels nobody has found yet: expected ones minus those found."""
    share = wrong_share(audit, trusted, trusted_random, confidence)
    labels = int((audit.given >= 0).sum())
    found = _found(audit, trusted)
    reviewed = int(((trusted >= 0) & (audit.given >= 0)).sum())
    value, low, high = (
        float(np.clip(part * labels - found, 0, labels - reviewed))
        for part in (share.value, share.low, share.high)
    )
    return Estimate(value, low, high)


def _found(audit: Audit, trusted: Classes) -> int:
    """Return how many given labels people have found to be wrong."""
    return int(((trusted >= 0) & (audit.given >= 0) & (trusted != audit.given)).sum())


def may_stop(
    audit: Audit,
    trusted: Classes,
    trusted_random: Mask,
    below: float = 0.02,
    confidence: float = 0.9,
) -> bool:
    """Say whether the share of labels that are wrong and not found is below a limit.

    The upper end of the interval counts, and the random sample must be large enough.
    """
    if not is_sampled(audit, trusted, trusted_random):
        return False
    left = errors_left(audit, trusted, trusted_random, confidence)
    return left.high < below * int((audit.given >= 0).sum())
