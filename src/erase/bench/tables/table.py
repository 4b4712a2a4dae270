"""A table as data: panels of lines of entries, each with the paper's figure beside it."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from erase.bench.names import dataset_name, noise_place
from erase.bench.published import Value
from erase.bench.records import Record


@dataclass(frozen=True)
class Measure:
    """What an entry is the mean of.

    Attributes:
        name: as in a record's scores, and in CSV files.
        words: the same for readers.
        read: the value of a record in `unit`; None where it has none.
        unit: "%", "ms" or "".
        decimals: shown.
        ranks: higher is better: the highest is marked, and methods are compared.
        is_printed: whether the paper's figures are of this measure.
        is_alike: whether they were made like ours: then the difference says something.
        shows_error: shown beside a mean is its standard error, not the deviation of the runs.
    """

    name: str
    words: str
    read: Callable[[Record], float | None]
    unit: str = "%"
    decimals: int = 2
    ranks: bool = True
    is_printed: bool = True
    is_alike: bool = True
    shows_error: bool = False


@dataclass(frozen=True)
class Row:
    """A line to be filled: a method with changes to its preset.

    Attributes:
        key: its name in ``published.json``.
        label: as shown.
        method: a name in ``METHODS``.
        params: changes to the method's preset for the dataset.
        measure: where it is not the panel's.
        sanity: shown for comparison; takes no rank and is nobody's rival.
    """

    key: str
    label: str
    method: str = "erase"
    params: Mapping[str, Any] = field(default_factory=dict)
    measure: Measure | None = None
    sanity: bool = False


@dataclass(frozen=True)
class Place:
    """A column to be filled: a dataset and its noise; noise "any" joins all of them.

    `labels_per_class` is how many training labels of each class were kept; None: all.
    """

    label: str
    dataset: str
    noise: str
    rate: float | None
    labels_per_class: int | None = None

    @property
    def key(self) -> str:
        """The place's name in ``published.json``."""
        return self.noise if self.rate is None else noise_place(self.noise, self.rate)

    def __str__(self) -> str:
        """Return the place in words."""
        if self.noise == "none":
            return f"{dataset_name(self.dataset)} without noise"
        rate = "" if self.rate is None else f" {self.rate:g}"
        kept = self.labels_per_class
        few = "" if kept is None else f" with {kept} labels a class"
        return f"{dataset_name(self.dataset)} {self.noise}{rate}{few}"


@dataclass(frozen=True)
class Contest:
    """A line against its best rival, run by run with equal seeds.

    Attributes:
        rival: label of the other line with the highest mean.
        difference: mean of ours minus theirs over the pairs.
        p_value: of a two-sided paired t-test; None with fewer than two pairs, or where all pairs
            differ by the same.
        pairs: runs with equal seeds.
    """

    rival: str
    difference: float
    p_value: float | None
    pairs: int


@dataclass(frozen=True)
class Rank:
    """A line's place among the compared ones by the mean, 1 is the best; and the published one."""

    ours: int
    of: int
    published: int | None


@dataclass(frozen=True)
class Entry:
    """Mean and sample standard deviation over runs, beside the published figure.

    Attributes:
        mean: None without a run.
        std: None with fewer than two runs.
        runs: how many.
        published: the paper's figure; None where it prints none.
        is_best: whether no mean of a row of the column that is compared is higher.
        rank: of the line that the table is about.
        contest: of the same.
    """

    mean: float | None = None
    std: float | None = None
    runs: int = 0
    published: Value | None = None
    is_best: bool = False
    rank: Rank | None = None
    contest: Contest | None = None

    @property
    def error(self) -> float | None:
        """Standard error of the mean, s/√n; None with fewer than two runs."""
        return None if self.std is None else self.std / math.sqrt(self.runs)

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's."""
        if self.mean is None or self.published is None:
            return None
        return self.mean - self.published.mean


@dataclass(frozen=True)
class Line:
    """A row and its entries, one for each place of the panel."""

    row: Row
    entries: tuple[Entry, ...]


@dataclass(frozen=True)
class Panel:
    """The part of a table that is about one dataset, or one kind of noise on it.

    Attributes:
        title: what it is about.
        measure: of its lines.
        places: its columns.
        lines: its rows.
        lacking: why it has no entry, where it has none; else empty.
    """

    title: str
    measure: Measure
    places: tuple[Place, ...]
    lines: tuple[Line, ...]
    lacking: str = ""


@dataclass(frozen=True)
class Spot:
    """An entry with where it stands."""

    panel: Panel
    row: Row
    place: Place
    entry: Entry


@dataclass(frozen=True)
class Table:
    """A table of the paper, rerun.

    Attributes:
        name: in `TABLES`.
        title: one line.
        protocol: of its records; None where it does not matter.
        panels: what it shows.
        notes: sentences to read beside it.
    """

    name: str
    title: str
    protocol: str | None
    panels: tuple[Panel, ...]
    notes: tuple[str, ...] = ()

    @property
    def is_comparable(self) -> bool:
        """Whether the published figures were made under the protocol of this table."""
        return self.protocol in (None, "paper")

    def spots(self) -> Iterator[Spot]:
        """Yield every entry, filled or not, in reading order."""
        for panel in self.panels:
            for line in panel.lines:
                for place, entry in zip(panel.places, line.entries, strict=True):
                    yield Spot(panel, line.row, place, entry)

    def compared(self) -> list[Spot]:
        """Return the entries that have a published figure."""
        return [spot for spot in self.spots() if spot.entry.difference is not None]


def is_far(spot: Spot, limit: float) -> bool:
    """Return whether an entry, as shown, is more than `limit` from the published figure."""
    difference = spot.entry.difference
    return difference is not None and abs(round(difference, spot.panel.measure.decimals)) > limit
