"""What the command line understands, without running it."""

from typing import Any

from typer.main import get_command

from erase.cli.app import app

NO_TABLE_OPTIONS = {
    "table_weight": None,
    "table_separator": None,
    "table_trusted": None,
    **dict.fromkeys(
        f"table_{name}"
        for name in ("id", "name", "label", "features", "text", "split", "source", "target")
    ),
    **dict.fromkeys(("table_no_weights", "table_directed"), False),
    **dict.fromkeys(("table_strict", "table_merge_classes"), False),
}


def parsed(name: str, *words: str) -> dict[str, Any]:
    """Return the parameters of a command by name, defaults included."""
    command: Any = get_command(app)
    parameters: dict[str, Any] = command.commands[name].make_context(name, list(words)).params
    return parameters
