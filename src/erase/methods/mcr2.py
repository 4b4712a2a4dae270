"""MCR²: maximal coding rate reduction on the training nodes (Yu et al., 2020)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from erase.data.task import NodeTask
from erase.methods.base import COUNT, POSITIVE, Constraint, OneOf, Range
from erase.methods.network import BatchLearner, NetworkClassifier, NetworkSize
from erase.nn.coding import rate_reduction, short_rows_are_tame
from erase.nn.encoders import Activation, Encoder
from erase.nn.heads import LinearHead
from erase.training.chunks import by_rows
from erase.training.graphs import Batch, WholeGraph
from erase.training.large_graphs import ChunkedGraph
from erase.training.loop import Learner, Outcome, at_nodes


@dataclass(kw_only=True, eq=False, repr=False)
class MCR2(NetworkClassifier):
    """MCR² (Yu et al., 2020): coding rate reduction on the given labels, the basis of ERASE.

    Maximises γ R(Z) − R^C(Z | given labels) over the training nodes (eq. 4).

    Logistic regression on the representations and given labels of the training nodes predicts.

    Args:
        eps2: ε², the squared precision of the coding rate.
        gamma: γ, weight of the rate of all training nodes against that of the classes.
        width: D, width of the representations.
        output: their activation: "l2", "l2-relu" or "l1-relu", see
            :func:`erase.nn.encoders.activate`.

    The other parameters are those of :class:`erase.methods.network.NetworkClassifier`.

    Note:
        The output is that of ERASE's encoder, which comes nearer to the published row than the
        original's rows on the unit sphere (``output="l2"``), where ε² = 0.5, its value, means
        another tolerance: docs/results.md has both under "What was tried".
    """

    constraints: ClassVar[dict[str, Constraint]] = NetworkClassifier.constraints | {
        "eps2": POSITIVE,
        "gamma": POSITIVE,
        "width": COUNT,
        "output": OneOf(("l2", "l2-relu", "l1-relu")),  # rows no longer than 1
    }
    space: ClassVar[dict[str, Range | OneOf]] = NetworkClassifier.space | {
        "eps2": Range(0.01, 1.0, log=True),
        "gamma": Range(1.0, 4.0),
    }

    eps2: float = 0.5
    gamma: float = 1.0
    width: int = 512
    output: Activation = "l1-relu"

    represents_hidden: ClassVar[bool] = False

    def _networks(self, size: NetworkSize) -> dict[str, Any]:
        encoder = self._build_encoder(
            "weights", size, self.width, hidden="relu", output=self.output
        )
        return {
            "encoder": encoder,
            "head": LinearHead(len(size.seeds), self.width, size.num_classes),
        }

    def _learner(self, tasks: Sequence[NodeTask], seeds: Sequence[int]) -> Learner:
        return _MCR2Learner(self, tasks, seeds)

    def _outcome(self, network: Any, data: WholeGraph | ChunkedGraph) -> Outcome:
        z = data.z(network["encoder"])
        proba = by_rows(network["head"], z)
        return Outcome(proba, z, proba.argmax(2))


class _MCR2Learner(BatchLearner):
    method: MCR2

    def __init__(self, method: MCR2, tasks: Sequence[NodeTask], seeds: Sequence[int]) -> None:
        super().__init__(method, tasks, seeds)
        self.encoder: Encoder = self.parts["encoder"]
        self.head: LinearHead = self.parts["head"]
        self.train_by_adam()
        self.waits |= not short_rows_are_tame(method.width, method.eps2)

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        z = self.data.encode(self.encoder, batch, self.dropout)
        reduction, rate, class_rate = rate_reduction(
            at_nodes(z, batch.train),
            batch.given,
            self.num_classes,
            eps2=self.method.eps2,
            gamma=self.method.gamma,
            short_rows=True,
        )
        return {"loss": -reduction, "rate": rate, "class_rate": class_rate}

    @torch.no_grad()
    def evaluate(self) -> Outcome:
        z = self.data.output(self.encoder, self.data.hidden(self.encoder))
        self.head.fit(z, self.train_index, self.given)
        proba = self.head(z)
        return Outcome(proba, z, proba.argmax(2))
