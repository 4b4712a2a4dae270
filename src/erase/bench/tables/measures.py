"""MEASURES: what the cells of a table can be means of."""

from dataclasses import dataclass

from erase.bench.detection import AUDIT


@dataclass(frozen=True)
class Measure:
    """What a cell is the mean of: a column of `run_frame`.

    Attributes:
        words: what it is, for readers.
        unit: "%", "ms" or "".
        decimals: shown.
        ranks: higher is better: the highest is marked, and methods are compared.
        is_printed: whether the paper's figures are of this measure.
        is_alike: whether they were measured like ours, so that the difference is meaningful.
        shows_error: shown beside a mean is its standard error, not the deviation of the runs.
        absolute: shown without its sign.
        method: the only one that has it; None: all.
    """

    words: str
    unit: str = "%"
    decimals: int = 2
    ranks: bool = True
    is_printed: bool = True
    is_alike: bool = True
    shows_error: bool = False
    absolute: bool = False
    method: str | None = None

    def shown(self, score: float) -> float:
        """Return a score, a share of 1 where the unit is %, in that unit."""
        value = 100 * score if self.unit == "%" else score
        return abs(value) if self.absolute else value


MEASURES: dict[str, Measure] = {
    "test_accuracy": Measure("test accuracy"),
    "calibration_error": Measure("distance of confidence from accuracy", decimals=1, ranks=False),
    "macro_f1": Measure("macro-F1"),
    "semantic_accuracy": Measure("accuracy of the semantic labels"),
    "correction_rate": Measure("mislabelled training nodes that are predicted right"),
    # not ranked: a method that memorises every label has them all
    "accuracy_correct": Measure(
        "correctly labelled training nodes that are predicted right", ranks=False
    ),
    "rate_ntvr": Measure("ratio of coding rates R(δ)/R(w)", "", 3, ranks=False),
    "log_ntvr": Measure("log(vol(δ)/vol(w))", "", 0, ranks=False, is_printed=False),
    "ms_per_epoch": Measure("time of an epoch", "ms", 1, ranks=False, is_alike=False),
    "auroc": Measure("AUROC", decimals=1, shows_error=True),
    "average_precision": Measure("average precision", decimals=1, shows_error=True),
    "f1": Measure("F1 of the flagged labels", decimals=1, shows_error=True),
    "mcc": Measure("MCC of the flagged labels", decimals=1, shows_error=True),
    "precision_at_t": Measure(
        "precision at T, the number of wrong labels", decimals=1, shows_error=True
    ),
    "false_alarms": Measure(
        "right labels among the flagged", decimals=1, ranks=False, shows_error=True
    ),
    "noise_rate_error": Measure(
        "distance of the estimated noise rate from the true one",
        decimals=1,
        ranks=False,
        shows_error=True,
        absolute=True,
        method=AUDIT,
    ),
    "bound_holds": Measure(
        "draws in which the stated lower bound holds", decimals=0, ranks=False, method=AUDIT
    ),
    "bound_share": Measure(
        "the stated lower bound as a share of the true rate",
        decimals=0,
        ranks=False,
        shows_error=True,
        method=AUDIT,
    ),
    "accuracy": Measure("accuracy over all labelled nodes", decimals=1, shows_error=True),
    "label_accuracy": Measure("right labels", decimals=1, ranks=False, shows_error=True),
    "alarms_kept": Measure(
        "draws with at most 5 points more false alarms than allowed", decimals=0, ranks=False
    ),
    "alarms_near": Measure(
        "draws with false alarms within 5 points of those allowed", decimals=0, ranks=False
    ),
    "covers": Measure(
        "draws whose 90 % interval covers the true share of wrong labels", decimals=0, ranks=False
    ),
}
