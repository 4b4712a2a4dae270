"""How much memory a file may ask for: declared sizes are compared with a limit before reading.

A few megabytes can declare, or decompress to, more than any memory holds. What a file may take is
20 times its own size or a gibibyte, whichever is more, and at most the memory of the machine.
``ERASE_MAX_MEMORY``, such as 16G, replaces that limit; so does `erase --max-memory`.
"""

import os
import re
from pathlib import Path

from erase.errors import EraseError

VARIABLE = "ERASE_MAX_MEMORY"
_ALWAYS_ALLOWED = 2**30
_GROWTH = 20  # times the size of the file
_NUMBER_BYTES = 8  # a number takes so many at some point, whatever its type in the file
_MOST_COLUMNS = 100_000  # of features, most of them empty
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def parse_size(text: str) -> int:
    """Return a number of bytes from its text.

    >>> parse_size("16G") == 16 * 2**30
    True
    """
    found = re.fullmatch(r"(\d{1,15}(?:\.\d{1,9})?) ?([KMGT]?)(?:i?B)?", text.strip(), re.I)
    if found is None or (size := int(float(found[1]) * _UNITS[found[2].upper()])) < 1:
        raise EraseError("an amount of memory, such as 500M or 16G", repr(text), "Correct it.")
    return size


def physical_memory() -> int:
    """Return the bytes of memory that this machine has."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # Windows
        return 2**63 - 1


def memory_limit(file_size: int | None = None) -> int:
    """Return how many bytes reading may take: of a file of this size, or of an object in memory."""
    if chosen := os.environ.get(VARIABLE):
        return parse_size(chosen)
    if file_size is None:
        return physical_memory()
    return min(max(_ALWAYS_ALLOWED, _GROWTH * file_size), physical_memory())


def check_size(declared: int, what: str, file: Path | None = None) -> None:
    """Raise an EraseError where `declared` bytes are more than the limit.

    Args:
        declared: bytes that reading would take.
        what: declares them, such as the file's name.
        file: that is read; None for an object in memory.
    """
    limit = memory_limit(None if file is None else file.stat().st_size)
    if declared > limit:
        raise EraseError(
            f"{what} to take at most {_shown(limit)} of memory",
            f"one that declares {_shown(declared)}",
            f"Check where it comes from; to allow it, use `erase --max-memory` or {VARIABLE}.",
        )


def check_numbers(count: int, what: str, file: Path | None = None) -> None:
    """Raise an EraseError where so many numbers would take more memory than the limit."""
    check_size(int(count) * _NUMBER_BYTES, what, file)


def check_width(width: int, entries: int) -> None:
    """Raise an EraseError for sparse features with mostly empty columns, each of which costs."""
    if width > max(_MOST_COLUMNS, entries):
        raise EraseError(
            f"at most {max(_MOST_COLUMNS, entries):,} columns of sparse features with {entries:,} "
            "entries",
            f"{width:,}",
            "Remove the empty columns.",
        )


def _shown(size: int) -> str:
    return f"{size / 1e9:,.1f} GB"
