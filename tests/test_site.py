"""The documentation site builds without a warning, and needs no network."""

import re
import warnings
from pathlib import Path

import pytest

import erase
from erase.methods import METHODS

pytest.importorskip("material", reason="`make docs` installs the tools of the site")
pytest.importorskip("mkdocstrings")
config = pytest.importorskip("mkdocs.config")
build = pytest.importorskip("mkdocs.commands.build").build

ROOT = Path(__file__).parent.parent
COMMANDS = ("demo", "fit", "audit", "review", "convert", "tune", "bench", "table", "figure", "list")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site with warnings as errors, without the raw files of datasets."""
    folder = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        patch.chdir(ROOT)
        patch.delenv("ERASE_DATA", raising=False)
        warnings.simplefilter("ignore")  # of the tools; mkdocs logs its own and counts them
        configuration = config.load_config("mkdocs.yml", site_dir=str(folder), strict=True)
        configuration.plugins.on_startup(command="build", dirty=False)
        build(configuration)
        configuration.plugins.on_shutdown()
    return folder


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 20
    for page in pages:
        loads = r"<(?:script|link|img|iframe|source)\b[^>]*(?:src|href)=[\"']?(?:https?:)?//[^\s>]*"
        assert not re.findall(loads, page.read_text(encoding="utf-8")), page.name
    for style in site.rglob("*.css"):
        assert not re.findall(r"(?:url\(|@import)[\s\"']*(?:https?:)?//", style.read_text("utf-8"))


def test_the_references_are_made_from_the_code(site: Path) -> None:
    commands = (site / "cli.html").read_text(encoding="utf-8")
    for name in COMMANDS:
        assert f'<h2 id="erase-{name}">' in commands
    assert "--max-false-alarms" in commands
    methods = (site / "api-methods.html").read_text(encoding="utf-8")
    for name, method in METHODS.items():
        assert f'<h2 id="{name}">' in methods
        own = method.__name__
        linked = f'href="api.html#erase.{own}"' if own in erase.__all__ else None
        assert (linked or f'id="erase.methods.{own}"') in methods
    assert ":class:" not in methods
    assert 'id="erase.NodeTask.from_arrays"' in (site / "api.html").read_text(encoding="utf-8")


def test_the_pages_of_the_root_are_pages_of_the_site(site: Path) -> None:
    for name in ("contributing", "changelog", "security"):
        assert (site / f"{name}.html").exists()
    tutorial = (site / "tutorials" / "benchmark-your-method.html").read_text(encoding="utf-8")
    assert 'href="../contributing.html#add-a-method"' in tutorial
