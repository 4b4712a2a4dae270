"""Logistic regression on smoothed features: no network, and no given label left out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from erase.data.task import NodeTask
from erase.methods.base import (
    COUNT,
    POSITIVE,
    SHARE,
    SWITCH,
    Constraint,
    NodeClassifier,
    Number,
    OneOf,
    Range,
    resolve_device,
)
from erase.methods.relabelling.smoothing import smoothed_view
from erase.nn.heads import logistic_regression
from erase.nn.precision import full_float32
from erase.training.loop import Fit, Loop, Outcome


@dataclass(kw_only=True, eq=False, repr=False)
class SmoothedLogReg(NodeClassifier):
    """Logistic regression on features smoothed over the graph: a fast baseline of this package.

    The features are weighed, reduced and smoothed as in
    :func:`erase.methods.relabelling.smoothing.smoothed_view`, by personalised PageRank over
    S = D^-1/2 (A + I + w G) D^-1/2, where G joins nodes of like features; the regression minimises
    C Σ CE + ½‖W‖². The smoothed features are the representation. Validation labels choose nothing
    here, so they train as well.

    There are no epochs and nothing random: the history is empty, a checkpoint is never written,
    and every seed gives the same answer.

    Args:
        width: of the reduced features, where there are more.
        restart: α, weight of a node's own features in a smoothing step.
        steps: how often features move along an edge.
        neighbours: how many nodes of like features each node is joined with; 0: none.
        neighbour_weight: w, what such an edge counts at a cosine of 1; an edge of the graph is 1.
        strength: C, weight of the labels against the penalty on W.
        validation: train on validation labels too; False: on training labels alone.
        seed: not used.
        device: "auto", "cpu" or "cuda".
    """

    constraints: ClassVar[dict[str, Constraint]] = NodeClassifier.constraints | {
        "width": COUNT,
        "restart": SHARE,
        "steps": Number(low=0, whole=True),
        "neighbours": Number(low=0, whole=True),
        "neighbour_weight": Number(low=0),
        "strength": POSITIVE,
        "validation": SWITCH,
    }
    space: ClassVar[dict[str, Range | OneOf]] = {
        "restart": Range(0.01, 0.9, log=True),
        "steps": Range(1, 50, whole=True),
        "neighbours": Range(0, 30, whole=True),
        "neighbour_weight": Range(0.05, 2.0, log=True),
        "strength": Range(0.05, 10.0, log=True),
    }

    width: int = 256
    restart: float = 0.1
    steps: int = 20
    neighbours: int = 10
    neighbour_weight: float = 0.25
    strength: float = 1.0
    validation: bool = True

    @property
    def trains_on_validation(self) -> bool:
        """Whether validation labels train as well."""
        return self.validation

    def _train(self, tasks: Sequence[NodeTask], seeds: Sequence[int], loop: Loop) -> list[Fit]:
        device = resolve_device(self.device)
        view = smoothed_view(
            tasks[0].x.to(device),
            tasks[0].edge_index.to(device),
            width=self.width,
            restart=self.restart,
            steps=self.steps,
            neighbours=self.neighbours,
            neighbour_weight=self.neighbour_weight,
        )
        embedding = view.cpu()  # one for all runs
        return [self._fit_labels(task, view, embedding) for task in tasks]

    @full_float32()
    def _fit_labels(self, task: NodeTask, view: Tensor, embedding: Tensor) -> Fit:
        """Return the regression on the labels of one run."""
        used = task.train_mask | task.val_mask if self.validation else task.train_mask
        nodes = used.nonzero().squeeze(1)
        scale = self.strength**0.5  # of the rows, in place of C before the sum
        weight, intercept = logistic_regression(
            scale * view[nodes.to(view.device)][None],
            task.y[nodes].to(view.device)[None],
            task.num_classes,
        )
        weights = {"weight": scale * weight[0], "intercept": intercept[0, 0]}
        proba = (view @ weights["weight"] + weights["intercept"]).softmax(1).cpu()
        return Fit(
            Outcome(proba, embedding, proba.argmax(1)),
            best_epoch=0,
            history=[],
            weights={name: value.cpu() for name, value in weights.items()},
        )
