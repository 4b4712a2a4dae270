"""STUDIES: which cells an experiment consists of, as data; or read from a TOML file."""

import re
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from itertools import product
from math import prod
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from msgspec import Meta, Struct, ValidationError, convert

from erase.audit import DEFAULT_METHOD
from erase.bench.correction import CORRECTED_BY, check_correction, without_correction
from erase.bench.detection import (
    ABLATIONS,
    AUDIT,
    AUDIT_MODEL,
    DETECTING,
    FEATURE_NOISE_DETECTORS,
    FEATURELESS_DETECTORS,
    PLAIN_MODEL,
    RIVAL_MODEL,
    DetectionSetup,
    detects,
)
from erase.bench.inductive import (
    SEEN,
    UNSEEN,
    check_drawn_nodes,
    scores_drawn_nodes,
    without_drawn_nodes,
)
from erase.bench.records import Cell
from erase.bench.review import REVIEWED, REVIEWER_ERRORS, REVIEWING, check_review, reviews
from erase.bench.run import PROTOCOLS
from erase.data.datasets import DATASETS, dataset_name
from erase.data.noise import NOISES
from erase.errors import EraseError
from erase.methods import METHODS, build_method, default_params
from erase.methods.erase import RECIPES
from erase.methods.relabelling.smoothing import VIEWS


@dataclass(frozen=True)
class Grid:
    """All combinations of a few choices.

    Attributes:
        datasets: names in ``DATASETS``, or files that :func:`erase.data.files.read_graph` reads.
        noises: names in ``NOISES``, or "none", for which the rate is 0.
        rates: φ.
        methods: names in ``METHODS``, in ``REVIEWING``, or in ``DETECTING``, with their
            out-of-fold model among the params, under the name ``judge`` that records have.
        seeds: of the runs.
        protocols: names in ``PROTOCOLS``.
        params: values to try of a method's parameters, by name; all combinations. The values of
            ``corrected_by`` are methods of an audit, see :mod:`erase.bench.correction`; those of
            ``seen`` and ``unseen`` are shares of nodes, see :mod:`erase.bench.inductive`.
        labels_per_class: training labels kept of each class; None: all of the split.
    """

    datasets: Sequence[str]
    noises: Sequence[str]
    rates: Sequence[float]
    methods: Sequence[str]
    seeds: Sequence[int] = range(5)
    protocols: Sequence[str] = ("paper",)
    params: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    labels_per_class: Sequence[int | None] = (None,)

    @property
    def size(self) -> int:
        """The number of combinations."""
        lists = [getattr(self, f.name) for f in fields(self) if f.name != "params"]
        return prod(map(len, [*lists, *self.params.values()]))

    def cells(self) -> Iterable[Cell]:
        """Return the cells; those that can be trained together stand together."""
        for protocol, dataset, method, values, kept, noise, rate, seed in product(
            self.protocols,
            self.datasets,
            self.methods,
            product(*self.params.values()),
            self.labels_per_class,
            self.noises,
            self.rates,
            self.seeds,
        ):
            params = dict(zip(self.params, values, strict=True))
            rate = 0.0 if noise == "none" else rate
            yield Cell(dataset, noise, rate, method, params, protocol, seed, kept)


@dataclass(frozen=True)
class Study:
    """An experiment: what to run, and what to write down besides scores.

    Attributes:
        summary: one sentence.
        grids: whose cells it consists of.
        shift: compare each run with its twin on clean labels, and score the volume of the shift
            that wrong labels cause: ``log_ntvr`` and ``rate_ntvr``.
        keep_embeddings: write the representations of the test nodes beside the records.
    """

    summary: str
    grids: Sequence[Grid]
    shift: bool = False
    keep_embeddings: bool = False

    def cells(self) -> list[Cell]:
        """Return the cells, each once."""
        return list(dict.fromkeys(cell for grid in self.grids for cell in grid.cells()))


