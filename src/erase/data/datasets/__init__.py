"""Graphs by name: `load_dataset` and the registry behind it.

Two of them need no file: ``debian``, embedded in the package, and ``citations``, made from a seed.
The others are read from ``$ERASE_DATA``, or downloaded when that is not set; those of more than a
gigabyte are not downloaded; their errors name the source.
"""

from functools import partial
from typing import Any

import numpy as np
from torch_geometric.data import Data

from erase.data.datasets.citation_graphs import citations, write_citations
from erase.data.datasets.debian import load_debian
from erase.data.datasets.ogb import ARXIV, PRODUCTS, load_ogb, write_ogb
from erase.data.datasets.papers100m import load_papers100m, write_papers100m
from erase.data.datasets.public import (
    CITESEER_CLASSES,
    CORA_CLASSES,
    PUBMED_CLASSES,
    load_blogcatalog,
    load_computers,
    load_corafull,
    load_cs,
    load_planetoid,
    load_tolokers,
)
from erase.data.datasets.spec import DatasetSpec
from erase.data.folder import StrPath, write_folder
from erase.errors import EraseError

__all__ = ["DATASETS", "DatasetSpec", "citations", "load_dataset", "write_dataset"]

PER_CLASS = "20 training and 30 validation nodes per class, seeded; the rest test"

DATASETS: dict[str, DatasetSpec] = {
    "cora": DatasetSpec(
        "Machine-learning papers and their citations, by subject.",
        partial(load_planetoid, "Cora", CORA_CLASSES),
        source="files",
        features="words, rows sum to 1",
        split="the public split: 140 / 500 / 1,000",
        num_nodes=2_708,
        num_edges=10_556,
        num_features=1_433,
        num_classes=7,
    ),
    "citeseer": DatasetSpec(
        "Computer-science papers and their citations, by area.",
        partial(load_planetoid, "CiteSeer", CITESEER_CLASSES),
        source="files",
        features="words, rows sum to 1",
        split="the public split: 120 / 500 / 1,000",
        num_nodes=3_327,
        num_edges=9_104,
        num_features=3_703,
        num_classes=6,
    ),
    "pubmed": DatasetSpec(
        "Papers on diabetes and their citations, by type of diabetes.",
        partial(load_planetoid, "PubMed", PUBMED_CLASSES),
        source="files",
        features="TF-IDF of words, rows sum to 1",
        split="the public split: 60 / 500 / 1,000",
        num_nodes=19_717,
        num_edges=88_648,
        num_features=500,
        num_classes=3,
    ),
    "corafull": DatasetSpec(
        "The whole Cora citation graph, by fine-grained subject.",
        load_corafull,
        source="files",
        features="words, 0 or 1",
        split=PER_CLASS,
        num_nodes=19_793,
        num_edges=126_842,
        num_features=8_710,
        num_classes=70,
    ),
    "ogbn-arxiv": DatasetSpec(
        "Computer-science papers on arXiv and their citations, by category.",
        partial(load_ogb, ARXIV),
        source="files",
        features="averaged word vectors, raw",
        split="by year, as OGB gives it: up to 2017 / 2018 / since 2019",
        num_nodes=169_343,
        num_edges=1_166_243,
        num_features=128,
        num_classes=40,
        write=partial(write_ogb, ARXIV),
    ),
    "ogbn-products": DatasetSpec(
        "Products on Amazon that were bought together, by category.",
        partial(load_ogb, PRODUCTS),
        source="files",
        features="principal components of words, raw",
        split="by sales rank, as OGB gives it: the top 8 % / the next 2 % / the rest",
        num_nodes=2_449_029,
        num_edges=123_718_280,
        num_features=100,
        num_classes=47,
        write=partial(write_ogb, PRODUCTS),
    ),
    "ogbn-papers100m": DatasetSpec(
        "Papers of all fields and their citations; those on arXiv by category.",
        load_papers100m,
        source="files",
        features="averaged word vectors, raw",
        split="by year, as OGB gives it: up to 2017 / 2018 / since 2019",
        num_nodes=111_059_956,
        num_edges=1_615_685_872,
        num_features=128,
        num_classes=172,
        write=write_papers100m,
    ),
    "computers": DatasetSpec(
        "Computer products that were bought together, by category.",
        load_computers,
        source="files",
        features="words of reviews, rows sum to 1",
        split=PER_CLASS,
        num_nodes=13_752,
        num_edges=491_722,
        num_features=767,
        num_classes=10,
    ),
    "cs": DatasetSpec(
        "Computer scientists who wrote papers together, by field.",
        load_cs,
        source="files",
        features="keywords of papers, rows sum to 1",
        split=PER_CLASS,
        num_nodes=18_333,
        num_edges=163_788,
        num_features=6_805,
        num_classes=15,
    ),
    "tolokers": DatasetSpec(
        "Crowd workers who shared a task, by whether they were banned.",
        load_tolokers,
        source="files",
        features="profile and statistics, raw",
        split="the first of the ten published splits",
        num_nodes=11_758,
        num_edges=1_038_000,
        num_features=10,
        num_classes=2,
    ),
    "blogcatalog": DatasetSpec(
        "Bloggers who follow each other, by interest.",
        load_blogcatalog,
        source="files",
        features="keywords, rows sum to 1",
        split=PER_CLASS,
        num_nodes=5_196,
        num_edges=343_486,
        num_features=8_189,
        num_classes=6,
    ),
    "debian": DatasetSpec(
        "Debian packages and their dependencies, by archive section.",
        load_debian,
        source="embedded",
        features="words of names and short descriptions, sparse, rows sum to 1",
        split="fixed: 20 training and 30 validation nodes per class; the rest test",
        num_nodes=4_092,
        num_edges=15_306,
        num_features=2_757,
        num_classes=13,
    ),
    "citations": DatasetSpec(
        "Generated citation-like graph of any size and homophily.",
        citations,
        source="generated",
        features="words, sparse, rows sum to 1; or dense gaussians",
        split="20 training and 30 validation nodes per class, or shares; seeded",
        write=write_citations,
    ),
}


