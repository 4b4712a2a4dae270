"""TABLES: what each table shows, its rows, columns and measures, and which study makes its runs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, NamedTuple

import pandas as pd

from erase.audit import DEFAULT_METHOD
from erase.bench.correction import CORRECTED_BY
from erase.bench.detection import (
    ABLATIONS,
    AUDIT,
    AUDIT_MODEL,
    EDGE_MODELS,
    FEATURE_NOISE_DETECTORS,
    FEATURELESS_DETECTORS,
    MODEL,
    PLAIN_MODEL,
    RIVAL_MODEL,
)
from erase.bench.frame import preset_of
from erase.bench.names import (
    ABLATION_NAMES,
    DETECTOR_NAMES,
    EDGE_MODEL_NAMES,
    FIT_NAMES,
    METHOD_NAMES,
    PAPER_METHODS,
    REVIEW_NAMES,
    dataset_label,
)
from erase.bench.records import Cell
from erase.bench.review import AUDITING, REVIEWED, REVIEWER_ERRORS
from erase.bench.studies import (
    ALL,
    BEST,
    BOTH,
    CITATION_GRAPHS,
    CORRECTED,
    DETECTORS_COMPARED,
    HEAVY,
    INDUCTIVE,
    NEAREST_TO_PRINT,
    RATES,
    REVIEW_ERRORS,
    STUDIES,
    UNSEEN_SHARE,
)
from erase.bench.tables.claims import (
    OURS,
    ablation_claims,
    annotator_claims,
    beyond_claims,
    correction_claims,
    detection_claims,
    inductive_claims,
    review_claims,
)
from erase.bench.tables.numbers import span
from erase.data.datasets import DATASETS
from erase.methods.erase import RECIPES
from erase.methods.relabelling.smoothing import VIEWS


@dataclass(frozen=True)
class Row:
    """A method with changes to its preset.

    Attributes:
        key: its name in ``published.json``.
        label: as shown.
        method: a name in ``METHODS`` or ``DETECTING``.
        params: changes to the method's preset for the dataset.
        measure: where it is not the panel's.
        sanity: shown for comparison, not ranked.
    """

    key: str
    label: str
    method: str = "erase"
    params: Mapping[str, Any] = field(default_factory=dict)
    measure: str | None = None
    sanity: bool = False


class Place(NamedTuple):
    """A column: a dataset and its noise; noise "any" joins all of them."""

    label: str
    dataset: str
    noise: str
    rate: float | None
    labels_per_class: int | None = None
    machine: str | None = None


class Panel(NamedTuple):
    """A part of a table with columns of its own: a dataset, often with one noise, or a machine."""

    title: str
    dataset: str
    places: Sequence[Place]


@dataclass(frozen=True)
class TableSpec:
    """What a table shows.

    Attributes:
        title: one line.
        study: whose records fill it.
        panels: with their columns, given the runs at hand.
        rows: of every panel; or a function of a dataset and the runs at hand.
        measures: names in `MEASURES`; each has panels of its own.
        by_measure: all panels of a measure stand together, not all of a dataset.
        about: key of the row that is ranked and compared with its best rival; "none": no row;
            None: the row with the method's usual settings.
        is_ranked: whether rows are methods, which have ranks.
        any_protocol: whether the protocol of the records does not matter.
        only_protocol: the protocol of its records, whichever is requested; None: the requested one.
        same_runs: whether usual settings are averaged over the runs of their variants only.
        claims: sentences computed from the filled cells.
        notes: sentences to read beside it.
    """

    title: str
    study: str
    panels: Callable[[pd.DataFrame], list[Panel]]
    rows: Sequence[Row] | Callable[[str, pd.DataFrame], Sequence[Row]]
    measures: Sequence[str] = ("test_accuracy",)
    by_measure: bool = False
    about: str | None = None
    is_ranked: bool = False
    any_protocol: bool = False
    only_protocol: str | None = None
    same_runs: bool = True
    claims: Callable[[pd.DataFrame], tuple[str, ...]] = lambda cells: ()
    notes: tuple[str, ...] = ()


# Rows ---------------------------------------------------------------------------------------------

_METHODS = tuple(  # those of the studies: a method that joins none has no empty row
    Row(name, label, name, NEAREST_TO_PRINT.get(name, {}), sanity=name not in PAPER_METHODS)
    for name, label in METHOD_NAMES.items()
    if name in ALL
)
_ALL_RANKED = tuple(replace(row, sanity=False) for row in _METHODS)
_WITH_PRINTED_SETTINGS = tuple(
    Row(f"{name}:printed", f"{METHOD_NAMES[name]}, printed settings", name, sanity=True)
    for name in NEAREST_TO_PRINT
)
_DETECTORS = tuple(  # the audit and its rivals, then the same with other models
    sorted(
        (
            Row(
                f"{name}:{model[MODEL]}",
                f"{label}, {METHOD_NAMES[model[MODEL]]} model",
                name,
                model,
                sanity=(name == AUDIT) != (model is AUDIT_MODEL),
            )
            for model in (AUDIT_MODEL, RIVAL_MODEL, PLAIN_MODEL)
            for name, label in DETECTOR_NAMES.items()
            if name in DETECTORS_COMPARED and (model is not PLAIN_MODEL or name == AUDIT)
        ),
        key=lambda row: row.sanity,
    )
)
_FEATURE_NOISE = tuple(
    Row(
        f"{name}:{model[MODEL]}",
        f"{DETECTOR_NAMES[name]}, {METHOD_NAMES[model[MODEL]]} model",
        name,
        model,
    )
    for name, model in FEATURE_NOISE_DETECTORS
)
_ABLATIONS = (
    Row(OURS, "audit", AUDIT, AUDIT_MODEL),
    *(Row(key, ABLATION_NAMES[key], AUDIT, params) for key, params in ABLATIONS.items()),
)
_FEATURELESS = tuple(
    Row(key, label, detector, params)
    for (detector, params), (key, label) in zip(
        FEATURELESS_DETECTORS,
        ((OURS, "audit"), *((key, EDGE_MODEL_NAMES[key]) for key in EDGE_MODELS)),
        strict=True,
    )
)
SHOWN_REVIEWS = (50, 100, 200)


def _reviews(errors: float, names: Iterable[str]) -> tuple[Row, ...]:
    """Return the rows of a review by a person who errs so often."""
    return tuple(
        Row(
            f"{name}:{count}:{errors}",
            f"{count} labels, {REVIEW_NAMES[name]}",
            name,
            {REVIEWED: count, REVIEWER_ERRORS: errors},
        )
        for count in SHOWN_REVIEWS
        for name in names
    )


_CORRECTED = tuple(
    Row(f"{name}{key}", f"{METHOD_NAMES[name]}, {words}", name, params)
    for name in CORRECTED
    for key, words, params in (
        ("", "labels as given", {}),
        (":corrected", "corrected", {CORRECTED_BY: DEFAULT_METHOD}),
    )
)
_INDUCTIVE = tuple(
    Row(f"{name}:{fit}", f"{METHOD_NAMES[name]}, {words}", name, {fit: UNSEEN_SHARE})
    for name in INDUCTIVE
    for fit, words in FIT_NAMES.items()
)
_PARTS = (
    Row("erase", "ERASE"),
    Row("train", "relabelling, training labels only", "relabelling", {"validation": False}),
    Row("smoothed", "regression on far-smoothed features", "smoothed"),
    Row("0", "relabelling, no round", "relabelling", {"rounds": 0}),
    Row("1", "relabelling, one round", "relabelling", {"rounds": 1}),
    *(Row(v, f"relabelling, view {v} only", "relabelling", {"view": v}) for v in VIEWS),
    Row("relabelling", "relabelling", "relabelling"),
)
_RELABELLED = (
    Row("erase", "ERASE"),
    Row("relabelled", "ERASE, preset relabelled", "erase", RECIPES["relabelled"]),
    Row("relabelling", "relabelling", "relabelling"),
)
_HETEROPHILY = (
    Row("features", "relabelling without edges", "relabelling", {"view": "features"}),
    Row("plain", "regression without edges", "smoothed", {"steps": 0, "neighbours": 0}),
    *(row for row in _ALL_RANKED if row.key in ("ce", "ce-gcn", "smoothed", "relabelling")),
)
_DP_SP = (
    Row("none", "neither", params={"denoise": False, "propagate": False}),
    Row("propagate", "SP only", params={"denoise": False, "propagate": True}),
    Row("denoise", "DP only", params={"denoise": True, "propagate": False}),
    Row("denoise+propagate", "DP and SP", params={"denoise": True, "propagate": True}),
)
_SEMANTICS = (
    Row("cross-entropy", "cross-entropy", params={"semantics": "cross-entropy"}),
    Row("prototype", "ERASE", params={"semantics": "prototype"}),
)
_ENCODERS = (
    Row("gcn", "GCN", params={"encoder": "gcn"}),
    Row("sage", "GraphSAGE", params={"encoder": "sage"}),
    Row("gat", "GAT", params={"encoder": "gat"}),
)
_HEADS = (
    Row("mlp", "MLP", params={"head": "mlp"}),
    Row("poly-svm", "SVM (polynomial)", params={"head": "poly-svm"}),
    Row("linear-svm", "SVM (linear)", params={"head": "linear-svm"}),
    Row("logreg", "logistic regression", params={"head": "logreg"}),
)
_STAGES = (
    Row("one", "one stage", params={"one_stage": True}),
    Row("two", "two stages", params={"one_stage": False}),
)
_GUIDANCE = (
    Row("semantic", "semantic labels", measure="semantic_accuracy"),
    Row("erase", "ERASE"),
)
_SMOKE_PARAMS = {cell.method: cell.params for cell in STUDIES["smoke"].cells()}
_SMOKE = tuple(replace(row, params=_SMOKE_PARAMS.get(row.method, {})) for row in _METHODS)


def _varied(
    parameter: str, values: Sequence[Any], label: str
) -> Callable[[str, pd.DataFrame], Sequence[Row]]:
    """Return the rows of a parameter's values on a dataset: the paper's, and the usual one."""

    def rows(dataset: str, runs: pd.DataFrame) -> Sequence[Row]:
        tried = sorted({*values, preset_of("erase", dataset)[parameter]})
        return [Row(str(v), label.format(v), params={parameter: v}) for v in tried]

    return rows


def _compared(ranked: Sequence[Row]) -> Callable[[str, pd.DataFrame], Sequence[Row]]:
    """Return the rows of methods, and those of printed settings where these were run too."""

    def rows(dataset: str, runs: pd.DataFrame) -> Sequence[Row]:
        here = runs[~runs["changes"].map(bool)]
        if dataset:
            here = here[here["dataset"] == dataset]
        methods = set(here["method"])
        return [*ranked, *(row for row in _WITH_PRINTED_SETTINGS if row.method in methods)]

    return rows


def _own_rows(dataset: str, runs: pd.DataFrame) -> Sequence[Row]:
    """Return every method with its changes that was run on a dataset."""
    here = runs[(runs["dataset"] == dataset) & runs["method"].isin(list(METHOD_NAMES))]
    order = list(METHOD_NAMES)
    rows: dict[str, Row] = {}
    for method, params in sorted(
        zip(here["method"], here["params"], strict=True), key=lambda run: order.index(run[0])
    ):
        label = ", ".join([METHOD_NAMES[method], *(f"{k}={v}" for k, v in params.items())])
        rows.setdefault(label, Row(label, label, method, params))
    return list(rows.values())


_SETTINGS = "Settings that come nearest to the published figures: {}.".format(
    ", ".join(
        f"{METHOD_NAMES[method]} with `{name}={value}`"
        for method, settings in NEAREST_TO_PRINT.items()
        for name, value in settings.items()
    )
)


# Panels and their columns -------------------------------------------------------------------------

_SHORT = {"asymmetric": "asym", "symmetric": "sym"}


def _grid(
    datasets: Sequence[str], rates: Sequence[float], others: bool = False
) -> Callable[[pd.DataFrame], list[Panel]]:
    """Return panels of datasets × noises × rates; `others` adds what else ERASE was run on.

    Ten columns are two panels, one for each noise; a dataset without runs is one panel.
    """

    def panels(runs: pd.DataFrame) -> list[Panel]:
        held = set(runs.loc[runs["noise"].isin(BOTH), "dataset"])
        more = [name for name in _usual_datasets(runs) if others and name not in datasets]
        found = []
        for dataset in (*datasets, *more):
            name = dataset_label(dataset)
            if dataset in held and len(BOTH) * len(rates) > 6:
                for noise in BOTH:
                    places = [Place(f"{rate:g}", dataset, noise, rate) for rate in rates]
                    found.append(Panel(f"{name}, {noise}", dataset, places))
            else:
                places = [
                    Place(f"{noise} {rate:g}", dataset, noise, rate)
                    for noise, rate in product(BOTH, rates)
                ]
                found.append(Panel(name, dataset, places))
        return found

    return panels


def _of_study(study: str) -> Callable[[pd.DataFrame], list[Panel]]:
    """Return a panel for each dataset of a study, with its noises and rates."""
    return lambda runs: _by_dataset(STUDIES[study].cells())


def _own(runs: pd.DataFrame) -> list[Panel]:
    """Return a panel for each graph, with every noise and rate that was run."""
    here = runs[runs["method"].isin(list(METHOD_NAMES))]
    fields = list(Cell.__annotations__)
    kept = here["labels_per_class"].astype(object).where(here["labels_per_class"].notna(), None)
    cells = here.assign(labels_per_class=kept)[fields].to_dict("records")
    return _by_dataset(Cell(**cell) for cell in cells)


def _by_dataset(cells: Iterable[Cell]) -> list[Panel]:
    places: dict[str, list[Place]] = {}
    for cell in cells:
        kept = None if cell.labels_per_class is None else int(cell.labels_per_class)
        label = "clean"
        if cell.noise != "none":
            label = f"{_SHORT.get(cell.noise, cell.noise)} {cell.rate:g}"
        label += "" if kept is None else f", {kept} labels a class"
        place = Place(label, cell.dataset, cell.noise, cell.rate, kept)
        if place not in places.setdefault(cell.dataset, []):
            places[cell.dataset].append(place)
    return [Panel(dataset_label(dataset), dataset, found) for dataset, found in places.items()]


def _smoke(runs: pd.DataFrame) -> list[Panel]:
    (panel,) = _by_dataset(STUDIES["smoke"].cells())
    return [panel._replace(title="Embedded graph")]


def _clean(runs: pd.DataFrame) -> list[Panel]:
    datasets = STUDIES["clean"].grids[0].datasets
    places = [Place(dataset_label(name), name, "none", 0.0) for name in datasets]
    return [Panel("No noise", "", places)]


def _inductive(runs: pd.DataFrame) -> list[Panel]:
    plan = STUDIES["inductive"].grids[0]
    places = [
        Place(f"{dataset_label(dataset)} {_SHORT[noise]} {rate:g}", dataset, noise, rate)
        for dataset, noise, rate in product(plan.datasets, plan.noises, plan.rates)
    ]
    return [Panel("Drawn test nodes", "", places)]


def _by_noise(study: str) -> Callable[[pd.DataFrame], list[Panel]]:
    """Return a panel for each noise and rate of a study that was run, with the study's graphs."""

    def panels(runs: pd.DataFrame) -> list[Panel]:
        plan = STUDIES[study].cells()
        held = set(runs.loc[runs["method"] == AUDIT, ["noise", "rate"]].itertuples(index=False))
        datasets = list(dict.fromkeys(cell.dataset for cell in plan))
        return [
            Panel(
                f"{noise} {rate:g}",
                "",
                [Place(dataset_label(name), name, noise, rate) for name in datasets],
            )
            for noise, rate in dict.fromkeys((cell.noise, cell.rate) for cell in plan)
            if (noise, rate) in held
        ]

    return panels


