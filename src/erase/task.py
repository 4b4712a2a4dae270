"""NodeTask: everything a method may see, checked once at the door.

The task is a wall. It keeps the labels of training and validation nodes and no other: a test label
is dropped here and cannot be reached from below. Whatever form a graph comes in (arrays, networkx,
tables, files), it becomes a PyG ``Data``, which may still hold test labels for scoring, and one
constructor, `NodeTask.from_data`, checks it. The user's object is never written to.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
import torch
from torch import Tensor
from torch_geometric.data import Data

from erase.errors import EraseError
from erase.seeds import numpy_stream

SPARSE_BELOW = 0.2  # dense features with at most this share of non-zeros are kept as CSR
STRUCTURAL_WIDTH = 128
MANY_CLASSES = 1000  # more than this and more than nodes: an identifier taken for a class

ID_COLUMNS = ("id", "node", "name")

_SPLIT_NAMES = {
    part: tuple(f"{word}_{form}" for form in ("mask", "idx", "index", "indices") for word in words)
    for part, words in {
        "train": ("train",),
        "val": ("val", "valid", "validation"),
        "test": ("test",),
    }.items()
}
_SPLIT_WORDS = {"train": "train", "val": "val", "valid": "val", "validation": "val", "test": "test"}


@dataclass(frozen=True, eq=False)
class NodeTask:
    """A graph with the labels a method is given, and no others.

    Args:
        x: features [N, F] float32, dense or sparse CSR with int64 indices.
        edge_index: [2, E] int64; both directions of every edge, sorted by (row, column), no
            duplicates, no self-loops.
        y: [N] int64; the given label at training and validation nodes, -1 everywhere else.
        train_mask: [N] bool.
        val_mask: [N] bool, disjoint from `train_mask`.
        class_names: K names.
        label_values: [K], what stands for class k in a prediction: k, or its name if the labels
            were given as names.
        node_names: N names, or None.
        notes: what was done to the input at the door, one sentence each.
    """

    x: Tensor
    edge_index: Tensor
    y: Tensor
    train_mask: Tensor
    val_mask: Tensor
    class_names: tuple[str, ...]
    label_values: np.ndarray[Any, Any]
    node_names: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Hold the wall: no label outside the training and validation nodes."""
        outside = (self.y >= 0) & ~(self.train_mask | self.val_mask)
        if bool(outside.any()):
            raise EraseError(
                "y = -1 outside the training and validation nodes",
                f"a label at {_node(_first(outside), self.node_names)}",
                "Build tasks with NodeTask.from_data, which drops such labels.",
            )

    @property
    def num_nodes(self) -> int:
        """N."""
        return self.y.numel()

    @property
    def num_edges(self) -> int:
        """E, the columns of `edge_index`: each undirected edge counts twice."""
        return self.edge_index.size(1)

    @property
    def num_features(self) -> int:
        """F."""
        return self.x.size(1)

    @property
    def num_classes(self) -> int:
        """K."""
        return len(self.class_names)

    @property
    def train_index(self) -> Tensor:
        """The training nodes [n] int64, ascending."""
        return self.train_mask.nonzero().squeeze(1)

    @property
    def val_index(self) -> Tensor:
        """The validation nodes [m] int64, ascending."""
        return self.val_mask.nonzero().squeeze(1)

    @classmethod
    def of(cls, graph: Any) -> NodeTask:
        """Return the task of a Data, a networkx graph, a (nodes, edges) table pair, or a task."""
        if isinstance(graph, NodeTask):
            return graph
        if isinstance(graph, Data):
            return cls.from_data(graph)
        networkx = sys.modules.get("networkx")
        if networkx is not None and isinstance(graph, networkx.Graph):
            return cls.from_networkx(graph)
        if isinstance(graph, tuple) and len(graph) == 2:
            return cls.from_tables(*graph)
        raise _not_a_graph(graph)

    @classmethod
    def from_data(cls, data: Data) -> NodeTask:
        """Check a PyG Data and keep what a method may see.

        Read from `data`: `x` (dense or sparse; may be absent), `edge_index` or `adj_t`, `y` (class
        numbers or names; -1, NaN, None or "" where unknown), `train_mask` and `val_mask` (or node
        numbers, also as `train_idx`, `val_idx`, …), `class_names`, `num_classes`, `node_names`.
        Without a training split, every labelled node outside validation and test trains.
        """
        if not isinstance(data, Data):
            raise _not_a_graph(data)
        notes: list[str] = list(_get(data, "notes") or ())
        y, class_names, label_values = encode_labels(data)
        n = y.numel()
        node_names = _names(data, "node_names", n)
        train, val = _given_splits(data, y, node_names, notes)
        seen = y[train]
        if not seen.numel():
            raise EraseError(
                "at least one training node with a label",
                "none",
                "Give labels (y ≥ 0, or names) to the nodes of train_mask.",
            )
        if int(seen.min()) == int(seen.max()):
            raise EraseError(
                "training labels of at least two classes",
                f"only class {class_names[int(seen[0])]!r} on {seen.numel()} training nodes",
                "Label training nodes of another class, or check how train_mask was drawn.",
            )
        present = torch.bincount(seen, minlength=len(class_names))
        if absent := [repr(class_names[k]) for k in (present == 0).nonzero().flatten().tolist()]:
            more = f" and {len(absent) - 5} more" if len(absent) > 5 else ""
            notes.append(f"No training node has the class {', '.join(absent[:5])}{more}.")
        edge_index = _edges(data, n, notes)
        return cls(
            x=_features(data, edge_index, n, node_names, notes),
            edge_index=edge_index,
            y=torch.where(train | val, y, -1),
            train_mask=train,
            val_mask=val,
            class_names=class_names,
            label_values=label_values,
            node_names=node_names,
            notes=tuple(notes),
        )

    @classmethod
    def from_arrays(
        cls,
        edges: Any,
        y: Any,
        x: Any = None,
        train: Any = None,
        val: Any = None,
        num_nodes: int | None = None,
        node_names: Sequence[str] | None = None,
        class_names: Sequence[str] | None = None,
    ) -> NodeTask:
        """Check numpy or scipy arrays; the arguments are those of `data_from_arrays`."""
        return cls.from_data(
            data_from_arrays(edges, y, x, train, val, num_nodes, node_names, class_names)
        )

    @classmethod
    def from_networkx(
        cls,
        graph: Any,
        label: str = "label",
        features: str | Sequence[str] | None = None,
        split: str = "split",
    ) -> NodeTask:
        """Check a networkx graph; the arguments are those of `data_from_networkx`."""
        return cls.from_data(data_from_networkx(graph, label, features, split))

    @classmethod
    def from_tables(
        cls,
        nodes: pd.DataFrame,
        edges: pd.DataFrame,
        id: str | None = None,
        label: str = "label",
        features: str | Sequence[str] | None = None,
        split: str = "split",
        source: str | None = None,
        target: str | None = None,
    ) -> NodeTask:
        """Check two pandas tables; the arguments are those of `data_from_tables`."""
        return cls.from_data(
            data_from_tables(nodes, edges, id, label, features, split, source, target)
        )