def dataset_name(graph: str) -> str | None:
    """Return the dataset's name where `graph` is one, in any case; None where it is a file's path.

    Some methods have presets for a dataset, chosen by its name. A file has no preset, whatever its
    name.

    >>> dataset_name("PubMed"), dataset_name("data/pubmed.npz")
    ('pubmed', None)
    """
    if not isinstance(graph, str):
        raise EraseError("the name of a dataset or a file", repr(graph), "Pass a text.")
    return graph.lower() if graph.lower() in DATASETS else None


def load_dataset(name: str, seed: int = 0, **options: Any) -> Data:
    """Load a graph by its name.

    Args:
        name: one of `DATASETS`.
        seed: seed of the split, where it is drawn, and of the generated graph.
        **options: passed on to a dataset that takes any, such as ``num_nodes`` of ``citations``.

    Returns:
        ``x`` float32 [N, F] (dense or sparse CSR), ``edge_index`` int64 [2, E], ``y`` int64 [N],
        ``train_mask``, ``val_mask`` and ``test_mask`` bool [N], ``class_names`` (K strings) and
        ``name``. Where rows of ``x`` sum to 1, those of nodes without any word sum to 0.

    Raises:
        EraseError: the name or an option is not known, or a file is missing.

    >>> load_dataset("citations", num_nodes=100, num_edges=200, num_classes=4).num_nodes
    100
    """
    return _spec(name, options).load(seed=seed, **_plain(options))


def write_dataset(name: str, path: StrPath, seed: int = 0, **options: Any) -> None:
    """Write a dataset into a folder, as `write_folder` does; large ones are never held in memory.

    Args:
        name: one of `DATASETS`.
        path: the folder; an older graph's folder of that name is replaced, nothing else is.
        seed: as in `load_dataset`.
        **options: as in `load_dataset`.
    """
    spec, options = _spec(name, options), _plain(options)
    if spec.write is not None:
        spec.write(path, seed=seed, **options)
    else:
        write_folder(spec.load(seed=seed, **options), path)


def _plain(options: dict[str, Any]) -> dict[str, Any]:
    """Return numbers of numpy as Python's: an int8 cannot be multiplied by 1,000."""
    return {k: v.item() if isinstance(v, np.generic) else v for k, v in options.items()}


def _spec(name: str, options: dict[str, Any]) -> DatasetSpec:
    """Return the registry's entry for `name`, after checking its options."""
    known_name = dataset_name(name)
    if known_name is None:
        raise EraseError(f"a dataset among {', '.join(DATASETS)}", repr(name), "Correct the name.")
    spec = DATASETS[known_name]
    unknown = sorted(set(options) - set(spec.options))
    if unknown:
        known = f"options among {', '.join(spec.options)}" if spec.options else "no options"
        raise EraseError(f"{known} for {name}", ", ".join(unknown), "Remove or correct them.")
    return spec
