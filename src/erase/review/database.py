"""The SQLite file of a review: its tables, its version, and exported tables read into one."""

import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd

from erase.data.files import reading
from erase.errors import EraseError

LAST_NODE = 2**53 - 1
_APPLICATION = 0x45525356  # marks the file as a review database
DECISION = (
    "key, node, reviewer, made, action, given, suggested, label, note, random, seconds, batch, "
    "undoes"
)

# The scripts that bring a database from version v to v + 1, in order.
MIGRATIONS = (
    """
    CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
    CREATE TABLE decisions (
      id INTEGER PRIMARY KEY,
      key TEXT NOT NULL UNIQUE,
      node INTEGER NOT NULL,
      reviewer TEXT NOT NULL,
      made TEXT NOT NULL,
      action TEXT NOT NULL CHECK (action IN ('given', 'suggested', 'other', 'unsure', 'undo')),
      given TEXT,
      suggested TEXT,
      label TEXT,
      note TEXT NOT NULL,
      random INTEGER NOT NULL,
      seconds REAL,
      batch TEXT,
      undoes INTEGER REFERENCES decisions (id)
    );
    CREATE INDEX decisions_of ON decisions (reviewer, id);
    CREATE INDEX decisions_on ON decisions (node, reviewer, id);
    CREATE INDEX undone ON decisions (undoes) WHERE undoes IS NOT NULL;
    CREATE TRIGGER decisions_stay BEFORE UPDATE ON decisions
      BEGIN SELECT RAISE(ABORT, 'decisions are never changed'); END;
    CREATE TRIGGER decisions_are_kept BEFORE DELETE ON decisions
      BEGIN SELECT RAISE(ABORT, 'decisions are never deleted'); END;
    CREATE TABLE estimates (
      decisions INTEGER NOT NULL,
      made TEXT NOT NULL,
      found INTEGER NOT NULL,
      value REAL NOT NULL, low REAL NOT NULL, high REAL NOT NULL,
      left_value REAL NOT NULL, left_low REAL NOT NULL, left_high REAL NOT NULL
    );
    """,
)


class StoreError(EraseError):
    """A database that cannot be written now; what was sent to it may be sent again."""


def connect(path: str | Path) -> sqlite3.Connection:
    """Open a database of this version; make it, or bring it up to date."""
    try:
        connection = sqlite3.connect(path, timeout=30, check_same_thread=False)
        connection.text_factory = lambda raw: raw.decode(errors="replace")
    except sqlite3.OperationalError as error:
        raise _unusable(path, error) from None
    try:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if tables and application != _APPLICATION:
            raise sqlite3.DatabaseError
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        _migrate(connection, str(path))
    except sqlite3.OperationalError as error:  # no permission, a full disk, a lock
        connection.close()
        raise _unusable(path, error) from None
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # a message may quote any bytes
        connection.close()
        if type(error) not in (sqlite3.DatabaseError, UnicodeDecodeError):
            raise
        raise EraseError(
            "a database of `erase review`", f"{str(path)!r}, which is none", "Check the path."
        ) from None
    except EraseError:
        connection.close()
        raise
    return connection


def _unusable(path: str | Path, error: Exception) -> EraseError:
    return EraseError(
        "a review database that can be opened", f"{str(path)!r}: {error}", "Check the folder."
    )


@contextmanager
def database_errors(path: Path) -> Iterator[None]:
    """Turn what SQLite raises in the block, on a full disk or a damaged file, into a StoreError.

    What was acknowledged before stays stored.
    """
    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(
            "a review database that can be read and written",
            f"{str(path)!r}: {error}",
            "Check the disk and the rights of the file, or restore a copy of it.",
        ) from None


# What each column of a decision has to be: SQLite stores any type in any column.
_CHECKS = (
    f"typeof(node) = 'integer' AND node BETWEEN 0 AND {LAST_NODE}",
    "typeof(reviewer) = 'text' AND typeof(note) = 'text' AND typeof(key) = 'text'",
    "typeof(made) = 'text' AND (made = '' OR made GLOB '[0-9][0-9][0-9][0-9]-*')",
    "typeof(given) IN ('text', 'null') AND typeof(suggested) IN ('text', 'null')",
    "typeof(label) IN ('text', 'null') AND typeof(batch) IN ('text', 'null')",
    "typeof(random) = 'integer' AND typeof(seconds) IN ('real', 'integer', 'null')",
    "typeof(undoes) IN ('integer', 'null')",
)


