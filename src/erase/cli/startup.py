"""Start-up of a command: signals, garbage collection, and imports that are put off.

Ctrl-C while a command starts, and SIGTERM and SIGHUP, which clean up like Ctrl-C. Imports little,
so that it is in place early.
"""

import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import FrameType, ModuleType
from typing import Any

_MANY_MODULES = 100


@contextmanager
def starting() -> Iterator[None]:
    """Leave at once on Ctrl-C while modules are imported, and collect no garbage meanwhile.

    A KeyboardInterrupt inside an import may be swallowed, or end in the traceback of a library.
    """
    with _without_collection():
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
def _without_collection() -> Iterator[None]:
    """Switch garbage collection off; what is imported meanwhile is never searched for garbage.

    Modules live as long as the process. Torch and what it needs make half a million objects:
    searching them while they are made, again in the command, and again when the process ends took
    a quarter of an audit of a small graph.
    """
    was_on, before = gc.isenabled(), len(sys.modules)
    gc.disable()
    try:
        yield
    finally:
        if len(sys.modules) > before + _MANY_MODULES:  # else there is little to gain
            gc.freeze()
        if was_on:
            gc.enable()


class _Absent(ModuleType):
    """Stands for a module while others are imported; loads it if they use something of it."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what inspect asks of every module
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


def import_without(name: str, put_off: str) -> None:
    """Import a package that imports a module whose parts it may use later, but without that module.

    PyG imports torch's compiler, which takes a second, to ask later whether a network is a compiled
    one. It asks by `torch._dynamo`, and torch loads what is asked for.

    Args:
        name: of the package.
        put_off: the module.
    """
    if name in sys.modules or put_off in sys.modules:
        return
    sys.modules[put_off] = absent = _Absent(put_off)
    try:
        import_module(name)
    except ImportError:  # it needs a part of the module at once
        for each in [each for each in sys.modules if each.split(".")[0] == name]:
            del sys.modules[each]
        if sys.modules.get(put_off) is absent:
            del sys.modules[put_off]
        import_module(name)
    finally:
        if sys.modules.get(put_off) is absent:
            del sys.modules[put_off]


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
