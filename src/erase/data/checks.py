"""The contents of a graph's folder, checked some numbers at a time, and once.

A folder that passed is remembered by the size, times and inode of each file, in the user's cache
and not in the folder, which could otherwise declare itself checked. Changed and copied files are
checked again.
"""

import hashlib
import os
import stat
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from erase.data.limits import check_width

Array = np.ndarray[Any, Any]

_BLOCK = 2**20  # numbers read at a time
_NS_BETWEEN_TICKS = 50_000_000  # the clock of a file system may advance in steps of this size


class ContentsError(ValueError):
    """What is wrong in a folder, in words that follow "a folder with"."""


@dataclass(frozen=True)
class Stored:
    """An array in a file.

    Attributes:
        path: the file.
        dtype: of the numbers.
        shape: of the array.
        start: the byte at which the numbers start.
    """

    path: Path
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    start: int

    def blocks(self, first: int = 0, count: int | None = None) -> Iterator[Array]:
        """Yield `count` numbers from number `first` on, some at a time."""
        left = int(np.prod(self.shape, dtype=object)) - first if count is None else count
        with self.path.open("rb") as file:
            file.seek(self.start + first * self.dtype.itemsize)
            while left > 0:
                block = np.fromfile(file, self.dtype, min(left, _BLOCK))
                if not block.size:
                    raise ContentsError(f"{self.path.name}, which is cut short")
                left -= block.size
                yield block


def check_contents(
    num_nodes: int,
    num_features: int,
    classes: Sequence[int],
    arrays: Mapping[str, Stored],
) -> None:
    """Raise ContentsError unless the arrays of a folder are what the format promises.

    Shapes and types are right already. One pass over every file, a few megabytes of memory.

    Args:
        num_nodes: N.
        num_features: F.
        classes: the numbers that labels may be, besides -1.
        arrays: by name.
    """
    edges = arrays["edge_index"]
    _check_starts(arrays["indptr"], edges.shape[1])
    _check_edges(edges, arrays["indptr"], num_nodes)
    if "x_indptr" in arrays:
        indices, values = arrays["x_indices"], arrays["x_values"]
        check_width(num_features, values.shape[0])
        _check_starts(arrays["x_indptr"], values.shape[0])
        _check_columns(indices, arrays["x_indptr"], num_features)
        _check_finite(values)
    elif "x" in arrays:
        _check_finite(arrays["x"])
    known = np.array([-1, *classes])
    for labels in (arrays[name] for name in ("y", "trusted") if name in arrays):
        for block in labels.blocks():
            if not (allowed := np.isin(block, known)).all():
                raise ContentsError(f"the label {block[~allowed][0]}, which has no class")
    if "edge_weight" in arrays:
        _check_finite(arrays["edge_weight"])
        if any((block < 0).any() for block in arrays["edge_weight"].blocks()):
            raise ContentsError("an edge weight below 0")
    for name, array in arrays.items():
        if array.dtype == np.bool_:
            for block in array.blocks():
                if (block.view(np.uint8) > 1).any():
                    raise ContentsError(f"{name}, which is neither true nor false somewhere")
    for of in ("name", "id"):
        if f"{of}_text" in arrays:
            _check_names(arrays[f"{of}_text"], arrays[f"{of}_starts"])


def _check_starts(starts: Stored, end: int) -> None:
    """Check that row starts [N+1] rise from 0 to `end`."""
    last, name = 0, starts.path.name
    for place, block in enumerate(starts.blocks()):
        falls = block[0] < last or (block[1:] < block[:-1]).any()
        if falls or (place == 0 and block[0] != 0):
            raise ContentsError(f"{name}, which does not rise from 0")
        last = int(block[-1])
    if last != end:
        raise ContentsError(f"{name}, which ends at {last:,} in place of {end:,}")


def _row_numbers(starts: Stored) -> Iterator[tuple[Array, int]]:
    """Yield the rows of the entries that `starts` [N+1] cuts, some at a time, and the first entry.

    A row of many entries is yielded in pieces.
    """
    before, row = None, 0
    for block in starts.blocks():
        ends = block if before is None else np.append(before, block)
        before = block[-1:]
        counts, first = np.diff(ends), int(ends[0])
        place = 0
        while place < len(counts):
            many = max(1, int(np.searchsorted(np.cumsum(counts[place:]), _BLOCK, "right")))
            total = int(counts[place : place + many].sum())
            rows = np.arange(row + place, row + place + many)
            if many == 1:
                for begin in range(0, total, _BLOCK):
                    length = min(_BLOCK, total - begin)
                    yield np.full(length, rows[0]), first + begin
            elif total:
                yield np.repeat(rows, counts[place : place + many]), first
            first, place = first + total, place + many
        row += len(counts)


