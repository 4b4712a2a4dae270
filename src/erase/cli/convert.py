"""``erase convert``."""

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from erase.cli import options
from erase.cli.output import Output
from erase.cli.startup import starting
from erase.errors import EraseError


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

    start = time.perf_counter()
    name, chosen = dataset_name(graph), dict[str, Any]()
    if target.suffix in (".pt", ".graphml", ".gz", ".csv", ".parquet"):
        raise EraseError("a folder or FILE.npz to write", f"{str(target)!r}", "Use one of them.")
    if name is not None:
        options.refuse_tables(tables, f"the dataset {name!r}, which has no tables")
        chosen = {"seed": seed, **options.parse_settings(settings, DATASETS[name].options)}
    elif settings:
        raise EraseError("--set with a dataset", f"{graph!r}", "A file has no options.")
    if target.suffix == ".npz":
        write_graph(
            load_dataset(name, **chosen) if name else options.load_graph(graph, tables)[0],
            target,
        )
    elif name is not None:
        write_dataset(name, target, **chosen)
    else:
        write_folder(options.load_graph(graph, tables)[0], target)
    written = read_graph(target)
    files = [target] if target.is_file() else target.iterdir()
    counts = {
        "nodes": written.num_nodes,
        "edges": written.num_edges,
        "features": written.x.shape[1] if "x" in written else 0,
        "classes": len(field(written, "class_names") or ()),
    }
    size, seconds = sum(file.stat().st_size for file in files), time.perf_counter() - start
    summary = {
        "graph": graph,
        "tables": tables,
        "target": str(target),
        **counts,
        "bytes": size,
        "seconds": seconds,
    }
    shown = ", ".join(f"{value:,} {key}" for key, value in counts.items())
    last = f"{size / 1e6:,.1f} MB in {target}, {seconds:.1f} s."
    Output(json, quiet).report(summary, f"{shown}.", last)
