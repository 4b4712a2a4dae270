"""What a method is given under a protocol, and how its answer compares with the truth."""

from copy import copy
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import f1_score
from torch import Tensor
from torch_geometric.data import Data

from erase.bench.records import Cell
from erase.data.labels import encode_labels, refuse_other_labels
from erase.data.noise import Draw, Matrix, corrupt
from erase.data.splits import read_splits
from erase.errors import EraseError
from erase.methods import METHODS, NodeClassifier
from erase.methods.network import NetworkClassifier
from erase.random import numpy_stream

_POOL_VALIDATION = 5  # one label in this many selects the epoch


@dataclass(frozen=True)
class Protocol:
    """How noisy labels are made; a result is reported with its protocol.

    Attributes:
        noise: "redrawn" from every seed, or "fixed": the one draw behind the published tables.
        validation: labels that choose the epoch: "clean", "noisy" like the training labels, or
            "none".
        labels: which labels are given: those of the graph's "split"; the same as one "pool", of
            which a method that selects an epoch trains on four fifths, and any other on all; or
            "all" labels of the graph for training, whatever its split.
    """

    noise: Draw
    validation: Literal["clean", "noisy", "none"]
    labels: Literal["split", "pool", "all"] = "split"


PROTOCOLS: dict[str, Protocol] = {
    "paper": Protocol(noise="fixed", validation="clean"),
    "honest": Protocol(noise="redrawn", validation="noisy"),
    "pool": Protocol(noise="redrawn", validation="noisy", labels="pool"),
    "all-labels": Protocol(noise="redrawn", validation="none", labels="all"),
}


def given_labels(
    clean: Data,
    noise: str | Matrix,
    rate: float | None,
    seed: int,
    protocol: Protocol,
    labels_per_class: int | None = None,
    selects_epoch: bool = True,
) -> Data:
    """Return the graph as a method gets it under `protocol`: corrupted, test labels removed.

    Args:
        clean: the graph with all its labels.
        noise: a name in ``NOISES``, a matrix ``[true, given]``, or "none".
        rate: φ; None with a matrix, 0 or None with "none".
        seed: of the draw, where the protocol redraws it.
        protocol: how labels come about.
        labels_per_class: keep this many training labels of each true class, chosen at random after
            the noise was drawn: fewer labels are a part of more. None keeps all.
        selects_epoch: whether the method selects an epoch by validation labels. Of a pool it gets a
            fifth for that, drawn by the seed, of each given class alike; without it, none.
    """
    y, _, _ = encode_labels(clean)
    if protocol.labels == "all":
        nowhere = torch.zeros_like(y, dtype=torch.bool)
        clean = _with_splits(clean, y >= 0, nowhere, nowhere)
    splits = read_splits(clean, y)
    draw = protocol.noise
    if isinstance(noise, str) and noise == "none":
        if rate:
            raise EraseError("rate 0 without noise", f"rate={rate}", "Choose a noise, or rate 0.")
        noise, rate, draw = "symmetric", 0.0, "redrawn"
    on: Literal["train", "train+val"] = "train+val" if protocol.validation == "noisy" else "train"
    val = splits.val
    if protocol.validation == "none":
        val = torch.zeros_like(val)
        clean = _with_splits(clean, splits.train, val, splits.test)
    given = corrupt(clean, noise, rate, seed, on=on, draw=draw)
    train = splits.train
    if protocol.labels == "pool":
        pooled = train | val
        val = _pool_for_validation(given, pooled, seed) if selects_epoch else torch.zeros_like(val)
        train = pooled & ~val
        given = _with_splits(given, train, val, splits.test)
    if labels_per_class is None:
        return given
    choice = 0 if protocol.noise == "fixed" else seed
    kept = _some_of_each_class(y, train, labels_per_class, choice)
    return _with_splits(given, kept, val, splits.test)


def _with_splits(graph: Data, train: Tensor, val: Tensor, test: Tensor) -> Data:
    graph = copy(graph)
    graph.train_mask, graph.val_mask, graph.test_mask = train, val, test
    return graph


def _pool_for_validation(given: Data, pooled: Tensor, seed: int) -> Tensor:
    """Return a mask [N] of a fifth of the pooled labels, of each given class alike."""
    y, _, _ = encode_labels(given)
    nodes = numpy_stream(seed, "pool").permutation(np.flatnonzero(pooled.numpy()))
    by_class = nodes[np.argsort(y.numpy()[nodes], kind="stable")]
    val = torch.zeros_like(pooled)
    val[torch.from_numpy(by_class[_POOL_VALIDATION - 1 :: _POOL_VALIDATION])] = True
    return val


