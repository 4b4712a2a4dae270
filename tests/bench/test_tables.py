"""Tables: means, ranks, tests and base rows against loops; three renderings of the same entries."""

import csv
import io
import math
import re
import runpy
import statistics
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.stats import t as student

from erase.bench.names import METHOD_NAMES
from erase.bench.published import published
from erase.bench.records import Cell, Record
from erase.bench.studies import NEAREST_TO_PRINT, STUDIES
from erase.bench.tables import FORMATS, TABLES, Table, build, holm, spec
from erase.bench.tables.render import markdown, why_empty
from erase.errors import EraseError

RIVALS = ("ce", "apl", "gce", "codis", "mcr2", "rtgnn", "pignn")


def record(
    accuracy: float | None,
    seed: int = 0,
    *,
    dataset: str = "cora",
    noise: str = "symmetric",
    rate: float = 0.3,
    method: str = "erase",
    protocol: str = "paper",
    params: Mapping[str, Any] | None = None,
    kept: int | None = None,
    scores: Mapping[str, float | None] | None = None,
    **rest: Any,
) -> Record:
    cell = Cell(dataset, noise, rate, method, params or {}, protocol, seed, kept)
    known = {} if accuracy is None else {"test_accuracy": accuracy}
    return Record(cell, {**known, **(scores or {})}, **rest)


def runs(accuracies: Sequence[float], **what: Any) -> list[Record]:
    return [record(accuracy, seed, **what) for seed, accuracy in enumerate(accuracies)]


def at(
    table: Table,
    row: str,
    place: str = "symmetric:0.3",
    dataset: str = "cora",
    measure: str | None = None,
) -> Any:
    """Return a cell of a table; what is missing is None."""
    (found,) = [
        cell
        for cell in table.cells.astype(object).where(table.cells.notna(), None).itertuples()
        if (cell.row, cell.place_key, cell.dataset) == (row, place, dataset)
        and measure in (None, cell.measure)
    ]
    return found


def titles(table: Table) -> list[str]:
    return list(dict.fromkeys(table.cells["panel"]))


OURS = [0.80, 0.81, 0.83, 0.79, 0.82, 0.90, 0.91, 0.92, 0.93, 0.94]
THEIRS = [0.78, 0.80, 0.78, 0.78, 0.77]


def test_an_entry_is_mean_and_deviation_over_runs_beside_the_published_figure() -> None:
    entry = at(build("main", runs(OURS)), "erase")
    percent = [100 * value for value in OURS]
    assert entry.mean == pytest.approx(statistics.mean(percent))
    assert entry.std == pytest.approx(statistics.stdev(percent))
    assert entry.runs == 10
    assert (entry.published, entry.published_std) == (81.61, 0.95)
    assert entry.difference == pytest.approx(statistics.mean(percent) - 81.61)


def test_one_run_has_no_deviation_and_no_run_nothing() -> None:
    table = build("main", runs([0.8]))
    assert at(table, "erase").std is None
    nothing = at(table, "erase", "symmetric:0.4")
    assert (nothing.mean, nothing.std, nothing.runs, nothing.is_best) == (None, None, 0, False)
    assert (nothing.rank, nothing.rival, nothing.pairs, nothing.difference) == (None,) * 4
    assert (nothing.published, nothing.published_std) == (80.13, 1.07)
    assert at(table, "ce").difference is None


def test_the_paired_test_takes_equal_seeds_only() -> None:
    table = build("main", [*runs(OURS), *runs(THEIRS, method="gce")])
    ours = at(table, "erase")
    apart = [100 * (a - b) for a, b in zip(OURS, THEIRS, strict=False)]
    statistic = statistics.mean(apart) / (statistics.stdev(apart) / math.sqrt(5))
    assert ours.rival == "GCE"
    assert ours.pairs == 5
    assert ours.rival_difference == pytest.approx(statistics.mean(apart))
    assert ours.p_value == pytest.approx(2 * student.sf(statistic, df=4))


def test_the_rival_is_the_best_of_the_named_methods_and_bold_is_one_of_them() -> None:
    table = build(
        "main",
        [
            *runs([0.80, 0.81]),
            *runs([0.70, 0.72], method="ce"),
            *runs([0.75, 0.74], method="pignn"),
            *runs([0.90, 0.91], method="label-propagation"),
        ],
    )
    assert at(table, "erase").rival == "PI-GNN"
    assert list(table.cells.loc[table.cells["is_best"], "row"]) == ["erase"]
    assert "The highest mean of a column among ranked rows is in bold." in markdown(table)


