"""Figures show the means of the records they are given, beside what was published."""

from collections.abc import Mapping
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from erase.bench.figures import FIGURES, RecordIndex, Summary, draw_figure
from erase.bench.frame import Wanted, find_runs, run_frame
from erase.bench.published import published
from erase.bench.records import Cell, Journal, Record
from erase.bench.runner import arrays_path
from erase.bench.studies import STUDIES
from erase.bench.tables import build
from erase.cli import main
from erase.errors import EraseError
from erase.methods import ERASE
from pictures import legend_texts, nothing_is_cut_off, titles


def record(
    accuracy: float | None,
    *,
    dataset: str = "cora",
    noise: str = "asymmetric",
    rate: float = 0.5,
    method: str = "erase",
    params: Mapping[str, Any] | None = None,
    protocol: str = "paper",
    seed: int = 0,
    labels: int | None = None,
    semantic: float | None = None,
    **more: Any,
) -> Record:
    cell = Cell(dataset, noise, rate, method, params or {}, protocol, seed, labels)
    scores = {"test_accuracy": accuracy, "semantic_accuracy": semantic}
    return Record(cell, {k: v for k, v in scores.items() if v is not None}, **more)


def drawn(name: str, records: list[Record], path: Path, protocol: str = "paper") -> Any:
    file = path / "records.jsonl"
    with Journal(file) as journal:
        journal.append(records)
    figure = draw_figure(name, [file], protocol)
    assert nothing_is_cut_off(figure)
    return figure


def line(panel: Any, index: int) -> list[list[float]]:
    data: list[list[float]] = panel.containers[index].lines[0].get_xydata().tolist()
    return data


def note(figure: Figure) -> str:
    return figure.legends[0].get_title().get_text().replace("\n", " ")


# The record index ---------------------------------------------------------------------------------


def summary(records: list[Record], params: Mapping[str, Any] | None = None) -> Summary | None:
    wanted = Wanted("test_accuracy", "cora", "asymmetric", 0.5, params=params or {})
    return RecordIndex(records, "paper").summaries({"a point": wanted})["a point"]


def test_a_summary_is_mean_and_standard_error_over_seeds() -> None:
    values = [0.5, 0.6, 0.8]
    found = summary([record(v, seed=i) for i, v in enumerate(values)])
    assert found is not None
    assert found.mean == pytest.approx(np.mean(values))
    assert found.error == pytest.approx(np.std(values, ddof=1) / np.sqrt(3))
    assert found.runs == 3


@pytest.mark.parametrize(
    "other",
    [
        {"dataset": "pubmed"},
        {"noise": "symmetric"},
        {"rate": 0.4},
        {"method": "ce"},
        {"params": {"steps": 2}},
        {"labels": 4},
        {"protocol": "honest"},
        {"error": "EraseError: why"},
    ],
    ids=str,
)
def test_a_summary_is_of_one_cell_and_protocol(other: dict[str, Any]) -> None:
    found = summary([record(0.5), record(0.9, seed=1, **other)])
    assert found is not None
    assert (found.mean, found.error, found.runs) == (0.5, 0, 1)


