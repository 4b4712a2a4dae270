"""Fit classifiers on smoothed features, calibrate them on held-out labels, and mix them.

This does the work of :class:`erase.Relabelling`, where the method is explained, and of the recipe
"relabelled" of :class:`erase.ERASE`. :func:`fit_mixture` reads from top to bottom.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize, one_hot

from erase.data.task import NodeTask
from erase.methods.relabelling.noise_model import (
    Calibration,
    calibrate,
    deal,
    sharpened,
    softmax,
)
from erase.methods.relabelling.smoothing import SMOOTHINGS, Smoother, Smoothing
from erase.nn.heads import Regressions
from erase.nn.precision import full_float32
from erase.random import numpy_stream
from erase.training.graphs import whole_graph
from erase.training.loop import Fit, Outcome

Floats = NDArray[np.float64]
Nodes = NDArray[np.int64]
Name = tuple[str, int, str]  # smoothing, round and kind of a classifier

_STRENGTHS = (1.0, 3.0)  # C of the two regressions
_ABSENT = 1e-3  # a class with less than that of all targets has no example
_SHARPNESS = 20.0  # of the softmax over cosines with class means
# Between rounds a small grid is enough, since only the posterior is used.
_POWERS, _PRIOR_COUNTS = (0.5, 1.0, 2.0, 4.0, 8.0), (5.0,)
_INNER_FOLDS, _INNER_FOLDS_OF_MANY = 5, 2
_MANY, _FEW = 5_000, 10  # labels
_CALIBRATION_FOLDS = 3
_STACKING_STEPS = 16


def smoothings_of(view: str) -> dict[str, Smoothing]:
    """Return the smoothings that the parameter `view` names, "all" or one of them."""
    return SMOOTHINGS if view == "all" else {view: SMOOTHINGS[view]}


def smoothed_features(
    task: NodeTask, view: str, width: int, device: torch.device
) -> tuple[Smoother, dict[str, Tensor]]:
    """Return the smoothed features of a task's graph, by name, and what makes them."""
    graph = whole_graph(task, device)
    return Smoother.fit(task.x.to(device), graph, width, smoothings_of(view))


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
    """Return the fit of each run; all are on one graph, and share its smoothed features.

    Args:
        tasks: [R].
        seeds: [R].
        device: where to compute.
        width, view, rounds, folds, validation: as :class:`erase.Relabelling` has them.
        progress: show smoothings and rounds.
    """
    smoother, features = smoothed_features(tasks[0], view, width, device)
    fits = []
    for task, seed in zip(tasks, seeds, strict=True):
        task = task if validation else task.without_validation()
        given = task.y[task.y >= 0].numpy()
        fold = deal(given, folds, numpy_stream(seed, "relabelling folds"))
        mixture = fit_mixture(task, features, fold, rounds=rounds, seed=seed, progress=progress)
        fit = mixture.fit()
        fit.weights.update(smoother.tensors())
        fits.append(fit)
    return fits


@dataclass(frozen=True, eq=False)
class Labels:
    """The n given labels of a task, and how they are split.

    Attributes:
        nodes: [n] which nodes have one.
        given: [n] classes 0 … K−1.
        num_classes: K.
        fold: [n] each label is predicted by classifiers that miss its fold.
        inner: [n] folds that are held out in turn to reconsider labels between rounds.
        sample: [m] places of the labels that calibrate; a part of very many is enough.
        sample_fold: [m] folds of these.
    """

    nodes: Tensor
    given: Nodes
    num_classes: int
    fold: Nodes
    inner: Nodes
    sample: Nodes
    sample_fold: Nodes

    @property
    def hidden(self) -> NDArray[np.bool_]:
        """Which labels each of the F+1 classifiers does not see [F+1, n]; the last sees all."""
        folds = np.arange(int(self.fold.max()) + 2)  # no label is in the last
        hidden: NDArray[np.bool_] = self.fold == folds[:, None]
        return hidden

    @property
    def known(self) -> NDArray[np.bool_]:
        """Whether the classifiers that miss fold f see a label of class k [F, K]."""
        known: NDArray[np.bool_] = ~self.hidden[:-1] @ np.eye(self.num_classes)[self.given] > 0
        return known

    @property
    def is_only(self) -> NDArray[np.bool_]:
        """Whether a label is the only one of its class outside its fold [n].

        Classifiers fitted without it have no example of the class, so the label cannot be checked.
        """
        return ~self.known[self.fold, self.given]


