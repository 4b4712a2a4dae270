"""Edges of any layout as [2, E] int64: undirected, sorted, each once, without self-loops."""

from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from erase.data.fields import field, first_true, to_tensor, was_checked
from erase.data.matrices import scipy_csr
from erase.errors import WITHOUT_WEIGHTS, EraseError


@dataclass(frozen=True, eq=False)
class Edges:
    """The edges of a graph as `NodeTask` keeps them.

    Attributes:
        index: [2, E] both directions of every edge, sorted by (row, column).
        weight: [E] float32, or None where all edges count the same.
        is_given: [E] bool, whether this direction was given; None where directions do not count.
    """

    index: Tensor
    weight: Tensor | None = None
    is_given: Tensor | None = None


def undirected_edges(data: Data, n: int, notes: list[str], *, weights: bool = True) -> Edges:
    """Return the edges of `data`, mirrored and merged.

    Weights of a direction that is given several times are added. The two directions of an edge get
    the mean of the weights given for them, so that a weight stands for the edge; with
    `data.directed` each direction keeps its own, and one that is not given has its mirror's.
    `weights=False` does not read them.
    """
    if was_checked(data, "edge_index"):
        weight = field(data, "edge_weight") if weights else None
        return Edges(data.edge_index, weight, field(data, "edge_is_given"))
    row, col = edge_ends(data, n)
    refuse_strangers(row, col, n)
    weight = edge_weights(data, row.numel()) if weights else None
    directed = bool(field(data, "directed"))
    kept = (row != col).numpy()
    key = (row * n + col).numpy()[kept]
    given = _sorted_set(key)
    mirror = given % n * n + given // n
    both = _sorted_set(np.concatenate([given, mirror]))
    loops, repeats = row.numel() - key.size, key.size - given.size
    mirrored = both.size - given.size
    notes += edge_notes(data, loops, repeats, mirrored, weights=weights)
    index = torch.from_numpy(np.stack(np.divmod(both, n)))
    is_given = torch.from_numpy(np.isin(both, given, assume_unique=True)) if directed else None
    if weight is None:
        return Edges(index, None, is_given)
    total = np.bincount(np.searchsorted(given, key), weight.numpy()[kept], minlength=given.size)
    value, count = np.zeros(both.size), np.zeros(both.size)
    ahead, back = np.searchsorted(both, given), np.searchsorted(both, mirror)
    value[ahead] += total
    count[ahead] += 1
    if directed:
        back, total = back[count[back] == 0], total[count[back] == 0]
    value[back] += total
    count[back] += 1
    return Edges(index, torch.from_numpy((value / count).astype(np.float32)), is_given)


def edge_weights(data: Data, num_edges: int) -> Tensor | None:
    """Return the weights [E] of `edge_weight`, an `edge_attr` of one column or `adj_t`, checked."""
    if (name := _weight_field(data)) is None:
        return None
    given = adjacency_entries(data.adj_t)[2] if name == "adj_t" else data[name]
    weight = to_tensor(given, name)
    if tuple(weight.shape) not in ((num_edges,), (num_edges, 1)) or weight.is_complex():
        raise EraseError(
            f"{name} with a number for each of {num_edges} edges",
            f"shape {list(weight.shape)}, {weight.dtype}",
            f"Correct data.{name}, or remove it.",
        )
    weight = weight.reshape(-1).to(torch.float32)
    if bool((wrong := ~(torch.isfinite(weight) & (weight >= 0))).any()):
        i = first_true(wrong)
        raise EraseError(
            "edge weights from 0 on",
            f"{float(weight[i])} at edge {i}",
            f"Correct it, remove the edge, or ignore weights: {WITHOUT_WEIGHTS}.",
        )
    return weight


def given_edges(data: Data, n: int) -> tuple[Tensor, Tensor, Tensor | None, bool]:
    """Return sources, targets and weights [E] as given, and whether their directions count."""
    row, col = edge_ends(data, n)
    weight, directed = edge_weights(data, row.numel()), bool(field(data, "directed"))
    is_given = field(data, "edge_is_given") if was_checked(data, "edge_index") else None
    if is_given is None:
        return row, col, weight, directed
    return row[is_given], col[is_given], None if weight is None else weight[is_given], True


def without_weights(data: Data) -> Data:
    """Return a copy of `data` without edge weights; a Data without any itself."""
    if (name := _weight_field(data)) is None:
        return data
    copied = copy(data)
    if name == "adj_t":
        copied.edge_index = torch.stack(edge_ends(data))
    del copied[name]
    return without_weights(copied)