def encode_labels(data: Data) -> tuple[Tensor, tuple[str, ...], np.ndarray[Any, Any]]:
    """Return every label of `data` as y [N] int64 (-1: unknown), the K class names and values.

    This still sees test labels: it is for those who score or corrupt a graph, not for methods.
    K is the length of `data.class_names`, else `data.num_classes`, else 1 + the largest label;
    names without `class_names` are numbered in sorted order.

    >>> encode_labels(Data(y=["b", None, "a"]))
    (tensor([ 1, -1,  0]), ('a', 'b'), array(['a', 'b'], dtype='<U1'))
    """
    given = _get(data, "y")
    if given is None:
        raise EraseError(
            "labels in data.y", "none", "Set y [N]: a class per node, -1 where it is unknown."
        )
    names = _names(data, "class_names")
    if names is not None and len(set(names)) < len(names):
        raise EraseError(
            "different class_names", "a name that occurs twice", "Rename one, or merge the classes."
        )
    values = _label_column(given)
    if values.size == 0:
        raise EraseError("a graph with nodes", "0 nodes", "Check how the graph was read.")
    if values.dtype.kind == "U":
        return _encode_names(values, names)
    y = torch.from_numpy(_whole_labels(values))
    if names is None:
        k = _get(data, "num_classes")
        k = int(y.max()) + 1 if k is None else int(k)
        if k > max(len(y), MANY_CLASSES):  # before N × K arrays fill the memory
            raise EraseError(
                "class numbers 0, 1, 2, …",
                f"label {k - 1} on a graph of {len(y)} nodes",
                "Number the classes without gaps, or give labels as names (strings).",
            )
        names = tuple(map(str, range(k)))
    if bool((wrong := (y < -1) | (y >= len(names))).any()):
        raise EraseError(
            f"labels in 0..{len(names) - 1} ({len(names)} classes), or -1 where unknown",
            f"label {int(y[wrong][0])} at {_node(_first(wrong), _get(data, 'node_names'))}",
            "Correct it, set it to -1, or raise num_classes.",
        )
    return y, names, _frozen(np.arange(len(names)))


