"""Compare the label of a node with the labels and predictions of its neighbours."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Evidence:
    """Labels and predictions of the neighbours of n labelled nodes; NaN where there are none.

    Attributes:
        neighbours: [n] number of neighbours.
        agree: [n] of those with a label, the share that carries the node's given one.
        suggested: [n] of those with a label, the share that carries the suggested one.
        proba: [n] mean over all neighbours of the probability of the node's given class. It is
            biased towards that class: the models that predict the neighbours see the node's label.
    """

    neighbours: NDArray[np.int64]
    agree: NDArray[np.float64]
    suggested: NDArray[np.float64]
    proba: NDArray[np.float64]


def neighbour_evidence(
    edge_index: NDArray[np.int64],
    given: NDArray[np.int64],
    suggested: NDArray[np.int64],
    proba: NDArray[np.floating],
) -> Evidence:
    """Return the evidence of the neighbours of every labelled node, in node order.

    Cost: linear in the edges.

    Args:
        edge_index: [2, E] both directions of every edge.
        given: [N] given class, -1 where none.
        suggested: [N] suggested class; read at labelled nodes only.
        proba: [N, K].
    """
    node, neighbour = edge_index
    around = given[neighbour]

    def total(values: NDArray[Any]) -> NDArray[np.float64]:
        sums = np.bincount(node, values, minlength=len(given))
        return sums[given >= 0].astype(np.float64)

    neighbours = total(np.ones(len(node)))
    labelled = total(around >= 0)
    with np.errstate(invalid="ignore"):  # 0 / 0
        return Evidence(
            neighbours=neighbours.astype(np.int64),
            agree=total(around == given[node]) / labelled,
            suggested=total(around == suggested[node]) / labelled,
            proba=total(proba[neighbour, given[node]]) / neighbours,
        )


def neighbour_agreement(edge_index: NDArray[np.int64], given: NDArray[np.int64]) -> float | None:
    """Return the share of the labels that are the most common label of the node's neighbours.

    Nodes without a labelled neighbour get the most common class, which also decides ties. Labels
    that are the only one of their class do not count. None where no labelled node has a labelled
    neighbour, or no label counts.

    Args:
        edge_index: [2, E] both directions of every edge, without self-loops.
        given: [N] given class, -1 where none.
    """
    classes = int(given.max()) + 1
    node, around = edge_index[0], given[edge_index[1]]
    seen = (around >= 0) & (given[node] >= 0)
    sizes = np.bincount(given[given >= 0], minlength=classes)
    counted = np.append(sizes, 0)[given] > 1  # -1: the last
    if not seen.any() or not counted.any():
        return None
    pairs = node[seen] * classes + around[seen]
    counts = np.bincount(pairs, minlength=len(given) * classes).reshape(-1, classes)
    common = (counts + sizes / (sizes.sum() + 1)).argmax(1)
    return float((common == given)[counted].mean())