@pytest.mark.parametrize("theirs", [[0.78], [0.70, 0.71]])
def test_no_p_value_from_one_pair_or_equal_differences(theirs: list[float]) -> None:
    table = build("main", [*runs([0.80, 0.81]), *runs(theirs, method="ce")])
    assert at(table, "erase").pairs == len(theirs)
    assert at(table, "erase").p_value is None
    assert "no p" in FORMATS["md"](table)


def test_no_contest_without_a_common_seed() -> None:
    table = build("main", [record(0.8, 0), record(0.7, 1, method="ce")])
    assert at(table, "erase").rival is None


def test_ranks_count_those_above_among_the_eight() -> None:
    place: dict[str, Any] = {"dataset": "pubmed", "noise": "asymmetric", "rate": 0.2}
    means = dict(zip(RIVALS, (0.70, 0.71, 0.72, 0.73, 0.80, 0.75, 0.60), strict=True))
    records = [record(0.75, **place), record(0.99, method="ce-gcn", **place)]
    records += [
        record(mean, method=method, params=NEAREST_TO_PRINT.get(method), **place)
        for method, mean in means.items()
    ]
    ours = at(build("main", records), "erase", "asymmetric:0.2", "pubmed")
    assert (ours.rank, ours.ranked) == (2, 8)  # RT-GNN's equal mean is not above
    assert ours.published_rank == 2  # the paper has APL above, and MCR² level with ERASE


def test_runs_with_printed_settings_are_shown_and_not_ranked() -> None:
    best = runs([0.7, 0.8], method="rtgnn", params={"lr": 0.01})
    printed = runs([0.99, 0.99], method="rtgnn")
    table = build("main", [*runs([0.8, 0.8, 0.5]), *best, *printed])
    assert at(table, "rtgnn").mean == pytest.approx(75)
    assert at(table, "rtgnn").published == 72.50
    assert at(table, "rtgnn:printed").mean == pytest.approx(99)
    assert at(table, "rtgnn:printed").published is None
    ours = at(table, "erase")
    assert (ours.rank, ours.ranked, ours.rival) == (2, 2, "RT-GNN")
    assert ours.runs == 3  # not only those with the seeds of RT-GNN
    rows = set(build("main", [*runs([0.8]), *best]).cells["row"])
    assert "rtgnn" in rows
    assert "rtgnn:printed" not in rows
    alone = build("main", printed)
    assert at(alone, "rtgnn").mean is None
    assert "`lr=0.01`" in FORMATS["md"](alone)


def test_ranks_count_only_methods_with_records() -> None:
    table = build("main", [record(0.7), record(0.8, method="ce")])
    ours = at(table, "erase")
    assert (ours.rank, ours.ranked, ours.published_rank) == (2, 2, 1)


def test_failed_other_protocol_and_fewer_labels_are_left_out() -> None:
    records = [
        record(0.8, 0),
        record(0.1, 1, protocol="honest"),
        record(0.1, 2, kept=4),
        record(None, 3, error="EraseError: no"),
        record(0.1, 4, params={"eps2": 0.5}),
        record(0.1, 5, params={"epochs": 3}),
    ]
    assert at(build("main", records), "erase").mean == pytest.approx(80)
    assert at(build("main", records), "erase").runs == 1


def test_a_base_row_takes_usual_runs_with_the_seeds_of_its_variants() -> None:
    usual = runs(OURS)
    varied = runs(THEIRS, params={"eps2": 0.1})
    table = build("eps2", [*usual, *varied])
    base = at(table, "0.05")
    assert base.runs == 5
    assert base.mean == pytest.approx(100 * statistics.mean(OURS[:5]))
    assert base.rival == "ε² = 0.1"
    assert (base.published, base.published_std) == (80.90, 0.62)
    assert at(table, "0.1").mean == pytest.approx(100 * statistics.mean(THEIRS))


def test_a_run_of_two_studies_counts_once_with_the_params_of_the_row() -> None:
    named = record(0.70, 0, params={"eps2": 0.05})
    usual = [record(0.90, 0), record(0.80, 1), *runs(THEIRS, params={"eps2": 0.1})]
    for records in ([named, *usual], [*usual, named]):
        entry = at(build("eps2", records), "0.05")
        assert entry.runs == 2
        assert entry.mean == pytest.approx(75)


