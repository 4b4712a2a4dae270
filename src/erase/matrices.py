"""The edges and the features of a graph, read from any layout and brought into one.

Dense or sparse, of numpy, scipy, torch or torch_sparse: edges become [2, E] int64 and features
[N, F] float32, dense or CSR. A graph without features gets structural ones. No label is read here.
"""

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.nn.functional import normalize
from torch_geometric.data import Data

from erase.errors import EraseError
from erase.fields import field, first_true, node_title, to_tensor
from erase.graph import Graph
from erase.seeds import numpy_stream

SPARSE_BELOW = 0.2  # dense features with at most this share of non-zeros are kept as CSR
STRUCTURAL_WIDTH = 128


def undirected_edges(data: Data, n: int, notes: list[str]) -> Tensor:
    """Return the undirected edges [2, E], as `NodeTask.edge_index` promises."""
    row, col = edge_ends(data)
    wrong = (row < 0) | (row >= n) | (col < 0) | (col >= n)
    if bool(wrong.any()):
        i = first_true(wrong)
        raise EraseError(
            f"edges between the nodes 0..{n - 1}",
            f"edge {i} from {int(row[i])} to {int(col[i])}",
            "Number the nodes from 0, and give every node a row in y (and in x).",
        )
    key = (row * n + col)[row != col].numpy()
    if loops := row.numel() - key.size:
        notes.append(f"{loops} self-loops were dropped: the encoders add their own.")
    given = _sorted_set(key)
    if repeats := key.size - given.size:
        notes.append(f"{repeats} repeated edges were merged.")
    both = _sorted_set(np.concatenate([given, given % n * n + given // n]))
    if mirrored := both.size - given.size:
        notes.append(f"{mirrored} one-way edges were mirrored: the graph is used as undirected.")
    if unused := [name for name in ("edge_weight", "edge_attr") if name in data]:
        notes.append(f"{unused[0]} is not used: every edge counts the same.")
    return torch.from_numpy(np.stack(np.divmod(both, n)))


def _sorted_set(key: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the different values of `key`, ascending; np.unique hashes and is slower here."""
    key = np.sort(key)
    return key[np.append(True, key[1:] != key[:-1])] if key.size else key


def edge_ends(data: Data) -> tuple[Tensor, Tensor]:
    """Return sources and targets, [E] int64 each, from `edge_index` or `adj_t`."""
    if (edge_index := field(data, "edge_index")) is not None:
        ends = to_tensor(edge_index)
        if ends.dim() != 2 or ends.size(0) != 2:
            raise EraseError(
                "edge_index of shape [2, E]",
                f"shape {list(ends.shape)}",
                "Put sources in the first row and targets in the second; transpose if needed.",
            )
        if ends.numel() and (ends.is_floating_point() or ends.dtype == torch.bool):
            raise EraseError(
                "whole node numbers in edge_index", f"{ends.dtype}", "Convert it with .long()."
            )
        return ends[0].long(), ends[1].long()
    if (adj_t := field(data, "adj_t")) is not None:
        col, row = adjacency_ends(adj_t)
        return row, col
    raise EraseError(
        "edges in data.edge_index [2, E] or data.adj_t",
        "neither",
        "For a graph without edges, set edge_index = torch.empty(2, 0, dtype=torch.long).",
    )


def adjacency_ends(matrix: Any) -> tuple[Tensor, Tensor]:
    """Return rows and columns of the non-zeros of an adjacency matrix, [E] int64 each."""
    coo = _scipy_csr(matrix).tocoo()
    if coo.shape[0] != coo.shape[1]:
        raise EraseError(
            "a square adjacency matrix [N, N]",
            f"shape {list(coo.shape)}",
            "Give the edges as node numbers [2, E] instead.",
        )
    return torch.from_numpy(coo.row.astype(np.int64)), torch.from_numpy(coo.col.astype(np.int64))


def node_features(
    data: Data,
    edge_index: Tensor,
    n: int,
    node_names: tuple[str, ...] | None,
    notes: list[str],
) -> Tensor:
    """Return x [N, F] float32: the given features, or structural ones where there are none."""
    x = feature_matrix(field(data, "x"))
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
    values = x if isinstance(x, Tensor) else x.data
    finite = torch.isfinite(to_tensor(values))
    if not bool(finite.all()):
        first = (~finite).nonzero()[0].tolist()
        i = first[0] if isinstance(x, Tensor) else np.searchsorted(x.indptr, first[0], "right") - 1
        raise EraseError(
            "finite features",
            f"{float(values[tuple(first)])} at {node_title(int(i), node_names)}",
            "Fill the gap (0, or the column's mean), or leave that feature out.",
        )
    if not isinstance(x, Tensor):
        return csr_tensor(x)
    share = int(torch.count_nonzero(x)) / x.numel()
    if share <= SPARSE_BELOW:
        notes.append(f"x is kept sparse: {share:.1%} of its entries are not zero.")
        return csr_tensor(sp.csr_matrix(x.numpy()))
    return x.clone(memory_format=torch.contiguous_format)


def feature_matrix(given: Any) -> Any:
    """Return features as a dense tensor [N, F] float32 or a fresh scipy CSR, or None."""
    if given is None:
        return None
    if _is_sparse(given):
        return _scipy_csr(given)
    array = given if isinstance(given, Tensor) else np.asarray(given)
    if isinstance(array, np.ndarray) and array.dtype.kind not in "biuf":
        raise EraseError("features that are numbers", f"{array.dtype}", "Turn them into numbers.")
    dense = to_tensor(array)
    if dense.dim() != 2 or dense.is_complex():
        raise EraseError(
            "x of shape [N, F], real numbers",
            f"shape {list(dense.shape)}, {dense.dtype}",
            "Give one row of features per node; x[:, None] makes one column of x [N].",
        )
    return dense.to(torch.float32)


def structural_features(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Return [N, 128] features made from edges alone, the same for the same graph every time.

    With P = D⁻¹A and R [N, 128] standard normal, row i is the mean over h = 1, 2, 3 of row i of PʰR
    scaled to length one, itself scaled to length one: nodes whose neighbourhoods overlap get
    similar rows. An isolated node gets zeros. Cost: linear in edges.
    """
    pattern, values = Graph(edge_index, num_nodes).normalised("row")
    random = numpy_stream(0, "structural features")
    hop = torch.from_numpy(random.standard_normal((num_nodes, STRUCTURAL_WIDTH), np.float32))
    total = torch.zeros_like(hop)
    for _ in range(3):
        hop = pattern.matmul(values, hop)
        total += normalize(hop, dim=1)
    return normalize(total, dim=1)


def _is_sparse(given: Any) -> bool:
    if isinstance(given, Tensor):
        return given.layout != torch.strided
    return sp.issparse(given) or hasattr(given, "to_torch_sparse_coo_tensor")


def _scipy_csr(given: Any) -> Any:
    """Return a sparse matrix of scipy, torch or torch_sparse as a fresh canonical CSR, float32."""
    if hasattr(given, "to_torch_sparse_coo_tensor"):
        given = given.to_torch_sparse_coo_tensor()
    if isinstance(given, Tensor):
        given = given.detach().cpu()
        if given.layout == torch.sparse_coo:
            given = given.coalesce()
            values, index = given.values().float().numpy(), given.indices().numpy()
            matrix = sp.coo_matrix((values, tuple(index)), shape=given.shape)
        elif given.layout in (torch.sparse_csr, torch.sparse_csc):
            by_row = given.layout == torch.sparse_csr
            outer = given.crow_indices() if by_row else given.ccol_indices()
            inner = given.col_indices() if by_row else given.row_indices()
            parts = (given.values().float().numpy(), inner.numpy(), outer.numpy())
            matrix = (sp.csr_matrix if by_row else sp.csc_matrix)(parts, shape=given.shape)
        else:
            matrix = given.float().to_dense().numpy()
    else:
        matrix = given
    if getattr(matrix, "format", "") in ("csr", "csc"):
        try:
            matrix.check_format(full_check=True)  # an index out of bounds would crash scipy
        except ValueError as error:
            raise EraseError(
                "a well-formed sparse matrix", f"{error}", "Build it again from its entries."
            ) from None
    fresh = sp.csr_matrix(matrix, dtype=np.float32, copy=True)
    fresh.sum_duplicates()
    fresh.eliminate_zeros()
    return fresh


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
