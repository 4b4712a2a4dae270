"""Sparse operators of a graph: patterns, products, normalisation, propagation, attention.

A sparse matrix is a :class:`Pattern` (where the entries are, fixed for the life of a graph) and a
vector of values (what they are, often new in every epoch). Every operation is linear in the number
of entries; nothing of size N×N exists.
"""

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd import Function

# What torch says once per process about its CSR layout is nothing a user can act upon.
for _message in ("Sparse CSR tensor support is in beta", "Sparse invariant checks are implicitly"):
    warnings.filterwarnings("ignore", message=_message)

Normalisation = Literal["column", "symmetric", "row"]


@dataclass(frozen=True, eq=False)
class Pattern:
    """Where a sparse matrix [M, N] with E entries has them: CSR of the matrix and of its transpose.

    Attributes:
        indptr: [M+1] start of each row among the entries.
        indices: [E] column of each entry, ascending inside a row.
        t_indptr: [N+1] the same for the transpose.
        t_indices: [E] the same for the transpose.
        t_order: [E] `values[t_order]` are the values of the transpose.
        shape: (M, N).
    """

    indptr: Tensor
    indices: Tensor
    t_indptr: Tensor
    t_indices: Tensor
    t_order: Tensor
    shape: tuple[int, int]

    @classmethod
    def from_coordinates(cls, rows: Tensor, cols: Tensor, shape: tuple[int, int]) -> "Pattern":
        """Build the pattern of entries (rows, cols) [E], given sorted by (row, column)."""
        t_order = torch.argsort(cols, stable=True)
        return cls(
            indptr=_offsets(rows, shape[0]),
            indices=cols,
            t_indptr=_offsets(cols, shape[1]),
            t_indices=rows[t_order],
            t_order=t_order,
            shape=shape,
        )

    @cached_property
    def rows(self) -> Tensor:
        """[E] row of each entry."""
        counts = self.indptr.diff()
        return torch.repeat_interleave(counts, output_size=self.indices.numel())

    @cached_property
    def transposed(self) -> "Pattern":
        """The pattern of the transpose; permute values by `t_order` to go with it."""
        return replace(
            self,
            indptr=self.t_indptr,
            indices=self.t_indices,
            t_indptr=self.indptr,
            t_indices=self.indices,
            t_order=torch.argsort(self.t_order),
            shape=self.shape[::-1],
        )

    def repeat(self, copies: int) -> "Pattern":
        """Return `copies` independent graphs in one: entry (i, j) becomes (i·H+h, j·H+h) for all h.

        A tensor [N, H, C] seen as [N·H, C] is then one dense operand: H attention heads, or runs,
        cost one sparse product instead of H.
        """
        if copies == 1:
            return self
        order = self.repeat_order(copies)
        copy, entry = order // self.indices.numel(), order % self.indices.numel()
        rows = self.rows[entry] * copies + copy
        cols = self.indices[entry] * copies + copy
        shape = (self.shape[0] * copies, self.shape[1] * copies)
        return Pattern.from_coordinates(rows, cols, shape)

    def repeat_order(self, copies: int) -> Tensor:
        """Return where the entries of :meth:`repeat` lie among values [copies, E], flattened."""
        copy = torch.arange(copies, device=self.indices.device)[:, None]
        return torch.argsort((self.rows * copies + copy).flatten(), stable=True)

    def matrix(self, values: Tensor) -> Tensor:
        """Return the torch CSR tensor [M, N] with these `values` [E]."""
        return torch.sparse_csr_tensor(
            self.indptr, self.indices, values, self.shape, check_invariants=False
        )

    def matmul(self, values: Tensor, dense: Tensor) -> Tensor:
        """Return A·B [M, C] for A = (self, values [E]) and B = `dense` [N, C]. No gradient.

        A GPU adds the terms of a row in any order, unless torch is told to be deterministic.
        """
        if dense.is_cuda and torch.are_deterministic_algorithms_enabled():
            product = dense.new_zeros(self.shape[0], dense.shape[1])
            return product.index_add_(0, self.rows, values[:, None] * dense[self.indices])
        return self.matrix(values) @ dense

    def sample(self, left: Tensor, right: Tensor) -> Tensor:
        """Return the entries [E] of L·Rᵀ at the pattern, for L [M, C] and R [N, C]. No gradient."""
        zeros = self.matrix(left.new_zeros(self.indices.numel()))
        sampled: Tensor = torch.sparse.sampled_addmm(zeros, left, right.t(), beta=0.0)
        return sampled.values()

    def row_sum(self, values: Tensor) -> Tensor:
        """Return Σ_j A_ij [M]; 0 for an empty row."""
        return values.new_zeros(self.shape[0]).index_add_(0, self.rows, values)

    def row_max(self, values: Tensor) -> Tensor:
        """Return max_j A_ij [M] over the entries of each row; −inf for an empty row."""
        if values.is_cuda:  # where a segment is one thread's work, and many are short
            lowest = values.new_full((self.shape[0],), -torch.inf)
            return lowest.scatter_reduce_(0, self.rows, values, "amax")
        return torch.segment_reduce(values, "max", offsets=self.indptr, initial=-torch.inf)


