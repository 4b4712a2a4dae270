"""PI-GNN: a loss on linked and unlinked pairs of nodes beside the labels (Du et al., 2023).

Whether two nodes are linked does not depend on wrong labels. With logits s_ij = o_i·o_j and the
label matrix Y = A + I, which has P ones among its N² entries, the loss of pairs is

    norm · mean over all (i, j) of M_ij BCE(s_ij, Y_ij; positive weight w),
    w = (N² − P) / P,   norm = N² / (2 (N² − P)),

so that ones and zeros have equal weight. The sum over all pairs is taken in blocks of rows, its
gradient in closed form, 2 Σ_j (∂/∂s_ij) o_j: nothing of size N×N exists.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn.functional import softplus

from erase.data.task import NodeTask
from erase.methods.base import COUNT, Constraint, Number, OneOf, Range
from erase.methods.network import BatchLearner, NetworkClassifier, NetworkSize, mean_outcome
from erase.nn.encoders import Encoder
from erase.nn.precision import full_float32
from erase.nn.sparse import Graph
from erase.training.graphs import Batch, WholeGraph
from erase.training.large_graphs import ChunkedGraph
from erase.training.loop import Learner, Outcome, mean_cross_entropy

# Numbers computed together: what stays in a core's cache, or keeps a GPU busy.
_NUMBERS_AT_ONCE = {"cpu": 2**18, "cuda": 2**25}


def pairwise_losses(
    o: Tensor, z: Tensor, graph: Graph, *, trust: Tensor, drawn: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return norm · mean_ij M_ij BCE(o_i·o_j, Y_ij) and the same of z with M = 1, both [R].

    M_ij = σ(z_i·z_j) where Y_ij = 1 and 1 − σ(z_i·z_j) elsewhere: how far `z` agrees with the
    label. No gradient passes through it. Memory is linear in nodes and edges; the cost is N²
    products of rows, or N·m where pairs are drawn.

    Args:
        o: [R, N, C].
        z: [R, N, C].
        graph: A.
        trust: [R] 1 for M as above, 0 for M = 1.
        drawn: [R, m, N] for each node m others, drawn uniformly from all: those of them that are
            zeros of Y stand for all zeros, so that losses and gradients are right on average.
            None: all pairs.

    >>> isolated = Graph(torch.empty(2, 0, dtype=torch.int64), 2)  # Y = I, w = 1, norm = 1
    >>> o = torch.zeros(1, 2, 3)
    >>> pairwise_losses(o, o, isolated, trust=torch.ones(1))  # log 2 for every pair; M = 1/2
    (tensor([0.3466]), tensor([0.6931]))
    """
    main, estimator = _PairwiseLosses.apply(  # type: ignore[no-untyped-call]
        torch.stack([o, z]), graph, trust, drawn
    )
    return main, estimator


class _PairwiseLosses(Function):
    """Losses [2, R] of two networks' outputs [2, R, N, C], with the gradient in closed form."""

    @staticmethod
    def forward(
        ctx: Any, both: Tensor, graph: Graph, trust: Tensor, drawn: Tensor | None
    ) -> Tensor:
        ones = graph.edge_index.shape[1] + graph.num_nodes
        zeros = max(graph.num_nodes**2 - ones, 1)  # a complete graph has none
        if drawn is None:
            loss, gradient = _over_all_pairs(both, trust)
        else:
            loss, gradient = _over_drawn_zeros(both, graph, trust, drawn)
        # all pairs were counted as zeros: subtract what the ones among them cost as zeros
        edge_loss, edge_gradient = _over_ones(
            both, graph, trust, weight=zeros / ones, as_zeros=drawn is None
        )
        ctx.gradient = (gradient + edge_gradient) / (2 * zeros)  # norm / N² = 1 / (2 (N² − P))
        return (loss + edge_loss) / (2 * zeros)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0][..., None, None] * ctx.gradient, None, None, None


def _cost_of_zeros(logits: Tensor, trust: Tensor) -> tuple[Tensor, Tensor]:
    """Return M softplus(s) and its slope M σ(s), both [2, ...], for `logits` (s, t) [2, ...].

    M = 1 − trust · σ(t) for the first network, 1 for the second. A pair with Y = 1 costs what a
    zero of the opposite logits does, M softplus(−s) with M = 1 − trust · σ(−t).
    """
    cost, slope = softplus(logits), torch.sigmoid(logits)
    confidence = 1 - trust * slope[1]
    cost[0] *= confidence
    slope[0] *= confidence
    return cost, slope


