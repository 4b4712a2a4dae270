"""ogbn-papers100M, on a small graph in its layout: archives of arrays, streamed."""

import gzip
import io
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from data.test_folder import same_graph
from erase.cli import main
from erase.data.datasets import load_dataset, papers100m, write_dataset
from erase.data.files import read_graph
from erase.errors import EraseError

N, F = 50, 4
RNG = np.random.default_rng(0)
EDGES = RNG.integers(0, N, (2, 300))
FEATURES = RNG.standard_normal((N, F)).astype(np.float32)
LABELS = np.where(np.arange(N) % 3, np.arange(N) % 5, np.nan).astype(np.float32)
PARTS = {"train": range(20), "valid": range(20, 30), "test": range(30, 50)}

Write = Callable[..., Path]


@pytest.fixture
def papers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    monkeypatch.setenv("ERASE_DATA", str(tmp_path))
    monkeypatch.setattr(papers100m, "BLOCK", 14)

    def write(save: Any = np.savez_compressed, **changes: Any) -> Path:
        folder = tmp_path / "ogbn_papers100M"
        (folder / "raw").mkdir(parents=True, exist_ok=True)
        arrays = {
            "edge_index": EDGES,
            "node_feat": FEATURES,
            "node_year": np.full((N, 1), 2010),
            "num_nodes_list": np.array([N]),
            "num_edges_list": np.array([EDGES.shape[1]]),
        }
        save(folder / "raw/data.npz", **(arrays | changes))
        save(folder / "raw/node-label.npz", node_label=LABELS[:, None])
        for part, nodes in PARTS.items():
            (folder / "split/time").mkdir(parents=True, exist_ok=True)
            with gzip.open(folder / f"split/time/{part}.csv.gz", "wt") as file:
                file.writelines(f"{node}\n" for node in nodes)
        return folder

    return write


def expected(**changes: Any) -> Data:
    masks = {part: torch.zeros(N, dtype=torch.bool) for part in PARTS}
    for part, nodes in PARTS.items():
        masks[part][list(nodes)] = True
    data = Data(
        x=torch.from_numpy(FEATURES),
        edge_index=torch.from_numpy(EDGES),
        y=torch.from_numpy(LABELS),
        train_mask=masks["train"],
        val_mask=masks["valid"],
        test_mask=masks["test"],
    )
    for name, value in changes.items():
        data[name] = value
    return data


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_the_folder_is_the_graph_of_the_archives(save: Any, papers: Write, tmp_path: Path) -> None:
    papers(save)
    assert main(["convert", "ogbn-papers100M", str(tmp_path / "folder"), "--quiet"]) == 0
    same_graph(expected(), read_graph(tmp_path / "folder"))


def test_edges_in_either_order_of_memory(papers: Write, tmp_path: Path) -> None:
    papers(edge_index=np.asfortranarray(EDGES))
    write_dataset("ogbn-papers100m", tmp_path / "folder")
    same_graph(expected(), read_graph(tmp_path / "folder"))


def test_class_names_come_from_the_mapping_file(papers: Write, tmp_path: Path) -> None:
    folder = papers()
    (folder / "mapping").mkdir()
    with gzip.open(folder / "mapping/labelidx2arxivcategeory.csv.gz", "wt") as file:
        file.write("label idx,arxiv category\n")
        file.writelines(f"{k},arxiv cs {k}\n" for k in range(5))
    write_dataset("ogbn-papers100m", tmp_path / "folder")
    names = [f"cs {k}" for k in range(5)]
    same_graph(expected(class_names=names), read_graph(tmp_path / "folder"))


def test_it_is_never_loaded(papers: Write) -> None:
    with pytest.raises(EraseError, match=r"data\.npz; got no such file.*papers100M-bin\.zip"):
        load_dataset("ogbn-papers100m")
    papers()
    with pytest.raises(EraseError, match="erase convert ogbn-papers100m FOLDER once"):
        load_dataset("ogbn-papers100m")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 255
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [cut, flip])
@pytest.mark.parametrize("file", ["data.npz", "node-label.npz"])
def test_a_damaged_archive_is_an_error(
    damage: Any, file: str, papers: Write, tmp_path: Path
) -> None:
    damage(papers() / "raw" / file)
    with pytest.raises(EraseError, match=rf"the array \w+ in .*{file}.*cannot be read"):
        write_dataset("ogbn-papers100m", tmp_path / "folder")
    assert not (tmp_path / "folder").exists()


def test_an_array_shorter_than_its_header_is_an_error(papers: Write, tmp_path: Path) -> None:
    path = papers() / "raw/node-label.npz"
    content = io.BytesIO()
    form = {"descr": "<f4", "fortran_order": False, "shape": (N + 1, 1)}
    np.lib.format.write_array_header_1_0(content, form)
    content.write(LABELS.tobytes())
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("node_label.npy", content.getvalue())
    with pytest.raises(EraseError, match="cannot be read: it ends too early"):
        write_dataset("ogbn-papers100m", tmp_path / "folder")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"edge_index": EDGES.T}, r"edge_index of shape \[2, E\]; got \(300, 2\)"),
        ({"node_feat": np.asfortranarray(FEATURES)}, "rows of node_feat one after the other"),
        ({"node_feat": FEATURES[:-1]}, "50 nodes and 49 rows of features"),
        ({"edge_index": EDGES + 1}, "edges between the nodes 0..49"),
    ],
)
def test_arrays_of_another_layout_are_refused(
    changes: dict[str, Any], message: str, papers: Write, tmp_path: Path
) -> None:
    papers(**changes)
    with pytest.raises(EraseError, match=message):
        write_dataset("ogbn-papers100m", tmp_path / "folder")


def test_no_array_is_ever_held_as_a_whole(
    papers: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(papers100m, "BLOCK", 2**12)
    for module in ("folder", "edge_sorter"):
        monkeypatch.setattr(f"erase.data.{module}.BLOCK", 2**12)
    monkeypatch.setattr("erase.data.edge_sorter.LARGEST_BUCKET", 2**12)
    edges = np.random.default_rng(0).integers(0, N, (2, 2**18))  # 4 MiB
    papers(edge_index=edges)
    tracemalloc.start()
    write_dataset("ogbn-papers100m", tmp_path / "folder")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < edges.nbytes / 2
