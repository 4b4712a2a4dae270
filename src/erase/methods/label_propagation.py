"""Label propagation with restarts (Zhou et al., NeurIPS 2003): from edges alone, no features."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from erase.data.task import NodeTask
from erase.errors import EraseError
from erase.methods.base import (
    SHARE,
    Constraint,
    NodeClassifier,
    Number,
    OneOf,
    Range,
    resolve_device,
)
from erase.nn.sparse import propagate
from erase.training.graphs import whole_graph
from erase.training.loop import Fit, Loop, Outcome


@dataclass(kw_only=True, eq=False, repr=False)
class LabelPropagation(NodeClassifier):
    """Label propagation (Zhou et al., NeurIPS 2003): labels spread over edges, no features.

    Each step is Y ← (1−α) S Y + α Y₀ with S = D^-1/2 A D^-1/2; A has edge weights as entries, if
    there are any.
    Y₀ has a 1 at the given label of every training node; the limit of many steps is
    α (I − (1−α) S)⁻¹ Y₀. Y is the representation, and its rows, divided by their sums, are the
    probabilities; where no label arrives, these are the classes' shares among the training labels.
    Features and validation labels are not used.

    There are no weights, no epochs and nothing random: the history is empty, a checkpoint is never
    written, and every seed gives the same answer. For another graph, `predict` spreads the training
    labels of that graph.

    Args:
        keep: α, weight of a node's own label, the given one, in a step; Zhou et al. call this 1−α.
        steps: how often labels move along an edge.
        seed: not used.
        device: "auto", "cpu" or "cuda".
    """

    constraints: ClassVar[dict[str, Constraint]] = NodeClassifier.constraints | {
        "keep": SHARE,
        "steps": Number(low=0, whole=True),
    }
    space: ClassVar[dict[str, Range | OneOf]] = {
        "keep": Range(0.01, 0.9, log=True),
        "steps": Range(1, 100, whole=True),
    }

    uses_edge_weights: ClassVar[bool] = True
    shares_rows: ClassVar[bool] = True

    keep: float = 0.1
    steps: int = 50

    reads_features: ClassVar[bool] = False
    reads_labels: ClassVar[bool] = True

    def _train(self, tasks: Sequence[NodeTask], seeds: Sequence[int], loop: Loop) -> list[Fit]:
        given = torch.stack([_training_labels(task) for task in tasks], 1)  # [N, R, K]
        return [
            Fit(outcome, best_epoch=0, history=[], weights={})
            for outcome in self._spread(tasks[0], given)
        ]

    def _apply(self, task: NodeTask) -> Outcome:
        """Spread the training labels of another graph: there is nothing else to apply."""
        if not bool(task.train_mask.any()):
            raise EraseError(
                "training labels of at least two classes in the graph, which label propagation "
                "spreads: it has no weights",
                "none",
                "Label some of its nodes, or use another method.",
            )
        place = {value: k for k, value in enumerate(self.classes_.tolist())}
        if unknown := [value for value in task.label_values.tolist() if value not in place]:
            raise EraseError(
                f"labels among the classes of the fit, {', '.join(map(str, place))}",
                repr(unknown[0]),
                "Correct the labels, or fit this graph.",
            )
        column = torch.tensor([place[value] for value in task.label_values.tolist()])
        given = torch.zeros(task.num_nodes, len(place))
        given[:, column] = _training_labels(task)
        (outcome,) = self._spread(task, given[:, None])
        return outcome

    def _check_weights(self) -> None:
        if self._fitted().weights:
            raise ValueError("weights, which label propagation does not have")

    def _spread(self, task: NodeTask, given: Tensor) -> list[Outcome]:
        """Return the outcome of each run from the labels Y₀ [N, R, K] of each."""
        device = resolve_device(self.device)
        operator = whole_graph(task, device).normalised("symmetric")
        given = given.to(device)
        first = given.flatten(1)  # all runs are columns of one matrix
        scores = propagate(
            *operator, first, keep=self.keep, steps=self.steps, restart=True, bounded=False
        ).view_as(given)
        total = scores.sum(2, keepdim=True)
        prior = given.sum(0) / given.sum((0, 2))[:, None]  # [R, K]
        reached = total > torch.finfo(scores.dtype).tiny
        proba = torch.where(reached, scores / total.where(reached, 1.0), prior)
        return [
            Outcome(p, z, p.argmax(1))
            for p, z in zip(proba.cpu().unbind(1), scores.cpu().unbind(1), strict=True)
        ]


def _training_labels(task: NodeTask) -> Tensor:
    """Return Y₀ [N, K]."""
    labels = one_hot(task.y.clamp(min=0), task.num_classes)
    return (labels * task.train_mask[:, None]).float()