BOTH = ("asymmetric", "symmetric")
TWO_PROTOCOLS = ("paper", "honest")  # those with a split
RATES = (0.1, 0.2, 0.3, 0.4, 0.5)
HEAVY = (0.3, 0.4, 0.5)
SANITY = ("label-propagation", "ce-gcn", "smoothed")
RIVALS = ("gce", "apl", "mcr2", "codis", "rtgnn", "pignn", "nrgnn", "pta", *SANITY, "relabelling")
ALL = ("erase", "ce", *RIVALS)
# Settings that come nearest to the published figures of a rival (study departures); the others do
# so with the settings that the paper prints.
NEAREST_TO_PRINT: Mapping[str, Mapping[str, Any]] = {
    "codis": {"warm_up": 200},
    "rtgnn": {"lr": 0.01},
}
WITHOUT_EPOCHS = ("label-propagation", "smoothed", "relabelling")
# Of study `detection`. A detector that is not here has no empty row in its table.
DETECTORS_COMPARED = (
    *(AUDIT, "confidence", "confident-learning", "graphcleaner", "loss-mixture"),
    "area-under-margin",
)
WITH_EPOCHS = tuple(method for method in ALL if method not in WITHOUT_EPOCHS)
CORRECTED = ("ce", "erase", "smoothed")  # methods whose gain from correction is measured
BEST = ("erase", "smoothed", "relabelling")  # without clean labels
INDUCTIVE = ("erase", "ce", "relabelling", "smoothed")  # methods applied to unseen nodes
UNSEEN_SHARE = 0.2
REVIEW_STEPS = (0, 25, 50, 100, 200, 400)  # reviewed labels
REVIEW_ERRORS = (0.0, 0.05)
CITATION_GRAPHS = ("cora", "citeseer", "pubmed")
# Noise as people make it, the most realistic first, and class-conditional noise; with the rates at
# which most labels of a class are still right.
FOLLOWING = ("annotator", "topology", "confidence", "instance")
SIX_GRAPHS = (*CITATION_GRAPHS, "computers", "cs", "debian")
SMALLER_GRAPHS, LARGER_GRAPHS = (*CITATION_GRAPHS, "debian"), ("computers", "cs")


class Drawn(NamedTuple):
    """Noises of a study that finds wrong labels: on which graphs, at which rates, which draws."""

    graphs: Sequence[str]
    noises: Sequence[str]
    rates: Sequence[float]
    draws: Sequence[int]


# Noise that follows features or edges; the first is the one that people have most.
FEATURE_NOISES = (
    Drawn(SIX_GRAPHS, ("annotator",), (0.3,), range(10)),
    Drawn(SMALLER_GRAPHS, ("annotator",), (0.1, 0.5), range(5)),
    Drawn(SMALLER_GRAPHS, FOLLOWING[1:], (0.1, 0.3, 0.5), range(5)),
    Drawn(LARGER_GRAPHS, ("annotator",), (0.1, 0.5), range(3)),
    Drawn(LARGER_GRAPHS, FOLLOWING[1:], (0.3,), range(3)),
)
CLASS_NOISES = (
    Drawn(SMALLER_GRAPHS, ("symmetric",), (0.1, 0.3, 0.5), range(5)),
    Drawn(SMALLER_GRAPHS, ("asymmetric",), (0.1, 0.3), range(5)),
    Drawn(LARGER_GRAPHS, ("symmetric", "asymmetric"), (0.3,), range(3)),
)


def _found(drawn: Sequence[Drawn], protocol: str) -> tuple[Grid, ...]:
    """Return the audit and its rivals on graphs with noises."""
    return tuple(
        Grid(
            each.graphs,
            each.noises,
            each.rates,
            (detector,),
            each.draws,
            (protocol,),
            {name: (value,) for name, value in model.items()},
        )
        for each in drawn
        for detector, model in FEATURE_NOISE_DETECTORS
    )


