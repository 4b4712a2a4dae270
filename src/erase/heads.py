"""Classifiers on the representations (paper, section 4.2 and the appendix on classifiers).

Logistic regression is solved here, for all runs at once and where the representations are; it
reaches scikit-learn's optimum. The others are scikit-learn's. All are made safe for what ERASE
meets on the way: classes without a single example, or one class only.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC, LinearSVC
from threadpoolctl import ThreadpoolController
from torch import Tensor
from torch.nn.functional import normalize, one_hot

from erase.coding import inverse_of_lower

# The intercept is a weight on a constant feature whose square is this: as good as unpenalised.
_INTERCEPT = 1e3
# Most accelerated steps. With fewer examples than dimensions the penalty rules and some fifteen
# reach the optimum to float32's precision; with many examples the bound is looser.
_FEW_EXAMPLES_STEPS, _MANY_EXAMPLES_STEPS = 20, 100
# On a CPU, where looking is free, the steps end once one promises less than this per example.
_SMALL_PROMISE = 1e-7


def logistic_regression(z: Tensor, y: Tensor, num_classes: int) -> tuple[Tensor, Tensor]:
    r"""Return weights W [R, D, K] and intercepts b [R, 1, K] that minimise Σ CE + ½‖W‖².

    This is scikit-learn's ``LogisticRegression(C=1)``, for R runs at once: accelerated proximal
    steps under Böhning's bound ∇² ⪯ ½ ZᵀZ + I, whose factor is computed once, on the smaller side
    of Z. Nothing waits for the device. A class without an example has intercept −∞.

    Args:
        z: [R, n, D].
        y: [R, n] classes 0 … K−1.
        num_classes: K.
    """
    runs, n, d = z.shape
    if runs > 1 and not z.is_cuda:  # each ends when it is done
        solved = [logistic_regression(z[r, None], y[r, None], num_classes) for r in range(runs)]
        weights, intercepts = (torch.cat(parts) for parts in zip(*solved, strict=True))
        return weights, intercepts
    targets = one_hot(y, num_classes).to(z.dtype)  # [R, n, K]
    present = targets.sum(1, keepdim=True) > 0
    # of two classes scikit-learn penalises the difference of their weights, once
    penalty = (1.0 + (present.sum(-1, keepdim=True) == 2)).to(z.dtype)
    constant = z.new_full((runs, n, 1), _INTERCEPT**0.5)
    z = torch.cat([z, constant], 2)
    dual = n <= d  # unknown: W = ZᵀA by A [n, K], else W itself
    gram = z @ z.mT if dual else z.mT @ z
    bound = 0.5 * gram
    bound.diagonal(dim1=-2, dim2=-1).add_(penalty[:, 0])
    lower = inverse_of_lower(torch.linalg.cholesky_ex(bound).L)
    inverse = lower.mT @ lower
    solution = ahead = z.new_zeros(runs, gram.shape[1], num_classes)
    steps = _FEW_EXAMPLES_STEPS if dual else _MANY_EXAMPLES_STEPS
    push = _momentum(steps, z.device)
    age = torch.zeros(runs, 1, 1, dtype=torch.int64, device=z.device)
    absent = ~present
    for _ in range(steps):
        logits = (gram if dual else z) @ ahead
        excess = logits.masked_fill_(absent, -torch.inf).softmax(2) - targets
        gradient = torch.addcmul(excess if dual else z.mT @ excess, penalty, ahead)
        stepped = torch.baddbmm(ahead, inverse, gradient, alpha=-1)
        move = stepped - solution
        slope = ((gram @ move if dual else move) * gradient).sum((1, 2), keepdim=True)
        age = torch.where(slope > 0, 0, age)  # uphill: forget the momentum
        if not z.is_cuda and float(slope.abs().max()) < _SMALL_PROMISE * n:
            solution = stepped
            break
        ahead = torch.addcmul(stepped, push[age].to(move.dtype), move)
        solution, age = stepped, age + 1
    weight = z.mT @ solution if dual else solution
    intercept = weight[:, -1:] * _INTERCEPT**0.5
    return weight[:, :-1], intercept.masked_fill(~present, -torch.inf)


@cache
def _momentum(steps: int, device: torch.device) -> Tensor:
    """Return Nesterov's (t_k − 1)/t_(k+1) with t_0 = 1, t_(k+1) = (1 + √(1 + 4 t_k²))/2 [steps].

    Kept on the device: an epoch that is being recorded cannot copy it there.
    """
    pushes, t = [], 1.0
    for _ in range(steps):
        later = (1 + (1 + 4 * t**2) ** 0.5) / 2
        pushes.append((t - 1) / later)
        t = later
    return torch.tensor(pushes, device=device)


def _by_logistic_regression(
    z: Tensor, rows: Tensor, y: Tensor, num_classes: int, seeds: Sequence[int]
) -> Tensor:
    length = torch.linalg.vector_norm(z, dim=2, keepdim=True).clamp(min=1e-12)
    chosen = rows[..., None]
    examples = z.gather(1, chosen.expand(-1, -1, z.shape[2])) / length.gather(1, chosen)
    weight, intercept = logistic_regression(examples, y, num_classes)
    proba: Tensor = (z @ weight / length + intercept).softmax(2)
    return proba


def _linear_svm(seed: int) -> LinearSVC:
    return LinearSVC(random_state=seed)


def _polynomial_svm(seed: int) -> SVC:
    return SVC(kernel="poly", degree=3, break_ties=True, random_state=seed)


def _mlp(seed: int) -> MLPClassifier:
    return MLPClassifier((100, 100), learning_rate_init=1e-3, random_state=seed)


@cache
def _blas() -> ThreadpoolController:
    """Return a handle on numpy's BLAS threads.

    A head fits a few hundred rows: one thread is enough, and more would fight torch's own threads
    for the cores in every epoch.
    """
    return ThreadpoolController()


def _by_sklearn(
    build: Callable[[int], Any],
    z: Tensor,
    rows: Tensor,
    y: Tensor,
    num_classes: int,
    seeds: Sequence[int],
) -> Tensor:
    proba = []
    for points, index, classes, seed in zip(normalize(z, dim=2), rows, y, seeds, strict=True):
        x, train = points.cpu().numpy(), index.cpu().numpy()
        with _blas().limit(limits=1, user_api="blas"), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            answer = _sklearn_proba(
                build(seed % 2**32), x, x[train], classes.cpu().numpy(), num_classes
            )
        proba.append(torch.from_numpy(answer))
    return torch.stack(proba).to(z)


def _sklearn_proba(
    model: Any,
    x: NDArray[np.float32],
    examples: NDArray[np.float32],
    y: NDArray[np.int64],
    num_classes: int,
) -> NDArray[np.float64]:
    """Return probabilities [N, K] of a scikit-learn classifier; 0 for a class without example.

    SVMs give the softmax of their decision values, whose order is right and whose scale is not.
    """
    proba = np.zeros((len(x), num_classes))
    if np.ptp(y) == 0:
        proba[:, y[0]] = 1.0
        return proba
    model.fit(examples, y)
    if hasattr(model, "predict_proba"):
        proba[:, model.classes_] = model.predict_proba(x)
        return proba
    scores = model.decision_function(x)
    if scores.ndim == 1:  # two classes: one column, the second class's
        scores = np.stack([-scores, scores], axis=1)
    proba[:, model.classes_] = softmax(scores, axis=1)
    return proba


@dataclass(frozen=True)
class Head:
    """An entry of :data:`HEADS`.

    Attributes:
        summary: one sentence.
        proba: the work of :func:`classify`.
    """

    summary: str
    proba: Callable[[Tensor, Tensor, Tensor, int, Sequence[int]], Tensor]


HEADS: dict[str, Head] = {
    "logreg": Head("logistic regression with C = 1: the paper's choice", _by_logistic_regression),
    "linear-svm": Head(
        "linear support vector machine, one against the rest", partial(_by_sklearn, _linear_svm)
    ),
    "poly-svm": Head(
        "support vector machine with a polynomial kernel of degree 3",
        partial(_by_sklearn, _polynomial_svm),
    ),
    "mlp": Head(
        "two hidden layers of 100, Adam with learning rate 0.001", partial(_by_sklearn, _mlp)
    ),
}


def classify(
    kind: str, z: Tensor, rows: Tensor, y: Tensor, num_classes: int, seeds: Sequence[int]
) -> Tensor:
    """Return the probability of every class for every node [R, N, K], for R runs.

    Args:
        kind: a name in :data:`HEADS`.
        z: [R, N, D] representations; the classifier sees them with length 1.
        rows: [R, n] the nodes it is trained on.
        y: [R, n] their classes.
        num_classes: K.
        seeds: [R], for classifiers that draw anything.
    """
    return HEADS[kind].proba(z, rows, y, num_classes, seeds)
