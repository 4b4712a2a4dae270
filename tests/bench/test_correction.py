"""Cells that train on labels an audit has corrected, and the table of what that gains."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch_geometric.data import Data

from conftest import two_communities
from erase.audit import DEFAULT_METHOD, audit
from erase.bench import labels_of_cell, runner, score
from erase.bench.correction import CORRECTED_BY, labels_to_train, without_correction
from erase.bench.records import Cell, Record, read
from erase.bench.runner import Batch, Execution, plan, run_batch, run_cells
from erase.bench.studies import STUDIES, Study, check
from erase.bench.tables import build
from erase.data.datasets import DATASETS, DatasetSpec
from erase.errors import EraseError
from erase.methods import NodeClassifier
from erase.methods.label_propagation import LabelPropagation
from erase.methods.smoothed import SmoothedLogReg

HERE = Execution("cpu", threads=1)
BY_LABELS = {CORRECTED_BY: "label-propagation"}


def tiny() -> Data:
    return two_communities(0, size=40, classes=3)


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Add a dataset of 120 nodes, for tests that stay in this process."""

    def load(seed: int = 0) -> Any:
        return tiny()

    spec = DatasetSpec("Three communities.", load, "generated", features="words", split="halves")
    monkeypatch.setitem(DATASETS, "tiny", spec)
    runner._dataset.cache_clear()
    yield
    runner._dataset.cache_clear()


def cell(**changes: Any) -> Cell:
    asked = Cell("tiny", "symmetric", 0.3, "smoothed", {"width": 8}, "honest", 0)
    return replace(asked, **changes)


def corrected(**changes: Any) -> Cell:
    asked = cell(**changes)
    return replace(asked, params={**asked.params, **BY_LABELS})


def test_a_corrected_cell_is_the_audit_and_then_the_method() -> None:
    asked = corrected()
    (result,) = run_batch(Batch((asked,), False, False, "cpu", 1))
    given = labels_of_cell(tiny(), asked)
    found = audit(given, method=LabelPropagation(device="cpu"))
    assert found.decision.is_issue.sum() > 3
    method = SmoothedLogReg(width=8, device="cpu").fit(found.clean_graph(given))
    scores = score(method, tiny(), given)
    assert result.record.scores == pytest.approx(scores)
    assert scores["mislabelled"] > 5  # against what was given
    (plain,) = run_batch(Batch((cell(),), False, False, "cpu", 1))
    assert plain.record.scores["correction_rate"] != scores["correction_rate"]
    assert result.record.settings == plain.record.settings == {"width": 8}


def test_without_a_judge_labels_stay() -> None:
    given = labels_of_cell(tiny(), cell())
    assert labels_to_train(given, cell(), "cpu") is given
    changed = labels_to_train(given, corrected(), "cpu")
    assert (np.asarray(changed.y) != given.y.numpy()).any()
    assert without_correction(corrected()) == cell()


def test_corrected_cells_are_trained_one_by_one() -> None:
    cells = [cell(seed=0), cell(seed=1), corrected(seed=0), corrected(seed=1)]
    batches = plan(Study("tests", ()), cells, replace(HERE, batch=10))
    assert [len(batch.cells) for batch in batches] == [2, 1, 1]


def test_records_keep_who_corrected(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    summary = run_cells(Study("tests", ()), [cell(), corrected()], path, HERE)
    assert not summary.failures
    assert {record.cell for record in read(path)} == {cell(), corrected()}


@pytest.mark.parametrize("judge", ["nobody", None, 3])
def test_a_judge_that_does_not_exist_is_found_before_work(judge: Any) -> None:
    with pytest.raises(EraseError, match=f"corrected_by = {judge!r}"):
        check(Study("tests", ()), [cell(params={CORRECTED_BY: judge})])
    check(Study("tests", ()), [corrected()])


def test_the_judge_of_a_file_called_like_a_dataset_has_its_defaults(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judges = []

    def watch(given: Data, *, method: NodeClassifier, seed: int) -> Any:
        judges.append(method.get_params())
        return audit(given, method="label-propagation", seed=seed)

    monkeypatch.setattr("erase.bench.correction.audit", watch)
    for dataset in ("./PubMed", "mine.npz", "pubmed"):
        labels_to_train(tiny(), cell(dataset=dataset, params={CORRECTED_BY: "erase"}), "cpu")
    assert judges[0] == judges[1] != judges[2]


def test_the_study_has_its_twins_in_the_main_table() -> None:
    cells = STUDIES["corrected"].cells()
    assert {c.params[CORRECTED_BY] for c in cells} == {DEFAULT_METHOD}
    assert {without_correction(c) for c in cells} <= set(STUDIES["honest"].cells())
    assert len(cells) == 3 * 2 * 2 * 5


def test_the_table_says_what_is_gained() -> None:
    def made_up(seed: int, accuracy: float, **where: Any) -> Record:
        place: dict[str, Any] = {"dataset": "cora", "noise": "symmetric", "params": {}, **where}
        return Record(
            Cell(rate=0.3, method="ce", protocol="honest", seed=seed, **place),
            {"test_accuracy": accuracy},
        )

    by_judge = {CORRECTED_BY: DEFAULT_METHOD}
    records = [
        made_up(0, 0.70),
        made_up(1, 0.72),
        made_up(9, 0.10),  # has no twin
        made_up(0, 0.74, params=by_judge),
        made_up(1, 0.74, params=by_judge),
        made_up(0, 0.60, dataset="citeseer"),
        made_up(0, 0.59, dataset="citeseer", params=by_judge),
    ]
    table = build("corrected", records, "honest")
    assert table.notes[0] == (
        "CE: corrected labels change the accuracy by +1.00 points on average over 2 cells, "
        "from −1.00 to +3.00."
    )
