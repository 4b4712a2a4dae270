"""What was tried to explain a difference: compared with the paper over the same cells and seeds."""

from collections.abc import Mapping
from typing import Any

from causes import causes_section
from erase.bench.published import published
from erase.bench.records import Cell, Record


def figure(dataset: str, method: str, place: str) -> float:
    value = published()["main"].get(dataset, method, place)
    assert value is not None
    return value.mean


def run(rate: float, seed: int, above: float, params: Mapping[str, Any]) -> Record:
    """A run of ERASE on PubMed that is `above` the paper, in points."""
    printed = figure("pubmed", "erase", f"asymmetric:{rate:g}")
    cell = Cell("pubmed", "asymmetric", rate, "erase", params, "paper", seed)
    return Record(cell, {"test_accuracy": (printed + above) / 100})


def line(epoch: str, dataset: str, method: str, above: float, seed: int = 0) -> dict[str, Any]:
    printed = figure(dataset, method, "symmetric:0.3")
    found = {"test_accuracy": (printed + above) / 100}
    place = {"dataset": dataset, "noise": "symmetric", "rate": 0.3, "method": method, "seed": seed}
    return place | {"epoch": epoch} | found


def test_nothing_tried_is_no_section() -> None:
    assert causes_section({"paper": [run(0.1, 0, 1.0, {})]}, []) == ""


def test_a_departure_is_compared_over_the_cells_and_seeds_it_has() -> None:
    departed = [run(rate, 0, above, {"gamma": 2.0}) for rate, above in ((0.1, 1.0), (0.3, -3.0))]
    usual = [run(0.1, 0, -2.0, {}), run(0.3, 0, -4.0, {})]
    others = [run(0.1, 1, 9.0, {}), run(0.5, 0, 9.0, {}), run(0.1, 0, 9.0, {"eps2": 0.1})]
    text = causes_section({"paper": usual + others, "departures": departed}, [])
    assert (
        "| ERASE, `gamma=2.0` | PubMed | 2 | 1 | −3.00 (3.00; 4.00) | −1.00 (2.00; 3.00) |" in text
    )
    assert "gamma=1.0" not in text  # no record of it
    assert "validation" not in text


def test_a_failed_run_takes_no_part() -> None:
    failed = Record(
        Cell("pubmed", "asymmetric", 0.1, "erase", {"keep": 0.7}, "paper", 0), error="x"
    )
    assert causes_section({"departures": [failed]}, []) == ""


def test_epochs_are_compared_for_each_method_and_graph() -> None:
    lines = [
        line("test", "cora", "ce", 2.0),
        line("test", "cora", "ce", 4.0, seed=1),
        line("last", "cora", "ce", -0.5),
        line("test", "cora", "erase", -0.25),
    ]
    printed = figure("cora", "ce", "symmetric:0.3")
    cell = Cell("cora", "symmetric", 0.3, "ce", {}, "paper", 0)
    usual = [Record(cell, {"test_accuracy": (printed + 1) / 100})]
    text = causes_section({"paper": usual}, lines)
    assert (
        "| CE, Cora | 1 | 2 | +1.00 (1.00; 1.00) | +3.00 (3.00; 3.00) | −0.50 (0.50; 0.50) |"
        in text
    )
    assert "| ERASE, Cora | 1 | 1 | – | −0.25 (0.25; 0.25) | – |" in text
    assert text == causes_section({"paper": usual}, lines[::-1])


def test_a_method_has_a_row_for_each_graph() -> None:
    lines = [line("test", "cora", "ce", 2.0), line("test", "citeseer", "ce", -4.0)]
    text = causes_section({}, lines)
    assert "| CE, Cora | 1 | 1 | – | +2.00 (2.00; 2.00) | – |" in text
    assert "| CE, CiteSeer | 1 | 1 | – | −4.00 (4.00; 4.00) | – |" in text


def test_last_epochs_alone_are_compared() -> None:
    text = causes_section({}, [line("last", "cora", "ce", 1.5)])
    assert "| CE, Cora | 1 | 1 | – | – | +1.50 (1.50; 1.50) |" in text


def test_a_method_without_published_figure_has_no_distance() -> None:
    measured = line("test", "cora", "ce", 0.0) | {"method": "smoothed"}
    assert ", Cora | 1 | 1 | – | – | – |" in causes_section({}, [measured])


def test_a_departure_names_every_graph_it_was_tried_on() -> None:
    records = []
    for graph, above in (("cora", 1.0), ("citeseer", -3.0)):
        cell = Cell(graph, "symmetric", 0.3, "rtgnn", {"lr": 0.01}, "paper", 0)
        accuracy = (figure(graph, "rtgnn", "symmetric:0.3") + above) / 100
        records.append(Record(cell, {"test_accuracy": accuracy}))
    text = causes_section({"departures": records}, [])
    assert "`lr=0.01` | CiteSeer, Cora | 2 | 1 | – | −1.00 (2.00; 3.00) |" in text
