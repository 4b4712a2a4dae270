"""Coding rates, their closed-form gradients, and volumes (paper, sections 2 to 4.2 and appendix).

The rate of a set of vectors Z [n, d] is ½ logdet(I + c ZᵀZ). By Sylvester's identity it may be taken
on the smaller side, logdet(I + c ZᵀZ) = logdet(I + c ZZᵀ), and its gradient is c Z (I + c ZᵀZ)⁻¹:
one Cholesky factor serves both, autograd sees neither. Memory is d×d or n×n for the smaller of the
two, never N×N and never K×N×N.
"""

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

# float32 Cholesky of I + c ZᵀZ is trusted up to this condition number; beyond it the SVD is used.
_WELL_CONDITIONED = 1e6


def _rate(z: Tensor, scale: float, *, gradient: bool) -> tuple[Tensor, Tensor | None]:
    """Return ½ logdet(I + c ZᵀZ) for c = `scale` and its gradient c Z (I + c ZᵀZ)⁻¹ [n, d]."""
    n, d = z.shape
    if n == 0:
        return z.new_zeros(()), z.new_zeros(z.shape) if gradient else None
    energy = scale * torch.linalg.vector_norm(z).double() ** 2  # trace: bounds the condition number
    if not energy < _WELL_CONDITIONED:
        return _rate_by_svd(z, scale)
    gram = z.T @ z if d <= n else z @ z.T
    gram.mul_(scale).diagonal().add_(1.0)
    factor = torch.linalg.cholesky(gram)
    rate = factor.diagonal().log().sum()
    if not gradient:
        return rate, None
    inverse = torch.cholesky_inverse(factor)
    return rate, scale * (z @ inverse if d <= n else inverse @ z)


def _rate_by_svd(z: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """Return the same from the singular values, finite for rows as huge as float32 allows."""
    largest = z.abs().max().double()
    u, sigma, vt = torch.linalg.svd(z.double() / largest, full_matrices=False)
    log_energy = math.log(scale) + 2 * (largest.log() + sigma.log())  # log of c σ²
    rate = 0.5 * torch.nn.functional.softplus(log_energy).sum()
    # c σ / (1 + c σ²) = sigmoid(log c σ²) / σ, and 0 where σ = 0
    weight = torch.where(sigma > 0, log_energy.sigmoid() / (sigma * largest), 0.0)
    return rate.to(z.dtype), ((u * weight) @ vt).to(z.dtype)


class _CodingRate(Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, eps2: float) -> Tensor:
        n, d = z.shape
        rate, gradient = _rate(z, d / (max(n, 1) * eps2), gradient=ctx.needs_input_grad[0])
        ctx.gradient = gradient
        return rate

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0] * ctx.gradient, None


class _ClassCodingRate(Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, membership: Tensor, num_classes: int, eps2: float) -> Tensor:
        n, d = z.shape
        order = torch.argsort(membership, stable=True)
        sizes = torch.bincount(membership, minlength=num_classes).tolist()
        total = z.new_zeros(())
        needs_gradient = ctx.needs_input_grad[0]
        gradient = torch.zeros_like(z) if needs_gradient else None
        for members in order.split(sizes):
            if members.numel() == 0:
                continue
            share = members.numel() / n
            scale = d / (members.numel() * eps2)
            rate, class_gradient = _rate(z[members], scale, gradient=needs_gradient)
            total += share * rate
            if gradient is not None and class_gradient is not None:
                gradient[members] = share * class_gradient
        ctx.gradient = gradient
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0] * ctx.gradient, None, None, None


def coding_rate(z: Tensor, eps2: float) -> Tensor:
    r"""Return R(Z, ε) = ½ logdet(I + d/(N ε²) ZᵀZ) (eq. 1), differentiable in `z` [N, d].

    Zero rows add nothing but still count in N; no rows at all give 0. Cost: N·d·min(N, d).

    >>> round(float(coding_rate(torch.eye(2), eps2=1.0)), 5)  # ½ log det(I + 2/2 I) = ½ log 4
    0.69315
    """
    rate: Tensor = _CodingRate.apply(z, eps2)  # type: ignore[no-untyped-call]
    return rate


def class_coding_rate(z: Tensor, membership: Tensor, num_classes: int, eps2: float) -> Tensor:
    r"""Return R^C = Σ_j n_j/(2N) logdet(I + d/(n_j ε²) Z_jᵀZ_j) (eq. 2), differentiable in `z`.

    Args:
        z: [N, d].
        membership: [N] the class of every row, 0 … K−1: the diagonals of Π without their zeros.
        num_classes: K; a class without members adds 0.
        eps2: ε².
    """
    rate: Tensor = _ClassCodingRate.apply(z, membership, num_classes, eps2)  # type: ignore[no-untyped-call]
    return rate


def rate_reduction(
    z: Tensor, membership: Tensor, num_classes: int, *, eps2: float, gamma: float = 1.0
) -> tuple[Tensor, Tensor, Tensor]:
    r"""Return (ΔR, R, R^C) with ΔR = γ R − R^C, the objective to maximise (eqs. 3, 11 and 12).

    For γ = 1 and members of every class in the same proportions, ΔR ≥ 0, and ΔR = 0 where all
    rows are equal.
    """
    rate = coding_rate(z, eps2)
    class_rate = class_coding_rate(z, membership, num_classes, eps2)
    return gamma * rate - class_rate, rate, class_rate


def log_volume(z: Tensor) -> Tensor:
    r"""Return log vol(Z) = ½ logdet(1/N · ZᵀZ) of the rows of `z` [N, d], centred (appendix).

    The logarithm, because the determinant of hundreds of dimensions leaves the range of floats;
    −inf where the rows do not span d dimensions. Computed in float64 from singular values.
    """
    centred = z.double() - z.double().mean(0)
    n, d = centred.shape
    sigma = torch.linalg.svdvals(centred)
    tiny = sigma.max() * max(n, d) * torch.finfo(z.dtype).eps
    if n < d or bool((sigma <= tiny).any()):
        return centred.new_full((), -math.inf)
    return (sigma.log() - 0.5 * math.log(n)).sum()


def volume(z: Tensor) -> Tensor:
    r"""Return vol(Z) = √det(1/N · ZᵀZ) of the centred rows of `z` [N, d] (appendix).

    >>> round(float(volume(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]))), 6)
    0.5
    """
    return log_volume(z).exp()


def ntvr(shift: Tensor, eps2: float) -> Tensor:
    r"""Return the noise/tolerance volume ratio vol(δ) / vol(w), w ~ N(0, ε²/d I) (appendix).

    Below 1 the shift δ [N, d] = Z̃ − Z that wrong labels cause lies within the tolerance of ε.
    vol(w) = (ε²/d)^(d/2) is exact, not sampled. A shift that does not span all d dimensions has
    volume 0.
    """
    d = shift.shape[1]
    return (log_volume(shift) - 0.5 * d * math.log(eps2 / d)).exp()
