"""How found errors are scored, and the cells of a study that ask for it."""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import permutations, product
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given as drawn

from erase.audit import DEFAULT_METHOD, DETECTORS, FOLDS, OutOfFold, audit, audit_params
from erase.audit.decision import decide
from erase.audit.out_of_fold import out_of_sample
from erase.bench import labels_of_cell, runner
from erase.bench.detection import (
    ABLATIONS,
    AUDIT,
    AUDIT_MODEL,
    DETECTING,
    LEFT_OUT,
    RIVAL_MODEL,
    DetectionSetup,
    detection_scores,
    detects,
    score_audit,
    score_detection,
)
from erase.bench.names import ABLATION_NAMES, DETECTOR_NAMES
from erase.bench.records import Cell, Record, read
from erase.bench.runner import Batch, Execution, plan, run_batch, run_cells
from erase.bench.studies import DETECTORS_COMPARED, STUDIES, Grid, Study, check
from erase.bench.tables import FORMATS, Table, build
from erase.cli import main
from erase.data.labels import encode_labels
from erase.data.task import NodeTask
from erase.errors import EraseError
from erase.methods import METHODS
from erase.methods.label_propagation import LabelPropagation
from erase.methods.smoothed import SmoothedLogReg
from graphs import tiny

pytestmark = pytest.mark.usefixtures("tiny_dataset")
HERE = Execution("cpu", threads=1)


def cell(method: str = AUDIT, **changes: Any) -> Cell:
    params = {"judge": "label-propagation", **changes.pop("params", {})}
    wanted = Cell("tiny", "symmetric", 0.3, method, params, "honest", 0)
    return replace(wanted, **changes)


def batch(*cells: Cell) -> Batch:
    return Batch(cells, False, False, "cpu", 1)


def out_of_fold_like(wanted: Cell) -> tuple[OutOfFold, NodeTask]:
    task = NodeTask.of(labels_of_cell(tiny(), wanted))
    return out_of_sample(
        task, LabelPropagation(seed=wanted.seed, device="cpu"), FOLDS, wanted.seed
    ), task


# --- scores


def scores_by_loops(
    quality: Sequence[float], flags: Sequence[bool], wrong: Sequence[bool]
) -> dict[str, float]:
    """Return the scores from their definitions, label by label."""
    n = len(quality)
    bad = [i for i in range(n) if wrong[i]]
    good = [i for i in range(n) if not wrong[i]]
    hits = sum(flags[i] for i in bad)
    alarms = sum(flags[i] for i in good)
    missed, kept = len(bad) - hits, len(good) - alarms
    product_of_sums = (hits + alarms) * (hits + missed) * (kept + alarms) * (kept + missed)
    scores = {
        "f1": 2 * hits / (2 * hits + alarms + missed) if hits + alarms + missed else 0.0,
        "mcc": (hits * kept - alarms * missed) / math.sqrt(product_of_sums)
        if product_of_sums
        else 0.0,
    }
    if hits + alarms:
        scores["false_alarms"] = alarms / (hits + alarms)
    if not bad or not good:
        return scores
    pairs = list(product(bad, good))
    won = sum((quality[b] < quality[g]) + 0.5 * (quality[b] == quality[g]) for b, g in pairs)
    average_precision = recall_before = 0.0
    for threshold in sorted(set(quality)):
        taken = [i for i in range(n) if quality[i] <= threshold]
        found = sum(wrong[i] for i in taken)
        average_precision += (found / len(bad) - recall_before) * found / len(taken)
        recall_before = found / len(bad)
    orders = [o for o in permutations(range(n)) if [quality[i] for i in o] == sorted(quality)]
    at_t = [sum(wrong[i] for i in order[: len(bad)]) / len(bad) for order in orders]
    return scores | {
        "auroc": won / len(pairs),
        "average_precision": average_precision,
        "precision_at_t": sum(at_t) / len(at_t),
        "recall": hits / len(bad),
    }


