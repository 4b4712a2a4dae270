"""Relabelling: train on labels of which some are wrong, and correct these."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from erase.data.task import NodeTask
from erase.methods.base import (
    COUNT,
    SWITCH,
    Constraint,
    CrossFit,
    NodeClassifier,
    Number,
    OneOf,
    Range,
    resolve_device,
)
from erase.methods.relabelling.ensemble import (
    apply_mixture,
    fit_mixture,
    relabel,
    smoothed_features,
    smoothings_of,
)
from erase.methods.relabelling.smoothing import VIEWS, Smoother
from erase.training.graphs import whole_graph
from erase.training.loop import Fit, Loop, Outcome

Floats = NDArray[np.float64]
Nodes = NDArray[np.int64]


@dataclass(kw_only=True, eq=False, repr=False)
class Relabelling(NodeClassifier):
    """Relabelling, this package's own method: find wrong labels, and train on corrected ones.

    1. Smooth the features over the graph in three ways: not at all, a little, and far
       (:mod:`erase.methods.relabelling.smoothing`); edge weights are used. On each, fit simple
       classifiers (class means, two logistic regressions, and one of these without the frequencies
       of the labels) to the given labels.
    2. Predict every label by classifiers that were fitted without it. Compared with the given
       labels, these predictions show how often class k is labelled g: the transition matrix T
       (:mod:`erase.methods.relabelling.noise_model`).
    3. By Bayes' rule, P(k | g) ∝ P_k T[k, g] is the probability of true class k given label g. Fit
       the classifiers again to these posteriors; each repetition is a round.
    4. Mix the classifiers of all smoothings and rounds. Those that predict held-out labels best,
       each with its own T, have the largest weights.

    `predict` returns what the mixture predicts for every node. `labels_` are the given labels,
    corrected. Validation labels are training labels too, since labels are held out by folds. There
    are no epochs: the history is empty and a checkpoint is never written.

    Args:
        width: of the reduced features, where there are more.
        view: which smoothed features to use: "all", or only "features" (not smoothed, no edge
            counts), "near" or "far".
        rounds: how often labels are corrected and the classifiers fitted again.
        folds: how many parts of the labels are held out in turn.
        validation: train on validation labels too; False: on training labels only.
        seed: of the folds.
        device: "auto", "cpu" or "cuda".

    Besides what every method learns, `transition_`, `quality_` and `evidence_` are properties.
    """

    constraints: ClassVar[dict[str, Constraint]] = NodeClassifier.constraints | {
        "width": COUNT,
        "view": OneOf(("all", *VIEWS)),
        "rounds": Number(low=0, whole=True),
        "folds": Number(low=2, whole=True),
        "validation": SWITCH,
    }
    space: ClassVar[dict[str, Range | OneOf]] = {
        "width": Range(64, 512, log=True, whole=True),
        "rounds": Range(0, 3, whole=True),
    }

    uses_edge_weights: ClassVar[bool] = True
    shares_rows: ClassVar[bool] = True
    corrects_noise: ClassVar[bool] = True

    width: int = 256
    view: str = "all"
    rounds: int = 2
    folds: int = 5
    validation: bool = True

    @property
    def trains_on_validation(self) -> bool:
        """Whether validation labels train as well."""
        return self.validation

    def _train(self, tasks: Sequence[NodeTask], seeds: Sequence[int], loop: Loop) -> list[Fit]:
        return relabel(
            tasks,
            seeds,
            resolve_device(self.device),
            width=self.width,
            view=self.view,
            rounds=self.rounds,
            folds=self.folds,
            validation=self.validation,
            progress=loop.progress,
        )

    def _to_learn(self, task: NodeTask) -> NodeTask:
        """Return the task as it is: trusted labels are compared with the given ones."""
        return task

    def cross_fit(self, task: NodeTask, fold: Nodes, *, progress: bool = False) -> CrossFit:
        """Return the predictions of classifiers that miss one fold of labels each, from one fit.

        Args:
            task: the graph and its labels.
            fold: [N] of each labelled node, -1 elsewhere.
            progress: show smoothings and rounds.
        """
        self.check_params()
        device = resolve_device(self.device)
        _, features = smoothed_features(task, self.view, self.width, device)
        own = fold[task.y.numpy() >= 0]
        mixture = fit_mixture(
            task, features, own, rounds=self.rounds, seed=self.seed, progress=progress
        )
        proba, views, main = mixture.out_of_fold(), mixture.by_view(), mixture.main_smoothing()
        rows = {
            name: mixture.smoothed_rows(name, only_first=True).numpy()
            for name in features
            if name in (main, "far")
        }
        return CrossFit(
            proba, mixture.labels.known, rows[main], mixture.by_fold, views, rows.get("far")
        )

    def _apply(self, task: NodeTask) -> Outcome:
        """Return probabilities and representations of a graph without training; labels unread."""
        weights, device = self._fitted().weights, resolve_device(self.device)
        smoother = Smoother.of(weights, smoothings_of(self.view), device)
        proba, features = apply_mixture(weights, smoother, task.x, whole_graph(task, device))
        return Outcome(proba, features.cpu(), proba.argmax(1))

    @property
    def transition_(self) -> Floats:
        """P(given class | true class) [K, K], ``[true, given]``."""
        return self._fitted().weights["transition"].numpy()

    @property
    def quality_(self) -> Floats:
        """Probability that the given label is right [N]; 0 or 1 beside a trusted label.

        NaN where no label is given, and where its class has no other label to compare with.
        """
        quality: Floats = self._fitted().weights["quality"].numpy()
        return np.where(quality < 0, np.nan, quality)

    @property
    def evidence_(self) -> dict[tuple[str, int, str], float]:
        """Weight of each classifier in the mixture, by smoothing, round and kind.

        Kinds are "means" (of classes), "C=1" and "C=3" (logistic regressions), and "balanced": the
        latter without the frequencies of the labels, where that is clearly better.
        """
        prefix = "evidence/"
        found = {}
        for name, value in self._fitted().weights.items():
            if name.startswith(prefix):
                view, number, kind = name.removeprefix(prefix).split("/")
                found[view, int(number), kind] = float(value)
        return found
