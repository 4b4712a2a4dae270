"""Cells whose method is given trusted labels: `erase bench --reviews`."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch_geometric.data import Data

import erase
from erase.bench import labels_of_cell, runner
from erase.bench.records import Cell, read
from erase.bench.reviewed import REVIEWS, TrustedLabels, without_reviews
from erase.cli import main
from erase.data.datasets import DATASETS, DatasetSpec
from graphs import two_communities

STUDY = """
[[grid]]
datasets = "tiny"
noises = "pair"
rates = 0.3
methods = ["label-propagation"]
seeds = 1
protocols = "honest"
"""


def test_other_decisions_are_other_cells() -> None:
    labels = TrustedLabels(np.array([1, -1]), np.array([True, False]))
    other = TrustedLabels(np.array([1, -1]), np.array([False, False]))
    cell = Cell("tiny", "none", 0, "smoothed", {"width": 8}, "honest", 0)
    keys = {each.key for each in (cell, labels.reviewed(cell), other.reviewed(cell))}
    assert len(keys) == 3
    assert without_reviews(labels.reviewed(cell)) == cell


def test_cells_get_the_trusted_labels_of_the_decisions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def load(seed: int = 0) -> Any:
        return two_communities(seed, size=40, classes=3)

    spec = DatasetSpec("Three communities.", load, "generated", features="words", split="halves")
    monkeypatch.setitem(DATASETS, "tiny", spec)
    monkeypatch.chdir(tmp_path)
    runner._dataset.cache_clear()
    Path("own.toml").write_text(STUDY)
    with erase.Reviews("r.sqlite", load()) as reviews:
        reviews.record(0, "0")
        reviews.record(4, "2")
    seen: list[Data] = []

    def watched(clean: Data, cell: Cell) -> Data:
        seen.append(labels_of_cell(clean, cell))
        return seen[-1]

    monkeypatch.setattr(runner, "labels_of_cell", watched)
    command = ["bench", "own.toml", "--device", "cpu", "--threads", "1", "--quiet"]
    assert main([*command, "--reviews", "r.sqlite"]) == 0
    assert main(command) == 0  # without decisions it is another cell, in the same file
    with_reviews, without = seen
    assert np.flatnonzero(with_reviews.trusted >= 0).tolist() == [0, 4]
    assert "trusted" not in without
    found = [record.cell.params.get(REVIEWS) for record in read("out/own.jsonl")]
    assert found[1] is None
    assert isinstance(found[0], str)
    Path("own.toml").write_text(STUDY.replace('"tiny"', '"debian"'))
    assert main([*command, "--reviews", "r.sqlite"]) == 2
    assert "the graph of the reviews, with 120 nodes" in capsys.readouterr().err
