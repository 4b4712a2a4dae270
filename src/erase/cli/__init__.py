"""The command line. Each command has a module, which imports what it needs when it runs."""

import io
import os
import signal
import sys
from collections.abc import Sequence

from erase.cli.startup import starting, stop_signals


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; return the exit status: 0, 2 for a user's error, 130 for Ctrl-C.

    After SIGTERM and SIGHUP it is 143 and 129.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal may lack characters of a name
            stream.reconfigure(errors="backslashreplace")
    with starting():
        import typer

        from erase.cli.app import app
        from erase.cli.output import held_folders
        from erase.errors import EraseError, is_memory_error

        command = typer.main.get_command(app)
    words = list(sys.argv[1:] if arguments is None else arguments)
    stopped: list[int] = []
    try:
        with (
            stop_signals() as stopped,
            held_folders(),
            command.make_context("erase", words) as context,
        ):
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
        reason = error.strerror or " ".join(str(error).split()) or type(error).__name__
        where = "" if error.filename is None else f": {os.fsdecode(error.filename)}"
        print(f"erase: {reason}{where}", file=sys.stderr)
        return 2
    except (MemoryError, RuntimeError) as error:
        if not is_memory_error(error):
            raise
        lines = str(error).strip().splitlines() or ["an allocation failed"]
        print(f"erase: the memory is too small: {lines[0]}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as interrupt:
        hint = f" {interrupt}" if interrupt.args else ""
        print(f"\nerase: interrupted.{hint}", file=sys.stderr)
        return 128 + (stopped or [signal.SIGINT])[0]
