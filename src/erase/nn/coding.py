"""Coding rates, their closed-form gradients, and volumes (paper, sections 2 to 4.2 and appendix).

For a training loop of your own: :func:`rate_reduction_loss`.

The rate of a set of vectors Z [n, d] is ½ logdet(I + c ZᵀZ). By Sylvester's identity it may be
computed on the smaller side, logdet(I + c ZᵀZ) = logdet(I + c ZZᵀ), and its gradient is
c Z (I + c ZᵀZ)⁻¹: one Cholesky factor gives both. Since ZᵀZ = Σ_j Z_jᵀZ_j, the
Gram matrix of all nodes is the sum of the classes'. Memory is d×d, or n×n where that is smaller,
never N×N and never K×N×N. There is one implementation for a CPU and rows of any scale, with the SVD
where a Cholesky factor would be inaccurate, and one for a GPU that batches runs and classes.
"""

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from erase.errors import EraseError
from erase.nn.precision import full_float32

# A float32 Cholesky factor of I + c ZᵀZ is accurate up to this condition number; beyond: the SVD.
_WELL_CONDITIONED = 1e6
# Below this share of d members, a class's own n×n side is cheaper than the d×d one.
_SMALL_CLASS = 0.75
# Rows of one class in a block of the batched path, padded with zeros.
_BLOCK = 128


class _WithGradient(Function):
    """A value whose gradient at `z` was computed together with it."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
        ctx.gradient = gradient
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        gradient = ctx.gradient
        above = grads[0].reshape(grads[0].shape + (1,) * (gradient.dim() - grads[0].dim()))
        return above * gradient, None, None


def with_gradient(z: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
    """Return `value`, a scalar or [R], with ∂value/∂z = `gradient`, shaped as `z`."""
    attached: Tensor = _WithGradient.apply(z, value, gradient)  # type: ignore[no-untyped-call]
    return attached


def _factor(gram: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """Return ½ logdet(I + c G) and (I + c G)⁻¹, overwriting the Gram matrix G."""
    gram.mul_(scale).diagonal().add_(1.0)
    factor = torch.linalg.cholesky(gram)
    return factor.diagonal().log().sum(), torch.cholesky_inverse(factor)


def _rate(z: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """Return ½ logdet(I + c ZᵀZ) for c = `scale` and its gradient c Z (I + c ZᵀZ)⁻¹ [n, d]."""
    n, d = z.shape
    if n == 0:
        return z.new_zeros(()), z.new_zeros(z.shape)
    # the trace of c ZᵀZ bounds the condition number
    if not scale * float(torch.linalg.vector_norm(z)) ** 2 < _WELL_CONDITIONED:
        return _rate_by_svd(z, scale)
    if d <= n:
        rate, inverse = _factor(z.T @ z, scale)
        return rate, (z @ inverse).mul_(scale)
    rate, inverse = _factor(z @ z.T, scale)
    return rate, (inverse @ z).mul_(scale)


def _rate_by_svd(z: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """Return the same from the singular values, finite for the largest rows float32 can hold."""
    largest = z.abs().max().double()
    if not torch.isfinite(largest):  # diverged: the training loop reports it
        return z.new_full((), math.nan), torch.zeros_like(z)
    u, sigma, vt = torch.linalg.svd(z.double() / largest, full_matrices=False)
    log_energy = math.log(scale) + 2 * (largest.log() + sigma.log())  # log of c σ²
    rate = 0.5 * torch.nn.functional.softplus(log_energy).sum()
    # c σ / (1 + c σ²) = sigmoid(log c σ²) / σ, and 0 where σ = 0
    weight = torch.where(sigma > 0, log_energy.sigmoid() / (sigma * largest), 0.0)
    return rate.to(z.dtype), ((u * weight) @ vt).to(z.dtype)


def _class_rates(z: Tensor, sizes: list[int], eps2: float) -> tuple[Tensor, Tensor]:
    """Return R^C and its gradient for rows [N, d] that lie sorted by class."""
    n, d = z.shape
    total, gradients = z.new_zeros(()), []
    for block in z.split(sizes):
        share, scale = block.shape[0] / max(n, 1), d / (max(block.shape[0], 1) * eps2)
        rate, gradient = _rate(block, scale)
        total = total + share * rate
        gradients.append(gradient.mul_(share))
    return total, torch.cat(gradients)


def _reduction_in_one_pass(
    z: Tensor, sizes: list[int], eps2: float, gamma: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return R, R^C and the gradient of γ R − R^C for well-scaled rows [N ≥ d, d] sorted by class.

    One product per class for its Gram matrix, one for its rows of the gradient: with G = Σ_j G_j,
    rows of class j get Z_j (γ c (I + cG)⁻¹ − n_j/N c_j (I + c_j G_j)⁻¹).
    """
    n, d = z.shape
    gram = z.new_zeros(d, d)
    class_rate = z.new_zeros(())
    pending: list[tuple[Tensor, Tensor, bool]] = []  # rows, weighted inverse, on the d side?
    for block in z.split(sizes):
        size = block.shape[0]
        if size == 0:
            continue
        own = block.T @ block
        gram += own
        small = size < _SMALL_CLASS * d
        rate, inverse = _factor(block @ block.T if small else own, d / (size * eps2))
        class_rate = class_rate + size / n * rate
        pending.append((block, inverse.mul_(d / (n * eps2)), small))  # n_j/N · d/(n_j ε²)
    rate, inverse = _factor(gram, d / (n * eps2))
    inverse.mul_(gamma * d / (n * eps2))
    gradient = torch.empty_like(z)
    into = iter(gradient.split([block.shape[0] for block, _, _ in pending]))
    for block, own, small in pending:
        if small:
            torch.addmm(own @ block, block, inverse, beta=-1, out=next(into))
        else:
            torch.mm(block, inverse - own, out=next(into))
    return rate, class_rate, gradient


