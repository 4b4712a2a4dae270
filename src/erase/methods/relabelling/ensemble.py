"""Fit classifiers on smoothed features, calibrate them on held-out labels, and mix them.

This does the work of :class:`erase.Relabelling`, where the method is explained, and of the preset
"relabelled" of :class:`erase.ERASE`. :func:`fit_mixture` reads from top to bottom.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import product
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import softmax
from torch import Tensor
from torch.nn.functional import normalize, one_hot

from erase.data.task import NodeTask
from erase.methods.relabelling.noise_model import (
    PRIOR_COUNTS,
    SMALLEST,
    Calibration,
    assign_folds,
    calibrate,
    sharpened,
)
from erase.methods.relabelling.smoothing import SMOOTHINGS, Smoother, Smoothing, whole_rows
from erase.nn.precision import full_float32
from erase.nn.regressions import Regressions, Targets
from erase.nn.sparse import Graph
from erase.random import numpy_stream
from erase.training.chunks import NODES_AT_ONCE
from erase.training.disk import leave_memory
from erase.training.graphs import whole_graph
from erase.training.loop import Fit, Outcome
from erase.training.processes import add_up, own_stretch, shared

Floats = NDArray[np.float64]
Nodes = NDArray[np.int64]
Name = tuple[str, int, str]  # smoothing, round and kind of a classifier

_STRENGTHS = (1.0, 3.0)  # C of the two regressions
_ABSENT = 1e-3  # a class with less than that of all targets has no example
_SHARPNESS = 20.0  # of the softmax over cosines with class means
_BALANCED = "balanced"  # kind: the stronger regression, divided by the frequencies of the labels
# By how much its log-likelihood must exceed that of the regression itself: at least, and per label.
_MARGIN, _MARGIN_PER_LABEL = 3.0, 0.006
# Between rounds a small grid is enough, since only the posterior is used.
_POWERS, _PRIOR_COUNTS = (0.5, 1.0, 2.0, 4.0, 8.0), (5.0,)
_INNER_FOLDS, _INNER_FOLDS_OF_MANY = 5, 2
_MANY, _FEW = 5_000, 10  # labels
_CALIBRATION_FOLDS = 3
_STACKING_STEPS = 16
_NEGLIGIBLE = 1e-3  # a candidate with a smaller share is left out


def smoothings_of(view: str) -> dict[str, Smoothing]:
    """Return the smoothings that the parameter `view` names, "all" or one of them."""
    return SMOOTHINGS if view == "all" else {view: SMOOTHINGS[view]}


def smoothed_features(
    task: NodeTask, view: str, width: int, device: torch.device
) -> tuple[Smoother, dict[str, Tensor]]:
    """Return the smoothed features of a task's graph, by name, and what makes them.

    Of several processes each returns the rows of its own nodes.
    """
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
        given = task.learning_labels[task.y >= 0].numpy()
        fold = assign_folds(given, folds, numpy_stream(seed, "relabelling folds"))
        mixture = fit_mixture(task, features, fold, rounds=rounds, seed=seed, progress=progress)
        fit = mixture.fit()
        fit.weights.update(smoother.tensors())
        if task.trusted is not None:
            known = task.trusted >= 0
            is_right = (task.trusted == task.y)[known]
            fit.weights["quality"][known] = is_right.to(fit.weights["quality"].dtype)
        fits.append(fit)
    return fits


@dataclass(frozen=True, eq=False)
class Labels:
    """The n given labels of a task, or trusted ones, and how they are split.

    Attributes:
        nodes: [n] which nodes have one.
        given: [n] classes 0 … K−1.
        num_classes: K.
        fold: [n] each label is predicted by classifiers that miss its fold.
        inner: [n] folds that are held out in turn to reconsider labels between rounds.
        sample: [m] places of the labels that calibrate; a part of very many is enough.
        sample_fold: [m] folds of these.
        num_nodes: N.
        mine: the nodes whose features this process has; all, where there is one process.
    """

    nodes: Tensor
    given: Nodes
    num_classes: int
    fold: Nodes
    inner: Nodes
    sample: Nodes
    sample_fold: Nodes
    num_nodes: int
    mine: slice

    @cached_property
    def own(self) -> slice:
        """The labels of the nodes of this process."""
        ends = torch.tensor([self.mine.start, self.mine.stop])
        first, last = torch.searchsorted(self.nodes, ends).tolist()
        return slice(first, last)

    @property
    def own_rows(self) -> Tensor:
        """[r] where the features of the labelled nodes of this process are among its own."""
        first: int = self.mine.start
        return self.nodes[self.own] - first

    @property
    def own_sample(self) -> tuple[Nodes, Nodes]:
        """Which of the sample belong to this process, and where they are among its labels."""
        inside = np.flatnonzero((self.sample >= self.own.start) & (self.sample < self.own.stop))
        return inside, self.sample[inside] - self.own.start

    @property
    def hidden(self) -> NDArray[np.bool_]:
        """Which labels each of the F+1 classifiers does not see [F+1, n]; the last sees all."""
        folds = np.arange(int(self.fold.max()) + 2)  # no label is in the last
        hidden: NDArray[np.bool_] = self.fold == folds[:, None]
        return hidden

    @property
    def known(self) -> NDArray[np.bool_]:
        """Whether the classifiers that miss fold f see a label of class k [F, K]."""
        folds, k = int(self.fold.max()) + 1, self.num_classes
        inside = np.bincount(self.fold * k + self.given, minlength=folds * k).reshape(folds, k)
        known: NDArray[np.bool_] = inside.sum(0) > inside
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
    given = task.learning_labels[nodes].numpy()
    inner = _INNER_FOLDS if len(given) <= _MANY else _INNER_FOLDS_OF_MANY
    inner_fold = assign_folds(given, inner, numpy_stream(seed, "relabelling rounds"))
    empty = np.zeros(0, np.int64)
    where = (task.num_nodes, own_stretch(task.num_nodes))
    labels = Labels(nodes, given, task.num_classes, fold, inner_fold, empty, empty, *where)
    stream = numpy_stream(seed, "relabelling calibration")
    order, is_only = stream.permutation(len(given)), labels.is_only
    order = order[~is_only[order]] if not is_only.all() else order
    sample = np.sort(order[:_MANY])
    sample_fold = assign_folds(given[sample], _CALIBRATION_FOLDS, stream)
    return replace(labels, sample=sample, sample_fold=sample_fold)


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
        features: [N, D] smoothed, by name; of several processes, the rows of its own nodes.
        fold: [n] of each given label.
        rounds: how often labels are reconsidered; not at all where they are very few.
        seed: of other folds.
        progress: show smoothings and rounds.
    """
    labels = split_labels(task, fold, seed)
    rounds = rounds if len(labels.given) >= _FEW else 0
    inside, places = labels.own_sample
    sample = labels.own_rows[torch.from_numpy(places)]
    candidates: list[Candidate] = []
    calibrations: list[Calibration] = []
    for name, own in features.items():
        fitted = fit_candidates(name, own, labels, rounds, progress)
        rows = own[sample.to(own.device)]
        probas: list[Floats] = []
        for candidate in fitted:
            proba = np.zeros((len(labels.sample), labels.num_classes))
            proba[inside] = by_own_fold(candidate, rows, labels.fold[labels.sample[inside]])
            add_up(torch.from_numpy(proba))
            probas.append(proba)
        candidates += fitted
        calibration = partial(_calibrated_on_sample, labels, prior_counts=_PRIOR_COUNTS)
        calibrations += shared(calibration, probas)
        leave_memory(own)
    kept = _kept([candidate.name for candidate in candidates], calibrations)
    candidates = [candidates[place] for place in kept]
    calibrations = [calibrations[place] for place in kept]
    return Mixture(labels, candidates, calibrations, mixing_shares(calibrations))


