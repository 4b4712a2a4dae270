"""The paper's pictures: functions from arrays to a matplotlib figure; nothing global is touched.

Representations are compared as directions: every row is brought to length 1 first, a zero row stays
zero. Where there are more nodes than a picture can show, an equal number of each class is drawn.
"""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, PercentFormatter
from numpy.typing import ArrayLike, NDArray
from sklearn.manifold import TSNE

from erase.errors import EraseError
from erase.seeds import numpy_stream

Embeddings = Mapping[str, ArrayLike]
Points = NDArray[np.float64]
Classes = NDArray[np.int64]

# Okabe and Ito's colours without their yellow, which is too faint on white
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#000000")
MARKERS = ("o", "^", "s", "X", "D", "v", "P", "<", "*", ">")  # 7 × 10: as many classes tell apart

COSINE_NODES = 600
SCATTER_NODES = 1_000
_TSNE_INPUT_WIDTH = 50
_TSNE_ITERATIONS = 500
_TSNE_FEWEST_NODES = 5
_LONGEST_LABEL = 24
_COLUMNS = 3
_FONT = 11.0
_LETTER = 0.08  # inches of a letter of a class name beside a map
_WIDTH = 9.6  # inches


def cosine_map(
    embeddings: Embeddings, y: ArrayLike, class_names: Sequence[str], *, seed: int = 0
) -> Figure:
    """Draw |cos(z_i, z_j)| between nodes sorted by class, one heat map a method.

    Classes that are orthogonal, the optimum of coding rate reduction, give bright blocks on the
    diagonal and darkness elsewhere. The title of a map tells the mean within classes (of different
    nodes) and between them. At most 600 nodes are drawn.

    Args:
        embeddings: [N, D] by method; D may differ.
        y: [N] classes 0 … K−1; nodes with -1 are left out.
        class_names: K names.
        seed: of the choice of nodes.
    """
    labels, directions = _checked(embeddings, y, class_names)
    nodes = sample_nodes(labels, COSINE_NODES, seed)
    shown = labels[nodes]
    ends = np.flatnonzero(np.diff(shown)) + 1  # first node of every class but the first
    edges = np.concatenate([[0], ends, [len(nodes)]])
    present = shown[edges[:-1]] if len(nodes) else shown
    names = [_label(class_names[k]) for k in present]
    # Square maps leave no slack to lay out: what is beside and below them is measured in advance.
    columns = min(max(len(directions), 2), _COLUMNS)
    beside = _LETTER * max(map(len, names), default=0)
    side = (_WIDTH - beside - 0.9) / columns
    figure, panels = _panels(len(directions), ratio=(side + beside + 0.5) / (_WIDTH / columns))
    room = 72 * side / max(len(names), 1)  # points for a name
    size = float(np.clip(0.9 * room, _FONT - 5, _FONT - 2))
    step = ceil(size / room)  # every name, or every second …
    thin = 0.6 if len(names) <= 20 else 0.2
    image = None
    for index, (panel, (method, z)) in enumerate(zip(panels, directions.items(), strict=True)):
        similarity = np.abs(z[nodes] @ z[nodes].T)
        within, between = _block_means(similarity, shown)
        panel.set_title(
            f"{_label(method)}\nwithin classes {within}, between {between}", fontsize=_FONT
        )
        if len(nodes):
            image = panel.imshow(similarity, cmap="viridis", vmin=0, vmax=1, interpolation="none")
        for edge in edges[1:-1]:
            panel.axhline(edge - 0.5, color="white", linewidth=thin)
            panel.axvline(edge - 0.5, color="white", linewidth=thin)
        centres = (edges[:-1] + edges[1:] - 1)[: len(names)][::step] / 2
        shown_names = names[::step]
        panel.set_xticks(centres, shown_names, rotation=90, fontsize=size)
        panel.set_yticks(centres, shown_names if index % columns == 0 else [""] * len(shown_names))
        panel.tick_params(axis="y", labelsize=size)
        panel.tick_params(length=2)
    if image is not None:
        bar = figure.colorbar(image, ax=panels, shrink=0.7, fraction=0.05, pad=0.02)
        bar.set_label("|cosine similarity|", fontsize=_FONT)
    return figure


