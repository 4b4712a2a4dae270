"""Arrays, networkx graphs and pandas tables into a PyG ``Data``, test labels included."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
import torch
from torch import Tensor
from torch_geometric.data import Data

from erase.data.edges import adjacency_ends
from erase.data.fields import not_a_graph, to_names, to_tensor
from erase.data.labels import MANY_NODES, label_column
from erase.data.matrices import csr_tensor, feature_matrix, is_too_large, too_large
from erase.data.splits import SPLIT_WORDS, node_mask
from erase.errors import EraseError

ID_COLUMNS = ("id", "node", "name")
FEATURE_COLUMN = re.compile(r"x\d+")  # so `write_graph` names the features of a table


def data_from_arrays(
    edges: Any,
    y: Any,
    x: Any = None,
    train: Any = None,
    val: Any = None,
    num_nodes: int | None = None,
    node_names: Sequence[str] | None = None,
    class_names: Sequence[str] | None = None,
) -> Data:
    """Return arrays as a Data, test labels included.

    Args:
        edges: node numbers [2, E] or [E, 2], or a scipy sparse adjacency matrix [N, N]. Of an
            array [2, 2] the rows are sources and targets; of a list they are pairs.
        y: [N] class numbers, -1 or NaN where unknown; or class names, None or "" where unknown.
        x: features [N, F], numpy or scipy sparse.
        train: training nodes, a mask [N] or node numbers.
        val: validation nodes, likewise.
        num_nodes: N, as a check.
        node_names: N names.
        class_names: K names, in the order of the class numbers.
    """
    labels = label_column(y)
    if sp.issparse(edges):
        ends = torch.stack(adjacency_ends(edges, len(labels)))
    else:
        ends = to_tensor(edges, "edges")
        if ends.dim() == 2 and ends.size(1) == 2 and (ends.size(0) != 2 or _is_list(edges)):
            ends = ends.t()
        ends = ends.reshape(2, 0) if ends.numel() == 0 else ends
    data = Data(edge_index=ends, y=labels if labels.dtype.kind == "U" else to_tensor(labels))
    if (features := feature_matrix(x)) is not None:
        data.x = features if isinstance(features, Tensor) else csr_tensor(features)
    if x is None or num_nodes is not None:
        data.num_nodes = len(labels) if num_nodes is None else num_nodes
    for name, nodes in (("train_mask", train), ("val_mask", val)):
        if nodes is not None:
            data[name] = node_mask(nodes, len(labels), name)
    for name, names in (("node_names", node_names), ("class_names", class_names)):
        if names is not None:
            data[name] = list(to_names(names, name))
    return data


def _is_list(edges: Any) -> bool:
    """Say whether `edges` is a list of lists or tuples; (rows, columns) of arrays is not."""
    plain = (list, tuple)
    return isinstance(edges, plain) and all(isinstance(each, plain) for each in edges)


def data_from_networkx(
    graph: Any,
    label: str = "label",
    features: str | Sequence[str] | None = None,
    split: str = "split",
) -> Data:
    """Return a networkx graph as a Data, test labels included.

    Args:
        graph: any networkx graph; node names are kept, directions and weights are not.
        label: the node attribute with the class number or name; missing where unknown.
        features: node attributes with a number or a vector each; None: all that hold numbers,
            except identifiers, see `data_from_tables`.
        split: the node attribute with "train", "val" or "test", if there is one.
    """
    if not (hasattr(graph, "nodes") and hasattr(graph, "edges")):
        raise not_a_graph(graph)
    position = {node: i for i, node in enumerate(graph.nodes)}
    frame = pd.DataFrame([attributes for _, attributes in graph.nodes(data=True)])
    frame = frame.reindex(range(len(position)))
    ends = [(position[u], position[v]) for u, v in graph.edges()]
    if not graph.is_directed():
        ends += [(v, u) for u, v in ends if u != v]
    edge_index = torch.tensor(ends, dtype=torch.long).reshape(-1, 2).t()
    return _data_from_frame(frame, list(position), edge_index, label, features, split, [])


def data_from_tables(
    nodes: pd.DataFrame,
    edges: pd.DataFrame,
    id: str | None = None,
    label: str = "label",
    features: str | Sequence[str] | None = None,
    split: str = "split",
    source: str | None = None,
    target: str | None = None,
) -> Data:
    """Return two pandas tables as a Data, test labels included.

    Args:
        nodes: one row per node.
        edges: one row per edge, holding the ids of two nodes.
        id: the column of node ids; None: the one called id, node or name, else the index where it
            has a name, else the first column.
        label: the column with the class number or name; empty where unknown.
        features: columns with a number or a vector each; None: all that hold numbers, except
            identifiers: columns of whole numbers that are all different, on `MANY_NODES` nodes or
            more. Columns called x0, x1, … are features whatever they hold. Notes say which columns
            are used and which are not.
        split: the column with "train", "val" or "test", if there is one.
        source: the column of `edges` where an edge starts; None: called source, else the first.
        target: the column of `edges` where it ends; None: called target, else the second.
    """
    for table in (nodes, edges):
        if not isinstance(table, pd.DataFrame):
            raise not_a_graph(table)
        refuse_twins(table.columns)
    nodes = with_ids(nodes, id)
    id = choose_column(nodes.columns, id, ID_COLUMNS, 0)
    source = choose_column(edges.columns, source, ("source",), 0)
    target = choose_column(edges.columns, target, ("target",), 1)
    if source == target:
        raise EraseError(
            "two columns of node ids in the edges table",
            f"{source!r} for both ends",
            "Name them source and target.",
        )
    if id in (label, split):
        raise EraseError(
            "a column of node ids", f"the column {id!r}", "Name the one that holds them (id=…)."
        )
    ids = pd.Index(nodes[id])
    if (twice := ids.duplicated() | ids.isna()).any():
        i = int(np.flatnonzero(twice)[0])
        raise EraseError(
            f"a different id for each node in the column {id!r}",
            f"{ids[i : i + 1].tolist()[0]!r} again in row {i}",
            "Give each node its own id, or name the column that holds the ids (id=…).",
        )
    ends = [_positions(ids, edges[end], end) for end in (source, target)]
    notes = []
    if extra := [repr(name) for name in edges.columns if name not in (source, target)]:
        notes.append(f"Columns of the edges are ignored: {', '.join(extra)}.")
    frame = nodes.drop(columns=id).reset_index(drop=True)
    edge_index = torch.from_numpy(np.stack(ends))
    return _data_from_frame(frame, ids.tolist(), edge_index, label, features, split, notes)


def refuse_twins(columns: pd.Index[Any]) -> None:
    """Refuse a table with two columns of one name."""
    if (twice := columns[columns.duplicated()]).size:
        raise EraseError(
            "columns of different names", f"two called {twice[0]!r}", "Rename or remove one."
        )


def with_ids(nodes: pd.DataFrame, id: str | None) -> pd.DataFrame:
    """Return the table with its index as the first column, where the index holds the node ids."""
    name = nodes.index.name
    wanted = not any(usual in nodes.columns for usual in ID_COLUMNS) if id is None else name == id
    return nodes.reset_index() if wanted and name not in (None, *nodes.columns) else nodes


def choose_column(
    columns: pd.Index[Any], name: str | None, usual: tuple[str, ...], place: int
) -> str:
    """Return the column to read: `name` if given, else the first of the `usual`, else by place."""
    if name is None:
        by_place = columns[place] if place < len(columns) else usual[0]
        name = next((each for each in usual if each in columns), by_place)
    if name not in columns:
        raise EraseError(
            f"a column {name!r}",
            f"{[str(each) for each in columns]}",
            "Add it, or name one of these.",
        )
    return name


def _data_from_frame(
    frame: pd.DataFrame,
    names: list[Any],
    edge_index: Tensor,
    label: str,
    features: str | Sequence[str] | None,
    split: str,
    notes: list[str],
) -> Data:
    """Return a Data from one row of attributes per node."""
    chosen = [features] if isinstance(features, str) else features
    for column in (label, *(chosen or ())):
        if column not in frame.columns:
            raise EraseError(
                f"a node column (attribute) {column!r}",
                f"{[str(name) for name in frame.columns]}",
                f"Add it (empty where unknown), or name another: label=…, now {label!r}.",
            )
    data = data_from_arrays(edge_index, frame[label], node_names=names)
    if split in frame.columns:
        for part, mask in _parts(frame[split]).items():
            data[f"{part}_mask"] = mask
    rest = [name for name in frame.columns if name not in (label, split)]
    blocks = {name: _numbers(frame[name]) for name in (rest if chosen is None else chosen)}
    if ignored := [repr(name) for name, block in blocks.items() if block is None]:
        if chosen is not None:
            raise EraseError(
                "features that are numbers",
                f"something else in {', '.join(ignored)}",
                "Turn it into numbers, or leave it out of features=….",
            )
        notes = [*notes, f"Columns that hold no numbers are ignored: {', '.join(ignored)}."]
    used = {name: block for name, block in blocks.items() if block is not None}
    if chosen is None:
        used, left_out = _without_identifiers(frame, used)
        notes = [*notes, *left_out]
    if used:
        data.x = torch.from_numpy(np.concatenate([*used.values()], axis=1).astype(np.float32))
        notes = [*notes, f"Features: {_columns(list(used))}."]
    if notes:
        data.notes = notes
    return data


def _without_identifiers(
    frame: pd.DataFrame, blocks: dict[Any, np.ndarray[Any, Any]]
) -> tuple[dict[Any, np.ndarray[Any, Any]], list[str]]:
    """Return the blocks [N, f] of columns that are features, and a note on those that are not."""
    found = [name for name, block in blocks.items() if _is_identifier(frame[name], block)]
    if not found:
        return blocks, []
    note = (
        f"Not used as features: {_columns(found)}. Whole numbers that are all different look like "
        "identifiers; to use such a column, name it in features=…, or call it x0."
    )
    return {name: block for name, block in blocks.items() if name not in found}, [note]


def _is_identifier(column: pd.Series[Any], block: np.ndarray[Any, Any]) -> bool:
    """Say whether a column holds numbers that name nodes: whole, and none of them twice.

    Few nodes may differ in any quantity: below `MANY_NODES` values no column is an identifier.
    """
    if FEATURE_COLUMN.fullmatch(str(column.name)) or _holds_vectors(column):
        return False
    known = ~np.isnan(block[:, 0])
    values = block[known, 0]
    whole = bool((values == np.rint(values)).all())
    # of the column itself: as float64, different numbers beyond 2**53 may be equal
    return len(values) >= MANY_NODES and whole and bool(column[known].is_unique)


def _holds_vectors(column: pd.Series[Any]) -> bool:
    return len(column) > 0 and isinstance(column.iloc[0], list | tuple | np.ndarray)


def _columns(names: Sequence[Any], most: int = 10) -> str:
    """Return how many columns there are, and the first of their names."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    shown = ", ".join(repr(name) for name in names[:most])
    return f"{len(names)} column{'s' if len(names) > 1 else ''}: {shown}{more}"


