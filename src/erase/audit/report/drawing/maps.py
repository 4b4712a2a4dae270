"""Maps of representations: how alike nodes of one class are, and how different two classes.

Representations are compared as directions: every row is brought to length 1 first, a zero row stays
zero. Where there are more nodes than a picture can show, an equal number of each class is drawn.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure, FigureBase
from matplotlib.lines import Line2D
from numpy.typing import ArrayLike, NDArray

from erase.audit.report.drawing.canvas import (
    COLUMNS,
    FONT,
    WIDTH,
    add_panels,
    label,
    legend_below,
    legend_height,
    new_figure,
    panels_height,
)
from erase.audit.report.palette import COLOURS, MARKERS
from erase.audit.report.projection import (
    Points,
    directions,
    principal_components,
    tsne,
    tsne_input,
)
from erase.errors import EraseError
from erase.random import numpy_stream

Classes = NDArray[np.int64]

COSINE_NODES = 600
SCATTER_NODES = 1_000
PAIR_NODES = 50  # of a class, in a panel of two classes
PAIR_CLASSES = 8
_LETTER = 0.08  # inches of a letter of a class name beside a map
_PAIR_COLUMNS = 6  # few classes do not fill the width
_TITLE = 0.4  # inches


@dataclass(frozen=True)
class Embeddings:
    """Representations of the same nodes, to be compared side by side.

    Attributes:
        z: [N, D] by method; D may differ.
        y: [N] classes 0 … K−1; nodes with -1 are left out.
        class_names: K names.
        title: written above the panels.
        columns: the most panels in a row.
    """

    z: Mapping[str, ArrayLike]
    y: ArrayLike
    class_names: Sequence[str]
    title: str = ""
    columns: int = COLUMNS


@dataclass(frozen=True)
class _Sheet:
    """A part of a picture: the inches it needs, and how it is drawn on a canvas of that height."""

    height: float
    draw: Callable[[FigureBase], None]


def cosine_map(*groups: Embeddings, seed: int = 0) -> Figure:
    """Draw |cos(z_i, z_j)| between nodes sorted by class, one heat map a method.

    Classes that are orthogonal, the optimum of coding rate reduction, give bright blocks on the
    diagonal and darkness elsewhere. The title of a map tells the mean within classes (of different
    nodes) and between them. At most 600 nodes are drawn, 300
    with three maps in a row.

    Args:
        groups: of nodes; one stands below the other.
        seed: of the choice of nodes.
    """
    return _stacked(groups, lambda group: _cosine(group, seed))


def pca_map(*groups: Embeddings, seed: int = 0) -> Figure:
    """Draw the two principal components of each method's representations, coloured by class.

    The map is linear, so classes on orthogonal lines stay on lines through one point. The axes tell
    their share of the variance. Arguments as for :func:`cosine_map`; at most 1,000 nodes are drawn.
    """

    def plane(z: Points) -> tuple[Points, list[str]]:
        points, shares = principal_components(z, 2)
        return points, [f"component {i + 1} ({share:.0%})" for i, share in enumerate(shares)]

    return _stacked(groups, lambda group: _scatter(group, seed, plane))


def tsne_map(*groups: Embeddings, seed: int = 0) -> Figure:
    """Draw the t-SNE map of each method's representations, coloured by class.

    t-SNE keeps neighbours, not distances. It starts from the principal components, so that one seed
    gives one map. Arguments as for :func:`cosine_map`; at most 1,000 nodes are drawn.
    """

    def plane(z: Points) -> tuple[Points, list[str]]:
        return tsne(tsne_input(z), seed), ["", ""]

    return _stacked(groups, lambda group: _scatter(group, seed, plane))


def pairwise_pca_map(*groups: Embeddings, seed: int = 0) -> Figure:
    """Draw every two classes on their own two principal components: a matrix of panels.

    Of the two methods of a group, the first is below the diagonal and the second above it. Both
    axes of a panel have one scale, so that a right angle is a right angle. Arguments as for
    :func:`cosine_map`; the first 8 classes are drawn, at most 50 nodes of each.
    """
    return _stacked(groups, lambda group: _pairs(group, seed))


def _stacked(groups: Sequence[Embeddings], sheet_of: Callable[[Embeddings], _Sheet]) -> Figure:
    """Return the sheets of all groups, one below the other, with their titles."""
    sheets = [sheet_of(group) for group in groups]
    heights = [
        sheet.height + _TITLE * bool(group.title)
        for sheet, group in zip(sheets, groups, strict=True)
    ]
    figure = new_figure(WIDTH, sum(heights))
    canvases: Any = (
        figure.subfigures(len(sheets), 1, height_ratios=heights) if len(sheets) > 1 else [figure]
    )
    for canvas, sheet, group in zip(canvases, sheets, groups, strict=True):
        sheet.draw(canvas)
        if group.title:
            canvas.suptitle(label(group.title, longest=80), fontsize=FONT + 2)
    return figure


def _cosine(group: Embeddings, seed: int) -> _Sheet:
    labels, unit = _checked(group)
    columns = min(max(len(unit), 2), group.columns)
    # one of many maps has half as many nodes: a single pixel cannot be compressed
    few = len(unit) <= 2
    nodes = sample_nodes(labels, COSINE_NODES if few else COSINE_NODES // 2, seed)
    shown = labels[nodes]
    ends = np.flatnonzero(np.diff(shown)) + 1  # first node of every class but the first
    edges = np.concatenate([[0], ends, [len(nodes)]])
    present = shown[edges[:-1]] if len(nodes) else shown
    names = [label(group.class_names[k]) for k in present]
    # Square maps leave no slack to lay out: what is beside and below them is measured in advance.
    beside = _LETTER * max(map(len, names), default=0)
    side = (WIDTH - beside - 0.9) / columns
    space = 72 * side / max(len(names), 1)  # points for a name
    size = float(np.clip(0.9 * space, FONT - 5, FONT - 2))
    step = ceil(size / space)  # every name, or every second …
    thin = 0.6 if len(names) <= 20 else 0.2
    shades = matplotlib.colormaps["viridis"].resampled(64)  # as many as one sees; small files

    def draw(canvas: FigureBase) -> None:
        image = None
        panels = add_panels(canvas, len(unit), group.columns)
        for index, (panel, (method, z)) in enumerate(zip(panels, unit.items(), strict=True)):
            similarity = np.abs(z[nodes] @ z[nodes].T)
            within, between = _block_means(similarity, shown)
            panel.set_title(
                f"{label(method)}\nwithin classes {within}, between {between}",
                fontsize=min(FONT, 3.8 * side),
            )
            if len(nodes):
                image = panel.imshow(similarity, cmap=shades, vmin=0, vmax=1, interpolation="none")
            for edge in edges[1:-1]:
                panel.axhline(edge - 0.5, color="white", linewidth=thin)
                panel.axvline(edge - 0.5, color="white", linewidth=thin)
            centres = (edges[:-1] + edges[1:] - 1)[: len(names)][::step] / 2
            shown_names = names[::step]
            nothing = [""] * len(shown_names)
            is_last = index + columns >= len(unit)
            panel.set_xticks(centres, shown_names if is_last else nothing, rotation=90)
            panel.set_yticks(centres, shown_names if index % columns == 0 else nothing)
            panel.tick_params(axis="x", labelsize=size)
            panel.tick_params(axis="y", labelsize=size)
            panel.tick_params(length=2)
        if image is not None:
            bar = canvas.colorbar(image, ax=panels, shrink=0.7, fraction=0.05, pad=0.02)
            bar.set_label("|cosine similarity|", fontsize=FONT)

    rows = max(ceil(len(unit) / columns), 1)
    names_below = 1 if len(unit) % columns == 0 else min(rows, 2)
    return _Sheet(rows * (side + 0.5) + names_below * beside, draw)


def _scatter(
    group: Embeddings, seed: int, plane: Callable[[Points], tuple[Points, list[str]]]
) -> _Sheet:
    """Return a panel a method, with what `plane` makes of its nodes [n, D]: [n, 2], axis names."""
    labels, unit = _checked(group)
    nodes = sample_nodes(labels, SCATTER_NODES, seed)
    y = labels[nodes]
    names = [label(name) for name in group.class_names]
    styles = _class_styles(len(names))
    maps = {method: plane(z[nodes]) for method, z in unit.items()}

    def draw(canvas: FigureBase) -> None:
        panels = add_panels(canvas, len(maps), group.columns)
        for panel, (method, (points, axes)) in zip(panels, maps.items(), strict=True):
            for k in np.unique(y):
                colour, marker = styles[k]
                panel.scatter(
                    *points[y == k].T, s=18, c=colour, marker=marker, alpha=0.75, linewidths=0
                )
            panel.set_title(label(method), fontsize=FONT + 1)
            panel.set_xlabel(axes[0], fontsize=FONT - 1)
            panel.set_ylabel(axes[1], fontsize=FONT - 1)
            panel.set_xticks([])
            panel.set_yticks([])
        legend_below(canvas, _class_handles(styles), names)

    height = panels_height(len(maps), 0.9, group.columns) + legend_height(names)
    return _Sheet(height, draw)


def _pairs(group: Embeddings, seed: int) -> _Sheet:
    labels, unit = _checked(group)
    if len(unit) != 2:
        raise EraseError("two methods to compare", f"{len(unit)}", "Choose one for each side.")
    kept = np.where(labels < PAIR_CLASSES, labels, -1)
    count = min(len(group.class_names), PAIR_CLASSES)
    nodes = sample_nodes(kept, count * PAIR_NODES, seed)
    nodes = np.concatenate(
        [nodes[labels[nodes] == k][:PAIR_NODES] for k in range(count)] or [nodes]
    )
    styles = _class_styles(count)
    (below, z_below), (above, z_above) = unit.items()
    columns = max(count, _PAIR_COLUMNS)

    def draw(canvas: FigureBase) -> None:
        grid = canvas.add_gridspec(count, columns)
        for row, column in np.ndindex(count, count):
            panel: Any = canvas.add_subplot(grid[row, column])
            panel.set_xticks([])
            panel.set_yticks([])
            if row == column:
                panel.set_axis_off()
                name = label(group.class_names[row]).replace(" ", "\n")
                text = panel.text(0.5, 0.45, name, ha="center", va="top", fontsize=FONT - 2)
                text.set_in_layout(False)  # a long name does not widen its column
                panel.plot([0.5], [0.6], styles[row][1], color=styles[row][0], markersize=7)
                panel.set(xlim=(0, 1), ylim=(0, 1))
                continue
            z = z_above if row < column else z_below
            pair = nodes[np.isin(labels[nodes], (row, column))]
            points, _ = principal_components(z[pair], 2)
            for k in (row, column):
                colour, marker = styles[k]
                of_class = points[labels[pair] == k]
                panel.scatter(*of_class.T, s=9, c=colour, marker=marker, alpha=0.75, linewidths=0)
            panel.set_aspect("equal", adjustable="datalim")
            panel.set_label(f"{below if row > column else above}: {row}, {column}")
        canvas.supxlabel(
            f"above the diagonal: {label(above)}; below: {label(below)}", fontsize=FONT
        )

    return _Sheet(WIDTH / columns * count + 0.4, draw)


def _class_styles(count: int) -> list[tuple[str, str]]:
    """Return a colour and a marker for each class; 7 and 10 have no common divisor: 70 pairs."""
    return [(COLOURS[k % len(COLOURS)], MARKERS[k % len(MARKERS)]) for k in range(count)]


def _class_handles(styles: Sequence[tuple[str, str]]) -> list[Any]:
    return [
        Line2D([], [], color=colour, marker=marker, linestyle="none", markersize=6)
        for colour, marker in styles
    ]


def sample_nodes(y: Classes, limit: int, seed: int) -> Classes:
    """Return up to `limit` labelled nodes by class and number, as many of each class as can be.

    >>> sample_nodes(np.array([1, 0, -1, 1]), 10, seed=0).tolist()
    [1, 0, 3]
    """
    order = numpy_stream(seed, "picture nodes").permutation(np.flatnonzero(y >= 0))
    order = order[np.argsort(y[order], kind="stable")]
    sizes = np.bincount(y[order])
    turn = np.arange(len(order)) - np.repeat(sizes.cumsum() - sizes, sizes)  # rank in its class
    chosen = np.sort(order[np.argsort(turn, kind="stable")[:limit]])
    by_class: Classes = chosen[np.argsort(y[chosen], kind="stable")]
    return by_class


def _checked(group: Embeddings) -> tuple[Classes, dict[str, Points]]:
    """Return the classes [N] and the representations with rows of length 1 (or 0)."""
    labels = np.asarray(group.y, dtype=np.int64)
    if labels.size and labels.max() >= len(group.class_names):
        raise EraseError(
            f"a name for each of the {labels.max() + 1} classes",
            f"{len(group.class_names)} names",
            "Pass class_names [K].",
        )
    unit = {}
    for method, given in group.z.items():
        z = np.asarray(given, dtype=np.float64)
        if z.ndim != 2 or len(z) != len(labels):
            raise EraseError(
                f"representations [N, D] of {len(labels)} nodes for {method}",
                f"shape {list(z.shape)}",
                "Pass what transform() returns, for the same nodes as y.",
            )
        unit[method] = directions(z)
    return labels, unit


def _block_means(similarity: Points, y: Classes) -> tuple[str, str]:
    """Return the mean over different nodes of one class, and of two classes, as texts."""
    same = y[:, None] == y[None, :]
    other = ~np.eye(len(y), dtype=bool)
    pairs = (similarity[same & other], similarity[~same])
    within, between = (f"{chosen.mean():.2f}" if chosen.size else "–" for chosen in pairs)
    return within, between
