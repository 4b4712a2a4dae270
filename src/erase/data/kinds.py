"""Every kind of graph as a PyG ``Data``, and other labels on a graph of the same kind.

A graph is a ``Data`` (which `from_arrays`, `from_networkx`, `from_tables` and `read_graph` return),
a `NodeTask`, a networkx graph, or a pair of pandas tables (nodes, edges).
"""

import sys
from collections.abc import Iterable
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from erase.data.contract import FeatureContract
from erase.data.conversion import from_networkx
from erase.data.fields import not_a_graph
from erase.data.labels import with_labels
from erase.data.tables import TableOptions, from_tables

Graph = TypeVar("Graph")

_LABEL = TableOptions.label  # the attribute of nodes, and the column of their table


def graph_data(graph: Any, contract: FeatureContract | None = None) -> Data:
    """Return a graph of any kind as a Data with all labels it has; a Data itself.

    Args:
        graph: a Data, a NodeTask, a networkx graph, or a pair of tables.
        contract: how to make the features of tables and networkx graphs.
    """
    if isinstance(graph, Data):
        return graph
    if _is_networkx(graph):
        return from_networkx(graph, contract=contract)
    if isinstance(graph, tuple) and len(graph) == 2:
        return from_tables(*graph, contract=contract)
    if hasattr(graph, "to_data"):  # a NodeTask, which this module is below
        data: Data = graph.to_data()
        return data
    raise not_a_graph(graph)


def relabelled(
    graph: Graph,
    before: Tensor,
    y: np.ndarray[Any, Any],
    class_names: tuple[str, ...],
    values: np.ndarray[Any, Any],
) -> Graph:
    """Return a copy of `graph`, of the same kind, with other labels.

    Args:
        graph: of any kind.
        before: [N] its classes as `encode_labels` reads them.
        y: [N] class indices to write, -1 where unknown.
        class_names: K names.
        values: [K] what stands for a class among labels.
    """
    result: Any
    if isinstance(graph, Data):
        result = with_labels(graph, y, class_names, values)
    elif _is_networkx(graph):
        result = graph.copy()  # type: ignore[attr-defined]
        given = (attributes.get(_LABEL) for attributes in result.nodes.values())
        labels = _as_written(given, before, y, values)
        for attributes, label in zip(result.nodes.values(), labels, strict=True):
            if label is None:
                attributes.pop(_LABEL, None)
            else:
                attributes[_LABEL] = label
    elif isinstance(graph, tuple):
        nodes, edges = graph
        labels = _as_written(nodes[_LABEL].astype(object), before, y, values)
        column = nodes[_LABEL].astype(object).copy()
        column.iloc[:] = labels
        result = nodes.assign(**{_LABEL: column.infer_objects()}), edges
    else:
        result = graph.with_classes(torch.from_numpy(y))  # type: ignore[attr-defined]
    copied: Graph = result
    return copied


def _is_networkx(graph: Any) -> bool:
    networkx = sys.modules.get("networkx")
    return networkx is not None and isinstance(graph, networkx.Graph)


def _as_written(
    given: Iterable[Any], before: Tensor, y: np.ndarray[Any, Any], values: np.ndarray[Any, Any]
) -> list[Any]:
    """Return the classes `y` as the graph's own labels `given` write them, None where unknown."""
    labels, old = list(given), before.tolist()
    written = {k: label for k, label in zip(old, labels, strict=True) if k >= 0}
    usual = values.tolist()
    return [
        label if k == was else None if k < 0 else written.get(k, usual[k])
        for label, was, k in zip(labels, old, y.tolist(), strict=True)
    ]
