"""Edges of any layout as [2, E] int64: undirected, sorted, each once, without self-loops."""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from erase.data.fields import field, first_true, to_tensor, was_checked
from erase.data.matrices import scipy_csr
from erase.errors import EraseError


def undirected_edges(data: Data, n: int, notes: list[str]) -> Tensor:
    """Return the undirected edges [2, E], as `NodeTask.edge_index` promises."""
    if was_checked(data, "edge_index"):
        edge_index: Tensor = data.edge_index
        return edge_index
    row, col = edge_ends(data, n)
    refuse_strangers(row, col, n)
    key = (row * n + col)[row != col].numpy()
    given = _sorted_set(key)
    both = _sorted_set(np.concatenate([given, given % n * n + given // n]))
    loops, repeats = row.numel() - key.size, key.size - given.size
    notes += edge_notes(data, loops, repeats, mirrored=both.size - given.size)
    return torch.from_numpy(np.stack(np.divmod(both, n)))


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


def edge_notes(data: Data, loops: int, repeats: int, mirrored: int) -> list[str]:
    """Return what was done to the edges of `data`, a sentence each."""
    notes = []
    if loops:
        notes.append(f"{loops} self-loops were dropped: the encoders add their own.")
    if repeats:
        notes.append(f"{repeats} repeated edges were merged.")
    if mirrored:
        notes.append(f"{mirrored} one-way edges were mirrored: the graph is used as undirected.")
    if unused := [name for name in ("edge_weight", "edge_attr") if name in data]:
        notes.append(f"{unused[0]} is not used: every edge counts the same.")
    return notes


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
        col, row = adjacency_ends(adj_t, n)
        return row, col
    raise EraseError(
        "edges in data.edge_index [2, E] or data.adj_t",
        "neither",
        "For a graph without edges, set edge_index = torch.empty(2, 0, dtype=torch.long).",
    )


def adjacency_ends(matrix: Any, n: int | None = None) -> tuple[Tensor, Tensor]:
    """Return rows and columns of the non-zeros of an adjacency matrix, [E] int64 each.

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
    return torch.from_numpy(coo.row.astype(np.int64)), torch.from_numpy(coo.col.astype(np.int64))
