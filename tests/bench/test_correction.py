"""Cells that train on labels an audit has corrected, and the table of what that gains."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch_geometric.data import Data

from erase.audit import DEFAULT_METHOD, audit
from erase.bench import labels_of_cell, score
from erase.bench.correction import CORRECTED_BY, labels_to_train, without_correction
from erase.bench.records import Cell, Record, read
from erase.bench.runner import Batch, Execution, plan, run_batch, run_cells
from erase.bench.studies import STUDIES, Study, check
from erase.bench.tables import build
from erase.errors import EraseError
from erase.methods import NodeClassifier
from erase.methods.label_propagation import LabelPropagation
from erase.methods.smoothed import SmoothedLogReg
from graphs import tiny

pytestmark = pytest.mark.usefixtures("tiny_dataset")
HERE = Execution("cpu", threads=1)
BY_LABELS = {CORRECTED_BY: "label-propagation"}


def cell(**changes: Any) -> Cell:
    wanted = Cell("tiny", "symmetric", 0.3, "smoothed", {"width": 8}, "honest", 0)
    return replace(wanted, **changes)


def corrected(**changes: Any) -> Cell:
    wanted = cell(**changes)
    return replace(wanted, params={**wanted.params, **BY_LABELS})


def test_a_corrected_cell_is_the_audit_and_then_the_method() -> None:
    wanted = corrected()
    (result,) = run_batch(Batch((wanted,), False, False, "cpu", 1))
    given = labels_of_cell(tiny(), wanted)
    found = audit(given, method=LabelPropagation(device="cpu"))
    assert found.decision.is_issue.sum() > 3
    method = SmoothedLogReg(width=8, device="cpu").fit(found.clean_graph(given))
    scores = score(method, tiny(), given)
    assert result.record.scores == pytest.approx(scores)
    assert scores["mislabelled"] > 5  # against what was given
    (plain,) = run_batch(Batch((cell(),), False, False, "cpu", 1))
    assert plain.record.scores["correction_rate"] != scores["correction_rate"]
    assert result.record.settings == plain.record.settings == {"width": 8}


def test_without_an_audit_labels_stay() -> None:
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


@pytest.mark.parametrize("method", ["unknown", None, 3])
def test_an_unknown_audit_method_is_found_before_work(method: Any) -> None:
    with pytest.raises(EraseError, match=f"corrected_by = {method!r}"):
        check(Study("tests", ()), [cell(params={CORRECTED_BY: method})])
    check(Study("tests", ()), [corrected()])


def test_the_model_of_a_file_named_like_a_dataset_has_its_defaults(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parameters = []

    def watch(given: Data, *, method: NodeClassifier, seed: int) -> Any:
        parameters.append(method.get_params())
        return audit(given, method="label-propagation", seed=seed)

    monkeypatch.setattr("erase.bench.correction.audit", watch)
    for dataset in ("./PubMed", "mine.npz", "pubmed"):
        labels_to_train(tiny(), cell(dataset=dataset, params={CORRECTED_BY: "erase"}), "cpu")
    assert parameters[0] == parameters[1] != parameters[2]


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

    by_default = {CORRECTED_BY: DEFAULT_METHOD}
    records = [
        made_up(0, 0.70),
        made_up(1, 0.72),
        made_up(9, 0.10),  # has no twin
        made_up(0, 0.74, params=by_default),
        made_up(1, 0.74, params=by_default),
        made_up(0, 0.60, dataset="citeseer"),
        made_up(0, 0.59, dataset="citeseer", params=by_default),
    ]
    table = build("corrected", records, "honest")
    assert table.notes[0] == (
        "CE: corrected labels change the accuracy by +1.00 points on average over 2 cells, "
        "from −1.00 to +3.00."
    )
