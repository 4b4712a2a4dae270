"""Labels: any form of class numbers or names to class indices, and back.

This still sees test labels: it is for code that scores, corrupts or stores a graph. Methods get a
`NodeTask` instead.
"""

import re
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch_geometric.data import Data

from erase.data.fields import field, first_true, node_title, read_names, to_tensor
from erase.errors import EraseError

FEW_LABELS = 0.05  # a name of so small a share of another's labels may be a misspelling of it
MOST_COMPARED = 2000  # names; the comparison is quadratic
MANY_NODES = 20  # from here on, values that are all different, or nearly so, are identifiers


def encode_labels(data: Data) -> tuple[Tensor, tuple[str, ...], np.ndarray[Any, Any]]:
    """Return every label of `data` as y [N] int64 (-1: unknown), the K class names and values.

    This still sees test labels: it is for those who score or corrupt a graph, not for methods.
    y holds class indices 0..K-1, and values[k] is the label that stands for class k. The classes
    are the labels that occur, sorted: labels 1, 2, 3 are three classes. A graph that says its
    classes has all of them, whether they occur or not:

    - `data.class_names`: number labels are indices of it, and name labels are among it.
    - `data.num_classes`: number labels are in 0..num_classes-1.
    - `data.class_values`: K numbers; number labels are among them, and `class_names` names them.

    The values are the names where labels are names, or are numbers that stand for them:
    ``data.label_kind == "names"``.

    >>> encode_labels(Data(y=["b", None, "a"]))
    (tensor([ 1, -1,  0]), ('a', 'b'), array(['a', 'b'], dtype='<U1'))
    >>> encode_labels(Data(y=[30, -1, 10]))
    (tensor([ 1, -1,  0]), ('10', '30'), array([10, 30]))
    """
    given = field(data, "y")
    if given is None:
        raise EraseError(
            "labels in data.y, or in a column 'label' of a nodes table",
            "none",
            "Set y [N], a class per node, -1 where it is unknown; or name the column: label=….",
            option="label",
        )
    given_names = read_names(data, "class_names")
    names = None if given_names is None else tuple(given_names)
    if names is not None and len(set(names)) < len(names):
        raise EraseError(
            "different class_names", "a name that occurs twice", "Rename one, or merge the classes."
        )
    values = label_column(given)
    if values.size == 0:
        raise EraseError("a graph with nodes", "0 nodes", "Check how the graph was read.")
    if values.dtype.kind == "U":
        return _encode_names(values, names)
    labels = torch.from_numpy(_whole_labels(values))
    numbers = _class_numbers(data, labels, names)
    y, known = _positions(labels, numbers)
    if bool((wrong := (labels != -1) & ~known).any()):
        where = node_title(first_true(wrong), field(data, "node_names"))
        raise _wrong_label(data, numbers, f"label {int(labels[wrong][0])} at {where}")
    names = names or tuple(map(str, numbers.tolist()))
    named = field(data, "label_kind") == "names"
    return y, names, _frozen(np.array(names, dtype=str) if named else numbers.numpy())


def _class_numbers(data: Data, labels: Tensor, names: tuple[str, ...] | None) -> Tensor:
    """Return the K different numbers that stand for classes in `labels`, by class."""
    if (told := field(data, "class_values")) is not None:
        return _given_numbers(told, names)
    if names is not None:
        return torch.arange(len(names))
    if (told := field(data, "num_classes")) is not None:
        k, n = _class_count(told), len(labels)
        if k > max(1000, n):  # N × K arrays would fill the memory
            raise EraseError(
                f"at most {max(1000, n)} classes on a graph of {n} nodes",
                f"num_classes = {k}",
                "Lower it, or leave it out: the classes are then the labels that occur.",
            )
        return torch.arange(k)
    used: Tensor = labels[labels >= 0].unique()
    _refuse_identifiers("numbers", used.numpy(), len(labels), "class_values")
    return used


def _given_numbers(told: Any, names: tuple[str, ...] | None) -> Tensor:
    """Return `class_values` as [K] int64, checked."""
    numbers = to_tensor(told, "class_values")
    whole = numbers.long()
    is_right = numbers.dim() == 1 and bool(((whole == numbers) & (whole >= 0)).all())
    if not is_right or whole.unique().numel() < whole.numel():
        raise EraseError(
            "class_values, different whole numbers from 0 on", f"{told!r}", "Correct them."
        )
    if names is not None and len(names) != whole.numel():
        raise EraseError(
            f"{len(names)} class_values, one for each of class_names",
            f"{whole.numel()}",
            "Correct one of them.",
        )
    return whole.clone()