def _parts(words: pd.Series[Any]) -> dict[str, Tensor]:
    """Return the masks [N] of the words train, val and test."""
    plain = words.astype(object).where(words.notna(), "").astype(str).str.strip().str.lower()
    meaning = {word: part for part, words in SPLIT_WORDS.items() for word in words}
    parts = plain.map({**meaning, "": ""})
    if parts.isna().any():
        i = int(np.flatnonzero(parts.isna())[0])
        raise EraseError(
            "train, val, test or nothing as a node's split",
            f"{words.iloc[i]!r} in row {i}",
            "Use those words, and leave the others empty.",
        )
    return {part: to_tensor(parts == part) for part in SPLIT_WORDS}


def _numbers(column: pd.Series[Any]) -> np.ndarray[Any, Any] | None:
    """Return a column of numbers, or of vectors of one length, as [N, f] real numbers; else None.

    Text that reads as numbers is numbers. Where half of it does, the rest are mistakes.
    """
    if _holds_vectors(column):
        try:
            block = np.array(column.tolist())
        except ValueError:  # of different lengths
            return None
        if block.ndim != 2 or block.dtype.kind not in "biufc":
            return None
    elif pd.api.types.is_numeric_dtype(column):
        block = _number_column(column)
    elif isinstance(column.dtype, pd.StringDtype) or column.dtype == object:
        empty = [isinstance(value, str) and not value.strip() for value in column]
        given = column.astype(object).mask(column.isna() | np.array(empty, dtype=bool), None)
        parsed = pd.to_numeric(given, errors="coerce")
        bad = given.notna() & parsed.isna()
        if 2 * int(bad.sum()) > int(given.notna().sum()) or not parsed.notna().any():
            return None
        if bad.any():
            i = int(np.flatnonzero(bad)[0])
            raise EraseError(
                f"numbers in the column {column.name!r}",
                f"{column.iloc[i]!r} in row {i}",
                "Correct it, leave it empty, or name the columns to use (features=…).",
            )
        block = _number_column(parsed)
    else:
        return None
    if block.dtype.kind == "c":
        raise EraseError(
            f"real numbers in the column {column.name!r}", f"{block.dtype}", "Take a part of them."
        )
    if (large := is_too_large(block)).any():
        i, j = np.argwhere(large)[0].tolist()
        raise too_large(float(block[i, j]), f"row {i} of the column {column.name!r}")
    return block


def _number_column(column: pd.Series[Any]) -> np.ndarray[Any, Any]:
    """Return numbers as [N, 1], float64 unless they are complex."""
    wide = complex if pd.api.types.is_complex_dtype(column) else np.float64
    values: np.ndarray[Any, Any] = column.to_numpy(wide, na_value=np.nan)
    return values[:, None]


def _positions(ids: pd.Index[Any], ends: pd.Series[Any], name: str) -> np.ndarray[Any, Any]:
    """Return the row in `ids` of each end of an edge, [E] int64."""
    if pd.api.types.is_numeric_dtype(ids) != pd.api.types.is_numeric_dtype(ends):
        ids, ends = ids.astype(str), ends.astype(str)
    found: np.ndarray[Any, Any] = ids.get_indexer(pd.Index(ends))
    if (found < 0).any():
        i = int(np.flatnonzero(found < 0)[0])
        raise EraseError(
            "edges between nodes of the nodes table",
            f"{ends.iloc[i : i + 1].tolist()[0]!r} in the column {name!r}, row {i}",
            "Add that node to the nodes table, or remove the edge.",
        )
    return found.astype(np.int64)
