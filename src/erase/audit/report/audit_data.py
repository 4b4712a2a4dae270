"""What the script of an audit's page knows: names, and arrays over nodes packed as base64.

The file stays small however large the graph: a page holds up to 100,000 nodes and 1,500,000 edges,
those around the most suspicious labels first, and says what it leaves out.
"""

import base64
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from erase.audit import Audit
from erase.audit.report.class_marks import class_marks
from erase.audit.report.embedding import directions, look_alikes, plane
from erase.nn.neighbours import NOBODY

VERDICTS = ("right", "wrong", "can't tell")

_NODES = 100_000
_EDGES = 1_500_000
_LOOK_ALIKES = 8  # of a node
_FEWEST_WITH_LOOK_ALIKES = 2_000  # nodes, the most suspicious ones
_SIMILARITIES = 4e8  # and more of them where so many numbers suffice: seconds
_LIKELY = 4  # classes that the judge finds most probable
_NONE = 65_535  # a share that is not a number

Nodes = NDArray[np.int64]


def page_data(audit: Audit, seed: int = 0) -> dict[str, Any]:
    """Return what the script reads, ready for JSON.

    Arrays run over the nodes of the page in the order of their numbers, ``id``, and refer to nodes
    by their place in that order. Look-alikes are labelled nodes; they are found for the 2,000 most
    suspicious labels, and for more where that is quick: all, up to 20,000 labels.

    Args:
        audit: what is shown.
        seed: of the map.
    """
    arrays = _Nodes.of(audit, seed)
    names = audit.node_names
    return {
        "classes": [asdict(mark) for mark in class_marks(audit.class_names)],
        "names": None if names is None else [names[i] for i in arrays.id.tolist()],
        "nodes": len(audit.given),
        "labels": len(audit.issues),
        "verdicts": list(VERDICTS),
        "arrays": arrays.packed(),
    }


@dataclass(frozen=True, eq=False)
class _Nodes:
    """The arrays of a page with M nodes, of which m are labelled.

    Attributes:
        id: [M] numbers in the graph, ascending.
        ranked: [m] places of labelled nodes, the most suspicious first.
        given: [M] class, -1 where none; likewise the suggested class.
        suggested: [M].
        quality: [M] that the given label is right, NaN where there is none.
        probability: [M] of the suggested class.
        flagged: [M] bool.
        verdict: [M] number in VERDICTS; 255 where there is no label.
        degree: [M] neighbours in the graph, in the page or not.
        agree: [M] share of labelled neighbours with the given label.
        judged_given: [M] probability of the given class by the judge who did not see the label.
        judged_suggested: [M] likewise of the suggested class.
        likely: [M, 4] the judge's most probable classes.
        likely_share: [M, 4] their probabilities.
        edge_count: [M] edges to nodes with a higher place.
        edge_to: those places, node by node, ascending.
        alike: [q, 8] places of the look-alikes of the first q ranked, -1 where fewer.
        alike_cosine: [q, 8].
        place: [M, 2] on the map, in [0, 1].
    """

    id: Nodes
    ranked: Nodes
    given: Nodes
    suggested: Nodes
    quality: NDArray[np.float64]
    probability: NDArray[np.float64]
    flagged: NDArray[np.bool_]
    verdict: Nodes
    degree: Nodes
    agree: NDArray[np.float64]
    judged_given: NDArray[np.float64]
    judged_suggested: NDArray[np.float64]
    likely: Nodes
    likely_share: NDArray[np.float64]
    edge_count: Nodes
    edge_to: Nodes
    alike: Nodes
    alike_cosine: NDArray[np.float32]
    place: NDArray[np.float64]

    @classmethod
    def of(cls, audit: Audit, seed: int) -> "_Nodes":
        n = len(audit.given)
        labelled = np.flatnonzero(audit.given >= 0)
        ranked = audit.issues["node"].to_numpy(dtype=np.int64)
        unit = directions(audit.embedding)
        searched = ranked[: _with_look_alikes(len(labelled))]
        alike, cosine = look_alikes(unit, searched, labelled, _LOOK_ALIKES)
        id = _chosen(audit, ranked, alike)
        here = np.full(n + 1, NOBODY)  # the place of a node; the last entry is nobody's
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
        numbers = {verdict: number for number, verdict in enumerate(VERDICTS)}
        return cls(
            id=id,
            ranked=here[ranked][here[ranked] >= 0],
            given=given,
            suggested=suggested,
            quality=spread(decision.quality, np.nan),
            probability=spread(table["probability"].to_numpy(dtype=float), np.nan),
            flagged=spread(decision.is_issue, False),
            verdict=spread(np.array([numbers[v] for v in decision.verdict.tolist()], int), 255),
            degree=np.bincount(audit.edge_index[0], minlength=n)[id],
            agree=spread(table["neighbours_agree"].to_numpy(dtype=float), np.nan),
            judged_given=_at(proba, given),
            judged_suggested=_at(proba, suggested),
            likely=likely,
            likely_share=np.take_along_axis(proba, likely, axis=1),
            edge_count=edge_count,
            edge_to=edge_to,
            alike=here[alike],
            alike_cosine=cosine,
            place=plane(unit[id], seed),
        )

    def packed(self) -> dict[str, Any]:
        """Return the arrays by the names the script has for them."""
        return {
            "id": pack(self.id, np.uint32),
            "ranked": pack(self.ranked, np.uint32),
            "given": pack(self.given, np.int16),
            "suggested": pack(self.suggested, np.int16),
            "quality": pack_shares(self.quality),
            "probability": pack_shares(self.probability),
            "flagged": pack(self.flagged, np.uint8),
            "verdict": pack(self.verdict, np.uint8),
            "degree": pack(self.degree, np.uint32),
            "agree": pack_shares(self.agree),
            "judgedGiven": pack_shares(self.judged_given),
            "judgedSuggested": pack_shares(self.judged_suggested),
            "likely": pack(self.likely, np.int16),
            "likelyShare": pack_shares(self.likely_share),
            "edgeCount": pack(self.edge_count, np.uint32),
            "edgeTo": pack(self.edge_to, np.uint32),
            "alike": pack(self.alike, np.int32),
            "alikeCosine": pack(self.alike_cosine, np.float32),
            "place": pack_shares(self.place),
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
