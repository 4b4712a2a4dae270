"""What the scripts of an audit's page read: names, and arrays over nodes packed as base64.

The file stays small however large the graph: a page holds up to 100,000 nodes and 1,500,000 edges,
those around the most suspicious labels first, and states what it leaves out.
"""

import base64
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from erase.audit import Audit
from erase.audit.report.embedding import look_alikes, plane
from erase.audit.report.palette import class_marks
from erase.audit.report.projection import directions
from erase.nn.neighbours import NO_NODE
from erase.training.disk import leave_memory

VERDICTS = ("right", "wrong", "can't tell")

_NODES = 100_000
_EDGES = 1_500_000
_LOOK_ALIKES = 8  # of a node
_COMPARED = 100_000  # labelled nodes that may be look-alikes
_FEWEST_WITH_LOOK_ALIKES = 2_000  # nodes, the most suspicious ones
_SIMILARITIES = 4e8  # cosines, which take seconds: more nodes where they need no more
_ROWS = 16_384  # read at a time
_LIKELY = 4  # most probable classes of a node
_NONE = 65_535  # a share that is not a number

Nodes = NDArray[np.int64]


def page_data(audit: Audit, seed: int = 0) -> dict[str, Any]:
    """Return what the script reads, ready for JSON.

    Arrays run over the M nodes of the page in the order of their numbers, ``id``, and refer to
    nodes by their place in that order:

    ``ranked``
        [m] the labelled nodes, the most suspicious first.
    ``given``, ``suggested``, ``quality``, ``probability``, ``flagged``, ``verdict``, ``agree``
        [M] as in `Audit.issues`; where there is no label -1, NaN, 0 or 255.
    ``degree``
        [M] neighbours in the graph, in the page or not.
    ``predictedGiven``, ``predictedSuggested``
        [M] out-of-fold probabilities of these classes; ``likely``, ``likelyShare`` [M, 4] the most
        probable classes and theirs.
    ``edgeCount``, ``edgeTo``
        [M] edges to nodes with a higher place; those places, node by node, ascending.
    ``alike``, ``alikeCosine``
        [q, 8] look-alikes, labelled nodes all, of the first q ranked, -1 where fewer. q is 2,000,
        and more where that is quick: all, up to 20,000 labels. Of more than 100,000 labels, every
        n-th is compared.
    ``place``
        [M, 2] on the map, in [0, 1].

    Args:
        audit: what is shown.
        seed: of the map.
    """
    n = len(audit.given)
    labelled = np.flatnonzero(audit.given >= 0)
    ranked = audit.issues["node"].to_numpy(dtype=np.int64)
    alike, cosine = _look_alikes(audit, ranked[: _with_look_alikes(len(labelled))], labelled)
    id = _chosen(audit, ranked, alike)
    here = np.full(n + 1, NO_NODE)  # the place of a node; the last entry stands for no node
    here[id] = np.arange(len(id))
    edge_count, edge_to = _edges(audit.edge_index, ranked, here)

    def spread(values: NDArray[Any], elsewhere: Any) -> NDArray[Any]:
        """Return values [labelled] as values [M]."""
        full = np.full(n, elsewhere)
        full[labelled] = values
        return full[id]

    table = audit.issues.set_index("node").loc[labelled]
    decision = audit.decision
    proba, given = audit.pred_probs[id], audit.given[id]
    suggested = spread(decision.suggested, -1)
    likely = np.argsort(-proba, axis=1, kind="stable")[:, :_LIKELY]
    verdict = np.array([VERDICTS.index(v) for v in decision.verdict.tolist()], int)
    names = audit.node_names
    return {
        "classes": [asdict(mark) for mark in class_marks(audit.class_names)],
        "names": None if names is None else [names[i] for i in id.tolist()],
        "nodes": n,
        "labels": len(audit.issues),
        "verdicts": list(VERDICTS),
        "arrays": {
            "id": pack(id, np.uint32),
            "ranked": pack(here[ranked][here[ranked] >= 0], np.uint32),
            "given": pack(given, np.int16),
            "suggested": pack(suggested, np.int16),
            "quality": pack_shares(spread(decision.quality, np.nan)),
            "probability": pack_shares(spread(table["probability"].to_numpy(float), np.nan)),
            "flagged": pack(spread(decision.is_issue, False), np.uint8),
            "verdict": pack(spread(verdict, 255), np.uint8),
            "degree": pack(np.bincount(audit.edge_index[0], minlength=n)[id], np.uint32),
            "agree": pack_shares(spread(table["neighbours_agree"].to_numpy(float), np.nan)),
            "predictedGiven": pack_shares(_at(proba, given)),
            "predictedSuggested": pack_shares(_at(proba, suggested)),
            "likely": pack(likely, np.int16),
            "likelyShare": pack_shares(np.take_along_axis(proba, likely, axis=1)),
            "edgeCount": pack(edge_count, np.uint32),
            "edgeTo": pack(edge_to, np.uint32),
            "alike": pack(here[alike], np.int32),
            "alikeCosine": pack(cosine, np.float32),
            "place": pack_shares(plane(_unit(audit, id), seed)),
        },
    }


