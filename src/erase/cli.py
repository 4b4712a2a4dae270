"""The commands. No logic here: each command reads its arguments, calls the package and prints."""

import argparse
import json
import os
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch_geometric.data import Data

from erase.audit import (
    DEFAULT_METHOD,
    DETECTORS,
    FOLDS,
    MAX_EPOCHS,
    Audit,
    audit,
    audit_params,
    check_audit,
)
from erase.audit.report.demo import write_demo_report
from erase.audit.report.drawing import picture_kind, save_picture
from erase.bench import PROTOCOLS, Protocol, given_labels, score
from erase.bench.detection import score_audit
from erase.bench.figures import FIGURES, draw_figure
from erase.bench.records import read
from erase.bench.runner import GPU_BATCH, Execution, run_cells
from erase.bench.studies import CHOICES, STUDIES, check, choose, read_study
from erase.bench.tables import FORMATS, TABLES, build
from erase.bench.tune import (
    BEST,
    Trial,
    as_options,
    best_of,
    choose_space,
    draw_slices,
    tune,
    validation_tasks,
)
from erase.data.datasets import DATASETS, dataset_name, load_dataset, write_dataset
from erase.data.fields import encode_labels, read_splits, without_splits
from erase.data.files import (
    atomic_write,
    need_pyarrow,
    read_graph,
    read_json,
    write_graph,
    write_json,
    write_table,
)
from erase.data.folder import is_folder, write_folder
from erase.data.noise import NOISES
from erase.data.task import NodeTask
from erase.errors import EraseError
from erase.methods import (
    ERASE,
    METHODS,
    CrossEntropy,
    NodeClassifier,
    Relabelling,
    build_method,
    default_params,
)
from erase.methods.base import resolve_device
from erase.methods.erase import RECIPES
from erase.nn.encoders import ENCODERS
from erase.nn.heads import HEADS
from erase.training.processes import count, joined, rank, was_restarted
from erase.version import __version__

