"""A mixture of classifiers on views of a graph, taught in rounds and weighed by evidence.

This is the work of :class:`erase.Relabelling`, which says what it is for, and of the recipe
"relabelled" of :class:`erase.ERASE`.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize, one_hot

from erase.data.task import NodeTask
from erase.methods.relabelling.noise_model import Calibration, calibrate, deal, softmax
from erase.methods.relabelling.smoothing import VIEWS, views_of
from erase.nn.heads import Regressions
from erase.nn.precision import full_float32
from erase.random import numpy_stream
from erase.training.loop import Fit, Outcome

Floats = NDArray[np.float64]
Nodes = NDArray[np.int64]

_STRENGTHS = (1.0, 3.0)  # C of the two regressions
_ABSENT = 1e-3  # a class with less than that of all targets has no example
_SHARPNESS = 20.0  # of the softmax over cosines with class means
# Between rounds a small grid is enough, since only the posterior is used.
_POWERS, _PRIOR_COUNTS = (0.5, 1.0, 2.0, 4.0, 8.0), (5.0,)
_INNER_FOLDS, _INNER_FOLDS_OF_MANY = 5, 2
_MANY, _FEW = 5_000, 10  # labels
_CALIBRATION_FOLDS = 3
_STACKING_STEPS = 16


def views_for(task: NodeTask, view: str, width: int, device: torch.device) -> dict[str, Tensor]:
    """Return the views of a task's graph: the one that is named, or "all"."""
    names = VIEWS if view == "all" else (view,)
    x, edge_index = task.x.to(device), task.edge_index.to(device)
    return views_of(x, edge_index, width=width, names=names)


def relabel(
    tasks: Sequence[NodeTask],
    seeds: Sequence[int],
    device: torch.device,
    *,
    width: int = 256,
    view: str = "all",
    rounds: int = 2,
    folds: int = 5,
    validation: bool = True,
    progress: bool = False,
) -> list[Fit]:
    """Return the fit of each run; all are on one graph, and share its views.

    Args:
        tasks: [R].
        seeds: [R].
        device: where to compute.
        width, view, rounds, folds, validation: as :class:`erase.Relabelling` has them.
        progress: show views and rounds.
    """
    views = views_for(tasks[0], view, width, device)
    fits = []
    for task, seed in zip(tasks, seeds, strict=True):
        task = task if validation else task.without_validation()
        given = task.y[task.y >= 0].numpy()
        fold = deal(given, folds, numpy_stream(seed, "relabelling folds"))
        fits.append(Mixture(task, views, fold, rounds=rounds, seed=seed, progress=progress).fit())
    return fits


@dataclass(frozen=True, eq=False)
class _Candidate:
    """One kind of classifier in one round on one view, trained for every fold and for all labels.

    Attributes:
        name: view, round and kind.
        view: [N, D] what it looks at.
        weights: [F+1, D, K] one classifier for every fold that it misses, the last misses none.
        intercepts: [F+1, 1, K].
    """

    name: tuple[str, int, str]
    view: Tensor
    weights: Tensor
    intercepts: Tensor

    @property
    def solution(self) -> tuple[Tensor, Tensor]:
        """Weights and intercepts."""
        return self.weights, self.intercepts

    @full_float32()
    def proba(self, model: int) -> Floats:
        """Return the probabilities of all nodes [N, K] by one of the F+1 classifiers."""
        logits = self.view @ self.weights[model] + self.intercepts[model]
        return logits.softmax(1).cpu().numpy().astype(np.float64)


