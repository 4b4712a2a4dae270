"""Search for parameters: Optuna over a method's `space`, scored on validation labels only.

Trials are given tasks, which hold no test label. Validation labels choose the epoch of
every run and the parameters as well, so the best score is too optimistic: evaluate the result once
on test nodes, with ``erase fit``.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from msgspec import convert
from sklearn.base import clone
from torch_geometric.data import Data

from erase.audit.report.drawing import Slice, slices
from erase.bench.records import check_regular, locked
from erase.bench.run import PROTOCOLS, given_labels
from erase.data.files import read_json, write_json, write_table
from erase.data.parts import make_folder
from erase.data.task import NodeTask, fingerprint
from erase.errors import EraseError, damage_errors
from erase.methods import NodeClassifier
from erase.methods.base import Number, OneOf, Range
from erase.random import numpy_stream

Space = Mapping[str, Range | OneOf]

SETTINGS, JOURNAL = "settings.json", "journal.log"
TRIALS, BEST = "trials.csv", "best.json"


@dataclass(frozen=True)
class Trial:
    """Parameters that were tried.

    Attributes:
        number: counted from 1.
        params: values of the searched parameters.
        score: mean validation accuracy over the runs, a share of 1; 0 where they failed.
        std: sample standard deviation over the runs; 0 of one run.
        seconds: that the runs took.
        error: why they failed, or "".
    """

    number: int
    params: dict[str, Any]
    score: float
    std: float
    seconds: float
    error: str = ""


def validation_tasks(
    graph: Data,
    seeds: Sequence[int],
    *,
    noise: tuple[str, float] | None = None,
    holdout: float | None = None,
) -> list[NodeTask]:
    """Return what runs may see of a graph: a task for each seed, or one for all without noise.

    Args:
        graph: with labels; those of test nodes go no further.
        seeds: of the runs.
        noise: kind and rate; redrawn for every seed on training and validation labels alike.
        holdout: share of the training labels of each class to validate on, for a graph without
            validation labels; at least one of each class stays.
    """
    if noise is None:
        tasks = [NodeTask.from_data(graph)]
    else:
        given = [given_labels(graph, *noise, seed, PROTOCOLS["honest"]) for seed in seeds]
        first = NodeTask.from_data(given[0])
        tasks = [first] + [
            replace(NodeTask.from_data(other), x=first.x, edge_index=first.edge_index)
            for other in given[1:]
        ]
    labels = len(tasks[0].val_index)
    if holdout is None and not labels:
        raise EraseError(
            "validation labels to compare parameters by",
            "a graph without any",
            "Make a split with validation nodes, or hold out training labels: --holdout 0.2.",
        )
    if holdout is not None and labels:
        raise EraseError(
            "no holdout for a graph that has validation labels",
            f"{labels} of them, and holdout={holdout:g}",
            "Leave --holdout out.",
        )
    return tasks if holdout is None else _held_out(tasks, holdout, seeds[0])


def _held_out(tasks: Sequence[NodeTask], share: float, seed: int) -> list[NodeTask]:
    """Return the tasks with the same part of their training nodes moved to validation."""
    if not 0 < share < 1:
        raise EraseError("a holdout between 0 and 1", f"{share:g}", "Try --holdout 0.2.")
    y, train = tasks[0].y.numpy(), tasks[0].train_index.numpy()
    order = numpy_stream(seed, "holdout").permutation(train)
    classes = [order[y[order] == k] for k in range(tasks[0].num_classes)]
    moved = [of_class[: min(round(share * len(of_class)), len(of_class) - 1)]
             for of_class in classes if len(of_class)]  # fmt: skip
    val = torch.zeros_like(tasks[0].val_mask)
    val[torch.from_numpy(np.concatenate(moved))] = True
    if not bool(val.any()):
        raise EraseError(
            "training labels to hold out",
            f"too few for a share of {share:g}",
            "Raise --holdout, or give more labels.",
        )
    return [replace(task, train_mask=task.train_mask & ~val, val_mask=val) for task in tasks]


def choose_space(
    method: NodeClassifier, changes: Sequence[str], fixed: Sequence[str] = ()
) -> Space:
    """Return the method's space with a user's changes, without parameters that are `fixed`.

    Args:
        method: declares `space` and `constraints`.
        changes: ``key=low:high``, ``key=low:high:log``, or ``key=a,b,c`` for a few values.
        fixed: names that are not searched.

    >>> from erase.methods import METHODS
    >>> choose_space(METHODS["gce"](), ["q=0.5:0.9"], ["lr", "dropout", "weight_decay"])
    {'q': Range(low=0.5, high=0.9, log=False, whole=False)}
    """
    space = dict(method.space)
    known = {k: v for k, v in method.get_params(deep=False).items() if k not in ("seed", "device")}
    for change in changes:
        key, equals, text = change.partition("=")
        if not equals or key not in known:
            raise EraseError(
                f"--space KEY=LOW:HIGH with KEY among {', '.join(known)}",
                change,
                "Correct the name.",
            )
        if key in fixed:
            raise EraseError(
                "a parameter to be set or searched", f"{key}: both", "Leave out --set or --space."
            )
        space[key] = _range(key, text, method, space.get(key), known[key])
    space = {key: values for key, values in space.items() if key not in fixed}
    if not space:
        raise EraseError(
            "parameters to search over",
            f"none of {type(method).__name__}",
            "Name some: --space KEY=LOW:HIGH.",
        )
    return space


def _range(
    key: str, text: str, method: NodeClassifier, declared: Range | OneOf | None, default: Any
) -> Range | OneOf:
    """Return a range or a choice from its text, checked against the method's constraint."""
    constraint = method.constraints.get(key)
    found: Range | OneOf
    if ":" in text:
        low, high, *rest = text.split(":")
        whole = isinstance(constraint, Number) and constraint.whole
        log = (isinstance(declared, Range) and declared.log) or rest == ["log"]
        try:
            found = Range(float(low), float(high), log, whole)
        except ValueError:
            raise _wrong_space(key, text) from None
        if rest not in ([], ["log"]) or found.low >= found.high or (log and found.low <= 0):
            raise _wrong_space(key, text)
        ends = [int(end) if whole and end.is_integer() else end for end in (found.low, found.high)]
    else:
        ends = [_choice(part, default) for part in text.split(",")]
        found = OneOf(tuple(ends))
    for end in ends:
        if constraint is not None and not constraint.accepts(end):
            raise EraseError(f"{key} to be {constraint}", f"--space {key}={text}", "Correct it.")
    return found


