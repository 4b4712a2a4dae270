"""Coding rates, their closed-form gradients, and volumes (paper, sections 2 to 4.2 and appendix).

The rate of a set of vectors Z [n, d] is ½ logdet(I + c ZᵀZ). By Sylvester's identity it may be
taken on the smaller side, logdet(I + c ZᵀZ) = logdet(I + c ZZᵀ), and its gradient is
c Z (I + c ZᵀZ)⁻¹: one Cholesky factor serves both, autograd sees neither. Since
ZᵀZ = Σ_j Z_jᵀZ_j, the Gram matrix of all nodes is the sum of the classes'. Memory is d×d, or n×n
where that is smaller, never N×N and never K×N×N.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from erase.nn.precision import full_float32

# float32 Cholesky of I + c ZᵀZ is trusted up to this condition number; beyond it the SVD is used.
_WELL_CONDITIONED = 1e6
# Below this share of d members, a class's own n×n side is cheaper than the d×d one.
_SMALL_CLASS = 0.75
# Rows of one class that the batched path lays out together; the rest of a chunk is zeros.
_CHUNK = 128

AddUp = Callable[..., None]


def _alone(*_: Tensor) -> None:
    """Leave sums over all places as they are: there is one."""


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
    """Return the same from the singular values, finite for rows as huge as float32 allows."""
    largest = z.abs().max().double()
    if not torch.isfinite(largest):  # diverged: for the loop to notice, not for LAPACK to refuse
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


class ClassGrams:
    """The Gram matrices of K classes, of rows that come some at a time: all that ΔR depends on.

    With G = Σ_j G_j, ΔR = γ R − R^C follows from the matrices and sizes alone, and so does its
    gradient at any row: z (γ c (I + cG)⁻¹ − c (I + c_j G_j)⁻¹) for a row z of class j, c = d/(N ε²)
    and c_j = d/(n_j ε²). Memory is K·d², whatever N.

    Args:
        num_classes: K.
        width: d.
        like: a tensor of the rows' type and device.
    """

    def __init__(self, num_classes: int, width: int, like: Tensor) -> None:
        self.grams = like.new_zeros(num_classes, width, width)
        self.sizes = torch.zeros(num_classes, dtype=torch.int64, device=like.device)

    @full_float32()
    def add(self, z: Tensor, membership: Tensor) -> None:
        """Count rows `z` [n, d] in, which belong to the classes `membership` [n]."""
        order, sizes = _by_class(membership, len(self.sizes))
        for j, block in enumerate(z.detach()[order].split(sizes)):
            self.grams[j].addmm_(block.T, block)
        self.sizes += torch.tensor(sizes, device=self.sizes.device)

    def reduction(
        self, *, eps2: float, gamma: float, share: slice = slice(None), add_up: AddUp = _alone
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return ΔR, R, R^C and what :meth:`gradient` needs; in float64 and back.

        Args:
            eps2: ε².
            gamma: γ.
            share: the classes whose matrices are inverted here, all of them or every n-th.
            add_up: replaces tensors by their sums over all places that have a share.
        """
        d, sizes = self.grams.shape[1], self.sizes.double()
        n = sizes.sum().clamp(min=1)
        eye = torch.eye(d, dtype=torch.float64, device=self.grams.device)
        whole = eye + d / (n * eps2) * self.grams.sum(0, dtype=torch.float64)
        factor = torch.linalg.cholesky_ex(whole).L
        rate = factor.diagonal().log().sum()
        inverse = gamma * torch.cholesky_inverse(factor)
        class_rate = torch.zeros_like(rate)
        pull = torch.zeros_like(self.grams)
        for j in range(len(self.grams))[share]:  # one at a time: float64 matrices are large
            size, gram = sizes[j], self.grams[j].double()
            own = torch.linalg.cholesky_ex(eye + d / (size.clamp(min=1) * eps2) * gram).L
            class_rate += size / n * own.diagonal().log().sum()
            pull[j] = d / (n * eps2) * (inverse - torch.cholesky_inverse(own))
        add_up(pull, class_rate)
        answers = (gamma * rate - class_rate, rate, class_rate)
        reduction, rate, class_rate = (answer.to(self.grams.dtype) for answer in answers)
        return reduction, rate, class_rate, pull

    @staticmethod
    @full_float32()
    def gradient(z: Tensor, membership: Tensor, pull: Tensor) -> Tensor:
        """Return ∂ΔR/∂z [n, d] at rows `z` of the classes `membership` [n]."""
        order, sizes = _by_class(membership, len(pull))
        rows = z.detach()[order]
        blocks = [block @ own for block, own in zip(rows.split(sizes), pull, strict=True)]
        return torch.empty_like(rows).index_copy_(0, order, torch.cat(blocks))


class _SharedReduction(Function):
    """ΔR, R and R^C of rows that lie in several places, and the gradient at those here."""

    @staticmethod
    @full_float32()
    def forward(
        ctx: Any,
        z: Tensor,
        membership: Tensor,
        num_classes: int,
        eps2: float,
        gamma: float,
        add_up: AddUp,
        place: int,
        places: int,
    ) -> tuple[Tensor, Tensor, Tensor]:
        grams = ClassGrams(num_classes, z.shape[1], z)
        grams.add(z, membership)
        add_up(grams.grams, grams.sizes)
        reduction, rate, class_rate, pull = grams.reduction(
            eps2=eps2, gamma=gamma, share=slice(place, None, places), add_up=add_up
        )
        ctx.gradient = places * grams.gradient(z, membership, pull)
        ctx.mark_non_differentiable(rate, class_rate)
        return reduction, rate, class_rate

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0] * ctx.gradient, None, None, None, None, None, None, None


