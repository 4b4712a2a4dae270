"""Start-up of a command: signals, and imports that are put off.

Ctrl-C while a command starts, and SIGTERM and SIGHUP, which clean up like Ctrl-C. Imports little,
so that it is in place early.
"""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from types import FrameType, ModuleType
from typing import Any


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


class _Later(ModuleType):
    """A module that is loaded when something of it is first used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what inspect asks of every module loads none
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        loaded = import_module(self.__name__)
        self.__dict__.update(loaded.__dict__)
        return getattr(loaded, name)


def put_off(name: str) -> None:
    """Let `import name` load the module only when something of it is used.

    PyG imports torch's compiler to ask whether a module is a compiled one: a second of start-up.
    Does nothing where the module is loaded already, or is not there.
    """
    if name in sys.modules or (spec := find_spec(name)) is None:
        return
    later = _Later(name)
    later.__spec__, later.__file__ = spec, spec.origin
    if spec.submodule_search_locations is not None:
        later.__path__ = spec.submodule_search_locations
    sys.modules[name] = later


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
