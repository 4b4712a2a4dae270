"""Training, validation and test nodes: masks or node numbers under every usual name."""

from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from erase.data.fields import field, first_true, to_tensor
from erase.errors import EraseError

SPLIT_WORDS = {"train": ("train",), "val": ("val", "valid", "validation"), "test": ("test",)}
_SPLIT_FORMS = ("mask", "idx", "index", "indices")


def split_mask(data: Data, part: str, num_nodes: int) -> Tensor | None:
    """Return the nodes of `part` ("train", "val" or "test") as a fresh mask [N] bool, if given.

    A bare `data.train`, `data.val` or `data.test` counts where it holds bools or whole numbers:
    unlike `train_mask`, it may be another thing of the user's, such as the values of edges.
    """
    names = [f"{word}_{form}" for form in _SPLIT_FORMS for word in SPLIT_WORDS[part]]
    for name in names:
        if (value := field(data, name)) is not None:
            return node_mask(value, num_nodes, name)
    for name in SPLIT_WORDS[part]:
        if _holds_nodes(value := field(data, name)):
            return node_mask(value, num_nodes, name)
    return None


def _holds_nodes(value: Any) -> bool:
    """Say whether `value` is a column of bools or whole numbers."""
    if not isinstance(value, Tensor | np.ndarray | list | tuple):
        return False
    try:
        nodes = to_tensor(value)
    except EraseError:
        return False
    return nodes.dim() == 1 and not (nodes.is_floating_point() or nodes.is_complex())


@dataclass(frozen=True, eq=False)
class Splits:
    """The training, validation and test nodes of a graph: three masks [N] bool.

    Attributes:
        train: the training split; where none is given, every labelled node of no other split.
        val: the validation split; empty where there is none.
        test: the test split; where none is given, every node of no other split.
        train_is_given: whether there was a training split.
    """

    train: Tensor
    val: Tensor
    test: Tensor
    train_is_given: bool


def read_splits(data: Data, y: Tensor) -> Splits:
    """Return the splits of `data` with labels `y` [N]: the one place that decides them."""
    no_node = torch.zeros(y.numel(), dtype=torch.bool)
    train, val, test = (split_mask(data, part, y.numel()) for part in ("train", "val", "test"))
    given = train is not None
    val = no_node if val is None else val
    if train is None:
        train = (y >= 0) & ~val & (~test if test is not None else ~no_node)
    return Splits(train, val, ~train & ~val if test is None else test, given)


def without_splits(data: Data) -> Data:
    """Return a copy of `data` without its splits, in which every labelled node trains."""
    copied = copy(data)
    for words in SPLIT_WORDS.values():
        names = [*words, *(f"{word}_{form}" for word in words for form in _SPLIT_FORMS)]
        for name in names:
            if name in copied and (name not in words or _holds_nodes(copied[name])):
                del copied[name]
    return copied


def node_mask(value: Any, n: int, name: str) -> Tensor:
    """Return a mask [N] or node numbers as a fresh mask [N] bool."""
    nodes = to_tensor(value, name)
    if nodes.dim() == 2 and nodes.size(1) == 1:
        nodes = nodes[:, 0]
    if nodes.dim() != 1:
        raise EraseError(
            f"one split, {name} of shape [{n}]",
            f"shape {list(nodes.shape)}",
            f"Choose a column: data.{name} = data.{name}[:, 0].",
        )
    if nodes.numel() and (nodes.is_floating_point() or nodes.is_complex()):
        raise EraseError(
            f"{name} as a bool mask or node numbers", f"{nodes.dtype}", "Convert it with .bool()."
        )
    # 0/1 for every node: as node numbers it would only say "0 and 1" over and over
    is_mask = nodes.numel() == n > 2 and bool(((nodes == 0) | (nodes == 1)).all())
    if nodes.dtype == torch.bool or is_mask:
        if nodes.numel() != n:
            raise EraseError(
                f"{name} with one entry for each of {n} nodes",
                f"{nodes.numel()} entries",
                "Make the mask as long as y.",
            )
        return nodes.bool().clone()
    nodes = nodes.long()
    if bool((wrong := (nodes < 0) | (nodes >= n)).any()):
        raise EraseError(
            f"node numbers 0..{n - 1} in {name}",
            f"{int(nodes[wrong][0])} at position {first_true(wrong)}",
            "Count nodes from 0, or give a bool mask.",
        )
    return torch.zeros(n, dtype=torch.bool).index_fill_(0, nodes, True)