def _compared(
    datasets: Sequence[str],
    noises: Sequence[str],
    rates: Sequence[float],
    protocol: str,
    seeds: Sequence[int] = range(10),
) -> tuple[Grid, ...]:
    """Return all methods with the same seeds, each with the settings it is compared with."""
    settings = {method: NEAREST_TO_PRINT.get(method, {}) for method in ALL}
    usual = tuple(method for method in ALL if not settings[method])
    return (
        Grid(datasets, noises, rates, usual, seeds, (protocol,)),
        *(
            Grid(
                datasets,
                noises,
                rates,
                (method,),
                seeds,
                (protocol,),
                {name: (value,) for name, value in changes.items()},
            )
            for method, changes in settings.items()
            if changes
        ),
    )


def _without_clean_labels(protocol: str) -> tuple[Grid, ...]:
    return (
        *_compared(CITATION_GRAPHS, BOTH, (0.1, 0.3, 0.5), protocol),
        *_compared(("debian", "computers", "cs"), BOTH, (0.3,), protocol),
    )


def _ablation(
    datasets: Sequence[str], rates: Sequence[float] = RATES, **params: Sequence[Any]
) -> tuple[Grid, ...]:
    return (Grid(datasets, BOTH, rates, ("erase",), params=params),)


STUDIES: dict[str, Study] = {
    "paper": Study(
        "the main table: every method on the published draw, clean validation labels",
        _compared(CITATION_GRAPHS, BOTH, RATES, "paper"),
    ),
    "honest": Study(
        "the main table with noise redrawn for every run and noisy validation labels",
        _compared(CITATION_GRAPHS, BOTH, RATES, "honest"),
    ),
    "pool": Study(
        "relabelling against every other method, all noisy labels given to every method",
        _without_clean_labels("pool"),
    ),
    "precision": Study(
        "half of the labels wrong, without and with propagation: to compare float32 and TF32",
        (
            Grid(
                ("cora",), ("asymmetric",), (0.5,), ("erase",), range(10), params={"steps": (0, 5)}
            ),
        ),
    ),
    "departures": Study(
        "settings that the paper does not print, in search of the causes of differences",
        (
            *(
                Grid(
                    ("pubmed",), ("asymmetric",), (0.1, 0.3, 0.5), ("erase",), params={name: tried}
                )
                for name, tried in {
                    "gamma": (1.0, 2.0),
                    "steps": (5,),
                    "keep": (0.7,),
                    "trust": (0.7,),
                    "dropout": (0.0, 0.6),
                    "hidden": (2048,),
                }.items()
            ),
            Grid(CITATION_GRAPHS, BOTH, RATES, tuple(NEAREST_TO_PRINT)),
            Grid(("cora",), BOTH, RATES, ("codis",), params={"warm_up": (200,)}),
            Grid(CITATION_GRAPHS, BOTH, RATES, ("rtgnn",), params={"lr": (0.01,)}),
            Grid(CITATION_GRAPHS, BOTH, RATES, ("mcr2",), params={"output": ("l2",)}),
            Grid(("citeseer",), BOTH, RATES, ("pignn",), params={"estimator_decay": (5e-4,)}),
        ),
    ),
    "clean": Study(
        "every method without any noise",
        _compared(CITATION_GRAPHS, ("none",), (0.0,), "honest", range(5)),
    ),
    "beyond": Study(
        "relabelling against every other method, without clean labels",
        (
            *_without_clean_labels("honest"),
            *_compared(CITATION_GRAPHS, ("none",), (0.0,), "honest"),
        ),
    ),
    "noises": Study(
        "relabelling and its best rivals where noise follows features or edges",
        tuple(
            Grid(datasets, FOLLOWING, rates, methods, range(5), ("honest",))
            for datasets, rates, methods in (
                (SIX_GRAPHS, (0.3, 0.1, 0.5), ("smoothed", "relabelling")),
                (("cora", "citeseer", "debian"), (0.3,), ("ce", "erase")),  # minutes a run
            )
        ),
    ),
    "confirmation": Study(
        "relabelling and its two best rivals on ten draws on which nothing was chosen",
        (
            Grid(CITATION_GRAPHS, BOTH, (0.1, 0.3, 0.5), BEST, range(10, 20), ("honest",)),
            Grid(("debian", "computers", "cs"), BOTH, (0.3,), BEST, range(10, 20), ("honest",)),
        ),
    ),
    "parts": Study(
        "relabelling without its rounds, with one of three smoothings, and on training labels only",
        tuple(
            Grid(
                ("cora", "citeseer"),
                BOTH,
                (0.1, 0.3, 0.5),
                ("relabelling",),
                range(10),
                ("honest",),
                params,
            )
            for params in ({"rounds": (0, 1)}, {"view": VIEWS}, {"validation": (False,)})
        ),
    ),
    "relabelled": Study(
        "ERASE with the labels of relabelling instead of its semantic labels",
        (
            Grid(
                ("cora", "citeseer"),
                BOTH,
                (0.1, 0.3, 0.5),
                ("erase",),
                range(5),
                ("honest",),
                {name: (value,) for name, value in RECIPES["relabelled"].items()},
            ),
        ),
    ),
    "heterophily": Study(
        "heterophilous graphs: relabelling with and without edges, and its best rivals",
        tuple(
            Grid(
                ("tolokers", "blogcatalog"),
                noises,
                (0.3,),
                methods,
                range(10),
                ("honest",),
                params,
            )
            for noises in (("none",), BOTH)
            for methods, params in (
                (("relabelling", "smoothed", "ce", "ce-gcn"), {}),
                (("relabelling",), {"view": ("features",)}),
                (("smoothed",), {"steps": (0,), "neighbours": (0,)}),
            )
        ),
    ),
    "eps2": Study(
        "the tolerance ε², and the shift of representations against it",
        _ablation(("cora", "pubmed"), eps2=(0.01, 0.05, 0.1, 0.5)),
        shift=True,
    ),
    "propagation": Study(
        "with and without denoising (DP) and semantic propagation (SP)",
        _ablation(("cora", "pubmed"), HEAVY, denoise=(False, True), propagate=(False, True)),
    ),
    "semantics": Study(
        "semantic labels from a cross-entropy network",
        _ablation(("cora", "pubmed"), semantics=("cross-entropy",)),
    ),
    "backbones": Study(
        "GCN and GraphSAGE instead of GAT",
        _ablation(CITATION_GRAPHS, encoder=("gcn", "sage")),
    ),
    "heads": Study(
        "other classifiers instead of logistic regression",
        _ablation(("cora", "citeseer"), HEAVY, head=("mlp", "poly-svm", "linear-svm")),
    ),
    "one-stage": Study(
        "a classifier trained together with the encoder",
        _ablation(("cora", "citeseer"), one_stage=(True,)),
    ),
    "depth": Study(
        "the propagation depth T",
        _ablation(("cora", "citeseer"), steps=tuple(range(0, 17, 2))),
    ),
    "alpha": Study(
        "the weight α of a node's own label in a propagation step",
        _ablation(("cora", "citeseer"), keep=(0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)),
    ),
    "beta": Study(
        "the weight β of denoised labels against prototype labels",
        _ablation(("cora", "citeseer"), trust=(0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)),
    ),
    "train-size": Study(
        "fewer training labels",
        (
            Grid(
                ("cora", "citeseer"),
                BOTH,
                (0.3,),
                ("erase", "ce", "pignn"),
                labels_per_class=(4, 8, 12, 16, 20),
            ),
        ),
    ),
    "pictures": Study(
        "one run per cell of ERASE and cross-entropy, representations kept for the figures",
        (
            Grid(CITATION_GRAPHS, BOTH, (0.3, 0.5), ("erase", "ce"), (0,)),
            Grid(("cora", "pubmed"), ("asymmetric",), (0.1,), ("erase", "ce"), (0,)),
        ),
        keep_embeddings=True,
    ),
    "detection": Study(
        "wrong labels found by the audit and its rivals, each with several out-of-fold models",
        tuple(
            Grid(
                CITATION_GRAPHS,
                BOTH,
                (0.1, 0.3),
                detecting,
                range(10),
                ("honest",),
                {name: (value,) for name, value in model.items()},
            )
            for model, detecting in (
                (AUDIT_MODEL, DETECTORS_COMPARED),
                (RIVAL_MODEL, DETECTORS_COMPARED),
                (PLAIN_MODEL, (AUDIT,)),
            )
        ),
    ),
    "annotators": Study(
        "wrong labels found where noise follows features or edges, every label of the graph given",
        _found((*FEATURE_NOISES, *CLASS_NOISES), "all-labels"),
    ),
    "annotators-split": Study(
        "wrong labels found where noise follows features or edges, among few given labels",
        _found(FEATURE_NOISES, "honest"),
    ),
    "witnesses": Study(
        "the audit without a part of its evidence, every label of the graph given",
        tuple(
            Grid(
                graphs,
                ("annotator", *BOTH),
                (0.3,),
                (AUDIT,),
                range(draws),
                ("all-labels",),
                {name: (value,) for name, value in params.items()},
            )
            # on Tolokers an annotator's draws differ by 20 points
            for graphs, draws in (
                ((*CITATION_GRAPHS, "debian", "blogcatalog"), 5),
                (("tolokers",), 20),
            )
            for params in (AUDIT_MODEL, *ABLATIONS.values())
        ),
    ),
    "featureless": Study(
        "wrong labels found by edges alone, every label of the graph given",
        tuple(
            Grid(
                ("cora", "computers", "debian"),
                BOTH,
                (0.3,),
                (detector,),
                range(10),
                ("all-labels",),
                {name: (value,) for name, value in params.items()},
            )
            for detector, params in FEATURELESS_DETECTORS
        ),
    ),
    "review": Study(
        "a simulated reviewer: what is right after a number of reviewed labels, by strategy",
        (
            Grid(
                (*CITATION_GRAPHS, "computers"),
                ("annotator",),
                (0.3,),
                REVIEWING,
                range(10),
                ("all-labels",),
                {REVIEWED: REVIEW_STEPS, REVIEWER_ERRORS: REVIEW_ERRORS},
            ),
        ),
    ),
    "corrected": Study(
        "methods on labels corrected by an audit; study honest has the labels as given",
        (
            Grid(
                ("cora", "citeseer"),
                BOTH,
                (0.3,),
                CORRECTED,
                range(5),
                ("honest",),
                {CORRECTED_BY: (DEFAULT_METHOD,)},
            ),
        ),
    ),
    "inductive": Study(
        "accuracy on test nodes that the fit did not see, and by a fit that saw them",
        tuple(
            Grid(
                (*CITATION_GRAPHS, "debian"),
                BOTH,
                (0.3,),
                INDUCTIVE,
                range(5),
                ("honest",),
                {name: (UNSEEN_SHARE,)},
            )
            for name in (SEEN, UNSEEN)
        ),
    ),
    "arxiv": Study(
        "every method on ogbn-arxiv",
        _compared(("ogbn-arxiv",), BOTH, HEAVY, "paper", range(5)),
    ),
    "corafull": Study(
        "the main table on CoraFull",
        _compared(("corafull",), BOTH, RATES, "paper"),
    ),
    "smoke": Study(
        "every method, a few epochs on the embedded graph: minutes on two cores",
        (
            Grid(
                ("debian",),
                BOTH,
                (0.3,),
                WITH_EPOCHS,
                range(2),
                TWO_PROTOCOLS,
                {"epochs": (5,)},
            ),
            Grid(("debian",), BOTH, (0.3,), WITHOUT_EPOCHS, range(2), TWO_PROTOCOLS),
        ),
    ),
}


