"""Reviews: nothing is lost, nothing counts twice, and the decisions come back as trusted labels."""

import os
import sqlite3
import threading
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import Data

import erase
from erase.audit.queue import random_order
from erase.errors import EraseError
from erase.review import database, store
from erase.review.database import StoreError
from erase.review.exports import export_tables
from erase.review.store import Reviews, read_reviews


@pytest.fixture
def graph() -> Data:
    return Data(
        x=torch.eye(6),
        edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]),
        y=["a", "b", "a", "b", "", "a"],
        node_ids=[f"n{i}" for i in range(6)],
    )


@pytest.fixture
def reviews(graph: Data, tmp_path: Path) -> Reviews:
    return Reviews(tmp_path / "r.sqlite", graph)


def test_a_reviewer_without_a_name_is_told(reviews: Reviews) -> None:
    reviews.record(0, "a")
    assert repr(reviews) == f"<Reviews of 1 label by an unnamed reviewer in {reviews.path}>"


def trusted(reviews: Reviews, graph: Data) -> list[str]:
    return [str(each) for each in reviews.apply(graph).trusted]


def test_decisions_are_kept_with_all_details(reviews: Reviews) -> None:
    reviews.record(0, "b", by="ann", note="see page 3", random=True, suggested="b", seconds=1.5)
    reviews.record(1, "b", by="ann")
    reviews.record(2, None, by="bob")
    table = Reviews(reviews.path).decisions  # another object, from the file
    assert table["action"].tolist() == ["suggested", "given", "unsure"]
    assert table["given"].tolist() == ["a", "b", "a"]
    first = table.iloc[0]
    assert (first["label"], first["note"], first["seconds"]) == ("b", "see page 3", 1.5)
    assert table["random"].tolist() == [True, False, False]
    assert table["reviewer"].tolist() == ["ann", "ann", "bob"]
    assert str(table["made"].dtype).endswith("UTC]")
    assert not table["undone"].any()


def test_a_decision_is_on_the_disk_when_it_is_stored(reviews: Reviews) -> None:
    """In WAL mode with FULL (2), SQLite waits for the disk at every commit."""
    pragma = reviews._connection.execute
    assert pragma("PRAGMA journal_mode").fetchone() == ("wal",)
    assert pragma("PRAGMA synchronous").fetchone() == (2,)


def test_a_request_that_is_sent_twice_counts_once(reviews: Reviews) -> None:
    for _ in range(2):
        reviews.record(0, "b", by="ann", key="one")
    reviews.record(1, "a", by="ann", key="two")
    for _ in range(2):
        assert reviews.undo("ann", key="undo") == [1]
    assert len(reviews.decisions) == 3
    assert reviews.consensus() == {0: "b"}
    assert reviews.undo("ann", key="und_") == [0]  # another key, not a pattern


def test_undo_goes_back_step_by_step_and_batch_by_batch(reviews: Reviews) -> None:
    reviews.record(0, "a", by="ann")
    reviews.record(0, "b", by="ann")
    batch = [store.Choice(node, "b", batch="x") for node in (2, 5)]
    assert reviews.record_all(batch, by="ann") == 2
    reviews.record(3, "b", by="bob")  # somebody else's is left alone
    assert reviews.undo("ann") == [2, 5]
    assert reviews.consensus() == {0: "b", 3: "b"}
    assert reviews.undo("ann") == [0]
    assert reviews.consensus() == {0: "a", 3: "b"}
    assert reviews.undo("ann") == [0]
    assert reviews.undo("ann") == []
    assert reviews.consensus() == {3: "b"}
    assert Reviews(reviews.path).consensus() == {3: "b"}  # as counted from the file


def test_undo_of_a_batch_leaves_what_was_undone_before(reviews: Reviews) -> None:
    """Also where a later batch has the same name."""
    for nodes in ([2, 5], [3]):
        reviews.record_all([store.Choice(node, "b", batch="x") for node in nodes], by="ann")
        assert reviews.undo("ann") == nodes
    assert reviews.decisions["undoes"].dropna().is_unique


def test_the_first_label_that_was_shown_is_the_given_one(reviews: Reviews) -> None:
    """A second reviewer saw the table after it was corrected."""
    reviews.record(0, "b", by="ann", given="a")
    reviews.record(0, "b", by="bob", given="b")
    now = np.array([1, 1, 0, 1, -1, 0])
    assert reviews.first_given(now, ("a", "b")).tolist() == [0, 1, 0, 1, -1, 0]


