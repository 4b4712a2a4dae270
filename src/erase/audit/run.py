"""The audit: out-of-fold models, decision and neighbours put together."""

import platform
import sys
import time
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone

from erase.audit.decision import Decision, decide
from erase.audit.out_of_fold import out_of_sample
from erase.audit.result import Audit, issue_table
from erase.data.task import NodeTask
from erase.errors import EraseError
from erase.methods import NodeClassifier, build_method, default_params
from erase.methods.base import SHARE, resolve_device
from erase.version import __version__

# Defaults of an audit, the same in Python, on the command line and in studies.
DEFAULT_METHOD = "relabelling"
FOLDS = 5
# Most epochs of a method given by its name: an audit trains one model per fold.
MAX_EPOCHS = 150


def audit(
    graph: Any,
    *,
    method: str | NodeClassifier = DEFAULT_METHOD,
    folds: int = FOLDS,
    max_false_alarms: float = 0.2,
    seed: int = 0,
    device: str = "auto",
    progress: bool = False,
) -> Audit:
    """Find the wrong labels of a graph: which they are, what they should be, how sure that is.

    The labels of training and validation nodes are audited; in a graph without a split, all labels.
    The graph is not changed. Where the models predict the given labels hardly better
    than chance (``decision.agreement``), nothing is flagged.

    Args:
        graph: a PyG ``Data``, a ``NodeTask``, or anything ``NodeTask.of`` takes.
        method: of the out-of-fold models: a name in ``METHODS``, which trains for at most
            `MAX_EPOCHS` epochs, or a method with its own parameters, seed and device.
        folds: how many models; each label is predicted by one that neither trained on it nor chose
            its epoch by it.
        max_false_alarms: the largest expected share of right labels among those flagged. Only a
            label for which another class is more probable is ever flagged.
        seed: of the folds, of a method given by its name, and of the intervals.
        device: "auto", "cpu" or "cuda", of a method given by its name.
        progress: show what was done to the graph, models, epochs and time left.
    """
    start = time.perf_counter()
    model = _model(method, seed, device)
    if not SHARE.accepts(max_false_alarms):
        raise EraseError(
            "max_false_alarms, a share from 0 to 1",
            repr(max_false_alarms),
            "Pass max_false_alarms=0.2, for example.",
        )
    task = model.read(graph)
    if progress:
        for note in task.notes:
            print(f"Note: {note}", file=sys.stderr)
    out_of_fold = out_of_sample(task, model, folds, seed, progress=progress)
    labelled = out_of_fold.given >= 0
    pred_probs = out_of_fold.proba.astype(np.float64)
    pred_probs /= pred_probs.sum(1, keepdims=True)
    decision = decide(
        out_of_fold.given[labelled],
        pred_probs[labelled],
        max_false_alarms=max_false_alarms,
        seed=seed,
    )
    made = int(out_of_fold.fold.max()) + 1
    given, edge_index = out_of_fold.given, task.edge_index.numpy().copy()
    node_names = None if task.node_names is None else tuple(task.node_names)
    node_ids = None if task.node_ids is None else tuple(task.node_ids)
    return Audit(
        issues=issue_table(
            node_ids, node_names, task.class_names, given, decision, edge_index, pred_probs
        ),
        class_names=task.class_names,
        label_values=task.label_values,
        pred_probs=pred_probs,
        given=given,
        decision=decision,
        embedding=out_of_fold.embedding,
        edge_index=edge_index,
        node_names=node_names,
        node_ids=node_ids,
        settings={
            "method": type(model).__name__,
            "parameters": model.plain_params(),
            "folds": made,
            "seed": seed,
            "max_false_alarms": max_false_alarms,
            "device": str(resolve_device(model.device)),
            "versions": {
                "erase": __version__,
                "torch": str(torch.__version__),
                "python": platform.python_version(),
            },
        },
        notes=(*task.notes, *_notes(task, given, folds, made), *_doubt(decision)),
        seconds=time.perf_counter() - start,
    )


def audit_params(method: str) -> dict[str, Any]:
    """Return what an audit changes in a method's preset: fewer epochs, where it has any.

    >>> audit_params("ce"), audit_params("label-propagation")
    ({'epochs': 150}, {})
    """
    epochs = default_params(method).get("epochs")
    return {} if epochs is None else {"epochs": min(epochs, MAX_EPOCHS)}


def _model(method: str | NodeClassifier, seed: int, device: str) -> NodeClassifier:
    """Return the method to train: a copy of the user's own, or one by its name."""
    if isinstance(method, NodeClassifier):
        model: NodeClassifier = clone(method)
    else:
        model = build_method(method, seed=seed, device=device, **audit_params(method))
    model.check_params()
    return model


def _doubt(decision: Decision) -> list[str]:
    """Return a sentence where wrong labels cannot be distinguished from right ones."""
    if decision.agreement.is_informative:
        return []
    return [f"No label is flagged: {decision.agreement}."]


def _notes(task: NodeTask, given: NDArray[np.int64], folds: int, made: int) -> list[str]:
    """Return what the user should know about the folds, in sentences."""
    notes = []
    if made < folds:
        notes.append(f"{made} folds are used instead of {folds}: there are only {made} labels.")
    counts = np.bincount(given[given >= 0], minlength=task.num_classes)
    if single := [repr(task.class_names[k]) for k in np.flatnonzero(counts == 1)]:
        shown = ", ".join(single[:5]) + (f" and {len(single) - 5} more" if len(single) > 5 else "")
        notes.append(f"The only label of a class cannot be checked: {shown}.")
    return notes
