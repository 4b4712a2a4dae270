"""ogbn-arxiv and ogbn-products, read by OGB's own class, or streamed from OGB's tables."""

import contextlib
import csv
import gzip
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch_geometric.data import Data
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.storage import GlobalStorage

from erase.data.datasets.public import finished
from erase.data.datasets.raw_files import RawFiles, find_raw, read_raw
from erase.data.folder import FolderWriter, StrPath
from erase.errors import EraseError

BLOCK = 2**22  # numbers of a table handled at a time
PARTS = {"train": "train", "val": "valid", "test": "test"}
TABLES = ("edge", "node-feat", "node-label", "num-node-list", "num-edge-list")


@dataclass(frozen=True)
class OgbGraph:
    """Where OGB keeps one of its graphs.

    Args:
        name: OGB's name of it.
        split: the folder of its split below ``split/``.
        categories: the file of class names; absent from some copies.
        both_ways: each edge of the table stands for its mirror image too.
        more: tables that OGB's class wants besides the usual ones.
        archive: as in `RawFiles`.
    """

    name: str
    split: str
    categories: str
    both_ways: bool = False
    more: tuple[str, ...] = ()
    archive: str | None = None

    @property
    def raw(self) -> RawFiles:
        """The files of the graph."""
        tables = [f"raw/{table}.csv.gz" for table in (*TABLES, *self.more)]
        parts = [f"split/{self.split}/{part}.csv.gz" for part in PARTS.values()]
        return RawFiles(self.name.replace("-", "_"), (*tables, *parts), self.archive)


ARXIV = OgbGraph(
    "ogbn-arxiv",
    split="time",
    categories="mapping/labelidx2arxivcategeory.csv.gz",  # the misspelling is the file's name
    more=("node_year",),
)
PRODUCTS = OgbGraph(
    "ogbn-products",
    split="sales_ranking",
    categories="mapping/labelidx2productcategory.csv.gz",
    both_ways=True,
    archive="http://snap.stanford.edu/ogb/data/nodeproppred/products.zip (1.5 GB)",
)


def load_ogb(graph: OgbGraph, seed: int = 0) -> Data:
    """Load a graph of OGB: raw features, OGB's edges and split whatever the seed.

    Raises:
        EraseError: the ``ogb`` package is not installed, or a raw file is missing.
    """
    dataset_class = _import_ogb_dataset(graph.name)
    return read_raw(graph.raw, lambda root: _read(dataset_class, graph, Path(root)))


def write_ogb(graph: OgbGraph, path: StrPath, seed: int = 0) -> None:
    """Write a graph of OGB into a folder, table by table, without holding it and without ``ogb``.

    Raises:
        EraseError: a raw file is missing.
    """
    folder = find_raw(graph.raw)
    (num_nodes,) = _column(folder / "raw/num-node-list.csv.gz")
    y = _column(folder / "raw/node-label.csv.gz")
    names = read_categories(folder / graph.categories) or [str(k) for k in range(max(y) + 1)]
    with FolderWriter(path, int(num_nodes), names) as writer:
        writer.add_labels(y)
        for part, file in PARTS.items():
            writer.set_split(part, _column(folder / "split" / graph.split / f"{file}.csv.gz"))
        for rows in _blocks(folder / "raw/edge.csv.gz"):
            writer.add_edges(rows.T, both_ways=graph.both_ways)
        for rows in _blocks(folder / "raw/node-feat.csv.gz"):
            writer.add_features(rows)


def _blocks(path: Path) -> Iterator[npt.NDArray[Any]]:
    """Return a table without a header, some rows at a time."""
    width = pd.read_csv(path, header=None, nrows=1).shape[1]
    with pd.read_csv(path, header=None, chunksize=max(1, BLOCK // width)) as blocks:
        for block in blocks:
            yield block.to_numpy()


def _column(path: Path) -> npt.NDArray[np.int64]:
    """Return the first column of a table without a header, [n]."""
    column: npt.NDArray[np.int64] = pd.read_csv(path, header=None)[0].to_numpy(np.int64)
    return column


def _read(dataset_class: Any, graph: OgbGraph, root: Path) -> Data:
    folder = root / graph.raw.folder
    release = folder / "RELEASE_v1.txt"
    # OGB asks on the keyboard whether to update a folder without this file. A root that does not
    # hold the dataset stays empty, for OGB to download into.
    if folder.is_dir() and not release.exists():
        release.touch()
    with (
        _safe_to_load(Data, DataEdgeAttr, DataTensorAttr, GlobalStorage),
        warnings.catch_warnings(),
    ):
        # OGB wraps pandas' read-only arrays, but only to copy them or to write them to a file.
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        dataset = dataset_class(graph.name, root=str(root))
        parts = dataset.get_idx_split()
    data = dataset[0]
    masks = []
    for part in PARTS.values():
        mask = torch.zeros(data.num_nodes, dtype=torch.bool)
        mask[parts[part]] = True
        masks.append(mask)
    names = read_categories(folder / graph.categories)
    return finished(graph.name, data, (masks[0], masks[1], masks[2]), names)


def read_categories(path: Path) -> list[str] | None:
    """Return class names such as "cs na"; None where the file is absent."""
    if not path.is_file():
        return None
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))[1:]
    return [category.removeprefix("arxiv ") or number for number, category in rows]


@contextlib.contextmanager
def _safe_to_load(*classes: type) -> Iterator[None]:
    """Let torch.load read `classes`: OGB reads the pickled Data that it has just written.

    Leaving torch's `safe_globals` forgets its classes even if they were known before, as PyG's
    own are, and PyG then fails to load. So only those that are not known yet are added.
    """
    known = torch.serialization.get_safe_globals()
    with torch.serialization.safe_globals([one for one in classes if one not in known]):
        yield


def _import_ogb_dataset(name: str) -> Any:
    with _without_update_check():
        try:
            from ogb.nodeproppred import PygNodePropPredDataset
        except ImportError as error:
            raise EraseError(
                f"the package ogb, which reads {name}",
                f"{type(error).__name__}: {error}",
                "Run: pip install 'graph-erase[ogb]'",
            ) from error
    return PygNodePropPredDataset


@contextlib.contextmanager
def _without_update_check() -> Iterator[None]:
    """Hide the module `outdated`, by which ogb checks for updates over the network when imported.

    ogb treats that module as optional, so hiding it for the import is enough.
    """
    missing = object()
    before: Any = sys.modules.get("outdated", missing)
    sys.modules["outdated"] = None  # type: ignore[assignment]  # makes the import fail
    try:
        yield
    finally:
        if before is missing:
            del sys.modules["outdated"]
        else:
            sys.modules["outdated"] = before
