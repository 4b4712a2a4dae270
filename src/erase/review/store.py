"""Reviews: the decisions of reviewers in one SQLite file.

Decisions are appended, never changed: an undo is a row of its own. The database is in WAL mode with
``synchronous=FULL``, so a decision that was acknowledged survives a crash of the process and of the
machine.
"""

import math
import threading
import uuid
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.metrics import cohen_kappa_score

from erase.audit.queue import random_sample
from erase.bench.records import locked
from erase.data.fields import well_formed
from erase.data.files import StrPath
from erase.data.kinds import Graph, graph_data, with_trusted
from erase.data.labels import encode_labels
from erase.data.parts import output_path
from erase.data.splits import read_splits
from erase.display import count_of
from erase.errors import EraseError
from erase.random import numpy_stream
from erase.review.database import (
    DECISION,
    LAST_NODE,
    StoreError,
    check_contents,
    connect,
    database_errors,
    import_table,
    now,
    times_of,
)


@dataclass(frozen=True)
class Choice:
    """What a reviewer decided about one node.

    Attributes:
        node: its number.
        label: the class name; None where the reviewer is unsure.
        given: the given label's class name, as it was shown.
        suggested: the suggested class name, as it was shown.
        note: a remark.
        random: whether the node was drawn at random.
        seconds: how long it took.
        key: unique; a second choice with the same key is ignored.
        batch: the same for choices that are undone together.
    """

    node: int
    label: str | None
    given: str | None = None
    suggested: str | None = None
    note: str = ""
    random: bool = False
    seconds: float | None = None
    key: str = ""
    batch: str | None = None

    @property
    def action(self) -> str:
        """What was done: "given", "suggested", "other" or "unsure"."""
        if self.label is None:
            return "unsure"
        if self.label == self.given:
            return "given"
        return "suggested" if self.label == self.suggested else "other"


