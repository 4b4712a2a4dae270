"""What every dataset of the registry must give, and how `load_dataset` finds it."""

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.datasets import Planetoid
from torch_geometric.transforms import NormalizeFeatures

from erase.data.datasets import DATASETS, load_dataset, write_dataset
from erase.data.files import read_graph
from erase.errors import EraseError

needs_files = pytest.mark.skipif(
    not os.environ.get("ERASE_DATA"), reason="ERASE_DATA names no folder with the raw files"
)


def load_or_skip(name: str) -> Data:
    try:
        return load_dataset(name)
    except EraseError as error:
        if error.got == "no such file":
            pytest.skip(str(error))
        raise


def row_sums(x: Tensor) -> Tensor:
    return torch.mv(x, torch.ones(x.shape[1]))


def test_the_names_are_those_of_the_project() -> None:
    known = [
        "cora",
        "citeseer",
        "pubmed",
        "corafull",
        "ogbn-arxiv",
        "ogbn-products",
        "ogbn-papers100m",
        "computers",
        "cs",
        "tolokers",
        "blogcatalog",
        "debian",
        "citations",
    ]
    assert list(DATASETS)[: len(known)] == known, "add a dataset at the end of DATASETS"
    assert {name for name in known if DATASETS[name].source != "files"} == {"debian", "citations"}


@pytest.mark.parametrize("name", DATASETS)
def test_a_description_is_one_sentence(name: str) -> None:
    description = DATASETS[name].description
    assert description[0].isupper()
    assert description.endswith(".")
    assert description.count(". ") == 0


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=needs_files if spec.source == "files" else ())
        for name, spec in DATASETS.items()
    ],
)
def test_every_dataset_keeps_the_contract(name: str) -> None:
    data, spec = load_or_skip(name), DATASETS[name]
    num_nodes = data.y.shape[0]
    assert data.name == name
    assert data.x.dtype == torch.float32
    assert data.x.shape[0] == num_nodes
    assert data.edge_index.dtype == torch.int64
    assert data.edge_index.min() >= 0
    assert data.edge_index.max() < num_nodes
    assert data.y.dtype == torch.int64
    assert data.y.shape == (num_nodes,)
    assert data.y.min() == 0
    assert data.y.max() == len(data.class_names) - 1
    assert len(set(data.class_names)) == len(data.class_names)
    masks = torch.stack([data.train_mask, data.val_mask, data.test_mask])
    assert masks.dtype == torch.bool
    assert masks.shape == (3, num_nodes)
    assert masks.any(dim=1).all()
    assert masks.sum(dim=0).max() == 1
    assert set(data.y[data.train_mask].tolist()) == set(range(len(data.class_names)))
    if spec.num_nodes is not None:
        found = (num_nodes, data.num_edges, data.x.shape[1], len(data.class_names))
        assert found == (spec.num_nodes, spec.num_edges, spec.num_features, spec.num_classes)
    if "sum to 1" in spec.features:
        sums = row_sums(data.x)
        assert torch.all((sums - 1).abs().lt(1e-5) | (sums == 0))
        assert (sums == 0).float().mean() < 0.01


@needs_files
@pytest.mark.parametrize("name", ["cora", "citeseer", "pubmed"])
def test_planetoid_is_what_pyg_gives(name: str, tmp_path: Path) -> None:
    pyg_name = {"cora": "Cora", "citeseer": "CiteSeer", "pubmed": "PubMed"}[name]
    ours = load_or_skip(name)
    raw = Path(os.environ["ERASE_DATA"]) / "Planetoid" / pyg_name / "raw"
    shutil.copytree(raw, tmp_path / pyg_name / "raw")
    theirs = Planetoid(str(tmp_path), pyg_name, transform=NormalizeFeatures())[0]
    for field in ("x", "edge_index", "y", "train_mask", "val_mask", "test_mask"):
        assert torch.equal(ours[field], theirs[field]), field


@needs_files
def test_class_names_stand_at_the_classes_of_the_published_sizes() -> None:
    cora = load_or_skip("cora")
    sizes = dict(zip(cora.class_names, torch.bincount(cora.y).tolist(), strict=True))
    assert sizes == {
        "Case Based": 298,
        "Genetic Algorithms": 418,
        "Neural Networks": 818,
        "Probabilistic Methods": 426,
        "Reinforcement Learning": 217,
        "Rule Learning": 180,
        "Theory": 351,
    }
    citeseer = load_or_skip("citeseer")
    sizes = dict(zip(citeseer.class_names, torch.bincount(citeseer.y).tolist(), strict=True))
    # 15 isolated nodes without a paper count as class 0 in Planetoid
    expected = {"Agents": 596, "AI": 249 + 15, "DB": 701, "HCI": 508, "IR": 668, "ML": 590}
    assert sizes == expected


def test_names_are_found_in_any_case() -> None:
    assert load_dataset("Debian").name == "debian"


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(EraseError, match=r"cora, citeseer.*citations.*'coral'"):
        load_dataset("coral")


def test_unknown_options_are_refused_before_anything_is_read() -> None:
    with pytest.raises(EraseError, match=r"no options for cora; got colour"):
        load_dataset("cora", colour="red")
    with pytest.raises(EraseError, match=r"num_nodes.*got nodes"):
        load_dataset("citations", nodes=100)


def test_options_may_be_small_numbers_of_numpy(tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "num_nodes": np.int16(300),
        "num_edges": np.int16(900),
        "num_classes": np.int8(5),
    }
    graph = load_dataset("citations", **options)
    assert (graph.num_nodes, len(graph.class_names)) == (300, 5)
    write_dataset("citations", tmp_path / "graph", **options)
    assert read_graph(tmp_path / "graph").num_nodes == 300


def test_options_and_seed_reach_the_generator() -> None:
    small = load_dataset("citations", seed=1, num_nodes=300, num_classes=3)
    other = load_dataset("citations", seed=2, num_nodes=300, num_classes=3)
    assert small.num_nodes == 300
    assert not torch.equal(small.edge_index, other.edge_index)
