"""Graphs that outgrow the memory: a folder of plain arrays, opened without reading them.

``FOLDER/graph.json`` is the manifest: the format's number, sizes, class names, notes, and the file,
type, shape, bytes and checksum (CRC-32) of every array. It is written last. The arrays are
``.npy`` files:

``edge_index`` [2, E] int64
    both directions of every edge, sorted by (row, column), no duplicates, no self-loops; with
    ``indptr`` [N+1] int64 its second row is the adjacency matrix in CSR.
``x`` [N, F] float32
    or CSR as ``x_indptr``, ``x_indices`` (int64) and ``x_values``; absent without features.
``y`` [N] int64
    class numbers, test labels too; -1 where unknown. They are 0..K-1, or the ``class_values`` of
    the manifest.
``train_mask``, ``val_mask``, ``test_mask`` [N] bool
    each where such a split is given.
``trusted`` [N] int64, ``trusted_random`` [N] bool
    the classes that a person confirmed or corrected, as in ``y``, and which of these nodes were
    drawn at random; optional.
``edge_weight`` [E] float32, ``edge_is_given`` [E] bool
    weights, and whether a direction was given or is a mirror image; where the graph has them.
``name_text``, ``name_starts``, ``id_text``, ``id_starts``
    the names and ids of the nodes in UTF-8, and where each starts, [N+1] int64; optional.

So the graph lies on the disk as a `NodeTask` holds it. `erase.data.checks` checks that once.
"""

import json
import math
import mmap
import os
import shutil
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from itertools import islice
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch_geometric.data import Data

from erase.data.checks import (
    ContentsError,
    Stored,
    check_contents,
    checksum,
    is_remembered,
    regular_size,
    remember,
)
from erase.data.edge_sorter import BLOCK, ArrayFile, EdgeSorter
from erase.data.edges import edge_ends, edge_weights, given_edges
from erase.data.features import note_if_sparse, refuse_infinite
from erase.data.fields import (
    Names,
    are_whole,
    field,
    mark_checked,
    read_names,
    to_tensor,
    was_checked,
)
from erase.data.kinds import graph_data
from erase.data.labels import labels_if_any, misspelling_note, own_numbers
from erase.data.matrices import feature_matrix
from erase.data.parts import new_part, output_path, put_in_place, recover
from erase.data.splits import SPLIT_WORDS, node_mask, split_mask
from erase.data.trusted import read_trusted
from erase.errors import EraseError, input_errors

MANIFEST = "graph.json"
FORMAT = 1
MOST_NODES = 2**31 - 1  # N² and a bit more have to fit into 63 bits
_TYPES: dict[str, Any] = {
    **dict.fromkeys(("edge_index", "indptr", "y", "x_indptr", "x_indices"), np.int64),
    **dict.fromkeys(("x", "x_values"), np.float32),
    **{f"{part}_mask": np.bool_ for part in SPLIT_WORDS},
    **dict.fromkeys(("name_text", "id_text"), np.uint8),
    **dict.fromkeys(("name_starts", "id_starts", "trusted"), np.int64),
    **dict.fromkeys(("trusted_random", "edge_is_given"), np.bool_),
    "edge_weight": np.float32,
}

Array = np.ndarray[Any, Any]
LabelKind = Literal["names", "numbers"]
StrPath = str | os.PathLike[str]
# Private pages without a claim on the memory: else a file larger than the memory is refused.
# Python names the flag from 3.13 on.
_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0)


def is_folder(path: StrPath) -> bool:
    """Say whether `path` is a graph's folder, or what a broken writer left of one.

    Tables stay tables, also where results with arrays were written beside them.
    """
    path = Path(path)
    if (path / MANIFEST).is_file():
        return True
    has_tables = (path / "nodes.csv").is_file() or (path / "nodes.parquet").is_file()
    return path.is_dir() and not has_tables and any(path.glob("*.npy"))


def folder_nodes(path: StrPath) -> int:
    """Return how many nodes the graph in a folder has, by its manifest."""
    return int(_read_manifest(Path(path)).get("num_nodes", 0))


