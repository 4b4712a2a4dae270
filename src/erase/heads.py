"""Classifiers on the representations (paper, section 4.2 and the appendix on classifiers).

All are scikit-learn's; a head only makes them safe for what ERASE meets on the way: classes without
a single example, or one class only.
"""

import warnings
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC, LinearSVC
from threadpoolctl import ThreadpoolController

from erase.errors import EraseError


def _logistic_regression(seed: int) -> LogisticRegression:
    """logistic regression with C = 1: the paper's choice"""
    return LogisticRegression(C=1.0)


def _linear_svm(seed: int) -> LinearSVC:
    """linear support vector machine, one against the rest"""
    return LinearSVC(random_state=seed)


def _polynomial_svm(seed: int) -> SVC:
    """support vector machine with a polynomial kernel of degree 3"""
    return SVC(kernel="poly", degree=3, break_ties=True, random_state=seed)


def _mlp(seed: int) -> MLPClassifier:
    """two hidden layers of 100, Adam with learning rate 0.001"""
    return MLPClassifier((100, 100), learning_rate_init=1e-3, random_state=seed)


HEADS: dict[str, Any] = {
    "logreg": _logistic_regression,
    "linear-svm": _linear_svm,
    "poly-svm": _polynomial_svm,
    "mlp": _mlp,
}


@cache
def _blas() -> ThreadpoolController:
    """Return a handle on numpy's BLAS threads.

    A head fits a few hundred rows: one thread is enough, and more would fight torch's own threads
    for the cores in every epoch.
    """
    return ThreadpoolController()


class Head:
    """One classifier of :data:`HEADS`, with a probability for each of the K classes.

    SVMs give the softmax of their decision values, whose order is right and whose scale is not.

    Args:
        kind: a name in :data:`HEADS`.
        num_classes: K.
        seed: of classifiers that draw anything.
    """

    def __init__(self, kind: str, num_classes: int, seed: int) -> None:
        if kind not in HEADS:
            raise EraseError(f"a head among {', '.join(HEADS)}", repr(kind), "Choose one.")
        self.num_classes = num_classes
        self._model = HEADS[kind](seed)
        self._only_class: int | None = None

    def fit(self, z: NDArray[np.float32], y: NDArray[np.int64]) -> "Head":
        """Fit on representations `z` [n, D] and classes `y` [n]; returns itself."""
        present = np.unique(y)
        self._only_class = int(present[0]) if present.size == 1 else None
        if self._only_class is None:
            with _blas().limit(limits=1, user_api="blas"), warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                self._model.fit(z, y)
        return self

    def predict_proba(self, z: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return probabilities [n, K]; 0 for a class that no training node had."""
        proba = np.zeros((len(z), self.num_classes))
        with _blas().limit(limits=1, user_api="blas"):
            if self._only_class is not None:
                proba[:, self._only_class] = 1.0
            elif hasattr(self._model, "predict_proba"):
                proba[:, self._model.classes_] = self._model.predict_proba(z)
            else:
                scores = self._model.decision_function(z)
                if scores.ndim == 1:  # two classes: one column, the second class's
                    scores = np.stack([-scores, scores], axis=1)
                proba[:, self._model.classes_] = softmax(scores, axis=1)
        return proba
