"""FIGURES: the paper's figures, each drawn from records, with the published values beside ours."""

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from erase.audit.report.drawing import (
    COLOURS,
    GREY,
    Bar,
    Embeddings,
    Line,
    Look,
    bars,
    cosine_map,
    dots,
    lines,
    pairwise_pca_map,
    pca_map,
    radar,
    tsne_map,
)
from erase.bench.frame import (
    Runs,
    Wanted,
    changes_to_preset,
    find_runs,
    has_usual_settings,
    preset_of,
    run_frame,
    with_the_runs_of_variants,
)
from erase.bench.names import (
    METHOD_NAMES,
    PAPER_METHODS,
    REVIEW_NAMES,
    dataset_label,
    noise_place,
)
from erase.bench.published import Value, published
from erase.bench.records import Cell, Record, read
from erase.bench.review import REVIEWED, REVIEWER_ERRORS
from erase.bench.run import PROTOCOLS
from erase.bench.runner import arrays_path
from erase.bench.studies import (
    BOTH,
    NEAREST_TO_PRINT,
    RATES,
    REVIEW_ERRORS,
    REVIEW_STEPS,
    STUDIES,
)
from erase.data.datasets.public import CITESEER_CLASSES, CORA_CLASSES, PUBMED_CLASSES
from erase.data.files import read_npz
from erase.display import count_of
from erase.errors import EraseError

T = TypeVar("T")
K = TypeVar("K")

HEAVIEST = RATES[-1]
RIVALS = tuple(method for method in PAPER_METHODS if method != "erase")
_PAIRWISE_RATE = 0.3
_PAPER_ORDER = ("cora", "citeseer", "pubmed", "corafull", "ogbn-arxiv")
_MOST_CLASSES = 10_000  # of a file of representations
_CLASS_NAMES = {"cora": CORA_CLASSES, "citeseer": CITESEER_CLASSES, "pubmed": PUBMED_CLASSES}

_LOOKS = {
    "erase": Look(COLOURS[0], "o"),
    "ce": Look(COLOURS[6], "^", strong=False),
    "apl": Look(COLOURS[2], "s", strong=False),
    "gce": Look(COLOURS[1], "X", strong=False),
    "codis": Look(COLOURS[4], "D", strong=False),
    "mcr2": Look(COLOURS[3], "v", strong=False),
    "rtgnn": Look(COLOURS[5], "P", strong=False),
    "pignn": Look(GREY, "<", strong=False),
}
_SEMANTIC_LOOK = Look(COLOURS[1], "^")
_DATASET_LOOKS = [Look(colour, marker) for colour, marker in zip(COLOURS, "o^sXDvP", strict=True)]
_RATE_LOOKS = {
    0.5: Look(COLOURS[0], "o"),
    0.4: Look("#4D4D4D", "v", strong=False),
    0.3: Look("#737373", "D", strong=False),
    0.2: Look("#969696", "s", strong=False),
    0.1: Look("#B0B0B0", "^", strong=False),
}


@dataclass(frozen=True)
class Summary:
    """Mean and standard error s/√n of `runs` values in shares of 1; the error of one run is 0."""

    mean: float
    error: float
    runs: int

    @classmethod
    def of(cls, runs: Runs) -> "Summary | None":
        """Return the summary of a row's runs; None where there is none."""
        values = np.array([runs[run] for run in sorted(runs)], dtype=np.float64)
        if not values.size:
            return None
        error = values.std(ddof=1) / np.sqrt(values.size) if values.size > 1 else 0.0
        return cls(float(values.mean()), float(error), values.size)


class RecordIndex:
    """The finished runs that a figure is drawn from.

    Args:
        records: of two of the same cell the later one counts; those with an error are left out.
        protocol: a name in ``PROTOCOLS``; None: any.
        paths: of the files they come from, beside which their arrays lie.
    """

    def __init__(
        self, records: Iterable[Record], protocol: str | None, paths: Sequence[Path] = ()
    ) -> None:
        self.protocol = protocol
        self.paths = paths
        kept = {
            record.cell: record
            for record in records
            if record.error is None and protocol in (None, record.cell.protocol)
        }
        self.cells = list(kept)
        self.runs = run_frame(kept.values())

    def find(self, wanted: Mapping[K, Wanted]) -> dict[K, Runs]:
        """Return the runs of each point by its key, see `find_runs`."""
        return dict(zip(wanted, find_runs(self.runs, list(wanted.values())), strict=True))

    def summaries(self, wanted: Mapping[K, Wanted]) -> dict[K, "Summary | None"]:
        """Return the mean over the runs of each point by its key; None where there is no run."""
        return {key: Summary.of(runs) for key, runs in self.find(wanted).items()}

    def datasets(self, method: str = "erase") -> list[str]:
        """Return the datasets that a method was run on, the paper's first and in its order."""
        return _ordered(cell.dataset for cell in self.cells if cell.method == method)

    def arrays(self, cell: Cell) -> dict[str, NDArray[Any]] | None:
        """Return what a study kept of a run: z [n, D], y [n], nodes [n]; None without a file."""
        for records in self.paths:
            path = arrays_path(records, cell)
            if path.is_file():
                return _checked_arrays(read_npz(path), path)
        return None