def _weight_field(data: Data) -> str | None:
    """Return the field of `data` with edge weights; an `adj_t` of ones alone has none."""
    if field(data, "edge_weight") is not None:
        return "edge_weight"
    if (attributes := field(data, "edge_attr")) is not None:
        return "edge_attr" if _is_column(attributes) else None
    if field(data, "edge_index") is None and (adj_t := field(data, "adj_t")) is not None:
        return "adj_t" if bool((adjacency_entries(adj_t)[2] != 1).any()) else None
    return None


def refuse_strangers(row: Tensor, col: Tensor, n: int, first: int = 0) -> None:
    """Refuse edges from or to a node outside 0..n-1; `first` is the number of the first edge."""
    wrong = (row < 0) | (row >= n) | (col < 0) | (col >= n)
    if bool(wrong.any()):
        i = first_true(wrong)
        raise EraseError(
            f"edges between the nodes 0..{n - 1}",
            f"edge {first + i} from {int(row[i])} to {int(col[i])}",
            "Number the nodes from 0, and give every node a row in y (and in x).",
        )


def edge_notes(
    data: Data, loops: int, repeats: int, mirrored: int, *, weights: bool = True
) -> list[str]:
    """Return what was done to the edges of `data`, a sentence each."""
    notes = []
    if loops:
        notes.append(f"{_were(loops, 'self-loop')} dropped: the encoders add their own.")
    if repeats:
        notes.append(f"{_were(repeats, 'repeated edge')} merged.")
    if mirrored and field(data, "directed"):
        notes.append(
            f"{_were(mirrored, 'one-way edge')} mirrored; the direction is kept, but methods do "
            "not use it."
        )
    elif mirrored:
        notes.append(
            f"{_were(mirrored, 'one-way edge')} mirrored: the graph is used as undirected."
        )
    if weights and (name := _weight_field(data)) in ("edge_attr", "adj_t"):
        notes.append(f"{name} is read as edge weights.")
    elif weights and name is None and field(data, "edge_attr") is not None:
        notes.append("edge_attr is not used: it has several columns.")
    return notes


def _is_column(values: Any) -> bool:
    """Say whether `values` are of shape [E] or [E, 1]."""
    shape = tuple(getattr(values, "shape", np.shape(values)))
    return len(shape) == 1 or (len(shape) == 2 and shape[1] == 1)


def _sorted_set(key: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the different values of `key`, ascending; np.unique hashes and is slower here."""
    key = np.sort(key)
    return key[np.append(True, key[1:] != key[:-1])] if key.size else key


def edge_ends(data: Data, n: int | None = None) -> tuple[Tensor, Tensor]:
    """Return sources and targets, [E] int64 each, from `edge_index` or `adj_t`."""
    if (edge_index := field(data, "edge_index")) is not None:
        ends = to_tensor(edge_index, "edge_index")
        if ends.dim() != 2 or ends.size(0) != 2:
            raise EraseError(
                "edge_index of shape [2, E]",
                f"shape {list(ends.shape)}",
                "Put sources in the first row and targets in the second; transpose if needed.",
            )
        if ends.numel() and (
            ends.is_floating_point() or ends.is_complex() or ends.dtype == torch.bool
        ):
            raise EraseError(
                "whole node numbers in edge_index", f"{ends.dtype}", "Convert it with .long()."
            )
        return ends[0].long(), ends[1].long()
    if (adj_t := field(data, "adj_t")) is not None:
        col, row, _ = adjacency_entries(adj_t, n)
        return row, col
    raise EraseError(
        "edges in data.edge_index [2, E] or data.adj_t",
        "neither",
        "For a graph without edges, set edge_index = torch.empty(2, 0, dtype=torch.long).",
    )


def adjacency_entries(matrix: Any, n: int | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Return rows, columns [E] int64 and values of the non-zeros of an adjacency matrix.

    With `n`, the matrix has to be [n, n].
    """
    coo = scipy_csr(matrix).tocoo()
    if coo.shape[0] != coo.shape[1]:
        raise EraseError(
            "a square adjacency matrix [N, N]",
            f"shape {list(coo.shape)}",
            "Give the edges as node numbers [2, E] instead.",
        )
    if n is not None and coo.shape[0] != n:
        raise EraseError(
            "as many labels as nodes",
            f"an adjacency matrix of {coo.shape[0]} nodes and {n} labels",
            "Give every node a row in the matrix and an entry in y, -1 where it is unknown.",
        )
    row, col = (torch.from_numpy(end.astype(np.int64)) for end in (coo.row, coo.col))
    return row, col, torch.from_numpy(coo.data)


def _were(count: int, what: str) -> str:
    """Return the subject of a note, with its verb.

    >>> _were(1, "self-loop"), _were(2, "self-loop")
    ('1 self-loop was', '2 self-loops were')
    """
    return f"{count} {what} was" if count == 1 else f"{count} {what}s were"