def open_folder(path: StrPath) -> Data:
    """Return the graph in a folder, test labels included, without keeping its arrays in memory.

    The tensors lie in the files: a page is read when it is touched, and the system drops it when
    memory is short. They may be written to, as any tensors; the files do not change.
    The first opening reads every file once to check it. Later ones take a moment, whatever the
    size of the graph, until a file changes.

    Raises:
        EraseError: no manifest, another format, an array that is missing or cut short, or one with
            impossible contents.
    """
    path = Path(path)
    recover(path)
    manifest = _read_manifest(path)
    try:
        stored = {name: _stored(path, **entry) for name, entry in manifest["arrays"].items()}
        n = manifest["num_nodes"]
        _check_shapes(manifest, stored)
        changes = _check_once(path, manifest, stored)
        arrays = {name: _open_array(each) for name, each in stored.items()}
        data = Data(edge_index=torch.from_numpy(arrays["edge_index"]), num_nodes=n)
        if "x" in arrays:
            data.x = torch.from_numpy(arrays["x"])
        elif "x_indptr" in arrays:
            parts = [arrays[f"x_{part}"] for part in ("indptr", "indices", "values")]
            data.x = _mapped_csr(manifest["num_features"], *parts)
        masks = [f"{part}_mask" for part in SPLIT_WORDS]
        others = ("trusted", "trusted_random", "edge_weight", "edge_is_given")
        for name in ("indptr", *others, *masks):
            if name in arrays:
                data[name] = torch.from_numpy(arrays[name])
        if "name_text" in arrays:
            data.node_names = Names(arrays["name_text"], arrays["name_starts"])
        if "id_text" in arrays:
            kind = int if manifest.get("id_kind") == "numbers" else str
            data.node_ids = Names(arrays["id_text"], arrays["id_starts"], kind)
        if manifest["class_names"]:
            data.y = torch.from_numpy(arrays["y"])
            data.class_names = [str(name) for name in manifest["class_names"]]
        if manifest["label_kind"] == "names":
            data.label_kind = "names"
        if "class_values" in manifest:
            data.class_values = list(manifest["class_values"])
        if "features" in manifest:
            data.feature_contract = manifest["features"]
        if manifest["notes"] or changes:
            data.notes = [*(str(note) for note in manifest["notes"]), *changes]
    except ContentsError as error:
        raise _unusable(path, str(error)) from None
    except (LookupError, TypeError, AttributeError, ValueError, OverflowError) as error:
        if isinstance(error, EraseError):
            raise
        raise _unusable(path, f"a manifest in which {error!r} is wrong") from error
    mark_checked(data)
    return data


def _read_manifest(path: Path) -> dict[str, Any]:
    try:
        regular_size(path / MANIFEST)
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise _unusable(path, f"no {MANIFEST}: its writer did not finish") from None
    except ContentsError as error:
        raise _unusable(path, str(error)) from None
    except (ValueError, RecursionError) as error:
        raise _unusable(path, f"a {MANIFEST} that is not JSON: {error}") from None
    number = manifest.get("format") if isinstance(manifest, dict) else None
    if number != FORMAT:
        raise EraseError(
            f"a graph's folder of format {FORMAT}",
            f"format {number!r} in {path.name!r}",
            "Convert the graph again, or use the version of erase that wrote the folder.",
        )
    return manifest  # type: ignore[no-any-return]


def _unusable(path: Path, got: str) -> EraseError:
    return EraseError(
        "a whole graph's folder",
        f"{path.name!r} with {got}",
        "Copy it again, or write it again with erase convert.",
    )