def shared_rate_reduction(
    z: Tensor,
    membership: Tensor,
    num_classes: int,
    *,
    eps2: float,
    gamma: float,
    add_up: AddUp,
    place: int,
    places: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return what :func:`rate_reduction` does of all rows, of which [n, d] are here.

    Args:
        z: [n, d] the rows here, and nowhere else.
        membership: [n] their classes.
        num_classes: K.
        eps2: ε².
        gamma: γ.
        add_up: replaces tensors by their sums over all places.
        place: the number of this one.
        places: how many there are; the gradient is as many times too large, to be averaged later.
    """
    answers: tuple[Tensor, Tensor, Tensor] = _SharedReduction.apply(  # type: ignore[no-untyped-call]
        z, membership, num_classes, eps2, gamma, add_up, place, places
    )
    return answers


class _CodingRate(Function):
    @staticmethod
    @full_float32()
    def forward(ctx: Any, z: Tensor, eps2: float) -> Tensor:
        n, d = z.shape
        rate, ctx.gradient = _rate(z, d / (max(n, 1) * eps2))
        return rate

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0] * ctx.gradient, None


class _ClassCodingRate(Function):
    @staticmethod
    @full_float32()
    def forward(ctx: Any, z: Tensor, membership: Tensor, num_classes: int, eps2: float) -> Tensor:
        order, sizes = _by_class(membership, num_classes)
        rate, gradient = _class_rates(z[order], sizes, eps2)
        ctx.gradient = torch.empty_like(z).index_copy_(0, order, gradient)
        return rate

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0] * ctx.gradient, None, None, None


def _reduction(
    z: Tensor, membership: Tensor, num_classes: int, eps2: float, gamma: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return R, R^C and the gradient of γ R − R^C for one run, whatever the scale of its rows."""
    n, d = z.shape
    order, sizes = _by_class(membership, num_classes)
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

    No shape depends on the memberships and nothing waits for the device: rows are laid out by
    class in chunks of fixed size, padded with zeros, so that one batched product gives the Gram
    matrices of all chunks, and another one all rows of the gradient.
    """
    runs, n, d = z.shape
    classes = torch.arange(num_classes, device=z.device)
    sizes = (membership[..., None] == classes).sum(1)  # [R, K]
    chunks = (sizes + _CHUNK - 1) // _CHUNK
    ends = chunks.cumsum(1)
    order = membership.argsort(dim=1, stable=True)
    sorted_class = membership.gather(1, order)
    # slot of a row = first slot of its class + its rank within the class
    shift = (ends - chunks) * _CHUNK - (sizes.cumsum(1) - sizes)
    slots = torch.arange(n, device=z.device) + shift.gather(1, sorted_class)
    slots = torch.empty_like(slots).scatter_(1, order, slots)  # [R, N]
    count = -(-n // _CHUNK) + num_classes
    run = torch.arange(runs, device=z.device)[:, None]
    flat = (slots + run * (count * _CHUNK)).flatten()
    laid = z.new_zeros(runs * count * _CHUNK, d).index_copy_(0, flat, z.reshape(-1, d))
    blocks = laid.view(runs * count, _CHUNK, d)
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


class _RateReduction(Function):
    @staticmethod
    @full_float32()
    def forward(
        ctx: Any,
        z: Tensor,
        membership: Tensor,
        num_classes: int,
        eps2: float,
        gamma: float,
        batched: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        if batched:
            rate, class_rate, gradient = _reduction_batched(z, membership, num_classes, eps2, gamma)
        else:
            runs = [
                _reduction(rows, classes, num_classes, eps2, gamma)
                for rows, classes in zip(z, membership, strict=True)
            ]
            rate, class_rate = (torch.stack([run[i] for run in runs]) for i in (0, 1))
            gradient = torch.stack([run[2] for run in runs]) if len(runs) > 1 else runs[0][2][None]
        ctx.gradient = gradient
        ctx.mark_non_differentiable(rate, class_rate)
        return gamma * rate - class_rate, rate, class_rate

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0][:, None, None] * ctx.gradient, None, None, None, None, None


def _by_class(membership: Tensor, num_classes: int) -> tuple[Tensor, list[int]]:
    """Return the order that sorts rows by class, and the sizes of the classes."""
    sizes: list[int] = torch.bincount(membership, minlength=num_classes).tolist()
    return torch.argsort(membership, stable=True), sizes


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
    rate: Tensor = _ClassCodingRate.apply(  # type: ignore[no-untyped-call]
        z, membership, num_classes, eps2
    )
    return rate


def short_rows_are_tame(width: int, eps2: float) -> bool:
    """Return whether rows of length ≤ 1 never need a look at their scale: d/ε² is moderate."""
    return width / eps2 < _WELL_CONDITIONED


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

    Only ΔR carries a gradient; R and R^C are for the record. For γ = 1, ΔR ≥ 0, with equality
    where every class has the same second moments.

    Args:
        z: [N, d], or [R, N, d] for R runs, which give three tensors [R].
        membership: [N] or [R, N], the class of every row, 0 … K−1.
        num_classes: K; a class without members adds 0.
        eps2: ε².
        gamma: γ.
        short_rows: promise that no row is longer than 1. On a GPU this saves the wait for a look
            at the rows, and all runs and classes are one batch.
    """
    batched = short_rows and z.is_cuda and short_rows_are_tame(z.shape[-1], eps2)
    one = z.dim() == 2
    answers: tuple[Tensor, Tensor, Tensor] = _RateReduction.apply(  # type: ignore[no-untyped-call]
        z[None] if one else z,
        membership[None] if one else membership,
        num_classes,
        eps2,
        gamma,
        batched,
    )
    reduction, rate, class_rate = answers
    return (reduction[0], rate[0], class_rate[0]) if one else (reduction, rate, class_rate)


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