TABLE_FILES = {".md": "md", ".tex": "latex", ".csv": "csv"}
GRAPH_HELP = (
    "a dataset's name (see `erase list datasets`) or a file: .npz, PyG .pt, .graphml, a folder of "
    "`erase convert`, or a folder with nodes and edges tables (CSV or Parquet)"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; return the exit status."""
    options = _parser().parse_args(arguments)
    _set_arithmetic(options)
    try:
        return options.run(options) or 0
    except EraseError as error:
        print(f"erase: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # somebody read the first lines and left, as head does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(f"erase: {error.strerror}: {error.filename}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        kept = getattr(options, "checkpoint", None)
        resumes = kept is not None and kept.exists()
        hint = " Run the same command with --resume to continue." if resumes else options.hint
        print(f"\nerase: interrupted.{hint}", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="erase", description="Node classification on graphs whose labels are wrong."
    )
    parser.add_argument("--version", action="version", version=f"erase {__version__}")
    parser.set_defaults(hint="")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    demo = commands.add_parser(
        "demo",
        help="ERASE against plain cross-entropy on the embedded graph, with a report to open",
        description="Corrupt 40 % of the labels of the embedded Debian graph, train ERASE and "
        "plain cross-entropy on them, and write a page with the pictures of the paper.",
    )
    demo.set_defaults(run=_demo)
    _shared(demo, out="demo")
    demo.add_argument("--rate", type=float, default=0.4, help="noise rate (default %(default)s)")
    demo.add_argument(
        "--epochs", type=_count, default=150, help="most epochs per method (default %(default)s)"
    )

    fit = commands.add_parser(
        "fit",
        help="train on a graph; save predictions, embeddings and the model",
        description="Train a method on a graph. Writes predictions.csv, embeddings.npy, "
        "history.csv, model.safetensors and summary.json.",
    )
    fit.set_defaults(run=_fit_together)
    fit.add_argument("graph", metavar="GRAPH", help=GRAPH_HELP)
    fit.add_argument(
        "--method",
        choices=METHODS,
        help="default: relabelling; erase where --preset, --clean or a parameter that relabelling "
        "lacks asks for it, for a graph's folder, and for several processes",
    )
    fit.add_argument(
        "--preset",
        choices=RECIPES,
        help="ERASE's recipe: 'reference', the default, yields the published numbers, 'paper' is "
        "the formulas as printed, 'relabelled' has the semantic labels of relabelling; the name of "
        "a dataset of the paper as GRAPH brings its settings, a file never does",
    )
    fit.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a parameter of the method, as often as needed",
    )
    fit.add_argument(
        "--noise",
        metavar="KIND:RATE",
        help="corrupt the labels first, e.g. symmetric:0.3 (see `erase list noises`), and report "
        "against the clean ones",
    )
    fit.add_argument(
        "--draw",
        choices=["redrawn", "fixed"],
        help="with --noise: redraw it from the seed, the default, or use the published draw",
    )
    fit.add_argument(
        "--validation",
        choices=["clean", "noisy", "none"],
        help="with --noise: validation labels stay clean, are corrupted too, or are not used "
        "(default: clean, as in the paper, where they only choose the epoch; noisy for a method "
        "that trains on them)",
    )
    fit.add_argument(
        "--clean",
        action="store_true",
        help="audit the labels first, as `erase audit` does, and train on the corrected ones",
    )
    fit.add_argument(
        "--resume",
        action="store_true",
        help="continue an interrupted run in --out, of a method with epochs",
    )
    _arithmetic(fit)
    _shared(fit, out=None)

    check_labels = commands.add_parser(
        "audit",
        help="which labels are wrong, what they should be, how sure that is",
        description="Judge every given label by models that never saw it. Writes issues.csv, the "
        "labels with the most suspicious first; labels_clean.csv; summary.json; and report.html, "
        "a page to look through them.",
    )
    check_labels.set_defaults(run=_audit)
    check_labels.add_argument("graph", metavar="GRAPH", help=GRAPH_HELP)
    check_labels.add_argument(
        "--method", default=DEFAULT_METHOD, choices=METHODS, help="the judge (default: %(default)s)"
    )
    check_labels.add_argument(
        "--preset", choices=RECIPES, default="reference", help="ERASE's recipe: %(default)s"
    )
    check_labels.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a parameter of the method, as often as needed; where it has epochs, they are "
        f"{MAX_EPOCHS} at most unless you say so",
    )
    check_labels.add_argument(
        "--folds", type=_count, default=FOLDS, help="how many judges (default %(default)s)"
    )
    check_labels.add_argument(
        "--max-false-alarms",
        type=float,
        default=0.2,
        metavar="SHARE",
        help="largest expected share of right labels among the flagged (default %(default)s)",
    )
    check_labels.add_argument(
        "--all-labels",
        action="store_true",
        help="judge the labels of test nodes too: forget the splits",
    )
    check_labels.add_argument(
        "--noise",
        metavar="KIND:RATE",
        help="corrupt the labels first (see `erase list noises`), and report how many were found",
    )
    check_labels.add_argument(
        "--parquet", action="store_true", help="write issues.parquet too, which keeps types"
    )
    _arithmetic(check_labels)
    _shared(check_labels, out=None, named="out/GRAPH-audit")

    change = commands.add_parser(
        "convert",
        help="a graph into a folder that is opened without reading it, or into FILE.npz",
        description="Write a graph, test labels included, as a folder of plain arrays, which every "
        "command opens without reading it, however large it is; or as FILE.npz. Written whole or "
        "not at all.",
    )
    change.set_defaults(run=_convert)
    change.add_argument("graph", metavar="GRAPH", help=GRAPH_HELP)
    change.add_argument("target", metavar="TARGET", type=Path, help="a folder, or FILE.npz")
    change.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="an option of a dataset, such as num_nodes of citations, as often as needed",
    )
    change.add_argument("--seed", type=int, default=0, help="of a dataset (default: %(default)s)")
    change.add_argument("--json", action="store_true", help="print the summary as JSON")
    change.add_argument("--quiet", action="store_true", help="no summary")

    search = commands.add_parser(
        "tune",
        help="search for a method's parameters on validation labels",
        description="Search a method's space with Optuna. Every trial is scored on validation "
        "labels, noisy ones with --noise; test labels are never seen. The same command continues "
        "a search that was interrupted. Writes trials.csv, best.json and slices.svg.",
    )
    search.set_defaults(run=_tune, hint=" The same command continues.")
    search.add_argument("graph", metavar="GRAPH", help=GRAPH_HELP)
    search.add_argument("--method", default="erase", choices=METHODS, help="default: %(default)s")
    search.add_argument(
        "--preset", choices=RECIPES, default="reference", help="ERASE's recipe: %(default)s"
    )
    search.add_argument("--trials", type=_count, default=50, help="in all (default %(default)s)")
    search.add_argument(
        "--seeds", type=_count, default=3, help="runs of each (default %(default)s)"
    )
    search.add_argument(
        "--space",
        action="append",
        default=[],
        metavar="KEY=LOW:HIGH",
        help="search a parameter there, LOW:HIGH:log by its logarithm, A,B,C among a few values; "
        "the method declares the rest",
    )
    search.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a parameter of the method that is not searched",
    )
    search.add_argument(
        "--noise",
        metavar="KIND:RATE",
        help="corrupt training and validation labels first, anew for every run",
    )
    search.add_argument(
        "--holdout",
        type=float,
        metavar="SHARE",
        help="validate on a share of the training labels, where there are no validation labels",
    )
    _shared(search, out=None, named="out/GRAPH-METHOD-tune")
    _arithmetic(search)

    bench = commands.add_parser(
        "bench",
        help="run a study: methods × datasets × noises × seeds, into records",
        description="Run every cell of a study that its records lack, and add it to them. Killed "
        "at any moment, the same command continues; a cell that fails is recorded with its error.",
    )
    bench.set_defaults(run=_bench, hint=" The same command continues.")
    bench.add_argument(
        "study", metavar="STUDY", help="a name (see `erase list studies`) or a .toml file"
    )
    bench.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help=f"only such cells, as often as needed; keys: {', '.join(CHOICES)}",
    )
    bench.add_argument(
        "--jobs", type=_count, default=1, help="processes to run at once (default %(default)s)"
    )
    bench.add_argument(
        "--threads",
        type=_count,
        default=0,
        help="threads of each process (default: cores / jobs, OMP_NUM_THREADS at most)",
    )
    bench.add_argument(
        "--cluster", metavar="ADDRESS", help="run on the workers of this Dask scheduler"
    )
    bench.add_argument(
        "--batch",
        type=_count,
        default=0,
        help=f"most cells to train together (default: 1 on a CPU, {GPU_BATCH} on a GPU)",
    )
    bench.add_argument("--retry", action="store_true", help="run cells that failed once more")
    bench.add_argument("--dry-run", action="store_true", help="show what would be run")
    bench.add_argument("--device", default="auto", help="cpu, cuda or auto (default)")
    _arithmetic(bench)
    bench.add_argument("--out", type=Path, help="file of records (out/STUDY.jsonl)")
    bench.add_argument("--json", action="store_true", help="print the summary as JSON")
    bench.add_argument("--quiet", action="store_true", help="no progress, no summary")

    table = commands.add_parser(
        "table",
        help="a table of the paper from records, the paper's figure beside ours",
        description="Fill a table of the paper from the records of `erase bench`: mean, standard "
        "deviation and number of runs, the published figure and the difference, ranks and paired "
        "tests.",
    )
    table.set_defaults(run=_table)
    table.add_argument("name", metavar="NAME", choices=TABLES, help="see `erase list tables`")
    table.add_argument("records", metavar="RECORDS", nargs="+", type=Path, help="files of records")
    table.add_argument(
        "--format", choices=FORMATS, help="default: that of the file --out names, or md"
    )
    table.add_argument(
        "--protocol", choices=PROTOCOLS, default="paper", help="of the records: %(default)s"
    )
    table.add_argument("--out", type=Path, help="file to write to (standard output)")

    figure = commands.add_parser(
        "figure",
        help="a figure of the paper from records, the paper's values beside ours",
        description="Draw a figure of the paper from the records of `erase bench`, and from the "
        "arrays that lie beside them.",
    )
    figure.set_defaults(run=_figure)
    figure.add_argument("name", metavar="NAME", choices=FIGURES, help="see `erase list figures`")
    figure.add_argument("records", metavar="RECORDS", nargs="+", type=Path, help="files of records")
    figure.add_argument(
        "--protocol", choices=PROTOCOLS, default="paper", help="of the records: %(default)s"
    )
    figure.add_argument("--out", type=Path, help="file to write, .svg or .png (NAME.svg)")

    listing = commands.add_parser("list", help="what there is to choose from")
    listing.set_defaults(run=_list)
    listing.add_argument("kind", choices=_LISTS, metavar="|".join(_LISTS))
    listing.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _shared(
    parser: argparse.ArgumentParser, *, out: str | None, named: str = "out/GRAPH-METHOD"
) -> None:
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    parser.add_argument(
        "--device", default="auto", help="cpu, cuda or auto: a GPU if there is one (default)"
    )
    place = f"folder to write to ({out or named})"
    parser.add_argument("--out", type=Path, default=out, help=place)
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    parser.add_argument("--quiet", action="store_true", help="no progress, no table")


def _arithmetic(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--precision",
        choices=["float32", "tf32"],
        default="float32",
        help="of the encoders' forward products on a GPU: tf32 rounds their factors to ten bits; "
        "everything else is always computed in float32 (default: %(default)s)",
    )
    parser.add_argument(
        "--deterministic",
        action="store_true",
        help="on a GPU: the same bits from the same seed, more slowly; a CPU needs no asking",
    )


def _set_arithmetic(options: argparse.Namespace) -> None:
    """Tell torch, by its own switches, how to compute on a GPU."""
    if getattr(options, "precision", "float32") == "tf32":
        torch.set_float32_matmul_precision("high")
    if getattr(options, "deterministic", False):
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {value}")
    return value


def _demo(options: argparse.Namespace) -> None:
    protocol = Protocol(noise="redrawn", validation="noisy")
    clean = load_dataset("debian")
    given = given_labels(clean, "symmetric", options.rate, options.seed, protocol)
    shared = {"seed": options.seed, "device": options.device, "epochs": options.epochs}
    models: dict[str, NodeClassifier] = {
        "ERASE": ERASE.preset(dataset="debian", **shared),
        "cross-entropy": CrossEntropy(**shared),
    }
    scores: dict[str, dict[str, float]] = {}
    seconds: dict[str, float] = {}
    for name, model in models.items():
        _say(options, f"Training {name} …")
        start = time.perf_counter()
        model.fit(given, progress=not options.quiet)
        seconds[name] = time.perf_counter() - start
        scores[name] = score(model, clean, given)
    page = Path(options.out) / "report.html"
    _say(options, "Drawing the report …")
    noise = f"symmetric:{options.rate:g}"
    write_demo_report(
        page, graph=clean, given=given, models=models, scores=scores, noise=noise, seconds=seconds
    )
    summary = {
        "graph": "debian",
        "noise": noise,
        "protocol": vars(protocol),
        "seed": options.seed,
        "scores": scores,
        "seconds": seconds,
        "report": str(page),
    }
    write_json(summary, Path(options.out) / "summary.json")
    _report(options, summary, _score_table(scores), f"Open {page} in a browser.")


def _fit_together(options: argparse.Namespace) -> None:
    """Fit alone, or as one of the processes that torchrun started; the first writes and prints."""
    with joined(resolve_device(options.device)):
        if count() > 1 and options.clean:
            raise EraseError("--clean in one process", f"{count()} of them", "Audit first.")
        options.quiet = options.quiet or rank() > 0
        _fit(options)


def _fit(options: argparse.Namespace) -> None:
    clean, name = _graph(options.graph)
    options.method = options.method or _usual_method(options)
    options.preset = options.preset or "reference"
    method = _method(options)
    protocol = Protocol(
        options.draw or "redrawn",
        options.validation or ("noisy" if method.trains_on_validation else "clean"),
    )
    given = clean
    if options.noise is not None:
        noise, rate = _noise(options.noise)
        given = given_labels(clean, noise, rate, options.seed, protocol)
    elif options.draw or options.validation:
        raise EraseError(
            "--draw and --validation beside --noise", "no --noise", "Add it, or leave them out."
        )
    out = options.out or Path("out") / f"{name}-{options.method}"
    checkpoint = out / "checkpoint.safetensors"
    asked = {
        "graph": options.graph,
        **method.settings(),
        "noise": options.noise,
        "protocol": vars(protocol) if options.noise else None,
    }
    if options.resume and not checkpoint.exists() and (out / "summary.json").exists():
        _check_same_run(out / "summary.json", asked, clean=options.clean)
        finished = f"{out} holds the results of a finished run"
        _say(options, f"Nothing to resume: {finished}. Without --resume it is made anew.")
        return
    task = NodeTask.of(given)
    out.mkdir(parents=True, exist_ok=True)  # a place one cannot write to is found before training
    resume = options.resume or was_restarted()
    if not resume and rank() == 0:
        checkpoint.unlink(missing_ok=True)  # of another run: a restart must not find it
    options.checkpoint = checkpoint if method.keeps_checkpoints else None
    options.hint = " No checkpoint was kept: the same command starts anew."
    cleaned: dict[str, Any] | None = None
    if options.clean:
        _say(options, "Auditing the labels …")
        shared = {"seed": options.seed, "device": options.device}
        dataset = dataset_name(options.graph.lower())
        judge = build_method(
            DEFAULT_METHOD, dataset=dataset, **audit_params(DEFAULT_METHOD), **shared
        )
        found = audit(task, method=judge, seed=options.seed, progress=not options.quiet)
        found.save(out / "audit")
        if not found.decision.agreement.is_informative:
            raise EraseError(
                "labels that the audit can tell right from wrong, for --clean",
                str(found.decision.agreement),
                f"Leave out --clean, or label more nodes; the audit is in {out / 'audit'}.",
            )
        task = NodeTask.of(found.clean_graph(given))
        told = ("labels", "agreement", "noise_rate", "flagged", "wrong", "cannot_tell")
        cleaned = {key: found.summary()[key] for key in told}
        _say(options, f"{_audit_lines(found)}\nTraining on the corrected labels …")
    start = time.perf_counter()
    method.fit(task, checkpoint=checkpoint, resume=resume, progress=not options.quiet)
    seconds = time.perf_counter() - start
    if rank() > 0:
        return
    scores = score(method, clean, None if options.noise is None else given)
    task = task if method.trains_on_validation else task.without_validation()
    summary: dict[str, Any] = {
        **asked,
        "device": str(resolve_device(method.device)),
        "clean": cleaned,
        "labels_learnt": int((task.y >= 0).sum()),
        "best_epoch": method.best_epoch_,
        "epochs_run": len(method.history_),
        "scores": scores,
        "notes": list(method.notes_),
        "seconds": seconds,
        "version": __version__,
    }
    write_table(_predictions(method, clean, given), out / "predictions.csv")
    columns = None if method.history_ else ["epoch", "loss"]  # there are methods without epochs
    write_table(pd.DataFrame(method.history_, columns=columns), out / "history.csv")
    with atomic_write(out / "embeddings.npy", "wb") as file:
        np.save(file, method.transform(copy=False))
    method.save(out / "model.safetensors")
    write_json(summary, out / "summary.json")
    checkpoint.unlink(missing_ok=True)
    _report(options, summary, _score_table({options.method: scores}), f"Results are in {out}.")


def _check_same_run(finished: Path, asked: Mapping[str, Any], *, clean: bool) -> None:
    """Raise an EraseError where the run with the summary `finished` had other settings."""
    before = read_json(finished)
    before["clean"] = before.get("clean") is not None
    wanted = json.loads(json.dumps({**asked, "clean": clean}))
    del wanted["device"]  # where it ran is no setting of the result
    for name, value in wanted.items():
        if value != before.get(name):
            raise EraseError(
                f"--resume with the settings of the finished run in {finished.parent}",
                f"{name} {value!r} instead of {before.get(name)!r}",
                "Choose another --out, or leave out --resume to replace that run.",
            )


def _audit(options: argparse.Namespace) -> None:
    clean, name = _graph(options.graph)
    if options.all_labels:
        clean = without_splits(clean)
    usual = [f"{key}={value}" for key, value in audit_params(options.method).items()]
    options.set = [*usual, *options.set]  # a user's own come last
    judge = _method(options)
    given = clean
    if options.noise is not None:
        given = given_labels(clean, *_noise(options.noise), options.seed, PROTOCOLS["honest"])
    if options.parquet:
        need_pyarrow()
    task = NodeTask.of(given)
    check_audit(task, options.folds, options.max_false_alarms)
    out = options.out or Path("out") / f"{name}-audit"
    out.mkdir(parents=True, exist_ok=True)  # a place one cannot write to is found before training
    found = audit(
        task,
        method=judge,
        folds=options.folds,
        max_false_alarms=options.max_false_alarms,
        seed=options.seed,
        progress=not options.quiet,
    )
    found = replace(found, settings={"graph": options.graph, **found.settings})
    found.save(out, parquet=options.parquet)
    summary = found.summary()
    if unjudged := int((encode_labels(given)[0] >= 0).sum()) - summary["labels"]:
        _say(options, f"Note: {unjudged} labels of test nodes are not judged (--all-labels).")
    shown = [_audit_lines(found)]
    if found.decision.agreement.is_informative:
        shown.append(_issue_table(found))
    if options.noise is not None:
        summary |= {"noise": options.noise, "scores": score_audit(found, clean)}
        write_json(summary, out / "summary.json")
        shown.insert(1, _detection_lines(options.noise, summary["scores"]))
    _say(options, "Writing the page …")
    found.to_html(out / "report.html")
    last = f"Open {out / 'report.html'} in a browser; the list is in {out / 'issues.csv'}."
    _report(options, summary, "\n\n".join(shown), last)


def _audit_lines(found: Audit) -> str:
    """Return how well the labels are predicted, how noisy they are and what is flagged."""
    told, rate, known = found.summary(), found.decision.noise_rate, found.decision.agreement
    labels = f"{told['labels']} given labels of {told['nodes']} nodes"
    if not known.is_informative:
        return (
            f"{labels}: {known}.\nThat may be chance. The audit cannot tell how many of these "
            "labels are wrong, nor which, and flags none."
        )
    words = str(known)
    return (
        f"{labels}: {rate.value:.1%} are wrong "
        f"(90 % interval: {rate.low:.1%} to {rate.high:.1%}).\n"
        f"{words[0].upper()}{words[1:]}.\n"
        f"{told['flagged']} are flagged: {told['wrong']} with another label to suggest, "
        f"{told['cannot_tell']} where one can't tell; "
        f"{told['expected_false_alarms']:.0%} of these alarms are expected to be false."
    )


def _issue_table(found: Audit, rows: int = 10) -> str:
    """Return the most suspicious labels."""
    worst = found.issues[found.issues["is_issue"]].head(rows)
    if worst.empty:
        return "No label is suspicious enough to be flagged."
    who = "name" if "name" in worst else "node"
    columns = [who, "given", "suggested", "quality", "neighbours", "neighbours_agree"]
    shown = worst[columns].rename(columns={"neighbours_agree": "agree"})
    return str(shown.to_string(index=False, float_format="{:.2f}".format, na_rep="–"))


def _detection_lines(noise: str, scores: dict[str, float]) -> str:
    """Return how good the audit was, where the truth is known."""
    counts = f"{scores['mislabelled']} of {scores['labels']} labels"
    shares = {key: value for key, value in scores.items() if isinstance(value, float)}
    told = ", ".join(f"{key.replace('_', ' ')} {value:.3f}" for key, value in shares.items())
    return f"{noise} made {counts} wrong. Against the truth: {told}."


def _convert(options: argparse.Namespace) -> None:
    start = time.perf_counter()
    graph, target = options.graph.lower(), options.target
    if target.suffix in (".pt", ".graphml", ".gz", ".csv", ".parquet"):
        raise EraseError("a folder or FILE.npz to write", f"{str(target)!r}", "Use one of them.")
    if graph in DATASETS:
        chosen = {"seed": options.seed, **_settings(options.set, DATASETS[graph].options)}
    elif options.set:
        raise EraseError("--set with a dataset", f"{options.graph!r}", "A file has no options.")
    if target.suffix == ".npz":
        data = load_dataset(graph, **chosen) if graph in DATASETS else _graph(options.graph)[0]
        write_graph(data, target)
    elif graph in DATASETS:
        write_dataset(graph, target, **chosen)
    else:
        write_folder(_graph(options.graph)[0], target)
    written = read_graph(target)
    files = [target] if target.is_file() else target.iterdir()
    summary = {
        "graph": options.graph,
        "target": str(target),
        "nodes": written.y.shape[0],
        "edges": written.num_edges,
        "features": written.x.shape[1] if "x" in written else 0,
        "classes": len(written.class_names),
        "bytes": sum(file.stat().st_size for file in files),
        "seconds": time.perf_counter() - start,
    }
    shown = ", ".join(
        f"{summary[key]:,} {key}" for key in ("nodes", "edges", "features", "classes")
    )
    size = f"{summary['bytes'] / 1e6:,.1f} MB in {target}, {summary['seconds']:.1f} s."
    _report(options, summary, f"{shown}.", size)


def _bench(options: argparse.Namespace) -> int:
    study = read_study(options.study)
    cells = choose(study.cells(), options.only)
    check(study, cells)
    path = options.out or Path("out") / f"{Path(options.study).stem}.jsonl"
    if options.cluster and options.jobs > 1:
        raise EraseError("--jobs or --cluster", "both", "The cluster's workers are its jobs.")
    about = {"study": options.study, "records": str(path), "cells": len(cells)}
    if options.dry_run:
        recorded = {record.cell for record in read(path)} if path.exists() else set()
        found = len(recorded & set(cells))
        counts: dict[str, dict[str, int]] = {}
        for cell in cells:
            row = counts.setdefault(cell.dataset, {})
            row[cell.method] = row.get(cell.method, 0) + 1
        last = f"{len(cells)} cells, {found} of them in {path}."
        _report(options, about | {"found": found, "plan": counts}, _count_table(counts), last)
        return 0
    execution = Execution(
        options.device, options.jobs, options.threads, options.batch, options.cluster
    )
    done = run_cells(study, cells, path, execution, retry=options.retry, progress=not options.quiet)
    ran, failed = len(cells) - done.found, len(done.failures)
    summary = {"found": done.found, "ran": ran, "failed": failed, "seconds": done.seconds}
    told = f"{len(cells)} cells: {done.found} in the records before, "
    told += f"{ran} run in {done.seconds:.0f} s; {failed} failed"
    errors = [f"{record.cell}: {record.error}" for record in done.failures[:3]]
    _report(options, about | summary, "\n".join([told, *errors]), f"Records are in {path}.")
    return 1 if done.failures else 0


def _count_table(counts: dict[str, dict[str, int]]) -> str:
    """Return numbers of cells by method and dataset."""
    table = pd.DataFrame(counts).fillna(0).astype(int)
    return str(table.to_string())


def _table(options: argparse.Namespace) -> None:
    kind = options.format
    if options.out is not None and (suffix := options.out.suffix.lower()) in TABLE_FILES:
        kind = kind or TABLE_FILES[suffix]
        if TABLE_FILES[suffix] != kind:
            raise EraseError(
                f"a {suffix} file without --format, or --format {TABLE_FILES[suffix]}",
                f"--format {kind}",
                "Leave it out, or rename the file.",
            )
    records = [record for path in options.records for record in read(path)]
    text = FORMATS[kind or "md"](build(options.name, records, options.protocol))
    if options.out is None:
        print(text, end="")
        return
    with atomic_write(options.out) as file:
        file.write(text)
    print(options.out)


def _tune(options: argparse.Namespace) -> None:
    graph, name = _graph(options.graph)
    noise = _noise(options.noise) if options.noise is not None else None
    searched = {change.partition("=")[0] for change in options.space}
    asks = default_params(options.method).keys() - searched
    if noise and "noise_rate" in asks:
        options.set.insert(0, f"noise_rate={noise[1]:g}")  # to be told; a user's own comes later
    method = _method(options)
    fixed = [setting.partition("=")[0] for setting in options.set]
    space = choose_space(method, options.space, fixed)
    seeds = range(options.seed, options.seed + options.seeds)
    tasks = validation_tasks(graph, seeds, noise=noise, holdout=options.holdout)
    out = options.out or Path("out") / f"{name}-{options.method}-tune"
    about = {"graph": options.graph, "noise": options.noise, "holdout": options.holdout}
    trials = tune(
        method,
        tasks,
        seeds,
        space,
        out,
        trials=options.trials,
        seed=options.seed,
        about=about,
        watch=lambda found: _say(options, _trial_line(found, options.trials)),
    )
    save_picture(draw_slices(trials, space), out / "slices.svg")
    best = best_of(trials)
    preset = ["--preset", options.preset] if options.preset != "reference" else []
    noisy = [] if options.noise is None else ["--noise", options.noise, "--validation", "noisy"]
    told = [part for setting in options.set for part in ("--set", setting)]
    fit = ["erase", "fit", options.graph, "--method", options.method, *preset, *noisy, *told]
    command = shlex.join([*fit, *as_options(best.params)])
    trial = "trial" if len(trials) == 1 else f"{len(trials)} trials"
    shown = f"Best of {trial}: {best.score:.1%} of validation labels (number "
    _report(options, read_json(out / BEST), f"{shown}{best.number}). Written to {out}.", command)


def _trial_line(trials: Sequence[Trial], total: int) -> str:
    """Return the last trial, the best one and the time left, in a line."""
    last, best = trials[-1], max(trials, key=lambda trial: trial.score)
    result = last.error or f"{last.score:.1%}"
    left = (total - len(trials)) * sum(trial.seconds for trial in trials) / len(trials)
    time_left = f", {left:.0f} s left" if left < 100 else f", {left / 60:.0f} min left"
    return f"Trial {last.number} of {total}: {result}; best {best.score:.1%}{time_left}"


def _figure(options: argparse.Namespace) -> None:
    out = options.out or Path(f"{options.name}.svg")
    picture_kind(out)  # a name that cannot be is found before drawing
    save_picture(draw_figure(options.name, options.records, options.protocol), out)
    print(out)


def _graph(name: str) -> tuple[Data, str]:
    """Return the graph and a short name for it, to call results by."""
    if name.lower() in DATASETS:
        return load_dataset(name.lower()), name.lower()
    if not Path(name).exists() and not Path(name).suffix:
        raise EraseError(
            "a dataset's name or a file",
            f"{name!r}, which is neither",
            f"Datasets: {', '.join(DATASETS)}.",
        )
    return read_graph(name), Path(name).resolve().stem


def _usual_method(options: argparse.Namespace) -> str:
    """Return the method to fit where none is named."""

    def known(method: type[NodeClassifier]) -> set[str]:
        return set(method().get_params(deep=False))

    asked = {setting.partition("=")[0] for setting in options.set}
    needs_erase = (
        options.preset is not None
        or options.clean
        or count() > 1
        or is_folder(options.graph)
        or (asked - known(Relabelling)) & known(ERASE)
    )
    return "erase" if needs_erase else "relabelling"


def _method(options: argparse.Namespace) -> NodeClassifier:
    """Return the method with its preset, where GRAPH is a dataset's name, and the user's --set."""
    changes = {"seed": options.seed, "device": options.device}
    known = {k: v for k, v in default_params(options.method).items() if k not in changes}
    changes |= _settings(options.set, known)
    dataset = dataset_name(options.graph.lower())
    method = build_method(options.method, options.preset, dataset, **changes)
    method.check_params()
    return method


def _settings(given: Sequence[str], known: Mapping[str, Any]) -> dict[str, Any]:
    """Return what --set asks for, among the `known` names and their defaults."""
    chosen = {}
    for setting in given:
        key, equals, text = setting.partition("=")
        if not equals or key not in known:
            raise EraseError(
                f"--set KEY=VALUE with KEY among {', '.join(known)}",
                setting,
                "Correct the name; seed and device have options of their own.",
            )
        chosen[key] = _value(text, known[key])
    return chosen


def _value(text: str, default: Any) -> Any:
    """Return a parameter's value from its text: JSON where it is JSON, else the text itself."""
    if isinstance(default, tuple):
        return tuple(_value(part, default[0]) for part in text.strip("[]()").split(","))
    try:
        value = json.loads(text.lower() if isinstance(default, bool) else text)
    except json.JSONDecodeError:
        return text
    return float(value) if isinstance(default, float) and isinstance(value, int) else value


def _noise(text: str) -> tuple[str, float]:
    kind, _, rate = text.partition(":")
    try:
        return kind, float(rate)
    except ValueError:
        raise EraseError(
            "--noise KIND:RATE",
            text,
            f"Write symmetric:0.3, for example; kinds: {', '.join(NOISES)}.",
        ) from None


def _predictions(method: NodeClassifier, clean: Data, given: Data) -> pd.DataFrame:
    """Return one row a node: what was given, what is predicted, how probable."""
    told, names, _ = encode_labels(given)
    splits = read_splits(given, told)
    told = torch.where(splits.train | splits.val, told, -1)
    class_names = np.array([*names, ""])  # -1, unknown, is the last
    proba = method.predict_proba()
    columns: dict[str, Any] = {"node": np.arange(len(proba))}
    if getattr(clean, "node_names", None) is not None:
        columns["name"] = list(clean.node_names)
    columns |= {
        "given": class_names[told.numpy()],
        "predicted": class_names[proba.argmax(1)],
        "probability": proba.max(1),
        "semantic": class_names[method.fit_.outcome.labels.numpy()],
    }
    if isinstance(method, Relabelling):
        columns["quality"] = method.quality_  # of the given label
    return pd.DataFrame(columns)


_COLUMNS = {
    "test_accuracy": "test accuracy",
    "correction_rate": "wrong labels corrected",
    "accuracy_correct": "right labels kept",
}


def _score_table(scores: dict[str, dict[str, float]]) -> str:
    """Return the scores as a small table of percentages."""
    shown = [key for key in _COLUMNS if any(key in row for row in scores.values())]
    if not shown:
        return "There are no test labels to compare the predictions with."
    lines = [["method", *(_COLUMNS[key] for key in shown)]]
    for name, row in scores.items():
        lines.append([name, *(f"{100 * row[key]:.1f} %" if key in row else "–" for key in shown)])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(row))
        for row in (list(zip(line, widths, strict=True)) for line in lines)
    )