def _reduction(
    z: Tensor, membership: Tensor, num_classes: int, eps2: float, gamma: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return R, R^C and the gradient of γ R − R^C for one run, whatever the scale of its rows."""
    n, d = z.shape
    order, sizes = sort_by_class(membership, num_classes)
    rows = z[order]
    largest_row = float(torch.linalg.vector_norm(rows, dim=1).max()) if n else 0.0
    if n >= d and d / eps2 * largest_row**2 < _WELL_CONDITIONED:
        rate, class_rate, gradient = _reduction_in_one_pass(rows, sizes, eps2, gamma)
    else:
        rate, gradient = _rate(rows, d / (max(n, 1) * eps2))
        class_rate, class_gradient = _class_rates(rows, sizes, eps2)
        gradient = gamma * gradient - class_gradient
    return rate, class_rate, torch.empty_like(z).index_copy_(0, order, gradient)


def inverse_of_lower(factor: Tensor, leaf: int = 128) -> Tensor:
    """Return L⁻¹ [..., d, d] by halves: [[A, 0], [B, C]]⁻¹ = [[A⁻¹, 0], [−C⁻¹BA⁻¹, C⁻¹]].

    Almost all of it is batched matrix products, which is what a GPU does best.
    """
    d = factor.shape[-1]
    if d <= leaf or d % 2:
        eye = torch.eye(d, dtype=factor.dtype, device=factor.device)
        inverse: Tensor = torch.linalg.solve_triangular(factor, eye.expand_as(factor), upper=False)
        return inverse
    half = d // 2
    corners = torch.stack([factor[..., :half, :half], factor[..., half:, half:]], -3)
    first, last = inverse_of_lower(corners, leaf).unbind(-3)
    inverse = torch.zeros_like(factor)
    inverse[..., :half, :half] = first
    inverse[..., half:, half:] = last
    inverse[..., half:, :half] = -(last @ factor[..., half:, :half] @ first)
    return inverse


def _reduction_batched(
    z: Tensor, membership: Tensor, num_classes: int, eps2: float, gamma: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return R [R], R^C [R] and the gradient [R, N, d] for R runs with rows of length ≤ 1.

    No shape depends on the memberships and nothing waits for the device: rows are arranged by
    class in blocks of fixed size, padded with zeros, so that one batched product gives the Gram
    matrices of all blocks, and another one all rows of the gradient.
    """
    runs, n, d = z.shape
    classes = torch.arange(num_classes, device=z.device)
    sizes = (membership[..., None] == classes).sum(1)  # [R, K]
    chunks = (sizes + _BLOCK - 1) // _BLOCK
    ends = chunks.cumsum(1)
    order = membership.argsort(dim=1, stable=True)
    sorted_class = membership.gather(1, order)
    # slot of a row = first slot of its class + its rank within the class
    shift = (ends - chunks) * _BLOCK - (sizes.cumsum(1) - sizes)
    slots = torch.arange(n, device=z.device) + shift.gather(1, sorted_class)
    slots = torch.empty_like(slots).scatter_(1, order, slots)  # [R, N]
    count = -(-n // _BLOCK) + num_classes
    run = torch.arange(runs, device=z.device)[:, None]
    flat = (slots + run * (count * _BLOCK)).flatten()
    laid = z.new_zeros(runs * count * _BLOCK, d).index_copy_(0, flat, z.reshape(-1, d))
    blocks = laid.view(runs * count, _BLOCK, d)
    chunk_class = (torch.arange(count, device=z.device)[:, None] >= ends[:, None]).sum(2)
    owner = (chunk_class[..., None] == classes).to(z.dtype).mT  # [R, K, count]
    grams = torch.bmm(blocks.mT, blocks).view(runs, count, d * d)
    own = (owner @ grams).view(runs, num_classes, d, d)
    grams = torch.cat([own, own.sum(1, keepdim=True)], 1)  # [R, K+1, d, d]
    shares = torch.cat([sizes, sizes.sum(1, keepdim=True)], 1).to(z.dtype) / n
    scale = d / (n * eps2) / shares.clamp(min=1 / n)
    matrices = grams * scale[..., None, None]
    matrices.diagonal(dim1=-2, dim2=-1).add_(1.0)
    factor = torch.linalg.cholesky_ex(matrices).L
    rates = factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)  # [R, K+1]
    lower = inverse_of_lower(factor)
    inverse = lower.mT @ lower
    weight = (gamma * inverse[:, -1:] - inverse[:, :-1]) * (d / (n * eps2))  # [R, K, d, d]
    chosen = (chunk_class.clamp(max=num_classes - 1) + run * num_classes).flatten()
    gradient = torch.bmm(blocks, weight.view(-1, d, d)[chosen]).view(-1, d)[flat]
    class_rate = (shares[:, :-1] * rates[:, :-1]).sum(1)
    return rates[:, -1], class_rate, gradient.view_as(z)


def sort_by_class(membership: Tensor, num_classes: int) -> tuple[Tensor, list[int]]:
    """Return the order that sorts rows by class, and the sizes of the classes."""
    sizes: list[int] = torch.bincount(membership, minlength=num_classes).tolist()
    return torch.argsort(membership, stable=True), sizes


@full_float32()
def coding_rate(z: Tensor, eps2: float) -> Tensor:
    r"""Return R(Z, ε) = ½ logdet(I + d/(N ε²) ZᵀZ) (eq. 1), differentiable in `z` [N, d].

    Zero rows add nothing but still count in N; no rows at all give 0. Cost: N·d·min(N, d).

    >>> round(float(coding_rate(torch.eye(2), eps2=1.0)), 5)  # ½ log det(I + 2/2 I) = ½ log 4
    0.69315
    """
    n, d = z.shape
    return with_gradient(z, *_rate(z.detach(), d / (max(n, 1) * eps2)))


@full_float32()
def class_coding_rate(z: Tensor, membership: Tensor, num_classes: int, eps2: float) -> Tensor:
    r"""Return R^C = Σ_j n_j/(2N) logdet(I + d/(n_j ε²) Z_jᵀZ_j) (eq. 2), differentiable in `z`.

    Args:
        z: [N, d].
        membership: [N] the class of every row, 0 … K−1: the diagonals of Π without their zeros.
        num_classes: K; a class without members adds 0.
        eps2: ε².
    """
    order, sizes = sort_by_class(membership, num_classes)
    rate, gradient = _class_rates(z.detach()[order], sizes, eps2)
    return with_gradient(z, rate, torch.empty_like(gradient).index_copy_(0, order, gradient))


def short_rows_are_tame(width: int, eps2: float) -> bool:
    """Return whether rows of length ≤ 1 never need the SVD: d/ε² is moderate."""
    return width / eps2 < _WELL_CONDITIONED


@full_float32()
def rate_reduction(
    z: Tensor,
    membership: Tensor,
    num_classes: int,
    *,
    eps2: float,
    gamma: float = 1.0,
    short_rows: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    r"""Return ΔR = γ R − R^C, the objective to maximise (eqs. 3, 11 and 12), and R and R^C with it.

    Only ΔR carries a gradient; R and R^C are for the history. For γ = 1, ΔR ≥ 0, with equality
    where every class has the same second moments.

    Args:
        z: [N, d], or [R, N, d] for R runs, which give three tensors [R].
        membership: [N] or [R, N], the class of every row, 0 … K−1.
        num_classes: K; a class without members adds 0.
        eps2: ε².
        gamma: γ.
        short_rows: promise that no row is longer than 1. On a GPU all runs and classes are then
            one batch, and nothing waits for the device.
    """
    if z.dim() == 2:
        answers = rate_reduction(
            z[None], membership[None], num_classes, eps2=eps2, gamma=gamma, short_rows=short_rows
        )
        return answers[0][0], answers[1][0], answers[2][0]
    rows = z.detach()
    if short_rows and z.is_cuda and short_rows_are_tame(z.shape[-1], eps2):
        rate, class_rate, gradient = _reduction_batched(rows, membership, num_classes, eps2, gamma)
    elif len(rows) == 1:  # no copy of the gradient
        answer = _reduction(rows[0], membership[0], num_classes, eps2, gamma)
        rate, class_rate, gradient = (part[None] for part in answer)
    else:
        runs = [
            _reduction(own, classes, num_classes, eps2, gamma)
            for own, classes in zip(rows, membership, strict=True)
        ]
        rate, class_rate, gradient = (torch.stack(part) for part in zip(*runs, strict=True))
    return with_gradient(z, gamma * rate - class_rate, gradient), rate, class_rate


def rate_reduction_loss(
    z: Tensor,
    targets: Tensor,
    *,
    num_classes: int | None = None,
    eps2: float = 0.5,
    gamma: float = 1.0,
) -> Tensor:
    r"""Return R^C − γ R, the negative coding rate reduction (eq. 12), as a loss to minimise.

    It replaces cross-entropy on representations: classes are compressed, their union is expanded.
    Rows should have a bounded length, such as 1, since longer rows alone lower the loss. The
    gradient is closed-form; second derivatives are not available.

    Args:
        z: [N, d] representations.
        targets: [N] the class of every row, 0 … K−1.
        num_classes: K; None: the largest target plus one.
        eps2: ε², the squared precision of the coding rate: how much noise a class may contain.
        gamma: γ, weight of the rate of all rows against that of the classes.

    >>> from torch.nn.functional import normalize
    >>> encoder = torch.nn.Linear(16, 8)
    >>> x, targets = torch.randn(100, 16), torch.randint(3, (100,))
    >>> optimiser = torch.optim.Adam(encoder.parameters())
    >>> for _ in range(5):
    ...     z = normalize(encoder(x), dim=1)
    ...     loss = rate_reduction_loss(z, targets)
    ...     optimiser.zero_grad()
    ...     loss.backward()
    ...     optimiser.step()
    >>> orthogonal = torch.eye(2)  # R = ½ log det(I + I), each class: ½ · ½ log(1 + 2)
    >>> round(float(rate_reduction_loss(orthogonal, torch.tensor([0, 1]), eps2=1.0)), 5)
    -0.14384
    """
    if z.dim() != 2 or targets.shape != z.shape[:1] or targets.is_floating_point():
        raise EraseError(
            "representations [N, d] and whole-numbered targets [N]",
            f"shapes {list(z.shape)} and {list(targets.shape)}, targets {targets.dtype}",
            "Pass the rows of one batch and the class of each.",
        )
    highest = int(targets.max()) if targets.numel() else -1
    classes = highest + 1 if num_classes is None else num_classes
    if targets.numel() and (int(targets.min()) < 0 or highest >= classes):
        raise EraseError(
            f"targets from 0 to {classes - 1}",
            f"{int(targets.min())} to {highest}",
            "Leave out rows without a class, or correct num_classes.",
        )
    reduction, _, _ = rate_reduction(z, targets, classes, eps2=eps2, gamma=gamma)
    return -reduction


def log_volume(z: Tensor) -> Tensor:
    r"""Return log vol(Z) = ½ logdet(1/N · ZᵀZ) of the rows of `z` [N, d], centred (appendix).

    The logarithm, because the determinant of hundreds of dimensions leaves the range of floats;
    −inf where the rows do not span d dimensions. Computed in float64 from the d×d side.
    """
    centred = z.double() - z.double().mean(0)
    n, d = centred.shape
    sigma = torch.linalg.eigvalsh(centred.T @ centred).clamp(min=0).sqrt()
    tiny = sigma.max() * max(n, d) * torch.finfo(z.dtype).eps
    if n < d or bool((sigma <= tiny).any()):
        return centred.new_full((), -math.inf)
    total: Tensor = (sigma.log() - 0.5 * math.log(n)).sum()
    return total


def volume(z: Tensor) -> Tensor:
    r"""Return vol(Z) = √det(1/N · ZᵀZ) of the centred rows of `z` [N, d] (appendix).

    >>> round(float(volume(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]))), 6)
    0.5
    """
    return log_volume(z).exp()


def log_ntvr(shift: Tensor, eps2: float) -> Tensor:
    r"""Return log(vol(δ) / vol(w)) with w ~ N(0, ε²/d I), the noise/tolerance volume ratio printed.

    Below 0 the shift δ [N, d] = Z̃ − Z that wrong labels cause lies within the tolerance of ε.
    vol(w) = (ε²/d)^(d/2) is exact, not sampled. A shift that does not span all d dimensions has
    volume 0, and −inf is returned.
    """
    d = shift.shape[1]
    return log_volume(shift) - 0.5 * d * math.log(eps2 / d)


def rate_ntvr(shift: Tensor, eps2: float) -> Tensor:
    r"""Return R(δ, ε) / R(w, ε) = logdet(I + d/(N ε²) δᵀδ) / (d log 2), w ~ N(0, ε²/d I).

    The coding rates of shift δ [N, d] and tolerance compared, in place of their volumes: 0 for no
    shift, 1 for one as large as the tolerance in every direction, and finite for one in few
    directions only. Computed in float64.

    >>> round(float(rate_ntvr(torch.eye(2), eps2=1.0)), 6)  # δᵀδ/N = I/2 = ε²/d I, as of w
    1.0
    """
    return coding_rate(shift.double(), eps2) / (0.5 * shift.shape[1] * math.log(2))
