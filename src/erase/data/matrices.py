"""The edges and the features of a graph, read from any layout and brought into one.

Dense or sparse, of numpy, scipy, torch or torch_sparse: edges become [2, E] int64 and features
[N, F] float32, dense or CSR. A graph without features gets structural ones. No label is read here.
"""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.nn.functional import normalize
from torch_geometric.data import Data

from erase.data.fields import field, first_true, node_title, to_tensor
from erase.errors import EraseError
from erase.random import numpy_stream

SPARSE_BELOW = 0.2  # dense features with at most this share of non-zeros are kept as CSR
STRUCTURAL_WIDTH = 128
FLOAT32_END = 2.0**128 - 2.0**103  # half a step past the largest float32: rounds to infinity


def mark_checked(data: Data) -> None:
    """Say that `edge_index` and `x` of `data` keep the promises of `NodeTask` as they are.

    The mark lies on these two tensors, not on `data`: a copy of `data` keeps it, and another tensor
    in the place of one of them is checked like anybody's.
    """
    vars(data)["_checked"] = (field(data, "edge_index"), field(data, "x"))


def was_checked(data: Data, name: str) -> bool:
    """Say whether `data[name]` is a tensor that `mark_checked` saw."""
    value = field(data, name)
    return value is not None and any(value is each for each in vars(data).get("_checked", ()))


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
    coo = _scipy_csr(matrix).tocoo()
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


def node_features(
    data: Data,
    edge_index: Tensor,
    n: int,
    node_names: Sequence[str] | None,
    notes: list[str],
) -> Tensor:
    """Return x [N, F] float32: the given features, or structural ones where there are none."""
    checked = was_checked(data, "x")
    x = data.x if checked else feature_matrix(field(data, "x"))
    for rows in (field(data, "num_nodes"), None if x is None else x.shape[0]):
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
    if checked:
        given: Tensor = x
        return given
    refuse_infinite(x, node_names)
    if not isinstance(x, Tensor):
        return csr_tensor(x)
    if note := note_if_sparse(x):
        notes.append(note)
        return csr_tensor(sp.csr_matrix(x.numpy()))
    return x.clone(memory_format=torch.contiguous_format)


def note_if_sparse(x: Tensor) -> str | None:
    """Return the note that dense `x` [N, F] is kept as CSR, None where it has too few zeros."""
    share = int(torch.count_nonzero(x)) / x.numel()
    if share > SPARSE_BELOW:
        return None
    return f"x is kept sparse: {share:.1%} of its entries are not zero."


def refuse_infinite(x: Any, node_names: Sequence[str] | None = None, first: int = 0) -> None:
    """Refuse a NaN or ∞ in what `feature_matrix` returned; its first row is node `first`."""
    values = x if isinstance(x, Tensor) else x.data
    finite = torch.isfinite(to_tensor(values))
    if not bool(finite.all()):
        at = (~finite).nonzero()[0].tolist()
        i = at[0] if isinstance(x, Tensor) else np.searchsorted(x.indptr, at[0], "right") - 1
        raise EraseError(
            "finite features",
            f"{float(values[tuple(at)])} at {node_title(first + int(i), node_names)}",
            "Fill the gap (0, or the column's mean), or leave that feature out.",
        )


def feature_matrix(given: Any, first: int = 0) -> Any:
    """Return features as a dense tensor [N, F] float32 or a fresh scipy CSR, or None.

    Messages count nodes from `first`.
    """
    if given is None:
        return None
    if _is_sparse(given):
        return _scipy_csr(given, first)
    if isinstance(given, np.ma.MaskedArray):
        given = np.where(np.ma.getmaskarray(given), np.nan, np.ma.getdata(given))
    dense = to_tensor(given, "features")
    if dense.dim() != 2 or dense.is_complex():
        raise EraseError(
            "x of shape [N, F], real numbers",
            f"shape {list(dense.shape)}, {dense.dtype}",
            "Give one row of features per node; x[:, None] makes one column of x [N].",
        )
    if dense.dtype == torch.float64 and bool((large := is_too_large(dense)).any()):
        i, j = large.nonzero()[0].tolist()
        raise too_large(float(dense[i, j]), f"node {first + i}, column {j}")
    return dense.to(torch.float32)


