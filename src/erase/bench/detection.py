"""Scores of found label errors against the true ones, and the detection cells of `erase bench`."""

from collections.abc import Collection, Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import (
    average_precision_score,
    f1_score,
    matthews_corrcoef,
    roc_auc_score,
)
from torch_geometric.data import Data

from erase.audit import DEFAULT_METHOD, DETECTORS, FOLDS, Audit, Decision, OutOfFold, audit_params
from erase.audit.decision import decide
from erase.audit.detectors import Detection
from erase.audit.witnesses import GRAPH_PARTS, Witnesses, gather
from erase.bench.records import Cell
from erase.data.labels import encode_labels
from erase.data.task import NodeTask
from erase.errors import EraseError
from erase.methods import METHODS
from erase.methods.base import SHARE, SWITCH, Constraint, Number, OneOf, resolve_device

Bools = NDArray[np.bool_]


def detection_scores(
    quality: NDArray[np.float64], is_issue: Bools, wrong: Bools
) -> dict[str, float]:
    """Return how well wrong labels were found, in shares of 1; higher is better, except for alarms.

    ``auroc``, ``average_precision``
        of the ranking by quality, the lowest first; left out where no label is wrong, or all are.
    ``precision_at_t``
        the share of wrong labels among the T of lowest quality, T being how many are wrong; labels
        of equal quality share the last places.
    ``f1``, ``mcc``, ``recall``
        of what is flagged.
    ``false_alarms``
        the share of right labels among the flagged; left out where nothing is.

    Args:
        quality: [n] 1: surely right, 0: surely wrong.
        is_issue: [n] what is flagged.
        wrong: [n] the truth.
    """
    scores = {
        "f1": float(f1_score(wrong, is_issue, zero_division=0)),
        "mcc": 0.0,  # where all labels are alike
    }
    if is_issue.any():
        scores["false_alarms"] = float(np.mean(~wrong[is_issue]))
    if wrong.any() and not wrong.all():
        scores |= {
            "mcc": float(matthews_corrcoef(wrong, is_issue)),
            "recall": float(np.mean(is_issue[wrong])),
            "auroc": float(roc_auc_score(wrong, -quality)),
            "average_precision": float(average_precision_score(wrong, -quality)),
            "precision_at_t": _precision_at(int(wrong.sum()), quality, wrong),
        }
    return scores


def _precision_at(count: int, quality: NDArray[np.float64], wrong: Bools) -> float:
    """Return the share of wrong labels among the `count` of lowest quality, ties in any order."""
    last = np.sort(quality)[count - 1]
    below, tied = quality < last, quality == last
    return float(wrong[below].sum() + (count - below.sum()) * wrong[tied].mean()) / count


def score_audit(audit: Audit, clean: Data) -> dict[str, float]:
    """Return how an audit compares with the labels of `clean`: `detection_scores`, and more.

    ``mislabelled``, ``labels``
        how many labels are wrong, of how many whose true class is known.
    ``noise_rate_error``
        the estimated share of wrong labels less the true one.
    ``suggestions_right``
        of the wrong labels that are flagged, those whose suggested class is the true one; left out
        where there are none.
    """
    truth, class_names, _ = encode_labels(clean)
    true = truth.numpy()
    if class_names != audit.class_names or len(true) != len(audit.given):
        raise EraseError(
            "the clean labels of the graph that was audited",
            "one with other nodes or classes",
            "Pass the graph whose labels were corrupted.",
        )
    known = true[audit.given >= 0] >= 0  # of the labelled nodes, those whose truth is known
    given, true = (labels[audit.given >= 0][known] for labels in (audit.given, true))
    decision = audit.decision
    wrong, flagged = given != true, decision.is_issue[known]
    scores = {
        "labels": len(wrong),
        "mislabelled": int(wrong.sum()),
        "noise_rate_error": decision.noise_rate.value - float(wrong.mean()),
    }
    if (found := wrong & flagged).any():
        right = decision.suggested[known] == true
        scores["suggestions_right"] = float(np.mean(right[found]))
    return scores | detection_scores(decision.quality[known], flagged, wrong)


