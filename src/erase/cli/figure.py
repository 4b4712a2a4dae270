"""``erase figure``."""

from pathlib import Path
from typing import Annotated

from erase.cli import options
from erase.cli.startup import starting


def draw(
    name: Annotated[str, options.named("figures")],
    records: options.Records,
    *,
    protocol: options.ProtocolName = "paper",
    out: Annotated[Path | None, options.target("NAME.svg", "File to write, .svg or .png.")] = None,
) -> None:
    """Draw a figure of the paper from records.

    Uses the arrays beside the records where the figure shows representations. The paper's values
    are drawn beside ours.
    """
    with starting():
        from erase.audit.report.drawing import picture_kind, save_picture
        from erase.bench.figures import draw_figure

    out = out or Path(f"{name}.svg")
    picture_kind(out)  # refuses other kinds before drawing
    save_picture(draw_figure(name, records, protocol), out)
    print(out)
