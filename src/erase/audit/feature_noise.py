"""Label noise that follows the features: what an annotator, a rule or a language model does.

Whoever labels nodes by their features makes mistakes that the features predict. A model that reads
the same features takes them for signal: it predicts the given labels well, wrong ones included.
The labels of the neighbours were given to other nodes, so they make other mistakes. Here they are a
second opinion G, and the question is how far G supports what features and label say together:

    q(k) ∝ P(k | features)^a · e^{b·[k is given]},     p(G | features, label) ∝ Σ_k q(k) G(k) / π_k,

with π the shares of the given labels. The weights a and b that make G most likely tell what a given
label is worth: b is the evidence, in nats, that it adds to the features. Where labels go wrong
whatever the features are, b is large. Where the label repeats what the features say, b is small,
though features predict the labels better than the graph does.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import softmax

from erase.audit.witnesses import Witnesses
from erase.methods.relabelling.noise_model import log_proba

Floats = NDArray[np.float64]
Classes = NDArray[np.int64]

# Measured on Cora, CiteSeer, PubMed, Computers, CS and BlogCatalog with all nodes labelled, draws
# 100 to 102, and on Debian, draws 200 to 203. Annotator noise at 30 %: weight 0.4 to 2.8, share 0.4
# to 0.89. Clean labels and symmetric noise: weight 2.8 or more, share 0.94 or more; on BlogCatalog,
# whose edges say less than its features, weight 3.7 or more and share 0.7. Asymmetric noise: weight
# 1.2 or more, share 0.92 or more, but 0.85 in a draw on PubMed and 0.6 on BlogCatalog.
LEAST_LABEL_WEIGHT = 3.0
LEAST_GRAPH_SHARE = 0.9
FEWEST_LABELS = 100
LEAST_COVERAGE = 0.5  # share of the nodes that have a label
_MOST_POWER = 5.0  # log a
_MOST_WEIGHT = 12.0  # b
_STARTS = (0.0, 4.0)  # of b
_HALF = 0.5  # weight of smoothed features, and of the label
_FEW_LABELS = 10  # of a class: fewer do not tell its share
_SMALL = 1e-3  # step of a numerical derivative


@dataclass(frozen=True)
class LabelWeight:
    """What a given label is worth beside an opinion that does not know it.

    Attributes:
        power: a, of the opinion.
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
    """

    label_weight: float
    error: float
    graph_share: float

    @property
    def is_present(self) -> bool:
        """Whether the given labels repeat the features more than they fit the graph."""
        return self.label_weight < LEAST_LABEL_WEIGHT and self.graph_share < LEAST_GRAPH_SHARE


def find_feature_noise(given: Classes, witnesses: Witnesses) -> FeatureNoise | None:
    """Return whether mistakes follow the features; None where that cannot be told.

    It cannot be told without features, with few labels, where features say nothing about the
    labels, or where less than half of the nodes have a label: then the neighbours' labels say
    little, whatever the noise is.

    Args:
        given: [n] classes.
        witnesses: of the same labels.
    """
    if witnesses.features is None or len(given) < FEWEST_LABELS:
        return None
    if witnesses.coverage < LEAST_COVERAGE:
        return None
    shares = class_shares(given, witnesses.graph.shape[1])
    by_features = _information(given, witnesses.features, shares)
    if by_features <= 0:
        return None
    found = weigh_label(given, witnesses.features, witnesses.graph)
    ratio = _information(given, witnesses.graph, shares) / by_features
    return FeatureNoise(found.weight, found.error, float(ratio))


def class_shares(given: Classes, num_classes: int) -> Floats:
    """Return the share of each class among the labels [K]; a class without labels has half one."""
    counts = np.maximum(np.bincount(given, minlength=num_classes), 0.5)
    shares: Floats = counts / counts.sum()
    return shares


def weigh_label(given: Classes, opinion: Floats, graph: Floats) -> LabelWeight:
    """Return what a label is worth beside `opinion`, by how well both predict `graph`.

    Args:
        given: [n] classes.
        opinion: [n, K] probabilities that do not know the label.
        graph: [n, K] probabilities by the neighbours' labels.
    """
    n, k = opinion.shape
    logs = log_proba(opinion)
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


def joint_posterior(given: Classes, opinion: Floats, graph: Floats, weight: LabelWeight) -> Floats:
    """Return P(true class | features, label, graph) [n, K].

    Args:
        given: [n] classes.
        opinion: [n, K] by features.
        graph: [n, K] by neighbours' labels.
        weight: of the label beside the opinion.
    """
    k = opinion.shape[1]
    logits = weight.power * log_proba(opinion) + weight.weight * np.eye(k)[given]
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


def _information(given: Classes, proba: Floats, shares: Floats) -> float:
    """Return the mean log-likelihood of the labels beyond that of the class shares, in nats."""
    own = np.maximum(proba[np.arange(len(given)), given], 1e-3)
    return float((np.log(own) - np.log(shares[given])).mean())