def split_mask(data: Data, part: str, num_nodes: int) -> Tensor | None:
    """Return the nodes of `part` ("train", "val" or "test") as a fresh mask [N] bool, if given."""
    for name in _SPLIT_NAMES[part]:
        if (value := _get(data, name)) is not None:
            return _mask(value, num_nodes, name)
    return None


def _given_splits(
    data: Data, y: Tensor, node_names: tuple[str, ...] | None, notes: list[str]
) -> tuple[Tensor, Tensor]:
    """Return the labelled training and validation nodes, [N] bool each."""
    n, known = y.numel(), y >= 0
    nobody = torch.zeros(n, dtype=torch.bool)
    train, val, test = (split_mask(data, part, n) for part in ("train", "val", "test"))
    val = nobody if val is None else val
    test = nobody if test is None else test
    if train is None:
        train = known & ~val & ~test
        notes.append(
            "No training split is given: every labelled node outside validation and test trains."
        )
    if bool((both := train & val).any()):
        raise EraseError(
            "training and validation nodes that do not overlap",
            f"{int(both.sum())} nodes in both, the first is {_node(_first(both), node_names)}",
            "Remove them from val_mask, or from train_mask.",
        )
    for part, name in ((train, "training"), (val, "validation")):
        if unknown := int((part & ~known).sum()):
            notes.append(f"{unknown} {name} nodes have no label and are left out of {name}.")
        if shared := int((part & test & known).sum()):
            notes.append(f"{shared} {name} nodes are test nodes too: their label is not hidden.")
    return train & known, val & known


