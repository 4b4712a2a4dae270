"""Fixtures of the benchmark's tests."""

from collections.abc import Iterator
from typing import Any

import pytest

from erase.bench import runner
from erase.data.datasets import DATASETS, DatasetSpec
from graphs import tiny


@pytest.fixture
def tiny_dataset(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Add the dataset `tiny`, for tests that stay in this process."""

    def load(seed: int = 0) -> Any:
        return tiny()

    spec = DatasetSpec("Three communities.", load, "generated", features="words", split="halves")
    monkeypatch.setitem(DATASETS, "tiny", spec)
    runner._dataset.cache_clear()
    yield
    runner._dataset.cache_clear()
