"""The commands by name."""

import os
import sys
from typing import Annotated

import typer

from erase.cli.audit import audit_graph
from erase.cli.bench import run_study
from erase.cli.convert import convert_graph
from erase.cli.demo import demo
from erase.cli.figure import draw
from erase.cli.fit import fit_method
from erase.cli.lists import list_entries
from erase.cli.predict import predict_graph
from erase.cli.review import review_labels
from erase.cli.table import print_table
from erase.cli.tune import tune_method
from erase.data.limits import VARIABLE, parse_size
from erase.version import __version__

# Help is plain text where it is piped or captured.
app = typer.Typer(
    name="erase",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich" if sys.stdout.isatty() else None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo")(demo)
app.command("audit")(audit_graph)
app.command("review")(review_labels)
app.command("fit")(fit_method)
app.command("predict")(predict_graph)
app.command("convert")(convert_graph)
app.command("tune")(tune_method)
app.command("bench")(run_study)
app.command("table")(print_table)
app.command("figure")(draw)
app.command("list")(list_entries)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"erase {__version__}")
        raise typer.Exit


def _set_max_memory(size: str | None) -> None:
    if size is not None:
        parse_size(size)
        os.environ[VARIABLE] = size  # for worker processes too


@app.callback()
def _erase(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
    max_memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            callback=_set_max_memory,
            show_default="20 times the file, at least 1G",
            help="Most memory that reading a file may take, such as 16G. A file that declares more "
            "is refused.",
        ),
    ] = None,
) -> None:
    """Find wrong labels in a graph, and train node classifiers that withstand them."""
