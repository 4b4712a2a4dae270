"""METHODS: every method by its name on the command line."""

from os import PathLike
from pathlib import Path

from erase.data.files import load_arrays
from erase.errors import EraseError
from erase.methods.base import NodeClassifier
from erase.methods.codis import CoDis
from erase.methods.erase import ERASE
from erase.methods.label_propagation import LabelPropagation
from erase.methods.losses import APL, GCE, CrossEntropy, CrossEntropyGCN
from erase.methods.mcr2 import MCR2
from erase.methods.pignn import PIGNN
from erase.methods.relabelling.method import Relabelling
from erase.methods.rtgnn import RTGNN
from erase.methods.smoothed import SmoothedLogReg

METHODS: dict[str, type[NodeClassifier]] = {
    "erase": ERASE,
    "ce": CrossEntropy,
    "ce-gcn": CrossEntropyGCN,
    "gce": GCE,
    "apl": APL,
    "mcr2": MCR2,
    "codis": CoDis,
    "rtgnn": RTGNN,
    "pignn": PIGNN,
    "label-propagation": LabelPropagation,
    "smoothed": SmoothedLogReg,
    "relabelling": Relabelling,
}


def load_model(path: str | PathLike[str]) -> NodeClassifier:
    """Read a fitted method from a file that its `save` wrote."""
    _, metadata = load_arrays(Path(path))
    metadata = metadata if isinstance(metadata, dict) else {}
    for method in METHODS.values():
        if method.__name__ == metadata.get("method"):
            return method.load(path)
    raise EraseError(
        "a file written by the save of one of " + ", ".join(m.__name__ for m in METHODS.values()),
        f"{path}, which names method {metadata.get('method')!r}",
        "Check the path, or update erase if a newer version wrote it.",
    )


__all__ = ["ERASE", "METHODS", "CrossEntropy", "NodeClassifier", "Relabelling", "load_model"]
