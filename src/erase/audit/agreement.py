"""How well out-of-fold probabilities predict the given labels, and whether better than chance."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

Floats = NDArray[np.float64]
Classes = NDArray[np.int64]

_CHANCE = 0.01  # significance level of the test against chance
_DEPENDENCE = 2.0  # times the variance of independent predictions
_LEAST_CORRELATION = 0.05
_ROUNDING = 1e-9  # of probabilities that are the same for all nodes


@dataclass(frozen=True)
class Agreement:
    """How well out-of-fold probabilities predict the given labels.

    Attributes:
        model: share of the labels that are the most probable class of their node.
        majority: share of the labels that are the most common class; counted over these same
            labels, not out of fold, which favours it a little.
        correlation: of probabilities with labels; 0 by chance, 1 for certain and right predictions.
        needed: the correlation below which it may be chance, or is too weak to use; above 1 where
            there are too few labels.
        neighbours: share of the labels that are the most common label of the node's neighbours;
            None where no neighbour has a label.
    """

    model: float
    majority: float
    correlation: float
    needed: float
    neighbours: float | None = None

    @property
    def is_informative(self) -> bool:
        """Whether the probabilities predict the labels well enough to call any of them wrong."""
        return self.correlation >= self.needed

    def __str__(self) -> str:
        """Return the numbers in words."""
        needed = f"{self.needed:.2f} is needed" if self.needed <= 1 else "with too few labels"
        around = (
            "" if self.neighbours is None else f", neighbours' labels with {self.neighbours:.1%}"
        )
        return (
            f"models that had not seen a label agree with {self.model:.1%} of the labels, the most "
            f"common class with {self.majority:.1%}{around} "
            f"(correlation {self.correlation:.2f}, {needed})"
        )


def agreement(given: Classes, proba: Floats) -> Agreement:
    """Return how well `proba` predicts the `given` labels, and how well it must.

    The share of labels that are the most probable class is a poor measure where one class is
    common: probabilities can tell rare labels apart though they never exceed those of the common
    class. So the test uses the correlation of the centred probabilities X [n, K] with the centred
    labels Y [n, K] (one column per class, 1 where it is given),

        R = ⟨X, Y⟩ / (‖X‖ ‖Y‖),

    which is 0 for any constant prediction, however common a class is. For predictions of one class
    it is the Matthews correlation of K classes (Gorodkin 2004).

    If labels have nothing to do with the probabilities, every order of the labels is as likely,
    and R has the mean 0 and the variance tr(XᵀX YᵀY) / ((n − 1) ‖X‖² ‖Y‖²). Folds learn from each
    other's labels, so agreement by chance is counted twice, and the variance is doubled. The
    smallest R accepted is exceeded by chance once in a hundred times, and is at least 0.05: below,
    the probabilities explain a quarter of a percent of the labels' variance, and the verdicts would
    depend on the noise model only. Perfect predictions of two equally common classes pass
    from 12 labels on; of 350 graphs with random features, edges and labels (40 to 600 of them)
    passed 5, audited by relabelling.

    Args:
        given: [n] classes.
        proba: [n, K]; a node's own label took no part in its row.
    """
    n, k = proba.shape
    counts = np.bincount(given, minlength=k)
    x = proba - proba.mean(0)
    of_x, of_y = float((x**2).sum()), float(n - counts @ counts / n)  # ‖X‖², ‖Y‖²
    correlation, needed = 0.0, _LEAST_CORRELATION
    if of_x > n * _ROUNDING**2 and of_y > 0:
        correlation = float(x[np.arange(n), given].sum() / np.sqrt(of_x * of_y))
        product = float((x**2).sum(0) @ counts - ((x @ counts) ** 2).sum() / n)  # tr(XᵀX YᵀY)
        variance = _DEPENDENCE * product / ((n - 1) * of_x * of_y)
        needed = max(needed, float(norm.isf(_CHANCE) * np.sqrt(variance)))
    return Agreement(
        model=float(np.mean(proba.argmax(1) == given)),
        majority=float(counts.max() / n),
        correlation=correlation,
        needed=needed,
    )
