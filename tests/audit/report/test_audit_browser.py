"""The audit's page in a real Chromium: sorted, filtered, searched, opened and followed, offline."""

import base64
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from browsers import FAINT_TEXTS
from erase.audit import Agreement, Audit
from erase.audit.report import render, write_audit_page, write_page
from erase.audit.report.audit_page import audit_page
from synthetic_audits import CLASSES, planted_audit

playwright = pytest.importorskip("playwright.sync_api")

DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 375, "height": 740}
ROWS = "#list tbody tr"
FRAME = "() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))"


@pytest.fixture(scope="module")
def audit() -> Audit:
    return planted_audit(400)


@pytest.fixture(scope="module")
def file(audit: Audit, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_audit_page(audit, path)
    return path


@pytest.fixture(scope="module")
def window(browser: Any) -> Callable[..., Any]:
    """Return a function that returns a window without network, made once for each choice."""
    made: dict[str, Any] = {}

    def windowed(**options: Any) -> Any:
        key = repr(options)
        if key not in made:
            made[key] = browser.new_context(**({"viewport": DESKTOP} | options))
            made[key].set_offline(True)
            made[key].set_default_timeout(10_000)
        return made[key]

    return windowed


@pytest.fixture
def show(window: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """Return a function that opens a file; nothing may complain, nothing may be fetched."""
    pages, complaints, fetched = [], [], []

    def open_page(path: Path, fragment: str = "", **options: Any) -> Any:
        page = window(**options).new_page()
        pages.append(page)
        page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(f"a script opened: {dialog.message}"))
        page.on("request", lambda request: fetched.append(request.url))
        page.goto(f"{path.as_uri()}{fragment}")
        page.wait_for_selector("html[data-ready]", state="attached")
        return page

    yield open_page
    for page in pages:
        page.close()
    assert complaints == []
    assert [url for url in fetched if not url.startswith(("file:", "data:"))] == []


def listed(page: Any) -> list[int]:
    """Return the numbers of the nodes in the rows, in order."""
    return [int(text[1:]) for text in page.locator(f"{ROWS} th .number").all_inner_texts()]


def settled(page: Any) -> None:
    # the page waits for a pause in typing; a later timer of its own fires after that one
    page.evaluate("new Promise((done) => setTimeout(done, 170))")


def suspects(audit: Audit) -> Any:
    return audit.issues[audit.issues["is_issue"]]


def plain_neighbours(audit: Audit, node: int) -> set[int]:
    return {b for a, b in audit.edge_index.T.tolist() if a == node}


def telling_node(audit: Audit) -> int:
    """Return a flagged node with neighbours, some labelled, some flagged, fewer than are drawn."""
    flagged = set(suspects(audit)["node"])
    for node in suspects(audit)["node"].tolist():
        around = plain_neighbours(audit, node)
        if 4 <= len(around) <= 25 and around & flagged and any(audit.given[j] < 0 for j in around):
            return int(node)
    raise AssertionError("no such node")


def drawn(page: Any) -> list[int]:
    """Return the numbers of the neighbours that are drawn."""
    links = page.locator("#node svg.neighbourhood a").all()
    return [int(link.get_attribute("href").removeprefix("#node=")) for link in links]


def places(file: Path) -> NDArray[np.float64]:
    """Return the places [N, 2] that the page holds."""
    packed = re.search(r'"place":{"type":"share","data":"([^"]*)"', file.read_text("utf-8"))
    assert packed is not None
    return np.frombuffer(base64.b64decode(packed[1]), "<u2").reshape(-1, 2) / 65534


def opened(page: Any, node: int) -> None:
    """Wait until the node is shown."""
    playwright.expect(page.locator("#node[open] #node-title .number")).to_have_text(f"#{node}")


def go_to(page: Any, node: int) -> None:
    page.evaluate(f"location.hash = '#node={node}'")
    opened(page, node)


def escape(page: Any) -> None:
    page.wait_for_selector("dialog[open]")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog[open]", state="hidden")


def isolated_spot(file: Path, box: dict[str, float]) -> tuple[int, dict[str, float]]:
    """Return the node farthest from all others on the map, and where it is on the canvas."""
    place = places(file)
    distance = np.linalg.norm(place[:, None] - place, axis=2)
    np.fill_diagonal(distance, np.inf)
    node = int(distance.min(1).argmax())
    scale = min(box["width"], box["height"]) - 24
    x, y = (place[node] - 0.5) * scale
    return node, {"x": box["width"] / 2 + x, "y": box["height"] / 2 + y}


def painted(page: Any) -> str:
    """Return the map as it is painted after the next frame."""
    page.evaluate(FRAME)
    image: str = page.evaluate("document.getElementById('map-canvas').toDataURL()")
    return image


def painted_like(page: Any, image: str) -> bool:
    """Return whether the map comes to look like the image."""
    end = time.monotonic() + 5
    while time.monotonic() < end:
        if painted(page) == image:
            return True
    return False


def repainted(page: Any, *before: str) -> str:
    """Return the map once it looks different from what was painted before."""
    end = time.monotonic() + 5
    while (image := painted(page)) in before:
        assert time.monotonic() < end, "the map stayed as it was"
    return image


def sideways(page: Any) -> list[str]:
    """Return what scrolls sideways: the page or the open node."""
    found: list[str] = page.evaluate(
        """() => [document.documentElement, document.querySelector("dialog[open]")]
          .filter((box) => box && box.scrollWidth > box.clientWidth).map((box) => box.tagName)"""
    )
    return found


def test_flagged_labels_are_listed_first(
    show: Callable[..., Any], file: Path, audit: Audit
) -> None:
    page = show(file)
    flagged = suspects(audit)
    assert listed(page) == flagged["node"].tolist()[:50]
    assert page.inner_text("#count") == f"{len(flagged)} labels of {len(audit.issues)}"
    first = audit.issues.iloc[0]
    row = page.locator(ROWS).first.inner_text()
    for text in (first["name"], first["given"], first["suggested"], "wrong", "flagged"):
        assert text in row
    assert page.get_by_role("columnheader", name="Rank").get_attribute("aria-sort") == "ascending"


def test_columns_sort_both_ways(show: Callable[..., Any], file: Path, audit: Audit) -> None:
    page = show(file)
    page.select_option("#filter-verdict", "any")
    settled(page)
    for title, column in {
        "Chance it is right": "quality",
        "Given label": "given",
        "Suggested label": "suggested",
        "Neighbours agree": "neighbours_agree",
    }.items():
        header = page.get_by_role("columnheader", name=title)
        for direction in ("ascending", "descending"):
            page.get_by_role("button", name=title).click()
            assert header.get_attribute("aria-sort") == direction
            table = audit.issues.sort_values(
                column,
                ascending=direction == "ascending",
                kind="stable",
                na_position="last",
                key=lambda values: values if "label" in title else (values * 65534).round(),
            )
            assert listed(page) == table["node"].tolist()[:50]
        assert page.locator("#list [aria-sort]").count() == 1
    page.get_by_role("button", name="Node").click()
    assert listed(page) == [i for i in range(400) if audit.given[i] >= 0][:50]  # 2 before 10
    page.get_by_role("button", name="Verdict").click()
    order = {"wrong": 0, "can't tell": 1, "right": 2}
    by_verdict = audit.issues.sort_values("verdict", key=lambda v: v.map(order), kind="stable")
    assert listed(page) == by_verdict["node"].tolist()[:50]


def test_filters_combine(show: Callable[..., Any], file: Path, audit: Audit) -> None:
    page = show(file)
    first = audit.issues.iloc[0]

    def check(table: Any) -> None:
        settled(page)
        assert listed(page) == table["node"].tolist()[:50]
        assert page.inner_text("#count").startswith(f"{len(table)} label")

    table = suspects(audit)
    page.select_option("#filter-given", label=first["given"])
    table = table[table["given"] == first["given"]]
    check(table)
    page.select_option("#filter-suggested", label=first["suggested"])
    table = table[table["suggested"] == first["suggested"]]
    check(table)
    page.get_by_role("button", name="Clear filters").click()
    check(suspects(audit))
    for verdict in ("wrong", "can't tell", "right"):
        page.select_option("#filter-verdict", verdict)
        check(audit.issues[audit.issues["verdict"] == verdict])
    page.select_option("#filter-verdict", "any")
    check(audit.issues)
    page.fill("#filter-quality", "10")
    limit = audit.issues["quality"] <= 0.1
    assert 0 < limit.sum() < len(suspects(audit))
    check(audit.issues[limit])
    page.fill("#filter-quality", "")
    check(audit.issues)


def test_search_by_name_and_by_number(show: Callable[..., Any], file: Path, audit: Audit) -> None:
    page = show(file)
    page.select_option("#filter-verdict", "any")
    page.fill("#query", "PACKAGE 39")
    settled(page)
    matching = [f"package 39{digit}" for digit in ("", *"0123456789")]
    found = audit.issues[audit.issues["name"].isin(matching)]
    assert listed(page) == found["node"].tolist()
    page.fill("#query", "#39")
    settled(page)
    assert listed(page) == ([39] if audit.given[39] >= 0 else [])
    page.fill("#query", "nowhere")
    settled(page)
    assert page.inner_text("#count") == f"0 labels of {len(audit.issues)}"
    unlabelled = int(np.flatnonzero(audit.given < 0)[3])
    page.fill("#query", f"package {unlabelled}")
    settled(page)
    page.locator("#unlabelled").get_by_role("link", name=f"package {unlabelled}").first.click()
    assert "No label is given." in page.inner_text("#node .verdict")


def test_pages_turn(show: Callable[..., Any], file: Path, audit: Audit) -> None:
    page = show(file)
    page.select_option("#filter-verdict", "any")
    settled(page)
    nodes = audit.issues["node"].tolist()
    last = (len(nodes) - 1) // 50
    steps = {"Next": 1, "Last": last, "Previous": last - 1, "First": 0}
    assert page.get_by_role("button", name="Previous").is_disabled()
    for button, number in steps.items():
        page.get_by_role("button", name=button).click()
        assert listed(page) == nodes[50 * number : 50 * number + 50]
        assert page.inner_text("#page-number") == f"Page {number + 1} of {last + 1}"
    page.get_by_role("button", name="Last").click()
    assert page.get_by_role("button", name="Next").is_disabled()


def test_a_confused_pair_leads_to_its_labels(
    show: Callable[..., Any], file: Path, audit: Audit
) -> None:
    page = show(file)
    link = page.locator(".pairs a").first
    given, true = (CLASSES[int(link.get_attribute(f"data-{k}"))] for k in ("given", "suggested"))
    link.click()
    table = audit.issues[(audit.issues["given"] == given) & (audit.issues["suggested"] == true)]
    assert len(table)
    assert listed(page) == table["node"].tolist()


def test_a_node_tells_its_evidence(show: Callable[..., Any], file: Path, audit: Audit) -> None:
    page = show(file)
    node = telling_node(audit)
    row = audit.issues.set_index("node").loc[node]
    given, suggested = audit.given[node], CLASSES.index(row["suggested"])
    page.goto(f"{file.as_uri()}#node={node}")
    verdict = " ".join(page.inner_text("#node .verdict").split())
    assert verdict.startswith(
        {"wrong": "Probably wrong.", "can't tell": "Cannot tell."}[row["verdict"]]
    )
    assert f"is right is {percent(row['quality'])}." in verdict
    assert f"{row['suggested']} ({percent(row['probability'])})" in verdict
    assert f"Number {list(audit.issues['node']).index(node) + 1} of" in page.inner_text(
        "#node-rank"
    )

    text = page.inner_text("#node .sides")
    p = audit.pred_probs[node]
    assert (
        f"gives {row['given']} {percent(p[given])} and {row['suggested']} {percent(p[suggested])}."
        in text
    )
    around = plain_neighbours(audit, node)
    labelled = [j for j in around if audit.given[j] >= 0]
    own = sum(audit.given[j] == given for j in labelled)
    other = sum(audit.given[j] == suggested for j in labelled)
    assert re.search(
        rf"Of {len(labelled)} labelled neighbours?, {own} (is|are) labelled {row['given']} and "
        rf"{other} {row['suggested']}\.",
        text,
    )
    z = audit.embedding / np.linalg.norm(audit.embedding, axis=1, keepdims=True)
    others = [j for j in range(400) if audit.given[j] >= 0 and j != node]
    alike = sorted(others, key=lambda j: -float(z[j] @ z[node]))[:8]
    mine = sum(audit.given[j] == given for j in alike)
    assert f"Of 8 look-alikes, {mine} " in text
    shown = page.locator("#node ul.nodes").last.locator("li").all_inner_texts()
    for line, j in zip(shown, alike, strict=True):
        assert f"package {j}" in line
        assert CLASSES[audit.given[j]] in line
        assert f"similarity {z[j] @ z[node]:.2f}" in line


def percent(share: float) -> str:
    if 0 < share < 0.005:
        return "<\N{NO-BREAK SPACE}1%"
    return ">\N{NO-BREAK SPACE}99%" if 0.995 < share < 1 else f"{100 * share:.0f}%"


def test_neighbours_are_drawn_with_their_labels(
    show: Callable[..., Any], file: Path, audit: Audit
) -> None:
    node = telling_node(audit)
    page = show(file, f"#node={node}")
    around = plain_neighbours(audit, node)
    assert sorted(drawn(page)) == sorted(around)
    symbols = page.locator("#node svg a").evaluate_all("""(links) => links.map((link) => [
      link.querySelector(".code-text").textContent, link.getAttribute("aria-label"),
      link.querySelectorAll(".ring").length])""")
    symbol_of = dict(zip(drawn(page), symbols, strict=True))
    flagged = set(suspects(audit)["node"])
    for j in around:
        code, label, rings = symbol_of[j]
        name = CLASSES[audit.given[j]] if audit.given[j] >= 0 else "no label"
        assert label.startswith(f"package {j}: {name}")
        assert (code == "?") == (audit.given[j] < 0)
        assert rings == (j in flagged)
    page.locator("#node details summary").click()
    links = page.locator("#node details ul.nodes a").all_inner_texts()
    assert sorted(links) == sorted(f"package {j}" for j in around)


def test_of_many_neighbours_each_label_is_drawn_in_proportion(
    show: Callable[..., Any], file: Path, audit: Audit
) -> None:
    page = show(file, "#node=0")
    around = plain_neighbours(audit, 0)
    nodes = drawn(page)
    assert len(around) > 50
    assert len(set(nodes)) == 25
    assert set(nodes) <= around
    labelled = [j for j in around if audit.given[j] >= 0]
    assert all(audit.given[j] >= 0 for j in nodes)
    for k in range(13):
        share = 25 * sum(audit.given[j] == k for j in labelled) / len(labelled)
        assert abs(sum(audit.given[j] == k for j in nodes) - share) <= 1
    assert f"25 of {len(around)} neighbours are drawn" in page.inner_text("#node-body")


def test_following_neighbours_and_going_back(
    show: Callable[..., Any], file: Path, audit: Audit
) -> None:
    page = show(file)
    first = listed(page)[0]
    page.locator(f"{ROWS} a").first.click()
    opened(page, first)
    assert page.inner_text("#node-title").startswith(f"package {first} ")
    neighbour = drawn(page)[0]
    page.locator("#node svg a").first.click()
    opened(page, neighbour)
    assert page.inner_text("#node-title").startswith(f"package {neighbour} ")
    assert page.evaluate("document.activeElement.id") == "node-title"
    assert first in drawn(page) or len(plain_neighbours(audit, neighbour)) > 25
    page.go_back()
    opened(page, first)
    assert page.inner_text("#node-title").startswith(f"package {first} ")
    page.go_back()
    page.wait_for_selector("dialog[open]", state="hidden")
    page.go_forward()
    page.wait_for_selector("dialog[open]")
    page.get_by_role("button", name="Close").click()
    page.wait_for_selector("dialog[open]", state="hidden")
    page.wait_for_url(re.compile("#labels$"))


def test_next_and_previous_follow_the_list(
    show: Callable[..., Any], file: Path, audit: Audit
) -> None:
    page = show(file)
    page.get_by_role("button", name="Given label").click()
    order = listed(page)
    page.locator(f"{ROWS} a").first.click()
    opened(page, order[0])
    assert page.get_by_role("link", name="Previous").count() == 0
    page.get_by_role("link", name="Next").click()
    opened(page, order[1])
    page.get_by_role("link", name="Previous").click()
    opened(page, order[0])


def test_an_unknown_node_is_reported(show: Callable[..., Any], file: Path) -> None:
    page = show(file, "#node=987654")
    assert page.inner_text("#node-body") == "There is no such node in this file."
    assert page.get_by_role("link", name="Show on the map").count() == 0


def test_the_keyboard_does_it_all(show: Callable[..., Any], file: Path, audit: Audit) -> None:
    page = show(file)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "query"
    page.keyboard.type("package")
    settled(page)
    page.locator(f"{ROWS} a").nth(2).focus()
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    node = listed(page)[2]
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog[open]")
    for _ in range(40):  # to the first neighbour; the page behind is out of reach
        page.keyboard.press("Tab")
        if page.evaluate("!!document.activeElement.closest('svg.neighbourhood')"):
            break
        assert page.evaluate(
            "document.activeElement === document.body || !!document.activeElement.closest('dialog')"
        )
    neighbour = drawn(page)[0]
    page.keyboard.press("Enter")
    opened(page, neighbour)
    page.go_back()
    opened(page, node)
    escape(page)
    assert page.evaluate("document.activeElement.textContent") == f"package {node}"


def test_the_matrix_reads_out_its_cells(show: Callable[..., Any], file: Path, audit: Audit) -> None:
    page = show(file)
    cells = page.locator(".matrix td")
    assert page.locator('.matrix td[tabindex="0"]').count() == 1
    cells.first.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowUp"):
        page.keyboard.press(key)
    share = audit.decision.transition[1, 3]
    assert page.inner_text("#matrix-cell") == (
        f"Of the nodes that are truly science, {100 * share:.1f}% are labelled graphics "
        f"(90% interval: {100 * 0.7 * share:.0f}–{100 * 1.3 * share:.0f}%)."
    )
    assert page.locator('.matrix td[tabindex="0"]').count() == 1
    cells.nth(0).hover()
    assert "truly games, 85.0% are labelled games" in page.inner_text("#matrix-cell")


def test_the_map_finds_shows_and_opens(show: Callable[..., Any], file: Path, audit: Audit) -> None:
    page = show(file)
    plain = painted(page)
    page.fill("#find-query", "package 17")
    settled(page)
    assert page.inner_text("#map-status") == "11 nodes, the first 8 are shown"
    page.locator("#found").get_by_role("button", name="package 17", exact=True).click()
    assert "In the middle: package 17" in page.inner_text("#map-status")
    repainted(page, plain)
    page.locator("#map-canvas").focus()
    page.keyboard.press("Enter")
    opened(page, 17)
    escape(page)
    page.fill("#find-query", "#18")
    page.keyboard.press("Enter")  # faster than the list below the box
    settled(page)
    assert "In the middle: package 18" in page.inner_text("#map-status")

    page = show(file)
    canvas = page.locator("#map-canvas")
    canvas.scroll_into_view_if_needed()
    isolated, spot = isolated_spot(file, canvas.bounding_box())
    canvas.hover(position=spot)
    assert page.inner_text("#map-tip").startswith(f"package {isolated}")
    canvas.click(position=spot)
    opened(page, isolated)
    page.get_by_role("link", name="Show on the map").click()
    playwright.expect(page.locator("#map-canvas")).to_be_focused()
    assert f"In the middle: package {isolated}" in page.inner_text("#map-status")


def test_the_map_moves_by_keys_buttons_and_mouse(show: Callable[..., Any], file: Path) -> None:
    page = show(file)
    canvas = page.locator("#map-canvas")
    canvas.scroll_into_view_if_needed()
    canvas.focus()
    page.mouse.move(1, 1)
    whole = painted(page)
    seen = [whole]
    for key in ("+", "ArrowLeft", "ArrowUp", "-"):
        page.keyboard.press(key)
        seen.append(repainted(page, *seen))
    page.keyboard.press("0")
    assert painted_like(page, whole)
    page.get_by_role("button", name="Zoom in").click()
    repainted(page, whole)
    page.get_by_role("button", name="Zoom out").click()
    assert painted_like(page, whole)
    box = canvas.bounding_box()
    _, spot = isolated_spot(file, box)
    x, y = box["x"] + spot["x"], box["y"] + spot["y"]
    page.mouse.move(x, y)
    page.mouse.down()
    inwards = 60 if spot["x"] < box["width"] / 2 else -60
    page.mouse.move(x + inwards, y, steps=4)  # the point stays under the mouse …
    page.mouse.up()
    dragged = repainted(page, whole)
    assert "#node" not in page.url  # … but a drag is no click
    page.keyboard.down("Control")
    page.mouse.wheel(0, -200)
    page.keyboard.up("Control")
    repainted(page, whole, dragged)
    page.get_by_role("button", name="All", exact=True).click()
    page.mouse.move(1, 1)
    page.get_by_label("only flagged").check()
    few = repainted(page, whole)
    page.get_by_label("only flagged").uncheck()
    page.get_by_role("checkbox", name="games").uncheck()
    repainted(page, whole, few)


def test_no_screen_scrolls_sideways(show: Callable[..., Any], tmp_path: Path) -> None:
    names = tuple(f"package-{i}-{'long' * 30}" if i % 3 else f"package {i}" for i in range(60))
    classes = ("a", "electronics and other engineering", "averyverylongclassnamewithoutanyspace")
    path = tmp_path / "long.html"
    write_audit_page(planted_audit(60, classes, node_names=names), path)
    for width in (375, 320, 1000):
        page = show(path, viewport=PHONE | {"width": width}, has_touch=True, is_mobile=True)
        assert page.evaluate("innerWidth") == width
        assert sideways(page) == []
        page.select_option("#filter-verdict", "any")
        page.fill("#find-query", "long")
        settled(page)
        assert sideways(page) == []
        page.locator(f"{ROWS} a").first.tap()
        page.wait_for_selector("dialog[open]")
        page.locator("#node details summary").first.tap()
        assert sideways(page) == []
        page.get_by_role("link", name="Show on the map").tap()
        assert sideways(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_is_legible(
    show: Callable[..., Any], file: Path, audit: Audit, scheme: str
) -> None:
    page = show(file, color_scheme=scheme)
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 24, 29)"}[scheme]
    page.select_option("#filter-verdict", "any")
    page.fill("#find-query", "package")
    settled(page)
    found = page.evaluate(FAINT_TEXTS)
    assert found["faint"] == []
    assert found["seen"] > 400
    for node in (telling_node(audit), 0):
        go_to(page, node)
        found = page.evaluate(FAINT_TEXTS)
        assert found["faint"] == []
        assert found["seen"] > 25


def test_everything_has_a_name_and_a_role(show: Callable[..., Any], file: Path) -> None:
    page = show(file, "#node=5")
    assert page.get_by_role("dialog", name="package 5").count() == 1
    escape(page)
    assert page.get_by_role("navigation", name="On this page").count() == 1
    assert page.get_by_role("table", name="Suspicious labels").count() == 1
    assert page.get_by_role("grid", name=re.compile("Rows: the true class")).count() == 1
    assert page.get_by_role("application", name=re.compile("Map of the nodes")).count() == 1
    assert page.locator("[role=status]").count() == 3
    for label in ("Given label", "Suggested label", "Verdict"):
        assert page.get_by_role("combobox", name=label, exact=True).count() == 1
    for label in ("Search", "Find a node"):
        assert page.get_by_role("searchbox", name=label, exact=True).count() == 1
    assert page.get_by_role("spinbutton", name=re.compile("Chance it is right")).count() == 1
    unnamed = page.locator("input, select, button, a[href]").evaluate_all("""(all) => all
      .filter((e) => e.checkVisibility() && !e.labels?.length && !e.textContent.trim()
        && !e.getAttribute("aria-label")).map((e) => e.outerHTML)""")
    assert unnamed == []
    headings = page.locator("h1, h2, h3, h4").evaluate_all("(all) => all.map((h) => +h.tagName[1])")
    assert headings[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(headings))


@pytest.mark.parametrize("options", [{"color_scheme": "dark"}, {"viewport": PHONE}])
def test_the_page_of_the_demo_is_an_audit_with_training(
    show: Callable[..., Any], audit: Audit, tmp_path: Path, options: dict[str, Any]
) -> None:
    first = int(suspects(audit)["node"].iloc[0])
    data = audit_page(audit) | {
        "title": "Demo",
        "noise": "symmetric:0.15",
        "truth": {"labels": 348, "mislabelled": 50, "recall": 0.6, "false_alarms": 0.1},
        "scores": {"ours": {"test_accuracy": 0.75}, "theirs": {"test_accuracy": 0.5}},
        "score_header": ["Method", "Test accuracy"],
        "score_rows": [["ours", "75.0%"], ["theirs", "50.0%"]],
        "examples": [{"node": first, "name": "the first", "classes": [0, 1, -1]}],
        "files": {"summary.json": "the scores"},
        "methods": ["ERASE()"],
    }
    path = tmp_path / "demo.html"
    write_page(path, render("demo.html", **data))
    page = show(path, **options)
    assert listed(page) == suspects(audit)["node"].tolist()[:50]
    bars = page.locator(".chart .meter")
    widths = [bars.nth(k).locator("span").bounding_box()["width"] for k in range(2)]
    assert widths[0] / widths[1] == pytest.approx(1.5, abs=0.02)
    assert page.get_by_role("link", name="summary.json").get_attribute("href") == "summary.json"
    assert page.evaluate(FAINT_TEXTS)["faint"] == []
    assert sideways(page) == []
    page.get_by_role("link", name="the first").click()
    opened(page, first)


def test_hostile_names_are_shown_as_they_are(show: Callable[..., Any], tmp_path: Path) -> None:
    evil = ["</script><script>alert(1)</script>", "<img src=x onerror=alert(2)>", "&lt;b&gt;", " "]
    names = [f"package {i}" for i in range(40)]
    names[:4] = evil
    classes = ("<script>alert(3)</script>", "\" onmouseover='alert(4)'", "c & d")
    path = tmp_path / "evil.html"
    audit = planted_audit(40, classes, node_names=tuple(names), unlabelled=0.0)
    write_audit_page(audit, path, name="<script>alert(5)</script>")
    page = show(path)
    assert page.title() == "Audit of <script>alert(5)</script>"
    page.select_option("#filter-verdict", "any")
    page.fill("#query", "script")
    settled(page)
    assert page.locator(f"{ROWS} a").all_inner_texts() == [evil[0]]
    for node, name in enumerate([*evil[:3], "node 3"]):
        go_to(page, node)
        assert page.inner_text("#node-title") == f"{name} #{node}"
        assert classes[audit.given[node]] in page.inner_text("#node .verdict")
    assert page.locator("#node img, #node script").count() == 0


def test_graphs_without_names_edges_or_suspects(show: Callable[..., Any], tmp_path: Path) -> None:
    bare = planted_audit(2, ("a", "b"), unlabelled=0.0, degree=0.0, noise=0.0, node_names=None)
    path = tmp_path / "bare.html"
    write_audit_page(bare, path)
    page = show(path)
    assert page.locator(f"{ROWS} a").count() == 2 - int(bare.decision.is_issue.sum())
    page.locator(f"{ROWS} a").first.click()
    page.wait_for_selector("dialog[open]")
    assert re.match(r"node [01] ", page.inner_text("#node-title"))
    alone = planted_audit(20, ("a", "b"), degree=0.0, edge_index=np.zeros((2, 0), np.int64))
    write_audit_page(alone, path)
    page = show(path, f"#node={alone.issues['node'][0]}")
    assert "It has no neighbours." in page.inner_text("#node-body")
    assert "labelled neighbour" not in page.inner_text("#node .sides")


def test_a_page_without_confused_classes_works(show: Callable[..., Any], tmp_path: Path) -> None:
    audit = planted_audit(60)
    nothing = np.zeros(len(audit.issues), bool)
    unknown = replace(audit.decision, agreement=Agreement(0.1, 0.1, 0.0, 0.2), is_issue=nothing)
    path = tmp_path / "unknown.html"
    write_audit_page(replace(audit, decision=unknown), path)
    page = show(path)
    assert page.locator(".matrix").count() == 0
    assert page.locator(f"{ROWS} a").count() == min(50, len(audit.issues))
    page.locator(f"{ROWS} a").first.click()
    page.wait_for_selector("dialog[open]")
    assert page.inner_text("#node-title").startswith("package ")


def test_what_was_left_out_is_stated(
    show: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("erase.audit.report.audit_data._NODES", 100)
    monkeypatch.setattr("erase.audit.report.audit_data._EDGES", 60)
    monkeypatch.setattr("erase.audit.report.audit_data._FEWEST_WITH_LOOK_ALIKES", 5)
    monkeypatch.setattr("erase.audit.report.audit_data._SIMILARITIES", 0)
    audit = planted_audit(300)
    path = tmp_path / "part.html"
    write_audit_page(audit, path)
    page = show(path)
    assert "less suspicious ones are in issues.csv only" in page.inner_text("#count")
    node = int(audit.issues["node"][20])
    go_to(page, node)
    text = page.inner_text("#node-body")
    assert "Look-alikes were searched for the 5 most suspicious labels only." in text
    assert "not in this file" in text


@pytest.mark.slow  # half a minute, most of it to make the page
def test_fifty_thousand_nodes_stay_quick(show: Callable[..., Any], tmp_path: Path) -> None:
    audit = planted_audit(50_000, seed=1)
    path = tmp_path / "large.html"
    write_audit_page(audit, path)
    assert path.stat().st_size < 15_000_000
    start = time.perf_counter()
    page = show(path)
    page.evaluate(FRAME)
    assert time.perf_counter() - start < 3

    def timed(action: Callable[[], Any], selector: str, text: str | re.Pattern[str]) -> None:
        start = time.perf_counter()
        action()
        playwright.expect(page.locator(selector).first).to_have_text(text)
        assert time.perf_counter() - start < 1.5, text

    name, title = f"{ROWS} th a", "#node-title"
    total = f"{len(audit.issues):,}"
    choose = page.locator("#filter-verdict").select_option
    timed(lambda: choose("any"), "#count", f"{total} labels of {total}")
    lowest = next(i for i in range(50_000) if audit.given[i] >= 0)
    timed(page.get_by_role("button", name="Node").click, name, f"package {lowest}")
    right = int((audit.decision.verdict == "right").sum())
    timed(lambda: choose("right"), "#count", f"{right:,} labels of {total}")
    timed(lambda: page.fill("#query", "package 4999"), "#count", re.compile(r"^\d\d? labels? of"))
    page.get_by_role("button", name="Clear filters").click()
    first = int(audit.issues["node"][0])
    timed(page.get_by_role("button", name="Rank").click, name, f"package {first}")
    timed(page.locator(name).first.click, title, f"package {first} #{first}")
    neighbour = drawn(page)[0]
    assert neighbour in plain_neighbours(audit, first)
    follow = page.locator("#node svg a").first.click
    timed(follow, title, f"package {neighbour} #{neighbour}")
    escape(page)
    page.fill("#find-query", "package 31415")
    timed(lambda: page.keyboard.press("Enter"), "#map-status", re.compile("package 31415"))
    timed(lambda: page.evaluate("location.hash = '#node=49999'"), title, "package 49999 #49999")