def pca_map(
    embeddings: Embeddings, y: ArrayLike, class_names: Sequence[str], *, seed: int = 0
) -> Figure:
    """Draw the two principal components of each method's representations, coloured by class.

    The map is linear, so classes on orthogonal lines stay on lines through one point. The axes tell
    their share of the variance. Arguments as for :func:`cosine_map`; at most 1,000 nodes are drawn.
    """
    labels, directions = _checked(embeddings, y, class_names)
    nodes = sample_nodes(labels, SCATTER_NODES, seed)
    maps = {}
    axes = {}
    for method, z in directions.items():
        points, shares = principal_components(z[nodes], 2)
        maps[method] = points
        axes[method] = [f"component {i + 1} ({share:.0%})" for i, share in enumerate(shares)]
    return _scatter(maps, labels[nodes], class_names, axes)


def tsne_map(
    embeddings: Embeddings, y: ArrayLike, class_names: Sequence[str], *, seed: int = 0
) -> Figure:
    """Draw the t-SNE map of each method's representations, coloured by class.

    t-SNE keeps neighbours, not distances. It starts from the principal components, so that one seed
    gives one map. Arguments as for :func:`cosine_map`; at most 1,000 nodes are drawn.
    """
    labels, directions = _checked(embeddings, y, class_names)
    nodes = sample_nodes(labels, SCATTER_NODES, seed)
    maps = {method: _tsne(z[nodes], seed) for method, z in directions.items()}
    return _scatter(maps, labels[nodes], class_names, {method: ["", ""] for method in maps})


def curves(
    histories: Mapping[str, Sequence[Mapping[str, float]]], best_epochs: Mapping[str, int]
) -> Figure:
    """Draw the loss over epochs, a panel a method, and the validation accuracy of all in another.

    Losses of different methods are different quantities: each has its own scale. The epoch the
    predictions come from is marked. Methods without ``val_accuracy`` have no curve in the last
    panel, and without any there is no such panel.

    Args:
        histories: one dict per epoch, by method, with ``loss`` and perhaps ``val_accuracy``;
            ``epoch`` counts from 1.
        best_epochs: the chosen epoch by method.
    """
    validated = {
        method: history
        for method, history in histories.items()
        if any("val_accuracy" in record for record in history)
    }
    count = len(histories) + bool(validated)
    figure, panels = _panels(count, ratio=0.95 if count > 2 else 0.7)
    colours = _method_colours(histories)
    for panel, (method, history) in zip(panels, histories.items(), strict=False):
        panel.plot(*_series(history, "loss"), color=colours[method], linewidth=1.6)
        _dress_curve(panel, f"{_label(method)}: loss")
        if method in best_epochs:
            panel.axvline(best_epochs[method], color="#555555", linestyle="--", linewidth=1)
    if validated:
        panel = panels[len(histories)]
        for method, history in validated.items():
            epochs, accuracy = _series(history, "val_accuracy")
            panel.plot(epochs, accuracy, color=colours[method], linewidth=1.6, label=_label(method))
            best = best_epochs.get(method)
            if best in epochs:
                panel.plot(
                    [best], [accuracy[epochs.index(best)]], "o", color=colours[method], markersize=7
                )
        panel.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        _dress_curve(panel, "validation accuracy")
        panel.legend(fontsize=_FONT - 1, loc="lower right")
    return figure


