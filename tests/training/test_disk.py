"""Representations that outgrow the memory lie in a file, and are the same."""

import ctypes
import gc
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import erase
from erase.training import chunks
from erase.training.disk import OnDisk, return_freed


def resident() -> int:
    """Return the bytes of this process that are in memory."""
    status = Path("/proc/self/status").read_text()
    (kilobytes,) = re.findall(r"VmRSS:\s+(\d+)", status)
    return 1024 * int(kilobytes)


IS_GLIBC = sys.platform == "linux" and hasattr(ctypes.CDLL(None), "malloc_trim")


@pytest.mark.skipif(not IS_GLIBC, reason="needs glibc")
def test_freed_memory_goes_back_to_the_system() -> None:
    """What lies between parts in use stays with the process otherwise."""
    parts = [bytearray(100_000) for _ in range(2_000)]
    full = resident()
    del parts[:-1]
    gc.collect()
    return_freed()
    assert resident() < full - 150_000_000
    assert len(parts[0]) == 100_000


def test_what_is_written_stays_after_it_left_the_memory() -> None:
    stored = OnDisk(2, 1000, 3)
    assert stored.tensor.shape == (2, 1000, 3)
    assert not stored.tensor.any()
    stored.tensor[:, 7] = 2.0
    stored.leave_memory()
    kept = stored.tensor
    del stored
    gc.collect()
    assert kept.sum() == 12.0
    assert bool((kept[:, 7] == 2.0).all())


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux counts pages")
def test_what_left_takes_no_memory() -> None:
    stored = OnDisk(64, 2**20)
    before = resident()
    for part in stored.tensor:
        part.fill_(1.0)
        stored.leave_memory()
    assert resident() - before < 2**27  # of 2^28 that were written
    assert stored.tensor[:, 5].sum() == 64


def test_a_fit_whose_representations_lie_on_the_disk_is_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    graph = erase.load_dataset("citations", num_nodes=400, num_edges=900, num_classes=3)
    method = erase.ERASE(batch_size=50, epochs=2, width=16, hidden=8, heads=2, seed=1, device="cpu")
    held = method.fit(graph).transform()
    made: list[OnDisk] = []
    left: list[OnDisk] = []

    class Watched(OnDisk):
        def __init__(self, *shape: int) -> None:
            super().__init__(*shape)
            made.append(self)

        def leave_memory(self) -> None:
            super().leave_memory()
            left.append(self)

    monkeypatch.setattr(chunks, "OnDisk", Watched)
    monkeypatch.setattr(chunks, "LARGE", held.nbytes - 1)
    method.fit(graph)
    assert len(made) == 1
    assert left == made  # 400 nodes are one chunk
    np.testing.assert_array_equal(method.transform(), held)
    own = method.transform(copy=False)
    assert np.shares_memory(own, made[0].tensor.numpy())
    method.save(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(erase.load_model(tmp_path / "model.safetensors").transform(), own)
    monkeypatch.setattr(chunks, "LARGE", held.nbytes)
    method.fit(graph)
    np.testing.assert_array_equal(method.transform(), held)
    assert len(made) == 1
