"""Labels: any form of class numbers or names to class indices, and back.

This still sees test labels: it is for code that scores, corrupts or stores a graph. Methods get a
`NodeTask` instead.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch_geometric.data import Data

from erase.data.fields import (
    count_nodes,
    field,
    first_true,
    node_title,
    read_names,
    to_tensor,
    was_checked,
    well_formed,
)
from erase.data.limits import check_numbers
from erase.data.matrices import checked_sparse
from erase.errors import EraseError, shown

_NUMBERS_PER_NODE = 10  # that masks, labels and predictions take at least
FEW_LABELS = 0.05  # a name of so small a share of another's labels may be a misspelling of it
MOST_COMPARED = 2000  # names; the comparison is quadratic
LONGEST_NAME = 1000  # characters of a class name
MANY_NODES = 20  # from here on, values that are all different, or nearly so, are identifiers


def encode_labels(data: Data) -> tuple[Tensor, tuple[str, ...], np.ndarray[Any, Any]]:
    """Return every label of `data` as y [N] int64 (-1: unknown), the K class names and values.

    This still sees test labels: it is for those who score or corrupt a graph, not for methods.
    y holds class indices 0..K-1, and values[k] is the label that stands for class k. The classes
    are the labels that occur in `data.y` and `data.trusted`, sorted: labels 1, 2, 3 are three
    classes. A graph that lists its classes has all of them, whether they occur or not:

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
    return _encode(data)[:3]


def encode_trusted(data: Data) -> Tensor | None:
    """Return the trusted labels of `data` as class indices [N], -1 where there is none.

    `data.trusted` holds classes written like `data.y`, or a bool mask: `y` is confirmed there.
    Without this field the result is None.

    >>> encode_trusted(Data(y=["b", "a", "a"], trusted=["c", None, "a"]))
    tensor([ 2, -1,  0])
    >>> encode_trusted(Data(y=[30, 20, 10], trusted=torch.tensor([True, False, True])))
    tensor([ 2, -1,  0])
    """
    return None if field(data, "trusted") is None else _encode(data)[3]


def _no_labels(data: Data) -> EraseError:
    """Return the error for a graph without labels, in the words of where it comes from."""
    contract = field(data, "feature_contract")
    if not isinstance(contract, dict) or contract.get("source") != "table":
        return EraseError(
            "labels in data.y",
            "none",
            "Set y [N], -1 where a label is unknown; of tables and networkx graphs, name the "
            "column or attribute that holds them: label=….",
            option="label",
        )
    columns = field(data, "table_columns") or (
        [column["name"] for column in contract["columns"]] + list(contract["left_out"])
    )
    return EraseError(
        "labels in a column 'label' of the nodes table",
        f"the columns {', '.join(map(repr, columns[:20]))}",
        "Name the column that holds them: label=….",
        option="label",
    )


def _encode(
    data: Data,
) -> tuple[Tensor, tuple[str, ...], np.ndarray[Any, Any], Tensor | None]:
    """Return what `encode_labels` and `encode_trusted` do."""
    given = field(data, "y")
    if given is None:
        raise _no_labels(data)
    given_names = read_names(data, "class_names")
    names = None if given_names is None else tuple(given_names)
    if names is not None and len(set(names)) < len(names):
        raise EraseError(
            "different class_names", "a name that occurs twice", "Rename one, or merge the classes."
        )
    values = label_column(given)
    if values.size == 0:
        raise EraseError("a graph with nodes", "0 nodes", "Check how the graph was read.")
    n = len(values)
    trusted = _trusted_column(data, values)
    if trusted is not None:
        values = np.concatenate([values, trusted])
    if values.dtype.kind == "U":
        y, names, standing = _encode_names(values, n, names)
    else:
        labels = torch.from_numpy(values.astype(np.int64))  # a copy: y is the user's
        numbers = _class_numbers(data, labels, n, names)
        y, known = _positions(labels, numbers)
        if bool((wrong := (labels != -1) & ~known).any()):
            i = first_true(wrong)
            where = node_title(i % n, field(data, "node_names"))
            raise _wrong_label(data, numbers, f"{_title(i, n)} {int(labels[i])} at {where}")
        names = names or tuple(map(str, numbers.tolist()))
        named = field(data, "label_kind") == "names"
        standing = np.array(names, dtype=str) if named else numbers.numpy()
    return y[:n], names, _frozen(standing), None if trusted is None else y[n:]


