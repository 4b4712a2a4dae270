"""Sparse operators of a graph: patterns, products, normalisation, propagation, attention.

A sparse matrix is a :class:`Pattern` (where the entries are, fixed for the life of a graph) and a
vector of values (what they are, often new in every epoch). Every operation is linear in the number
of entries; nothing of size N×N exists.
"""

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn.functional import embedding_bag

from erase.errors import EraseError

# torch warns once per process about its CSR layout, and a user cannot act upon it: here it does so
# unheard, and the user's own filters stay as they are.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch.sparse_csr_tensor([0, 1], [0], [1.0])

Normalisation = Literal["column", "symmetric", "row"]

# Labels that are propagated together; more of them go column by column.
_LABELS_AT_ONCE = 2**24


@dataclass(frozen=True, eq=False)
class Pattern:
    """Where a sparse matrix [M, N] with E entries has them, in CSR.

    Attributes:
        indptr: [M+1] start of each row among the entries.
        indices: [E] column of each entry, ascending inside a row.
        shape: (M, N).
    """

    indptr: Tensor
    indices: Tensor
    shape: tuple[int, int]

    @classmethod
    def from_coordinates(cls, rows: Tensor, cols: Tensor, shape: tuple[int, int]) -> "Pattern":
        """Build the pattern of entries (rows, cols) [E], given sorted by (row, column)."""
        return cls(_offsets(rows, shape[0]), cols, shape)

    @classmethod
    def of(cls, x: Tensor) -> "Pattern":
        """Return the pattern of a torch CSR tensor [M, N]."""
        return cls(x.crow_indices(), x.col_indices(), (x.shape[0], x.shape[1]))

    @cached_property
    def rows(self) -> Tensor:
        """[E] row of each entry."""
        counts = self.indptr.diff()
        return torch.repeat_interleave(counts, output_size=self.indices.numel())

    @cached_property
    def t_order(self) -> Tensor:
        """[E] `values[t_order]` are the values of the transpose."""
        return torch.argsort(self.indices, stable=True)

    @cached_property
    def transposed(self) -> "Pattern":
        """The pattern of the transpose; permute values by `t_order` to go with it."""
        starts = _offsets(self.indices, self.shape[1])
        return Pattern(starts, self.rows[self.t_order], self.shape[::-1])

    def take(self, rows: Tensor) -> tuple["Pattern", Tensor]:
        """Return the pattern of some rows [m], and where its entries lie among those of all."""
        entries, count = row_entries(self.indptr, rows)
        starts = torch.cat([count.new_zeros(1), count.cumsum(0)])
        return Pattern(starts, self.indices[entries], (len(rows), self.shape[1])), entries

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
        entries = torch.arange(self.indices.numel(), device=self.indices.device)
        copy = torch.arange(copies, device=self.indices.device)[:, None]
        start, count = self.indptr[self.rows], self.indptr.diff()[self.rows]
        # a row's entries of copy 0, then those of copy 1, …
        place = (start * copies + copy * count + (entries - start)).flatten()
        return torch.empty_like(place).scatter_(
            0, place, torch.arange(len(place), device=place.device)
        )

    def matrix(self, values: Tensor) -> Tensor:
        """Return the torch CSR tensor [M, N] with these `values` [E]."""
        return torch.sparse_csr_tensor(
            self.indptr, self.indices, values, self.shape, check_invariants=False
        )

    def matmul(self, values: Tensor, dense: Tensor) -> Tensor:
        """Return A·B [M, C] for A = (self, values [E]) and B = `dense` [N, C]. No gradient.

        A GPU adds the terms of a row in any order, unless torch is set to be deterministic.
        """
        if dense.is_cuda and torch.are_deterministic_algorithms_enabled():
            product = dense.new_zeros(self.shape[0], dense.shape[1])
            return product.index_add_(0, self.rows, values[:, None] * dense[self.indices])
        return self.matrix(values) @ dense

    def sum_rows(self, values: Tensor, dense: Tensor) -> Tensor:
        """Return what `matmul` does, in a tensor of its own; on a CPU in a third of the time.

        A row of the product is a weighted sum of rows of `dense`, as an embedding bag is.
        200,000 rows, 4,000,000 entries, one thread: 0.4 to 0.6 ns an entry and column, 1.2 to 1.4
        with the sparse product.
        """
        usual = dense.device.type == "cpu" and dense.dtype == values.dtype == torch.float32
        if not usual or dense.requires_grad or values.requires_grad or not len(values):
            return self.matmul(values, dense)
        return embedding_bag(
            self.indices,
            dense.contiguous(),
            self.indptr[:-1],
            mode="sum",
            per_sample_weights=values,
        )

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