def split_labels(task: NodeTask, fold: Nodes, seed: int) -> Labels:
    """Return the given labels of a task with their splits.

    Args:
        task: the graph and its labels.
        fold: [n] of each given label.
        seed: of the other folds.
    """
    nodes = (task.y >= 0).nonzero().squeeze(1)
    given = task.y[nodes].numpy()
    inner = _INNER_FOLDS if len(given) <= _MANY else _INNER_FOLDS_OF_MANY
    inner_fold = deal(given, inner, numpy_stream(seed, "relabelling rounds"))
    empty = np.zeros(0, np.int64)
    labels = Labels(nodes, given, task.num_classes, fold, inner_fold, empty, empty)
    stream = numpy_stream(seed, "relabelling calibration")
    order, is_only = stream.permutation(len(given)), labels.is_only
    order = order[~is_only[order]] if not is_only.all() else order
    sample = np.sort(order[:_MANY])
    sample_fold = deal(given[sample], _CALIBRATION_FOLDS, stream)
    return Labels(nodes, given, task.num_classes, fold, inner_fold, sample, sample_fold)


@dataclass(frozen=True, eq=False)
class Candidate:
    """One kind of classifier in one round on smoothed features, for every fold and for all labels.

    Attributes:
        name: smoothing, round and kind.
        features: [N, D] smoothed.
        weights: [F+1, D, K] one classifier for every fold that it misses, the last misses none.
        intercepts: [F+1, 1, K].
    """

    name: Name
    features: Tensor
    weights: Tensor
    intercepts: Tensor

    def proba(self, model: int) -> Floats:
        """Return the probabilities of all nodes [N, K] by one of the F+1 classifiers."""
        return linear_proba(self.features, self.weights[model], self.intercepts[model])


@full_float32()
def linear_proba(features: Tensor, weight: Tensor, intercept: Tensor) -> Floats:
    """Return softmax(x W + b) [n, K]."""
    proba: Floats = (features @ weight + intercept).softmax(1).cpu().numpy().astype(np.float64)
    return proba


def fit_mixture(
    task: NodeTask,
    features: Mapping[str, Tensor],
    fold: Nodes,
    *,
    rounds: int,
    seed: int,
    progress: bool = False,
) -> "Mixture":
    """Fit candidates, calibrate them on held-out labels, and weight them.

    Args:
        task: the graph and its labels.
        features: [N, D] smoothed, by name.
        fold: [n] of each given label.
        rounds: how often labels are reconsidered; not at all where they are very few.
        seed: of other folds.
        progress: show smoothings and rounds.
    """
    labels = split_labels(task, fold, seed)
    rounds = rounds if len(labels.given) >= _FEW else 0
    candidates: list[Candidate] = []
    for name, own in features.items():
        candidates += fit_candidates(name, own, labels, rounds, progress)
    held_out = [
        by_own_fold(one, one.features[labels.nodes.to(one.features.device)], labels.fold)
        for one in candidates
    ]
    calibrations = [_calibrated_on_sample(labels, proba, _PRIOR_COUNTS) for proba in held_out]
    return Mixture(labels, candidates, held_out, calibrations, mixing_shares(calibrations))


def _calibrated_on_sample(
    labels: Labels, proba: Floats, prior_counts: Sequence[float] | None = None
) -> Calibration:
    """Calibrate out-of-fold probabilities [n, K] on a sample of the labels."""
    options = {} if prior_counts is None else {"prior_counts": prior_counts}
    sample = labels.sample
    return calibrate(labels.given[sample], proba[sample], folds=labels.sample_fold, **options)