def test_which_row_is_the_base_depends_on_the_dataset() -> None:
    records = runs(OURS, dataset="citeseer") + runs(OURS)
    records += runs(THEIRS, dataset="citeseer", params={"steps": 6})
    records += runs(THEIRS, params={"steps": 6})
    table = build("depth", records)
    assert at(table, "4", dataset="citeseer").runs == 5  # T = 4 is CiteSeer's setting
    assert at(table, "4", dataset="cora").runs == 0  # Cora's is 5, which has no row
    assert at(table, "6", dataset="cora").rival is None


def test_propagation_has_four_rows_and_the_base_is_both() -> None:
    records = runs(OURS[:5])
    records += runs(THEIRS, params={"denoise": False, "propagate": True})
    records += runs([0.5, 0.6], params={"denoise": False, "propagate": False})
    table = build("propagation", records)
    assert at(table, "denoise+propagate").runs == 5
    assert at(table, "propagate").mean == pytest.approx(100 * statistics.mean(THEIRS))
    assert at(table, "none").mean == pytest.approx(55)
    assert at(table, "denoise").mean is None


def test_the_correction_table_reads_another_score() -> None:
    records = [record(0.8, scores={"correction_rate": 0.62}), record(0.7, 1)]
    table = build("correction", records)
    assert at(table, "erase").mean == pytest.approx(62)
    assert at(table, "erase").runs == 1  # a run without a mislabelled node has no rate
    assert at(table, "erase").published == 84.29


def test_guidance_sets_the_semantic_labels_beside_the_classifier() -> None:
    records = [
        record(0.80, 0, scores={"semantic_accuracy": 0.77}),
        record(0.82, 1, scores={"semantic_accuracy": 0.81}),
    ]
    table = build("guidance", records)
    assert at(table, "semantic").mean == pytest.approx(79)
    assert at(table, "erase").mean == pytest.approx(81)
    assert at(table, "erase").rival_difference == pytest.approx(2)
    assert at(table, "semantic").published == 79.38


def test_ntvr_shows_both_measures_and_minus_infinity() -> None:
    params = {"eps2": 0.1}
    records = [
        record(0.8, 0, params=params, scores={"rate_ntvr": 0.11, "log_ntvr": -900.0}),
        record(0.8, 1, params=params, scores={"rate_ntvr": 0.13, "log_ntvr": -902.0}),
        record(0.8, 0, params={"eps2": 0.5}, scores={"rate_ntvr": 0.02, "log_ntvr": None}),
    ]
    table = build("ntvr", records)
    rate = at(table, "0.1", measure="rate_ntvr")
    log = at(table, "0.1", measure="log_ntvr")
    assert rate.mean == pytest.approx(0.12)
    assert rate.published == 0.100
    assert log.mean == pytest.approx(-901)
    assert log.published is None
    assert not table.cells["is_best"].any()
    text = markdown(table)
    assert "0.120 ± 0.014 (0.100, +0.020)" in text
    assert "| −901 ± 1 |" in text
    assert "| −∞ |" in text


def test_time_is_per_epoch_dataset_and_machine() -> None:
    records = [
        record(0.8, 0, machine="GPU", seconds=2.0, epochs=400, batch=10),
        record(0.8, 1, machine="GPU", seconds=1.0, epochs=100, batch=5, rate=0.5),
        record(0.8, 2, machine="CPU", seconds=30.0, epochs=300, batch=1),
        record(0.8, 3, machine="CPU", seconds=None, epochs=300),
        record(None, 4, machine="CPU", seconds=9.0, epochs=1, error="EraseError: no"),
        record(0.8, 0, machine="CPU", method="label-propagation", seconds=1.0, epochs=0),
        # not what is shown
        record(0.8, machine="GPU", seconds=9.0, epochs=1, batch=99, params={"eps2": 0.5}),
        record(0.8, machine="GPU", seconds=9.0, epochs=1, batch=99, kept=4),
    ]
    table = build("time", records)
    assert titles(table) == [
        "CPU",
        "GPU, 5–10 runs together",
    ]
    entries = {cell.panel[:3]: cell for cell in table.cells.itertuples() if cell.row == "erase"}
    assert entries["GPU"].mean == pytest.approx(7.5)
    assert entries["GPU"].runs == 2
    assert entries["CPU"].mean == pytest.approx(100)
    assert entries["GPU"].published == 145
    text, rows = markdown(table), csv.DictReader(io.StringIO(FORMATS["csv"](table)))
    assert "(145.0)" in text
    assert "ours minus it" not in text  # made otherwise: a difference says nothing
    assert all(row["difference"] == "" for row in rows)


