"""Progress on stderr: a bar on a terminal, a plain line every few seconds elsewhere."""

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Self

from tqdm import tqdm

SECONDS_BETWEEN_LINES = 10.0


class Progress:
    """The progress of a piece of work; use as a context manager.

    Args:
        shown: whether to show anything.
        total: number of steps.
        done: steps done before, which do not count for the rate.
        unit: name of a step, on the bar.
    """

    def __init__(self, shown: bool, total: int, done: int, unit: str) -> None:
        self._shown, self._total = shown, total
        self._first = self._done = done
        self._start = self._last_line = time.monotonic()
        self._bar: Any = None
        if shown and sys.stderr.isatty():
            self._bar = tqdm(total=total, initial=done, unit=unit, leave=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

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
            self._bar.set_postfix(values, refresh=False)
            self._bar.update(steps)
        now = time.monotonic()
        if not self.is_plain or now - self._last_line < SECONDS_BETWEEN_LINES:
            return
        self._last_line = now
        rate = (self._done - self._first) / (now - self._start)
        left = (self._total - self._done) / rate
        print(line(self._done, rate, left), file=sys.stderr)