def _stored(folder: Path, file: str, dtype: str, shape: list[int], bytes: int) -> Stored:
    """Return where an array lies in its file, after a look at the file's size and header."""
    if Path(file).name != file:
        raise ContentsError(f"an array outside, {file!r}")
    path, kind, size = folder / file, np.dtype(dtype), bytes
    if kind.kind not in "biuf" or not all(isinstance(each, int) and each >= 0 for each in shape):
        raise ContentsError(f"{file} of type {dtype} and shape {shape}")
    try:
        found = regular_size(path)
    except FileNotFoundError:
        raise ContentsError(f"no {file}") from None
    except OSError as error:
        raise ContentsError(f"{file[:50]}: {error.strerror}") from None
    if found != size:
        raise ContentsError(f"{file} of {found:,} bytes in place of {size:,}")
    with path.open("rb") as handle:
        try:
            np.lib.format.read_magic(handle)
            header = np.lib.format.read_array_header_1_0(handle)
        except Exception:  # numpy parses the header as Python's literals
            raise ContentsError(f"{file}, which is no array") from None
        if header != (tuple(shape), False, kind):
            raise ContentsError(f"{file} of another type or shape than in the manifest")
        start = handle.tell()
    if size != start + math.prod(shape) * kind.itemsize:
        raise ContentsError(f"{file}, which is cut short")
    return Stored(path, kind, tuple(shape), start)


def _open_array(stored: Stored) -> Array:
    """Return an array on the pages of its file."""
    count = math.prod(stored.shape)
    if not count:
        return np.empty(stored.shape, stored.dtype)
    with stored.path.open("rb") as handle:
        pages = np.frombuffer(_map_file(handle), stored.dtype, count, stored.start)
    return pages.reshape(stored.shape)


def _check_once(path: Path, manifest: dict[str, Any], stored: dict[str, Stored]) -> list[str]:
    """Check the contents of a folder's arrays, unless these files were checked before.

    Return a note on each file with other bytes than were written; such a folder is checked every
    time.
    """
    files = [path / MANIFEST, *(each.path for each in stored.values())]
    if is_remembered(files):
        return []
    values = manifest.get("class_values")
    classes = range(len(manifest["class_names"])) if values is None else values
    check_contents(manifest["num_nodes"], manifest["num_features"], classes, stored)
    due = manifest.get("checksums", {})
    changed = [
        each.path.name
        for name, each in stored.items()
        if name in due and due[name] != checksum(each.path)
    ]
    if not changed:
        remember(files)
    return [f"{name} was changed after the folder was written." for name in changed]


def _map_file(handle: Any) -> mmap.mmap:
    """Return a file's pages; what is written to them stays in memory."""
    if sys.platform == "win32":
        return mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_COPY)
    flags, protection = mmap.MAP_PRIVATE | _NO_RESERVE, mmap.PROT_READ | mmap.PROT_WRITE
    return mmap.mmap(handle.fileno(), 0, flags=flags, prot=protection)


def _check_shapes(manifest: dict[str, Any], stored: dict[str, Stored]) -> None:
    shapes = {name: each.shape for name, each in stored.items()}
    n, edges = manifest["num_nodes"], manifest["num_edges"]
    if not isinstance(n, int) or not 1 <= n <= MOST_NODES:
        raise ContentsError(f"{n!r} nodes")
    due = {"edge_index": (2, edges), "indptr": (n + 1,), "y": (n,)}
    due |= {name: (n,) for name in shapes if name.endswith("_mask") or "trusted" in name}
    due |= {name: (edges,) for name in ("edge_weight", "edge_is_given") if name in shapes}
    if "x" in shapes:
        due["x"] = (n, manifest["num_features"])
    if "x_indptr" in shapes:
        entries = shapes["x_values"][:1]
        due |= {"x_indptr": (n + 1,), "x_indices": entries, "x_values": entries}
    for of in ("name", "id"):
        if f"{of}_text" in shapes:
            due |= {f"{of}_text": shapes[f"{of}_text"][:1], f"{of}_starts": (n + 1,)}
    for name, shape in due.items():
        if shapes.get(name) != shape:
            raise ContentsError(f"{name} of shape {shapes.get(name)} in place of {shape}")
    for name, each in stored.items():
        if each.dtype != np.dtype(_TYPES.get(name, each.dtype)):
            raise ContentsError(f"{name} of type {each.dtype}")


