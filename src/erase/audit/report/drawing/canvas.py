"""What all figures share: sizes, panels, legends, literal names, and reproducible files."""

import io
from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import Any, Literal

import matplotlib
import numpy as np
from matplotlib.figure import Figure, FigureBase
from matplotlib.layout_engine import ConstrainedLayoutEngine

from erase.audit.report.palette import GREY
from erase.data.files import StrPath, atomic_write
from erase.errors import EraseError

FONT = 11.0
WIDTH = 9.6  # inches
COLUMNS = 3
_DPI = 144


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of this size in inches."""
    layout = ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08)
    return Figure(figsize=(width, height), layout=layout, facecolor="white")


def panels_height(count: int, ratio: float, columns: int = COLUMNS) -> float:
    """Return the inches that `count` panels need, up to `columns` in a row, `ratio` times as high
    as wide.
    """
    columns = min(max(count, 1), columns)
    rows = max(ceil(count / columns), 1)
    return rows * ratio * WIDTH / max(columns, 2)  # a single panel is not wider than half


def add_panels(canvas: FigureBase, count: int, columns: int = COLUMNS) -> list[Any]:
    """Return `count` new axes on `canvas`, up to `columns` in a row."""
    columns = min(max(count, 1), columns)
    grid = canvas.add_gridspec(max(ceil(count / columns), 1), columns)
    return [canvas.add_subplot(grid[divmod(i, columns)]) for i in range(count)]


def label(name: str, longest: int = 24) -> str:
    """Return a name as matplotlib shows it literally: no mathematics, no hidden legend entry."""
    short = name if len(name) <= longest else f"{name[: longest // 2]}…{name[1 - longest // 2 :]}"
    literal = " ".join(short.split()).replace("$", r"\$")
    return f" {literal}" if literal.startswith("_") else literal


def legend_below(
    canvas: FigureBase,
    handles: Sequence[Any],
    names: Sequence[str],
    note: str = "",
    width: float = WIDTH,
) -> None:
    """Write a note and a legend under everything, in as many columns as fit into the width."""
    if handles:
        legend = canvas.legend(
            handles,
            names,
            title=note or None,
            title_fontsize=FONT - 2,
            loc="outside lower center",
            ncols=_legend_columns(names, width),
            fontsize=FONT - 1,
            frameon=False,
            handletextpad=0.4,
            columnspacing=1.2,
        )
        legend.get_title().set_color(GREY)
        legend.get_title().set_multialignment("center")


def legend_height(names: Sequence[str], note: str = "", width: float = WIDTH) -> float:
    """Return the inches that `legend_below` takes."""
    lines = len(note.splitlines()) + ceil(len(names) / _legend_columns(names, width))
    return 0.24 * lines


def _legend_columns(names: Sequence[str], width: float) -> int:
    """Return the columns of the fewest rows that fit into `width` inches."""
    letters = [len(name) + 7 for name in names]  # a handle and its gaps are as wide as seven
    for rows in range(1, len(names)):
        columns = ceil(len(names) / rows)
        whole, more = divmod(len(names), columns)  # matplotlib fills `more` columns with one more
        ends = np.cumsum([whole + (i < more) for i in range(columns)]).tolist()
        widest = [max(letters[a:b]) for a, b in zip([0, *ends], ends, strict=False)]
        if sum(widest) <= 11.5 * width:
            return columns
    return 1


def picture_kind(path: StrPath) -> Literal["svg", "png"]:
    """Return the kind of file by its ending; any other than these raises an EraseError."""
    match Path(path).suffix.lower():
        case ".svg":
            return "svg"
        case ".png":
            return "png"
    raise EraseError("a file that ends in .svg or .png", str(path), "Name one of these.")


def picture_bytes(figure: Figure, kind: Literal["svg", "png"]) -> bytes:
    """Return the figure's file; the same figure gives the same bytes, with no date inside."""
    buffer = io.BytesIO()
    if kind == "svg":
        with matplotlib.rc_context({"svg.hashsalt": "erase"}):
            figure.savefig(buffer, format="svg", metadata={"Date": None})
    else:
        figure.savefig(buffer, format="png", dpi=_DPI)
    return buffer.getvalue()


def save_picture(figure: Figure, path: StrPath) -> None:
    """Write the figure to a ``.svg`` or ``.png`` file, whole or not at all."""
    content = picture_bytes(figure, picture_kind(path))
    with atomic_write(path, "wb") as file:
        file.write(content)
