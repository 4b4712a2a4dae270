"""ogbn-arxiv, read by OGB's own class."""

import contextlib
import csv
import gzip
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Data
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.storage import GlobalStorage

from erase.datasets.public import finished
from erase.datasets.raw_files import RawFiles, read_raw
from erase.errors import EraseError

ARXIV_FILES = RawFiles(
    "ogbn_arxiv",
    (
        "raw/edge.csv.gz",
        "raw/node-feat.csv.gz",
        "raw/node-label.csv.gz",
        "raw/node_year.csv.gz",
        "raw/num-node-list.csv.gz",
        "raw/num-edge-list.csv.gz",
        "split/time/train.csv.gz",
        "split/time/valid.csv.gz",
        "split/time/test.csv.gz",
    ),
)
# OGB's list of categories; the misspelling is the file's name.
CATEGORIES = "mapping/labelidx2arxivcategeory.csv.gz"


def load_arxiv(seed: int = 0) -> Data:
    """Load ogbn-arxiv: raw features, citations in one direction, the time split whatever the seed.

    Raises:
        EraseError: the ``ogb`` package is not installed, or a raw file is missing.
    """
    dataset_class = _import_ogb_dataset()
    return read_raw(ARXIV_FILES, lambda root: _read(dataset_class, Path(root)))


def _read(dataset_class: Any, root: Path) -> Data:
    folder = root / ARXIV_FILES.folder
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
        dataset = dataset_class("ogbn-arxiv", root=str(root))
        parts = dataset.get_idx_split()
    data = dataset[0]
    masks = []
    for part in ("train", "valid", "test"):
        mask = torch.zeros(data.num_nodes, dtype=torch.bool)
        mask[parts[part]] = True
        masks.append(mask)
    return finished("ogbn-arxiv", data, (masks[0], masks[1], masks[2]), _categories(folder))


def _categories(folder: Path) -> list[str] | None:
    """Return class names such as "cs na", None where the mapping file is absent."""
    path = folder / CATEGORIES
    if not path.is_file():
        return None
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))[1:]
    return [category.removeprefix("arxiv ") for _, category in rows]


@contextlib.contextmanager
def _safe_to_load(*classes: type) -> Iterator[None]:
    """Let torch.load read `classes`: OGB reads the pickled Data that it has just written.

    Leaving torch's `safe_globals` forgets its classes even if they were known before, as PyG's
    own are, and PyG then fails to load. So only those that are not known yet are added.
    """
    known = torch.serialization.get_safe_globals()
    with torch.serialization.safe_globals([one for one in classes if one not in known]):
        yield


def _import_ogb_dataset() -> Any:
    with _without_update_check():
        try:
            from ogb.nodeproppred import PygNodePropPredDataset
        except ImportError as error:
            raise EraseError(
                "the package ogb, which reads ogbn-arxiv",
                f"{type(error).__name__}: {error}",
                "Run: pip install 'graph-erase[ogb]'",
            ) from error
    return PygNodePropPredDataset


@contextlib.contextmanager
def _without_update_check() -> Iterator[None]:
    """Hide the module `outdated`, with which ogb asks the network for news when imported.

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
