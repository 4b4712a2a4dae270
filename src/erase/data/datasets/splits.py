"""Seeded splits into training, validation and test nodes."""

import numpy as np
import torch
from torch import Tensor

from erase.errors import EraseError

Masks = tuple[Tensor, Tensor, Tensor]


def split_per_class(
    y: Tensor, rng: np.random.Generator, train_per_class: int = 20, val_per_class: int = 30
) -> Masks:
    """Draw training and validation nodes of every class; the rest is for testing.

    The nodes of a class are shuffled; the first `train_per_class` train, the next `val_per_class`
    validate. A small class fills training first: CoraFull has classes of fewer than 20 nodes, and
    all of those train. Unlabelled nodes (y = -1) are in no part. O(N log N).

    Args:
        y: class of every node, [N].
        rng: where the shuffles come from.
        train_per_class: training nodes of a class.
        val_per_class: validation nodes of a class.

    Returns:
        Training, validation and test mask, bool [N] each, disjoint.

    >>> y = torch.tensor([0, 0, 0, 0, 1, 1])
    >>> [int(m.sum()) for m in split_per_class(y, np.random.default_rng(0), 1, 2)]
    [2, 3, 1]
    """
    if train_per_class < 0 or val_per_class < 0:
        raise EraseError(
            "numbers of nodes per class ≥ 0",
            f"train {train_per_class}, validation {val_per_class}",
            "Pass counts such as 20 and 30.",
        )
    labels = y.numpy()
    shuffled = rng.permutation(len(labels))
    by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
    grouped = labels[by_class]
    rank = np.arange(len(labels)) - np.searchsorted(grouped, grouped)  # place within its class
    known = grouped >= 0
    train = known & (rank < train_per_class)
    val = known & ~train & (rank < train_per_class + val_per_class)
    return (
        _mask(by_class[train], y),
        _mask(by_class[val], y),
        _mask(by_class[known & ~train & ~val], y),
    )


def split_by_share(
    y: Tensor, rng: np.random.Generator, train_share: float, val_share: float
) -> Masks:
    """Draw shares of all labelled nodes for training and validation; the rest is for testing.

    >>> y = torch.zeros(10, dtype=torch.int64)
    >>> [int(m.sum()) for m in split_by_share(y, np.random.default_rng(0), 0.5, 0.2)]
    [5, 2, 3]
    """
    if not (0 < train_share < 1 and 0 <= val_share < 1 and train_share + val_share <= 1):
        raise EraseError(
            "shares of the nodes with 0 < train_share, 0 ≤ val_share and a sum of at most 1",
            f"train_share {train_share}, val_share {val_share}",
            "Pass shares such as train_share=0.5, val_share=0.2.",
        )
    shuffled = rng.permutation(np.flatnonzero(y.numpy() >= 0))
    first = round(train_share * len(shuffled))
    second = first + round(val_share * len(shuffled))
    train, val, test = np.split(shuffled, [first, second])
    return _mask(train, y), _mask(val, y), _mask(test, y)


def _mask(nodes: "np.ndarray[tuple[int], np.dtype[np.int64]]", y: Tensor) -> Tensor:
    mask = torch.zeros(len(y), dtype=torch.bool)
    mask[torch.from_numpy(nodes)] = True
    return mask
