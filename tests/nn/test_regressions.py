"""Regressions with soft targets: scikit-learn's optimum, from few passes over rows."""

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor
from torch.nn.functional import normalize

from erase.nn import regressions
from erase.nn.precision import full_float32
from erase.nn.regressions import Regressions, Targets
from tf32 import on_a_gpu_that_may_round


def blobs(k: int, n: int = 40, d: int = 5) -> tuple[Tensor, Tensor]:
    """Return points [n·k, d] around k centres, with length 1, and their classes [n·k]."""
    rng = np.random.default_rng(0)
    y = np.arange(n * k) % k
    x = rng.normal(size=(k, d))[y] * 2 + rng.normal(size=(len(y), d))
    return normalize(torch.from_numpy(x.astype(np.float32)), dim=1), torch.from_numpy(y)


def loss(
    rows: Tensor, targets: Tensor, seen: Tensor, strength: float, found: tuple[Tensor, Tensor]
) -> Tensor:
    """Return C Σ CE + ½‖W‖² of each regression [M] in float64."""
    weights, intercepts = (part.double() for part in found)
    logs = (rows.double() @ weights + intercepts).log_softmax(2)
    logs = torch.where(targets > 0, logs, 0.0)
    errors = -(targets * logs).sum(2) * seen
    return strength * errors.sum(1) + 0.5 * weights.square().sum((1, 2))


@pytest.mark.parametrize(("n", "d"), [(30, 40), (200, 12)])
@pytest.mark.parametrize("strength", [0.01, 0.3, 3.0])
def test_they_reach_scikit_learns_optimum(n: int, d: int, strength: float) -> None:
    """A soft target is a row for every class, weighed; a row that is overlooked weighs nothing."""
    generator = torch.Generator().manual_seed(n)
    rows = normalize(torch.randn(n, d, generator=generator), dim=1)
    targets = torch.rand(2, n, 3, generator=generator).pow(4)
    targets /= targets.sum(2, keepdim=True)
    seen = (torch.rand(2, n, generator=generator) < 0.7).float()
    weights, intercepts = Regressions(rows).solve(targets, seen, strength)
    for run in range(2):
        theirs = LogisticRegression(C=strength, tol=1e-10, max_iter=5000)
        counts = (targets[run] * seen[run, :, None]).numpy()
        theirs.fit(np.tile(rows.numpy(), (3, 1)), np.repeat([0, 1, 2], n), counts.T.ravel())
        proba = (rows @ weights[run] + intercepts[run]).softmax(1)
        np.testing.assert_allclose(proba, theirs.predict_proba(rows.numpy()), atol=5e-3)
    again = Regressions(rows).solve(targets, seen, strength, (weights + 0.1, intercepts))
    for ours, before in zip(again, (weights, intercepts), strict=True):
        torch.testing.assert_close(ours, before, atol=0.05, rtol=0.05)


@pytest.mark.parametrize("offset", [0.0, 30.0], ids=["spread", "nearly equal"])
@pytest.mark.parametrize("strength", [1.0, 100.0])
def test_float32_is_as_close_as_the_tolerance_says(offset: float, strength: float) -> None:
    rows, y = blobs(4, n=100, d=20)
    rows = normalize(rows + offset, dim=1)
    targets, seen = torch.eye(4)[y][None], torch.ones(1, len(y))
    found = Regressions(rows).solve(targets, seen, strength)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(regressions, "_SMALL", 1e-10)
        patch.setattr(regressions, "_MOST_STEPS", 500)
        best = Regressions(rows.double()).solve(targets.double(), seen.double(), strength)
    gap = loss(rows, targets, seen, strength, found) - loss(rows, targets, seen, strength, best)
    assert -1e-6 < float(gap) / (strength * len(y)) < 2e-4


@pytest.mark.parametrize("collapsed", [False, True], ids=["spread", "collapsed"])
def test_they_survive_tf32(collapsed: bool) -> None:
    rows, y = blobs(7, n=50, d=96)
    rows = normalize(rows + (3.0 if collapsed else 0.0), dim=1)
    targets, seen = torch.eye(7)[y][None], torch.ones(1, 350)
    weight, intercept = Regressions(rows.double()).solve(targets.double(), seen.double(), 3.0)
    best = (rows.double() @ weight[0] + intercept[0]).argmax(1)
    with on_a_gpu_that_may_round() as products:
        rounded = Regressions(rows).solve(targets, seen, 3.0)
    ours = (rows @ rounded[0][0] + rounded[1][0]).argmax(1)
    assert len(best.unique()) > 1
    assert float((ours == best).float().mean()) >= 0.995
    assert products.rounded == 0


