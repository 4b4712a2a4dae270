"""Label noise that depends on the node: on its features, its neighbours or its difficulty.

Each function returns the given classes of some nodes from a :class:`Labelled` graph with true
classes. Class-conditional noise is in :mod:`erase.data.noise`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack
from scipy.special import softmax
from scipy.stats import truncnorm
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

Classes = NDArray[np.int64]
Floats = NDArray[np.float64]

_INSTANCE_SPREAD = 0.1
_SEEN_FEATURES = 0.3  # share of the feature columns that an annotator reads
_LABELS_PER_CLASS = 8  # true labels that an annotator or a model learns from, on average
_EVENNESS = 3.0  # of the Dirichlet distribution of an annotator's class shares
_CONFIDENCE_LABELS = 20  # per class
_STRENGTH = 30.0  # C of the regressions: rows have length 1
_LEAST_WEIGHT = 0.02  # of an error at a node whose neighbours all agree, and of an empty class


@dataclass(frozen=True, eq=False)
class Labelled:
    """A graph with true classes, and the nodes whose labels are to be written.

    Attributes:
        x: [N, F] features, dense or CSR.
        edge_index: [2, E].
        y: [N] true classes; -1 where unknown.
        nodes: [n] nodes to label; all of them have a true class.
        num_classes: K.
    """

    x: torch.Tensor
    edge_index: torch.Tensor
    y: Classes
    nodes: Classes
    num_classes: int

    @property
    def true(self) -> Classes:
        """The true classes of `nodes` [n]."""
        return self.y[self.nodes]


NodeNoise = Callable[[Labelled, float, np.random.Generator], Classes]


def instance(graph: Labelled, rate: float, rng: np.random.Generator) -> Classes:
    """Return classes whose errors depend on random directions in feature space.

    Node i is flipped with probability r_i ~ N(rate, 0.1²) truncated to [0, 1]; the wrong class is
    drawn from softmax(x_i · W_y) over the other classes, W_y [F, K] standard normal for each y.
    """
    true, x = graph.true, _rows(graph.x, graph.nodes)
    low, high = (0 - rate) / _INSTANCE_SPREAD, (1 - rate) / _INSTANCE_SPREAD
    rates = truncnorm.rvs(low, high, rate, _INSTANCE_SPREAD, size=len(true), random_state=rng)
    flipped = rng.random(len(true)) < rates
    uniform = rng.random(len(true))
    given = true.copy()
    for label in range(graph.num_classes):
        weight = torch.from_numpy(rng.standard_normal((x.shape[1], graph.num_classes), np.float32))
        members = np.flatnonzero(flipped & (true == label))
        if members.size == 0:
            continue
        logits = (_rows(x, members) @ weight).numpy().astype(np.float64)
        logits[:, label] = -np.inf
        given[members] = _drawn(softmax(logits, axis=1), uniform[members])
    return given


def annotator(graph: Labelled, rate: float, rng: np.random.Generator) -> Classes:
    """Return the classes that a weak annotator writes down, as a language model or a rule would.

    The annotator is a logistic regression on a random 30 % of the features. It learns from few true
    labels with uneven class shares, so that it has favourite classes. Its errors are consistent:
    similar nodes get the same wrong class. It corrects itself where another class is only slightly
    more probable than the true one, so that exactly a share `rate` of the labels is wrong: those
    with the largest log-odds of the best other class against the true class.
    """
    nodes, true, k = graph.nodes, graph.true, graph.num_classes
    width = graph.x.shape[1]
    seen = np.sort(rng.permutation(width)[: max(1, round(_SEEN_FEATURES * width))])
    features = _unit_rows(_scipy(graph.x)[nodes][:, seen])
    shares = rng.dirichlet(np.full(k, _EVENNESS))
    wanted = 1 + rng.multinomial(_LABELS_PER_CLASS * k, shares)
    learnt = _some_of_each_class(true, wanted, rng)
    proba = _predict(features, true, learnt, k)
    odds, other = _best_other(proba, true)
    wrong = np.argsort(-odds, kind="stable")[: round(rate * len(nodes))]
    given = true.copy()
    given[wrong] = other[wrong]
    return given


def topology(graph: Labelled, rate: float, rng: np.random.Generator) -> Classes:
    """Return classes that are wrong where neighbours belong to other classes.

    The probability of an error is proportional to the share of neighbours of another class (plus
    0.02), and the wrong class is drawn in proportion to the neighbours of each class (plus 0.02).
    """
    neighbours = _neighbour_classes(graph)[graph.nodes]
    rows = np.arange(len(graph.nodes))
    known = neighbours.sum(1)
    others = neighbours + _LEAST_WEIGHT
    others[rows, graph.true] = 0.0
    agreeing = neighbours[rows, graph.true]
    weight = _LEAST_WEIGHT + (known - agreeing) / np.maximum(known, 1)
    return _flipped(graph.true, weight, others, rate, rng)


def confidence(graph: Labelled, rate: float, rng: np.random.Generator) -> Classes:
    """Return classes that are wrong where a trained model is unsure.

    The model is a logistic regression on a node's features and its neighbours' mean features, which
    learns from 20 true labels per class. The probability of an error is proportional to 1 − P(true
    class), and the wrong class is drawn from the model's probabilities of the other classes.
    """
    nodes, true, k = graph.nodes, graph.true, graph.num_classes
    x = _scipy(graph.x)
    around = _mean_operator(graph) @ x
    features = csr_array(hstack([_unit_rows(x[nodes]), _unit_rows(around[nodes])]))
    learnt = _some_of_each_class(true, np.full(k, _CONFIDENCE_LABELS), rng)
    proba = _predict(features, true, learnt, k)
    others = proba + 1e-9
    others[np.arange(len(nodes)), true] = 0.0
    weight = 1 - proba[np.arange(len(nodes)), true]
    return _flipped(true, weight, others, rate, rng)


def _flipped(
    true: Classes, weight: Floats, others: Floats, rate: float, rng: np.random.Generator
) -> Classes:
    """Return classes with errors in proportion to `weight` [n], drawn in proportion to `others`."""
    probability = _scaled(weight, rate)
    wrong = rng.random(len(true)) < probability
    drawn = _drawn(others, rng.random(len(true)))
    return np.where(wrong, drawn, true)


def _scaled(weight: Floats, rate: float) -> Floats:
    """Return min(1, c · weight) with the c that makes the mean `rate`.

    >>> _scaled(np.array([1.0, 1.0, 4.0]), 0.5).tolist()
    [0.25, 0.25, 1.0]
    """
    low, high = 0.0, 1 / max(float(weight.min()), 1e-12)
    for _ in range(100):
        middle = (low + high) / 2
        mean = np.minimum(1.0, middle * weight).mean()
        low, high = (middle, high) if mean < rate else (low, middle)
    scaled: Floats = np.minimum(1.0, high * weight)
    return scaled


def _drawn(weights: Floats, uniform: Floats) -> Classes:
    """Return the column whose cumulated share of its row exceeds each number in `uniform` [n]."""
    cdf = weights.cumsum(1)
    columns: Classes = (cdf > uniform[:, None] * cdf[:, -1:]).argmax(1)
    return columns


def _best_other(proba: Floats, true: Classes) -> tuple[Floats, Classes]:
    """Return log P(best other class) − log P(true class) [n], and that other class [n]."""
    rows = np.arange(len(true))
    logs = np.log(np.maximum(proba, 1e-12))
    own = logs[rows, true]
    logs[rows, true] = -np.inf
    other = logs.argmax(1)
    return logs[rows, other] - own, other


def _some_of_each_class(true: Classes, wanted: Classes, rng: np.random.Generator) -> Classes:
    """Return positions of up to ``wanted[k]`` labels of each class k, drawn at random."""
    order = rng.permutation(len(true))
    parts = [order[true[order] == k][:count] for k, count in enumerate(wanted)]
    return np.sort(np.concatenate(parts))


def _predict(x: csr_array, true: Classes, learnt: Classes, k: int) -> Floats:
    """Return probabilities [n, K] by a regression on the labels `learnt`; 0 for other classes.

    An L2-regularised regression stays in the space of the rows it learns from. It is fitted to
    coordinates in that space, a column per label instead of one per feature: the same optimum.
    """
    classes = np.unique(true[learnt])
    proba = np.zeros((x.shape[0], k))
    if len(classes) < 2:
        proba[:, classes] = 1.0
        return proba
    products: Floats = x @ x[learnt].toarray().T
    variances, axes = np.linalg.eigh(products[learnt])
    kept = variances > 1e-9 * variances[-1]
    coordinates = products @ (axes[:, kept] / np.sqrt(variances[kept]))
    model = LogisticRegression(C=_STRENGTH, max_iter=2_000, tol=1e-7).fit(
        coordinates[learnt], true[learnt]
    )
    proba[:, classes] = model.predict_proba(coordinates)
    return proba


def _neighbour_classes(graph: Labelled) -> Floats:
    """Return how many neighbours of each known class every node has [N, K]."""
    known = np.flatnonzero(graph.y >= 0)
    shape = (len(graph.y), graph.num_classes)
    one_hot = csr_array((np.ones(len(known)), (known, graph.y[known])), shape=shape)
    counts: Floats = (_adjacency(graph) @ one_hot).toarray()
    return counts


def _adjacency(graph: Labelled) -> csr_array:
    """Return the symmetric 0/1 adjacency matrix [N, N] without self-loops."""
    source, target = graph.edge_index.numpy()
    kept = source != target
    n = len(graph.y)
    matrix = csr_array((np.ones(kept.sum()), (source[kept], target[kept])), shape=(n, n))
    matrix = csr_array(matrix + matrix.T)
    matrix.data[:] = 1.0
    return matrix


def _mean_operator(graph: Labelled) -> csr_array:
    """Return the matrix that takes the mean over neighbours; zero rows for isolated nodes."""
    return csr_array(normalize(_adjacency(graph), norm="l1"))


def _unit_rows(x: csr_array) -> csr_array:
    """Return the matrix with rows of length 1; zero rows stay zero."""
    return csr_array(normalize(x))


def _scipy(x: torch.Tensor) -> csr_array:
    """Return a dense or CSR tensor as a CSR matrix of scipy."""
    if x.layout != torch.sparse_csr:
        return csr_array(x.numpy().astype(np.float64))
    parts = (x.values().double().numpy(), x.col_indices().numpy(), x.crow_indices().numpy())
    return csr_array(parts, shape=tuple(x.shape))


def _rows(x: torch.Tensor, index: Classes) -> torch.Tensor:
    """Return rows of a dense or CSR matrix."""
    if x.layout != torch.sparse_csr:
        return x[torch.from_numpy(index)]
    selector = torch.sparse_csr_tensor(
        torch.arange(len(index) + 1),
        torch.from_numpy(index),
        torch.ones(len(index)),
        (len(index), x.shape[0]),
        check_invariants=False,
    )
    return selector @ x