class Mixture:
    """The candidates of one task, calibrated and weighed by labels they have not seen.

    Args:
        task: the graph and its labels.
        views: of the graph, by name.
        fold: [n] of each given label.
        rounds: how often labels are reconsidered.
        seed: of other folds.
        progress: show views and rounds.
    """

    def __init__(
        self,
        task: NodeTask,
        views: dict[str, Tensor],
        fold: Nodes,
        *,
        rounds: int,
        seed: int,
        progress: bool,
    ) -> None:
        self._task, self._fold = task, fold
        self._labelled = (task.y >= 0).nonzero().squeeze(1)
        self._given = task.y[self._labelled].numpy()
        self._progress = progress
        enough = len(self._given) >= _FEW
        rounds = rounds if enough else 0
        inner = _INNER_FOLDS if len(self._given) <= _MANY else _INNER_FOLDS_OF_MANY
        self._inner = deal(self._given, inner, numpy_stream(seed, "relabelling rounds"))
        stream = numpy_stream(seed, "relabelling calibration")
        order = stream.permutation(len(self._given))
        # the only label of a class: whoever misses it does not know the class, and cannot judge it
        self._alone = ~self.taught()[self._fold, self._given]
        order = order[~self._alone[order]] if not self._alone.all() else order
        self._some = np.sort(order[:_MANY])
        self._calibration_folds = deal(self._given[self._some], _CALIBRATION_FOLDS, stream)
        self._candidates: list[_Candidate] = []
        for name, view in views.items():
            self._candidates += self._train_view(name, view, rounds)
        self._held_out = [self._out_of_fold(candidate) for candidate in self._candidates]
        self._calibrations = [
            self._calibrate(proba, prior_counts=_PRIOR_COUNTS, folds=self._calibration_folds)
            for proba in self._held_out
        ]
        self._shares = _shares(self._calibrations)

    def fit(self) -> Fit:
        """Return the mixture as a fit."""
        mixed = self._mix(candidate.proba(-1) for candidate in self._candidates)
        held_out = self._mix(self._held_out)
        calibration = self._calibrate(held_out, folds=self._calibration_folds)
        # The mean of many is less sure than any of them; made as sure as the labels allow, it takes
        # doubt for noise. The truth is in between.
        proba = (mixed + calibration.calibrated(mixed)) / 2
        posterior = calibration.posterior(self._given, held_out)
        transition = calibration.transition
        if self._alone.all():  # then nothing was learnt about them
            proba, transition = mixed, np.eye(len(transition))
        labels = proba.argmax(1)
        rows = self._labelled.numpy()
        labels[rows] = np.where(self._alone, self._given, posterior.argmax(1))
        quality = np.full(len(proba), -1.0)
        own = posterior[np.arange(len(rows)), self._given]
        quality[rows] = np.where(self._alone, -1.0, own)
        found = {"transition": transition, "quality": quality}
        weights = {name: torch.from_numpy(value) for name, value in found.items()}
        for candidate, share in zip(self._candidates, self._shares, strict=True):
            view, number, kind = candidate.name
            weights[f"evidence/{view}/{number}/{kind}"] = torch.tensor(share)
        outcome = Outcome(
            torch.from_numpy(proba.astype(np.float32)),
            torch.from_numpy(self.embedding()),
            torch.from_numpy(labels),
        )
        return Fit(outcome, best_epoch=0, history=[], weights=weights)

    def by_fold(self) -> NDArray[np.float32]:
        """Return what the classifiers that miss fold f say of every node [F, N, K]."""
        said = [
            self._mix(candidate.proba(fold) for candidate in self._candidates)
            for fold in range(int(self._fold.max()) + 1)
        ]
        return np.stack(said).astype(np.float32)

    def taught(self) -> NDArray[np.bool_]:
        """Return whether the classifiers that miss fold f saw a label of class k [F, K]."""
        labels = np.eye(self._task.num_classes)[self._given]
        counts = ~self._misses()[:-1] @ labels
        taught: NDArray[np.bool_] = counts > 0
        return taught

    def embedding(self) -> NDArray[np.float32]:
        """Return the view that counts most [N, D]."""
        totals: dict[str, float] = {}
        for candidate, share in zip(self._candidates, self._shares, strict=True):
            totals[candidate.name[0]] = totals.get(candidate.name[0], 0.0) + share
        best = max(totals, key=lambda name: totals[name])
        view = next(c.view for c in self._candidates if c.name[0] == best)
        return view.cpu().numpy()

    def _mix(self, probas: Iterable[Floats]) -> Floats:
        """Return the calibrated probabilities of all candidates, as their shares say."""
        mean: Floats | float = 0.0
        for share, calibration, proba in zip(self._shares, self._calibrations, probas, strict=True):
            mean = mean + share * calibration.calibrated(proba)
        return np.asarray(mean)

    def _calibrate(self, proba: Floats, **options: Any) -> Calibration:
        """Calibrate `proba` [n, K] on a sample of the labels, which is enough."""
        return calibrate(self._given[self._some], proba[self._some], **options)

    def _train_view(self, name: str, view: Tensor, rounds: int) -> list[_Candidate]:
        """Return the candidates of all rounds on one view."""
        rows = Regressions(view[self._labelled.to(view.device)])
        targets = self._as_given(view)
        candidates: list[_Candidate] = []
        for number in range(rounds + 1):
            if self._progress:
                print(f"View {name}, round {number} of {rounds} …", file=sys.stderr)
            before = {candidate.name[2]: candidate.solution for candidate in candidates}
            trained = _classifiers(name, number, view, rows, targets, self._misses(), before)
            candidates += trained
            if number < rounds:
                targets = self._reconsidered(candidates[-len(_STRENGTHS) - 1 :], rows, targets)
        return candidates

    def _as_given(self, view: Tensor) -> Tensor:
        """Return the given labels as targets for each of the F+1 classifiers [F+1, n, K]."""
        labels = torch.from_numpy(self._given).to(view.device)
        hot = one_hot(labels, self._task.num_classes).float()
        return hot.expand(len(self._misses()), -1, -1)

    def _misses(self) -> NDArray[np.bool_]:
        """Return which labels each of the F+1 classifiers does not see [F+1, n]."""
        folds = np.arange(int(self._fold.max()) + 2)  # nobody is in the last
        missed: NDArray[np.bool_] = self._fold == folds[:, None]
        return missed

    def _reconsidered(
        self, trained: Sequence[_Candidate], rows: Regressions, targets: Tensor
    ) -> Tensor:
        """Return what the labels probably mean, for each of the F+1 classifiers [F+1, n, K].

        Nothing here sees the fold that the classifier will be judged by: for each of them, inner
        folds of the labels that it does see are held out in turn.

        Args:
            trained: the candidates of the round.
            rows: what they learnt from.
            targets: [F+1, n, K] what they learnt.
        """
        (name, number, _), view = trained[0].name, trained[0].view
        inner = np.arange(int(self._inner.max()) + 1)
        later = targets.clone()
        for model, missed in enumerate(self._misses()):
            hidden = missed | (self._inner == inner[:, None])  # [J, n]
            seen = np.flatnonzero(~missed)
            some = self._some[~missed[self._some]]
            asked = targets[model].expand(len(inner), -1, -1)
            near = {
                c.name[2]: (
                    c.weights[model].expand(len(inner), -1, -1),
                    c.intercepts[model].expand(len(inner), -1, -1),
                )
                for c in trained
            }
            posteriors, evidence = [], []
            for candidate in _classifiers(name, number, view, rows, asked, hidden, near):
                said = _of_own_fold(candidate, rows.rows, self._inner)
                calibration = calibrate(
                    self._given[some], said[some], powers=_POWERS, prior_counts=_PRIOR_COUNTS
                )
                posteriors.append(calibration.posterior(self._given[seen], said[seen]))
                evidence.append(float(np.log(calibration.likelihood).sum()))
            mean = np.tensordot(softmax(np.array(evidence)), np.stack(posteriors), 1)
            later[model, seen] = torch.from_numpy(mean).to(later)
        return later

    def _out_of_fold(self, candidate: _Candidate) -> Floats:
        """Return the probabilities of labelled nodes by the classifier that missed them [n, K]."""
        rows = candidate.view[self._labelled.to(candidate.view.device)]
        return _of_own_fold(candidate, rows, self._fold)