class Reviews:
    """Decisions about labels, kept in a file: who decided what, when and why.

    A reviewer's latest decision on a node counts. A node is trusted where more than half of the
    reviewers who chose a class for it chose the same one; a tie stays untrusted until somebody
    settles it. Several threads may use one object, and several processes one file.

    Args:
        path: the database, made where it is missing; or a CSV file of decisions or labels that
            ``erase review`` exported, which is read only.
        graph: of any kind that ``NodeTask.of`` takes. A new database is bound to it; one that was
            made for another graph is refused. Without a graph, decisions can be read and applied.
    """

    def __init__(self, path: StrPath, graph: Any = None) -> None:
        self.path = output_path(path)
        if self.path.exists() and not self.path.is_file():
            raise EraseError(
                "a file of decisions",
                f"{str(path)!r}, which is a folder, a device or a pipe",
                "Check the path.",
            )
        self._lock = threading.RLock()
        self._version = -1
        self._given = np.empty(0, dtype=np.int64)  # of the graph, where there is one
        self._class_names: tuple[str, ...] = ()
        self._votes: dict[int, dict[str, str | None]] = {}
        self._is_table = self.path.suffix.lower() == ".csv"
        if not self._is_table:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        self._connection = connect(":memory:" if self._is_table else self.path)
        self._close = weakref.finalize(self, self._connection.close)  # where nobody calls close
        self._file = self._file_now()
        try:
            with database_errors(self.path):
                if self._is_table:
                    import_table(self._connection, self.path)
                check_contents(self._connection, self.path)
            if graph is not None:
                self._bind(graph)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        """Return the store; leaving the block closes it."""
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        """Return how much was decided, in a line."""
        names = ", ".join(name or "an unnamed reviewer" for name in self.reviewers) or "nobody"
        return f"<Reviews of {count_of(len(self.votes()), 'label')} by {names} in {self.path}>"

    def close(self) -> None:
        """Close the file; a store that is no longer used closes it by itself."""
        self._close()

    def serve_alone(self) -> AbstractContextManager[None]:
        """Return a context that one server at a time can enter; the others get an EraseError.

        The operating system lets go of it when the process ends, however that happens.
        """
        refusal = EraseError(
            "a review database that no other server uses",
            f"{str(self.path)!r}, which one does",
            "Use the page of that server, stop it, or choose another file with --db.",
        )
        return locked(self.path, refusal)

    @property
    def decisions(self) -> pd.DataFrame:
        """Every decision in order: ``id``, ``node``, ``reviewer``, ``made`` (UTC), ``action``,
        ``label`` (class name; None where unsure), ``given``, ``suggested``, ``note``, ``random``,
        ``seconds``, ``batch``, ``undoes`` (the id of the decision that an undo takes back),
        ``undone`` and ``key``.
        """
        query = f"SELECT id, {DECISION} FROM decisions ORDER BY id"
        with self._lock:
            cursor = self._connection.execute(query)
            columns = [each[0] for each in cursor.description]
            table = pd.DataFrame(cursor.fetchall(), columns=columns)
        table["made"] = times_of(table["made"].tolist())
        table["random"] = table["random"].astype(bool)
        table["undoes"] = table["undoes"].astype("Int64")
        table["undone"] = table["id"].isin(table["undoes"].dropna())
        key = table.pop("key")
        return table.assign(key=key)

    @property
    def reviewers(self) -> list[str]:
        """Who has decided, by name."""
        with self._lock:
            rows = self._connection.execute("SELECT DISTINCT reviewer FROM decisions ORDER BY 1")
            return [name for (name,) in rows]

    @property
    def class_names(self) -> tuple[str, ...]:
        """The classes of the graph the database is bound to; empty where it is bound to none."""
        if self._class_names:
            return self._class_names
        names = self._meta("class_names")
        return tuple(names.split("\0")) if names else ()

    def record(
        self,
        node: int,
        label: str | None,
        *,
        by: str = "",
        note: str = "",
        random: bool = False,
        given: str | None = None,
        suggested: str | None = None,
        seconds: float | None = None,
        key: str = "",
    ) -> None:
        """Store a decision.

        Args:
            node: its number.
            label: the class name that is right; None where the reviewer is unsure.
            by: the reviewer.
            note: a remark.
            random: whether the node was drawn at random from all labelled nodes.
            given: the given label; by default that of the graph the database is bound to.
            suggested: the label that was suggested.
            seconds: how long it took.
            key: a unique text; a second decision with the same key is ignored.
        """
        choice = Choice(node, label, given, suggested, note, random, seconds, key)
        self.record_all([choice], by=by)

    def record_all(self, choices: Sequence[Choice], *, by: str = "") -> int:
        """Store decisions, all or none; return how many of them were new."""
        rows, made, by = [], now(), _as_text(by, "by")
        for choice in map(self._with_given, map(_checked, choices)):
            self._check_choice(choice)
            key = choice.key or uuid.uuid4().hex
            shown = (choice.action, choice.given, choice.suggested, choice.label, choice.note)
            rest = (choice.random, choice.seconds, choice.batch, None)
            rows.append((key, choice.node, by, made, *shown, *rest))
        with self._transaction():
            self._refresh()
            new = self._insert(rows)
            self._recount({choice.node for choice in choices}, by)
        return new

    def undo(self, by: str = "", key: str = "") -> list[int]:
        """Take back the latest decision of a reviewer, or the latest batch; return its nodes.

        Args:
            by: the reviewer.
            key: a unique text; a second undo with the same key takes nothing else back.
        """
        by, key = _as_text(by, "by"), _as_text(key, "key") or uuid.uuid4().hex
        made = now()
        with self._transaction():
            self._refresh()
            before = self._connection.execute(
                "SELECT node FROM decisions WHERE key = ? OR key LIKE ? ESCAPE '!'",
                (f"{key}:0", f"{_escaped(key)}:%"),
            ).fetchall()
            if before:
                return [node for (node,) in before]
            last = self._connection.execute(
                f"SELECT id, node, batch FROM decisions WHERE reviewer = ? AND {_IS_STANDING} "
                "ORDER BY id DESC LIMIT 1",
                (by,),
            ).fetchone()
            if last is None:
                return []
            taken = [last[:2]]
            if last[2] is not None:
                taken = self._connection.execute(
                    f"SELECT id, node FROM decisions WHERE reviewer = ? AND batch = ? "
                    f"AND {_IS_STANDING} ORDER BY id",
                    (by, last[2]),
                ).fetchall()
            self._insert(
                (f"{key}:{i}", node, by, made, "undo", None, None, None, "", 0, None, None, id)
                for i, (id, node) in enumerate(taken)
            )
            nodes = [node for _, node in taken]
            self._recount(set(nodes), by)
        return nodes

    def votes(self) -> dict[int, dict[str, str | None]]:
        """Return the latest decision of every reviewer by node: a class name, None where unsure.

        It is not a copy: other threads may add to it.
        """
        with self._lock:
            self._refresh()
            return self._votes

    def by_reviewer(self) -> dict[str, int]:
        """Return on how many nodes each reviewer has a decision."""
        with self._lock:
            return dict(Counter(by for votes in self.votes().values() for by in votes))

    def consensus(self) -> dict[int, str]:
        """Return, by node, the class that more than half of those who chose one agree on."""
        with self._lock:
            settled = ((node, majority(votes)) for node, votes in self.votes().items())
            return {node: label for node, label in settled if label is not None}

    def disagreements(self) -> list[int]:
        """Return the nodes on which reviewers chose different classes and none has a majority."""
        with self._lock:
            return sorted(
                node
                for node, votes in self.votes().items()
                if len(set(votes.values()) - {None}) > 1 and majority(votes) is None
            )

    def agreement(self) -> pd.DataFrame:
        """Return how well reviewers agree, a row per pair that decided on a node both.

        Columns: ``first``, ``second``, ``nodes`` (on which both chose a class), ``agree`` (the
        share with the same class) and ``kappa`` (Cohen's κ: agreement beyond chance, 1 for perfect;
        NaN where both chose one and the same class throughout).
        """
        pairs: dict[tuple[str, str], list[tuple[str, str]]] = {}
        with self._lock:
            for votes in self.votes().values():
                known = {by: label for by, label in votes.items() if label is not None}
                for first, second in combinations(sorted(known), 2):
                    pairs.setdefault((first, second), []).append((known[first], known[second]))
        rows = []
        for (first, second), chosen in sorted(pairs.items()):
            one, other = zip(*chosen, strict=True)
            agree = float(np.mean([a == b for a, b in chosen]))
            varied = len({*one, *other}) > 1
            kappa = float(cohen_kappa_score(one, other)) if varied else float("nan")
            rows.append((first, second, len(chosen), agree, kappa))
        return pd.DataFrame(rows, columns=["first", "second", "nodes", "agree", "kappa"])

    def apply(self, graph: Graph) -> Graph:
        """Return a copy of `graph`, of the same kind, with ``trusted`` and ``trusted_random``.

        The given labels stay as they are. ``trusted`` holds the class on which the reviewers agree.
        ``trusted_random`` marks those that are a random sample of the labelled nodes: drawn at
        random, or in the first part of the random order, which is reviewed as a whole. It marks
        none where one of these labels has been corrected in `graph` since: the sample then says
        nothing about the other labels.

        Args:
            graph: the one that was reviewed, of any kind that ``NodeTask.of`` takes. Its labels may
                have been corrected since.
        """
        trusted, random = self.trusted_of(graph)
        _, class_names, values = encode_labels(graph_data(graph))
        return with_trusted(graph, trusted, random, class_names, values)

    def trusted_of(self, graph: Any) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return `trusted` [N], -1 where nobody settled, and `trusted_random` [N] of a graph.

        Raises an EraseError where the decisions are about another graph.
        """
        data = graph_data(graph)
        y, class_names, _ = encode_labels(data)
        splits = read_splits(data, y)
        self.check_graph(y.numpy(), class_names)
        labelled = ((y >= 0) & (splits.train | splits.val)).numpy()
        trusted, random = self.trusted(class_names, labelled)
        given = np.where(labelled, y.numpy(), -1)
        if (self.first_given(given, class_names) != given)[random].any():
            random[:] = False
        return trusted, random

    def trusted(
        self, class_names: Sequence[str], labelled: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return `trusted` [N], -1 where nobody settled, and `trusted_random` [N].

        Args:
            class_names: K names.
            labelled: [N] which labels are up for review.
        """
        with self._lock:
            number = {name: k for k, name in enumerate(class_names)}
            trusted = np.full(len(labelled), -1)
            for node, label in self.consensus().items():
                trusted[node] = number[label]
            random = np.zeros(len(labelled), dtype=bool)
            random[self.drawn_at_random(labelled)] = True
        return trusted, random & (trusted >= 0)

    def first_given(
        self, given: NDArray[np.int64], class_names: Sequence[str]
    ) -> NDArray[np.int64]:
        """Return the labels [N] as they were when each was first reviewed.

        They differ from `given` where a table has been corrected since. A class that is no longer
        in the graph has the number K.

        Args:
            given: [N] the labels of the graph now, -1 where there is none.
            class_names: K names.
        """
        number = {name: k for k, name in enumerate(class_names)}
        query = (
            f"SELECT node, given, min(id) FROM decisions WHERE {_IS_STANDING} "
            "AND given IS NOT NULL GROUP BY node"
        )
        first = given.copy()
        with self._lock:
            for node, name, _ in self._connection.execute(query):
                if first[node] >= 0:
                    first[node] = number.get(name, len(number))
        return first

    def drawn_at_random(self, labelled: NDArray[np.bool_]) -> list[int]:
        """Return the reviewed nodes that are a random sample of the `labelled` ones [N]."""
        with self._lock:
            votes = self.votes()
            flagged = {node for node, is_random in self.order() if is_random}
            if self._has_order:
                reviewed = np.zeros(len(labelled), dtype=bool)
                reviewed[list(votes)] = True
                flagged.update(random_sample(labelled, reviewed, self.seed).tolist())
        return sorted(flagged)

    def order(self) -> list[tuple[int, bool]]:
        """Return the reviewed nodes, the first one first, and which were drawn at random."""
        query = (
            "SELECT node, (SELECT max(random) FROM decisions d WHERE d.node = decisions.node) "
            f"FROM decisions WHERE {_IS_STANDING} GROUP BY node ORDER BY min(id)"
        )
        with self._lock:
            return [(node, bool(drawn)) for node, drawn in self._connection.execute(query)]

    def was_random(self, node: int) -> bool:
        """Say whether a decision on this node, undone or not, was on a random draw."""
        with self._lock:
            query = "SELECT max(random) FROM decisions WHERE node = ?"
            return bool(self._connection.execute(query, (node,)).fetchone()[0])

    @property
    def seed(self) -> int:
        """The seed of the order in which random items are drawn."""
        return int(self._meta("seed") or 0)

    @property
    def _has_order(self) -> bool:
        """Whether the random order is known; a table of labels does not say it."""
        return not self._is_table or self._meta("seed") is not None

    def start_order(self, seed: int) -> None:
        """Set the seed of that order, unless it is set: one database has one order.

        Needed before decisions on labels of ``next_to_review`` with a seed other than 0.
        """
        if self._meta("seed") is None:
            numpy_stream(seed, "review order")  # refuses what is no seed before it is kept
            self._set_meta(seed=str(seed))

    def add_estimate(self, decisions: int, found: int, *numbers: float) -> None:
        """Store a point of the learning curve: wrong share and errors left, with intervals."""
        with self._transaction():
            marks = ", ".join("?" * (3 + len(numbers)))
            row = (decisions, now(), found, *numbers)
            self._connection.execute(f"INSERT INTO estimates VALUES ({marks})", row)

    def estimates(self) -> pd.DataFrame:
        """Return the learning curve: a row per audit."""
        with self._lock:
            cursor = self._connection.execute("SELECT * FROM estimates ORDER BY rowid")
            return pd.DataFrame(cursor.fetchall(), columns=[each[0] for each in cursor.description])

    def _bind(self, graph: Any) -> None:
        """Remember the graph, or refuse it where the decisions are about another."""
        data = graph_data(graph)
        y, class_names, _ = encode_labels(data)
        splits = read_splits(data, y)
        given = np.where((splits.train | splits.val).numpy(), y.numpy(), -1)
        digest = sha256(np.ascontiguousarray(given).tobytes()).hexdigest()
        if self._meta("nodes") is None:
            names = "\0".join(class_names)
            self._set_meta(nodes=str(len(given)), class_names=names, labels_sha256=digest)
        elif not self._knows(class_names):
            raise EraseError(
                f"the graph that {str(self.path)!r} was made for",
                "one with other classes",
                "Check the path, or choose another file with --db.",
            )
        elif digest != self._meta("labels_sha256") or class_names != self.class_names:
            self.check_graph(given, class_names)
        self._given, self._class_names = given, tuple(class_names)

    def _knows(self, class_names: Sequence[str]) -> bool:
        """Say whether these are the classes of the graph; corrections may have emptied some."""
        if not self._connection.execute("SELECT 1 FROM decisions LIMIT 1").fetchone():
            return tuple(class_names) == self.class_names
        return set(class_names) <= set(self.class_names)

    def check_graph(self, given: NDArray[np.int64], class_names: Sequence[str]) -> None:
        """Refuse a graph on which the decisions cannot have been made."""
        wanted = self._meta("nodes")
        if wanted is not None and int(wanted) != len(given):
            raise EraseError(
                f"the graph of the reviews, with {wanted} nodes",
                f"one with {len(given)}",
                "Check that the reviews and the graph belong together.",
            )
        columns = "node, given, label"
        query = f"SELECT {columns} FROM decisions WHERE action != 'undo' ORDER BY id"
        names = [*class_names, None]
        shown: dict[int, set[str | None]] = {}
        for node, was, label in self._connection.execute(query):
            shown.setdefault(node, set()).update((was, label))
            if not 0 <= node < len(given) or (label is not None and label not in names):
                shown[node] = set()
        for node, known in shown.items():
            now = names[given[node]] if 0 <= node < len(given) else None
            if not known or (now is not None and known - {None} and now not in known):
                raise EraseError(
                    f"the graph of the reviews in {str(self.path)!r}",
                    f"one where node {node} is labelled {now!r}",
                    "Check that the reviews and the graph belong together.",
                )

    def _with_given(self, choice: Choice) -> Choice:
        if choice.given is not None or not 0 <= choice.node < len(self._given):
            return choice
        k = int(self._given[choice.node])
        return replace(choice, given=self.class_names[k]) if k >= 0 else choice

    def _check_choice(self, choice: Choice) -> None:
        nodes, names = self._meta("nodes"), self.class_names
        last = LAST_NODE if nodes is None else int(nodes) - 1
        if not 0 <= choice.node <= last:
            raise EraseError(f"a node from 0 to {last}", f"{choice.node}", "Correct the number.")
        if choice.label is not None and names and choice.label not in names:
            raise EraseError(
                "the name of a class of the graph",
                f"{choice.label!r}",
                f"Classes: {', '.join(names[:20])}{', …' if len(names) > 20 else ''}.",
            )

    def _meta(self, name: str) -> str | None:
        with self._lock:
            query = "SELECT value FROM meta WHERE name = ?"
            row = self._connection.execute(query, (name,)).fetchone()
        return None if row is None else str(row[0])

    def _set_meta(self, **values: str) -> None:
        with self._transaction():
            query = "INSERT OR REPLACE INTO meta VALUES (?, ?)"
            self._connection.executemany(query, values.items())

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Store all that the block writes, or nothing where it raises or the disk is full."""
        with self._lock, database_errors(self.path), self._connection:
            if self._file_now() != self._file:  # what is written now would be lost with it
                raise StoreError(
                    f"the review database where it was, {str(self.path)!r}",
                    "a file that was moved, deleted or replaced meanwhile",
                    "Move it back, or stop the server and start it with the other file.",
                )
            yield

    def _file_now(self) -> tuple[int, int] | None:
        """Return what identifies the file at the path, None where there is none."""
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _insert(self, rows: Iterable[tuple[Any, ...]]) -> int:
        marks = ", ".join("?" * (DECISION.count(",") + 1))
        query = f"INSERT OR IGNORE INTO decisions ({DECISION}) VALUES ({marks})"
        return self._connection.executemany(query, rows).rowcount

    def _refresh(self) -> None:
        """Count the votes again where another process has written."""
        (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        if version != self._version:
            self._votes.clear()
            for node, reviewer, label in self._connection.execute(_STANDING.format("")):
                self._votes.setdefault(node, {})[reviewer] = label
            self._version = version

    def _recount(self, nodes: set[int], by: str) -> None:
        """Update the votes of one reviewer on these nodes."""
        query = _STANDING.format("AND node = ? AND reviewer = ?")
        for node in nodes:
            self._votes.setdefault(node, {}).pop(by, None)
            for _, _, label in self._connection.execute(query, (node, by)):
                self._votes[node][by] = label
            if not self._votes[node]:
                del self._votes[node]


def _checked(choice: Choice) -> Choice:
    """Return a choice in types that the database stores; refuse others."""
    node, seconds = choice.node, choice.seconds
    if isinstance(node, bool) or not isinstance(node, int | np.integer):
        raise EraseError("the number of a node", f"{node!r}", "Pass a whole number.")
    is_number = isinstance(seconds, int | float | np.number) and not isinstance(seconds, bool)
    if seconds is not None and not (is_number and 0 <= seconds < math.inf):
        raise EraseError("seconds from 0 on, or None", f"{seconds!r}", "Correct them.")
    texts: dict[str, Any] = {
        name: None if value is None and name != "note" else _as_text(value, name)
        for name in ("label", "given", "suggested", "note", "key", "batch")
        for value in [getattr(choice, name)]
    }
    seconds = None if seconds is None else float(seconds)
    return replace(choice, node=int(node), random=bool(choice.random), seconds=seconds, **texts)


def _as_text(given: Any, name: str) -> str:
    if not isinstance(given, str):
        raise EraseError(f"{name} as text", f"{given!r}", "Pass a string.")
    return well_formed([given])[0]


_IS_STANDING = (
    "action != 'undo' AND id NOT IN (SELECT undoes FROM decisions WHERE undoes IS NOT NULL)"
)
_STANDING = f"SELECT node, reviewer, label FROM decisions WHERE {_IS_STANDING} {{}} ORDER BY id"


def majority(votes: dict[str, str | None]) -> str | None:
    """Return the class that more than half of the sure reviewers chose, or None.

    >>> majority({"a": "x", "b": "y", "c": "x"}), majority({"a": "x", "b": "y"})
    ('x', None)
    """
    counts = Counter(label for label in votes.values() if label is not None)
    if not counts:
        return None
    label, most = counts.most_common(1)[0]
    return label if 2 * most > counts.total() else None


def read_reviews(path: StrPath) -> Reviews:
    """Open an existing database or an exported CSV file, for ``--reviews``."""
    if not Path(path).is_file():
        raise EraseError(
            "a database of `erase review`, or a CSV file that it exported",
            f"{str(path)!r}, which is no file",
            "Check the path.",
        )
    return Reviews(path)


def _escaped(text: str) -> str:
    return text.replace("!", "!!").replace("%", "!%").replace("_", "!_")
