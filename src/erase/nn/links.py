"""Edges and weighted candidate edges of several runs in one sparse pattern."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn.functional import relu

from erase.nn.encoders import Encoder, Features, GCNLayer
from erase.nn.precision import full_float32
from erase.nn.sparse import Graph, Pattern, sparse_product


@dataclass(frozen=True, eq=False)
class Links:
    """Self-loops, edges and candidate edges of R runs; node i of run r is row r·N + i.

    Attributes:
        graph: whose edges these are.
        runs: R.
        pattern: [R·N, R·N], symmetric, L entries; the links of different runs do not meet.
        loop: [L] which entries are self-loops.
        edge: [L] which entries are edges of the graph.
        of_row: [L] whether the column is among the candidates of the row.
        of_column: [L] whether the row is among the candidates of the column.
    """

    graph: Graph
    runs: int
    pattern: Pattern
    loop: Tensor
    edge: Tensor
    of_row: Tensor
    of_column: Tensor

    @classmethod
    def of(cls, graph: Graph, candidates: Sequence[Tensor]) -> "Links":
        """Add to the graph the `candidates` [2, c] of each run, nodes (i, j): j is one of i's.

        A candidate that is an edge already is that edge.
        """
        n, runs = graph.num_nodes, len(candidates)
        edges = graph.edge_index[0] * n + graph.edge_index[1]
        loops = torch.arange(n, device=edges.device) * (n + 1)
        keys, of_row, of_column = [], [], []
        for near, far in candidates:
            there, back = near * n + far, far * n + near
            key = torch.cat([edges, loops, there, back]).unique()
            keys.append(key)
            of_row.append(torch.isin(key, there))
            of_column.append(torch.isin(key, back))
        key = torch.cat(keys)
        rows, cols = key // n, key % n
        first = torch.cat([torch.full_like(own, run * n) for run, own in enumerate(keys)])
        return cls(
            graph,
            runs,
            Pattern.from_coordinates(first + rows, first + cols, (runs * n, runs * n)),
            rows == cols,
            torch.isin(key, edges),
            torch.cat(of_row),
            torch.cat(of_column),
        )

    def total(self, values: Tensor) -> Tensor:
        """Return the sum of `values` [L] over the links of each run [R]."""
        return self.pattern.row_sum(values).view(self.runs, -1).sum(1)

    def aggregate(self, values: Tensor, h: Tensor) -> Tensor:
        """Return Σ_j w_ij h_j [R, N, C] for w = `values` [L] and h [R, N, C]."""
        flat = h.reshape(self.pattern.shape[0], -1)
        return sparse_product(self.pattern, values, flat).view(h.shape)

    def likeness(self, h: Tensor) -> Tensor:
        """Return h_i·h_j of every link [L] for h [R, N, C], differentiable in h."""
        flat = h.reshape(self.pattern.shape[0], -1)
        alike: Tensor = _Likeness.apply(self.pattern, flat)  # type: ignore[no-untyped-call]
        return alike

    def weights(self, alike: Tensor, sources: Tensor, min_weight: float) -> Tensor:
        """Return the weights of links [L]: 1 for self-loops and edges, ReLU(h_i·h_j) for some more.

        These are the candidates of nodes in `sources` whose weight is not below `min_weight`; all
        other links have weight 0.

        Args:
            alike: [L] h_i·h_j.
            sources: [R, N] bool.
            min_weight: candidates below it are dropped; ≥ 0, and so it does the work of the ReLU.
        """
        source = sources.flatten()
        of_sources = self.of_row & source[self.pattern.rows]
        of_sources = of_sources | (self.of_column & source[self.pattern.indices])
        kept = torch.where(of_sources & (alike >= min_weight), alike, 0.0)
        return torch.where(self.loop | self.edge, 1.0, kept)

    def normalised(self, weights: Tensor) -> Tensor:
        """Return D^-1/2 W D^-1/2 [L] with D the row sums of W = `weights` [L]."""
        scale = self.pattern.row_sum(weights).rsqrt()
        return weights * scale[self.pattern.rows] * scale[self.pattern.indices]

    @full_float32()
    def reconstruction_loss(self, alike: Tensor, h: Tensor, negatives: int) -> Tensor:
        """Return [Σ_neg (h_i·h_j)² + Σ_pos (1 − h_i·h_j)²] · N / (#neg + #pos) of each run [R].

        pos are the edges of the graph, neg are `negatives` · N of the pairs without one, or all of
        them where there are fewer: their mean over all draws, since Σ_ij (h_i·h_j)² = ‖HᵀH‖².

        Args:
            alike: [L] h_i·h_j.
            h: [R, N, C].
            negatives: pairs without an edge for each node.
        """
        n, edges = self.graph.num_nodes, self.graph.edge_index.shape[1]
        apart = n * n - n - edges
        drawn = min(negatives * n, apart)
        everywhere = (h.mT @ h).square().sum((1, 2))
        known = self.total(torch.where(self.loop | self.edge, alike.square(), 0.0))
        negative = (everywhere - known) * (drawn / max(apart, 1))
        positive = self.total(torch.where(self.edge, (1 - alike).square(), 0.0))
        return (negative + positive) * (n / max(drawn + edges, 1))


class _Likeness(Function):
    """h_i·h_j at the entries of a symmetric pattern, with the gradient (G + Gᵀ) h."""

    @staticmethod
    def forward(ctx: Any, pattern: Pattern, h: Tensor) -> Tensor:
        ctx.pattern = pattern
        ctx.save_for_backward(h)
        return pattern.sample(h, h)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (grad,) = grads
        (h,) = ctx.saved_tensors
        pattern: Pattern = ctx.pattern
        return None, pattern.matmul(grad + grad[pattern.t_order], h)


class LinkedGCN(Encoder):
    """Two graph convolutions that can also run on a weighted graph of its own for each run."""

    first: GCNLayer
    second: GCNLayer

    def linked_hidden(self, x: Features, links: Links, values: Tensor) -> Tensor:
        """Return the hidden layer [R, N, hidden] for normalised weights `values` [L]."""
        return relu(links.aggregate(values, x.project(self.first.weight)) + self.first.bias)

    def linked_output(self, hidden: Tensor, links: Links, values: Tensor) -> Tensor:
        """Return the logits [R, N, K] for normalised weights `values` [L]."""
        return links.aggregate(values, hidden @ self.second.weight) + self.second.bias
