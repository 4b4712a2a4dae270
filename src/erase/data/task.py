"""NodeTask: everything a method may see, checked once when it is made.

A task keeps the labels of training and validation nodes and no other: test labels are dropped here,
so that no method can reach them. Whatever form a graph comes in (arrays, networkx,
tables, files), it becomes a PyG ``Data``, which may still hold test labels for scoring, and one
constructor, `NodeTask.from_data`, checks it. The user's object is never written to.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch_geometric.data import Data

from erase.data.contract import FeatureContract
from erase.data.conversion import from_arrays, from_networkx
from erase.data.edges import undirected_edges
from erase.data.features import has_features, node_features
from erase.data.fields import (
    field,
    first_true,
    mark_checked,
    node_title,
    not_a_graph,
    read_names,
    was_checked,
)
from erase.data.kinds import graph_data
from erase.data.labels import encode_labels, misspelling_note, with_labels
from erase.data.splits import read_splits
from erase.data.tables import from_tables
from erase.display import Facts, fact_line, fact_table
from erase.errors import EraseError


@dataclass(frozen=True, eq=False, repr=False)
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
        node_names: N names that people read, or None; those of a graph's folder are read when they
            are asked for.
        notes: what was changed when the input was read, one sentence each.
        hidden_labels: how many labels outside training and validation were dropped.
        node_ids: N ids that join the nodes with the user's tables, or None.
        edge_weight: [E] float32 weights from 0 on, the same for both directions unless the graph is
            directed; None where all edges count the same, as if all had weight 1.
        edge_is_given: [E] bool, of a directed graph: whether this direction was given or is a
            mirror image. Kept; no method uses it.
        contract: what the features are, see `feature_contract`.
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
    node_ids: Sequence[Any] | None = None
    edge_weight: Tensor | None = None
    edge_is_given: Tensor | None = None
    contract: FeatureContract | None = None

    def __post_init__(self) -> None:
        """Check that no node outside training and validation has a label."""
        outside = (self.y >= 0) & ~(self.train_mask | self.val_mask)
        if bool(outside.any()):
            raise EraseError(
                "y = -1 outside the training and validation nodes",
                f"a label at {node_title(first_true(outside), self.node_names)}",
                "Build tasks with NodeTask.from_data, which drops such labels.",
            )

    def __repr__(self) -> str:
        """Return the sizes of the graph, in a line."""
        return fact_line("NodeTask", self._facts())

    def _repr_html_(self) -> str:
        return fact_table("NodeTask", self._facts())

    def _facts(self) -> Facts:
        return {
            "nodes": self.num_nodes,
            "edges": self.num_edges // 2,
            "features": self.num_features,
            "classes": self.num_classes,
            "training labels": int(self.train_mask.sum()),
            "validation labels": int(self.val_mask.sum()),
        }

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
    def feature_contract(self) -> FeatureContract:
        """What the features are and how to make them for another graph."""
        return self.contract or FeatureContract(self.num_features)

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
    def of(
        cls,
        graph: Any,
        *,
        labelled: bool = True,
        weights: bool = True,
        contract: FeatureContract | None = None,
    ) -> NodeTask:
        """Return the task of a Data, a networkx graph, a (nodes, edges) table pair, or a task.

        Args:
            graph: one of these.
            labelled: False for a graph to predict on, which needs no labels; see `from_data`.
            weights: False ignores edge weights: all edges count the same.
            contract: the features a fitted model expects. Tables and networkx graphs are read by
                it; other graphs are refused where their features are not the same.
        """
        if not isinstance(graph, NodeTask):
            data = graph_data(graph, contract=_of_table(contract))
            task = cls.from_data(data, labelled=labelled, weights=weights)
        else:
            task = graph if labelled else graph.without_labels()
        if contract is not None:
            contract.check(task.feature_contract)
        return task if weights else task.without_weights()

    def without_weights(self) -> NodeTask:
        """Return the same graph without edge weights: all edges count the same."""
        return replace(self, edge_weight=None)

    def to_data(self) -> Data:
        """Return the graph as a PyG Data: its features, edges, given labels, splits and names.

        It has no test labels, which a task does not hold.
        """
        data = Data(x=self.x, edge_index=self.edge_index, notes=list(self.notes))
        data = with_labels(data, self.y.numpy(), self.class_names, self.label_values)
        data.train_mask, data.val_mask = self.train_mask, self.val_mask
        for name in ("node_names", "node_ids", "edge_weight"):
            if (value := getattr(self, name)) is not None:
                data[name] = value
        if self.contract is not None:
            data.feature_contract = self.contract.to_dict()
        mark_checked(data)
        if self.edge_is_given is not None:
            data.directed, data.edge_index = True, self.edge_index[:, self.edge_is_given]
            if self.edge_weight is not None:
                data.edge_weight = self.edge_weight[self.edge_is_given]
        return data

    def with_classes(self, y: Tensor) -> NodeTask:
        """Return the same graph with other classes `y` [N], -1 where a label is removed."""
        known = y >= 0
        train, val = self.train_mask & known, self.val_mask & known
        return replace(self, y=y.where(train | val, -1), train_mask=train, val_mask=val)

    def without_labels(self) -> NodeTask:
        """Return the same graph without any label, to predict on."""
        nobody = torch.zeros_like(self.train_mask)
        return replace(
            self,
            y=torch.full_like(self.y, -1),
            train_mask=nobody,
            val_mask=nobody,
            class_names=(),
            label_values=np.empty(0, dtype=np.int64),
        )

    @classmethod
    def from_data(cls, data: Data, *, labelled: bool = True, weights: bool = True) -> NodeTask:
        """Check a PyG Data and keep what a method may see.

        Read from `data`: `x` (dense or sparse; may be absent), `edge_index` or `adj_t`, `y` (class
        numbers or names; -1, NaN, None or "" where unknown), `train_mask` and `val_mask` (or node
        numbers, also as `train_idx`, `val_idx`, …), `class_names`, `num_classes`, `class_values`,
        `node_names`, `node_ids`, `edge_weight` (or an `edge_attr` of one column), `directed`,
        `feature_names` and `feature_contract`. The classes are the labels that occur, unless
        `class_names`, `num_classes` or `class_values` lists them, see `encode_labels`.
        Without a training split, every labelled node outside validation and test trains.

        Args:
            data: the graph.
            labelled: False for a graph to predict on: labels and splits are not read, and there
                need not be any.
            weights: False ignores edge weights: all edges count the same.
        """
        if not isinstance(data, Data):
            raise not_a_graph(data)
        notes: list[str] = list(field(data, "notes") or ())
        if labelled:
            y, class_names, label_values = encode_labels(data)
            if note := misspelling_note(data):
                notes.append(note)
        else:
            y, class_names = torch.full((_count_nodes(data),), -1), ()
            label_values = np.empty(0, dtype=np.int64)
        n = y.numel()
        node_names = read_names(data, "node_names", n)
        if labelled:
            train, val = _given_splits(data, y, node_names, notes)
            _check_training_labels(y[train], class_names, notes)
        else:
            train = val = torch.zeros(n, dtype=torch.bool)
        edges = undirected_edges(data, n, notes, weights=weights)
        x = node_features(data, edges.index, n, node_names, notes)
        task = cls(
            x=x,
            edge_index=edges.index,
            y=torch.where(train | val, y, -1),
            train_mask=train,
            val_mask=val,
            class_names=class_names,
            label_values=label_values,
            node_names=node_names,
            notes=tuple(notes),
            hidden_labels=int(((y >= 0) & ~(train | val)).sum()),
            node_ids=_node_ids(data, n),
            edge_weight=edges.weight,
            edge_is_given=edges.is_given,
            contract=_feature_contract(data, x.size(1)),
        )
        if "indptr" in data and was_checked(data, "edge_index"):
            vars(task)["indptr"] = data.indptr  # as if it had been computed
        return task

    @classmethod
    def from_arrays(cls, *arrays: Any, **options: Any) -> NodeTask:
        """Check numpy or scipy arrays; the arguments are those of `erase.from_arrays`."""
        return cls.from_data(from_arrays(*arrays, **options))

    @classmethod
    def from_networkx(cls, graph: Any, **options: Any) -> NodeTask:
        """Check a networkx graph; the arguments are those of `erase.from_networkx`."""
        return cls.from_data(from_networkx(graph, **options))

    @classmethod
    def from_tables(cls, nodes: pd.DataFrame, edges: pd.DataFrame, **options: Any) -> NodeTask:
        """Check two pandas tables; the arguments are those of `erase.from_tables`."""
        return cls.from_data(from_tables(nodes, edges, **options))


def _check_training_labels(seen: Tensor, class_names: Sequence[str], notes: list[str]) -> None:
    """Refuse training labels `seen` [n] that nothing can be learnt from."""
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


def _count_nodes(data: Data) -> int:
    """Return N of a graph that need not have labels."""
    for name in ("num_nodes", "x", "y", "node_ids", "node_names"):
        value = field(data, name)
        if value is not None:
            return int(value) if name == "num_nodes" else len(value)
    raise EraseError(
        "the number of nodes", "neither num_nodes nor x", "Set data.num_nodes, or give features."
    )


def _node_ids(data: Data, n: int) -> Sequence[Any] | None:
    ids = field(data, "node_ids")
    if ids is not None and len(ids) != n:
        raise EraseError(f"{n} node_ids, one each", f"{len(ids)}", "Correct data.node_ids.")
    return None if ids is None else tuple(ids)


def _feature_contract(data: Data, width: int) -> FeatureContract:
    given = field(data, "feature_contract")
    if not has_features(data):
        return FeatureContract(width, "edges")
    contract = FeatureContract.from_dict(given) if isinstance(given, dict) else given
    if contract is not None and contract.width == width:
        return contract
    names = read_names(data, "feature_names", width)
    return FeatureContract(width, names=None if names is None else tuple(names))


def _of_table(contract: FeatureContract | None) -> FeatureContract | None:
    return contract if contract is not None and contract.columns else None


def fingerprint(tasks: Sequence[NodeTask]) -> str:
    """Return a SHA-256 of the first task's graph and of the labels and splits of all."""
    digest = hashlib.sha256()
    x = tasks[0].x
    parts = [x.crow_indices(), x.col_indices(), x.values()] if x.is_sparse_csr else [x]
    parts.append(tasks[0].edge_index)
    if tasks[0].edge_weight is not None:
        parts.append(tasks[0].edge_weight)
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