def _kept(names: Sequence[Name], calibrations: Sequence[Calibration]) -> list[int]:
    """Return the places of the candidates to keep: a balanced one only if it is clearly better.

    It is compared with the regression of the same smoothing and round that it was made from.
    """
    evidence = {name: _evidence(one) for name, one in zip(names, calibrations, strict=True)}
    kept = []
    for place, name in enumerate(names):
        made_from = (*name[:2], _kind(_STRENGTHS[-1]))
        margin = _margin(len(calibrations[place].likelihood))
        if name[2] != _BALANCED or evidence[name] >= evidence[made_from] + margin:
            kept.append(place)
    return kept


def _margin(labels: int) -> float:
    """Return by how much a balanced regression must be better, as log-likelihood of `labels`."""
    return max(_MARGIN, _MARGIN_PER_LABEL * labels)


def _evidence(calibration: Calibration) -> float:
    """Return the log-likelihood of the labels."""
    return float(np.log(calibration.likelihood).sum())


def _kind(strength: float) -> str:
    """Return the kind of a regression, for its name."""
    return f"C={strength:g}"


def _calibrated_on_sample(
    labels: Labels, proba: Floats, prior_counts: Sequence[float] = PRIOR_COUNTS
) -> Calibration:
    """Calibrate out-of-fold probabilities [m, K] of the sample of the labels."""
    given = labels.given[labels.sample]
    return calibrate(given, proba, prior_counts=prior_counts, folds=labels.sample_fold)


