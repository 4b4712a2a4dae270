"""The audit: out-of-fold models, decision and neighbours put together."""

import platform
import sys
import time
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone

from erase.audit.decision import Decision, decide
from erase.audit.neighbours import neighbour_agreement
from erase.audit.out_of_fold import out_of_sample
from erase.audit.result import Audit, issue_table
from erase.audit.transitions import with_even_intervals
from erase.audit.trusted import FEWEST, Trusted, redo
from erase.audit.witnesses import gather
from erase.data.task import NodeTask
from erase.errors import EraseError, memory_errors
from erase.methods import NodeClassifier, build_method, default_params
from erase.methods.base import SHARE, resolve_device, show_notes
from erase.methods.relabelling.trusted import Evidence
from erase.training.processes import rank
from erase.version import __version__

# Defaults of an audit, the same in Python, on the command line and in studies.
DEFAULT_METHOD = "relabelling"
FOLDS = 5
# Most epochs of a method given by its name: an audit trains one model per fold.
MAX_EPOCHS = 150


@memory_errors()
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
    than chance (``decision.agreement``), nothing is flagged. A trusted label is never flagged: it
    shows whether the given one is right.

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
    found, _ = audit_with_evidence(
        graph,
        method=method,
        folds=folds,
        max_false_alarms=max_false_alarms,
        seed=seed,
        device=device,
        progress=progress,
    )
    return found


def audit_with_evidence(graph: Any, **options: Any) -> tuple[Audit, Evidence]:
    """Return the :func:`audit` of a graph, and what trusted labels can learn from later.

    :func:`redo` then needs no new models. The options are those of :func:`audit`.
    """
    found = audit_by_all(graph, **options)
    if found is None:
        raise EraseError(
            "the first of several processes, which has the audit",
            f"process {rank()}",
            "Call erase.audit.run.audit_by_all, which returns None in the others.",
        )
    return found


def audit_by_all(
    graph: Any,
    *,
    method: str | NodeClassifier = DEFAULT_METHOD,
    folds: int = FOLDS,
    max_false_alarms: float = 0.2,
    seed: int = 0,
    device: str = "auto",
    progress: bool = False,
) -> tuple[Audit, Evidence] | None:
    """Return what :func:`audit_with_evidence` does; None in all but the first of many processes.

    These end before the labels are decided, and hold neither representations nor a result.
    The arguments are those of :func:`audit`.
    """
    start = time.perf_counter()
    model = _model(method, seed, device)
    if not SHARE.accepts(max_false_alarms):
        raise EraseError(
            "max_false_alarms, a share from 0 to 1",
            repr(max_false_alarms),
            "Pass max_false_alarms=0.2, for example.",
            "max_false_alarms",
        )
    task = model.read(graph)
    if progress:
        show_notes(task, graph)
    out_of_fold = out_of_sample(task, model, folds, seed, progress=progress)
    given, fold = out_of_fold.given, out_of_fold.fold
    embedding, views = out_of_fold.embedding, out_of_fold.views
    places = embedding if out_of_fold.smoothed is None else out_of_fold.smoothed
    labelled = given >= 0
    pred_probs = out_of_fold.proba.astype(np.float64)
    pred_probs /= pred_probs.sum(1, keepdims=True)
    del out_of_fold  # it can predict by every fold, and holds what that takes
    device_used = resolve_device(model.device)
    if progress:
        print("Neighbours' labels and places in the graph …", file=sys.stderr)
    witnesses = gather(task, fold, seed, device_used, views)
    if rank() > 0:
        return None
    audited = given[labelled]
    decision = decide(
        audited,
        pred_probs[labelled],
        max_false_alarms=max_false_alarms,
        seed=seed,
        witnesses=witnesses,
        corrected=model.corrects_noise,
    )
    smoothed = pred_probs[labelled] if witnesses.smoothed is None else witnesses.smoothed
    rows = places if labelled.all() else places[labelled]
    evidence = Evidence(smoothed, witnesses.graph, audited, rows)
    edge_index = task.edge_index.numpy().copy()
    around = neighbour_agreement(edge_index, given)
    decision = replace(decision, agreement=replace(decision.agreement, neighbours=around))
    trusted = None if task.trusted is None else task.trusted.numpy().copy()
    if trusted is not None:
        is_random = trusted >= 0
        if task.trusted_random is not None:
            is_random &= task.trusted_random.numpy()
        pairs = Trusted(trusted[labelled], is_random[labelled])
        decision = redo(decision, evidence, pairs, max_false_alarms=max_false_alarms, seed=seed)
    decision = with_even_intervals(decision)
    made = int(fold.max()) + 1
    node_names = None if task.node_names is None else tuple(task.node_names)
    node_ids = None if task.node_ids is None else tuple(task.node_ids)
    found = Audit(
        issues=issue_table(
            node_ids, node_names, task.class_names, given, decision, edge_index, pred_probs, trusted
        ),
        class_names=task.class_names,
        label_values=task.label_values,
        pred_probs=pred_probs,
        given=given,
        decision=decision,
        embedding=embedding,
        edge_index=edge_index,
        node_names=node_names,
        node_ids=node_ids,
        settings={
            "method": type(model).__name__,
            "parameters": model.plain_params(),
            "folds": made,
            "seed": seed,
            "max_false_alarms": max_false_alarms,
            "device": str(device_used),
            "versions": {
                "erase": __version__,
                "torch": str(torch.__version__),
                "python": platform.python_version(),
            },
        },
        notes=(
            *task.notes,
            *_notes(task, given, folds, made),
            *_doubts(task, decision),
            *_too_few_trusted(given, trusted),
        ),
        seconds=time.perf_counter() - start,
        trusted=trusted,
    )
    return found, evidence


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


def _doubts(task: NodeTask, decision: Decision) -> list[str]:
    """Return what limits the audit, in sentences."""
    notes = []
    noise = decision.feature_noise
    if decision.agreement.is_informative and noise is not None and noise.probability > 0:
        follow = "follow" if noise.is_certain else "may follow"
        notes.append(
            f"Mistakes {follow} the features: models that read features repeat them, so some wrong "
            "labels look right."
        )
    looked_for = decision.agreement.is_informative and not decision.confirmed
    if looked_for and noise is None and task.feature_contract.source != "edges":
        notes.append(
            "Whether mistakes follow the features is not known: that takes 100 audited labels, at "
            "half of the nodes or more. If they do, many wrong labels look right."
        )
    if decision.confirmed and task.trusted_random is None:
        notes.append(
            f"The estimate takes the {decision.confirmed} trusted labels for a random sample; set "
            "trusted_random if they are not."
        )
    if not decision.agreement.is_informative:
        notes.append(f"No label is flagged: {decision.agreement}.")
    return notes


def _too_few_trusted(given: NDArray[np.int64], trusted: NDArray[np.int64] | None) -> list[str]:
    """Return what is missing where there are trusted labels, but too few to learn from."""
    pairs = np.zeros(0, bool) if trusted is None else ((given >= 0) & (trusted >= 0))
    count = int(pairs.sum())
    if trusted is None or not 0 < count < FEWEST:
        return []
    wrong = int((given[pairs] != trusted[pairs]).sum())
    return [
        f"{count} trusted labels, {wrong} of them other than the given one, are too few to "
        f"estimate from: confirm {FEWEST - count} more."
    ]


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
