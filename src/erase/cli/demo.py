"""``erase demo``."""

import time
from pathlib import Path
from typing import Annotated

import typer

from erase.cli import options
from erase.cli.output import Output, score_table
from erase.cli.startup import starting


def run_demo(
    *,
    rate: Annotated[float, typer.Option(help="Share of the labels to corrupt.")] = 0.4,
    epochs: Annotated[int, options.count("Most epochs of each method.")] = 150,
    seed: options.Seed = 0,
    device: options.Device = "auto",
    out: Annotated[Path, typer.Option(help="Folder to write to.")] = Path("demo"),
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Compare ERASE with plain cross-entropy on an embedded graph.

    Corrupts 40 % of the labels of the Debian graph, trains both methods on them, and writes
    report.html, a page with the pictures of the paper, and summary.json.
    """
    with starting():
        from erase.audit.report.demo import write_demo_report
        from erase.bench import Protocol, given_labels, score
        from erase.data.datasets import load_dataset
        from erase.data.files import write_json
        from erase.methods import build_method

    output = Output(json, quiet)
    protocol = Protocol(noise="redrawn", validation="noisy")
    clean = load_dataset("debian")
    given = given_labels(clean, "symmetric", rate, seed, protocol)
    models = {
        title: build_method(name, dataset="debian", seed=seed, device=device, epochs=epochs)
        for title, name in {"ERASE": "erase", "cross-entropy": "ce"}.items()
    }
    scores: dict[str, dict[str, float]] = {}
    seconds: dict[str, float] = {}
    for name, model in models.items():
        output.message(f"Training {name} …")
        start = time.perf_counter()
        model.fit(given, progress=not quiet)
        seconds[name] = time.perf_counter() - start
        scores[name] = score(model, clean, given)
    page, noise = out / "report.html", f"symmetric:{rate:g}"
    output.message("Drawing the report …")
    write_demo_report(
        page, graph=clean, given=given, models=models, scores=scores, noise=noise, seconds=seconds
    )
    summary = {
        "graph": "debian",
        "noise": noise,
        "protocol": vars(protocol),
        "seed": seed,
        "scores": scores,
        "seconds": seconds,
        "report": str(page),
    }
    write_json(summary, out / "summary.json")
    output.report(summary, score_table(scores), f"Open {page} in a browser.")
