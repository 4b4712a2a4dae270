"""Arrays and networkx graphs into a PyG ``Data``, test labels included."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
import torch
from torch import Tensor
from torch_geometric.data import Data

from erase.data.edges import adjacency_entries
from erase.data.fields import not_a_graph, to_ids, to_names, to_tensor
from erase.data.labels import label_column
from erase.data.matrices import csr_tensor, feature_matrix
from erase.data.splits import node_mask
from erase.data.tables import (
    TableOptions,
    data_from_frame,
    table_options,
    with_merged_classes,
)
from erase.data.trusted import trusted_field
from erase.errors import EraseError, input_errors


@input_errors("arrays of a graph")
def from_arrays(
    edges: Any,
    y: Any = None,
    x: Any = None,
    train: Any = None,
    val: Any = None,
    num_nodes: int | None = None,
    node_names: Sequence[str] | None = None,
    class_names: Sequence[str] | None = None,
    *,
    node_ids: Sequence[Any] | None = None,
    feature_names: Sequence[str] | None = None,
    edge_weight: Any = None,
    directed: bool = False,
    strict: bool = False,
    merge_classes: bool = False,
    trusted: Any = None,
    trusted_random: Any = None,
) -> Data:
    """Return arrays as a graph, test labels included.

    Args:
        edges: node numbers [2, E] or [E, 2], or a scipy sparse adjacency matrix [N, N]. Of an
            array [2, 2] the rows are sources and targets; of a list they are pairs. The entries
            of a matrix are the weights of its edges, unless all are 1.
        y: [N] class numbers, -1 or NaN where unknown; or class names, None or "" where unknown;
            None for a graph without labels, to predict on.
        x: features [N, F], numpy or scipy sparse.
        train: training nodes, a mask [N] or node numbers.
        val: validation nodes, likewise.
        num_nodes: N, as a check.
        node_names: N names that people read.
        class_names: K names, in the order of the class numbers.
        node_ids: N ids that join the nodes with other tables.
        feature_names: F names.
        edge_weight: [E] weights from 0 on.
        directed: keep which direction of an edge was given.
        strict: refuse missing feature values (NaN) instead of filling them with the column's
            median.
        merge_classes: merge class names that look like misspellings of a frequent one.
        trusted: [N] the classes that a person confirmed or corrected, written as in `y`, -1 or
            empty elsewhere; or a bool mask [N]: `y` is confirmed there.
        trusted_random: which trusted labels were drawn at random, a mask [N] or node numbers;
            None: all of them.
    """
    labels = None if y is None else label_column(y)
    weight = None if edge_weight is None else to_tensor(edge_weight, "edge_weight")
    if sp.issparse(edges):
        row, col, values = adjacency_entries(edges, None if labels is None else len(labels))
        ends = torch.stack([row, col])
        if weight is None and bool((values != 1).any()):
            weight = values
        num_nodes = edges.shape[0] if labels is None and num_nodes is None else num_nodes
    else:
        ends = to_tensor(edges, "edges")
        if ends.dim() == 2 and ends.size(1) == 2 and (ends.size(0) != 2 or _is_list(edges)):
            ends = ends.t()
        ends = ends.reshape(2, 0) if ends.numel() == 0 else ends
    data = Data(edge_index=ends)
    if labels is not None:
        data.y = labels if labels.dtype.kind == "U" else to_tensor(labels)
    notes: list[str] = []
    if (features := feature_matrix(x)) is not None:
        if not strict:
            features = _filled(features, notes)
        data.x = features if isinstance(features, Tensor) else csr_tensor(features)
    n = len(labels) if labels is not None else num_nodes
    n = len(features) if n is None and features is not None else n
    if x is None or num_nodes is not None:
        data.num_nodes = n if num_nodes is None else num_nodes
    if trusted is not None:
        data.trusted = trusted_field(trusted)
    masks = (("train_mask", train), ("val_mask", val), ("trusted_random", trusted_random))
    for name, nodes in masks:
        if nodes is not None and n is not None:
            data[name] = node_mask(nodes, n, name)
    for name, names in (
        ("node_names", node_names),
        ("class_names", class_names),
        ("feature_names", feature_names),
    ):
        if names is not None:
            data[name] = list(to_names(names, name))
    if node_ids is not None:
        data.node_ids = to_ids(node_ids)
    if weight is not None:
        data.edge_weight = weight
    if directed:
        data.directed = True
    if notes:
        data.notes = notes
    return with_merged_classes(data) if merge_classes else data


def _filled(x: Any, notes: list[str]) -> Any:
    """Return features with the column's median in place of NaN."""
    dense = isinstance(x, Tensor)
    values = x.numpy() if dense else x.data
    if not np.isnan(values).any():
        return x
    values = values.copy()
    missing = np.isnan(values)
    columns = np.flatnonzero(missing.any(0)) if dense else np.unique(x.indices[missing])
    for j in columns:
        column = values[:, j] if dense else x[:, [j]].toarray()[:, 0]
        known = column[~np.isnan(column)]
        median = float(np.median(known)) if known.size else 0.0
        if dense:
            column[np.isnan(column)] = median
        else:
            values[missing & (x.indices == j)] = median
    notes.append(
        f"{int(missing.sum())} missing feature values in {len(columns)} columns became the "
        "column's median."
    )
    if dense:
        return torch.from_numpy(values)
    return sp.csr_matrix((values, x.indices, x.indptr), x.shape)


