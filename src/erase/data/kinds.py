"""Every kind of graph as a PyG ``Data``, and other labels on a graph of the same kind.

A graph is a ``Data`` (which `from_arrays`, `from_networkx`, `from_tables` and `read_graph` return),
a `NodeTask`, a networkx graph, or a pair of pandas tables (nodes, edges).
"""

import sys
from collections.abc import Iterable
from copy import copy
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch_geometric.data import Data

from erase.data.contract import FeatureContract
from erase.data.conversion import from_networkx
from erase.data.fields import not_a_graph
from erase.data.labels import label_fields, with_labels
from erase.data.tables import TableOptions, from_tables
from erase.data.trusted import trusted_cells

Graph = TypeVar("Graph")

_LABEL = TableOptions.label  # the attribute of nodes, and the column of their table
_TRUSTED = TableOptions.trusted


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
    """Return a copy of `graph`, of the same kind, with other labels and the same trusted ones.

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
        rows = list(result.nodes.values())
        given = [attributes.get(_LABEL) for attributes in rows]
        trusted = _as_classes([attributes.get(_TRUSTED) for attributes in rows], given)
        labels = _as_written(given, before, y, values)
        for name, column in ((_LABEL, labels), (_TRUSTED, trusted)):
            for attributes, label in zip(rows, column, strict=True):
                if label is None:
                    attributes.pop(name, None)
                else:
                    attributes[name] = label
    elif isinstance(graph, tuple):
        nodes, edges = graph
        labels = _as_written(nodes[_LABEL].astype(object), before, y, values)
        column = nodes[_LABEL].astype(object).copy()
        column.iloc[:] = labels
        result = nodes.assign(**{_LABEL: column.infer_objects()}), edges
        if _TRUSTED in nodes:
            trusted = _as_classes(nodes[_TRUSTED].tolist(), nodes[_LABEL].tolist())
            result[0][_TRUSTED] = pd.Series(trusted, nodes.index, dtype=object).infer_objects()
    else:
        result = graph.with_classes(torch.from_numpy(y))  # type: ignore[attr-defined]
    copied: Graph = result
    return copied


def with_trusted(
    graph: Graph,
    trusted: np.ndarray[Any, Any],
    trusted_random: np.ndarray[Any, Any],
    class_names: tuple[str, ...],
    values: np.ndarray[Any, Any],
) -> Graph:
    """Return a copy of `graph`, of the same kind, with labels that a person has confirmed.

    Args:
        graph: of any kind.
        trusted: [N] class indices, -1 where nobody looked.
        trusted_random: [N] which of them were drawn at random.
        class_names: K names.
        values: [K] what stands for a class among labels.
    """
    result: Any
    if isinstance(graph, Data):
        result = copy(graph)
        labels = label_fields(trusted, class_names, values)["y"]
        result.trusted = labels if labels.dtype.kind == "U" else torch.from_numpy(labels)
        result.trusted_random = torch.from_numpy(trusted_random)
    elif _is_networkx(graph):
        result = graph.copy()  # type: ignore[attr-defined]
        usual = values.tolist()
        rows = zip(result.nodes.values(), trusted.tolist(), trusted_random.tolist(), strict=True)
        for attributes, k, is_random in rows:
            if k >= 0:
                attributes |= {"trusted": usual[k], "trusted_random": is_random}
    elif isinstance(graph, tuple):
        nodes, edges = graph
        names = np.array([*class_names, ""], dtype=object)
        result = nodes.assign(trusted=names[trusted], trusted_random=trusted_random), edges
    else:
        tensors = {
            "trusted": torch.from_numpy(trusted),
            "trusted_random": torch.from_numpy(trusted_random),
        }
        result = replace(graph, **tensors)  # type: ignore[type-var]
    copied: Graph = result
    return copied


def _is_networkx(graph: Any) -> bool:
    networkx = sys.modules.get("networkx")
    return networkx is not None and isinstance(graph, networkx.Graph)


def _as_classes(trusted: list[Any], labels: list[Any]) -> list[Any]:
    """Return trusted labels as classes, where they are a mask that says: this label is right."""
    cells = trusted_cells(pd.Series(trusted, dtype=object), pd.Series(labels, dtype=object))
    if not isinstance(cells, Tensor) or cells.dtype != torch.bool:
        return trusted
    return [label if right else None for right, label in zip(cells.tolist(), labels, strict=True)]


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
