"""Pages from templates: one HTML file each, with styles and scripts inside, that needs no network.

``templates/`` holds Jinja templates. Every value is escaped, also inside JSON. ``base.html`` puts
the styles and scripts that a page names into it, and a Content-Security-Policy that lets these
scripts run and nothing else.
"""

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from erase.audit.report.formatting import fine_percent, interval, percent
from erase.data.files import StrPath, atomic_write
from erase.display import count_of


def render(template: str, **data: Any) -> str:
    """Return the page that a file of ``templates/`` makes of the data."""
    return _environment().get_template(template).render(data)


def write_page(path: StrPath, html: str) -> None:
    """Write a page, whole or not at all."""
    # half a surrogate pair in a name cannot be encoded: it becomes a question mark
    content = html.encode("utf-8", "replace")
    with atomic_write(path, "wb") as file:
        file.write(content)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("erase.audit.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    compact = {"ensure_ascii": False, "separators": (",", ":"), "allow_nan": False}
    environment.policies["json.dumps_kwargs"] = compact
    environment.filters |= {"percent": percent, "fine_percent": fine_percent, "count_of": count_of}
    environment.globals |= {"asset": asset, "digest": digest, "interval": interval}
    return environment


def asset(*paths: str, package: str = "erase.audit.report") -> Markup:
    """Return files of a package, as they are: ``styles/…`` and ``scripts/…``."""
    texts = [files(package).joinpath(path).read_text(encoding="utf-8") for path in paths]
    return Markup("\n".join(texts))


def digest(text: str) -> str:
    """Return the hash by which a Content-Security-Policy names a script."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
