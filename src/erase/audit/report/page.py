"""A page is a tree of small values that render themselves: one HTML file that needs no network."""

import base64
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Protocol

from matplotlib.figure import Figure
from PIL import Image  # matplotlib brings it

from erase.audit.report.drawing import picture_bytes
from erase.data.files import StrPath, atomic_write

_SMALLEST = 0.7  # of its size a picture is still legible; on a narrower screen it scrolls
_NUMBER = re.compile(r"[–\d.,%\s]*s?")

_STYLE = """
:root { color-scheme: light dark; --line: #d0d7de; --quiet: #57606a; --panel: #f6f8fa; }
@media (prefers-color-scheme: dark) {
  :root { --line: #3d444d; --quiet: #9aa4af; --panel: #1c2128; }
}
body { margin: 0; font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 62rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.75rem; line-height: 1.25; margin: 0 0 1rem; }
h2 { font-size: 1.3rem; margin: 2.5rem 0 .5rem; }
p { max-width: 46rem; margin: .5rem 0 1rem; overflow-wrap: break-word; }
.lead { font-size: 1.1rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: .5rem 0 1rem; }
caption { text-align: left; color: var(--quiet); padding-bottom: .4rem; }
th, td { text-align: left; padding: .35rem .9rem .35rem 0; border-bottom: 1px solid var(--line); }
thead th { vertical-align: bottom; font-size: .9rem; border-bottom-width: 2px; }
tbody th { font-weight: 600; }
@media (min-width: 40rem) { tbody th { white-space: nowrap; } }
@media (max-width: 40rem) { table { font-size: .85rem; } th, td { padding-right: .6rem; } }
.number { text-align: right; }
figure { margin: 1rem 0 1.5rem; }
figure img { display: block; max-width: 100%; height: auto; background: #fff; border-radius: 4px; }
figcaption { max-width: 46rem; color: var(--quiet); margin-top: .6rem; }
pre { background: var(--panel); border: 1px solid var(--line); border-radius: 4px;
  padding: .75rem 1rem; overflow-x: auto; font-size: .9rem; }
"""


class Block(Protocol):
    """Anything that renders itself to HTML."""

    def html(self) -> str:
        """Return the block as HTML."""


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str

    def html(self) -> str:
        """Return ``<p>``."""
        return f"<p>{escape(self.text)}</p>"


@dataclass(frozen=True)
class Code:
    """Lines to type or to read literally."""

    text: str

    def html(self) -> str:
        """Return ``<pre>``."""
        return f'<pre tabindex="0"><code>{escape(self.text)}</code></pre>'


@dataclass(frozen=True)
class Table:
    """A table; the first cell of a row names it, and columns of numbers are set to the right."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""

    def html(self) -> str:
        """Return ``<table>``, in a box that scrolls where the screen is narrow."""
        numeric = [
            bool(self.rows) and all(_NUMBER.fullmatch(row[column]) for row in self.rows)
            for column in range(len(self.header))
        ]
        marks = [' class="number"' if right else "" for right in numeric]
        head = "".join(
            f'<th scope="col"{mark}>{escape(cell)}</th>'
            for cell, mark in zip(self.header, marks, strict=True)
        )
        body = "\n".join(f"<tr>{self._row(row, marks)}</tr>" for row in self.rows)
        caption = f"<caption>{escape(self.caption)}</caption>" if self.caption else ""
        return (
            f'<div class="scroll"><table>{caption}\n<thead><tr>{head}</tr></thead>\n'
            f"<tbody>\n{body}\n</tbody></table></div>"
        )

    @staticmethod
    def _row(row: Sequence[str], marks: Sequence[str]) -> str:
        cells = [f"{mark}>{escape(cell)}" for cell, mark in zip(row, marks, strict=True)]
        first = f'<th scope="row"{cells[0]}</th>'
        return first + "".join(f"<td{cell}</td>" for cell in cells[1:])


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure with words for those who do not see it, and a caption for those who do.

    Attributes:
        figure: the matplotlib figure.
        alt: what it shows.
        caption: what to look for.
        vector: SVG, sharp at any size, for lines and bars; else PNG, small for many points.
    """

    figure: Figure
    alt: str
    caption: str = ""
    vector: bool = False

    def html(self) -> str:
        """Return ``<figure>`` with the picture inside the page."""
        kind = "image/svg+xml" if self.vector else "image/png"
        data = base64.b64encode(self._bytes()).decode()
        width, height = (round(96 * inches) for inches in self.figure.get_size_inches())
        least = round(_SMALLEST * width)
        caption = f"\n<figcaption>{escape(self.caption)}</figcaption>" if self.caption else ""
        return (
            f'<figure><div class="scroll" tabindex="0"><img alt="{escape(self.alt)}" '
            f'width="{width}" height="{height}" style="min-width:{least}px" '
            f'src="data:{kind};base64,{data}"></div>{caption}</figure>'
        )

    def _bytes(self) -> bytes:
        if self.vector:
            return picture_bytes(self.figure, "svg")
        small = io.BytesIO()
        # a palette: a third of the bytes, and hardly a difference to the eye; the method keeps rare
        # colours, which a colour bar has and the map it explains may not
        Image.open(io.BytesIO(picture_bytes(self.figure, "png"))).convert("RGB").quantize(
            256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE
        ).save(small, "png")
        return small.getvalue()


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it."""

    heading: str
    body: Sequence[Block]

    def html(self) -> str:
        """Return ``<section>``."""
        body = "\n".join(block.html() for block in self.body)
        return f"<section>\n<h2>{escape(self.heading)}</h2>\n{body}\n</section>"


@dataclass(frozen=True)
class Page:
    """A whole page: a title, a few sentences, and sections."""

    title: str
    lead: str
    sections: Sequence[Section]

    def html(self) -> str:
        """Return the document; it refers to nothing outside itself."""
        title = escape(self.title)
        sections = "\n".join(section.html() for section in self.sections)
        return (
            f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
            f'<h1>{title}</h1>\n<p class="lead">{escape(self.lead)}</p>\n{sections}\n'
            f"</main>\n</body>\n</html>\n"
        )

    def write(self, path: StrPath) -> None:
        """Write the page whole or not at all."""
        content = self.html()
        with atomic_write(Path(path)) as file:
            file.write(content)