def test_clean_takes_any_protocol() -> None:
    records = [
        record(0.8, noise="none", rate=0.0, protocol=p, seed=s)
        for s, p in enumerate(["paper", "honest"])
    ]
    for protocol in ("paper", "honest"):
        table = build("clean", records, protocol)
        assert at(table, "erase", "none:0").runs == 2
        assert table.protocol is None


def test_datasets_without_records_are_marked() -> None:
    table = build("main", runs(OURS))
    lacking = {panel["panel"].iloc[0]: why_empty(panel) for panel in table.panels()}
    assert lacking["CoraFull"] == "data not available here"
    assert lacking["PubMed"] == "no records"
    assert lacking["Cora, symmetric"] == ""
    assert "**CoraFull**: data not available here." in markdown(table)
    assert r"\multicolumn{12}{c}{data not available here}" in FORMATS["latex"](table)


def test_a_dataset_beyond_the_paper_is_added() -> None:
    table = build(
        "main", [*runs(OURS, dataset="computers"), record(0.5, dataset="cs", method="ce")]
    )
    assert titles(table)[-2:] == ["computers, asymmetric", "computers, symmetric"]
    assert at(table, "erase", dataset="computers").runs == 10


@cache
def every_cell(study: str) -> tuple[Record, ...]:
    scores = {
        "test_accuracy": 0.7,
        "macro_f1": 0.65,
        "accuracy_correct": 0.9,
        "calibration_error": 0.03,
        "semantic_accuracy": 0.6,
        "correction_rate": 0.5,
        "rate_ntvr": 0.1,
        "log_ntvr": -9.0,
        "auroc": 0.9,
        "average_precision": 0.8,
        "f1": 0.8,
        "mcc": 0.7,
        "precision_at_t": 0.8,
        "false_alarms": 0.2,
        "noise_rate_error": -0.05,
        "bound_holds": 1.0,
        "bound_share": 0.5,
        "accuracy": 0.8,
        "label_accuracy": 0.8,
        "alarms_kept": 1.0,
        "alarms_near": 0.5,
        "covers": 0.9,
    }
    return tuple(
        Record(cell, scores, epochs=10, seconds=1.0, batch=1, machine="here")
        for cell in STUDIES[study].cells()
    )


@cache
def filled(name: str, protocol: str = "paper") -> Table:
    return build(name, [*every_cell(protocol), *every_cell(TABLES[name].study)])


@pytest.mark.parametrize("name", TABLES)
def test_its_study_and_the_main_ones_fill_a_table(name: str) -> None:
    protocol = TABLES[name].only_protocol or "paper"
    cells = filled(name, protocol if protocol in STUDIES else "paper").cells
    empty = cells[cells["runs"] == 0]
    if name == "noises":  # networks take minutes, and are run on small graphs with one rate
        assert set(empty["row"]) == {"ce", "erase"}
        assert set(empty.loc[empty["rate"] == 0.3, "dataset"]) == {"pubmed", "computers", "cs"}
    elif name in ("annotators", "annotators-split"):  # larger graphs have one rate of most noises
        assert set(empty["dataset"]) == {"computers", "cs"}
        assert 0.3 not in set(empty["rate"])
        assert "annotator" not in set(empty["noise"])
    else:
        assert set(empty["dataset"]) <= {"corafull"}


def test_a_method_outside_the_studies_has_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHOD_NAMES, "mine", "my method")
    tables = runpy.run_path(str(spec.__file__))["TABLES"]
    lists = [table.rows for table in tables.values() if not callable(table.rows)]
    rows = {row.method for each in lists for row in each}
    assert "erase" in rows
    assert "mine" not in rows