@drawn(
    st.lists(
        st.tuples(st.sampled_from([0.0, 0.2, 0.5, 1.0]), st.booleans(), st.booleans()),
        min_size=1,
        max_size=6,
    )
)
def test_scores_are_their_definitions(labels: list[tuple[float, bool, bool]]) -> None:
    quality, flags, wrong = (list(column) for column in zip(*labels, strict=True))
    scores = detection_scores(np.array(quality), np.array(flags), np.array(wrong))
    assert scores == pytest.approx(scores_by_loops(quality, flags, wrong))


def test_scores_by_hand() -> None:
    quality = np.array([0.1, 0.2, 0.3, 0.8, 0.9])
    flags, wrong = quality < 0.25, np.array([True, False, True, False, False])
    assert detection_scores(quality, flags, wrong) == pytest.approx(
        {
            "auroc": 5 / 6,
            "average_precision": 0.5 * 1 + 0.5 * 2 / 3,
            "precision_at_t": 0.5,
            "f1": 0.5,
            "mcc": (1 * 2 - 1 * 1) / 6,
            "recall": 0.5,
            "false_alarms": 0.5,
        }
    )


# --- a cell's parameters


def test_the_names_are_those_of_no_method() -> None:
    assert not set(DETECTING) & set(METHODS)
    assert set(DETECTING) == {AUDIT, *DETECTORS}
    missing = set(DETECTING) - set(DETECTOR_NAMES)
    assert not missing, f"add {missing} to DETECTOR_NAMES in src/erase/bench/names.py"
    assert set(DETECTOR_NAMES) <= set(DETECTING)
    assert set(DETECTORS_COMPARED) <= set(DETECTING)
    assert detects(cell("confidence"))
    assert not detects(cell("ce"))


def test_parameters_that_a_detector_does_not_take_change_its_model() -> None:
    params = {"judge": "ce", "folds": 3, "max_false_alarms": 0.1, "hidden": 8, "epochs": 7}
    wanted = cell(params=params, seed=4)
    model = replace(wanted, method="ce", params={"hidden": 8, "epochs": 7})
    assert DetectionSetup.of(wanted) == DetectionSetup(model, 3, 0.1)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"judge": "unknown"}, "judge = 'unknown'"),
        ({"judge": None}, "judge = None"),
        ({"folds": 1}, "folds = 1"),
        ({"folds": 2.5}, "folds = 2.5"),
        ({"max_false_alarms": 1.5}, "max_false_alarms = 1.5"),
        ({"features": "no"}, "features = 'no'"),
        ({"left_out": "edges"}, "left_out = 'edges'"),
        ({"temperature": 2}, "temperature"),
    ],
)
def test_parameters_that_cannot_be_are_found_before_work(
    params: Mapping[str, Any], message: str
) -> None:
    with pytest.raises(EraseError, match=message):
        check(Study("tests", ()), [cell(params=params)])


@pytest.mark.parametrize("switch", ["shift", "keep_embeddings"])
def test_a_detector_has_no_representations(switch: str) -> None:
    with pytest.raises(EraseError, match="representations"):
        check(Study("tests", (), **{switch: True}), [cell()])


# --- a cell


def test_a_record_of_the_audit_is_the_score_of_the_audit() -> None:
    wanted = cell(seed=2, params={"max_false_alarms": 0.3, "folds": 5})
    (result,) = run_batch(batch(wanted))
    model = LabelPropagation(seed=2, device="cpu")
    given = labels_of_cell(tiny(), wanted)
    found = audit(given, method=model, folds=5, max_false_alarms=0.3, seed=2)
    expected = score_audit(found, tiny())
    scores = dict(result.record.scores)
    assert {key: scores[key] for key in expected if key in scores} == {
        key: value for key, value in expected.items() if key in scores
    }
    assert set(expected) - set(scores) <= {"suggestions_right"}  # where nothing is suggested
    rate = found.decision.noise_rate
    assert scores["noise_rate"] == rate.value
    assert (scores["noise_rate_low"], scores["noise_rate_high"]) == (rate.low, rate.high)
    assert scores["flagged"] == found.decision.is_issue.sum() > 0


