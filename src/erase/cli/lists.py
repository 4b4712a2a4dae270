"""``erase list``."""

import json as json_format
from typing import Annotated

import typer

from erase.cli.catalogue import catalogue, entries
from erase.cli.options import among
from erase.cli.output import print_names


def list_entries(
    kind: Annotated[
        str | None,
        typer.Argument(
            metavar="KIND",
            callback=among(catalogue()["lists"]),
            show_default=False,
            help=f"{', '.join(catalogue()['lists'])}. Without it, the kinds are listed.",
        ),
    ] = None,
    *,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List what there is to choose from, with a line about each entry."""
    if kind is None:
        found = {name: f"{len(names)} entries" for name, names in catalogue()["lists"].items()}
    else:
        found = entries(kind)
    if json:
        print(json_format.dumps(found, indent=2, ensure_ascii=False))
    else:
        print_names(found)