def _mapped_csr(width: int, indptr: Array, indices: Array, values: Array) -> Tensor:
    """Return a torch CSR on the very arrays; scipy would copy its indices."""
    with warnings.catch_warnings():  # "CSR support is in beta", once in each process
        warnings.simplefilter("ignore", UserWarning)
        return torch.sparse_csr_tensor(
            torch.from_numpy(indptr),
            torch.from_numpy(indices),
            torch.from_numpy(values),
            size=(len(indptr) - 1, width),
            check_invariants=False,
        )


@input_errors("a graph that can be written")
def write_folder(graph: Any, path: StrPath) -> None:
    """Write a graph, test labels included, as a folder that `read_graph` opens without reading.

    The edges are written as `NodeTask` holds them: undirected, sorted, without self-loops, with
    their weights and, of a directed graph, which direction was given. Besides `graph` itself,
    memory does not grow with the graph.

    Args:
        graph: a PyG ``Data``, or anything ``NodeTask.of`` takes; it need not have a label.
        path: the folder; an older graph's folder of that name is replaced, nothing else is.
    """
    data = graph_data(graph)
    y, class_names, values = labels_if_any(data)
    n = y.numel()
    names = read_names(data, "node_names", n)
    ids = field(data, "node_ids")
    kind: LabelKind = "names" if values.dtype.kind == "U" else "numbers"
    numbers = own_numbers(values)
    trusted, random = read_trusted(data)

    def written(classes: Tensor) -> Any:
        return classes if numbers is None else np.append(numbers, -1)[classes.numpy()]

    with FolderWriter(path, n, class_names, label_kind=kind, class_values=numbers) as writer:
        writer.notes += read_names(data, "notes") or ()
        if note := misspelling_note(data):
            writer.notes.append(note)
        writer.feature_contract = field(data, "feature_contract")
        writer.add_labels(written(y))
        if trusted is not None:
            writer.set_trusted(written(trusted), random)
        for part in SPLIT_WORDS:
            if (mask := split_mask(data, part, n)) is not None:
                writer.set_split(part, mask)
        if names is not None:
            writer.add_names(names)
        if ids is not None:
            writer.add_ids(ids)
        row, col, weight, writer.directed = given_edges(data, n)
        writer.add_edges((row, col), weight=weight)
        x = field(data, "x")
        if x is None:
            return
        # as NodeTask would: a nearly empty matrix becomes sparse
        rows = x if isinstance(x, Tensor) else feature_matrix(x)
        strided = isinstance(rows, Tensor) and rows.layout == torch.strided
        dense = strided and rows.dim() == 2 and rows.numel() and not was_checked(data, "x")
        note = note_if_sparse(rows) if dense else None
        writer.notes += [note] if note else []
        writer.add_features(rows, sparse=note is not None)


