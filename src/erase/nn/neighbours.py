"""Nearest neighbours by cosine, exact or, for very many rows, nearly so.

The exact search is a chunked product. For more than 50,000 dense rows, the search by centres looks
only at rows around the nearest centres. One CPU thread, ten neighbours, seconds and recall:

============= ====== ================ =================
rows × width  exact  centres          pynndescent 0.7
============= ====== ================ =================
50,000 × 64   11 s    2 s, recall .91 1 s, recall .98
100,000 × 64  45 s    5 s, recall .89 3 s, recall .98
100,000 × 256 96 s    8 s, recall .94 4 s, recall .98
============= ====== ================ =================

pynndescent is not used: it compiles for another 31 s in every process, and needs numba and
llvmlite. Nor is scikit-learn's ``NearestNeighbors``: it breaks ties by rounding, and which of many
equal bags of words are neighbours would be chance. Here they are those of the lowest numbers.
"""

import math

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from erase.nn.precision import full_float32
from erase.nn.sparse import Pattern, row_entries

NO_NODE = -1
MOST_ROWS_IN_FULL = 50_000
_COSINES_AT_ONCE = 2**22  # 16 MB; with what is made of them, less than 64 MB unless all are equal
# Cosines closer than that are equal: rounding is a tenth of it in float32.
_TIES = {torch.float32: 1e-6, torch.float64: 1e-9}
_FEWEST_ROWS_OF_A_CENTRE, _CENTRES_SEARCHED = 250, 16


