"""The page of `erase review` in a real Chromium: by keyboard, by mouse, by two people."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import erase
from browsers import FAINT_TEXTS
from erase.audit import Audit
from erase.audit.queue import random_order
from erase.review import session as module
from erase.review.evidence import details_of
from erase.review.exports import usual_exports
from erase.review.server import served
from erase.review.session import Plan, Session
from erase.review.store import Choice, Reviews
from reviewed_graphs import MINI, graph_of, small_session
from synthetic_audits import planted_audit

playwright = pytest.importorskip("playwright.sync_api")

TITLE = "#item-title"


@pytest.fixture(autouse=True)
def _fresh_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FRESH", -1.0)


def opened(browser: Any, url: str, **options: Any) -> Any:
    """Return a page of a browser of its own, which reports every error of its scripts."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
    page = context.new_page()
    page.set_default_timeout(15_000)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda m: errors.append(m.text) if m.type == "error" else None)
    page.errors = errors
    page.clock.install()  # time passes as usual, and can be moved
    page.goto(url)
    page.wait_for_selector("html[data-ready]")
    return page


def shown(page: Any) -> int:
    """Return the number of the node that is shown, once there is one."""
    page.wait_for_selector("#item:not([hidden])")
    return int(page.inner_text(f"{TITLE} .number").removeprefix("#"))


def until(condition: Callable[[], Any]) -> None:
    """Wait for a condition; the page's policy forbids to wait for one inside it."""
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def saved(page: Any) -> None:
    page.wait_for_selector('#saved[data-waiting="0"]', state="attached")


def test_a_short_session_by_keyboard(browser: Any, tmp_path: Path) -> None:
    """Keep, change, choose by typing, a note, unsure, undo over a reload, a batch, the curve."""
    session = small_session(tmp_path)
    given = session.audit.given
    with served(session, by="ann") as url:
        page = opened(browser, url)
        assert "token" not in page.url
        first = shown(page)
        page.keyboard.press("1")
        second = shown(page)
        page.keyboard.press("2")
        third = shown(page)
        page.keyboard.press("3")
        page.keyboard.type("plu")
        page.keyboard.press("Enter")
        fourth = shown(page)
        page.keyboard.press("n")
        page.keyboard.type("not clear")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.keyboard.press("u")
        fifth = shown(page)
        saved(page)
        table = session.reviews.decisions
        assert table["node"].tolist() == [first, second, third, fourth]
        assert table["action"].tolist()[0] == "given"
        assert table["action"].tolist()[3] == "unsure"
        assert table["label"].tolist()[2] == "plum"
        assert table["note"].tolist() == ["", "", "", "not clear"]
        assert table["label"][0] == MINI[given[first]]
        assert table["label"][1] != MINI[given[second]]
        assert table["seconds"].notna().all()
        page.reload()
        page.wait_for_selector("html[data-ready]")
        assert shown(page) == fifth
        page.keyboard.press("z")
        until(lambda: shown(page) == fourth)
        assert fourth not in session.reviews.votes()
        until(lambda: "3 of 100 reviewed" in page.inner_text("#counts"))
        page.keyboard.press("o")  # a neighbour, in a drawer
        page.keyboard.press("Enter")
        page.wait_for_selector("#node[open]")
        page.keyboard.press("Escape")
        page.keyboard.press("b")
        page.locator("#groups button").first.click()
        page.wait_for_selector(".card input:focus")
        cards = page.locator(".card").count()
        page.keyboard.press("Space")  # the first card is left out
        page.locator("#batch-take").click()
        until(lambda: page.locator(".card").count() < cards)
        assert len(session.reviews.decisions) == 5 + cards - 1
        page.keyboard.press("p")
        page.wait_for_selector("#curve circle")
        until(lambda: f"{3 + cards - 1} (ann" in page.inner_text("#numbers"))
        faint = page.evaluate(FAINT_TEXTS)
        assert not faint["faint"]
        with page.expect_download() as download:
            page.get_by_role("link", name="labels.csv").click()
        labels = pd.read_csv(download.value.path())
        assert (labels["trusted"].notna()).sum() == 3 + cards - 1
        assert page.errors == []
        page.context.close()