def test_the_majority_decides_and_a_tie_stays_open(reviews: Reviews, graph: Data) -> None:
    for by, label in (("ann", "a"), ("bob", "b"), ("eve", None)):
        reviews.record(0, label, by=by)
    assert reviews.disagreements() == [0]
    assert trusted(reviews, graph)[0] == ""
    reviews.record(0, "b", by="cy")
    assert reviews.disagreements() == []
    assert trusted(reviews, graph)[0] == "b"
    reviews.record(0, "a", by="bob")  # the latest decision of a reviewer counts
    reviews.record(0, "a", by="cy")
    assert reviews.consensus() == {0: "a"}


def test_agreement_is_cohens_kappa(reviews: Reviews) -> None:
    """Of 4 labels 3 agree; by chance 1/2 · 3/4 + 1/2 · 1/4 = 1/2: κ = (3/4 − 1/2) / (1/2)."""
    for node, one, other in ((0, "a", "a"), (1, "a", "a"), (2, "b", "b"), (3, "b", "a")):
        reviews.record(node, one, by="ann")
        reviews.record(node, other, by="bob")
    reviews.record(5, "a", by="ann")
    ((_, row),) = reviews.agreement().iterrows()
    assert (row["first"], row["second"], row["nodes"]) == ("ann", "bob", 4)
    assert (row["agree"], row["kappa"]) == (0.75, pytest.approx(0.5))


def test_rows_are_never_changed_or_deleted(reviews: Reviews) -> None:
    reviews.record(0, "b")
    connection = sqlite3.connect(reviews.path)
    for statement in ("UPDATE decisions SET label = 'a'", "DELETE FROM decisions"):
        with pytest.raises(sqlite3.IntegrityError, match="never"):
            connection.execute(statement)
    connection.close()


def test_every_kind_of_graph_gets_its_trusted_labels(reviews: Reviews, graph: Data) -> None:
    reviews.record(0, "b")
    reviews.record(1, "b")
    assert trusted(reviews, graph) == ["b", "b", "", "", "", ""]
    assert "trusted" not in graph
    numbers = graph.clone()
    numbers.y, numbers.class_names = torch.tensor([0, 1, 0, 1, -1, 0]), ["a", "b"]
    assert reviews.apply(numbers).trusted.tolist() == [1, 1, -1, -1, -1, -1]
    nodes = pd.DataFrame({"id": graph.node_ids, "label": graph.y, "x": range(6)})
    edges = pd.DataFrame({"source": ["n0"], "target": ["n1"]})
    table, _ = reviews.apply((nodes, edges))
    assert table["trusted"].tolist() == ["b", "b", "", "", "", ""]
    assert "trusted" not in nodes
    drawn = networkx.path_graph(6)
    for i, label in enumerate(graph.y):
        drawn.nodes[i].update({"label": label} if label else {}, x=float(i))
    result = reviews.apply(drawn)
    assert [result.nodes[i].get("trusted") for i in range(3)] == ["b", "b", None]


def test_the_first_part_of_the_random_order_is_a_random_sample(
    reviews: Reviews, graph: Data
) -> None:
    labelled = np.array([True, True, True, True, False, True])
    order = random_order(labelled, 0).tolist()
    assert sorted(order) == [0, 1, 2, 3, 5]
    reviews.record(order[0], "a")  # by another strategy: it is in the first part all the same
    reviews.record(order[1], None, random=True)  # unsure is an answer, but no label
    reviews.record(order[3], "b")
    assert reviews.apply(graph).trusted_random.nonzero().flatten().tolist() == [order[0]]
    reviews.record(order[2], "a", random=True)
    expected = sorted([order[0], order[2], order[3]])
    assert reviews.apply(graph).trusted_random.nonzero().flatten().tolist() == expected


def test_the_order_of_the_review_is_known(reviews: Reviews) -> None:
    """Where a node was reviewed first counts; one that was drawn stays drawn after an undo."""
    reviews.record(3, "b", by="ann", random=True)
    reviews.undo("ann")
    reviews.record(1, "b", by="ann")
    reviews.record(3, "b", by="ann")
    reviews.record(1, "a", by="bob")
    reviews.record(2, None, by="bob", random=True)
    reviews.record(0, "a", by="bob")
    reviews.undo("bob")
    assert reviews.order() == [(1, False), (3, True), (2, True)]