class FolderWriter:
    """Writes a graph's folder piece by piece, for graphs that never fit into memory.

    Edges may come in any order, in one direction or both, repeated or not: they are dealt into
    files by their row and sorted one file at a time. Features, labels and names come in the order
    of the nodes. The folder appears under its name when the block ends without an exception, and
    not at all otherwise. Memory: about 200 megabytes, and a byte per node and split.

    Args:
        path: the folder; an older graph's folder of that name is replaced, nothing else is.
        num_nodes: N.
        class_names: K names.
        label_kind: "names" where predictions should be class names rather than numbers.
        class_values: the K numbers that labels are; None: 0..K-1.

    Attributes:
        notes: sentences on the graph, shown when it is fitted.
        directed: keep which direction of an edge was given.
        feature_contract: what the features are (`FeatureContract.to_dict`), or None.

    >>> import tempfile, erase
    >>> with tempfile.TemporaryDirectory() as place:
    ...     with FolderWriter(f"{place}/pair", num_nodes=2, class_names=["a", "b"]) as writer:
    ...         writer.add_edges([[0], [1]])
    ...         writer.add_features([[0.5]])
    ...         writer.add_features([[2.0]])
    ...         writer.add_labels([0, 1])
    ...     erase.read_graph(f"{place}/pair").edge_index
    tensor([[0, 1],
            [1, 0]])
    """

    def __init__(
        self,
        path: StrPath,
        num_nodes: int,
        class_names: Sequence[str],
        *,
        label_kind: LabelKind = "numbers",
        class_values: Sequence[int] | None = None,
    ) -> None:
        if not isinstance(num_nodes, int | np.integer) or not 1 <= num_nodes <= MOST_NODES:
            raise EraseError(f"1 to {MOST_NODES:,} nodes", f"{num_nodes}", "Check num_nodes.")
        if class_values is not None and len(class_values) != len(class_names):
            raise EraseError(
                f"{len(class_names)} class_values, one for each of class_names",
                f"{len(class_values)}",
                "Correct one of them.",
            )
        # a link stays, and its target is replaced
        self.path = Path(os.path.realpath(output_path(path)))
        self.num_nodes = int(num_nodes)
        self.class_names = [str(name) for name in class_names]
        self.label_kind = label_kind
        self.class_values = None if class_values is None else [int(each) for each in class_values]
        self.notes: list[str] = []
        self.directed = False
        self.feature_contract: dict[str, Any] | None = None
        self._arrays: dict[str, ArrayFile] = {}
        self._width: int | None = None
        self._ids_are_numbers = True

    def __enter__(self) -> Self:
        if self.path.exists() and not _is_replaceable(self.path):
            raise EraseError(
                "a new folder, or an older graph's to replace",
                f"{str(self.path)!r}, which holds something else",
                "Choose another name, or remove it.",
            )
        with ExitStack() as opened:
            self._part = opened.enter_context(new_part(self.path, is_folder=True))
            self._edges = EdgeSorter(self._part / "edges", self.num_nodes)
            self._opened = opened.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: Any
    ) -> None:
        with self._opened as opened:
            opened.callback(self._close)
            if kind is None:
                self._finish()
            elif isinstance(error, OSError):
                raise error  # where it does not name its file, it gets that of the folder

    def _close(self) -> None:
        for array in self._arrays.values():
            with suppress(OSError):  # a full disk, again
                array.file.close()

    @input_errors("edges of shape [2, e]")
    def add_edges(self, edges: Any, *, weight: Any = None, both_ways: bool = False) -> None:
        """Add edges [2, e] in any order, any direction, any number of times.

        Args:
            edges: node numbers from 0.
            weight: [e] weights from 0 on, for all edges of the graph or none.
            both_ways: each stands for its mirror image too; else a note counts the edges mirrored.
        """
        if len(edges) != 2 or len(edges[0]) != len(edges[1]):
            raise EraseError(
                "edges of shape [2, e]",
                f"rows of lengths {[len(row) for row in edges[:3]]}",
                "Put sources in the first row and targets in the second; transpose if needed.",
            )
        row, col = edges
        for start in range(0, max(1, len(row)), BLOCK):
            pair = [to_tensor(end[start : start + BLOCK], "edges") for end in (row, col)]
            some = Data(edge_index=torch.stack(pair))
            if weight is not None:
                some.edge_weight = weight[start : start + BLOCK]
            weights = edge_weights(some, len(pair[0]))
            self._edges.add(*edge_ends(some), weights, both_ways=both_ways)

    @input_errors("features of shape [n, F]")
    def add_features(self, rows: Any, *, sparse: bool = False) -> None:
        """Add the features of the next nodes, [n, F]: dense, or sparse of scipy or torch.

        Args:
            rows: numbers that float32 can hold.
            sparse: keep dense rows as CSR.
        """
        for block in _row_blocks(rows):
            first = self._rows("x_indptr" if "x_indptr" in self._arrays else "x")
            matrix = feature_matrix(block, first)
            refuse_infinite(matrix, first=first)
            if sparse and isinstance(matrix, Tensor):
                matrix = sp.csr_matrix(matrix.numpy())
            self._check_features(matrix, first)
            if isinstance(matrix, Tensor):
                self._array("x", np.float32, (matrix.shape[1],)).append(matrix.numpy())
                continue
            starts = self._array("x_indptr", np.int64)
            values = self._array("x_values", np.float32)
            starts.append(matrix.indptr[1 if starts.rows else 0 :].astype(np.int64) + values.rows)
            self._array("x_indices", np.int64).append(matrix.indices)
            values.append(matrix.data)

    @input_errors("labels, a number each")
    def add_labels(self, y: Any) -> None:
        """Add the classes of the next nodes, [n] numbers; -1 or NaN where unknown."""
        self._array("y", np.int64).append(self._class_numbers(y, self._rows("y")))

    @input_errors("trusted labels, a number each")
    def set_trusted(self, trusted: Any, random: Any = None) -> None:
        """Set the classes that a person confirmed or corrected, [N] numbers; -1 elsewhere.

        Args:
            trusted: numbers like those of `add_labels`.
            random: which of these nodes were drawn at random, a mask [N] or node numbers; None:
                all of them.
        """
        self._array("trusted", np.int64).append(self._class_numbers(trusted, 0))
        if random is not None:
            mask = node_mask(random, self.num_nodes, "trusted_random")
            self._array("trusted_random", np.bool_).append(mask.numpy())

    def _class_numbers(self, y: Any, first: int) -> Array:
        """Return labels as checked [n] int64; `first` is the node of the first."""
        k = len(self.class_names)
        labels = to_tensor(y, "labels").reshape(-1).numpy()
        numbers: Array = np.nan_to_num(labels, nan=-1.0).astype(np.int64)
        if self.class_values is None:
            classes, known = f"in 0..{k - 1} ({k} classes)", (numbers >= 0) & (numbers < k)
        else:
            classes, known = "among class_values", np.isin(numbers, self.class_values)
        wrong = ~(known | (numbers == -1)) | ~((numbers == labels) | np.isnan(labels))
        if wrong.any():
            i = int(np.flatnonzero(wrong)[0])
            raise EraseError(
                f"labels {classes}, or -1 where unknown",
                f"label {labels[i]} at node {first + i}",
                "Correct it, set it to -1, or give more class_names.",
            )
        return numbers

    @input_errors("a mask or node numbers")
    def set_split(self, part: str, nodes: Any) -> None:
        """Set the nodes of `part`, "train", "val" or "test": a mask [N] or node numbers."""
        if part not in SPLIT_WORDS:
            raise EraseError("train, val or test", repr(part), "Use one of these words.")
        name = f"{part}_mask"
        self._array(name, np.bool_).append(node_mask(nodes, self.num_nodes, name).numpy())

    @input_errors("names of nodes")
    def add_names(self, names: Iterable[str]) -> None:
        """Add the names of the next nodes."""
        self._add_text("name", names)

    @input_errors("ids of nodes")
    def add_ids(self, ids: Sequence[Any]) -> None:
        """Add the ids of the next nodes: names, or whole numbers."""
        self._ids_are_numbers &= are_whole(ids)
        self._add_text("id", ids)

    def _add_text(self, what: str, names: Iterable[Any]) -> None:
        text = self._array(f"{what}_text", np.uint8)
        starts = self._array(f"{what}_starts", np.int64)
        if not starts.rows:
            starts.append(np.zeros(1))
        queue = iter(names)
        while encoded := [
            str(name).encode(errors="backslashreplace") for name in islice(queue, BLOCK)
        ]:
            starts.append(text.rows + np.cumsum([len(name) for name in encoded]))
            text.append(np.frombuffer(b"".join(encoded), np.uint8))

    def _array(self, name: str, dtype: Any, tail: tuple[int, ...] = ()) -> "ArrayFile":
        if name not in self._arrays:
            self._arrays[name] = ArrayFile(self._part / f"{name}.npy", dtype, tail)
        return self._arrays[name]

    def _rows(self, name: str) -> int:
        """Return how many nodes the array has got so far."""
        if name not in self._arrays:
            return 0
        return self._arrays[name].rows - (name in ("x_indptr", "name_starts", "id_starts"))

    def _check_features(self, matrix: Any, first: int) -> None:
        width = matrix.shape[1]
        if self._width is None:
            self._width = width
        kind = "x" if isinstance(matrix, Tensor) else "x_indptr"
        if width != self._width or ({"x", "x_indptr"} - {kind}) & self._arrays.keys():
            raise EraseError(
                f"features of {self._width} columns, all dense or all sparse",
                f"{width} columns, {'dense' if kind == 'x' else 'sparse'}, from node {first} on",
                "Give every node the same features.",
            )

    def _finish(self) -> None:
        """Sort the edges, check that no node is missing, write the manifest, rename the folder."""
        self._check_complete()
        num_edges = self._edges.finish(self._array, self.directed)
        shutil.rmtree(self._edges.folder)
        entries = {name: array.close() for name, array in self._arrays.items()}
        manifest = {
            "format": FORMAT,
            "num_nodes": self.num_nodes,
            "num_edges": num_edges,
            "num_features": self._width or 0,
            "label_kind": self.label_kind,
            "class_names": self.class_names,
            **({} if self.class_values is None else {"class_values": self.class_values}),
            "notes": [*self.notes, *self._edges.notes()],
            **({} if self.feature_contract is None else {"features": self.feature_contract}),
            **({"id_kind": "numbers"} if "id_text" in entries and self._ids_are_numbers else {}),
            "arrays": entries,
            "checksums": {name: checksum(array.path) for name, array in self._arrays.items()},
        }
        with (self._part / MANIFEST).open("x", encoding="utf-8", errors="backslashreplace") as file:
            json.dump(manifest, file, indent=2, ensure_ascii=False)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        put_in_place(self._part, self.path)

    def _check_complete(self) -> None:
        if "y" not in self._arrays:
            self.add_labels(np.full(self.num_nodes, -1))
        entries = {"y": "labels", "x": "rows of features", "x_indptr": "rows of features"}
        entries |= {"name_starts": "names", "id_starts": "ids", "trusted": "trusted labels"}
        for name, what in entries.items():
            if name in self._arrays and self._rows(name) != self.num_nodes:
                raise EraseError(
                    "as many labels as nodes" if name == "y" else f"{what} for every node",
                    f"{self.num_nodes} nodes and {self._rows(name)} {what}",
                    "Give every node a row in x and an entry in y, -1 where the label is unknown.",
                )


