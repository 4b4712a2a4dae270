"""Graphs that outgrow the memory: a folder of plain arrays, opened without reading them.

``FOLDER/graph.json`` is the manifest: the format's number, sizes, class names, notes, and the file,
type, shape and bytes of every array. It is written last. The arrays are ``.npy`` files:

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
``name_text``, ``name_starts``
    the names of the nodes in UTF-8, and where each starts, [N+1] int64; optional.

So the graph lies on the disk as a `NodeTask` holds it, and there is nothing left to check.
"""

import json
import math
import mmap
import os
import secrets
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch_geometric.data import Data

from erase.data.edges import edge_ends, edge_notes, edge_weights, refuse_strangers
from erase.data.features import note_if_sparse, refuse_infinite
from erase.data.fields import Names, field, mark_checked, read_names, to_tensor, was_checked
from erase.data.labels import encode_labels, label_fields, own_numbers
from erase.data.matrices import feature_matrix
from erase.data.splits import SPLIT_WORDS, node_mask, split_mask
from erase.errors import EraseError

MANIFEST = "graph.json"
FORMAT = 1
MOST_NODES = 2**31 - 1  # N² and a bit more have to fit into 63 bits
BUCKETS = 512  # ranges of rows that edges are dealt into before they are sorted
BLOCK = 2**20  # edges, feature values or names handled at a time
LARGEST_BUCKET = 8 * BLOCK  # edges sorted at once; a bucket with more is dealt again

Array = np.ndarray[Any, Any]
LabelKind = Literal["names", "numbers"]
StrPath = str | os.PathLike[str]
# Private pages without a claim on the memory: else a file larger than the memory is refused.
# Python names the flag from 3.13 on.
_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0)


def is_folder(path: StrPath) -> bool:
    """Say whether `path` is a graph's folder, or what a broken writer left of one."""
    path = Path(path)
    return (path / MANIFEST).is_file() or (path.is_dir() and any(path.glob("*.npy")))


def open_folder(path: StrPath) -> Data:
    """Return the graph in a folder, test labels included, without reading its arrays.

    The tensors lie in the files: a page is read when it is touched, and the system drops it when
    memory is short. They may be written to, as any tensors; the files do not change.
    Time and memory do not depend on the size of the graph.

    Raises:
        EraseError: no manifest, another format, or an array that is missing, cut short or changed.
    """
    path = Path(path)
    manifest = _read_manifest(path)
    try:
        arrays = {name: _open_array(path, **entry) for name, entry in manifest["arrays"].items()}
        n = manifest["num_nodes"]
        _check_shapes(path, manifest, {name: tuple(each.shape) for name, each in arrays.items()})
        data = Data(edge_index=torch.from_numpy(arrays["edge_index"]), num_nodes=n)
        if "x" in arrays:
            data.x = torch.from_numpy(arrays["x"])
        elif "x_indptr" in arrays:
            parts = [arrays[f"x_{part}"] for part in ("indptr", "indices", "values")]
            data.x = _mapped_csr(manifest["num_features"], *parts)
        for name in ("indptr", "y", *(f"{part}_mask" for part in SPLIT_WORDS)):
            if name in arrays:
                data[name] = torch.from_numpy(arrays[name])
        if "name_text" in arrays:
            data.node_names = Names(arrays["name_text"], arrays["name_starts"])
        data.class_names = [str(name) for name in manifest["class_names"]]
        if manifest["label_kind"] == "names":
            data.label_kind = "names"
        if "class_values" in manifest:
            data.class_values = list(manifest["class_values"])
        if "features" in manifest:
            data.feature_contract = manifest["features"]
        if manifest["notes"]:
            data.notes = [str(note) for note in manifest["notes"]]
    except (KeyError, TypeError, AttributeError) as error:
        raise _unusable(path, f"a manifest in which {error!r} is wrong") from error
    mark_checked(data)
    return data