def test_another_graph_is_refused(reviews: Reviews, graph: Data, tmp_path: Path) -> None:
    reviews.record(0, "b")
    corrected = graph.clone()
    corrected.y = ["b", "b", "a", "b", "", "a"]  # what was decided has been written back
    assert trusted(reviews, corrected)[0] == "b"
    Reviews(reviews.path, corrected).close()
    other = graph.clone()
    other.y = ["c", "b", "a", "b", "", "a"]
    with pytest.raises(EraseError, match="node 0 is labelled 'c'"):
        reviews.apply(other)
    with pytest.raises(EraseError, match="other classes"):
        Reviews(reviews.path, other)
    reviews.record(1, "b")
    swapped = graph.clone()
    swapped.y = ["a", "a", "a", "b", "", "a"]  # the same classes, and nobody chose this one
    with pytest.raises(EraseError, match="node 1 is labelled 'a'"):
        Reviews(reviews.path, swapped)
    smaller = Data(x=torch.eye(2), edge_index=graph.edge_index[:, :1], y=["a", "b"])
    with pytest.raises(EraseError, match="with 6 nodes; got one with 2"):
        reviews.apply(smaller)


def test_a_class_that_the_corrections_have_emptied_may_be_missing(
    reviews: Reviews, graph: Data
) -> None:
    reviews.record(1, "a", by="ann")
    reviews.record(3, "a", by="ann", random=True)
    corrected = graph.clone()
    corrected.y = ["a", "a", "a", "a", "", "a"]  # nobody is labelled "b" any more
    with Reviews(reviews.path, corrected) as again:
        assert again.class_names == ("a",)
        again.record(0, "a", by="bob")
        given = np.array([0, 0, 0, 0, -1, 0])
        assert again.first_given(given, ("a",)).tolist() == [0, 1, 0, 1, -1, 0]
        assert not np.asarray(again.apply(corrected).trusted_random).any()
    with Reviews(reviews.path, graph) as again:  # the table before
        assert again.class_names == ("a", "b")
        assert again.decisions["given"].tolist() == ["b", "b", "a"]
        assert np.flatnonzero(again.apply(graph).trusted_random).tolist() == [3]


def test_the_same_numbers_of_other_classes_are_another_graph(reviews: Reviews, graph: Data) -> None:
    reviews.record(0, "a")
    other = graph.clone()
    other.y, other.class_names = [0, 1, 0, 1, -1, 0], ["b", "a"]
    with pytest.raises(EraseError, match="node 0 is labelled 'b'"):
        Reviews(reviews.path, other)


@pytest.mark.parametrize("kind", ["decisions.csv", "labels.csv"])
def test_an_exported_table_marks_the_same_random_sample(kind: str, tmp_path: Path) -> None:
    """Also where the random order has another seed than the usual one."""
    graph = Data(x=torch.eye(40), edge_index=torch.tensor([[0], [1]]), y=["a", "b"] * 20)
    with Reviews(tmp_path / "r.sqlite", graph) as reviews:
        reviews.start_order(5)
        order = random_order(np.ones(40, dtype=bool), 5).tolist()
        for node in (order[1], order[7], order[20]):
            reviews.record(node, "a")
        for node in (order[0], order[2], order[3]):
            reviews.record(node, "b", random=True)
        export_tables(reviews, graph, tmp_path / kind)
        wanted = np.flatnonzero(reviews.apply(graph).trusted_random).tolist()
        assert wanted == sorted(order[:4])
    with read_reviews(tmp_path / kind) as read:
        assert np.flatnonzero(read.apply(graph).trusted_random).tolist() == wanted


@pytest.mark.parametrize(
    ("node", "label", "words"), [(6, "a", "a node from 0 to 5"), (0, "c", "Classes: a, b")]
)
def test_what_the_graph_does_not_have_is_refused(
    node: int, label: str, words: str, reviews: Reviews
) -> None:
    with pytest.raises(EraseError, match=words):
        reviews.record(node, label)
    assert reviews.decisions.empty


_ODD_CHOICES: list[dict[str, Any]] = [
    {"node": "0"},
    {"node": 0.5},
    {"node": True},
    {"node": 2**70},
    {"label": 1},
    {"note": None},
    {"by": 7},
    {"seconds": float("nan")},
    {"key": b"x"},
]


@pytest.mark.parametrize("odd", _ODD_CHOICES, ids=str)
def test_odd_types_are_refused(odd: dict[str, Any], reviews: Reviews) -> None:
    with pytest.raises(EraseError):
        reviews.record(**{"node": 0, "label": "b", **odd})
    assert reviews.decisions.empty