def accuracy_bars(rows: Mapping[str, Mapping[str, float]]) -> Figure:
    """Draw the test accuracy and the correction rate of every method as bars.

    Args:
        rows: ``test_accuracy`` and ``correction_rate`` in shares of 1, by method; what is missing
            has no bar.
    """
    groups = {
        "test_accuracy": "test nodes\nclassified right",
        "correction_rate": "wrong training\nlabels corrected",
    }
    step = len(rows) + 0.8
    figure = _figure(5, 0.9 + 0.36 * step * len(groups))
    panel = figure.add_subplot()
    colours = _method_colours(rows)
    for index, (method, row) in enumerate(rows.items()):
        places = [group * step + index for group in range(len(groups))]
        values = [float(row.get(key, np.nan)) for key in groups]
        known = np.nan_to_num(values)
        bars = panel.barh(places, known, height=0.85, color=colours[method], label=_label(method))
        texts = ["–" if np.isnan(value) else f"{value:.1%}" for value in values]
        panel.bar_label(bars, texts, padding=4, fontsize=_FONT)
    panel.set_yticks(
        [group * step + (len(rows) - 1) / 2 for group in range(len(groups))],
        list(groups.values()),
        fontsize=_FONT,
    )
    panel.invert_yaxis()
    panel.set_xlim(0, 1.12)
    panel.set_xticks(np.linspace(0, 1, 6))
    panel.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    panel.tick_params(axis="x", labelsize=_FONT - 1)
    panel.tick_params(axis="y", length=0)
    panel.spines[["top", "right", "left"]].set_visible(False)
    if rows:
        figure.legend(loc="outside upper center", ncols=len(rows), fontsize=_FONT, frameon=False)
    return figure


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


def principal_components(z: Points, count: int) -> tuple[Points, Points]:
    """Return the coordinates [n, count] on the first principal axes, and their shares of variance.

    The largest loading of an axis is positive; where there are fewer axes, zeros fill up.
    """
    points, shares = np.zeros((len(z), count)), np.zeros(count)
    if z.size:
        centred = z - z.mean(0)
        left, scale, right = np.linalg.svd(centred, full_matrices=False)
        kept = min(count, len(scale))
        largest = np.abs(right[:kept]).argmax(1)
        sign = np.where(right[np.arange(kept), largest] < 0, -1.0, 1.0)
        points[:, :kept] = left[:, :kept] * scale[:kept] * sign
        shares[:kept] = scale[:kept] ** 2 / max(float((scale**2).sum()), np.finfo(float).tiny)
    return points, shares


def _tsne(z: Points, seed: int) -> Points:
    points, _ = principal_components(z, min(_TSNE_INPUT_WIDTH, z.shape[1]))
    start = principal_components(points, 2)[0]
    if len(z) < _TSNE_FEWEST_NODES:
        return start
    model = TSNE(
        perplexity=min(30.0, (len(z) - 1) / 3),
        init=1e-4 * start / (start[:, 0].std() or 1.0),
        learning_rate="auto",
        max_iter=_TSNE_ITERATIONS,
        random_state=int(numpy_stream(seed, "t-SNE").integers(2**31)),
    )
    return np.asarray(model.fit_transform(points), dtype=np.float64)


def _checked(
    embeddings: Embeddings, y: ArrayLike, class_names: Sequence[str]
) -> tuple[Classes, dict[str, Points]]:
    """Return the classes [N] and the representations with rows of length 1 (or 0)."""
    labels = np.asarray(y, dtype=np.int64)
    if labels.size and labels.max() >= len(class_names):
        raise EraseError(
            f"a name for each of the {labels.max() + 1} classes",
            f"{len(class_names)} names",
            "Pass class_names [K].",
        )
    directions = {}
    for method, given in embeddings.items():
        z = np.asarray(given, dtype=np.float64)
        if z.ndim != 2 or len(z) != len(labels):
            raise EraseError(
                f"representations [N, D] of {len(labels)} nodes for {method}",
                f"shape {list(z.shape)}",
                "Pass what transform() returns, for the same nodes as y.",
            )
        z = z / np.abs(z).max(1, keepdims=True, initial=np.finfo(float).tiny)  # squares stay finite
        length = np.linalg.norm(z, axis=1, keepdims=True)
        directions[method] = np.divide(z, length, out=np.zeros_like(z), where=length > 0)
    return labels, directions