def _wrong_space(key: str, text: str) -> EraseError:
    return EraseError(
        f"--space {key}=LOW:HIGH or LOW:HIGH:log with LOW < HIGH, or a few values A,B,C",
        f"{key}={text}",
        "Write, for example, --space eps2=0.01:1:log.",
    )


def _choice(text: str, default: Any) -> Any:
    with suppress(json.JSONDecodeError):
        value = json.loads(text.lower() if isinstance(default, bool) else text)
        return float(value) if isinstance(default, float) and isinstance(value, int) else value
    return text


def tune(
    method: NodeClassifier,
    tasks: Sequence[NodeTask],
    seeds: Sequence[int],
    space: Space,
    folder: Path,
    *,
    trials: int = 50,
    seed: int = 0,
    about: Mapping[str, Any] | None = None,
    watch: Callable[[list[Trial]], None] | None = None,
) -> list[Trial]:
    """Try parameters until `folder` holds `trials` trials, and return them all.

    The first trial is the method as it is. Each later one depends on the trials before it and on
    `seed` only: a search that was killed and is called again finds what an unbroken one does.
    Writes ``trials.csv`` and ``best.json`` after every trial.

    Args:
        method: with the parameters that are not searched.
        tasks: [R] one graph with each run's labels, or one task for all runs.
        seeds: [R] of the runs of a trial, trained together.
        space: where to search, by parameter.
        folder: of this search alone; its journal is Optuna's.
        trials: how many in all.
        seed: of the sampler.
        about: what else identifies this search; goes into ``best.json``.
        watch: called with all trials after each.
    """
    optuna = _optuna()
    settings = {**(about or {}), **_settings(method, tasks, seeds, space, seed)}
    usual = type(method)().get_params(deep=False) | {"seed": method.seed, "device": method.device}
    fixed = {k: v for k, v in method.get_params(deep=False).items() if v != usual[k]}
    make_folder(folder)
    with _owned(folder), _quiet(optuna):
        _check_settings(folder, settings)
        backend = optuna.storages.journal.JournalFileBackend(str(folder / JOURNAL))
        with damage_errors("the journal of a search", folder / JOURNAL, "Choose another --out."):
            study = optuna.create_study(
                storage=optuna.storages.JournalStorage(backend),
                study_name="tune",
                direction="maximize",
                load_if_exists=True,
            )
            running = [optuna.trial.TrialState.RUNNING]
            for trial in study.get_trials(deepcopy=False, states=running):
                study.tell(trial.number, state=optuna.trial.TrialState.FAIL)  # it was killed
            found = _finished(study, optuna, space)
        while len(found) < trials:
            trial = _ask(study, optuna, seed, len(found), method if not found else None, space)
            params = {name: _suggest(trial, name, values) for name, values in space.items()}
            result = _run(len(found) + 1, clone(method).set_params(**params), params, tasks, seeds)
            for name in ("std", "seconds", "error"):
                trial.set_user_attr(name, getattr(result, name))
            study.tell(trial, result.score)
            found.append(result)
            _write(folder, found, settings, fixed)
            if watch is not None:
                watch(found)
        _write(folder, found, settings, fixed)
    return found


