"""Cells and their records: a JSON line per finished cell, only ever appended."""

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any, Self, get_type_hints

import msgspec
from filelock import FileLock, Timeout
from msgspec.structs import asdict

from erase.errors import EraseError

_SHOWN_AS = {"judge": "model"}  # the out-of-fold model; records keep its older name


@dataclass(frozen=True, eq=False)
class Cell:
    """A requested run, and its identity. Two cells are equal where their JSON is.

    Attributes:
        dataset: a name in ``DATASETS``, or a graph's file.
        noise: a name in ``NOISES``, or "none".
        rate: φ, the nominal noise rate; 0 with "none".
        method: a name in ``METHODS``, or in ``DETECTING`` where wrong labels are to be found.
        params: changes to the method's preset for the dataset; of a detector its out-of-fold model
            and limits, see `DetectionSetup`.
        protocol: a name in ``PROTOCOLS``.
        seed: of the method, and of the noise where the protocol redraws it.
        labels_per_class: training labels kept of each class; None: all of the split.
    """

    dataset: str
    noise: str
    rate: float
    method: str
    params: Mapping[str, Any]
    protocol: str
    seed: int
    labels_per_class: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", float(self.rate))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cell) and self._canonical == other._canonical

    def __hash__(self) -> int:
        return hash(self._canonical)

    @property
    def fields(self) -> dict[str, Any]:
        """The values by name."""
        return {name: getattr(self, name) for name in self.__match_args__}

    @cached_property
    def _canonical(self) -> str:
        return json.dumps(self.fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    @property
    def key(self) -> str:
        """The first 16 hex digits of the SHA-256 of the cell's canonical JSON: its file name."""
        return sha256(self._canonical.encode(errors="backslashreplace")).hexdigest()[:16]

    def __str__(self) -> str:
        """Return the cell in words."""
        kept = {} if self.labels_per_class is None else {"labels_per_class": self.labels_per_class}
        what = described(self.method, {**self.params, **kept})
        noise = "none" if self.noise == "none" else f"{self.noise} {self.rate:g}"
        return f"{what} on {self.dataset}, {noise}, {self.protocol}, seed {self.seed}"


def described(method: str, params: Mapping[str, Any]) -> str:
    """Return a method with its changes, as text.

    >>> described("audit", {"judge": "ce", "folds": 5})
    'audit model=ce folds=5'
    """
    changes = [f"{_SHOWN_AS.get(name, name)}={value}" for name, value in params.items()]
    return " ".join([method, *changes])


@dataclass(frozen=True)
class Record:
    """The outcome of a cell.

    Attributes:
        cell: the run.
        scores: shares of 1 and counts by name, see :func:`erase.bench.score` and, of detectors,
            :func:`erase.bench.detection.score_detection`; empty after an error, None where a value
            is not finite.
        settings: the parameters that differ from the defaults of the method, or of a detector's
            model; without device and seed.
        best_epoch: the epoch the scores come from, counted from 1.
        epochs: epochs that were run.
        seconds: of the training, divided by the runs trained together.
        batch: runs trained together.
        peak_bytes: most memory held while they trained; None where it was not measured.
        machine: what it ran on.
        versions: of erase and of what computes: torch, Python and so on; also the number of
            threads, and whether torch was deterministic.
        error: why there are no scores, or None.
        code: digest of the code that the result depends on, see :mod:`erase.bench.digests`; empty
            in records made before there were digests.
    """

    cell: Cell
    scores: Mapping[str, int | float | None] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    best_epoch: int | None = None
    epochs: int | None = None
    seconds: float | None = None
    batch: int | None = None
    peak_bytes: int | None = None
    machine: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    error: str | None = None
    code: str = ""

    def to_json(self) -> str:
        """Return the record as one line, without its end."""
        own = vars(self) | {"scores": {k: _finite(v) for k, v in self.scores.items()}}
        content = {**self.cell.fields, **{k: v for k, v in own.items() if k != "cell"}}
        return json.dumps(content, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, line: str | bytes) -> Self:
        """Return the record of a line; a line that is not one raises msgspec's DecodeError."""
        content = asdict(_LINE.decode(line))
        cell = Cell(**{name: content.pop(name) for name in _CELL_FIELDS})
        return cls(cell, **content)


_CELL_FIELDS = get_type_hints(Cell)
_FIELDS: list[Any] = [
    (name, kind, "") if name == "code" else (name, kind)  # older records lack it
    for name, kind in (_CELL_FIELDS | get_type_hints(Record)).items()
    if name != "cell"
]
_LINE = msgspec.json.Decoder(msgspec.defstruct("Line", _FIELDS, forbid_unknown_fields=True))


def _finite(value: float | None) -> float | None:
    return value if value is None or math.isfinite(value) else None


def read(path: str | os.PathLike[str]) -> list[Record]:
    """Return the records of a file, the last one of each cell; a torn last line is ignored."""
    path = Path(path)
    if not path.is_file():
        raise EraseError(
            "a file of records",
            f"{path}, which is {'a folder' if path.is_dir() else 'not there'}",
            "Check the path; `erase bench STUDY` writes out/STUDY.jsonl.",
        )
    return list(_parse(path.read_bytes(), path).values())


def _parse(content: bytes, path: Path) -> dict[Cell, Record]:
    """Return the last record of each cell from whole lines; what follows the last one is torn."""
    found: dict[Cell, Record] = {}
    for number, line in enumerate(content.split(b"\n")[:-1], start=1):
        try:
            record = Record.from_json(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError) as error:
            raise EraseError(
                f"a record of `erase bench` in every line of {path}",
                f"line {number}: {error}",
                "Restore or remove the line; its cell is then run again."
                if found
                else "Name a file that `erase bench` has written.",
            ) from None
        found[record.cell] = record
    return found


@contextmanager
def locked(path: Path, refusal: EraseError) -> Iterator[None]:
    """Hold an exclusive lock on a file; raise `refusal` where another process holds it.

    The end of the process releases it, however it comes. What is locked is an empty hidden file
    beside `path`, which stays: some versions of filelock empty the file they lock, and a lock on
    Windows keeps others from reading it.
    """
    path = path.resolve()  # one lock, whichever link leads to the file
    lock = FileLock(path.with_name(f".{path.name}.lock"))
    try:
        lock.acquire(blocking=False)
    except Timeout:
        raise refusal from None
    try:
        yield
    finally:
        lock.release()


def check_regular(path: Path) -> None:
    """Raise an EraseError where `path` is a folder, a pipe or a device; it may be missing."""
    if path.exists() and not path.is_file():
        raise EraseError(
            "a regular file to add to",
            f"{str(path)!r}, which is a folder, a device or a pipe",
            "Choose another name with --out.",
        )


class Journal:
    """A file of records opened by one process to add to: ``with Journal(path) as journal``.

    Opening takes an exclusive lock, which the end of the process releases however it comes, and
    cuts off a line that a killed process left incomplete. A new file in which nothing was written
    is removed again if the block raises an EraseError.

    Attributes:
        records: what the file holds, the last record of each cell.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        check_regular(self.path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        refusal = EraseError(
            f"{self.path} to be free",
            "a file that another `erase bench` is writing to",
            "Wait for it, or choose another file with --out.",
        )
        with ExitStack() as opened:
            opened.enter_context(locked(self.path, refusal))
            self._is_new = not self.path.exists()
            self._file = opened.enter_context(open(self.path, "a+b", buffering=0))
            self._file.seek(0)
            content = self._file.read()
            self.records = _parse(content, self.path)
            whole = content.rfind(b"\n") + 1
            if whole < len(content):
                self._file.truncate(whole)
            self._opened = opened.pop_all()

    def append(self, records: Iterable[Record]) -> None:
        """Add records; they are on the disk when this returns."""
        records = list(records)
        text = "".join(record.to_json() + "\n" for record in records)
        content = memoryview(text.encode(errors="backslashreplace"))  # as JSON escapes it
        while content:
            content = content[self._file.write(content) :]
        os.fsync(self._file.fileno())
        self.records |= {record.cell: record for record in records}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._is_new and not self.records and isinstance(error, EraseError):
            self.path.unlink(missing_ok=True)  # a refusal leaves nothing
        self._opened.close()