def ragged(start: Tensor, count: Tensor) -> Tensor:
    """Return the numbers start_i, start_i + 1, …, count_i of them, for every i in turn.

    >>> ragged(torch.tensor([10, 0]), torch.tensor([3, 2])).tolist()
    [10, 11, 12, 0, 1]
    """
    shift = start - (count.cumsum(0) - count)
    places = torch.arange(int(count.sum()), device=start.device)
    return places + torch.repeat_interleave(shift, count)


def row_entries(indptr: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return where the entries of some rows [m] of a CSR matrix lie, row by row, and how many.

    Args:
        indptr: [M+1] start of each row among the entries.
        rows: [m].

    >>> row_entries(torch.tensor([0, 2, 2, 5]), torch.tensor([2, 1, 0]))
    (tensor([2, 3, 4, 0, 1]), tensor([3, 0, 2]))
    """
    count = indptr[rows + 1] - indptr[rows]
    return ragged(indptr[rows], count), count


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
    """Sparse adjacency of a graph, with cached normalisations.

    A whole undirected graph, its own row for every node; or a part of one: some rows of it, or a
    sample of the entries of some rows.

    Args:
        edge_index: [2, E] row and column of every entry, sorted, without self-loops. Of a whole
            graph: both directions of every edge.
        num_nodes: N, the columns.
        itself: [M] the column of each row's own node, for a part of a graph; None: row i is node i.
        degree: [N] neighbours in the whole graph; None: as many as a node has here.
        weight: [E] weights from 0 on, the same for both directions; None: all edges count alike.
        strength: [N] sum of a node's weights in the whole graph; None: of those it has here.

    Attributes:
        edge_index: as given.
        num_nodes: N.
        itself: as given.
        weight: as given.
    """

    def __init__(
        self,
        edge_index: Tensor,
        num_nodes: int,
        *,
        itself: Tensor | None = None,
        degree: Tensor | None = None,
        weight: Tensor | None = None,
        strength: Tensor | None = None,
    ) -> None:
        self.edge_index = edge_index
        self.num_nodes = num_nodes
        self.itself = itself
        self.weight = weight
        self._degree, self._strength = degree, strength
        self._kept: dict[tuple[Any, ...], Any] = {}

    @property
    def num_rows(self) -> int:
        """M."""
        return self.num_nodes if self.itself is None else self.itself.numel()

    @cached_property
    def indptr(self) -> Tensor:
        """[M+1] start of each row among the entries."""
        rows = torch.arange(self.num_rows + 1, device=self.edge_index.device)
        return torch.searchsorted(self.edge_index[0], rows)

    @cached_property
    def degree(self) -> Tensor:
        """[N] neighbours of each node in the whole graph."""
        return self.indptr.diff() if self._degree is None else self._degree

    @cached_property
    def strength(self) -> Tensor | None:
        """[N] float64: sum of each node's edge weights in the whole graph; None: no weights."""
        if self._strength is not None or self.weight is None:
            return self._strength
        return torch.segment_reduce(
            self.weight.double(), "sum", offsets=self.indptr, initial=0.0
        )  # always in the same order, also on a GPU

    def of_rows(self, values: Tensor, dim: int) -> Tensor:
        """Return the entries of `values` [..., N, ...] along `dim` that belong to the rows."""
        return values if self.itself is None else values.index_select(dim, self.itself)

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

        With edge weights, A has these as entries and D the sums of its rows; an edge of the
        identity counts 1. A node without neighbours has a zero row and column. Where k of a row's
        d entries were sampled, each counts d/k times: products are right on average.

        >>> path = Graph(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), 3)  # 0 – 1 – 2
        >>> path.normalised("column")[1].tolist()  # entries (0,1) (1,0) (1,2) (2,1)
        [0.5, 1.0, 1.0, 0.5]
        """
        key = ("normalised", how, self_loops)
        if key not in self._kept:
            pattern = self.pattern(self_loops=self_loops)
            if self.strength is None:
                degree = (self.degree + int(self_loops)).to(torch.float32)
            else:  # in float64: weights may be of any scale
                degree = self.strength + int(self_loops)
                degree = degree.where(degree > 0, 1.0)  # all entries are 0 then
            of_row = self.of_rows(degree, 0)
            if how == "symmetric":
                values = (of_row[pattern.rows] * degree[pattern.indices]).rsqrt()
            elif how == "column":
                values = degree[pattern.indices].reciprocal()
            else:
                values = of_row[pattern.rows].reciprocal()
            if self.weight is not None:
                weight = self.weight.double()
                if self_loops:
                    weight = self._with_loops(weight, weight.new_ones(self.num_rows))
                values = (values * weight).to(torch.float32)
            if self._degree is not None:
                values = values * self._multiplicity(pattern, self_loops)
            self._kept[key] = (pattern, values)
        kept: tuple[Pattern, Tensor] = self._kept[key]
        return kept

    def masked(self, mask: Tensor) -> "Graph":
        """Return the graph A ⊙ mmᵀ: the same nodes, only edges between nodes of `mask` [N]."""
        inside = mask[self.edge_index[0]] & mask[self.edge_index[1]]
        return Graph(self.edge_index[:, inside], self.num_nodes, weight=_at(self.weight, inside))

    def rows(self, start: int, stop: int) -> "Graph":
        """Return the rows `start` to `stop` of a whole graph, all columns, without a copy of it."""
        first, last = self.indptr[start].item(), self.indptr[stop].item()
        entries = self.edge_index[:, first:last]
        local = torch.stack([entries[0] - start, entries[1]])
        return Graph(
            local,
            self.num_nodes,
            itself=torch.arange(start, stop, device=local.device),
            degree=self.degree,
            weight=None if self.weight is None else self.weight[first:last],
            strength=self.strength,
        )

    def only(self, rows: Tensor) -> tuple["Graph", Tensor]:
        """Return some rows [m] of a part of a graph, among the columns they need, and these [n]."""
        own = rows if self.itself is None else self.itself[rows]
        entries, count = row_entries(self.indptr, rows)
        ends = self.edge_index[1, entries]
        needed = torch.cat([ends, own]).unique()
        places = torch.arange(rows.numel(), device=rows.device)
        edges = torch.stack(
            [torch.repeat_interleave(places, count), torch.searchsorted(needed, ends)]
        )
        part = Graph(
            edges,
            needed.numel(),
            itself=torch.searchsorted(needed, own),
            degree=self.degree[needed],
            weight=_at(self.weight, entries),
            strength=_at(self.strength, needed),
        )
        return part, needed

    def induced(self, nodes: Tensor) -> "Graph":
        """Return the graph among `nodes` [n] of a whole graph, numbered as they are listed."""
        entries, count = row_entries(self.indptr, nodes)
        ends = self.edge_index[1, entries]
        order = torch.argsort(nodes)
        place = torch.searchsorted(nodes[order], ends).clamp_(max=nodes.numel() - 1)
        cols = order[place]
        inside = nodes[cols] == ends
        rows = torch.repeat_interleave(torch.arange(nodes.numel(), device=nodes.device), count)
        key, order = (rows * nodes.numel() + cols)[inside].sort()
        edges = torch.stack([key // nodes.numel(), key % nodes.numel()])
        return Graph(edges, nodes.numel(), weight=_at(self.weight, entries[inside][order]))

    def weights_and_loops(self) -> Tensor:
        """Return the weights [E + M] of A + I; a self-loop has the mean of its node's weights.

        This is PyG's ``fill_value="mean"``; a node without neighbours has 0.
        """
        if self.weight is None or self.strength is None:
            raise EraseError(
                "a graph with edge weights, as in the fit",
                "one without",
                "Add edge_weight, or fit again without weights: NodeTask.of(graph, weights=False).",
            )
        if ("loops",) not in self._kept:
            mean = (self.strength / self.degree.clamp(min=1)).to(self.weight.dtype)
            self._kept["loops",] = self._with_loops(self.weight, self.of_rows(mean, 0))
        kept: Tensor = self._kept["loops",]
        return kept

    def repeat_order(self, copies: int) -> Tensor:
        """Return where entries of `copies` of A + I lie among values [copies, E + M], flattened."""
        key = ("order", copies)
        if key not in self._kept:
            self._kept[key] = self.pattern(self_loops=True).repeat_order(copies)
        kept: Tensor = self._kept[key]
        return kept

    def _with_loops(self, values: Tensor, of_loops: Tensor) -> Tensor:
        """Return the values of A + I from those of A [E] and of I [M]."""
        pattern = self.pattern(self_loops=True)
        loop = self._is_loop(pattern)
        joined = values.new_empty(loop.shape)
        joined[loop], joined[~loop] = of_loops, values
        return joined

    def _is_loop(self, pattern: Pattern) -> Tensor:
        """Return which entries of A + I belong to I [E + M]."""
        own = pattern.rows if self.itself is None else self.itself[pattern.rows]
        return pattern.indices == own

    def _multiplicity(self, pattern: Pattern, self_loops: bool) -> Tensor:
        """Return how many entries of the whole graph each entry stands for [E]."""
        here = self.indptr.diff()
        weight = (self.of_rows(self.degree, 0) / here.clamp(min=1)).to(torch.float32)[pattern.rows]
        return weight.masked_fill(self._is_loop(pattern), 1.0) if self_loops else weight

    def _build(self, self_loops: bool) -> Pattern:
        shape = (self.num_rows, self.num_nodes)
        if not self_loops:
            return Pattern(self.indptr, self.edge_index[1], shape)
        rows = torch.arange(self.num_rows, device=self.edge_index.device)
        cols = rows if self.itself is None else self.itself
        rows, cols = torch.cat([self.edge_index[0], rows]), torch.cat([self.edge_index[1], cols])
        order = torch.argsort(rows * self.num_nodes + cols)
        return Pattern.from_coordinates(rows[order], cols[order], shape)


def _at(values: Tensor | None, places: Tensor) -> Tensor | None:
    return None if values is None else values[places]


def columns_at_once(rows: int) -> int:
    """Return how many columns of this length are propagated together."""
    return max(1, _LABELS_AT_ONCE // max(rows, 1))


def propagate(
    pattern: Pattern,
    values: Tensor,
    labels: Tensor,
    *,
    keep: float,
    steps: int,
    restart: bool = False,
    bounded: bool = True,
) -> Tensor:
    """Return L^(T) of L^(t+1) = ((1−α) Ã + α I) L^(t) (eqs. 5 and 9; α = `keep`, T = `steps`).

    `steps=0` or `keep=1` returns the labels [N, K] (or [R, N, K] for R runs) as they are; a node
    without neighbours only fades by α a step. With `restart`, L^(t+1) = (1−α) Ã L^(t) + α L^(0):
    nodes are drawn back to where they began. This is personalised PageRank of the columns, which
    may be features. With `bounded` each step is then clamped to [0, 1], as PyG's `LabelPropagation`
    does: a hub's row of Ã may sum to more than 1. Cost: T sparse products,
    a few columns at a time where the labels are many: beside them and the answer nothing as large
    is held.

    >>> pair = Graph(torch.tensor([[0, 1], [1, 0]]), 2)
    >>> propagate(*pair.normalised("symmetric"), torch.tensor([[1.0], [0.0]]), keep=0.75, steps=1)
    tensor([[0.7500],
            [0.2500]])
    """
    if labels.dim() == 2:
        columns = columns_at_once(labels.shape[0])
        if labels.shape[1] <= columns:
            return _propagate(pattern, values, labels, keep, steps, restart, bounded)
        spread = torch.empty_like(labels)
        for k in range(0, labels.shape[1], columns):
            some = labels[:, k : k + columns].contiguous()
            spread[:, k : k + columns] = _propagate(
                pattern, values, some, keep, steps, restart, bounded
            )
        return spread
    runs, nodes, classes = labels.shape
    flat = labels.transpose(0, 1).reshape(nodes, runs * classes)
    flat = propagate(
        pattern, values, flat, keep=keep, steps=steps, restart=restart, bounded=bounded
    )
    return flat.view(nodes, runs, classes).transpose(0, 1)


def _propagate(
    pattern: Pattern,
    values: Tensor,
    labels: Tensor,
    keep: float,
    steps: int,
    restart: bool,
    bounded: bool,
) -> Tensor:
    first = labels
    for _ in range(steps):
        own = first if restart else labels
        labels = pattern.sum_rows(values, labels).mul_(1 - keep).add_(own, alpha=keep)
        if restart and bounded:
            labels.clamp_(0, 1)
    return labels


class _Attention(Function):
    """Softmax-weighted sum over neighbours with the gradient in closed form."""

    @staticmethod
    def forward(
        ctx: Any,
        pattern: Pattern,
        h: Tensor,
        source: Tensor,
        target: Tensor,
        edge: Tensor | None,
        slope: float,
    ) -> Tensor:
        rows, cols = pattern.rows, pattern.indices
        raw = source[cols] + target[rows]
        if edge is not None:
            raw += edge
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
        grad_edge = grad_raw if ctx.needs_input_grad[4] else None
        return None, grad_h, grad_source, grad_target, grad_edge, None


def attend(
    pattern: Pattern,
    h: Tensor,
    source: Tensor,
    target: Tensor,
    edge: Tensor | None = None,
    *,
    slope: float = 0.2,
) -> Tensor:
    """Return Σ_j a_ij h_j, a_i· the softmax over row i's entries of LeakyReLU(s_j + t_i + e_ij).

    Args:
        pattern: [M, N] the neighbours of each row; every row needs an entry (use self-loops).
        h: [N, C] what is aggregated.
        source: [N] s, score of a node as a neighbour.
        target: [M] t, score of the row that aggregates.
        edge: [E] e, score of the entry; None: 0.
        slope: LeakyReLU's negative slope.
    """
    around: Tensor = _Attention.apply(  # type: ignore[no-untyped-call]
        pattern, h, source, target, edge, slope
    )
    return around