@dataclass(frozen=True, eq=False)
class Mixture:
    """Calibrated candidates and their shares in the mixture.

    Attributes:
        labels: they were fitted to.
        candidates: [C].
        held_out: [C] of [n, K], probabilities of the labelled nodes by classifiers that miss them.
        calibrations: [C].
        shares: [C], which sum to 1.
    """

    labels: Labels
    candidates: Sequence[Candidate]
    held_out: Sequence[Floats]
    calibrations: Sequence[Calibration]
    shares: Floats

    def mix(self, probas: Iterable[Floats]) -> Floats:
        """Return the mean of the candidates' probabilities, calibrated, with their shares."""
        mean: Floats | float = 0.0
        for share, calibration, proba in zip(self.shares, self.calibrations, probas, strict=True):
            mean = mean + share * calibration.calibrated(proba)
        return np.asarray(mean)

    def by_fold(self) -> NDArray[np.float32]:
        """Return the probabilities of every node by the classifiers that miss fold f [F, N, K]."""
        probas = [
            self.mix(candidate.proba(fold) for candidate in self.candidates)
            for fold in range(len(self.labels.known))
        ]
        return np.stack(probas).astype(np.float32)

    def main_smoothing(self) -> str:
        """Return the name of the smoothed features that count most: the representation."""
        totals: dict[str, float] = {}
        for candidate, share in zip(self.candidates, self.shares, strict=True):
            totals[candidate.name[0]] = totals.get(candidate.name[0], 0.0) + share
        return max(totals, key=lambda name: totals[name])

    def embedding(self) -> Tensor:
        """Return the smoothed features that count most [N, D]."""
        best = self.main_smoothing()
        return next(c.features for c in self.candidates if c.name[0] == best).cpu()

    def fit(self) -> Fit:
        """Return the mixture as a fit.

        Its probabilities are those of classifiers that see all labels, for labelled nodes too. Its
        labels and their qualities are posteriors of classifiers that miss the label, and of the
        given label itself.
        """
        labels, is_only = self.labels, self.labels.is_only
        held_out = self.mix(self.held_out)
        calibration = _calibrated_on_sample(labels, held_out)
        posterior = calibration.posterior(labels.given, held_out)
        transition, powers = calibration.transition, calibration.power_weights
        if is_only.all():  # then nothing was learnt about them
            transition, powers = np.eye(len(transition)), np.array([[1.0, 1.0]])
        mixed = self.mix(candidate.proba(-1) for candidate in self.candidates)
        proba = halfway(mixed, powers)
        rows = labels.nodes.numpy()
        corrected = proba.argmax(1)
        corrected[rows] = np.where(is_only, labels.given, posterior.argmax(1))
        quality = np.full(len(proba), -1.0)
        own = posterior[np.arange(len(rows)), labels.given]
        quality[rows] = np.where(is_only, -1.0, own)
        found = {"transition": transition, "quality": quality, "powers": powers}
        weights = {name: torch.from_numpy(value) for name, value in found.items()}
        outcome = Outcome(
            torch.from_numpy(proba.astype(np.float32)),
            self.embedding(),
            torch.from_numpy(corrected),
        )
        return Fit(outcome, best_epoch=0, history=[], weights=weights | self.tensors())

    def tensors(self) -> dict[str, Tensor]:
        """Return what :func:`apply_mixture` needs, by name."""
        tensors = {}
        for candidate, share, calibration in zip(
            self.candidates, self.shares, self.calibrations, strict=True
        ):
            name = "/".join(map(str, candidate.name))
            tensors[f"evidence/{name}"] = torch.tensor(share)
            tensors[f"classifier/{name}"] = candidate.weights[-1].cpu()
            tensors[f"intercept/{name}"] = candidate.intercepts[-1].cpu()
            tensors[f"powers/{name}"] = torch.from_numpy(calibration.power_weights)
        return tensors


