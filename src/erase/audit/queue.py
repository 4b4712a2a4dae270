"""Which labels a person should look at next.

A share of the labels is drawn at random: only from those can one estimate without bias how many
labels are wrong. They are the first labels that nobody has reviewed of one fixed random order. The
first part of that order is therefore reviewed as a whole, whatever else was reviewed, and is a
simple random sample.
"""

from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from erase.audit.result import Audit
from erase.audit.run import audit as run_audit
from erase.data.fields import field, node_columns
from erase.data.kinds import graph_data
from erase.data.labels import label_column
from erase.errors import EraseError, shown
from erase.random import numpy_stream

STRATEGIES = ("mixed", "gain", "suspicious", "random")
Strategy = Literal["mixed", "gain", "suspicious", "random"]
_ORDER = "review order"  # the random stream of the order in which random labels are drawn
_SPARE = 10  # ranked labels beyond twice the wanted ones
_PER_CLUSTER = 6  # uncertain nodes for each that is chosen
_WIDTH, _OF_PLACE, _OF_CLASS = 128, 3.0, 2.0  # of the rows that are clustered


def next_to_review(
    graph: Any,
    n: int = 50,
    *,
    strategy: Strategy = "mixed",
    audit: Audit | None = None,
    random_share: float = 0.2,
    seed: int = 0,
) -> pd.DataFrame:
    """Return the labels that a person should look at next, the first one first.

    Columns: ``node``, ``id`` and ``name`` (where the graph has them), ``given``, ``suggested``,
    ``quality``, ``strategy`` (which rule chose the row), ``random`` (whether it was drawn at
    random) and ``chance`` (of a label to be in the random sample; NaN in other rows).

    Args:
        graph: of any kind that ``NodeTask.of`` takes. Labels that are ``trusted`` are left out.
        n: how many labels; fewer where fewer are left.
        strategy: "gain" takes labels whose answer is expected to improve the audit most, no two
            alike; "suspicious" takes the least quality first; "mixed" takes a flagged label, the
            least quality first, and one by gain in turn, which corrects labels and improves the
            audit; "random" draws all of them at random.
        audit: of this graph; by default it is made.
        random_share: the share of labels that are drawn at random, in [0, 1].
        seed: of the random order; keep it for one graph.
    """
    if audit is not None and not isinstance(audit, Audit):
        raise EraseError("an Audit", repr(type(audit)), "Pass what erase.audit returned.")
    reviewed = _reviewed(graph)
    if audit is not None and len(audit.given) != len(reviewed):
        raise EraseError(
            f"an audit of this graph, with {len(reviewed)} nodes",
            f"one of {len(audit.given)}",
            "Pass the graph that was audited.",
        )
    _check(n, strategy, random_share)  # before an audit that takes minutes
    found = run_audit(graph, seed=seed) if audit is None else audit
    return rank(found, reviewed, min(n, len(reviewed)), strategy, random_share, seed)


def _check(n: Any, strategy: Any, random_share: Any) -> None:
    """Raise an EraseError for a number of labels, a strategy or a share that cannot be."""
    if not isinstance(strategy, str) or strategy not in STRATEGIES:
        raise EraseError(
            f"a strategy among {', '.join(STRATEGIES)}", shown(strategy), "Choose one of them."
        )
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise EraseError("n to be a whole number from 1 on", shown(n), "Pass n=50, for example.")
    if not isinstance(random_share, int | float | np.number) or not 0 <= random_share <= 1:
        raise EraseError(
            "a share of random labels from 0 to 1", shown(random_share), "Pass 0.2, for example."
        )


def rank(
    audit: Audit,
    reviewed: NDArray[np.bool_],
    n: int,
    strategy: Strategy = "mixed",
    random_share: float = 0.2,
    seed: int = 0,
    turn: int = 0,
) -> pd.DataFrame:
    """Return the table of :func:`next_to_review` for an audit, without the `reviewed` nodes [N].

    The places before it, `turn` of them, count for the share of random labels.
    """
    _check(n, strategy, random_share)
    labelled = audit.given >= 0
    order = random_order(labelled, seed)
    fresh = np.flatnonzero(~reviewed[order])
    drawn = order[fresh]
    share = 1.0 if strategy == "random" else random_share
    places = np.arange(turn, turn + n)
    turns = np.floor((places + 1) * share) > np.floor(places * share)
    if strategy == "random" or not len(drawn):
        best = drawn
    else:
        best = _apart(_best(audit, reviewed, strategy, n), audit.edge_index, len(labelled), n)
    nodes, is_random = _merged(drawn[:n], best[: 2 * n], turns)
    place = np.full(len(labelled), -1)
    place[order] = np.arange(len(order))
    last = place[nodes[is_random]].max(initial=-1) + 1
    row = np.cumsum(labelled) - 1  # of a labelled node among the labelled ones
    names = np.array(audit.class_names, dtype=object)
    decision = audit.decision
    return pd.DataFrame(
        node_columns(nodes, audit.node_ids, audit.node_names)
        | {
            "given": names[audit.given[nodes]],
            "suggested": names[decision.suggested[row[nodes]]],
            "quality": decision.quality[row[nodes]],
            "strategy": np.where(is_random, "random", strategy),
            "random": is_random,
            "chance": np.where(is_random, last / max(len(order), 1), np.nan),
        }
    )