def test_numpy_numbers_and_odd_text_are_stored(reviews: Reviews) -> None:
    number: Any = np.int64(2)
    reviews.record(number, "b", note="caf\udce9", by="\udcff")
    row = reviews.decisions.iloc[0]
    assert (row["node"], row["note"], row["reviewer"]) == (2, "caf\\udce9", "\\udcff")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("UPDATE meta SET value = 'many' WHERE name = 'nodes'", "an impossible number"),
        ("INSERT INTO meta VALUES ('seed', '-1')", "an impossible number"),
        ("DROP TABLE estimates", "other tables"),
        (
            "CREATE TRIGGER more AFTER INSERT ON decisions BEGIN DELETE FROM meta; END",
            "other tables",
        ),
        ("UPDATE decisions SET node = 'first'", "decision, number 1"),
        ("UPDATE decisions SET node = -3 WHERE id = 2", "decision, number 2"),
        ("UPDATE decisions SET label = x'ff'", "decision, number 1"),
        ("UPDATE decisions SET made = 'yesterday'", "decision, number 1"),
        ("UPDATE decisions SET random = 'no'", "decision, number 1"),
        ("", "malformed|damaged|none"),  # bytes of the file
    ],
)
def test_a_damaged_database_is_refused(damage: str, message: str, reviews: Reviews) -> None:
    for node in range(4):
        reviews.record(node, "b", note="long " * 500)
    reviews.close()
    if damage:
        connection = sqlite3.connect(reviews.path)
        (guard,) = connection.execute(
            "SELECT sql FROM sqlite_master WHERE name = 'decisions_stay'"
        ).fetchone()
        connection.execute("DROP TRIGGER decisions_stay")
        connection.execute(damage)
        connection.execute(guard)
        connection.commit()
        connection.close()
    else:
        content = bytearray(reviews.path.read_bytes())
        content[len(content) // 2 :: 50] = b"\xff" * len(content[len(content) // 2 :: 50])
        reviews.path.write_bytes(content)
    with pytest.raises(EraseError, match=message):
        Reviews(reviews.path)


def test_a_schema_that_is_no_utf8_is_refused(reviews: Reviews) -> None:
    """SQLite quotes it in its message, which Python cannot read then."""
    reviews.close()
    content = reviews.path.read_bytes()
    broken = content.replace(b"CREATE TABLE", b"CREATE TABLX").replace(b"meta", b"met\xff")
    reviews.path.write_bytes(broken)
    with pytest.raises(EraseError, match="a database of `erase review`"):
        Reviews(reviews.path)


@pytest.mark.parametrize(
    "rows",
    [
        "first,ann,given,a",  # no number
        "99999999999999999999,ann,given,a",
        "1,ann,dances,a",
        "1,ann,given,a,b,c,d",  # more fields than columns
        '1,ann,given,"a',  # a quote that is not closed
        "1,ann,given,\udcff",
    ],
)
def test_a_damaged_table_of_decisions_is_refused(rows: str, tmp_path: Path) -> None:
    path = tmp_path / "decisions.csv"
    text = f"node,reviewer,action,label\n0,ann,given,a\n{rows}\n"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(EraseError, match="decisions"):
        read_reviews(path)


@pytest.mark.parametrize("made", ["1e3", "now", "12:00", "2026-13-01", "2026-02-31", "0000-01-01x"])
def test_a_decision_at_an_impossible_time_is_refused(made: str, tmp_path: Path) -> None:
    """SQLite takes 1e3 for a Julian day, and has a 31st of February."""
    path = tmp_path / "decisions.csv"
    path.write_text(f"id,key,node,reviewer,action,label,made\n1,k,0,ann,given,a,{made}\n")
    with pytest.raises(EraseError, match=r"an impossible (time|decision)"):
        read_reviews(path)


@pytest.mark.parametrize(
    "made", ["", "2026-11-19T05:00:00.000+00:00", "2026-11-19", "2026-11-19 05:00Z"]
)
def test_a_decision_may_have_any_iso_time_or_none(made: str, tmp_path: Path) -> None:
    path = tmp_path / "decisions.csv"
    path.write_text(f"id,key,node,reviewer,action,label,made\n1,k,0,ann,given,a,{made}\n")
    (time,) = read_reviews(path).decisions["made"]
    assert pd.isna(time) == (made == "")


def test_a_full_disk_is_an_error_of_ours(reviews: Reviews) -> None:
    reviews.record(0, "b")
    (pages,) = reviews._connection.execute("PRAGMA page_count").fetchone()
    reviews._connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(EraseError, match="full"):
        reviews.record(1, "b", note="long " * 4000)
    assert reviews.consensus() == {0: "b"}


def test_nothing_is_stored_in_a_file_that_is_no_longer_there(reviews: Reviews) -> None:
    """A decision in a file that was moved or deleted would be lost when the process ends."""
    reviews.record(0, "b", by="ann")
    moved = reviews.path.rename(reviews.path.with_name("moved.sqlite"))
    for _ in range(2):
        with pytest.raises(StoreError, match="moved, deleted or replaced meanwhile"):
            reviews.record(1, "b", by="ann")
        reviews.path.write_bytes(b"another file")
    with pytest.raises(StoreError, match="moved, deleted or replaced"):
        reviews.undo("ann")
    assert list(reviews.votes()) == [0]
    moved.rename(reviews.path)
    reviews.record(1, "b", by="ann")
    assert list(reviews.votes()) == [0, 1]


def test_what_is_no_seed_is_not_kept(reviews: Reviews) -> None:
    with pytest.raises(EraseError, match="a seed"):
        reviews.start_order(-1)
    reviews.start_order(3)
    assert reviews.seed == 3


def test_other_files_are_refused(tmp_path: Path) -> None:
    text, other = tmp_path / "notes.txt", tmp_path / "other.sqlite"
    text.write_text("not a database, " * 100)
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE t (x)")
    connection.close()
    for path in (text, other):
        with pytest.raises(EraseError, match="which is none"):
            Reviews(path)
    with pytest.raises(EraseError, match="which is a folder, a device or a pipe"):
        Reviews(tmp_path)  # a folder
    os.mkfifo(tmp_path / "pipe.sqlite")
    with pytest.raises(EraseError, match="which is a folder, a device or a pipe"):
        Reviews(tmp_path / "pipe.sqlite")
    with pytest.raises(EraseError, match="which is no file"):
        read_reviews(tmp_path / "missing.sqlite")
    table = tmp_path / "table.csv"
    table.write_text("x,y\n1,2\n")
    with pytest.raises(EraseError, match="with the columns x, y"):
        Reviews(table)


def test_a_store_that_nobody_closes_is_closed_when_it_is_dropped(tmp_path: Path) -> None:
    connection = Reviews(tmp_path / "r.sqlite")._connection
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")


def test_old_databases_are_brought_up_to_date_and_newer_ones_refused(
    reviews: Reviews, monkeypatch: pytest.MonkeyPatch
) -> None:
    reviews.record(0, "b")
    reviews.close()
    step = "CREATE TABLE later (x);\nINSERT INTO later VALUES (7);\n"
    monkeypatch.setattr(database, "MIGRATIONS", (*database.MIGRATIONS, step))
    with Reviews(reviews.path) as newer:
        assert newer.consensus() == {0: "b"}
    connection = sqlite3.connect(reviews.path)
    assert connection.execute("SELECT x FROM later").fetchall() == [(7,)]
    assert connection.execute("PRAGMA user_version").fetchone() == (2,)
    connection.close()
    monkeypatch.undo()
    with pytest.raises(EraseError, match=r"version 1 or older; got .* of version 2"):
        Reviews(reviews.path)


def test_exported_tables_are_read_back(reviews: Reviews, graph: Data, tmp_path: Path) -> None:
    reviews.record(0, "b", by="ann", random=True)
    reviews.record(1, "a", by="ann")
    reviews.undo("ann")
    reviews.record(2, "a", by="bob")
    decisions = tmp_path / "decisions.csv"
    reviews.decisions.to_csv(decisions, index=False)
    again = read_reviews(decisions)
    assert again.consensus() == reviews.consensus() == {0: "b", 2: "a"}
    pd.testing.assert_frame_equal(again.decisions, reviews.decisions, check_dtype=False)
    labels = tmp_path / "labels.csv"
    rows = {
        "node": [0, 2],
        "was": ["a", "a"],
        "trusted": ["b", ""],
        "trusted_random": [True, False],
    }
    pd.DataFrame(rows).to_csv(labels, index=False)
    applied = read_reviews(labels).apply(graph)
    assert list(applied.trusted) == ["b", "", "", "", "", ""]
    assert applied.trusted_random.tolist()[0] is True


def test_one_file_serves_many_threads_and_processes(reviews: Reviews) -> None:
    """Every decision of four threads with two connections is there, and both know all of them."""
    other = Reviews(reviews.path)

    def work(name: str, mine: Reviews) -> None:
        for i in range(25):
            mine.record(i % 6, "ab"[i % 2], by=name)

    threads = [
        threading.Thread(target=work, args=(f"r{i}", (reviews, other)[i % 2])) for i in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(reviews.decisions) == 100
    assert reviews.votes() == other.votes()
    assert len(reviews.votes()[0]) == 4


def test_a_database_has_one_random_order(reviews: Reviews) -> None:
    assert reviews.seed == 0
    reviews.start_order(3)
    reviews.start_order(4)
    assert Reviews(reviews.path).seed == 3


def test_it_is_public() -> None:
    assert erase.Reviews is Reviews