def _check_edges(edges: Stored, indptr: Stored, n: int) -> None:
    """Check that edges are in range, sorted, different, without loops, and mirrored."""
    count = edges.shape[1]
    balance, last = 0, -1
    for rows, first in _row_numbers(indptr):
        given = np.concatenate([*edges.blocks(first, rows.size)])
        columns = np.concatenate([*edges.blocks(count + first, rows.size)])
        if not np.array_equal(given, rows):
            raise ContentsError("edges in other rows than indptr says")
        if (columns < 0).any() or (columns >= n).any():
            raise ContentsError(f"an edge to a node outside 0..{n - 1}")
        if (columns == rows).any():
            raise ContentsError("an edge from a node to itself")
        key = rows * n + columns
        if (np.diff(key, prepend=last) <= 0).any():
            raise ContentsError("edges that are not sorted, or repeated")
        last = int(key[-1])
        # each edge cancels its mirror image, where all have one
        balance += int((_mixed(key) - _mixed(columns * n + rows)).sum(dtype=np.uint64))
    if balance % 2**64:
        raise ContentsError("edges without their mirror images")


def _mixed(key: Array) -> Array:
    """Return 64 bits that look random, of each key (splitmix64)."""
    z = key.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Array = z ^ (z >> np.uint64(31))
    return mixed


def _check_columns(indices: Stored, starts: Stored, width: int) -> None:
    """Check that the column numbers of a CSR are in range, and rise in every row."""
    last = -1
    for rows, first in _row_numbers(starts):
        columns = np.concatenate([*indices.blocks(first, rows.size)])
        if (columns < 0).any() or (columns >= width).any():
            raise ContentsError(f"a feature outside the columns 0..{width - 1}")
        key = rows * width + columns
        if (np.diff(key, prepend=last) <= 0).any():
            raise ContentsError("features whose columns are not sorted, or repeated")
        last = int(key[-1])


def _check_finite(values: Stored) -> None:
    for block in values.blocks():
        if not np.isfinite(block).all():
            raise ContentsError(f"{block[~np.isfinite(block)][0]} in {values.path.name}")


def _check_names(text: Stored, starts: Stored) -> None:
    """Check that every name is UTF-8 and starts where a character does."""
    _check_starts(starts, text.shape[0])
    first = 0
    while first < starts.shape[0] - 1:
        cuts = next(starts.blocks(first))
        kept = max(2, int(np.searchsorted(cuts, cuts[0] + _BLOCK, "right")))
        cuts, first = cuts[:kept], first + kept - 1
        parts = [*text.blocks(int(cuts[0]), int(cuts[-1] - cuts[0]))]
        content = np.concatenate(parts) if parts else np.empty(0, np.uint8)
        begin = cuts[cuts < cuts[-1]] - cuts[0]
        starts_inside = (content[begin] & 0xC0 == 0x80).any()
        try:
            content.tobytes().decode("ascii" if starts_inside else "utf-8")
        except UnicodeDecodeError:
            raise ContentsError("a name that is not UTF-8") from None


def regular_size(path: Path) -> int:
    """Return the bytes of a regular file; links are followed, and pipes and devices refused."""
    about = path.stat()
    if not stat.S_ISREG(about.st_mode):
        raise ContentsError(f"{path.name}, which is not a regular file")
    return about.st_size


def checksum(path: Path) -> int:
    """Return the CRC-32 of a file's bytes."""
    value = 0
    with path.open("rb") as file:
        while block := file.read(2**18):
            value = zlib.crc32(block, value)
    return value


def is_remembered(files: Sequence[Path]) -> bool:
    """Say whether these files passed the check as they are."""
    with suppress(OSError):
        return _memory_of(files).read_text() == _state(files)[0]
    return False


def remember(files: Sequence[Path]) -> None:
    """Remember that these files passed the check, unless they are too new to see a change."""
    with suppress(OSError):
        state, newest = _state(files)
        if time.time_ns() - newest > _NS_BETWEEN_TICKS:
            place = _memory_of(files)
            place.parent.mkdir(parents=True, exist_ok=True)
            part = place.with_name(f"{place.name}.{os.getpid()}")
            part.write_text(state)
            part.replace(place)


def _memory_of(files: Sequence[Path]) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    name = hashlib.sha256(os.fsencode(files[0].resolve())).hexdigest()[:32]
    return cache / "erase" / "checked" / name


def _state(files: Sequence[Path]) -> tuple[str, int]:
    """Return what changes when a file does, and when the last one changed, in nanoseconds."""
    each = [os.stat(file) for file in files]
    marks = [(s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for s in each]
    return repr(marks), max(s.st_ctime_ns for s in each)