@full_float32()
def _over_all_pairs(both: Tensor, trust: Tensor) -> tuple[Tensor, Tensor]:
    """Return Σ_ij M softplus(s_ij) [2, R] and its gradient, as if Y were zero everywhere."""
    _, runs, n, _ = both.shape
    loss, gradient = both.new_zeros(2, runs), torch.zeros_like(both)
    size = max(1, _NUMBERS_AT_ONCE[both.device.type] // (2 * runs * n))
    for start in range(0, n, size):
        # columns before `start` were rows of earlier blocks: s_ij = s_ji
        rows, cols = both[:, :, start : start + size], both[:, :, start:]
        cost, slope = _cost_of_zeros(rows @ cols.mT, trust[:, None, None])
        loss += 2 * cost.sum((2, 3)) - cost[..., :size].sum((2, 3))
        gradient[:, :, start : start + size] += slope @ cols
        gradient[:, :, start + size :] += slope[..., size:].mT @ rows
    return loss, 2 * gradient


def _over_drawn_zeros(
    both: Tensor, graph: Graph, trust: Tensor, drawn: Tensor
) -> tuple[Tensor, Tensor]:
    """Return N/m Σ M softplus(s_ij) over the pairs drawn [R, m, N] with Y_ij = 0, and its gradient.

    A pair is drawn m/N times on average, so N/m makes up for those that were not.
    """
    _, runs, n, channels = both.shape
    nodes = torch.arange(n, device=both.device)
    pattern = graph.pattern(self_loops=True)
    ones = pattern.rows * n + pattern.indices  # ascending
    loss, gradient = both.new_zeros(2, runs), torch.zeros_like(both)
    size = max(1, _NUMBERS_AT_ONCE[both.device.type] // both.numel())
    for others in drawn.split(size, 1):
        pair = nodes * n + others  # [R, c, N]
        place = torch.searchsorted(ones, pair).clamp_(max=ones.numel() - 1)
        weight = (ones[place] != pair) * (n / drawn.shape[1])
        index = others.flatten(1)[None, ..., None].expand(2, -1, -1, channels)
        far = both.gather(2, index).unflatten(2, others.shape[1:])  # [2, R, c, N, C]
        near = both[:, :, None]
        cost, slope = _cost_of_zeros((far * near).sum(-1), trust[:, None, None])
        loss += (weight * cost).sum((2, 3))
        pull = (weight * slope)[..., None]
        gradient += (pull * far).sum(2)
        gradient.scatter_add_(2, index, (pull * near).flatten(2, 3))
    return loss, gradient


def _over_ones(
    both: Tensor, graph: Graph, trust: Tensor, *, weight: float, as_zeros: bool
) -> tuple[Tensor, Tensor]:
    """Return Σ w M softplus(−s_ij) over Y_ij = 1 and its gradient, less their cost `as_zeros`."""
    _, runs, n, channels = both.shape
    pattern = graph.pattern(self_loops=True, copies=runs)
    flat = both.transpose(1, 2).reshape(2, n * runs, channels)
    logits = torch.stack([pattern.sample(h, h) for h in flat])  # [2, E·R]
    trust = trust[pattern.rows % runs]
    cost, slope = _cost_of_zeros(-logits, trust)
    cost, slope = weight * cost, -weight * slope
    if as_zeros:
        zero_cost, zero_slope = _cost_of_zeros(logits, trust)
        cost, slope = cost - zero_cost, slope - zero_slope
    loss = torch.stack([pattern.row_sum(part).view(n, runs).sum(0) for part in cost])
    # slopes are symmetric, like s
    pulls = [2 * pattern.matmul(part, h) for part, h in zip(slope, flat, strict=True)]
    return loss, torch.stack(pulls).view(2, n, runs, channels).transpose(1, 2)


@dataclass(kw_only=True, eq=False, repr=False)
class PIGNN(NetworkClassifier):
    """PI-GNN (Du et al., 2023): learn from labels and from which pairs of nodes are linked.

    Minimises −log p(given label) plus a loss over pairs, weighted by a second network.
    Pairs cost norm · mean_ij M_ij BCE(o_i·o_j, Y_ij), see :func:`pairwise_losses`. The estimator, a
    network of the same architecture that sees no label, learns the same with M = 1 from its own
    outputs z, and its predictions are M.

    Args:
        pairs: weight of the pairs beside the labels.
        warm_up: epochs in which every pair has weight M = 1.
        exact_up_to: nodes of the largest graph, or batch, of which all N² pairs are in the loss.
        negatives: pairs without a link for each node of a larger graph, drawn in every step and
            weighted so that the expected loss is the exact one.
        estimator_decay: Adam's weight decay of the estimator.

    The other parameters are those of :class:`erase.methods.network.NetworkClassifier`; both
    networks have them, and outputs as wide as there are classes. With `batch_size`, the pairs are
    those within a sample.

    Note:
        P in w and norm counts the ones of Y, the diagonal too. Both networks take their steps at
        the same time, so that M comes from the estimator before its step. Its weights are not
        decayed by default: z = 0 is a stationary point of its loss, and the decay of the main
        network pulls it there and keeps it (M = 1/2 for every pair, whatever the graph).
    """

    constraints: ClassVar[dict[str, Constraint]] = NetworkClassifier.constraints | {
        "pairs": Number(low=0),
        "warm_up": Number(low=0, whole=True),
        "exact_up_to": Number(low=0, whole=True),
        "negatives": COUNT,
        "estimator_decay": Number(low=0),
    }
    space: ClassVar[dict[str, Range | OneOf]] = NetworkClassifier.space | {
        "pairs": Range(0.01, 10.0, log=True),
        "warm_up": Range(0, 200, whole=True),
    }

    pairs: float = 1.0
    warm_up: int = 50
    exact_up_to: int = 5_000
    negatives: int = 100
    estimator_decay: float = 0.0

    representing: ClassVar[tuple[str, ...]] = ("main",)

    def _networks(self, size: NetworkSize) -> dict[str, Any]:
        return {
            name: self._build_encoder(purpose, size, size.num_classes, hidden="relu", output="none")
            for name, purpose in (("main", "weights"), ("estimator", "estimator weights"))
        }

    def _learner(self, tasks: Sequence[NodeTask], seeds: Sequence[int]) -> Learner:
        return _PIGNNLearner(self, tasks, seeds)

    def _outcome(self, network: Any, data: WholeGraph | ChunkedGraph) -> Outcome:
        """Return the softmax of the main network's logits, and its hidden layer."""
        return mean_outcome([network["main"]], data)


class _PIGNNLearner(BatchLearner):
    method: PIGNN
    all_nodes = True

    def __init__(self, method: PIGNN, tasks: Sequence[NodeTask], seeds: Sequence[int]) -> None:
        super().__init__(method, tasks, seeds)
        self.streams |= self.random_streams("pairs")
        self.main: Encoder = self.parts["main"]
        self.estimator: Encoder = self.parts["estimator"]
        self.epoch = torch.zeros(len(seeds), dtype=torch.int64, device=self.device)
        self.network.register_buffer("epoch", self.epoch)  # on the device, for recorded epochs
        self.optimiser = torch.optim.Adam(
            [
                {"params": self.main.parameters(), "weight_decay": method.weight_decay},
                {"params": self.estimator.parameters(), "weight_decay": method.estimator_decay},
            ],
            lr=method.lr,
            capturable=self.device.type == "cuda",
        )

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return the losses of both networks; the history's is the main network's."""
        o = self.data.encode(self.main, batch, self.dropout)
        z = self.data.encode(self.estimator, batch, self.dropout)
        trust = (self.epoch >= self.method.warm_up).to(o.dtype)
        graph = self.data.among(batch)
        pairs, estimated = pairwise_losses(o, z, graph, trust=trust, drawn=self._draw(graph))
        labels = mean_cross_entropy(o, batch.train, batch.given)
        return {
            "loss": labels + self.method.pairs * pairs,
            "pairs": pairs,
            "estimator": estimated,
        }

    def minimised(self, watched: dict[str, Tensor]) -> Tensor:
        return watched["loss"] + watched["estimator"]

    def end_epoch(self) -> None:
        self.epoch += 1

    def _draw(self, graph: Graph) -> Tensor | None:
        """Return the pairs of a step [R, m, N], each run's from its own stream; None: all."""
        n = graph.num_nodes
        if n <= self.method.exact_up_to:
            return None
        drawn = [
            torch.randint(
                n,
                (self.method.negatives, n),
                generator=self.streams[f"pairs {run}"],
                device=self.device,
            )
            for run in range(len(self.seeds))
        ]
        return torch.stack(drawn)

    @torch.no_grad()
    def evaluate(self) -> Outcome:
        return self.method._outcome(self.network, self.data)
