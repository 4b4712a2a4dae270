"""Node classification on graphs whose labels are wrong."""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from erase.version import __version__

if TYPE_CHECKING:
    from erase.auditing import Audit, audit
    from erase.bench import Protocol
    from erase.datasets import load_dataset
    from erase.errors import EraseError
    from erase.folder import FolderWriter, write_folder
    from erase.io import read_graph, write_graph
    from erase.methods import ERASE, CrossEntropy, Relabelling, load_model
    from erase.noise import corrupt
    from erase.task import NodeTask

# Threads that wait for the next piece of work spin. GNU OpenMP lets them spin for so long that,
# beside another busy process, they take the cores from the threads that have work: fits took 2 to
# 10 times as long. 1,000 rounds instead of 300,000 cost little on idle cores (benchmarks/speed.py
# --only busy). The library reads this when it is loaded, so torch must not be loaded before.
if not os.environ.keys() & {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"}:
    os.environ["GOMP_SPINCOUNT"] = "1000"

# where each public name is; loaded when it is first used
_HOMES = {
    "ERASE": "erase.methods",
    "Audit": "erase.auditing",
    "CrossEntropy": "erase.methods",
    "EraseError": "erase.errors",
    "FolderWriter": "erase.folder",
    "NodeTask": "erase.task",
    "Protocol": "erase.bench",
    "Relabelling": "erase.methods",
    "audit": "erase.auditing",
    "corrupt": "erase.noise",
    "load_dataset": "erase.datasets",
    "load_model": "erase.methods",
    "read_graph": "erase.io",
    "write_folder": "erase.folder",
    "write_graph": "erase.io",
}

__all__ = [
    "ERASE",
    "Audit",
    "CrossEntropy",
    "EraseError",
    "FolderWriter",
    "NodeTask",
    "Protocol",
    "Relabelling",
    "__version__",
    "audit",
    "corrupt",
    "load_dataset",
    "load_model",
    "read_graph",
    "write_folder",
    "write_graph",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'erase' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return [*globals(), *_HOMES]
