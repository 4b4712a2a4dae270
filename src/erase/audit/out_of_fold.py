"""Out-of-fold probabilities: each labelled node is predicted by a model without its label."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone

from erase.audit.decision import no_shared_class
from erase.data.task import NodeTask
from erase.errors import EraseError
from erase.methods.base import CrossFit, NodeClassifier, resolve_device
from erase.methods.relabelling.noise_model import assign_folds
from erase.random import numpy_stream

Nodes = NDArray[np.int64]

# With fewer labels than this, selecting an epoch is guesswork: models train without validation.
_FEWEST_VALIDATION_LABELS = 10
MOST_FOLDS = 1_000  # each trains a model and keeps predictions of every node


@dataclass(frozen=True, eq=False)
class OutOfFold:
    """Out-of-fold predictions: each by a model trained without the node's own label.

    Attributes:
        given: [N] given class of every node, -1 where none.
        proba: [N, K] by the model that never saw the node's label; the mean over all models where
            the node has none. Rows sum to 1. A row is uniform where the model was trained without
            any label of the node's given class, since it cannot predict that class.
        fold: [N] the fold of the node, which is the model that predicts it; -1 without a label.
        embedding: [N, D] of the first fold's model; those of several models share no axes.
        models: returns the predictions of every model for every node, see `by_fold`.
        views: [n, K] by name, predictions by parts of the features for the labelled nodes.
        smoothed: [N, D] features smoothed over the graph, where the method has some.
    """

    given: NDArray[np.int64]
    proba: NDArray[np.float32]
    fold: NDArray[np.int64]
    embedding: NDArray[np.float32]
    models: Callable[[], NDArray[np.float32]]
    views: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    smoothed: NDArray[np.float32] | None = None

    @cached_property
    def by_fold(self) -> NDArray[np.float32]:
        """[folds, N, K] of every model, for every node, computed when first used.

        To compare a node with its neighbours, take the model of the node's fold: only that one
        never saw its label.
        """
        return self.models()


def out_of_sample(
    task: NodeTask,
    method: NodeClassifier,
    folds: int,
    seed: int = 0,
    *,
    progress: bool = False,
) -> OutOfFold:
    """Return out-of-fold predictions for the given labels of training and validation nodes.

    The labels are split into folds. Model k does not see those of fold k, selects its epoch by
    those of fold k+1, and trains on the rest. With few labels, or two folds, there is no validation
    fold: the model trains on all the rest and its last epoch counts. All models are trained at once
    on a GPU, and for methods without epochs; shared work is then done once.

    Args:
        task: the graph and its given labels.
        method: the method to train on every fold, with its parameters and seed.
        folds: how many models; no more than there are labels.
        seed: of the split into folds.
        progress: show which model is trained, epochs and time left.
    """
    check_folds(task, folds)
    given = task.y.numpy()
    labelled = np.flatnonzero(given >= 0)
    fold = np.full(len(given), -1)
    stream = numpy_stream(seed, "audit folds")
    fold[labelled] = assign_folds(given[labelled], int(folds), stream)
    crossed = method.cross_fit(task, fold, progress=progress)
    if crossed is None:
        crossed = _one_by_one(method, fold_tasks(task, fold, seed), fold, progress)
    proba = crossed.own
    unknown = labelled[~crossed.classes_seen[fold[labelled], given[labelled]]]
    proba[unknown] = 1 / task.num_classes
    return OutOfFold(
        given.copy(),
        proba,
        fold,
        crossed.embedding,
        crossed.by_fold,
        crossed.views,
        crossed.smoothed,
    )


def _one_by_one(
    method: NodeClassifier, tasks: Sequence[NodeTask], fold: Nodes, progress: bool
) -> CrossFit:
    """Return the predictions of a model of each task, which misses the labels of one fold."""
    probas = []
    embedding = np.empty(0, np.float32)
    for model in _fitted(method, tasks, progress):
        probas.append(model.predict_proba())
        embedding = embedding if len(probas) > 1 else model.transform()
    classes = np.arange(tasks[0].num_classes)
    classes_seen = np.stack(
        [np.isin(classes, task.learning_labels[task.train_mask].numpy()) for task in tasks]
    )
    by_fold, labelled = np.stack(probas), np.flatnonzero(fold >= 0)
    own = by_fold.mean(0)
    own[labelled] = by_fold[fold[labelled], labelled]
    return CrossFit(own, classes_seen, embedding, lambda: by_fold)


def check_folds(task: NodeTask, folds: int) -> None:
    """Raise an EraseError where the labels or the number of folds do not allow an audit."""
    given = task.y[task.y >= 0].numpy()
    counts = np.bincount(given)
    if np.count_nonzero(counts) < 2:
        raise EraseError(
            "given labels of at least two classes",
            f"{len(given)} labels of {np.count_nonzero(counts)} classes",
            "Label nodes of another class: with one class no label can be wrong.",
        )
    if counts.max() < 2:
        raise no_shared_class(len(given))
    is_whole = isinstance(folds, int | np.integer) and not isinstance(folds, bool)
    if not is_whole or not 2 <= folds <= MOST_FOLDS:
        raise EraseError(
            f"2 to {MOST_FOLDS:,} folds", repr(folds), "Pass folds=5, for example.", option="folds"
        )


def fold_tasks(task: NodeTask, fold: Nodes, seed: int) -> list[NodeTask]:
    """Return what each model is given: the graph without the labels of its fold, trusted or not.

    A label of the validation fold trains instead where its class would have none in training; with
    two folds there is no validation. All models have the same numbers of training and of validation
    labels, as training them at once needs: where one has more, labels of its most frequent class
    stay out, at random.

    Args:
        task: the graph and its labels.
        fold: [N] of each labelled node, -1 elsewhere.
        seed: of what stays out.
    """
    count = int(fold.max()) + 1
    given = task.learning_labels.numpy()
    selects = (fold >= 0).sum() // count >= _FEWEST_VALIDATION_LABELS
    train, val = [], []
    for k in range(count):
        validates = (fold == (k + 1) % count) & selects
        trains = (fold >= 0) & (fold != k) & ~validates
        needed = validates & ~np.isin(given, given[trains])
        train.append(trains | needed)
        val.append(validates & ~needed)
    rng = numpy_stream(seed, "audit surplus")
    _level(train, given, rng)
    _level(val, given, rng)
    plain = replace(task, notes=())
    return [
        plain.with_splits(*map(torch.from_numpy, masks)) for masks in zip(train, val, strict=True)
    ]


def _level(masks: Sequence[NDArray[np.bool_]], given: Nodes, rng: np.random.Generator) -> None:
    """Take nodes out of `masks` [N] until all have as many as the smallest."""
    fewest = min(int(mask.sum()) for mask in masks)
    for mask in masks:
        for _ in range(int(mask.sum()) - fewest):
            most_frequent = np.bincount(given[mask]).argmax()
            mask[rng.choice(np.flatnonzero(mask & (given == most_frequent)))] = False


def _fitted(
    method: NodeClassifier, tasks: Sequence[NodeTask], progress: bool
) -> Iterator[NodeClassifier]:
    """Yield a fitted model of each task: all at once, or one after the other to save memory."""
    epochs = "epochs" in method.get_params(deep=False)
    if resolve_device(method.device).type == "cuda" or not epochs:
        if progress:
            print(f"{len(tasks)} models at once …", file=sys.stderr)
        yield from method.fit_many(tasks, [method.seed] * len(tasks), progress=progress)
        return
    start = time.monotonic()
    for k, task in enumerate(tasks):
        if progress:
            spent = time.monotonic() - start
            left = f", about {spent / k * (len(tasks) - k):.0f} s left" if k else ""
            print(f"Model {k + 1} of {len(tasks)}{left} …", file=sys.stderr)
        yield clone(method).fit(task, progress=progress)
