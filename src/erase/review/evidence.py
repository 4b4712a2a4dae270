"""What a reviewer is shown about a node: its row, its neighbours, its look-alikes."""

import csv
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from erase.audit import Audit
from erase.audit.report.audit_data import VERDICTS
from erase.data.fields import field, read_names
from erase.data.files import table_file
from erase.data.folder import is_folder
from erase.data.matrices import feature_matrix
from erase.data.tables import csv_separator, table_options
from erase.review.rows import CsvRows

Nodes = NDArray[np.int64]
Details = Callable[[int], list[tuple[str, str]]]  # what is known of a node, as (name, text)

_NEIGHBOURS = 200  # sent with a node, each label in proportion
_MOST_EDGES = 2_000  # of a neighbour; a hub's edges to the other neighbours are not sought
_LOOK_ALIKES = 8
_LIKELY = 4  # most probable classes
_COLUMNS = 40  # of a nodes table
_LETTERS = 2_000  # of a cell
_FEATURES = 16


class Evidence:
    """The evidence about nodes, according to one audit, in the form that the page's scripts read.

    Args:
        audit: of the graph.
        details: what is known of a node beside its edges.
    """

    def __init__(self, audit: Audit, details: Details | None = None) -> None:
        self.audit = audit
        self.details = details or (lambda node: [])
        n = len(audit.given)
        source = audit.edge_index[0]
        ordered = bool((source[1:] >= source[:-1]).all())
        self._target = (
            audit.edge_index[1]
            if ordered
            else audit.edge_index[1][np.argsort(source, kind="stable")]
        )
        self._start = np.concatenate([[0], np.cumsum(np.bincount(source, minlength=n))])
        self._labelled = np.flatnonzero(audit.given >= 0)
        self._row = np.full(n, -1)
        self._row[self._labelled] = np.arange(len(self._labelled))
        unit = np.asarray(audit.embedding[self._labelled], dtype=np.float32)
        length = np.linalg.norm(unit, axis=1, keepdims=True)
        self._unit = unit / np.where(length > 0, length, 1)
        self.view = lru_cache(maxsize=2_000)(self._view)

    def name(self, node: int) -> str:
        """Return how a node is called."""
        names = self.audit.node_names
        return (names[node].strip() if names is not None else "") or f"node {node}"

    def neighbours(self, node: int) -> Nodes:
        """Return the neighbours of a node."""
        around: Nodes = self._target[self._start[node] : self._start[node + 1]]
        return around

    def quality(self, nodes: Nodes) -> NDArray[np.float64]:
        """Return the chance that the given labels are right; NaN where there is none."""
        return self._of_labels(self.audit.decision.quality, nodes, np.nan)

    def suggested(self, nodes: Nodes) -> Nodes:
        """Return the suggested classes, -1 where there is no given label."""
        return self._of_labels(self.audit.decision.suggested, nodes, -1)

    def _view(self, node: int) -> dict[str, Any]:
        """Return a node amid its neighbours and look-alikes, as arrays over these nodes.

        The node is the first of them. The names are those of `erase.audit.report.audit_data`.
        """
        audit, decision = self.audit, self.audit.decision
        around = self._telling(node)
        alike, cosine = self._look_alikes(node)
        nodes = np.concatenate([[node], around, alike[~np.isin(alike, [node, *around])]])
        place = {each: i for i, each in enumerate(nodes.tolist())}
        suggested, given = self.suggested(nodes), audit.given[nodes]
        proba = audit.pred_probs[node]
        likely = np.argsort(-proba, kind="stable")[:_LIKELY]
        verdict = [VERDICTS.index(each) for each in decision.verdict[self._row[nodes]].tolist()]
        has_label = self._row[nodes] >= 0
        ids = audit.node_ids
        return {
            "node": node,
            "key": None if ids is None else str(ids[node]),
            "names": [self.name(each) for each in nodes.tolist()],
            "details": self.details(node),
            "id": nodes.tolist(),
            "given": given.tolist(),
            "suggested": suggested.tolist(),
            "quality": _shares(self.quality(nodes)),
            "probability": _shares([self._posterior(node, int(suggested[0]))]),
            "flagged": self._of_labels(decision.is_issue, nodes, False).tolist(),
            "verdict": np.where(has_label, verdict, 255).tolist(),
            "degree": (self._start[nodes + 1] - self._start[nodes]).tolist(),
            "predictedGiven": _shares([proba[given[0]] if given[0] >= 0 else np.nan]),
            "predictedSuggested": _shares([proba[suggested[0]] if given[0] >= 0 else np.nan]),
            "likely": likely.tolist(),
            "likelyShare": _shares(proba[likely]),
            "edges": self._edges(nodes[: 1 + len(around)], place),
            "alike": [place[each] for each in alike.tolist()],
            "alikeCosine": [round(float(each), 3) for each in cosine],
        }

    def card(self, node: int) -> dict[str, Any]:
        """Return the short form of a node, for a grid of many."""
        audit = self.audit
        around = audit.given[self.neighbours(node)]
        alone = np.array([node])
        given, suggested = int(audit.given[node]), int(self.suggested(alone)[0])
        return {
            "node": node,
            "name": self.name(node),
            "given": given,
            "suggested": suggested,
            "quality": _shares(self.quality(alone))[0],
            "predicted": _shares(audit.pred_probs[node, [given, suggested]]),
            "labelled": int((around >= 0).sum()),
            "agree": int((around == given).sum()),
            "against": int((around == suggested).sum()),
            "details": self.details(node)[:4],
        }

    def _posterior(self, node: int, k: int) -> float:
        row = self._row[node]
        return float(self.audit.decision.posterior[row, k]) if row >= 0 else np.nan

    def _of_labels(self, values: NDArray[Any], nodes: Nodes, elsewhere: Any) -> NDArray[Any]:
        """Return values [n labels] at `nodes`."""
        row = self._row[nodes]
        found: NDArray[Any] = np.where(row >= 0, values[row], elsewhere)
        return found

    def _telling(self, node: int) -> Nodes:
        """Return up to 200 neighbours: labelled ones first, every label in proportion."""
        around = self.neighbours(node)
        if len(around) <= _NEIGHBOURS:
            return around
        given = self.audit.given[around]
        labelled = np.flatnonzero(given >= 0)
        by_class = labelled[np.argsort(given[labelled], kind="stable")]
        chosen = by_class[np.linspace(0, len(by_class) - 1, _NEIGHBOURS).astype(int)]
        chosen = np.unique(chosen) if len(by_class) >= _NEIGHBOURS else labelled
        rest = np.setdiff1d(np.flatnonzero(given < 0), chosen)[: _NEIGHBOURS - len(chosen)]
        telling: Nodes = around[np.concatenate([chosen, rest])]
        return telling

    def _look_alikes(self, node: int) -> tuple[Nodes, NDArray[np.floating]]:
        """Return the labelled nodes whose representations point the same way, and the cosines."""
        own = np.asarray(self.audit.embedding[node], dtype=np.float32)
        length = float(np.linalg.norm(own))
        cosine = self._unit @ (own / length if length > 0 else own)
        if self._row[node] >= 0:
            cosine[self._row[node]] = -np.inf
        count = min(_LOOK_ALIKES, len(cosine) - int(self._row[node] >= 0))
        if count < 1:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32)
        best = np.argpartition(-cosine, count - 1)[:count]
        best = best[np.argsort(-cosine[best], kind="stable")]
        return self._labelled[best], cosine[best]

    def _edges(self, nodes: Nodes, place: dict[int, int]) -> list[tuple[int, int]]:
        """Return the edges among these nodes once, as places; those of hubs are left out."""
        found = {(0, i) for i in range(1, len(nodes))}
        for node in nodes[1:].tolist():
            around = self.neighbours(node)
            if len(around) <= _MOST_EDGES:
                others = [place[each] for each in around.tolist() if each in place]
                found |= {(place[node], j) for j in others if place[node] < j < len(nodes)}
        return sorted(found)


