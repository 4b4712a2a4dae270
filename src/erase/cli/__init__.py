"""The command line. Each command has a module, which imports what it needs when it runs."""

import os
import sys
from collections.abc import Sequence

from erase.cli.startup import starting


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; return the exit status: 0, 2 for a user's error, 130 for Ctrl-C."""
    with starting():
        import typer

        from erase.cli.app import app
        from erase.errors import EraseError

        command = typer.main.get_command(app)
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with command.make_context("erase", words) as context:
            status: int = command.invoke(context) or 0
            sys.stdout.flush()
            return status
    except typer.Exit as done:  # --help and --version
        return done.exit_code
    except typer.TyperException as error:  # unknown options, missing arguments, bad values
        parsed = getattr(error, "ctx", None)
        path = "erase" if parsed is None else parsed.command_path
        message = " ".join(error.format_message().split())
        end = "" if message.endswith((".", "?")) else "."
        print(f"erase: {message}{end} See `{path} --help`.", file=sys.stderr)
        return 2
    except EraseError as error:
        print(f"erase: {error.for_command_line()}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader has left, as head does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(f"erase: {error.strerror}: {error.filename}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as interrupt:
        hint = f" {interrupt}" if interrupt.args else ""
        print(f"\nerase: interrupted.{hint}", file=sys.stderr)
        return 130
