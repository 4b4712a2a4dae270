"""Templates make well-formed pages, in which every value is a text and nothing is fetched."""

import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from jinja2 import UndefinedError

from erase.audit.report import render, write_audit_page, write_page
from erase.audit.report.audit_page import audit_page
from erase.audit.report.palette import ClassMark
from erase.audit.report.render import _environment
from synthetic_audits import planted_audit

VOID = {"meta", "link", "input"}
NASTY = """<script>alert("&'")</script>"""


class Outline(HTMLParser):
    """Checks that tags are balanced, and keeps the tags and the texts inside them."""

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

    def inside(self, tag: str) -> list[str]:
        return [text for found, text in self.texts if found == tag]


def macro(call: str, **data: Any) -> str:
    """Return what a macro of the package makes of the data."""
    source = f'{{% import "macros.html" as ui %}}{{{{ ui.{call} }}}}'
    return _environment().from_string(source).render(data)


def test_tags_are_balanced_and_the_page_has_its_parts() -> None:
    page = audit_page(planted_audit(60), name="towns")
    outline = Outline(render("audit.html", **page))
    assert outline.all("html") == [{"lang": "en"}]
    assert len(outline.all("main")) == 1
    assert outline.inside("h1") == outline.inside("title") == ["Audit of towns"]
    headings = [text for text in outline.inside("h2") if text.strip()]
    links = [a["href"] for a in outline.all("a")][1 : 1 + len(headings)]
    anchors = [section["id"] for section in outline.all("section")]
    assert links == [f"#{anchor}" for anchor in anchors]
    assert headings[0] == "How noisy are the labels?"


def test_only_the_scripts_of_the_package_can_run() -> None:
    html = render("audit.html", **audit_page(planted_audit(30)))
    policy = Outline(html).all("meta")[1]["content"]
    script = re.search(r'<script type="module">(.*?)</script>', html, flags=re.DOTALL)
    assert script is not None
    digest = base64.b64encode(hashlib.sha256(script[1].encode()).digest()).decode()
    assert policy == (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "img-src data:"
    )


def test_table_cells_are_headed_and_numbers_stand_to_the_right() -> None:
    rows = [["ours", "91.5%", "a"], ["theirs", "–", "b"]]
    outline = Outline(macro("table(header, rows, [1])", header=["M", "A", "N"], rows=rows))
    assert [(th.get("scope"), th.get("class")) for th in outline.all("th")] == [
        ("col", None),
        ("col", "num"),
        ("col", None),
        ("row", None),
        ("row", None),
    ]
    assert [td.get("class") for td in outline.all("td")] == ["num", None] * 2
    assert outline.inside("td") == ["91.5%", "a", "–", "b"]


def test_bars_are_as_long_as_the_scores_and_the_best_is_marked() -> None:
    rows = {"ours": {"score": 0.8}, "theirs": {"score": 0.504}}
    outline = Outline(macro('bars("score", rows, "Scores")', rows=rows))
    assert outline.all("dl") == [{"class": "chart", "aria-label": "Scores"}]
    assert [row.get("class") for row in outline.all("div")] == ["best", None]
    widths = [span["style"] for span in outline.all("span") if "style" in span]
    assert widths == ["width:80.0%", "width:50.4%"]
    assert [text.strip() for text in outline.inside("dd")] == ["80.0%", "50.4%"]


def test_a_stack_shows_the_slices_that_are_not_empty() -> None:
    slices = [
        {"kind": "right", "words": "right", "count": 3000},
        {"kind": "wrong", "words": "wrong", "count": 0},
    ]
    outline = Outline(macro('stack("Verdicts", slices)', slices=slices))
    assert [s["style"] for s in outline.all("span") if "style" in s] == ["flex-grow:3000"]
    assert outline.inside("strong") == ["3,000", "0"]


def test_a_node_row_links_to_the_node_and_shows_missing_classes() -> None:
    mark = ClassMark("cat", "Ca", "#123456", "#ffffff", "circle")
    outline = Outline(macro("node_row(7, 'Tom', marks, [0, -1])", marks=[mark]))
    assert outline.all("a") == [{"href": "#node=7"}]
    assert outline.inside("bdi") == ["Tom", "cat"]
    assert outline.inside("td") == ["–"]


def test_everything_is_escaped() -> None:
    mark = ClassMark(NASTY, NASTY, '"', "'", "circle")
    card = {"number": NASTY, "meaning": NASTY, "detail": NASTY}
    calls = {
        "cards(x)": ([card], 3),
        "chip(x)": (mark, 2),
        "table(x, [x])": ([NASTY, NASTY], 4),
        "node_row(1, x[0], [x[1]], [0])": ([NASTY, mark], 3),
        "stack('', x)": ([{"kind": NASTY, "words": NASTY, "count": 1}], 1),
        "bars('a', x, '')": ({NASTY: {"a": 0.5}}, 1),
    }
    for call, (value, count) in calls.items():
        html = macro(call, x=value)
        assert "<script" not in html
        assert sum(text.count(NASTY) for _, text in Outline(html).texts) == count, call
    names = tuple(NASTY for _ in range(40))
    classes = tuple(f"{NASTY}{k}" for k in range(3))
    audit = planted_audit(40, classes, node_names=names, notes=(NASTY,))
    html = render("audit.html", **audit_page(audit, name=NASTY))
    assert html.count("<script") == 2


def test_a_missing_value_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="is undefined"):
        render("audit.html", title="", sections={})


def test_the_same_audit_has_the_same_bytes(tmp_path: Path) -> None:
    for name in ("first", "second"):
        write_audit_page(planted_audit(30), tmp_path / "new folder" / name)
    first, second = sorted((tmp_path / "new folder").iterdir())
    assert first.read_bytes() == second.read_bytes()


def test_a_page_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("old")
    with pytest.raises(AttributeError):
        write_page(path, None)  # type: ignore[arg-type]
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
    write_page(path, "half a pair: \ud800")
    assert path.read_text("utf-8") == "half a pair: ?"
