"""``erase convert``."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from erase.cli import options
from erase.cli.output import Output
from erase.cli.startup import starting
from erase.errors import EraseError

if TYPE_CHECKING:
    from erase.data.contract import FeatureContract


@options.takes_tables
def convert_graph(
    graph: options.Graph,
    target: Annotated[
        Path,
        typer.Argument(
            metavar="TARGET", show_default=False, help="Folder or FILE.npz to write to."
        ),
    ],
    *,
    settings: Annotated[
        list[str],
        options.repeated(
            "--set", "KEY=VALUE", "Set an option of a dataset, such as num_nodes of citations."
        ),
    ],
    model: Annotated[
        Path | None,
        typer.Option(
            metavar="MODEL",
            show_default=False,
            help="Tables: make the features as those of this model, with the options of its fit, "
            "for `erase predict MODEL TARGET`.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed of a dataset.")] = 0,
    json: options.Json = False,
    quiet: options.Quiet = False,
    tables: dict[str, Any],
) -> None:
    """Write a graph as a folder or as FILE.npz.

    The folder holds plain arrays, which every command opens without reading them into memory, so it
    suits large graphs. Test labels are written too. TARGET is written completely or not at all.
    """
    with starting():
        from erase.data.datasets import DATASETS, dataset_name, load_dataset, write_dataset
        from erase.data.fields import field
        from erase.data.files import read_graph, write_graph
        from erase.data.folder import write_folder
        from erase.data.labels import labels_if_any, misspelling_note

    start = time.perf_counter()
    name, chosen = dataset_name(graph), dict[str, Any]()
    if target.suffix in (".pt", ".graphml", ".gz", ".csv", ".parquet"):
        raise EraseError("a folder or FILE.npz to write", f"{str(target)!r}", "Use one of them.")
    contract = None if model is None else _contract_of(model, graph)
    if name is not None:
        options.refuse_tables(tables, f"the dataset {name!r}, which has no tables")
        chosen = {"seed": seed, **options.parse_settings(settings, DATASETS[name].options)}
    elif settings:
        raise EraseError("--set with a dataset", f"{graph!r}", "A file has no options.")
    if name is not None and target.suffix != ".npz":
        write_dataset(name, target, **chosen)
    else:
        read = (
            load_dataset(name, **chosen) if name else options.load_graph(graph, tables, contract)[0]
        )
        (write_graph if target.suffix == ".npz" else write_folder)(read, target)
    written = read_graph(target)
    output = Output(json, quiet)
    misspelt = misspelling_note(written)  # a folder has it among its notes
    output.notes([*(field(written, "notes") or ()), *([misspelt] if misspelt else [])])
    if "y" not in written:
        note = "The graph has no labels."
        if options.has_tables(graph):
            note += " Name the column that holds them: --label COLUMN."
        output.notes([note])
    files = [target] if target.is_file() else target.iterdir()
    counts = {
        "nodes": written.num_nodes,
        "edges": written.num_edges,
        "features": written.x.shape[1] if "x" in written else 0,
        "classes": len(field(written, "class_names") or labels_if_any(written)[1]),
    }
    size, seconds = sum(file.stat().st_size for file in files), time.perf_counter() - start
    summary = {
        "graph": graph,
        "tables": tables,
        "model": None if model is None else str(model),
        "target": str(target),
        **counts,
        "bytes": size,
        "seconds": seconds,
    }
    shown = ", ".join(f"{value:,} {key}" for key, value in counts.items())
    last = f"{size / 1e6:,.1f} MB in {target}, {seconds:.1f} s."
    output.report(summary, f"{shown}.", last)


def _contract_of(model: Path, graph: str) -> "FeatureContract":
    """Return what the features of a model's tables are, for the tables GRAPH."""
    from erase.methods import load_model

    if not options.has_tables(graph):
        raise EraseError("a graph in tables, for --model", f"{graph!r}", "Leave out --model.")
    contract = load_model(model).contract_
    if not contract.columns:
        raise EraseError(
            "a model that was fitted on tables", f"{model}, which was not", "Leave out --model."
        )
    return contract