def _offsets(sorted_or_not: Tensor, size: int) -> Tensor:
    counts = torch.bincount(sorted_or_not, minlength=size)
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])


class _SparseProduct(Function):
    """A·B with gradients to A's values (only where asked for) and to B."""

    @staticmethod
    def forward(ctx: Any, pattern: Pattern, values: Tensor, dense: Tensor) -> Tensor:
        ctx.pattern = pattern
        ctx.save_for_backward(values, dense)
        return pattern.matmul(values, dense)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (grad,) = grads
        values, dense = ctx.saved_tensors
        pattern: Pattern = ctx.pattern
        grad_values = pattern.sample(grad, dense) if ctx.needs_input_grad[1] else None
        grad_dense = None
        if ctx.needs_input_grad[2]:
            grad_dense = pattern.transposed.matmul(values[pattern.t_order], grad)
        return None, grad_values, grad_dense


def sparse_product(pattern: Pattern, values: Tensor, dense: Tensor) -> Tensor:
    """Return A·B [M, C], differentiable in the values [E] of A and in B [N, C].

    The gradients are ∂values = (G·Bᵀ at the pattern) and ∂B = Aᵀ·G: both sparse.
    """
    product: Tensor = _SparseProduct.apply(pattern, values, dense)  # type: ignore[no-untyped-call]
    return product


class Graph:
    """An undirected graph with its operators, each built once and kept.

    Args:
        edge_index: [2, E] both directions of every edge, sorted, without self-loops.
        num_nodes: N.
    """

    def __init__(self, edge_index: Tensor, num_nodes: int) -> None:
        self.edge_index = edge_index
        self.num_nodes = num_nodes
        self._kept: dict[tuple[Any, ...], Any] = {}

    def pattern(self, *, self_loops: bool = False, copies: int = 1) -> Pattern:
        """Return the pattern of A, or of A + I with `self_loops`, `copies` times over."""
        key = ("pattern", self_loops, copies)
        if key not in self._kept:
            if copies > 1:
                self._kept[key] = self.pattern(self_loops=self_loops).repeat(copies)
            else:
                self._kept[key] = self._build(self_loops)
        kept: Pattern = self._kept[key]
        return kept

    def normalised(self, how: Normalisation, *, self_loops: bool = False) -> tuple[Pattern, Tensor]:
        """Return A (or A + I) with its entries divided by degrees: pattern and values [E].

        ============ ================================= ===========================
        `how`        matrix                            the paper's
        ============ ================================= ===========================
        "symmetric"  D^-1/2 A D^-1/2                   Ã, as printed
        "column"     A D^-1 (columns sum to 1)         behind the published numbers
        "row"        D^-1 A (rows sum to 1)            –
        ============ ================================= ===========================

        A node without neighbours has a zero row and column.

        >>> path = Graph(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), 3)  # 0 – 1 – 2
        >>> path.normalised("column")[1].tolist()  # entries (0,1) (1,0) (1,2) (2,1)
        [0.5, 1.0, 1.0, 0.5]
        """
        key = ("normalised", how, self_loops)
        if key not in self._kept:
            pattern = self.pattern(self_loops=self_loops)
            degree = pattern.indptr.diff().to(torch.float32)
            if how == "symmetric":
                values = (degree[pattern.rows] * degree[pattern.indices]).rsqrt()
            else:
                values = degree[pattern.indices if how == "column" else pattern.rows].reciprocal()
            self._kept[key] = (pattern, values)
        kept: tuple[Pattern, Tensor] = self._kept[key]
        return kept

    def masked(self, mask: Tensor) -> "Graph":
        """Return the graph A ⊙ mmᵀ: the same nodes, only edges between nodes of `mask` [N]."""
        inside = mask[self.edge_index[0]] & mask[self.edge_index[1]]
        return Graph(self.edge_index[:, inside], self.num_nodes)

    def _build(self, self_loops: bool) -> Pattern:
        rows, cols = self.edge_index
        if self_loops:
            nodes = torch.arange(self.num_nodes, device=rows.device)
            rows, cols = torch.cat([rows, nodes]), torch.cat([cols, nodes])
            order = torch.argsort(rows * self.num_nodes + cols)
            rows, cols = rows[order], cols[order]
        return Pattern.from_coordinates(rows, cols, (self.num_nodes, self.num_nodes))