def _reviewed(runs: pd.DataFrame) -> list[Panel]:
    (plan,) = STUDIES["review"].grids
    places = [
        Place(dataset_label(dataset), dataset, noise, rate)
        for dataset, noise, rate in product(plan.datasets, plan.noises, plan.rates)
    ]
    return [Panel("Annotator noise, 30 %", "", places)]


def _train_size(runs: pd.DataFrame) -> list[Panel]:
    (plan,) = STUDIES["train-size"].grids
    return [
        Panel(
            f"{dataset_label(dataset)}, {noise} {rate:g}",
            dataset,
            [Place(f"{kept}", dataset, noise, rate, kept) for kept in plan.labels_per_class],
        )
        for dataset, noise, rate in product(plan.datasets, plan.noises, plan.rates)
    ]


def _time(runs: pd.DataFrame) -> list[Panel]:
    """Return a panel for each machine, with the datasets on which ERASE was timed."""
    timed = runs[
        runs["ms_per_epoch"].notna() & ~runs["changes"].map(bool) & runs["labels_per_class"].isna()
    ]
    datasets = _usual_datasets(timed)
    panels = []
    for machine, here in timed.groupby("machine"):
        batches = [int(batch) for batch in here["batch"].dropna() if batch]
        together = f", {span(batches)} runs together" if set(batches) - {1} else ""
        places = [Place(dataset_label(d), d, "any", None, None, machine) for d in datasets]
        panels.append(Panel(f"{machine}{together}", "", places))
    return panels


