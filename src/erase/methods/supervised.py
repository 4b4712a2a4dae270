"""Methods that are a loss: a network's logits against the given labels of the training nodes."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from erase.data.task import NodeTask
from erase.methods.network import Batch, NetworkClassifier, NetworkLearner
from erase.training.loop import Learner, Outcome


@dataclass(kw_only=True, eq=False, repr=False)
class SupervisedClassifier(NetworkClassifier):
    """A network as wide at its output as there are classes; a method writes its loss.

    The representation is the hidden layer, and the labels a method believes in are its predictions.
    """

    @abstractmethod
    def _losses(self, logits: Tensor, nodes: Tensor, classes: Tensor) -> Tensor:
        """Return what each run [R] minimises.

        Args:
            logits: [R, M, K] of the nodes of a step, in training mode.
            nodes: [R, n] the training nodes among them.
            classes: [R, n] their given labels.
        """

    def _learner(self, tasks: Sequence[NodeTask], seeds: Sequence[int]) -> Learner:
        return SupervisedLearner(self, tasks, seeds)


class SupervisedLearner(NetworkLearner):
    """Epochs that take one step down a method's loss."""

    method: SupervisedClassifier

    def __init__(
        self, method: SupervisedClassifier, tasks: Sequence[NodeTask], seeds: Sequence[int]
    ) -> None:
        super().__init__(method, tasks, seeds)
        self.encoder = self.build_encoder("weights", self.num_classes, hidden="relu", output="none")
        self.train_by_adam(self.encoder)

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return the method's loss."""
        logits = self.encode(self.encoder, batch, self.dropout)
        return {"loss": self.method._losses(logits, batch.train, batch.given)}

    @torch.no_grad()
    def evaluate(self) -> Outcome:
        """Return the softmax of the logits, and the hidden layer."""
        hidden = self.hidden_of_all(self.encoder)
        proba = self.output_of_all(self.encoder, hidden).softmax(2)
        return Outcome(proba, hidden, proba.argmax(2))
