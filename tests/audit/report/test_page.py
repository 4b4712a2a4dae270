"""A page is well-formed, readable without pictures, and needs nothing but itself."""

import base64
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from erase.audit.report import Block, Code, Page, Picture, Section, Table, Text

VOID = {"meta", "img"}
NASTY = """<script>alert("&'")</script>"""


class Outline(HTMLParser):
    """Checks that tags are balanced, and keeps what they say."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append((self.open[-1] if self.open else "", data))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    def said(self, tag: str) -> list[str]:
        return [text for inside, text in self.texts if inside == tag]


def figure() -> Figure:
    drawing = Figure(figsize=(2, 1))
    drawing.add_subplot().plot([1, 2], [3, 4])
    return drawing


def whole_page() -> Page:
    table = Table(["Method", "Accuracy", "Node"], [["ours", "91.5%", "a"], ["theirs", "–", "b"]])
    pictures = [
        Picture(figure(), "Two points.", "Look at the line."),
        Picture(figure(), 'A "vector".', vector=True),
    ]
    return Page(
        "Title",
        "Lead.",
        [Section("Words", [Text("Hello."), Code("erase demo"), table]), Section("Seen", pictures)],
    )


def test_tags_are_balanced_and_the_page_has_its_parts() -> None:
    outline = Outline(whole_page().html())
    assert outline.all("html") == [{"lang": "en"}]
    assert len(outline.all("main")) == 1
    assert outline.said("h1") == outline.said("title") == ["Title"]
    assert outline.said("h2") == ["Words", "Seen"]
    assert outline.said("code") == ["erase demo"]
    assert outline.said("figcaption") == ["Look at the line."]


def test_nothing_is_fetched() -> None:
    html = whole_page().html()
    outline = Outline(html)
    assert "//" not in re.sub(r"data:[^\"]*", "", html)
    for tag in ("link", "script", "iframe", "a"):
        assert outline.all(tag) == []
    assert "url(" not in html
    assert "@import" not in html
    sources = [str(image["src"]) for image in outline.all("img")]
    assert [source.split(",")[0] for source in sources] == [
        "data:image/png;base64",
        "data:image/svg+xml;base64",
    ]
    png, svg = (base64.b64decode(source.split(",")[1]) for source in sources)
    assert png.startswith(b"\x89PNG")
    assert b"<svg" in svg


def test_every_picture_has_words_and_a_size() -> None:
    images = Outline(whole_page().html()).all("img")
    assert [image["alt"] for image in images] == ["Two points.", 'A "vector".']
    assert {(image["width"], image["height"]) for image in images} == {("192", "96")}


def test_table_cells_are_headed_and_numbers_stand_to_the_right() -> None:
    outline = Outline(whole_page().html())
    assert [(th.get("scope"), th.get("class")) for th in outline.all("th")] == [
        ("col", None),
        ("col", "number"),
        ("col", None),
        ("row", None),
        ("row", None),
    ]
    assert [td.get("class") for td in outline.all("td")] == ["number", None] * 2
    assert outline.said("td") == ["91.5%", "a", "–", "b"]


def test_a_table_needs_a_cell_for_every_heading() -> None:
    with pytest.raises((ValueError, IndexError)):
        Table(["a", "b"], [["1"]]).html()


def test_everything_is_escaped() -> None:
    table = Table([NASTY], [[NASTY]], caption=NASTY)
    body: list[Block] = [Text(NASTY), Code(NASTY), table, Picture(figure(), NASTY, NASTY)]
    outline = Outline(Page(NASTY, NASTY, [Section(NASTY, body)]).html())
    assert outline.all("script") == []
    assert outline.all("img")[0]["alt"] == NASTY
    spoken = [text for _, text in outline.texts if text == NASTY]
    assert len(spoken) == 10  # title, h1, lead, h2, p, code, caption, two cells, figcaption


def test_the_same_page_has_the_same_bytes(tmp_path: Path) -> None:
    for name in ("first", "second"):
        whole_page().write(tmp_path / "new folder" / name)
    first, second = sorted((tmp_path / "new folder").iterdir())
    assert first.read_bytes() == second.read_bytes()
    assert first.read_text(encoding="utf-8") == whole_page().html()


def test_a_page_that_cannot_be_drawn_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("old")
    broken = Page("Title", "Lead.", [Section("Bad", [Table(["a"], [["1", "2"]])])])
    with pytest.raises(ValueError, match="zip"):
        broken.write(path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