@pytest.mark.parametrize("name", TABLES)
def test_every_published_figure_has_its_place(name: str) -> None:
    if name not in published():
        pytest.skip("the paper has no such table")
    records = [*every_cell("paper"), *every_cell(TABLES[name].study), *every_cell("corafull")]
    shown = {
        (cell.dataset, cell.row, cell.place_key)
        for cell in build(name, records).cells.itertuples()
        if cell.published == cell.published
    }
    printed = {
        (dataset, row, place)
        for dataset, rows in published()[name].values.items()
        for row, figures in rows.items()
        for place in figures
    }
    assert shown == printed


@pytest.mark.parametrize("name", [name for name in TABLES if name != "own"])
def test_nothing_to_show_says_which_study_to_run(name: str) -> None:
    with pytest.raises(EraseError, match=rf"`erase bench {TABLES[name].study}` makes them"):
        build(name, [record(0.8, dataset="tolokers", noise="pair", params={"eps2": 0.7})])
    assert TABLES[name].study in STUDIES


def test_usual_runs_alone_are_no_ablation() -> None:
    with pytest.raises(EraseError, match=r"10 records.*`erase bench eps2`"):
        build("eps2", runs(OURS))


def test_nothing_under_the_honest_protocol_says_so() -> None:
    with pytest.raises(EraseError, match=r"protocol honest.*10 records.*`erase bench honest`") as e:
        build("main", runs(OURS), "honest")
    assert str(e.value).endswith("Or take --protocol paper.")
    with pytest.raises(EraseError) as e:  # made under this protocol alone
        build("beyond", runs(OURS), "honest")
    assert str(e.value).endswith("makes them.")


def test_unknown_names_are_refused() -> None:
    with pytest.raises(EraseError, match="a table among main"):
        build("mian", [])
    with pytest.raises(EraseError, match="a protocol among paper, honest"):
        build("main", [], "fair")


def test_the_main_table_counts_the_cells_near_the_paper() -> None:
    cells = {("symmetric", 0.3): 0.80106, ("symmetric", 0.4): 0.7862, ("asymmetric", 0.5): 0.5001}
    records = [record(value, noise=noise, rate=rate) for (noise, rate), value in cells.items()]
    records.append(record(0.1, method="ce"))
    note = build("main", records).notes[0]
    assert note == (
        "ERASE is within 1.5 points of the published mean in 1 of 3 cells; further away: "
        "Cora asymmetric 0.5 +2.01, Cora symmetric 0.4 −1.51."
    )
    (near,) = build("main", records[:1]).notes[:1]
    assert near.endswith("in 1 of 1 cells.")  # 80.106 − 81.61 is shown as −1.50


def test_an_honest_table_names_the_published_figures_another_protocol() -> None:
    table = build("main", runs(OURS, protocol="honest"), "honest")
    text = markdown(table)
    assert "another protocol" in text
    assert "**86.50 ± 5.99** [81.61]" in text
    assert "within 1.5" not in text
    assert "underlined" not in text  # misprints matter where one compares
    assert "underlined" in markdown(build("main", runs(OURS)))
    rows = list(csv.DictReader(io.StringIO(FORMATS["csv"](table))))
    assert all(row["difference"] == "" for row in rows)
    assert {row["protocol"] for row in rows} == {"honest"}
    assert "(81.61, +4.89)" in markdown(build("main", runs(OURS)))


GOLDEN = """\
# Semantic labels from cross-entropy or from ERASE

Test accuracy in %: mean ± standard deviation over the runs. In brackets the paper's figure and \
ours minus it. The highest mean of a column is in bold. p is of a two-sided paired t-test over \
runs with equal seeds, not corrected for the number of tests.

**Cora, asymmetric**: no records.

**Cora, symmetric**

| | 0.1 | 0.2 | 0.3 | 0.4 | 0.5 | runs |
| --- | ---: | ---: | ---: | ---: | ---: | ---: |
| cross-entropy | – (75.46) | – (73.16) | 71.00 ± 1.41 (71.32, −0.32) | – (70.94) | – (62.20) | 2 |
| ERASE | – (81.22) | – (80.84) | **81.50 ± 2.12** (80.90, +0.60) | – (79.70) | – (77.74) | 2 |
| *ERASE − best other row, 2 pairs* | – | – | +10.50 (cross-entropy), p 0.03 | – | – | |

**PubMed**: no records.
"""


def test_markdown_in_full() -> None:
    records = [*runs([0.80, 0.83]), *runs([0.70, 0.72], params={"semantics": "cross-entropy"})]
    assert markdown(build("semantics", records)) == GOLDEN