def best_of(trials: Sequence[Trial]) -> Trial:
    """Return the first trial with the highest score; if all failed, raise why the first did."""
    best = max(trials, key=lambda trial: trial.score)
    if best.error:
        raise EraseError("a trial that can be trained", best.error, "Narrow the space.")
    return best


def draw_slices(trials: Sequence[Trial], space: Space) -> Figure:
    """Draw the score of every trial over each parameter; the best one is ringed."""
    shown = [
        Slice(name, [trial.params[name] for trial in trials], getattr(values, "log", False))
        for name, values in space.items()
    ]
    scores = [trial.score for trial in trials]
    return slices(shown, scores, trials.index(best_of(trials)), "validation accuracy")


def as_options(params: Mapping[str, Any]) -> list[str]:
    """Return parameters as ``erase fit`` takes them.

    >>> as_options({"keep": 0.5, "denoise": True, "encoder": "gcn"})
    ['--set', 'keep=0.5', '--set', 'denoise=true', '--set', 'encoder=gcn']
    """
    texts = {k: v if isinstance(v, str) else json.dumps(v) for k, v in params.items()}
    return [part for key, text in texts.items() for part in ("--set", f"{key}={text}")]


def _run(
    number: int,
    method: NodeClassifier,
    params: dict[str, Any],
    tasks: Sequence[NodeTask],
    seeds: Sequence[int],
) -> Trial:
    """Train the runs of a trial and score them on each task's own validation labels."""
    start = time.perf_counter()
    try:
        _train_on_training_labels(method)
        models = method.fit_many(tasks, seeds)
    except EraseError as error:  # such as a loss that diverges
        return Trial(number, params, 0.0, 0.0, time.perf_counter() - start, str(error))
    shares = []
    for model, task in zip(models, [*tasks] * (len(seeds) // len(tasks)), strict=True):
        nodes = task.val_index.numpy()
        predicted = model.predict_proba().argmax(1)[nodes]
        shares.append(float(np.mean(predicted == task.learning_labels.numpy()[nodes])))
    std = float(np.std(shares, ddof=1)) if len(shares) > 1 else 0.0
    return Trial(number, params, float(np.mean(shares)), std, time.perf_counter() - start)


def _train_on_training_labels(method: NodeClassifier) -> None:
    """Make a method train without validation labels, which are needed to score it."""
    if not method.trains_on_validation:
        return
    if "validation" not in method.get_params(deep=False):
        raise EraseError(
            "a method that leaves validation labels to compare parameters by",
            f"{type(method).__name__} with these parameters, which trains on them",
            "Tune it without them, e.g. another value of semantics.",
        )
    method.set_params(validation=False)


def _ask(
    study: Any, optuna: Any, seed: int, done: int, first: NodeClassifier | None, space: Space
) -> Any:
    """Return Optuna's next trial; its draw depends only on the trials before it and the seed."""
    draw = int(numpy_stream(seed, f"trial {done}").integers(2**31))
    study.sampler = optuna.samplers.TPESampler(seed=draw)
    if first is not None and not study.get_trials(
        deepcopy=False, states=[optuna.trial.TrialState.WAITING]
    ):
        usual = first.get_params(deep=False)
        study.enqueue_trial({k: usual[k] for k, v in space.items() if _contains(v, usual[k])})
    return study.ask()


def _contains(values: Range | OneOf, value: Any) -> bool:
    if isinstance(values, OneOf):
        return values.accepts(value)
    return bool(values.low <= value <= values.high)


def _suggest(trial: Any, name: str, values: Range | OneOf) -> Any:
    if isinstance(values, OneOf):
        return trial.suggest_categorical(name, values.values)
    if values.whole:
        return trial.suggest_int(name, int(values.low), int(values.high), log=values.log)
    return trial.suggest_float(name, values.low, values.high, log=values.log)


def _finished(study: Any, optuna: Any, space: Space) -> list[Trial]:
    """Return the completed trials, in their order; a ValueError for what is none of this space."""
    completed = study.get_trials(deepcopy=False, states=[optuna.trial.TrialState.COMPLETE])
    found = []
    for number, trial in enumerate(completed, start=1):
        told = {"number": number, "params": trial.params, "score": trial.value, **trial.user_attrs}
        found.append(convert(told, Trial))
        is_inside = trial.params.keys() == space.keys() and all(
            _contains(space[name], value) for name, value in trial.params.items()
        )
        if not is_inside or not 0 <= found[-1].score <= 1:
            raise ValueError(f"trial {number} is none of this search")
    return found


def _write(
    folder: Path, trials: Sequence[Trial], settings: Mapping[str, Any], fixed: Mapping[str, Any]
) -> None:
    rows = [{k: v for k, v in asdict(t).items() if k != "params"} | t.params for t in trials]
    write_table(pd.DataFrame(rows), folder / TRIALS)
    with suppress(EraseError):  # as long as all failed, there is no best
        best = best_of(trials)
        chosen = {
            "params": best.params,
            "options": as_options({**fixed, **best.params}),
            "validation_accuracy": best.score,
            "std": best.std,
            "trial": best.number,
            "trials": len(trials),
        }
        write_json({**chosen, **settings}, folder / BEST)


def _settings(
    method: NodeClassifier, tasks: Sequence[NodeTask], seeds: Sequence[int], space: Space, seed: int
) -> dict[str, Any]:
    """Return all that trials depend on, as JSON."""
    own = {k: v for k, v in method.settings().items() if k not in ("seed", "device")}
    ranges = {
        name: list(values.values) if isinstance(values, OneOf) else asdict(values)
        for name, values in space.items()
    }
    return {
        "method": own.pop("method"),
        "start": own,
        "space": ranges,
        "seeds": list(seeds),
        "seed": seed,
        "validation_labels": len(tasks[0].val_index),
        "graph_sha256": fingerprint(tasks),
    }


def _check_settings(folder: Path, settings: Mapping[str, Any]) -> None:
    """Write the settings of a new search; refuse to continue one with others."""
    path = folder / SETTINGS
    if not path.exists():
        write_json(settings, path)
        return
    before = read_json(path)
    now = json.loads(json.dumps(settings))
    for name in now:
        if (given := now[name]) != (kept := before.get(name)):
            if isinstance(given, dict) and isinstance(kept, dict):
                given = {k: v for k, v in given.items() if v != kept.get(k)}
                kept = {k: v for k, v in kept.items() if v != now[name].get(k)}
            raise EraseError(
                f"the settings of the search in {folder}",
                f"{name} {given} instead of {kept}",
                "Repeat the command it was started with, or choose another --out.",
            )


@contextmanager
def _owned(folder: Path) -> Iterator[None]:
    """Hold the folder for this process; repair what a killed one left in Optuna's journal."""
    path = folder / JOURNAL
    check_regular(path)
    refusal = EraseError(
        f"{folder} to be free",
        "a folder that another `erase tune` is writing to",
        "Wait for it, or choose another --out.",
    )
    with locked(path, refusal):
        with open(path, "a+b") as file:
            file.seek(0)
            content = file.read()
            file.truncate(content.rfind(b"\n") + 1)  # a line that was torn
        path.with_name(f"{path.name}.lock").unlink(missing_ok=True)  # Optuna would wait for it
        yield


@contextmanager
def _quiet(optuna: Any) -> Iterator[None]:
    """Keep Optuna from writing to stderr: `watch` shows the progress."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


def _optuna() -> Any:
    if find_spec("optuna") is None:
        raise EraseError(
            "Optuna, to search for parameters",
            "an installation without it",
            "Run pip install 'graph-erase[tune]'.",
        )
    import optuna

    return optuna
