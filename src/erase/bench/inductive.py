"""Cells scored on some test nodes only, which the fit either sees, as usual, or never sees."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from erase.bench.correction import CORRECTED_BY
from erase.bench.detection import detects
from erase.bench.records import Cell
from erase.data.labels import encode_labels
from erase.data.splits import read_splits
from erase.data.task import NodeTask
from erase.errors import EraseError
from erase.methods import NodeClassifier
from erase.methods.base import Number
from erase.nn.encoders import take_rows
from erase.random import numpy_stream

# Among a cell's params: the share of all nodes that are drawn from the test nodes and scored.
SEEN = "seen"  # the fit has their features and edges
UNSEEN = "unseen"  # the fit has the graph without them
_SHARE = Number(0, 1, open_low=True)


def scores_drawn_nodes(cell: Cell) -> bool:
    """Return whether a cell is scored on drawn test nodes, and not on all of them."""
    return SEEN in cell.params or UNSEEN in cell.params


def without_drawn_nodes(cell: Cell) -> Cell:
    """Return the cell of the same fit that is scored on all test nodes."""
    params = {name: value for name, value in cell.params.items() if name not in (SEEN, UNSEEN)}
    return replace(cell, params=params)


def check_drawn_nodes(cell: Cell) -> None:
    """Raise an EraseError where test nodes are to be drawn in a way that cannot be run."""
    for name in (SEEN, UNSEEN):
        if name in cell.params and not _SHARE.accepts(cell.params[name]):
            raise EraseError(
                f"{name} to be {_SHARE}", f"{name} = {cell.params[name]!r}", "Correct the share."
            )
    used = [name for name in (SEEN, UNSEEN, CORRECTED_BY) if name in cell.params]
    used += [cell.method] if detects(cell) else []
    if scores_drawn_nodes(cell) and len(used) > 1:
        raise EraseError(
            f"either {SEEN} or {UNSEEN}, of a method that trains on the labels as given",
            " and ".join(used),
            "Leave one out.",
        )


def drawn_nodes(clean: Data, cell: Cell) -> Tensor:
    """Return a mask [N] of the nodes that a cell is scored on: test nodes whose class is known.

    They depend on the seed and the share alone, so the cells of a pair have the same. Where there
    are fewer test nodes than the share of all nodes, all of them are drawn.
    """
    y, _, _ = encode_labels(clean)
    nodes = (read_splits(clean, y).test & (y >= 0)).nonzero().squeeze(1).numpy()
    if not len(nodes):
        raise EraseError("test nodes with labels", "none", f"Remove {SEEN} and {UNSEEN}.")
    share = cell.params[UNSEEN if UNSEEN in cell.params else SEEN]
    count = min(len(nodes), max(1, round(share * y.numel())))
    drawn = numpy_stream(cell.seed, "unseen nodes").permutation(nodes)[:count]
    return torch.zeros(y.numel(), dtype=torch.bool).index_fill_(0, torch.from_numpy(drawn), True)


def task_to_fit(task: NodeTask, clean: Data, cell: Cell) -> NodeTask:
    """Return what the method of a cell is fitted to: `task`, or that without its unseen nodes."""
    return without_nodes(task, drawn_nodes(clean, cell)) if UNSEEN in cell.params else task


def without_nodes(task: NodeTask, removed: Tensor) -> NodeTask:
    """Return a task without the nodes `removed` [N] bool, their features, edges and labels."""
    nodes = (~removed).nonzero().squeeze(1)
    number = (~removed).cumsum(0) - 1  # of a node among those that stay
    kept = ~removed[task.edge_index].any(0)

    def some(values: Sequence[Any] | None) -> list[Any] | None:
        return None if values is None else [values[i] for i in nodes.tolist()]

    trusted, random = (
        None if values is None else values[nodes] for values in (task.trusted, task.trusted_random)
    )
    return replace(
        task,
        x=take_rows(task.x, nodes),
        edge_index=number[task.edge_index[:, kept]],
        y=task.y[nodes],
        train_mask=task.train_mask[nodes],
        val_mask=task.val_mask[nodes],
        node_names=some(task.node_names),
        node_ids=some(task.node_ids),
        edge_weight=None if task.edge_weight is None else task.edge_weight[kept],
        edge_is_given=None if task.edge_is_given is None else task.edge_is_given[kept],
        trusted=trusted,
        trusted_random=random,
    )


def score_drawn_nodes(
    model: NodeClassifier, clean: Data, given: Data, cell: Cell
) -> dict[str, float]:
    """Return how a fitted `model` does on the drawn nodes.

    ``test_accuracy``
        the share predicted right: in the fit itself, or by applying the model to `given`.
    ``scored_nodes``, ``fit_nodes``
        how many nodes are scored, and how many the fit had.

    Args:
        model: fitted to `task_to_fit`.
        clean: the graph with all its labels.
        given: the whole graph, with the labels that a method may see.
        cell: of the fit.
    """
    truth, _, values = encode_labels(clean)
    scored = drawn_nodes(clean, cell).numpy()
    predicted = model.predict(given if UNSEEN in cell.params else None)
    return {
        "test_accuracy": float(np.mean(predicted[scored] == values[truth.numpy()[scored]])),
        "scored_nodes": int(scored.sum()),
        "fit_nodes": len(model.labels_),
    }
