"""Several processes that train one model together, by torch.distributed.

Every process has the whole graph and the same random streams, so all have the same batch; each
computes some of its rows. What depends on all rows is summed or gathered, and gradients are
averaged, so a process multiplies the gradient of its own rows by the number of processes. All take
the same steps and hold the same weights. Methods without batches divide the rows of features.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd import Function
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from erase.errors import EraseError
from erase.training.disk import leave_memory

Item = TypeVar("Item")
Answer = TypeVar("Answer")


def rank() -> int:
    """Return this process's number, from 0; only the first writes and prints."""
    return dist.get_rank() if dist.is_available() and dist.is_initialized() else 0


def count() -> int:
    """Return how many processes there are."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def _restarts() -> int:
    """Return how often torchrun has restarted its processes on this machine."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


def was_restarted() -> bool:
    """Return whether torchrun, on any machine, restarted the processes after one had died."""
    restarts = torch.tensor(_restarts(), device="cuda" if _on_gpus() else "cpu")
    add_up(restarts)
    return int(restarts) > 0


def _on_gpus() -> bool:
    return count() > 1 and dist.get_backend() == "nccl"


def _meet(backend: str) -> None:
    """Find the other processes."""
    if os.environ.get("GROUP_WORLD_SIZE", "1") != "1":
        dist.init_process_group(backend)
        return
    # torchrun keeps one store over its restarts: entries of dead processes must not be read
    store, number, total = next(iter(rendezvous("env://")))
    store = PrefixStore(f"restart {_restarts()}", store)
    dist.init_process_group(backend, store=store, rank=number, world_size=total)


@contextmanager
def joined(device: torch.device) -> Iterator[None]:
    """Join the other processes that torchrun started, if it did.

    Raises:
        EraseError: where another process has died.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or dist.is_initialized():
        yield
        return
    if device.type == "cuda":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    _meet("nccl" if device.type == "cuda" else "gloo")
    try:
        yield
    except RuntimeError as error:
        if isinstance(error, dist.DistError) or "gloo" in str(error) or "NCCL" in str(error):
            raise EraseError(
                "all processes of this job to be alive",
                f"an answer from fewer than {count()}",
                "Read the error of the process that died. With torchrun --max-restarts=N the job "
                "continues from its last checkpoint by itself.",
            ) from error
        raise
    finally:
        dist.destroy_process_group()


def add_up(*tensors: Tensor) -> None:
    """Replace each tensor by its sum over all processes."""
    if count() > 1:
        for tensor in tensors:
            if _on_gpus() and not tensor.is_cuda:
                moved = tensor.cuda()
                dist.all_reduce(moved)
                tensor.copy_(moved)
            else:
                dist.all_reduce(tensor)


def own_stretch(total: int) -> slice:
    """Return the stretch of `total` rows or columns that belongs to this process."""
    return slice(rank() * total // count(), (rank() + 1) * total // count())


def gather_columns(own: Tensor, total: int, rows: slice, size: int) -> Tensor:
    """Return the `rows` of a matrix [N, total] of which each process has some columns.

    Args:
        own: [N, c] this process's columns, those of `own_stretch(total)`.
        total: columns of all processes.
        rows: wanted by this process.
        size: rows that are exchanged at a time.
    """
    kept = own.new_empty(rows.stop - rows.start, total)
    for start in range(0, len(own), size):
        stop = min(start + size, len(own))
        whole = own.new_zeros(stop - start, total)
        whole[:, own_stretch(total)] = own[start:stop]
        add_up(whole)
        first, last = max(start, rows.start), min(stop, rows.stop)
        if first < last:
            kept[first - rows.start : last - rows.start] = whole[first - start : last - start]
    return kept


def gather_rows(own: Tensor, total: int, size: int, out: Tensor) -> Tensor:
    """Return a matrix [total, D] of which each process has the rows of `own_stretch(total)`.

    Args:
        own: [r, D].
        total: rows of all processes.
        size: rows that are exchanged at a time.
        out: [total, D], to be filled; of a process that does not need the matrix, [0, D].
    """
    rows = own_stretch(total)
    for start in range(0, total, size):
        stop = min(start + size, total)
        whole = own.new_zeros(stop - start, own.shape[1])
        first, last = max(start, rows.start), min(stop, rows.stop)
        if first < last:
            whole[first - start : last - start] = own[first - rows.start : last - rows.start]
        add_up(whole)
        if len(out):
            out[start:stop] = whole
            leave_memory(out)
    return out


def shared(work: Callable[[Item], Answer], items: Sequence[Item]) -> list[Answer]:
    """Return `work(item)` of all items, of which each process does every R-th."""
    own = [work(item) for item in items[rank() :: count()]]
    if count() == 1:
        return own
    parts: list[list[Answer]] = [[] for _ in range(count())]
    dist.all_gather_object(parts, own)
    return [parts[number % count()][number // count()] for number in range(len(items))]


def agree(values: Tensor) -> Tensor:
    """Return the first process's `values`, so that all processes decide the same."""
    if count() > 1:
        dist.broadcast(values, 0)
    return values


def average_gradients(parameters: Sequence[nn.Parameter]) -> None:
    """Replace the gradients of `parameters` by their means over all processes."""
    if count() == 1:
        return
    grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
    flat = torch.cat([grad.flatten() for grad in grads])
    dist.all_reduce(flat)
    flat /= count()
    parts = flat.split([grad.numel() for grad in grads])
    for parameter, part in zip(parameters, parts, strict=True):
        parameter.grad = part.view_as(parameter)


def own_rows(total: int, device: torch.device) -> Tensor:
    """Return the rows among `total` that this process computes: every R-th."""
    return torch.arange(total, device=device)[rank() :: count()]


class _PutTogether(Function):
    @staticmethod
    def forward(ctx: Any, own: Tensor, rows: Tensor, total: int) -> Tensor:
        ctx.save_for_backward(rows)
        whole = own.new_zeros(own.shape[0], total, own.shape[2])
        whole[:, rows] = own
        dist.all_reduce(whole)
        return whole

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (rows,) = ctx.saved_tensors
        return count() * grads[0][:, rows], None, None


def put_together(own: Tensor, rows: Tensor, total: int) -> Tensor:
    """Return all rows [R, total, C] from each process's `own` [R, m, C] at its `rows` [m].

    Differentiable; the gradients are to be averaged.
    """
    whole: Tensor = _PutTogether.apply(own, rows, total)  # type: ignore[no-untyped-call]
    return whole
