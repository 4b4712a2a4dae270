"""The read-only data folder and the download cache, seen through CoraFull's loader."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.datasets import CitationFull

from erase.data.datasets import load_dataset
from erase.errors import EraseError

NUM_NODES, NUM_WORDS, NUM_CLASSES = 120, 30, 2


@pytest.fixture
def cora_npz(tmp_path: Path) -> Path:
    """A small graph in the layout of CoraFull's file."""
    rng = np.random.default_rng(0)
    words = sp.random(NUM_NODES, NUM_WORDS, density=0.2, random_state=1, format="csr")
    words.data = np.ceil(words.data * 3)  # counts above 1 become 1 in PyG's reader
    ring = sp.csr_matrix(
        (np.ones(NUM_NODES), (np.arange(NUM_NODES), (np.arange(NUM_NODES) + 1) % NUM_NODES)),
        shape=(NUM_NODES, NUM_NODES),
    )
    path = tmp_path / "cora.npz"
    np.savez(
        path,
        attr_data=words.data,
        attr_indices=words.indices,
        attr_indptr=words.indptr,
        attr_shape=words.shape,
        adj_data=ring.data,
        adj_indices=ring.indices,
        adj_indptr=ring.indptr,
        adj_shape=ring.shape,
        labels=rng.permutation(np.arange(NUM_NODES) % NUM_CLASSES),
    )
    return path


@pytest.fixture
def data_root(cora_npz: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "data"
    raw = root / "CitationFull" / "cora" / "raw"
    raw.mkdir(parents=True)
    shutil.copy(cora_npz, raw / "cora.npz")
    monkeypatch.setenv("ERASE_DATA", str(root))
    return root


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("ERASE_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "erase"


def everything_below(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def replace_download(monkeypatch: pytest.MonkeyPatch, download: Callable[[Path], object]) -> None:
    monkeypatch.setattr(CitationFull, "download", lambda self: download(Path(self.raw_dir)))


def refuse_download(raw_dir: Path) -> None:
    raise AssertionError("this would have gone to the network")


def test_corafull_has_raw_features_both_directions_and_a_20_30_split(data_root: Path) -> None:
    data = load_dataset("corafull", seed=3)
    assert data.x.shape == (NUM_NODES, NUM_WORDS)
    assert set(data.x.unique().tolist()) == {0.0, 1.0}
    assert data.num_edges == 2 * NUM_NODES
    assert data.is_undirected()
    assert data.class_names == ["0", "1"]
    for k in range(NUM_CLASSES):
        of_class = data.y == k
        sizes = [int((mask & of_class).sum()) for mask in (data.train_mask, data.val_mask)]
        assert sizes == [20, 30]
        assert int((data.test_mask & of_class).sum()) == NUM_NODES // NUM_CLASSES - 50


def test_the_seed_draws_the_split_and_nothing_else(data_root: Path) -> None:
    one, again, other = (load_dataset("corafull", seed=seed) for seed in (0, 0, 1))
    assert torch.equal(one.train_mask, again.train_mask)
    assert not torch.equal(one.train_mask, other.train_mask)
    assert torch.equal(one.x, other.x)
    assert torch.equal(one.y, other.y)


def test_the_data_folder_is_only_read(data_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_download(monkeypatch, refuse_download)
    before = everything_below(data_root)
    load_dataset("corafull")
    assert everything_below(data_root) == before


def test_a_cache_that_somebody_left_beside_the_files_is_ignored(data_root: Path) -> None:
    processed = data_root / "CitationFull" / "cora" / "processed"
    processed.mkdir()
    (processed / "data_undirected.pt").write_text("not a graph")
    assert load_dataset("corafull").num_nodes == NUM_NODES


def test_no_temporary_folder_is_left(
    data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    load_dataset("corafull")
    assert everything_below(temporary) == []


def test_loading_prints_nothing(
    data_root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.delenv("PYTEST_CURRENT_TEST")  # PyG is silent of its own accord where it is set
        load_dataset("corafull")
    assert capsys.readouterr() == ("", "")


def test_a_missing_file_is_named_and_never_downloaded(
    data_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_download(monkeypatch, refuse_download)
    file = data_root / "CitationFull" / "cora" / "raw" / "cora.npz"
    file.unlink()
    with pytest.raises(EraseError, match="unset ERASE_DATA") as caught:
        load_dataset("corafull")
    assert caught.value.expected == f"the file {file}"


def test_without_a_data_folder_files_are_downloaded_once_into_the_cache(
    cora_npz: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_download(monkeypatch, lambda raw_dir: shutil.copyfile(cora_npz, raw_dir / "cora.npz"))
    first = load_dataset("corafull")
    assert everything_below(cache) == [
        "CitationFull",
        "CitationFull/cora",
        "CitationFull/cora/raw",
        "CitationFull/cora/raw/cora.npz",
    ]
    replace_download(monkeypatch, refuse_download)
    assert torch.equal(load_dataset("corafull").x, first.x)


def test_a_failed_download_says_so_and_leaves_nothing(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(raw_dir: Path) -> None:
        (raw_dir / "half.npz").write_text("half a file")
        raise OSError("the network is gone")

    replace_download(monkeypatch, fail)
    with pytest.raises(EraseError, match=r"the network is gone.*set ERASE_DATA"):
        load_dataset("corafull")
    assert everything_below(cache) == []


def test_a_process_that_was_faster_is_welcome(
    cora_npz: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def download_in_two_processes(raw_dir: Path) -> None:
        shutil.copyfile(cora_npz, raw_dir / "cora.npz")
        others = cache / "CitationFull" / "cora" / "raw"
        others.mkdir(parents=True)
        shutil.copyfile(cora_npz, others / "cora.npz")

    replace_download(monkeypatch, download_in_two_processes)
    assert load_dataset("corafull").num_nodes == NUM_NODES
