"""Bags of words as sparse features."""

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor


def bag_of_words(row_starts: npt.NDArray[Any], words: npt.NDArray[Any], num_words: int) -> Tensor:
    """Return sparse CSR features [N, F] whose rows sum to 1 (0 where a node has no word).

    A word w that d of the N nodes have weighs log(1 + N/d), so a rare word counts more than a
    common one; then each row is divided by its sum. Linear in N + F + the number of entries.

    Args:
        row_starts: node i has ``words[row_starts[i]:row_starts[i + 1]]``, [N + 1].
        words: different words of each node in ascending order, node after node.
        num_words: F.

    >>> bag_of_words(np.array([0, 2, 3]), np.array([0, 1, 1]), 2).to_dense()[1]
    tensor([0., 1.])
    """
    num_nodes = len(row_starts) - 1
    frequency = np.bincount(words, minlength=num_words)
    weights = np.log1p(num_nodes / np.maximum(frequency, 1))[words]
    counts = np.diff(row_starts)
    row = np.repeat(np.arange(num_nodes), counts)
    sums = np.bincount(row, weights=weights, minlength=num_nodes)
    with warnings.catch_warnings():
        # torch warns once per process that CSR is in beta, which is not useful to users
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta state")
        return torch.sparse_csr_tensor(
            torch.from_numpy(row_starts.astype(np.int64)),
            torch.from_numpy(words.astype(np.int64)),
            torch.from_numpy((weights / sums[row]).astype(np.float32)),
            size=(num_nodes, num_words),
            check_invariants=True,
        )
