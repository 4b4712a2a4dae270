"""Colours, markers and shapes that tell classes and series apart, never by colour alone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, count

# Of figures: Okabe and Ito's colours without their yellow, which is too faint on white.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#000000")
MARKERS = ("o", "^", "s", "X", "D", "v", "P", "<", "*", ">")  # 7 × 10 distinct pairs
GREY = "#6E6E6E"

# Of pages, of middle lightness: each stands out (3 : 1) from a white page and from a dark one.
PAGE_COLOURS = (
    "#0072b2", "#d55e00", "#00916a", "#c9559b", "#a87900",
    "#8a63d2", "#2a93a8", "#c43c4e", "#6f8500", "#94694a",
)  # fmt: skip
SHAPES = ("circle", "square", "triangle", "diamond", "cross", "wedge", "star")  # 10 × 7 pairs


@dataclass(frozen=True)
class ClassMark:
    """The look of a class.

    Attributes:
        name: of the class.
        code: one to three letters, no other class has it.
        colour: ``#rrggbb``.
        ink: black or white, whichever is legible on the colour.
        shape: one of :data:`SHAPES`; the script knows their outlines.
    """

    name: str
    code: str
    colour: str
    ink: str
    shape: str


def class_marks(names: Sequence[str]) -> list[ClassMark]:
    """Return a mark for each class.

    >>> [mark.code for mark in class_marks(["mail", "math", "net", "7"])]
    ['Ma', 'Mt', 'Ne', '7']
    """
    marks: list[ClassMark] = []
    used: set[str] = set()
    for k, name in enumerate(names):
        code = next(code for code in _codes(name, k) if code not in used)
        used.add(code)
        colour = PAGE_COLOURS[k % len(PAGE_COLOURS)]
        shape = SHAPES[k % len(SHAPES)]
        marks.append(ClassMark(name, code, colour, ink(colour), shape))
    return marks


def _codes(name: str, k: int) -> Iterator[str]:
    """Yield codes for the class `name`, the best first: its first letter and another one of it."""
    letters = [letter for letter in name if letter.isalnum()]
    if 1 <= len(letters) <= 2:
        pairs = ["".join(letters)]
    else:
        pairs = [letters[0].upper() + letter.lower() for letter in letters[1:]]
    return chain(pairs, (str(number) for number in count(k)))


def ink(colour: str) -> str:
    """Return black or white, whichever has more contrast on the colour.

    >>> ink("#0072b2"), ink("#ffffff")
    ('#ffffff', '#000000')
    """
    dark, light = contrast(colour, "#000000"), contrast(colour, "#ffffff")
    return "#000000" if dark > light else "#ffffff"


def contrast(a: str, b: str) -> float:
    """Return the contrast of two colours by WCAG: 1 none, 21 black on white; text needs 4.5."""
    darker, lighter = sorted([_luminance(a), _luminance(b)])
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    shares = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
