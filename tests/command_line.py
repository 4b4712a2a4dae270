"""What the command line understands, without running it."""

from typing import Any

from typer.main import get_command

from erase.cli.app import app


def parsed(name: str, *words: str) -> dict[str, Any]:
    """Return the parameters of a command by name, defaults included."""
    command: Any = get_command(app)
    parameters: dict[str, Any] = command.commands[name].make_context(name, list(words)).params
    return parameters
