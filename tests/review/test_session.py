"""A review in progress: who gets what, what follows from a decision, audits in the background."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from erase.audit import Audit
from erase.audit.queue import rank
from erase.errors import EraseError
from erase.review import session as module
from erase.review.session import Session
from erase.review.store import Choice
from reviewed_graphs import MINI, small_session
from synthetic_audits import planted_audit


@pytest.fixture(autouse=True)
def _fresh_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FRESH", -1.0)


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return small_session(tmp_path)


def nodes(items: list[dict[str, object]]) -> list[int]:
    return [int(str(item["node"])) for item in items]


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_each_label_goes_to_one_reviewer_and_stays_theirs(session: Session) -> None:
    ann, bob = (nodes(session.next_items(by, 10)) for by in ("ann", "bob"))
    assert not set(ann) & set(bob)
    assert nodes(session.next_items("ann", 10)) == ann  # after a reload
    more = nodes(session.next_items("ann", 5, have=ann))
    assert not set(more) & {*ann, *bob}
    session.decide("ann", [Choice(ann[0], MINI[0], key="k")])
    assert ann[0] not in nodes(session.next_items("ann", 20))


def test_another_audit_changes_what_comes_next(session: Session) -> None:
    before = nodes(session.next_items("ann", 10))
    session._use(planted_audit(120, MINI, noise=0.3))
    assert nodes(session.next_items("ann", 10)) == before  # until the page asks for it
    after = nodes(session.next_items("ann", 8, have=before[:2], fresh=True))
    ranked = [node for node, _ in session._queue if node not in before[:2]]
    assert after == ranked[:8] != before[2:]


def test_every_label_comes_in_the_end(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """More labels than are ranked at a time; each comes once."""
    monkeypatch.setattr(module, "_QUEUE", 20)
    session._use(session.audit)
    seen: list[int] = []
    while items := nodes(session.next_items("ann", 7)):
        seen += items
        session.decide("ann", [Choice(node, MINI[0], key=f"k{node}") for node in items])
    assert sorted(seen) == np.flatnonzero(session.audit.given >= 0).tolist()


def test_what_somebody_is_shown_takes_no_place_in_the_queue(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_QUEUE", 10)
    session._use(session.audit)
    seen = [nodes(session.next_items(by, 10)) for by in ("ann", "bob", "cy")]
    assert len(set().union(*seen)) == 30


def test_labels_of_a_reviewer_who_left_are_free_again(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = nodes(session.next_items("ann", 5))
    later = time.monotonic() + 301
    monkeypatch.setattr("erase.review.session.time.monotonic", lambda: later)
    assert set(ann) <= set(nodes(session.next_items("bob", 10)))


def test_random_labels_are_stored_as_random(session: Session) -> None:
    items = nodes(session.next_items("ann", 20))
    session.decide("ann", [Choice(node, MINI[0], key=f"k{node}") for node in items])
    table = session.reviews.decisions
    assert table["random"].sum() == 4
    assert session.progress()["random"] == 4
    assert table["suggested"].isin(MINI).all()


def test_a_share_of_labels_goes_to_two_people(tmp_path: Path) -> None:
    session = small_session(tmp_path, plan={"double_share": 1.0})
    ann = nodes(session.next_items("ann", 6))
    for node in ann:
        session.decide("ann", [Choice(node, MINI[0], key=f"a{node}")])
    bob = nodes(session.next_items("bob", 6))
    assert set(bob) == set(ann)
    session.decide("bob", [Choice(bob[0], MINI[1], key="b0"), Choice(bob[1], MINI[0], key="b1")])
    (row,) = session.disagreements()
    assert (row["node"], row["votes"]) == (bob[0], {"ann": MINI[0], "bob": MINI[1]})
    assert session.agreement()[0]["nodes"] == 2
    assert not {bob[0], bob[1]} & set(nodes(session.next_items("cy", 10)))  # two are enough


def test_labels_somebody_is_unsure_of_go_to_another_reviewer(tmp_path: Path) -> None:
    session = small_session(tmp_path, plan={"double_share": 0.0})
    ann = nodes(session.next_items("ann", 3))
    choices = [Choice(ann[0], None, key="a0"), Choice(ann[1], MINI[0], key="a1")]
    session.decide("ann", choices)
    assert ann[0] not in nodes(session.next_items("ann", 20))
    bob = nodes(session.next_items("bob", 10))
    assert bob[0] == ann[0]
    assert ann[1] not in bob
    session.decide("bob", [Choice(ann[0], None, key="b0")])
    assert ann[0] not in nodes(session.next_items("cy", 20))


@pytest.mark.parametrize("every", [4, 20])
def test_a_share_is_random_however_often_the_audit_is_redone(session: Session, every: int) -> None:
    """As the page asks: ten at a time, all but the next two again after an audit."""
    waiting: list[int] = []
    for turn in range(60):
        if turn % every == 0:
            session._use(session.audit)
            waiting = waiting[:2]
        fresh = turn % every == 0
        waiting += nodes(session.next_items("ann", 10 - len(waiting), waiting, fresh=fresh))
        session.decide("ann", [Choice(waiting.pop(0), MINI[0], key=f"k{turn}")])
    assert session.reviews.decisions["random"].sum() in (11, 12, 13)


def test_nobody_waits_while_labels_are_ranked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Labels are ranked again before the queue is empty; meanwhile everything else goes on."""
    session = small_session(tmp_path)
    ready, ranked = threading.Event(), rank

    def slow(*args: Any) -> Any:
        assert ready.wait(10)
        return ranked(*args)

    monkeypatch.setattr(module, "rank", slow)
    monkeypatch.setattr(module, "_FEW", 95)
    session.start()
    queue = session._queue
    (first, *_) = nodes(session.next_items("ann", 10))
    assert session.decide("ann", [Choice(first, MINI[0], key="k")]) == 1
    assert len(session.next_items("bob", 10)) == 10
    assert session.progress()["reviewed"] == 1
    assert session._queue is queue
    ready.set()
    until(lambda: session._queue is not queue)
    assert first not in [node for node, _ in session._queue]
    session.close()