def _edges(data: Data, n: int, notes: list[str]) -> Tensor:
    """Return the undirected edges [2, E], as `NodeTask.edge_index` promises."""
    row, col = edge_ends(data)
    wrong = (row < 0) | (row >= n) | (col < 0) | (col >= n)
    if bool(wrong.any()):
        i = _first(wrong)
        raise EraseError(
            f"edges between the nodes 0..{n - 1}",
            f"edge {i} from {int(row[i])} to {int(col[i])}",
            "Number the nodes from 0, and give every node a row in y (and in x).",
        )
    key = (row * n + col)[row != col].numpy()
    if loops := row.numel() - key.size:
        notes.append(f"{loops} self-loops were dropped: the encoders add their own.")
    given = _sorted_set(key)
    if repeats := key.size - given.size:
        notes.append(f"{repeats} repeated edges were merged.")
    both = _sorted_set(np.concatenate([given, given % n * n + given // n]))
    if mirrored := both.size - given.size:
        notes.append(f"{mirrored} one-way edges were mirrored: the graph is used as undirected.")
    if unused := [name for name in ("edge_weight", "edge_attr") if name in data]:
        notes.append(f"{unused[0]} is not used: every edge counts the same.")
    return torch.from_numpy(np.stack(np.divmod(both, n)))


def _sorted_set(key: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the different values of `key`, ascending; np.unique hashes and is slower here."""
    key = np.sort(key)
    return key[np.append(True, key[1:] != key[:-1])] if key.size else key


def edge_ends(data: Data) -> tuple[Tensor, Tensor]:
    """Return sources and targets, [E] int64 each, from `edge_index` or `adj_t`."""
    if (edge_index := _get(data, "edge_index")) is not None:
        ends = _tensor(edge_index)
        if ends.dim() != 2 or ends.size(0) != 2:
            raise EraseError(
                "edge_index of shape [2, E]",
                f"shape {list(ends.shape)}",
                "Put sources in the first row and targets in the second; transpose if needed.",
            )
        if ends.numel() and (ends.is_floating_point() or ends.dtype == torch.bool):
            raise EraseError(
                "whole node numbers in edge_index", f"{ends.dtype}", "Convert it with .long()."
            )
        return ends[0].long(), ends[1].long()
    if (adj_t := _get(data, "adj_t")) is not None:
        col, row = _adjacency_ends(adj_t)
        return row, col
    raise EraseError(
        "edges in data.edge_index [2, E] or data.adj_t",
        "neither",
        "For a graph without edges, set edge_index = torch.empty(2, 0, dtype=torch.long).",
    )


def _features(
    data: Data,
    edge_index: Tensor,
    n: int,
    node_names: tuple[str, ...] | None,
    notes: list[str],
) -> Tensor:
    """Return x [N, F] float32: the given features, or structural ones where there are none."""
    x = feature_matrix(_get(data, "x"))
    for rows in (_get(data, "num_nodes"), None if x is None else x.shape[0]):
        if rows is not None and rows != n:
            raise EraseError(
                "as many labels as nodes",
                f"{rows} nodes and {n} labels",
                "Give every node a row in x and an entry in y, -1 where the label is unknown.",
            )
    if x is None or x.shape[1] == 0:
        notes.append(
            f"The nodes have no features: {STRUCTURAL_WIDTH} structural features stand in for them,"
            " a seeded random projection of each node's 1-, 2- and 3-hop neighbourhood, scaled to"
            " length one (zero for an isolated node)."
        )
        return structural_features(edge_index, n)
    values = x if isinstance(x, Tensor) else x.data
    finite = torch.isfinite(_tensor(values))
    if not bool(finite.all()):
        first = (~finite).nonzero()[0].tolist()
        i = first[0] if isinstance(x, Tensor) else np.searchsorted(x.indptr, first[0], "right") - 1
        raise EraseError(
            "finite features",
            f"{float(values[tuple(first)])} at {_node(int(i), node_names)}",
            "Fill the gap (0, or the column's mean), or leave that feature out.",
        )
    if not isinstance(x, Tensor):
        return _csr_tensor(x)
    share = int(torch.count_nonzero(x)) / x.numel()
    if share <= SPARSE_BELOW:
        notes.append(f"x is kept sparse: {share:.1%} of its entries are not zero.")
        return _csr_tensor(sp.csr_matrix(x.numpy()))
    return x.clone(memory_format=torch.contiguous_format)


def structural_features(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Return [N, 128] features made from edges alone, the same for the same graph every time.

    With P = D⁻¹A and R [N, 128] standard normal, row i is the mean over h = 1, 2, 3 of row i of PʰR
    scaled to length one, itself scaled to length one: nodes whose neighbourhoods overlap get
    similar rows. An isolated node gets zeros. Cost: linear in edges.
    """
    row, col = edge_index.numpy()
    degree = np.bincount(row, minlength=num_nodes)
    parts = (1 / degree[row], col, np.append(0, np.cumsum(degree)))
    walk = _csr_tensor(sp.csr_matrix(parts, shape=(num_nodes, num_nodes)))
    random = numpy_stream(0, "structural features")
    hop = torch.from_numpy(random.standard_normal((num_nodes, STRUCTURAL_WIDTH), np.float32))
    total = torch.zeros_like(hop)
    for _ in range(3):
        hop = walk @ hop
        total += torch.nn.functional.normalize(hop, dim=1)
    return torch.nn.functional.normalize(total, dim=1)


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
        ends = torch.stack(_adjacency_ends(edges))
    else:
        ends = _tensor(edges)
        if ends.dim() == 2 and ends.size(0) != 2 and ends.size(1) == 2:
            ends = ends.t()
        ends = ends.reshape(2, 0) if ends.numel() == 0 else ends
    labels = _label_column(y)
    data = Data(edge_index=ends, y=labels if labels.dtype.kind == "U" else _tensor(labels))
    if (features := feature_matrix(x)) is not None:
        data.x = features if isinstance(features, Tensor) else _csr_tensor(features)
    if x is None or num_nodes is not None:
        data.num_nodes = len(labels) if num_nodes is None else num_nodes
    for name, nodes in (("train_mask", train), ("val_mask", val)):
        if nodes is not None:
            data[name] = _mask(nodes, len(labels), name)
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
        raise _not_a_graph(graph)
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
            raise _not_a_graph(table)
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
    parts = plain.map({**_SPLIT_WORDS, "": ""})
    if parts.isna().any():
        i = int(np.flatnonzero(parts.isna())[0])
        raise EraseError(
            "train, val, test or nothing as a node's split",
            f"{words.iloc[i]!r} in row {i}",
            "Use those words, and leave the others empty.",
        )
    return {part: _tensor(parts == part) for part in ("train", "val", "test")}


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


def _get(data: Data, name: str) -> Any:
    if name not in data:  # getattr would answer with what PyG infers
        return None
    return data[name]


def _tensor(given: Any) -> Tensor:
    """Return an array as a tensor that may share its memory (torch takes plain ones only)."""
    if isinstance(given, Tensor):
        return given.detach().cpu()
    array = np.asarray(given)
    return torch.from_numpy(np.require(array, array.dtype.newbyteorder("="), ["C", "W"]))


def _first(mask: Tensor) -> int:
    return int(mask.nonzero()[0])


def _node(i: int, names: Sequence[str] | None) -> str:
    return f"node {i}" if names is None else f"node {i} ({names[i]!r})"


def _names(data: Data, key: str, n: int | None = None) -> tuple[str, ...] | None:
    """Return `data[key]` as names, checked to be n of them."""
    if (given := _get(data, key)) is None:
        return None
    names = tuple(map(str, given))
    if n is not None and len(names) != n:
        raise EraseError(
            f"{n} {key}, one each", f"{len(names)}", f"Correct data.{key}, or remove it."
        )
    return names


def _frozen(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    values.flags.writeable = False
    return values


def _label_column(given: Any) -> np.ndarray[Any, Any]:
    """Return labels as one column [N]: numbers, or names (kind "U") with "" where unknown."""
    if isinstance(given, Tensor):
        column = given.detach().cpu().numpy()
    else:  # a list goes through objects, or numpy would turn None and NaN beside names into names
        column = np.array(given, dtype=object) if isinstance(given, list | tuple) else given
        column = np.asarray(column)
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.ndim != 1:
        raise EraseError(
            "one label per node, y of shape [N]",
            f"shape {list(column.shape)}",
            "Take y.argmax(1) of one-hot labels; a node has one class here.",
        )
    if column.dtype.kind in "biufU":
        return column
    missing = pd.isna(column)
    text = np.fromiter((isinstance(value, str) for value in column), bool, len(column))
    missing = missing | (text & (column == ""))
    if text.any() and (text | missing).all():
        return np.where(missing, "", column).astype(str)
    if not (text & ~missing).any():
        try:
            return np.where(missing, np.nan, column).astype(np.float64)
        except (TypeError, ValueError):
            pass
    raise EraseError(
        "labels that are all whole numbers or all names",
        f"{next(value for value in column[~missing])!r} among others",
        "Use one kind; leave unknown labels as -1, None or empty.",
    )


def _whole_labels(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return number labels as fresh [N] int64, -1 where NaN."""
    if values.dtype.kind == "f":
        values = np.where(np.isnan(values), -1, values)
        if (wrong := ~np.isfinite(values) | (values != np.rint(values))).any():
            i = int(np.flatnonzero(wrong)[0])
            raise EraseError(
                "labels that are whole numbers, or names",
                f"{values[i]} at node {i}",
                "Number the classes 0, 1, 2, …; a quantity to predict is not a class.",
            )
    return values.astype(np.int64)


def _encode_names(
    values: np.ndarray[Any, Any], names: tuple[str, ...] | None
) -> tuple[Tensor, tuple[str, ...], np.ndarray[Any, Any]]:
    """Return name labels as `encode_labels` promises."""
    known = values != ""
    used, code = np.unique(values[known], return_inverse=True)
    if names is None:
        names = tuple(used.tolist())
    position = {name: k for k, name in enumerate(names)}
    if strange := [name for name in used.tolist() if name not in position]:
        raise EraseError(
            f"labels among class_names ({', '.join(names[:10])}{', …' if len(names) > 10 else ''})",
            f"{strange[0]!r} at node {int(np.flatnonzero(values == strange[0])[0])}",
            "Correct the label, or add it to class_names.",
        )
    y = np.full(len(values), -1)
    y[known] = np.array([position[name] for name in used.tolist()], dtype=np.int64)[code]
    return torch.from_numpy(y), names, _frozen(np.array(names, dtype=str))


def _mask(value: Any, n: int, name: str) -> Tensor:
    """Return a mask [N] or node numbers as a fresh mask [N] bool."""
    nodes = _tensor(value)
    if nodes.dim() == 2 and nodes.size(1) == 1:
        nodes = nodes[:, 0]
    if nodes.dim() != 1:
        raise EraseError(
            f"one split, {name} of shape [{n}]",
            f"shape {list(nodes.shape)}",
            f"Choose a column: data.{name} = data.{name}[:, 0].",
        )
    if nodes.is_floating_point() and nodes.numel():
        raise EraseError(
            f"{name} as a bool mask or node numbers", f"{nodes.dtype}", "Convert it with .bool()."
        )
    # 0/1 for every node: as node numbers it would only say "0 and 1" over and over
    is_mask = nodes.numel() == n > 2 and bool(((nodes == 0) | (nodes == 1)).all())
    if nodes.dtype == torch.bool or is_mask:
        if nodes.numel() != n:
            raise EraseError(
                f"{name} with one entry for each of {n} nodes",
                f"{nodes.numel()} entries",
                "Make the mask as long as y.",
            )
        return nodes.bool().clone()
    nodes = nodes.long()
    if bool((wrong := (nodes < 0) | (nodes >= n)).any()):
        raise EraseError(
            f"node numbers 0..{n - 1} in {name}",
            f"{int(nodes[wrong][0])} at position {_first(wrong)}",
            "Count nodes from 0, or give a bool mask.",
        )
    return torch.zeros(n, dtype=torch.bool).index_fill_(0, nodes, True)


def feature_matrix(given: Any) -> Any:
    """Return features as a dense tensor [N, F] float32 or a fresh scipy CSR, or None."""
    if given is None:
        return None
    if _is_sparse(given):
        return _scipy_csr(given)
    array = given if isinstance(given, Tensor) else np.asarray(given)
    if isinstance(array, np.ndarray) and array.dtype.kind not in "biuf":
        raise EraseError("features that are numbers", f"{array.dtype}", "Turn them into numbers.")
    dense = _tensor(array)
    if dense.dim() != 2 or dense.is_complex():
        raise EraseError(
            "x of shape [N, F], real numbers",
            f"shape {list(dense.shape)}, {dense.dtype}",
            "Give one row of features per node; x[:, None] makes one column of x [N].",
        )
    return dense.to(torch.float32)


def _is_sparse(given: Any) -> bool:
    if isinstance(given, Tensor):
        return given.layout != torch.strided
    return sp.issparse(given) or hasattr(given, "to_torch_sparse_coo_tensor")


def _scipy_csr(given: Any) -> Any:
    """Return a sparse matrix of scipy, torch or torch_sparse as a fresh canonical CSR, float32."""
    if hasattr(given, "to_torch_sparse_coo_tensor"):
        given = given.to_torch_sparse_coo_tensor()
    if isinstance(given, Tensor):
        given = given.detach().cpu()
        if given.layout == torch.sparse_coo:
            given = given.coalesce()
            values, index = given.values().float().numpy(), given.indices().numpy()
            matrix = sp.coo_matrix((values, tuple(index)), shape=given.shape)
        elif given.layout in (torch.sparse_csr, torch.sparse_csc):
            by_row = given.layout == torch.sparse_csr
            outer = given.crow_indices() if by_row else given.ccol_indices()
            inner = given.col_indices() if by_row else given.row_indices()
            parts = (given.values().float().numpy(), inner.numpy(), outer.numpy())
            matrix = (sp.csr_matrix if by_row else sp.csc_matrix)(parts, shape=given.shape)
        else:
            matrix = given.float().to_dense().numpy()
    else:
        matrix = given
    if getattr(matrix, "format", "") in ("csr", "csc"):
        try:
            matrix.check_format(full_check=True)  # an index out of bounds would crash scipy
        except ValueError as error:
            raise EraseError(
                "a well-formed sparse matrix", f"{error}", "Build it again from its entries."
            ) from None
    fresh = sp.csr_matrix(matrix, dtype=np.float32, copy=True)
    fresh.sum_duplicates()
    fresh.eliminate_zeros()
    return fresh


def _csr_tensor(matrix: Any) -> Tensor:
    """Return a scipy CSR as a torch CSR with int64 indices."""
    with warnings.catch_warnings():  # "CSR support is in beta", once in each process
        warnings.simplefilter("ignore", UserWarning)
        return torch.sparse_csr_tensor(
            torch.from_numpy(matrix.indptr.astype(np.int64)),
            torch.from_numpy(matrix.indices.astype(np.int64)),
            torch.from_numpy(matrix.data.astype(np.float32)),
            size=matrix.shape,
            check_invariants=False,
        )


def _adjacency_ends(matrix: Any) -> tuple[Tensor, Tensor]:
    """Return rows and columns of the non-zeros of an adjacency matrix, [E] int64 each."""
    coo = _scipy_csr(matrix).tocoo()
    if coo.shape[0] != coo.shape[1]:
        raise EraseError(
            "a square adjacency matrix [N, N]",
            f"shape {list(coo.shape)}",
            "Give the edges as node numbers [2, E] instead.",
        )
    return torch.from_numpy(coo.row.astype(np.int64)), torch.from_numpy(coo.col.astype(np.int64))


def _not_a_graph(given: Any) -> EraseError:
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
