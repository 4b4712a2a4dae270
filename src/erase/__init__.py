"""Node classification on graphs whose labels are wrong."""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from erase.version import __version__

if TYPE_CHECKING:
    from erase.audit import Audit, audit, load_audit
    from erase.bench import Protocol
    from erase.data.contract import FeatureContract
    from erase.data.conversion import from_arrays, from_networkx
    from erase.data.datasets import load_dataset
    from erase.data.files import read_graph, write_graph
    from erase.data.folder import FolderWriter, write_folder
    from erase.data.noise import corrupt
    from erase.data.tables import TableOptions, from_tables
    from erase.data.task import NodeTask
    from erase.errors import EraseError
    from erase.methods import ERASE, CrossEntropy, Relabelling, load_model
    from erase.review import Reviews, next_to_review

# Threads that wait for the next piece of work spin. GNU OpenMP lets them spin for so long that,
# beside another busy process, they take the cores from the threads that have work: fits took 2 to
# 10 times as long. 1,000 rounds instead of 300,000 cost little on idle cores (benchmarks/speed.py
# --only busy). The library reads this when it is loaded, so torch must not be loaded before.
if not os.environ.keys() & {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"}:
    os.environ["GOMP_SPINCOUNT"] = "1000"

# where each public name is; loaded when it is first used
_HOMES = {
    "ERASE": "erase.methods",
    "Audit": "erase.audit",
    "CrossEntropy": "erase.methods",
    "EraseError": "erase.errors",
    "FeatureContract": "erase.data.contract",
    "FolderWriter": "erase.data.folder",
    "NodeTask": "erase.data.task",
    "Protocol": "erase.bench",
    "Relabelling": "erase.methods",
    "Reviews": "erase.review",
    "TableOptions": "erase.data.tables",
    "audit": "erase.audit",
    "corrupt": "erase.data.noise",
    "from_arrays": "erase.data.conversion",
    "from_networkx": "erase.data.conversion",
    "from_tables": "erase.data.tables",
    "load_audit": "erase.audit",
    "load_dataset": "erase.data.datasets",
    "load_model": "erase.methods",
    "next_to_review": "erase.review",
    "read_graph": "erase.data.files",
    "write_folder": "erase.data.folder",
    "write_graph": "erase.data.files",
}
# packages that users name after a plain `import erase`, such as erase.methods.METHODS
_PACKAGES = ("bench", "methods", "nn")

__all__ = [
    "ERASE",
    "Audit",
    "CrossEntropy",
    "EraseError",
    "FeatureContract",
    "FolderWriter",
    "NodeTask",
    "Protocol",
    "Relabelling",
    "Reviews",
    "TableOptions",
    "__version__",
    "audit",
    "corrupt",
    "from_arrays",
    "from_networkx",
    "from_tables",
    "load_audit",
    "load_dataset",
    "load_model",
    "next_to_review",
    "read_graph",
    "write_folder",
    "write_graph",
]


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:  # importing it makes it an attribute
        return import_module(f"erase.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'erase' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_PACKAGES})