def test_they_know_no_class_that_they_have_not_seen() -> None:
    rows = torch.eye(4)
    targets = torch.eye(3)[[0, 1, 2, 2]].expand(2, -1, -1)
    seen = torch.tensor([[1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0]])
    weights, intercepts = Regressions(rows).solve(targets, seen, 1.0)
    proba = (rows @ weights + intercepts).softmax(2)
    assert bool((proba[0, :, 2] == 0).all())
    assert bool((proba[1, 2:, 2] > 0.5).all())


def watch_rows(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that will tell the number of rows of every pass."""
    sizes: list[int] = []
    gradient = Targets._gradient

    def watched(self: Targets, at: Tensor, absent: Tensor, stride: int) -> Any:
        sizes.append(sum(len(z) for _, z in self._chunks(stride)))
        return gradient(self, at, absent, stride)

    monkeypatch.setattr(Targets, "_gradient", watched)
    return sizes


def test_of_very_many_rows_a_sample_gives_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, y = blobs(3, n=400)
    targets, seen = torch.eye(3)[y][None], torch.ones(1, len(y))
    sizes = watch_rows(monkeypatch)
    expected, _ = Regressions(rows).solve(targets, seen, 1.0)
    alone, sizes[:] = sizes.count(1200), []
    monkeypatch.setattr(regressions, "_MANY_ROWS", 150)
    found, _ = Regressions(rows).solve(targets, seen, 1.0)
    assert sizes[0] == 150
    assert 1 <= sizes.count(1200) < alone
    torch.testing.assert_close(found, expected, atol=0.15, rtol=0.05)


def test_rows_that_no_regression_counts_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, y = blobs(3, n=60)
    targets = torch.eye(3)[torch.stack([y, y.flip(0)])]
    seen = (torch.arange(2 * len(y)).view(2, -1) % 5 < torch.tensor([[2], [3]])).float()
    used = seen.any(0)
    sizes = watch_rows(monkeypatch)
    found = Regressions(rows).solve(targets, seen, 1.0)
    assert set(sizes) == {int(used.sum())}
    expected = Regressions(rows[used]).solve(targets[:, used], seen[:, used], 1.0)
    ours, theirs = ((rows @ weights + b).softmax(2) for weights, b in (found, expected))
    torch.testing.assert_close(ours, theirs, atol=0.01, rtol=0.0)


def test_in_blocks_they_are_those_of_all_rows_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, y = blobs(3, n=20)
    targets = torch.eye(3)[y].expand(2, -1, -1)
    seen = (torch.arange(2 * len(y)) % 7 > 0).float().view(2, -1)
    expected = Regressions(rows).solve(targets, seen, 1.0)
    monkeypatch.setattr(regressions, "_AT_ONCE", 50)  # 8 of 60 rows
    monkeypatch.setattr(regressions, "_FEWEST_AT_ONCE", 1)
    for ours, theirs in zip(Regressions(rows).solve(targets, seen, 1.0), expected, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


def test_a_step_that_is_too_long_is_shortened(monkeypatch: pytest.MonkeyPatch) -> None:
    """From far away, with a guess of the curvature that is much too small."""
    rows, y = blobs(3, n=60)
    targets, seen = torch.eye(3)[y][None], torch.ones(1, len(y))
    best = Regressions(rows).solve(targets, seen, 3.0)
    monkeypatch.setattr(regressions, "_CAUTION", 0.05)
    start = (10 * torch.ones(1, 5, 3) * torch.tensor([1.0, -1.0, 0.0]), torch.zeros(1, 1, 3))
    found = Regressions(rows).solve(targets, seen, 3.0, start)
    gap = loss(rows, targets, seen, 3.0, found) - loss(rows, targets, seen, 3.0, best)
    assert float(gap.abs()) / (3.0 * len(y)) < 1e-3


def test_the_start_of_very_many_rows_weighs_labels_as_all_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    solved: list[tuple[float, int]] = []
    descend = Targets._descend

    def watched(self: Targets, strength: float, start: Any, stride: int) -> Any:
        solved.append((strength, stride))
        return descend(self, strength, start, stride)

    monkeypatch.setattr(Targets, "_descend", watched)
    monkeypatch.setattr(regressions, "_MANY_ROWS", 60)
    rows, y = blobs(3, n=60)
    Regressions(rows).solve(torch.eye(3)[y][None], torch.ones(1, 180), 0.5)
    assert solved == [(1.5, 3), (0.5, 1)]


def many_classes() -> tuple[Tensor, Tensor, Tensor]:
    """Return rows [3000, 12] of 30 classes, targets [2, 3000, 30], and which rows count.

    A quarter of the labels is wrong at random.
    """
    rows, y = blobs(30, n=100, d=12)
    generator = torch.Generator().manual_seed(0)
    wrong = torch.rand(len(y), generator=generator) < 0.25
    given = torch.where(wrong, torch.randint(30, (len(y),), generator=generator), y)
    seen = (torch.rand(2, len(y), generator=generator) < 0.8).float()
    return rows, torch.eye(30)[given].expand(2, -1, -1), seen


@full_float32()
def test_the_curvature_of_each_class_is_that_of_the_rows_it_leads_and_the_mean_of_others() -> None:
    rows, targets, seen = many_classes()
    problem = Regressions(rows)
    at = 5 * torch.randn(30, 2, 13, generator=torch.Generator().manual_seed(0))
    absent = torch.zeros(30, 2, 1, dtype=torch.bool)
    absent[4] = True
    found = problem.with_targets(targets, seen)._by_class(at, absent, 3.0)
    assert found is not None
    z = torch.cat([rows - rows.mean(0), torch.ones(len(rows), 1)], 1).double()
    logits = z @ at.mean(1).double().T
    logits[:, 4] = -torch.inf
    proba, counts = logits.softmax(1), seen.mean(0).double()
    leads = proba.argmax(1)
    for k in range(30):
        share = proba[:, k] * (1 - proba[:, k]) * counts
        own = leads == k
        mean = share[~own].sum() / counts[~own].sum()
        expected = 3.0 * (z[own].T * share[own]) @ z[own]
        expected += 3.0 * mean * counts.mean() * z.T @ z
        expected += torch.diag(torch.tensor([1.0] * 12 + [3.0 * 1e-6 * len(z)])).double()
        product = found[k].double() @ expected
        torch.testing.assert_close(product, torch.eye(13).double(), atol=2e-3, rtol=0.0)


def test_many_classes_with_a_curvature_each_need_fewer_passes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows, targets, seen = many_classes()
    sizes = watch_rows(monkeypatch)
    found = Regressions(rows).solve(targets, seen, 3.0)
    few, sizes[:] = len(sizes), []
    with monkeypatch.context() as without:
        without.setattr(regressions, "_MANY_CLASSES", 31)
        shared = Regressions(rows).solve(targets, seen, 3.0)
    assert few < 0.8 * len(sizes)
    monkeypatch.setattr(regressions, "_SMALL", 1e-8)
    monkeypatch.setattr(regressions, "_MOST_STEPS", 400)
    best = loss(rows, targets, seen, 3.0, Regressions(rows).solve(targets, seen, 3.0))
    ours, theirs = (
        (loss(rows, targets, seen, 3.0, each) - best) / (3.0 * seen.sum(1))
        for each in (found, shared)
    )
    assert float(ours.max()) < 2e-4
    assert float(ours.max()) < 1.2 * float(theirs.max())


def test_a_curvature_each_is_computed_where_it_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, targets, seen = many_classes()
    problem = Regressions(rows).with_targets(targets, seen)
    assert problem._is_worth_it(1)
    assert not problem._is_worth_it(3)  # the start, from a sample
    few = torch.ones(2, len(rows), 7)
    assert not Regressions(rows).with_targets(few, seen)._is_worth_it(1)
    wide = Regressions(torch.ones(100, 256))
    assert not wide.with_targets(targets[:, :100], seen[:, :100])._is_worth_it(1)
    monkeypatch.setattr(regressions, "_MOST_NUMBERS", 30 * 13**2 - 1)
    assert not problem._is_worth_it(1)


def test_weights_without_a_curvature_in_float64_leave_the_shared_one() -> None:
    rows, targets, seen = many_classes()
    at, absent = torch.full((30, 2, 13), torch.nan), torch.zeros(30, 2, 1, dtype=torch.bool)
    assert Regressions(rows).with_targets(targets, seen)._by_class(at, absent, 1.0) is None
