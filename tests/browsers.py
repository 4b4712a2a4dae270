"""A Chromium for the tests of pages, and what it looks for in them."""

import shutil
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")

# contrast of every text with what is painted behind it: the texts below 4.5
FAINT_TEXTS = """() => {
  const pen = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgba = (colour) => {
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = colour;
    pen.fillRect(0, 0, 1, 1);
    return [...pen.getImageData(0, 0, 1, 1).data].map((c) => c / 255);
  };
  const over = (top, under) => top.slice(0, 3).map((c, k) => c * top[3] + under[k] * (1 - top[3]));
  const behind = (element) => {
    if (!element) return [1, 1, 1];
    const own = rgba(getComputedStyle(element).backgroundColor);
    return own[3] === 1 ? own.slice(0, 3) : over(own, behind(element.parentElement));
  };
  const luminance = (colour) => {
    const [r, g, b] = colour.map((s) => s <= 0.04045 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const root = document.querySelector("dialog[open]") ?? document.body;
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  const faint = [];
  let seen = 0;
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.checkVisibility()) continue;
    if (element.closest("script, style, noscript, .hidden, svg text.code-text")) continue;
    seen += 1;
    const style = getComputedStyle(element);
    const back = behind(element);
    const ink = element.closest("svg") ? style.fill : style.color;
    const [dark, light] = [luminance(back), luminance(over(rgba(ink), back))].sort((a, b) => a - b);
    const contrast = (light + 0.05) / (dark + 0.05);
    if (contrast < 4.5) faint.push(`${walker.currentNode.data.trim()}: ${contrast.toFixed(2)}`);
  }
  return {seen, faint};
}"""


def chromium() -> str | None:
    """Return the path of a Chromium, from the system or as Playwright installs it."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found:
        return found
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        own = driver.chromium.executable_path
    return own if Path(own).exists() else None
