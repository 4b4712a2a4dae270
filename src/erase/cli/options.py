"""Options that several commands have, and what their values mean."""

import csv
import inspect
import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from difflib import get_close_matches
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from erase.cli.catalogue import entries, names
from erase.cli.startup import import_without, starting
from erase.display import table_words
from erase.errors import EraseError

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from erase.data.contract import FeatureContract
    from erase.methods import NodeClassifier


def among(known: Collection[str]) -> Callable[[str | None], str | None]:
    """Return a check that the value of an option is one of the `known` names."""

    def check(value: str | None) -> str | None:
        if value is not None and value not in known:
            near = get_close_matches(value, known, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise typer.BadParameter(f"{value!r} is not among {', '.join(known)}.{hint}")
        return value

    return check


def between_one_and(most: float) -> Callable[[int | None], int | None]:
    """Return a check that the value of an option is a number from 1 to `most`."""

    def check(value: int | None) -> int | None:
        if value is not None and value < 1:
            raise typer.BadParameter(f"must be at least 1, not {value}")
        if value is not None and value > most:
            raise typer.BadParameter(f"must be at most {most:,}, not {value}")
        return value

    return check


def choice(kind: str, help: str) -> Any:
    """Return an option whose value is a name of this kind."""
    metavar, help = kind.removesuffix("s").upper(), f"{help}: {names(kind)}."
    return typer.Option(metavar=metavar, callback=among(entries(kind)), help=help)


def named(kind: str) -> Any:
    """Return an argument whose value is a name of this kind."""
    help = f"A name of `erase list {kind}`."
    return typer.Argument(
        metavar="NAME", callback=among(entries(kind)), show_default=False, help=help
    )


def count(help: str, default: str | None = None, most: float = math.inf) -> Any:
    """Return an option whose value is a number from 1 on; `default` says what None means."""
    return typer.Option(callback=between_one_and(most), help=help, show_default=default or True)


def share(help: str) -> Any:
    """Return an option whose value is a share, a number from 0 to 1."""
    return typer.Option(metavar="SHARE", parser=_number, help=help)


def _number(text: str | float) -> float:
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"must be a number such as 0.2, not {text!r}") from None


def target(default: str, help: str = "Folder to write to.") -> Any:
    """Return the option --out; `default` says what None means."""
    return typer.Option("--out", help=help, show_default=default)


def repeated(name: str, metavar: str, help: str) -> Any:
    """Return an option that may be repeated."""
    help = f"{help} May be repeated."
    return typer.Option(name, metavar=metavar, default_factory=list, show_default=False, help=help)


def noise(help: str) -> Any:
    """Return the option --noise."""
    return typer.Option("--noise", metavar="KIND:RATE", help=f"{help} Kinds: {names('noises')}.")


Graph = Annotated[
    str,
    typer.Argument(
        metavar="GRAPH",
        show_default=False,
        help="Name of a dataset (see `erase list datasets`) or a file: .npz, PyG .pt, .graphml, "
        "a folder written by `erase convert`, or a folder with nodes and edges tables (CSV or "
        "Parquet).",
    ),
]
Reviews = Annotated[
    Path | None,
    typer.Option(
        "--reviews",
        metavar="FILE",
        show_default=False,
        help="Trust these decisions: a database of `erase review`, or a CSV file it exported.",
    ),
]
Settings = Annotated[list[str], repeated("--set", "KEY=VALUE", "Set a parameter of the method.")]
Preset = Annotated[str, choice("presets", "Preset of ERASE")]
ProtocolName = Annotated[str, choice("protocols", "Protocol of the records to use")]
Records = Annotated[
    list[Path],
    typer.Argument(metavar="RECORDS", show_default=False, help="Files of `erase bench`."),
]
Seed = Annotated[int, typer.Option(help="Random seed.")]
Device = Annotated[str, typer.Option(help="cpu, cuda, or auto: a GPU if there is one.")]
Json = Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print no progress and no summary.")]
SafeCsv = Annotated[
    bool,
    typer.Option(
        "--safe-csv",
        help="In CSV files, put a ' before text that a spreadsheet would take for a formula.",
    ),
]
Precision = Annotated[
    Literal["float32", "tf32"],
    typer.Option(
        help="Precision of the encoders' forward products on a GPU. tf32 rounds their factors to "
        "ten bits; everything else is computed in float32.",
    ),
]
Deterministic = Annotated[
    bool,
    typer.Option(
        "--deterministic",
        help="Make GPU runs with the same seed equal bit by bit; slower. CPU runs are "
        "deterministic for a fixed number of threads.",
    ),
]


