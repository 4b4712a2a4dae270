"""One posterior from two, and how far each of them counts.

A noise model by class asks how often a label of each class goes wrong, whatever the node. Where
mistakes gather at nodes that are hard to predict, or follow the features, it takes them for the
uncertainty of the predictions and calls such labels right. A second posterior, which hardly uses
the given label (:func:`erase.audit.feature_noise.level_posterior`), finds them, but calls many
right labels wrong where predictions are poor. The decision is made between the two.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, logsumexp

from erase.audit.feature_noise import (
    FEWEST_LABELS,
    class_shares,
    graph_is_informative,
    information,
    wrong_share,
)
from erase.audit.witnesses import Witnesses
from erase.methods.relabelling.noise_model import log_proba

Floats = NDArray[np.float64]
Classes = NDArray[np.int64]

# Chosen on draws 100 to 103 of symmetric, asymmetric, annotator, topology and confidence noise, and
# none, on Cora, CiteSeer, PubMed, Debian, Computers and CS, with all labels and with those of the
# splits. With all labels the excess is 0.06 to 0.23 without noise, 0.05 to 0.23 with noise by
# class, and 0.19 to 1.2 with 30 % of topology or confidence noise.
_LEAST, _MOST = 0.1, 0.75
_USUAL_EXCESS, _BY_EXCESS = 0.18, 3.0
_SURE = 0.9  # share of the second posterior where mistakes surely follow the features
_MOST_SHIFT = 100.0  # of log odds


def combine(given: Classes, one: Floats, other: Floats, share: float, wrong: float) -> Floats:
    """Return P ∝ one^(1−s) · other^s [n, K] with a given expected share of wrong labels.

    The odds of all given labels are multiplied by the same factor, so that the mean of 1 − P[given]
    is `wrong`. The geometric mean ranks labels by the evidence of both; its own share of wrong
    labels is too small, since it calls a label wrong only where both do.

    >>> one, other = np.array([[0.9, 0.1], [0.5, 0.5]]), np.array([[0.5, 0.5], [0.1, 0.9]])
    >>> combine(np.array([0, 0]), one, other, share=0.5, wrong=0.5).round(2)
    array([[0.75, 0.25],
           [0.25, 0.75]])

    Args:
        given: [n] classes.
        one: [n, K] P(true class).
        other: [n, K].
        share: s, of the other.
        wrong: the expected share of wrong labels.
    """
    rows = np.arange(len(given))
    logs = (1 - share) * log_proba(one) + share * log_proba(other)
    own = logs[rows, given]
    logs[rows, given] = -np.inf
    rest = logsumexp(logs, axis=1)
    odds = own - rest

    def surplus(shift: float) -> float:
        return float(expit(-odds - shift).mean()) - wrong

    shift = 0.0
    if surplus(_MOST_SHIFT) < 0 < surplus(-_MOST_SHIFT):
        shift = float(brentq(surplus, -_MOST_SHIFT, _MOST_SHIFT, xtol=1e-9))
    posterior: Floats = np.exp(logs - rest[:, None]) * expit(-odds - shift)[:, None]
    posterior[rows, given] = expit(odds + shift)
    return posterior


def share_of_other_mistakes(
    given: Classes, witnesses: Witnesses, posterior: Floats, probability: float
) -> float:
    """Return how far mistakes count that a noise model by class does not explain, in [0, 0.9].

    At least a tenth, since such mistakes cannot be ruled out; more by the
    :func:`unexplained_excess`, and most where mistakes are likely to follow the features. Not at
    all with few labels, or where the graph tells nearly nothing.

    Args:
        given: [n] classes.
        witnesses: of the same labels.
        posterior: [n, K] P(true class) if mistakes depend on the class alone.
        probability: that mistakes follow the features.
    """
    if len(given) < FEWEST_LABELS:
        return 0.0
    excess = unexplained_excess(given, witnesses, posterior)
    share = min(_LEAST + _BY_EXCESS * max(excess - _USUAL_EXCESS, 0.0), _MOST)
    by_graph = information(given, witnesses.graph, class_shares(given, posterior.shape[1]))
    return max(share * graph_is_informative(by_graph), _SURE * probability)


def unexplained_excess(given: Classes, witnesses: Witnesses, posterior: Floats) -> float:
    """Return how many labels features and graph contradict together, beyond what is explained.

    Features F and graph G, as predictions that do not use the label, agree on another class where
    the label is wrong, or where both err. How often both err in the same way is not known, but
    grows with how often they differ. So the excess is

        (share(F = G ≠ label) − Σ_{F = G} P(wrong) / n) / (share(F ≠ G) / D),

    where D is how often they would differ by chance. 0 without features, and where they never
    differ.

    Args:
        given: [n] classes.
        witnesses: of the same labels.
        posterior: [n, K] P(true class) if mistakes depend on the class alone.
    """
    if witnesses.features is None:
        return 0.0
    n, k = posterior.shape
    features, graph = witnesses.features.argmax(1), witnesses.graph.argmax(1)
    alike = features == graph
    by_chance = 1 - np.bincount(features, minlength=k) @ np.bincount(graph, minlength=k) / n**2
    if alike.all() or by_chance <= 0:
        return 0.0
    against = float(np.mean(alike & (features != given)))
    explained = wrong_share(given[alike], posterior[alike]) * float(alike.mean())
    return (against - explained) * float(by_chance) / float(np.mean(~alike))
