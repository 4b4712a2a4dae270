"""Which label comes next: random ones from one order, doubtful ones by score, none twice."""

import re
from itertools import pairwise
from typing import Any

import networkx as nx
import numpy as np
import pytest

import erase
from erase.audit.queue import gain_order, next_to_review, random_order, rank
from erase.errors import EraseError
from graphs import two_communities
from reviewed_graphs import graph_of
from synthetic_audits import planted_audit

AUDIT = planted_audit(300)
NOBODY = np.zeros(300, dtype=bool)
GRAPH = graph_of(AUDIT)
LABELLED = AUDIT.given >= 0


def test_a_share_is_drawn_from_the_one_random_order() -> None:
    table = rank(AUDIT, NOBODY, 20, "suspicious", 0.25)
    assert table["random"].sum() == 5
    assert table["node"].is_unique
    order = random_order(LABELLED, 0).tolist()
    chosen = set(table["node"])
    drawn = table.loc[table["random"], "node"].tolist()
    assert drawn == [node for node in order if node in drawn]
    # whatever stands before the last one in the order is in the queue too
    assert set(order[: order.index(drawn[-1]) + 1]) <= chosen
    chance = table.loc[table["random"], "chance"]
    assert (chance == (order.index(drawn[-1]) + 1) / len(order)).all()
    assert table.loc[~table["random"], "chance"].isna().all()


@pytest.mark.parametrize("strategy", ["mixed", "gain", "suspicious", "random"])
def test_reviewed_labels_do_not_come_again_and_all_others_do(strategy: str) -> None:
    reviewed = NOBODY.copy()
    first = rank(AUDIT, reviewed, 40, strategy, seed=1)  # type: ignore[arg-type]
    reviewed[first["node"]] = True
    second = rank(AUDIT, reviewed, 400, strategy, seed=1)  # type: ignore[arg-type]
    assert not set(first["node"]) & set(second["node"])
    assert len(first) + len(second) == LABELLED.sum()
    assert set(first["strategy"]) == ({"random"} if strategy == "random" else {strategy, "random"})


def test_suspicious_is_the_order_of_quality() -> None:
    table = rank(AUDIT, NOBODY, 300, "suspicious", 0.0)
    by_quality = AUDIT.issues.sort_values("quality", kind="stable")["node"].tolist()
    assert set(table["node"][:30]) <= set(by_quality[:45])  # but neighbours wait
    pairs = set(zip(*AUDIT.edge_index.tolist(), strict=True))
    nodes = table["node"].tolist()[:40]
    assert not any(pair in pairs for pair in pairwise(nodes))


def test_gain_asks_where_the_audit_is_unsure_and_nothing_twice() -> None:
    nodes = gain_order(AUDIT, NOBODY, 10)
    labelled = np.flatnonzero(LABELLED)
    assert sorted(nodes.tolist()) == labelled.tolist()  # each once, all in the end
    top = np.sort(AUDIT.decision.posterior, axis=1)
    margin = dict(zip(labelled.tolist(), (top[:, -1] - top[:, -2]).tolist(), strict=True))
    asked = [margin[node] for node in nodes[:10].tolist()]
    assert max(asked) <= np.sort(list(margin.values()))[59]  # among the 60 most uncertain
    assert asked == sorted(asked)
    rows = np.searchsorted(labelled, nodes[:10])
    assert len(set(AUDIT.decision.suggested[rows].tolist())) > 1
    assert gain_order(AUDIT, NOBODY, 10).tolist() == nodes.tolist()


def test_mixed_takes_flagged_labels_and_uncertain_ones_in_turn() -> None:
    flagged = AUDIT.issues[AUDIT.issues["is_issue"]].sort_values("quality", kind="stable")
    reviewed = NOBODY.copy()
    table = rank(AUDIT, reviewed, 20, "mixed", 0.0)
    chosen = set(table["node"])
    assert set(flagged["node"][:8]) <= chosen
    assert len(chosen & set(gain_order(AUDIT, reviewed, 20)[:12].tolist())) >= 8
    reviewed[flagged["node"]] = True  # nothing flagged is left: the uncertain ones go on
    rest = rank(AUDIT, reviewed, 10, "mixed", 0.0)["node"].tolist()
    assert rest == rank(AUDIT, reviewed, 10, "gain", 0.0)["node"].tolist()


def test_trusted_labels_of_a_graph_are_left_out() -> None:
    graph = graph_of(AUDIT)
    first = next_to_review(graph, 10, audit=AUDIT)
    assert list(first)[:4] == ["node", "name", "given", "suggested"]
    graph.trusted = graph.y.clone().fill_(-1)
    graph.trusted[first["node"].tolist()] = 0
    assert not set(next_to_review(graph, 10, audit=AUDIT)["node"]) & set(first["node"])


@pytest.mark.parametrize(
    ("options", "words"),
    [({"strategy": "best"}, "gain, suspicious, random"), ({"random_share": 2}, "from 0 to 1")],
)
def test_wrong_options_are_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(EraseError, match=words):
        rank(AUDIT, NOBODY, 10, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("n", [0, -1, 1e3, "3", None, True, float("nan"), np.float64(3)])
def test_odd_numbers_of_labels_are_refused(n: Any) -> None:
    with pytest.raises(EraseError, match="n to be a whole number from 1 on"):
        next_to_review(GRAPH, n, audit=AUDIT)


@pytest.mark.parametrize("given", ["a", None, [0.2], float("nan"), 10**400])
def test_odd_shares_and_strategies_are_refused(given: Any) -> None:
    with pytest.raises(EraseError, match="share of random labels"):
        next_to_review(GRAPH, audit=AUDIT, random_share=given)
    with pytest.raises(EraseError, match="a strategy among"):
        next_to_review(GRAPH, audit=AUDIT, strategy=given)


def test_more_than_there_are_is_all() -> None:
    assert len(next_to_review(GRAPH, 10**30, audit=AUDIT)) == int((AUDIT.given >= 0).sum())
    three: Any = np.int64(3)
    assert len(next_to_review(GRAPH, three, audit=AUDIT)) == 3


def test_what_is_no_audit_of_the_graph_is_refused() -> None:
    with pytest.raises(EraseError, match="an Audit"):
        next_to_review(GRAPH, audit=3)  # type: ignore[arg-type]
    with pytest.raises(EraseError, match="an audit of this graph, with 40 nodes"):
        next_to_review(two_communities(size=20), audit=AUDIT)


def test_a_graph_without_labels_is_refused_as_such() -> None:
    graph = nx.path_graph(5)
    with pytest.raises(EraseError, match="labels to review; got a graph without any") as error:
        next_to_review(graph)
    for calls in ("NodeTask.from_tables(nodes, edges, label=…)", "from_networkx(graph, label=…)"):
        assert calls in str(error.value)
        with pytest.raises(EraseError, match=re.escape(calls)):
            erase.audit(graph)
    assert error.value.for_command_line().endswith("that holds them: --label ….")
