"""Smoothed features: averages of the features of a node and its neighbourhood.

They are a matrix [N, d] with one row per node, made from features and edges only. No label and no
seed takes part: the same graph always has the same smoothed features. Memory is linear in
nodes, features and edges; nothing of size N×N exists.

A :class:`FeatureMap` weights and reduces the columns. It is fitted to one graph and can be
applied to another with the same columns.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from hashlib import blake2b
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from sklearn.utils.extmath import svd_flip
from torch import Tensor
from torch.nn.functional import normalize

from erase.nn import neighbours
from erase.nn.encoders import take_rows
from erase.nn.precision import full_float32
from erase.nn.sparse import Graph, Pattern, columns_at_once, propagate
from erase.training.chunks import NODES_AT_ONCE
from erase.training.disk import OnDisk, leave_memory, return_freed
from erase.training.processes import (
    add_up,
    count,
    gather_columns,
    gather_rows,
    own_stretch,
    rank,
)

_MOST_WORDS = 0.5  # a larger share of non-zeros is no longer a bag of words
_ALIKE = 1e-5  # standard deviation of a column, or length of a row, that is mere rounding
_MORE_DIRECTIONS = 10  # extra directions in the randomised SVD
_RANK_TOLERANCE = 1e-6
_MOST_COLUMNS_OF_GRAM = 4_096  # 134 MB; with more columns the SVD passes over the rows many times
_SPARSE_COST = 50  # of a sparse product of rows, against a dense one
_JOINED_AT_ONCE = 2**17  # rows of graphs that are joined
# Bytes of smoothed features held in memory, of all processes; larger ones go to a file.
_LARGE = 2**28


@dataclass(frozen=True)
class Smoothing:
    """How far features are smoothed, and over what.

    Attributes:
        restart: α, weight of a node's own features in a step.
        steps: how often features move along an edge; 0: no smoothing.
        neighbours: k, how many nodes of similar features each node is joined with; 0: none.
        neighbour_weight: w, of such an edge with cosine 1, against an edge of the graph.
    """

    restart: float = 0.1
    steps: int = 20
    neighbours: int = 10
    neighbour_weight: float = 0.25


# "features": no smoothing, edges unused. "near": over edges. "far": over edges and similar nodes.
SMOOTHINGS: dict[str, Smoothing] = {
    "features": Smoothing(steps=0, neighbours=0),
    "near": Smoothing(steps=2, neighbours=0),
    "far": Smoothing(),
}
VIEWS = tuple(SMOOTHINGS)


@dataclass(frozen=True, eq=False)
class FeatureMap:
    """Weights of the feature columns, and the directions that are kept.

    Attributes:
        weight: [F] of each column.
        largest: [F] largest magnitude of each column, where features are dense; None: sparse.
        mean: [F] of each column divided by `largest`; None: sparse.
        basis: [F, d] by which weighted features are multiplied; None: all columns are kept.
    """

    weight: Tensor
    largest: Tensor | None = None
    mean: Tensor | None = None
    basis: Tensor | None = None

    @property
    def width(self) -> int:
        """Number of columns of the reduced features."""
        return len(self.weight) if self.basis is None else self.basis.shape[1]

    @classmethod
    def fit(cls, x: Tensor, width: int) -> "FeatureMap":
        """Return the map of the features [N, F], dense or CSR, to at most `width` columns.

        ======================== ==================================================
        at most half non-zero    weighted entry
        ======================== ==================================================
        yes, none negative       x_ij · log(N / number of i with x_ij ≠ 0): tf-idf
        yes, some negative       x_ij / root mean square of column j
        no                       (x_ij − mean of column j) / its standard deviation
        ======================== ==================================================

        How `x` is stored makes no difference. A column without information is zero.
        """
        n, f = x.shape
        sparse = x.layout == torch.sparse_csr
        filled = int(torch.count_nonzero(x.values() if sparse else x))
        if filled > _MOST_WORDS * n * f:
            columns = cls._standardising(x.to_dense() if sparse else x)
        else:
            columns = cls._weighing(x if sparse else x.to_sparse_csr())
        if f <= width:
            return columns
        if n > neighbours.MOST_ROWS_IN_FULL and f <= _MOST_COLUMNS_OF_GRAM:
            basis = directions_of_gram(gram_of_rows(columns, x), n, min(width, n))
        else:
            basis = singular_directions(columns.weigh(x), min(width, n))
        return cls(columns.weight, columns.largest, columns.mean, basis.to(x.device))

    @classmethod
    def _standardising(cls, x: Tensor) -> "FeatureMap":
        tiny = torch.finfo(x.dtype).tiny  # squares stay finite
        parts = x.split(NODES_AT_ONCE)
        largest = torch.stack([part.abs().amax(0) for part in parts]).amax(0).clamp(min=tiny)
        if len(parts) == 1:
            variance, mean = torch.var_mean(x / largest, 0, correction=0)
        else:
            mean = sum((part / largest).sum(0, dtype=torch.float64) for part in parts) / len(x)
            variance = sum((part / largest - mean).square().sum(0) for part in parts) / len(x)
            mean, variance = mean.to(x.dtype), variance.to(x.dtype)
        return cls(torch.where(variance > _ALIKE**2, variance.rsqrt(), 0.0), largest, mean)

    @classmethod
    def _weighing(cls, x: Tensor) -> "FeatureMap":
        pattern, values = Pattern.of(x), x.values()
        if bool((values < 0).any()):
            columns, turned = pattern.transposed, values[pattern.t_order].double()
            square = columns.row_sum(turned.square())  # the mean's 1/N goes with the rows' length
            return cls(square.rsqrt().where(square > 0, 0.0))
        count = pattern.indices[values > 0].bincount(minlength=x.shape[1]).double()
        return cls((x.shape[0] / count.clamp(min=1)).log())

    def weigh(self, x: Tensor) -> Tensor:
        """Return weighted features with rows of length 1 [N, F]: dense, or CSR for sparse ones."""
        sparse = x.layout == torch.sparse_csr
        if self.largest is not None and self.mean is not None:
            x = (x.to_dense() if sparse else x) / self.largest
            return normalize((x - self.mean) * self.weight, dim=1)
        x = x if sparse else x.to_sparse_csr()
        pattern = Pattern.of(x)
        values = x.values().double() * self.weight[pattern.indices]
        length = pattern.row_sum(values.square()).sqrt()
        values = values / length.where(length > 0, 1.0)[pattern.rows]
        return pattern.matrix(values.float())

    @full_float32()
    def reduce(self, weighed: Tensor) -> Tensor:
        """Return weighted features [N, F] along the basis [N, d], dense."""
        sparse = weighed.layout == torch.sparse_csr
        if self.basis is None:
            return weighed.to_dense() if sparse else weighed
        if sparse:
            return Pattern.of(weighed).matmul(weighed.values(), self.basis)
        return weighed @ self.basis

    def tensors(self) -> dict[str, Tensor]:
        """Return the parts by name, to be kept in a file."""
        parts = {f"columns/{field.name}": getattr(self, field.name) for field in fields(self)}
        return {name: part.cpu() for name, part in parts.items() if part is not None}

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor], device: torch.device) -> "FeatureMap":
        """Return the map whose `tensors` these are, among others."""
        named = {field.name: tensors.get(f"columns/{field.name}") for field in fields(cls)}
        return cls(**{name: part.to(device) for name, part in named.items() if part is not None})


def singular_directions(x: Tensor, width: int) -> Tensor:
    """Return P [F, width] with x P = U Σ, of x ≈ U Σ Vᵀ with the largest singular values.

    Inner products of rows are kept as well as `width` columns can. The randomised method and the
    stream are those of scikit-learn's ``randomized_svd(x, width, random_state=0)``, which returns
    U, Σ and V but not P; V is not P, since the tail of U Σ Vᵀ is approximate: on Cora x V differs
    from U Σ by 5 %. The entry of largest magnitude in a column of U is positive. On the CPU.

    Args:
        x: [N, F], dense or CSR.
        width: of P, at most N.
    """
    matrix = _scipy_csr(x.cpu()) if x.layout == torch.sparse_csr else x.cpu().numpy()
    size = width + _MORE_DIRECTIONS
    draw = np.random.RandomState(0).normal(size=(matrix.shape[1], size))
    basis = draw.astype(matrix.dtype)
    for _ in range(7 if width < 0.1 * min(matrix.shape) else 4):
        basis, _ = scipy.linalg.lu(matrix @ basis, permute_l=True, check_finite=False)
        basis, _ = scipy.linalg.lu(matrix.T @ basis, permute_l=True, check_finite=False)
    q, r = scipy.linalg.qr(matrix @ basis, mode="economic", check_finite=False)
    inner, sigma, turned = scipy.linalg.svd((matrix.T @ q).T, full_matrices=False)
    u, _ = svd_flip(q @ inner, turned)
    scaled = (q.T @ u * sigma)[:, :width].astype(np.float64)
    solution = np.linalg.pinv(r.astype(np.float64), _RANK_TOLERANCE) @ scaled
    directions: NDArray[Any] = basis.astype(np.float64) @ solution
    return torch.from_numpy(directions.astype(np.float32))


def gram_of_rows(columns: FeatureMap, x: Tensor) -> NDArray[np.float64]:
    """Return Σ w wᵀ [F, F] over the weighted features w of all nodes, some rows at a time.

    Of several processes each reads its own nodes.

    Args:
        columns: weights the features.
        x: [N, F], dense or CSR, in memory or in a file.
    """
    f = x.shape[1]
    gram = np.zeros((f, f))
    mine = own_stretch(x.shape[0])
    for rows in torch.arange(mine.start, mine.stop).split(NODES_AT_ONCE):
        weighed = columns.weigh(take_rows(x, rows.to(x.device))).cpu()
        if weighed.layout != torch.sparse_csr:
            gram += weighed.double().numpy().T @ weighed.double().numpy()
        elif weighed.values().numel() ** 2 * _SPARSE_COST < (f * len(rows)) ** 2:
            matrix = _scipy_csr(weighed).astype(np.float64)
            product = (matrix.T @ matrix).tocoo()
            gram[product.row, product.col] += product.data
        else:
            matrix = _scipy_csr(weighed).toarray().astype(np.float64)
            gram += matrix.T @ matrix
    add_up(torch.from_numpy(gram))
    return gram


def directions_of_gram(gram: NDArray[np.float64], rows: int, width: int) -> Tensor:
    """Return what :func:`singular_directions` does, from XᵀX [F, F] and the number of rows of X.

    The method and the stream are the same, and so is the result but for rounding and signs: the
    entry of largest magnitude in a column of P, not of U, is positive. The rows are read once.
    """
    f = len(gram)
    basis = np.random.RandomState(0).normal(size=(f, width + _MORE_DIRECTIONS))
    for _ in range(7 if width < 0.1 * min(rows, f) else 4):
        basis, _ = scipy.linalg.qr(gram @ basis, mode="economic", check_finite=False)
    turned = gram @ basis
    values, vectors = np.linalg.eigh(basis.T @ turned)
    kept = values > _RANK_TOLERANCE**2 * values.max(initial=0)
    whiten = vectors[:, kept] / np.sqrt(values[kept])  # X basis whiten is orthonormal
    squared, inner = np.linalg.eigh((turned @ whiten).T @ (turned @ whiten))
    order = np.argsort(-squared)[:width]
    scaled = whiten @ inner[:, order] * np.sqrt(np.maximum(squared[order], 0))
    directions = np.zeros((f, width))
    directions[:, : len(order)] = basis @ scaled
    signs = np.sign(directions[np.abs(directions).argmax(0), np.arange(width)])
    return torch.from_numpy((directions * np.where(signs == 0, 1, signs)).astype(np.float32))


def _scipy_csr(x: Tensor) -> Any:
    parts = (x.values().numpy(), x.col_indices().numpy(), x.crow_indices().numpy())
    return sp.csr_matrix(parts, shape=x.shape)


def join(graph: Graph, near: Tensor, cosines: Tensor, weight: float) -> tuple[Pattern, Tensor]:
    """Return S = D^-1/2 (A + I + w G) D^-1/2, D the row sums of the sum: pattern and values [E'].

    Args:
        graph: A; its entries are edge weights, or 1.
        near: [2, M] of G, both directions.
        cosines: [M] the entries of G.
        weight: w.
    """
    n = graph.num_nodes
    starts = torch.searchsorted(near[0].contiguous(), torch.arange(n + 1, device=near.device))
    exact = cosines.dtype if graph.weight is None else torch.float64  # weights have any scale
    counts, columns, entries, sums = [], [], [], []
    for first in range(0, n, _JOINED_AT_ONCE):  # sorted, some rows at a time
        rows = torch.arange(first, min(first + _JOINED_AT_ONCE, n), device=near.device)
        last = first + len(rows)
        edges = slice(int(graph.indptr[first]), int(graph.indptr[last]))
        close = slice(int(starts[first]), int(starts[last]))
        ends = graph.edge_index[:, edges], torch.stack([rows, rows]), near[:, close]
        row, column = torch.cat(ends, 1)
        ones = cosines.new_ones(edges.stop - edges.start, dtype=exact)
        own = ones if graph.weight is None else graph.weight[edges].to(exact)
        given = torch.cat([own, own.new_ones(len(rows)), weight * cosines[close].to(exact)])
        keys, place = ((row - first) * n + column).unique(return_inverse=True)
        entry = given.new_zeros(len(keys)).index_add_(0, place, given)
        count = (keys // n).bincount(minlength=len(rows))
        sums.append(entry.new_zeros(len(rows)).index_add_(0, keys // n, entry))
        counts.append(count)
        columns.append(keys % n)
        entries.append(entry)
    indptr = torch.cat([starts.new_zeros(1), torch.cat(counts).cumsum(0)])
    pattern, degree = Pattern(indptr, torch.cat(columns), (n, n)), torch.cat(sums)
    for k, (entry, column, count) in enumerate(zip(entries, columns, counts, strict=True)):
        own = degree[k * _JOINED_AT_ONCE :][: len(count)].repeat_interleave(count)
        entries[k] = (entry * (own * degree[column]).rsqrt()).to(cosines.dtype)
    return pattern, torch.cat(entries)


@dataclass(frozen=True, eq=False)
class Smoother:
    """Smoothed features of one graph, and what makes those of another graph comparable.

    Attributes:
        map: weights and reduces the features.
        smoothings: by name.
        means: by name, the mean row [d] of the fitted graph, which is subtracted.
    """

    map: FeatureMap
    smoothings: Mapping[str, Smoothing]
    means: Mapping[str, Tensor]

    @classmethod
    def fit(
        cls, x: Tensor, graph: Graph, width: int, smoothings: Mapping[str, Smoothing]
    ) -> tuple["Smoother", dict[str, Tensor]]:
        """Return the smoother of a graph and its smoothed features [N, d] by name.

        Of several processes each returns the rows of its own nodes, `own_stretch(N)`. After
        :func:`keep_features` several callers get the same tensors, so nobody may write to them.

        Args:
            x: [N, F], dense or CSR.
            graph: the edges, and their weights.
            width: d, where F is larger.
            smoothings: by name.
        """
        if not _most_kept:
            return cls._fit(x, graph, width, smoothings)
        key = _content(x, graph, width, smoothings)
        found = _kept.pop(key, None)
        if found is None:
            if len(_kept) == _most_kept:
                del _kept[next(iter(_kept))]  # the oldest, before memory is needed
            found = cls._fit(x, graph, width, smoothings)
        _kept[key] = found
        return found

    @classmethod
    def _fit(
        cls, x: Tensor, graph: Graph, width: int, smoothings: Mapping[str, Smoothing]
    ) -> tuple["Smoother", dict[str, Tensor]]:
        columns = FeatureMap.fit(x, width)
        means: dict[str, Tensor] = {}
        smoother = cls(columns, smoothings, means)
        features: dict[str, Tensor] = {}
        work = _smoothed if count() == 1 else _own_smoothed
        for name, smoothed in work(columns, x, graph, _changing_last(smoothings)):
            means[name] = smoothed.mean(0) if count() == 1 else _mean_of_all(smoothed, x.shape[0])
            features[name] = smoother._centred(name, smoothed)
            del smoothed  # before the next ones are computed
        return smoother, {name: features[name] for name in smoothings}

    def _centred(self, name: str, smoothed: Tensor) -> Tensor:
        """Return the centred rows of `smoothed` [N, d]: in its place, or in a file if large."""
        centred = smoothed
        if smoothed.nbytes > _LARGE and smoothed.device.type == "cpu":
            centred = OnDisk(*smoothed.shape).tensor
        for start in range(0, len(smoothed), NODES_AT_ONCE):
            rows = slice(start, start + NODES_AT_ONCE)
            centred[rows] = self.centre(name, smoothed[rows])
        leave_memory(centred)
        return centred

    def apply(self, x: Tensor, graph: Graph, last: str) -> Iterator[tuple[str, Tensor]]:
        """Yield the smoothed features [N, d] of another graph with their names, not yet centred.

        They are computed one after the other, so that they need not all be held; large ones lie in
        a file, column by column, except for the `last`. Only these may be written to.

        Args:
            x: [N, F], dense or CSR; in memory, or in a file and read some rows at a time.
            graph: its edges, and their weights.
            last: the name of those to yield last.
        """
        names = [name for name in self.smoothings if name != last]
        ordered = {name: self.smoothings[name] for name in (*names, last)}
        return _smoothed(self.map, x, graph, ordered, in_memory=last)

    def centre(self, name: str, rows: Tensor) -> Tensor:
        """Subtract the mean row, and scale rows to length 1; a row that is the mean stays zero."""
        return normalize(rows - self.means[name], dim=1, eps=_ALIKE)

    def tensors(self) -> dict[str, Tensor]:
        """Return what was fitted by name, to be kept in a file."""
        means = {f"mean/{name}": mean.cpu() for name, mean in self.means.items()}
        return self.map.tensors() | means

    @classmethod
    def of(
        cls,
        tensors: Mapping[str, Tensor],
        smoothings: Mapping[str, Smoothing],
        device: torch.device,
    ) -> "Smoother":
        """Return the smoother whose `tensors` these are, among others."""
        means = {name: tensors[f"mean/{name}"].to(device) for name in smoothings}
        return cls(FeatureMap.of(tensors, device), smoothings, means)


_kept: dict[str, tuple[Smoother, dict[str, Tensor]]] = {}  # by `_content`, the latest used last
_most_kept = 0


def keep_features(graphs: int) -> None:
    """Let later fits to the same graph share its smoothed features; those of few graphs are kept.

    For many fits with other labels, as in `erase bench`.

    Args:
        graphs: the most that are kept; 0: none, and those that are kept are dropped.
    """
    global _most_kept
    _most_kept = graphs
    while len(_kept) > graphs:
        del _kept[next(iter(_kept))]


def _content(x: Tensor, graph: Graph, width: int, smoothings: Mapping[str, Smoothing]) -> str:
    """Return a digest of all that smoothed features are made from."""
    found = blake2b(repr((x.shape, x.device, graph.num_nodes, width, dict(smoothings))).encode())
    sparse = x.layout == torch.sparse_csr
    parts = [x.values(), x.col_indices(), x.crow_indices()] if sparse else [x]
    parts += [graph.edge_index] if graph.weight is None else [graph.edge_index, graph.weight]
    for part in parts:
        found.update(f"{part.dtype}{tuple(part.shape)}".encode())
        found.update(np.ascontiguousarray(part.cpu().numpy()).data)
    return found.hexdigest()


def _changing_last(smoothings: Mapping[str, Smoothing]) -> dict[str, Smoothing]:
    """Return the smoothings, those without a step last: their result is what others start from."""
    return dict(sorted(smoothings.items(), key=lambda item: item[1].steps == 0))


def _smoothed(
    columns: FeatureMap,
    x: Tensor,
    graph: Graph,
    smoothings: Mapping[str, Smoothing],
    in_memory: str | None = None,
) -> Iterator[tuple[str, Tensor]]:
    """Yield personalised PageRank of the reduced features over S, see :func:`join`, by name.

    Similar nodes are searched by the weighted features where these are sparse and few enough for
    an exact search, by the reduced ones otherwise. Features without smoothing are the reduced ones
    themselves. With `in_memory`, large results of other names lie in files.
    """
    sought = _sought(columns, x)
    reduced = sought
    if sought.layout == torch.sparse_csr:
        reduced = columns.reduce(sought)
    for name, how in smoothings.items():  # nothing of one smoothing is held here during the next
        if how.steps:
            # no name for the neighbours: they are a quarter of the memory, and S is made of them
            operator = _operator(how, neighbours.nearest_graph(sought, how.neighbours), graph)
            large = reduced.nbytes > _LARGE and reduced.device.type == "cpu"
            on_disk = large and in_memory not in (None, name)
            smoothed = (_spread_to_file if on_disk else _spread)(how, reduced, operator)
            del operator
            yield name, smoothed
            del smoothed
        else:
            yield name, reduced


def _own_smoothed(
    columns: FeatureMap, x: Tensor, graph: Graph, smoothings: Mapping[str, Smoothing]
) -> Iterator[tuple[str, Tensor]]:
    """Yield what :func:`_smoothed` does, of the nodes of this process.

    Each process searches the nearest neighbours of its nodes, and smooths some of the columns.
    """
    n, mine, width = x.shape[0], own_stretch(x.shape[0]), columns.width
    near = {}
    return_freed()
    for name, how in smoothings.items():
        if how.steps:
            near[name] = neighbours.nearest_graph(
                _sought(columns, x) if how.neighbours else x.new_empty(0, 1),
                how.neighbours,
                queries=mine,
                add_up=add_up,
                overwrite=True,
            )
    for name, how in smoothings.items():
        if how.steps:
            operator = _operator(how, near.pop(name), graph)
            return_freed()
            part = _reduced(columns, x, slice(0, n), own_stretch(width))
            size = columns_at_once(n * count())
            for k in range(0, part.shape[1], size):  # each in its place
                part[:, k : k + size] = _spread(how, part[:, k : k + size].contiguous(), operator)
            del operator  # before columns are exchanged
            own = gather_columns(part, width, mine, NODES_AT_ONCE)
            del part
        else:
            own = _reduced(columns, x, mine, slice(0, width))
        return_freed()
        yield name, own
        del own


def whole_rows(own: Tensor, nodes: int, *, only_first: bool = False) -> Tensor:
    """Return the smoothed features of all nodes [N, d] from those of this process.

    Args:
        own: of the nodes `own_stretch(N)`.
        nodes: N.
        only_first: the first process alone needs them; others return no rows.
    """
    if count() == 1:
        return own
    shape = (0 if only_first and rank() > 0 else nodes, own.shape[1])
    large = own.element_size() * math.prod(shape) > _LARGE // count() and own.device.type == "cpu"
    out = OnDisk(*shape).tensor if large else own.new_empty(shape)
    return gather_rows(own, nodes, NODES_AT_ONCE, out)


def _mean_of_all(own: Tensor, rows: int) -> Tensor:
    """Return the mean row [d] of the rows of all processes."""
    total = own.sum(0, dtype=torch.float64)
    add_up(total)
    return (total / rows).to(own.dtype)


def _sought(columns: FeatureMap, x: Tensor) -> Tensor:
    """Return what similar nodes are searched by: sparse weighted features, or reduced ones."""
    if x.shape[0] <= neighbours.MOST_ROWS_IN_FULL:
        weighed = columns.weigh(x.to(columns.weight.device))
        return weighed if weighed.layout == torch.sparse_csr else columns.reduce(weighed)
    return _reduced(columns, x, slice(0, x.shape[0]), slice(None))


def _reduced(columns: FeatureMap, x: Tensor, nodes: slice, some: slice) -> Tensor:
    """Return some columns of the reduced features of some nodes, read a part at a time."""
    device, width = columns.weight.device, len(range(*some.indices(columns.width)))
    if columns.basis is not None:
        columns = replace(columns, basis=columns.basis[:, some].contiguous())
        some = slice(None)
    reduced = torch.empty(nodes.stop - nodes.start, width, device=device)
    for rows, place in zip(
        torch.arange(nodes.start, nodes.stop).split(NODES_AT_ONCE),
        reduced.split(NODES_AT_ONCE),
        strict=True,
    ):
        weighed = columns.weigh(take_rows(x, rows.to(x.device)).to(device))
        place.copy_(columns.reduce(weighed)[:, some])
    return reduced


def _operator(how: Smoothing, near: tuple[Tensor, Tensor], graph: Graph) -> tuple[Pattern, Tensor]:
    """Return S."""
    pattern, values = join(graph, *near, how.neighbour_weight)
    return Pattern(pattern.indptr, pattern.indices, pattern.shape), values  # no cached rows


def _spread(how: Smoothing, reduced: Tensor, operator: tuple[Pattern, Tensor]) -> Tensor:
    """Return `reduced` [N, d] smoothed."""
    return propagate(
        *operator, reduced, keep=how.restart, steps=how.steps, restart=True, bounded=False
    )


def _spread_to_file(how: Smoothing, reduced: Tensor, operator: tuple[Pattern, Tensor]) -> Tensor:
    """Return what :func:`_spread` does, as a view of a file that has one column after the other."""
    n, width = reduced.shape
    file = OnDisk(width, n)
    size = columns_at_once(n)
    for k in range(0, width, size):
        some = _spread(how, reduced[:, k : k + size].contiguous(), operator)
        file.tensor[k : k + size] = some.T
        file.leave_memory()
    return file.tensor.T