@dataclass(frozen=True, eq=False)
class _Part:
    """Some rows of an answer: classifier `model` predicts `nodes` [m], times `share`.

    Attributes:
        model: one of the F+1 classifiers.
        nodes: [m] ascending; None: all nodes.
        rows: [m] where they are in the answer; None: in this order.
        share: by which the probabilities are multiplied.
    """

    model: int
    nodes: Tensor | None = None
    rows: Tensor | None = None
    share: float = 1.0


@dataclass(frozen=True, eq=False)
class Mixture:
    """Calibrated candidates and their shares in the mixture.

    Attributes:
        labels: they were fitted to.
        candidates: [C].
        calibrations: [C].
        shares: [C], which sum to 1.
    """

    labels: Labels
    candidates: Sequence[Candidate]
    calibrations: Sequence[Calibration]
    shares: Floats

    def mix(self, probas: Iterable[Floats]) -> Floats:
        """Return the mean of the candidates' probabilities, calibrated, with their shares."""
        mean: Floats | float = 0.0
        for share, calibration, proba in zip(self.shares, self.calibrations, probas, strict=True):
            mean = mean + share * calibration.calibrated(proba)
        return np.asarray(mean)

    @full_float32()
    def mixed(self, rows: int, parts: Sequence[_Part]) -> NDArray[np.float32]:
        """Return the mean that :meth:`mix` does, of `rows` nodes [rows, K], in float32.

        One smoothing after the other, some nodes at a time; candidates without a share are passed
        over.

        Args:
            rows: how many there are.
            parts: which classifier predicts which nodes; what falls on the same row is added up.
        """
        answer = np.zeros((rows, self.labels.num_classes), np.float32)
        out = torch.from_numpy(answer)
        for name in dict.fromkeys(candidate.name[0] for candidate in self.candidates):
            members = [
                (candidate, share, calibration.power_weights)
                for candidate, share, calibration in zip(
                    self.candidates, self.shares, self.calibrations, strict=True
                )
                if candidate.name[0] == name and share > 0
            ]
            if not members:
                continue
            features, start = members[0][0].features, self.labels.mine.start
            for part in map(self._own_part, parts):
                for places, some in _some_rows(features, part.nodes):
                    mean = torch.zeros(len(some), answer.shape[1], device=some.device)
                    for candidate, share, powers in members:
                        logits = some @ candidate.weights[part.model]
                        logits += candidate.intercepts[part.model]
                        mean += part.share * share * sharpened_logits(logits, powers)
                    if part.rows is None:
                        out[start + places.start : start + places.stop] += mean.cpu()
                    else:
                        out[part.rows[places]] += mean.cpu()
            leave_memory(features)
        add_up(out)
        return answer

    def _own_part(self, part: _Part) -> _Part:
        """Return the nodes of a part that belong to this process, as its features count them."""
        if part.nodes is None or part.rows is None:
            return part
        mine = self.labels.mine
        ends = torch.tensor([mine.start, mine.stop])
        first, last = torch.searchsorted(part.nodes, ends).tolist()
        nodes = part.nodes[first:last] - mine.start
        return replace(part, nodes=nodes, rows=part.rows[first:last])

    def held_out(self) -> NDArray[np.float32]:
        """Return the probabilities of the labelled nodes [n, K] by classifiers that miss them."""
        return self.mixed(len(self.labels.nodes), self._own_parts())

    def _own_parts(self, nodes_as_rows: bool = False) -> list[_Part]:
        parts = []
        for fold in range(int(self.labels.fold.max()) + 1):
            inside = torch.from_numpy(np.flatnonzero(self.labels.fold == fold))
            nodes = self.labels.nodes[inside]
            parts.append(_Part(fold, nodes, nodes if nodes_as_rows else inside))
        return parts

    def out_of_fold(self) -> NDArray[np.float32]:
        """Return the probabilities of every node [N, K], its own label unseen.

        A node without a label has the mean over the classifiers that miss a fold each.
        """
        n = self.labels.num_nodes
        parts = self._own_parts(nodes_as_rows=True)
        others = torch.ones(n, dtype=torch.bool)
        others[self.labels.nodes] = False
        if bool(others.any()):
            nodes, folds = others.nonzero().squeeze(1), len(parts)
            parts += [_Part(fold, nodes, nodes, 1 / folds) for fold in range(folds)]
        return self.mixed(n, parts)

    def by_fold(self) -> NDArray[np.float32]:
        """Return the probabilities of every node by the classifiers that miss fold f [F, N, K]."""
        n = self.labels.num_nodes
        return np.stack([self.mixed(n, [_Part(f)]) for f in range(len(self.labels.known))])

    def by_view(self) -> dict[str, NDArray[np.float32]]:
        """Return held-out probabilities [n, K] of the first round's regressions, by smoothing."""
        kind, labels = _kind(_STRENGTHS[-1]), self.labels
        found = {}
        for candidate in self.candidates:
            if candidate.name[1:] == (0, kind):
                proba = np.zeros((len(labels.nodes), labels.num_classes), np.float32)
                own, fold = proba[labels.own], labels.fold[labels.own]
                for places, some in _some_rows(candidate.features, labels.own_rows):
                    own[places] = by_own_fold(candidate, some, fold[places])
                add_up(torch.from_numpy(proba))
                found[candidate.name[0]] = proba
                leave_memory(candidate.features)
        return found

    def main_smoothing(self) -> str:
        """Return the name of the smoothed features that count most: the representation."""
        totals: dict[str, float] = {}
        for candidate, share in zip(self.candidates, self.shares, strict=True):
            totals[candidate.name[0]] = totals.get(candidate.name[0], 0.0) + share
        return max(totals, key=lambda name: totals[name])

    def embedding(self) -> Tensor:
        """Return the smoothed features that count most [N, D]."""
        return self.smoothed_rows(self.main_smoothing())

    def smoothed_rows(self, smoothing: str, *, only_first: bool = False) -> Tensor:
        """Return the features of one smoothing [N, D], on the CPU.

        With `only_first`, the first of several processes does; the others return no rows.
        """
        own = next(c.features for c in self.candidates if c.name[0] == smoothing)
        return whole_rows(own, self.labels.num_nodes, only_first=only_first).cpu()

    def fit(self) -> Fit:
        """Return the mixture as a fit.

        Its probabilities are those of classifiers that see all labels, for labelled nodes too. Its
        labels and their qualities are posteriors of classifiers that miss the label, and of the
        given label itself.
        """
        labels, is_only = self.labels, self.labels.is_only
        held_out = self.held_out()
        calibration = _calibrated_on_sample(labels, held_out[labels.sample].astype(np.float64))
        rows, n = labels.nodes.numpy(), labels.num_nodes
        transition, powers = calibration.transition, calibration.power_weights
        if is_only.all():  # then nothing was learnt about them
            transition, powers = np.eye(len(transition)), np.array([[1.0, 1.0]])
        proba = self.mixed(n, [_Part(-1)])
        corrected, quality = np.empty(n, np.int64), np.full(n, -1.0)
        for start in range(0, n, NODES_AT_ONCE):
            some = slice(start, start + NODES_AT_ONCE)
            proba[some] = halfway(proba[some], powers)
            corrected[some] = proba[some].argmax(1)
        for start in range(0, len(rows), NODES_AT_ONCE):
            some = slice(start, start + NODES_AT_ONCE)
            given, only = labels.given[some], is_only[some]
            posterior = calibration.posterior(given, held_out[some].astype(np.float64))
            corrected[rows[some]] = np.where(only, given, posterior.argmax(1))
            own = posterior[np.arange(len(given)), given]
            quality[rows[some]] = np.where(only, -1.0, own)
        found = {"transition": transition, "quality": quality, "powers": powers}
        weights = {name: torch.from_numpy(value) for name, value in found.items()}
        outcome = Outcome(torch.from_numpy(proba), self.embedding(), torch.from_numpy(corrected))
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