def test_it_fits_a_phone_and_escapes_names(browser: Any, tmp_path: Path) -> None:
    evil = "<img src=x onerror=alert(1)>"
    session = small_session(tmp_path, details=lambda node: [(evil, evil)])
    audit = session.audit
    session._use(audit.__class__(**{**vars(audit), "node_names": (evil,) * 120}))
    with served(session) as url:
        view = {"width": 320, "height": 700}
        page = opened(browser, url, viewport=view, color_scheme="dark", has_touch=True)
        page.locator("#name-text").fill(evil)  # the name is asked for
        page.keyboard.press("Enter")
        shown(page)
        assert page.evaluate("document.documentElement.scrollWidth") == 320
        assert page.locator("img").count() == 0
        faint = page.evaluate(FAINT_TEXTS)
        assert faint["seen"] > 30
        assert not faint["faint"]
        page.locator("#keep").tap()
        saved(page)
        until(lambda: page.inner_text("#counts").startswith("1 of"))
        assert session.reviews.reviewers == [evil]
        assert page.errors == []
        page.context.close()


def test_groups_by_keyboard_alone(browser: Any, tmp_path: Path) -> None:
    """Arrows, Enter, Space and 2 decide on a group; what was left out stays left out."""
    session = small_session(tmp_path)
    largest = session.groups("ann")[0]
    with served(session, by="ann") as url:
        page = opened(browser, url)
        page.keyboard.press("b")
        page.wait_for_selector("#groups button")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        page.wait_for_selector(".card input:focus")
        nodes = page.locator(".card input").evaluate_all("(all) => all.map((e) => +e.dataset.node)")
        assert len(nodes) == largest["labels"] > 2
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Space")
        assert page.inner_text("#batch-take").startswith(f"Change {len(nodes) - 1} to")
        page.keyboard.press("2")
        page.keyboard.press("2")  # once is enough
        until(lambda: len(session.reviews.votes()) == len(nodes) - 1)
        saved(page)
        assert len(session.reviews.decisions) == len(nodes) - 1
        assert set(session.reviews.votes()) == {*nodes} - {nodes[1]}
        assert set(session.reviews.decisions["label"]) == {MINI[largest["suggested"]]}
        page.wait_for_selector("#group", state="hidden")  # nothing else is left in it
        assert page.evaluate("document.activeElement.id") == "batch-title"
        button = page.locator("#groups button", has_text=" 1 label").first
        button.focus()
        page.keyboard.press("Enter")
        page.wait_for_selector(".card input:focus")
        if not page.locator(f'.card input[data-node="{nodes[1]}"]').is_checked():
            assert page.locator("#batch-take").is_disabled()
        page.keyboard.press("x")
        assert page.locator("#batch-keep").is_disabled()
        page.keyboard.press("Escape")
        page.wait_for_selector("#groups:not([hidden])")
        page.keyboard.press("z")  # the whole group
        until(lambda: not session.reviews.votes())
        assert shown(page) in nodes
        assert page.errors == []
        page.context.close()


def test_decisions_wait_for_a_server_that_was_started_again(browser: Any, tmp_path: Path) -> None:
    """It has another token: what was decided is kept, and sent when its address is opened."""
    session = small_session(tmp_path)
    with served(session, by="ann") as url:
        page = opened(browser, url)
        node = shown(page)
    port = int(url.split(":")[2].split("/")[0])
    page.keyboard.press("1")
    page.wait_for_selector("#alert:not([hidden])")
    assert "does not answer" in page.inner_text("#alert")
    session = small_session(tmp_path)
    with served(session, by="ann", port=port) as url:
        until(lambda: "started again" in page.inner_text("#alert"))
        assert page.get_attribute("#saved", "data-waiting") == "1"
        assert not session.reviews.votes()
        page.on("dialog", lambda dialog: dialog.accept())  # that something is not saved yet
        page.goto(url)
        page.wait_for_selector("html[data-ready]")
        saved(page)
        assert list(session.reviews.votes()) == [node]
        assert shown(page) != node
        page.context.close()


def test_decisions_wait_for_a_database_that_was_moved(browser: Any, tmp_path: Path) -> None:
    session = small_session(tmp_path)
    path = session.reviews.path
    with served(session, by="ann") as url:
        page = opened(browser, url)
        node = shown(page)
        moved = path.rename(path.with_name("moved.sqlite"))
        page.keyboard.press("1")
        page.wait_for_selector("#alert:not([hidden])")
        assert "moved, deleted or replaced" in page.inner_text("#alert")
        assert "kept here" in page.inner_text("#alert")
        assert page.inner_text("#saved") == "1 decision not saved yet"
        moved.rename(path)
        saved(page)
        assert list(session.reviews.votes()) == [node]
        page.context.close()


