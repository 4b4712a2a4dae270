"""Coding rates against a float64 reference by singular values, in value and gradient."""

import math
from collections.abc import Callable

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from torch import Tensor
from torch.nn.functional import normalize

from erase.errors import EraseError
from erase.nn.class_grams import ClassGrams, shared_rate_reduction
from erase.nn.coding import (
    _reduction,
    _reduction_batched,
    class_coding_rate,
    coding_rate,
    inverse_of_lower,
    log_ntvr,
    log_volume,
    rate_ntvr,
    rate_reduction,
    rate_reduction_loss,
    volume,
)
from tf32 import on_a_gpu_that_may_round


def rate_by_svd(z: Tensor, scale: float) -> Tensor:
    """½ Σ log(1 + c σ²), the definition by another algorithm than a Cholesky factor."""
    return 0.5 * torch.log1p(scale * torch.linalg.svdvals(z) ** 2).sum()


def reference(z: Tensor, membership: Tensor, k: int, eps2: float) -> tuple[Tensor, Tensor]:
    n, d = z.shape
    total = rate_by_svd(z, d / (n * eps2))
    classes = z.new_zeros(())
    for j in range(k):
        pi = torch.diag((membership == j).to(z.dtype))  # the paper's Π_j, N×N
        n_j = float(pi.trace())
        if n_j:
            classes = classes + n_j / n * rate_by_svd(pi.sqrt() @ z, d / (n_j * eps2))
    return total, classes


shapes = st.tuples(st.integers(1, 30), st.integers(1, 12), st.integers(1, 5), st.integers(0, 10**6))


