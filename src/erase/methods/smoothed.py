"""Logistic regression on smoothed features: no network, and no given label left out."""

from collections.abc import Mapping, Sequence
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
from erase.methods.relabelling.smoothing import Smoother, Smoothing, whole_rows
from erase.nn.heads import logistic_regression
from erase.nn.precision import full_float32
from erase.training.chunks import NODES_AT_ONCE
from erase.training.graphs import whole_graph
from erase.training.loop import Fit, Loop, Outcome

_NAME = "smoothed"  # of its only smoothed features


@dataclass(kw_only=True, eq=False, repr=False)
class SmoothedLogReg(NodeClassifier):
    """Logistic regression on features smoothed over the graph: a fast baseline of this package.

    The features are weighed, reduced and smoothed as in
    :mod:`erase.methods.relabelling.smoothing`, by personalised PageRank over
    S = D^-1/2 (A + I + w G) D^-1/2, where A has edge weights as entries, if there are any, and G
    joins nodes of like features; the regression minimises
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

    uses_edge_weights: ClassVar[bool] = True
    shares_rows: ClassVar[bool] = True

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
        x, graph = tasks[0].x.to(device), whole_graph(tasks[0], device)
        smoother, features = Smoother.fit(x, graph, self.width, self._smoothings)
        whole = whole_rows(features[_NAME], tasks[0].num_nodes)
        embedding = whole.cpu()  # one for all runs
        return [self._fit_labels(task, whole, embedding, smoother) for task in tasks]

    @property
    def _smoothings(self) -> dict[str, Smoothing]:
        how = Smoothing(self.restart, self.steps, self.neighbours, self.neighbour_weight)
        return {_NAME: how}

    @full_float32()
    def _fit_labels(
        self, task: NodeTask, features: Tensor, embedding: Tensor, smoother: Smoother
    ) -> Fit:
        """Return the regression on the labels of one run."""
        used = task.train_mask | task.val_mask if self.validation else task.train_mask
        nodes = used.nonzero().squeeze(1)
        scale = self.strength**0.5  # of the rows, in place of C before the sum
        weight, intercept = logistic_regression(
            scale * features[nodes.to(features.device)][None],
            task.y[nodes].to(features.device)[None],
            task.num_classes,
        )
        weights = {"weight": scale * weight[0], "intercept": intercept[0, 0]}
        outcome = _predict(features, embedding, weights)
        kept = {name: value.cpu() for name, value in weights.items()}
        return Fit(outcome, best_epoch=0, history=[], weights=kept | smoother.tensors())

    def _apply(self, task: NodeTask) -> Outcome:
        """Return probabilities and representations of a graph without training; labels unread."""
        weights, device = self._fitted().weights, resolve_device(self.device)
        smoother = Smoother.of(weights, self._smoothings, device)
        ((_, features),) = smoother.apply(task.x, whole_graph(task, device), last=_NAME)
        for rows in features.split(NODES_AT_ONCE):
            rows.copy_(smoother.centre(_NAME, rows))
        return _predict(features, features.cpu(), weights)


@full_float32()
def _predict(features: Tensor, embedding: Tensor, weights: Mapping[str, Tensor]) -> Outcome:
    """Return the answer of the regression; the smoothed features are the representation."""
    weight, intercept = (weights[name].to(features.device) for name in ("weight", "intercept"))
    proba = (features @ weight + intercept).softmax(1).cpu()
    return Outcome(proba, embedding, proba.argmax(1))
