"""Label noise: transition matrices, noise that depends on the node, and the published draw.

``transition[true, given]`` is the probability that class `true` is labelled as class `given`;
rows sum to 1.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch_geometric.data import Data

from erase.data.kinds import Graph, graph_data, relabelled
from erase.data.labels import encode_labels
from erase.data.node_noise import (
    Labelled,
    NodeNoise,
    annotator,
    confidence,
    instance,
    topology,
)
from erase.data.splits import read_splits
from erase.data.task import NodeTask
from erase.errors import EraseError, input_errors
from erase.random import numpy_stream

Matrix = NDArray[np.float64]
Classes = NDArray[np.int64]
Draw = Literal["redrawn", "fixed"]
Where = Literal["train", "train+val"]

_PUBLISHED_SEED = 123


def symmetric(num_classes: int, rate: float) -> Matrix:
    """Return 1−φ on the diagonal and φ/(K−1) elsewhere (paper, appendix; φ = `rate`).

    >>> symmetric(3, 0.5)[0].tolist()
    [0.5, 0.25, 0.25]
    """
    matrix = np.full((num_classes, num_classes), rate / (num_classes - 1))
    np.fill_diagonal(matrix, 1 - rate)
    return matrix


def one_way(targets: Classes, rate: float) -> Matrix:
    """Return 1−φ on the diagonal and φ at (i, targets[i]) (φ = `rate`)."""
    k = len(targets)
    matrix = (1 - rate) * np.eye(k)
    matrix[np.arange(k), targets] += rate
    return matrix


def pair(num_classes: int, rate: float) -> Matrix:
    """Return the paper's matrix of asymmetric noise: class i becomes i+1, the last becomes 0.

    >>> pair(3, 0.25)[2].tolist()
    [0.25, 0.0, 0.75]
    """
    return one_way((np.arange(num_classes) + 1) % num_classes, rate)


def _symmetric(num_classes: int, rate: float, rng: np.random.Generator) -> Matrix:
    return symmetric(num_classes, rate)


def _pair(num_classes: int, rate: float, rng: np.random.Generator) -> Matrix:
    return pair(num_classes, rate)


def _asymmetric(num_classes: int, rate: float, rng: np.random.Generator) -> Matrix:
    shift = rng.integers(1, num_classes, size=num_classes)
    return one_way((np.arange(num_classes) + shift) % num_classes, rate)


def _random(num_classes: int, rate: float, rng: np.random.Generator) -> Matrix:
    matrix = rng.random((num_classes, num_classes))
    np.fill_diagonal(matrix, 0)
    matrix *= rate / matrix.sum(1, keepdims=True)
    np.fill_diagonal(matrix, 1 - rate)
    return matrix


@dataclass(frozen=True)
class Noise:
    """An entry of :data:`NOISES`.

    Attributes:
        summary: one sentence.
        matrix: builds ``transition`` from K, the rate and a generator; None where the noise depends
            on the node and not only on its class.
        labels: returns given classes from the graph, the rate and a generator; None with `matrix`.
    """

    summary: str
    matrix: Callable[[int, float, np.random.Generator], Matrix] | None = None
    labels: NodeNoise | None = None


NOISES: dict[str, Noise] = {
    "symmetric": Noise("every other class is equally likely", _symmetric),
    "pair": Noise("class i becomes i+1: the paper's matrix of asymmetric noise", _pair),
    "asymmetric": Noise(
        "class i becomes one random other class: behind the paper's asymmetric results", _asymmetric
    ),
    "random": Noise("every class has its own random distribution over the others", _random),
    "instance": Noise(
        "the flip rate and the wrong class depend on the node's features", labels=instance
    ),
    "annotator": Noise(
        "a weak classifier with favourite classes wrote the labels: consistent errors",
        labels=annotator,
    ),
    "topology": Noise("errors where neighbours belong to other classes", labels=topology),
    "confidence": Noise("errors where a trained model is unsure", labels=confidence),
}


def flip(y: Classes, transition: Matrix, uniform: NDArray[np.float64]) -> Classes:
    """Return a given class for every true class `y` [n], by inverting the cdf of its row.

    Args:
        y: [n] classes 0 … K−1.
        transition: [K, K] ``[true, given]``.
        uniform: [n] numbers in [0, 1), one per label.
    """
    given = np.empty_like(y)
    for true, row in enumerate(transition):
        cdf = row.cumsum()
        members = y == true
        given[members] = np.searchsorted(cdf / cdf[-1], uniform[members], side="right")
    return given


def published_draw(y: Classes, num_classes: int, kind: str, rate: float) -> Classes:
    """Return the one noise draw behind the published tables, bit for bit.

    numpy's legacy generator with seed 123: for asymmetric noise first one choice among the other
    classes for each class in order; then for each label, in node order, one choice with its row of
    the transition matrix as probabilities. That choice inverts the cdf of one uniform number, so
    drawing the numbers at once changes nothing.

    Args:
        y: [n] true classes of the training nodes in node order.
        num_classes: K.
        kind: "symmetric", "pair" or "asymmetric".
        rate: φ.
    """
    legacy = np.random.RandomState(_PUBLISHED_SEED)
    if kind == "symmetric":
        matrix = symmetric(num_classes, rate)
    elif kind == "pair":
        matrix = pair(num_classes, rate)
    elif kind == "asymmetric":
        others = [[j for j in range(num_classes) if j != i] for i in range(num_classes)]
        matrix = one_way(np.array([legacy.choice(o) for o in others]), rate)
    else:
        raise EraseError(
            "symmetric, pair or asymmetric noise for the published draw",
            repr(kind),
            "Use draw='redrawn' for other noises; in a study, protocol honest.",
        )
    return flip(y, matrix, legacy.random_sample(len(y)))


@input_errors("a graph, a noise and a rate")
def corrupt(
    graph: Graph,
    noise: str | Matrix = "symmetric",
    rate: float | None = None,
    seed: int = 0,
    *,
    on: Where = "train",
    draw: Draw = "redrawn",
) -> Graph:
    """Return a copy of a graph with wrong labels, and no label outside the given splits.

    The copy is of the kind of `graph`. It has no label (in a Data ``y = -1``, for names ``""``)
    wherever none is given: it is what a method may see. Nodes keep their order, so
    ``copy.y != graph.y`` inside the training mask are the errors.

    Args:
        graph: with clean labels: a PyG ``Data``, or anything ``NodeTask.of`` takes.
        noise: a name in :data:`NOISES`, or your own matrix ``[true, given]`` [K, K], whose rows
            and columns are the classes in order: `class_names`, else the sorted labels.
        rate: φ, the expected share of wrong labels; None with your own matrix. Instance noise has
            this mean before its rates are cut to [0, 1], which moves it where φ is near 0 or 1.
        seed: of the draw.
        on: which labels are corrupted, "train" or "train+val"; validation labels stay clean
            with the first.
        draw: "redrawn" from the seed, or "fixed": the published draw, whatever the seed.
    """
    data = graph_data(graph)
    y, class_names, values = encode_labels(data)
    k = len(class_names)
    given = y.numpy().copy()
    splits = read_splits(data, y)
    train, val = splits.train, splits.val
    if on not in ("train", "train+val"):
        raise EraseError("on='train' or 'train+val'", repr(on), "Choose one.")
    seen = (train | val).numpy() & (given >= 0)
    noisy = np.flatnonzero(seen & (train.numpy() if on == "train" else True))
    given[noisy] = _draw(data, given, noisy, k, noise, rate, seed, draw)
    given[~seen] = -1
    return relabelled(graph, y, given, class_names, values)


def _draw(
    data: Data,
    y: Classes,
    nodes: Classes,
    k: int,
    noise: str | Matrix,
    rate: float | None,
    seed: int,
    draw: Draw,
) -> Classes:
    if not isinstance(noise, str):
        return flip(y[nodes], _own_matrix(noise, rate, k), _uniform(seed, len(nodes)))
    if noise not in NOISES:
        raise EraseError(
            f"a noise among {', '.join(NOISES)}, or a {k}×{k} matrix", repr(noise), "Choose one."
        )
    if rate is None or not 0 <= rate <= 1:
        raise EraseError("a noise rate in [0, 1]", repr(rate), "Pass rate=0.3, for example.")
    if k < 2:
        raise EraseError("at least two classes", str(k), "With one class no label can be wrong.")
    if draw == "fixed":
        return published_draw(y[nodes], k, noise, rate)
    if draw != "redrawn":
        raise EraseError("draw='redrawn' or 'fixed'", repr(draw), "Choose one.")
    rng = numpy_stream(seed, f"noise {noise}")
    kind = NOISES[noise]
    if rate == 0 or not len(nodes):
        return y[nodes]
    if kind.labels is not None:
        task = NodeTask.from_data(data)
        return kind.labels(Labelled(task.x, task.edge_index, y, nodes, k), rate, rng)
    assert kind.matrix is not None
    return flip(y[nodes], kind.matrix(k, rate, rng), _uniform(seed, len(nodes)))


def _uniform(seed: int, size: int) -> NDArray[np.float64]:
    return numpy_stream(seed, "noise flips").random(size)


def _own_matrix(noise: Any, rate: float | None, k: int) -> Matrix:
    matrix = np.asarray(noise, dtype=np.float64)
    if matrix.shape != (k, k) or not (matrix >= 0).all() or not np.allclose(matrix.sum(1), 1):
        raise EraseError(
            f"a transition matrix [true, given] of {k}×{k} probabilities whose rows sum to 1",
            f"shape {matrix.shape} with row sums {np.round(matrix.sum(-1), 3).tolist()}",
            "Divide each row by its sum.",
        )
    if rate is not None:
        raise EraseError("no rate beside your own matrix", f"rate={rate}", "Leave rate out.")
    return matrix
