"""Plots of numbers: lines over a parameter, bars, a radar, dots, and trials of a search."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, NullFormatter, PercentFormatter

from erase.audit.report.drawing.canvas import (
    COLUMNS,
    FONT,
    WIDTH,
    label,
    legend_below,
    legend_height,
    new_figure,
    panels_height,
)
from erase.audit.report.palette import COLOURS, GREY


@dataclass(frozen=True)
class Look:
    """How a series is drawn: not by its colour alone."""

    colour: str
    marker: str = "o"
    dashes: str = "-"
    strong: bool = True

    @property
    def published(self) -> "Look":
        """The look of the published values of the same series: dashed, with hollow markers."""
        return Look(self.colour, self.marker, "--", self.strong)

    def style(self) -> dict[str, Any]:
        """Return the look as arguments of matplotlib's lines."""
        hollow = self.dashes != "-"
        return {
            "color": self.colour,
            "marker": self.marker,
            "linestyle": self.dashes,
            "linewidth": 2.0 if self.strong else 1.2,
            "markersize": 6 if self.strong else 4.5,
            "markerfacecolor": "white" if hollow else self.colour,
            "alpha": 1.0 if self.strong else 0.75,
        }


@dataclass(frozen=True)
class Line:
    """A series [n]: values `y` at `x`, with the half length of each error bar.

    Series of the same name have one look and one entry in the legend.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    look: Look
    error: Sequence[float] | None = None


@dataclass(frozen=True)
class Bar:
    """A bar: its value and the half length of its error bar, what was published, words below."""

    name: str
    value: float
    error: float = 0.0
    published: float | None = None
    below: str = ""


@dataclass(frozen=True)
class Slice:
    """A searched parameter: its name, the value [n] of each trial, whether the axis is a log."""

    name: str
    values: Sequence[Any]
    log: bool = False


def lines(
    panels: Mapping[str, Sequence[Line]],
    *,
    x_label: str,
    y_label: str,
    columns: int = 2,
    note: str = "",
) -> Figure:
    """Draw lines over a parameter, a panel a title; panels of a row share the scale of values.

    Args:
        panels: series by title; values in shares of 1, shown in percent.
        x_label: below the panels of the last row.
        y_label: beside the first panel of a row.
        columns: panels in a row.
        note: small words above the legend, such as what an error bar is.
    """
    entries = {line.name: line for series in panels.values() for line in series}
    names = list(entries)
    rows = ceil(len(panels) / columns)
    height = rows * 0.62 * WIDTH / max(columns, 2) + legend_height(names, note)
    figure = new_figure(WIDTH, height)
    grid = _grid(figure, len(panels), columns, (x_label, y_label), sharey="row")
    for panel, (title, series) in zip(grid, panels.items(), strict=True):
        for line in series:
            panel.errorbar(
                line.x, line.y, line.error, capsize=3, elinewidth=1.2, **line.look.style()
            )
        _dress(panel, title)
        panel.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        panel.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
        places = sorted({x for line in series for x in line.x})
        panel.set_xticks(places, [f"{x:g}" for x in places])
    handles = [Line2D([], [], **entries[name].look.style()) for name in names]
    legend_below(figure, handles, names, note)
    return figure


def bars(
    panels: Mapping[str, Sequence[Bar]],
    *,
    x_label: str,
    y_label: str,
    columns: int = COLUMNS,
    note: str = "",
) -> Figure:
    """Draw bars up and down from zero, a panel a title; panels of a row share the scale.

    A bar below zero has another colour, a published value is a hollow diamond.

    Args:
        panels: bars by title; values in the unit that `y_label` names.
        x_label: below the panels of the last row.
        y_label: beside the first panel of a row.
        columns: panels in a row.
        note: small words above the legend.
    """
    names = ["gain", "loss", "published"]
    rows = ceil(len(panels) / columns)
    height = rows * 0.72 * WIDTH / max(columns, 2) + legend_height(names, note)
    figure = new_figure(WIDTH, height)
    grid = _grid(figure, len(panels), columns, (x_label, y_label), sharey="row")
    up, down = COLOURS[0], COLOURS[3]
    diamond: dict[str, Any] = {
        "color": COLOURS[-1],
        "marker": "D",
        "markerfacecolor": "white",
        "linestyle": "none",
        "markersize": 6,
    }
    for panel, (title, row) in zip(grid, panels.items(), strict=True):
        values = [bar.value for bar in row]
        panel.bar(
            range(len(row)),
            values,
            yerr=[bar.error for bar in row],
            color=[up if value >= 0 else down for value in values],
            error_kw={"elinewidth": 1.2, "capsize": 3, "ecolor": GREY},
        )
        published = [
            (place, bar.published) for place, bar in enumerate(row) if bar.published is not None
        ]
        panel.plot([place for place, _ in published], [value for _, value in published], **diamond)
        panel.axhline(0, color=COLOURS[-1], linewidth=1)
        _dress(panel, title)
        texts = [f"{bar.name}\n{bar.below}" if bar.below else bar.name for bar in row]
        panel.set_xticks(range(len(row)), texts)
        panel.tick_params(axis="x", length=0, labelsize=FONT - 3)
        panel.grid(axis="x", visible=False)
    blocks = [
        Line2D([], [], color=c, marker="s", linestyle="none", markersize=9) for c in (up, down)
    ]
    legend_below(figure, [*blocks, Line2D([], [], **diamond)], names, note)
    return figure


def radar(series: Sequence[Line], spokes: Sequence[str], *, note: str = "") -> Figure:
    """Draw series as polygons over spokes with one common scale from 0 outwards.

    The first series is filled.

    Args:
        series: `x` counts spokes from 0, `y` in shares of 1; gaps in a series stay open.
        spokes: their names, clockwise from the top.
        note: small words above the legend.
    """
    names = [line.name for line in series]
    width = 0.75 * WIDTH
    figure = new_figure(width, 0.9 * width + legend_height(names, note, width))
    panel: Any = figure.add_subplot(projection="polar")
    panel.set_theta_offset(np.pi / 2)
    panel.set_theta_direction(-1)
    angles = 2 * np.pi * np.arange(len(spokes)) / len(spokes)
    for order, line in enumerate(series):
        at = dict(zip(line.x, line.y, strict=True))
        values = [at.get(spoke, np.nan) for spoke in range(len(spokes))]
        closed = [*values, values[0]]
        around = [*angles, angles[0]]
        panel.plot(around, closed, zorder=3 if order == 0 else 2, **line.look.style())
        if order == 0:
            panel.fill(around, np.nan_to_num(closed), color=line.look.colour, alpha=0.12)
    highest = max((value for line in series for value in line.y), default=1.0)
    panel.set_ylim(0, min(1.0, ceil(highest * 10) / 10))
    panel.set_xticks(angles, spokes, fontsize=FONT)
    for angle, text in zip(angles, panel.get_xticklabels(), strict=True):
        side = round(float(np.sin(angle)), 6)  # names stand outside the circle
        text.set_horizontalalignment("left" if side > 0 else "right" if side < 0 else "center")
    panel.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    panel.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    panel.set_rlabel_position(float(np.degrees(angles[1] / 2)) if len(spokes) > 1 else 0)
    panel.tick_params(axis="y", labelsize=FONT - 2, labelcolor=GREY)
    panel.grid(alpha=0.4)
    panel.spines["polar"].set_color("#BBBBBB")
    handles = [Line2D([], [], **line.look.style()) for line in series]
    legend_below(figure, handles, names, note, width)
    return figure


def dots(
    panels: Mapping[str, Mapping[str, Mapping[str, float]]],
    rows: Sequence[str],
    looks: Mapping[str, Look],
    *,
    x_label: str,
    columns: int = COLUMNS,
    note: str = "",
) -> Figure:
    """Draw positive numbers as dots on a logarithmic axis, a row a name, a panel a title.

    Args:
        panels: numbers by title, row and series; panels share the axis.
        rows: from top to bottom, in every panel.
        looks: of the series, in the order of the legend.
        x_label: the quantity and its unit.
        columns: panels in a row.
        note: small words above the legend.
    """
    across = min(columns, max(len(panels), 1))
    down = max(ceil(len(panels) / across), 1)
    names = list(looks)
    figure = new_figure(WIDTH, down * (1.1 + 0.3 * len(rows)) + legend_height(names, note))
    grid = _grid(figure, len(panels), across, (x_label, ""), sharex=True, sharey=True)
    for panel, (title, table) in zip(grid, panels.items(), strict=True):
        for name, look in looks.items():
            known = [
                (cells[name], rows.index(row)) for row, cells in table.items() if name in cells
            ]
            style = look.style() | {"linestyle": "none"}
            panel.plot([value for value, _ in known], [place for _, place in known], **style)
        _dress(panel, title)
        panel.set_xscale("log")
        panel.xaxis.set_major_formatter("{x:g}")
        panel.xaxis.set_minor_formatter(NullFormatter())
        panel.tick_params(axis="x", labelbottom=True)
        panel.set_yticks(range(len(rows)), rows)
        panel.set_ylim(len(rows) - 0.5, -0.5)
    handles = [Line2D([], [], **looks[name].style() | {"linestyle": "none"}) for name in names]
    legend_below(figure, handles, names, note)
    return figure


def slices(parameters: Sequence[Slice], scores: Sequence[float], best: int, y_label: str) -> Figure:
    """Draw scores over each parameter, a dot a trial; the best one is ringed in every panel.

    Args:
        parameters: with the values [n] that trials had.
        scores: [n] in shares of 1, shown in percent.
        best: which of the n is ringed.
        y_label: beside the first panel of a row.
    """
    figure = new_figure(WIDTH, panels_height(len(parameters), 0.8))
    columns = min(len(parameters), COLUMNS)
    grid = _grid(figure, len(parameters), columns, ("", y_label), sharey=True)
    for panel, parameter in zip(grid, parameters, strict=True):
        kinds = {type(value) for value in parameter.values}
        is_number = kinds <= {int, float}
        values = list(parameter.values) if is_number else [str(v) for v in parameter.values]
        panel.scatter(values, scores, s=22, color=COLOURS[0], alpha=0.7, linewidths=0)
        panel.scatter(
            values[best],
            scores[best],
            s=130,
            facecolors="none",
            edgecolors=COLOURS[3],
            linewidths=2,
        )
        _dress(panel, label(parameter.name))
        if parameter.log:
            panel.set_xscale("log")
        elif is_number:
            panel.xaxis.set_major_locator(MaxNLocator(6, integer=kinds == {int}))
        panel.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    return figure


def _grid(
    figure: Figure, count: int, columns: int, labels: tuple[str, str], **share: Any
) -> list[Any]:
    """Return `count` new axes, `columns` in a row, with the labels (x, y) below and on the left."""
    every = figure.subplots(ceil(count / columns), columns, squeeze=False, **share).ravel()
    for spare in every[count:]:
        spare.remove()
    for index, panel in enumerate(every[:count]):
        if index >= count - columns:
            panel.set_xlabel(labels[0], fontsize=FONT - 1)
        if index % columns == 0:
            panel.set_ylabel(labels[1], fontsize=FONT - 1)
    return list(every[:count])


def _dress(panel: Any, title: str) -> None:
    panel.set_title(title, fontsize=FONT)
    panel.tick_params(labelsize=FONT - 2)
    panel.grid(alpha=0.3)
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)