def is_too_large(values: Any) -> Any:
    """Return where `values` are finite, but would be infinite in float32."""
    return (abs(values) >= FLOAT32_END) & (abs(values) != float("inf"))


def too_large(value: float, where: str) -> EraseError:
    """Return the error for a feature that float32 cannot hold."""
    return EraseError(
        "features that float32 can hold, up to 3.4e38",
        f"{value:g} at {where}",
        "It is too large: rescale that column.",
    )


def structural_features(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Return [N, 128] features made from edges alone, the same for the same graph every time.

    With P = D⁻¹A and R [N, 128] standard normal, row i is the mean over h = 1, 2, 3 of row i of PʰR
    scaled to length one, itself scaled to length one: nodes whose neighbourhoods overlap get
    similar rows. An isolated node gets zeros. Cost: linear in edges.
    """
    source, target = edge_index.cpu().numpy()
    degree = np.bincount(source, minlength=num_nodes)
    share = (1 / degree[source]).astype(np.float32)
    step = sp.csr_matrix((share, (source, target)), shape=(num_nodes, num_nodes))
    random = numpy_stream(0, "structural features")
    hop = random.standard_normal((num_nodes, STRUCTURAL_WIDTH), np.float32)
    total = torch.zeros(num_nodes, STRUCTURAL_WIDTH)
    for _ in range(3):
        hop = step @ hop
        total += normalize(torch.from_numpy(hop), dim=1)
    return normalize(total, dim=1)


def _is_sparse(given: Any) -> bool:
    if isinstance(given, Tensor):
        return given.layout != torch.strided
    return sp.issparse(given) or hasattr(given, "to_torch_sparse_coo_tensor")


def _scipy_csr(given: Any, first: int = 0) -> Any:
    """Return a sparse matrix of scipy, torch or torch_sparse as a fresh canonical CSR, float32."""
    if hasattr(given, "to_torch_sparse_coo_tensor"):
        given = given.to_torch_sparse_coo_tensor()
    if isinstance(given, Tensor):
        given = given.detach().cpu()
        if given.layout == torch.sparse_coo:
            given = given.coalesce()
            values, index = _numpy_values(given.values()), given.indices().numpy()
            matrix = sp.coo_matrix((values, tuple(index)), shape=given.shape)
        elif given.layout in (torch.sparse_csr, torch.sparse_csc):
            by_row = given.layout == torch.sparse_csr
            outer = given.crow_indices() if by_row else given.ccol_indices()
            inner = given.col_indices() if by_row else given.row_indices()
            parts = (_numpy_values(given.values()), inner.numpy(), outer.numpy())
            matrix = (sp.csr_matrix if by_row else sp.csc_matrix)(parts, shape=given.shape)
        else:
            matrix = _numpy_values(given.to_dense())
    else:
        matrix = given
    if getattr(matrix, "format", "") in ("csr", "csc"):
        try:
            matrix.check_format(full_check=True)  # an index out of bounds would crash scipy
        except ValueError as error:
            raise EraseError(
                "a well-formed sparse matrix", f"{error}", "Build it again from its entries."
            ) from None
    if matrix.dtype.kind not in "biuf":
        raise EraseError(
            "a matrix of real numbers", f"{matrix.dtype}", "Turn them into real numbers."
        )
    wide = np.float64 if matrix.dtype.kind == "f" and matrix.dtype.itemsize > 4 else np.float32
    fresh = sp.csr_matrix(matrix, dtype=wide, copy=True)
    fresh.sum_duplicates()
    if wide is np.float64 and (large := is_too_large(fresh.data)).any():
        at = int(np.flatnonzero(large)[0])
        i = first + int(np.searchsorted(fresh.indptr, at, "right")) - 1
        raise too_large(float(fresh.data[at]), f"node {i}, column {fresh.indices[at]}")
    fresh = fresh.astype(np.float32, copy=False)
    fresh.eliminate_zeros()
    return fresh


def _numpy_values(values: Tensor) -> Any:
    """Return values as numpy has them: of the narrow types it lacks bfloat16."""
    kept = values.dtype == torch.float64 or values.is_complex()
    return (values if kept else values.float()).numpy()


def csr_tensor(matrix: Any) -> Tensor:
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
