"""Node classification on graphs whose labels are wrong."""

from erase.auditing import Audit, audit
from erase.bench import Protocol
from erase.datasets import load_dataset
from erase.errors import EraseError
from erase.folder import FolderWriter, write_folder
from erase.io import read_graph, write_graph
from erase.methods import ERASE, CrossEntropy, Relabelling, load_model
from erase.noise import corrupt
from erase.task import NodeTask
from erase.version import __version__

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
