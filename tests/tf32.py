"""Matrix products as a GPU computes them in TF32, emulated on a CPU."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

_aten = torch.ops.aten
# the factors among each product's arguments
_FACTORS = {
    _aten.mm.default: (0, 1),
    _aten.bmm.default: (0, 1),
    _aten.addmm.default: (1, 2),
    _aten.baddbmm.default: (1, 2),
    _aten.addmm_.default: (1, 2),
    _aten.mm.out: (0, 1),
    _aten.addmm.out: (1, 2),
}


def to_tf32(x: Tensor) -> Tensor:
    """Return float32 values rounded to ten bits after the leading one, ties to even.

    >>> to_tf32(torch.tensor([1.0, 1 + 2**-10, 1 + 2**-12, 1000.3])).tolist()
    [1.0, 1.0009765625, 1.0, 1000.5]
    """
    bits = x.contiguous().view(torch.int32)
    bits = bits + 0x0FFF + ((bits >> 13) & 1)
    return (bits & ~0x1FFF).view(torch.float32)


def switch_allows_tf32() -> bool:
    """Return whether torch's switch lets a GPU round the factors of a product."""
    return bool(torch.backends.cuda.matmul.fp32_precision == "tf32")


class Tf32Products(TorchDispatchMode):
    """Round the factors of dense float32 products where `rounds()` says so."""

    def __init__(self, rounds: Callable[[], bool]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.rounds = rounds
        self.rounded = 0

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        """Call `func`, its factors rounded if it is a product."""
        places = _FACTORS.get(func, ())
        factors = [args[place] for place in places]
        dense = all(f.dtype == torch.float32 and f.layout == torch.strided for f in factors)
        if factors and dense and self.rounds():
            args = list(args)
            for place in places:
                args[place] = to_tf32(args[place])
            self.rounded += 1
        return func(*args, **(kwargs or {}))


@contextmanager
def on_a_gpu_that_may_round() -> Iterator[Tf32Products]:
    """Compute as a GPU does after ``torch.set_float32_matmul_precision("high")``."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        with Tf32Products(switch_allows_tf32) as products:
            yield products
    finally:
        torch.set_float32_matmul_precision(before)


def is_in_backward() -> bool:
    """Return whether autograd is going backward just now."""
    task: int = torch._C._current_graph_task_id()
    return task != -1
