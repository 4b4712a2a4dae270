"""``erase bench``."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from erase.cli import options
from erase.cli.catalogue import default
from erase.cli.output import Output, interrupt_hint
from erase.cli.startup import starting
from erase.errors import EraseError

if TYPE_CHECKING:
    from erase.bench.records import Cell
    from erase.bench.reviewed import TrustedLabels


def run_study(
    study: Annotated[
        str,
        typer.Argument(
            metavar="STUDY",
            show_default=False,
            help="Name of a study (see `erase list studies`) or a .toml file.",
        ),
    ],
    *,
    only: Annotated[
        list[str],
        options.repeated(
            "--only",
            "KEY=VALUE",
            f"Run only cells with this value; keys: {', '.join(default('keys of cells'))}.",
        ),
    ],
    jobs: Annotated[int, options.count("Processes to run at once.", most=1000)] = 1,
    threads: Annotated[
        int | None,
        options.count(
            "Threads of each process.", "cores / jobs, at most OMP_NUM_THREADS", most=1000
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Run on the workers of this Dask scheduler."),
    ] = None,
    batch: Annotated[
        int | None,
        options.count(
            "Most cells to train together.", f"1 on a CPU, {default('GPU batch')} on a GPU"
        ),
    ] = None,
    retry: Annotated[bool, typer.Option("--retry", help="Run failed cells again.")] = False,
    renew: Annotated[
        bool,
        typer.Option(
            "--renew", help="Run cells again whose code has changed since their record was made."
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be run, and stop.")
    ] = False,
    reviews: options.Reviews = None,
    device: options.Device = "auto",
    precision: options.Precision = "float32",
    deterministic: options.Deterministic = False,
    out: Annotated[
        Path | None, options.target("out/STUDY.jsonl", "File of records to write.")
    ] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> int:
    """Run a study: methods × datasets × noises × seeds.

    Runs every cell of the study that the file of records lacks, and adds its record. After an
    interruption the same command continues. A cell that fails is recorded with its error, and the
    exit status is 1.
    """
    options.set_arithmetic(precision, deterministic)
    with starting():
        from erase.bench.records import read
        from erase.bench.runner import Execution, run_cells
        from erase.bench.studies import check, choose, read_study

    output = Output(json, quiet)
    plan = read_study(study)
    cells = choose(plan.cells(), only)
    check(plan, cells)
    trusted = _trusted_labels(cells, reviews)
    cells = [trusted[c.dataset].reviewed(c) if c.dataset in trusted else c for c in cells]
    path = out or Path("out") / f"{Path(study).stem}.jsonl"
    if cluster and jobs > 1:
        raise EraseError("--jobs or --cluster", "both", "The cluster's workers are its jobs.")
    about = {"study": study, "records": str(path), "cells": len(cells)}
    if dry_run:
        recorded = {record.cell for record in read(path)} if path.exists() else set()
        found = len(recorded & set(cells))
        counts: dict[str, dict[str, int]] = {}
        for cell in cells:
            row = counts.setdefault(cell.dataset, {})
            row[cell.method] = row.get(cell.method, 0) + 1
        last = f"{len(cells)} cells, {found} of them in {path}."
        output.report(about | {"found": found, "plan": counts}, _count_table(counts), last)
        return 0
    execution = Execution(device, jobs, threads or 0, batch or 0, cluster)
    with interrupt_hint(lambda: "The same command continues."):
        done = run_cells(
            plan,
            cells,
            path,
            execution,
            retry=retry,
            renew=renew,
            progress=not quiet,
            trusted=trusted,
        )
    ran, failed = len(cells) - done.found, len(done.failures)
    summary = {"found": done.found, "ran": ran, "failed": failed, "seconds": done.seconds}
    lines = [
        f"{len(cells)} cells: {done.found} in the records before, "
        f"{ran} run in {done.seconds:.0f} s; {failed} failed",
        *(f"{record.cell}: {record.error}" for record in done.failures[:3]),
    ]
    output.report(about | summary, "\n".join(lines), f"Records are in {path}.")
    return 1 if done.failures else 0


def _trusted_labels(cells: "Sequence[Cell]", reviews: Path | None) -> "dict[str, TrustedLabels]":
    """Return the labels of --reviews by dataset; all cells have to be of the dataset reviewed."""
    if reviews is None:
        return {}
    from erase.bench.reviewed import TrustedLabels
    from erase.review.store import read_reviews

    with read_reviews(reviews) as found:
        return {
            name: TrustedLabels(*found.trusted_of(options.load_graph(name, {})[0]))
            for name in dict.fromkeys(cell.dataset for cell in cells)
        }


def _count_table(counts: dict[str, dict[str, int]]) -> str:
    """Return numbers of cells by method and dataset."""
    import pandas as pd

    return str(pd.DataFrame(counts).fillna(0).astype(int).to_string())
