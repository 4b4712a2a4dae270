"""Public graphs read by PyG's own classes."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.datasets import (
    Amazon,
    AttributedGraphDataset,
    CitationFull,
    Coauthor,
    HeterophilousGraphDataset,
    Planetoid,
)
from torch_geometric.transforms import NormalizeFeatures

from erase.data.datasets.raw_files import RawFiles, read_raw
from erase.data.datasets.splits import Masks, split_per_class
from erase.random import numpy_stream

# PyG numbers the classes without naming them. For Cora and CiteSeer the names follow from the sizes
# of the classes, which are all different, and those that the authors published. For PubMed and
# Computers they are in the order of the authors' own numbering, which PyG keeps.
CORA_CLASSES = (
    "Theory",
    "Reinforcement Learning",
    "Genetic Algorithms",
    "Neural Networks",
    "Probabilistic Methods",
    "Case Based",
    "Rule Learning",
)
CITESEER_CLASSES = ("AI", "ML", "IR", "DB", "Agents", "HCI")
PUBMED_CLASSES = ("Diabetes Experimental", "Diabetes Type 1", "Diabetes Type 2")
COMPUTERS_CLASSES = (
    "Desktops",
    "Data Storage",
    "Laptops",
    "Monitors",
    "Computer Components",
    "Video Projectors",
    "Routers",
    "Tablets",
    "Networking Products",
    "Webcams",
)
TOLOKERS_CLASSES = ("active", "banned")

PLANETOID_PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")


def load_planetoid(pyg_name: str, class_names: Sequence[str], seed: int = 0) -> Data:
    """Load Cora, CiteSeer or PubMed: rows of x sum to 1, the public split whatever the seed."""
    name = pyg_name.lower()
    raw = RawFiles(
        f"Planetoid/{pyg_name}", tuple(f"raw/ind.{name}.{part}" for part in PLANETOID_PARTS)
    )
    data = read_raw(raw, lambda root: Planetoid(f"{root}/Planetoid", pyg_name)[0])
    masks = (data.train_mask, data.val_mask, data.test_mask)
    return finished(name, _rows_sum_to_one(data), masks, class_names)


def load_corafull(seed: int = 0) -> Data:
    """Load CoraFull: raw features (0 or 1), 20 training and 30 validation nodes of every class."""
    raw = RawFiles("CitationFull/cora", ("raw/cora.npz",))
    data = read_raw(raw, lambda root: CitationFull(f"{root}/CitationFull", "Cora")[0])
    return finished("corafull", data, _seeded_split(data.y, seed))


def load_computers(seed: int = 0) -> Data:
    """Load Amazon Computers: rows of x sum to 1, a seeded 20/30 split."""
    raw = RawFiles("Amazon/Computers", ("raw/amazon_electronics_computers.npz",))
    data = read_raw(raw, lambda root: Amazon(f"{root}/Amazon", "Computers")[0])
    masks = _seeded_split(data.y, seed)
    return finished("computers", _rows_sum_to_one(data), masks, COMPUTERS_CLASSES)


def load_cs(seed: int = 0) -> Data:
    """Load Coauthor CS: rows of x sum to 1, a seeded 20/30 split."""
    raw = RawFiles("Coauthor/CS", ("raw/ms_academic_cs.npz",))
    data = read_raw(raw, lambda root: Coauthor(f"{root}/Coauthor", "CS")[0])
    return finished("cs", _rows_sum_to_one(data), _seeded_split(data.y, seed))


def load_tolokers(seed: int = 0) -> Data:
    """Load Tolokers: raw features, the first of its ten published splits whatever the seed."""
    raw = RawFiles("HeterophilousGraphDataset/tolokers", ("raw/tolokers.npz",))
    data = read_raw(
        raw,
        lambda root: HeterophilousGraphDataset(f"{root}/HeterophilousGraphDataset", "Tolokers")[0],
    )
    # masks are [N, 10], a column for each split
    masks = (data.train_mask[:, 0], data.val_mask[:, 0], data.test_mask[:, 0])
    return finished("tolokers", data, masks, TOLOKERS_CLASSES)


def load_blogcatalog(seed: int = 0) -> Data:
    """Load BlogCatalog: rows of x sum to 1, a seeded 20/30 split."""
    raw = RawFiles(
        "AttributedGraphDataset/blogcatalog",
        ("raw/attrs.npz", "raw/edgelist.txt", "raw/labels.txt"),
    )
    data = read_raw(
        raw,
        lambda root: AttributedGraphDataset(f"{root}/AttributedGraphDataset", "BlogCatalog")[0],
    )
    return finished("blogcatalog", _rows_sum_to_one(data), _seeded_split(data.y, seed))


def finished(name: str, data: Data, masks: Masks, class_names: Sequence[str] | None = None) -> Data:
    """Return what every dataset of the registry has, and nothing else of `data`.

    Args:
        name: the dataset's name in the registry.
        data: x [N, F], edge_index [2, E] and y, [N] or [N, 1], are read.
        masks: training, validation and test mask, [N].
        class_names: K names; "0", "1", … where they are not known.
    """
    y = data.y.reshape(-1).to(torch.int64)
    names = class_names or [str(k) for k in range(int(y.max()) + 1)]
    train, val, test = (mask.clone() for mask in masks)
    return Data(
        x=data.x.to(torch.float32),
        edge_index=data.edge_index,
        y=y,
        train_mask=train,
        val_mask=val,
        test_mask=test,
        class_names=list(names),
        name=name,
    )


def _seeded_split(y: Tensor, seed: int) -> Masks:
    return split_per_class(y, numpy_stream(seed, "split"))


def _rows_sum_to_one(data: Data) -> Data:
    return NormalizeFeatures()(data)