def _read_manifest(path: Path) -> dict[str, Any]:
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise _unusable(path, f"no {MANIFEST}: its writer did not finish") from None
    except ValueError as error:
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


def _open_array(folder: Path, file: str, dtype: str, shape: list[int], bytes: int) -> Array:
    """Return one array on its file's pages, after a look at the file's size and header."""
    if Path(file).name != file:
        raise _unusable(folder, f"an array outside, {file!r}")
    path = folder / file
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        raise _unusable(folder, f"no {file}") from None
    if size != bytes:
        raise _unusable(folder, f"{file} of {size:,} bytes in place of {bytes:,}")
    with path.open("rb") as handle:
        try:
            np.lib.format.read_magic(handle)
            header = np.lib.format.read_array_header_1_0(handle)
        except ValueError:
            raise _unusable(folder, f"{file}, which is no array") from None
        start = handle.tell()
        if header != (tuple(shape), False, np.dtype(dtype)):
            raise _unusable(folder, f"{file} of another type or shape than the manifest says")
        count = math.prod(shape)
        if size != start + count * np.dtype(dtype).itemsize:
            raise _unusable(folder, f"{file}, which is cut short")
        if not count:
            return np.empty(shape, dtype)
        return np.frombuffer(_map_file(handle), dtype, count, start).reshape(shape)


def _map_file(handle: Any) -> mmap.mmap:
    """Return a file's pages; what is written to them stays in memory."""
    if sys.platform == "win32":
        return mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_COPY)
    flags, protection = mmap.MAP_PRIVATE | _NO_RESERVE, mmap.PROT_READ | mmap.PROT_WRITE
    return mmap.mmap(handle.fileno(), 0, flags=flags, prot=protection)


def _check_shapes(path: Path, manifest: dict[str, Any], shapes: dict[str, tuple[int, ...]]) -> None:
    n, edges = manifest["num_nodes"], manifest["num_edges"]
    due = {"edge_index": (2, edges), "indptr": (n + 1,), "y": (n,)}
    due |= {name: (n,) for name in shapes if name.endswith("_mask")}
    if "x" in shapes:
        due["x"] = (n, manifest["num_features"])
    if "x_indptr" in shapes:
        due |= {"x_indptr": (n + 1,), "x_indices": shapes["x_values"]}
    if "name_text" in shapes:
        due["name_starts"] = (n + 1,)
    for name, shape in due.items():
        if shapes.get(name) != shape:
            raise _unusable(path, f"{name} of shape {shapes.get(name)} in place of {shape}")


def _mapped_csr(width: int, indptr: Array, indices: Array, values: Array) -> Tensor:
    """Return a torch CSR on the very arrays; scipy would copy its indices."""
    return torch.sparse_csr_tensor(
        torch.from_numpy(indptr),
        torch.from_numpy(indices),
        torch.from_numpy(values),
        size=(len(indptr) - 1, width),
        check_invariants=False,
    )