def _positions(labels: Tensor, numbers: Tensor) -> tuple[Tensor, Tensor]:
    """Return where each label stands among `numbers`, -1 if it does not, and whether it does."""
    k = numbers.numel()
    if torch.equal(numbers, torch.arange(k)):
        known = (labels >= 0) & (labels < k)
        return labels, known
    ordered, order = numbers.sort()
    place = torch.searchsorted(ordered, labels).clamp_(max=k - 1)
    known = ordered[place] == labels
    return torch.where(known, order[place], -1), known


def _wrong_label(data: Data, numbers: Tensor, got: str) -> EraseError:
    """Return the error for a number label that stands for no class."""
    k = numbers.numel()
    if "class_values" in data:
        shown = ", ".join(map(str, numbers[:10].tolist())) + (", …" if k > 10 else "")
        return EraseError(
            f"labels among class_values ({shown}), or -1 where unknown",
            got,
            "Correct it, set it to -1, or add it to class_values.",
        )
    if "class_names" in data or "num_classes" in data:
        named = "class_names" in data
        remedy = "give class_values, the number of each class" if named else "raise num_classes"
        return EraseError(
            f"labels in 0..{k - 1} ({k} classes), or -1 where unknown",
            got,
            f"Correct it, set it to -1, or {remedy}.",
        )
    return EraseError("labels from 0 on, or -1 where unknown", got, "Correct it, or set it to -1.")


def _refuse_identifiers(kind: str, used: np.ndarray[Any, Any], n: int, remedy: str) -> None:
    """Refuse labels of which nearly every node has its own; N × K arrays would fill the memory."""
    if n >= MANY_NODES and len(used) >= 0.9 * n:
        raise EraseError(
            f"{kind} of classes, which nodes share",
            f"{len(used)} {kind} on {n} nodes, the first is {used.tolist()[0]!r}",
            f"These look like identifiers: take the classes as labels, or set {remedy}.",
        )


def label_fields(
    y: np.ndarray[Any, Any], class_names: Sequence[str], values: np.ndarray[Any, Any]
) -> dict[str, Any]:
    """Return the fields of a Data that `encode_labels` reads as these: its inverse.

    `y` [N] becomes the labels that stand for classes, "" or -1 where unknown. The names of all
    classes are kept, and their numbers where these are not 0..K-1.

    >>> label_fields(np.array([1, -1, 0]), ["10", "30"], np.array([10, 30]))
    {'y': array([30, -1, 10]), 'class_names': ['10', '30'], 'class_values': [10, 30]}
    """
    is_named = values.dtype.kind == "U"
    labels = np.append(values, "" if is_named else -1)[y]
    fields: dict[str, Any] = {"y": labels, "class_names": list(class_names)}
    if (numbers := own_numbers(values)) is not None:
        fields["class_values"] = numbers
    return fields


def own_numbers(values: np.ndarray[Any, Any]) -> list[int] | None:
    """Return the numbers that stand for classes, None where these are 0..K-1 or names do."""
    is_usual = values.dtype.kind == "U" or np.array_equal(values, np.arange(len(values)))
    return None if is_usual else values.tolist()


def with_labels(
    data: Data,
    y: np.ndarray[Any, Any],
    class_names: Sequence[str],
    values: np.ndarray[Any, Any],
) -> Data:
    """Return a copy of `data` with other labels: y [N] class indices, -1 where unknown."""
    copied = copy(data)
    for name, value in label_fields(y, class_names, values).items():
        is_number = isinstance(value, np.ndarray) and value.dtype.kind != "U"
        copied[name] = torch.from_numpy(value) if is_number else value
    return copied


def refuse_other_labels(
    classes: np.ndarray[Any, Any], values: np.ndarray[Any, Any], what: str
) -> None:
    """Refuse to compare predictions among `classes` with labels that `what` gives as `values`.

    They are of one kind, names or numbers, and have a class in common. A label of a class that is
    not predicted is no error: predictions there are wrong.
    """
    if classes.dtype.kind != values.dtype.kind or not np.isin(values, classes).any():
        raise EraseError(
            f"labels like those of the fit, {_kind(classes)}",
            f"{what} with {_kind(values)}",
            "Give both graphs their labels in one form: the same names, or the same numbers.",
        )


