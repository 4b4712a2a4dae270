"""Cells whose method is given labels that people have confirmed or corrected."""

from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch_geometric.data import Data

from erase.bench.records import Cell
from erase.data.kinds import with_trusted
from erase.data.labels import encode_labels

REVIEWS = "reviews"  # among a cell's params: the digest of the trusted labels


@dataclass(frozen=True, eq=False)
class TrustedLabels:
    """Trusted labels of a dataset.

    Attributes:
        classes: [N] class indices, -1 where nobody looked.
        random: [N] which of them were drawn at random.
    """

    classes: NDArray[np.int64]
    random: NDArray[np.bool_]

    @property
    def digest(self) -> str:
        """Twelve hex digits that tell one review from another."""
        return sha256(self.classes.tobytes() + self.random.tobytes()).hexdigest()[:12]

    def on(self, graph: Data) -> Data:
        """Return a copy of the graph with these labels."""
        _, class_names, values = encode_labels(graph)
        return with_trusted(graph, self.classes, self.random, class_names, values)

    def reviewed(self, cell: Cell) -> Cell:
        """Return the cell of the same method with these labels: another cell than without."""
        return replace(cell, params={**cell.params, REVIEWS: self.digest})


def without_reviews(cell: Cell) -> Cell:
    """Return the cell of the same method without trusted labels."""
    params: dict[str, Any] = {k: v for k, v in cell.params.items() if k != REVIEWS}
    return replace(cell, params=params)