def _is_list(edges: Any) -> bool:
    """Say whether `edges` is a list of lists or tuples; (rows, columns) of arrays is not."""
    plain = (list, tuple)
    return isinstance(edges, plain) and all(isinstance(each, plain) for each in edges)


@input_errors("a networkx graph that can be read")
def from_networkx(graph: Any, **options: Any) -> Data:
    """Return a networkx graph as a graph of this package, test labels included.

    Node attributes are read as the columns of a nodes table, see `erase.data.tables`; the node
    itself is its id. The edge attribute `weight` holds weights, 1 where it is missing.

    Args:
        graph: any networkx graph.
        **options: the attributes of `TableOptions`; not `id`, `source`, `target` and `separator`.
    """
    return read_networkx(graph, table_options(options))


def read_networkx(graph: Any, options: TableOptions) -> Data:
    """Return a networkx graph as a graph of this package, test labels included."""
    if not (hasattr(graph, "nodes") and hasattr(graph, "edges")):
        raise not_a_graph(graph)
    for option in ("id", "source", "target", "separator"):
        if getattr(options, option) is not None and not options.is_remembered(option):
            raise EraseError(
                "attributes of a networkx graph",
                f"{option}=…",
                f"Leave out {option}=…: nodes are their own ids.",
                option=option,
            )
    position = {node: i for i, node in enumerate(graph.nodes)}
    rows = [attributes for _, attributes in graph.nodes(data=True)]
    try:
        frame = pd.DataFrame(rows)
    except OverflowError:  # pandas 2 has no type for an integer beyond all floats
        frame = pd.DataFrame(rows, dtype=object)
    frame = frame.reindex(range(len(position)))
    key = options.weight or "weight"
    edges = [(position[u], position[v], weight) for u, v, weight in graph.edges(data=key)]
    if not graph.is_directed():
        edges += [(v, u, weight) for u, v, weight in edges if u != v]
    ends = torch.tensor([edge[:2] for edge in edges], dtype=torch.long).reshape(-1, 2).t()
    given = [None if options.no_weights else edge[2] for edge in edges]
    weight = None
    if any(each is not None for each in given):
        weight = to_tensor([1.0 if each is None else each for each in given], f"edge {key}")
    elif options.weight is not None and not (options.no_weights or options.is_remembered("weight")):
        raise EraseError(
            f"edges with an attribute {key!r}", "none", "Name another: weight=….", "weight"
        )
    return data_from_frame(frame, list(position), ends, weight, options, [])
