"""Nearest neighbours by cosine, exact or, for very many rows, nearly so.

The exact search is a chunked product. For more than 20,000 dense rows, the search by centres looks
only at rows around the centres nearest to a row; ``benchmarks/scale.py --only neighbours`` measures
its time and what it finds. One CPU thread, ten neighbours, seconds and recall of others:

============= ====== =================
rows × width  exact  pynndescent 0.7
============= ====== =================
50,000 × 64   11 s   1 s, recall .98
100,000 × 64  45 s   3 s, recall .98
100,000 × 256 96 s   4 s, recall .98
============= ====== =================

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
from erase.nn.sums import AddUp, single_process

NO_NODE = -1
MOST_ROWS_IN_FULL = 20_000
_COSINES_AT_ONCE = 2**22  # 16 MB; with what is made of them, less than 64 MB unless all are equal
# Cosines closer than that are equal: rounding is a tenth of it in float32.
_TIES = {torch.float32: 1e-6, torch.float64: 1e-9}
_FEWEST_ROWS_OF_A_CENTRE, _CENTRES_SEARCHED = 250, 16
_MOST_ROWS_OF_A_CENTRE = 8  # times the usual number
_SAMPLED_PER_CENTRE, _CENTRE_STEPS = 64, 3  # of k-means


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


def nearest_graph(
    x: Tensor,
    count: int,
    *,
    queries: slice | None = None,
    add_up: AddUp = single_process,
    overwrite: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return the symmetric graph of nearest neighbours: its edges [2, M] and their cosines [M].

    Each node is joined with the `count` others of highest cosine, if that is positive. Edges have
    both directions and are sorted. More than 20,000 dense rows are searched by centres, in N^1.5
    time, and some neighbours are missed.

    Args:
        x: [N, F], dense or CSR; a row of zeros has no neighbours.
        count: k.
        queries: of several processes, the rows whose neighbours this one searches; None: all.
        add_up: replaces a tensor by its sum over all processes.
        overwrite: whether `x` may be changed, which saves memory.

    >>> nearest_graph(torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 4.0]]), 1)
    (tensor([[0, 1, 2, 2],
            [2, 2, 0, 1]]), tensor([0.6000, 0.8000, 0.6000, 0.8000]))
    """
    n = x.shape[0]
    if not count:
        nothing = torch.empty(2, 0, dtype=torch.int64, device=x.device)
        return nothing, torch.empty(0, dtype=x.dtype, device=x.device)
    if x.layout == torch.strided and n > MOST_ROWS_IN_FULL:
        other, cosine = nearly_nearest(
            x, count, queries=queries, add_up=add_up, overwrite=overwrite
        )
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
def nearly_nearest(
    x: Tensor,
    count: int,
    *,
    queries: slice | None = None,
    add_up: AddUp = single_process,
    overwrite: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return what ``nearest(x, count, positive=True)`` does, except for some missed neighbours.

    One centre for every few hundred rows is put amid them by k-means; every row belongs to the
    centre of highest cosine, and its neighbours are searched among the rows of the centres nearest
    to it. Where a centre has many more rows than usual, most of them nearly equal, only some of
    them are compared. The sample that places the centres is drawn from a fixed stream: the same
    rows give the same result.

    Args:
        x: [N, F] dense.
        count: of neighbours of a row.
        queries: of several processes, the rows whose neighbours this one searches; None: all.
        add_up: replaces a tensor by its sum over all processes.
        overwrite: whether `x` may be changed, which saves memory.
    """
    n, tie = x.shape[0], _TIES[x.dtype]
    queries = slice(0, n) if queries is None else queries
    unit = normalize(x, dim=1, out=x) if overwrite else normalize(x, dim=1)
    rows_of_a_centre = max(_FEWEST_ROWS_OF_A_CENTRE, math.isqrt(n) // 2)
    centres = _centres(unit, max(1, n // rows_of_a_centre))
    searched = min(_CENTRES_SEARCHED, len(centres))
    nearby = torch.zeros(n, searched, dtype=torch.int32, device=x.device)
    nearby[queries] = _nearest_centres(unit[queries], centres, searched)
    add_up(nearby)
    sought = (unit != 0).any(1).nonzero().squeeze(1)
    owner = nearby[sought, 0]
    members = sought[owner.argsort(stable=True)].split(
        owner.bincount(minlength=len(centres)).tolist()
    )
    asked = sought[(sought >= queries.start) & (sought < queries.stop)]
    visited = nearby[asked].flatten()
    order = visited.argsort(stable=True)  # by centre, then by row
    visitors = asked[order // searched].split(visited.bincount(minlength=len(centres)).tolist())
    other = torch.zeros(n, count, dtype=torch.int64, device=x.device)
    other[queries] = NO_NODE
    cosine = torch.zeros(n, count, device=x.device)
    for own, rows_near in zip(members, visitors, strict=True):
        pool = own[:: max(1, len(own) // (_MOST_ROWS_OF_A_CENTRE * rows_of_a_centre))]
        if not len(pool):
            continue
        there = unit[pool].T
        for rows in rows_near.split(max(1, _COSINES_AT_ONCE // len(pool))):
            cosines = unit[rows] @ there
            cosines.masked_fill_(rows[:, None] == pool, 0.0)
            found = cosines.topk(min(count, len(pool)), dim=1)
            kept = found.values > tie
            values = torch.cat([cosine[rows], found.values * kept], 1)
            nodes = torch.cat([other[rows], pool[found.indices].where(kept, NO_NODE)], 1)
            best = values.topk(count, dim=1)
            cosine[rows], other[rows] = best.values, nodes.gather(1, best.indices)
    add_up(other, cosine)
    return other, cosine


def _centres(unit: Tensor, count: int) -> Tensor:
    """Return `count` directions [count, F], each amid some of the rows: steps of k-means."""
    order = np.random.default_rng(0).permutation(len(unit))
    drawn, sampled = order[:count], order[: _SAMPLED_PER_CENTRE * count]
    centres = unit[torch.from_numpy(np.sort(drawn)).to(unit.device)]
    sample = unit[torch.from_numpy(np.sort(sampled)).to(unit.device)]
    for _ in range(_CENTRE_STEPS):
        owner = _nearest_centres(sample, centres, 1)[:, 0]
        sums = torch.zeros_like(centres).index_add_(0, owner.long(), sample)
        length = sums.norm(dim=1, keepdim=True)
        centres = torch.where(length > 0, sums / length.clamp(min=1e-12), centres)
    return centres


def _nearest_centres(unit: Tensor, centres: Tensor, count: int) -> Tensor:
    """Return the centres of highest cosine of each row [n, count], the highest first."""
    nearest = torch.empty(len(unit), count, dtype=torch.int32, device=unit.device)
    # not joined from a list: each part would keep the freed product before it from being reused
    size = max(1, _COSINES_AT_ONCE // len(centres))
    for block, found in zip(unit.split(size), nearest.split(size), strict=True):
        cosines = block @ centres.T
        found.copy_(cosines.argmax(1)[:, None] if count == 1 else cosines.topk(count).indices)
    return nearest


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