def write_folder(data: Data, path: StrPath) -> None:
    """Write a graph, test labels included, as a folder that `read_graph` opens without reading.

    The edges are written as `NodeTask` holds them: undirected, sorted, without self-loops. Besides
    `data` itself, memory does not grow with the graph.

    Args:
        data: what `NodeTask.from_data` takes; it need not have a training label.
        path: the folder; an older graph's folder of that name is replaced, nothing else is.
    """
    y, class_names, values = encode_labels(data)
    n = y.numel()
    names = read_names(data, "node_names", n)
    kind: LabelKind = "names" if values.dtype.kind == "U" else "numbers"
    numbers = own_numbers(values)
    labels = y if numbers is None else label_fields(y.numpy(), class_names, values)["y"]
    with FolderWriter(path, n, class_names, label_kind=kind, class_values=numbers) as writer:
        writer.notes += field(data, "notes") or ()
        writer.feature_contract = field(data, "feature_contract")
        writer.add_labels(labels)
        for part in SPLIT_WORDS:
            if (mask := split_mask(data, part, n)) is not None:
                writer.set_split(part, mask)
        if names is not None:
            writer.add_names(names)
        writer.add_edges(edge_ends(data, n))
        if edge_weights(data, edge_ends(data, n)[0].numel()) is not None:
            writer.notes.append("Edge weights are not kept in a folder.")
        x = field(data, "x")
        if x is None:
            return
        # as NodeTask would: a nearly empty matrix becomes sparse
        rows = x if isinstance(x, Tensor) else feature_matrix(x)
        strided = isinstance(rows, Tensor) and rows.layout == torch.strided
        asked = strided and rows.dim() == 2 and rows.numel() and not was_checked(data, "x")
        note = note_if_sparse(rows) if asked else None
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
        notes: sentences on the graph that whoever fits it is told.
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
        if not 1 <= num_nodes <= MOST_NODES:
            raise EraseError(f"1 to {MOST_NODES:,} nodes", f"{num_nodes}", "Check num_nodes.")
        if class_values is not None and len(class_values) != len(class_names):
            raise EraseError(
                f"{len(class_names)} class_values, one for each of class_names",
                f"{len(class_values)}",
                "Correct one of them.",
            )
        self.path = Path(path)
        self.num_nodes = num_nodes
        self.class_names = [str(name) for name in class_names]
        self.label_kind = label_kind
        self.class_values = None if class_values is None else [int(each) for each in class_values]
        self.notes: list[str] = []
        self.feature_contract: dict[str, Any] | None = None
        self._part = self.path.with_name(f".{self.path.name}.{secrets.token_hex(4)}.part")
        self._arrays: dict[str, _ArrayFile] = {}
        self._width: int | None = None

    def __enter__(self) -> Self:
        if self.path.exists() and not is_folder(self.path) and not _is_empty_folder(self.path):
            raise EraseError(
                "a new folder, or an older graph's to replace",
                f"{str(self.path)!r}, which holds something else",
                "Choose another name, or remove it.",
            )
        self._part.mkdir(parents=True)
        self._edges = _EdgeSorter(self._part / "edges", self.num_nodes)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: Any
    ) -> None:
        try:
            if kind is None:
                self._finish()
        finally:
            for array in self._arrays.values():
                array.file.close()
            shutil.rmtree(self._part, ignore_errors=True)

    def add_edges(self, edges: Any, *, both_ways: bool = False) -> None:
        """Add edges [2, e] in any order, any direction, any number of times.

        Args:
            edges: node numbers from 0.
            both_ways: each stands for its mirror image too; else a note tells of those mirrored.
        """
        if len(edges) != 2 or len(edges[0]) != len(edges[1]):
            raise EraseError(
                "edges of shape [2, e]",
                f"rows of lengths {[len(row) for row in edges[:3]]}",
                "Put sources in the first row and targets in the second; transpose if needed.",
            )
        row, col = edges
        for start in range(0, len(row), BLOCK):
            pair = [to_tensor(end[start : start + BLOCK], "edges") for end in (row, col)]
            self._edges.add(*edge_ends(Data(edge_index=torch.stack(pair))), both_ways=both_ways)

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

    def add_labels(self, y: Any) -> None:
        """Add the classes of the next nodes, [n] numbers; -1 or NaN where unknown."""
        first, k = self._rows("y"), len(self.class_names)
        labels = to_tensor(y, "labels").reshape(-1).numpy()
        numbers = np.nan_to_num(labels, nan=-1.0).astype(np.int64)
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
        self._array("y", np.int64).append(numbers)

    def set_split(self, part: str, nodes: Any) -> None:
        """Say which nodes are of `part`, "train", "val" or "test": a mask [N] or node numbers."""
        if part not in SPLIT_WORDS:
            raise EraseError("train, val or test", repr(part), "Use one of these words.")
        name = f"{part}_mask"
        self._array(name, np.bool_).append(node_mask(nodes, self.num_nodes, name).numpy())

    def add_names(self, names: Iterable[str]) -> None:
        """Add the names of the next nodes."""
        text, starts = self._array("name_text", np.uint8), self._array("name_starts", np.int64)
        if not starts.rows:
            starts.append(np.zeros(1))
        queue = iter(names)
        while encoded := [str(name).encode() for name in islice(queue, BLOCK)]:
            starts.append(text.rows + np.cumsum([len(name) for name in encoded]))
            text.append(np.frombuffer(b"".join(encoded), np.uint8))

    def _array(self, name: str, dtype: Any, tail: tuple[int, ...] = ()) -> "_ArrayFile":
        if name not in self._arrays:
            self._arrays[name] = _ArrayFile(self._part / f"{name}.npy", dtype, tail)
        return self._arrays[name]

    def _rows(self, name: str) -> int:
        """Return how many nodes the array has got so far."""
        if name not in self._arrays:
            return 0
        return self._arrays[name].rows - (name in ("x_indptr", "name_starts"))

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
        """Sort the edges, check that everybody has come, write the manifest, take the name."""
        self._check_complete()
        num_edges = self._edges.finish(
            self._array("edge_index", np.int64), self._array("indptr", np.int64)
        )
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
            "arrays": entries,
        }
        with (self._part / MANIFEST).open("x", encoding="utf-8") as file:
            json.dump(manifest, file, indent=2, ensure_ascii=False)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        _move(self._part, self.path)

    def _check_complete(self) -> None:
        if "y" not in self._arrays:
            self.add_labels(np.full(self.num_nodes, -1))
        told = {"y": "labels", "x": "rows of features", "x_indptr": "rows of features"}
        told["name_starts"] = "names"
        for name, what in told.items():
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


