"""Co-Dis: two networks, each trained on small-loss labels of the other (Xia et al., 2023)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from erase.data.task import NodeTask
from erase.methods.base import COUNT, SHARE, Constraint, Number, OneOf, Range
from erase.methods.network import BatchLearner, NetworkClassifier, NetworkSize, mean_outcome
from erase.nn.encoders import Encoder
from erase.training.graphs import Batch, WholeGraph
from erase.training.large_graphs import ChunkedGraph
from erase.training.loop import Learner, Outcome, at_nodes


@dataclass(kw_only=True, eq=False, repr=False)
class CoDis(NetworkClassifier):
    """Co-Dis (Xia et al., 2023): two networks that select training labels for each other.

    Each network trains on the training nodes whose loss is smallest under the other.
    The loss of a node is CE − λ·JS, JS = ½ [KL(m‖p₁) + KL(m‖p₂)] with m = (p₁ + p₂)/2: of two
    nodes with equal cross-entropy the one that the networks disagree on is chosen. The e-th epoch,
    counted from 0, keeps the share 1 − τ·min(e/warm_up, 1) of the training nodes, those with a
    trusted label always. The mean of both networks' probabilities predicts; the representation is
    their hidden layers side by side.

    Args:
        noise_rate: τ, the share of wrong labels, which this method needs to know.
        disagreement: λ, weight of the networks' divergence.
        warm_up: epochs until the share 1 − τ is reached.

    The other parameters are those of :class:`erase.methods.network.NetworkClassifier`; the networks
    differ in initial weights and dropout.

    Note:
        The warm-up counts epochs as the original does, which takes hundreds of steps in each. Here
        an epoch is one step: after ten of them a loss depends more on the class than on whether
        the label is right, and whole classes may be left out. A longer `warm_up` avoids that.
    """

    constraints: ClassVar[dict[str, Constraint]] = NetworkClassifier.constraints | {
        "noise_rate": SHARE,
        "disagreement": Number(low=0),
        "warm_up": COUNT,
    }
    space: ClassVar[dict[str, Range | OneOf]] = NetworkClassifier.space | {
        "disagreement": Range(0.0, 1.0),
        "warm_up": Range(1, 400, whole=True),
    }

    noise_rate: float = 0.3
    disagreement: float = 0.15
    warm_up: int = 10

    representing: ClassVar[tuple[str, ...]] = ("own", "peer")

    def _networks(self, size: NetworkSize) -> dict[str, Any]:
        return {
            name: self._build_encoder(purpose, size, size.num_classes, hidden="relu", output="none")
            for name, purpose in (("own", "weights"), ("peer", "peer weights"))
        }

    def _learner(self, tasks: Sequence[NodeTask], seeds: Sequence[int]) -> Learner:
        return _CoDisLearner(self, tasks, seeds)

    def _outcome(self, network: Any, data: WholeGraph | ChunkedGraph) -> Outcome:
        """Return the mean of both networks' probabilities, and their hidden layers."""
        return mean_outcome([network["own"], network["peer"]], data)


def disagreeing_losses(log_p: Tensor, peer_log_p: Tensor, classes: Tensor, weight: float) -> Tensor:
    """Return CE − λ·JS [R, n] of a network's log-probabilities, its peer's held fixed.

    Args:
        log_p: [R, n, K].
        peer_log_p: [R, n, K].
        classes: [R, n] given labels.
        weight: λ.
    """
    peer_log_p = peer_log_p.detach()
    log_mean = torch.logaddexp(log_p, peer_log_p) - math.log(2)
    # KL(m‖p₁) + KL(m‖p₂) = Σ_k m (2 log m − log p₁ − log p₂)
    divergence = 0.5 * (log_mean.exp() * (2 * log_mean - log_p - peer_log_p)).sum(2)
    return -log_p.gather(2, classes[..., None])[..., 0] - weight * divergence


def mean_of_smallest(
    losses: Tensor, peer_losses: Tensor, count: Tensor, always: Tensor | None = None
) -> Tensor:
    """Return the mean [R] of `losses` [R, n] over the `count` [R] nodes with smallest peer loss.

    Nodes of `always` [R, n] bool are among them in any case.
    """
    peer_losses = peer_losses.detach()
    if always is not None:
        peer_losses = peer_losses.masked_fill(always, -torch.inf)
        count = torch.maximum(count, always.sum(1))
    rank = peer_losses.argsort(dim=1, stable=True).argsort(dim=1)
    chosen = rank < count[:, None]
    return (losses * chosen).sum(1) / count


class _CoDisLearner(BatchLearner):
    method: CoDis

    def __init__(self, method: CoDis, tasks: Sequence[NodeTask], seeds: Sequence[int]) -> None:
        super().__init__(method, tasks, seeds)
        self.encoders: list[Encoder] = [self.parts["own"], self.parts["peer"]]
        peer_dropout = self.random_streams("peer dropout")
        self.dropouts = [self.dropout, list(peer_dropout.values())]
        self.streams |= peer_dropout
        # a buffer, so that checkpoints and recorded epochs contain the progress of the warm-up
        self.epoch = torch.zeros(len(seeds), dtype=torch.int64, device=self.device)
        self.network.register_buffer("epoch", self.epoch)
        self.train_by_adam()
        shares = [1 - method.noise_rate * e / method.warm_up for e in range(method.warm_up + 1)]
        self.shares = torch.tensor(shares, dtype=torch.float64, device=self.device)

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        n = batch.train.shape[1]
        share = self.shares[self.epoch.clamp(max=self.method.warm_up)]  # [R]
        kept = (n * share).round().clamp(min=1).long()
        own, peer = (
            at_nodes(self.data.encode(encoder, batch, dropout), batch.train)
            for encoder, dropout in zip(self.encoders, self.dropouts, strict=True)
        )
        own, peer = own.log_softmax(2), peer.log_softmax(2)
        of_own = disagreeing_losses(own, peer, batch.given, self.method.disagreement)
        of_peer = disagreeing_losses(peer, own, batch.given, self.method.disagreement)
        always = self.trusted_in(batch)
        losses = mean_of_smallest(of_own, of_peer, kept, always)
        losses = losses + mean_of_smallest(of_peer, of_own, kept, always)
        return {"loss": losses, "kept": kept / n}

    def end_epoch(self) -> None:
        self.epoch.add_(1)

    @torch.no_grad()
    def evaluate(self) -> Outcome:
        return self.method._outcome(self.network, self.data)
