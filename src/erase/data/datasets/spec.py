"""The registry's entry of a dataset."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

Source = Literal["embedded", "generated", "files"]


@dataclass(frozen=True)
class DatasetSpec:
    """One dataset: how to load it, and what a list of datasets shows of it.

    Args:
        description: one sentence for a person who chooses a dataset.
        load: called as ``load(seed=..., **options)``, returns a PyG ``Data``.
        source: "embedded" (inside the package), "generated" (from the seed) or "files" (read from
            ``$ERASE_DATA``, downloaded when that is not set).
        features: what a row of ``x`` is.
        split: where the three masks come from, and whether the seed changes them.
        num_nodes: N; None where the caller chooses, as are the three below.
        num_edges: columns of ``edge_index``, so an undirected edge counts twice.
        num_features: F.
        num_classes: K.
        write: called as ``write(path, seed=..., **options)``, writes a graph's folder without ever
            holding the graph; None where the graph is small enough to be held.
    """

    description: str
    load: Callable[..., Any]
    source: Source
    features: str
    split: str
    num_nodes: int | None = None
    num_edges: int | None = None
    num_features: int | None = None
    num_classes: int | None = None
    write: Callable[..., None] | None = None

    @property
    def options(self) -> dict[str, Any]:
        """What `load` takes besides the seed: names and defaults."""
        parameters = inspect.signature(self.load).parameters.values()
        return {each.name: each.default for each in parameters if each.name != "seed"}