def _usual_datasets(runs: pd.DataFrame) -> list[str]:
    """Return the datasets on which ERASE was run with its usual settings."""
    usual = set(runs.loc[(runs["method"] == "erase") & ~runs["changes"].map(bool), "dataset"])
    return [name for name in DATASETS if name in usual]


_TWO = ("cora", "citeseer")
_COPU = ("cora", "pubmed")
_THIRDS = (0.1, 0.3, 0.5)
_TENTHS = tuple(tenth / 10 for tenth in range(1, 11))
_TOLERANCES = _varied("eps2", (0.01, 0.05, 0.1, 0.5), "ε² = {}")


def _feature_noise(title: str, study: str, protocol: str, labels: str) -> TableSpec:
    """Return the table of a study of noise that follows features or edges.

    Args:
        title: of the table.
        study: its name.
        protocol: of its runs.
        labels: a sentence on which labels are audited.
    """
    return TableSpec(
        title,
        study,
        _by_noise(study),
        _FEATURE_NOISE,
        ("auroc", "f1", "false_alarms", "bound_holds", "bound_share"),
        by_measure=True,
        about=OURS,
        is_ranked=True,
        only_protocol=protocol,
        claims=annotator_claims,
        notes=(
            f"{labels} The audit may flag 20 % right labels; its rivals have no such limit. The "
            "lower bound is what the audit says as “at least x % are wrong”.",
        ),
    )