MAX_CELLS = 100_000
Names = str | Annotated[tuple[str, ...], Meta(min_length=1)]
Share = Annotated[float, Meta(ge=0, le=1)]
Seed = Annotated[int, Meta(ge=0)]
Count = Annotated[int, Meta(ge=1, le=MAX_CELLS)]
Scalar = str | int | float | bool


class _GridFile(Struct, forbid_unknown_fields=True):
    """A ``[[grid]]`` of a study's file: a `Grid` in which one value may stand for a list of it."""

    datasets: Names
    noises: Names
    methods: Names
    rates: Share | Annotated[tuple[Share, ...], Meta(min_length=1)] | None = None
    seeds: Count | Annotated[tuple[Seed, ...], Meta(min_length=1)] = 5
    protocols: Names = ("paper",)
    params: dict[str, Scalar | Annotated[tuple[Scalar, ...], Meta(min_length=1)]] = {}
    labels_per_class: Count | Annotated[tuple[Count, ...], Meta(min_length=1)] | None = None

    def to_grid(self) -> Grid:
        noises = _listed(self.noises)
        if self.rates is None and noises != ("none",):
            raise ValidationError("Object missing required field `rates` - at `$.grid`")
        return Grid(
            _listed(self.datasets),
            noises,
            _listed(self.rates or 0.0),
            _listed(self.methods),
            range(self.seeds) if isinstance(self.seeds, int) else self.seeds,
            _listed(self.protocols),
            {name: _listed(values) for name, values in self.params.items()},
            _listed(self.labels_per_class),
        )