@full_float32()
def nearest(
    x: Tensor,
    count: int,
    *,
    of: Tensor | None = None,
    among: Tensor | None = None,
    positive: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return the rows of highest cosine and their cosines [n, count], the highest first.

    A row is not its own neighbour. Of equal cosines the lowest node numbers win. Where there are
    fewer neighbours than `count`, -1 and 0 fill up. Cost: n × m inner products of rows, in blocks
    of bounded size.

    Args:
        x: [N, F], dense or CSR, float32 or float64; a row of zeros has cosine 0 with all.
        count: of neighbours of a row.
        of: [n] the rows whose neighbours are wanted; None: all.
        among: [m] the rows to search, ascending; None: all.
        positive: leave out neighbours whose cosine is not positive.

    >>> nearest(torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 4.0]]), 1)
    (tensor([[2],
            [2],
            [1]]), tensor([[0.6000],
            [0.8000],
            [0.8000]]))
    """
    n = x.shape[0]
    of = torch.arange(n, device=x.device) if of is None else of
    cosines = _Cosines(x, among)
    least = _TIES[x.dtype] if positive else -torch.inf
    other = of.new_full((len(of), count), NO_NODE)
    cosine = torch.zeros(len(of), count, dtype=x.dtype, device=x.device)
    kept = min(count, n if among is None else len(among))
    size = max(1, _COSINES_AT_ONCE // max(x.shape))
    for first in range(0, len(of) if kept else 0, size):
        block = slice(first, first + size)
        found = _highest(cosines(of[block]), kept, least)
        other[block, :kept], cosine[block, :kept] = found
    if among is not None:
        other[other >= 0] = among[other[other >= 0]]
    return other, cosine


def nearest_graph(x: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the symmetric graph of nearest neighbours: its edges [2, M] and their cosines [M].

    Each node is joined with the `count` others of highest cosine, if that is positive. Edges have
    both directions and are sorted. More than 50,000 dense rows are searched by centres, in N^1.5
    time, and some neighbours are missed.

    Args:
        x: [N, F], dense or CSR; a row of zeros has no neighbours.
        count: k.

    >>> nearest_graph(torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 4.0]]), 1)
    (tensor([[0, 1, 2, 2],
            [2, 2, 0, 1]]), tensor([0.6000, 0.8000, 0.6000, 0.8000]))
    """
    n = x.shape[0]
    if x.layout == torch.strided and n > MOST_ROWS_IN_FULL:
        other, cosine = nearly_nearest(x, count)
    else:
        other, cosine = nearest(x, max(0, min(count, n - 1)), positive=True)
    node, place = (other >= 0).nonzero(as_tuple=True)
    other, cosine = other[node, place], cosine[node, place]
    low, high = torch.minimum(node, other), torch.maximum(node, other)
    pairs, place = (low * n + high).unique(return_inverse=True)
    cosine = cosine.new_zeros(len(pairs)).scatter_reduce_(0, place, cosine, "amax")
    both, order = torch.cat([pairs, pairs % n * n + pairs // n]).sort()
    return torch.stack([both // n, both % n]), cosine.repeat(2)[order]


@full_float32()
def nearly_nearest(x: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return what ``nearest(x, count, positive=True)`` does, except for some missed neighbours.

    Some rows, one for every few hundred, are centres; every row belongs to the centre of highest
    cosine, and its neighbours are searched among the rows of that centre and the nearest ones.
    Where these are many more than usual, most of them nearly equal, only some of them are compared.
    The centres are drawn from a fixed stream: the same rows give the same result.

    Args:
        x: [N, F] dense.
        count: of neighbours of a row.
    """
    n, tie = x.shape[0], _TIES[x.dtype]
    unit = normalize(x, dim=1)
    rows_of_a_centre = max(_FEWEST_ROWS_OF_A_CENTRE, math.isqrt(n) // 2)
    drawn = np.random.default_rng(0).permutation(n)[: max(1, n // rows_of_a_centre)]
    centres = unit[torch.from_numpy(np.sort(drawn)).to(x.device)]
    blocks = unit.split(max(1, _COSINES_AT_ONCE // len(centres)))
    owner = torch.cat([(block @ centres.T).argmax(1) for block in blocks])
    sought = (unit != 0).any(1).nonzero().squeeze(1)
    order = sought[owner[sought].argsort(stable=True)]
    members = order.split(owner[sought].bincount(minlength=len(centres)).tolist())
    most = 4 * _CENTRES_SEARCHED * rows_of_a_centre
    between = centres @ centres.T
    between.fill_diagonal_(2.0)  # of equal centres each searches its own rows
    around = between.topk(min(_CENTRES_SEARCHED, len(centres)), dim=1).indices.tolist()
    other = torch.full((n, count), NO_NODE, device=x.device)
    cosine = torch.zeros(n, count, device=x.device)
    for own, centres_near in zip(members, around, strict=True):
        pool = torch.cat([members[centre] for centre in centres_near]).sort().values
        pool = pool[:: max(1, len(pool) // most)]
        for rows in own.split(max(1, _COSINES_AT_ONCE // max(1, len(pool)))):
            cosines = unit[rows] @ unit[pool].T
            cosines.masked_fill_(rows[:, None] == pool, 0.0)
            found = cosines.topk(min(count, len(pool)), dim=1)
            kept = found.values > tie
            other[rows, : kept.shape[1]] = pool[found.indices].where(kept, NO_NODE)
            cosine[rows, : kept.shape[1]] = found.values * kept
    return other, cosine


class _Cosines:
    """Cosines of some rows of a matrix with all of them, or with those of `among`."""

    def __init__(self, x: Tensor, among: Tensor | None) -> None:
        self._among = among
        self._pattern: Pattern | None = None
        if x.layout == torch.sparse_csr:
            self._pattern, values = Pattern.of(x), x.values().double()
            length = self._pattern.row_sum(values.square()).sqrt()
            self._unit = (values / length.where(length > 0, 1.0)[self._pattern.rows]).to(x.dtype)
        else:
            self._unit = normalize(x, dim=1)
            self._others = self._unit if among is None else self._unit[among]

    def __call__(self, rows: Tensor) -> Tensor:
        """Return the cosines [b, m] of b `rows`, in a tensor of their own; −∞ with themselves."""
        if self._pattern is None:
            cosines = self._unit[rows] @ self._others.T
        else:
            pattern = self._pattern
            entries, lengths = row_entries(pattern.indptr, rows)
            places = torch.arange(len(rows), device=rows.device).repeat_interleave(lengths)
            chosen = self._unit.new_zeros(pattern.shape[1], len(rows))
            chosen[pattern.indices[entries], places] = self._unit[entries]
            product = pattern.matmul(self._unit, chosen)  # [N, b]
            cosines = (product if self._among is None else product[self._among]).T.contiguous()
        if self._among is None:
            cosines[torch.arange(len(rows), device=rows.device), rows] = -torch.inf
        else:
            cosines.masked_fill_(rows[:, None] == self._among, -torch.inf)
        return cosines


def _highest(cosines: Tensor, count: int, least: float) -> tuple[Tensor, Tensor]:
    """Return the columns of highest value and that value [b, count]; -1 and 0 fill a row up.

    Args:
        cosines: [b, m].
        count: how many, up to m.
        least: values have to be above this.
    """
    tie = _TIES[cosines.dtype]
    last = cosines.topk(count, dim=1).values[:, -1:]
    row, other = ((cosines >= last - tie) & (cosines > least)).nonzero(as_tuple=True)
    found = cosines[row, other]
    tied = found <= last[row, 0] + tie
    order = (2 * row + tied).argsort(stable=True)  # equal ones last, by number
    chosen = order[_rank(row[order], len(cosines)) < count].sort().values
    row, other, found = row[chosen], other[chosen], found[chosen]
    order = (found / tie).round().argsort(descending=True, stable=True)
    order = order[row[order].argsort(stable=True)]
    row, other, found = row[order], other[order], found[order]
    others = other.new_full((len(cosines), count), NO_NODE)
    highest = found.new_zeros(len(cosines), count)
    place = _rank(row, len(cosines))
    others[row, place], highest[row, place] = other, found
    return others, highest


def _rank(row: Tensor, rows: int) -> Tensor:
    """Return the place of each entry in its row, for ascending rows [M]."""
    first = torch.searchsorted(row, torch.arange(rows, device=row.device))
    return torch.arange(len(row), device=row.device) - first[row]
