"""Results too large for memory."""

import math
import mmap
from tempfile import TemporaryFile

import torch


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

    def leave_memory(self) -> None:
        """Drop the pages from memory; they are read from the file when needed."""
        if hasattr(mmap, "MADV_DONTNEED"):  # elsewhere the system decides
            self._pages.madvise(mmap.MADV_DONTNEED)