def details_of(data: Data, folder: Path | None, tables: dict[str, Any]) -> Details | None:
    """Return what a reviewer is shown of a node beside its edges.

    Args:
        data: the graph.
        folder: with its tables, where there is one.
        tables: the attributes of `TableOptions` that the graph was read with.
    """
    if folder is not None and not is_folder(folder):
        return table_details(folder, tables, int(data.num_nodes or 0))
    return feature_details(data)


def table_details(folder: Path, tables: dict[str, Any], count: int) -> Details | None:
    """Return the cells of a node's row in the nodes table, or None where the table does not fit.

    A CSV file is not kept in memory: a row is read when it is shown.

    Args:
        folder: with the nodes table.
        tables: the attributes of `TableOptions` that the graph was read with.
        count: N.
    """
    path, options = table_file(folder, "nodes"), table_options(dict(tables))
    if path.suffix == ".csv":
        separator = csv_separator(path, options)
        columns = pd.read_csv(path, nrows=0, sep=separator).columns
    else:
        import pyarrow.parquet as pq

        columns = pd.Index(pq.read_schema(path).names)
    hidden = {options.label, options.split, "trusted", "trusted_random"}
    shown = [name for name in columns if name not in hidden]
    texts = [name for name in shown if name in options.text]
    shown = [*texts, *(name for name in shown if name not in texts)][:_COLUMNS]
    if path.suffix == ".csv":
        chosen: dict[str, Any] = {"sep": separator, "dtype": str, "keep_default_na": False}
        rows = CsvRows(path, separator)
        if rows.count == count:
            places = [columns.get_loc(name) for name in shown]
            return lambda node: _cells(shown, _csv_row(rows, node, places, len(columns), chosen))
        table = pd.read_csv(path, usecols=shown, **chosen)[shown]
    else:
        table = pd.read_parquet(path, columns=shown)
    if len(table) != count:
        return None
    return lambda node: _cells(shown, table.iloc[node].tolist())


