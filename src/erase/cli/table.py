"""``erase table``."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from erase.cli import options
from erase.cli.output import starting
from erase.errors import EraseError

FORMATS_BY_SUFFIX = {".md": "md", ".tex": "latex", ".csv": "csv"}


def print_table(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            callback=options.among("tables"),
            show_default=False,
            help="Name of a table (see `erase list tables`).",
        ),
    ],
    records: options.Records,
    *,
    format: Annotated[
        Literal["md", "latex", "csv"] | None,
        typer.Option(help="Format.  [default: that of the file name in --out, or md]"),
    ] = None,
    protocol: options.ProtocolName = "paper",
    out: Annotated[
        Path | None, typer.Option(help="File to write to.  [default: standard output]")
    ] = None,
) -> None:
    """Fill a table of the paper from records.

    Shows mean, standard deviation and number of runs, the published figure and the difference,
    ranks and paired tests.
    """
    with starting():
        from erase.bench.records import read
        from erase.bench.tables import FORMATS, build
        from erase.data.files import atomic_write

    kind: str | None = format
    if out is not None and (suffix := out.suffix.lower()) in FORMATS_BY_SUFFIX:
        kind = kind or FORMATS_BY_SUFFIX[suffix]
        if FORMATS_BY_SUFFIX[suffix] != kind:
            raise EraseError(
                f"a {suffix} file without --format, or --format {FORMATS_BY_SUFFIX[suffix]}",
                f"--format {kind}",
                "Leave it out, or rename the file.",
            )
    rows = [record for path in records for record in read(path)]
    text = FORMATS[kind or "md"](build(name, rows, protocol))
    if out is None:
        print(text, end="")
        return
    with atomic_write(out) as file:
        file.write(text)
    print(out)