def test_without_features_the_audit_is_that_of_the_bare_graph() -> None:
    params = {"judge": "smoothed", "features": False}
    (result,) = run_batch(batch(cell(params=params)))
    bare = labels_of_cell(tiny(), cell())
    bare.num_nodes, bare.x = len(bare.y), None
    found = audit(bare, method=SmoothedLogReg(seed=0, device="cpu"), folds=FOLDS)
    scores = result.record.scores
    expected = score_audit(found, tiny())
    assert scores["auroc"] == expected["auroc"]
    assert scores["noise_rate"] == found.decision.noise_rate.value
    (other,) = run_batch(batch(cell(params={**params, "features": True})))
    assert other.record.scores["auroc"] != scores["auroc"]


def test_what_is_left_out_of_the_audit_is_no_witness() -> None:
    kinds = ("nothing", "labels", "place", "graph")
    about: dict[str, Any] = {
        "protocol": "all-labels",
        "noise": "asymmetric",
        "rate": 0.4,
        "seed": 1,
    }
    same = [cell(params={"left_out": kind}, **about) for kind in kinds]
    scores = [result.record.scores for result in run_batch(batch(*same))]
    assert len({each["average_precision"] for each in scores}) == 4
    found, _ = out_of_fold_like(cell(**about))
    labelled = found.given >= 0
    proba = found.proba[labelled].astype(np.float64)
    alone = decide(found.given[labelled], proba, max_false_alarms=0.2, seed=1)
    wrong = (encode_labels(tiny())[0].numpy() != found.given)[labelled]
    expected = detection_scores(alone.quality, alone.is_issue, wrong)
    assert scores[-1]["average_precision"] == pytest.approx(expected["average_precision"])
    assert len(plan(Study("tests", ()), same, HERE)) == 1
    bare = cell(params={"features": False}, **about)
    assert len(plan(Study("tests", ()), [*same, bare], HERE)) == 2


def test_the_allowed_false_alarms_change_what_is_flagged() -> None:
    shy, bold = (cell(params={"max_false_alarms": share}) for share in (0.01, 0.6))
    flagged = [result.record.scores["flagged"] for result in run_batch(batch(shy, bold))]
    assert flagged[0] is not None
    assert flagged[1] is not None
    assert flagged[0] < flagged[1]


@pytest.mark.parametrize("name", DETECTORS)
def test_a_record_of_a_rival_is_the_score_of_its_answer(name: str) -> None:
    wanted = cell(name, seed=2)
    (result,) = run_batch(batch(wanted))
    record = result.record
    out_of_fold, task = out_of_fold_like(wanted)
    found = DETECTORS[name](out_of_fold, task.edge_index, 2)
    labelled = out_of_fold.given >= 0
    wrong = (encode_labels(tiny())[0].numpy() != out_of_fold.given)[labelled]
    expected = detection_scores(found.quality, found.is_issue, wrong)
    counts = {"labels": 90, "mislabelled": wrong.sum(), "flagged": found.is_issue.sum()}
    assert record.scores == pytest.approx(expected | counts)
    assert record.error is None
    assert record.seconds is not None
    assert record.seconds > 0
    assert result.arrays is None


def test_training_and_validation_labels_are_scored_and_both_are_noisy() -> None:
    wanted = cell(rate=0.5)
    given = labels_of_cell(tiny(), wanted)
    (result,) = run_batch(batch(wanted))
    wrong = (given.y != tiny().y) & (given.train_mask | given.val_mask)
    assert result.record.scores["labels"] == int((given.train_mask | given.val_mask).sum())
    assert result.record.scores["mislabelled"] == int(wrong.sum())
    assert bool(wrong[given.val_mask].any())
    assert bool(wrong[given.train_mask].any())


def test_labels_whose_truth_is_unknown_are_not_scored() -> None:
    wanted = cell("confidence")
    out_of_fold, task = out_of_fold_like(wanted)
    clean = tiny()
    clean.num_classes = 3
    clean.y[:10] = -1
    scores = score_detection(wanted, out_of_fold, task, clean)
    assert scores["labels"] == 80
    found = DETECTORS["confidence"](out_of_fold, task.edge_index, 0)
    truth = tiny().y.numpy()[out_of_fold.given >= 0]
    wrong = out_of_fold.given[out_of_fold.given >= 0] != truth
    rest = slice(10, None)
    expected = detection_scores(found.quality[rest], found.is_issue[rest], wrong[rest])
    assert {key: scores[key] for key in expected} == expected
    assert scores["flagged"] == found.is_issue[rest].sum()