def test_an_audit_is_taken_over_without_holding_anybody_up(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready, started, ranked = threading.Event(), threading.Event(), rank

    def slow(*args: Any) -> Any:
        started.set()
        assert ready.wait(10)
        return ranked(*args)

    monkeypatch.setattr(module, "rank", slow)
    work = threading.Thread(target=session._use, args=[planted_audit(120, MINI, noise=0.3)])
    work.start()
    assert started.wait(10)
    answers: list[int] = []
    choice = Choice(session.audit.issues["node"].tolist()[0], MINI[0], key="k")
    decide = threading.Thread(target=lambda: answers.append(session.decide("ann", [choice])))
    decide.start()
    decide.join(5)
    assert answers == [1]
    ready.set()
    work.join()


def test_undo_shows_the_label_again_and_keeps_it_random(session: Session) -> None:
    (item, *_) = session.next_items("ann", 1)
    node = item["node"]
    random = session._leases[node][2]
    session.decide("ann", [Choice(node, MINI[0], key="k")])
    (again,) = session.undo("ann")
    assert again["node"] == node
    assert session._leases[node][2] == random
    assert session.progress()["reviewed"] == 0
    assert session.undo("ann") == []


def test_a_random_label_stays_random_after_an_undo(session: Session) -> None:
    items = nodes(session.next_items("ann", 5))
    for turn in range(2):
        session.decide("ann", [Choice(items[4], MINI[0], key=f"k{turn}")])
        session.undo("ann")
    table = session.reviews.decisions
    assert table.loc[table["action"] != "undo", "random"].tolist() == [True, True]


def test_labels_of_a_page_that_is_open_stay_reserved(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = time.monotonic()
    ann = nodes(session.next_items("ann", 5))
    for later in (200, 400):
        monkeypatch.setattr("erase.review.session.time.monotonic", lambda t=later: start + t)
        if later == 200:
            session.next_items("ann", 1, have=ann)
    assert not set(ann) & set(nodes(session.next_items("bob", 20)))


def test_the_pace_is_per_minute(session: Session) -> None:
    assert session.progress()["per_minute"] == 0
    for node in nodes(session.next_items("ann", 3)):
        session.decide("ann", [Choice(node, MINI[0], key=f"k{node}")])
    assert session.progress()["per_minute"] == 6  # three in the first half minute


def test_labels_ranked_by_an_older_audit_are_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = small_session(tmp_path)
    old, new = session.audit, planted_audit(120, MINI, noise=0.3)
    ready, started, over = threading.Event(), threading.Event(), threading.Event()

    def slow(audit: Audit, *args: Any) -> Any:
        if audit is old:
            started.set()
            assert ready.wait(10)
            over.set()
        return rank(audit, *args)

    monkeypatch.setattr(module, "rank", slow)
    session.start()
    session.next_items("ann", 1, fresh=True)
    assert started.wait(10)
    session._use(new)
    queue = session._queue
    ready.set()
    assert over.wait(10)
    time.sleep(0.1)
    assert session._queue is queue
    session.close()


def test_a_view_holds_the_neighbours_and_look_alikes(session: Session) -> None:
    audit = session.audit
    node = int(audit.issues["node"][0])
    view = session.item(node)
    around = set(audit.edge_index[1][audit.edge_index[0] == node].tolist())
    assert view["id"][0] == node
    assert around <= set(view["id"])
    assert view["degree"][0] == len(around)
    assert view["given"] == audit.given[view["id"]].tolist()
    assert sorted(view["likelyShare"], reverse=True) == view["likelyShare"]
    places = {view["id"][b] for a, b in view["edges"] if a == 0}
    assert places == around
    unit = audit.embedding / np.linalg.norm(audit.embedding, axis=1, keepdims=True)
    cosine = unit @ unit[node]
    others = [i for i in np.argsort(-cosine).tolist() if i != node and audit.given[i] >= 0][:8]
    assert [view["id"][place] for place in view["alike"]] == others
    hub = session.item(0)
    assert len(hub["id"]) <= 210
    with pytest.raises(EraseError, match="the number of a node"):
        session.item(120)


def test_confirmed_neighbours_count_as_confirmed(session: Session) -> None:
    node = next(n for n in range(1, 60) if session.audit.given[n] >= 0)
    session.decide("ann", [Choice(node, MINI[2], key="k")])
    view = session.item(0)
    place = view["id"].index(node)
    assert view["trusted"] == {place: 2}


def test_groups_hold_labels_with_one_confusion(session: Session) -> None:
    first, *rest = session.groups("ann")
    assert all(first["labels"] >= each["labels"] for each in rest)
    cards = session.group("ann", first["given"], first["suggested"], 50)
    assert len(cards) == first["labels"] > 2
    some = session.group("ann", first["given"], first["suggested"], 2)
    assert nodes(some) == nodes(cards)[:2]
    quality = [card["quality"] for card in cards]
    assert quality == sorted(quality)
    assert {(card["given"], card["suggested"]) for card in cards} == {
        (first["given"], first["suggested"])
    }
    chosen = [Choice(card["node"], MINI[first["suggested"]], key=f"k{card['node']}", batch="b")
              for card in cards]  # fmt: skip
    assert session.decide("ann", chosen) == len(cards)
    assert session.progress()["changed"] == len(cards)
    assert not session.group("ann", first["given"], first["suggested"], 50)


def test_the_audit_is_redone_in_the_background(tmp_path: Path) -> None:
    done: list[int] = []

    def again() -> Audit:
        done.append(len(running.reviews.votes()))
        if len(done) == 2:
            raise ValueError("no luck")
        return planted_audit(120, MINI, seed=0, noise=0.3)

    session = running = small_session(tmp_path, plan={"every": 3}, reaudit=again)
    session.start()
    before = session.audit
    for i, item in enumerate(session.next_items("ann", 9)):
        session.decide("ann", [Choice(item["node"], MINI[0], key=f"k{i}")])
        if i % 3 == 2:
            until(lambda i=i: session.progress()["audits"] == i // 3 + 1)  # type: ignore[misc]
            failed = session.progress()["audit_failed"]
            assert failed == ("ValueError: no luck" if i == 5 else "")
    session.close()
    assert done == [3, 6, 9]
    assert session.audit is not before
    assert session.evidence.audit is session.audit
    assert [row["decisions"] for row in session.curve()] == [0, 3, 9]


def test_labels_that_were_decided_elsewhere_are_known(session: Session, tmp_path: Path) -> None:
    other = small_session(tmp_path)  # the same file, as from Python
    (item,) = session.next_items("ann", 1)
    other.reviews.record(item["node"], MINI[1], by="eve")
    assert session.progress()["reviewed"] == 1
    assert item["node"] not in nodes(session.next_items("bob", 20))


def test_a_review_goes_on_after_a_restart(tmp_path: Path) -> None:
    """Second opinions are still wanted, and the learning curve has its first point once."""
    before = small_session(tmp_path, plan={"double_share": 0.0})
    (item,) = before.next_items("ann", 1)
    before.decide("ann", [Choice(item["node"], None, key="k")])
    after = small_session(tmp_path, plan={"double_share": 0.0})
    assert nodes(after.next_items("bob", 1)) == [item["node"]]
    assert item["node"] not in nodes(after.next_items("ann", 20))
    assert len(after.curve()) == 1


def test_label_table_and_unlabelled_nodes(session: Session) -> None:
    (item,) = session.next_items("ann", 1)
    k = (item["given"][0] + 1) % 3
    session.decide("ann", [Choice(item["node"], MINI[k], key="k")])
    table = session.label_table().set_index("node")
    row = table.loc[item["node"]]
    assert (row["label"], row["trusted"], row["changed"]) == (MINI[k], MINI[k], True)
    assert table["changed"].sum() == 1
    assert session.decision_table()["node_name"].tolist() == [item["names"][0]]
    empty = int(np.flatnonzero(session.audit.given < 0)[0])
    with pytest.raises(EraseError, match="a node with a given label"):
        session.decide("ann", [Choice(empty, MINI[0], key="x")])
