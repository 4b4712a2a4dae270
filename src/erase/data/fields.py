"""The fields of a PyG ``Data``: one by its name, as a tensor, or as names."""

import os
from collections.abc import Iterable, Sequence
from typing import Any, overload

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from erase.errors import EraseError


def field(data: Data, name: str) -> Any:
    """Return `data[name]`, or None; getattr would return what PyG infers."""
    if not isinstance(data, Data):
        raise not_a_graph(data)
    if name not in data:
        return None
    return data[name]


def count_nodes(data: Data) -> int:
    """Return N of a graph that need not have labels."""
    for name in ("num_nodes", "x", "y", "node_ids", "node_names"):
        value = field(data, name)
        if value is not None:
            return _whole(value) if name == "num_nodes" else length(value, name)
    raise EraseError(
        "the number of nodes", "neither num_nodes nor x", "Set data.num_nodes, or give features."
    )


def _whole(given: Any) -> int:
    """Return `num_nodes` as a whole number from 1 on."""
    try:
        if int(given) == given and given >= 1:
            return int(given)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        pass
    raise EraseError("num_nodes as a whole number from 1 on", f"{given!r}", "Correct it.")


def not_a_graph(given: Any) -> EraseError:
    """Return the error that says what a graph can be given as."""
    if isinstance(given, str | os.PathLike):
        return EraseError(
            "a graph",
            f"{os.fspath(given)!r}",
            "Read a file with erase.read_graph(path), a dataset with erase.load_dataset(name).",
        )
    if isinstance(given, HeteroData):
        return EraseError(
            "a graph with one kind of nodes and edges",
            "a HeteroData",
            "Convert it: data.to_homogeneous().",
        )
    return EraseError(
        "a graph",
        f"{type(given).__module__}.{type(given).__name__}",
        "Pass a torch_geometric Data, a NodeTask, a networkx graph or two pandas tables (nodes, "
        "edges). Arrays become a graph with erase.from_arrays(edges, x=X, y=y).",
    )


def to_tensor(given: Any, name: str = "values") -> Tensor:
    """Return numbers as a tensor that may share their memory (torch takes plain arrays only)."""
    if isinstance(given, Tensor):
        odd = given.is_meta or given.is_quantized or given.is_nested
        if odd or given.layout != torch.strided:
            kind = "meta" if given.is_meta else given.dtype if odd else given.layout
            raise EraseError(
                f"{name} as a dense tensor of numbers", f"one of {kind}", "Convert it first."
            )
        return given.detach().cpu()
    try:
        array = np.asarray(given)
    except (TypeError, ValueError, RecursionError, OverflowError):
        raise EraseError(
            f"{name} as an array of numbers", "rows of different lengths", "Make them equally long."
        ) from None
    if array.dtype.kind not in "biufc":
        got = repr(given) if given is None or isinstance(given, str) else str(array.dtype)
        raise EraseError(f"{name} as an array of numbers", got, "Turn them into numbers.")
    # what torch does not know
    known = {np.longdouble: np.float64, np.ulonglong: np.uint64, np.longlong: np.int64}
    array = array.astype(known.get(array.dtype.type, array.dtype), copy=False)
    return torch.from_numpy(np.require(array, array.dtype.newbyteorder("="), ["C", "W"]))


def length(values: Any, name: str) -> int:
    """Return how many `values` there are."""
    try:
        return len(values)
    except TypeError:
        raise EraseError(f"{name} as a list or array", f"{values!r}", "Correct it.") from None


def first_true(mask: Tensor) -> int:
    """Return the first position where `mask` [N] holds."""
    return int(mask.nonzero()[0])


def node_title(i: int, names: Sequence[str] | None) -> str:
    """Return how a message names node i."""
    if names is None or i >= len(names):  # too few names: `read_names` tells
        return f"node {i}"
    return f"node {i} ({names[i]!r})"


class Names(Sequence[str]):
    """Many names as one text, cut where each starts: a name is decoded when it is asked for.

    Args:
        text: the names in UTF-8, one after the other, [B] uint8.
        starts: where each starts, and B, [N+1].
        kind: of a name: str, or int where ids are whole numbers.

    >>> names = Names(np.frombuffer("añb".encode(), np.uint8), np.array([0, 3, 4]))
    >>> len(names), names[0], names[-1:]
    (2, 'añ', ['b'])
    """

    def __init__(
        self, text: np.ndarray[Any, Any], starts: np.ndarray[Any, Any], kind: Any = str
    ) -> None:
        self.text, self.starts, self.kind = text, starts, kind

    def __len__(self) -> int:
        return len(self.starts) - 1

    @overload
    def __getitem__(self, which: int) -> str: ...
    @overload
    def __getitem__(self, which: slice) -> list[str]: ...
    def __getitem__(self, which: int | slice) -> str | list[str]:
        if isinstance(which, slice):
            return [self[i] for i in range(*which.indices(len(self)))]
        if not -len(self) <= which < len(self):
            raise IndexError(which)
        first, end = self.starts[which % len(self)], self.starts[which % len(self) + 1]
        name: str = self.kind(bytes(self.text[first:end]).decode())
        return name


