"""What an audit states about the labels, in sentences: the same on the page and the terminal."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from erase.audit.agreement import Agreement
from erase.audit.decision import FOLLOWS_FEATURES, MAY_FOLLOW_FEATURES, Decision
from erase.audit.noise_rate import Estimate
from erase.display import review_command

_WORTH_SAYING = 0.005  # of a share of wrong labels
TO_CONFIRM = 50  # labels whose share of errors is known to about 10 points


def agreement_sentence(agreement: Agreement) -> str:
    """Return how good the models are, beside simple predictions."""
    words = str(agreement)
    return f"{words[0].upper()}{words[1:]}."


def headline(decision: Decision) -> tuple[Estimate, str]:
    """Return the share of wrong labels that is known, as numbers and in words.

    That is the noise rate where trusted labels were drawn at random, else its lower bound.
    """
    if decision.confirmed:
        return decision.noise_rate, f"{decision.noise_rate.value:.1%}"
    return decision.at_least, f"at least {decision.at_least.value:.1%}"


def false_alarms(decision: Decision) -> str:
    """Return the expected share of false alarms in words."""
    words = f"{decision.expected_false_alarms:.0%}"
    return f"{words}, or more," if is_bound(decision) else words


def is_bound(decision: Decision) -> bool:
    """Return whether estimates are lower bounds: mistakes follow the features, or may do so."""
    return decision.assumption in (FOLLOWS_FEATURES, MAY_FOLLOW_FEATURES)


def wrong_share_sentences(
    decision: Decision, graph: object = None, tables: Mapping[str, Any] = MappingProxyType({})
) -> list[str]:
    """Return what is known about the share of wrong labels, what it rests on, and what to do.

    Args:
        decision: about the labels.
        graph: as a user names it on the command line, where known.
        tables: options on tables that it was read with.
    """
    command = review_command(graph or "GRAPH", tables, "--strategy", "random")
    labels = len(decision.quality)
    drawn = f"{TO_CONFIRM} labels drawn at random" if labels > TO_CONFIRM else "all labels"
    advice = f"Confirm {drawn} to measure the share: {command}."
    if not decision.has_rate:
        return [advice]
    share, words = headline(decision)
    interval = f"90 % interval {share.low:.1%} to {share.high:.1%}"
    if decision.confirmed:
        return [
            f"{words} of the labels are wrong ({interval}), by {decision.confirmed} labels that a "
            "person confirmed or corrected."
        ]
    about = f"about {decision.noise_rate.value:.1%}"
    if is_bound(decision):
        verb = "follow" if decision.assumption == FOLLOWS_FEATURES else "may follow"
        return [
            f"{words[0].upper()}{words[1:]} of the labels are wrong (90 % interval of this bound "
            f"{share.low:.1%} to {share.high:.1%}).",
            f"Mistakes {verb} the features: {about}, and the upper end is not known.",
            advice,
        ]
    least, most = plausible_range(decision)
    upper = "are all that a model contradicts, wrong or hard to predict"
    if most > np.mean(decision.contradicted):
        upper = "is the upper end of the interval of the estimate"
    sentences = [
        f"{least:.1%} to {most:.1%} of the labels look wrong: the first is a lower bound "
        f"({interval}), the second {upper}. Mistakes that models repeat come on top.",
        f"If mistakes depend on the class alone: {about}.",
        advice,
    ]
    expected = float(np.mean(1 - decision.quality))
    if expected - decision.noise_rate.value >= _WORTH_SAYING:
        sentences[1] = (
            f"If mistakes depend on the class alone: {about}. Flags and qualities allow for more "
            f"at nodes that are hard to predict: about {expected:.1%} in all."
        )
    return sentences


def plausible_range(decision: Decision) -> tuple[float, float]:
    """Return the shares of labels that are surely wrong, and that may be by what models predict.

    From the lower bound to all labels that a model contradicts, or to the upper end of the interval
    of the estimate where that is more, as it is of few labels. Wrong labels that no model
    contradicts are not in it: those that follow the features.
    """
    most = max(float(np.mean(decision.contradicted)), decision.noise_rate.high)
    return decision.at_least.value, most
