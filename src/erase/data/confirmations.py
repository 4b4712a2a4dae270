"""The column of trusted labels in a table: what it holds, and notes on how it was read."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from erase.data.fields import to_tensor
from erase.data.labels import MOST_COMPARED, label_column, misspellings, trusted_column
from erase.data.trusted import random_cells, trusted_field
from erase.errors import EraseError

_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_RENAME = "Rename the column if it means something else."
_MOST_NAMED = 5  # classes in an error
_MOST_LISTED = 10  # classes in a note


def confirms(cells: "pd.Series[Any]", labels: "pd.Series[Any] | None") -> NDArray[np.bool_] | None:
    """Return where a column of true and false confirms the label, [N] bool; None for classes.

    1 and 0, and yes and no, are read as true and false, unless they are classes of `labels`.

    >>> confirms(pd.Series(["yes", None, "NO"]), pd.Series(["a", "b", "a"])).tolist()
    [True, False, False]
    >>> confirms(pd.Series([1, 0, 1]), pd.Series([1, 2, 1])) is None
    True
    """
    words = _words(cells)
    known = words.map({**_TRUTH, "": False})
    classes = set() if labels is None else {*_words(labels)} - {""}
    if known.isna().any() or classes.intersection(words):
        return None
    mask: NDArray[np.bool_] = known.to_numpy(bool)
    return mask


def read_confirmations(
    cells: "pd.Series[Any]", labels: "pd.Series[Any] | None", merge: bool = False
) -> tuple[Any, list[str]]:
    """Return a column of trusted labels as a Data keeps them, classes or a bool mask, and notes.

    Args:
        cells: the column [N].
        labels: the column of given labels, if there is one.
        merge: whether to merge names that look like misspellings of a given class.
    """
    mask = confirms(cells, labels)
    if mask is not None:
        return to_tensor(mask), [_used(cells, int(mask.sum()))]
    try:
        trusted = trusted_column(cells.astype(object))
    except EraseError as error:
        remedy = f"{error.remedy} Rename the column {cells.name!r} if it means something else."
        raise EraseError(error.expected, error.got, remedy) from None
    if labels is None or trusted.dtype.kind == "b":
        return trusted_field(trusted), [_used(cells, int(_is_known(trusted).sum()))]
    given = _counts(label_column(labels))
    found = _misspelt(_counts(trusted), given)
    notes = []
    if merge and found and trusted.dtype.kind == "U":
        notes.append(f"Misspelt trusted classes were merged: {_listed(found, _counts(trusted))}.")
        trusted = np.array([found.get(name, name) for name in trusted.tolist()], dtype=str)
        found = {}
    counts = _counts(trusted)
    if given and counts and not given.keys() & counts.keys():
        raise _no_class(cells, given, counts, found)
    new = {name: None for name in counts if name not in given} if given else {}
    if new:
        hint = "; merge_classes=True or --merge-classes merges misspelt ones" if found else ""
        notes.append(
            f"Trusted labels of classes that no given label has: {_listed(new | found, counts)}"
            f"{hint}."
        )
    if counts and {*map(str.lower, counts)} <= _TRUTH.keys():
        notes.append(f"The values of {cells.name!r} are classes: write true to confirm a label.")
    return trusted_field(trusted), [_used(cells, sum(counts.values())), *notes]


def read_random(cells: "pd.Series[Any]") -> Any:
    """Return the column that says which trusted labels were drawn at random, as a mask [N]."""
    mask = confirms(cells, None)
    return random_cells(cells) if mask is None else to_tensor(mask)


def _no_class(
    cells: "pd.Series[Any]", given: dict[str, int], counts: dict[str, int], found: dict[str, str]
) -> EraseError:
    """Return the error for a column of trusted labels without any class of the given ones."""
    named = sorted(given, key=lambda name: (-given[name], name))[:_MOST_NAMED]
    more = ", …" if len(given) > _MOST_NAMED else ""
    remedy = f"Correct it, or merge misspelt classes: merge_classes=True. {_RENAME}"
    return EraseError(
        f"classes in the column {cells.name!r} ({', '.join(map(repr, named))}{more}), or true and "
        "false",
        f"{next(iter(counts))!r}",
        remedy if found else _RENAME,
        option="merge_classes" if found else None,
    )


def _used(cells: "pd.Series[Any]", count: int) -> str:
    return f"Trusted labels: the column {cells.name!r} ({count:,})."


def _words(cells: "pd.Series[Any]") -> "pd.Series[Any]":
    """Return cells as plain words; whole numbers without their fraction, nothing as ""."""
    words = cells.astype(object).where(cells.notna(), "").astype(str).str.strip().str.lower()
    return words.str.replace(r"(?<=\d)\.0+$", "", regex=True)


def _is_known(classes: NDArray[Any]) -> NDArray[np.bool_]:
    known: NDArray[np.bool_] = classes != ("" if classes.dtype.kind == "U" else -1)
    return classes if classes.dtype.kind == "b" else known


def _counts(classes: NDArray[Any]) -> dict[str, int]:
    """Return how many nodes have each class, by its name."""
    values, number = np.unique(classes[_is_known(classes)], return_counts=True)
    return dict(zip(map(str, values.tolist()), number.tolist(), strict=True))


def _misspelt(counts: dict[str, int], given: dict[str, int]) -> dict[str, str]:
    """Return trusted classes that are not given and probably mean a given one, each with that."""
    both = {name: counts.get(name, 0) + given.get(name, 0) for name in counts | given}
    if len(both) > MOST_COMPARED:
        return {}
    found = misspellings(both).items()
    return {name: other for name, other in found if name not in given and other in given}


def _listed(names: dict[str, Any], counts: dict[str, int]) -> str:
    """Return classes with their counts, and which class each probably means, in words."""
    shown = [
        f"{name!r} ({counts[name]})" + ("" if other is None else f" for {other!r}")
        for name, other in list(names.items())[:_MOST_LISTED]
    ]
    more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    return ", ".join(shown) + more