@full_float32()
def _of_own_fold(candidate: _Candidate, rows: Tensor, fold: Nodes) -> Floats:
    """Return the probabilities of each row [n, K] by the classifier with its fold's number."""
    said = np.empty((len(rows), candidate.weights.shape[2]))
    for model in range(int(fold.max()) + 1):
        inside = np.flatnonzero(fold == model)
        logits = rows[inside] @ candidate.weights[model] + candidate.intercepts[model]
        said[inside] = logits.softmax(1).cpu().numpy()
    return said


def _classifiers(
    name: str,
    number: int,
    view: Tensor,
    rows: Regressions,
    targets: Tensor,
    hidden: NDArray[np.bool_],
    near: Mapping[str, tuple[Tensor, Tensor]],
) -> list[_Candidate]:
    """Return the classifiers of a round.

    Args:
        name: of the view.
        number: of the round.
        view: [N, D].
        rows: those of labelled nodes [n, D].
        targets: [M, n, K] what each of M classifiers learns.
        hidden: [M, n] what it does not see.
        near: by kind, weights and intercepts of M classifiers that are not far.
    """
    return [
        _class_means(name, number, view, rows, targets, hidden),
        *(
            _regressions(name, number, view, rows, targets, hidden, strength, near)
            for strength in _STRENGTHS
        ),
    ]


