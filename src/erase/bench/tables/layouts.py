"""TABLES: which rows and columns each table of the paper has, and which study makes its records."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from erase.audit import DEFAULT_METHOD
from erase.bench.correction import CORRECTED_BY
from erase.bench.detection import AUDIT, AUDIT_MODEL, PLAIN_MODEL, RIVAL_MODEL
from erase.bench.names import DETECTOR_NAMES, METHOD_NAMES, PAPER_METHODS, dataset_name
from erase.bench.records import Cell, Record
from erase.bench.selection import has_usual_settings, preset_of
from erase.bench.studies import BEST, BOTH, CORRECTED, HEAVY, RATES, STUDIES
from erase.bench.tables.claims import OURS, beyond_claims, correction_claims, detection_claims
from erase.bench.tables.numbers import span
from erase.bench.tables.table import Measure, Place, Row, Table
from erase.data.datasets import DATASETS
from erase.methods.erase import RECIPES
from erase.methods.relabelling.smoothing import VIEWS


@dataclass(frozen=True)
class Frame:
    """A panel to be filled; `machine` narrows it to the records of one."""

    title: str
    rows: Sequence[Row]
    places: Sequence[Place]
    measure: Measure
    machine: str | None = None


@dataclass(frozen=True)
class Layout:
    """A table to be filled.

    Attributes:
        title: one line.
        study: whose records fill it.
        frames: its panels, given the records at hand.
        about: key of the row that is ranked and compared with its best rival; None: the row with
            the method's usual settings.
        is_ranked: whether rows are methods, which have ranks.
        any_protocol: whether the protocol of the records does not matter.
        only_protocol: the one its records have, whichever is asked for; None: the one asked for.
        same_runs: whether usual settings are shown over the runs alone that their variants have.
        claims: sentences that the filled table supports.
        notes: sentences to read beside it.
    """

    title: str
    study: str
    frames: Callable[[Sequence[Record]], list[Frame]]
    about: str | None = None
    is_ranked: bool = False
    any_protocol: bool = False
    only_protocol: str | None = None
    same_runs: bool = True
    claims: Callable[[Table], tuple[str, ...]] = lambda table: ()
    notes: tuple[str, ...] = ()


SHORT = {"asymmetric": "asym", "symmetric": "sym"}


def _percent(score: str) -> Callable[[Record], float | None]:
    def read(record: Record) -> float | None:
        value = record.scores.get(score)
        return None if value is None else 100 * value

    return read


def _log_ntvr(record: Record) -> float | None:
    if "log_ntvr" not in record.scores:
        return None
    value = record.scores["log_ntvr"]
    return float("-inf") if value is None else value  # a record cannot hold −∞


def _epoch_time(record: Record) -> float | None:
    if not record.epochs or record.seconds is None:
        return None
    return 1000 * record.seconds / record.epochs


def _noise_rate_error(record: Record) -> float | None:
    value = record.scores.get("noise_rate_error")
    return None if value is None else 100 * abs(value)


ACCURACY = Measure("test_accuracy", "test accuracy", _percent("test_accuracy"))
CALIBRATION = Measure(
    "calibration_error",
    "distance of confidence from accuracy",
    _percent("calibration_error"),
    decimals=1,
    ranks=False,
)
MACRO_F1 = Measure("macro_f1", "macro-F1", _percent("macro_f1"))
SEMANTIC = Measure(
    "semantic_accuracy", "accuracy of the semantic labels", _percent("semantic_accuracy")
)
CORRECTION = Measure(
    "correction_rate",
    "mislabelled training nodes that are predicted right",
    _percent("correction_rate"),
)
RIGHT = Measure(
    "accuracy_correct",
    "correctly labelled training nodes that are predicted right",
    _percent("accuracy_correct"),
    ranks=False,  # whoever learns every label by heart has them all
)
RATE_NTVR = Measure(
    "rate_ntvr",
    "ratio of coding rates R(δ)/R(w)",
    lambda record: record.scores.get("rate_ntvr"),
    unit="",
    decimals=3,
    ranks=False,
)
LOG_NTVR = Measure(
    "log_ntvr",
    "log(vol(δ)/vol(w))",
    _log_ntvr,
    unit="",
    decimals=0,
    ranks=False,
    is_printed=False,
)
EPOCH_TIME = Measure(
    "ms_per_epoch",
    "time of an epoch",
    _epoch_time,
    unit="ms",
    decimals=1,
    ranks=False,
    is_alike=False,
)

_FOUND_WORDS = {
    "auroc": "AUROC",
    "average_precision": "average precision",
    "f1": "F1 of the flagged labels",
    "mcc": "MCC of the flagged labels",
    "precision_at_t": "precision at T, the number of wrong labels",
}
FOUND = tuple(
    Measure(name, words, _percent(name), decimals=1, shows_error=True)
    for name, words in _FOUND_WORDS.items()
)
FALSE_ALARMS = Measure(
    "false_alarms",
    "right labels among the flagged",
    _percent("false_alarms"),
    decimals=1,
    ranks=False,
    shows_error=True,
)
NOISE_RATE = Measure(
    "noise_rate_error",
    "distance of the estimated noise rate from the true one",
    _noise_rate_error,
    decimals=1,
    ranks=False,
    shows_error=True,
)


def _methods() -> tuple[Row, ...]:
    return tuple(
        Row(name, label, name, sanity=name not in PAPER_METHODS)
        for name, label in METHOD_NAMES.items()
    )


def _detectors() -> tuple[Row, ...]:
    """Return the audit as it is, its rivals as they are, and what they are with other judges."""
    rows = [
        Row(
            f"{name}:{judge['judge']}",
            f"{label}, {METHOD_NAMES[judge['judge']]} judges",
            name,
            judge,
            sanity=(name == AUDIT) != (judge is AUDIT_MODEL),
        )
        for judge in (AUDIT_MODEL, RIVAL_MODEL, PLAIN_MODEL)
        for name, label in DETECTOR_NAMES.items()
        if judge is not PLAIN_MODEL or name == AUDIT
    ]
    return tuple(sorted(rows, key=lambda row: row.sanity))


def _corrected() -> tuple[Row, ...]:
    """Return each method on the labels as they are, and on labels that an audit has corrected."""
    return tuple(
        row
        for name in CORRECTED
        for row in (
            Row(name, f"{METHOD_NAMES[name]}, labels as given", name),
            Row(
                f"{name}:corrected",
                f"{METHOD_NAMES[name]}, corrected",
                name,
                {CORRECTED_BY: DEFAULT_METHOD},
            ),
        )
    )


def _detection(records: Sequence[Record]) -> list[Frame]:
    rows = _detectors()
    audits = [row for row in rows if row.method == AUDIT]  # its rivals do not estimate the noise
    frames = _grid(_PLANETOID, (0.1, 0.3), rows, (*FOUND, FALSE_ALARMS, NOISE_RATE))(records)
    return [replace(f, rows=audits) if f.measure is NOISE_RATE else f for f in frames]


def _varied(
    parameter: str, values: Sequence[Any], label: str = "{}"
) -> Callable[[str], tuple[Row, ...]]:
    """Return the rows of a parameter's values on a dataset: the paper's, and the usual one."""

    def rows(dataset: str) -> tuple[Row, ...]:
        tried = sorted({*values, preset_of("erase", dataset)[parameter]})
        return tuple(Row(str(v), label.format(v), params={parameter: v}) for v in tried)

    return rows


def _grid(
    datasets: Sequence[str],
    rates: Sequence[float],
    rows: Sequence[Row] | Callable[[str], Sequence[Row]],
    measures: Sequence[Measure] = (ACCURACY,),
    others: bool = False,
) -> Callable[[Sequence[Record]], list[Frame]]:
    """Return frames of datasets × noises × rates; `others` adds what else ERASE was run on.

    Ten columns are two panels, one for each noise; a dataset without records is one panel. `rows`
    may depend on the dataset.
    """

    def frames(records: Sequence[Record]) -> list[Frame]:
        held = {record.cell.dataset for record in records if record.cell.noise in BOTH}
        more = [name for name in _usual_datasets(records) if others and name not in datasets]
        found = []
        for dataset in (*datasets, *more):
            own_rows = rows(dataset) if callable(rows) else rows
            groups: list[Sequence[str]] = [BOTH]
            if dataset in held and len(BOTH) * len(rates) > 6:
                groups = [(noise,) for noise in BOTH]
            for measure in measures:
                of = "" if len(measures) == 1 else f": {measure.words}"
                for noises in groups:
                    about = "" if len(noises) > 1 else f", {noises[0]}"
                    places = [
                        Place(f"{rate:g}" if about else f"{noise} {rate:g}", dataset, noise, rate)
                        for noise in noises
                        for rate in rates
                    ]
                    title = f"{dataset_name(dataset)}{about}{of}"
                    found.append(Frame(title, own_rows, places, measure))
        return found

    return frames


def _clean(records: Sequence[Record]) -> list[Frame]:
    places = [
        Place(dataset_name(name), name, "none", 0.0) for name in STUDIES["clean"].grids[0].datasets
    ]
    return [Frame("No noise", _methods(), places, ACCURACY)]


def _beyond(records: Sequence[Record]) -> list[Frame]:
    rows = [replace(row, sanity=False) for row in _methods()]
    places = _places(STUDIES["beyond"].cells())
    return [
        Frame(dataset_name(dataset), rows, columns, ACCURACY) for dataset, columns in places.items()
    ]


def _confirmation(records: Sequence[Record]) -> list[Frame]:
    rows = [replace(row, sanity=False) for row in _methods() if row.key in BEST]
    places = _places(STUDIES["confirmation"].cells())
    return [
        Frame(f"{dataset_name(dataset)}: {measure.words}", rows, columns, measure)
        for dataset, columns in places.items()
        for measure in (ACCURACY, CALIBRATION)
    ]


def _parts() -> tuple[Row, ...]:
    """Return what relabelling adds to a regression on one view, part by part."""
    return (
        Row("erase", "ERASE", "erase"),
        Row("train", "relabelling, training labels alone", "relabelling", {"validation": False}),
        Row("smoothed", "regression on the far view", "smoothed"),
        Row("0", "relabelling, no round", "relabelling", {"rounds": 0}),
        Row("1", "relabelling, one round", "relabelling", {"rounds": 1}),
        *(
            Row(view, f"relabelling, view {view} alone", "relabelling", {"view": view})
            for view in VIEWS
        ),
        Row("relabelling", "relabelling", "relabelling"),
    )


def _relabelled() -> tuple[Row, ...]:
    return (
        Row("erase", "ERASE", "erase"),
        Row("relabelled", "ERASE, preset relabelled", "erase", RECIPES["relabelled"]),
        Row("relabelling", "relabelling", "relabelling"),
    )


def _heterophily(records: Sequence[Record]) -> list[Frame]:
    rows = [
        Row("features", "relabelling without edges", "relabelling", {"view": "features"}),
        Row("plain", "regression without edges", "smoothed", {"steps": 0, "neighbours": 0}),
        *(
            replace(row, sanity=False)
            for row in _methods()
            if row.key in ("ce", "ce-gcn", "smoothed", "relabelling")
        ),
    ]
    places = _places(STUDIES["heterophily"].cells())
    return [
        Frame(f"{dataset_name(dataset)}: {measure.words}", rows, columns, measure)
        for measure in (ACCURACY, MACRO_F1)
        for dataset, columns in places.items()
    ]


def _places(cells: Iterable[Cell]) -> dict[str, list[Place]]:
    """Return the columns of each dataset that cells ask for."""
    places: dict[str, list[Place]] = {}
    for cell in cells:
        kept = cell.labels_per_class
        label = "clean"
        if cell.noise != "none":
            label = f"{SHORT.get(cell.noise, cell.noise)} {cell.rate:g}"
        label += "" if kept is None else f", {kept} labels a class"
        place = Place(label, cell.dataset, cell.noise, cell.rate, kept)
        if place not in places.setdefault(cell.dataset, []):
            places[cell.dataset].append(place)
    return places


def _train_size(records: Sequence[Record]) -> list[Frame]:
    (plan,) = STUDIES["train-size"].grids
    rows = [row for row in _methods() if row.method in plan.methods]
    return [
        Frame(
            f"{dataset_name(dataset)}, {noise} {rate:g}",
            rows,
            [Place(f"{kept}", dataset, noise, rate, kept) for kept in plan.labels_per_class],
            ACCURACY,
        )
        for dataset, noise, rate in product(plan.datasets, plan.noises, plan.rates)
    ]


def _time(records: Sequence[Record]) -> list[Frame]:
    timed = [
        record
        for record in records
        if _epoch_time(record) is not None
        and has_usual_settings(record.cell)
        and record.cell.labels_per_class is None
    ]
    places = [Place(dataset_name(name), name, "any", None) for name in _usual_datasets(timed)]
    frames = []
    for machine in sorted({record.machine for record in timed}):
        batches = [r.batch for r in timed if r.machine == machine and r.batch]
        together = f", {span(batches)} runs together" if set(batches) - {1} else ""
        frames.append(Frame(f"{machine}{together}", _methods(), places, EPOCH_TIME, machine))
    return frames


def _usual_datasets(records: Sequence[Record]) -> list[str]:
    """Return the datasets on which ERASE was run with its usual settings."""
    cells = [record.cell for record in records]
    usual = {cell.dataset for cell in cells if cell.method == "erase" and has_usual_settings(cell)}
    return [name for name in DATASETS if name in usual]


def _own(records: Sequence[Record]) -> list[Frame]:
    """Return a panel for each graph: every method and its changes, every noise and rate."""
    cells = [record.cell for record in records if record.cell.method in METHOD_NAMES]
    order = list(METHOD_NAMES)
    frames = []
    for dataset in dict.fromkeys(cell.dataset for cell in cells):
        here = [cell for cell in cells if cell.dataset == dataset]
        rows: dict[str, Row] = {}
        for cell in sorted(here, key=lambda cell: order.index(cell.method)):
            changes = [f"{name}={value}" for name, value in cell.params.items()]
            label = ", ".join([METHOD_NAMES[cell.method], *changes])
            rows.setdefault(label, Row(label, label, cell.method, cell.params))
        (places,) = _places(here).values()
        frames.append(Frame(dataset_name(dataset), list(rows.values()), places, ACCURACY))
    return frames


def _smoke(records: Sequence[Record]) -> list[Frame]:
    cells = STUDIES["smoke"].cells()
    params = {cell.method: cell.params for cell in cells}
    rows = [replace(row, params=params.get(row.method, {})) for row in _methods()]
    places = dict.fromkeys((cell.dataset, cell.noise, cell.rate) for cell in cells)
    columns = [Place(f"{SHORT[noise]} {rate:g}", data, noise, rate) for data, noise, rate in places]
    return [Frame("Embedded graph", rows, columns, ACCURACY)]


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
    Row("semantic", "semantic labels", measure=SEMANTIC),
    Row("erase", "ERASE"),
)
_TOLERANCES = _varied("eps2", (0.01, 0.05, 0.1, 0.5), "ε² = {}")
_DEPTHS = _varied("steps", range(0, 17, 2), "T = {}")
_TENTHS = tuple(tenth / 10 for tenth in range(1, 11))
_PLANETOID = ("cora", "citeseer", "pubmed")
_TWO = ("cora", "citeseer")

TABLES: dict[str, Layout] = {
    "main": Layout(
        "Test accuracy of all methods",
        "paper",
        _grid((*_PLANETOID, "corafull"), RATES, _methods(), others=True),
        about="erase",
        is_ranked=True,
    ),
    "correction": Layout(
        "Correction rate of mislabelled training nodes",
        "paper",
        _grid(_TWO, HEAVY, _methods(), (CORRECTION,)),
        about="erase",
        is_ranked=True,
    ),
    "metrics": Layout(
        "Other measures of the same runs",
        "paper",
        _grid(_PLANETOID, (0.3, 0.5), _methods(), (MACRO_F1, CORRECTION, RIGHT)),
        about="erase",
        is_ranked=True,
        notes=("The paper prints none of these but correction rates; those have a table too.",),
    ),
    "train-size": Layout(
        "Fewer training labels",
        "train-size",
        _train_size,
        about="erase",
        is_ranked=True,
        notes=(
            "Columns are training labels of each class. The paper draws this comparison and "
            "prints no figure of it.",
        ),
    ),
    "eps2": Layout("The tolerance ε²", "eps2", _grid(("cora", "pubmed"), RATES, _TOLERANCES)),
    "ntvr": Layout(
        "Noise/tolerance volume ratio by ε²",
        "eps2",
        _grid(("cora", "pubmed"), RATES, _TOLERANCES, (RATE_NTVR, LOG_NTVR)),
        notes=(
            "δ is the shift of the representations that wrong labels cause, w the tolerance. "
            "R(δ)/R(w) behaves as the paper's figures do; log(vol(δ)/vol(w)) is its printed "
            "formula, a logarithm because the ratio itself is 0 in floating-point numbers; "
            "−∞ where the shift leaves a direction out.",
        ),
    ),
    "propagation": Layout(
        "With and without denoising (DP) and semantic propagation (SP)",
        "propagation",
        _grid(("cora", "pubmed"), HEAVY, _DP_SP),
    ),
    "semantics": Layout(
        "Semantic labels from cross-entropy or from ERASE",
        "semantics",
        _grid(("cora", "pubmed"), RATES, _SEMANTICS),
    ),
    "backbones": Layout("Encoders", "backbones", _grid(_PLANETOID, RATES, _ENCODERS)),
    "classifiers": Layout(
        "Classifiers of the representations", "heads", _grid(_TWO, HEAVY, _HEADS)
    ),
    "one-stage": Layout(
        "A classifier trained with the encoder or after it",
        "one-stage",
        _grid(_TWO, RATES, _STAGES),
        notes=("The paper speaks of this comparison and prints no figure of it.",),
    ),
    "arxiv": Layout(
        "Test accuracy on ogbn-arxiv",
        "arxiv",
        _grid(("ogbn-arxiv",), HEAVY, _methods()),
        about="erase",
        is_ranked=True,
    ),
    "guidance": Layout(
        "Semantic labels beside the classifier they teach",
        "paper",
        _grid(_TWO, RATES, _GUIDANCE),
        about="erase",
    ),
    "depth": Layout("Propagation depth T", "depth", _grid(_TWO, RATES, _DEPTHS)),
    "alpha": Layout(
        "Weight α of a node's own label in propagation",
        "alpha",
        _grid(_TWO, RATES, _varied("keep", _TENTHS, "α = {}")),
    ),
    "beta": Layout(
        "Weight β of denoised against prototype labels",
        "beta",
        _grid(_TWO, RATES, _varied("trust", _TENTHS, "β = {}")),
    ),
    "time": Layout(
        "Time of an epoch",
        "paper",
        _time,
        any_protocol=True,
        notes=(
            "An epoch of ours includes choosing the epoch on validation nodes, and its time is "
            "that of all runs trained together divided by their number. The paper's iteration is "
            "forward and backward of one run on an RTX 3090: the two cannot be compared. One run "
            "of ours alone is in the section on speed.",
        ),
    ),
    "clean": Layout(
        "Test accuracy without noise",
        "clean",
        _clean,
        about="erase",
        is_ranked=True,
        any_protocol=True,
        notes=("The paper prints no figure without noise.",),
    ),
    "detection": Layout(
        "Wrong labels found",
        "detection",
        _detection,
        about=OURS,
        is_ranked=True,
        any_protocol=True,
        claims=detection_claims,
        notes=(
            "Nobody sees a clean label: training and validation labels are noisy, and all of them "
            "are judged by models that did not see them. The audit has its usual judges, its "
            "rivals have judges trained by cross-entropy; the rows without rank show what it "
            "changes to exchange them.",
        ),
    ),
    "corrected": Layout(
        "Training on labels that the audit has corrected",
        "corrected",
        _grid(_TWO, (0.3,), _corrected()),
        about="nobody",
        only_protocol="honest",
        claims=correction_claims,
        notes=(
            "As `erase fit --clean` does: training and validation labels, both noisy, are audited "
            "by judges that see no other; a flagged label gets the suggested class, or is removed "
            'where the verdict is "can\'t tell".',
        ),
    ),
    "beyond": Layout(
        "Where nobody has clean labels",
        "beyond",
        _beyond,
        about="relabelling",
        is_ranked=True,
        only_protocol="honest",
        claims=beyond_claims,
        notes=(
            "Training and validation labels are noisy, and redrawn for every run; all methods have "
            "the same draws.",
            "On graphs that the paper has not, networks have their usual settings, those of Cora; "
            "nothing was tuned for any method, and some hardly learn there.",
        ),
    ),
    "confirmation": Layout(
        "Ten other draws",
        "confirmation",
        _confirmation,
        about="relabelling",
        is_ranked=True,
        only_protocol="honest",
        claims=beyond_claims,
        notes=(
            "Draws that no choice had seen, run once. Confidence is the largest probability of a "
            "test node; nodes are put into ten bins by it, and the distances of the bins' means "
            "are averaged over nodes.",
        ),
    ),
    "parts": Layout(
        "What the parts of relabelling buy",
        "parts",
        _grid(_TWO, (0.1, 0.3, 0.5), _parts()),
        about="relabelling",
        only_protocol="honest",
        notes=(
            "ERASE trains on the training labels, a quarter or less of those given, and chooses "
            "its epoch by the validation labels; the others train on all but where it is said.",
        ),
    ),
    "relabelled": Layout(
        "ERASE with the labels of relabelling",
        "relabelled",
        _grid(_TWO, (0.1, 0.3, 0.5), _relabelled()),
        about="relabelled",
        only_protocol="honest",
    ),
    "heterophily": Layout(
        "Where neighbours disagree",
        "heterophily",
        _heterophily,
        about="relabelling",
        only_protocol="honest",
        notes=(
            "Tolokers has two classes of which one holds 78 % of the nodes: its accuracy says "
            "little, macro-F1 more, and both noises are the same.",
            "Networks have their usual settings, which were not made for these graphs.",
        ),
    ),
    "own": Layout(
        "Test accuracy of whatever was run",
        "smoke",
        _own,
        about="nobody",
        same_runs=False,
    ),
    "smoke": Layout(
        "A few epochs of every method on the embedded graph",
        "smoke",
        _smoke,
        about="erase",
        is_ranked=True,
        notes=("This shows that everything runs; it says nothing about the methods.",),
    ),
}
