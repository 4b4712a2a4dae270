"""Take the picture of the audit's page that README shows: the embedded graph, every label audited.

    python benchmarks/screenshot.py [--out docs/figures/audit-page.png] [--browser chromium]

Needs Playwright and a Chromium. The first screenful in the light theme, 1280 pixels wide.
"""

import argparse
import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

import erase
from erase.audit.report import write_audit_page
from erase.data.files import atomic_write
from erase.data.splits import without_splits

OUT = Path(__file__).parent.parent / "docs" / "figures" / "audit-page.png"
SIZE = {"width": 1280, "height": 900}


def screenshot(page: Path, browser: str | None) -> bytes:
    """Return the first screenful of an HTML file as PNG."""
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        window = chromium.new_page(viewport=SIZE, color_scheme="light")
        window.goto(page.resolve().as_uri())
        window.wait_for_selector("html[data-ready]", state="attached")
        image: bytes = window.screenshot()
        chromium.close()
    return image


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--browser", default=shutil.which("chromium"))
    options = parser.parse_args()
    graph = without_splits(erase.load_dataset("debian"))
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        write_audit_page(erase.audit(graph, progress=True), page, name="debian")
        content = screenshot(page, options.browser)
    with atomic_write(options.out, "wb") as file:
        file.write(content)


if __name__ == "__main__":
    main()