class _ArrayFile:
    """A ``.npy`` file that grows row by row; its header gets the shape at the end."""

    def __init__(self, path: Path, dtype: Any, tail: tuple[int, ...] = ()) -> None:
        self.dtype = np.dtype(dtype)
        self.tail = tail
        self.rows = 0
        self.path = path
        self.file = path.open("xb")
        self._write_header((0, *tail))

    def append(self, block: Array) -> None:
        """Add rows at the end."""
        block = np.ascontiguousarray(block, self.dtype)
        if block.size:
            self.file.write(block.data.cast("B"))
        self.rows += len(block)

    def close(self, shape: tuple[int, ...] | None = None) -> dict[str, Any]:
        """Complete the header, bring the bytes to the disk; return the entry in the manifest."""
        if not self.file.closed:
            self.shape = (self.rows, *self.tail) if shape is None else shape
            self.file.seek(0)
            self._write_header(self.shape)
            self.file.flush()
            os.fsync(self.file.fileno())
            self.file.close()
        return {
            "file": self.path.name,
            "dtype": self.dtype.name,
            "shape": list(self.shape),
            "bytes": self.path.stat().st_size,
        }

    def _write_header(self, shape: tuple[int, ...]) -> None:
        # of one length whatever the shape: numpy leaves room for one axis to grow
        form = {"descr": self.dtype.str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(self.file, form)


class _EdgeSorter:
    """Undirected edges in order, sorted outside the memory.

    An edge (row, column) is the number 2 (row · N + column), its mirror image that number of
    (column, row) plus 1: so sorting brings both together, with the edge that was given first.
    """

    def __init__(self, folder: Path, num_nodes: int) -> None:
        self.folder = folder
        self.n = num_nodes
        self.seen = self.loops = self.given = self.different = self.total = 0
        self.waiting: list[Array] = []
        folder.mkdir()

    def add(self, row: Tensor, col: Tensor, *, both_ways: bool = False) -> None:
        """Take edges, [e] each; they are dealt when many have come."""
        refuse_strangers(row, col, self.n, self.seen)
        self.seen += row.numel()
        ahead, back = row * self.n + col, col * self.n + row
        kept = row != col
        self.given += int(kept.sum()) * (2 if both_ways else 1)
        self.loops += int((~kept).sum())
        mirror = 0 if both_ways else 1
        self.waiting.append(torch.cat([2 * ahead[kept], 2 * back[kept] + mirror]).numpy())
        if sum(map(len, self.waiting)) >= 2 * BLOCK:
            self._deal_waiting()

    def finish(self, edge_index: "_ArrayFile", indptr: "_ArrayFile") -> int:
        """Write the edges in order and where each row starts; return how many there are."""
        self._deal_waiting()
        indptr.append(np.zeros(1))
        columns = self.folder / "columns"
        with columns.open("wb") as file:
            for low, high, keys in self._settled(0, self.n, self.folder):
                row, col = np.divmod(keys, self.n)
                indptr.append(self.total + np.cumsum(np.bincount(row - low, minlength=high - low)))
                self.total += len(keys)
                edge_index.append(row)
                col.tofile(file)
        with columns.open("rb") as file:
            shutil.copyfileobj(file, edge_index.file, 8 * BLOCK)
        edge_index.close((2, self.total))
        return self.total

    def notes(self) -> list[str]:
        """Return what was done to the edges, in the sentences of `NodeTask`."""
        repeats, mirrored = self.given - self.different, self.total - self.different
        return edge_notes(Data(), self.loops, repeats, mirrored)

    def _deal_waiting(self) -> None:
        if self.waiting:
            self._deal(np.concatenate(self.waiting), 0, self.n, self.folder)
            self.waiting = []

    def _ranges(self, low: int, high: int) -> list[tuple[int, int]]:
        """Cut the rows [low, high) into at most `BUCKETS` ranges."""
        width = -(-(high - low) // BUCKETS)
        return [(first, min(first + width, high)) for first in range(low, high, width)]

    def _deal(self, keys: Array, low: int, high: int, folder: Path) -> None:
        """Add each key to the file of its range of rows."""
        keys.sort()
        ranges = self._ranges(low, high)
        cuts = np.searchsorted(keys, [2 * self.n * first for first, _ in ranges])
        for (first, _), start, end in zip(ranges, cuts, [*cuts[1:], len(keys)], strict=True):
            if end > start:  # a Path for each would cost more than the writing
                with open(f"{folder}/{first}", "ab") as file:
                    keys[start:end].tofile(file)

    def _settled(self, low: int, high: int, folder: Path) -> Iterator[tuple[int, int, Array]]:
        """Return the rows [low, high) in order: first row, end, and its different edges, sorted."""
        for first, end in self._ranges(low, high):
            path = folder / f"{first}"
            if not path.exists():
                yield first, end, np.empty(0, np.int64)
            elif path.stat().st_size > 8 * LARGEST_BUCKET and end - first > 1:
                finer = folder / f"finer {first}"
                finer.mkdir()
                with path.open("rb") as file:
                    while len(keys := np.fromfile(file, np.int64, 2 * BLOCK)):
                        self._deal(keys, first, end, finer)
                path.unlink()
                yield from self._settled(first, end, finer)
            else:
                keys = np.fromfile(path, np.int64)
                path.unlink()
                keys.sort()
                fresh = np.append(True, (keys[1:] ^ keys[:-1]) > 1)
                keys = keys[fresh]
                self.different += int(np.count_nonzero(keys & 1 == 0))
                yield first, end, keys >> 1


def _is_empty_folder(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


def _move(part: Path, path: Path) -> None:
    """Give a finished folder its name; the older one steps aside first."""
    older = part.with_suffix(".old")
    if path.exists():
        path.rename(older)
    part.rename(path)
    shutil.rmtree(older, ignore_errors=True)