def read_names(data: Data, key: str, n: int | None = None) -> Sequence[str] | None:
    """Return `data[key]` as names, checked to be n of them."""
    if (given := field(data, key)) is None:
        return None
    names = given if isinstance(given, Names) else to_names(given, key)
    if n is not None and len(names) != n:
        raise EraseError(
            f"{n} {key}, one each", f"{len(names)}", f"Correct data.{key}, or remove it."
        )
    return names


def to_names(given: Any, key: str) -> tuple[str, ...]:
    """Return a list or an array of names as a tuple of them."""
    if isinstance(given, str) or not hasattr(given, "__iter__"):
        raise EraseError(f"{key} as a list of names", f"{given!r}", "Give a list, a name each.")
    if hasattr(given, "__len__") and len(given) > 2**28:  # tens of gigabytes of Python's objects
        raise EraseError(
            f"at most {2**28:,} {key}", f"{len(given):,}", "Write larger graphs by FolderWriter."
        )
    return well_formed([str(name) for name in given])


def to_ids(given: Any) -> list[Any]:
    """Return ids as a list; each has to be a value that can be looked up, as names and numbers."""
    if length(given, "node_ids") > 2**28:
        raise EraseError(
            f"at most {2**28:,} node_ids", f"{len(given):,}", "Write larger graphs by FolderWriter."
        )
    ids = [given[i] for i in range(length(given, "node_ids"))]
    try:
        for each in ids:
            hash(each)
    except TypeError:
        raise EraseError(
            "node_ids that are names or numbers", f"{each!r}", "Turn them into names."
        ) from None
    return ids


def are_whole(ids: Iterable[Any]) -> bool:
    """Return whether all ids are whole numbers that int64 holds."""
    return all(
        (type(each) is int or isinstance(each, np.integer)) and -(2**63) <= each < 2**63
        for each in ids
    )


def well_formed(names: Sequence[str]) -> tuple[str, ...]:
    """Return names in which half of a surrogate pair, which no file can hold, is its escape.

    >>> well_formed(["plain", "caf\\udce9"])
    ('plain', 'caf\\\\udce9')
    """
    try:
        "".join(names).encode()
    except UnicodeEncodeError:
        return tuple(name.encode(errors="backslashreplace").decode() for name in names)
    return tuple(names)


def written(values: Iterable[Any]) -> list[Any]:
    """Return names and ids as a table can hold them: text as `well_formed` makes it."""
    return [well_formed([each])[0] if isinstance(each, str) else each for each in values]


def node_columns(
    nodes: np.ndarray[Any, Any], ids: Sequence[Any] | None, names: Sequence[str] | None
) -> dict[str, Any]:
    """Return the columns that say which `nodes` [n] rows are about: node, and id, name if known."""
    columns: dict[str, Any] = {"node": nodes}
    if ids is not None:
        columns["id"] = written([ids[i] for i in nodes.tolist()])
    if names is not None:
        columns["name"] = np.array(written([names[i] for i in nodes.tolist()]), dtype=object)
    return columns


# what else the promises of a tensor are about
_TOGETHER = {"edge_index": ("edge_index", "indptr", "edge_weight", "edge_is_given"), "x": ("x",)}


def mark_checked(data: Data) -> None:
    """Say that the edges and `x` of `data` keep the promises of `NodeTask` as they are.

    The mark is on the tensors, not on `data`: a copy of `data` keeps it. Another tensor in the
    place of one of them, one that is written to, and another number of nodes are checked like
    anybody's. Only what torch writes is noticed, not what numpy writes into the same memory.
    """
    tensors = {name: field(data, name) for names in _TOGETHER.values() for name in names}
    seen = {name: (each, _writes(each)) for name, each in tensors.items() if each is not None}
    vars(data)["_checked"] = (count_nodes(data), seen)


def was_checked(data: Data, name: str) -> bool:
    """Say whether `data[name]`, and what belongs to it, are as `mark_checked` saw them."""
    nodes, seen = vars(data).get("_checked", (0, {}))
    if name not in seen or field(data, name) is None:
        return False
    parts = [(field(data, each), seen.get(each)) for each in _TOGETHER[name]]
    return count_nodes(data) == nodes and all(
        now is None or (mark is not None and now is mark[0] and _writes(now) == mark[1])
        for now, mark in parts
    )


def _writes(tensor: Any) -> int:
    """Return how often torch wrote to a tensor."""
    return -1 if tensor.is_inference() else tensor._version
