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
    Names,
    field,
    first_true,
    length,
    mark_checked,
    node_title,
    not_a_graph,
    read_names,
    to_ids,
    was_checked,
    written,
)
from erase.data.kinds import graph_data
from erase.data.labels import encode_labels, misspelling_note, no_labels, with_labels
from erase.data.splits import read_splits
from erase.data.tables import from_tables
from erase.data.trusted import read_trusted
from erase.display import Facts, fact_line, fact_table
from erase.errors import EraseError, input_errors


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
        trusted: [N] int64, the class that a person confirmed or corrected, -1 where there is none;
            only where `y` has a label. None: there are no trusted labels.
        trusted_random: [N] bool, which trusted labels were drawn at random; None: all of them.
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
    trusted: Tensor | None = None
    trusted_random: Tensor | None = None

    def __post_init__(self) -> None:
        """Check that no node outside training and validation has a label."""
        labelled = self.y >= 0
        if self.trusted is not None:
            labelled = labelled | (self.trusted >= 0)
        outside = labelled & ~(self.train_mask | self.val_mask)
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
        facts = {
            "nodes": self.num_nodes,
            "edges": self.num_edges // 2,
            "features": self.num_features,
            "classes": self.num_classes,
            "training labels": int(self.train_mask.sum()),
            "validation labels": int(self.val_mask.sum()),
        }
        return facts | ({"trusted labels": self.num_trusted} if self.num_trusted else {})

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

    @property
    def num_trusted(self) -> int:
        """The number of trusted labels."""
        return 0 if self.trusted is None else int((self.trusted >= 0).sum())

    @property
    def learning_labels(self) -> Tensor:
        """[N] int64, what methods learn from: the trusted label where there is one, else `y`."""
        if self.trusted is None:
            return self.y
        return torch.where(self.trusted >= 0, self.trusted, self.y)

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
        return self.with_splits(self.train_mask, torch.zeros_like(self.val_mask))

    def with_splits(self, train: Tensor, val: Tensor) -> NodeTask:
        """Return the same graph with other splits [N] bool, and no label outside them."""
        trusted, random = _kept_trusted(self.trusted, self.trusted_random, train | val)
        return replace(
            self,
            y=self.y.where(train | val, -1),
            train_mask=train,
            val_mask=val,
            trusted=trusted,
            trusted_random=random,
        )

    @classmethod
    @input_errors("a graph that can be read")
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
            data = graph_data(graph, contract)
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
        labels = (self.y.numpy(), self.class_names, self.label_values, self.trusted)
        data = with_labels(data, *labels)
        data.train_mask, data.val_mask = self.train_mask, self.val_mask
        for name in ("node_names", "node_ids", "edge_weight", "trusted_random"):
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
        return replace(self, y=y).with_splits(self.train_mask & known, self.val_mask & known)

    def without_labels(self) -> NodeTask:
        """Return the same graph without any label, to predict on."""
        no_node = torch.zeros_like(self.train_mask)
        return replace(
            self,
            y=torch.full_like(self.y, -1),
            train_mask=no_node,
            val_mask=no_node,
            class_names=(),
            label_values=np.empty(0, dtype=np.int64),
            trusted=None,
            trusted_random=None,
        )

    @classmethod
    @input_errors("a graph that can be read")
    def from_data(cls, data: Data, *, labelled: bool = True, weights: bool = True) -> NodeTask:
        """Check a PyG Data and keep what a method may see.

        Read from `data`: `x` (dense or sparse; may be absent), `edge_index` or `adj_t`, `y` (class
        numbers or names; -1, NaN, None or "" where unknown), `train_mask` and `val_mask` (or node
        numbers, also as `train_idx`, `val_idx`, …), `class_names`, `num_classes`, `class_values`,
        `node_names`, `node_ids`, `edge_weight` (or an `edge_attr` of one column), `directed`,
        `feature_names`, `feature_contract`, `trusted` (classes as in `y`, or a bool mask: `y` is
        confirmed there) and `trusted_random`. A trusted label of a node without a label in `y` is
        its label. The classes are the labels that occur, unless
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
        notes = [str(note) for note in read_names(data, "notes") or ()]
        if labelled:
            y, class_names, label_values = encode_labels(data)
            trusted, random = read_trusted(data)
            if trusted is not None:
                y = torch.where(y >= 0, y, trusted)
            if note := misspelling_note(data):
                notes.append(note)
        else:
            y, class_names, label_values = no_labels(data)
            trusted = random = None
        n = y.numel()
        node_names = read_names(data, "node_names", n)
        if labelled:
            train, val = _given_splits(data, y, node_names, notes)
            learnt = y if trusted is None else torch.where(trusted >= 0, trusted, y)
            _check_training_labels(learnt[train], class_names, notes)
            if trusted is not None and (outside := int(((trusted >= 0) & ~(train | val)).sum())):
                notes.append(
                    f"{outside} trusted labels outside training and validation are not used."
                )
        else:
            train = val = torch.zeros(n, dtype=torch.bool)
        trusted, random = _kept_trusted(trusted, random, train | val)
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
            notes=tuple(dict.fromkeys(notes)),  # those of a task that was written come again
            hidden_labels=int(((y >= 0) & ~(train | val)).sum()),
            node_ids=_node_ids(data, n),
            edge_weight=edges.weight,
            edge_is_given=edges.is_given,
            contract=_feature_contract(data, x.size(1)),
            trusted=trusted,
            trusted_random=random,
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


def _kept_trusted(
    trusted: Tensor | None, random: Tensor | None, known: Tensor
) -> tuple[Tensor | None, Tensor | None]:
    """Return the trusted labels of the nodes `known` [N] bool, and which of them are random."""
    if trusted is None or not bool((kept := (trusted >= 0) & known).any()):
        return None, None
    return trusted.where(kept, -1), None if random is None else random & kept


def _check_training_labels(seen: Tensor, class_names: Sequence[str], notes: list[str]) -> None:
    """Refuse training labels `seen` [n] that nothing can be learnt from."""
    if not seen.numel():
        raise EraseError(
            "at least one training node with a label",
            "none",
            "Give labels to training nodes, or choose nodes with labels for training.",
        )
    if int(seen.min()) == int(seen.max()):
        raise EraseError(
            "training labels of at least two classes",
            f"only class {class_names[int(seen[0])]!r} on {seen.numel()} training nodes",
            "Label training nodes of another class, or check which nodes train.",
        )
    present = torch.bincount(seen, minlength=len(class_names))
    if absent := [repr(class_names[k]) for k in (present == 0).nonzero().flatten().tolist()]:
        more = f" and {len(absent) - 5} more" if len(absent) > 5 else ""
        notes.append(f"No training node has the class {', '.join(absent[:5])}{more}.")


def _node_ids(data: Data, n: int) -> Sequence[Any] | None:
    ids = field(data, "node_ids")
    if ids is not None and length(ids, "node_ids") != n:
        raise EraseError(f"{n} node_ids, one each", f"{len(ids)}", "Correct data.node_ids.")
    if ids is None or isinstance(ids, Names):
        return ids
    return tuple(written(to_ids(ids)))


def _feature_contract(data: Data, width: int) -> FeatureContract:
    given = field(data, "feature_contract")
    contract: FeatureContract | None = given
    if given is not None and not isinstance(given, FeatureContract):
        contract = FeatureContract.from_dict(given)
    reading = {} if contract is None else contract.reading
    if not has_features(data):
        return FeatureContract(width, "edges", reading=reading)
    if contract is not None and contract.width == width:
        return contract
    names = read_names(data, "feature_names", width)
    kept = None if names is None else tuple(names)
    return FeatureContract(width, names=kept, reading=reading)


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
        parts += [each for each in (task.trusted, task.trusted_random) if each is not None]
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
            "Let each of them train or validate, not both.",
        )
    for part, name in ((train, "training"), (val, "validation")):
        if unknown := int((part & ~known).sum()):
            notes.append(f"{unknown} {name} nodes have no label and are left out of {name}.")
        if shared := int((part & test & known).sum()):
            notes.append(f"{shared} {name} nodes are test nodes too: their label is not hidden.")
    return train & known, val & known
