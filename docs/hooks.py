"""What the site shows that is made when it is built: commands, methods, and pages of the root.

MkDocs calls these functions by their names (`hooks` in mkdocs.yml).
"""

import os
import re
import runpy
import sys
from contextlib import redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

from mkdocs.structure.files import File

ROOT = Path(__file__).parent.parent
ROOT_PAGES = ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
PLAIN = {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb", "TYPER_USE_RICH": "0"}


def on_files(files: Any, config: Any, **_: Any) -> Any:
    """Add the pages of the repository's root, with links as they are inside docs/."""
    for name in ROOT_PAGES:
        text = (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")
        for other in ROOT_PAGES:
            text = text.replace(f"]({other}", f"]({other.lower()}")
        files.append(File.generated(config, name.lower(), content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Fill in the commands and the methods, and lead links to the root to their pages here."""
    above = "../" * page.file.src_uri.count("/")
    for name in ROOT_PAGES:
        markdown = markdown.replace(f"]({above}../{name}", f"]({above}{name.lower()}")
    if "<!-- commands -->" in markdown:
        markdown = markdown.replace("<!-- commands -->", _commands())
    if "<!-- methods -->" in markdown:
        markdown = markdown.replace("<!-- methods -->", _methods())
    return markdown


def on_page_content(html: str, **_: Any) -> str:
    """Drop Sphinx's roles, which docstrings use and mkdocstrings does not know."""
    return re.sub(r":(?:class|func|meth|mod):(?=<code>)", "", html)


def _methods() -> str:
    """Return an entry for every method; those of the package's own page are linked."""
    import erase
    from erase.methods import METHODS

    parts = []
    for name, method in METHODS.items():
        own = method.__name__
        linked = own in erase.__all__
        entry = f"[`erase.{own}`](api.md#erase.{own})" if linked else f"::: erase.methods.{own}"
        parts.append(f"## {name}\n\n{entry}")
    return "\n\n".join(parts)


def _commands() -> str:
    """Return the help text of `erase` and of every command that it lists."""
    overview = _help()
    # argparse indents commands by four spaces, click by two; rich draws a box around them
    names = re.findall(r"^(?:│ | {4}| {2})([a-z][a-z-]*) {2}", overview, flags=re.MULTILINE)
    if not names:
        raise SystemExit(f"docs/hooks.py: `erase --help` lists no command:\n{overview}")
    parts = [f"```text\n{overview}```"]
    parts += [f"## erase {name}\n\n```text\n{_help(name)}```" for name in names]
    return "\n\n".join(parts)


def _help(*command: str) -> str:
    """Return what `python -m erase COMMAND --help` prints; run here, so that torch loads once."""
    with (
        patch.object(sys, "argv", ["erase", *command, "--help"]),
        patch.dict(os.environ, PLAIN),
        redirect_stdout(StringIO()) as written,
        suppress(SystemExit),
    ):
        runpy.run_module("erase", run_name="__main__", alter_sys=True)
    return written.getvalue().strip() + "\n"
