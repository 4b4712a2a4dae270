"""Arrays, networkx graphs and pandas tables into a PyG ``Data``, test labels included."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
import torch
from torch import Tensor
from torch_geometric.data import Data

from erase.errors import EraseError
from erase.fields import SPLIT_WORDS, label_column, node_mask, to_tensor
from erase.matrices import adjacency_ends, csr_tensor, feature_matrix

ID_COLUMNS = ("id", "node", "name")


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
        edges: [2, E] or [E, 2] node numbers ([2, 2] is read as [2, E]), or a scipy sparse
            adjacency matrix [N, N].
        y: [N] class numbers, -1 or NaN where unknown; or class names, None or "" where unknown.
        x: features [N, F], numpy or scipy sparse.
        train: training nodes, a mask [N] or node numbers.
        val: validation nodes, likewise.
        num_nodes: N, as a check.
        node_names: N names.
        class_names: K names, in the order of the class numbers.
    """
    if sp.issparse(edges):
        ends = torch.stack(adjacency_ends(edges))
    else:
        ends = to_tensor(edges)
        if ends.dim() == 2 and ends.size(0) != 2 and ends.size(1) == 2:
            ends = ends.t()
        ends = ends.reshape(2, 0) if ends.numel() == 0 else ends
    labels = label_column(y)
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
            data[name] = [str(each) for each in names]
    return data


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
        features: node attributes with a number or a vector each; None: all that hold numbers.
        split: the node attribute with "train", "val" or "test", if there is one.
    """
    if not (hasattr(graph, "nodes") and hasattr(graph, "edges")):
        raise not_a_graph(graph)
    position = {node: i for i, node in enumerate(graph.nodes)}
    frame = pd.DataFrame([attributes for _, attributes in graph.nodes(data=True)])
    frame = frame.reindex(range(len(position)))
    ends = [(position[u], position[v]) for u, v in graph.edges()]
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
        id: the column of node ids; None: the one called id, node or name, else the first.
        label: the column with the class number or name; empty where unknown.
        features: columns with a number or a vector each; None: all that hold numbers.
        split: the column with "train", "val" or "test", if there is one.
        source: the column of `edges` where an edge starts; None: called source, else the first.
        target: the column of `edges` where it ends; None: called target, else the second.
    """
    for table in (nodes, edges):
        if not isinstance(table, pd.DataFrame):
            raise not_a_graph(table)
    id = choose_column(nodes.columns, id, ID_COLUMNS, 0)
    source = choose_column(edges.columns, source, ("source",), 0)
    target = choose_column(edges.columns, target, ("target",), 1)
    if source == target:
        raise EraseError(
            "two columns of node ids in the edges table",
            f"{source!r} for both ends",
            "Name them source and target.",
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
    if numeric := [block for block in blocks.values() if block is not None]:
        data.x = torch.from_numpy(np.concatenate(numeric, axis=1))
    if notes:
        data.notes = notes
    return data


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
    """Return a column of numbers, or of vectors of one length, as [N, f] float32; else None."""
    if pd.api.types.is_numeric_dtype(column):
        values: np.ndarray[Any, Any] = column.to_numpy(np.float32, na_value=np.nan)
        return values[:, None]
    if len(column) and isinstance(column.iloc[0], list | tuple | np.ndarray):
        try:
            block: np.ndarray[Any, Any] = np.array(column.tolist(), dtype=np.float32)
        except (TypeError, ValueError):  # not numbers, or of different lengths
            return None
        return block if block.ndim == 2 else None
    return None


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


def not_a_graph(given: Any) -> EraseError:
    """Return the error that says what a graph can be given as."""
    if isinstance(given, str | os.PathLike):
        return EraseError(
            "a graph",
            f"{os.fspath(given)!r}",
            "Read a file with erase.read_graph(path), a dataset with erase.load_dataset(name).",
        )
    return EraseError(
        "a graph",
        f"{type(given).__module__}.{type(given).__name__}",
        "Pass a torch_geometric Data, a networkx graph or two pandas tables (nodes, edges); arrays "
        "go through NodeTask.from_arrays.",
    )
