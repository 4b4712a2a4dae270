"""Take the pictures of README and docs: the pages of `erase audit` and `erase review`.

    python benchmarks/screenshot.py [--only audit-page] [--out docs/figures] [--browser chromium]

Needs Playwright and a Chromium. The embedded graph with every label, the first screenful in the
light theme, 1280 pixels wide.
"""

import argparse
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

import erase
from erase.audit import Audit
from erase.audit.report import write_audit_page
from erase.data.files import atomic_write
from erase.data.splits import without_splits
from erase.review.evidence import feature_details
from erase.review.exports import usual_exports
from erase.review.server import served
from erase.review.session import Plan, Session

OUT = Path(__file__).parent.parent / "docs" / "figures"
SIZE = {"width": 1280, "height": 900}
NAMES = ("audit-page", "review-page", "review-groups", "review-progress")


@contextmanager
def window(browser: str | None) -> Iterator[Any]:
    """Open a window of a browser."""
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        yield chromium.new_page(viewport=SIZE, color_scheme="light")
        chromium.close()


def audit_page(audit: Audit, folder: Path, page: Any) -> dict[str, bytes]:
    """Return the first screenful of the audit's page."""
    file = folder / "report.html"
    write_audit_page(audit, file, name="debian")
    page.goto(file.resolve().as_uri())
    page.wait_for_selector("html[data-ready]", state="attached")
    return {"audit-page": page.screenshot()}


def review_pages(audit: Audit, graph: Any, folder: Path, page: Any) -> dict[str, bytes]:
    """Return the views of the review: a label, a group of labels, the progress."""
    pictures = {}
    with erase.Reviews(folder / "reviews.sqlite", graph) as reviews:
        details = feature_details(graph)
        session = Session(audit, reviews, Plan(every=0), details=details, name="debian")
        with served(session, usual_exports(reviews, graph, None, {}), by="ann") as url:
            page.goto(url)
            page.wait_for_selector("html[data-ready]", state="attached")
            page.keyboard.press("b")
            page.locator("#groups button").first.click()
            page.wait_for_selector(".card")
            pictures["review-groups"] = page.screenshot()
            page.locator("[data-view=one]").click()
            for turn in range(40):  # a session that takes the audit's advice
                page.wait_for_selector("#item:not([hidden])")
                before = page.inner_text("#item-title")
                if turn == 12:
                    pictures["review-page"] = page.screenshot()
                doubtful = page.locator("#verdict .verdict.right").count() == 0
                page.keyboard.press("2" if doubtful else "1")
                page.wait_for_timeout(60)
                assert page.inner_text("#item-title") != before
                if turn % 8 == 7:
                    session._add_estimate()
            page.wait_for_timeout(3500)
            page.keyboard.press("p")
            page.wait_for_selector("#curve figure")
            pictures["review-progress"] = page.screenshot()
    return pictures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=NAMES, action="append", help="may be repeated")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--browser", default=shutil.which("chromium"))
    options = parser.parse_args()
    wanted = options.only or NAMES
    graph = without_splits(erase.load_dataset("debian"))
    audit = erase.audit(graph, progress=True)
    with tempfile.TemporaryDirectory() as place, window(options.browser) as page:
        folder = Path(place)
        pictures: dict[str, bytes] = {}
        if "audit-page" in wanted:
            pictures |= audit_page(audit, folder, page)
        if set(wanted) & set(NAMES[1:]):
            pictures |= review_pages(audit, graph, folder, page)
    for name in wanted:
        with atomic_write(options.out / f"{name}.png", "wb") as file:
            file.write(pictures[name])


if __name__ == "__main__":
    main()