def _checked_arrays(arrays: dict[str, NDArray[Any]], path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of a run if they are z [n, D], y [n] and nodes [n]."""
    kinds = {"z": (2, "f"), "y": (1, "iu"), "nodes": (1, "iu")}
    found = {name: arrays[name] for name in kinds if name in arrays}
    is_whole = (
        len(found) == len(kinds)
        and all(found[k].ndim == d and found[k].dtype.kind in t for k, (d, t) in kinds.items())
        and len({len(array) for array in found.values()}) == 1
        and bool(np.isfinite(found["z"]).all())
        and bool(((found["y"] >= 0) & (found["y"] < _MOST_CLASSES)).all())
    )
    if not is_whole:
        raise EraseError(
            "the representations of a run: z [n, D], y [n] and nodes [n]",
            f"something else in {path.name!r}",
            "Run `erase bench pictures` into a new file.",
        )
    return found


@dataclass(frozen=True)
class Picture:
    """A figure of the paper.

    Attributes:
        summary: one sentence.
        study: whose records it needs; "paper" is "honest" under that protocol.
        draw: draws the figure from the records, or returns None where none are for it.
        any_protocol: whether the protocol of the records does not matter.
    """

    summary: str
    study: str
    draw: Callable[[RecordIndex], Figure | None]
    any_protocol: bool = False


def draw_figure(name: str, paths: Sequence[str | PathLike[str]], protocol: str = "paper") -> Figure:
    """Return a figure by its name in `FIGURES` from files of records.

    Arrays are looked for in the folder ``STEM-arrays`` beside each file ``STEM.jsonl``.
    """
    if name not in FIGURES:
        raise EraseError(
            f"a figure among {', '.join(FIGURES)}", repr(name), "See `erase list figures`."
        )
    picture = FIGURES[name]
    files = [Path(path) for path in paths]
    records = [record for path in files for record in read(path)]
    index = RecordIndex(records, None if picture.any_protocol else protocol, files)
    figure = picture.draw(index)
    if figure is None:
        study = protocol if picture.study == "paper" else picture.study
        under = "" if picture.any_protocol else f" under protocol {protocol}"
        planned = {cell.protocol for cell in STUDIES[study].cells()}
        if not picture.any_protocol and protocol not in planned:
            raise EraseError(
                f"protocol {', '.join(planned)} for figure {name}", protocol, "Choose that."
            )
        raise EraseError(
            f"enough finished records of study {study}{under}"
            + (", and the arrays beside them" if STUDIES[study].keep_embeddings else "")
            + f", for figure {name}: {_contents(STUDIES[study].cells())}",
            f"{count_of(len(index.cells), 'such record')}: {_contents(index.cells)}"
            if index.cells
            else f"none among {count_of(len(records), 'record')}",
            f"Run `erase bench {study}` to its end and name the file it writes, with what lies "
            "beside it.",
        )
    return figure


def _contents(cells: Iterable[Cell]) -> str:
    """Return which methods, datasets and noises there are."""
    found = list(cells)
    kinds = [[c.method for c in found], [c.dataset for c in found], [c.noise for c in found]]
    methods, datasets, noises = (", ".join(dict.fromkeys(kind)) for kind in kinds)
    return f"{methods} on {datasets} with noise {noises}"


def _ordered(datasets: Iterable[str]) -> list[str]:
    """Return datasets once each, the paper's first and in its order."""
    found = set(datasets)
    return [d for d in _PAPER_ORDER if d in found] + sorted(found - set(_PAPER_ORDER))


def _published(table: str, dataset: str, row: str, noise: str, rate: float) -> Value | None:
    return published()[table].get(dataset, row, noise_place(noise, rate))


def _main(dataset: str, method: str, noise: str, rate: float) -> Value | None:
    table = "arxiv" if dataset == "ogbn-arxiv" else "main"
    return _published(table, dataset, method, noise, rate)


def _by_dataset(
    datasets: Iterable[str], series: Callable[[str, str], list[T]]
) -> dict[str, dict[str, list[T]]]:
    """Return the series of every dataset and noise, without datasets that have none."""
    found = {d: {noise: series(d, noise) for noise in BOTH} for d in _ordered(datasets)}
    return {dataset: rows for dataset, rows in found.items() if any(rows.values())}


def _panels(
    datasets: Iterable[str], series: Callable[[str, str], list[Line]]
) -> dict[str, list[Line]]:
    """Return the lines by title: a row of panels for each dataset, a column for each noise."""
    rows = _by_dataset(datasets, series)
    return {_title(d, noise): found for d in rows for noise, found in rows[d].items()}


def _title(dataset: str, noise: str) -> str:
    return f"{dataset_label(dataset)}, {noise}"


def _line(
    name: str, look: Look, points: Mapping[float, Summary | None], runs: list[int]
) -> Line | None:
    """Return means and standard errors over x, None without any; add to `runs` what they are of."""
    known = {x: summary for x, summary in points.items() if summary is not None}
    if not known:
        return None
    runs.extend(summary.runs for summary in known.values())
    means, errors = [s.mean for s in known.values()], [s.error for s in known.values()]
    return Line(name, list(known), means, look, errors)


def _published_line(name: str, look: Look, points: Mapping[float, Value | None]) -> Line | None:
    known = {x: value.mean / 100 for x, value in points.items() if value is not None}
    return Line(name, list(known), list(known.values()), look.published) if known else None


def _present(*series: Line | None) -> list[Line]:
    return [line for line in series if line is not None]


def _note(
    index: RecordIndex,
    runs: Sequence[int],
    what: str = "mean ± standard error of",
    published_as: str = "Dashed",
) -> str:
    """Return what the values are means of, and how their labels came about."""
    few, many = min(runs), max(runs)
    count = f"{many} run{'s' if many > 1 else ''}" if few == many else f"{few} to {many} runs"
    rule = PROTOCOLS[index.protocol or "paper"]
    ours = f"{what} {count}; {index.protocol} protocol: noise {rule.noise}, validation labels"
    theirs = f". {published_as}: the paper, noise fixed, validation labels clean"
    return f"{ours} {rule.validation}{theirs if published_as else ''}"


# Methods against each other -----------------------------------------------------------------------


def _accuracies(
    index: RecordIndex, datasets: Iterable[str], rates: Iterable[float]
) -> dict[tuple[str, str, float, str], Summary | None]:
    """Return the test accuracy of the paper's methods by dataset, noise, rate and method."""
    keys = product(datasets, BOTH, rates, ("erase", *RIVALS))
    return index.summaries(
        {key: Wanted("test_accuracy", *key, NEAREST_TO_PRINT.get(key[-1], {})) for key in keys}
    )


def _radar(index: RecordIndex) -> Figure | None:
    found = _accuracies(index, index.datasets(), [HEAVIEST])
    spokes = [
        (dataset, noise)
        for dataset, noise in product(index.datasets(), BOTH)
        if found[dataset, noise, HEAVIEST, "erase"] is not None
    ]
    if not spokes:
        return None
    runs: list[int] = []
    series: list[Line | None] = []
    for method in ("erase", *RIVALS):
        points = {float(i): found[*spoke, HEAVIEST, method] for i, spoke in enumerate(spokes)}
        series.append(_line(METHOD_NAMES[method], _LOOKS[method], points, runs))
    reference = {float(i): _main(d, "erase", n, HEAVIEST) for i, (d, n) in enumerate(spokes)}
    series.append(_published_line("ERASE, published", _LOOKS["erase"], reference))
    names = [f"{dataset_label(dataset)}\n{noise}" for dataset, noise in spokes]
    heading = f"test accuracy with {HEAVIEST:.0%} noise; mean of"
    return radar(_present(*series), names, note=_wrapped(_note(index, runs, heading), 90))


def _gains(index: RecordIndex) -> Figure | None:
    runs: list[int] = []
    accuracies = _accuracies(index, index.datasets(), RATES)

    def bar(dataset: str, noise: str, rate: float) -> Bar | None:
        ours = accuracies[dataset, noise, rate, "erase"]
        theirs = {method: accuracies[dataset, noise, rate, method] for method in RIVALS}
        found = {method: summary for method, summary in theirs.items() if summary is not None}
        if ours is None or not found:
            return None
        best = max(found, key=lambda method: found[method].mean)
        runs.extend([ours.runs, found[best].runs])
        gain = 100 * (ours.mean - found[best].mean)
        error = 100 * float(np.hypot(ours.error, found[best].error))
        reference = _published_gain(dataset, noise, rate)
        return Bar(f"{rate:g}", gain, error, reference, METHOD_NAMES[best])

    def row(dataset: str, noise: str) -> list[Bar]:
        return [found for rate in RATES if (found := bar(dataset, noise, rate)) is not None]

    rows = _by_dataset(index.datasets(), row)
    if not rows:
        return None
    panels = {_title(dataset, noise): rows[dataset][noise] for noise in BOTH for dataset in rows}
    what = "below a rate: the best rival. Bars: difference of means of"
    return bars(
        panels,
        x_label="noise rate φ",
        y_label="ERASE − best rival (points)",
        columns=len(rows),
        note=_wrapped(_note(index, runs, what, published_as="Diamonds"), 130),
    )


def _published_gain(dataset: str, noise: str, rate: float) -> float | None:
    erase = _main(dataset, "erase", noise, rate)
    others = [_main(dataset, method, noise, rate) for method in RIVALS]
    means = [value.mean for value in others if value is not None]
    return None if erase is None or not means else erase.mean - max(means)


def _train_size(index: RecordIndex) -> Figure | None:
    cells = [c for c in index.cells if c.labels_per_class is not None and has_usual_settings(c)]
    sizes = sorted({c.labels_per_class for c in cells if c.labels_per_class is not None})
    places = sorted({(c.dataset, c.noise, c.rate) for c in cells})
    keys = product(places, ("erase", *RIVALS), sizes)
    found = index.summaries(
        {
            (place, method, size): Wanted("test_accuracy", *place, method, {}, size)
            for place, method, size in keys
        }
    )
    runs: list[int] = []
    panels = {}
    for dataset in _ordered(c.dataset for c in cells):
        for place in (place for place in places if place[0] == dataset):
            series: list[Line | None] = []
            for method in ("erase", *RIVALS):
                points = {float(size): found[place, method, size] for size in sizes}
                series.append(_line(METHOD_NAMES[method], _LOOKS[method], points, runs))
            _, noise, rate = place
            panels[f"{_title(dataset, noise)} φ = {rate:g}"] = _present(*series)
    if not any(panels.values()):
        return None
    note = _note(index, runs, published_as="")
    return lines(panels, x_label="training labels per class", y_label="test accuracy", note=note)


def _review(index: RecordIndex) -> Figure | None:
    """Draw the accuracy after a number of reviewed labels, the mean over the graphs."""
    (plan,) = STUDIES["review"].grids
    (noise,), (rate,) = plan.noises, plan.rates
    found = index.summaries(
        {
            (dataset, method, errors, count): Wanted(
                "accuracy", dataset, noise, rate, method, {REVIEWED: count, REVIEWER_ERRORS: errors}
            )
            for dataset, method, errors, count in product(
                plan.datasets, REVIEW_NAMES, REVIEW_ERRORS, REVIEW_STEPS
            )
        }
    )
    panels: dict[str, list[Line]] = {}
    runs: list[int] = []
    for errors in REVIEW_ERRORS:
        series = []
        for number, (method, name) in enumerate(REVIEW_NAMES.items()):
            points = {}
            for count in REVIEW_STEPS:
                graphs = [found[dataset, method, errors, count] for dataset in plan.datasets]
                known = [summary for summary in graphs if summary is not None]
                if len(known) == len(graphs):
                    points[float(count)] = float(np.mean([summary.mean for summary in known]))
                    runs.extend(summary.runs for summary in known)
            if points:
                look = Look([*COLOURS, GREY][number], "o^sXDvP"[number], strong=number == 0)
                series.append(Line(name, list(points), list(points.values()), look))
        panels[f"{errors:.0%} of the answers are wrong"] = series
    if not runs:
        return None
    names = ", ".join(map(dataset_label, plan.datasets))
    note = f"Mean over {names}; {min(runs)} draws of {noise} noise at {rate:.0%} on each"
    return lines(
        panels,
        x_label="reviewed labels",
        y_label="accuracy over all nodes",
        note=_wrapped(note, 90),
    )


def _time(index: RecordIndex) -> Figure | None:
    runs = index.runs
    settings = runs["method"].map(lambda name: frozenset(NEAREST_TO_PRINT.get(name, {}).items()))
    timed = runs[
        runs["ms_per_epoch"].notna()
        & runs["method"].isin(list(METHOD_NAMES))
        & runs["labels_per_class"].isna()
        & (runs["changes"] == settings)
    ]
    if timed.empty:
        return None
    keys = timed[["machine", "method", "dataset"]].drop_duplicates().itertuples(index=False)
    found = index.find(
        {
            (machine, method, dataset): Wanted(
                "ms_per_epoch",
                dataset,
                "any",
                None,
                method,
                NEAREST_TO_PRINT.get(method, {}),
                machine=machine,
            )
            for machine, method, dataset in keys
        }
    )
    panels: dict[str, dict[str, dict[str, float]]] = {
        machine: {} for machine in sorted(set(timed["machine"]))
    }
    for (machine, method, dataset), times in found.items():
        row = panels[machine].setdefault(METHOD_NAMES[method], {})
        row[dataset_label(dataset)] = float(np.median(list(times.values())))
    reference = published()["time"].values
    panels["published: RTX 3090"] = {
        METHOD_NAMES[method]: {dataset_label(dataset): values["any"].mean}
        for dataset, by_method in reference.items()
        for method, values in by_method.items()
    }
    names = {name for methods in panels.values() for row in methods.values() for name in row}
    shown = [dataset_label(d) for d in _PAPER_ORDER if dataset_label(d) in names]
    looks = dict(zip([*shown, *sorted(names - set(shown))], _DATASET_LOOKS, strict=False))
    batches = timed["batch"].fillna(1).astype(int)
    few, many = batches.min(), batches.max()
    together = f"{few} to {many}" if few < many else f"{many}"
    share = "" if many == 1 else f", {together} trained together, each its share"
    note = f"median over runs{share}. Ours with selection, published: forward and backward"
    rows = [
        name for name in METHOD_NAMES.values() if any(name in table for table in panels.values())
    ]
    return dots(panels, rows, looks, x_label="milliseconds per epoch", note=note)


# ERASE by its parameters --------------------------------------------------------------------------


def _sweep(table: str, parameter: str, x_label: str) -> Callable[[RecordIndex], Figure | None]:
    """Return the figure of test accuracy over a parameter: φ = 0.5 strong, the rest light."""

    def draw(index: RecordIndex) -> Figure | None:
        cells = [c for c in index.cells if c.method == "erase" and parameter in c.params]
        runs: list[int] = []

        def series(dataset: str, noise: str) -> list[Line]:
            named = {c.params[parameter] for c in cells if c.dataset == dataset}
            values = sorted({*named, preset_of("erase", dataset)[parameter]})
            changes = [changes_to_preset("erase", dataset, {parameter: v}) for v in values]
            tried = index.find(
                {
                    (rate, v): Wanted(
                        "test_accuracy", dataset, noise, rate, "erase", {parameter: v}
                    )
                    for rate, v in product(_RATE_LOOKS, values)
                }
            )
            found = []
            for rate, look in _RATE_LOOKS.items():
                same = with_the_runs_of_variants([tried[rate, v] for v in values], changes)
                points = dict(zip(values, map(Summary.of, same), strict=True))
                ours = _line(f"φ = {rate:g}", look, points, runs)
                reference = None
                if ours is not None and rate == HEAVIEST:
                    printed = {
                        float(row): _published(table, dataset, row, noise, rate)
                        for row in published()[table].values.get(dataset, {})
                    }
                    reference = _published_line(f"φ = {rate:g}, published", look, printed)
                found += _present(ours, reference)
            return found

        panels = _panels((c.dataset for c in cells), series)
        if not panels:
            return None
        return lines(panels, x_label=x_label, y_label="test accuracy", note=_note(index, runs))

    return draw


def _guidance(index: RecordIndex) -> Figure | None:
    runs: list[int] = []
    kinds = {
        "erase": ("ERASE", "test_accuracy", _LOOKS["erase"]),
        "semantic": ("semantic labels", "semantic_accuracy", _SEMANTIC_LOOK),
    }

    def series(dataset: str, noise: str) -> list[Line]:
        found = []
        for row, (name, score, look) in kinds.items():
            points = index.summaries({rate: Wanted(score, dataset, noise, rate) for rate in RATES})
            reference = {rate: _published("guidance", dataset, row, noise, rate) for rate in RATES}
            if ours := _line(name, look, points, runs):
                found += _present(ours, _published_line(f"{name}, published", look, reference))
        return found

    panels = _panels(index.datasets(), series)
    if not panels:
        return None
    return lines(panels, x_label="noise rate φ", y_label="test accuracy", note=_note(index, runs))


# Representations ----------------------------------------------------------------------------------


def _kept_embeddings(
    index: RecordIndex, rates: Sequence[float] | None = None, noises: Sequence[str] = BOTH
) -> list[Embeddings]:
    """Return CE's and ERASE's representations, a group for each dataset and noise."""
    cells = [
        cell
        for cell in index.cells
        if cell.method in ("ce", "erase")
        and cell.labels_per_class is None
        and (rates is None or cell.rate in rates)
        and has_usual_settings(cell)
    ]
    groups = []
    for dataset in _ordered(cell.dataset for cell in cells):
        for noise in noises:
            here = [cell for cell in cells if (cell.dataset, cell.noise) == (dataset, noise)]
            seed = min((cell.seed for cell in here), default=0)
            chosen = sorted(
                (cell for cell in here if cell.seed == seed), key=lambda c: (c.method, c.rate)
            )
            kept = {cell: arrays for cell in chosen if (arrays := index.arrays(cell)) is not None}
            if kept:
                groups.append(_embeddings(kept, f"{dataset_label(dataset)}, {noise} noise"))
    return groups


def _embeddings(kept: Mapping[Cell, Mapping[str, NDArray[Any]]], title: str) -> Embeddings:
    first = next(iter(kept.values()))
    for cell, arrays in kept.items():
        if not np.array_equal(arrays["nodes"], first["nodes"]):
            raise EraseError(
                "representations of the same nodes",
                f"others for {cell}",
                "Run `erase bench pictures` into a new file.",
            )
    y = first["y"]
    count = int(y.max(initial=-1)) + 1
    known = _CLASS_NAMES.get(next(iter(kept)).dataset, ())
    names = known if len(known) == count else [f"class {k}" for k in range(count)]
    z = {f"{METHOD_NAMES[c.method]}, φ = {c.rate:g}": arrays["z"] for c, arrays in kept.items()}
    columns = len({cell.rate for cell in kept})
    return Embeddings(z, y, names, title, columns=max(columns, 2))


def _maps(picture: Callable[..., Figure]) -> Callable[[RecordIndex], Figure | None]:
    def draw(index: RecordIndex) -> Figure | None:
        groups = _kept_embeddings(index)
        return picture(*groups) if groups else None

    return draw


def _pairwise(index: RecordIndex) -> Figure | None:
    found = _kept_embeddings(index, [_PAIRWISE_RATE], ["asymmetric"])
    groups = [group for group in found if len(group.z) == 2]
    return pairwise_pca_map(*groups) if groups else None


def _wrapped(text: str, width: int) -> str:
    """Return the text in lines of at most `width` letters."""
    return "\n".join(textwrap.wrap(text, width))


FIGURES: dict[str, Picture] = {
    "radar": Picture("every method with 50 % noise, on every dataset", "paper", _radar),
    "gains": Picture("ERASE against the best rival in every cell", "paper", _gains),
    "depth": Picture(
        "test accuracy over the propagation depth T",
        "depth",
        _sweep("depth", "steps", "propagation depth T"),
    ),
    "alpha": Picture(
        "test accuracy over α, the weight of a node's own label",
        "alpha",
        _sweep("alpha", "keep", "weight α of a node's own label"),
    ),
    "beta": Picture(
        "test accuracy over β, the weight of denoised labels",
        "beta",
        _sweep("beta", "trust", "weight β of denoised labels"),
    ),
    "guidance": Picture("semantic labels beside ERASE's predictions", "paper", _guidance),
    "cosine": Picture(
        "cosine similarity of sorted representations, CE and ERASE", "pictures", _maps(cosine_map)
    ),
    "pca": Picture("principal components, CE and ERASE", "pictures", _maps(pca_map)),
    "pairwise-pca": Picture(
        "principal components of every two classes, CE and ERASE", "pictures", _pairwise
    ),
    "tsne": Picture("t-SNE maps, CE and ERASE", "pictures", _maps(tsne_map)),
    "train-size": Picture(
        "test accuracy over training labels per class", "train-size", _train_size
    ),
    "review-curve": Picture(
        "accuracy over all nodes by the number of reviewed labels",
        "review",
        _review,
        any_protocol=True,
    ),
    "time": Picture(
        "time per epoch of every method, by machine", "paper", _time, any_protocol=True
    ),
}
