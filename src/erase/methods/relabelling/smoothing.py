"""Views: what a node's features say together with those of the nodes around it, without training.

A view is a matrix [N, d] with one row per node, made from features and edges alone. No label and no
seed takes part: the same graph has the same view every time. Memory is linear in nodes, features
and edges; nothing of size N×N exists.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.utils.extmath import randomized_svd
from torch import Tensor
from torch.nn.functional import normalize

from erase.nn.precision import full_float32
from erase.nn.sparse import Pattern

_MOST_WORDS = 0.5  # a larger share of non-zeros is no longer a bag of words
_ALIKE = 1e-5  # standard deviation of a column, or length of a row, that is mere rounding
_COSINES_AT_ONCE = 2**22  # 16 MB; with what is made of them, less than 64 MB unless all are equal
_TIE = 1e-6  # cosines closer than that are equal: float32 rounds by a tenth of it
_MOST_NODES_IN_FULL = 50_000
_FEWEST_ROWS_OF_A_CENTRE, _CENTRES_ASKED = 250, 16


def weigh(x: Tensor) -> Tensor:
    """Return the features with columns weighed by what they tell, and rows of length 1 [N, F].

    ======================== ================================================== ========
    at most half non-zero    entry                                              returned
    ======================== ================================================== ========
    yes, none negative       x_ij · log(N / number of i with x_ij ≠ 0): tf-idf  CSR
    yes, some negative       x_ij / root mean square of column j                CSR
    no                       (x_ij − mean of column j) / its standard deviation dense
    ======================== ================================================== ========

    How `x` is stored makes no difference. A row or column that says nothing is zero.

    Args:
        x: [N, F], dense or CSR.

    >>> weigh(torch.tensor([[2.0, 0.0, 0.0], [1.0, 0.0, 3.0]])).to_dense()  # log 1 = 0, log 2
    tensor([[0., 0., 0.],
            [0., 0., 1.]])
    """
    sparse = x.layout == torch.sparse_csr
    filled = int(torch.count_nonzero(x.values() if sparse else x))
    if filled > _MOST_WORDS * x.shape[0] * x.shape[1]:
        return normalize(_standardise(x.to_dense() if sparse else x), dim=1)
    pattern, values = _entries(x if sparse else x.to_sparse_csr())
    columns = pattern.transposed
    turned = values[pattern.t_order]
    if bool((values < 0).any()):
        square = columns.row_sum(turned.square())  # the mean's 1/N goes with the rows' length
        weight = square.rsqrt().where(square > 0, 0.0)
    else:
        weight = (x.shape[0] / columns.row_sum((turned > 0).double()).clamp(min=1)).log()
    values = values * weight[pattern.indices]
    length = pattern.row_sum(values.square()).sqrt()
    values = values / length.where(length > 0, 1.0)[pattern.rows]
    return pattern.matrix(values.float())


def _standardise(x: Tensor) -> Tensor:
    x = x / x.abs().amax(0).clamp(min=torch.finfo(x.dtype).tiny)  # squares stay finite
    variance, mean = torch.var_mean(x, 0, correction=0)
    return torch.where(variance > _ALIKE**2, (x - mean) * variance.rsqrt(), 0.0)


def _entries(x: Tensor) -> tuple[Pattern, Tensor]:
    """Return a CSR tensor as pattern and values [E] float64."""
    rows = torch.repeat_interleave(x.crow_indices().diff(), output_size=x.values().numel())
    pattern = Pattern.from_coordinates(rows, x.col_indices(), (x.shape[0], x.shape[1]))
    return pattern, x.values().double()


def reduce(x: Tensor, width: int) -> Tensor:
    """Return U Σ [N, min(width, N)] of x ≈ U Σ Vᵀ, the largest singular values; x if F ≤ width.

    Inner products of rows are kept as well as `width` columns can. By a randomised method with a
    stream of its own, on the CPU; the entry of largest magnitude in a column of U is positive.

    Args:
        x: [N, F], dense or CSR.
        width: most columns to return.
    """
    if x.shape[1] <= width:
        return x.to_dense() if x.layout == torch.sparse_csr else x
    matrix = _scipy_csr(x.cpu()) if x.layout == torch.sparse_csr else x.cpu().numpy()
    u, sigma, _ = randomized_svd(
        matrix, min(width, x.shape[0]), transpose=False, flip_sign=True, random_state=0
    )
    return torch.from_numpy(np.ascontiguousarray(u * sigma, dtype=np.float32)).to(x.device)


def _scipy_csr(x: Tensor) -> Any:
    parts = (x.values().numpy(), x.col_indices().numpy(), x.crow_indices().numpy())
    return sp.csr_matrix(parts, shape=x.shape)


@full_float32()
def nearest(x: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the symmetric graph of nearest neighbours: its edges [2, M] and their cosines [M].

    Each node is joined with the `count` others of highest cosine, if that is positive; of equal
    ones with those of the lowest number. Edges have both directions and are sorted. Cost: N² inner
    products of rows, in blocks of bounded size.

    Args:
        x: [N, F], dense or CSR; a row of zeros is near to nobody.
        count: k.

    >>> nearest(torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 4.0]]), 1)  # 2 is near to both
    (tensor([[0, 1, 2, 2],
            [2, 2, 0, 1]]), tensor([0.6000, 0.8000, 0.6000, 0.8000]))
    """
    n = x.shape[0]
    count = max(0, min(count, n - 1))
    other = torch.zeros(n, count, dtype=torch.int64, device=x.device)
    cosine = torch.zeros(n, count, device=x.device)
    cosines = _Cosines(x)
    size = max(1, _COSINES_AT_ONCE // max(x.shape))
    for first in range(0, n if count else 0, size):
        block = slice(first, min(first + size, n))
        other[block], cosine[block] = _highest(cosines(block), block, count)
    return _both_ways(other, cosine)


def _both_ways(other: Tensor, cosine: Tensor) -> tuple[Tensor, Tensor]:
    """Return the edges [2, M], both directions, and cosines [M] of neighbours [N, k]; 0 is none."""
    n = len(other)
    node, place = cosine.nonzero(as_tuple=True)
    other, cosine = other[node, place], cosine[node, place]
    low, high = torch.minimum(node, other), torch.maximum(node, other)
    pairs, place = (low * n + high).unique(return_inverse=True)
    cosine = cosine.new_zeros(len(pairs)).scatter_reduce_(0, place, cosine, "amax")
    both, order = torch.cat([pairs, pairs % n * n + pairs // n]).sort()
    return torch.stack([both // n, both % n]), cosine.repeat(2)[order]


class _Cosines:
    """Cosines of some rows of a matrix with all of them."""

    def __init__(self, x: Tensor) -> None:
        self._sparse = x.layout == torch.sparse_csr
        if self._sparse:
            self._pattern, values = _entries(x)
            length = self._pattern.row_sum(values.square()).sqrt()
            self._values = (values / length.where(length > 0, 1.0)[self._pattern.rows]).float()
        else:
            self._unit = normalize(x, dim=1)

    def __call__(self, rows: slice) -> Tensor:
        """Return the cosines [b, N] of b `rows`, in a tensor of their own."""
        if not self._sparse:
            return self._unit[rows] @ self._unit.T
        pattern = self._pattern
        entries = slice(int(pattern.indptr[rows.start]), int(pattern.indptr[rows.stop]))
        chosen = self._values.new_zeros(pattern.shape[1], rows.stop - rows.start)
        chosen[pattern.indices[entries], pattern.rows[entries] - rows.start] = self._values[entries]
        return pattern.matmul(self._values, chosen).T.contiguous()


@full_float32()
def nearly_nearest(x: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return what `nearest` returns, but for some neighbours that are missed, in N^1.5 time.

    Some rows, one for every few hundred, are centres; every row belongs to the centre of highest
    cosine, and seeks its neighbours among the rows of its own centre and of those nearest to that.
    Where these are many more than usual, most of them nearly equal, it seeks among a part of them.
    Which rows are centres is drawn from a stream of its own: the same rows have the same answer.

    Args:
        x: [N, F] dense; a row of zeros is near to nobody.
        count: k.
    """
    n = x.shape[0]
    unit = normalize(x, dim=1)
    rows_of_a_centre = max(_FEWEST_ROWS_OF_A_CENTRE, math.isqrt(n) // 2)
    drawn = np.random.default_rng(0).permutation(n)[: max(1, n // rows_of_a_centre)]
    centres = unit[torch.from_numpy(np.sort(drawn)).to(x.device)]
    blocks = unit.split(max(1, _COSINES_AT_ONCE // len(centres)))
    owner = torch.cat([(block @ centres.T).argmax(1) for block in blocks])
    sought = (unit != 0).any(1).nonzero().squeeze(1)
    order = sought[owner[sought].argsort(stable=True)]
    members = order.split(owner[sought].bincount(minlength=len(centres)).tolist())
    most = 4 * _CENTRES_ASKED * rows_of_a_centre
    between = centres @ centres.T
    between.fill_diagonal_(2.0)  # of equal centres each asks itself
    around = between.topk(min(_CENTRES_ASKED, len(centres)), dim=1).indices.tolist()
    other = torch.zeros(n, count, dtype=torch.int64, device=x.device)
    cosine = torch.zeros(n, count, device=x.device)
    for own, asked in zip(members, around, strict=True):
        pool = torch.cat([members[centre] for centre in asked]).sort().values
        pool = pool[:: max(1, len(pool) // most)]
        for rows in own.split(max(1, _COSINES_AT_ONCE // max(1, len(pool)))):
            cosines = unit[rows] @ unit[pool].T
            cosines.masked_fill_(rows[:, None] == pool, 0.0)
            found = cosines.topk(min(count, len(pool)), dim=1)
            kept = found.values > _TIE
            other[rows, : kept.shape[1]] = pool[found.indices] * kept
            cosine[rows, : kept.shape[1]] = found.values * kept
    return _both_ways(other, cosine)


def _highest(cosines: Tensor, nodes: slice, count: int) -> tuple[Tensor, Tensor]:
    """Return the others of highest positive cosine and that cosine [b, count]; 0 fills a row up.

    Args:
        cosines: [b, N] of the `nodes` with all; those with themselves are overwritten.
        nodes: b in a row, which are not their own neighbours.
        count: how many.
    """
    own = torch.arange(len(cosines), device=cosines.device)
    cosines[own, own + nodes.start] = 0.0
    least = cosines.topk(count, dim=1).values[:, -1:]
    row, other = ((cosines >= least - _TIE) & (cosines > _TIE)).nonzero(as_tuple=True)
    found = cosines[row, other]
    tied = found <= least[row, 0] + _TIE
    order = (2 * row + tied).argsort(stable=True)  # equal ones last, by number
    row, other, found = row[order], other[order], found[order]
    rank = torch.arange(len(row), device=row.device) - torch.searchsorted(row, own)[row]
    kept = rank < count
    others = other.new_zeros(len(cosines), count)
    others[row[kept], rank[kept]] = other[kept]
    highest = found.new_zeros(len(cosines), count)
    highest[row[kept], rank[kept]] = found[kept]
    return others, highest


def join(
    edge_index: Tensor, near: Tensor, cosines: Tensor, weight: float, num_nodes: int
) -> tuple[Pattern, Tensor]:
    """Return S = D^-1/2 (A + I + w G) D^-1/2, D the row sums of the sum: pattern and values [E'].

    Args:
        edge_index: [2, E] of A, both directions.
        near: [2, M] of G, both directions.
        cosines: [M] the entries of G.
        weight: w.
        num_nodes: N.
    """
    n = num_nodes
    loops = torch.arange(n, device=near.device)
    rows = torch.cat([edge_index[0], loops, near[0]])
    cols = torch.cat([edge_index[1], loops, near[1]])
    ones = cosines.new_ones(edge_index.shape[1] + n)
    keys, place = (rows * n + cols).unique(return_inverse=True)
    values = ones.new_zeros(len(keys)).index_add_(0, place, torch.cat([ones, weight * cosines]))
    pattern = Pattern.from_coordinates(keys // n, keys % n, (n, n))
    degree = pattern.row_sum(values)
    return pattern, values * (degree[pattern.rows] * degree[pattern.indices]).rsqrt()


def smooth(pattern: Pattern, values: Tensor, x: Tensor, *, restart: float, steps: int) -> Tensor:
    """Return personalised PageRank of the columns of x: H ← (1−α) S H + α x from H = x [N, d].

    Args:
        pattern: [N, N] of S.
        values: [E'] of S.
        x: [N, d].
        restart: α.
        steps: how often; 0 returns x.
    """
    h = x
    for _ in range(steps):
        h = torch.lerp(pattern.matmul(values, h), x, restart)
    return h


def smoothed_view(
    x: Tensor,
    edge_index: Tensor,
    *,
    width: int = 256,
    restart: float = 0.1,
    steps: int = 20,
    neighbours: int = 10,
    neighbour_weight: float = 0.25,
) -> Tensor:
    """Return the features, weighed, reduced and smoothed over edges and likeness [N, d].

    `weigh`, `reduce`, `nearest`, `join` and `smooth` in this order; then the mean row is
    subtracted, and every row scaled to length 1. Neighbours are sought among the weighed features
    where these are sparse, among the reduced ones otherwise; of more than 50,000 nodes among the
    reduced ones by `nearly_nearest`. A row that is the mean stays zero, but for rounding.

    Args:
        x: [N, F], dense or CSR.
        edge_index: [2, E] both directions of every edge, without self-loops.
        width: d, where F is larger.
        restart: α, weight of a node's own features in a step.
        steps: of smoothing.
        neighbours: k, how many nodes of like features each node is joined with; 0: none.
        neighbour_weight: w, of such an edge with cosine 1, against an edge of the graph.
    """
    weighed = weigh(x)
    reduced = reduce(weighed, width)
    near, cosines = _alike(weighed, reduced, neighbours)
    pattern, values = join(edge_index, near, cosines, neighbour_weight, x.shape[0])
    return _centred(smooth(pattern, values, reduced, restart=restart, steps=steps))


def _alike(weighed: Tensor, reduced: Tensor, count: int) -> tuple[Tensor, Tensor]:
    if len(reduced) > _MOST_NODES_IN_FULL:
        return nearly_nearest(reduced, count)
    return nearest(weighed if weighed.layout == torch.sparse_csr else reduced, count)


def _centred(h: Tensor) -> Tensor:
    return normalize(h - h.mean(0), dim=1, eps=_ALIKE)


VIEWS = ("features", "near", "far")


def views_of(
    x: Tensor, edge_index: Tensor, *, width: int = 256, names: Sequence[str] = VIEWS
) -> dict[str, Tensor]:
    """Return what a node's features say alone, with those near it, and with those far around it.

    ========== =====================================================================
    "features" weighed and reduced
    "near"     the same, smoothed over edges, 2 steps
    "far"      the same, smoothed over edges and over the ten nodes most alike, which
               count a quarter, 20 steps: :func:`smoothed_view` with its defaults
    ========== =====================================================================

    Args:
        x: [N, F], dense or CSR.
        edge_index: [2, E] both directions of every edge, without self-loops.
        width: d, where F is larger.
        names: of the views to return.
    """
    n = x.shape[0]
    weighed = weigh(x)
    reduced = reduce(weighed, width)
    views = {}
    for name in names:
        if name == "features":
            view = reduced
        elif name == "near":
            nobody = edge_index[:, :0], reduced.new_zeros(0)
            view = smooth(*join(edge_index, *nobody, 0.0, n), reduced, restart=0.1, steps=2)
        else:
            both = join(edge_index, *_alike(weighed, reduced, 10), 0.25, n)
            view = smooth(*both, reduced, restart=0.1, steps=20)
        views[name] = _centred(view)
    return views
