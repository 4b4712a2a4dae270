"""Smoothed features: averages of the features of a node and its neighbourhood.

They are a matrix [N, d] with one row per node, made from features and edges only. No label and no
seed takes part: the same graph always has the same smoothed features. Memory is linear in
nodes, features and edges; nothing of size N×N exists.

A :class:`FeatureMap` weights and reduces the columns. It is fitted to one graph and can be
applied to another with the same columns.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
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
from erase.nn.precision import full_float32
from erase.nn.sparse import Graph, Pattern, propagate

_MOST_WORDS = 0.5  # a larger share of non-zeros is no longer a bag of words
_ALIKE = 1e-5  # standard deviation of a column, or length of a row, that is mere rounding
_MORE_DIRECTIONS = 10  # extra directions in the randomised SVD
_RANK_TOLERANCE = 1e-6


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
        sparse = x.layout == torch.sparse_csr
        filled = int(torch.count_nonzero(x.values() if sparse else x))
        if filled > _MOST_WORDS * x.shape[0] * x.shape[1]:
            columns = cls._standardising(x.to_dense() if sparse else x)
        else:
            columns = cls._weighing(x if sparse else x.to_sparse_csr())
        if x.shape[1] <= width:
            return columns
        weighed = columns.weigh(x)
        basis = singular_directions(weighed, min(width, x.shape[0]))
        return cls(columns.weight, columns.largest, columns.mean, basis.to(x.device))

    @classmethod
    def _standardising(cls, x: Tensor) -> "FeatureMap":
        largest = x.abs().amax(0).clamp(min=torch.finfo(x.dtype).tiny)  # squares stay finite
        variance, mean = torch.var_mean(x / largest, 0, correction=0)
        return cls(torch.where(variance > _ALIKE**2, variance.rsqrt(), 0.0), largest, mean)

    @classmethod
    def _weighing(cls, x: Tensor) -> "FeatureMap":
        pattern, values = Pattern.of(x), x.values().double()
        columns, turned = pattern.transposed, values[pattern.t_order]
        if bool((values < 0).any()):
            square = columns.row_sum(turned.square())  # the mean's 1/N goes with the rows' length
            return cls(square.rsqrt().where(square > 0, 0.0))
        return cls((x.shape[0] / columns.row_sum((turned > 0).double()).clamp(min=1)).log())

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
    n, edge_index = graph.num_nodes, graph.edge_index
    loops = torch.arange(n, device=near.device)
    rows = torch.cat([edge_index[0], loops, near[0]])
    cols = torch.cat([edge_index[1], loops, near[1]])
    ones = cosines.new_ones(edge_index.shape[1] + n)
    if graph.weight is not None:  # in float64: weights may be of any scale
        ones = torch.cat([graph.weight.double(), ones[:n]])
    keys, place = (rows * n + cols).unique(return_inverse=True)
    values = ones.new_zeros(len(keys)).index_add_(0, place, torch.cat([ones, weight * cosines]))
    pattern = Pattern.from_coordinates(keys // n, keys % n, (n, n))
    degree = pattern.row_sum(values)
    values = values * (degree[pattern.rows] * degree[pattern.indices]).rsqrt()
    return pattern, values.to(cosines.dtype)


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

        Args:
            x: [N, F], dense or CSR.
            graph: the edges, and their weights.
            width: d, where F is larger.
            smoothings: by name.
        """
        columns = FeatureMap.fit(x, width)
        smoothed = _smoothed(columns, x, graph, smoothings)
        means = {name: h.mean(0) for name, h in smoothed.items()}
        return cls(columns, smoothings, means), _centred(smoothed, means)

    def apply(self, x: Tensor, graph: Graph) -> dict[str, Tensor]:
        """Return the smoothed features [N, d] of another graph by name."""
        return _centred(_smoothed(self.map, x, graph, self.smoothings), self.means)

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


def _smoothed(
    columns: FeatureMap, x: Tensor, graph: Graph, smoothings: Mapping[str, Smoothing]
) -> dict[str, Tensor]:
    """Return personalised PageRank of the reduced features over S, see :func:`join`, by name.

    Similar nodes are searched by the weighted features where these are sparse and few enough for
    an exact search, by the reduced ones otherwise.
    """
    weighed = columns.weigh(x)
    reduced = columns.reduce(weighed)
    exact = weighed.layout == torch.sparse_csr and len(reduced) <= neighbours.MOST_ROWS_IN_FULL
    smoothed = {}
    for name, how in smoothings.items():
        smoothed[name] = reduced
        if how.steps:
            near = neighbours.nearest_graph(weighed if exact else reduced, how.neighbours)
            operator = join(graph, *near, how.neighbour_weight)
            smoothed[name] = propagate(
                *operator, reduced, keep=how.restart, steps=how.steps, restart=True, bounded=False
            )
    return smoothed


def _centred(smoothed: Mapping[str, Tensor], means: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Subtract the mean row, and scale rows to length 1; a row that is the mean stays zero."""
    return {name: normalize(h - means[name], dim=1, eps=_ALIKE) for name, h in smoothed.items()}
