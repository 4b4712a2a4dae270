"""Fixtures of all tests, and one thread per test process.

Heavy modules are imported when tests are collected: the process that only distributes the tests of
``pytest -n`` starts at once.
"""

import os
import tempfile
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="erase-cache-")


def pytest_collectstart() -> None:
    """Load our profile of hypothesis before its tests are made."""
    _load_profile()


@cache
def _load_profile() -> None:
    from hypothesis import HealthCheck, settings

    settings.register_profile(
        "erase", deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("erase")


@pytest.fixture(autouse=True)
def _same_threads() -> Iterator[None]:
    """Restore the number of threads, which a test may change."""
    import torch

    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True, scope="session")
def _quick_maps() -> Iterator[None]:
    """Draw the maps of pages with fewer iterations of t-SNE, which is most of a page's time."""
    from erase.audit.report import projection

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(projection, "_TSNE_ITERATIONS", 250)
        yield


@pytest.fixture
def communities() -> Any:
    from graphs import two_communities

    return two_communities()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A Chromium from the system, or as Playwright installs it."""
    playwright = pytest.importorskip("playwright.sync_api")
    from browsers import chromium

    if (path := chromium()) is None:
        pytest.skip("no Chromium: install one, or run `playwright install chromium`")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield started
        started.close()