TABLES: dict[str, TableSpec] = {
    "main": TableSpec(
        "Test accuracy of all methods",
        "paper",
        _grid((*CITATION_GRAPHS, "corafull"), RATES, others=True),
        _compared(_METHODS),
        about="erase",
        is_ranked=True,
        same_runs=False,
        notes=(_SETTINGS,),
    ),
    "correction": TableSpec(
        "Correction rate of mislabelled training nodes",
        "paper",
        _grid(_TWO, HEAVY),
        _compared(_METHODS),
        ("correction_rate",),
        about="erase",
        is_ranked=True,
        same_runs=False,
        notes=(_SETTINGS,),
    ),
    "metrics": TableSpec(
        "Other measures of the same runs",
        "paper",
        _grid(CITATION_GRAPHS, (0.3, 0.5)),
        _compared(_METHODS),
        ("macro_f1", "correction_rate", "accuracy_correct"),
        about="erase",
        is_ranked=True,
        same_runs=False,
        notes=(
            "The paper prints only correction rates of these; they also have their own table.",
            _SETTINGS,
        ),
    ),
    "train-size": TableSpec(
        "Fewer training labels",
        "train-size",
        _train_size,
        [row for row in _METHODS if row.method in STUDIES["train-size"].grids[0].methods],
        about="erase",
        is_ranked=True,
        notes=(
            "Columns are training labels per class. The paper plots this comparison without "
            "printing figures.",
        ),
    ),
    "eps2": TableSpec("The tolerance ε²", "eps2", _grid(_COPU, RATES), _TOLERANCES),
    "ntvr": TableSpec(
        "Noise/tolerance volume ratio by ε²",
        "eps2",
        _grid(_COPU, RATES),
        _TOLERANCES,
        ("rate_ntvr", "log_ntvr"),
        notes=(
            "δ is the shift of the representations that wrong labels cause, w the tolerance. "
            "R(δ)/R(w) behaves as the paper's figures do; log(vol(δ)/vol(w)) is its printed "
            "formula, a logarithm because the ratio itself is 0 in floating-point numbers; "
            "−∞ where the shift leaves a direction out.",
        ),
    ),
    "propagation": TableSpec(
        "With and without denoising (DP) and semantic propagation (SP)",
        "propagation",
        _grid(_COPU, HEAVY),
        _DP_SP,
    ),
    "semantics": TableSpec(
        "Semantic labels from cross-entropy or from ERASE",
        "semantics",
        _grid(_COPU, RATES),
        _SEMANTICS,
    ),
    "backbones": TableSpec("Encoders", "backbones", _grid(CITATION_GRAPHS, RATES), _ENCODERS),
    "classifiers": TableSpec(
        "Classifiers of the representations", "heads", _grid(_TWO, HEAVY), _HEADS
    ),
    "one-stage": TableSpec(
        "A classifier trained with the encoder or after it",
        "one-stage",
        _grid(_TWO, RATES),
        _STAGES,
        notes=("The paper mentions this comparison without printing figures.",),
    ),
    "arxiv": TableSpec(
        "Test accuracy on ogbn-arxiv",
        "arxiv",
        _grid(("ogbn-arxiv",), HEAVY),
        _compared(_METHODS),
        about="erase",
        is_ranked=True,
        same_runs=False,
        notes=(_SETTINGS,),
    ),
    "guidance": TableSpec(
        "Semantic labels and the classifier trained on them",
        "paper",
        _grid(_TWO, RATES),
        _GUIDANCE,
        about="erase",
    ),
    "depth": TableSpec(
        "Propagation depth T",
        "depth",
        _grid(_TWO, RATES),
        _varied("steps", range(0, 17, 2), "T = {}"),
    ),
    "alpha": TableSpec(
        "Weight α of a node's own label in propagation",
        "alpha",
        _grid(_TWO, RATES),
        _varied("keep", _TENTHS, "α = {}"),
    ),
    "beta": TableSpec(
        "Weight β of denoised against prototype labels",
        "beta",
        _grid(_TWO, RATES),
        _varied("trust", _TENTHS, "β = {}"),
    ),
    "time": TableSpec(
        "Time of an epoch",
        "paper",
        _time,
        _METHODS,
        ("ms_per_epoch",),
        any_protocol=True,
        same_runs=False,
        notes=(
            "Our epoch includes the evaluation on validation nodes; its time is that of all runs "
            "trained together divided by their number. The paper's iteration is the forward and "
            "backward pass of one run on an RTX 3090, so the two cannot be compared. The section "
            "on speed has the time of a single run.",
        ),
    ),
    "clean": TableSpec(
        "Test accuracy without noise",
        "clean",
        _clean,
        _compared(_METHODS),
        about="erase",
        is_ranked=True,
        same_runs=False,
        any_protocol=True,
        notes=("The paper prints no figure without noise.", _SETTINGS),
    ),
    "detection": TableSpec(
        "Wrong labels found",
        "detection",
        _grid(CITATION_GRAPHS, (0.1, 0.3)),
        _DETECTORS,
        (
            "auroc",
            "average_precision",
            "f1",
            "mcc",
            "precision_at_t",
            "false_alarms",
            "noise_rate_error",
        ),
        about=OURS,
        is_ranked=True,
        only_protocol="honest",
        claims=detection_claims,
        notes=(
            "No method sees a clean label. Training and validation labels are noisy, and all of "
            "them are scored by out-of-fold models: the audit's with its default method, its "
            "rivals' with cross-entropy. Rows that are not ranked exchange the models.",
        ),
    ),
    "annotators": _feature_noise(
        "Wrong labels found where noise follows features or edges",
        "annotators",
        "all-labels",
        "Every node has a label, and no label is trusted.",
    ),
    "annotators-split": _feature_noise(
        "Few labels: wrong ones found where noise follows features or edges",
        "annotators-split",
        "honest",
        "The noisy labels of the training and validation nodes are audited; no label is trusted.",
    ),
    "witnesses": TableSpec(
        "The audit without a part of its evidence",
        "witnesses",
        _by_noise("witnesses"),
        _ABLATIONS,
        ("auroc", "f1", "false_alarms"),
        by_measure=True,
        about="none",
        only_protocol="all-labels",
        claims=ablation_claims,
        notes=(
            "Every node has a label. Neighbours' labels include label propagation. In Tolokers and "
            "BlogCatalog neighbours often have other classes.",
        ),
    ),
    "featureless": TableSpec(
        "Wrong labels found without features",
        "featureless",
        _by_noise("featureless"),
        _FEATURELESS,
        ("auroc", "f1", "false_alarms"),
        by_measure=True,
        about=OURS,
        is_ranked=True,
        only_protocol="all-labels",
        claims=detection_claims,
        notes=(
            "Every node has a label and no features. Rivals score a label by its probability, and "
            "call it wrong where another class is more probable: 20-fold label propagation, one "
            "step of it, and a regression on the spectral embedding of the adjacency matrix.",
        ),
    ),
    "review": TableSpec(
        "What a review gains",
        "review",
        _reviewed,
        _reviews(REVIEW_ERRORS[0], REVIEW_NAMES),
        ("accuracy",),
        about="none",
        only_protocol="all-labels",
        claims=review_claims,
        notes=(
            "A simulated reviewer who makes no mistakes answers in batches of 25. A reviewed node "
            "has the class of the answer.",
        ),
    ),
    "review-errors": TableSpec(
        "What a review gains if one answer in twenty is wrong",
        "review",
        _reviewed,
        _reviews(REVIEW_ERRORS[1], REVIEW_NAMES),
        ("accuracy",),
        about="none",
        only_protocol="all-labels",
        claims=review_claims,
    ),
    "review-promises": TableSpec(
        "Intervals and false alarms after a review",
        "review",
        _reviewed,
        _reviews(REVIEW_ERRORS[0], AUDITING),
        ("label_accuracy", "covers", "alarms_near", "alarms_kept"),
        about="none",
        only_protocol="all-labels",
        notes=(
            "Of the audit, with a reviewer who makes no mistakes and 20 % of false alarms allowed. "
            "A label whose own class is the most probable is never flagged, so there can be fewer "
            "false alarms than allowed.",
        ),
    ),
    "corrected": TableSpec(
        "Training on labels that the audit has corrected",
        "corrected",
        _grid(_TWO, (0.3,)),
        _CORRECTED,
        about="none",
        only_protocol="honest",
        claims=correction_claims,
        notes=(
            "As in `erase fit --clean`: an audit of the training and validation labels, both "
            "noisy, corrects them. A flagged label gets the suggested class, or is removed where "
            'the verdict is "can\'t tell".',
        ),
    ),
    "inductive": TableSpec(
        "Test nodes that the fit did not see",
        "inductive",
        _inductive,
        _INDUCTIVE,
        about="none",
        only_protocol="honest",
        claims=inductive_claims,
        notes=(
            f"{100 * UNSEEN_SHARE:g} % of all nodes are drawn from the test nodes, or all of them "
            "where there are fewer (PubMed has 1,000, 5 % of its nodes). Both rows of a method "
            "are scored on these nodes and trained on the same labels. The fit had their features "
            "and edges, or was made on the graph without them and then applied to the whole graph.",
        ),
    ),
    "beyond": TableSpec(
        "Test accuracy without clean labels",
        "beyond",
        _of_study("beyond"),
        _compared(_ALL_RANKED),
        about="relabelling",
        is_ranked=True,
        same_runs=False,
        only_protocol="honest",
        claims=beyond_claims,
        notes=(
            "Training and validation labels are noisy, and redrawn for every run; all methods get "
            "the same draws.",
            _SETTINGS,
            "On graphs that the paper does not use, networks have the settings of Cora. Nothing "
            "was tuned for any method, and some hardly learn there.",
        ),
    ),
    "noises": TableSpec(
        "Test accuracy where noise follows features or edges",
        "noises",
        _of_study("noises"),
        [row for row in _ALL_RANKED if row.key in ("ce", *BEST)],
        about="relabelling",
        is_ranked=True,
        only_protocol="honest",
        claims=beyond_claims,
        notes=("Training and validation labels are noisy, and redrawn for every run.",),
    ),
    "pool": TableSpec(
        "Test accuracy with all noisy labels given to every method",
        "pool",
        _of_study("pool"),
        _compared(_ALL_RANKED),
        about="relabelling",
        is_ranked=True,
        same_runs=False,
        only_protocol="pool",
        claims=beyond_claims,
        notes=(
            "Training and validation labels are one pool of noisy labels, the same as under "
            "`honest`. Networks select their epoch by a fifth of it and train on the rest; methods "
            "without epochs train on all of it.",
            _SETTINGS,
        ),
    ),
    "confirmation": TableSpec(
        "Ten new draws of the noise",
        "confirmation",
        _of_study("confirmation"),
        [row for row in _ALL_RANKED if row.key in BEST],
        ("test_accuracy", "calibration_error"),
        about="relabelling",
        is_ranked=True,
        only_protocol="honest",
        claims=beyond_claims,
        notes=(
            "Nothing was chosen on these draws. Confidence is the largest "
            "probability of a test node; nodes are put into ten bins by it, and the distances of "
            "the bins' means are averaged over nodes.",
        ),
    ),
    "parts": TableSpec(
        "Ablations of relabelling",
        "parts",
        _grid(_TWO, _THIRDS),
        _PARTS,
        about="relabelling",
        only_protocol="honest",
        notes=(
            "ERASE trains on the training labels, a quarter or less of those given, and selects "
            "its epoch by the validation labels; the others train on all labels unless the row "
            "says otherwise.",
        ),
    ),
    "relabelled": TableSpec(
        "ERASE with the labels of relabelling",
        "relabelled",
        _grid(_TWO, _THIRDS),
        _RELABELLED,
        about="relabelled",
        only_protocol="honest",
    ),
    "heterophily": TableSpec(
        "Heterophilous graphs",
        "heterophily",
        _of_study("heterophily"),
        _HETEROPHILY,
        ("test_accuracy", "macro_f1"),
        by_measure=True,
        about="relabelling",
        only_protocol="honest",
        notes=(
            "One of the two classes of Tolokers holds 78 % of the nodes, so macro-F1 is more "
            "informative there than accuracy. With two classes both kinds of noise are the same.",
            "Networks have their default settings, which were not tuned for these graphs.",
        ),
    ),
    "own": TableSpec(
        "Test accuracy of whatever was run",
        "smoke",
        _own,
        _own_rows,
        about="none",
        same_runs=False,
    ),
    "smoke": TableSpec(
        "A few epochs of every method on the embedded graph",
        "smoke",
        _smoke,
        _SMOKE,
        about="erase",
        is_ranked=True,
        notes=("This table shows that everything runs; it does not compare the methods.",),
    ),
}
