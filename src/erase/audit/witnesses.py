"""Out-of-fold class probabilities from separate sources, which err for different reasons.

The models of an audit read features and edges together. Here each source predicts alone: a node's
own features; features averaged over its neighbourhood; the labels of its neighbours with its place
in the graph. A node's own label is not used for its predictions, except that it counts in the
shares of all labels.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import softmax
from torch import Tensor
from torch.nn.functional import one_hot

from erase.audit.places import own_places
from erase.data.features import spectral_features
from erase.data.task import NodeTask
from erase.methods.relabelling.ensemble import linear_proba, smoothed_features
from erase.methods.relabelling.noise_model import log_proba
from erase.nn.regressions import Regressions
from erase.nn.sparse import propagate
from erase.random import numpy_stream
from erase.training.graphs import whole_graph
from erase.training.processes import add_up, count, own_stretch

Floats = NDArray[np.float64]
Classes = NDArray[np.int64]

VIEWS = ("features", "near", "far")
_STRENGTH, _SPECTRAL_STRENGTH = 3.0, 10.0  # C of the regressions
_WIDTH = 256  # of the features, where there are more
_SPECTRAL_WIDTH, _SPECTRAL_WIDTH_OF_MANY, _MANY_NODES = 128, 32, 200_000
_SECOND_HOP = 0.3  # weight of the labels at two steps
_PRIOR_LABELS = 1.0  # added to a node's neighbours, in the shares of all labels
_KEEP, _STEPS = 0.1, 10  # of label propagation
# What the graph says without features, with fixed weights.
GRAPH_PARTS: Mapping[str, float] = {"neighbours": 0.5, "propagation": 1.0, "place": 0.5}
_AROUND = 2.0  # sum of these weights
_RIDGE, _STRONG_RIDGE = 1.0, 200.0  # pull of the weights of a pool to their start, in labels
_POOLED = 5_000  # labels that suffice to weight a pool


@dataclass(frozen=True, eq=False)
class Witnesses:
    """Class probabilities of the n labelled nodes [n, K], each without the node's own label.

    Attributes:
        features: by the node's own features; None where the graph has none.
        smoothed: by features averaged over its neighbourhood; None where the graph has none.
        graph: by the labels of its neighbourhood and its place in the graph; no features. Its parts
            are weighted to predict the given labels best.
        around: the same parts with fixed weights: wrong labels do not influence them.
        coverage: share of the graph's nodes that have a label.
    """

    features: Floats | None
    smoothed: Floats | None
    graph: Floats
    around: Floats
    coverage: float = 1.0

    @property
    def near_graph(self) -> Floats:
        """Smoothed features [n, K], or the graph where there are no features."""
        return self.graph if self.smoothed is None else self.smoothed

    def rows(self, chosen: NDArray[np.bool_]) -> "Witnesses":
        """Return the chosen ones of the n nodes."""
        features, smoothed = (
            None if part is None else part[chosen] for part in (self.features, self.smoothed)
        )
        return Witnesses(features, smoothed, self.graph[chosen], self.around[chosen], self.coverage)


def gather(
    task: NodeTask,
    fold: Classes,
    seed: int,
    device: torch.device,
    views: Mapping[str, NDArray[np.float32]] | None = None,
    parts: Collection[str] = tuple(GRAPH_PARTS),
) -> Witnesses:
    """Return class probabilities by features and by the graph for each labelled node of a task.

    Several processes divide the rows of features and the columns of labels.
    Cost: four regressions a fold and a truncated SVD of the adjacency; linear in nodes and edges.

    Args:
        task: the graph and its labels.
        fold: [N] of each labelled node, -1 elsewhere; no label of a fold is used for its nodes.
        seed: of the sample that weights the parts.
        device: where to compute.
        views: [n, K] by name of `VIEWS`, what models have found already; the others are fitted.
        parts: names in `GRAPH_PARTS`: what the prediction by the graph is made of.
    """
    nodes = np.flatnonzero(fold >= 0)
    given, own = task.learning_labels.numpy()[nodes], fold[nodes]
    found = {name: view.astype(np.float64) for name, view in (views or {}).items()}
    edges_only = task.feature_contract.source == "edges"
    if not edges_only and (missing := [name for name in VIEWS if name not in found]):
        _, features = smoothed_features(task, "all", _WIDTH, device)
        for name in missing:
            found[name] = _by_rows(features[name], task, nodes, given, own, _STRENGTH)
    predictions: dict[str, Callable[[], Floats]] = {
        "neighbours": lambda: neighbour_labels(task, nodes, given),
        "propagation": lambda: _propagated(task, nodes, given, own, device),
        "place": lambda: _by_place(task, nodes, given, own, device),
    }
    graph = [predictions[name]() for name in GRAPH_PARTS if name in parts]
    by_graph = pool(graph, given, seed)
    weights = np.array([weight for name, weight in GRAPH_PARTS.items() if name in parts])
    logs = np.stack([log_proba(part) for part in graph])
    around = softmax(np.tensordot(weights * (_AROUND / weights.sum()), logs, 1), axis=1)
    coverage = len(nodes) / task.num_nodes
    if edges_only:
        return Witnesses(None, None, by_graph, around, coverage)
    smoothed = pool([found["near"], found["far"]], given, seed)
    return Witnesses(found["features"], smoothed, by_graph, around, coverage)


def neighbour_labels(task: NodeTask, nodes: Classes, given: Classes) -> Floats:
    """Return the shares of the classes among the labels around each node [n, K].

    Labels at one step count 1, those at two steps 0.3 divided by the degree between, and one label
    is added with the shares of all labels. Paths that lead back to the node do not count.

    Args:
        task: the graph.
        nodes: [n] labelled nodes.
        given: [n] their classes.
    """
    labels = np.zeros((task.num_nodes, task.num_classes))
    labels[nodes, given] = 1.0
    weight = np.ones(task.edge_index.shape[1])
    if task.edge_weight is not None:
        weight = task.edge_weight.numpy().astype(np.float64)
        weight = weight / max(weight.mean(), np.finfo(np.float32).tiny)
    parts = (weight, task.edge_index[1].numpy(), task.indptr.numpy())  # they are sorted
    adjacency = sp.csr_array(parts, shape=(task.num_nodes, task.num_nodes))
    inverse = 1 / np.maximum(adjacency.sum(1), 1.0)
    first = adjacency @ labels
    second = adjacency @ (first * inverse[:, None])
    back = adjacency.power(2) @ inverse if task.edge_weight is not None else adjacency @ inverse
    second[nodes, given] -= back[nodes]
    counts = (first + _SECOND_HOP * np.maximum(second, 0.0, out=second))[nodes]
    counts += _PRIOR_LABELS * np.bincount(given, minlength=task.num_classes) / len(given)
    counts /= counts.sum(1, keepdims=True)
    shares: Floats = counts
    return shares


def _propagated(
    task: NodeTask, nodes: Classes, given: Classes, fold: Classes, device: torch.device
) -> Floats:
    """Return label propagation [n, K] without the labels of the node's fold.

    Of several processes each propagates some of the columns, one for each fold and class.
    """
    k, folds = task.num_classes, int(fold.max()) + 1
    seen = torch.from_numpy(fold[:, None] != np.arange(folds))
    hot = one_hot(torch.from_numpy(given), k).float()
    mine = own_stretch(folds * k)
    start = torch.zeros(task.num_nodes, mine.stop - mine.start)
    start[torch.from_numpy(nodes)] = (hot[:, None] * seen[..., None]).flatten(1)[:, mine]
    operator = whole_graph(task, device).normalised("symmetric")
    spread = propagate(
        *operator, start.to(device), keep=_KEEP, steps=_STEPS, restart=True, bounded=False
    )
    scores = np.zeros((len(nodes), k))
    for part in range(mine.start // k, -(-mine.stop // k)):  # folds that have columns here
        first, last = max(part * k, mine.start), min((part + 1) * k, mine.stop)
        inside = np.flatnonzero(fold == part)
        own = spread[torch.from_numpy(nodes[inside]), first - mine.start : last - mine.start]
        scores[inside, first - part * k : last - part * k] = own.cpu().double().numpy()
    add_up(torch.from_numpy(scores))
    shares = np.bincount(given, minlength=k) / len(given)
    scores = scores + 1e-3 * shares
    proba: Floats = scores / scores.sum(1, keepdims=True)
    return proba


def _by_place(
    task: NodeTask, nodes: Classes, given: Classes, fold: Classes, device: torch.device
) -> Floats:
    """Return a regression [n, K] on the spectral embedding of the adjacency."""
    n = task.num_nodes
    width = _SPECTRAL_WIDTH_OF_MANY if n > _MANY_NODES else _SPECTRAL_WIDTH
    if task.feature_contract.source == "edges":
        own = task.x[own_stretch(n)]
    elif count() == 1:
        own = spectral_features(task.edge_index, n, width)
    else:
        own = own_places(task.edge_index, n, width)
    return _by_rows(own.to(device), task, nodes, given, fold, _SPECTRAL_STRENGTH)


def _by_rows(
    own: Tensor, task: NodeTask, nodes: Classes, given: Classes, fold: Classes, strength: float
) -> Floats:
    """Return :func:`held_out` of the labelled nodes [n, K] by features of the nodes.

    Args:
        own: [m, D] features; of several processes, of the nodes of this one.
        task: the graph.
        nodes: [n] labelled nodes, ascending.
        given: [n] their classes.
        fold: [n] their folds.
        strength: C.
    """
    mine = own_stretch(task.num_nodes)
    some = slice(*np.searchsorted(nodes, [mine.start, mine.stop]))
    rows = own[torch.from_numpy(nodes[some] - mine.start).to(own.device)]
    proba = np.zeros((len(nodes), task.num_classes))
    folds = int(fold.max()) + 1
    proba[some] = held_out(rows, given[some], fold[some], task.num_classes, strength, folds)
    add_up(torch.from_numpy(proba))
    return proba


def held_out(
    rows: Tensor, given: Classes, fold: Classes, k: int, strength: float, folds: int | None = None
) -> Floats:
    """Return the probabilities of each row [n, K] by a regression without its fold.

    Args:
        rows: [n, D] features; of several processes, of some labels each.
        given: [n] classes.
        fold: [n].
        k: number of classes.
        strength: C.
        folds: how many; None: as many as `fold` has.
    """
    folds = int(fold.max()) + 1 if folds is None else folds
    seen = torch.from_numpy(fold != np.arange(folds)[:, None]).to(rows)
    targets = one_hot(torch.from_numpy(given), k).to(rows).expand(folds, -1, -1)
    weights, intercepts = Regressions(rows, add_up).solve(targets, seen, strength)
    proba = np.empty((len(given), k))
    for model in range(folds):
        inside = np.flatnonzero(fold == model)
        proba[inside] = linear_proba(rows[inside], weights[model], intercepts[model])
    return proba


def pool(
    probas: Sequence[Floats], given: Classes, seed: int, *, keep_confidence: bool = False
) -> Floats:
    """Return one prediction made from several [n, K]: softmax_k(Σ_v w_v log P_v[k] + c_k).

    The weights w_v ≥ 0 and offsets c_k predict the given labels best; a weak pull to equal weights
    decides where labels are few.

    Args:
        probas: [V] of [n, K], without the node's own label.
        given: [n] classes.
        seed: of the sample of very many labels.
        keep_confidence: no offsets, weights scaled to sum to 1, and a strong pull to the first
            of them alone. Wrong labels make weights small: the best prediction of noisy labels
            is an uncertain one.
    """
    logs = np.stack([log_proba(proba) for proba in probas])
    sample = np.sort(numpy_stream(seed, "pooled labels").permutation(len(given))[:_POOLED])
    weights, offsets = _fit_pool(logs[:, sample], given[sample], first_leads=keep_confidence)
    if keep_confidence and (total := weights.sum()) > 0:
        weights = weights / total
    pooled: Floats = softmax(np.tensordot(weights, logs, 1) + offsets, axis=1)
    return pooled


def _fit_pool(logs: Floats, given: Classes, *, first_leads: bool) -> tuple[Floats, Floats]:
    count, n, k = logs.shape
    rows = np.arange(n)
    hot = np.eye(k)[given]
    start = np.concatenate([np.full(count, 1 / count), np.zeros(k)])
    pull = _RIDGE
    if first_leads:
        start, pull = np.eye(count + k)[0], _STRONG_RIDGE

    def loss(x: Floats) -> tuple[float, Floats]:
        proba = softmax(np.tensordot(x[:count], logs, 1) + x[count:], axis=1)
        error, away = proba - hot, x - start
        value = -np.log(np.maximum(proba[rows, given], 1e-12)).sum() + pull / 2 * away @ away
        slope = np.concatenate([np.einsum("vnk,nk->v", logs, error), error.sum(0)])
        return value / n, (slope + pull * away) / n

    free = (0.0, 0.0) if first_leads else (None, None)
    bounds = [(0.0, None)] * count + [free] * k
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    return found[:count], found[count:]
