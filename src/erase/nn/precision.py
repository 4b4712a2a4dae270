"""Precision of matrix products, where reduced precision would change an answer."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def full_float32() -> Iterator[None]:
    """Compute float32 matrix products in full float32, whatever torch's own setting is.

    ``torch.set_float32_matmul_precision("high")`` lets a GPU round the factors of a product to ten
    bits (TF32). Gram matrices, cosines, linear solves and classifiers on nearly equal
    representations do not survive that. The encoders' products do, and are left to the switch.

    Works as a context and as a decorator. The switch belongs to the process: threads share it.
    """
    switches = (torch.backends.cuda.matmul, torch.backends.mkldnn.matmul)  # type: ignore[attr-defined]
    before = [switch.fp32_precision for switch in switches]
    for switch in switches:
        switch.fp32_precision = "ieee"
    try:
        yield
    finally:
        for switch, precision in zip(switches, before, strict=True):
            switch.fp32_precision = precision
