"""The coding rate reduction of rows that come in parts: chunks of a graph, shares of processes.

Only very large graphs need it. A class is represented by its d×d Gram matrix, factored in float64.
Rows that are all in memory go through :mod:`erase.nn.coding` instead, which factors small classes
on their n×n side in the precision of the rows: on Cora that takes 0.57 of the time.
"""

import torch
from torch import Tensor

from erase.nn.coding import sort_by_class, with_gradient
from erase.nn.precision import full_float32
from erase.nn.sums import AddUp, single_process


class ClassGrams:
    """The Gram matrices of K classes, added up over parts of the rows: all that ΔR depends on.

    With G = Σ_j G_j, ΔR = γ R − R^C depends only on the matrices and sizes, and so does its
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
        """Add rows `z` [n, d] of the classes `membership` [n]."""
        order, sizes = sort_by_class(membership, len(self.sizes))
        for j, block in enumerate(z.detach()[order].split(sizes)):
            self.grams[j].addmm_(block.T, block)
        self.sizes += torch.tensor(sizes, device=self.sizes.device)

    def reduction(
        self,
        *,
        eps2: float,
        gamma: float,
        share: slice = slice(None),
        add_up: AddUp = single_process,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return ΔR, R, R^C, and the matrices [K, d, d] that :meth:`gradient` multiplies rows by.

        Args:
            eps2: ε².
            gamma: γ.
            share: the classes whose matrices this process inverts, all or every n-th.
            add_up: replaces tensors by their sums over all processes.
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
        order, sizes = sort_by_class(membership, len(pull))
        rows = z.detach()[order]
        blocks = [block @ own for block, own in zip(rows.split(sizes), pull, strict=True)]
        return torch.empty_like(rows).index_copy_(0, order, torch.cat(blocks))


@full_float32()
def shared_rate_reduction(
    z: Tensor,
    membership: Tensor,
    num_classes: int,
    *,
    eps2: float,
    gamma: float,
    add_up: AddUp = single_process,
    process: int = 0,
    processes: int = 1,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return ΔR, R and R^C of the rows of all processes, differentiable in those of this one.

    Args:
        z: [n, d] the rows of this process.
        membership: [n] their classes.
        num_classes: K.
        eps2: ε².
        gamma: γ.
        add_up: replaces tensors by their sums over all processes.
        process: the number of this one.
        processes: how many there are; the gradient is as many times too large, since gradients are
            averaged later.
    """
    grams = ClassGrams(num_classes, z.shape[1], z)
    grams.add(z, membership)
    add_up(grams.grams, grams.sizes)
    reduction, rate, class_rate, pull = grams.reduction(
        eps2=eps2, gamma=gamma, share=slice(process, None, processes), add_up=add_up
    )
    gradient = processes * grams.gradient(z, membership, pull)
    return with_gradient(z, reduction, gradient), rate, class_rate
