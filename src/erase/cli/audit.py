"""``erase audit``."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from erase.cli import options
from erase.cli.catalogue import default
from erase.cli.output import Output, audit_text, detection_text, hold_folder, labels_are
from erase.cli.startup import starting
from erase.errors import EraseError

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from erase.audit import Audit


@options.takes_tables
def audit_graph(
    graph: options.Graph,
    *,
    method: Annotated[
        str,
        options.choice(
            "methods",
            "Method that predicts the labels. Methods with epochs train for at most "
            f"{default('audit epochs')}, or --set epochs=N. Methods",
        ),
    ] = default("audit method"),
    preset: options.Preset = "reference",
    settings: options.Settings,
    folds: Annotated[int, options.count("Number of models to train.")] = default("audit folds"),
    max_false_alarms: Annotated[
        float, options.share("Largest expected share of right labels among the flagged ones.")
    ] = 0.2,
    all_labels: Annotated[
        bool,
        typer.Option("--all-labels", help="Ignore the splits: audit the labels of test nodes too."),
    ] = False,
    reviews: options.Reviews = None,
    noise: Annotated[
        str | None,
        options.noise("Corrupt the labels first, and report how many errors were found."),
    ] = None,
    parquet: Annotated[
        bool, typer.Option("--parquet", help="Also write issues.parquet, which keeps types.")
    ] = False,
    write_back: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            show_default=False,
            help="Also write your nodes table with its label column corrected and nothing else "
            "changed; labels that the audit removes are empty, and names that --merge-classes "
            "merges get one spelling. FILE may be the table itself.",
        ),
    ] = None,
    precision: options.Precision = "float32",
    deterministic: options.Deterministic = False,
    seed: options.Seed = 0,
    device: options.Device = "auto",
    out: Annotated[Path | None, options.target("out/GRAPH-audit")] = None,
    safe_csv: options.SafeCsv = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
    tables: dict[str, Any],
) -> None:
    """Find wrong labels, and suggest what they should be.

    Compares every given label with the prediction of a model that was not trained on it. Writes
    issues.csv (the labels, most suspicious first), labels_clean.csv, summary.json, report.html, a
    page to look through them, and audit.safetensors, which erase.load_audit reads in Python.
    Started by torchrun, several processes audit one graph with relabelling; the first one writes.
    """
    options.set_arithmetic(precision, deterministic)
    with starting():
        import erase.audit.report.audit_page  # noqa: F401 - what to_html would import later
        from erase.audit import audit_params
        from erase.audit.run import audit_by_all
        from erase.bench import PROTOCOLS, given_labels
        from erase.bench.detection import score_audit
        from erase.data.files import need_pyarrow, write_json
        from erase.data.splits import without_splits
        from erase.methods.base import resolve_device
        from erase.training.processes import joined, rank

    with joined(resolve_device(device)):
        output = Output(json, quiet or rank() > 0)
        nodes = None if write_back is None else _table_to_correct(graph, write_back, noise)
        clean, name = options.load_labelled(graph, tables)
        if all_labels:
            clean = without_splits(clean)
        clean = options.with_reviews(clean, reviews)
        usual = [f"{key}={value}" for key, value in audit_params(method).items()]
        model = options.method_from_options(
            method, preset, graph, [*usual, *settings], seed, device
        )
        given = clean
        if noise is not None:
            given = given_labels(clean, *options.parse_noise(noise), seed, PROTOCOLS["honest"])
        if parquet:
            need_pyarrow()
        task = model.read(given)
        output.notes(task.notes)
        out = out or Path("out") / f"{name}-audit"
        if rank() == 0:
            hold_folder(out, "audit", graph)
        audited = audit_by_all(
            task,
            method=model,
            folds=folds,
            max_false_alarms=max_false_alarms,
            seed=seed,
            progress=not output.quiet,
        )
        if audited is None:  # the first process writes
            return
        found, _ = audited
        output.notes(found.notes[len(task.notes) :])
        if reviews is not None and noise is None:
            found = _with_share(found, reviews)
        found = replace(found, settings={"graph": graph, "tables": tables, **found.settings})
        for old in ("summary.json", "report.html", "issues.parquet"):  # of an audit before
            (out / old).unlink(missing_ok=True)
        output.message("Writing the page …")
        found.to_html(out / "report.html", name=name)
        found.save(
            out, parquet=parquet, safe_csv=safe_csv
        )  # the summary is the last file of a finished audit
        summary = found.summary()
        if task.hidden_labels:
            hidden = f"{task.hidden_labels} labels of test nodes"
            output.message(f"Note: {hidden} are not audited (--all-labels audits them).")
        shown = [audit_text(found)]
        if summary["flagged"]:
            shown.append(_issue_table(found))
        if noise is not None:
            summary |= {"noise": noise, "scores": score_audit(found, clean)}
            write_json(summary, out / "summary.json")
            shown.insert(1, detection_text(noise, summary["scores"]))
        last = f"Open {out / 'report.html'} in a browser; the list is in {out / 'issues.csv'}."
        output.report(summary, "\n\n".join(shown), last)
        if write_back is not None and nodes is not None:
            count = _write_back(found, clean, nodes, write_back, tables, out)
            output.message(f"{labels_are(count, f'of {nodes} ')} corrected in {write_back}.")


def _with_share(found: "Audit", reviews: Path) -> "Audit":
    """Return the audit with the share of wrong labels by --reviews FILE, as its page shows it."""
    from erase.review.estimate import with_share
    from erase.review.store import read_reviews

    with read_reviews(reviews) as decisions:
        return with_share(found, decisions)


def _table_to_correct(graph: str, target: Path, noise: str | None) -> Path:
    """Return the nodes table of GRAPH; raise an EraseError where --write-back cannot work."""
    from erase.data.datasets import dataset_name
    from erase.data.write_back import check_target

    if noise is not None:
        raise EraseError(
            "--write-back with your own labels", f"--noise {noise}", "Leave out one of them."
        )
    if dataset_name(graph) is not None:
        raise EraseError(
            "--write-back with a folder of tables", f"the dataset {graph!r}", "Leave it out."
        )
    return check_target(Path(graph), target)


def _write_back(
    found: "Audit", graph: "Data", nodes: Path, target: Path, tables: dict[str, Any], out: Path
) -> int:
    """Write the nodes table with corrected labels; return how many changed."""
    import numpy as np

    from erase.data.labels import encode_labels
    from erase.data.write_back import Corrections, write_back

    if not found.decision.agreement.is_informative:
        raise EraseError(
            "labels that the audit can tell right from wrong, for --write-back",
            str(found.decision.agreement),
            f"Keep the labels, or label more nodes; the audit is in {out}.",
        )
    # as the table has them: where only the trusted column has a class, the label is empty
    labels = np.where(found.given >= 0, encode_labels(graph)[0].numpy(), -1)
    merged = bool(tables.get("merge_classes"))
    changes = Corrections(labels, found.clean_classes(), found.class_names, merged)
    return write_back(nodes, target, changes, found.node_ids or (), tables)


def _issue_table(found: "Audit", rows: int = 10) -> str:
    """Return the most suspicious labels."""
    worst = found.issues[found.issues["is_issue"]].head(rows)
    node = next(key for key in ("name", "id", "node") if key in worst)
    columns = [node, "given", "suggested", "quality", "neighbours", "neighbours_agree"]
    shown = worst[columns].rename(columns={"neighbours_agree": "agree"})
    return str(shown.to_string(index=False, float_format="{:.2f}".format, na_rep="–"))
