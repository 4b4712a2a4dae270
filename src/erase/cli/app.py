"""The commands by name."""

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
from erase.cli.table import print_table
from erase.cli.tune import tune_method
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


@app.callback()
def _erase(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Find wrong labels in a graph, and train node classifiers that withstand them."""
