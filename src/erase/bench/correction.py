"""Cells that train on labels which an audit has corrected, as `erase fit --clean` does."""

from dataclasses import replace

from torch_geometric.data import Data

from erase.audit import audit, audit_params
from erase.bench.records import Cell
from erase.data.datasets import dataset_name
from erase.errors import EraseError
from erase.methods import METHODS, build_method

CORRECTED_BY = "corrected_by"  # among a cell's params: the method of the audit


def without_correction(cell: Cell) -> Cell:
    """Return the cell of the same method on the labels as they were given."""
    params = {name: value for name, value in cell.params.items() if name != CORRECTED_BY}
    return replace(cell, params=params)


def check_correction(cell: Cell) -> None:
    """Raise an EraseError where labels are to be corrected by a method that does not exist."""
    method = cell.params.get(CORRECTED_BY)
    if CORRECTED_BY in cell.params and method not in METHODS:
        raise EraseError(
            f"{CORRECTED_BY}, a method among {', '.join(METHODS)}",
            f"{CORRECTED_BY} = {method!r}",
            "Name one, or leave it out.",
        )


def labels_to_train(given: Data, cell: Cell, device: str) -> Data:
    """Return the labels that the method of a cell trains on: as `given`, or corrected before."""
    method = cell.params.get(CORRECTED_BY)
    if method is None:
        return given
    changes = audit_params(method) | {"seed": cell.seed, "device": device}
    model = build_method(method, dataset=dataset_name(cell.dataset), **changes)
    return audit(given, method=model, seed=cell.seed).clean_graph(given)