AUDIT = "audit"
MODEL = "judge"  # names the out-of-fold model in records and study files; shown as "model"
DETECTING: tuple[str, ...] = (AUDIT, *DETECTORS)  # ours and its rivals
# The audit uses its default model. Its rivals use cross-entropy with all its epochs: with the fewer
# epochs of an audit it predicts worse, and the comparison would be unfair.
AUDIT_MODEL: Mapping[str, Any] = {
    MODEL: DEFAULT_METHOD,
    "folds": FOLDS,
    **audit_params(DEFAULT_METHOD),
}
RIVAL_MODEL: Mapping[str, Any] = {MODEL: "ce", "folds": FOLDS}
# A single regression: shows how much the audit depends on its models.
PLAIN_MODEL: Mapping[str, Any] = {MODEL: "smoothed", "folds": FOLDS}
# No features: for noise that follows them.
GRAPH_MODEL: Mapping[str, Any] = {MODEL: "label-propagation", "folds": FOLDS}
FEATURES = "features"  # among a cell's params: whether the graph keeps its features
LEFT_OUT = "left_out"  # among a cell's params: what the prediction by the graph lacks
# The parts of the prediction by the graph that are left out, by name.
PARTS_LEFT_OUT: Mapping[str, Collection[str]] = {
    "nothing": (),
    "labels": ("neighbours", "propagation"),
    "place": ("place",),
    "graph": tuple(GRAPH_PARTS),
}
# The audit with a part of its evidence left out.
ABLATIONS: Mapping[str, Mapping[str, Any]] = {
    "labels": {**AUDIT_MODEL, LEFT_OUT: "labels"},
    "place": {**AUDIT_MODEL, LEFT_OUT: "place"},
    "graph": {**AUDIT_MODEL, LEFT_OUT: "graph"},
    "edges": {**AUDIT_MODEL, "view": "features", LEFT_OUT: "graph"},
    "features": {**AUDIT_MODEL, FEATURES: False},
}
# Rivals on edges alone. With many folds hardly a neighbour's label is missing. Without features
# the regression reads the spectral embedding of the adjacency matrix.
_MORE_FOLDS = {"folds": 20}
EDGE_MODELS: Mapping[str, Mapping[str, Any]] = {
    "propagation": {**GRAPH_MODEL, **_MORE_FOLDS},
    "neighbours": {**GRAPH_MODEL, **_MORE_FOLDS, "steps": 1, "keep": 0.0},
    "place": {**PLAIN_MODEL, "steps": 0, "neighbours": 0},
}
# The audit and its rivals on edges alone.
FEATURELESS_DETECTORS: tuple[tuple[str, Mapping[str, Any]], ...] = tuple(
    (detector, {**model, FEATURES: False})
    for detector, model in (
        (AUDIT, AUDIT_MODEL),
        *(("confidence", model) for model in EDGE_MODELS.values()),
    )
)
# The audit and its rivals where noise follows the features, each with its model.
FEATURE_NOISE_DETECTORS: tuple[tuple[str, Mapping[str, Any]], ...] = (
    (AUDIT, AUDIT_MODEL),
    ("confident-learning", AUDIT_MODEL),
    ("confident-learning", GRAPH_MODEL),
    ("confidence", GRAPH_MODEL),
    ("confidence", PLAIN_MODEL),
)


def detects(cell: Cell) -> bool:
    """Return whether a cell is about finding wrong labels, and not about predicting right ones."""
    return cell.method in DETECTING