def test_two_tabs_do_not_ask_twice(browser: Any, tmp_path: Path) -> None:
    """What is decided in one tab goes from the other, unless a dialog about it is open there."""
    session = small_session(tmp_path)
    with served(session, by="ann") as url:
        page = opened(browser, url)
        other = page.context.new_page()
        other.goto(url)
        other.wait_for_selector("html[data-ready]")
        first = shown(page)
        assert shown(other) == first
        other.evaluate(
            """() => {
              window.heard = [];
              window.listener = new BroadcastChannel("decided"); // made after the page's own
              window.listener.onmessage = ({ data }) => window.heard.push(...data);
            }"""
        )
        page.keyboard.press("1")
        until(lambda: shown(other) == shown(page) != first)
        second = shown(other)
        other.keyboard.press("3")
        other.wait_for_selector("#picker[open]")
        page.bring_to_front()
        page.keyboard.press("1")
        saved(page)
        third = shown(page)
        until(lambda: other.evaluate("window.heard") == [first, second])
        other.bring_to_front()
        assert shown(other) == second
        other.keyboard.press("Escape")
        other.wait_for_selector("#picker", state="hidden")
        other.keyboard.press("2")
        until(lambda: shown(other) == third)
        saved(other)
        assert session.reviews.decisions["node"].tolist() == [first, second, second]
        assert not page.errors
        page.context.close()


def test_labels_of_a_group_are_not_asked_for_again(browser: Any, tmp_path: Path) -> None:
    """The page has fetched some of them before the group was decided."""
    session = small_session(tmp_path)
    with served(session, by="ann") as url:
        page = opened(browser, url)
        shown(page)
        fetched = {*session._leases}
        groups = session.groups("ann")
        sizes = [
            len(fetched & {card["node"] for card in session.group("ann", *pair, 24)})
            for pair in ((each["given"], each["suggested"]) for each in groups)
        ]
        assert max(sizes) > 1
        page.keyboard.press("b")
        page.locator("#groups button").nth(sizes.index(max(sizes))).click()
        page.wait_for_selector(".card")
        page.locator("#batch-take").click()
        until(lambda: session.reviews.votes())
        saved(page)
        page.locator("[data-view=one]").click()
        for _ in range(len(fetched)):
            node = shown(page)
            page.keyboard.press("1")
            until(lambda node=node: shown(page) != node)  # type: ignore[misc]
        saved(page)
        assert session.reviews.decisions["node"].is_unique
        page.context.close()


def test_leaving_with_unsaved_decisions_is_asked_about(browser: Any, tmp_path: Path) -> None:
    session = small_session(tmp_path)
    with served(session, by="ann") as url:
        page = opened(browser, url)
        node = shown(page)
        asked: list[str] = []

        def answer(dialog: Any) -> None:
            asked.append(dialog.type)
            dialog.accept()

        page.on("dialog", answer)
        page.route("**/api/decisions", lambda route: route.abort())
        page.keyboard.press("1")
        page.wait_for_selector('#saved[data-waiting="1"]')
        page.reload()
        assert asked == ["beforeunload"]
        page.unroute("**/api/decisions")
        page.wait_for_selector("html[data-ready]")
        saved(page)
        page.reload()
        page.wait_for_selector("html[data-ready]")
        assert asked == ["beforeunload"]  # once: nothing waits any more
        assert list(session.reviews.votes()) == [node]
        page.context.close()


def test_a_key_that_is_held_down_decides_once(browser: Any, tmp_path: Path) -> None:
    session = small_session(tmp_path)
    with served(session, by="ann") as url:
        page = opened(browser, url)
        shown(page)
        for _ in range(5):
            page.keyboard.down("1")
        page.keyboard.up("1")
        saved(page)
        assert len(session.reviews.decisions) == 1
        page.context.close()


