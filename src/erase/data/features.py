"""Node features as [N, F] float32, dense or CSR; structural ones where a graph has none."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.nn.functional import normalize
from torch_geometric.data import Data

from erase.data.fields import field, node_title, to_tensor, was_checked
from erase.data.matrices import SPARSE_BELOW, csr_tensor, feature_matrix
from erase.errors import EraseError
from erase.random import numpy_stream

STRUCTURAL_WIDTH = 128


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