_TABLE_OPTIONS: dict[str, tuple[str | None, str]] = {  # None as metavar: a flag
    "id": ("COLUMN", "ids of the nodes, which the edges refer to."),
    "name": ("COLUMN", "names to show in results."),
    "label": ("COLUMN", "the class; empty where unknown."),
    "trusted": ("COLUMN", "the class that a person confirmed or corrected; empty elsewhere."),
    "features": ("A,B,…", "columns to use as features; '' uses none."),
    "text": ("A,B,…", "columns to read as text."),
    "split": ("COLUMN", "train, val, test or empty."),
    "source": ("COLUMN", "where an edge starts."),
    "target": ("COLUMN", "where an edge ends."),
    "weight": ("COLUMN", "weights of the edges."),
    "no_weights": (None, "ignore edge weights; also those of other graphs."),
    "separator": ("CHARACTER", "between the columns of a CSV; \\t is a tab."),
    "directed": (None, "keep which direction of an edge was given."),
    "strict": (None, "refuse missing feature values instead of filling them."),
    "merge_classes": (None, "merge class names that look misspelt."),
}


def takes_tables(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options on tables to a command, which gets those that are given as `tables`.

    They are the attributes of `TableOptions`, for `load_graph`.
    """
    added = [_table_option(name, *about) for name, about in _TABLE_OPTIONS.items()]
    signature = inspect.signature(command)
    own = [each for each in signature.parameters.values() if each.name != "tables"]

    @wraps(command)
    def with_tables(**given: Any) -> None:
        values = {name: given.pop(f"table_{name}") for name in _TABLE_OPTIONS}
        tables = {
            name: _columns(value) if name in ("features", "text") else value
            for name, value in values.items()
            if value is not None and value is not False
        }
        if tables.get("separator") == "\\t":
            tables["separator"] = "\t"
        command(**given, tables=tables)

    with_tables.__signature__ = signature.replace(parameters=[*own, *added])  # type: ignore[attr-defined]
    with_tables.__annotations__ = {each.name: each.annotation for each in [*own, *added]}
    return with_tables


def _table_option(name: str, metavar: str | None, help: str) -> inspect.Parameter:
    """Return an option on tables as a parameter; its name is not that of another one."""
    option = typer.Option(
        f"--{name.replace('_', '-')}",
        metavar=metavar,
        help=f"Tables: {help}",
        show_default=False,
        callback=_one_character if name == "separator" else None,
    )
    annotation: Any = bool if metavar is None else str | None
    return inspect.Parameter(
        f"table_{name}",
        inspect.Parameter.KEYWORD_ONLY,
        default=False if metavar is None else None,
        annotation=Annotated[annotation, option],
    )


def _one_character(value: str | None) -> str | None:
    """Check that the value of --separator is one character."""
    if value is not None and len(value) != 1 and value != "\\t":
        raise typer.BadParameter(f"must be one character, not {value!r}")
    return value


def _columns(text: str) -> list[str]:
    """Return the names in a list with commas; a name with a comma is quoted."""
    try:
        return next(csv.reader([text], skipinitialspace=True))
    except csv.Error:
        raise EraseError(
            "names of columns with commas between them", repr(text), "Quote a name with a new line."
        ) from None


def set_arithmetic(precision: str, deterministic: bool) -> None:
    """Import torch and PyG, and set torch's own switches for how it computes on a GPU."""
    import os

    with starting():
        import torch

        import_without("torch_geometric", put_off="torch._dynamo")

    if precision == "tf32":
        torch.set_float32_matmul_precision("high")
    if deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)


def load_graph(
    name: str, tables: Mapping[str, Any], contract: "FeatureContract | None" = None
) -> "tuple[Data, str]":
    """Return the graph that GRAPH names, and a short name for its results.

    Args:
        name: GRAPH.
        tables: the given options on tables.
        contract: what tables are read by; None: features are made from the tables themselves.
    """
    from erase.data.datasets import DATASETS, dataset_name, load_dataset
    from erase.data.files import read_graph
    from erase.data.parts import recover

    if (known := dataset_name(name)) is not None:
        refuse_tables(tables, f"the dataset {known!r}, which has no tables")
        return load_dataset(known), known
    recover(Path(name))
    if not Path(name).exists() and not Path(name).suffix:
        raise EraseError(
            "a dataset's name or a file",
            f"{name!r}, which is neither",
            f"Datasets: {', '.join(DATASETS)}.",
        )
    path = Path(name)
    chosen = dict(tables)
    if contract and has_tables(name):
        wanted = {column.name for column in contract.columns}
        chosen_features = {*tables.get("features", ()), *tables.get("text", ())}
        if wanted and "features" in tables and chosen_features != wanted:
            raise EraseError(
                f"the features of the model ({', '.join(sorted(wanted))})",
                f"--features {','.join(tables['features'])}",
                "Leave out --features.",
            )
        chosen["contract"] = contract
    return read_graph(path, **chosen), path.resolve().stem