# --- a study


def test_the_study_is_what_has_to_be_shown() -> None:
    cells = STUDIES["detection"].cells()
    assert len(cells) == 3 * 2 * 2 * 10 * (6 * 2 + 1)
    assert {c.dataset for c in cells} == {"cora", "citeseer", "pubmed"}
    assert {(c.noise, c.rate) for c in cells} == set(
        product(("symmetric", "asymmetric"), (0.1, 0.3))
    )
    ours = {"judge": DEFAULT_METHOD, "folds": FOLDS, **audit_params(DEFAULT_METHOD)}
    theirs, plain = ({"judge": model, "folds": FOLDS} for model in ("ce", "smoothed"))
    detectors = (
        *("audit", "confidence", "confident-learning", "graphcleaner", "loss-mixture"),
        "area-under-margin",
    )
    assert {c.method for c in cells} == set(detectors)
    for method in detectors:
        params = [c.params for c in cells if c.method == method]
        assert params.count(ours) == params.count(theirs) == 120
        assert params.count(plain) == (120 if method == "audit" else 0)
    assert {c.seed for c in cells} == set(range(10))
    assert {c.protocol for c in cells} == {"honest"}


def test_each_witness_is_left_out_also_where_neighbours_differ() -> None:
    cells = STUDIES["witnesses"].cells()
    assert {c.dataset for c in cells} > {"tolokers", "blogcatalog"}
    assert {c.noise for c in cells} == {"annotator", "symmetric", "asymmetric"}
    assert {c.params.get("left_out") for c in cells} == {None, "labels", "place", "graph"}
    assert {c.method for c in cells} == {AUDIT}
    assert set(ABLATIONS) == set(ABLATION_NAMES)


def test_all_have_edges_alone_where_there_are_no_features() -> None:
    cells = STUDIES["featureless"].cells()
    assert {c.dataset for c in cells} == {"cora", "computers", "debian"}
    assert all(c.params["features"] is False for c in cells)
    assert {(c.method, c.params["judge"]) for c in cells} == {
        (AUDIT, "relabelling"),
        ("confidence", "label-propagation"),
        ("confidence", "smoothed"),
    }
    assert len(cells) == 3 * 2 * 10 * 4


def test_the_tables_of_both_studies_have_a_sentence_about_auroc() -> None:
    records = [
        Record(wanted, {"auroc": 0.9 - 0.1 * (LEFT_OUT in wanted.params), "f1": 0.5})
        for study in ("witnesses", "featureless")
        for wanted in STUDIES[study].cells()
    ]
    ablation = build("witnesses", records, "all-labels")
    first = ablation.notes[0].replace("−", "-")
    assert first.startswith("Annotator 0.3, change of AUROC on average over 6 graphs: ")
    assert "without neighbours' labels -10.0, from -10.0 to -10.0" in first
    assert "edges alone, no features 0.0" in first
    bare = build("featureless", records, "all-labels")
    assert (
        "AUROC: the audit is best or within one standard error of the best in 6 of 6"
        in (bare.notes[0])
    )


QUICK = tuple(name for name in DETECTING if name != "graphcleaner")


def all_cells(methods: Sequence[str] = QUICK, seeds: int = 2) -> list[Cell]:
    params = {"judge": ("label-propagation",)}
    grid = Grid(["tiny"], ["symmetric"], [0.3], methods, range(seeds), ["honest"], params)
    return list(grid.cells())


