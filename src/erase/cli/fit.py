"""``erase fit``."""

import time
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from json import dumps, loads
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from erase.cli import options
from erase.cli.output import Output, audit_text, hold_folder, interrupt_hint, score_table
from erase.cli.startup import starting
from erase.data.limits import physical_memory
from erase.errors import EraseError
from erase.version import __version__

if TYPE_CHECKING:
    import pandas as pd
    from torch_geometric.data import Data

    from erase.audit import Audit
    from erase.data.task import NodeTask
    from erase.methods import NodeClassifier

_RESULTS = ("predictions.csv", "history.csv", "embeddings.npy", "model.safetensors")
# what a summary repeats of the audit of --clean
_AUDITED = (
    "agreement",
    "labels",
    "at_least",
    "noise_rate",
    "assumption",
    "flagged",
    "wrong",
    "cannot_tell",
)


@options.takes_tables
def fit_method(
    graph: options.Graph,
    *,
    method: Annotated[
        str, options.choice("methods", "Method to train, whatever the other options. Methods")
    ] = "relabelling",
    preset: Annotated[
        str | None,
        options.choice(
            "presets",
            "Preset of ERASE, with --method erase. reference, the default, yields the published "
            "numbers; paper has the formulas as printed; relabelled takes its semantic labels from "
            "relabelling. Where GRAPH is the name of a dataset of the paper, its settings are "
            "used; a file has none. Presets",
        ),
    ] = None,
    settings: options.Settings,
    reviews: options.Reviews = None,
    noise: Annotated[
        str | None,
        options.noise("Corrupt the labels first, and compare the predictions with the clean ones."),
    ] = None,
    draw: Annotated[
        Literal["redrawn", "fixed"] | None,
        typer.Option(
            help="With --noise: draw it from the seed, or use the published draw.",
            show_default="redrawn",
        ),
    ] = None,
    validation: Annotated[
        Literal["clean", "noisy", "none"] | None,
        typer.Option(
            help="With --noise: validation labels stay clean, are corrupted too, or are not used. "
            "In the paper they are clean and only choose the epoch.",
            show_default="clean; noisy for a method that trains on them",
        ),
    ] = None,
    clean: Annotated[
        bool,
        typer.Option(
            "--clean",
            help="Audit the labels first, as `erase audit` does, and train on the corrected ones. "
            "In Python: model.fit(erase.audit(graph).clean_graph(graph)).",
        ),
    ] = False,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Continue an interrupted run in --out, of a method with epochs."
        ),
    ] = False,
    precision: options.Precision = "float32",
    deterministic: options.Deterministic = False,
    seed: options.Seed = 0,
    device: options.Device = "auto",
    out: Annotated[Path | None, options.target("out/GRAPH-METHOD")] = None,
    safe_csv: options.SafeCsv = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
    tables: dict[str, Any],
) -> None:
    """Train a method on a graph, and save its predictions.

    Writes predictions.csv, embeddings.npy, model.safetensors, summary.json and, of a method with
    epochs, history.csv. In predictions.csv, use the column predicted for new and unlabelled nodes,
    and corrected for labelled ones: it takes the given label into account. Under torchrun several
    processes train one model; this needs a method with batch_size, or relabelling, smoothed or
    label-propagation. The first process writes and prints.
    """
    options.set_arithmetic(precision, deterministic)
    with starting():
        import torch

        from erase.bench import Protocol, given_labels, score
        from erase.data.files import write_json
        from erase.data.task import NodeTask
        from erase.methods.base import resolve_device
        from erase.training.processes import count, joined, rank, was_restarted

    with joined(resolve_device(device)):
        if count() > 1 and clean:
            raise EraseError(
                "--clean in one process",
                f"{count()} processes",
                "Start one process, or run `erase audit` first and train on its corrected labels.",
            )
        output = Output(json, quiet or rank() > 0)
        truth, graph_name = options.load_labelled(graph, tables)
        truth = options.with_reviews(truth, reviews)
        if preset not in (None, "reference") and method != "erase":
            raise EraseError(
                f"--preset with --method erase, not {method}",
                f"--preset {preset}",
                "Add --method erase, or leave out --preset.",
            )
        model = options.method_from_options(
            method, preset or "reference", graph, settings, seed, device
        )
        _check_scale(model, graph, method, count(), output)
        protocol = Protocol(
            draw or "redrawn",
            validation or ("noisy" if model.trains_on_validation else "clean"),
        )
        given = truth
        if noise is not None:
            given = given_labels(truth, *options.parse_noise(noise), seed, protocol)
        elif draw or validation:
            raise EraseError(
                "--draw and --validation beside --noise", "no --noise", "Add it, or leave them out."
            )
        out = out or Path("out") / f"{graph_name}-{method}"
        checkpoint = out / "checkpoint.safetensors"
        task = NodeTask.of(given)
        if task.num_trusted:
            output.message(f"{task.num_trusted} of the labels are trusted.")
        asked = {
            "graph": graph,
            "tables": tables or None,
            **model.settings(),
            "noise": noise,
            "protocol": vars(protocol) if noise else None,
            "graph_sha256": _graph_digest(task, truth),
        }
        if resume and not checkpoint.exists() and (out / "summary.json").exists():
            _check_same_run(out / "summary.json", asked, clean=clean)
            output.message(
                f"Nothing to resume: {out} holds the results of a finished run. "
                "Without --resume it is made anew."
            )
            return
        resume = resume or was_restarted()
        if rank() == 0:
            hold_folder(out, "fit", graph)  # fails before training where it cannot be written
            (out / "summary.json").unlink(missing_ok=True)  # a folder without it is unfinished
            if not resume:
                checkpoint.unlink(missing_ok=True)  # of another run: a restart must not find it

        def hint() -> str:
            if model.keeps_checkpoints and checkpoint.exists():
                return "Run the same command with --resume to continue."
            return "No checkpoint was kept: the same command starts anew."

        with interrupt_hint(hint):
            found: Audit | None = None
            output.notes(task.notes)
            shown = task.notes
            if clean:
                found = _audited(task, graph, tables, seed, device, out, output)
                task, shown = NodeTask.of(found.clean_graph(given)), found.notes
            task = model.read(task)
            output.notes(note for note in task.notes if note not in shown)
            start = time.perf_counter()
            model.fit(task, checkpoint=checkpoint, resume=resume, progress=not output.quiet)
            seconds = time.perf_counter() - start
            if rank() > 0:
                return
            scores = score(model, truth, None if noise is None else given)
            task = task if model.trains_on_validation else task.without_validation()
            summary: dict[str, Any] = {
                **asked,
                "device": str(resolve_device(model.device)),
                "threads": torch.get_num_threads(),  # equal bits need an equal number of them
                "clean": None if found is None else {k: found.summary()[k] for k in _AUDITED},
                "labels_learnt": int((task.y >= 0).sum()),
                **({"trusted_labels": task.num_trusted} if task.num_trusted else {}),
                "best_epoch": model.best_epoch_,
                "epochs_run": len(model.history_),
                "scores": scores,
                "notes": list(model.notes_),
                "seconds": seconds,
                "version": __version__,
            }
            _write_results(model, truth, given, found, out, safe_csv=safe_csv)
            write_json(summary, out / "summary.json")
            checkpoint.unlink(missing_ok=True)
            last = (
                f"Results are in {out}. In predictions.csv, use the column predicted for "
                "unlabelled nodes and corrected for labelled ones."
            )
            output.report(summary, score_table({method: scores}), last)