def has_tables(name: str) -> bool:
    """Return whether GRAPH is a file or folder whose nodes have columns."""
    from erase.data.folder import is_folder

    path = Path(name)
    return (path.is_dir() and not is_folder(path)) or ".graphml" in path.name.lower()


def load_labelled(name: str, tables: Mapping[str, Any]) -> "tuple[Data, str]":
    """Return what `load_graph` does; raise an EraseError where a file without columns has no label.

    Tables without labels are left to what reads them, which knows their columns.
    """
    from erase.data.fields import field

    graph, short = load_graph(name, tables)
    if field(graph, "y") is None and not has_tables(name):
        raise EraseError(
            "a graph with labels",
            f"{name!r}, which has none",
            "Convert its tables again with --label COLUMN, or write y [N] into it.",
        )
    return graph, short


def with_reviews(graph: "Data", reviews: Path | None) -> "Data":
    """Return the graph with the trusted labels of --reviews FILE."""
    if reviews is None:
        return graph
    from erase.review.store import read_reviews

    with read_reviews(reviews) as found:
        return found.apply(graph)


def refuse_tables(tables: Mapping[str, Any], got: str) -> None:
    """Raise an EraseError where an option on tables is given for a graph without tables."""
    if tables:
        option = table_words(tables)[0]
        raise EraseError(f"a graph in tables, for {option}", got, f"Leave out {option}.")


def method_from_options(
    name: str, preset: str, graph: str, settings: Sequence[str], seed: int, device: str
) -> "NodeClassifier":
    """Return the method; its preset counts where GRAPH is the name of a dataset."""
    from erase.data.datasets import dataset_name
    from erase.methods import build_method, default_params

    changes: dict[str, Any] = {"seed": seed, "device": device}
    known = {key: value for key, value in default_params(name).items() if key not in changes}
    _refuse_settings_of_others(name, known, settings)
    changes |= parse_settings(settings, known)
    method = build_method(name, preset, dataset_name(graph), **changes)
    method.check_params()
    return method


def _refuse_settings_of_others(name: str, known: Collection[str], settings: Sequence[str]) -> None:
    """Raise an EraseError for a --set that the method does not have, where another has it."""
    from erase.methods import METHODS, default_params

    keys = [setting.partition("=")[0] for setting in settings]
    for key in (key for key in keys if key not in (*known, "seed", "device")):
        if owners := [other for other in METHODS if key in default_params(other)]:
            raise EraseError(
                f"--set with a parameter of {name}: {', '.join(known)}",
                f"--set {key}, which belongs to {', '.join(owners)}",
                f"Add --method {owners[0]}, or leave out --set {key}.",
            )


def parse_settings(settings: Sequence[str], known: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of --set KEY=VALUE, each of the type of its default in `known`."""
    chosen = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals or key not in known:
            raise EraseError(
                f"--set KEY=VALUE with KEY among {', '.join(known)}",
                setting,
                "Correct the name; seed and device have options of their own.",
            )
        chosen[key] = _parse_value(text, known[key])
    return chosen


def _parse_value(text: str, default: Any) -> Any:
    """Return a value from its text: JSON where it is JSON, else the text itself."""
    if isinstance(default, tuple):
        return tuple(_parse_value(part, default[0]) for part in text.strip("[]()").split(","))
    try:
        value = json.loads(text.lower() if isinstance(default, bool) else text)
    except json.JSONDecodeError:
        return text
    return float(value) if isinstance(default, float) and isinstance(value, int) else value


def parse_noise(text: str) -> tuple[str, float]:
    """Return kind and rate of --noise KIND:RATE."""
    kind, _, rate = text.partition(":")
    try:
        share = float(rate)
    except ValueError:
        share = math.nan
    if not 0 <= share <= 1:
        raise EraseError(
            "--noise KIND:RATE with a rate from 0 to 1",
            text,
            f"Write symmetric:0.3, for example; kinds: {names('noises')}.",
        )
    return kind, share
