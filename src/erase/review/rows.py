"""Rows of a CSV file, read from the disk when somebody asks for them."""

import os
import threading
import weakref
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

_CHUNK = 2**24  # bytes that are looked at together
_QUOTE, _LINE, _RETURN = b'"\n\r'
_MARK = b"\xef\xbb\xbf"  # at the start of some files in UTF-8


class CsvRows:
    """The rows of a CSV file. Threads may share them.

    The file stays open, so that another may take its place meanwhile.

    Attributes:
        count: the number of rows below the header; None where quotes or line ends are unusual, so
            that rows are known only to whoever reads all cells.
    """

    def __init__(self, path: Path, separator: str) -> None:
        self._file = path.open("rb")
        weakref.finalize(self, self._file.close)
        self._lock = threading.Lock()
        self._state = self._written()
        starts = row_starts(self._file, separator)
        self._starts = np.zeros(1, dtype=np.int64) if starts is None else starts
        self.count = None if starts is None else max(len(starts) - 2, 0)
        self._header = b"" if self.count is None else self._between(0)

    def read(self, row: int) -> tuple[bytes, bytes] | None:
        """Return the header and a row as they are written; None if the file was changed since."""
        with self._lock:
            text = self._between(row + 1)
            return (self._header, text) if self._written() == self._state else None

    def _between(self, row: int) -> bytes:
        start, end = self._starts[row : row + 2].tolist()
        self._file.seek(start)
        return self._file.read(end - start)

    def _written(self) -> tuple[int, int]:
        about = os.fstat(self._file.fileno())
        return about.st_size, about.st_mtime_ns


def row_starts(file: BinaryIO, separator: str) -> NDArray[np.int64] | None:
    """Return where each row of a CSV file starts, the header first, and where the last one ends.

    Returns:
        None where a quote stands within a cell that is not quoted, or a line ends with a carriage
        return alone.
    """
    opens = np.frombuffer(f'{separator}"\n\r'.encode(), dtype=np.uint8)  # before a quoted cell
    first = len(_MARK) if file.read(len(_MARK)) == _MARK else 0
    file.seek(first)
    place, quotes, last, starts = first, 0, b"\n", [np.array([first])]
    while chunk := file.read(_CHUNK):
        if chunk[-1] == _RETURN:
            chunk += file.read(1)
        letters = np.frombuffer(last + chunk, dtype=np.uint8)
        here = letters[1:]
        found = np.flatnonzero(here == _QUOTE)
        opening = found[(quotes + np.arange(len(found))) % 2 == 0]
        if not np.isin(letters[opening], opens).all():
            return None
        returns = np.flatnonzero(here == _RETURN)
        if len(returns) and (returns[-1] + 1 == len(here) or (here[returns + 1] != _LINE).any()):
            return None
        ends = np.flatnonzero(here == _LINE)
        ends = ends[(quotes + np.searchsorted(found, ends)) % 2 == 0]
        starts.append(place + ends + 1)
        place, quotes, last = place + len(chunk), quotes + len(found), chunk[-1:]
    all_starts = np.concatenate(starts)
    if all_starts[-1] < place:  # the last row does not end with a line
        all_starts = np.append(all_starts, place)
    return all_starts
