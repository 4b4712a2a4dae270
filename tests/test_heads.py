"""Heads are scikit-learn's classifiers, made safe for missing classes."""

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC, LinearSVC

from erase.errors import EraseError
from erase.heads import HEADS, Head

TWINS = {
    "logreg": LogisticRegression(C=1.0),
    "linear-svm": LinearSVC(random_state=3),
    "poly-svm": SVC(kernel="poly", degree=3, break_ties=True, random_state=3),
    "mlp": MLPClassifier((100, 100), learning_rate_init=0.001, random_state=3, max_iter=200),
}


def blobs(k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    rng = np.random.default_rng(0)
    y = np.arange(30 * k) % k
    return (rng.normal(size=(k, 5))[y] * 2 + rng.normal(size=(len(y), 5))).astype(np.float32), y


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kind", sorted(HEADS))
@pytest.mark.parametrize("k", [2, 4])
def test_predictions_equal_scikit_learns(kind: str, k: int) -> None:
    z, y = blobs(k)
    ours = Head(kind, k, seed=3).fit(z, y).predict_proba(z)
    twin = TWINS[kind].fit(z, y)
    assert ours.argmax(1).tolist() == twin.predict(z).tolist()
    if hasattr(twin, "predict_proba"):
        np.testing.assert_array_equal(ours, twin.predict_proba(z))
    assert np.mean(ours.argmax(1) == y) > 0.75


@pytest.mark.parametrize("kind", sorted(HEADS))
def test_probabilities_cover_all_classes_and_sum_to_one(kind: str) -> None:
    z, y = blobs(3)
    kept = y != 1
    proba = Head(kind, 5, seed=0).fit(z[kept], y[kept]).predict_proba(z)
    assert proba.shape == (len(z), 5)
    np.testing.assert_allclose(proba.sum(1), 1)
    assert (proba[:, [1, 3, 4]] == 0).all()


@pytest.mark.parametrize("kind", sorted(HEADS))
def test_one_class_only_is_a_constant(kind: str) -> None:
    z, _ = blobs(2)
    proba = Head(kind, 3, seed=0).fit(z, np.full(len(z), 2)).predict_proba(z)
    assert (proba == np.array([0.0, 0.0, 1.0])).all()


def test_an_unknown_head_says_what_there_is() -> None:
    with pytest.raises(EraseError, match="logreg, linear-svm, poly-svm, mlp"):
        Head("forest", 2, 0)
