"""``erase predict``."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from erase.cli import options
from erase.cli.output import Output, hold_folder
from erase.cli.startup import starting
from erase.version import __version__

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from torch_geometric.data import Data

_ROWS_AT_ONCE = 100_000  # of the table; names of all nodes may be larger than the graph


@options.takes_tables
def predict_graph(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            show_default=False,
            help="File that `erase fit` or a method's `save` wrote: model.safetensors.",
        ),
    ],
    graph: options.Graph,
    *,
    proba: Annotated[
        bool, typer.Option("--proba", help="Write the probability of every class.")
    ] = False,
    device: options.Device = "auto",
    out: Annotated[Path | None, options.target("out/GRAPH-predicted")] = None,
    safe_csv: options.SafeCsv = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
    tables: dict[str, Any],
) -> None:
    """Predict the classes of a graph's nodes with a fitted model.

    The graph has the features of the fit: it may be the fitted one with new nodes and edges, or
    share no node with it. Tables are read with the options of the fit, unless others are given.
    Nothing is trained, and labels are not needed (label propagation spreads
    those of GRAPH). Writes predictions.csv and summary.json.
    """
    with starting():
        import numpy as np

        from erase.data.fields import field
        from erase.data.files import atomic_write, csv_bytes, safe_cells, write_json
        from erase.methods import load_model
        from erase.methods.base import resolve_device

    start = time.perf_counter()
    output = Output(json, quiet)
    fitted = load_model(model).set_params(device=device)
    used = str(resolve_device(device))
    data, name = options.load_graph(graph, tables, fitted.table_contract_)
    output.notes(notes := list(field(data, "notes") or ()))
    out = out or Path("out") / f"{name}-predicted"
    hold_folder(out, "predict", graph)  # fails before predicting where it cannot be written
    probabilities = fitted.predict_proba(data)
    classes = list(fitted.class_names_)
    (out / "summary.json").unlink(missing_ok=True)  # of a run before: written last
    with atomic_write(out / "predictions.csv", "wb") as file:
        for first, table in _tables(data, probabilities, classes, proba):
            shown = safe_cells(table) if safe_csv else table
            file.write(csv_bytes(shown, header=first == 0))
    counts = np.bincount(probabilities.argmax(1), minlength=len(classes))
    summary: dict[str, Any] = {
        "model": str(model),
        "graph": graph,
        "tables": tables,
        "method": type(fitted).__name__,
        "device": used,
        "nodes": len(probabilities),
        "predicted": dict(zip(classes, counts.tolist(), strict=True)),
        "mean_probability": float(probabilities.max(1).mean()),
        "notes": notes,
        "seconds": time.perf_counter() - start,
        "version": __version__,
    }
    write_json(summary, out / "summary.json")
    most = sorted(summary["predicted"].items(), key=lambda entry: -entry[1])
    lines = [f"{count:>12,}  {label}" for label, count in most[:20]]
    if len(most) > 20:
        lines.append(f"{'…':>12}  and {len(most) - 20} more classes")
    output.report(
        summary,
        f"{len(probabilities):,} nodes, by predicted class:\n" + "\n".join(lines),
        f"Results are in {out}.",
    )


def _tables(
    data: "Data", proba: "np.ndarray[Any, Any]", classes: list[str], all_classes: bool
) -> "Iterator[tuple[int, pd.DataFrame]]":
    """Yield parts of the table of predictions, and the first node of each."""
    import numpy as np
    import pandas as pd

    from erase.data.fields import field, written

    shown = np.array(classes, dtype=object)
    titles = {"id": field(data, "node_ids"), "name": field(data, "node_names")}
    for first in range(0, len(proba), _ROWS_AT_ONCE):
        rows = proba[first : first + _ROWS_AT_ONCE]
        nodes = range(first, first + len(rows))
        columns: dict[str, Any] = {"node": nodes}
        columns |= {
            key: written([given[i] for i in nodes])
            for key, given in titles.items()
            if given is not None
        }
        columns["predicted"] = shown[rows.argmax(1)]
        columns["probability"] = rows.max(1)
        if all_classes:
            columns |= {f"p({name})": rows[:, k] for k, name in enumerate(classes)}
        yield first, pd.DataFrame(columns)
