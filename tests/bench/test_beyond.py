"""The table of what goes beyond the paper: its places, its sentences, its records."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from erase.bench.records import Record
from erase.bench.studies import STUDIES
from erase.bench.tables import build


def records(study: str, accuracy: Mapping[tuple[str, str, float], float]) -> list[Record]:
    """Return a record of every cell of the study whose method, dataset and rate are named."""
    found = []
    for cell in STUDIES[study].cells():
        key = (cell.method, cell.dataset, cell.rate)
        if key in accuracy:
            value = accuracy[key] + 0.001 * cell.seed
            found.append(record(cell, value))
    return found


def record(cell: Any, value: float) -> Record:
    return Record(
        cell=cell,
        scores={"test_accuracy": value},
        settings={},
        best_epoch=0,
        epochs=0,
        seconds=1.0,
        batch=1,
        peak_bytes=None,
        machine="test",
        versions={},
        error=None,
    )


def test_the_study_has_every_method_on_the_same_draws() -> None:
    cells = STUDIES["beyond"].cells()
    assert {cell.method for cell in cells} == {cell.method for cell in STUDIES["honest"].cells()}
    assert {cell.protocol for cell in cells} == {"honest"}
    draws: dict[str, set[tuple[str, str, float, int]]] = {}
    for cell in cells:
        draws.setdefault(cell.method, set()).add((cell.dataset, cell.noise, cell.rate, cell.seed))
    assert len({frozenset(found) for found in draws.values()}) == 1
    assert len(draws["erase"]) == (3 * 7 + 3 * 2) * 10


def test_sentences_tell_the_mean_the_rival_and_the_worst_cell() -> None:
    accuracy = {
        ("relabelling", "cora", 0.1): 0.8,
        ("relabelling", "cora", 0.3): 0.7,
        ("relabelling", "cora", 0.0): 0.9,
        ("smoothed", "cora", 0.1): 0.82,
        ("smoothed", "cora", 0.3): 0.6,
        ("smoothed", "cora", 0.0): 0.85,
        ("erase", "cora", 0.1): 0.7,
        ("erase", "cora", 0.3): 0.65,
        ("ce", "cora", 0.1): 0.99,  # not run everywhere, so not the best single rival
    }
    table = build("beyond", records("beyond", accuracy))
    notes = " ".join(table.notes)
    mean = 75 + 0.45  # of ten seeds
    assert f"Mean over 4 noisy cells: relabelling {mean:.2f}" in notes
    assert f"the best single rival smoothed features {mean - 4:.2f} (+4.00)" in notes
    assert f"ERASE {67.5 + 0.45:.2f}" in notes
    assert "ahead in 3 of 5; its smallest lead is −19.00, on Cora asymmetric 0.1" in notes
    cora = table.panels()[0]
    assert list(cora["place"])[:3] == ["asym 0.1", "asym 0.3", "asym 0.5"]
    assert "clean" in set(cora["place"])
    assert [panel["panel"].iloc[0] for panel in table.panels()][3:] == ["debian", "computers", "cs"]


def test_without_a_rival_nothing_is_claimed() -> None:
    only = {("relabelling", "cora", 0.1): 0.8}
    assert not any("rival" in note for note in build("beyond", records("beyond", only)).notes)


def test_parts_stand_beside_a_regression_and_the_whole_method() -> None:
    cells = STUDIES["parts"].cells()
    table = build(
        "parts", [record(cell, 0.5 + 0.1 * cell.params.get("rounds", 2)) for cell in cells]
    )
    first = table.panels()[0].drop_duplicates("row")
    means = first["mean"].astype(object).where(first["mean"].notna(), None)
    lines = dict(zip(first["row"], means, strict=True))
    views = {"features": 70.0, "near": 70.0, "far": 70.0}
    others = dict.fromkeys(("erase", "smoothed", "relabelling"))
    assert lines == {"train": 70.0, "0": 50.0, "1": 60.0, **views, **others}


def test_heterophilous_graphs_are_compared_with_a_model_without_edges() -> None:
    cells = STUDIES["heterophily"].cells()
    table = build("heterophily", [record(cell, 0.6 if cell.params else 0.7) for cell in cells])
    panel = table.panels()[0]
    assert list(dict.fromkeys(panel["place"])) == ["clean", "asym 0.3", "sym 0.3"]
    second = panel[panel["place"] == "asym 0.3"]
    lines = dict(zip(second["row"], second["mean"], strict=True))
    assert lines["features"] == lines["plain"] == 60.0
    assert lines["relabelling"] == lines["smoothed"] == 70.0


def test_a_cell_that_only_relabelling_has_is_no_comparison_and_a_tie_is_no_lag() -> None:
    accuracy = {
        ("relabelling", "cora", 0.1): 0.8,
        ("relabelling", "cora", 0.3): 0.7,
        ("relabelling", "cora", 0.5): 0.1,  # no other method
        ("erase", "cora", 0.1): 0.8,
        ("erase", "cora", 0.3): 0.6,
    }
    mean, ahead = build("beyond", records("beyond", accuracy)).notes[:2]
    assert mean == (
        "Mean over 4 noisy cells: relabelling 75.45, the best single rival ERASE 70.45 (+5.00)."
    )
    assert ahead.endswith("ahead in 4 of 4; its smallest lead is 0.00, on Cora asymmetric 0.1.")


def test_other_graphs_are_run_at_the_rate_in_the_middle() -> None:
    others = [c for c in STUDIES["beyond"].cells() if c.dataset in ("debian", "computers", "cs")]
    assert {(c.noise, c.rate) for c in others} == {("asymmetric", 0.3), ("symmetric", 0.3)}


def test_relabelled_erase_has_five_draws_of_the_main_table() -> None:
    cells = STUDIES["relabelled"].cells()
    assert len(cells) == 2 * 2 * 3 * 5
    usual = {replace(cell, params={}) for cell in cells}
    assert usual <= set(STUDIES["honest"].cells())


def test_every_method_is_a_rival_beyond_the_paper() -> None:
    names = {cell.method for cell in STUDIES["beyond"].cells()}
    accuracy = {(name, "cora", 0.3): 0.7 for name in names} | {("smoothed", "cora", 0.3): 0.8}
    table = build("beyond", records("beyond", accuracy))
    (cell,) = [
        cell
        for cell in table.cells.itertuples()
        if (cell.row, cell.place_key, cell.dataset) == ("relabelling", "symmetric:0.3", "cora")
    ]
    assert (cell.rank, cell.ranked) == (2, len(names))
    assert cell.rival == "smoothed features"


def test_heterophilous_graphs_have_six_rows() -> None:
    table = build("heterophily", [record(cell, 0.7) for cell in STUDIES["heterophily"].cells()])
    first = table.panels()[0]
    assert sorted(set(first["row"])) == [
        "ce",
        "ce-gcn",
        "features",
        "plain",
        "relabelling",
        "smoothed",
    ]
    assert not first["is_sanity"].any()


def test_noise_that_follows_features_is_compared_with_the_best_rivals() -> None:
    values = {"relabelling": 0.8, "smoothed": 0.7, "erase": 0.6, "ce": 0.5}
    cells = STUDIES["noises"].cells()
    assert {cell.noise for cell in cells} == {"annotator", "topology", "confidence", "instance"}
    assert {cell.rate for cell in cells} == {0.1, 0.3, 0.5}
    table = build("noises", [record(cell, values[cell.method]) for cell in cells])
    assert table.notes[0].startswith(
        "Mean over 72 noisy cells: relabelling 80.00, the best single rival smoothed features 70.00"
    )
    assert [panel["panel"].iloc[0] for panel in table.panels()] == [
        "Cora", "CiteSeer", "PubMed", "computers", "cs", "debian",
    ]  # fmt: skip


def test_sentences_of_the_confirmation_are_about_accuracy() -> None:
    accuracy = {"relabelling": 0.80, "smoothed": 0.75, "erase": 0.70}
    made = [
        Record(cell, {"test_accuracy": accuracy[cell.method], "calibration_error": 0.05})
        for cell in STUDIES["confirmation"].cells()
    ]
    mean, ahead = build("confirmation", made).notes[:2]
    assert "relabelling 80.00, the best single rival smoothed features 75.00 (+5.00)" in mean
    assert "ahead in 24 of 24" in ahead
