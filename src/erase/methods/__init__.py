"""METHODS: every method by its name on the command line."""

import os
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from os import PathLike
from typing import Any

from erase.data.files import load_arrays
from erase.errors import EraseError
from erase.methods.base import NodeClassifier
from erase.methods.codis import CoDis
from erase.methods.erase import ERASE
from erase.methods.label_propagation import LabelPropagation
from erase.methods.losses import APL, GCE, CrossEntropy, CrossEntropyGCN
from erase.methods.mcr2 import MCR2
from erase.methods.nrgnn import NRGNN
from erase.methods.pignn import PIGNN
from erase.methods.pta import PTA
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
    "nrgnn": NRGNN,
    "pta": PTA,
}


def build_method(
    name: str, recipe: str = "reference", dataset: str | None = None, **changes: Any
) -> NodeClassifier:
    """Return a method by its name, with its preset for a dataset and your changes.

    Args:
        name: in ``METHODS``.
        recipe: name of the method's preset, see its ``preset``.
        dataset: take the method's settings for this dataset; None: the general ones.
        changes: parameters by name; they win.

    >>> build_method("erase", dataset="citeseer", seed=3).eps2
    0.4
    """
    known = default_params(name)
    for parameter in changes:
        if parameter not in known:
            raise EraseError(
                f"a parameter of {name} among {', '.join(known)}",
                repr(parameter),
                _suggestion(parameter, known),
            )
    return METHODS[name].preset(recipe, dataset, **changes)


def default_params(name: str) -> dict[str, Any]:
    """Return the parameters of a method in ``METHODS`` with their defaults."""
    if not isinstance(name, str) or name not in METHODS:
        raise EraseError(
            f"a method among {', '.join(METHODS)}", repr(name), _suggestion(str(name), METHODS)
        )
    defaults: dict[str, Any] = METHODS[name]().get_params(deep=False)
    return defaults


def _suggestion(word: str, known: Iterable[str]) -> str:
    near = get_close_matches(word, known, n=3)
    return f"Did you mean {' or '.join(near)}?" if near else "Choose one of them."


_MODEL = "a model file, such as the model.safetensors of erase fit"
_CHECK_PATH = "Check the path. A fitted method writes such a file: model.save(path)."


def load_model(
    path: str | PathLike[str], *, encoder: Callable[[int, int], Any] | None = None
) -> NodeClassifier:
    """Read a fitted method from a file that its `save` wrote.

    Args:
        path: the file.
        encoder: the function that the method was fitted with, if its encoder was your own.
    """
    is_path = isinstance(path, str | os.PathLike)
    if not is_path or not os.path.isfile(path):
        is_folder = is_path and os.path.isdir(path)
        raise EraseError(
            _MODEL, f"{path}, which is {'a folder' if is_folder else 'missing'}", _CHECK_PATH
        )
    try:
        _, metadata = load_arrays(path)
    except EraseError:
        if os.fspath(path).endswith(".safetensors"):  # one that is damaged
            raise
        raise EraseError(_MODEL, f"{path}, which is no model file", _CHECK_PATH) from None
    metadata = metadata if isinstance(metadata, dict) else {}
    if metadata.get("kind") == "audit":
        raise EraseError(_MODEL, f"{path}, which holds an audit, not a model", _CHECK_PATH)
    for method in METHODS.values():
        if method.__name__ == metadata.get("method"):
            return method.load(path, encoder=encoder)
    raise EraseError(
        "a file written by the save of one of " + ", ".join(m.__name__ for m in METHODS.values()),
        f"{path}, which names method {metadata.get('method')!r}",
        "Check the path, or update erase if a newer version wrote it.",
    )


__all__ = [
    "APL",
    "ERASE",
    "GCE",
    "MCR2",
    "METHODS",
    "NRGNN",
    "PIGNN",
    "PTA",
    "RTGNN",
    "CoDis",
    "CrossEntropy",
    "CrossEntropyGCN",
    "LabelPropagation",
    "NodeClassifier",
    "Relabelling",
    "SmoothedLogReg",
    "build_method",
    "default_params",
    "load_model",
]
