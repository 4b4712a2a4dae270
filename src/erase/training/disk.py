"""Results too large for memory."""

import ctypes
import math
import mmap
import sys
from tempfile import TemporaryFile
from weakref import WeakValueDictionary

import torch
from torch import Tensor

_PAGES: "WeakValueDictionary[int, mmap.mmap]" = WeakValueDictionary()  # by the tensors' addresses


class OnDisk:
    """Zeros in an unnamed temporary file, which is deleted with the object.

    Args:
        shape: of the tensor, float32.
    """

    def __init__(self, *shape: int) -> None:
        size = torch.float32.itemsize * math.prod(shape)
        with TemporaryFile() as file:
            file.truncate(size)
            self._pages = mmap.mmap(file.fileno(), size)
        self.tensor = torch.frombuffer(self._pages, dtype=torch.float32).view(shape)
        _PAGES[self.tensor.data_ptr()] = self._pages

    def leave_memory(self) -> None:
        """Drop the pages from memory; they are read from the file when needed."""
        _drop(self._pages)


def leave_memory(tensor: Tensor) -> None:
    """Drop the pages of a tensor that an :class:`OnDisk` made; another one stays as it is."""
    if tensor.device.type == "cpu" and (pages := _PAGES.get(tensor.data_ptr())) is not None:
        _drop(pages)


def return_freed() -> None:
    """Give memory that was freed back to the system: glibc keeps parts below 32 MB for later."""
    if sys.platform == "linux" and hasattr(library := ctypes.CDLL(None), "malloc_trim"):
        library.malloc_trim(0)  # elsewhere the system decides


def _drop(pages: mmap.mmap) -> None:
    if hasattr(mmap, "MADV_DONTNEED"):  # elsewhere the system decides
        pages.madvise(mmap.MADV_DONTNEED)