def test_the_page_follows_the_audit_in_the_background(browser: Any, tmp_path: Path) -> None:
    """The next two labels stay; what follows is what the new audit asks for."""
    audit = planted_audit(120, MINI)
    decision = audit.decision
    turned = replace(decision, quality=1 - decision.quality, is_issue=~decision.is_issue)
    other = replace(audit, decision=turned)
    plan = {"every": 1, "double_share": 0.0}
    session = small_session(tmp_path, plan=plan, reaudit=lambda: other)
    with served(session, by="ann") as url:
        page = opened(browser, url)
        before = [node for node, _ in session._queue]
        assert shown(page) == before[0]
        page.keyboard.press("1")
        until(lambda: session.audit is other)
        new = [node for node, _ in session._queue]
        page.clock.fast_forward(3_000)  # to the next look at the server
        held = before[1:4]  # the one that is shown, and the next two
        until(lambda: {*session._leases} - {*before[:11]} and {*held} <= {*session._leases})
        session.plan = Plan(every=0)
        seen = []
        for _ in range(8):
            seen.append(shown(page))
            page.keyboard.press("1")
            until(lambda: shown(page) != seen[-1])
        assert seen[:3] == held
        assert seen[3:] == new[:5] != before[4:9]
        page.context.close()


def test_labels_that_become_free_are_shown(browser: Any, tmp_path: Path) -> None:
    """Somebody holds all that is left; when they leave, the page goes on by itself."""
    session = small_session(tmp_path)
    labelled = session.audit.issues["node"].tolist()
    session.decide("bob", [Choice(n, MINI[0], key=f"key-{n}") for n in labelled[10:]])
    assert len(session.next_items("bob", 10)) == 10
    with served(session, by="ann") as url:
        page = opened(browser, url)
        session._wanted.clear()
        while page.inner_text(TITLE) != "No label is left to review.":
            page.keyboard.press("1")
            page.wait_for_timeout(20)
        session._leases.clear()
        time.sleep(1.1)  # labels are not ranked more often
        page.clock.fast_forward(3_000)
        assert shown(page) in labelled[:10]
        page.context.close()


def test_a_page_that_was_open_for_days_still_decides(browser: Any, tmp_path: Path) -> None:
    session = small_session(tmp_path)
    with served(session, by="ann") as url:
        page = opened(browser, url)
        shown(page)
        page.clock.fast_forward("50:00:00")
        page.keyboard.press("1")
        until(lambda: len(session.reviews.votes()) == 1)
        assert session.reviews.decisions["seconds"].tolist() == [86_400]
        page.context.close()


def test_screen_readers_are_told_and_the_focus_is_not_lost(browser: Any, tmp_path: Path) -> None:
    session = small_session(tmp_path)
    with served(session, by="ann") as url:
        page = opened(browser, url)
        name = page.inner_text(f"{TITLE} bdi")
        page.keyboard.press("o")
        page.keyboard.press("o")
        second = page.evaluate("document.activeElement.getAttribute('href')")
        links = page.locator("#node-body a").evaluate_all(
            "(all) => all.map((e) => e.getAttribute('href'))"
        )
        assert second == links[1]
        page.keyboard.press("1")  # the link is gone now
        until(lambda: page.inner_text(f"{TITLE} bdi") != name)
        assert page.evaluate("document.activeElement.id") == "item-title"
        item = session.item(shown(page))
        given, suggested = MINI[item["given"][0]], MINI[item["suggested"][0]]
        announced = page.text_content("#live")
        assert announced.startswith(f"{name}: ")
        assert f"Next: {item['names'][0]}. Given {given}, suggested {suggested}." in announced
        assert page.get_attribute("#live", "aria-live") == "polite"
        page.keyboard.press("?")
        page.wait_for_selector("#help[open]")
        assert page.evaluate("document.activeElement.id") == "help-title"
        page.mouse.click(5, 5)  # beside the dialog
        page.wait_for_selector("#help", state="hidden")
        page.context.close()


def test_two_people_take_turns_at_one_page(browser: Any, tmp_path: Path) -> None:
    """The second gets the label of the first, who asked for a second opinion by being unsure."""
    session = small_session(tmp_path, plan={"double_share": 0.0})
    with served(session, by="ann") as url:
        page = opened(browser, url)
        first = shown(page)
        page.keyboard.press("4")
        page.locator("#who").click()
        page.locator("#name-text").fill("eve")
        page.keyboard.press("Escape")  # no: ann goes on
        second = shown(page)
        page.keyboard.press("1")
        saved(page)
        assert session.reviews.votes()[second].keys() == {"ann"}
        page.locator("#who").click()
        page.locator("#name-text").fill("bob")
        page.keyboard.press("Enter")
        until(lambda: shown(page) == first)
        page.keyboard.press("1")
        until(lambda: set(session.reviews.votes()[first]) == {"ann", "bob"})
        assert second not in session._wanted
        assert page.errors == []
        page.context.close()


