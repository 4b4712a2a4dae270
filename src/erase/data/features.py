"""Node features as [N, F] float32, dense or CSR; a spectral embedding where a graph has none."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.utils.extmath import randomized_svd
from torch import Tensor
from torch.nn.functional import normalize
from torch_geometric.data import Data

from erase.data.fields import field, node_title, to_tensor, was_checked
from erase.data.matrices import SPARSE_BELOW, csr_tensor, feature_matrix
from erase.errors import EraseError

SPECTRAL_WIDTH = 256


def node_features(
    data: Data,
    edge_index: Tensor,
    n: int,
    node_names: Sequence[str] | None,
    notes: list[str],
) -> Tensor:
    """Return x [N, F] float32: the given features, or a spectral embedding where there are none."""
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
        x = spectral_features(edge_index, n)
        notes.append(
            f"The nodes have no features: {x.size(1)} features from a spectral embedding of the "
            "edges stand in for them (zero for an isolated node)."
        )
        return x
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


def has_features(data: Data) -> bool:
    """Say whether `data.x` has a column."""
    x = field(data, "x")
    shape = getattr(x, "shape", None) or np.shape(x)
    return x is not None and len(shape) == 2 and shape[1] > 0


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


def spectral_features(edge_index: Tensor, num_nodes: int, width: int = SPECTRAL_WIDTH) -> Tensor:
    """Return [N, width] features made from edges alone, the same for the same graph every time.

    Row i is node i's place along the leading singular vectors of D^-1/2 (A + I) D^-1/2, each times
    its singular value, scaled to length one: nodes whose neighbourhoods overlap get similar rows.
    An isolated node gets zeros; it has no self-loop, or each would take a vector for itself. A
    graph of fewer nodes gets a feature per node. Randomised SVD with a fixed seed and fixed signs;
    cost: linear in edges.

    AUROC of the label quality of `erase.audit` for 30 % symmetric noise on the edges alone, beside
    that of a random projection of each node's 1-, 2- and 3-hop neighbourhood:
    Cora 0.968 (0.944, two draws), Debian 0.971 (0.942, one), Computers 0.985 (0.984, one).
    The projection had 128 columns; width and scaling were chosen on the same two draws of Cora.
    """
    source, target = edge_index.cpu().numpy()
    nodes = np.unique(source)
    ones = np.ones(source.size + nodes.size, np.float32)
    ends = (np.concatenate([source, nodes]), np.concatenate([target, nodes]))
    adjacency = sp.csr_matrix((ones, ends), shape=(num_nodes, num_nodes))
    degree = np.maximum(np.bincount(ends[0], minlength=num_nodes), 1).astype(np.float32)
    scale = sp.diags_array(degree**-0.5, dtype=np.float32)
    matrix = sp.csr_matrix(scale @ adjacency @ scale)
    width = min(width, num_nodes)
    if not nodes.size:
        return torch.zeros(num_nodes, width)
    left, values, _ = randomized_svd(matrix, width, n_iter=4, random_state=0)
    x = normalize(torch.from_numpy((left * values).astype(np.float32)), dim=1)
    x[np.diff(matrix.indptr) == 0] = 0  # rounding, scaled to length one
    return x
