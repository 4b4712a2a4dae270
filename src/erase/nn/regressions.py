"""Many logistic regressions with soft targets on the same rows, in bounded memory.

Beside the rows, which may lie in a file, only some of them are held at a time: a step reads them
once. Of several processes each has some of the rows; what a step needs of all rows is summed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from erase.nn.precision import full_float32
from erase.nn.sums import AddUp, single_process

_MOST_STEPS = 60
# A regression ends when a step is expected to lower the loss per row by half of this; of fewer rows
# than these, by a smaller part.
_SMALL, _SMALL_ROWS = 2e-4, 2_000
_MEMORY = 6  # pairs of steps and changes of the gradient that approximate the curvature
_ABSENT = 1e-3  # a class with less than that of all targets has no example
_MANY_ROWS = 5_000  # with more than twice as many, a sample of this size gives the start
_SAMPLED = 16_384  # rows that suffice for the directions of the curvature
_FEW_OVERLOOKED = 0.1  # share of rows that no regression counts, and that are read all the same
_AT_ONCE = 2**18  # logits, 1 MB: on a CPU they stay in its cache
_FEWEST_AT_ONCE = 512  # rows
_FLAT = 1e-6  # the least curvature of an intercept, per row
_CAUTION = 2.0  # times the mean curvature: where it is larger, a step would be too long
_OVERSHOT = 1.0  # slope at the end of a step over that at its start
_MANY_CLASSES = 20  # of fewer, one curvature is as good: with 7 it took as many passes
_RENEWED = 5  # steps after which the curvature of each class is computed again
_PASSES = 2  # over the rows, which that may cost: it saves more
_MOST_NUMBERS = 2**24  # of these matrices, 128 MB; of more classes one curvature serves all
_ROWS_PER_DIRECTION = 16  # and class: rows that suffice for the curvature of each class


class Regressions:
    r"""Logistic regressions with soft targets on the same rows: what they share is computed once.

    Each minimises C Σ CE + ½‖W‖² by L-BFGS steps from a first guess of the curvature: that of
    class k is C c_k Σ (x − mean)(x − mean)ᵀ + I, where c_k is the mean of p_k (1 − p_k) over the
    rows that count. One eigendecomposition of the sum serves all classes, regressions and steps.
    With many rows and classes each class has a guess of its own: the rows that it leads in count
    with their own p (1 − p), see :meth:`Targets._by_class`. Guesses are shared by the regressions;
    they change how many steps are taken, not where these lead. Steps end when the solution is close
    enough to tell classes apart. A regression may leave out some rows. With very many rows, every
    n-th row is solved first as a start for all of them.

    Note: on Cora, 3 to 10 passes over the rows end closer to the optimum than 10 to 27 accelerated
    steps under a bound on the curvature, which :func:`erase.nn.heads.logistic_regression` takes.

    Args:
        rows: [n, D], in memory or in a file; those of this process.
        add_up: replaces a tensor by its sum over all processes.
    """

    def __init__(self, rows: Tensor, add_up: AddUp = single_process) -> None:
        self.rows, self._add_up = rows, add_up
        total = torch.zeros(rows.shape[1] + 1, dtype=torch.float64, device=rows.device)
        for some in rows.split(_SAMPLED):
            total[:-1] += some.sum(0, dtype=torch.float64)
        total[-1] = len(rows)
        add_up(total)
        self.total = int(total[-1])
        self.centre = (total[None, :-1] / max(self.total, 1)).to(rows.dtype)

    def centred(self, places: slice | Tensor) -> Tensor:
        """Return some rows minus the mean of all: products of nearly equal rows keep digits."""
        return self.rows[places] - self.centre

    @cached_property
    def _gram(self) -> Tensor:
        """Σ (x − mean)(x − mean)ᵀ [D, D] in float64, of sampled rows."""
        stride = -(-self.total // _SAMPLED)
        sample = self.centred(slice(0, None, stride))
        gram = torch.zeros(sample.shape[1], sample.shape[1] + 1).to(sample)
        with full_float32():
            gram[:, :-1] = sample.T @ sample
        gram[0, -1] = len(sample)
        self._add_up(gram)
        return gram[:, :-1].double() * (self.total / gram[0, -1].clamp(min=1))

    @cached_property
    def _directions(self) -> tuple[Tensor, Tensor]:
        """Eigenvalues [D] and eigenvectors [D, D] of the sum above."""
        values, vectors = torch.linalg.eigh(self._gram)
        return values.clamp(min=0).to(self.rows), vectors.to(self.rows)

    def with_targets(self, targets: Tensor, seen: Tensor) -> "Targets":
        """Return the regressions of M targets; see :meth:`solve`."""
        return Targets(self, targets, seen)

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
            seen: [M, n] 1 for rows that count, 0 for rows that are left out.
            strength: C.
            start: weights and intercepts of similar regressions, as a warm start.
        """
        return self.with_targets(targets, seen).solve(strength, start)


