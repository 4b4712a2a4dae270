"""The section on large graphs shows what the records hold, and only that."""

from typing import Any

import numpy as np

from reach import growth_picture, scale_section

ARXIV = {
    "measure": "arxiv",
    "noise": "symmetric:0.3",
    "method": "erase, usual",
    "seconds": 158.4,
    "peak_gigabytes": 1.44,
    "test_accuracy": 0.907,
}
MILLION = ARXIV | {"measure": "million", "kind": "folder", "peak_gigabytes": 3.456}


def grown(nodes: int, seconds: float) -> dict[str, Any]:
    return {
        "measure": "growth",
        "nodes": nodes,
        "seconds_per_epoch": seconds,
        "peak_gigabytes": 1.0,
    }


def ranks(processes: int, seconds: float, losses: list[float]) -> dict[str, Any]:
    return {
        "measure": "ranks",
        "method": "ce, usual",
        "processes": processes,
        "seconds_per_epoch": seconds,
        "losses": losses,
        "free_cores_before": 1.9,
    }


def test_without_records_there_is_no_section() -> None:
    assert scale_section([]) == ""
    assert growth_picture([]) is None
    assert growth_picture([grown(100, 1.0)]) is None


def test_a_fit_has_its_accuracy_time_and_memory() -> None:
    section = scale_section([ARXIV, MILLION])
    assert "| ERASE, usual, symmetric 0.3 | 90.7 | 158 | 1.44 |" in section
    assert "| ERASE, usual, out of a folder | 90.7 | 158 | 3.46 |" in section


def test_a_time_measured_beside_other_work_is_marked() -> None:
    section = scale_section([ARXIV | {"beside_other_work": True}])
    assert "| ERASE, usual, symmetric 0.3 | 90.7 | 158 † | 1.44 |" in section


def test_growth_is_per_doubling() -> None:
    section = scale_section([grown(400, 16.0), grown(100, 4.0)])  # two doublings, four times
    assert "| 100 nodes | 4.0 | | 1.00 | |" in section
    assert "| 400 nodes | 16.0 | 2.00 | 1.00 | 1.00 |" in section
    figure = growth_picture([grown(100, 4.0), grown(400, 16.0)])
    assert figure is not None
    (measured, steepest) = figure.axes[0].lines
    assert np.asarray(measured.get_ydata()).tolist() == [4.0, 16.0]
    assert np.asarray(steepest.get_ydata()).tolist() == [4.0, 4.0 * 2.3**2]


def test_processes_are_compared_by_time_and_by_losses() -> None:
    one, two = ranks(1, 3.0, [2.0, 1.0]), ranks(2, 2.0, [2.0, 1.001])
    slow = ranks(2, 9.0, [2.0, 1.001]) | {"free_cores_before": 1.1}
    section = scale_section([one, two, slow, two])  # the median is 2.0
    assert "| cross-entropy, usual | 3.0 | 2.0 | 1.50 | 1.0e-03 | 1.1 to 1.9 | 3 |" in section
    assert "| cross-entropy" not in scale_section([one])
