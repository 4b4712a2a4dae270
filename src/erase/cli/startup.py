"""Signals: Ctrl-C while a command starts, and SIGTERM and SIGHUP, which clean up like Ctrl-C.

Imports little, so that it is in place early.
"""

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


@contextmanager
def stop_signals() -> Iterator[list[int]]:
    """Raise KeyboardInterrupt on SIGTERM and SIGHUP; yield a list that gets the signal's number.

    A signal that is ignored, as nohup does, or handled by somebody else, stays so.
    """
    stopped: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        stopped.append(number)
        raise KeyboardInterrupt

    names = ("SIGTERM", "SIGHUP")  # Windows has no SIGHUP
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    if threading.current_thread() is not threading.main_thread():
        numbers = []
    changed = [each for each in numbers if signal.getsignal(each) is signal.SIG_DFL]
    for each in changed:
        signal.signal(each, stop)
    try:
        yield stopped
    finally:
        for each in changed:
            signal.signal(each, signal.SIG_DFL)


def _leave(number: int, frame: FrameType | None) -> None:
    os.write(2, b"\nerase: interrupted.\n")
    os._exit(130)
