"""Places in the graph, computed by several processes together."""

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from erase.training.chunks import NODES_AT_ONCE
from erase.training.disk import return_freed
from erase.training.processes import add_up, count, gather_rows, own_stretch, rank

_MORE_DIRECTIONS, _POWERS = 10, 4  # as in `spectral_features`


def own_places(edge_index: Tensor, num_nodes: int, width: int) -> Tensor:
    """Return the rows of :func:`spectral_features` [r, width] of the nodes of this process.

    The randomised SVD from the same draw M, but for signs and rounding: each process multiplies its
    rows of the matrix S, the products are exchanged, and columns are made orthonormal by the
    processes together. Q is an orthonormal basis of S⁹ M, and (Q Qᵀ S) (Q Qᵀ S)ᵀ gives the
    singular vectors.

    Args:
        edge_index: [2, E] both directions of every edge.
        num_nodes: N.
        width: of the rows, at most N.
    """
    width = min(width, num_nodes)
    size = min(width + _MORE_DIRECTIONS, num_nodes)
    matrix = _own_rows(edge_index, num_nodes)
    return_freed()
    own = torch.from_numpy(matrix @ _draw(num_nodes, size))
    for number in range(2 * _POWERS):
        # of every second product: in between, columns do not become parallel
        own = _product(matrix, own if number % 2 else _orthonormal(own))
    basis = _orthonormal(own)
    squares = torch.zeros(size, size, dtype=torch.float64)
    for some in _product(matrix, basis).split(NODES_AT_ONCE):  # rows of S Q
        squares += some.double().T @ some.double()
    add_up(squares)
    values, vectors = torch.linalg.eigh(squares)  # ascending
    scaled = (vectors * values.clamp(min=0).sqrt()).flip(1)[:, :width]
    places = normalize(basis @ scaled.float(), dim=1)
    places[torch.from_numpy(np.diff(matrix.indptr) == 0)] = 0  # rounding, scaled to length one
    return places


def _own_rows(edge_index: Tensor, num_nodes: int) -> sp.csr_matrix:
    """Return this process's rows of D^-1/2 (A + I) D^-1/2 [r, N]; an isolated node has no loop."""
    source, target = edge_index.cpu().numpy()
    degree = np.bincount(source, minlength=num_nodes)
    scale = np.where(degree > 0, degree + 1.0, np.inf).astype(np.float32) ** -0.5
    mine = own_stretch(num_nodes)
    loops = np.arange(mine.start, mine.stop)
    loops = loops[degree[mine] > 0]
    inside = (source >= mine.start) & (source < mine.stop)
    rows, columns = np.r_[source[inside], loops], np.r_[target[inside], loops]
    values = (scale[rows], (rows - mine.start, columns))
    matrix = sp.csr_matrix(values, shape=(len(degree[mine]), num_nodes))
    return sp.csr_matrix(matrix @ sp.diags_array(scale))


def _draw(rows: int, columns: int) -> NDArray[np.float32]:
    """Return the draw M [N, C] of scikit-learn's ``randomized_svd`` with the seed 0."""
    stream, drawn = np.random.RandomState(0), np.empty((rows, columns), np.float32)
    for start in range(0, rows, NODES_AT_ONCE):  # it is drawn in float64
        some = drawn[start : start + NODES_AT_ONCE]
        some[:] = stream.normal(size=some.shape)
    return drawn


def _product(matrix: sp.csr_matrix, own: Tensor) -> Tensor:
    """Return this process's rows of S Q [r, C] from its rows of S [r, N] and of Q [r, C]."""
    rows = matrix.shape[1]
    whole = gather_rows(own, rows, NODES_AT_ONCE, own.new_empty(rows, own.shape[1]))
    return torch.from_numpy(matrix @ whole.numpy())


def _orthonormal(own: Tensor) -> Tensor:
    """Return orthonormal columns [r, C] that span those of all processes' rows `own` [r, C].

    The QR decomposition of each process's rows, then of the triangles of all.
    """
    basis, triangle = torch.linalg.qr(own)
    size = own.shape[1]
    triangles = own.new_zeros(count(), size, size)
    triangles[rank(), : len(triangle)] = triangle
    add_up(triangles)
    turned = torch.linalg.qr(triangles.view(-1, size)).Q.view(count(), size, size)
    columns: Tensor = basis @ turned[rank(), : len(triangle)]
    return columns
