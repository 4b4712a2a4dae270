"""How many labels are wrong, how many errors are left, and when to stop reviewing."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from erase.audit import Audit, Estimate
from erase.audit.statements import headline
from erase.audit.trusted import BY_TRUSTED

if TYPE_CHECKING:
    from erase.review.store import Reviews

Classes = NDArray[np.int64]
Basis = Literal["random", "audit", "least", "nothing"]

ENOUGH = 30  # random labels: the interval of fewer is wider than what an audit knows
_SMALL = 10  # one label in so many is enough where the graph has few


@dataclass(frozen=True)
class Draws:
    """Labels that were drawn at random and decided, m of them in the order of their review.

    Attributes:
        wrong: [m] whether the given label is wrong.
        found: [m] how many wrong labels had been found before.
        unseen: [m] how many labels nobody had reviewed before; one of them was drawn.
    """

    wrong: NDArray[np.bool_]
    found: NDArray[np.int64]
    unseen: NDArray[np.int64]

    @classmethod
    def of(cls, reviewed: Sequence[tuple[int, bool]], given: Classes, trusted: Classes) -> "Draws":
        """Return the draws of a review.

        Args:
            reviewed: nodes in the order of their review, and whether each was drawn at random.
            given: [N] classes, -1 where there is no label.
            trusted: [N] the class that people agree on, -1 where unknown.
        """
        kept = [(node, random) for node, random in reviewed if given[node] >= 0]
        nodes = np.array([node for node, _ in kept], dtype=np.int64)
        known = trusted[nodes] >= 0
        wrong = known & (trusted[nodes] != given[nodes])
        drawn = np.array([random for _, random in kept], dtype=bool) & known
        found = np.cumsum(wrong) - wrong
        unseen = int((given >= 0).sum()) - np.arange(len(nodes))
        return cls(wrong[drawn], found[drawn], unseen[drawn])

    def __len__(self) -> int:
        """Return m."""
        return len(self.wrong)

    def errors(self, share: float) -> float:
        r"""Return the number M of wrong labels at which this share of the draws is expected wrong.

        A draw :math:`t` is wrong with probability :math:`(M - f_t) / u_t`, where :math:`f_t` wrong
        labels were found before and :math:`u_t` labels were unseen. M solves

        .. math:: \sum_t (M - f_t) / u_t = m \cdot \mathrm{share}.

        For the observed share it is unbiased, whatever was reviewed between the draws: it is the
        mean of :math:`f_t + u_t \cdot \mathrm{wrong}_t`, each of which is, with weights
        :math:`1 / u_t`.
        """
        total = len(self) * share + (self.found / self.unseen).sum()
        return float(total / (1 / self.unseen).sum())


def reviewed(audit: Audit, reviews: "Reviews") -> tuple[Audit, Classes, Draws]:
    """Return what the functions below need: an audit, `trusted` [N] and the random labels.

    The audit is about the labels as they were when they were reviewed. Where a table has been
    corrected since, the labels that were wrong count as found, and not as right from the start.
    """
    trusted, _ = reviews.trusted(audit.class_names, audit.given >= 0)
    first = reviews.first_given(audit.given, audit.class_names)
    corrected = int((first != audit.given).sum()) / max(_labels(audit), 1)
    decision = audit.decision
    if corrected:
        decision = replace(
            decision,
            noise_rate=_moved(decision.noise_rate, corrected),
            at_least=_moved(decision.at_least, corrected),
        )
    draws = Draws.of(reviews.order(), first, trusted)
    return replace(audit, given=first, decision=decision), trusted, draws


def with_share(audit: Audit, reviews: "Reviews") -> Audit:
    """Return the audit with the share of wrong labels that the page of the review shows.

    Where a table has been corrected since, it is the share that is left.
    """
    first, trusted, draws = reviewed(audit, reviews)
    corrected = int((first.given != audit.given).sum()) / max(_labels(audit), 1)
    share = _moved(wrong_share(first, trusted, draws), -corrected)
    kind, decision = basis(first, trusted, draws), audit.decision
    if kind in ("random", "audit"):
        decision = replace(
            decision,
            noise_rate=share,
            at_least=Estimate(share.low, share.low, share.value),
            assumption=BY_TRUSTED,
            confirmed=max(len(draws), 1) if kind == "random" else decision.confirmed,
        )
    elif kind == "least":
        rate = decision.noise_rate
        larger = Estimate(*(max(*pair) for pair in zip(_ends(rate), _ends(share), strict=True)))
        decision = replace(decision, noise_rate=larger, at_least=share)
    return replace(audit, decision=decision)


def _moved(estimate: Estimate, by: float) -> Estimate:
    return Estimate(*(min(max(end + by, 0.0), 1.0) for end in _ends(estimate)))


def _ends(estimate: Estimate) -> tuple[float, float, float]:
    return estimate.value, estimate.low, estimate.high


def sample_wanted(audit: Audit) -> int:
    """Return how many random labels are enough to estimate from them."""
    return max(min(ENOUGH, _labels(audit) // _SMALL), 1)


def is_sampled(audit: Audit, trusted: Classes, draws: Draws) -> bool:
    """Say whether enough random labels are decided to estimate from them, or all labels are."""
    return len(draws) >= sample_wanted(audit) or not _open(audit, trusted)


def basis(audit: Audit, trusted: Classes, draws: Draws) -> Basis:
    """Return what the share of wrong labels rests on.

    "random": the labels drawn at random; "audit": the audit, which knows some of them; "least": a
    lower bound of an audit that knows none; "nothing": an audit whose models say nothing.
    """
    if is_sampled(audit, trusted, draws):
        return "random"
    if not audit.decision.has_rate:
        return "nothing"
    return "audit" if audit.decision.confirmed else "least"


def wrong_share(audit: Audit, trusted: Classes, draws: Draws, confidence: float = 0.9) -> Estimate:
    """Return the share of wrong labels, with an interval, by the labels drawn at random.

    The interval takes the Clopper–Pearson ends for the share of the draws that are wrong. It is
    conservative, since the draws have different chances to be wrong (Hoeffding 1956). With too few
    draws it is what the audit knows, see :func:`basis`. All three are limited to what is possible:
    at least the share that was found, at most that and everything nobody has decided.

    Args:
        audit: of the graph.
        trusted: [N] the class that people agree on, -1 where unknown.
        draws: the random labels among them.
        confidence: of the interval.
    """
    labels, found, left = _labels(audit), _found(audit, trusted), _open(audit, trusted)
    if not left or not is_sampled(audit, trusted, draws):
        guess, _ = headline(audit.decision)
        errors = [labels * share for share in (guess.value, guess.low, guess.high)]
    else:
        m, wrong = len(draws), int(draws.wrong.sum())
        tail = (1 - confidence) / 2
        low = float(beta.ppf(tail, wrong, m - wrong + 1)) if wrong else 0.0
        high = float(beta.ppf(1 - tail, wrong + 1, m - wrong)) if wrong < m else 1.0
        errors = [draws.errors(share) for share in (wrong / m, low, high)]
    return Estimate(*(min(max(each, found), found + left) / max(labels, 1) for each in errors))


def errors_left(audit: Audit, trusted: Classes, draws: Draws, confidence: float = 0.9) -> Estimate:
    """Return how many wrong labels nobody has found yet: expected ones minus those found."""
    share = wrong_share(audit, trusted, draws, confidence)
    labels, found = _labels(audit), _found(audit, trusted)
    value, low, high = (
        max(part * labels - found, 0.0) for part in (share.value, share.low, share.high)
    )
    return Estimate(value, low, high)


def _labels(audit: Audit) -> int:
    return int((audit.given >= 0).sum())


def _open(audit: Audit, trusted: Classes) -> int:
    """Return how many given labels nobody has decided."""
    return int(((trusted < 0) & (audit.given >= 0)).sum())


def _found(audit: Audit, trusted: Classes) -> int:
    """Return how many given labels people have found to be wrong."""
    return int(((trusted >= 0) & (audit.given >= 0) & (trusted != audit.given)).sum())


def may_stop(
    audit: Audit,
    trusted: Classes,
    draws: Draws,
    below: float = 0.02,
    confidence: float = 0.9,
) -> bool:
    """Say whether the share of labels that are wrong and not found is below a limit.

    The upper end of the interval counts, and enough random labels must be decided.
    """
    if not is_sampled(audit, trusted, draws):
        return False
    return errors_left(audit, trusted, draws, confidence).high < below * _labels(audit)