def propagate(
    pattern: Pattern, values: Tensor, labels: Tensor, *, keep: float, steps: int
) -> Tensor:
    """Return L^(T) of L^(t+1) = ((1−α) Ã + α I) L^(t) (eqs. 5 and 9; α = `keep`, T = `steps`).

    `steps=0` or `keep=1` returns the labels [N, K] (or [R, N, K] for R runs) as they are; a node
    without neighbours only fades by α a step. Cost: T sparse products.

    >>> pair = Graph(torch.tensor([[0, 1], [1, 0]]), 2)
    >>> propagate(*pair.normalised("symmetric"), torch.tensor([[1.0], [0.0]]), keep=0.75, steps=1)
    tensor([[0.7500],
            [0.2500]])
    """
    if labels.dim() == 2:
        for _ in range(steps):
            labels = (1 - keep) * pattern.matmul(values, labels) + keep * labels
        return labels
    runs, nodes, classes = labels.shape
    flat = labels.transpose(0, 1).reshape(nodes, runs * classes)
    flat = propagate(pattern, values, flat, keep=keep, steps=steps)
    return flat.view(nodes, runs, classes).transpose(0, 1)


class _Attention(Function):
    """Softmax-weighted sum over neighbours with the gradient in closed form."""

    @staticmethod
    def forward(
        ctx: Any, pattern: Pattern, h: Tensor, source: Tensor, target: Tensor, slope: float
    ) -> Tensor:
        rows, cols = pattern.rows, pattern.indices
        raw = source[cols] + target[rows]
        score = torch.where(raw > 0, raw, slope * raw)
        weight = (score - pattern.row_max(score)[rows]).exp_()
        weight = weight / pattern.row_sum(weight)[rows]
        ctx.pattern, ctx.slope = pattern, slope
        ctx.save_for_backward(h, weight, raw)
        return pattern.matmul(weight, h)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        grad = grads[0].contiguous()
        h, weight, raw = ctx.saved_tensors
        pattern: Pattern = ctx.pattern
        grad_h = pattern.transposed.matmul(weight[pattern.t_order], grad)
        # d softmax: w ⊙ (g − Σ_row w ⊙ g), then through LeakyReLU
        weighted = weight * pattern.sample(grad, h)
        grad_raw = weighted - weight * pattern.row_sum(weighted)[pattern.rows]
        grad_raw = torch.where(raw > 0, grad_raw, ctx.slope * grad_raw)
        grad_source = pattern.transposed.row_sum(grad_raw[pattern.t_order])
        grad_target = pattern.row_sum(grad_raw)
        return None, grad_h, grad_source, grad_target, None


def attend(
    pattern: Pattern, h: Tensor, source: Tensor, target: Tensor, *, slope: float = 0.2
) -> Tensor:
    """Return Σ_j a_ij h_j, a_i· = softmax over the entries j of row i of LeakyReLU(s_j + t_i).

    Args:
        pattern: [N, N] whom each node listens to; every row needs an entry (use self-loops).
        h: [N, C] what is aggregated.
        source: [N] s, what a node says for itself as a neighbour.
        target: [N] t, how a node hears.
        slope: LeakyReLU's negative slope.
    """
    around: Tensor = _Attention.apply(  # type: ignore[no-untyped-call]
        pattern, h, source, target, slope
    )
    return around
