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
from torch.nn.functional import normalize

from erase.nn.coding import inverse_of_lower
from erase.nn.precision import full_float32

# Most accelerated steps. With fewer examples than dimensions the penalty rules and some fifteen
# reach the optimum to float32's precision; with many examples the bound is looser.
_FEW_EXAMPLES_STEPS, _MANY_EXAMPLES_STEPS = 20, 70
_SOFT_TARGETS_STEPS = 100
# On a CPU, where looking is free, the steps end once one promises less than this per example.
_SMALL_PROMISE = 1e-7
_SMALL_PROMISE_OF_MANY = 1e-5  # and more with very many examples, as they say less each
_ABSENT = 1e-3  # a class with less than that of all targets has no example
_MANY_ROWS = 5_000  # with more than twice as many, so many of them say where to start
_AT_ONCE = 2**20  # logits, 4 MB: on a CPU they stay in its cache


def leave(*_: Tensor) -> None:
    """Leave sums over all processes as they are: there is one."""


@full_float32()
def logistic_regression(z: Tensor, y: Tensor, num_classes: int) -> tuple[Tensor, Tensor]:
    r"""Return weights W [R, D, K] and intercepts b [R, 1, K] that minimise Σ CE + ½‖W‖².

    This is scikit-learn's ``LogisticRegression(C=1)``, for R runs at once: accelerated proximal
    steps under Böhning's bound ∇² ⪯ ½ ZᵀZ + I, whose factor is computed once, on the smaller side
    of Z. Rows are centred first: then the bound couples weights and intercepts no longer, and
    products of rows that are nearly equal keep their digits. Nothing waits for the device. A class
    without an example has intercept −∞.

    Args:
        z: [R, n, D].
        y: [R, n] classes 0 … K−1.
        num_classes: K.
    """
    runs = len(z)
    if runs > 1 and not z.is_cuda:  # each ends when it is done
        solved = [logistic_regression(z[r, None], y[r, None], num_classes) for r in range(runs)]
        weights, intercepts = (torch.cat(parts) for parts in zip(*solved, strict=True))
        return weights, intercepts
    centre = z.mean(1, keepdim=True)
    weight, intercept = regress_centred(z - centre, y, num_classes)
    return weight, intercept - centre @ weight


def regress_centred(
    z: Tensor,
    y: Tensor,
    num_classes: int,
    *,
    total: int | None = None,
    add_up: Callable[..., None] = leave,
) -> tuple[Tensor, Tensor]:
    """Do the work of `logistic_regression` for rows [R, n, D] whose mean is zero.

    Args:
        z: [R, n, D].
        y: [R, n] classes 0 … K−1.
        num_classes: K.
        total: examples of all processes, more than D, where the others have the other examples.
        add_up: replaces a tensor by its sum over all processes.
    """
    runs, n, columns = z.shape
    n = n if total is None else total

    def together(sums: Tensor) -> Tensor:
        add_up(sums)
        return sums

    targets = z.new_zeros(*z.shape[:2], num_classes).scatter_(2, y[..., None], 1.0)
    present = together(targets.sum(1, keepdim=True)) > 0
    # of two classes scikit-learn penalises the difference of their weights, once
    penalty = (1.0 + (present.sum(-1, keepdim=True) == 2)).to(z.dtype)
    dual = n < columns  # unknown: W = ZᵀA by A [n, K], else W itself
    gram = z @ z.mT if dual else together(z.mT @ z)
    bound = 0.5 * gram
    bound.diagonal(dim1=-2, dim2=-1).add_(penalty[:, 0])
    lower = inverse_of_lower(torch.linalg.cholesky_ex(bound).L)
    inverse = lower.mT @ lower
    solution = ahead = z.new_zeros(runs, gram.shape[1], num_classes)
    level = level_ahead = z.new_zeros(runs, 1, num_classes)  # the intercepts
    steps = _FEW_EXAMPLES_STEPS if dual else _MANY_EXAMPLES_STEPS
    push = _momentum(steps, z.device).to(z.dtype)
    age = torch.zeros(runs, 1, 1, dtype=torch.int64, device=z.device)
    absent = ~present
    for _ in range(steps):
        logits = (gram if dual else z) @ ahead + level_ahead
        excess = logits.masked_fill_(absent, -torch.inf).softmax(2).sub_(targets)
        del logits
        surplus = together(excess.sum(1, keepdim=True))  # the intercepts' gradient
        pull = excess if dual else together(z.mT @ excess)
        gradient = torch.addcmul(pull, penalty, ahead)
        stepped = torch.baddbmm(ahead, inverse, gradient, alpha=-1)
        lifted = level_ahead - 2 / n * surplus
        move, lift = stepped - solution, lifted - level
        slope = ((gram @ move if dual else move) * gradient).sum((1, 2), keepdim=True)
        slope = slope + (lift * surplus).sum((1, 2), keepdim=True)
        age = torch.where(slope > 0, 0, age)  # uphill: forget the momentum
        solution, level = stepped, lifted
        if not z.is_cuda and float(slope.abs().max()) < _SMALL_PROMISE * n:
            break
        ahead = torch.addcmul(stepped, push[age], move)
        level_ahead = torch.addcmul(lifted, push[age], lift)
        age = age + 1
    weight = z.mT @ solution if dual else solution
    return weight, level.masked_fill(absent, -torch.inf)