_LISTS: dict[str, Any] = {
    "methods": lambda: {k: _first_sentence(v) for k, v in METHODS.items()},
    "detectors": lambda: {k: _first_sentence(v) for k, v in DETECTORS.items()},
    "datasets": lambda: {k: v.description for k, v in DATASETS.items()},
    "noises": lambda: {k: v.summary for k, v in NOISES.items()},
    "encoders": lambda: {k: _first_sentence(v) for k, v in ENCODERS.items()},
    "heads": lambda: {k: v.summary for k, v in HEADS.items()},
    "presets": lambda: {
        k: ", ".join(f"{name}={value}" for name, value in v.items()) for k, v in RECIPES.items()
    },
    "studies": lambda: {k: f"{v.summary} ({len(v.cells())} cells)" for k, v in STUDIES.items()},
    "tables": lambda: {k: f"{v.title} (study {v.study})" for k, v in TABLES.items()},
    "figures": lambda: {k: f"{v.summary} (study {v.study})" for k, v in FIGURES.items()},
    "protocols": lambda: {
        k: f"noise {v.noise}, validation labels {v.validation}" for k, v in PROTOCOLS.items()
    },
}


def _first_sentence(documented: Any) -> str:
    return (documented.__doc__ or "").strip().split("\n")[0]


def _list(options: argparse.Namespace) -> None:
    entries: dict[str, str] = _LISTS[options.kind]()
    if options.json:
        print(json.dumps(entries, indent=2, ensure_ascii=False))
        return
    width = max(map(len, entries))
    for name, summary in entries.items():
        print(f"{name.ljust(width)}  {summary}")


def _say(options: argparse.Namespace, text: str) -> None:
    if not options.quiet:
        print(text, file=sys.stderr)


def _report(options: argparse.Namespace, summary: dict[str, Any], table: str, last: str) -> None:
    if options.json:
        print(json.dumps(summary, indent=2, ensure_ascii=False))
    elif not options.quiet:
        print(f"{table}\n\n{last}")