def gain_order(audit: Audit, reviewed: NDArray[np.bool_], n: int) -> NDArray[np.int64]:
    """Return nodes whose true class is worth most to know, the most uncertain first.

    Of the labelled nodes that nobody has reviewed, the 6·n with the smallest margin between the
    two most probable classes are divided into n clusters by their representation and their
    probabilities; the node nearest to each centre stands for its cluster. So neither what the audit
    is sure of is chosen, nor the same thing twice.

    The study ``review`` compares it with other choices.

    Args:
        audit: of the graph.
        reviewed: [N] nodes to leave out.
        n: how many clusters; the list goes on with the next most uncertain nodes.
    """
    labelled = np.flatnonzero(audit.given >= 0)
    top = np.sort(audit.decision.posterior, axis=1)[:, -2:]
    margin = top[:, 1] - top[:, 0]
    order = np.argsort(margin, kind="stable")
    order = order[~reviewed[labelled[order]]]
    first = order[: _PER_CLUSTER * n]
    if len(first) <= n:
        return labelled[order]
    place = audit.embedding[labelled[first], :_WIDTH].astype(np.float64)
    place /= np.maximum(np.linalg.norm(place, axis=1, keepdims=True), 1e-9)
    rows = np.hstack([_OF_PLACE * place, _OF_CLASS * audit.decision.posterior[first]])
    seed = int(audit.settings.get("seed", 0))
    away = KMeans(n, n_init=1, random_state=seed).fit(rows).transform(rows)
    chosen = np.unique(away.argmin(0))  # in the order of `first`, by margin
    rest = np.delete(np.arange(len(first)), chosen)
    ranked: NDArray[np.int64] = np.concatenate([first[chosen], first[rest], order[len(first) :]])
    return labelled[ranked]


def random_order(labelled: NDArray[np.bool_], seed: int) -> NDArray[np.int64]:
    """Return the `labelled` nodes [n] in the one random order of this seed."""
    nodes = np.flatnonzero(labelled)
    order: NDArray[np.int64] = nodes[numpy_stream(seed, _ORDER).permutation(len(nodes))]
    return order


def random_sample(
    labelled: NDArray[np.bool_], reviewed: NDArray[np.bool_], seed: int
) -> NDArray[np.int64]:
    """Return the nodes in the first part of the random order, as far as all are reviewed."""
    order = random_order(labelled, seed)
    is_left = ~reviewed[order]
    return order[: is_left.argmax()] if is_left.any() else order


def _reviewed(graph: Any) -> NDArray[np.bool_]:
    """Return which nodes [N] have a trusted label."""
    data = graph_data(graph)
    if field(data, "y") is None:
        raise EraseError(
            "labels to review",
            "a graph without any",
            "Set y [N], or name the column or attribute that holds them: label=….",
            option="label",
        )
    trusted = field(data, "trusted")
    if trusted is None:
        return np.zeros(len(label_column(field(data, "y"))), dtype=bool)
    values = np.asarray(trusted)
    if values.dtype == bool:
        return values
    column = label_column(values)
    return column != "" if column.dtype.kind == "U" else column >= 0


def _best(
    audit: Audit, reviewed: NDArray[np.bool_], strategy: Strategy, n: int
) -> NDArray[np.int64]:
    """Return the nodes that nobody has reviewed in the order of the strategy."""
    if strategy == "gain":
        return gain_order(audit, reviewed, n)
    labelled = np.flatnonzero(audit.given >= 0)
    order = np.argsort(audit.decision.quality, kind="stable")
    order = order[~reviewed[labelled[order]]]
    ranked: NDArray[np.int64] = labelled[order]
    if strategy == "suspicious":
        return ranked
    flagged = audit.decision.is_issue[order]
    turns = np.arange(min(len(ranked), 2 * n + _SPARE)) % 2 == 0
    return _merged(ranked[flagged], gain_order(audit, reviewed, n), turns)[0]


def _apart(
    ranked: NDArray[np.int64], edge_index: NDArray[np.int64], size: int, n: int
) -> NDArray[np.int64]:
    """Return the first of the `ranked` nodes, two neighbours not one after the other.

    A neighbour of the node before it waits for the next place.
    """
    first = ranked[: 2 * n + _SPARE]
    chosen = np.zeros(size, dtype=bool)
    chosen[first] = True
    a, b = edge_index[:, chosen[edge_index[0]] & chosen[edge_index[1]]]
    pairs = set(zip(a.tolist(), b.tolist(), strict=True))
    waiting: list[int] = first.tolist()
    taken: list[int] = []
    while waiting:
        before = taken[-1] if taken else -1
        turn = next((i for i, node in enumerate(waiting[:10]) if (before, node) not in pairs), 0)
        taken.append(waiting.pop(turn))
    return np.array(taken, dtype=np.int64)


def _merged(
    drawn: NDArray[np.int64], best: NDArray[np.int64], turns: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return nodes of both lists, each once, and which of them were drawn at random.

    Args:
        drawn: nodes in random order.
        best: nodes in the order of the strategy.
        turns: [n] whether a place is for a random node.
    """
    nodes: dict[int, bool] = {}
    lists = {True: iter(drawn.tolist()), False: iter(best.tolist())}
    for is_random in turns.tolist():
        for kind in (is_random, not is_random):  # where one list has ended, the other goes on
            node = next((node for node in lists[kind] if node not in nodes), None)
            if node is not None:
                nodes[node] = kind
                break
    return np.fromiter(nodes, np.int64), np.fromiter(nodes.values(), bool)
