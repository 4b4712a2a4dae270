"""Places in the graph, computed by several processes together."""

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from erase.data.features import normalised_adjacency
from erase.training.chunks import NODES_AT_ONCE
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
    mine, width = own_stretch(num_nodes), min(width, num_nodes)
    size = min(width + _MORE_DIRECTIONS, num_nodes)
    matrix = normalised_adjacency(edge_index, num_nodes)[mine]
    draw = np.random.RandomState(0).normal(size=(num_nodes, size)).astype(np.float32)
    own = torch.from_numpy(matrix @ draw)
    whole = torch.from_numpy(draw)  # its memory is used again
    for number in range(2 * _POWERS):
        # of every second product: in between, columns do not become parallel
        own = own if number % 2 else _orthonormal(own)
        gather_rows(own, num_nodes, NODES_AT_ONCE, whole)
        own = torch.from_numpy(matrix @ draw)
    basis = _orthonormal(own)
    gather_rows(basis, num_nodes, NODES_AT_ONCE, whole)
    product = torch.from_numpy(matrix @ draw).double()  # rows of S Q
    squares = product.T @ product
    add_up(squares)
    values, vectors = torch.linalg.eigh(squares)  # ascending
    scaled = (vectors * values.clamp(min=0).sqrt()).flip(1)[:, :width]
    places = normalize(basis @ scaled.float(), dim=1)
    places[torch.from_numpy(np.diff(matrix.indptr) == 0)] = 0  # rounding, scaled to length one
    return places


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
