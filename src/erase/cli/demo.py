"""``erase demo``."""

from pathlib import Path
from typing import Annotated

import typer

from erase.cli import options
from erase.cli.output import Output, detection_text, hold_folder, score_table
from erase.cli.startup import starting


def demo(
    *,
    rate: Annotated[float, typer.Option(help="Share of the labels to corrupt.")] = 0.4,
    epochs: Annotated[int, options.count("Most epochs of ERASE and cross-entropy.")] = 100,
    seed: options.Seed = 0,
    device: options.Device = "auto",
    out: Annotated[Path, typer.Option(help="Folder to write to.")] = Path("demo"),
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Audit an embedded graph with wrong labels, and train on them.

    Corrupts 40 % of the labels of the Debian graph, audits them, trains relabelling, ERASE and
    plain cross-entropy on them, and writes report.html, a page that compares all with the true
    labels, beside the files it links to.
    """
    with starting():
        from erase.bench.demo import run_demo

    output = Output(json, quiet)
    hold_folder(out, "demo")
    summary = run_demo(out, rate=rate, seed=seed, device=device, epochs=epochs, progress=not quiet)
    found = detection_text(summary["noise"], summary["audit"])
    text = f"{found}\n\n{score_table(summary['scores'])}"
    output.report(summary, text, f"Open {summary['report']} in a browser.")
