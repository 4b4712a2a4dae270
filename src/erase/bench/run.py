"""What a method is given under a protocol, and how its answer compares with the truth."""

from copy import copy
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch_geometric.data import Data

from erase.fields import encode_labels, read_splits
from erase.methods import NodeClassifier
from erase.noise import Draw, Matrix, corrupt


@dataclass(frozen=True)
class Protocol:
    """How labels come about; a number without its protocol says little.

    Attributes:
        noise: "redrawn" from every seed, or "fixed": the one draw behind the published tables.
        validation: labels that choose the epoch: "clean", "noisy" like the training labels, or
            "none".
    """

    noise: Draw
    validation: Literal["clean", "noisy", "none"]


PROTOCOLS: dict[str, Protocol] = {
    "paper": Protocol(noise="fixed", validation="clean"),
    "honest": Protocol(noise="redrawn", validation="noisy"),
}


def given_labels(
    clean: Data,
    noise: str | Matrix,
    rate: float | None,
    seed: int,
    protocol: Protocol,
) -> Data:
    """Return the graph as a method gets it under `protocol`: corrupted, test labels removed."""
    if protocol.validation == "none":
        clean = copy(clean)
        y, _, _ = encode_labels(clean)
        splits = read_splits(clean, y)
        clean.train_mask, clean.test_mask = splits.train, splits.test
        clean.val_mask = torch.zeros_like(splits.val)
    on: Literal["train", "train+val"] = "train+val" if protocol.validation == "noisy" else "train"
    return corrupt(clean, noise, rate, seed, on=on, draw=protocol.noise)


def score(model: NodeClassifier, clean: Data, given: Data) -> dict[str, float]:
    """Return how a fitted `model` compares with the labels of `clean`, in shares of 1.

    ``test_accuracy``
        predictions on the test nodes; left out where no test label is known.
    ``correction_rate``
        of the mislabelled training nodes, those predicted right; left out where none is.
    ``accuracy_correct``
        of the correctly labelled training nodes, those predicted right.
    ``semantic_accuracy``
        the method's own labels (`labels_`) on the test nodes.
    """
    truth, _, values = encode_labels(clean)
    told, _, _ = encode_labels(given)
    true = values[truth.numpy()]
    known = (truth >= 0).numpy()
    splits = read_splits(given, told)
    train_mask = (splits.train & (told >= 0)).numpy()
    wrong = train_mask & known & (truth != told).numpy()
    right = train_mask & known & ~wrong
    test_mask = splits.test.numpy() & known
    hits = model.predict() == true
    scores = {
        "test_accuracy": (hits, test_mask),
        "semantic_accuracy": (model.labels_ == true, test_mask),
        "correction_rate": (hits, wrong),
        "accuracy_correct": (hits, right),
    }
    shares = {name: float(np.mean(hit[mask])) for name, (hit, mask) in scores.items() if mask.any()}
    return shares | {"mislabelled": int(wrong.sum()), "train_labels": int(train_mask.sum())}