def _kind(values: np.ndarray[Any, Any]) -> str:
    """Return what labels are, and a few of them."""
    shown = ", ".join(map(repr, values[:5].tolist())) + (", …" if len(values) > 5 else "")
    return f"{'class names' if values.dtype.kind == 'U' else 'class numbers'} ({shown})"


def label_column(given: Any) -> np.ndarray[Any, Any]:
    """Return labels as one column [N]: numbers, or names (kind "U") with "" where unknown."""
    if isinstance(given, Tensor):
        labels = given.detach().cpu().to_dense()  # as float64: numpy has no bfloat16
        column = (labels.double() if labels.is_floating_point() else labels).numpy()
    elif isinstance(given, np.ma.MaskedArray):
        column = np.ma.getdata(given).astype(object)
        column[np.ma.getmaskarray(given)] = None
    elif isinstance(given, list | tuple):
        try:  # through objects, or numpy would turn None and NaN beside names into names
            column = np.array(given, dtype=object)
        except ValueError:
            raise EraseError(
                "one label per node, y of shape [N]",
                "entries of different shapes",
                "Give each node one class number or name.",
            ) from None
    else:
        column = np.asarray(given)
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.ndim != 1:
        raise EraseError(
            "one label per node, y of shape [N]",
            f"shape {list(column.shape)}",
            "Take y.argmax(1) of one-hot labels; a node has one class here.",
        )
    if column.dtype.kind in "biufU":
        return column
    if column.dtype.kind in "cmMV":
        raise EraseError(
            "labels that are whole numbers, or names",
            f"{column.dtype}",
            "Number the classes 0, 1, 2, …, or give their names.",
        )
    text = np.fromiter((isinstance(value, str) for value in column), bool, len(column))
    empty = np.fromiter((isinstance(each, str) and not each for each in column), bool, len(column))
    missing = pd.isna(column) | empty
    if text.any() and (text | missing).all():
        return np.where(missing, "", column).astype(str)
    if not (text & ~missing).any() and not _any_complex(column):
        try:
            return np.where(missing, np.nan, column).astype(np.float64)
        except (TypeError, ValueError):
            pass
    raise EraseError(
        "labels that are all whole numbers or all names",
        f"{next(value for value in column[~missing])!r} among others",
        "Use one kind; leave unknown labels as -1, None or empty.",
    )


def _any_complex(values: np.ndarray[Any, Any]) -> bool:
    return any(isinstance(value, complex | np.complexfloating) for value in values)


def _class_count(given: Any) -> int:
    """Return `num_classes` as a whole number from 1 on."""
    try:
        if int(given) == given and given >= 1:
            return int(given)
    except (TypeError, ValueError, OverflowError):
        pass
    raise EraseError(
        "num_classes as a whole number from 1 on", f"{given!r}", "Correct it, or leave it out."
    )