def _check_scale(
    model: "NodeClassifier", graph: str, method: str, processes: int, output: Output
) -> None:
    """Refuse, or note, a method that needs the whole graph where it may be too large for that."""
    from erase.data.folder import folder_nodes, is_folder

    remedy, params = "--method erase --set batch_size=1000", model.get_params(deep=False)
    if processes > 1 and not model.shares_rows and "batch_size" not in params:
        raise EraseError(
            "a method that several processes can train", f"--method {method}", f"Use {remedy}."
        )
    if not is_folder(graph) or params.get("batch_size"):
        return
    size, memory = sum(file.stat().st_size for file in Path(graph).iterdir()), physical_memory()
    if model.shares_rows:  # the folder is read in parts, but for the edges
        held = 8 * folder_nodes(graph) * params.get("width", 0)
        if held > memory * processes:
            raise EraseError(
                f"reduced features that fit into {memory / 1e9:.0f} GB of memory",
                f"{held / 1e9:.0f} GB",
                f"Use more machines, --set width=64, or samples of the graph: {remedy}.",
            )
        return
    if size > memory:
        raise EraseError(
            f"a graph that fits into {memory / 1e9:.0f} GB of memory, for --method {method}",
            f"a folder of {size / 1e9:.0f} GB",
            f"Train on samples of it: {remedy}.",
        )
    output.message(
        f"Note: {method} reads the whole folder into memory. A graph larger than the memory needs "
        f"{remedy}."
    )


def _graph_digest(task: "NodeTask", truth: "Data") -> str:
    """Return a SHA-256 of what is trained on and of the labels it is scored by."""
    from erase.data.labels import encode_labels
    from erase.data.task import fingerprint

    y, class_names, values = encode_labels(truth)
    digest = sha256(fingerprint([task]).encode())
    digest.update(y.numpy().tobytes() + repr((class_names, values.tolist())).encode())
    return digest.hexdigest()