class Regressions:
    """Logistic regressions with soft targets on the same rows: what they share is computed once.

    The accelerated steps are those of :func:`logistic_regression`; here each regression ends when
    it is close enough to tell classes apart, and may ignore some of the rows. With very many rows,
    every n-th row is solved first as a start for all of them; where most rows are ignored, each
    regression has a matrix of its own.

    Args:
        rows: [n, D].
        many: of how many rows these are some; None: they are all. It says how close is enough.
    """

    def __init__(self, rows: Tensor, many: int | None = None) -> None:
        self.rows = rows
        self._many = len(rows) if many is None else many
        # Centred, so that the bound couples weights and intercepts no longer. The last column is
        # the intercept's.
        self._centre = rows.mean(0, keepdim=True)
        self._z = torch.cat([rows - self._centre, rows.new_ones(len(rows), 1)], 1)
        with full_float32():
            self._gram = self._z[:, :-1].T @ self._z[:, :-1]
        self._inverses: dict[float, Tensor] = {}

    @full_float32()
    def solve(
        self,
        targets: Tensor,
        seen: Tensor,
        strength: float,
        start: tuple[Tensor, Tensor] | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return weights W [M, D, K] and intercepts [M, 1, K] that minimise C Σ CE + ½‖W‖².

        A class that a regression does not see has intercept −∞.

        Args:
            targets: [M, n, K] probabilities of classes.
            seen: [M, n] 1 for rows that count, 0 for rows that are overlooked.
            strength: C.
            start: weights and intercepts of like regressions, from where it is not far.
        """
        (n, d), (runs, _, classes) = self._z.shape, targets.shape
        if n > _MANY_ROWS and 2 * int(seen.count_nonzero()) <= runs * n:
            return self._solve_apart(targets, seen, strength, start)
        z, inverse = self._z, self._inverse(strength)
        wanted = (targets * seen[..., None]).permute(2, 0, 1).contiguous()  # [K, M, n]
        absent = wanted.sum(2, keepdim=True) < _ABSENT
        solution = ahead = z.new_zeros(classes, runs, d)
        stride = max(1, n // _MANY_ROWS)
        enough = _SMALL_PROMISE_OF_MANY * strength * self._many * max(1, self._many // _MANY_ROWS)
        if start is None and stride > 1:
            few = Regressions(self.rows[::stride])
            start = few.solve(targets[:, ::stride], seen[:, ::stride], strength * stride)
        if start is not None:
            level = start[1].nan_to_num(neginf=0.0) + self._centre @ start[0]
            solution = ahead = torch.cat([start[0], level], 1).permute(2, 0, 1).contiguous()
        penalised = z.new_ones(d)
        penalised[-1] = 0.0
        push = _momentum(_SOFT_TARGETS_STEPS, z.device).to(z.dtype)
        age = torch.zeros(runs, 1, dtype=torch.int64, device=z.device)
        done = torch.zeros(runs, 1, dtype=torch.bool, device=z.device)
        for _ in range(_SOFT_TARGETS_STEPS):
            pull = self._pull(ahead, wanted, absent, seen)
            gradient = torch.add(ahead * penalised, pull, alpha=strength)
            stepped = ahead - (gradient.flatten(0, 1) @ inverse).view(classes, runs, d)
            move = stepped - solution
            slope = (move * gradient).sum((0, 2))[:, None]
            solution = torch.where(done, solution, stepped)  # no run hears of another
            done = done | (slope.abs() < enough)
            if bool(done.all()):
                break
            age = torch.where(slope > 0, 0, age)  # uphill: forget the momentum
            ahead = torch.addcmul(solution, push[age], move)
            age = age + 1
        solution = solution.permute(1, 2, 0)  # [M, D+1, K]
        weight = solution[:, :-1].contiguous()
        intercept = solution[:, -1:] - self._centre @ weight
        return weight, intercept.masked_fill(absent.permute(1, 2, 0), -torch.inf)

    def _solve_apart(
        self,
        targets: Tensor,
        seen: Tensor,
        strength: float,
        start: tuple[Tensor, Tensor] | None,
    ) -> tuple[Tensor, Tensor]:
        """Return what `solve` does, each regression with the rows that count and no other."""
        n, solved = len(self.rows), []
        for run, own in enumerate(seen.bool()):
            near = None if start is None else (start[0][run, None], start[1][run, None])
            apart, all_of_them = Regressions(self.rows[own], n), seen.new_ones(1, int(own.sum()))
            solved.append(apart.solve(targets[run, None, own], all_of_them, strength, near))
        weights, intercepts = (torch.cat(parts) for parts in zip(*solved, strict=True))
        return weights, intercepts

    def _pull(self, ahead: Tensor, wanted: Tensor, absent: Tensor, seen: Tensor) -> Tensor:
        """Return the gradient of Σ CE [K, M, D+1]."""
        z, columns = self._z, ahead.flatten(0, 1)
        size = len(z) if z.is_cuda else max(1, _AT_ONCE // len(columns))
        pull = torch.zeros_like(columns)
        for first in range(0, len(z), size):
            some = slice(first, first + size)
            logits = (columns @ z[some].T).view(*ahead.shape[:2], -1)
            proba = logits.masked_fill_(absent, -torch.inf).softmax(0)
            excess = proba.mul_(seen[:, some]).sub_(wanted[..., some])
            pull.addmm_(excess.flatten(0, 1), z[some])
        return pull.view_as(ahead)

    def _inverse(self, strength: float) -> Tensor:
        """Return the inverse of a bound on the curvature, whatever rows are overlooked [D+1, D+1].

        (½ C ZᵀZ + I)⁻¹ for the weights, 2 / (C n) for the intercept, which is not penalised.
        """
        if strength not in self._inverses:
            n, d = self._z.shape
            bound = 0.5 * strength * self._gram
            bound.diagonal().add_(1.0)
            inverse = bound.new_zeros(d, d)
            inverse[:-1, :-1] = torch.cholesky_inverse(torch.linalg.cholesky(bound))
            inverse[-1, -1] = 2 / (strength * n)
            self._inverses[strength] = inverse
        return self._inverses[strength]


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


@full_float32()
def _by_logistic_regression(
    z: Tensor, rows: Tensor, y: Tensor, num_classes: int, seeds: Sequence[int]
) -> Tensor:
    unit = normalize(z, dim=2)
    examples = unit.gather(1, rows[..., None].expand(-1, -1, z.shape[2]))
    centre = examples.mean(1, keepdim=True)
    weight, intercept = logistic_regression(examples - centre, y, num_classes)
    proba: Tensor = ((unit - centre) @ weight + intercept).softmax(2)
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