def _title(i: int, n: int) -> str:
    """Return what entry i is, of n labels that trusted labels may follow."""
    return _entry("y" if i < n else "trusted")


def _entry(name: str) -> str:
    """Return how errors call an entry of the labels `name`."""
    return "label" if name == "y" else f"{name} label"


def _trusted_column(data: Data, labels: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
    """Return `data.trusted` as a column [N] of the kind of `labels`, which are those of `y`."""
    given = field(data, "trusted")
    if given is None:
        return None
    column = trusted_column(given)
    if len(column) != len(labels):
        raise EraseError(
            f"a trusted label, or -1, for each of {len(labels)} nodes",
            f"{len(column)} entries in trusted",
            "Make trusted as long as y.",
        )
    is_named = labels.dtype.kind == "U"
    known = labels != ("" if is_named else -1)
    if column.dtype.kind == "b":
        if (unknown := column & ~known).any():
            where = node_title(int(np.flatnonzero(unknown)[0]), field(data, "node_names"))
            raise EraseError(
                "a label in y at every node of the mask trusted",
                f"none at {where}",
                "Give classes in trusted, -1 or empty elsewhere: they need no label in y.",
            )
        return np.where(column, labels, "" if is_named else -1)
    if is_named == (column.dtype.kind == "U"):
        return column
    if column.dtype.kind != "U" and (column == -1).all():
        return np.full(len(labels), "")  # there is none
    raise EraseError(
        f"trusted labels that are class {'names' if is_named else 'numbers'}, as y has them",
        f"class {'numbers' if is_named else 'names'}",
        "Write trusted as y is written.",
    )


def labels_if_any(data: Data) -> tuple[Tensor, tuple[str, ...], np.ndarray[Any, Any]]:
    """Return what `encode_labels` does; of a graph without labels -1 everywhere and no class."""
    return no_labels(data) if field(data, "y") is None else encode_labels(data)


def no_labels(data: Data) -> tuple[Tensor, tuple[str, ...], np.ndarray[Any, Any]]:
    """Return -1 for every node [N], and no class."""
    n = count_nodes(data)
    if not was_checked(data, "edge_index"):
        check_numbers(_NUMBERS_PER_NODE * n, "the graph")
    return torch.full((n,), -1), (), np.empty(0, dtype=np.int64)


def _class_numbers(data: Data, labels: Tensor, n: int, names: tuple[str, ...] | None) -> Tensor:
    """Return the K different numbers that stand for classes in `labels` of n nodes, by class."""
    if (declared := field(data, "class_values")) is not None:
        return _given_numbers(declared, names)
    if names is not None:
        return torch.arange(len(names))
    if (declared := field(data, "num_classes")) is not None:
        k = _class_count(declared)
        if k > max(1000, n):  # N × K arrays would fill the memory
            raise EraseError(
                f"at most {max(1000, n)} classes on a graph of {n} nodes",
                f"num_classes = {k}",
                "Lower it, or leave it out: the classes are then the labels that occur.",
            )
        return torch.arange(k)
    used: Tensor = labels[labels >= 0].unique()
    _refuse_identifiers("numbers", used.numpy(), n, "class_values")
    return used


def _given_numbers(declared: Any, names: tuple[str, ...] | None) -> Tensor:
    """Return `class_values` as [K] int64, checked."""
    numbers = to_tensor(declared, "class_values")
    whole = numbers.long()
    is_right = numbers.dim() == 1 and bool(((whole == numbers) & (whole >= 0)).all())
    if not is_right or whole.unique().numel() < whole.numel():
        raise EraseError(
            "class_values, different whole numbers from 0 on", f"{declared!r}", "Correct them."
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
    trusted: Tensor | None = None,
) -> Data:
    """Return a copy of `data` with other labels: y [N] class indices, -1 where unknown.

    Args:
        data: the graph.
        y: the labels to write.
        class_names: K names.
        values: [K] what stands for a class among labels.
        trusted: [N] class indices; None: the trusted labels of `data`, if it has any.
    """
    copied = copy(data)
    fields = label_fields(y, class_names, values)
    trusted = encode_trusted(data) if trusted is None else trusted
    if trusted is not None:
        fields["trusted"] = label_fields(trusted.numpy(), class_names, values)["y"]
    for name, value in fields.items():
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


def label_column(given: Any, name: str = "y") -> np.ndarray[Any, Any]:
    """Return labels as one column [N]: int64 with -1, or names (kind "U") with "" where unknown.

    A mask stays one (kind "b").

    Args:
        given: labels in any form.
        name: how errors call them.
    """
    if isinstance(given, Tensor):
        check_numbers(given.numel(), "y")
        labels = checked_sparse(given).to_dense()  # as float64: numpy has no bfloat16
        column = (labels.double() if labels.is_floating_point() else labels).numpy()
    elif isinstance(given, np.ma.MaskedArray):
        column = np.ma.getdata(given).astype(object)
        column[np.ma.getmaskarray(given)] = None
    elif isinstance(given, list | tuple):
        try:  # through objects, or numpy would turn None and NaN beside names into names
            column = np.array(given, dtype=object)
        except ValueError:
            raise EraseError(
                f"one label per node, {name} of shape [N]",
                "entries of different shapes",
                "Give each node one class number or name.",
            ) from None
    else:
        # gaps would turn pandas' own integers into floats
        is_own = isinstance(getattr(given, "dtype", None), pd.api.extensions.ExtensionDtype)
        is_gappy = is_own and pd.api.types.is_integer_dtype(given.dtype)
        column = np.asarray(given, dtype=object if is_gappy else None)
    if column.dtype.kind == "S":
        raise EraseError("labels as numbers or text", "bytes", "Decode them: y.astype(str).")
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.ndim != 1:
        raise EraseError(
            f"one label per node, {name} of shape [N]",
            f"shape {list(column.shape)}",
            f"Take {name}.argmax(1) of one-hot labels; a node has one class here.",
        )
    if column.dtype.kind == "U":
        return _name_column(column.tolist())
    if column.dtype.kind in "biuf":
        return _whole_labels(column, name)
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
        return _name_column(np.where(missing, "", column).tolist())
    if all(isinstance(value, int | np.integer) for value in column[~missing]):
        return _integers(np.where(missing, -1, column), name)
    if not (text & ~missing).any() and not _any_complex(column):
        numbers = None
        try:
            numbers = np.where(missing, np.nan, column).astype(np.float64)
        except OverflowError:  # floats, and an integer beyond them
            i = next(i for i, value in enumerate(column) if _is_huge(value))
            raise _too_large(int(column[i]), i, name) from None
        except (TypeError, ValueError):
            pass
        if numbers is not None:
            return _whole_labels(numbers, name)
    raise EraseError(
        "labels that are all whole numbers or all names",
        f"{shown(column[~missing][0])} among others",
        "Use one kind; leave unknown labels as -1, None or empty.",
    )


def _name_column(names: list[str]) -> np.ndarray[Any, Any]:
    """Return names of classes as an array; each entry takes the memory of the longest."""
    longest = max(names, key=len, default="")
    if len(longest) > LONGEST_NAME:
        raise EraseError(
            f"names of classes of at most {LONGEST_NAME:,} characters",
            f"one of {len(longest):,}, {longest[:40]!r}…",
            "Shorten it, or take another column as the label.",
        )
    if nul := next((name for name in names if "\0" in name), None):  # numpy would cut it off
        raise EraseError("names of classes without NUL", f"{nul!r}", "Remove the character.")
    return np.array(well_formed(names), dtype=str)


def trusted_column(given: Any) -> np.ndarray[Any, Any]:
    """Return trusted labels as one column [N]: classes as `label_column` has them, or a mask."""
    if isinstance(given, list | tuple) and all(isinstance(each, bool) for each in given):
        return np.array(given, dtype=bool)
    return label_column(given, "trusted")


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


def _whole_labels(values: np.ndarray[Any, Any], name: str) -> np.ndarray[Any, Any]:
    """Return number labels as int64, -1 where NaN; a mask as it is."""
    if values.dtype.kind == "b":
        return values
    if values.dtype.kind == "f":
        values = np.where(np.isnan(values), -1, values)
        if (wrong := ~np.isfinite(values) | (values != np.rint(values))).any():
            i = int(np.flatnonzero(wrong)[0])
            raise EraseError(
                "labels that are whole numbers, or names",
                f"{_entry(name)} {values[i]} at node {i}",
                "Number the classes 0, 1, 2, …; a quantity to predict is not a class.",
            )
        if (wrong := np.abs(values) > 2**53).any():  # larger ones may be equal as floats
            i = int(np.flatnonzero(wrong)[0])
            raise EraseError(
                "labels up to 2^53 where they are floating-point numbers",
                f"{_entry(name)} {values[i]:.0f} at node {i}",
                "Number the classes 0, 1, 2, …, or give names.",
            )
    elif values.dtype == np.uint64 and (wrong := values >= 2**63).any():
        i = int(np.flatnonzero(wrong)[0])
        raise _too_large(int(values[i]), i, name)
    return values.astype(np.int64, copy=False)


def _integers(column: np.ndarray[Any, Any], name: str) -> np.ndarray[Any, Any]:
    """Return objects that are integers of any size as int64: floats would make large ones equal."""
    numbers = [int(value) for value in column]
    if (i := next((i for i, number in enumerate(numbers) if _is_huge(number)), None)) is not None:
        raise _too_large(numbers[i], i, name)
    return np.array(numbers, dtype=np.int64)


def _is_huge(value: Any) -> bool:
    """Say whether a number is an integer that int64 does not hold."""
    return isinstance(value, int | np.integer) and not -(2**63) <= int(value) < 2**63


def _too_large(number: int, i: int, name: str) -> EraseError:
    return EraseError(
        "labels below 2^63",
        f"{_entry(name)} {shown(number)} at node {i}",
        "Number the classes 0, 1, 2, …, or give names.",
    )


def _encode_names(
    values: np.ndarray[Any, Any], n: int, names: tuple[str, ...] | None
) -> tuple[Tensor, tuple[str, ...], np.ndarray[Any, Any]]:
    """Return name labels of n nodes, and trusted ones, as `encode_labels` promises."""
    known = values != ""
    used, code = np.unique(values[known], return_inverse=True)
    if names is None:
        _refuse_identifiers("names", used, n, "class_names")
        names = tuple(used.tolist())
    position = {name: k for k, name in enumerate(names)}
    if strange := [name for name in used.tolist() if name not in position]:
        i = int(np.flatnonzero(values == strange[0])[0])
        raise EraseError(
            f"labels among class_names ({', '.join(names[:10])}{', …' if len(names) > 10 else ''})",
            f"{_title(i, n)} {strange[0]!r} at node {i % n}",
            "Correct the label, or add it to class_names.",
        )
    y = np.full(len(values), -1)
    y[known] = np.array([position[name] for name in used.tolist()], dtype=np.int64)[code]
    return torch.from_numpy(y), names, np.array(names, dtype=str)


def misspellings(counts: Mapping[str, int]) -> dict[str, str]:
    """Return class names that probably mean another, more frequent class, each with that class.

    These are names that differ from it by case, blanks, hyphens, underscores or the way Unicode
    writes an accent alone, and names of few nodes (at most 5 % of the other's) that differ by one
    letter in one word of five letters or more: left out, added, replaced, or swapped with its
    neighbour.

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
    same = unicodedata.normalize("NFC", name)  # é may be one character, or an e and its accent
    return " ".join(same.casefold().replace("_", " ").replace("-", " ").split())


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
    for key in ("y", "trusted"):
        given = field(data, key)
        column = None if given is None else label_column(given)
        if column is not None and column.dtype.kind == "U":
            for name, other in found.items():
                column = np.where(column == name, other, column)
            merged[key] = column
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