def _some_rows(features: Tensor, nodes: Tensor | None) -> Iterable[tuple[slice, Tensor]]:
    """Yield the features of some of the `nodes` [m] at a time, and where these are among them."""
    total = len(features) if nodes is None else len(nodes)
    for start in range(0, total, NODES_AT_ONCE):
        places = slice(start, min(start + NODES_AT_ONCE, total))
        yield places, features[places if nodes is None else nodes[places].to(features.device)]


def sharpened_logits(logits: Tensor, power_weights: Floats) -> Tensor:
    """Return what :func:`sharpened` does for the softmax of `logits` [n, K]."""
    logs = logits.softmax(1).clamp_(min=SMALLEST).log_()
    mean = torch.zeros_like(logs)
    for power, weight in power_weights.tolist():
        mean += weight * (power * logs).softmax(1)
    return mean


def halfway(mixed: NDArray[Any], powers: Floats) -> NDArray[Any]:
    """Return probabilities halfway between a mixture [N, K] and its calibration.

    A mean of many probabilities is underconfident. Its calibration is overconfident, because it
    explains uncertainty as label noise. The mean of both is closer to the truth.
    """
    mean: NDArray[Any] = (mixed + sharpened(mixed, powers)) / 2
    return mean


def apply_mixture(
    tensors: Mapping[str, Tensor], smoother: Smoother, x: Tensor, graph: Graph
) -> tuple[Tensor, Tensor]:
    """Return the probabilities [N, K] of a fitted mixture, and the main smoothed features [N, D].

    One smoothing after the other, some nodes at a time: beside the answer and what the smoothing
    itself needs, nothing of size N×D is held.

    Args:
        tensors: the weights of :meth:`Mixture.fit`.
        smoother: of the fitted graph.
        x: [N, F] features, in memory or in a file.
        graph: the edges.
    """
    members: dict[str, list[str]] = {name: [] for name in smoother.smoothings}
    for name in tensors:
        if name.startswith("evidence/"):
            members[name.split("/")[1]].append(name.removeprefix("evidence/"))
    main = max(members, key=lambda name: sum(tensors[f"evidence/{c}"] for c in members[name]))
    mixed = np.zeros((x.shape[0], len(tensors["transition"])), np.float32)
    for name, smoothed in smoother.apply(x, graph, last=main):
        for start in range(0, len(smoothed), NODES_AT_ONCE):
            rows = slice(start, start + NODES_AT_ONCE)
            own = smoother.centre(name, smoothed[rows].contiguous())
            leave_memory(smoothed)
            for candidate in members[name]:
                share = float(tensors[f"evidence/{candidate}"])
                if share == 0:
                    continue
                weight, intercept = (
                    tensors[f"{part}/{candidate}"].to(own.device)
                    for part in ("classifier", "intercept")
                )
                powers = tensors[f"powers/{candidate}"].numpy()
                with full_float32():
                    proba = sharpened_logits(own @ weight + intercept, powers)
                mixed[rows] += (share * proba).cpu().numpy()
            if name == main:  # the last ones
                smoothed[rows] = own
        if name != main:
            del smoothed  # before the next ones are computed
    for start in range(0, len(mixed), NODES_AT_ONCE):
        rows = slice(start, start + NODES_AT_ONCE)
        mixed[rows] = halfway(mixed[rows], tensors["powers"].numpy())
    return torch.from_numpy(mixed), smoothed


