"""NodeTask: everything a method may see, checked once when it is made.

A task keeps the labels of training and validation nodes and no other: test labels are dropped here,
so that no method can reach them. Whatever form a graph comes in (arrays, networkx,
tables, files), it becomes a PyG ``Data``, which may still hold test labels for scoring, and one
constructor, `NodeTask.from_data`, checks it. The user's object is never written to.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch_geometric.data import Data

from erase.data.conversion import data_from_arrays, data_from_networkx, data_from_tables
from erase.data.edges import undirected_edges
from erase.data.features import node_features
from erase.data.fields import field, first_true, node_title, not_a_graph, read_names, was_checked
from erase.data.labels import encode_labels
from erase.data.splits import read_splits
from erase.errors import EraseError


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
        label_values: [K], what stands for class k in a prediction: the number that the labels
            have for it, or its name if they were given as names.
        node_names: N names, or None; those of a graph's folder are read when they are asked for.
        notes: what was changed when the input was read, one sentence each.
        hidden_labels: how many labels outside training and validation were dropped.
    """

    x: Tensor
    edge_index: Tensor
    y: Tensor
    train_mask: Tensor
    val_mask: Tensor
    class_names: tuple[str, ...]
    label_values: np.ndarray[Any, Any]
    node_names: Sequence[str] | None = None
    notes: tuple[str, ...] = ()
    hidden_labels: int = 0

    def __post_init__(self) -> None:
        """Check that no node outside training and validation has a label."""
        outside = (self.y >= 0) & ~(self.train_mask | self.val_mask)
        if bool(outside.any()):
            raise EraseError(
                "y = -1 outside the training and validation nodes",
                f"a label at {node_title(first_true(outside), self.node_names)}",
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

    @cached_property
    def indptr(self) -> Tensor:
        """[N+1] int64: the neighbours of node i are ``edge_index[1, indptr[i]:indptr[i + 1]]``."""
        return torch.searchsorted(self.edge_index[0], torch.arange(self.num_nodes + 1))

    @property
    def train_index(self) -> Tensor:
        """The training nodes [n] int64, ascending."""
        return self.train_mask.nonzero().squeeze(1)

    @property
    def val_index(self) -> Tensor:
        """The validation nodes [m] int64, ascending."""
        return self.val_mask.nonzero().squeeze(1)

    def without_validation(self) -> NodeTask:
        """Return the same graph with its training labels alone."""
        nobody = torch.zeros_like(self.val_mask)
        return replace(self, y=self.y.where(self.train_mask, -1), val_mask=nobody)

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
        raise not_a_graph(graph)

    @classmethod
    def from_data(cls, data: Data) -> NodeTask:
        """Check a PyG Data and keep what a method may see.

        Read from `data`: `x` (dense or sparse; may be absent), `edge_index` or `adj_t`, `y` (class
        numbers or names; -1, NaN, None or "" where unknown), `train_mask` and `val_mask` (or node
        numbers, also as `train_idx`, `val_idx`, …), `class_names`, `num_classes`, `class_values`,
        `node_names`. The classes are the labels that occur, unless one of the three before says
        them, see `erase.data.labels.encode_labels`. Without a training split, every labelled node
        outside validation and test trains.
        """
        if not isinstance(data, Data):
            raise not_a_graph(data)
        notes: list[str] = list(field(data, "notes") or ())
        y, class_names, label_values = encode_labels(data)
        n = y.numel()
        node_names = read_names(data, "node_names", n)
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
        edge_index = undirected_edges(data, n, notes)
        task = cls(
            x=node_features(data, edge_index, n, node_names, notes),
            edge_index=edge_index,
            y=torch.where(train | val, y, -1),
            train_mask=train,
            val_mask=val,
            class_names=class_names,
            label_values=label_values,
            node_names=node_names,
            notes=tuple(notes),
            hidden_labels=int(((y >= 0) & ~(train | val)).sum()),
        )
        if "indptr" in data and was_checked(data, "edge_index"):
            vars(task)["indptr"] = data.indptr  # as if it had been computed
        return task

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


def fingerprint(tasks: Sequence[NodeTask]) -> str:
    """Return a SHA-256 of the first task's graph and of the labels and splits of all."""
    digest = hashlib.sha256()
    x = tasks[0].x
    parts = [x.crow_indices(), x.col_indices(), x.values()] if x.is_sparse_csr else [x]
    parts.append(tasks[0].edge_index)
    for task in tasks:
        parts += [task.y, task.train_mask, task.val_mask]
    for tensor in parts:
        digest.update(str(tuple(tensor.shape)).encode())
        digest.update(tensor.contiguous().numpy().reshape(-1).view("u1").data)  # not copied
    return digest.hexdigest()


def _given_splits(
    data: Data, y: Tensor, node_names: Sequence[str] | None, notes: list[str]
) -> tuple[Tensor, Tensor]:
    """Return the labelled training and validation nodes, [N] bool each."""
    known = y >= 0
    splits = read_splits(data, y)
    train, val, test = splits.train, splits.val, splits.test
    if not splits.train_is_given:
        notes.append(
            "No training split is given: every labelled node outside validation and test trains."
        )
    if bool((both := train & val).any()):
        first = node_title(first_true(both), node_names)
        raise EraseError(
            "training and validation nodes that do not overlap",
            f"{int(both.sum())} nodes in both, the first is {first}",
            "Remove them from val_mask, or from train_mask.",
        )
    for part, name in ((train, "training"), (val, "validation")):
        if unknown := int((part & ~known).sum()):
            notes.append(f"{unknown} {name} nodes have no label and are left out of {name}.")
        if shared := int((part & test & known).sum()):
            notes.append(f"{shared} {name} nodes are test nodes too: their label is not hidden.")
    return train & known, val & known