@pytest.mark.parametrize("name", TABLES)
def test_every_row_of_a_markdown_panel_has_as_many_cells(name: str) -> None:
    text = markdown(filled(name), level=3)
    assert text.startswith(f"### {TABLES[name].title}\n")
    for block in re.findall(r"(?:^\|.*\|\n)+", text, flags=re.MULTILINE):
        widths = {line.count("|") for line in block.splitlines()}
        assert len(widths) == 1
        assert not re.search(r"(?:nan|None)", block)


@pytest.mark.parametrize("name", TABLES)
def test_latex_is_balanced_and_escaped(name: str) -> None:
    table = filled(name)
    text = "\n".join(
        line for line in FORMATS["latex"](table).splitlines() if not line.startswith("%")
    )
    assert text.isascii()
    assert text.count("{") - text.count("}") == 0
    assert text.count("$") % 2 == 0
    assert text.count(r"\begin{") == text.count(r"\end{") == 2 * len(table.panels())
    assert not re.search(r"(?<!\\)[%#_]", text)
    for tabular in re.findall(r"\\begin\{tabular\}.*?\\end\{tabular\}", text, flags=re.DOTALL):
        columns = len(re.match(r"\\begin\{tabular\}\{(\w+)\}", tabular)[1])  # type: ignore[index]
        for row in re.findall(r"^(.*) \\\\$", tabular, flags=re.MULTILINE):
            if "multicolumn" not in row:
                assert row.count("&") == columns - 1


def test_latex_marks_the_best_and_sets_the_published_figure_below() -> None:
    records = [*runs([0.80, 0.83]), *runs([0.70, 0.72], params={"semantics": "cross-entropy"})]
    text = FORMATS["latex"](build("semantics", records))
    assert r" & \textbf{81.50 $\pm$ 2.12} & " in text
    assert r"\quad published & 75.46 & 73.16 & 71.32, $-$0.32 & 70.94 & 62.20 &  \\" in text


def test_csv_holds_every_entry() -> None:
    table = build("main", [*runs(OURS), *runs(THEIRS, method="gce")])
    rows = list(csv.DictReader(io.StringIO(FORMATS["csv"](table))))
    assert len(rows) == len(table.cells) == 4 * 14 * 10
    for row, cell in zip(rows, table.cells.itertuples(), strict=True):
        assert row["row"] == cell.row
        assert int(row["runs"]) == cell.runs
        mean = float(row["mean"] or math.nan)
        assert mean == pytest.approx(cell.mean, abs=1e-3, nan_ok=True)
        figure = float(row["published"] or math.nan)
        assert figure == pytest.approx(cell.published, abs=0, nan_ok=True)
    (ours,) = [r for r in rows if r["row"] == "erase" and r["mean"]]
    assert float(ours["p_value"]) == pytest.approx(at(table, "erase").p_value, rel=1e-4)
    assert (ours["rival"], ours["pairs"], ours["rank"], ours["is_best"]) == ("GCE", "5", "1", "1")
    assert (ours["dataset"], ours["noise"], ours["rate"]) == ("cora", "symmetric", "0.3")


def test_the_order_of_records_does_not_matter() -> None:
    records = [*runs(OURS), *runs(THEIRS, method="gce"), *runs(THEIRS, params={"eps2": 0.1})]
    for name in ("main", "eps2"):
        for form in FORMATS.values():
            assert form(build(name, records)) == form(build(name, records[::-1]))


def test_runs_without_any_volume_have_no_deviation() -> None:
    records = [
        record(0.8, seed, params={"eps2": 0.1}, scores={"rate_ntvr": 0.1, "log_ntvr": None})
        for seed in range(2)
    ]
    entry = at(build("ntvr", records), "0.1", measure="log_ntvr")
    assert (entry.mean, entry.std, entry.runs) == (-math.inf, None, 2)


def test_time_counts_every_rate_of_a_seed() -> None:
    usual: dict[str, Any] = {"machine": "GPU", "epochs": 100, "batch": 1}
    records = [record(0.8, rate=rate, seconds=rate, **usual) for rate in (0.1, 0.5)]
    cells = build("time", records).cells
    entry = next(cell for cell in cells.itertuples() if cell.row == "erase")
    assert entry.runs == 2
    assert entry.mean == pytest.approx(3.0)