def fit_candidates(
    name: str, features: Tensor, labels: Labels, rounds: int, progress: bool = False
) -> list[Candidate]:
    """Return the candidates of all rounds on one matrix of smoothed features [N, D]."""
    rows = Regressions(rows_of(features, labels.own_rows), add_up)
    targets = as_given(labels, features.device)
    candidates: list[Candidate] = []
    for number in range(rounds + 1):
        if progress:
            print(f"Smoothing {name}, round {number + 1} of {rounds + 1} …", file=sys.stderr)
        before = {c.name[2]: (c.weights, c.intercepts) for c in candidates}
        hidden = labels.hidden[:, labels.own]
        fitted = _classifiers((name, number), features, rows, targets, hidden, before)
        candidates += fitted
        if number < rounds:
            targets = reconsider(labels, fitted, rows, targets)
    return candidates


def rows_of(features: Tensor, nodes: Tensor) -> Tensor:
    """Return the rows [n, D] of some nodes, ascending; without a copy where these are all nodes."""
    return features if len(nodes) == len(features) else features[nodes.to(features.device)]


def as_given(labels: Labels, device: torch.device) -> Tensor:
    """Return the given labels as targets for each of the F+1 classifiers [F+1, n, K]."""
    given = torch.from_numpy(labels.given[labels.own]).to(device)
    hot = one_hot(given, labels.num_classes).float()
    return hot.expand(int(labels.fold.max()) + 2, -1, -1)


