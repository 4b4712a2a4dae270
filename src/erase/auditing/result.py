"""Audit: the answer as data."""

from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from erase.auditing.decision import Decision


@dataclass(frozen=True, eq=False)
class Audit:
    """Which given labels are wrong, what they should be, and how sure that is.

    Attributes:
        issues: one row per labelled node, the most suspicious first: ``node``, ``name`` (where the
            graph names its nodes), ``given``, ``suggested`` (class names), ``quality`` (1: surely
            right), ``is_issue``, ``verdict`` ("right", "wrong", "can't tell"), ``probability`` (of
            the suggested class), ``neighbours`` (how many), ``neighbours_agree`` and
            ``neighbours_suggested`` (share of the labelled neighbours that carry the given and the
            suggested label; NaN where no neighbour is labelled) and ``neighbours_proba`` (mean
            probability of the given class over all neighbours; NaN where there is none).
        class_names: K names.
        pred_probs: [N, K] rows sum to 1; out-of-sample for labelled nodes.
        given: [N] given class, -1 where none.
        decision: about the labelled nodes, in node order.
        embedding: [N, D] of one fold's model.
        edge_index: [2, E] both directions of every edge.
        node_names: N names, or None.
        settings: method and its parameters, folds, seed, false alarms asked for, device, versions.
        notes: what was done to the graph at the door, one sentence each.
        seconds: how long it took.
    """

    issues: pd.DataFrame
    class_names: tuple[str, ...]
    pred_probs: NDArray[np.float64]
    given: NDArray[np.int64]
    decision: Decision
    embedding: NDArray[np.float32]
    edge_index: NDArray[np.int64]
    node_names: tuple[str, ...] | None
    settings: dict[str, Any]
    notes: tuple[str, ...]
    seconds: float

    def to_html(self, path: str | PathLike[str]) -> None:
        """Write the audit as one page that needs no network."""
        from erase.report.audit_page import write_audit_page  # report lies above: it shows audits

        write_audit_page(self, path)
