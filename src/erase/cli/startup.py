"""Ctrl-C while a command starts. Imports little, so that it is in place early."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def starting() -> Iterator[None]:
    """Leave at once on Ctrl-C while modules are imported.

    A KeyboardInterrupt inside an import may be swallowed, or end in the traceback of a library.
    """
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield
        return
    signal.signal(signal.SIGINT, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave(number: int, frame: FrameType | None) -> None:
    os.write(2, b"\nerase: interrupted.\n")
    os._exit(130)
