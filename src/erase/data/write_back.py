"""Corrected labels in a user's own table of nodes: the label column changes, and nothing else."""

import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from erase.data.files import atomic_write, need_pyarrow, table_file
from erase.data.folder import is_folder
from erase.data.tables import ID_COLUMNS, choose_column, csv_separator, table_options
from erase.errors import EraseError

_LONGEST_FIELD = 2**31 - 1  # of a CSV; the csv module refuses text of more than 128 KiB


@dataclass(frozen=True)
class Corrections:
    """Classes of the nodes, in the order of the table.

    Attributes:
        given: [N] class before, -1 where unknown.
        clean: [N] class after, -1 where removed or unknown.
        class_names: K names, for a class that no given label has.
        merged: whether misspelt names were merged: they become the usual spelling.
    """

    given: NDArray[np.int64]
    clean: NDArray[np.int64]
    class_names: Sequence[str]
    merged: bool = False

    def cells(self, written: Sequence[Any]) -> dict[int, Any]:
        """Return the new cell of each changed row; None removes a label.

        Args:
            written: the N cells of the label column; a class is written as it is most often.
        """
        counts: dict[int, Counter[Any]] = {}
        for k, cell in zip(self.given.tolist(), written, strict=True):
            counts.setdefault(k, Counter())[cell] += 1
        usual: dict[int, Any] = dict(enumerate(self.class_names))
        usual |= {k: found.most_common(1)[0][0] for k, found in counts.items()}
        usual[-1] = None
        cells = {row: usual[k] for row, k in enumerate(self.clean.tolist())}
        is_changed = self.given != self.clean
        return {
            row: cell
            for row, cell in cells.items()
            if is_changed[row] or (self.merged and cell is not None and cell != written[row])
        }


def check_target(graph: Path, target: Path) -> Path:
    """Return the table of nodes to correct, if `target` can be written from it."""
    if not graph.is_dir() or is_folder(graph):
        raise EraseError(
            "a folder with nodes and edges tables, to write labels back",
            f"{str(graph)!r}",
            "Use labels_clean.csv, which the audit writes for every graph.",
        )
    nodes = table_file(graph, "nodes")
    if target.suffix.lower() != nodes.suffix or target.is_dir():
        raise EraseError(
            f"a file to write whose name ends in {nodes.suffix}, as that of the nodes table does",
            f"{str(target)!r}",
            "Correct the name.",
        )
    if target.resolve() == table_file(graph, "edges").resolve():
        raise EraseError("a table of nodes to write", f"{str(target)!r}", "Use another name.")
    return nodes


def write_back(
    nodes: Path, target: Path, changes: Corrections, ids: Sequence[Any], tables: Mapping[str, Any]
) -> int:
    """Write the table `nodes` to `target` with corrected labels; return how many rows changed.

    Args:
        nodes: the CSV or Parquet file.
        target: a file of the same kind; may be `nodes` itself.
        changes: the classes before and after.
        ids: N ids of the nodes, to recognise the rows of a CSV.
        tables: the attributes of `TableOptions` that the graph was read with.
    """
    write = _write_csv if nodes.suffix == ".csv" else _write_parquet
    return write(nodes, target, changes, ids, tables)


def _write_csv(
    nodes: Path, target: Path, changes: Corrections, ids: Sequence[Any], tables: Mapping[str, Any]
) -> int:
    options = table_options(dict(tables))
    separator = csv_separator(nodes, options)
    columns = pd.read_csv(nodes, nrows=0, sep=separator).columns
    id = columns.get_loc(choose_column(columns, options.id, ID_COLUMNS, 0, "id"))
    label = columns.get_loc(choose_column(columns, options.label, (), 0, "label"))
    limit = csv.field_size_limit(_LONGEST_FIELD)
    try:
        found, written = [], []
        for _, fields in _rows(nodes, separator):
            if fields is not None:
                found.append("".join(fields[id : id + 1]))
                written.append("".join(fields[label : label + 1]))  # a short row has none
        if found != [str(each) for each in ids]:
            raise _changed(nodes)
        cells = changes.cells(written)
        with atomic_write(target) as file:
            row = 0
            for text, fields in _rows(nodes, separator):
                is_changed = fields is not None and row in cells
                file.write(
                    _with_cell(text, separator, label, cells[row] or "") if is_changed else text
                )
                row += fields is not None
            if row != len(ids):
                raise _changed(nodes)
    finally:
        csv.field_size_limit(limit)
    return len(cells)


def _rows(nodes: Path, separator: str) -> Iterator[tuple[str, list[str] | None]]:
    """Yield each record of a CSV as its text and its fields; None: header, or blank line."""
    lines: list[str] = []

    def remembered(file: Any) -> Iterator[str]:
        for line in file:
            lines.append(line)
            yield line.removeprefix("\ufeff")

    with nodes.open(encoding="utf-8", newline="") as file:
        has_header = False
        for fields in csv.reader(remembered(file), delimiter=separator):
            is_blank = not fields or (len(fields) == 1 and not fields[0].strip())
            yield "".join(lines), fields if has_header and not is_blank else None
            has_header = has_header or not is_blank
            lines.clear()


def _with_cell(text: str, separator: str, column: int, cell: str) -> str:
    """Return a record of a CSV with one field replaced; it stays quoted if it was.

    >>> _with_cell("7,'',x".replace("'", chr(34)), ",", 1, "c").replace(chr(34), "'")
    "7,'c',x"
    """
    one = rf'(?:"[^"]*(?:""[^"]*)*")?[^{re.escape(separator)}\r\n]*'
    found = re.match(rf"(?:{one}{re.escape(separator)}){{{column}}}({one})", text)
    if found is None:
        raise EraseError(f"{column + 1} fields in a row", f"{text!r}", "Correct the row.")
    special = any(mark in cell for mark in (separator, '"', "\r", "\n"))
    if special or found[1].startswith('"'):
        cell = '"' + cell.replace('"', '""') + '"'
    return text[: found.start(1)] + cell + text[found.end(1) :]


def _write_parquet(
    nodes: Path, target: Path, changes: Corrections, ids: Sequence[Any], tables: Mapping[str, Any]
) -> int:
    need_pyarrow()
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(nodes)
    if len(table) != len(ids):
        raise _changed(nodes)
    place = table.schema.get_field_index(table_options(dict(tables)).label)
    kind = table.schema.field(place)
    written = table.column(place).to_pylist()
    cells = changes.cells(written)
    column = pa.array([cells.get(i, cell) for i, cell in enumerate(written)], type=kind.type)
    corrected = table.set_column(place, kind.with_nullable(True), column)
    with atomic_write(target, "wb") as file:
        pq.write_table(corrected, file)
    return len(cells)


def _changed(nodes: Path) -> EraseError:
    return EraseError(
        "the nodes table that was audited",
        f"{nodes.name!r} with other rows",
        "Use labels_clean.csv, or run the audit again.",
    )
