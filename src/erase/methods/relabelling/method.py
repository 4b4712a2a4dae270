"""Relabelling by evidence: every given label used, none believed, no clean one needed."""

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
from erase.methods.relabelling.ensemble import Mixture, relabel, views_for
from erase.methods.relabelling.smoothing import VIEWS
from erase.training.loop import Fit, Loop

Floats = NDArray[np.float64]
Nodes = NDArray[np.int64]


@dataclass(kw_only=True, eq=False, repr=False)
class Relabelling(NodeClassifier):
    """Relabelling, this package's own method: train on what given labels probably mean.

    1. Views: features alone, smoothed over near neighbours, and far over edges and likeness
       (:func:`erase.methods.relabelling.smoothing.views_of`).
    2. In the first round class means and two logistic regressions learn the labels as given. By
       folds they say what they think of labels they have not seen; from that a transition matrix T
       follows by expectation–maximisation, and from T what each label probably means:
       P(k | g) ∝ P_k T[k, g] (:mod:`erase.methods.relabelling.noise_model`). The next round
       learns these posteriors.
    3. All of this is done once for every fold of the labels without that fold. How well each
       classifier of each round then predicts the fold's labels, through a T of its own, decides
       what it counts in the final mixture; one whose T has a class mostly mislabelled counts only
       if labels are predicted better with it.

    Validation labels train as well: selection is by folds. There are no epochs, so the history is
    empty and a checkpoint is never written.

    Args:
        width: of the reduced features, where there are more.
        view: "all", or the only one to look at: "features" (no edge counts), "near" or "far".
        rounds: how often labels are reconsidered.
        folds: how many parts of the labels take turns as evidence.
        validation: train on validation labels too; False: on training labels alone.
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

    def cross_fit(self, task: NodeTask, fold: Nodes, *, progress: bool = False) -> CrossFit:
        """Return what the classifiers that miss one fold of labels each say; one fit does it all.

        Args:
            task: the graph and its labels.
            fold: [N] of each labelled node, -1 elsewhere.
            progress: show views and rounds.
        """
        self.check_params()
        views = views_for(task, self.view, self.width, resolve_device(self.device))
        own = fold[task.y.numpy() >= 0]
        mixture = Mixture(task, views, own, rounds=self.rounds, seed=self.seed, progress=progress)
        return CrossFit(mixture.by_fold(), mixture.taught(), mixture.embedding())

    @property
    def transition_(self) -> Floats:
        """P(given class | true class) [K, K], ``[true, given]``."""
        return self._fitted().weights["transition"].numpy()

    @property
    def quality_(self) -> Floats:
        """Probability that the given label is right [N].

        NaN where no label is given, and where its class has no other label to compare with.
        """
        quality: Floats = self._fitted().weights["quality"].numpy()
        return np.where(quality < 0, np.nan, quality)

    @property
    def evidence_(self) -> dict[tuple[str, int, str], float]:
        """What each classifier counts in the mixture, by view, round and kind."""
        prefix = "evidence/"
        found = {}
        for name, value in self._fitted().weights.items():
            if name.startswith(prefix):
                view, number, kind = name.removeprefix(prefix).split("/")
                found[view, int(number), kind] = float(value)
        return found
