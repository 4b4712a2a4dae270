"""ogbn-papers100M, streamed from OGB's archives into a folder.

The arrays lie compressed in ``raw/data.npz`` (`edge_index` [2, E], `node_feat` [N, 128]) and in
``raw/node-label.npz`` (`node_label` [N, 1], NaN where unknown). They take
83 GB, and are decompressed a few megabytes at a time.
"""

import math
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
from torch_geometric.data import Data

from erase.data.datasets.ogb import PARTS, read_categories
from erase.data.datasets.raw_files import RawFiles, find_raw
from erase.data.folder import FolderWriter, StrPath
from erase.errors import EraseError

Array = np.ndarray[Any, Any]

BLOCK = 2**21  # numbers handled at a time
CATEGORIES = "mapping/labelidx2arxivcategeory.csv.gz"  # the misspelling is the file's name
PAPERS_FILES = RawFiles(
    "ogbn_papers100M",
    (
        "raw/data.npz",
        "raw/node-label.npz",
        *(f"split/time/{part}.csv.gz" for part in PARTS.values()),
    ),
    archive="http://snap.stanford.edu/ogb/data/nodeproppred/papers100M-bin.zip (57 GB)",
)


def load_papers100m(seed: int = 0) -> Data:
    """Raise an error that explains how to open the graph from a folder; it is never loaded.

    Raises:
        EraseError: always; for a missing file first.
    """
    find_raw(PAPERS_FILES)
    raise EraseError(
        "a graph that fits into memory",
        "ogbn-papers100M, 111 million nodes and 1.6 billion edges",
        "Run erase convert ogbn-papers100m FOLDER once, and give FOLDER in its place.",
    )


def write_papers100m(path: StrPath, seed: int = 0) -> None:
    """Write ogbn-papers100M into a folder in bounded memory.

    Raises:
        EraseError: a raw file is missing or cannot be read.
    """
    folder = find_raw(PAPERS_FILES)
    graph, labels = folder / "raw/data.npz", folder / "raw/node-label.npz"
    with _opened(labels, "node_label") as (_, header):
        num_nodes = header.shape[0]
    last = max(int(np.nan_to_num(block, nan=-1).max()) for block in _blocks(labels, "node_label"))
    names = read_categories(folder / CATEGORIES) or [str(k) for k in range(last + 1)]
    with FolderWriter(path, num_nodes, names) as writer:
        for block in _blocks(labels, "node_label"):
            writer.add_labels(block)
        for part, file in PARTS.items():
            nodes = pd.read_csv(folder / "split/time" / f"{file}.csv.gz", header=None)[0]
            writer.set_split(part, nodes.to_numpy(np.int64))
        for edges in _pairs(graph, "edge_index"):
            writer.add_edges(edges)
        for block in _blocks(graph, "node_feat"):
            writer.add_features(block)


@dataclass(frozen=True)
class _Header:
    """The header of an array."""

    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype[Any]


@contextmanager
def _opened(path: Path, name: str) -> Iterator[tuple[IO[bytes], _Header]]:
    """Open an array inside an ``.npz`` file: the stream of its numbers, and what they are."""
    try:
        with zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as stream:
            first = np.lib.format.read_magic(stream) == (1, 0)
            form = np.lib.format
            read = form.read_array_header_1_0 if first else form.read_array_header_2_0
            yield stream, _Header(*read(stream))
    except EraseError:
        raise
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError, ValueError) as error:
        raise EraseError(
            f"the array {name} in {path}",
            f"a file that cannot be read: {error}",
            "It may be cut short: unpack the archive again.",
        ) from error


def _numbers(stream: IO[bytes], dtype: np.dtype[Any], count: int) -> Array:
    """Return the next `count` numbers."""
    content = stream.read(count * dtype.itemsize)
    if len(content) < count * dtype.itemsize:
        raise EOFError("it ends too early")
    return np.frombuffer(content, dtype)


def _blocks(path: Path, name: str) -> Iterator[Array]:
    """Return an array of rows, some rows at a time."""
    with _opened(path, name) as (stream, header):
        total, width = header.shape[0], math.prod(header.shape[1:])
        if header.fortran_order and min(total, width) > 1:
            raise EraseError(
                f"the rows of {name} one after the other", "its columns", "Save it in C order."
            )
        height = max(1, BLOCK // width)
        for start in range(0, total, height):
            rows = min(height, total - start)
            yield _numbers(stream, header.dtype, rows * width).reshape(rows, *header.shape[1:])


def _pairs(path: Path, name: str) -> Iterator[Array]:
    """Return edges [2, E], some at a time, [2, e]: sources and targets are streams of their own."""
    with _opened(path, name) as (sources, header), _opened(path, name) as (targets, _):
        if header.shape[:1] != (2,) or len(header.shape) != 2:
            raise EraseError(f"{name} of shape [2, E]", f"{header.shape}", "Unpack it again.")
        total, dtype = header.shape[1], header.dtype
        counts = [min(BLOCK, total - start) for start in range(0, total, BLOCK)]
        if not header.fortran_order:
            for count in counts:
                _numbers(targets, dtype, count)  # the sources
        for count in counts:
            if header.fortran_order:
                yield _numbers(sources, dtype, 2 * count).reshape(count, 2).T
            else:
                yield np.stack([_numbers(end, dtype, count) for end in (sources, targets)])