def test_it_says_when_one_may_stop(browser: Any, tmp_path: Path) -> None:
    session = small_session(tmp_path)
    labelled = session.audit.issues["node"].tolist()
    with served(session, by="ann") as url:
        page = opened(browser, url)
        page.keyboard.press("p")
        until(lambda: "(now 0), they show how many" in page.inner_text("#stop"))
        assert "At least" in page.inner_text("#estimate")
        assert "at least" in page.inner_text("#numbers")
        order = random_order(session.audit.given >= 0, 0).tolist()
        session._leases.update({n: ("bob", time.monotonic() + 300, True) for n in order})
        choices = [Choice(n, MINI[session.audit.given[n]], key=f"key-{n}") for n in order]
        session.decide("bob", choices[:40])
        page.keyboard.press("p")  # without waiting for the next look at the server
        until(lambda: "Go on: up to" in page.inner_text("#stop"))
        assert "by the audit" not in page.inner_text("#estimate")
        left = round(session.progress()["left"]["high"])
        assert f"up to {left} labels" in page.inner_text("#stop")
        assert f"fewer than {-(-len(labelled) // 50)} (2.0%)" in page.inner_text("#stop")
        session.decide("bob", choices[40:])
        page.keyboard.press("p")
        until(lambda: page.inner_text("#stop").startswith("You may stop: at most 0 labels are"))
        assert page.inner_text("#counts").endswith("You may stop.")
        assert page.text_content("#live").startswith("You may stop")
        page.context.close()


@pytest.mark.parametrize(("scheme", "width"), [("dark", 320), ("light", 1280)])
def test_every_view_is_legible_and_fits(
    browser: Any, tmp_path: Path, scheme: str, width: int
) -> None:
    """Contrast AA of all text, no sideways scrolling, targets large enough for a finger."""
    session = small_session(tmp_path)
    view = {"width": width, "height": 640}
    with served(session, by="a reviewer with a long name") as url:
        page = opened(browser, url, viewport=view, color_scheme=scheme, has_touch=width < 400)

        def check(least: int) -> None:
            found = page.evaluate(FAINT_TEXTS)
            assert found["faint"] == []
            assert found["seen"] >= least
            assert page.evaluate("document.documentElement.scrollWidth") == width
            small = page.locator("button, .files a, #picker-list li").evaluate_all(
                """(all) => all.filter((e) => e.checkVisibility())
                  .map((e) => [e.id || e.textContent, e.getBoundingClientRect()])
                  .filter(([, box]) => box.width < 24 || box.height < 24).map(([name]) => name)"""
            )
            assert small == []

        shown(page)
        check(30)
        for key, dialog in {"3": "picker", "n": "note", "?": "help"}.items():
            page.keyboard.press(key)
            page.wait_for_selector(f"#{dialog}[open]")
            check(3)
            page.locator(f"#{dialog} button").click()  # no key is needed to close it
            page.wait_for_selector(f"#{dialog}", state="hidden")
        page.keyboard.press("o")
        page.keyboard.press("Enter")
        page.wait_for_selector("#node[open] h3")
        check(10)
        page.locator("#node-close").click()
        page.keyboard.press("b")
        page.locator("#groups button").first.click()
        page.wait_for_selector(".card")
        check(20)
        session.decide("bob", [Choice(shown_node(session), MINI[0], key="key-of-bob")])
        page.keyboard.press("d")
        page.wait_for_selector("#agreement p")
        check(8)
        page.keyboard.press("p")
        page.wait_for_selector("#curve circle")
        check(20)
        page.context.close()


def test_a_key_decides_though_the_field_of_a_closed_dialog_has_the_focus(
    browser: Any, tmp_path: Path
) -> None:
    """A browser moves the focus out of a hidden field only before the next frame."""
    session = small_session(tmp_path)
    with served(session, by="ann") as url:
        page = opened(browser, url)
        first = shown(page)
        page.locator("#note textarea, #note input").first.evaluate(
            """(field) => field.dispatchEvent(
              new KeyboardEvent("keydown", { key: "1", bubbles: true }))"""
        )
        until(lambda: shown(page) != first)
        saved(page)
        assert session.reviews.decisions["node"].tolist() == [first]
        page.context.close()


def shown_node(session: Session) -> int:
    return int(session.audit.issues["node"].iloc[0])


