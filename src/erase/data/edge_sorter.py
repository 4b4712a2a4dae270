"""Edges too many for the memory, sorted on the disk, and the files they are written to."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from erase.data.edges import edge_notes, refuse_strangers
from erase.errors import EraseError

BUCKETS = 512  # ranges of rows that edges are dealt into before they are sorted
BLOCK = 2**20  # edges, feature values or names handled at a time
LARGEST_BUCKET = 8 * BLOCK  # edges sorted at once; a bucket with more is dealt again
_WEIGHTED = np.dtype([("key", np.int64), ("weight", np.float32)])  # an edge with its weight

Array = np.ndarray[Any, Any]


class ArrayFile:
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
        # of one length whatever the shape: numpy pads it for one axis to grow
        form = {"descr": self.dtype.str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(self.file, form)


class EdgeSorter:
    """Undirected edges in order, sorted outside the memory.

    An edge (row, column) is the number 2 (row · N + column), its mirror image that number of
    (column, row) plus 1: so sorting brings both together, with the edge that was given first.
    Weights are merged as `undirected_edges` does it.
    """

    def __init__(self, folder: Path, num_nodes: int) -> None:
        self.folder = folder
        self.n = num_nodes
        self.seen = self.loops = self.given = self.different = self.total = 0
        self.weighted = self.directed = False
        self.waiting: list[Array] = []
        folder.mkdir()

    def add(
        self, row: Tensor, col: Tensor, weight: Tensor | None = None, *, both_ways: bool = False
    ) -> None:
        """Add edges, [e] each; they are written to buckets once there are many."""
        refuse_strangers(row, col, self.n, self.seen)
        if self.seen and (weight is not None) != self.weighted:
            raise EraseError(
                "weights for all edges or for none",
                f"edges with{'' if self.weighted else 'out'} weights before others",
                "Give every edge a weight.",
            )
        self.seen, self.weighted = self.seen + row.numel(), weight is not None
        if both_ways and weight is not None:
            row, col, both_ways = torch.cat([row, col]), torch.cat([col, row]), False
            weight = weight.repeat(2)
        ahead, back = row * self.n + col, col * self.n + row
        kept = row != col
        self.given += int(kept.sum()) * (2 if both_ways else 1)
        self.loops += int((~kept).sum())
        mirror = 0 if both_ways else 1
        keys = torch.cat([2 * ahead[kept], 2 * back[kept] + mirror]).numpy()
        if weight is None:
            self.waiting.append(keys)
        else:
            records = np.empty(len(keys), _WEIGHTED)
            records["key"], records["weight"] = keys, weight[kept].repeat(2).numpy()
            self.waiting.append(records)
        if sum(map(len, self.waiting)) >= 2 * BLOCK:
            self._write_waiting()

    def finish(self, array: Callable[[str, Any], "ArrayFile"], directed: bool) -> int:
        """Write the edges in order, weights, and where each row starts; return how many edges.

        Args:
            array: returns the file of an array by name and type.
            directed: each direction keeps its weight, and it is written which was given.
        """
        self._write_waiting()
        self.directed = directed
        edge_index, indptr = array("edge_index", np.int64), array("indptr", np.int64)
        indptr.append(np.zeros(1))
        columns = self.folder / "columns"
        with columns.open("wb") as file:
            for low, high, records in self._settled(0, self.n, self.folder):
                keys, is_given, weight = self._merged(records)
                if directed:
                    array("edge_is_given", np.bool_).append(is_given)
                if self.weighted:
                    array("edge_weight", np.float32).append(weight)
                row, col = np.divmod(keys, self.n)
                indptr.append(self.total + np.cumsum(np.bincount(row - low, minlength=high - low)))
                self.total += len(keys)
                edge_index.append(row)
                file.write(col.data)
        with columns.open("rb") as file:
            shutil.copyfileobj(file, edge_index.file, 8 * BLOCK)
        edge_index.close((2, self.total))
        return self.total

    def notes(self) -> list[str]:
        """Return what was done to the edges, in the sentences of `NodeTask`."""
        repeats, mirrored = self.given - self.different, self.total - self.different
        return edge_notes(Data(directed=self.directed), self.loops, repeats, mirrored)

    def _write_waiting(self) -> None:
        if self.waiting:
            self._write_to_buckets(np.concatenate(self.waiting), 0, self.n, self.folder)
            self.waiting = []

    def _ranges(self, low: int, high: int) -> list[tuple[int, int]]:
        """Cut the rows [low, high) into at most `BUCKETS` ranges."""
        width = -(-(high - low) // BUCKETS)
        return [(first, min(first + width, high)) for first in range(low, high, width)]

    def _write_to_buckets(self, records: Array, low: int, high: int, folder: Path) -> None:
        """Add each record to the file of its range of rows."""
        records = _in_order(records)
        ranges = self._ranges(low, high)
        cuts = np.searchsorted(_keys(records), [2 * self.n * first for first, _ in ranges])
        for (first, _), start, end in zip(ranges, cuts, [*cuts[1:], len(records)], strict=True):
            if end > start:  # a Path for each would cost more than the writing
                with open(f"{folder}/{first}", "ab") as file:
                    file.write(records[start:end].data)

    def _merged(self, records: Array) -> tuple[Array, Array, Array]:
        """Return the different edges of sorted records, whether each was given, and weights."""
        keys = _keys(records)
        fresh = np.append(True, (keys[1:] ^ keys[:-1]) > 1) if len(keys) else np.empty(0, bool)
        edges, is_given = keys[fresh] >> 1, keys[fresh] & 1 == 0
        self.different += int(np.count_nonzero(is_given))
        if not self.weighted:
            return edges, is_given, np.empty(0)
        place, is_mirror = np.cumsum(fresh) - 1, keys & 1 == 1
        own, mirrored = (
            np.bincount(place[chosen], records["weight"][chosen], minlength=len(edges))
            for chosen in (~is_mirror, is_mirror)
        )
        if self.directed:
            return edges, is_given, np.where(is_given, own, mirrored)
        has_mirror = np.bincount(place[is_mirror], minlength=len(edges)) > 0
        return edges, is_given, (own + mirrored) / (is_given.astype(int) + has_mirror)

    def _settled(self, low: int, high: int, folder: Path) -> Iterator[tuple[int, int, Array]]:
        """Yield the rows [low, high) in order: first row, end, and its records, sorted."""
        dtype = _WEIGHTED if self.weighted else np.dtype(np.int64)
        for first, end in self._ranges(low, high):
            path = folder / f"{first}"
            if not path.exists():
                yield first, end, np.empty(0, dtype)
            elif path.stat().st_size > dtype.itemsize * LARGEST_BUCKET and end - first > 1:
                finer = folder / f"finer {first}"
                finer.mkdir()
                with path.open("rb") as file:
                    while len(records := np.fromfile(file, dtype, 2 * BLOCK)):
                        self._write_to_buckets(records, first, end, finer)
                path.unlink()
                yield from self._settled(first, end, finer)
            else:
                records = np.fromfile(path, dtype)
                path.unlink()
                yield first, end, _in_order(records)


def _keys(records: Array) -> Array:
    """Return the numbers of edges with or without weights."""
    return records["key"] if records.dtype.names else records


def _in_order(records: Array) -> Array:
    """Return edges sorted by their numbers; those without weights are sorted in place."""
    if records.dtype.names:
        return records[np.argsort(records["key"], kind="stable")]
    records.sort()
    return records