def check_contents(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a damaged database, and decisions that cannot have been made."""
    wrong = ""
    (state,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if state != "ok":
        wrong = f"damaged: {' '.join(str(state).split())}"
    elif connection.execute(_SCHEMA).fetchall() != _expected_schema():
        wrong = "which has other tables"
    else:
        query = f"SELECT id FROM decisions WHERE NOT ({' AND '.join(_CHECKS)}) LIMIT 1"
        if (row := connection.execute(query).fetchone()) is not None:
            wrong = f"with an impossible decision, number {row[0]}"
        numbers = connection.execute("SELECT value FROM meta WHERE name IN ('nodes', 'seed')")
        if any(re.fullmatch(r"[0-9]{1,19}", str(text)) is None for (text,) in numbers):
            wrong = "with an impossible number of nodes or seed"
        if not wrong:
            try:  # SQLite takes more for times than pandas does
                times_of([made for (made,) in connection.execute("SELECT made FROM decisions")])
            except (ValueError, OverflowError):
                wrong = "with a decision at an impossible time"
    if wrong:
        raise EraseError(
            "a whole database of `erase review`, or a CSV file that it exported",
            f"{str(path)!r}, {wrong}",
            "Restore a copy of it, or correct the row.",
        )


_SCHEMA = (
    "SELECT type, name, sql FROM sqlite_master "
    "WHERE name NOT LIKE 'sqlite!_%' ESCAPE '!' ORDER BY name"
)


def _expected_schema() -> list[tuple[str, str, str]]:
    """Return the tables, indices and triggers of a new database."""
    connection = sqlite3.connect(":memory:")
    try:
        _migrate(connection, ":memory:")
        return connection.execute(_SCHEMA).fetchall()
    finally:
        connection.close()


def _migrate(connection: sqlite3.Connection, path: str) -> None:
    connection.isolation_level = None  # scripts inside one transaction of ours
    connection.execute("BEGIN IMMEDIATE")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > len(MIGRATIONS):
        connection.execute("ROLLBACK")
        raise EraseError(
            f"a review database of version {len(MIGRATIONS)} or older",
            f"{path!r} of version {version}",
            "Update erase.",
        )
    for script in MIGRATIONS[version:]:
        for statement in _statements(script):
            connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
    connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
    connection.execute("COMMIT")
    connection.isolation_level = "DEFERRED"


def _statements(script: str) -> Iterable[str]:
    """Yield the statements of a script: executescript would commit between them."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


_TRUE = ("True", "true", "1")  # in tables


def import_table(connection: sqlite3.Connection, path: Path) -> None:
    """Fill a database from decisions.csv, or from a table of labels with a column ``trusted``."""
    with reading(path, "decisions or labels of `erase review`"):
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
    if {"node", "reviewer", "action", "label"} <= set(table.columns):
        names = [*DECISION.split(", "), "id"]
        rows = table.reindex(columns=names, fill_value="")
        seeds = set(table.get("seed", ())) - {""}
        if seeds:
            connection.execute("INSERT INTO meta VALUES ('seed', ?)", (min(seeds),))
    elif {"node", "trusted"} <= set(table.columns):
        table = table[table["trusted"] != ""]
        empty = pd.Series("", table.index)
        # the random sample first: it was drawn from all labels, whatever else was reviewed
        is_rest = ~table.get("trusted_random", empty).isin(_TRUE)
        table = table.loc[is_rest.sort_values(kind="stable").index].reset_index()
        empty = pd.Series("", table.index)
        rows = pd.DataFrame(
            {
                "key": table["index"],
                "node": table["node"],
                "reviewer": "",
                "made": now(),
                "action": "other",
                "given": table.get("was", empty),
                "suggested": "",
                "label": table["trusted"],
                "note": "",
                "random": table.get("trusted_random", empty),
                **dict.fromkeys(("seconds", "batch", "undoes"), ""),
                "id": range(1, len(table) + 1),
            }
        )
    else:
        raise EraseError(
            "decisions or labels that `erase review` exported",
            f"{str(path)!r} with the columns {', '.join(table.columns[:8])}",
            "Export them with `erase review GRAPH --export labels.csv`.",
        )
    empty_is_none = ("given", "suggested", "label", "seconds", "batch", "undoes")
    rows = rows.astype(object)
    for name in empty_is_none:
        rows[name] = [None if value == "" else value for value in rows[name]]
    rows["random"] = rows["random"].isin(_TRUE).astype(int)
    with connection:
        columns = f"{DECISION}, id"
        marks = ", ".join("?" * len(rows.columns))
        connection.executemany(
            f"INSERT INTO decisions ({columns}) VALUES ({marks})",
            rows.itertuples(index=False, name=None),
        )


def now() -> str:
    """Return the time in UTC, as it is stored."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def times_of(stored: Sequence[str]) -> pd.DatetimeIndex:
    """Return times as they are stored; an empty one is none."""
    return pd.to_datetime(pd.Index(stored, dtype=object), utc=True, format="ISO8601")
