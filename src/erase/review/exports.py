"""Files that come out of a review: labels, decisions, the user's own table, the graph."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from torch_geometric.data import Data

from erase.data.fields import field
from erase.data.files import table_file, write_graph, write_table
from erase.data.folder import is_folder
from erase.data.labels import encode_labels
from erase.data.splits import read_splits
from erase.data.write_back import Corrections, check_target, write_back
from erase.errors import EraseError
from erase.review.session import decision_table, label_table
from erase.review.store import Reviews

Exports = dict[str, Callable[[], bytes]]  # by file name


def usual_exports(
    reviews: Reviews, data: Data, folder: Path | None, tables: dict[str, Any]
) -> Exports:
    """Return the files that only some graphs have: the corrected nodes table, and the graph."""

    def graph_file() -> bytes:
        with TemporaryDirectory() as place:
            path = Path(place) / "graph.npz"
            write_graph(reviews.apply(data), path)
            return path.read_bytes()

    files: Exports = {"graph.npz": graph_file}
    if folder is not None and not is_folder(folder):
        nodes = table_file(folder, "nodes")

        def nodes_file() -> bytes:
            with TemporaryDirectory() as place:
                path = Path(place) / nodes.name
                write_labels_back(reviews, data, folder, path, tables)
                return path.read_bytes()

        files[nodes.name] = nodes_file
    return files


def check_export(graph: Path, target: Path) -> None:
    """Raise an EraseError where `target` cannot be exported to, or is a table of the graph."""
    if target.suffix not in (".csv", ".parquet", ".npz"):
        raise EraseError(
            "FILE.csv, FILE.parquet or FILE.npz", f"{str(target)!r}", "Use one of them."
        )
    own = [graph / f"{name}{end}" for name in ("nodes", "edges") for end in (".csv", ".parquet")]
    if target.resolve() in [table.resolve() for table in own]:
        raise EraseError(
            "--export to a file of its own",
            f"{str(target)!r}, a table of the graph",
            "Name another file; --write-back corrects the labels in your table.",
        )


def export_tables(reviews: Reviews, data: Data, target: Path, *, safe_csv: bool = False) -> None:
    """Write the labels (FILE.csv), the decisions (decisions.csv), or the graph (FILE.npz)."""
    ids, names = field(data, "node_ids"), field(data, "node_names")
    if target.suffix == ".npz":
        write_graph(reviews.apply(data), target)
    elif target.stem == "decisions":
        write_table(decision_table(reviews, ids, names), target, safe_csv=safe_csv)
    else:
        y, class_names, _ = encode_labels(data)
        splits = read_splits(data, y)
        given = y.where(splits.train | splits.val, -1).numpy()
        reviews.check_graph(y.numpy(), class_names)
        trusted, random = reviews.trusted(class_names, given >= 0)
        first = reviews.first_given(given, class_names)
        table = label_table(first, trusted, random, class_names, ids, names)
        write_table(table, target, safe_csv=safe_csv)


def write_labels_back(
    reviews: Reviews, data: Data, folder: Path, target: Path, tables: dict[str, Any]
) -> int:
    """Write the user's nodes table with corrected labels; return how many rows changed."""
    nodes = check_target(folder, target)
    y, class_names, _ = encode_labels(data)
    given = y.numpy()
    trusted, _ = reviews.trusted_of(data)
    clean = np.where(trusted >= 0, trusted, given)
    changes = Corrections(given, clean, class_names)
    return write_back(nodes, target, changes, field(data, "node_ids") or (), tables)
