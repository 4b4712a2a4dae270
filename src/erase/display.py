"""How objects show themselves: a line in a console, a small table in a notebook."""

from collections.abc import Mapping
from html import escape

Facts = Mapping[str, int | str]


def fact_line(title: str, facts: Facts) -> str:
    """Return a title and facts as a line.

    >>> fact_line("Thing", {"nodes": 2708, "best epoch": "5 of 30"})
    '<Thing: 2,708 nodes, best epoch 5 of 30>'
    """
    words = (f"{v:,} {k}" if isinstance(v, int) else f"{k} {v}" for k, v in facts.items())
    return f"<{title}: {', '.join(words)}>"


def fact_table(title: str, facts: Facts) -> str:
    """Return a title and facts as an HTML table.

    >>> fact_table("<Thing>", {"nodes": 2708})
    '<table><caption>&lt;Thing&gt;</caption><tr><th>nodes</th><td>2,708</td></tr></table>'
    """
    shown = {k: f"{v:,}" if isinstance(v, int) else v for k, v in facts.items()}
    rows = "".join(f"<tr><th>{escape(k)}</th><td>{escape(v)}</td></tr>" for k, v in shown.items())
    return f"<table><caption>{escape(title)}</caption>{rows}</table>"