def _some_of_each_class(y: Tensor, train: Tensor, count: int, seed: int) -> Tensor:
    """Return a mask [N] of `count` training nodes of each class, all where there are fewer."""
    order = numpy_stream(seed, "labels per class").permutation(y.numel())
    kept = torch.zeros_like(train)
    for k in range(int(y.max()) + 1):
        members = (train & (y == k)).numpy()
        kept[torch.from_numpy(order[members[order]][:count])] = True
    return kept


def labels_of_cell(clean: Data, cell: Cell) -> Data:
    """Return the graph as the method of a cell gets it."""
    return given_labels(
        clean,
        cell.noise,
        cell.rate,
        cell.seed,
        PROTOCOLS[cell.protocol],
        cell.labels_per_class,
        selects_epoch(cell.method),
    )


def selects_epoch(method: str) -> bool:
    """Return whether a method selects an epoch by validation labels: networks do.

    A detector of wrong labels gets all labels in any case.
    """
    return method not in METHODS or issubclass(METHODS[method], NetworkClassifier)


def score(model: NodeClassifier, clean: Data, given: Data | None) -> dict[str, float]:
    """Return how a fitted `model` compares with the labels of `clean`, in shares of 1.

    A true class that the model does not know is a wrong answer. Labels of another kind than the
    model's, or without any of its classes, are refused.

    Args:
        model: fitted to `given`, or to `clean` where that is None.
        clean: the graph with all its labels.
        given: the graph as the model got it; None where `clean` has the only labels, which may be
            wrong. Scores of wrong and right labels are then left out, and the others measure the
            agreement with the labels as they are.

    ``test_accuracy``
        predictions on the test nodes; left out where no test label is known.
    ``macro_f1``
        of the same predictions: the mean over classes of 2 TP / (2 TP + FP + FN).
    ``correction_rate``
        of the mislabelled training nodes, those predicted right; left out where none is.
    ``accuracy_correct``
        of the correctly labelled training nodes, those predicted right.
    ``semantic_accuracy``
        the method's own labels (`labels_`) on the test nodes.
    ``calibration_error``
        how far confidence is from accuracy on the test nodes, see `calibration_error`.
    ``mislabelled``, ``train_labels``
        how many training labels are wrong, and how many there are.
    """
    truth, _, values = encode_labels(clean)
    learnt = clean if given is None else given
    given_y, _, given_values = encode_labels(learnt)
    refuse_other_labels(model.classes_, values, "clean labels")
    refuse_other_labels(model.classes_, given_values, "given labels")
    true, given_classes = values[truth.numpy()], given_values[given_y.numpy()]
    known = (truth >= 0).numpy()
    splits = read_splits(learnt, given_y)
    train_mask = (splits.train & (given_y >= 0)).numpy()
    test_mask = splits.test.numpy() & known
    predicted = model.predict()
    hits = predicted == true
    scores = {
        "test_accuracy": (hits, test_mask),
        "semantic_accuracy": (model.labels_ == true, test_mask),
    }
    counts = {"train_labels": int(train_mask.sum())}
    if given is not None:
        wrong = train_mask & known & (true != given_classes)
        right = train_mask & known & ~wrong
        scores |= {"correction_rate": (hits, wrong), "accuracy_correct": (hits, right)}
        counts = {"mislabelled": int(wrong.sum()), **counts}
    shares = {name: float(np.mean(hit[mask])) for name, (hit, mask) in scores.items() if mask.any()}
    if test_mask.any():
        shares["macro_f1"] = float(f1_score(true[test_mask], predicted[test_mask], average="macro"))
        confidence = model.predict_proba().max(1)[test_mask]
        shares["calibration_error"] = calibration_error(confidence, hits[test_mask])
    return shares | counts


def calibration_error(
    confidence: NDArray[np.floating[Any]], hits: NDArray[np.bool_], bins: int = 10
) -> float:
    """Return the expected calibration error: |confidence − accuracy|, averaged over nodes.

    Both are means over the nodes of a bin, of which there are ten of equal width.

    >>> round(calibration_error(np.array([0.95, 0.93, 0.55]), np.array([True, True, False])), 3)
    0.223

    Args:
        confidence: [n] the largest probability of each node.
        hits: [n] whether the class that has it is right.
        bins: their number.
    """
    place = np.minimum((confidence * bins).astype(np.int64), bins - 1)
    surplus = np.bincount(place, confidence.astype(np.float64) - hits, minlength=bins)
    return float(np.abs(surplus).sum() / len(hits))
