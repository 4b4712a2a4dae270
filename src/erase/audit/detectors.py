"""DETECTORS: published ways to find wrong labels, to compare the audit with.

Each is a pure function of out-of-fold predictions, so all of them can use the same models. None
is given which labels are wrong, or how many.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit, softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from sklearn.neural_network import MLPClassifier
from torch import Tensor

from erase.audit.out_of_fold import OutOfFold
from erase.data.noise import flip
from erase.errors import EraseError
from erase.nn.sparse import Graph
from erase.random import numpy_stream

Floats = NDArray[np.float64]
Classes = NDArray[np.int64]

_HOPS = 3
_HIDDEN = (32,)
_ROUNDING = 1e-6  # of a probability that equals its threshold
_SMALLEST_PROBABILITY = 1e-4  # replaces zero: no loss is so large that all others look alike
_MOST_EM_STEPS = 500
_SMALL_EM_STEP = 1e-9  # of the mean log-likelihood
_SMALLEST_VARIANCE = 1e-4  # of losses scaled to [0, 1]: no component shrinks to a point
_EPOCHS, _RATE, _MOMENTUM, _DECAY = 150, 0.1, 0.9, 1e-4  # of gradient descent


@dataclass(frozen=True, eq=False)
class Detection:
    """A detector's result for the n labelled nodes, in node order.

    Attributes:
        quality: [n] in [0, 1]; 1: surely right, 0: surely wrong.
        is_issue: [n] whether the detector itself calls the label wrong.
    """

    quality: Floats
    is_issue: NDArray[np.bool_]


def confidence(out_of_fold: OutOfFold, edge_index: Tensor, seed: int) -> Detection:
    """Confidence: label quality is the predicted probability of the given label, p_y.

    A label is an issue where another class is more probable.
    """
    given, proba = _labelled(out_of_fold)
    own = _own(given, proba)
    return Detection(own, own < proba.max(1))


def confident_learning(out_of_fold: OutOfFold, edge_index: Tensor, seed: int) -> Detection:
    """Prune by noise rate (Northcutt, Jiang and Chuang 2021, section 3.2, method 4).

    Quality is the normalised margin (1 + p_y − max_{j≠y} p_j) / 2. For each pair of a given class
    i and another class j, the n·Q[i, j] labels i with the largest p_j − p_i are issues, unless the
    model agrees with them, where Q is :func:`estimate_joint`.
    """
    given, proba = _labelled(out_of_fold)
    own = _own(given, proba)
    is_given = given[:, None] == np.arange(proba.shape[1])
    other = np.where(is_given, -np.inf, proba).max(1)
    counts = np.rint(len(given) * estimate_joint(given, proba)).astype(np.int64)
    np.fill_diagonal(counts, 0)
    pruned = np.zeros(len(given), dtype=np.bool_)
    for i, j in np.argwhere(counts):
        members = np.flatnonzero(given == i)
        margin = proba[members, j] - proba[members, i]
        pruned[members[np.argsort(-margin, kind="stable")[: counts[i, j]]]] = True
    return Detection((1 + own - other) / 2, pruned & (own < other))


def estimate_joint(given: Classes, proba: Floats) -> Floats:
    """Return the joint distribution Q [K, K] of given and true class, ``[given, true]``.

    A node is confidently of the most probable class among those with p_j ≥ t_j, where t_j is the
    mean p_j of the nodes labelled j. The confident joint counts such nodes by given class i and
    confident class j; its rows are scaled to the share of labels that are i.
    """
    num_classes = proba.shape[1]
    classes = np.arange(num_classes)
    is_given = given[:, None] == classes  # [n, K]
    labels = is_given.sum(0)
    mean = (proba * is_given).sum(0) / np.maximum(labels, 1)
    threshold = np.where(labels > 0, mean, np.inf)
    confident = np.where(proba >= threshold - _ROUNDING, proba, -np.inf)
    counted = confident.max(1) > -np.inf
    joint = np.zeros((num_classes, num_classes))
    np.add.at(joint, (given[counted], confident[counted].argmax(1)), 1.0)
    joint[classes, classes] = joint.diagonal().clip(min=1.0)  # some labels of a class are right
    joint *= (labels / len(given) / joint.sum(1))[:, None]
    return joint


def graphcleaner(out_of_fold: OutOfFold, edge_index: Tensor, seed: int) -> Detection:
    """Learn from labels flipped on purpose (GraphCleaner; Li, Xiong and Hooi 2023).

    A small network separates given labels from labels flipped by the estimated transition matrix,
    using the seven features of :func:`neighbourhood_agreement`. The nodes of a fold are scored by a
    network trained on the other folds; quality is its probability of "not flipped", and an
    issue has less than ½.

    Note: the original trains on validation nodes and scores test nodes; here every fold is scored
    by a network trained on the others.
    """
    given, proba = _labelled(out_of_fold)
    fold = out_of_fold.fold[out_of_fold.given >= 0]
    folds = np.unique(fold)
    if len(folds) < 2:
        raise EraseError("predictions of two folds or more", "one", "Use folds ≥ 2.")
    rng = numpy_stream(seed, "flips")
    joint = estimate_joint(given, proba)
    agreement = neighbourhood_agreement(out_of_fold, edge_index)  # [n, K, 7]
    nodes = np.arange(len(given))
    kept = agreement[nodes, given]
    flipped = agreement[nodes, _flip(given, joint, rng)]
    quality = np.empty(len(given))
    for this in folds:
        rest = fold != this
        examples = np.concatenate([kept[rest], flipped[rest]])
        network = MLPClassifier(_HIDDEN, alpha=5e-4, random_state=int(rng.integers(2**32)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            network.fit(examples, np.repeat([1, 0], rest.sum()))
        quality[~rest] = network.predict_proba(kept[~rest])[:, 1]
    return Detection(quality, quality < 0.5)


def neighbourhood_agreement(out_of_fold: OutOfFold, edge_index: Tensor) -> Floats:
    """Return how each class agrees with a labelled node and its neighbourhood [n, K, 7].

    The features of node i and class c are P[i, c], (AʰP)[i, c] and (AʰY)[i, c] for h = 1, 2, 3.
    A = D⁻¹A₀ has the neighbours of a node in its row, without the node itself; P are probabilities
    and Y given labels, one-hot, 0 where none is given. The label in question takes no part: P
    are the predictions of the model trained without it, and Y lacks the labels of its fold.

    Cost: 6 sparse products for each fold.
    """
    given, fold = out_of_fold.given, out_of_fold.fold
    graph = Graph(edge_index, len(given))
    is_class = given[:, None] == np.arange(out_of_fold.proba.shape[1])  # [N, K]
    features = np.empty((2 * _HOPS + 1, *is_class.shape))
    features[0] = out_of_fold.proba
    for this in np.unique(fold[given >= 0]):
        inside = fold == this
        proba, labels = out_of_fold.by_fold[this].astype(np.float64), is_class & ~inside[:, None]
        features[1 : _HOPS + 1, inside] = _walk(graph, proba)[:, inside]
        features[_HOPS + 1 :, inside] = _walk(graph, labels.astype(np.float64))[:, inside]
    return np.moveaxis(features[:, given >= 0], 0, 2)


def _walk(graph: Graph, values: Floats) -> Floats:
    """Return AʰV for h = 1, 2, 3 [3, N, C]; A is row-normalised, `values` V are [N, C]."""
    pattern, weights = graph.normalised("row")
    steps = [torch.from_numpy(values)]
    for _ in range(_HOPS):
        steps.append(pattern.matmul(weights.double(), steps[-1]))
    stepped: Floats = torch.stack(steps[1:]).numpy()
    return stepped


def _flip(given: Classes, joint: Floats, rng: np.random.Generator) -> Classes:
    """Return another class for each of the labels [n], drawn by how often they are confused.

    Label i becomes j with a probability in proportion to P(given j, true i) = ``joint[j, i]``; a
    class that is confused with none becomes any other.
    """
    wrong = joint.T.copy()
    np.fill_diagonal(wrong, 0.0)
    never = wrong.sum(1) == 0
    wrong[never] = 1.0 - np.eye(len(joint))[never]
    return flip(given, wrong / wrong.sum(1, keepdims=True), rng.random(len(given)))


def area_under_margin(out_of_fold: OutOfFold, edge_index: Tensor, seed: int) -> Detection:
    """Average the margin of the label while a model learns (AUM; Pleiss et al. 2020).

    The margin is z_y − max_{j≠y} z_j of the logits z, and its mean over the epochs the AUM. Before
    training, one in K + 1 labels, drawn at random, is replaced by a class that no node belongs to.
    The 99 % quantile of the AUM of these is the threshold, and a label that is not above it is an
    issue. A second run with other replaced labels scores the first ones. Quality is
    σ(AUM − threshold).

    Note: the original trains its image network. Here the model is a regression on the logarithms of
    :func:`neighbourhood_agreement` with the same seven weights for all classes, and a constant for
    the class of the replaced labels: that with weights for each class learns which classes are
    confused, and is worse.
    """
    given = out_of_fold.given[out_of_fold.given >= 0]
    classes, given = np.unique(given, return_inverse=True)
    agreement = neighbourhood_agreement(out_of_fold, edge_index)[:, classes]  # [n, K, 7]
    evidence = np.log(agreement.clip(min=_SMALLEST_PROBABILITY))
    evidence -= evidence.mean(1, keepdims=True)
    evidence /= np.sqrt(np.square(evidence).mean((0, 1))).clip(min=_ROUNDING)
    order = numpy_stream(seed, "replaced labels").permutation(len(given))
    count = max(1, len(given) // (len(classes) + 1))
    above, runs = np.zeros(len(given)), np.zeros(len(given))
    for run in range(2):
        replaced = np.zeros(len(given), dtype=np.bool_)
        replaced[order[run * count : (run + 1) * count]] = True
        area = areas_under_margin(evidence, np.where(replaced, len(classes), given))
        above[~replaced] += (area - np.quantile(area[replaced], 0.99))[~replaced]
        runs[~replaced] += 1
    quality = expit(above / runs)
    return Detection(quality, quality <= 0.5)


def areas_under_margin(evidence: Floats, y: Classes) -> Floats:
    """Return the mean of z_y − max_{j≠y} z_j [n] over the epochs of a conditional regression.

    Its logits are z_ic = w·evidence[i, c] for c < K and z_iK = b. It starts at w = 0 and b = 0 and
    takes 150 steps of gradient descent with rate 0.1, momentum 0.9 and weight decay 10⁻⁴.

    Args:
        evidence: [n, K, d].
        y: [n] classes from 0 to K, K being the one without evidence.
    """
    n, num_classes, width = evidence.shape
    x = np.zeros((n, num_classes + 1, width + 1))
    x[:, :-1, :-1], x[:, -1, -1] = evidence, 1.0
    is_own = y[:, None] == np.arange(num_classes + 1)
    weights, velocity, total = np.zeros(width + 1), np.zeros(width + 1), np.zeros(n)
    for _ in range(_EPOCHS):
        surplus = softmax(x @ weights, 1) - is_own
        gradient = np.tensordot(surplus, x, 2) / n + _DECAY * weights
        velocity = _MOMENTUM * velocity + gradient
        weights = weights - _RATE * velocity
        logits = x @ weights
        total += logits[is_own] - np.where(is_own, -np.inf, logits).max(1)
    return total / _EPOCHS


def loss_mixture(out_of_fold: OutOfFold, edge_index: Tensor, seed: int) -> Detection:
    """Split the losses in two (Arazo et al. 2019; Gaussian as in Li, Socher and Hoi 2020).

    The losses −log p_y are scaled to [0, 1] and a mixture of two normal distributions is fitted to
    them by expectation maximisation. Quality is the posterior of the component with the lower mean,
    and an issue has less than ½. Where all losses are equal, nothing is an issue.
    """
    given, proba = _labelled(out_of_fold)
    loss = -np.log(_own(given, proba).clip(min=_SMALLEST_PROBABILITY))
    spread = np.ptp(loss)
    if spread < _ROUNDING:
        return Detection(np.ones(len(loss)), np.zeros(len(loss), dtype=np.bool_))
    quality = _low_component((loss - loss.min()) / spread)
    return Detection(quality, quality < 0.5)


def _low_component(values: Floats) -> Floats:
    """Return P(lower component | value) [n] of a mixture of two normal distributions.

    EM starts with the values above the middle of [0, 1] in the upper component; neither half may be
    empty.
    """
    halves = [values[values <= 0.5], values[values > 0.5]]
    mixture = GaussianMixture(
        n_components=2,
        weights_init=[len(half) / len(values) for half in halves],
        means_init=[[half.mean()] for half in halves],
        precisions_init=[[[1 / (half.var() + _SMALLEST_VARIANCE)]] for half in halves],
        reg_covar=_SMALLEST_VARIANCE,
        tol=_SMALL_EM_STEP,
        max_iter=_MOST_EM_STEPS,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        mixture.fit(values[:, None])
    lower = mixture.means_[:, 0].argmin()
    posterior: Floats = mixture.predict_proba(values[:, None])[:, lower]
    return posterior


def _labelled(out_of_fold: OutOfFold) -> tuple[Classes, Floats]:
    """Return the given classes [n] and probabilities [n, K] of the labelled nodes."""
    labelled = out_of_fold.given >= 0
    return out_of_fold.given[labelled], out_of_fold.proba[labelled].astype(np.float64)


def _own(given: Classes, proba: Floats) -> Floats:
    """Return the probability of each given class [n]."""
    own: Floats = np.take_along_axis(proba, given[:, None], 1)[:, 0]
    return own


Detector = Callable[[OutOfFold, Tensor, int], Detection]

DETECTORS: dict[str, Detector] = {
    "confidence": confidence,
    "confident-learning": confident_learning,
    "graphcleaner": graphcleaner,
    "loss-mixture": loss_mixture,
    "area-under-margin": area_under_margin,
}