def reconsider(
    labels: Labels, fitted: Sequence[Candidate], rows: Regressions, targets: Tensor
) -> Tensor:
    """Return the posteriors of the labels, as targets for each of the F+1 classifiers [F+1, n, K].

    A classifier's targets do not depend on the labels of the fold that it misses: for each of the
    classifiers, inner folds of the labels that it does see are held out in turn. Of the kinds of
    classifiers, those count that predict held-out labels well; a balanced one must be clearly
    better.

    Args:
        labels: given labels.
        fitted: the candidates of the round.
        rows: what they were fitted to.
        targets: [F+1, n, K] of the round.
    """
    (name, number, _), features = fitted[0].name, fitted[0].features
    near = {c.name[2]: (c.weights, c.intercepts) for c in fitted}
    hidden, inner_fold = labels.hidden[:, labels.own], labels.inner[labels.own]
    inner = [  # of every inner fold, the kinds of classifiers without it
        _classifiers((name, number), features, rows, targets, hidden | (inner_fold == fold), near)
        for fold in range(int(labels.inner.max()) + 1)
    ]
    inside, sampled_rows = labels.own_sample
    sampled = rows.rows[torch.from_numpy(sampled_rows).to(features.device)]
    known = []  # [M, m, K] of each kind
    for kind in range(len(fitted)):
        proba = np.zeros((len(hidden), len(labels.sample), labels.num_classes), np.float32)
        of_kind = [kinds[kind] for kinds in inner]
        proba[:, inside] = _inner_proba(of_kind, sampled, inner_fold[sampled_rows])
        add_up(torch.from_numpy(proba))
        known.append(proba)
    chosen = []
    balanced = np.array([candidate.name[2] == _BALANCED for candidate in fitted])
    seen_by = ~labels.hidden[:, labels.sample]  # [F+1, m]

    def calibrated(pair: tuple[int, int]) -> Calibration:
        model, kind = pair
        seen = seen_by[model]
        given, proba = labels.given[labels.sample[seen]], known[kind][model, seen]
        return calibrate(given, proba, powers=_POWERS, prior_counts=_PRIOR_COUNTS)

    calibrations = shared(calibrated, list(product(range(len(seen_by)), range(len(known)))))
    for model, seen in enumerate(seen_by):
        found = calibrations[model * len(known) :][: len(known)]
        margin = np.where(balanced, _margin(int(seen.sum())), 0.0)
        shares = softmax([_evidence(one) for one in found] - margin)
        kept = np.flatnonzero(shares >= _NEGLIGIBLE).tolist()
        chosen.append([(k, found[k], shares[k] / shares[kept].sum()) for k in kept])
    own_given = labels.given[labels.own]
    later = targets.clone()
    for places, some in _some_rows(rows.rows, None):
        given = own_given[places]
        needed = {kind for own in chosen for kind, _, _ in own}
        probas = {
            kind: _inner_proba([kinds[kind] for kinds in inner], some, inner_fold[places])
            for kind in needed
        }
        for model, own in enumerate(chosen):
            seen = np.flatnonzero(~hidden[model, places])
            mean = np.zeros((len(seen), labels.num_classes), np.float32)
            for kind, calibration, share in own:
                posterior = calibration.posterior(given[seen], probas[kind][model, seen])
                mean += np.float32(share) * posterior
            later[model, places.start + torch.from_numpy(seen)] = torch.from_numpy(mean).to(later)
    return later


