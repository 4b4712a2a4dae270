"""A simulated reviewer: how much is right after a number of labels were reviewed, by strategy.

A cell asks for labels in batches of 25, chosen by its strategy, and is scored after a number of
answers. The strategies ``audit-…`` are those of :mod:`erase.audit.queue`: after each batch the
audit is redone with the trusted labels. The strategies ``plain-…`` are for comparison: a logistic
regression on the reviewed labels alone, from the columns of :class:`_Plain`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.linear_model import LogisticRegression
from torch_geometric.data import Data

from erase.audit import FOLDS, Audit
from erase.audit.queue import Strategy, random_sample, rank
from erase.audit.run import audit_with_evidence
from erase.audit.trusted import Trusted, redo
from erase.audit.witnesses import held_out
from erase.bench.detection import DetectionSetup
from erase.bench.records import Cell
from erase.data.labels import encode_labels
from erase.data.task import NodeTask
from erase.errors import EraseError
from erase.methods.base import SHARE, resolve_device
from erase.methods.relabelling.ensemble import smoothed_features
from erase.methods.relabelling.noise_model import assign_folds
from erase.methods.relabelling.trusted import Evidence
from erase.random import numpy_stream

Floats = NDArray[np.float64]
Classes = NDArray[np.int64]
Bools = NDArray[np.bool_]
Scores = dict[str, float]

REVIEWED = "reviewed"  # among a cell's params: how many labels
REVIEWER_ERRORS = "reviewer_errors"  # the share of answers that are wrong
BATCH = 25
AUDITING: Mapping[str, Strategy] = {
    "audit-gain": "gain",
    "audit-suspicious": "suspicious",
    "audit-random": "random",
}
PLAIN = ("plain-random", "plain-margin", "plain-clusters", "plain-activelab")
REVIEWING = (*AUDITING, *PLAIN)

_NEAR = 0.05  # of the false alarms that were asked for
_STRENGTH = 3.0  # C of the plain regressions
_WIDTH = 128  # of the smoothed features
_OF_FEATURES, _OF_PROBA, _OF_LABEL = 3.0, 2.0, 0.7  # scales of the plain columns


def reviews(cell: Cell) -> bool:
    """Return whether a cell is about a simulated review."""
    return cell.method in REVIEWING


def check_review(cell: Cell) -> None:
    """Raise an EraseError where the parameters of a cell that `reviews` cannot be used."""
    if unknown := sorted(cell.params.keys() - {REVIEWED, REVIEWER_ERRORS}):
        raise EraseError(
            f"params of {cell.method} among {REVIEWED}, {REVIEWER_ERRORS}",
            unknown[0],
            "Correct the name.",
        )
    count, errors = cell.params.get(REVIEWED), cell.params.get(REVIEWER_ERRORS, 0.0)
    if type(count) is not int or count < 0 or count % BATCH:
        raise EraseError(
            f"{REVIEWED} to be a multiple of {BATCH}", f"{REVIEWED} = {count!r}", "Correct it."
        )
    if not SHARE.accepts(errors):
        raise EraseError(
            f"{REVIEWER_ERRORS} to be {SHARE}", f"{REVIEWER_ERRORS} = {errors!r}", "Correct it."
        )


@dataclass(frozen=True, eq=False)
class Draw:
    """A graph with wrong labels: its audit, and what every strategy starts from.

    Attributes:
        audit: without trusted labels.
        evidence: about the n labelled nodes.
        task: the graph and its given labels.
        truth: [n] true classes of the labelled nodes, -1 where unknown.
        seed: of folds, choices and answers.
    """

    audit: Audit
    evidence: Evidence
    task: NodeTask
    truth: Classes
    seed: int

    @classmethod
    def of(cls, given: Data, clean: Data, seed: int, device: str) -> "Draw":
        """Return the draw of a graph as a method gets it, and as it is."""
        task = NodeTask.from_data(given)
        audit, evidence = audit_with_evidence(
            task, max_false_alarms=DetectionSetup.max_false_alarms, seed=seed, device=device
        )
        truth, _, _ = encode_labels(clean)
        return cls(audit, evidence, task, truth.numpy()[audit.given >= 0], seed)

    def answers(self, errors: float) -> Classes:
        """Return what the reviewer answers for each label [n]: the truth, or another class."""
        stream = numpy_stream(self.seed, "simulated reviewer")
        k = len(self.audit.class_names)
        slips = stream.random(len(self.truth)) < errors
        return np.where(
            slips, (self.truth + stream.integers(1, k, len(self.truth))) % k, self.truth
        )

    @cached_property
    def plain(self) -> "_Plain":
        """The columns of the plain strategies."""
        return _Plain.of(self)


def score_review(draw: Draw, cells: Sequence[Cell]) -> dict[Cell, Scores]:
    """Return the scores of each cell; cells that differ in the number of labels share a review.

    ``labels``, ``mislabelled``
        how many there are.
    ``accuracy``
        the share of labelled nodes whose most probable class is the true one; that of a reviewed
        node is the answer.
    ``label_accuracy``, ``flagged``, ``false_alarms``
        of the audit: the share of right labels once flagged ones are replaced by the suggested
        class and reviewed ones by the answer; how many are flagged; right ones among them, left out
        where nothing is flagged.
    ``alarms_near``, ``alarms_kept``
        whether false alarms are within 5 points of the share that was asked for, and whether they
        are at most 5 points above it.
    ``noise_rate``, ``noise_rate_low``, ``noise_rate_high``, ``interval_width``, ``covers``
        of the audit: the estimated share of wrong labels with its 90 % interval, and whether the
        true share is inside.
    """
    scores: dict[Cell, Scores] = {}
    reviews_of: dict[tuple[str, float], dict[int, Cell]] = {}
    for cell in cells:
        key = cell.method, cell.params.get(REVIEWER_ERRORS, 0.0)
        reviews_of.setdefault(key, {})[cell.params[REVIEWED]] = cell
    for (method, errors), wanted in reviews_of.items():
        answers = draw.answers(errors)
        steps = (
            _audited(draw, AUDITING[method], answers)
            if method in AUDITING
            else _plainly(draw, method, answers)
        )
        for count, found in zip(range(0, max(wanted) + 1, BATCH), steps, strict=False):
            if count in wanted:
                scores[wanted[count]] = found
    return scores


def _audited(draw: Draw, strategy: Strategy, answers: Classes) -> Iterator[Scores]:
    """Yield the scores of the audit without trusted labels, then after each batch of answers."""
    labelled = draw.audit.given >= 0
    rows = np.cumsum(labelled) - 1  # of a labelled node among the labelled ones
    audit, trusted = draw.audit, np.full(len(answers), -1)
    while True:
        yield _scores_of_audit(draw, audit, trusted)
        reviewed = np.zeros(len(labelled), dtype=bool)
        reviewed[labelled] = trusted >= 0
        nodes = rank(audit, reviewed, BATCH, strategy, seed=draw.seed)["node"].to_numpy()
        reviewed[nodes] = True
        trusted = np.where(reviewed[labelled], answers, -1)
        is_random = np.zeros(len(answers), dtype=bool)
        is_random[rows[random_sample(labelled, reviewed, draw.seed)]] = True
        decision = redo(
            draw.audit.decision,
            draw.evidence,
            Trusted(trusted, is_random),
            max_false_alarms=DetectionSetup.max_false_alarms,
            seed=draw.seed,
        )
        audit = replace(draw.audit, decision=decision)


def _scores_of_audit(draw: Draw, audit: Audit, trusted: Classes) -> Scores:
    decision, given = audit.decision, draw.evidence.given
    known = draw.truth >= 0
    wrong = (given != draw.truth)[known]
    replaced = decision.is_issue | (trusted >= 0)
    corrected = np.where(replaced, decision.suggested, given)
    flagged, rate = decision.is_issue[known], decision.noise_rate
    scores = {
        **_accuracy(draw, decision.posterior.argmax(1)),
        "label_accuracy": float((corrected == draw.truth)[known].mean()),
        "flagged": int(flagged.sum()),
        "noise_rate": rate.value,
        "noise_rate_low": rate.low,
        "noise_rate_high": rate.high,
        "interval_width": rate.high - rate.low,
        "covers": float(rate.low <= wrong.mean() <= rate.high),
    }
    if flagged.any():
        alarms = float(np.mean(~wrong[flagged]))
        above = alarms - DetectionSetup.max_false_alarms
        scores |= {
            "false_alarms": alarms,
            "alarms_near": float(abs(above) <= _NEAR),
            "alarms_kept": float(above <= _NEAR),
        }
    return scores


def _accuracy(draw: Draw, predicted: Classes) -> Scores:
    known = draw.truth >= 0
    return {
        "labels": int(known.sum()),
        "mislabelled": int((draw.evidence.given != draw.truth)[known].sum()),
        "accuracy": float((predicted == draw.truth)[known].mean()),
    }


@dataclass(frozen=True, eq=False)
class _Plain:
    """What the plain strategies use of the n labelled nodes.

    Attributes:
        features: [n, D] 128 SVD components of the smoothed features, rows of length 1.
        fold: [n] of the given labels.
        proba: [n, K] out-of-fold, by a regression of the given labels on the features.
        columns: [n, D + 3K] features, `proba`, given labels one-hot and the mean of the
            neighbours' given labels, each with its scale.
    """

    features: torch.Tensor
    fold: Classes
    proba: Floats
    columns: Floats

    @classmethod
    def of(cls, draw: Draw) -> "_Plain":
        """Return what is known of a draw before any label is reviewed."""
        task, given = draw.task, draw.evidence.given
        device = resolve_device(str(draw.audit.settings["device"]))
        labelled = torch.from_numpy(draw.audit.given >= 0)
        _, smoothed = smoothed_features(task, "far", _WIDTH, device)
        features = torch.nn.functional.normalize(smoothed["far"][labelled.to(device)], dim=1)
        fold = assign_folds(given, FOLDS, numpy_stream(draw.seed, "plain folds"))
        proba = held_out(features, given, fold, task.num_classes, _STRENGTH)
        hot = np.zeros((task.num_nodes, task.num_classes))
        hot[labelled.numpy()] = np.eye(task.num_classes)[given]
        source, target = task.edge_index.numpy()
        around = np.zeros_like(hot)
        np.add.at(around, source, hot[target])
        around /= np.maximum(around.sum(1, keepdims=True), 1.0)
        columns = [
            _OF_FEATURES * features.cpu().double().numpy(),
            _OF_PROBA * proba,
            _OF_LABEL * hot[labelled.numpy()],
            around[labelled.numpy()],
        ]
        return cls(features, fold, proba, np.hstack(columns))

    def fit(self, trusted: Classes) -> Floats:
        """Return the probabilities [n, K] of a regression on the trusted labels alone."""
        known = trusted >= 0
        classes = np.unique(trusted[known])
        proba = np.zeros_like(self.proba)
        if len(classes) < 2:
            proba[:, classes] = 1.0
        else:
            model = LogisticRegression(C=_STRENGTH, max_iter=300)
            model.fit(self.columns[known], trusted[known])
            proba[:, classes] = model.predict_proba(self.columns)
        return proba


def _plainly(draw: Draw, method: str, answers: Classes) -> Iterator[Scores]:
    """Yield the scores of the plain regression without reviewed labels, then after each batch.

    The first batch is random, except that of ActiveLab.
    """
    plain, stream = draw.plain, numpy_stream(draw.seed, "plain choices")
    trusted, proba = np.full(len(answers), -1), plain.proba
    while True:
        yield _accuracy(draw, np.where(trusted >= 0, trusted, proba.argmax(1)))
        rest = np.flatnonzero(trusted < 0)
        if method == "plain-activelab":
            now = np.where(trusted >= 0, trusted, draw.evidence.given)
            score = activelab(
                held_out(plain.features, now, plain.fold, proba.shape[1], _STRENGTH), now
            )
            nodes = rest[np.argsort(score[rest], kind="stable")[:BATCH]]
        elif method == "plain-random" or len(rest) == len(trusted) or len(rest) <= BATCH:
            nodes = stream.permutation(rest)[:BATCH]
        elif method == "plain-margin":
            nodes = rest[np.argsort(_margin(proba[rest]), kind="stable")[:BATCH]]
        else:
            nodes = rest[_central(plain.columns[rest], 1 - _margin(proba[rest]), stream)]
        trusted[nodes] = answers[nodes]
        proba = plain.fit(trusted)


def activelab(proba: Floats, label: Classes) -> Floats:
    """Return the ActiveLab score of labels [n] by one annotator (Goh and Mueller 2023).

    Of an example with the consensus label ŷ it is the weighted mean of the consensus' quality and
    of 1/K, what a new annotator is expected to add. With one annotator the model and the annotator
    weigh 1 each and the quality is the model's P(ŷ): (2 P(ŷ) + 1/K) / 3. The lowest score is
    reviewed first, so it is the order of the least probable labels.

    >>> activelab(np.array([[0.5, 0.5], [0.1, 0.9]]), np.array([0, 0])).round(3).tolist()
    [0.5, 0.233]
    """
    quality = proba[np.arange(len(label)), label]
    score: Floats = (2 * quality + 1 / proba.shape[1]) / 3
    return score


def _margin(proba: Floats) -> Floats:
    """Return the distance [n] between the two most probable classes."""
    top = np.sort(proba, axis=1)
    margin: Floats = top[:, -1] - top[:, -2]
    return margin


def _central(rows: Floats, weight: Floats, stream: np.random.Generator) -> Classes:
    """Return one row near the centre of each of 25 weighted clusters, each once."""
    seed = int(stream.integers(2**31))
    clusters = KMeans(BATCH, n_init=1, random_state=seed).fit(rows, sample_weight=weight + 1e-6)
    chosen: dict[int, None] = {}
    for away in clusters.transform(rows).T:
        nearest = np.argsort(away, kind="stable")[: BATCH + 1].tolist()
        chosen.setdefault(next(i for i in nearest if i not in chosen))
    return np.fromiter(chosen, np.int64)