@given(shapes, st.sampled_from([0.01, 0.05, 0.4, 2.0]))
def test_rates_and_gradients_match_the_svd_reference(
    shape: tuple[int, int, int, int], eps2: float
) -> None:
    n, d, k, seed = shape
    generator = torch.Generator().manual_seed(seed)
    z64 = torch.randn(n, d, generator=generator, dtype=torch.float64)
    membership = torch.randint(k, (n,), generator=generator)
    ours = z64.float().requires_grad_()
    reduction, rate, class_rate = rate_reduction(ours, membership, k, eps2=eps2, gamma=1.7)
    reduction.backward()

    theirs = z64.clone().requires_grad_()
    expected, expected_class = reference(theirs, membership, k, eps2)
    torch.testing.assert_close(rate.double(), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(class_rate.double(), expected_class, rtol=1e-4, atol=1e-5)
    (1.7 * expected - expected_class).backward()
    assert ours.grad is not None
    assert theirs.grad is not None
    torch.testing.assert_close(ours.grad.double(), theirs.grad, rtol=2e-3, atol=2e-4)
    torch.testing.assert_close(
        reduction.double(), 1.7 * expected - expected_class, rtol=1e-4, atol=1e-4
    )


@given(shapes, st.sampled_from([0.01, 0.4]))
def test_the_batched_path_equals_each_run_alone(
    shape: tuple[int, int, int, int], eps2: float
) -> None:
    n, d, k, seed = shape
    generator = torch.Generator().manual_seed(seed)
    z = torch.nn.functional.normalize(torch.randn(3, 11 * n, d, generator=generator), dim=2)
    membership = torch.randint(k, (3, 11 * n), generator=generator)
    membership[1] = 0  # one run has put everything into one class
    answers = _reduction_batched(z, membership, k + 1, eps2, 1.7)  # a class is always empty
    for run in range(3):
        alone = _reduction(z[run], membership[run], k + 1, eps2, 1.7)
        for ours, theirs in zip(answers, alone, strict=True):
            torch.testing.assert_close(ours[run], theirs, rtol=1e-3, atol=1e-4)


def test_runs_are_reduced_independently() -> None:
    z = torch.randn(2, 20, 4, generator=torch.Generator().manual_seed(0)).requires_grad_()
    membership = torch.stack([torch.arange(20) % 3, torch.arange(20) % 2])
    reduction, rate, class_rate = rate_reduction(z, membership, 3, eps2=0.1, gamma=2.0)
    (reduction * torch.tensor([1.0, 3.0])).sum().backward()
    assert z.grad is not None
    for run, weight in ((0, 1.0), (1, 3.0)):
        one = z.detach()[run].clone().requires_grad_()
        alone = rate_reduction(one, membership[run], 3, eps2=0.1, gamma=2.0)
        alone[0].backward()
        assert one.grad is not None
        torch.testing.assert_close(z.grad[run], weight * one.grad)
        for together, single in zip((reduction, rate, class_rate), alone, strict=True):
            torch.testing.assert_close(together[run], single)


def test_inverse_of_a_lower_triangle_by_halves() -> None:
    for d in (1, 7, 64, 96):
        lower = torch.rand(2, d, d, dtype=torch.float64).tril() + torch.eye(d)
        inverse = inverse_of_lower(lower, leaf=8)
        eye = torch.eye(d, dtype=torch.float64).expand(2, d, d)
        torch.testing.assert_close(inverse @ lower, eye, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("n", "d"), [(40, 5), (5, 40)], ids=["d side", "n side"])
def test_gradients_pass_gradcheck_on_both_gram_sides(n: int, d: int) -> None:
    z = torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    membership = torch.arange(n) % 3
    z.requires_grad_()
    assert torch.autograd.gradcheck(lambda t: coding_rate(t, 0.05), z)
    assert torch.autograd.gradcheck(lambda t: class_coding_rate(t, membership, 4, 0.05), z)


def test_the_smaller_side_of_the_gram_matrix_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    cholesky = torch.linalg.cholesky

    def watched(matrix: Tensor) -> Tensor:
        seen.append(matrix.shape[0])
        factor: Tensor = cholesky(matrix)
        return factor

    monkeypatch.setattr(torch.linalg, "cholesky", watched)
    coding_rate(torch.randn(7, 100), 0.5)
    coding_rate(torch.randn(100, 7), 0.5)
    assert seen == [7, 7]


def test_values_one_can_check_by_hand() -> None:
    z = torch.eye(4)  # c = 4 / (4 · 0.5) = 2: ½ · 4 · log 3
    assert float(coding_rate(z, 0.5)) == pytest.approx(2 * math.log(3), rel=1e-6)
    # two classes of two orthogonal rows, c_j = 4: Σ 2/4 · ½ · 2 log 5
    assert float(class_coding_rate(z, torch.tensor([0, 0, 1, 1]), 2, 0.5)) == pytest.approx(
        math.log(5), rel=1e-6
    )


def test_orthogonal_classes_have_a_larger_reduction_than_mixed_ones() -> None:
    z = torch.eye(2).repeat(10, 1)
    right = torch.arange(20) % 2
    wrong = torch.arange(20) // 10
    best = rate_reduction(z, right, 2, eps2=0.5)[0]
    assert float(best) > float(rate_reduction(z, wrong, 2, eps2=0.5)[0]) + 0.1


def test_gamma_scales_the_rate_of_all_nodes_only() -> None:
    z, membership = torch.randn(20, 6), torch.arange(20) % 3
    one, rate, _ = rate_reduction(z, membership, 3, eps2=0.1, gamma=1.0)
    three = rate_reduction(z, membership, 3, eps2=0.1, gamma=3.0)[0]
    torch.testing.assert_close(three - one, 2 * rate)


@pytest.mark.parametrize(
    "z",
    [
        pytest.param(torch.zeros(6, 4), id="zero rows"),
        pytest.param(torch.full((6, 4), 1e18), id="huge equal rows"),
        pytest.param(
            torch.randn(6, 4) * torch.tensor([1e19, 1, 1e-19, 1, 0, 1])[:, None], id="wild"
        ),
        pytest.param(torch.ones(1, 4), id="a single node"),
        pytest.param(torch.zeros(0, 4), id="no node"),
    ],
)
def test_rates_and_gradients_are_finite(z: Tensor) -> None:
    z = z.clone().requires_grad_()
    membership = torch.zeros(z.shape[0], dtype=torch.int64)  # classes 1 and 2 are empty
    reduction, rate, class_rate = rate_reduction(z, membership, 3, eps2=0.05, gamma=2.0)
    reduction.backward()
    assert z.grad is not None
    for value in (reduction, rate, class_rate, z.grad):
        assert bool(torch.isfinite(value).all())
    assert float(rate.detach()) == pytest.approx(float(class_rate.detach()), rel=1e-5)


def test_huge_rows_match_the_float64_reference() -> None:
    z64 = torch.randn(30, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) * 1e12
    ours = z64.float().requires_grad_()
    rate = coding_rate(ours, 0.05)
    rate.backward()
    theirs = z64.clone().requires_grad_()
    expected = rate_by_svd(theirs, 6 / (30 * 0.05))
    expected.backward()
    assert ours.grad is not None
    assert theirs.grad is not None
    torch.testing.assert_close(rate.double(), expected, rtol=1e-5, atol=0)
    torch.testing.assert_close(ours.grad.double(), theirs.grad, rtol=1e-4, atol=1e-18)


def test_volume_is_the_root_of_the_covariance_determinant() -> None:
    z = torch.randn(50, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(2)) + 3.0
    covariance = torch.cov(z.T, correction=0)  # centred by definition
    assert float(volume(z)) == pytest.approx(math.sqrt(float(torch.det(covariance))), rel=1e-9)
    assert float(log_volume(z)) == pytest.approx(0.5 * float(torch.logdet(covariance)), rel=1e-9)


def test_volume_of_a_flat_set_is_zero() -> None:
    flat = torch.randn(50, 3) @ torch.randn(3, 4)
    assert float(volume(flat)) == 0.0
    assert float(volume(torch.randn(3, 4))) == 0.0


def tolerance(d: int, eps2: float) -> Tensor:
    w = torch.randn(200_000, d, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    return math.sqrt(eps2 / d) * w


def test_log_ntvr_compares_volumes_with_the_tolerance_of_eps() -> None:
    d, eps2 = 5, 0.2
    w = tolerance(d, eps2)
    assert float(log_ntvr(w, eps2)) == pytest.approx(0.0, abs=0.02)  # the tolerance itself
    assert float(log_ntvr(0.5 * w, eps2)) == pytest.approx(d * math.log(0.5), abs=0.02)
    assert float(log_ntvr(w, 4 * eps2)) == pytest.approx(d * math.log(0.5), abs=0.02)
    flat = w[:100] * torch.tensor([1.0, 1.0, 0.0, 0.0, 0.0])
    assert float(log_ntvr(flat, eps2)) == -math.inf


def test_rate_ntvr_compares_coding_rates_with_the_tolerance_of_eps() -> None:
    d, eps2 = 5, 0.2
    w = tolerance(d, eps2)
    assert float(rate_ntvr(w, eps2)) == pytest.approx(1.0, rel=0.01)
    assert float(rate_ntvr(torch.zeros(7, d), eps2)) == 0.0
    shift = torch.tensor([[0.3, -0.1, 0.2], [0.0, 0.4, 0.1]])  # two rows span no three dimensions
    energies = torch.linalg.svdvals(shift.double()) ** 2 * 3 / (2 * eps2)
    expected = float((1 + energies).log2().sum() / 3)
    assert float(rate_ntvr(shift, eps2)) == pytest.approx(expected, rel=1e-9)
    small = 1e-4 * w  # ∝ 1/ε² for small shifts
    ratio = float(rate_ntvr(small, eps2) / rate_ntvr(small, 10 * eps2))
    assert ratio == pytest.approx(10.0, rel=1e-3)


@pytest.mark.parametrize("scale", [30.0, 3e3, 1e6])
def test_flat_sets_of_any_scale_match_the_float64_reference(scale: float) -> None:
    """I + c ZᵀZ with rank 2 of 6 has a float32 Cholesky factor of rounding errors only."""
    generator = torch.Generator().manual_seed(4)
    flat = torch.randn(30, 2, generator=generator) @ torch.randn(2, 6, generator=generator)
    z, membership = scale * flat, torch.arange(30) % 2
    ours, theirs = z.clone().requires_grad_(), z.double().requires_grad_()
    reduction, rate, class_rate = rate_reduction(ours, membership, 2, eps2=0.05, gamma=2.0)
    alone = coding_rate(z, 0.05)
    expected, expected_class = reference(theirs, membership, 2, 0.05)
    torch.testing.assert_close(rate.double(), expected, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(alone.double(), expected, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(class_rate.double(), expected_class, rtol=1e-3, atol=1e-3)
    reduction.backward()
    assert ours.grad is not None
    assert bool(torch.isfinite(ours.grad).all())


def test_a_small_class_is_factored_on_its_own_side(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    cholesky = torch.linalg.cholesky

    def watched(matrix: Tensor) -> Tensor:
        seen.append(matrix.shape[0])
        factor: Tensor = cholesky(matrix)
        return factor

    monkeypatch.setattr(torch.linalg, "cholesky", watched)
    membership = torch.tensor([0] * 5 + [1] * 95)
    rate_reduction(torch.randn(100, 20) / 20, membership, 2, eps2=0.5)
    assert seen == [5, 20, 20]


def test_gamma_is_one_by_default() -> None:
    z, membership = torch.randn(20, 6), torch.arange(20) % 3
    reduction, rate, class_rate = rate_reduction(z, membership, 3, eps2=0.1)
    torch.testing.assert_close(reduction, rate - class_rate)


def test_gradients_are_scaled_by_what_comes_from_above() -> None:
    z, membership = torch.randn(20, 6, dtype=torch.float64), torch.arange(20) % 3
    functions: list[Callable[[Tensor], Tensor]] = [
        lambda t: coding_rate(t, 0.1),
        lambda t: class_coding_rate(t, membership, 3, 0.1),
        lambda t: rate_reduction(t, membership, 3, eps2=0.1, gamma=2.0)[0],
    ]
    for function in functions:
        grads = []
        for factor in (1.0, -3.0):
            leaf = z.clone().requires_grad_()
            (factor * function(leaf)).backward()
            assert leaf.grad is not None
            grads.append(leaf.grad)
        torch.testing.assert_close(grads[1], -3.0 * grads[0])


def test_only_the_reduction_carries_a_gradient() -> None:
    z = torch.randn(20, 6, requires_grad=True)
    reduction, rate, class_rate = rate_reduction(z, torch.arange(20) % 3, 3, eps2=0.1)
    assert reduction.requires_grad
    assert not rate.requires_grad
    assert not class_rate.requires_grad


def plain_loss(z: Tensor, targets: Tensor, eps2: float, gamma: float) -> Tensor:
    """R^C − γ R, by determinants."""
    n, d = z.shape

    def rate(rows: Tensor) -> Tensor:
        scale = d / (len(rows) * eps2)
        eye = torch.eye(d, dtype=z.dtype)
        return 0.5 * torch.logdet(eye + scale * rows.T @ rows)

    classes = [z[targets == k] for k in targets.unique()]
    return sum((len(rows) / n * rate(rows) for rows in classes), z.new_zeros(())) - gamma * rate(z)


@pytest.mark.parametrize(("n", "d"), [(20, 6), (8, 12)], ids=["n > d", "n < d"])
@pytest.mark.parametrize("gamma", [1.0, 2.0])
def test_the_public_loss_is_the_plain_formula_in_value_and_gradient(
    n: int, d: int, gamma: float
) -> None:
    generator = torch.Generator().manual_seed(n)
    z = torch.randn(n, d, generator=generator, dtype=torch.float64, requires_grad=True)
    targets = torch.arange(n) % 3

    def ours(rows: Tensor) -> Tensor:
        return rate_reduction_loss(rows, targets, eps2=0.1, gamma=gamma)

    expected = plain_loss(z, targets, 0.1, gamma)
    torch.testing.assert_close(ours(z), expected)
    (slope,), (expected_slope,) = (torch.autograd.grad(v, z) for v in (ours(z), expected))
    torch.testing.assert_close(slope, expected_slope)
    assert torch.autograd.gradcheck(ours, [z])


def test_the_public_loss_counts_classes_by_itself_and_refuses_what_is_none() -> None:
    z, targets = torch.randn(12, 4), torch.arange(12) % 3
    counted = rate_reduction_loss(z, targets)
    assert float(counted) == float(rate_reduction_loss(z, targets, num_classes=5))
    assert float(counted) != float(rate_reduction_loss(z, targets, eps2=0.1))
    for wrong in (targets - 1, targets + 3):
        with pytest.raises(EraseError, match="expected targets from 0 to 2"):
            rate_reduction_loss(z, wrong, num_classes=3)
    for wrong in (targets.float(), targets[:5], targets[None]):
        with pytest.raises(EraseError, match="whole-numbered targets"):
            rate_reduction_loss(z, wrong)


def by_grams(z: Tensor, membership: Tensor) -> tuple[Tensor, Tensor]:
    grams = ClassGrams(7, z.shape[1], z)
    grams.add(z, membership)
    reduction, _, _, pull = grams.reduction(eps2=0.05, gamma=2.0)
    return reduction, grams.gradient(z, membership, pull)


def with_slope(
    work: Callable[[Tensor, Tensor], Tensor],
) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    def both(z: Tensor, membership: Tensor) -> tuple[Tensor, Tensor]:
        leaf = z.clone().requires_grad_()
        value = work(leaf, membership)
        (slope,) = torch.autograd.grad(value, leaf)
        return value.detach(), slope

    return both


RATES: dict[str, Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]] = {
    "of all": with_slope(lambda z, _: coding_rate(z, 0.05)),
    "of classes": with_slope(lambda z, y: class_coding_rate(z, y, 7, 0.05)),
    "reduction": with_slope(lambda z, y: rate_reduction(z, y, 7, eps2=0.05, gamma=2.0)[0]),
    "shared": with_slope(lambda z, y: shared_rate_reduction(z, y, 7, eps2=0.05, gamma=2.0)[0]),
    "by Gram matrices": by_grams,
}


@pytest.mark.parametrize("collapsed", [False, True], ids=["spread", "collapsed"])
@pytest.mark.parametrize(("n", "d"), [(300, 48), (40, 64)], ids=["n > d", "n < d"])
@pytest.mark.parametrize("kind", RATES)
def test_rates_and_gradients_survive_products_in_tf32(
    kind: str, n: int, d: int, collapsed: bool
) -> None:
    generator = torch.Generator().manual_seed(0)
    membership = torch.arange(n) % 7
    z = torch.randn(n, d, generator=generator)
    if collapsed:  # all rows point nearly the same way
        z = 20 * torch.rand(d, generator=generator) + 0.1 * z
    z = normalize(z, dim=1)
    value, slope = RATES[kind](z.double(), membership)
    with on_a_gpu_that_may_round() as products:
        our_value, our_slope = RATES[kind](z, membership)
    torch.testing.assert_close(our_value.double(), value, rtol=1e-5, atol=1e-5)
    assert float((our_slope - slope).norm() / slope.norm()) < 1e-4
    assert products.rounded == 0