def pack(values: NDArray[Any], dtype: type[np.generic]) -> dict[str, str]:
    """Return the values, row by row, as the script unpacks them.

    >>> pack(np.array([1, 256]), np.uint16)
    {'type': 'uint16', 'data': 'AQAAAQ=='}
    """
    little = np.ascontiguousarray(values, dtype=np.dtype(dtype).newbyteorder("<"))
    return {"type": np.dtype(dtype).name, "data": base64.b64encode(little.tobytes()).decode()}


def pack_shares(values: NDArray[np.floating]) -> dict[str, str]:
    """Return numbers in [0, 1] at two bytes each, exact to 1e-5; NaN stays NaN."""
    steps = np.round(np.clip(np.nan_to_num(values), 0, 1) * (_NONE - 1))
    packed = pack(np.where(np.isnan(values), _NONE, steps), np.uint16)
    return {**packed, "type": "share"}


def _unit(audit: Audit, nodes: Nodes) -> NDArray[np.float32]:
    """Return the embedding of some nodes, rows of length 1 [m, D]; the rest is not read."""
    unit = np.empty((len(nodes), audit.embedding.shape[1]), np.float32)
    for start in range(0, len(nodes), _ROWS):
        some = slice(start, start + _ROWS)
        unit[some] = directions(audit.embedding[nodes[some]])
        leave_memory(torch.from_numpy(audit.embedding))
    return unit


def _look_alikes(
    audit: Audit, searched: Nodes, labelled: Nodes
) -> tuple[Nodes, NDArray[np.float32]]:
    """Return the look-alikes [q, 8] of the `searched` nodes, and their cosines."""
    among = labelled[:: max(1, -(-len(labelled) // _COMPARED))]
    pool = np.union1d(searched, among)
    asked, compared = np.searchsorted(pool, searched), np.searchsorted(pool, among)
    alike, cosine = look_alikes(_unit(audit, pool), asked, compared, _LOOK_ALIKES)
    return np.where(alike >= 0, pool[alike], NO_NODE), cosine


def _with_look_alikes(labels: int) -> int:
    """Return for how many of the most suspicious nodes look-alikes are found."""
    return min(labels, max(_FEWEST_WITH_LOOK_ALIKES, int(_SIMILARITIES / max(labels, 1))))


def _chosen(audit: Audit, ranked: Nodes, alike: Nodes) -> Nodes:
    """Return the nodes of the page, ascending: all, or suspicious ones and those around them."""
    n = len(audit.given)
    if n <= _NODES:
        return np.arange(n)
    first = ranked[: _NODES // 4]
    rank = _ranks(first, n)
    ends = audit.edge_index[:, rank[audit.edge_index[0]] < len(first)]
    around = ends[1][np.argsort(rank[ends[0]], kind="stable")]
    wanted = np.concatenate([first, alike[alike >= 0], around, ranked, np.arange(n)])
    nodes, turn = np.unique(wanted, return_index=True)
    return np.sort(nodes[np.argsort(turn)[:_NODES]])


def _edges(edge_index: Nodes, ranked: Nodes, here: Nodes) -> tuple[Nodes, Nodes]:
    """Return each edge inside the page once: how many start at a place, and where they end."""
    a, b = here[edge_index]
    kept = (a >= 0) & (a < b)
    ends = edge_index[:, kept]
    a, b = a[kept], b[kept]
    if len(a) > _EDGES:
        rank = _ranks(ranked, len(here))
        first = np.argsort(rank[ends].min(0), kind="stable")[:_EDGES]
        a, b = a[first], b[first]
    order = np.lexsort((b, a))
    return np.bincount(a, minlength=int(here.max(initial=-1)) + 1), b[order]


def _ranks(ranked: Nodes, n: int) -> Nodes:
    """Return the position [n] of each node in `ranked`, and its length where it is not there."""
    rank = np.full(n, len(ranked))
    rank[ranked] = np.arange(len(ranked))
    return rank


def _at(proba: NDArray[np.float64], classes: Nodes) -> NDArray[np.float64]:
    """Return the probability of each row's class, NaN where it has none."""
    values = proba[np.arange(len(classes)), classes]
    return np.where(classes >= 0, values, np.nan)
