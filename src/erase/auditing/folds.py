"""Probabilities of every labelled node by models that never saw its label."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Judged:
    """What models say about nodes whose labels they were not given.

    Attributes:
        given: [N] given class of every node, -1 where none.
        proba: [N, K] of the model that never saw the node's label; the mean over all models where
            the node has none.
        fold: [N] which model judged the node, -1 where it has no label.
        embedding: [N, D] of the first fold's model.
    """

    given: NDArray[np.int64]
    proba: NDArray[np.float32]
    fold: NDArray[np.int64]
    embedding: NDArray[np.float32]
