"""What an audit's page is made of: answers, bars, confused pairs and the matrix, as HTML."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray

from erase.audit.report.class_marks import ClassMark
from erase.audit.report.page import Block

_BLANK = 0.005  # shares below are no number in the matrix, and have no colour


@dataclass(frozen=True)
class Part:
    """A heading that can be linked to, and what stands under it."""

    anchor: str
    heading: str
    body: Sequence[Block]

    def html(self) -> str:
        """Return ``<section>``."""
        body = "\n".join(block.html() for block in self.body)
        return (
            f'<section id="{self.anchor}" aria-labelledby="{self.anchor}-heading">\n'
            f'<h2 id="{self.anchor}-heading">{escape(self.heading)}</h2>\n'
            f"{body}\n</section>"
        )


@dataclass(frozen=True)
class Card:
    """A number that is the answer, and the sentence it belongs to."""

    number: str
    meaning: str
    detail: str

    def html(self) -> str:
        """Return ``<li>``."""
        return (
            f'<li><span class="big">{escape(self.number)}</span> '
            f'<span class="meaning">{escape(self.meaning)}</span> '
            f'<span class="quiet">{escape(self.detail)}</span></li>'
        )


@dataclass(frozen=True)
class Cards:
    """Answers side by side."""

    cards: Sequence[Card]

    def html(self) -> str:
        """Return ``<ul>``."""
        return f'<ul class="cards">\n{"".join(card.html() for card in self.cards)}\n</ul>'


@dataclass(frozen=True)
class Slice:
    """A part of a bar: its look, its words and its size."""

    kind: str
    words: str
    count: int


@dataclass(frozen=True)
class Bar:
    """Counts as one bar; the words under it say what its parts are."""

    name: str
    slices: Sequence[Slice]

    def html(self) -> str:
        """Return a bar for the eye and a list for everybody."""
        total = max(sum(part.count for part in self.slices), 1)
        bar = "".join(
            f'<span class="{part.kind}" style="flex-grow:{part.count}"></span>'
            for part in self.slices
            if part.count
        )
        words = "".join(
            f'<li><span class="swatch {part.kind}" aria-hidden="true"></span> '
            f"{escape(part.words)}: <strong>{part.count:,}</strong> "
            f'<span class="quiet">({percent(part.count / total)})</span></li>'
            for part in self.slices
        )
        return (
            f'<div class="counts"><div class="stack" aria-hidden="true">{bar}</div>\n'
            f'<ul aria-label="{escape(self.name)}">{words}</ul></div>'
        )


@dataclass(frozen=True)
class Pair:
    """Two classes that are confused.

    Attributes:
        true: number of the class that is right.
        given: number of the class that is written instead.
        labels: how many given labels are such errors, expected.
        share: of the nodes of the true class that get the given label.
        low: the share's 90 % interval.
        high: its upper end.
    """

    true: int
    given: int
    labels: float
    share: float
    low: float
    high: float


@dataclass(frozen=True)
class Pairs:
    """The most confused pairs in words, each with a way to its labels."""

    pairs: Sequence[Pair]
    marks: Sequence[ClassMark]

    def html(self) -> str:
        """Return ``<ol>``."""
        return f'<ol class="pairs">\n{"".join(self._item(pair) for pair in self.pairs)}\n</ol>'

    def _item(self, pair: Pair) -> str:
        true, given = self.marks[pair.true], self.marks[pair.given]
        return (
            f"<li>{_chip(true)} called {_chip(given)}: about "
            f"<strong>{count_of(pair.labels, 'label')}</strong>. Of what is truly "
            f"{escape(true.name)}, {percent(pair.share)} "
            f'<span class="quiet">(<span class="whole">{interval(pair.low, pair.high)}</span>)'
            f"</span> is labelled {escape(given.name)}. "
            f'<a href="#labels" data-given="{pair.given}" data-suggested="{pair.true}">'
            f'Show them<span class="hidden">: given {escape(given.name)}, suggested '
            f"{escape(true.name)}</span></a></li>\n"
        )


@dataclass(frozen=True, eq=False)
class Matrix:
    """The transition matrix as a heat table; a cell's label tells its interval.

    Attributes:
        classes: numbers of the classes shown.
        marks: of all classes.
        value: [K, K] ``[true, given]``.
        low: [K, K] lower ends of the 90 % intervals.
        high: [K, K] upper ends.
    """

    classes: Sequence[int]
    marks: Sequence[ClassMark]
    value: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]

    def html(self) -> str:
        """Return ``<table>`` in a box that scrolls, and a line that reads out a cell."""
        columns = "".join(
            f'<th scope="col" title="{escape(self.marks[k].name)}">{_code(self.marks[k])}'
            f'<span class="hidden">{escape(self.marks[k].name)}</span></th>'
            for k in self.classes
        )
        rows = "\n".join(f"<tr>{self._row(true)}</tr>" for true in self.classes)
        return (
            f'<p id="matrix-caption" class="quiet">Rows: the true class. Columns: the label it was '
            f"given. In percent of the row; blank is less than half a percent. The stronger the "
            f"colour, the more labels are wrong; on the diagonal are the right ones.</p>\n"
            f'<div class="scroll"><table class="matrix" role="grid" '
            f'aria-labelledby="matrix-caption">\n'
            f'<thead><tr><th scope="col" class="corner">truly ↓ &nbsp; labelled →</th>{columns}'
            f"</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>\n"
            f'<p id="matrix-cell" class="readout" role="status">Point at a cell, or move through '
            f"the table with the arrow keys, to read how sure it is.</p>"
        )

    def _row(self, true: int) -> str:
        cells = "".join(self._cell(true, given) for given in self.classes)
        mark = self.marks[true]
        return f'<th scope="row">{_code(mark)} {escape(mark.name)}</th>{cells}'

    def _cell(self, true: int, given: int) -> str:
        value = float(self.value[true, given])
        shown = f"{100 * value:.0f}" if value >= _BLANK else ""
        within = interval(float(self.low[true, given]), float(self.high[true, given]))
        said = (
            f"Of what is truly {self.marks[true].name}, {percent(value, 1)} is labelled "
            f"{self.marks[given].name} (90% interval: {within})."
        )
        look = 'class="right"' if true == given else f'style="--share:{self._heat(value):.2f}"'
        return f'<td role="gridcell" tabindex="-1" {look} aria-label="{escape(said)}">{shown}</td>'

    def _heat(self, value: float) -> float:
        """Return how strongly an error is coloured: its root beside the root of the largest."""
        errors = self.value[np.ix_(self.classes, self.classes)].copy()
        np.fill_diagonal(errors, 0)
        return float(np.sqrt(value / errors.max())) if value >= _BLANK else 0.0


def percent(share: float, decimals: int = 0) -> str:
    """Return a share for people; what is not nothing and not all does not look so.

    >>> percent(0.125), percent(0.0004), percent(0.9996), percent(0.0), percent(0.034, 1)
    ('12%', 'less than 1%', 'more than 99%', '0%', '3.4%')
    """
    step = 10 ** -(decimals + 2)
    if 0 < share < step / 2:
        return f"less than {step:.{decimals}%}"
    if 1 - step / 2 < share < 1:
        return f"more than {1 - step:.{decimals}%}"
    return f"{share:.{decimals}%}"


def interval(low: float, high: float) -> str:
    """Return two shares as an interval.

    >>> interval(0.02, 0.071), interval(0.001, 0.004), interval(0, 0)
    ('2–7%', '0.1–0.4%', '0–0%')
    """
    decimals = 1 if 0 < high < 0.01 else 0
    return f"{100 * low:.{decimals}f}–{high:.{decimals}%}"


def count_of(number: float, thing: str) -> str:
    """Return a rounded number of things.

    >>> count_of(1.2, "label"), count_of(1234, "label")
    ('1 label', '1,234 labels')
    """
    whole = round(number)
    return f"{whole:,} {thing}{'' if whole == 1 else 's'}"


def _chip(mark: ClassMark) -> str:
    return f'<span class="chip">{_code(mark)}<bdi>{escape(mark.name)}</bdi></span>'


def _code(mark: ClassMark) -> str:
    return (
        f'<span class="code" aria-hidden="true" style="--class:{mark.colour};--ink:{mark.ink}">'
        f"{escape(mark.code)}</span>"
    )