@dataclass(frozen=True, eq=False)
class _Gradient:
    """Σ s p x [K, M, D+1], and Σ s p (1 − p) [K, M, 1], at a point."""

    pull: Tensor
    curvature: Tensor


class Targets:
    """Soft targets of M regressions on the same rows, and which rows each counts.

    Args:
        rows: of all.
        targets: [M, n, K].
        seen: [M, n].
    """

    def __init__(self, rows: Regressions, targets: Tensor, seen: Tensor) -> None:
        self._rows, self._targets, self._seen = rows, targets, seen.to(rows.rows.dtype)
        self._all_seen = bool((seen != 0).all())
        used = (seen != 0).any(0)
        few = torch.stack([used.sum(), used.new_tensor(len(used), dtype=torch.int64)])
        rows._add_up(few)
        self._places: Tensor | None = None
        if int(few[0]) < (1 - _FEW_OVERLOOKED) * int(few[1]):
            self._places = used.nonzero().squeeze(1)
        self.used = int(few[0])

    @cached_property
    @full_float32()
    def sums(self) -> tuple[Tensor, Tensor]:
        """Σ s t (x − mean) [M, K, D] and Σ s t [M, K, 1]: all that a step needs of the targets."""
        return self._sums(1)

    def _sums(self, stride: int) -> tuple[Tensor, Tensor]:
        models, _, classes = self._targets.shape
        width = self._rows.rows.shape[1]
        total = torch.zeros(models, classes, width + 1, dtype=torch.float64)
        total = total.to(self._rows.rows.device)
        for places, z in self._chunks(stride):
            wanted = self._targets[:, places] * self._seen[:, places, None]  # [M, c, K]
            flat = wanted.transpose(1, 2).reshape(models * classes, -1)
            total[..., :-1] += (flat @ z).view(models, classes, width)
            total[..., -1] += wanted.sum(1)
        self._rows._add_up(total)
        total = total.to(self._rows.rows.dtype)
        return total[..., :-1], total[..., -1:]

    def _chunks(
        self, stride: int, size: int | None = None
    ) -> Iterator[tuple[slice | Tensor, Tensor]]:
        """Yield some rows at a time: where they are, and these rows, centred."""
        models, n, classes = self._targets.shape
        if size is None:
            size = n if self._rows.rows.is_cuda else _AT_ONCE // (models * classes)
            size = max(size, _FEWEST_AT_ONCE)
        if self._places is not None:
            for places in self._places[::stride].split(size):
                yield places, self._rows.centred(places)
            return
        for first in range(0, n, size * stride):
            part = slice(first, min(first + size * stride, n), stride)
            yield part, self._rows.centred(part)

    @full_float32()
    def solve(
        self, strength: float, start: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return weights and intercepts, as :meth:`Regressions.solve` does."""
        stride = max(1, self.used // _MANY_ROWS)
        if start is None and stride > 1:
            start = self._descend(strength * stride, None, stride)
        return self._descend(strength, start, 1)

    def _descend(
        self, strength: float, start: tuple[Tensor, Tensor] | None, stride: int
    ) -> tuple[Tensor, Tensor]:
        rows, models, classes = self._rows, len(self._targets), self._targets.shape[2]
        centre, width = rows.centre, rows.rows.shape[1]
        sums, totals = self.sums if stride == 1 else self._sums(stride)
        absent = totals < _ABSENT  # [M, K, 1]
        wanted = torch.cat([sums, totals], 2).transpose(0, 1)  # [K, M, D+1]
        absent = absent.transpose(0, 1)
        small = _SMALL * min(1.0, rows.total / _SMALL_ROWS) * strength * rows.total / stride
        solution = sums.new_zeros(classes, models, width + 1)
        if start is not None:
            level = start[1].nan_to_num(neginf=0.0) + centre @ start[0]
            solution = torch.cat([start[0], level], 1).permute(2, 0, 1).contiguous()
        found = self._gradient(solution, absent, stride)
        slope_at = _slope_at(found, wanted, solution, strength)
        done = torch.zeros(1, models, 1, dtype=torch.bool, device=sums.device)
        pairs: list[tuple[Tensor, Tensor, Tensor]] = []
        inverse: Tensor | None = None
        for number in range(_MOST_STEPS):
            if number % _RENEWED == 0 and self._is_worth_it(stride) and bool(solution.any()):
                inverse = self._by_class(solution, absent, strength)
            step = -self._newton(slope_at, found.curvature, strength, stride, pairs, inverse)
            slope = _inner(step, slope_at)
            ends = slope.abs() < small
            if bool((done | ends).all()):
                solution = torch.where(done, solution, solution + step)
                break
            step = torch.where(done | (slope >= 0), 0.0, step)
            later, found, slope_there = self._moved(
                solution, step, slope, absent, wanted, strength, stride
            )
            change = slope_there - slope_at
            moved = later - solution
            product = _inner(moved, change)
            share = torch.where(product > 0, 1 / product, 0.0)
            pairs = [*pairs[1 - _MEMORY :], (moved, change, share)]
            solution, slope_at, done = later, slope_there, done | ends
        solution = solution.permute(1, 2, 0)  # [M, D+1, K]
        weight = solution[:, :-1].contiguous()
        intercept = solution[:, -1:] - centre @ weight
        return weight, intercept.masked_fill(absent.permute(1, 2, 0), -torch.inf)

    def _moved(
        self,
        solution: Tensor,
        step: Tensor,
        slope: Tensor,
        absent: Tensor,
        wanted: Tensor,
        strength: float,
        stride: int,
    ) -> tuple[Tensor, _Gradient, Tensor]:
        """Return where a step leads, shortened if it is too long, and the gradient there."""
        later = solution + step
        found = self._gradient(later, absent, stride)
        there = _slope_at(found, wanted, later, strength)
        end = _inner(step, there)
        overshot = end > _OVERSHOT * slope.abs()
        if bool(overshot.any()):  # to where the slope is zero, if it is linear
            share = torch.where(overshot, slope.abs() / (slope.abs() + end), 1.0)
            later = solution + share * step
            found = self._gradient(later, absent, stride)
            there = _slope_at(found, wanted, later, strength)
        return later, found, there

    def _newton(
        self,
        slope_at: Tensor,
        curvature: Tensor,
        strength: float,
        stride: int,
        pairs: list[tuple[Tensor, Tensor, Tensor]],
        by_class: Tensor | None,
    ) -> Tensor:
        """Return the inverse curvature times the gradient: the two loops of L-BFGS.

        Args:
            slope_at: [K, M, D+1] the gradient.
            curvature: [K, M, 1] Σ s p (1 − p).
            strength: C.
            stride: every such row counts.
            pairs: steps, changes of the gradient, and their inverse products.
            by_class: [K, D+1, D+1] the first guess of the inverse curvature; None: from the above.
        """
        direction, shares = slope_at, []
        for moved, change, inverse in reversed(pairs):
            share = inverse * _inner(moved, direction)
            direction = direction - share * change
            shares.append(share)
        if by_class is not None:
            direction = direction @ by_class
        else:
            values, vectors = self._rows._directions
            weight = _CAUTION * strength * curvature / self._rows.total  # [K, M, 1]
            least = _FLAT * self._rows.total / stride
            of_intercept = 1 / (_CAUTION * strength * curvature.clamp(min=least))
            turned = ((direction[..., :-1] @ vectors) / (weight * values + 1)) @ vectors.T
            direction = torch.cat([turned, direction[..., -1:] * of_intercept], 2)
        for (moved, change, inverse), share in zip(pairs, reversed(shares), strict=True):
            direction = direction + (share - inverse * _inner(change, direction)) * moved
        return direction

    def _is_worth_it(self, stride: int) -> bool:
        """Return whether :meth:`_by_class` takes little time beside the passes that it saves."""
        models, _, classes = self._targets.shape
        width = self._rows.rows.shape[1]
        sampled = min(self.used, _ROWS_PER_DIRECTION * classes * width)
        products, factors = 2 * sampled * width**2, 4 * classes * width**3
        a_pass = 4 * self.used * width * models * classes
        if stride > 1 or classes < _MANY_CLASSES or classes * (width + 1) ** 2 > _MOST_NUMBERS:
            return False
        return products + factors < _PASSES * a_pass

    def _by_class(self, at: Tensor, absent: Tensor, strength: float) -> Tensor | None:
        """Return the inverse of each class's curvature [K, D+1, D+1], shared by the regressions.

        None where there is none in float64, such as at infinite weights.

        That of class k is C Σ p_k (1 − p_k) z zᵀ + I, of rows z = (x − mean, 1). Rows that k leads
        in count with their own p_k (1 − p_k), all others with the mean of theirs: two sums of
        products of rows, not K. p is that of the regressions' mean, from sampled rows.

        Args:
            at: [K, M, D+1] weights and intercepts of centred rows.
            absent: [K, M, 1] whether a regression has no example of a class.
            strength: C.
        """
        classes, width = len(at), at.shape[2] - 1
        columns, nowhere = at.mean(1), absent.all(1)[:, 0]
        own = torch.zeros(classes, width + 1, width + 1, dtype=torch.float64, device=at.device)
        others = torch.zeros(3, classes, dtype=torch.float64, device=at.device)
        stride = max(1, self.used // (_ROWS_PER_DIRECTION * classes * width))
        for places, z in self._chunks(stride, _SAMPLED):
            counts = self._seen[:, places].mean(0)
            proba = torch.addmm(columns[:, -1], z, columns[:, :-1].T)
            proba = proba.masked_fill_(nowhere, -torch.inf).softmax(1)
            leads, share = proba.argmax(1), (proba * (1 - proba)) * counts[:, None]
            led = share.gather(1, leads[:, None])[:, 0]
            others[0] += share.sum(0)
            others[0].index_add_(0, leads, -led.double())
            others[1] += counts.sum()
            others[1].index_add_(0, leads, -counts.double())
            others[2] += counts.sum()
            order = leads.argsort(stable=True)
            sizes = leads.bincount(minlength=classes).tolist()
            z = torch.cat([z, z.new_ones(len(z), 1)], 1)[order]
            root = led[order, None].sqrt()
            for k, some in enumerate((z * root).split(sizes)):
                own[k] += some.T @ some
        self._rows._add_up(own)
        self._rows._add_up(others)
        rest, share = others[0] / others[1].clamp(min=1), others[2] * stride / self._rows.total
        own *= strength * stride
        own[:, :-1, :-1] += (strength * share * rest)[:, None, None] * self._rows._gram
        own[:, -1, -1] += strength * share * rest * self._rows.total
        diagonal = own.diagonal(dim1=1, dim2=2)
        diagonal[:, :-1] += 1.0
        diagonal[:, -1] += strength * _FLAT * self._rows.total
        factor, failed = torch.linalg.cholesky_ex(own)
        return None if bool(failed.any()) else torch.cholesky_inverse(factor).to(at)

    def _gradient(self, at: Tensor, absent: Tensor, stride: int) -> _Gradient:
        classes, models, width = at.shape
        columns = at.reshape(classes * models, width)
        total = torch.zeros(classes, models, width + 1, dtype=torch.float64, device=at.device)
        any_absent = bool(absent.any())
        for places, z in self._chunks(stride):
            logits = torch.addmm(columns[:, -1:], columns[:, :-1], z.T)
            logits = logits.view(classes, models, len(z))
            if any_absent:
                logits.masked_fill_(absent, -torch.inf)
            proba = logits.softmax(0)
            if not self._all_seen:
                proba *= self._seen[:, places]
            total[..., : width - 1] += (proba.view(classes * models, -1) @ z).view(
                classes, models, -1
            )
            total[..., width - 1] += proba.sum(2)
            total[..., width] += torch.linalg.vector_norm(proba, dim=2).square()
        self._rows._add_up(total)
        pull = total[..., :-1]
        return _Gradient(pull.to(at), (pull[..., -1:] - total[..., -1:]).to(at))


def _slope_at(found: _Gradient, wanted: Tensor, at: Tensor, strength: float) -> Tensor:
    """Return the gradient of C Σ CE + ½‖W‖² [K, M, D+1]."""
    slope = strength * (found.pull - wanted)
    slope[..., :-1] += at[..., :-1]
    return slope


def _inner(one: Tensor, other: Tensor) -> Tensor:
    """Return the inner product of each regression [1, M, 1]."""
    return (one * other).sum((0, 2), keepdim=True)