def _block_means(similarity: Points, y: Classes) -> tuple[str, str]:
    """Return the mean over different nodes of one class, and of two classes, as texts."""
    same = y[:, None] == y[None, :]
    other = ~np.eye(len(y), dtype=bool)
    pairs = (similarity[same & other], similarity[~same])
    within, between = (f"{chosen.mean():.2f}" if chosen.size else "–" for chosen in pairs)
    return within, between


def _figure(width: float, height: float) -> Figure:
    layout = ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08)
    return Figure(figsize=(width, height), layout=layout, facecolor="white")


def _panels(count: int, ratio: float, width: float = _WIDTH) -> tuple[Figure, list[Any]]:
    """Return a figure with `count` axes, up to three in a row, `ratio` times as high as wide."""
    columns = min(max(count, 1), _COLUMNS)
    rows = max(ceil(count / columns), 1)
    height = rows * ratio * width / max(columns, 2)  # a single panel is not wider than half
    figure = _figure(width, height)
    grid = figure.add_gridspec(rows, columns)
    return figure, [figure.add_subplot(grid[divmod(i, columns)]) for i in range(count)]


def _scatter(
    maps: Mapping[str, Points],
    y: Classes,
    class_names: Sequence[str],
    axis_names: Mapping[str, list[str]],
) -> Figure:
    names = [_label(name) for name in class_names]
    per_row = max(1, int(115 / (max(map(len, names), default=1) + 4)))
    legend_rows = ceil(len(names) / per_row)
    figure, panels = _panels(len(maps), ratio=0.9)
    figure.set_size_inches(_WIDTH, figure.get_figheight() + 0.24 * legend_rows)
    styles = [
        (COLOURS[k % len(COLOURS)], MARKERS[k // len(COLOURS) % len(MARKERS)])
        for k in range(len(names))
    ]
    for panel, (method, points) in zip(panels, maps.items(), strict=True):
        for k in np.unique(y):
            colour, marker = styles[k]
            panel.scatter(
                *points[y == k].T, s=18, c=colour, marker=marker, alpha=0.75, linewidths=0
            )
        panel.set_title(_label(method), fontsize=_FONT + 1)
        panel.set_xlabel(axis_names[method][0], fontsize=_FONT - 1)
        panel.set_ylabel(axis_names[method][1], fontsize=_FONT - 1)
        panel.set_xticks([])
        panel.set_yticks([])
    handles = [
        Line2D([], [], color=colour, marker=marker, linestyle="none", markersize=6)
        for colour, marker in styles
    ]
    if handles:
        figure.legend(
            handles,
            names,
            loc="outside lower center",
            ncols=per_row,
            fontsize=_FONT - 1,
            frameon=False,
            handletextpad=0.1,
            columnspacing=1.2,
        )
    return figure


def _series(history: Sequence[Mapping[str, float]], key: str) -> tuple[list[float], list[float]]:
    """Return the epochs that have `key`, and its values there."""
    known = [(r.get("epoch", i + 1.0), r[key]) for i, r in enumerate(history) if key in r]
    return [float(epoch) for epoch, _ in known], [float(value) for _, value in known]


def _dress_curve(panel: Any, title: str) -> None:
    panel.set_title(title, fontsize=_FONT)
    panel.set_xlabel("epoch", fontsize=_FONT - 1)
    panel.tick_params(labelsize=_FONT - 2)
    panel.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    panel.yaxis.set_major_locator(MaxNLocator(5))
    panel.grid(alpha=0.3)
    panel.spines[["top", "right"]].set_visible(False)


def _method_colours(methods: Mapping[str, object]) -> dict[str, str]:
    return {method: COLOURS[i * 3 % len(COLOURS)] for i, method in enumerate(methods)}


def _label(name: str) -> str:
    """Return a name as matplotlib shows it literally: no mathematics, no hidden legend entry."""
    short = name if len(name) <= _LONGEST_LABEL else f"{name[:12]}…{name[-11:]}"
    literal = " ".join(short.split()).replace("$", r"\$")
    return f" {literal}" if literal.startswith("_") else literal