@pytest.mark.slow
def test_thirty_decisions_by_keyboard_while_the_audit_is_redone(
    browser: Any, tmp_path: Path
) -> None:
    def again() -> Audit:
        time.sleep(0.3)
        return planted_audit(120, MINI, noise=0.2)

    session = small_session(tmp_path, plan={"every": 10, "double_share": 0.0}, reaudit=again)
    with served(session, by="ann") as url:
        page = opened(browser, url)
        nodes = []
        for i in range(30):
            nodes.append(shown(page))
            page.keyboard.press("1244"[i % 4])
            until(lambda: shown(page) != nodes[-1])
        saved(page)
        assert session.reviews.decisions["node"].tolist() == nodes
        assert len(set(nodes)) == 30
        until(lambda: page.inner_text("#counts").startswith("30 of"))
        until(lambda: session.progress()["audits"] >= 2)
        page.keyboard.press("p")
        until(lambda: page.locator("#curve figure:first-child circle").count() >= 3)
        assert page.errors == []
        page.context.close()


@pytest.mark.slow
def test_two_reviewers_at_once(browser: Any, tmp_path: Path) -> None:
    """Every label is seen by both in the end; disagreements are listed, and settled."""
    session = small_session(tmp_path, plan={"double_share": 1.0})
    with served(session) as url:
        pages = {}
        for name in ("ann", "bob"):
            page = opened(browser, url)
            page.locator("#name-text").fill(name)
            page.keyboard.press("Enter")
            pages[name] = page
        assert shown(pages["ann"]) != shown(pages["bob"])
        first = shown(pages["ann"])
        pages["ann"].keyboard.press("1")
        saved(pages["ann"])
        for _ in range(25):  # bob's queue comes to ann's label
            if shown(pages["bob"]) == first:
                break
            pages["bob"].keyboard.press("4")
            saved(pages["bob"])
            pages["bob"].wait_for_timeout(100)
        assert shown(pages["bob"]) == first
        pages["bob"].keyboard.press("2")
        saved(pages["bob"])
        assert session.reviews.disagreements() == [first]
        page = pages["ann"]
        page.get_by_role("button", name="Disagreements").click()
        page.locator("#disputed button").click()
        until(lambda: shown(page) == first)
        page.keyboard.press("2")
        until(lambda: not session.reviews.disagreements())
        assert session.reviews.consensus()[first] == session.reviews.votes()[first]["bob"]
        for page in pages.values():
            assert page.errors == []
            page.context.close()


@pytest.mark.slow
def test_the_users_own_table_comes_back_corrected(browser: Any, tmp_path: Path) -> None:
    """Files are downloaded, and joined with the CSV by its ids."""
    audit = planted_audit(120, MINI)
    folder = tmp_path / "shop"
    erase.write_graph(graph_of(audit), folder)
    graph = erase.read_graph(folder)
    before = pd.read_csv(folder / "nodes.csv", dtype=str, keep_default_na=False)
    reviews = Reviews(tmp_path / "r.sqlite", graph)
    audit = audit.__class__(**{**vars(audit), "node_ids": tuple(graph.node_ids)})
    session = Session(audit, reviews, Plan(every=0), details=details_of(graph, folder, {}))
    with served(session, usual_exports(reviews, graph, folder, {}), by="ann") as url:
        page = opened(browser, url)
        for _ in range(6):
            page.wait_for_selector("#item:not([hidden])")
            page.keyboard.press("2")
            page.wait_for_timeout(100)
        saved(page)
        page.keyboard.press("p")
        files = {}
        for name in ("nodes.csv", "labels.csv", "decisions.csv", "graph.npz"):
            with page.expect_download() as download:
                page.get_by_role("link", name=name).click()
            files[name] = Path(download.value.path()).rename(tmp_path / name)
        page.context.close()
    decisions = pd.read_csv(files["decisions.csv"], dtype=str).set_index("node_id")["label"]
    after = pd.read_csv(files["nodes.csv"], dtype=str, keep_default_na=False)
    changed = after["label"] != before["label"]
    assert len(decisions) == changed.sum() == 6
    assert after.set_index("id").loc[decisions.index, "label"].tolist() == decisions.tolist()
    pd.testing.assert_frame_equal(after.drop(columns="label"), before.drop(columns="label"))
    labels = pd.read_csv(files["labels.csv"], dtype=str).set_index("id")
    assert labels.loc[decisions.index, "label"].tolist() == decisions.tolist()
    assert erase.read_graph(files["graph.npz"]).num_nodes == 120