def _whole_labels(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return number labels as fresh [N] int64, -1 where NaN."""
    if values.dtype.kind == "f":
        values = np.where(np.isnan(values), -1, values)
        if (wrong := ~np.isfinite(values) | (values != np.rint(values))).any():
            i = int(np.flatnonzero(wrong)[0])
            raise EraseError(
                "labels that are whole numbers, or names",
                f"{values[i]} at node {i}",
                "Number the classes 0, 1, 2, …; a quantity to predict is not a class.",
            )
    return values.astype(np.int64)


def _encode_names(
    values: np.ndarray[Any, Any], names: tuple[str, ...] | None
) -> tuple[Tensor, tuple[str, ...], np.ndarray[Any, Any]]:
    """Return name labels as `encode_labels` promises."""
    known = values != ""
    used, code = np.unique(values[known], return_inverse=True)
    if names is None:
        _refuse_identifiers("names", used, len(values), "class_names")
        names = tuple(used.tolist())
    position = {name: k for k, name in enumerate(names)}
    if strange := [name for name in used.tolist() if name not in position]:
        raise EraseError(
            f"labels among class_names ({', '.join(names[:10])}{', …' if len(names) > 10 else ''})",
            f"{strange[0]!r} at node {int(np.flatnonzero(values == strange[0])[0])}",
            "Correct the label, or add it to class_names.",
        )
    y = np.full(len(values), -1)
    y[known] = np.array([position[name] for name in used.tolist()], dtype=np.int64)[code]
    return torch.from_numpy(y), names, _frozen(np.array(names, dtype=str))


def misspellings(counts: Mapping[str, int]) -> dict[str, str]:
    """Return class names that probably mean another, more frequent class, each with that class.

    These are names that differ from it by case, blanks, hyphens or underscores alone, and names of
    few nodes (at most 5 % of the other's) that differ by one letter in one word of five letters or
    more: left out, added, replaced, or swapped with its neighbour.

    Args:
        counts: how many nodes have each name.

    >>> misspellings({"company": 90, "COMPANY": 3, "government": 80, "goverment": 2, "cs.AI": 1})
    {'COMPANY': 'company', 'goverment': 'government'}
    """
    frequent = sorted(counts, key=lambda name: (-counts[name], name))
    plain = {name: _plain_name(name) for name in frequent}
    first: dict[str, str] = {}
    for name in frequent:
        first.setdefault(plain[name], name)
    meant = {name: first[plain[name]] for name in frequent if first[plain[name]] != name}
    total = {name: counts[name] for name in first.values()}
    for name, other in meant.items():
        total[other] += counts[name]
    for name in first.values():
        for other in first.values():
            few = total[name] <= FEW_LABELS * total[other]
            if few and other not in meant and _is_typo(plain[name], plain[other]):
                meant[name] = other
                break
    return {name: meant.get(other, other) for name, other in meant.items()}


def _plain_name(name: str) -> str:
    return " ".join(name.casefold().replace("_", " ").replace("-", " ").split())


def _is_typo(name: str, other: str) -> bool:
    """Say whether two names differ by one letter in one long word."""
    if abs(len(name) - len(other)) > 1:
        return False
    words, others = re.findall(r"\w+", name), re.findall(r"\w+", other)
    if len(words) != len(others):
        return False
    different = [pair for pair in zip(words, others, strict=True) if pair[0] != pair[1]]
    if len(different) != 1 or min(map(len, different[0])) < 5:
        return False
    a, b = (str(word) for word in sorted(different[0], key=len))
    start = next((i for i in range(len(a)) if a[i] != b[i]), len(a))
    if any(word[start : start + 1].isdigit() for word in (a, b)):
        return False  # numbered classes
    if len(a) < len(b):
        return a[start:] == b[start + 1 :]
    swapped = a[:start] + a[start : start + 2][::-1] + a[start + 2 :]
    return a[start + 1 :] == b[start + 1 :] or swapped == b


def misspelling_note(data: Data) -> str | None:
    """Return a sentence on class names of `data` that look misspelt, if there are any."""
    found, counts = _misspelt(data)
    if not found:
        return None
    return (
        f"Probably misspelt classes: {_misspelt_list(found, counts)}. They count as classes of "
        "their own; merge_classes=True or --merge-classes merges them."
    )


def merge_misspellings(data: Data) -> Data:
    """Return `data` with probably misspelt class names replaced, and a note that says so."""
    found, counts = _misspelt(data)
    if not found:
        return data
    merged = copy(data)
    column = label_column(data.y)
    for name, other in found.items():
        column = np.where(column == name, other, column)
    merged.y = column
    note = f"Misspelt classes were merged: {_misspelt_list(found, counts)}."
    merged.notes = [*(field(data, "notes") or ()), note]
    return merged


def _misspelt(data: Data) -> tuple[dict[str, str], dict[str, int]]:
    """Return the misspelt class names of `data` with the class meant, and the count of each."""
    given = field(data, "y")
    if given is None or isinstance(given, Tensor) or field(data, "class_names") is not None:
        return {}, {}
    column = label_column(given)
    if column.dtype.kind != "U":
        return {}, {}
    names, number = np.unique(column[column != ""], return_counts=True)
    counts = dict(zip(names.tolist(), number.tolist(), strict=True))
    return (misspellings(counts) if len(counts) <= MOST_COMPARED else {}), counts


def _misspelt_list(found: dict[str, str], counts: dict[str, int]) -> str:
    shown = [
        f"{name!r} ({counts[name]}) for {other!r} ({counts[other]})"
        for name, other in list(found.items())[:10]
    ]
    more = f" and {len(found) - 10} more" if len(found) > 10 else ""
    return ", ".join(shown) + more


def _frozen(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    values.flags.writeable = False
    return values
