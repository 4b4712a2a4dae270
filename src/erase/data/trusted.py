"""Trusted labels: those that a person confirmed or corrected, beside the given ones."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from erase.data.fields import field, first_true, node_title, to_tensor
from erase.data.labels import encode_trusted, trusted_column
from erase.data.splits import node_mask
from erase.errors import EraseError

_TRUTH = {"true": True, "false": False, "": False}


def read_trusted(data: Data) -> tuple[Tensor | None, Tensor | None]:
    """Return the trusted labels of `data` and which of them were drawn at random.

    Returns:
        class indices [N] int64, -1 where there is no trusted label; None without any field
        `trusted`. And a mask [N] bool, or None without a field `trusted_random`.
    """
    trusted, given = encode_trusted(data), field(data, "trusted_random")
    if given is None:
        return trusted, None
    if trusted is None:
        raise EraseError(
            "trusted beside trusted_random", "none", "Set data.trusted, or remove trusted_random."
        )
    random = node_mask(given, trusted.numel(), "trusted_random")
    if bool((wrong := random & (trusted < 0)).any()):
        raise EraseError(
            "a trusted label at every node of trusted_random",
            f"none at {node_title(first_true(wrong), field(data, 'node_names'))}",
            "Remove the node from trusted_random, or give its class in trusted.",
        )
    return trusted, random


def trusted_field(given: Any) -> Any:
    """Return trusted labels in any form as a Data keeps them: classes, or a bool mask."""
    column = trusted_column(given)
    return column if column.dtype.kind == "U" else to_tensor(column)


def trusted_cells(cells: "pd.Series[Any]", labels: "pd.Series[Any] | None") -> Any:
    """Return a table's column of trusted labels as a Data keeps them: classes, or a bool mask.

    A column of true and false is a mask, unless these are the classes in the column of `labels`.
    """
    mask = truth_values(cells)
    if mask is not None and (labels is None or truth_values(labels) is None):
        return to_tensor(mask)
    return trusted_field(cells.astype(object))


def random_cells(cells: "pd.Series[Any]") -> Tensor:
    """Return a table's column trusted_random as a mask [N] bool."""
    mask = truth_values(cells)
    if mask is None:
        raise EraseError(
            f"true or false in the column {cells.name!r}",
            f"{cells[cells.notna()].iloc[0]!r}",
            "Write true where the node was drawn at random, false or nothing elsewhere.",
        )
    return to_tensor(mask)


def truth_values(cells: "pd.Series[Any]") -> NDArray[np.bool_] | None:
    """Return true and false cells [N] as bools, empty ones as False; None for other content."""
    words = cells.astype(object).where(cells.notna(), "").astype(str).str.strip().str.lower()
    known = words.map(_TRUTH)
    return None if known.isna().any() else known.to_numpy(bool)
