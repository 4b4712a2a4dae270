"""Heads are scikit-learn's classifiers, or reach their optimum, made safe for missing classes."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC, LinearSVC
from torch import Tensor
from torch.nn.functional import normalize

from erase.nn.heads import HEADS, LinearHead, classify, logistic_regression
from erase.training import chunks
from erase.training.chunks import classify_in_chunks
from tf32 import Tf32Products, on_a_gpu_that_may_round, switch_allows_tf32

TWINS: dict[str, Any] = {
    "logreg": LogisticRegression(C=1.0, tol=1e-8, max_iter=10_000),
    "linear-svm": LinearSVC(random_state=3),
    "poly-svm": SVC(kernel="poly", degree=3, break_ties=True, random_state=3),
    "mlp": MLPClassifier((100, 100), learning_rate_init=0.001, random_state=3, max_iter=200),
}


def blobs(k: int, n: int = 40, d: int = 5, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return points [1, n·k, d] around k centres, and their classes [1, n·k]."""
    rng = np.random.default_rng(seed)
    y = np.arange(n * k) % k
    x = rng.normal(size=(k, d))[y] * 2 + rng.normal(size=(len(y), d))
    return torch.from_numpy(x.astype(np.float32))[None], torch.from_numpy(y)[None]


def all_rows(y: Tensor) -> Tensor:
    return torch.arange(y.shape[1]).expand_as(y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kind", sorted(TWINS))  # others are checked by the tests of all heads
@pytest.mark.parametrize("k", [2, 4])
def test_predictions_equal_scikit_learns(kind: str, k: int) -> None:
    z, y = blobs(k)
    ours = classify(kind, z, all_rows(y), y, k, [3])[0].numpy()
    on_sphere = normalize(z[0], dim=1).numpy()
    twin = TWINS[kind].fit(on_sphere, y[0].numpy())
    assert ours.argmax(1).tolist() == twin.predict(on_sphere).tolist()
    if hasattr(twin, "predict_proba"):
        np.testing.assert_allclose(ours, twin.predict_proba(on_sphere), atol=1e-3)
    assert np.mean(ours.argmax(1) == y[0].numpy()) > 0.7


@pytest.mark.parametrize(
    ("n", "d"), [(20, 200), (200, 16)], ids=["more dimensions", "more examples"]
)
@pytest.mark.parametrize("k", [2, 3, 13])
def test_logistic_regression_reaches_scikit_learns_optimum(n: int, d: int, k: int) -> None:
    z, y = blobs(k, n, d, seed=1)
    z = normalize(z, dim=2)
    weight, intercept = logistic_regression(z, y, k)
    twin = TWINS["logreg"].fit(z[0].double().numpy(), y[0].numpy())

    def loss(w: Tensor, b: Tensor) -> float:
        logits = z[0].double() @ w.double() + b.double()
        fit = torch.nn.functional.cross_entropy(logits, y[0], reduction="sum")
        # of two classes scikit-learn penalises one vector: the difference
        penalty = 0.5 * (w[:, 1] - w[:, 0]).square().sum() if k == 2 else 0.5 * w.square().sum()
        return float(fit + penalty)

    coefficients, offsets = torch.from_numpy(twin.coef_.T), torch.from_numpy(twin.intercept_)
    if k == 2:
        coefficients = torch.cat([torch.zeros_like(coefficients), coefficients], 1)
        offsets = torch.cat([torch.zeros(1), offsets])
    assert loss(weight[0], intercept[0]) == pytest.approx(loss(coefficients, offsets), rel=1e-4)


def representations(n: int, d: int, collapsed: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return z [1, N, d], of which n train, with a third of their classes [1, n] wrong.

    Collapsed, all rows point nearly the same way: cosines between 0.99998 and 1.
    """
    rng = np.random.default_rng(0)
    y = np.arange(4 * n) % 7
    z = 0.3 * rng.normal(size=(7, d))[y] + rng.normal(size=(len(y), d))
    if collapsed:
        z = 20 * np.abs(rng.normal(size=d)) + 0.1 * z
    given, moved = y[:n].copy(), rng.permutation(n)[: n // 3]
    given[moved] = rng.permutation(given[moved])  # every class keeps its size
    rows = torch.arange(n)[None]
    return torch.from_numpy(z.astype(np.float32))[None], rows, torch.from_numpy(given)[None]


@pytest.mark.parametrize("rounds", [lambda: True, switch_allows_tf32], ids=["always", "by switch"])
@pytest.mark.parametrize("collapsed", [False, True], ids=["spread", "collapsed"])
@pytest.mark.parametrize(("n", "d"), [(140, 512), (700, 96)], ids=["n < d", "n > d"])
def test_the_head_survives_products_in_tf32(
    n: int, d: int, collapsed: bool, rounds: Callable[[], bool]
) -> None:
    z, rows, y = representations(n, d, collapsed)
    torch.set_float32_matmul_precision("high")
    try:
        with torch.no_grad(), Tf32Products(rounds) as products:
            ours = classify("logreg", z, rows, y, 7, [0])[0].argmax(1).numpy()
    finally:
        torch.set_float32_matmul_precision("highest")
    on_sphere = normalize(z[0].double(), dim=1).numpy()
    twin = LogisticRegression(C=1.0, tol=1e-10, max_iter=20_000)
    theirs = twin.fit(on_sphere[:n], y[0].numpy()).predict(on_sphere)
    assert len(np.unique(theirs)) > 1  # there is something to get wrong
    assert np.mean(ours == theirs) >= 0.995
    assert (products.rounded == 0) == (rounds is switch_allows_tf32)


@pytest.mark.parametrize("collapsed", [False, True], ids=["spread", "collapsed"])
@pytest.mark.parametrize(("n", "d"), [(140, 512), (700, 96)], ids=["n < d", "n > d"])
def test_logistic_regression_alone_survives_products_in_tf32(
    n: int, d: int, collapsed: bool
) -> None:
    z, _, y = representations(n, d, collapsed)
    points = normalize(z[:, :n], dim=2)
    exact, _ = logistic_regression(points.double(), y, 7)
    with on_a_gpu_that_may_round() as products:
        weight, _ = logistic_regression(points, y, 7)
    assert float((weight - exact).norm() / exact.norm()) < 1e-5
    assert products.rounded == 0


def test_runs_are_solved_independently() -> None:
    first, second = blobs(3, seed=0), blobs(3, seed=1)
    together = classify(
        "logreg",
        torch.cat([first[0], second[0]]),
        all_rows(torch.cat([first[1], second[1]])),
        torch.cat([first[1], second[1]]),
        3,
        [0, 0],
    )
    for run, (z, y) in enumerate((first, second)):
        alone = classify("logreg", z, all_rows(y), y, 3, [0])
        torch.testing.assert_close(together[run], alone[0])


@pytest.mark.parametrize("kind", sorted(HEADS))
def test_probabilities_cover_all_classes_and_sum_to_one(kind: str) -> None:
    z, y = blobs(3)
    rows = (y[0] != 1).nonzero().T
    proba = classify(kind, z, rows, y.gather(1, rows), 5, [0])[0]
    assert proba.shape == (z.shape[1], 5)
    torch.testing.assert_close(proba.sum(1), torch.ones(z.shape[1]))
    assert bool((proba[:, [1, 3, 4]] == 0).all())
    assert float((proba.argmax(1) == y[0])[y[0] != 1].float().mean()) > 0.7


@pytest.mark.parametrize("kind", sorted(HEADS))
def test_one_class_only_is_a_constant(kind: str) -> None:
    z, y = blobs(2)
    proba = classify(kind, z, all_rows(y), torch.full_like(y, 2), 3, [0])[0]
    assert proba.unique(dim=0).tolist() == [[0.0, 0.0, 1.0]]


@pytest.mark.parametrize("kind", sorted(HEADS))
def test_zero_rows_are_fine(kind: str) -> None:
    z, y = blobs(2)
    z[0, :5] = 0.0
    assert bool(torch.isfinite(classify(kind, z, all_rows(y), y, 2, [0])).all())


def test_length_does_not_matter() -> None:
    z, y = blobs(3)
    stretched = z * torch.linspace(0.1, 9.0, z.shape[1])[None, :, None]
    torch.testing.assert_close(
        classify("logreg", z, all_rows(y), y, 3, [0]),
        classify("logreg", stretched, all_rows(y), y, 3, [0]),
    )


class InThrees:
    """Representations [1, N, D] that come three rows at a time."""

    def __init__(self, z: Tensor) -> None:
        self.z = z

    def chunks(self) -> Iterator[tuple[slice, Tensor]]:
        for start in range(0, self.z.shape[1], 3):
            some = self.z[:, start : start + 3]
            yield slice(start, start + some.shape[1]), some

    def map(self, work: Callable[[Tensor], Tensor]) -> Tensor:
        return torch.cat([work(some) for _, some in self.chunks()], 1)


@pytest.mark.parametrize("trained", [8, 90])  # fewer than dimensions, and more
def test_a_classifier_in_chunks_is_that_of_all_rows(trained: int) -> None:
    z, y = blobs(4, n=25, d=20)
    rows = torch.arange(100)[100 - trained :]
    expected = classify("logreg", z, rows[None], y[:, rows], 4, [0])
    found = classify_in_chunks(LinearHead(1, 20, 4), InThrees(z), rows, y[0, rows])
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("trained", [140, 700], ids=["n < d", "n > d"])
def test_a_classifier_in_chunks_survives_products_in_tf32(trained: int) -> None:
    z, rows, y = representations(trained, 300, collapsed=True)
    expected = classify("logreg", z.double(), rows, y, 7, [0])[0]
    with on_a_gpu_that_may_round() as products:
        found = classify_in_chunks(LinearHead(1, 300, 7), InThrees(z), rows[0], y[0])[0]
    assert float((found.argmax(1) == expected.argmax(1)).float().mean()) >= 0.995
    assert products.rounded == 0


def test_of_very_many_examples_every_nth_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    z, y = blobs(4, n=25, d=20)
    rows = torch.arange(100)
    monkeypatch.setattr(chunks, "ENOUGH_EXAMPLES", 40)  # 100 of them: every third
    found = classify_in_chunks(LinearHead(1, 20, 4), InThrees(z), rows, y[0])
    expected = classify_in_chunks(LinearHead(1, 20, 4), InThrees(z), rows[::3], y[0, ::3])
    torch.testing.assert_close(found, expected)
    monkeypatch.setattr(chunks, "ENOUGH_EXAMPLES", 100)
    assert not torch.equal(found, classify_in_chunks(LinearHead(1, 20, 4), InThrees(z), rows, y[0]))
