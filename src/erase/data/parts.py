"""Files and folders that appear whole or not at all, and what killed processes left of them.

Links are followed: a link that a user names keeps pointing where it did, and what it points to is
replaced.
"""

import ctypes
import glob
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from erase.errors import EraseError

try:
    import fcntl
except ImportError:  # Windows: no locks, and leftovers stay
    fcntl = None  # type: ignore[assignment]

_LEFTOVER = re.compile(r"\.(.+)\.[0-9a-f]{8}\.(part|old)")
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


def output_path(given: Any) -> Path:
    """Return a path to write to; raise an EraseError for what names no file."""
    is_path = isinstance(given, str | os.PathLike) and isinstance(os.fspath(given), str)
    with suppress(UnicodeEncodeError):
        if is_path and 0 not in os.fsencode(given):
            return Path(given)
    raise EraseError("the path of a file or folder", f"{given!r}", "Pass a name as text.")


@contextmanager
def new_part(path: Path, *, is_folder: bool = False) -> Iterator[Path]:
    """Yield a new hidden file or folder beside `path`; rename it to keep it.

    It is locked as long as the block runs, and removed at its end. Parts without a lock belong to
    processes that were killed: they are removed first. An OSError without a file names `path`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    sweep(path.parent)
    claimed: list[Path] = []  # known before it is made: an interrupt may come at any moment
    lock = None
    try:
        lock = _claim(path, is_folder, claimed)
        yield claimed[-1]
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename = os.fspath(path)
        raise
    finally:
        try:
            _remove_all(claimed)
        except KeyboardInterrupt:  # while a large folder that was replaced is removed
            _remove_all(claimed)
            raise
        finally:
            if lock is not None:
                os.close(lock)


def _claim(path: Path, is_folder: bool, claimed: list[Path]) -> int | None:
    """Make a new locked part, the last of `claimed`; return the descriptor that holds the lock."""
    while True:
        part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
        claimed.append(part)
        try:
            if is_folder:
                part.mkdir()
            else:
                os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        except FileExistsError:  # another process's
            claimed.remove(part)
            continue
        if fcntl is None:
            return None
        try:
            lock = os.open(part, os.O_RDONLY)
        except FileNotFoundError:  # another process swept it away
            continue
        if _lock(lock) is not False and os.fstat(lock).st_nlink:
            return lock
        os.close(lock)


def _lock(descriptor: int) -> bool | None:
    """Lock an open file or folder; False: another process has, None: there are no locks here."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # such as some network drives
        return None
    return True


def make_folder(folder: Path) -> None:
    """Make an output folder; raise an EraseError where it cannot be made or written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):  # now, rather than after hours of work
            pass
    except OSError as error:
        is_other = folder.exists() and not folder.is_dir()
        reason = "which is a file" if is_other else (error.strerror or str(error)).lower()
        raise EraseError(
            "a folder to write to", f"{str(folder)!r}, {reason}", "Choose another --out."
        ) from None


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Make an output folder and hold it; raise an EraseError where another process does.

    The end of the process releases it, however it comes. A folder that this call made is removed
    again if the block raises an EraseError and left it empty.
    """
    is_new = not folder.exists()
    make_folder(folder)
    descriptor = None if fcntl is None else os.open(folder, os.O_RDONLY)
    try:
        if descriptor is not None and _lock(descriptor) is False:
            raise EraseError(
                f"{str(folder)!r} to be free",
                "a folder that another command is writing to",
                "Wait for it, or choose another folder with --out.",
            )
        sweep(folder)
        yield
    except EraseError:
        if is_new:
            with suppress(OSError):
                folder.rmdir()
        raise
    finally:
        if descriptor is not None:
            os.close(descriptor)


def sweep(folder: Path) -> None:
    """Remove what killed processes left in a folder: parts that nobody has locked."""
    found: list[Path] = []
    with suppress(OSError):  # a folder that can be written to, but not listed
        if fcntl is not None:
            found = [each for each in folder.iterdir() if _LEFTOVER.fullmatch(each.name)]
    for part in found:
        with suppress(OSError):
            lock = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                if part.suffix == ".old":
                    recover(part.with_name(_LEFTOVER.fullmatch(part.name)[1]))  # type: ignore[index]
                if _lock(lock):
                    _remove(part)
            finally:
                os.close(lock)


def _remove_all(parts: Sequence[Path]) -> None:
    for part in parts:
        _remove(part)


def _remove(part: Path) -> None:
    if part.is_dir():
        shutil.rmtree(part, ignore_errors=True)
    else:
        part.unlink(missing_ok=True)


def put_in_place(part: Path, path: Path) -> None:
    """Give a finished folder its name. Afterwards `part` may be the folder that had it before."""
    if not path.exists():
        part.rename(path)
    elif not _exchange(part, path):
        older = part.with_suffix(".old")
        path.rename(older)  # a process killed here is recovered from
        part.rename(path)
        shutil.rmtree(older, ignore_errors=True)


def recover(path: Path) -> None:
    """Give a folder its name back that a killed process had taken away to replace it."""
    if not path.exists() and path.parent.is_dir():
        for older in sorted(path.parent.glob(f".{glob.escape(path.name)}.*.old")):
            older.rename(path)
            return


def _exchange(first: Path, second: Path) -> bool:
    """Exchange two names in one step; return whether the system can."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    ends = (_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second))
    return bool(rename(*ends, ctypes.c_uint(_RENAME_EXCHANGE)) == 0)