def test_a_dataset_of_changed_settings_alone_or_of_no_noise_has_no_columns() -> None:
    changed = record(0.8, dataset="computers", params={"eps2": 0.7})
    clean = record(0.8, dataset="pubmed", noise="none", rate=0.0)
    assert titles(build("main", [*runs(OURS), changed, clean])) == [
        "Cora, asymmetric",
        "Cora, symmetric",
        "CiteSeer",
        "PubMed",
        "CoraFull",
    ]


def test_csv_tells_deviations_ranks_and_the_difference_from_the_rival() -> None:
    table = build("main", [*runs(OURS[:3]), *runs([0.9, 0.91, 0.92], method="gce")])
    rows = csv.DictReader(io.StringIO(FORMATS["csv"](table)))
    (ours,) = [row for row in rows if row["row"] == "erase" and row["mean"]]
    entry = at(table, "erase")
    assert float(ours["std"]) == pytest.approx(entry.std, rel=1e-4)
    assert float(ours["rival_difference"]) == pytest.approx(entry.rival_difference, rel=1e-4)
    assert entry.rival_difference < 0
    assert (ours["rank"], ours["ranked"], ours["published_rank"]) == ("2", "2", "1")


def test_csv_names_the_measure_of_a_row() -> None:
    records = [record(0.8, scores={"semantic_accuracy": 0.7})]
    rows = csv.DictReader(io.StringIO(FORMATS["csv"](build("guidance", records))))
    assert {(row["row"], row["measure"]) for row in rows} == {
        ("semantic", "semantic_accuracy"),
        ("erase", "test_accuracy"),
    }


def test_the_published_rank_and_deviation_are_shown() -> None:
    table = build("main", [record(0.7), record(0.8, method="ce")])
    assert "| *rank of ERASE (published)* | – | – | 2 of 2 (1) | – | – | |" in FORMATS["md"](table)
    rows = csv.DictReader(io.StringIO(FORMATS["csv"](table)))
    (row,) = [r for r in rows if r["row"] == "erase" and r["mean"]]
    assert (row["published"], row["published_std"]) == ("81.61", "0.95")


def test_six_columns_are_one_panel() -> None:
    assert titles(build("propagation", every_cell("propagation"))) == ["Cora", "PubMed"]


def test_whatever_was_run_has_a_table() -> None:
    records = [
        record(0.8, 0, noise="pair"),
        record(0.6, 1, noise="pair"),
        record(0.5, method="gce", params={"q": 0.5}, noise="pair"),
        record(0.4, method="ce", kept=4),
        record(0.9, dataset="a/graph.npz", method="ce", noise="none", rate=0.0),
    ]
    shown = [
        (cell.panel, cell.label, cell.place, cell.mean)
        for cell in build("own", records).cells.itertuples()
        if cell.runs
    ]
    assert shown == [
        ("Cora", "CE", "sym 0.3, 4 labels a class", 40),
        ("Cora", "GCE, q=0.5", "pair 0.3", 50),
        ("Cora", "ERASE", "pair 0.3", 70),
        ("graph", "CE", "clean", 90),
    ]


def test_without_erase_its_distance_is_not_reported() -> None:
    assert not any(
        "within 1.5 points" in note for note in build("main", [record(0.7, method="ce")]).notes
    )


# Holm's correction --------------------------------------------------------------------------------


def test_holms_correction_by_hand() -> None:
    # sorted: 0.005 · 4, 0.01 · 3, 0.03 · 2, 0.04 · 1, the last raised to the one before it
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.01, 0.7]) == pytest.approx([1.0, 0.03, 1.0])  # 0.6 · 2 is above 1
    assert holm([0.02, 0.02]) == pytest.approx([0.04, 0.04])
    assert holm([0.3]) == [0.3]
    assert holm([]) == []


def test_holms_correction_rejects_what_stepping_down_rejects() -> None:
    """By its definition: from the smallest on, p against α/m, α/(m−1), …, until one is larger."""
    generator = np.random.default_rng(0)
    for _ in range(50):
        p = generator.random(8) ** 3 / 5
        rejected = np.zeros(8, dtype=bool)
        for step, place in enumerate(np.argsort(p)):
            if p[place] >= 0.05 / (8 - step):
                break
            rejected[place] = True
        assert (np.array(holm(p.tolist())) < 0.05).tolist() == rejected.tolist()