def _csv_row(
    rows: CsvRows, node: int, places: list[Any], width: int, chosen: dict[str, Any]
) -> list[Any]:
    """Return some cells of a row, by their places; none where the file was changed since."""
    found = rows.read(node)
    if found is None:
        return []
    with suppress(csv.Error, UnicodeDecodeError):  # a very long cell, for one
        reader = csv.reader(StringIO(found[1].decode(), newline=""), delimiter=chosen["sep"])
        if len(cells := next(reader)) == width:
            return [cells[place] for place in places]
    row: list[Any] = pd.read_csv(BytesIO(b"".join(found)), **chosen).iloc[0, places].tolist()
    return row


def _cells(names: list[str], cells: list[Any]) -> list[tuple[str, str]]:
    """Return the names and the texts of cells that are not empty."""
    texts = zip(names, map(str, cells), strict=False)
    return [(name, text[:_LETTERS]) for name, text in texts if text not in ("", "nan")]


def feature_details(graph: Data) -> Details | None:
    """Return the features that stand out in a node's row, or None where features have no names."""
    names = read_names(graph, "feature_names") or read_names(graph, "word_names")
    x = None if names is None or field(graph, "x") is None else feature_matrix(graph.x)
    if names is None or x is None or x.shape[1] != len(names):
        return None
    if isinstance(x, Tensor):
        dense = x.numpy()

        def largest(node: int) -> list[tuple[str, str]]:
            order = np.argsort(-np.abs(dense[node]), kind="stable")[:_FEATURES]
            return [(names[j], f"{dense[node, j]:.4g}") for j in order if dense[node, j]]

        return largest
    rare = np.log(x.shape[0] / np.maximum(np.bincount(x.indices, minlength=x.shape[1]), 1))

    def words(node: int) -> list[tuple[str, str]]:
        part = slice(x.indptr[node], x.indptr[node + 1])
        order = np.argsort(-np.abs(x.data[part]) * rare[x.indices[part]], kind="stable")
        shown = x.indices[part][order[:_FEATURES]]
        return [("features", ", ".join(names[j] for j in shown))] if len(shown) else []

    return words


def _shares(values: Any) -> list[float | None]:
    """Return numbers for JSON: four decimals, None for NaN."""
    return [None if np.isnan(value) else round(float(value), 4) for value in values]