def _row_blocks(rows: Any) -> Iterator[Any]:
    """Return features [n, F] in blocks of about `BLOCK` numbers, without a copy of the whole."""
    if isinstance(rows, Tensor) and rows.layout == torch.sparse_csr:
        parts = (rows.crow_indices(), rows.col_indices(), rows.values())
        starts, indices, values = (part.numpy() for part in parts)
    elif getattr(rows, "format", "") == "csr":
        starts, indices, values = rows.indptr, rows.indices, rows.data
    else:
        plain = isinstance(rows, np.ndarray) or (
            isinstance(rows, Tensor) and rows.layout == torch.strided
        )
        height = BLOCK // max(1, math.prod(rows.shape[1:])) + 1 if plain else BLOCK
        if not plain or rows.ndim != 2:
            yield rows
            return
        yield from (rows[first : first + height] for first in range(0, len(rows), height))
        return
    n, width = rows.shape
    height = BLOCK * n // max(1, len(values)) + 1
    for first in range(0, n, height):
        cut = starts[first : first + height + 1]
        entries = slice(cut[0], cut[-1])
        block = (values[entries], indices[entries], cut - cut[0])
        yield sp.csr_matrix(block, shape=(len(cut) - 1, width))


def _is_replaceable(path: Path) -> bool:
    """Say whether a folder holds nothing but files of a graph's folder: results stay."""
    known = {MANIFEST, *(f"{name}.npy" for name in _TYPES)}
    return path.is_dir() and known.issuperset(each.name for each in path.iterdir())