def halfway(mixed: Floats, powers: Floats) -> Floats:
    """Return probabilities halfway between a mixture [N, K] and its calibration.

    A mean of many probabilities is underconfident. Its calibration is overconfident, because it
    explains uncertainty as label noise. The mean of both is closer to the truth.
    """
    halfway: Floats = (mixed + sharpened(mixed, powers)) / 2
    return halfway


def apply_mixture(
    tensors: Mapping[str, Tensor], features: Mapping[str, Tensor]
) -> tuple[NDArray[np.float32], str]:
    """Return the probabilities [N, K] of a fitted mixture, and its main smoothing.

    Args:
        tensors: the weights of :meth:`Mixture.fit`.
        features: [N, D] smoothed features of a graph, by name.
    """
    mixed: Floats | float = 0.0
    totals = dict.fromkeys(features, 0.0)
    for name, share in tensors.items():
        kind, _, rest = name.partition("/")
        if kind == "evidence":
            own = features[rest.partition("/")[0]]
            weight, intercept = (
                tensors[f"{part}/{rest}"].to(own.device) for part in ("classifier", "intercept")
            )
            proba = linear_proba(own, weight, intercept)
            mixed = mixed + float(share) * sharpened(proba, tensors[f"powers/{rest}"].numpy())
            totals[rest.partition("/")[0]] += float(share)
    proba = halfway(np.asarray(mixed), tensors["powers"].numpy())
    return proba.astype(np.float32), max(totals, key=lambda name: totals[name])


def fit_candidates(
    name: str, features: Tensor, labels: Labels, rounds: int, progress: bool = False
) -> list[Candidate]:
    """Return the candidates of all rounds on one matrix of smoothed features [N, D]."""
    rows = Regressions(features[labels.nodes.to(features.device)])
    targets = as_given(labels, features.device)
    candidates: list[Candidate] = []
    for number in range(rounds + 1):
        if progress:
            print(f"Smoothing {name}, round {number} of {rounds} …", file=sys.stderr)
        before = {c.name[2]: (c.weights, c.intercepts) for c in candidates}
        fitted = _classifiers((name, number), features, rows, targets, labels.hidden, before)
        candidates += fitted
        if number < rounds:
            targets = reconsider(labels, fitted, rows, targets)
    return candidates


def as_given(labels: Labels, device: torch.device) -> Tensor:
    """Return the given labels as targets for each of the F+1 classifiers [F+1, n, K]."""
    hot = one_hot(torch.from_numpy(labels.given).to(device), labels.num_classes).float()
    return hot.expand(len(labels.hidden), -1, -1)


def reconsider(
    labels: Labels, fitted: Sequence[Candidate], rows: Regressions, targets: Tensor
) -> Tensor:
    """Return the posteriors of the labels, as targets for each of the F+1 classifiers [F+1, n, K].

    A classifier's targets do not depend on the labels of the fold that it misses: for each of the
    classifiers, inner folds of the labels that it does see are held out in turn.

    Args:
        labels: given labels.
        fitted: the candidates of the round.
        rows: what they were fitted to.
        targets: [F+1, n, K] of the round.
    """
    (name, number, _), features = fitted[0].name, fitted[0].features
    inner = np.arange(int(labels.inner.max()) + 1)
    later = targets.clone()
    for model, missed in enumerate(labels.hidden):
        hidden = missed | (labels.inner == inner[:, None])  # [J, n]
        seen = np.flatnonzero(~missed)
        sample = labels.sample[~missed[labels.sample]]
        same = targets[model].expand(len(inner), -1, -1)
        near = {
            c.name[2]: (
                c.weights[model].expand(len(inner), -1, -1),
                c.intercepts[model].expand(len(inner), -1, -1),
            )
            for c in fitted
        }
        posteriors, evidence = [], []
        for candidate in _classifiers((name, number), features, rows, same, hidden, near):
            proba = by_own_fold(candidate, rows.rows, labels.inner)
            calibration = calibrate(
                labels.given[sample], proba[sample], powers=_POWERS, prior_counts=_PRIOR_COUNTS
            )
            posteriors.append(calibration.posterior(labels.given[seen], proba[seen]))
            evidence.append(float(np.log(calibration.likelihood).sum()))
        mean = np.tensordot(softmax(np.array(evidence)), np.stack(posteriors), 1)
        later[model, seen] = torch.from_numpy(mean).to(later)
    return later


