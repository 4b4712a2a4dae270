"""The embedded graph: Debian packages, their dependencies, and the archive section they are in.

Nodes are packages, edges are Depends, Pre-Depends, Recommends and Suggests, features are the words
of a package's name and one-line description, and the label is its section. People assign sections
by hand, so some of these labels are really wrong.

The file ``debian.npz`` is made by `erase.data.datasets.build_debian`; see there how.
"""

import zipfile
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch_geometric.data import Data

from erase.data.datasets.words import bag_of_words
from erase.errors import EraseError

EMBEDDED = Path(__file__).with_name("debian.npz")

# What numpy and torch raise on files that are something else, or damaged.
NOT_A_GRAPH = (
    OSError,
    EOFError,
    zipfile.BadZipFile,
    KeyError,
    RuntimeError,
    TypeError,
    ValueError,
)

# The values of `split` in the file.
TRAIN, VAL, TEST = 0, 1, 2


def load_debian(seed: int = 0, path: str | PathLike[str] | None = None) -> Data:
    """Load the embedded Debian graph, or one that `build_debian` wrote.

    ``x`` is sparse CSR [N, F] with rows that sum to 1, rare words weighing more (`bag_of_words`).
    The split is fixed in the file, whatever the seed. Besides the usual fields there are
    ``node_names`` (N packages) and ``word_names`` (F words).

    Args:
        seed: not used; every dataset takes one.
        path: a file that `erase.data.datasets.build_debian` wrote; None for the embedded one.
    """
    file = EMBEDDED if path is None else Path(path)
    try:
        with np.load(file, allow_pickle=False) as stored:
            arrays = {key: stored[key] for key in stored.files}
        return _data(arrays)
    except NOT_A_GRAPH as error:
        raise EraseError(
            "a graph of Debian packages (.npz)",
            f"{file}: {type(error).__name__}: {error}",
            "Build one with: python -m erase.data.datasets.build_debian PACKAGES OUT.npz",
        ) from error


def _data(arrays: dict[str, npt.NDArray[Any]]) -> Data:
    words = split_names(arrays["words"])
    half = torch.from_numpy(arrays["edges"].astype(np.int64))  # [2, E/2], every edge once
    edge_index = torch.cat([half, half.flip(0)], dim=1)
    order = torch.argsort(edge_index[0] * len(arrays["y"]) + edge_index[1])
    row_starts = np.concatenate([[0], np.cumsum(arrays["word_counts"], dtype=np.int64)])
    split = torch.from_numpy(arrays["split"])
    return Data(
        x=bag_of_words(row_starts, arrays["word_indices"], len(words)),
        edge_index=edge_index[:, order],
        y=torch.from_numpy(arrays["y"].astype(np.int64)),
        train_mask=split == TRAIN,
        val_mask=split == VAL,
        test_mask=split == TEST,
        class_names=split_names(arrays["class_names"]),
        node_names=split_names(arrays["node_names"]),
        word_names=words,
        name="debian",
    )


def join_names(names: list[str]) -> npt.NDArray[np.uint8]:
    """Pack names without line breaks into one array of bytes; `split_names` is the inverse."""
    return np.frombuffer("\n".join(names).encode(), dtype=np.uint8)


def split_names(packed: npt.NDArray[np.uint8]) -> list[str]:
    """Unpack what `join_names` packed.

    >>> split_names(join_names(["0ad", "zsh"]))
    ['0ad', 'zsh']
    """
    return packed.tobytes().decode().split("\n")
