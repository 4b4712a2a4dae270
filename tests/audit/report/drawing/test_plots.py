"""The plots show the numbers they are given."""

from typing import Any

import numpy as np
import pytest

from erase.audit.report.drawing import (
    Bar,
    Line,
    Look,
    Slice,
    bars,
    dots,
    lines,
    radar,
    slices,
)
from pictures import legend_texts, nothing_is_cut_off, titles

BLUE, RED = Look("#0072B2"), Look("#D55E00", "^", strong=False)


# Lines --------------------------------------------------------------------------------------------


def test_lines_are_the_values_with_their_errors() -> None:
    series = [
        Line("ours", [0, 2, 4], [0.5, 0.6, 0.55], BLUE, [0.01, 0.02, 0.03]),
        Line("published", [0, 4], [0.52, 0.5], BLUE.published),
    ]
    panels = {"Cora": series, "CiteSeer": series[:1]}
    figure: Any = lines(panels, x_label="depth T", y_label="test accuracy", note="of five runs")
    assert nothing_is_cut_off(figure)
    assert titles(figure) == ["Cora", "CiteSeer"]
    ours, published = figure.axes[0].containers
    assert ours.lines[0].get_xydata().tolist() == [[0, 0.5], [2, 0.6], [4, 0.55]]
    (spans,) = ours.lines[2]
    assert spans.get_segments()[1] == pytest.approx(np.array([[2, 0.58], [2, 0.62]]))
    assert published.lines[0].get_xydata().tolist() == [[0, 0.52], [4, 0.5]]
    assert published.lines[0].get_linestyle() == "--"
    assert published.lines[0].get_markerfacecolor() == "white"
    assert legend_texts(figure) == ["ours", "published"]
    assert [axes.get_xlabel() for axes in figure.axes] == ["depth T", "depth T"]
    assert [axes.get_ylabel() for axes in figure.axes] == ["test accuracy", ""]
    assert figure.legends[0].get_title().get_text() == "of five runs"


def test_panels_of_a_row_share_a_scale() -> None:
    low, high = [Line("a", [0, 1], [0.1, 0.2], BLUE)], [Line("a", [0, 1], [0.8, 0.9], BLUE)]
    figure: Any = lines({"1": low, "2": high, "3": high}, x_label="", y_label="")
    first, second, third = (axes.get_ylim() for axes in figure.axes)
    assert first == second != third
    assert first[0] < 0.1 < 0.9 < first[1]


def test_a_light_line_is_thinner() -> None:
    figure: Any = lines({"": [Line("a", [0], [0], BLUE), Line("b", [0], [0], RED)]},
                        x_label="", y_label="")  # fmt: skip
    strong, light = (entry.lines[0] for entry in figure.axes[0].containers)
    assert strong.get_linewidth() > light.get_linewidth()
    assert (light.get_color(), light.get_marker()) == ("#D55E00", "^")


# Bars, radar, dots --------------------------------------------------------------------------------


def test_bars_go_up_and_down_beside_what_was_published() -> None:
    row = [Bar("0.1", 2.0, 0.5, 3.0, "CE"), Bar("0.5", -1.0, published=None)]
    figure: Any = bars({"Cora": row, "PubMed": row}, x_label="rate", y_label="points")
    assert nothing_is_cut_off(figure)
    panel = figure.axes[0]
    up, down = panel.patches
    assert (up.get_height(), down.get_height()) == (2.0, -1.0)
    assert up.get_facecolor() != down.get_facecolor()
    low, high, published, zero = panel.lines  # two caps first
    assert low.get_ydata().tolist() == [1.5, -1.0]
    assert high.get_ydata().tolist() == [2.5, -1.0]
    assert published.get_xydata().tolist() == [[0, 3.0]]
    assert zero.get_ydata() == [0, 0]
    assert [text.get_text() for text in panel.get_xticklabels()] == ["0.1\nCE", "0.5"]
    assert panel.get_ylabel() == "points"
    assert legend_texts(figure) == ["gain", "loss", "published"]


def test_a_radar_is_closed_and_starts_at_zero() -> None:
    series = [
        Line("ours", [0, 1, 2], [0.5, 0.6, 0.7], BLUE),
        Line("theirs", [0, 2], [0.2, 0.3], RED),
    ]
    figure: Any = radar(series, ["a", "b", "c"])
    assert nothing_is_cut_off(figure)
    (panel,) = figure.axes
    ours, theirs = panel.lines
    third = 2 * np.pi / 3
    assert ours.get_xydata() == pytest.approx(
        np.array([[0, 0.5], [third, 0.6], [2 * third, 0.7], [0, 0.5]])
    )
    assert np.isnan(theirs.get_ydata()[1])  # a gap stays open
    assert panel.get_ylim() == (0, pytest.approx(0.7))
    assert [text.get_text() for text in panel.get_xticklabels()] == ["a", "b", "c"]
    assert legend_texts(figure) == ["ours", "theirs"]


def test_dots_have_a_logarithmic_axis_and_common_rows() -> None:
    panels = {"CPU": {"ERASE": {"Cora": 0.1}, "CE": {"Cora": 0.01}}, "GPU": {"CE": {"Cora": 1e-3}}}
    figure: Any = dots(panels, ["ERASE", "CE"], {"Cora": BLUE}, x_label="seconds")
    assert nothing_is_cut_off(figure)
    cpu, gpu = figure.axes
    assert cpu.get_xscale() == "log"
    assert cpu.lines[0].get_xydata().tolist() == [[0.1, 0], [0.01, 1]]
    assert gpu.lines[0].get_xydata().tolist() == [[1e-3, 1]]  # CE is the second row in both
    assert [text.get_text() for text in cpu.get_yticklabels()] == ["ERASE", "CE"]
    assert cpu.get_xlim() == gpu.get_xlim()
    assert cpu.lines[0].get_linestyle() == "None"


def test_slices_show_every_trial_and_ring_the_best() -> None:
    parameters = [
        Slice("steps", [1, 2, 9]),
        Slice("lr", [1e-4, 1e-2, 1e-3], log=True),
        Slice("encoder", ["gat", "gcn", "gat"]),
        Slice("denoise", [True, False, True]),
    ]
    figure: Any = slices(parameters, [0.5, 0.7, 0.6], 1, "validation accuracy")
    assert nothing_is_cut_off(figure)
    assert titles(figure) == ["steps", "lr", "encoder", "denoise"]
    trials, ring = figure.axes[0].collections
    assert trials.get_offsets().tolist() == [[1, 0.5], [2, 0.7], [9, 0.6]]
    assert ring.get_offsets().tolist() == [[2, 0.7]]
    assert [axes.get_xscale() for axes in figure.axes] == ["linear", "log", "linear", "linear"]
    names = [[text.get_text() for text in axes.get_xticklabels()] for axes in figure.axes[2:]]
    assert names == [["gat", "gcn"], ["True", "False"]]
    assert all(tick == int(tick) for tick in figure.axes[0].get_xticks())
    assert figure.axes[0].get_ylabel() == "validation accuracy"