def _check_same_run(finished: Path, asked: Mapping[str, Any], *, clean: bool) -> None:
    """Raise an EraseError where the run with the summary `finished` had other settings."""
    from erase.data.files import read_json

    before = read_json(finished)
    before["clean"] = before.get("clean") is not None
    wanted = {"clean": clean, **loads(dumps(asked))}
    del wanted["device"]  # does not change the result
    for name, value in wanted.items():
        if value != before.get(name) and name == "graph_sha256":
            raise EraseError(
                f"--resume with the graph of the finished run in {finished.parent}",
                f"{asked['graph']}, which has changed since",
                "Leave out --resume to train on the changed graph, or choose another --out.",
            )
        if value != before.get(name):
            raise EraseError(
                f"--resume with the settings of the finished run in {finished.parent}",
                f"{name} {value!r} instead of {before.get(name)!r}",
                "Choose another --out, or leave out --resume to replace that run.",
            )


def _audited(
    task: "NodeTask",
    graph: str,
    tables: dict[str, Any],
    seed: int,
    device: str,
    out: Path,
    output: Output,
) -> "Audit":
    """Return the audit that corrects the labels of a task, and write its files."""
    from erase.audit import DEFAULT_METHOD, audit, audit_params
    from erase.data.datasets import dataset_name
    from erase.methods import build_method

    output.message("Auditing the labels …")
    changes = audit_params(DEFAULT_METHOD) | {"seed": seed, "device": device}
    model = build_method(DEFAULT_METHOD, dataset=dataset_name(graph), **changes)
    found = audit(task, method=model, seed=seed, progress=not output.quiet)
    found = replace(found, settings={"graph": graph, "tables": tables, **found.settings})
    found.save(out / "audit")
    if not found.decision.agreement.is_informative:
        raise EraseError(
            "labels that the audit can tell right from wrong, for --clean",
            str(found.decision.agreement),
            f"Leave out --clean, or label more nodes; the audit is in {out / 'audit'}.",
        )
    output.message(f"{audit_text(found)}\nTraining on the corrected labels …")
    return found


def _write_results(
    model: "NodeClassifier",
    truth: "Data",
    given: "Data",
    found: "Audit | None",
    out: Path,
    *,
    safe_csv: bool,
) -> None:
    """Write predictions, history, embeddings and the model."""
    import numpy as np
    import pandas as pd

    from erase.data.files import atomic_write, write_table

    for name in _RESULTS:  # of a run before: one that is killed leaves no mixture
        (out / name).unlink(missing_ok=True)
    predictions = _predictions(model, truth, given, found)
    write_table(predictions, out / "predictions.csv", safe_csv=safe_csv)
    if model.history_:  # some methods have no epochs
        write_table(pd.DataFrame(model.history_), out / "history.csv")
    with atomic_write(out / "embeddings.npy", "wb") as file:
        np.save(file, model.transform(copy=False))
    model.save(out / "model.safetensors")


def _predictions(
    model: "NodeClassifier", truth: "Data", given: "Data", found: "Audit | None"
) -> "pd.DataFrame":
    """Return a row for each node: its given label, its predicted one, and the corrected one.

    ``predicted`` is for nodes without a label. ``corrected`` is the method's own label, which for
    relabelling and ERASE takes the given one into account; other methods repeat the prediction.
    """
    import numpy as np
    import pandas as pd
    import torch

    from erase.data.fields import field, node_columns
    from erase.data.labels import encode_labels
    from erase.data.splits import read_splits
    from erase.methods import Relabelling

    y, class_names, _ = encode_labels(given)
    splits = read_splits(given, y)
    y = torch.where(splits.train | splits.val, y, -1)
    shown = np.array([*class_names, ""])  # -1, unknown, is the last
    proba = model.predict_proba()
    ids, names = field(truth, "node_ids"), field(truth, "node_names")
    columns = node_columns(np.arange(len(proba)), ids, names) | {
        "given": shown[y.numpy()],
        "predicted": shown[proba.argmax(1)],
        "probability": proba.max(1),
        "corrected": shown[model.fit_.outcome.labels.numpy()],
    }
    # of the given label; with --clean the model was fitted to others
    if found is not None:
        columns["quality"] = np.full(len(proba), np.nan)
        columns["quality"][found.given >= 0] = found.decision.quality
    elif isinstance(model, Relabelling):
        columns["quality"] = model.quality_
    return pd.DataFrame(columns)