@full_float32()
def _inner_proba(candidates: Sequence[Candidate], rows: Tensor, fold: Nodes) -> NDArray[np.float32]:
    """Return the predictions of the M classifiers of its own inner fold for each row [M, n, K].

    Args:
        candidates: [J] one for each inner fold, of M classifiers.
        rows: [n, D].
        fold: [n] inner folds.
    """
    models, width, k = candidates[0].weights.shape
    proba = np.empty((models, len(rows), k), np.float32)
    for number, candidate in enumerate(candidates):
        inside = torch.from_numpy(np.flatnonzero(fold == number))
        weights = candidate.weights.transpose(0, 1).reshape(width, models * k)
        logits = (rows[inside.to(rows.device)] @ weights).view(-1, models, k)
        logits += candidate.intercepts.transpose(0, 1)
        proba[:, inside.numpy()] = logits.softmax(2).transpose(0, 1).cpu().numpy()
    return proba


def by_own_fold(candidate: Candidate, rows: Tensor, fold: Nodes) -> Floats:
    """Return the probabilities of each row [n, K] by the classifier with its fold's number."""
    proba = np.empty((len(rows), candidate.weights.shape[2]))
    for model in range(len(candidate.weights) - 1):
        inside = np.flatnonzero(fold == model)
        if len(inside):
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
    """Return the classifiers of a round: class means, two logistic regressions, and a balanced one.

    Args:
        name: smoothing and round.
        features: [N, D].
        rows: those of labelled nodes [n, D].
        targets: [M, n, K] of each of M classifiers.
        hidden: [M, n] labels that it does not see.
        near: by kind, weights and intercepts of M similar classifiers, as a warm start.
    """
    wanted = rows.with_targets(targets, torch.from_numpy(~hidden).to(rows.rows.device))
    candidates = [Candidate((*name, "means"), features, *_class_means(rows, wanted))]
    weaker: tuple[Tensor, Tensor] | None = None
    for strength in _STRENGTHS:
        kind = _kind(strength)
        weaker = wanted.solve(strength, near.get(kind, weaker))
        candidates.append(Candidate((*name, kind), features, *weaker))
    weights, intercepts = candidates[-1].weights, candidates[-1].intercepts
    balanced = _without_frequencies(intercepts, wanted)
    candidates.append(Candidate((*name, _BALANCED), features, weights, balanced))
    return candidates


def _without_frequencies(intercepts: Tensor, wanted: Targets) -> Tensor:
    """Return intercepts [M, 1, K] that divide probabilities by the frequencies of the classes.

    A class into which others are mislabelled has more labels than nodes, so a regression predicts
    it too often. One label is added to each class.
    """
    return intercepts - (wanted.sums[1].mT + 1).log()


def _class_means(rows: Regressions, wanted: Targets) -> tuple[Tensor, Tensor]:
    """Return weights [M, D, K] and intercepts [M, 1, K] of softmax(20 cos(h, mean of class k))."""
    centred, totals = wanted.sums
    weights = _SHARPNESS * normalize(centred + totals * rows.centre, dim=2).mT
    absent = totals.mT < _ABSENT
    return weights, weights.new_zeros(absent.shape).masked_fill(absent, -torch.inf)


def mixing_shares(calibrations: Sequence[Calibration]) -> Floats:
    """Return the share of each candidate in the mixture [C].

    A candidate whose transition matrix takes most labels of a class for the same error counts only
    if labels are predicted better with such candidates than without. Class means are like that
    where one class is much rarer than another. A negligible share is none.
    """
    likelihood = np.stack([one.likelihood for one in calibrations])
    shares = stack(likelihood)
    plausible = np.array([_mostly_right(one.transition) for one in calibrations])
    if plausible.any() and not plausible.all():
        fewer = stack(likelihood[plausible])
        if np.log(fewer @ likelihood[plausible]).sum() >= np.log(shares @ likelihood).sum():
            shares[:] = 0.0
            shares[plausible] = fewer
    shares[shares < _NEGLIGIBLE] = 0.0
    kept: Floats = shares / shares.sum()
    return kept


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