def by_own_fold(candidate: Candidate, rows: Tensor, fold: Nodes) -> Floats:
    """Return the probabilities of each row [n, K] by the classifier with its fold's number."""
    proba = np.empty((len(rows), candidate.weights.shape[2]))
    for model in range(int(fold.max()) + 1):
        inside = np.flatnonzero(fold == model)
        proba[inside] = linear_proba(
            rows[inside], candidate.weights[model], candidate.intercepts[model]
        )
    return proba


def _classifiers(
    name: tuple[str, int],
    features: Tensor,
    rows: Regressions,
    targets: Tensor,
    hidden: NDArray[np.bool_],
    near: Mapping[str, tuple[Tensor, Tensor]],
) -> list[Candidate]:
    """Return the classifiers of a round: class means, and two logistic regressions.

    Args:
        name: smoothing and round.
        features: [N, D].
        rows: those of labelled nodes [n, D].
        targets: [M, n, K] of each of M classifiers.
        hidden: [M, n] labels that it does not see.
        near: by kind, weights and intercepts of M similar classifiers, as a warm start.
    """
    seen = torch.from_numpy(~hidden).to(rows.rows)
    candidates = [Candidate((*name, "means"), features, *_class_means(rows.rows, targets, seen))]
    for strength in _STRENGTHS:
        kind = f"C={strength:g}"
        solution = rows.solve(targets, seen, strength, near.get(kind))
        candidates.append(Candidate((*name, kind), features, *solution))
    return candidates


@full_float32()
def _class_means(rows: Tensor, targets: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
    """Return weights [M, D, K] and intercepts [M, 1, K] of softmax(20 cos(h, mean of class k))."""
    wanted = targets * seen[..., None]
    weights = _SHARPNESS * normalize(wanted.mT @ rows, dim=2).mT
    absent = wanted.sum(1, keepdim=True) < _ABSENT
    return weights, weights.new_zeros(absent.shape).masked_fill(absent, -torch.inf)


def mixing_shares(calibrations: Sequence[Calibration]) -> Floats:
    """Return the share of each candidate in the mixture [C].

    A candidate whose transition matrix takes most labels of a class for the same error counts only
    if labels are predicted better with such candidates than without. Class means are like that
    where one class is much rarer than another.
    """
    likelihood = np.stack([one.likelihood for one in calibrations])
    shares = stack(likelihood)
    plausible = np.array([_mostly_right(one.transition) for one in calibrations])
    if plausible.any() and not plausible.all():
        fewer = stack(likelihood[plausible])
        if np.log(fewer @ likelihood[plausible]).sum() >= np.log(shares @ likelihood).sum():
            shares[:] = 0.0
            shares[plausible] = fewer
    return shares


def _mostly_right(transition: Floats) -> bool:
    """Return whether no wrong label of any class is more common than its right one."""
    return bool((np.diag(transition) >= transition.max(1)).all())


def stack(likelihood: Floats) -> Floats:
    """Return the shares [C] of a mixture under which labels of likelihood [C, n] are most probable.

    A few steps of expectation–maximisation from equal shares. At convergence the best candidate
    would get a larger share than so few labels justify.
    """
    shares = np.full(len(likelihood), 1 / len(likelihood))
    for _ in range(_STACKING_STEPS):
        joint = shares[:, None] * likelihood
        shares = (joint / joint.sum(0)).mean(1)
    return shares
