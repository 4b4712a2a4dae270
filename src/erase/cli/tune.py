"""``erase tune``."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from erase.cli import options
from erase.cli.output import Output, interrupt_hint
from erase.cli.startup import starting
from erase.display import table_words

if TYPE_CHECKING:
    from erase.bench.tune import Trial


@options.takes_tables
def tune_method(
    graph: options.Graph,
    *,
    method: Annotated[
        str, options.choice("methods", "Method whose parameters are searched")
    ] = "erase",
    preset: options.Preset = "reference",
    trials: Annotated[
        int, options.count("Number of trials, earlier ones included.", most=100_000)
    ] = 50,
    seeds: Annotated[int, options.count("Runs of each trial.", most=1000)] = 3,
    space: Annotated[
        list[str],
        options.repeated(
            "--space",
            "KEY=LOW:HIGH",
            "Search a parameter in this range, with LOW:HIGH:log on a logarithmic scale, or among "
            "the values A,B,C. The method declares the other parameters.",
        ),
    ],
    settings: options.Settings,
    noise: Annotated[
        str | None,
        options.noise(
            "Corrupt training and validation labels first, with another draw for every run."
        ),
    ] = None,
    holdout: Annotated[
        float | None,
        options.share(
            "Validate on this share of the training labels, for a graph without validation labels."
        ),
    ] = None,
    precision: options.Precision = "float32",
    deterministic: options.Deterministic = False,
    seed: options.Seed = 0,
    device: options.Device = "auto",
    out: Annotated[Path | None, options.target("out/GRAPH-METHOD-tune")] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
    tables: dict[str, Any],
) -> None:
    """Search for a method's parameters on validation labels.

    Optuna searches the space that the method declares. Trials are scored on validation labels,
    noisy ones with --noise; test labels are never used. The same command continues an interrupted
    search. Writes trials.csv, best.json and slices.svg.
    """
    options.set_arithmetic(precision, deterministic)
    with starting():
        from erase.audit.report.drawing import save_picture
        from erase.bench.tune import (
            BEST,
            as_options,
            best_of,
            choose_space,
            draw_slices,
            tune,
            validation_tasks,
        )
        from erase.data.files import read_json
        from erase.methods import default_params

    output = Output(json, quiet)
    with interrupt_hint(lambda: "The same command continues."):
        data, name = options.load_labelled(graph, tables)
        kind_and_rate = None if noise is None else options.parse_noise(noise)
        searched = {change.partition("=")[0] for change in space}
        if kind_and_rate and "noise_rate" in default_params(method).keys() - searched:
            settings = [f"noise_rate={kind_and_rate[1]:g}", *settings]  # a user's own comes later
        model = options.method_from_options(method, preset, graph, settings, seed, device)
        ranges = choose_space(model, space, [setting.partition("=")[0] for setting in settings])
        runs = range(seed, seed + seeds)
        tasks = validation_tasks(data, runs, noise=kind_and_rate, holdout=holdout)
        out = out or Path("out") / f"{name}-{method}-tune"
        about: dict[str, Any] = {"graph": graph, "noise": noise, "holdout": holdout}
        about |= {"tables": tables} if tables else {}
        with output.progress(trials) as show:
            done = tune(
                model,
                tasks,
                runs,
                ranges,
                out,
                trials=trials,
                seed=seed,
                about=about,
                watch=lambda found: show(len(found), _trial_line(found, trials)),
            )
        save_picture(draw_slices(done, ranges), out / "slices.svg")
    best = best_of(done)
    preset_option = ["--preset", preset] if preset != "reference" else []
    noise_options = [] if noise is None else ["--noise", noise, "--validation", "noisy"]
    set_options = [part for setting in settings for part in ("--set", setting)]
    fit = ["erase", "fit", graph, *table_words(tables), "--method", method]
    fit += [*preset_option, *noise_options, *set_options]
    command = shlex.join([*fit, *as_options(best.params)])
    number = "trial" if len(done) == 1 else f"{len(done)} trials"
    text = f"Best of {number}: {best.score:.1%} of validation labels (number {best.number}). "
    output.report(read_json(out / BEST), f"{text}Written to {out}.", command)


def _trial_line(trials: "Sequence[Trial]", total: int) -> str:
    """Return the last trial, the best one and the time left, in a line."""
    last, best = trials[-1], max(trials, key=lambda trial: trial.score)
    result = last.error or f"{last.score:.1%}"
    left = (total - len(trials)) * sum(trial.seconds for trial in trials) / len(trials)
    time_left = f", {left:.0f} s left" if left < 100 else f", {left / 60:.0f} min left"
    return f"Trial {last.number} of {total}: {result}; best {best.score:.1%}{time_left}"