@full_float32()
def _class_means(
    name: str,
    number: int,
    view: Tensor,
    rows: Regressions,
    targets: Tensor,
    hidden: NDArray[np.bool_],
) -> _Candidate:
    """Return softmax(20 cos(h, mean of class k))."""
    seen = torch.from_numpy(~hidden).to(rows.rows)[..., None]
    wanted = targets * seen
    weights = _SHARPNESS * normalize(wanted.mT @ rows.rows, dim=2).mT  # [M, D, K]
    absent = wanted.sum(1, keepdim=True) < _ABSENT
    intercepts = weights.new_zeros(absent.shape).masked_fill(absent, -torch.inf)
    return _Candidate((name, number, "means"), view, weights, intercepts)


def _regressions(
    name: str,
    number: int,
    view: Tensor,
    rows: Regressions,
    targets: Tensor,
    hidden: NDArray[np.bool_],
    strength: float,
    near: Mapping[str, tuple[Tensor, Tensor]],
) -> _Candidate:
    kind = f"C={strength:g}"
    seen = torch.from_numpy(~hidden).to(rows.rows)
    weights, intercepts = rows.solve(targets, seen, strength, near.get(kind))
    return _Candidate((name, number, kind), view, weights, intercepts)


def _shares(calibrations: Sequence[Calibration]) -> Floats:
    """Return what each candidate counts [C].

    Candidates that need the labels of some class to be mostly wrong, and wrong in the same way,
    count only if labels are predicted better with them than without: where one class is much rarer
    than another, that is what class means are.
    """
    likelihood = np.stack([one.likelihood for one in calibrations])
    shares = _stack(likelihood)
    sober = np.array([_mostly_right(one.transition) for one in calibrations])
    if sober.any() and not sober.all():
        fewer = _stack(likelihood[sober])
        if np.log(fewer @ likelihood[sober]).sum() >= np.log(shares @ likelihood).sum():
            shares[:] = 0.0
            shares[sober] = fewer
    return shares


def _mostly_right(transition: Floats) -> bool:
    """Return whether no wrong label of any class is more common than its right one."""
    return bool((np.diag(transition) >= transition.max(1)).all())


def _stack(likelihood: Floats) -> Floats:
    """Return the shares [C] of a mixture under which labels of likelihood [C, n] are most probable.

    A few steps of expectation–maximisation from equal shares: carried to the end they would be
    surer of the best candidate than so many labels can tell.
    """
    shares = np.full(len(likelihood), 1 / len(likelihood))
    for _ in range(_STACKING_STEPS):
        owed = shares[:, None] * likelihood
        shares = (owed / owed.sum(0)).mean(1)
    return shares