def test_the_models_of_a_draw_are_trained_once_for_all_detectors(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    trained = []

    def count(task: NodeTask, *how: Any) -> OutOfFold:
        trained.append(how)
        return out_of_sample(task, *how)

    monkeypatch.setattr(runner, "out_of_sample", count)
    path = tmp_path / "records.jsonl"
    summary = run_cells(Study("tests", ()), all_cells(), path, HERE)
    assert not summary.failures
    assert [(folds, seed) for _, folds, seed in trained] == [(FOLDS, 0), (FOLDS, 1)]
    records = read(path)
    assert {record.cell for record in records} == set(all_cells())
    assert all(record.batch == len(QUICK) for record in records)


def test_cells_with_other_models_are_another_batch() -> None:
    same = [cell(name) for name in DETECTING]
    same.append(cell(params={"max_false_alarms": 0.5}))  # the same models will do
    changes: list[dict[str, Any]] = [
        {"seed": 1},
        {"rate": 0.4},
        {"noise": "pair"},
        {"protocol": "paper"},
        {"labels_per_class": 5},
        {"params": {"folds": 3}},
        {"params": {"keep": 0.5}},
        {"params": {"judge": "ce"}},
        {"method": "ce", "params": {}},
    ]
    others = [
        replace(cell(**change), params={}) if change.get("method") == "ce" else cell(**change)
        for change in changes
    ]
    batches = plan(Study("tests", ()), [*same, *others], replace(HERE, batch=1))
    assert [list(found.cells) for found in batches] == [same, *([other] for other in others)]


def test_a_killed_study_continues_to_the_same_records(tmp_path: Path) -> None:
    cells = all_cells()
    whole, part = tmp_path / "whole.jsonl", tmp_path / "part.jsonl"
    run_cells(Study("tests", ()), cells, whole, HERE)
    run_cells(Study("tests", ()), cells[1:6:2], part, HERE)
    summary = run_cells(Study("tests", ()), cells, part, HERE)
    assert summary.found == 3
    found = [{r.cell: dict(r.scores) for r in read(path)} for path in (whole, part)]
    assert found[0] == found[1]


def test_a_detector_that_fails_leaves_the_others_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(*_: Any) -> Any:
        raise ValueError("no answer")

    monkeypatch.setitem(DETECTORS, "graphcleaner", fail)
    cells = all_cells(DETECTING, seeds=1)
    summary = run_cells(Study("tests", ()), cells, tmp_path / "records.jsonl", HERE)
    assert [(r.cell.method, r.error) for r in summary.failures] == [
        ("graphcleaner", "ValueError: no answer")
    ]
    scored = [record for record in read(tmp_path / "records.jsonl") if record.scores]
    assert len(scored) == len(cells) - 1


# --- its table


MODELS = {model["judge"]: model for model in (AUDIT_MODEL, RIVAL_MODEL)}


def made_up(
    scores: Mapping[str, Sequence[float]], score: str = "auroc", **where: Any
) -> list[Record]:
    """Return records of rows ``method:model``, a value per seed."""
    place: dict[str, Any] = {"dataset": "cora", "noise": "symmetric", "rate": 0.3, **where}
    return [
        Record(
            Cell(method=method, params=MODELS[model], protocol="honest", seed=seed, **place),
            {score: value},
        )
        for row, values in scores.items()
        for method, _, model in [row.partition(":")]
        for seed, value in enumerate(values)
    ]


def note(table: Table, start: str) -> str:
    (found,) = [text for text in table.notes if text.startswith(start)]
    return found


def test_the_table_counts_cells_where_the_audit_is_best_or_as_good() -> None:
    rival = [0.90, 0.92, 0.94]  # mean 0.92, standard error 0.01155
    records = [
        # best; as good; behind its rivals; behind only those with its model
        *made_up({f"audit:{DEFAULT_METHOD}": [0.95] * 3, "graphcleaner:ce": rival}, rate=0.1),
        *made_up({f"audit:{DEFAULT_METHOD}": [0.909] * 3, "graphcleaner:ce": rival}, rate=0.3),
        *made_up(
            {f"audit:{DEFAULT_METHOD}": [0.908] * 3, "graphcleaner:ce": rival},
            noise="asymmetric",
            rate=0.1,
        ),
        *made_up(
            {
                f"audit:{DEFAULT_METHOD}": [0.95] * 3,
                "graphcleaner:ce": rival,
                f"graphcleaner:{DEFAULT_METHOD}": [0.96] * 3,
            },
            noise="asymmetric",
            rate=0.3,
        ),
    ]
    table = build("detection", records)
    assert note(table, "AUROC") == (
        "AUROC: the audit is best or within one standard error of the best in 3 of 4 cells; among "
        "all rows, with any model, in 2."
    )
    assert "in 0 of 0 cells" in note(table, "F1")


def test_the_table_counts_kept_promises() -> None:
    rows = {0.1: [0.10, 0.101], 0.3: [0.30, 0.30]}
    records = [
        record
        for rate, values in rows.items()
        for record in made_up({f"audit:{DEFAULT_METHOD}": values}, "false_alarms", rate=rate)
    ]
    records += made_up({f"audit:{DEFAULT_METHOD}": [0.0, 0.19]}, "false_alarms", dataset="pubmed")
    table = build("detection", records)
    assert note(table, "Right labels") == (
        "Right labels among the flagged: within 0.1 of the 0.2 allowed in 2 of 3 cells."
    )


def test_the_table_counts_known_noise_rates() -> None:
    records = [
        *made_up({f"audit:{DEFAULT_METHOD}": [0.05, -0.09]}, "noise_rate_error"),
        *made_up({f"audit:{DEFAULT_METHOD}": [0.15, -0.15]}, "noise_rate_error", rate=0.1),
    ]
    table = build("detection", records)
    assert note(table, "Distance") == (
        "Distance of the estimated noise rate from the true one: within 0.1 in 1 of 2 cells."
    )
    rows = table.cells.loc[table.cells["measure"] == "noise_rate_error", "row"]
    assert set(rows) == {f"audit:{DEFAULT_METHOD}", "audit:ce", "audit:smoothed"}


def test_the_table_shows_standard_errors_and_marks_the_best() -> None:
    records = made_up({f"audit:{DEFAULT_METHOD}": [0.95, 0.97], "confidence:ce": [0.90, 0.94]})
    table = build("detection", records)
    filled = table.cells[table.cells["runs"] > 0]
    (cell,) = filled[filled["row"] == f"audit:{DEFAULT_METHOD}"].itertuples()
    assert cell.error == pytest.approx(1.0)
    assert cell.std == pytest.approx(math.sqrt(2))
    text = FORMATS["md"](table)
    assert "mean ± standard error over the runs" in text
    assert "**96.0 ± 1.0**" in text
    assert "| 92.0 ± 2.0 |" in text
    accuracy = Record(Cell("cora", "symmetric", 0.3, "erase", {}, "paper", 0), {"test_accuracy": 1})
    assert "mean ± standard deviation over the runs" in FORMATS["md"](build("main", [accuracy]))


def test_rows_are_ours_and_rivals_with_their_models_then_all_with_others(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "records.jsonl"
    lines = [record.to_json() for record in made_up({f"audit:{DEFAULT_METHOD}": [0.9]})]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert main(["table", "detection", str(path), "--format", "csv"]) == 0
    rows = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert list(dict.fromkeys(row["row"] for row in rows)) == [
        f"audit:{DEFAULT_METHOD}",
        *(f"{name}:ce" for name in DETECTORS_COMPARED[1:]),
        *(f"{name}:{DEFAULT_METHOD}" for name in DETECTORS_COMPARED[1:]),
        "audit:ce",
        "audit:smoothed",
    ]


def test_the_command_says_what_it_would_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "detection", "--only", "dataset=cora", "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "520 cells" in shown
    assert all(name in shown for name in DETECTORS_COMPARED)


def test_the_audit_is_best_nowhere_without_a_ranked_rival() -> None:
    alone = made_up({f"audit:{DEFAULT_METHOD}": [0.9] * 2}, rate=0.1)
    same_model = made_up(
        {f"audit:{DEFAULT_METHOD}": [0.9] * 2, f"graphcleaner:{DEFAULT_METHOD}": [0.8] * 2}
    )
    for records in (alone, same_model):
        assert "in 0 of 0 cells" in note(build("detection", records), "AUROC")
