"""PyG's readers on small files of each layout, so that no loader waits for a download."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from erase.data.datasets import load_dataset

NUM_NODES = 130
LABELS = np.arange(NUM_NODES) % 2
RING = np.stack([np.arange(NUM_NODES), (np.arange(NUM_NODES) + 1) % NUM_NODES])


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ERASE_DATA", str(tmp_path))
    return tmp_path


def some_words() -> sp.csr_array:
    words = np.random.default_rng(0).random((NUM_NODES, 12)) < 0.4
    words[:, 0] = True
    return sp.csr_array(words.astype(np.float32))


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("computers", "Amazon/Computers/raw/amazon_electronics_computers.npz"),
        ("cs", "Coauthor/CS/raw/ms_academic_cs.npz"),
    ],
)
def test_gnn_benchmark_layout(root: Path, name: str, file: str) -> None:
    (root / file).parent.mkdir(parents=True)
    words = some_words()
    adjacency = sp.csr_array((np.ones(NUM_NODES), tuple(RING)), shape=(NUM_NODES, NUM_NODES))
    arrays = {f"attr_{part}": getattr(words, part) for part in ("data", "indices", "indptr")}
    arrays |= {f"adj_{part}": getattr(adjacency, part) for part in ("data", "indices", "indptr")}
    np.savez(
        root / file,
        attr_shape=np.array(words.shape),
        adj_shape=np.array(adjacency.shape),
        labels=LABELS,
        **arrays,
    )
    data = load_dataset(name)
    expected = words.toarray() / words.toarray().sum(axis=1, keepdims=True)
    torch.testing.assert_close(data.x, torch.from_numpy(expected))
    assert data.num_edges == 2 * NUM_NODES
    assert data.y.tolist() == LABELS.tolist()
    assert [int(m.sum()) for m in (data.train_mask, data.val_mask, data.test_mask)] == [40, 60, 30]


def test_blogcatalog_layout(root: Path) -> None:
    raw = root / "AttributedGraphDataset/blogcatalog/raw"
    raw.mkdir(parents=True)
    words = some_words()
    sp.save_npz(raw / "attrs.npz", sp.csr_matrix(words))
    (raw / "edgelist.txt").write_text("".join(f"{i} {j}\n" for i, j in RING.T))
    (raw / "labels.txt").write_text("".join(f"{i} {k + 1}\n" for i, k in enumerate(LABELS)))
    data = load_dataset("blogcatalog")
    expected = words.toarray() / words.toarray().sum(axis=1, keepdims=True)
    torch.testing.assert_close(data.x, torch.from_numpy(expected))
    assert data.edge_index.tolist() == RING.tolist()
    assert data.y.tolist() == LABELS.tolist()
    assert [int(m.sum()) for m in (data.train_mask, data.val_mask, data.test_mask)] == [40, 60, 30]


def test_tolokers_layout_keeps_raw_features_and_the_first_split(root: Path) -> None:
    file = root / "HeterophilousGraphDataset/tolokers/raw/tolokers.npz"
    file.parent.mkdir(parents=True)
    rng = np.random.default_rng(1)
    features = rng.normal(size=(NUM_NODES, 3)).astype(np.float32)
    part = rng.integers(3, size=(10, NUM_NODES))  # of every node in each of the ten splits
    np.savez(
        file,
        node_features=features,
        node_labels=LABELS,
        edges=RING.T,
        train_masks=part == 0,
        val_masks=part == 1,
        test_masks=part == 2,
    )
    data = load_dataset("tolokers")
    assert torch.equal(data.x, torch.from_numpy(features))
    assert data.class_names == ["active", "banned"]
    masks = torch.stack([data.train_mask, data.val_mask, data.test_mask])
    assert masks.int().argmax(dim=0).tolist() == part[0].tolist()
    assert torch.equal(load_dataset("tolokers", seed=1).train_mask, data.train_mask)