class _StudyFile(Struct, forbid_unknown_fields=True):
    """A study's file, see `Study`."""

    grid: Annotated[tuple[_GridFile, ...], Meta(min_length=1)]
    summary: str = ""
    shift: bool = False
    keep_embeddings: bool = False


def _listed(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


_LONG_KEY = re.compile(r"(?:[^\s.,=\[\]]+[ \t]*\.[ \t]*){20}")


def read_study(name: str) -> Study:
    """Return a study by its name in `STUDIES`, or from a ``.toml`` file of the same shape.

    A file has a ``summary``, the switches of a `Study`, and one table ``[[grid]]`` or more with the
    fields of a `Grid`; ``seeds`` is a list, or how many to count from 0; a single value may stand
    for a list of one. A study has at most `MAX_CELLS` cells.
    """
    if name in STUDIES:
        return STUDIES[name]
    path = Path(name) if isinstance(name, str) else Path()
    if path.suffix != ".toml":
        raise EraseError(
            "a study's name or a .toml file", repr(name), f"Studies: {', '.join(STUDIES)}."
        )
    if not path.is_file():
        raise EraseError("a .toml file", f"{name}, which is not there", "Check the path.")
    try:
        text = path.read_text(encoding="utf-8")
        if _LONG_KEY.search(text):  # a parser takes the square of its length
            raise EraseError(f"keys of at most 20 parts in {name}", "a longer one", "Correct it.")
        file = convert(tomllib.loads(text), _StudyFile)
        grids = tuple(grid.to_grid() for grid in file.grid)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise EraseError(f"TOML in {name}", str(error), "Correct the file.") from None
    except ValidationError as error:
        raise EraseError(
            f"a study in {name}",
            re.sub("^Object (contains )?", "", str(error)),
            f"Correct that field. A study has {', '.join(_StudyFile.__struct_fields__)}; each "
            f"[[grid]] has {', '.join(_GridFile.__struct_fields__)}.",
        ) from None
    if (cells := sum(grid.size for grid in grids)) > MAX_CELLS:
        raise EraseError(
            f"at most {MAX_CELLS:,} cells in {name}", f"{cells:,}", "Split it into several studies."
        )
    return Study(file.summary or path.stem, grids, file.shift, file.keep_embeddings)


CHOICES = ("dataset", "noise", "rate", "method", "protocol", "seed")


def choose(cells: Sequence[Cell], only: Sequence[str]) -> list[Cell]:
    """Return the cells that agree with every KEY=VALUE of `only`; of one key any value will do.

    >>> cells = choose(STUDIES["pictures"].cells(), ["dataset=cora", "rate=0.5"])
    >>> [(cell.method, cell.noise) for cell in cells if cell.method == "ce"]
    [('ce', 'asymmetric'), ('ce', 'symmetric')]
    """
    wanted: dict[str, set[str]] = {}
    for text in only:
        key, equals, value = text.partition("=")
        if not equals or key not in CHOICES:
            raise EraseError(
                f"KEY=VALUE with KEY among {', '.join(CHOICES)}", text, "Correct the key."
            )
        if key == "rate":
            with suppress(ValueError):  # 0.30 is 0.3
                value = _written(float(value))
        there = {_written(getattr(cell, key)) for cell in cells}
        if value not in there:
            raise EraseError(
                f"a {key} of the study: {', '.join(sorted(there))}", value, f"Correct the {key}."
            )
        wanted.setdefault(key, set()).add(value)
    chosen = [
        cell
        for cell in cells
        if all(_written(getattr(cell, key)) in values for key, values in wanted.items())
    ]
    if not chosen:
        raise EraseError("cells to run", f"none with {' '.join(only)}", "Leave out a restriction.")
    return chosen


def _written(value: str | float) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def check(study: Study, cells: Iterable[Cell]) -> None:
    """Raise an EraseError for the first of the `cells` that cannot be run."""
    registries: dict[str, Collection[str]] = {
        "noise": [*NOISES, "none"],
        "method": [*METHODS, *DETECTING, *REVIEWING],
        "protocol": PROTOCOLS,
    }
    for cell in cells:
        if dataset_name(cell.dataset) is None and not Path(cell.dataset).exists():
            raise EraseError(
                f"a dataset among {', '.join(DATASETS)}, or the file of a graph",
                repr(cell.dataset),
                "Correct the dataset.",
            )
        for kind, registry in registries.items():
            name = getattr(cell, kind)
            if name not in registry:
                raise EraseError(
                    f"a {kind} among {', '.join(registry)}", repr(name), f"Correct the {kind}."
                )
        if reviews(cell):
            check_review(cell)
            continue
        check_drawn_nodes(cell)
        if scores_drawn_nodes(cell) and (study.shift or study.keep_embeddings):
            raise EraseError(
                f"cells without {SEEN} and {UNSEEN} in a study that keeps or compares "
                "representations",
                str(cell),
                "Remove the parameter, or the switch.",
            )
        if detects(cell):
            if study.shift or study.keep_embeddings:
                raise EraseError(
                    "methods that predict labels in a study that keeps or compares representations",
                    cell.method,
                    "Remove the method, or the switch.",
                )
            cell = DetectionSetup.of(cell).model
        check_correction(cell)
        cell = without_drawn_nodes(without_correction(cell))
        known = default_params(cell.method).keys() - {"seed", "device"}
        if unknown := sorted(cell.params.keys() - known):
            raise EraseError(
                f"params of {cell.method} among {', '.join(sorted(known))}",
                unknown[0],
                "Correct the name; seeds and device are set elsewhere.",
            )
        if study.shift and "eps2" not in known:
            raise EraseError(
                "methods with a tolerance eps2 in a study with shift = true",
                cell.method,
                "Remove the method, or the switch.",
            )
        changes = {**cell.params, "seed": cell.seed, "device": "cpu"}
        build_method(cell.method, dataset=dataset_name(cell.dataset), **changes).check_params()
