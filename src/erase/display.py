"""Objects, numbers and commands in words: a line in a console, a small table in a notebook."""

import shlex
from collections.abc import Mapping
from html import escape
from typing import Any

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


def count_of(number: float, thing: str) -> str:
    """Return a rounded number of things.

    >>> count_of(1.2, "label"), count_of(1234, "label")
    ('1 label', '1,234 labels')
    """
    whole = round(number)
    return f"{whole:,} {thing}{'' if whole == 1 else 's'}"


def table_words(tables: Mapping[str, Any]) -> list[str]:
    """Return options on tables as words of a command line.

    >>> table_words({"label": "kind", "features": ["age", "size, in m"], "directed": True})
    ['--label', 'kind', '--features', 'age,"size, in m"', '--directed']
    """
    words = []
    for name, value in tables.items():
        words.append(f"--{name.replace('_', '-')}")
        if isinstance(value, list):
            quoted = (f'"{each}"' if "," in each else each for each in value)
            words.append(",".join(quoted))
        elif value is not True:
            words.append("\\t" if value == "\t" else value)
    return words


def review_command(graph: object, tables: Mapping[str, Any], *options: str) -> str:
    """Return ``erase review`` of a graph with these options, as one types it.

    >>> review_command("my shop", {"label": "kind"}, "--strategy", "random")
    "erase review 'my shop' --label kind --strategy random"
    """
    return shlex.join(["erase", "review", str(graph), *table_words(tables), *options])