def test_a_file_named_twice_counts_once(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    with Journal(file) as journal:
        journal.append([record(0.4), record(0.6, seed=1)])
    assert "mean of 2 runs" in note(draw_figure("radar", [file, file]))


# Methods against each other -----------------------------------------------------------------------


def test_the_radar_shows_methods_at_half_noise(tmp_path: Path) -> None:
    records = [
        record(0.6, noise="symmetric"),
        record(0.5),
        record(0.7, seed=1),
        record(0.4, method="ce"),
        record(0.3, method="ce-gcn"),  # a sanity row is not among the eight
        record(0.9, rate=0.4),
        record(0.55, dataset="pubmed"),
    ]
    figure = drawn("radar", records, tmp_path)
    (panel,) = figure.axes
    assert [text.get_text() for text in panel.get_xticklabels()] == [
        "Cora\nasymmetric",
        "Cora\nsymmetric",
        "PubMed\nasymmetric",
    ]
    assert legend_texts(figure) == ["ERASE", "CE", "ERASE, published"]
    ours, rival, printed = (found.get_ydata().tolist() for found in panel.lines)
    assert ours == pytest.approx([0.6, 0.6, 0.55, 0.6])
    assert rival == pytest.approx([0.4, np.nan, np.nan, 0.4], nan_ok=True)
    main = published()["main"].values
    places = [("cora", "asymmetric:0.5"), ("cora", "symmetric:0.5"), ("pubmed", "asymmetric:0.5")]
    expected = [main[dataset]["erase"][place].mean / 100 for dataset, place in places]
    assert printed[:3] == pytest.approx(expected)
    assert "50% noise" in note(figure)
    assert "paper protocol: noise fixed, validation labels clean." in note(figure)


def test_gains_are_over_the_best_rival_of_each_cell(tmp_path: Path) -> None:
    records = [
        record(0.60, rate=0.1),
        record(0.64, rate=0.1, seed=1),
        record(0.55, rate=0.1, method="ce"),
        record(0.57, rate=0.1, method="gce"),
        record(0.90, rate=0.1, method="label-propagation"),  # not ranked
        record(0.50),
        record(0.53, method="pignn"),
        record(0.5, noise="symmetric"),  # without a rival
        record(0.5, dataset="citeseer", noise="symmetric", method="ce"),  # without ERASE
    ]
    figure = drawn("gains", records, tmp_path)
    assert titles(figure) == ["Cora, asymmetric", "Cora, symmetric"]
    panel = figure.axes[0]
    assert [bar.get_height() for bar in panel.patches] == pytest.approx([5.0, -3.0])
    names = [text.get_text() for text in panel.get_xticklabels()]
    assert names == ["0.1\nGCE", "0.5\nPI-GNN"]
    low, high, printed, _ = panel.lines
    assert (high.get_ydata() - low.get_ydata()) / 2 == pytest.approx([2.0, 0.0])
    main = published()["main"].values["cora"]
    for place, rate in enumerate(("0.1", "0.5")):
        rivals = [row[f"asymmetric:{rate}"].mean for name, row in main.items() if name != "erase"]
        gain = main["erase"][f"asymmetric:{rate}"].mean - max(rivals)
        assert printed.get_ydata()[place] == pytest.approx(gain)
    assert panel.get_ylabel() == "ERASE − best rival (points)"
    assert not figure.axes[1].patches


def test_accuracy_over_the_size_of_the_training_set(tmp_path: Path) -> None:
    records = [
        record(0.1 * labels / 4 + 0.02 * seed + bonus, method=m, seed=seed, labels=labels, rate=0.3)
        for m, bonus in (("erase", 0.3), ("pignn", 0.2), ("ce", 0.1))
        for labels in (4, 8)
        for seed in (0, 1)
    ]
    figure = drawn("train-size", [*records, record(0.9, rate=0.3)], tmp_path)
    assert titles(figure) == ["Cora, asymmetric φ = 0.3"]
    assert legend_texts(figure) == ["ERASE", "CE", "PI-GNN"]
    panel = figure.axes[0]
    for index, bonus in enumerate((0.3, 0.1, 0.2)):
        expected = np.array([[4, 0.11 + bonus], [8, 0.21 + bonus]])
        assert np.array(line(panel, index)) == pytest.approx(expected)
    assert panel.get_xlabel() == "training labels per class"
    assert "published" not in note(figure)
    assert "2 runs" in note(figure)


def test_time_is_the_median_of_an_epoch_by_machine(tmp_path: Path) -> None:
    def run(seconds: float, **more: Any) -> Record:
        return record(0.5, seconds=seconds, epochs=100, **{"machine": "A", "batch": 5, **more})

    records = [
        run(1.0),
        run(2.0, seed=1, batch=10),
        run(9.0, protocol="honest"),  # another run, though of the same noise, rate and seed
        run(7.0, params={"steps": 3}),
        run(4.0, method="ce", dataset="pubmed", machine="B"),
    ]
    figure = drawn("time", records, tmp_path)
    assert titles(figure) == ["A", "B", "published: RTX 3090"]
    first, second, printed = figure.axes
    rows = [text.get_text() for text in first.get_yticklabels()]
    assert rows == ["CE", "RT-GNN", "PI-GNN", "ERASE"]
    cora, pubmed = first.lines
    assert cora.get_xydata().tolist() == [[20.0, 3]]  # of 10, 20 and 90 ms
    assert pubmed.get_xydata().tolist() == []
    assert second.lines[1].get_xydata().tolist() == [[40.0, 0]]
    times = {rows[int(y)]: x for x, y in printed.lines[0].get_xydata()}
    assert times == {
        name: published()["time"].values["cora"][key]["any"].mean
        for name, key in (("PI-GNN", "pignn"), ("RT-GNN", "rtgnn"), ("ERASE", "erase"))
    }
    assert first.get_xlabel() == "milliseconds per epoch"
    assert "5 to 10 trained together" in note(figure)
    entries = {
        (cell.panel[0], cell.row, cell.dataset): cell
        for cell in build("time", records).cells.itertuples()
        if cell.runs
    }
    assert entries["A", "erase", "cora"].runs == 3  # the same ones
    assert entries["A", "erase", "cora"].mean == pytest.approx(40)


# ERASE by its parameters --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "parameter", "values", "symbol"),
    [
        ("depth", "steps", (0, 2, 16), "T"),
        ("alpha", "keep", (0.1, 0.5, 0.9), "α"),
        ("beta", "trust", (0.1, 0.5, 1.0), "β"),
    ],
)
def test_accuracy_over_a_parameter(
    name: str, parameter: str, values: tuple[float, ...], symbol: str, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    scores = {
        (dataset, noise, rate, value): rng.random(3)
        for dataset in ("citeseer", "cora")
        for noise in ("asymmetric", "symmetric")
        for rate in (0.1, 0.5)
        for value in values
    }
    records = [
        record(v, dataset=d, noise=n, rate=r, params={parameter: value}, seed=seed)
        for (d, n, r, value), runs in scores.items()
        for seed, v in enumerate(runs.tolist())
    ]
    more = record(0.9, params={parameter: values[0], "gamma": 2.0})
    figure = drawn(name, [*records, more], tmp_path)
    assert titles(figure) == [
        "Cora, asymmetric",
        "Cora, symmetric",
        "CiteSeer, asymmetric",
        "CiteSeer, symmetric",
    ]
    assert legend_texts(figure) == ["φ = 0.5", "φ = 0.5, published", "φ = 0.1"]
    panel = figure.axes[3]
    runs = [scores["citeseer", "symmetric", 0.5, value] for value in values]
    expected = [[value, found.mean()] for value, found in zip(values, runs, strict=True)]
    assert np.array(line(panel, 0)) == pytest.approx(np.array(expected))
    (spans,) = panel.containers[0].lines[2]
    lengths = [segment[1, 1] - segment[0, 1] for segment in spans.get_segments()]
    assert lengths == pytest.approx([2 * found.std(ddof=1) / np.sqrt(3) for found in runs])
    printed = published()[name].values["citeseer"]
    assert np.array(line(panel, 1)) == pytest.approx(
        np.array(
            [[float(row), cells["symmetric:0.5"].mean / 100] for row, cells in printed.items()]
        )
    )
    assert panel.containers[1].lines[0].get_linestyle() == "--"
    light = [[value, scores["citeseer", "symmetric", 0.1, value].mean()] for value in values]
    assert np.array(line(panel, 2)) == pytest.approx(np.array(light))
    assert symbol in panel.get_xlabel()
    assert figure.axes[2].get_ylabel() == "test accuracy"
    assert "standard error of 3 runs" in note(figure)


def sweep(parameter: str, dataset: str, values: tuple[float, ...]) -> list[Record]:
    """Return three runs of each value, and five of the usual settings, one of them twice."""
    rng = np.random.default_rng(1)
    usual = ERASE.preset(dataset=dataset).get_params()[parameter]

    def run(params: Mapping[str, Any], seed: int, noise: str) -> Record:
        return record(
            rng.random(), dataset=dataset, rate=0.5, params=params, seed=seed, noise=noise
        )

    noises = ("asymmetric", "symmetric")
    changed = [run({parameter: v}, s, n) for v in values for s in range(3) for n in noises]
    return [*changed, run({parameter: usual}, 0, "asymmetric")] + [
        run({}, seed, noise) for seed in range(5) for noise in noises
    ]


def usual_mean(records: list[Record], parameter: str, noise: str) -> float:
    """Return the mean over seeds 0 to 2 of the usual settings, a run that names them first."""
    found: dict[int, float] = {}
    for one in records:
        params = one.cell.params
        is_named = params.get(parameter) == ERASE.preset(dataset=one.cell.dataset).get_params().get(
            parameter
        )
        if one.cell.noise == noise and one.cell.seed < 3 and (is_named or not params):
            found.setdefault(one.cell.seed, one.scores["test_accuracy"] or 0.0)
    assert len(found) == 3
    return float(np.mean(list(found.values())))


@pytest.mark.parametrize(
    ("name", "parameter", "dataset", "usual", "values"),
    [
        ("alpha", "keep", "cora", 0.6, (0.1, 0.5, 0.9)),
        ("alpha", "keep", "citeseer", 0.6, (0.1, 1.0)),
        ("beta", "trust", "cora", 0.6, (0.1, 0.5, 1.0)),
        ("beta", "trust", "citeseer", 0.7, (0.6, 0.8)),
        ("depth", "steps", "cora", 5, (0, 2, 16)),
        ("depth", "steps", "citeseer", 4, (0, 2, 16)),
    ],
)
def test_a_figure_and_a_table_have_the_same_runs(
    name: str,
    parameter: str,
    dataset: str,
    usual: float,
    values: tuple[float, ...],
    tmp_path: Path,
) -> None:
    """Runs that changed nothing are those of the usual value, as far as the others have them."""
    records = sweep(parameter, dataset, values)
    figure, table = drawn(name, records, tmp_path), build(name, records)
    for panel, noise in zip(figure.axes, ("asymmetric", "symmetric"), strict=False):
        places, means = zip(*line(panel, 0), strict=True)
        shown = dict(zip(places, means, strict=True))
        assert sorted(shown) == sorted({*values, usual})
        assert shown[usual] == pytest.approx(usual_mean(records, parameter, noise))
        filled = {
            float(cell.row): cell
            for cell in table.cells.itertuples()
            if (cell.dataset, cell.noise, cell.rate) == (dataset, noise, 0.5) and cell.runs
        }
        assert {value: cell.runs for value, cell in filled.items()} == dict.fromkeys(shown, 3)
        assert {v: cell.mean / 100 for v, cell in filled.items()} == pytest.approx(shown)
    assert "standard error of 3 runs" in note(figure)


def test_a_tolerance_has_the_runs_of_its_row(tmp_path: Path) -> None:
    records = sweep("eps2", "cora", (0.01, 0.5))
    entries = {
        float(cell.row): cell
        for cell in build("eps2", records).cells.itertuples()
        if cell.runs and cell.noise == "symmetric"
    }
    assert {value: entry.runs for value, entry in entries.items()} == {0.01: 3, 0.05: 3, 0.5: 3}
    assert entries[0.05].mean == pytest.approx(100 * usual_mean(records, "eps2", "symmetric"))
    for value, entry in entries.items():
        wanted = Wanted("test_accuracy", "cora", "symmetric", 0.5, params={"eps2": value})
        (runs,) = find_runs(run_frame(records), [wanted])
        assert len(runs) == (5 if value == 0.05 else 3)  # all, where no row is compared
        assert np.mean([runs[run] for run in runs if run[3] < 3]) * 100 == pytest.approx(entry.mean)


def test_usual_settings_in_other_words_are_usual_settings(tmp_path: Path) -> None:
    records = [
        record(0.5, params={"keep": 0.6}),
        record(0.7, params={"keep": 0.6}, seed=1),
        record(0.6, seed=1),  # the same run in the words of the row
        record(0.9, params={"keep": 0.7}, seed=2),
    ]
    (panel,) = drawn("radar", records, tmp_path).axes
    assert panel.lines[0].get_ydata()[0] == pytest.approx(0.55)
    (cell,) = [cell for cell in build("main", records).cells.itertuples() if cell.runs]
    assert cell.runs == 2
    assert cell.mean == pytest.approx(55)


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_a_run_with_several_params_is_the_same_in_any_order(order: tuple[int, ...]) -> None:
    """Neither names T = 5: the run that names nothing is taken, in the table and in the figure."""
    runs = [record(0.5), record(0.7, params={"keep": 0.6}), record(0.9, params={"trust": 0.6})]
    records = [*(runs[i] for i in order), record(0.4, params={"steps": 2})]
    found = summary(records, {"steps": 5})
    assert found is not None
    assert (found.mean, found.runs) == (0.5, 1)
    cells = build("depth", records).cells
    means = {cell.row: cell.mean for cell in cells.itertuples() if cell.runs}
    assert means == {"2": pytest.approx(40), "5": pytest.approx(50)}


def test_a_run_that_failed_in_another_file_counts_where_it_did_not_fail() -> None:
    records = [record(0.5), record(None, error="EraseError: why")]
    found = summary(records)
    assert found is not None
    assert found.mean == 0.5
    assert build("main", records).cells["runs"].sum() == 1


def test_a_missing_noise_leaves_its_place_empty(tmp_path: Path) -> None:
    records = [record(0.5, noise="symmetric", params={"steps": 2})]
    figure = drawn("depth", records, tmp_path)
    assert titles(figure) == ["Cora, asymmetric", "Cora, symmetric"]
    assert not figure.axes[0].containers


def test_semantic_labels_guide(tmp_path: Path) -> None:
    records = [
        record(0.8 - rate, semantic=0.75 - rate, rate=rate, dataset=dataset, protocol="honest")
        for rate in (0.1, 0.3)
        for dataset in ("cora", "pubmed")
    ]
    figure = drawn("guidance", records, tmp_path, "honest")
    assert [t for t in titles(figure) if "asymmetric" in t] == [
        "Cora, asymmetric",
        "PubMed, asymmetric",
    ]
    cora, _, pubmed, _ = figure.axes
    assert np.array(line(cora, 0)) == pytest.approx(np.array([[0.1, 0.7], [0.3, 0.5]]))
    assert np.array(line(cora, 2)) == pytest.approx(np.array([[0.1, 0.65], [0.3, 0.45]]))
    printed = published()["guidance"].values["cora"]["semantic"]
    assert line(cora, 3)[4] == pytest.approx([0.5, printed["asymmetric:0.5"].mean / 100])
    assert len(pubmed.containers) == 2  # the paper prints nothing
    assert "honest protocol: noise redrawn, validation labels noisy" in note(figure)


# Representations ----------------------------------------------------------------------------------


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Return the records of a small study `pictures`, its arrays beside them."""
    file = tmp_path / "kept.jsonl"
    rng = np.random.default_rng(0)
    y = np.arange(70) % 7
    with Journal(file) as journal:
        for rate in (0.1, 0.3):
            for method in ("erase", "ce"):
                found = record(0.5, rate=rate, method=method)
                journal.append([found])
                path = arrays_path(file, found.cell)
                path.parent.mkdir(exist_ok=True)
                z = np.eye(7)[y] + rng.random((70, 7)) * (1 if method == "erase" else 2)
                np.savez(path, z=z.astype(np.float16), y=y, nodes=np.arange(70))
    return file


@pytest.mark.parametrize("name", ["cosine", "pca", "tsne"])
def test_maps_have_a_row_a_method_and_a_column_a_rate(name: str, pictures: Path) -> None:
    figure: Any = draw_figure(name, [pictures])
    assert nothing_is_cut_off(figure)
    maps = [axes for axes in figure.axes if axes.get_title()]
    assert [axes.get_title().split("\n")[0] for axes in maps] == [
        "CE, φ = 0.1",
        "CE, φ = 0.3",
        "ERASE, φ = 0.1",
        "ERASE, φ = 0.3",
    ]
    tops = [round(axes.get_position().y1, 2) for axes in maps]
    assert tops[0] == tops[1] > tops[2] == tops[3]
    assert figure.get_suptitle() == "Cora, asymmetric noise"


def test_a_map_is_of_its_own_run(pictures: Path) -> None:
    figure: Any = draw_figure("cosine", [pictures])
    image = np.asarray(figure.axes[2].images[0].get_array())
    path = arrays_path(pictures, Cell("cora", "asymmetric", 0.1, "erase", {}, "paper", 0))
    with np.load(path) as file:
        z, y = file["z"].astype(np.float64), file["y"]
    z = (z / np.linalg.norm(z, axis=1, keepdims=True))[np.argsort(y, kind="stable")]
    assert image == pytest.approx(np.abs(z @ z.T))
    names = [text.get_text() for text in figure.axes[2].get_yticklabels()]
    assert names[0] == "Theory"
    assert len(names) == 7


def test_pairs_are_drawn_at_rate_three_tenths(pictures: Path) -> None:
    figure: Any = draw_figure("pairwise-pca", [pictures])
    assert nothing_is_cut_off(figure)
    assert figure.get_supxlabel() == "above the diagonal: ERASE, φ = 0.3; below: CE, φ = 0.3"
    assert sum(bool(axes.collections) for axes in figure.axes) == 42


def test_two_datasets_stand_below_each_other(pictures: Path) -> None:
    found = record(0.5, rate=0.1, dataset="debian")
    with Journal(pictures) as journal:
        journal.append([found])
    z = np.eye(3)[np.arange(9) % 3]
    np.savez(arrays_path(pictures, found.cell), z=z, y=np.arange(9) % 3, nodes=np.arange(9))
    figure: Any = draw_figure("pca", [pictures])
    assert [part.get_suptitle() for part in figure.subfigs] == [
        "Cora, asymmetric noise",
        "debian, asymmetric noise",
    ]
    names = [text.get_text() for text in figure.subfigs[1].legends[0].get_texts()]
    assert names == ["class 0", "class 1", "class 2"]


@pytest.mark.parametrize(
    "change",
    [
        {"z": None},
        {"z": np.full((70, 7), np.nan)},
        {"y": np.full(70, 2**60)},
        {"y": np.array([{}] * 70, dtype=object)},
        {"nodes": np.arange(3)},
        {},  # no archive at all
    ],
    ids=lambda change: ", ".join(change) or "text",
)
def test_damaged_arrays_are_refused(change: dict[str, Any], pictures: Path) -> None:
    path = arrays_path(pictures, record(0.5, rate=0.3).cell)
    with np.load(path) as file:
        arrays = {**file, **change}
    if change:
        np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    else:
        path.write_text("no archive")
    with pytest.raises(EraseError, match=path.name):
        draw_figure("pca", [pictures])


def test_arrays_of_other_nodes_are_refused(pictures: Path) -> None:
    path = arrays_path(pictures, record(0.5, rate=0.3).cell)
    np.savez(path, z=np.eye(70), y=np.zeros(70, dtype=int), nodes=np.arange(70) + 1)
    with pytest.raises(EraseError, match="same nodes"):
        draw_figure("pca", [pictures])


def test_arrays_may_lie_beside_any_of_the_files(pictures: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.jsonl"
    with Journal(other) as journal:
        journal.append([record(0.5, rate=0.1, seed=0)])  # the same cell, without arrays
    assert len(draw_figure("pca", [other, pictures]).axes) == 4


# Nothing to draw ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FIGURES)
def test_missing_records_name_the_study_to_run(name: str, tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    with Journal(file) as journal:
        journal.append([record(None, rate=0.2, params={"epochs": 5}, error="EraseError: x")])
    with pytest.raises(EraseError, match=f"erase bench {FIGURES[name].study}`") as caught:
        draw_figure(name, [file])
    assert "none among 1 record." in str(caught.value)
    assert FIGURES[name].study in STUDIES


def test_the_other_protocol_is_another_study(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    with Journal(file) as journal:
        journal.append([record(0.5)])
    with pytest.raises(EraseError, match="erase bench honest`"):
        draw_figure("radar", [file], "honest")


def test_records_without_their_arrays_are_not_enough(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    with Journal(file) as journal:
        journal.append([record(0.5, rate=0.3), record(0.5, rate=0.3, method="ce")])
    with pytest.raises(EraseError, match="erase bench pictures`"):
        draw_figure("pca", [file])


def test_an_unknown_figure_names_the_known() -> None:
    with pytest.raises(EraseError, match="radar, gains"):
        draw_figure("radra", [])


# The command --------------------------------------------------------------------------------------


@pytest.fixture
def records(tmp_path: Path) -> Path:
    file = tmp_path / "records.jsonl"
    with Journal(file) as journal:
        journal.append(
            [record(0.5, seed=0), record(0.7, seed=1), record(0.4, method="ce", protocol="honest")]
        )
    return file


def test_the_command_writes_the_file_and_names_it(
    records: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(records.parent)
    assert main(["figure", "radar", str(records)]) == 0
    assert capsys.readouterr().out == "radar.svg\n"
    first = (records.parent / "radar.svg").read_bytes()
    assert main(["figure", "radar", str(records), "--out", "folder/again.svg"]) == 0
    assert (records.parent / "folder" / "again.svg").read_bytes() == first
    assert main(["figure", "radar", str(records), "--out", "radar.png"]) == 0
    assert (records.parent / "radar.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["depth"], "erase bench depth"),
        (["radar", "--protocol", "honest"], "erase bench honest"),
        (["radar", "--out", "radar.pdf"], ".svg or .png"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_drawn_is_a_sentence_and_leaves_nothing(
    arguments: list[str],
    message: str,
    records: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(records.parent)
    name, *more = arguments
    assert main(["figure", name, str(records), *more]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""
    assert list(records.parent.glob("[!.]*")) == [records]  # the lock of the records is hidden


def test_figures_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "figures"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert [entry.split()[0] for entry in listed] == list(FIGURES)
    assert list(FIGURES) == [
        "radar",
        "gains",
        "depth",
        "alpha",
        "beta",
        "guidance",
        "cosine",
        "pca",
        "pairwise-pca",
        "tsne",
        "train-size",
        "review-curve",
        "time",
    ]


def test_a_figure_without_records_says_what_it_needs(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    with Journal(path) as journal:
        journal.append([record(0.9, method="ce", rate=0.5)])
    with pytest.raises(EraseError, match=r"enough finished records of study paper.*to its end"):
        draw_figure("radar", [path])
    needs = "for figure depth: erase on cora, .*; got 1 such record: ce on cora with noise"
    with pytest.raises(EraseError, match=needs):
        draw_figure("depth", [path])
    with pytest.raises(EraseError, match=r"and the arrays beside them"):
        draw_figure("cosine", [path])
    with pytest.raises(EraseError, match=r"protocol paper for figure depth; got honest"):
        draw_figure("depth", [path], "honest")


def test_what_is_no_file_of_records_is_named(tmp_path: Path) -> None:
    with pytest.raises(EraseError, match="which is a folder"):
        draw_figure("radar", [tmp_path])
    (tmp_path / "a.jsonl").write_text("{}\n")
    with pytest.raises(EraseError, match="Name a file that `erase bench` has written"):
        draw_figure("radar", [tmp_path / "a.jsonl"])
