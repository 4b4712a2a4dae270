"""Run Python code in new processes that have the libraries imported already, but not erase.

To import torch and the others takes seconds in each process; here one server per test process does
it once, and every new process is a fork of that server.
"""

import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import NamedTuple

LIBRARIES = ["torch", "torch_geometric.data", "torch_geometric.utils", "sklearn.linear_model"]
LIBRARIES += ["pandas", "scipy.stats", "matplotlib.figure", "hypothesis.strategies"]
COMMAND = "import sys; from erase.cli import main; sys.exit(main(sys.argv[1:]))"


class Outcome(NamedTuple):
    """What a process has left."""

    returncode: int | None
    stdout: str
    stderr: str


def start(
    code: str, *arguments: str, out: Path, environment: Mapping[str, str] | None = None
) -> BaseProcess:
    """Start a process that runs `code`, and writes what it prints to ``out/stdout`` and stderr.

    Args:
        code: as for ``python -c``.
        arguments: of ``sys.argv``, from its second entry.
        out: a folder.
        environment: variables besides those of this process.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(LIBRARIES)
    variables = {**os.environ, **(environment or {})}
    process = context.Process(target=_execute, args=(code, arguments, str(out), variables))
    process.start()
    return process


def run(code: str, *arguments: str, environment: Mapping[str, str] | None = None) -> Outcome:
    """Run `code` in a process, and wait for it; see `start`."""
    with tempfile.TemporaryDirectory() as folder:
        process = start(code, *arguments, out=Path(folder), environment=environment)
        process.join()
        return Outcome(process.exitcode, *(_read(Path(folder) / n) for n in ("stdout", "stderr")))


@contextmanager
def holder(code: str, path: Path) -> Iterator[None]:
    """Run code that takes the lock of `path` and prints so; kill it at the end."""
    with tempfile.TemporaryDirectory() as folder:
        process = start(code, str(path), out=Path(folder))
        while "held" not in _read(Path(folder) / "stdout"):
            assert process.is_alive(), _read(Path(folder) / "stderr")
            time.sleep(0.01)
        try:
            yield
        finally:
            process.kill()
            process.join()


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def _execute(code: str, arguments: list[str], out: str, variables: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(variables)
    for descriptor, name in ((1, "stdout"), (2, "stderr")):
        file = os.open(Path(out) / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, descriptor)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.argv = ["-c", *arguments]
    exec(compile(code, "<forked>", "exec"), {"__name__": "__main__"})
