"""``erase table``."""

from pathlib import Path
from typing import Annotated

import typer

from erase.cli import options
from erase.cli.startup import starting
from erase.errors import EraseError

FORMATS_BY_SUFFIX = {".md": "md", ".tex": "latex", ".csv": "csv"}


def print_table(
    name: Annotated[str, options.named("tables")],
    records: options.Records,
    *,
    format: Annotated[
        str | None,
        typer.Option(
            metavar="FORMAT",
            callback=options.among(FORMATS_BY_SUFFIX.values()),
            help=f"Format: {', '.join(FORMATS_BY_SUFFIX.values())}.",
            show_default="that of the file --out names, or md",
        ),
    ] = None,
    protocol: options.ProtocolName = "paper",
    out: Annotated[Path | None, options.target("standard output", "File to write to.")] = None,
) -> None:
    """Fill a table from records, the paper's figures beside ours.

    Shows mean, standard deviation and number of runs, the published figure and the difference,
    ranks and paired tests.
    """
    with starting():
        from erase.bench.records import read
        from erase.bench.tables import FORMATS, build
        from erase.data.files import atomic_write

    if out is not None and (suffix := out.suffix.lower()) in FORMATS_BY_SUFFIX:
        format = format or FORMATS_BY_SUFFIX[suffix]
        if FORMATS_BY_SUFFIX[suffix] != format:
            raise EraseError(
                f"a {suffix} file without --format, or --format {FORMATS_BY_SUFFIX[suffix]}",
                f"--format {format}",
                "Leave it out, or rename the file.",
            )
    if out is not None and out.resolve() in [Path(path).resolve() for path in records]:
        raise EraseError(
            "a file of its own for the table", f"{str(out)!r}, the records", "Name another --out."
        )
    rows = [record for path in records for record in read(path)]
    text = FORMATS[format or "md"](build(name, rows, protocol))
    if out is None:
        print(text, end="")
        return
    with atomic_write(out) as file:
        file.write(text)
    print(out)
