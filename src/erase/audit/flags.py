"""Which labels are flagged, and the verdict on each, by their posteriors."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Classes = NDArray[np.int64]

CANNOT_TELL = "can't tell"


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
    doubtful = checkable & (suggested(given, posterior) != given)
    is_issue = np.zeros(len(given), dtype=bool)
    is_issue[doubtful] = flag(quality[doubtful], max_false_alarms)
    wrong = is_issue & (posterior.max(1) > 0.5)
    right = checkable & ~contradicted & (quality > 0.5)
    return is_issue, np.where(wrong, "wrong", np.where(right, "right", CANNOT_TELL))


def is_checkable(given: Classes) -> NDArray[np.bool_]:
    """Return which labels [n] can be checked: those that share their class with another label."""
    checkable: NDArray[np.bool_] = np.bincount(given)[given] > 1
    return checkable


def suggested(given: Classes, posterior: Floats) -> Classes:
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