@dataclass(frozen=True)
class DetectionSetup:
    """The parameters of a cell that `detects`.

    Attributes:
        model: the cell of the out-of-fold model, whose method is ``params["judge"]``; parameters
            that are not listed here are changes to its preset.
        folds: of the labels; each is predicted by a model that did not see it.
        max_false_alarms: the expected share of right labels that the audit may flag; its rivals
            have no such limit.
        features: whether the graph keeps its features; False: edges and labels alone.
        left_out: a name in `PARTS_LEFT_OUT`, what the prediction by the graph lacks.
    """

    model: Cell
    folds: int = FOLDS
    max_false_alarms: float = 0.2
    features: bool = True
    left_out: str = "nothing"

    @classmethod
    def of(cls, cell: Cell) -> Self:
        """Read a cell's parameters; raise an EraseError for one that cannot be used."""
        params = dict(cell.params)
        method = params.pop(MODEL, None)
        if method not in METHODS:
            raise EraseError(
                f"an out-of-fold model for {cell.method} among {', '.join(METHODS)}",
                f"{MODEL} = {method!r}",
                f"Name one as {MODEL} in params.",
            )
        limits: Mapping[str, Constraint] = {
            "folds": Number(low=2, whole=True),
            "max_false_alarms": SHARE,
            FEATURES: SWITCH,
            LEFT_OUT: OneOf(tuple(PARTS_LEFT_OUT)),
        }
        own = {key: params.pop(key, getattr(cls, key)) for key in limits}
        for key, limit in limits.items():
            if not limit.accepts(own[key]):
                raise EraseError(f"{key} to be {limit}", f"{key} = {own[key]!r}", f"Correct {key}.")
        return cls(replace(cell, method=method, params=params), **own)

    def graph(self, given: Data) -> Data:
        """Return the graph as the detector gets it: with features, or without."""
        if self.features:
            return given
        bare = copy(given)
        bare.num_nodes = given.num_nodes  # which PyG otherwise counts by the features
        bare.x = None
        return bare

    def witnesses(self, task: NodeTask, out_of_fold: OutOfFold, seed: int) -> Witnesses | None:
        """Return the separate predictions without what is left out; None where none remains."""
        parts = GRAPH_PARTS.keys() - PARTS_LEFT_OUT[self.left_out]
        if not parts:
            return None
        device = resolve_device("auto")
        return gather(task, out_of_fold.fold, seed, device, out_of_fold.views, parts)


def score_detection(
    cell: Cell, out_of_fold: OutOfFold, task: NodeTask, clean: Data
) -> dict[str, float]:
    """Return how the detector of a cell, given out-of-fold predictions, compares with the truth.

    Besides `detection_scores`: ``labels`` and ``mislabelled``, how many there are; ``flagged``, how
    many are flagged; and of the audit ``noise_rate``, its estimate, ``noise_rate_low`` and
    ``noise_rate_high``, its interval, ``noise_rate_error``, the estimate less the true share,
    ``at_least``, the stated lower bound, ``bound_holds``, whether the true share is not below it,
    ``bound_share``, the bound divided by the true share, and ``follows_features``, how
    far the audit takes the noise for one that follows the features.
    """
    truth, _, _ = encode_labels(clean)
    labelled = out_of_fold.given >= 0
    true, given = truth.numpy()[labelled], out_of_fold.given[labelled]
    known = true >= 0
    wrong = (given != true)[known]
    scores: dict[str, float] = {"labels": len(wrong), "mislabelled": int(wrong.sum())}
    found: Decision | Detection
    if cell.method == AUDIT:
        setup = DetectionSetup.of(cell)
        proba = out_of_fold.proba[labelled].astype(np.float64)
        proba /= proba.sum(1, keepdims=True)
        found = decide(
            given,
            proba,
            max_false_alarms=setup.max_false_alarms,
            seed=cell.seed,
            witnesses=setup.witnesses(task, out_of_fold, cell.seed),
            corrected=METHODS[setup.model.method].corrects_noise,
        )
        rate, noise = found.noise_rate, found.feature_noise
        scores |= {
            "at_least": found.at_least.value,
            "at_least_low": found.at_least.low,
            "bound_holds": float(found.at_least.value <= wrong.mean()),
            "follows_features": 0.0 if noise is None else noise.probability,
            "noise_rate": rate.value,
            "noise_rate_low": rate.low,
            "noise_rate_high": rate.high,
            "noise_rate_error": rate.value - float(wrong.mean()),
        }
        if wrong.any():
            scores["bound_share"] = found.at_least.value / float(wrong.mean())
    else:
        found = DETECTORS[cell.method](out_of_fold, task.edge_index, cell.seed)
    flagged = found.is_issue[known]
    scores["flagged"] = int(flagged.sum())
    return scores | detection_scores(found.quality[known], flagged, wrong)
