"""Other epochs than the one validation labels choose: by test labels, or the last."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

import epochs
import erase
from epochs import Row, graph_for, planned, train
from erase.data.task import NodeTask
from erase.methods.losses import CrossEntropy
from graphs import two_communities


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch) -> Data:
    graph = two_communities(size=60)
    monkeypatch.setattr(erase, "load_dataset", lambda name: graph)
    return graph


@pytest.mark.parametrize("epoch", ["test", "last"])
def test_training_labels_are_the_published_draw_and_validation_is_another(
    epoch: str, clean: Data
) -> None:
    task = NodeTask.from_data(graph_for(epoch, clean, "symmetric", 0.5))
    usual = NodeTask.from_data(erase.corrupt(clean, "symmetric", 0.5, draw="fixed"))
    assert torch.equal(task.train_mask, usual.train_mask)
    assert torch.equal(task.y[task.train_mask], usual.y[usual.train_mask])
    chosen_by = clean.test_mask if epoch == "test" else torch.zeros_like(clean.test_mask)
    assert torch.equal(task.val_mask, chosen_by)
    assert torch.equal(task.y[task.val_mask], clean.y[chosen_by])
    assert bool((task.y[~(task.train_mask | chosen_by)] == -1).all())


def test_no_epoch_is_better_on_the_test_nodes_than_the_one_they_choose(clean: Data) -> None:
    small = {"hidden": 8, "heads": 1, "epochs": 12, "lr": 1.0}
    best = list(train(Row("test", "any", "symmetric", "ce", 2), "cpu", **small))
    last = list(train(Row("last", "any", "symmetric", "ce", 2), "cpu", **small))
    assert {line["taken"] for line in last} == {12}
    keys = [[(line["rate"], line["seed"]) for line in lines] for lines in (best, last)]
    assert keys[0] == keys[1]
    assert len(keys[0]) == 2 * 5  # seeds, rates
    pairs = [(b["test_accuracy"], e["test_accuracy"]) for b, e in zip(best, last, strict=True)]
    assert all(high >= low for high, low in pairs)
    assert any(high > low for high, low in pairs)


def test_rows_are_chosen_by_method_and_graph() -> None:
    everything = list(planned((), ()))
    assert len(everything) == len(set(everything)) == (3 + 3 + 1 + 3) * 2  # graphs, noises
    assert {row.runs for row in everything if row.epoch == "test" and row.method == "erase"} == {10}
    some = list(planned(["ce"], ["citeseer"]))
    assert some == [row for row in everything if row[1] == "citeseer" and row.method == "ce"]


def test_the_script_makes_what_is_missing_and_repeats_nothing(
    clean: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[Row] = []

    def trained(row: Row, device: str) -> list[dict[str, Any]]:
        rows.append(row)
        return [dict(zip(epochs.KEYS, row, strict=False)) | {"device": device}]

    monkeypatch.setattr(epochs, "train", trained)
    records = tmp_path / "new" / "epochs.jsonl"
    monkeypatch.setattr(sys, "argv", ["epochs.py", "--method", "ce", "--records", str(records)])
    epochs.main()
    epochs.main()
    assert rows == list(planned(["ce"], ()))
    lines = [json.loads(line) for line in records.read_text().splitlines()]
    assert [tuple(line[key] for key in epochs.KEYS) for line in lines] == [r[:-1] for r in rows]
    assert {"machine", "versions"} <= set(lines[0])


def test_settings_are_those_of_the_graph(clean: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str | None] = []
    usual = CrossEntropy.preset

    def preset(recipe: str, dataset: str | None, **changes: Any) -> CrossEntropy:
        loaded.append(dataset)
        return usual(recipe, dataset, **changes)

    monkeypatch.setattr(CrossEntropy, "preset", preset)
    list(train(Row("last", "pubmed", "symmetric", "ce", 1), "cpu", hidden=8, heads=1, epochs=1))
    assert loaded == ["pubmed"]


@pytest.mark.parametrize("epoch", ["test", "last"])
def test_no_label_is_left_but_those_that_train_or_choose(epoch: str) -> None:
    given = graph_for(epoch, two_communities(size=60), "symmetric", 0.5)
    assert bool((given.y[~(given.train_mask | given.val_mask)] == -1).all())
