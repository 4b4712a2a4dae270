"""Label noise that follows the features: what an annotator, a rule or a language model does.

Whoever labels nodes by their features makes mistakes that the features predict. A model that reads
the same features takes them for signal: it predicts the given labels well, wrong ones included.
The labels of the neighbours were given to other nodes, so they contain other mistakes. Here they
are a second prediction G, and the question is how far G supports features and label together:

    q(k) ∝ P(k | features)^a · e^{b·[k is given]},     p(G | features, label) ∝ Σ_k q(k) G(k) / π_k,

with π the shares of the given labels. The weights a and b that make G most likely measure what a
given label is worth: b is the evidence, in nats, that it adds to the features. Where labels go
wrong whatever the features are, b is large. Where the label repeats what the features predict, b is
small, though features predict the labels better than the graph does.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, softmax

from erase.audit.witnesses import Witnesses
from erase.methods.relabelling.noise_model import log_proba

Floats = NDArray[np.float64]
Classes = NDArray[np.int64]


@dataclass(frozen=True)
class _Limit:
    """A value below which something holds: for sure 3 widths below, surely not 3 above."""

    middle: float
    width: float

    def __call__(self, value: float) -> float:
        return float(expit((self.middle - value) / self.width))


# Chosen on draws 100 to 119 of Cora, CiteSeer, PubMed, Computers, CS and Debian with all nodes
# labelled. Annotator noise at 30 %: label weight 0.4 to 3.0, graph share 0.4 to 0.95, 0 to 4 %
# wrong by class, 19 to 46 points more by both predictions. Clean labels: label weight 2.8 or more,
# graph share 0.94 or more, and where it is below 0.98, 7 to 14 points more by both. Symmetric and
# asymmetric noise of 10 and 30 %: 8 % or more wrong by class.
_LABEL_WEIGHT = _Limit(3.2, 0.05)
_LOG_BY_CLASS = _Limit(np.log(0.07), 0.12)
_SMALL_GRAPH_SHARE = _Limit(0.9, 0.005)
_GRAPH_SHARE = _Limit(0.965, 0.005)
_NOT_BY_BOTH = _Limit(-0.17, 0.01)
# Nats by which the graph predicts the given labels. With annotator noise on Tolokers, where it
# contradicts at random, 0.01 to 0.09; on the other graphs with 30 % 0.18 or more. With 50 % on
# PubMed it is 0.12 to 0.24: noise by features is then missed in part.
_TELLS_LITTLE = _Limit(0.15, 0.01)
_SURE = 0.95  # a probability beyond that counts as 1, below 1 − that as 0
FEWEST_LABELS = 100
LEAST_COVERAGE = 0.5  # share of the nodes that have a label
_MOST_POWER = 5.0  # log a
_MOST_WEIGHT = 12.0  # b
_STARTS = (0.0, 4.0)  # of b
_HALF = 0.5  # weight of smoothed features, and of the label
_FEW_LABELS = 10  # of a class: too few to estimate its share
_SMALL = 1e-3  # step of a numerical derivative


@dataclass(frozen=True)
class LabelWeight:
    """What a given label is worth beside a prediction that does not use it.

    Attributes:
        power: a, of the prediction.
        weight: b, in nats.
        error: standard error of b.
    """

    power: float
    weight: float
    error: float


@dataclass(frozen=True)
class FeatureNoise:
    """Whether the mistakes in the labels follow the features.

    Attributes:
        label_weight: b, what the given label adds to the node's own features, in nats.
        error: standard error of `label_weight`.
        graph_share: information of the graph about the given labels, as a share of that of the
            nodes' own features.
        probability: from 0, mistakes ignore the features, to 1, they follow them.
    """

    label_weight: float
    error: float
    graph_share: float
    probability: float

    @property
    def is_present(self) -> bool:
        """Whether mistakes rather follow the features than ignore them."""
        return self.probability >= 0.5

    @property
    def is_certain(self) -> bool:
        """Whether the signs agree: mistakes follow the features, or they do not."""
        return self.probability in (0.0, 1.0)


def find_feature_noise(
    given: Classes, witnesses: Witnesses, posterior: Floats
) -> FeatureNoise | None:
    """Return whether mistakes follow the features; None where that is unknown.

    Four signs have to come together. The given label adds little to the features (b is small). The
    graph predicts the given labels less well than the features do. A model of mistakes that depend
    on the class alone finds hardly any. And features and graph, as two separate predictions,
    contradict many more labels than that, unless the graph predicts much less. The graph must tell
    something about the labels. Near the limits the signs count in part, so that a small change of
    the labels does not change all decisions.

    It is unknown without features, with few labels, where features do not predict the labels, or
    where less than half of the nodes have a label: then the neighbours' labels predict little,
    whatever the noise is.

    Args:
        given: [n] classes.
        witnesses: of the same labels.
        posterior: [n, K] P(true class) if mistakes depend on the class alone.
    """
    if witnesses.features is None or len(given) < FEWEST_LABELS:
        return None
    if witnesses.coverage < LEAST_COVERAGE:
        return None
    shares = class_shares(given, witnesses.graph.shape[1])
    by_features = information(given, witnesses.features, shares)
    if by_features <= 0:
        return None
    found = weigh_label(given, witnesses.features, witnesses.graph)
    by_graph = information(given, witnesses.graph, shares)
    share = by_graph / by_features
    by_class = max(wrong_share(given, posterior), _SMALL)
    by_both = wrong_share(given, level_posterior(given, witnesses.near_graph, witnesses.around))
    probability = (
        _LABEL_WEIGHT(found.weight)
        * _LOG_BY_CLASS(np.log(by_class))
        * max(_SMALL_GRAPH_SHARE(share), _GRAPH_SHARE(share) * _NOT_BY_BOTH(by_class - by_both))
        * graph_is_informative(by_graph)
    )
    certain = np.clip((probability - 1 + _SURE) / (2 * _SURE - 1), 0.0, 1.0)
    return FeatureNoise(found.weight, found.error, float(share), float(certain))


def wrong_share(given: Classes, posterior: Floats) -> float:
    """Return the expected share of wrong labels."""
    return float(1 - posterior[np.arange(len(given)), given].mean())


def class_shares(given: Classes, num_classes: int) -> Floats:
    """Return the share of each class among the labels [K]; a class without labels has half one."""
    counts = np.maximum(np.bincount(given, minlength=num_classes), 0.5)
    shares: Floats = counts / counts.sum()
    return shares


def weigh_label(given: Classes, proba: Floats, graph: Floats) -> LabelWeight:
    """Return how much evidence a label adds to `proba`, by how well the two predict `graph`.

    Args:
        given: [n] classes.
        proba: [n, K] probabilities that do not use the label.
        graph: [n, K] probabilities by the neighbours' labels.
    """
    n, k = proba.shape
    logs = log_proba(proba)
    support = graph / class_shares(given, k)
    hot = np.eye(k)[given]

    def loss(x: Floats) -> tuple[float, Floats]:
        a, b = np.exp(x[0]), x[1]
        joint = softmax(a * logs + b * hot, axis=1)
        fit = (joint * support).sum(1)
        moved = joint * support / fit[:, None] - joint
        slope = np.array([a * (moved * logs).sum(), moved[np.arange(n), given].sum()])
        return -float(np.log(fit).mean()), -slope / n

    bounds = [(-_MOST_POWER, _MOST_POWER), (-_MOST_WEIGHT, _MOST_WEIGHT)]
    found = min(
        (
            minimize(loss, np.array([0.0, start]), jac=True, method="L-BFGS-B", bounds=bounds)
            for start in _STARTS
        ),
        key=lambda result: float(result.fun),
    )
    steps = np.eye(2) * _SMALL
    curvature = np.stack([loss(found.x + s)[1] - loss(found.x - s)[1] for s in steps]) / (
        2 * _SMALL
    )
    variance = np.linalg.pinv((curvature + curvature.T) / 2 * n)[1, 1]
    return LabelWeight(float(np.exp(found.x[0])), float(found.x[1]), float(max(variance, 0) ** 0.5))


def joint_posterior(given: Classes, proba: Floats, graph: Floats, weight: LabelWeight) -> Floats:
    """Return P(true class | features, label, graph) [n, K].

    Args:
        given: [n] classes.
        proba: [n, K] by features.
        graph: [n, K] by neighbours' labels.
        weight: of the label beside the prediction by features.
    """
    k = proba.shape[1]
    logits = weight.power * log_proba(proba) + weight.weight * np.eye(k)[given]
    logits = np.log(softmax(logits, axis=1) + 1e-12) + log_proba(graph)
    posterior: Floats = softmax(logits - np.log(class_shares(given, k)), axis=1)
    return posterior


def level_posterior(given: Classes, smoothed: Floats, around: Floats) -> Floats:
    """Return P(true class) [n, K] where mistakes follow the features.

    P(k) ∝ A_k/π_k² · (S_k/π_k)^½ · e^{½·[k is given]}: the labels around a node A count in full,
    smoothed features S and the label itself by half, since they repeat each other. A is made of
    parts whose weights sum to 2. All are divided by the class shares π: whoever labels by features
    has favourite classes, so the shares of the given labels are not those of the true classes. The
    share of a class with fewer than ten labels is taken to be that of ten: divided by its own, a
    misspelt class of two labels would be as probable as the class that is meant.

    The weights were chosen on one draw of annotator noise at 30 % on each of Cora, CiteSeer,
    PubMed, Computers, CS and Debian; weights fitted to the labels were 2 points of AUROC below.

    Args:
        given: [n] classes.
        smoothed: [n, K] by smoothed features.
        around: [n, K] by the labels around the node.
    """
    k = around.shape[1]
    shares = np.log(np.maximum(class_shares(given, k), _FEW_LABELS / len(given)))
    by_labels = np.log(np.maximum(around, np.finfo(np.float64).tiny)) - 2 * shares
    logits = by_labels + _HALF * (log_proba(smoothed) - shares)
    posterior: Floats = softmax(logits + _HALF * np.eye(k)[given], axis=1)
    return posterior


def graph_is_informative(by_graph: float) -> float:
    """Return from 0 to 1 whether the graph tells enough about the labels to contradict any.

    Args:
        by_graph: its :func:`information` about the given labels, in nats.
    """
    return 1 - _TELLS_LITTLE(by_graph)


def information(given: Classes, proba: Floats, shares: Floats) -> float:
    """Return the mean log-likelihood of the labels beyond that of the class shares, in nats."""
    own = np.maximum(proba[np.arange(len(given)), given], 1e-3)
    return float((np.log(own) - np.log(shares[given])).mean())
