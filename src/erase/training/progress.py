"""Progress on stderr: a bar on a terminal, a plain line every few seconds elsewhere."""

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as RichProgress

SECONDS_BETWEEN_LINES = 10.0


def terminal_bar() -> RichProgress:
    """Return a bar for stderr with steps done, time left and a text; it vanishes at the end."""
    return RichProgress(
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}", markup=False),
        console=Console(stderr=True),
        transient=True,
    )


class Progress:
    """The progress of a piece of work; use as a context manager.

    Args:
        shown: whether to show anything.
        total: number of steps.
        done: steps done before, which do not count for the rate.
        unit: name of a step, shown until there are values.
    """

    def __init__(self, shown: bool, total: int, done: int, unit: str) -> None:
        self._shown, self._total = shown, total
        self._first = self._done = done
        self._start = self._last_line = time.monotonic()
        self._bar: Any = None
        if shown and sys.stderr.isatty():
            self._bar = terminal_bar()
            self._bar.start()
            self._task = self._bar.add_task(unit, total=total, completed=done)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    @property
    def is_plain(self) -> bool:
        """Whether progress is shown as lines."""
        return self._shown and self._bar is None

    def advance(
        self, steps: int, values: Mapping[str, object], line: Callable[[int, float, float], str]
    ) -> None:
        """Count `steps` more, and show where the work stands.

        Args:
            steps: done since the last call.
            values: shown behind a bar.
            line: of steps done, steps per second and seconds left, returns the line to print.
        """
        self._done += steps
        if self._bar is not None:
            text = ", ".join(f"{name} {value}" for name, value in values.items())
            self._bar.update(self._task, advance=steps, description=text)
        now = time.monotonic()
        if not self.is_plain or now - self._last_line < SECONDS_BETWEEN_LINES:
            return
        self._last_line = now
        rate = (self._done - self._first) / (now - self._start)
        left = (self._total - self._done) / rate
        print(line(self._done, rate, left), file=sys.stderr)
