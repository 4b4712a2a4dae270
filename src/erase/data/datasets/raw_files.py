"""Raw files of public datasets: where they are, and how to read them without writing there.

``$ERASE_DATA`` names a folder laid out as PyG and OGB expect it. It is only read, and nothing is
downloaded while it is set. Without it, datasets are downloaded once into the user's cache.
"""

import contextlib
import io
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from erase.errors import EraseError

Result = TypeVar("Result")


@dataclass(frozen=True)
class RawFiles:
    """The files one dataset is read from.

    Args:
        folder: the dataset's folder below the data root, such as ``Planetoid/Cora``.
        files: paths below `folder` that must exist, such as ``raw/ind.cora.x``.
        archive: where the files can be had, if they are too many bytes to be downloaded unasked.
    """

    folder: str
    files: tuple[str, ...]
    archive: str | None = None

    def missing(self, root: Path) -> list[Path]:
        """Return the files that are not below `root`."""
        paths = [root / self.folder / file for file in self.files]
        return [path for path in paths if not path.is_file()]


def given_root() -> Path | None:
    """Return the folder named by ``$ERASE_DATA``, None when it is not set."""
    value = os.environ.get("ERASE_DATA")
    return Path(value).expanduser().absolute() if value else None


def cache_root() -> Path:
    """Return the user's cache of downloaded datasets: ``$XDG_CACHE_HOME/erase``."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "erase"


def read_raw(raw: RawFiles, read: Callable[[str], Result]) -> Result:
    """Call `read(root)` on a temporary root in which `raw`'s files appear, and return its result.

    PyG and OGB write ``processed/`` beside ``raw/``. Here that falls into the temporary root, which
    is gone afterwards: the real folder stays untouched, no stale cache is ever read, and any
    number of processes may read at once. `read` must therefore return what it read in memory.

    Raises:
        EraseError: a file is missing below ``$ERASE_DATA``, or the download failed.
    """
    if given_root() is None and raw.archive is None and raw.missing(cache_root()):
        _download(raw, read, cache_root())
    folder = find_raw(raw)
    with _shadow(folder, raw) as shadow, _silence():
        return read(str(shadow))


def find_raw(raw: RawFiles) -> Path:
    """Return the folder that holds `raw`'s files; nothing is downloaded.

    Raises:
        EraseError: a file is missing.
    """
    given = given_root()
    root = cache_root() if given is None else given
    if missing := raw.missing(root):
        if raw.archive is not None:
            remedy = f"Download {raw.archive}, and unpack it as {root / raw.folder}."
        elif given is not None:
            remedy = "Put it there, or unset ERASE_DATA to download the dataset."
        else:
            remedy = f"Delete {root / raw.folder} so that the dataset is downloaded anew."
        raise EraseError(f"the file {missing[0]}", "no such file", remedy)
    return root / raw.folder


@contextlib.contextmanager
def _shadow(folder: Path, raw: RawFiles) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="erase-") as temporary:
        shadow = Path(temporary) / raw.folder
        shadow.mkdir(parents=True)
        for entry in folder.iterdir():
            if entry.name != "processed":  # a cache, perhaps of another PyG
                (shadow / entry.name).symlink_to(entry, target_is_directory=entry.is_dir())
        yield Path(temporary)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    # PyG's constructors have no switch for "Processing..." on stderr, nor OGB for its prints.
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


def _download(raw: RawFiles, read: Callable[[str], Result], root: Path) -> None:
    """Let `read` download into a temporary root, then move the dataset's folder below `root`."""
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="download-", dir=root) as temporary:
        try:
            read(temporary)
        except (OSError, RuntimeError) as error:
            raise EraseError(
                f"to download {raw.folder}",
                f"{type(error).__name__}: {error}",
                "Check the network, or set ERASE_DATA to a folder that holds the raw files.",
            ) from error
        fresh = Path(temporary) / raw.folder
        shutil.rmtree(fresh / "processed", ignore_errors=True)
        target = root / raw.folder
        target.parent.mkdir(parents=True, exist_ok=True)
        # The target exists when another process was faster; the caller checks its files.
        with contextlib.suppress(OSError):
            fresh.rename(target)
