"""Start-up of a command: signals, garbage collection, and imports that are put off.

Ctrl-C while a command starts, and SIGTERM and SIGHUP, which clean up like Ctrl-C. Imports little,
so that it is in place early.
"""

import ast
import atexit
import gc
import os
import signal
import sys
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

_MANY_MODULES = 100
# what scikit-learn and erase import from scipy.stats; most commands use none of it
_OF_STATS = ("beta", "chi2", "gmean", "norm", "rankdata", "spearmanr", "t", "truncnorm")


@contextmanager
def starting() -> Iterator[None]:
    """Leave at once on Ctrl-C while modules are imported; import faster meanwhile.

    A KeyboardInterrupt inside an import may be swallowed, or end in the traceback of a library.
    No garbage is collected, and scipy.stats is put off.
    """
    with _without_collection(), _put_off("scipy.stats", _OF_STATS):
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


@contextmanager
def _put_off(name: str, names: Collection[str]) -> Iterator[None]:
    """Let others import a module and some of its names, without loading it.

    scikit-learn imports scipy.stats, a tenth of an audit's imports, for parts that few use.

    Args:
        name: of the module, such as scipy.stats.
        names: these are looked up when they are used; the module is loaded for any other.
    """
    package, _, part = name.rpartition(".")
    if name in sys.modules or (folder := _folder(package)) is None:
        yield
        return
    module = sys.modules[name] = _PutOff(name, folder / part, names)
    try:
        yield
    finally:
        _forget(module)


class _Absent(ModuleType):
    """Stands for a module while others are imported; loads it if they use something of it."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what inspect asks of every module
            raise AttributeError(name)
        _forget(self)
        return getattr(import_module(self.__name__), name)


class _PutOff(_Absent):
    """Stands for a module and for some of its names, which are looked up when they are used."""

    def __init__(self, name: str, folder: Path, names: Collection[str]) -> None:
        super().__init__(name)
        self.__path__ = [str(folder)]
        self._names = names

    def __getattr__(self, name: str) -> Any:
        return _Later(self, name) if name in self._names else super().__getattr__(name)


class _Later:
    """Stands for an object of a module that is loaded when the object is used."""

    def __init__(self, module: _PutOff, name: str) -> None:
        self._module = module
        self._name = name

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self._loaded()(*args, **options)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._loaded(), name)

    def _loaded(self) -> Any:
        _forget(self._module)
        return getattr(import_module(self._module.__name__), self._name)


class _Listing(_Absent):
    """Stands for a package that imports a module for each name; loads those that are asked for."""

    def __init__(self, name: str, folder: Path) -> None:
        super().__init__(name)
        self.__path__ = [str(folder)]
        self._homes = {
            alias.name: f"{name}.{line.module}"
            for line in ast.parse((folder / "__init__.py").read_bytes()).body
            if isinstance(line, ast.ImportFrom) and line.level == 1 and line.module
            for alias in line.names
        }

    def __getattr__(self, name: str) -> Any:
        if name not in self._homes:
            return super().__getattr__(name)
        value = getattr(import_module(self._homes[name]), name)
        setattr(self, name, value)
        return value


def import_without(name: str, *put_off: str, listings: Sequence[str] = ()) -> None:
    """Import a package that imports modules it may use later, but without those.

    They are loaded when something of them is used. PyG imports torch's compiler, which takes a
    second, to ask later whether a network is a compiled one. It asks by `torch._dynamo`, and torch
    loads what is asked for.

    Args:
        name: of the package.
        put_off: the modules, of this package or of others.
        listings: packages directly in this one that only import names, each from a module of its
            own: a module is loaded when its name is asked for.
    """
    if name in sys.modules or (folder := _folder(name)) is None:
        return
    absent = [_Absent(each) for each in put_off if each not in sys.modules]
    lists = [_Listing(each, folder / each.rpartition(".")[2]) for each in listings]
    sys.modules |= {each.__name__: each for each in (*absent, *lists)}
    try:
        import_module(name)
    except ImportError:  # it needs a part of a module at once
        for module in absent:
            _forget(module)
        for each in [each for each in sys.modules if each.split(".")[0] == name]:
            del sys.modules[each]
        import_module(name)
    else:
        for module in (*absent, *lists):  # a package has its modules as attributes
            package, _, part = module.__name__.rpartition(".")
            if package == name and part not in vars(sys.modules[name]):
                setattr(sys.modules[name], part, module)
    finally:
        for module in absent:
            _forget(module)


def _folder(package: str) -> Path | None:
    """Return the folder of a package that is not inside another one; nothing is imported."""
    spec = find_spec(package)
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def _forget(module: ModuleType) -> None:
    if sys.modules.get(module.__name__) is module:
        del sys.modules[module.__name__]


def leave_quickly(status: Sequence[int]) -> None:
    """End the process with `status` when all else has ended, instead of taking modules apart.

    That takes a tenth of a second, and changes nothing that lasts. To be called first of all: what
    others register is called before what was registered first, and threads have ended by then.

    Args:
        status: the exit status, empty until it is known; left empty, the process ends as usual.
    """

    def leave() -> None:
        if not status:
            return
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except (AttributeError, OSError, ValueError):  # closed: Python knows what to say
            return
        os._exit(status[0])

    atexit.register(leave)


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
