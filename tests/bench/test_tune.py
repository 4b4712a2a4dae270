"""A search sees validation labels alone, and continues where it was killed."""

import csv
import inspect
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pandas as pd
import pytest
import torch
from torch_geometric.data import Data

import forked
from erase.bench import PROTOCOLS, given_labels
from erase.bench.tune import (
    Trial,
    _suggest,
    as_options,
    best_of,
    choose_space,
    draw_slices,
    tune,
    validation_tasks,
)
from erase.cli import main
from erase.data.files import write_graph
from erase.data.task import NodeTask
from erase.errors import EraseError
from erase.methods import ERASE, METHODS, CrossEntropy
from erase.methods.base import NodeClassifier, OneOf, Range
from graphs import two_communities

SPACE: dict[str, Range | OneOf] = {
    "lr": Range(1e-4, 1e-1, log=True),
    "hidden": Range(2, 8, whole=True),
    "encoder": OneOf(("gat", "gcn")),
}
SEEDS = (0, 1)


def network(**changes: Any) -> CrossEntropy:
    return CrossEntropy(**{"hidden": 4, "heads": 1, "epochs": 3, "device": "cpu", **changes})


def graph() -> Data:
    return two_communities(size=20, classes=3)


def search(folder: Path, trials: int = 4, **changes: Any) -> list[Trial]:
    arguments: dict[str, Any] = {"method": network(), "seeds": SEEDS, "space": SPACE, **changes}
    tasks = arguments.pop("tasks", None) or validation_tasks(graph(), arguments["seeds"])
    return tune(tasks=tasks, folder=folder, trials=trials, **arguments)


def timeless(trials: list[Trial]) -> list[Trial]:
    return [replace(trial, seconds=0.0) for trial in trials]


# What is searched ---------------------------------------------------------------------------------


def test_a_change_replaces_the_declared_range_and_keeps_its_kind() -> None:
    space = choose_space(
        ERASE(), ["eps2=0.05:0.5", "steps=2:8", "encoder=gat,gcn", "gamma=1:9:log"]
    )
    assert space["eps2"] == Range(0.05, 0.5, log=True)  # declared by its logarithm
    assert space["steps"] == Range(2, 8, whole=True)
    assert space["encoder"] == OneOf(("gat", "gcn"))  # not declared
    assert space["gamma"] == Range(1, 9, log=True)
    assert space["keep"] == ERASE.space["keep"]
    assert list(ERASE.space) == [name for name in space if name != "encoder"]


def test_values_of_a_choice_have_the_type_of_the_parameter() -> None:
    space = choose_space(ERASE(), ["trust=0,1", "denoise=true,False", "steps=1,2"])
    assert space["trust"] == OneOf((0.0, 1.0))
    assert [type(v) for v in space["trust"].values] == [float, float]
    assert space["denoise"] == OneOf((True, False))
    assert space["steps"] == OneOf((1, 2))


def test_fixed_parameters_are_not_searched() -> None:
    assert list(choose_space(network(), [], ["lr", "dropout"])) == ["weight_decay"]
    with pytest.raises(EraseError, match="parameters to search"):
        choose_space(network(), [], list(CrossEntropy.space))
    with pytest.raises(EraseError, match="set or searched; got lr: both"):
        choose_space(network(), ["lr=0.1:1"], ["lr"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("lrr=0:1", "KEY among batch_size, dropout, encoder"),
        ("seed=0:9", "KEY among batch_size, dropout, encoder"),
        ("lr", "KEY among batch_size, dropout, encoder"),
        ("lr=a:b", "LOW:HIGH"),
        ("lr=0.1:0.01", "LOW < HIGH"),
        ("lr=0:1", "LOW:HIGH"),  # by its logarithm
        ("hidden=1:2:linear", "LOW:HIGH:log"),
        ("hidden=0:4", "hidden to be a whole number ≥ 1"),
        ("hidden=1.5:4", "hidden to be a whole number ≥ 1"),
        ("encoder=gat,gta", "encoder to be one of"),
    ],
)
def test_a_space_that_cannot_be_is_refused(change: str, message: str) -> None:
    with pytest.raises(EraseError, match=message):
        choose_space(network(), [change])


# What a search sees -------------------------------------------------------------------------------


def test_a_search_gets_tasks_and_tasks_hold_no_test_label() -> None:
    parameters = inspect.signature(tune).parameters
    assert not any("Data" in str(p.annotation) for p in parameters.values())
    data = graph()
    for noise in (None, ("symmetric", 0.4)):
        for task in validation_tasks(data, SEEDS, noise=noise):
            assert (task.y[data.test_mask] == -1).all()


def test_noise_is_redrawn_for_every_run_on_validation_labels_too() -> None:
    data = graph()
    first, second = validation_tasks(data, [5, 6], noise=("symmetric", 0.4))
    for task, seed in ((first, 5), (second, 6)):
        given = given_labels(data, "symmetric", 0.4, seed, PROTOCOLS["honest"])
        assert torch.equal(task.y, NodeTask.from_data(given).y)
    assert not torch.equal(first.y[first.val_index], second.y[second.val_index])
    assert first.x is second.x


def test_scores_are_the_mean_accuracy_on_the_tasks_own_labels(tmp_path: Path) -> None:
    tasks = validation_tasks(graph(), SEEDS, noise=("symmetric", 0.4))
    for trial in search(tmp_path, 3, tasks=tasks):
        shares = []
        for task, seed in zip(tasks, SEEDS, strict=True):
            model = network(seed=seed, **trial.params).fit(task)
            hits = model.predict()[task.val_index] == task.y[task.val_index].numpy()
            shares.append(hits.mean())
        assert trial.score == pytest.approx(np.mean(shares))
        assert trial.std == pytest.approx(np.std(shares, ddof=1))


def test_labels_that_score_a_run_do_not_train_it(tmp_path: Path) -> None:
    tasks = validation_tasks(graph(), SEEDS[:1], noise=("symmetric", 0.4))
    method, nodes = METHODS["smoothed"](device="cpu"), tasks[0].val_index
    space = {"strength": method.space["strength"]}
    (trial,) = search(tmp_path, 1, tasks=tasks, method=method, seeds=SEEDS[:1], space=space)

    def accuracy(validation: bool) -> float:
        model = METHODS["smoothed"](device="cpu", validation=validation).fit(tasks[0])
        return float((model.predict()[nodes] == tasks[0].y[nodes].numpy()).mean())

    assert trial.score == pytest.approx(accuracy(validation=False))
    assert trial.score < accuracy(validation=True)


@pytest.mark.parametrize("name", [name for name in METHODS if METHODS[name].space])
def test_no_trial_trains_on_validation_labels(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[bool] = []

    def watched(self: NodeClassifier, *_: Any) -> list[NodeClassifier]:
        found.append(self.trains_on_validation)
        raise EraseError("nothing", "enough", "Stop.")

    monkeypatch.setattr(NodeClassifier, "fit_many", watched)
    method = METHODS[name](device="cpu")
    search(tmp_path, 2, method=method, seeds=SEEDS[:1], space=method.space)
    assert found == [False, False]


def test_a_method_that_must_train_on_validation_labels_is_not_scored_by_them(
    tmp_path: Path,
) -> None:
    method = METHODS["erase"](device="cpu", semantics="relabelling", epochs=2)
    space = {"trust": method.space["trust"]}
    (trial,) = search(tmp_path, 1, method=method, seeds=SEEDS[:1], space=space)
    assert trial.score == 0.0
    assert trial.error is not None
    assert "which trains on them" in trial.error


def test_validation_labels_matter(tmp_path: Path) -> None:
    tasks = validation_tasks(graph(), SEEDS)
    y = tasks[0].y.clone()
    y[tasks[0].val_index] = (y[tasks[0].val_index] + 1) % 3
    other = search(tmp_path / "b", tasks=[replace(tasks[0], y=y)])
    assert [t.score for t in search(tmp_path / "a")] != [t.score for t in other]


def test_without_validation_labels_there_is_nothing_to_compare_by() -> None:
    data = graph()
    del data.val_mask
    with pytest.raises(EraseError, match=r"--holdout 0\.2"):
        validation_tasks(data, SEEDS)


def test_a_holdout_is_a_share_of_every_class_and_the_same_for_all_runs() -> None:
    data = graph()
    data.train_mask |= data.val_mask
    del data.val_mask
    before = NodeTask.from_data(data)
    first, second = validation_tasks(data, SEEDS, noise=("symmetric", 0.0), holdout=0.2)
    assert torch.equal(first.val_mask, second.val_mask)
    assert not (first.val_mask & first.train_mask).any()
    assert torch.equal(first.val_mask | first.train_mask, before.train_mask)
    sizes = torch.bincount(before.y[before.train_mask])
    held = torch.bincount(first.y[first.val_mask], minlength=3)
    assert held.tolist() == [round(0.2 * n) for n in sizes.tolist()]
    (other,) = validation_tasks(data, [9], holdout=0.2)
    assert not torch.equal(first.val_mask, other.val_mask)


def test_a_holdout_leaves_a_label_of_every_class() -> None:
    data = graph()
    data.train_mask[:] = False
    data.train_mask[:7] = True  # 3, 2 and 2 labels
    del data.val_mask
    (task,) = validation_tasks(data, [0], holdout=0.9)
    assert torch.bincount(task.y[task.train_mask]).tolist() == [1, 1, 1]
    data.train_mask[3:] = False
    with pytest.raises(EraseError, match="too few"):
        validation_tasks(data, [0], holdout=0.9)


@pytest.mark.parametrize("share", [0.0, 1.0, -0.2, float("nan")])
def test_a_holdout_is_a_share(share: float) -> None:
    data = graph()
    del data.val_mask
    with pytest.raises(EraseError, match="between 0 and 1"):
        validation_tasks(data, SEEDS, holdout=share)


def test_a_holdout_beside_validation_labels_is_refused() -> None:
    with pytest.raises(EraseError, match="15 of them"):
        validation_tasks(graph(), SEEDS, holdout=0.2)


# Trials -------------------------------------------------------------------------------------------


def test_one_seed_gives_one_search(tmp_path: Path) -> None:
    first, again = (search(tmp_path / name, 12) for name in "ab")  # ten are random, two are TPE's
    other = search(tmp_path / "c", 3, seed=1)
    assert timeless(first) == timeless(again)
    assert [t.params for t in first[1:3]] != [t.params for t in other[1:]]
    assert len({json.dumps(t.params) for t in first}) == 12


def test_trials_stay_in_their_space_and_the_first_is_the_method_itself(tmp_path: Path) -> None:
    trials = search(tmp_path, 6)
    assert trials[0].params == {"lr": 1e-3, "hidden": 4, "encoder": "gat"}
    for trial in trials:
        assert 1e-4 <= trial.params["lr"] <= 1e-1
        assert trial.params["hidden"] in range(2, 9)
        assert trial.params["encoder"] in ("gat", "gcn")


def test_a_default_outside_the_space_is_not_tried(tmp_path: Path) -> None:
    (trial,) = search(tmp_path, 1, space={"lr": Range(0.1, 0.2), "hidden": Range(2, 8, whole=True)})
    assert 0.1 <= trial.params["lr"] <= 0.2
    assert trial.params["hidden"] == 4


def test_what_is_written_is_what_was_found(tmp_path: Path) -> None:
    trials = search(tmp_path, 4, about={"graph": "mine"})
    with (tmp_path / "trials.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))  # pandas before 3 loses last digits
    assert [int(row["number"]) for row in rows] == [1, 2, 3, 4]
    assert [float(row["score"]) for row in rows] == [trial.score for trial in trials]
    assert [float(row["lr"]) for row in rows] == [trial.params["lr"] for trial in trials]
    best = best_of(trials)
    assert best.score == max(trial.score for trial in trials)
    saved = json.loads((tmp_path / "best.json").read_text())
    assert (saved["params"], saved["trial"], saved["trials"]) == (best.params, best.number, 4)
    assert saved["validation_accuracy"] == best.score
    options = as_options({"heads": 1, "epochs": 3} | best.params)  # also what was not searched
    assert sorted(saved["options"]) == sorted(options)
    assert saved["graph"] == "mine"


def test_slices_are_the_trials(tmp_path: Path) -> None:
    trials = [Trial(1, {"lr": 0.1}, 0.5, 0, 1), Trial(2, {"lr": 0.01}, 0.6, 0, 1)]
    figure = draw_slices(trials, {"lr": SPACE["lr"]})
    points, ring = figure.axes[0].collections
    assert np.asarray(points.get_offsets()).tolist() == [[0.1, 0.5], [0.01, 0.6]]
    assert np.asarray(ring.get_offsets()).tolist() == [[0.01, 0.6]]
    assert figure.axes[0].get_xscale() == "log"


def test_a_run_that_fails_scores_nothing_and_the_search_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = CrossEntropy.fit_many

    def diverging(self: CrossEntropy, *arguments: Any, **more: Any) -> Any:
        if self.encoder == "gcn":
            raise EraseError("a finite loss", "nan", "Lower lr.")
        return train(self, *arguments, **more)

    monkeypatch.setattr(CrossEntropy, "fit_many", diverging)
    trials = search(tmp_path, 8)
    failed = [trial for trial in trials if trial.params["encoder"] == "gcn"]
    assert 0 < len(failed) < 8
    assert all(trial.score == 0 and "a finite loss" in trial.error for trial in failed)
    assert not best_of(trials).error
    with pytest.raises(EraseError, match="can be trained; got expected a finite loss"):
        best_of(search(tmp_path / "all", 2, space={"encoder": OneOf(("gcn",))}))


# Continued ----------------------------------------------------------------------------------------


def test_a_search_that_was_killed_continues_to_the_same_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unbroken = search(tmp_path / "unbroken", 12)
    broken = tmp_path / "broken"
    train = CrossEntropy.fit_many
    calls = 0

    def killed(self: CrossEntropy, *arguments: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls in (1, 4, 12):
            raise KeyboardInterrupt
        return train(self, *arguments, **more)

    monkeypatch.setattr(CrossEntropy, "fit_many", killed)
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            search(broken, 12)
        journal = broken / "journal.log"
        journal.write_bytes(journal.read_bytes() + b'{"op_code": 4, "wor')  # a torn line
        (broken / "journal.log.lock").symlink_to(journal)  # and a stale lock
    start = time.monotonic()
    assert timeless(search(broken, 12)) == timeless(unbroken)
    assert time.monotonic() - start < 20  # Optuna alone waits 30 s for the lock
    assert calls == 12 + 3
    backend = optuna.storages.journal.JournalFileBackend(str(broken / "journal.log"))
    storage = optuna.storages.JournalStorage(backend)
    states = [t.state.name for t in optuna.load_study(study_name="tune", storage=storage).trials]
    assert (states.count("COMPLETE"), states.count("FAIL"), len(states)) == (12, 3, 15)
    assert table(broken).equals(table(tmp_path / "unbroken"))


HOLDER = """
import sys, time
from pathlib import Path
from erase.bench.tune import _owned
with _owned(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_two_cannot_search_in_one_folder_until_one_is_killed(tmp_path: Path) -> None:
    message = "another `erase tune` is writing"
    with forked.holder(HOLDER, tmp_path), pytest.raises(EraseError, match=message):
        search(tmp_path, 1)
    assert len(search(tmp_path, 1)) == 1
    assert len(search(tmp_path, 2)) == 2  # a search that has ended leaves the folder free


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("journal.log", "", "[]\n"),
        ("journal.log", '"op_code":0', '"op_code":99'),
        ("journal.log", '"seconds"', '"minutes"'),
        ("journal.log", '"values":[', '"values":[7'),
        ("journal.log", '"param_value_internal":', '"param_value_internal":99'),
        ("settings.json", "", ""),
        ("settings.json", "{", "[{"),
    ],
)
def test_a_damaged_search_is_refused(name: str, old: str, new: str, tmp_path: Path) -> None:
    search(tmp_path, 2)
    text = (tmp_path / name).read_text()
    assert old in text
    (tmp_path / name).write_text(text.replace(old, new) if old else new)
    with pytest.raises(EraseError, match=name):
        search(tmp_path, 3)


def test_more_trials_continue_and_fewer_are_there_already(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = search(tmp_path / "whole", 5)
    search(tmp_path / "parts", 2)
    assert timeless(search(tmp_path / "parts", 5)) == timeless(whole)
    monkeypatch.setattr(CrossEntropy, "fit_many", None)  # nothing is trained any more
    assert len(search(tmp_path / "parts", 3)) == 5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seeds": (0, 1, 2)}, "seeds"),
        ({"seed": 4}, "seed 4 instead of 0"),
        ({"space": {**SPACE, "lr": Range(0.1, 0.2)}}, "space {'lr': {'low': 0.1"),
        ({"method": network(epochs=4)}, "start {'epochs': 4} instead of {'epochs': 3}"),
        ({"about": {"noise": "symmetric:0.1"}}, "noise symmetric:0.1 instead of None"),
        ({"tasks": validation_tasks(two_communities(1, 20, 3), SEEDS)}, "graph_sha256"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_another_search_in_the_same_folder_is_refused(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    search(tmp_path, 1)
    with pytest.raises(EraseError, match=re.escape(message)):
        search(tmp_path, 2, **changes)
    assert len(search(tmp_path, 1)) == 1


def test_a_folder_belongs_to_one_process(tmp_path: Path) -> None:
    with pytest.raises(EraseError, match="to be free"):
        search(tmp_path, 2, watch=lambda _: search(tmp_path, 2))


def test_optuna_is_an_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("erase.bench.tune.find_spec", lambda name: None)
    with pytest.raises(EraseError, match=r"pip install 'graph-erase\[tune\]'"):
        search(tmp_path / "out")
    assert not (tmp_path / "out").exists()


# The command --------------------------------------------------------------------------------------

SMALL = [
    *("--method", "ce", "--set", "hidden=4", "--set", "heads=1", "--set", "epochs=3"),
    *("--device", "cpu", "--trials", "3", "--seeds", "2"),
]


def table(folder: Path) -> pd.DataFrame:
    return pd.read_csv(folder / "trials.csv").drop(columns="seconds")


def test_the_command_prints_one_that_fit_accepts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "my graph.npz"
    write_graph(graph(), file)
    out = tmp_path / "out"
    space = ["--space", "lr=0.001:0.1", "--space", "encoder=gcn,sage"]
    assert main(["tune", str(file), *SMALL, *space, "--out", str(out)]) == 0
    captured = capsys.readouterr()
    assert captured.err.count("Trial ") == 3
    assert (out / "slices.svg").read_text().count("<!-- lr -->") == 1
    command = shlex.split(captured.out.splitlines()[-1])
    assert command[:3] == ["erase", "fit", str(file)]
    assert main([*command[1:], "--device", "cpu", "--out", str(tmp_path / "fit"), "--quiet"]) == 0
    summary = json.loads((tmp_path / "fit" / "summary.json").read_text())
    best = json.loads((out / "best.json").read_text())
    assert {name: summary[name] for name in best["params"]} == best["params"]
    assert (summary["hidden"], summary["epochs"]) == (4, 3)
    assert set(best["params"]) == {"lr", "encoder", "dropout", "weight_decay"}
    assert main(["tune", str(file), *SMALL, *space, "--out", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == best


@pytest.mark.parametrize("noise", [[], ["--noise", "symmetric:0.3"]], ids=["clean", "noisy"])
def test_test_labels_cannot_reach_a_search(noise: list[str], tmp_path: Path) -> None:
    tables = []
    for name in ("true", "flipped"):
        data = graph()
        if name == "flipped":
            data.y = torch.where(data.test_mask, (data.y + 1) % 3, data.y)
        (tmp_path / name).mkdir()
        write_graph(data, tmp_path / name / "graph.npz")
        out = tmp_path / name / "out"
        arguments = ["tune", str(tmp_path / name / "graph.npz"), *SMALL, *noise]
        assert main([*arguments, "--out", str(out), "--quiet"]) == 0
        tables.append(table(out))
    assert tables[0].equals(tables[1])


def test_a_file_called_like_a_dataset_is_searched_from_the_defaults(tmp_path: Path) -> None:
    starts = {}
    small = ["--set", "hidden=4", "--set", "heads=1", "--set", "epochs=2", "--set", "width=4"]
    for name in ("pubmed", "ogbn-arxiv", "graph"):
        write_graph(graph(), tmp_path / f"{name}.npz")
        arguments = ["tune", str(tmp_path / f"{name}.npz"), "--method", "erase", *small]
        more = ["--device", "cpu", "--trials", "1", "--seeds", "1", "--quiet"]
        assert main([*arguments, *more, "--out", str(tmp_path / name)]) == 0
        starts[name] = json.loads((tmp_path / name / "best.json").read_text())["start"]
    assert starts["pubmed"] == starts["ogbn-arxiv"] == starts["graph"]
    assert starts["graph"]["steps"] == ERASE().steps


def test_noise_and_holdout_reach_the_search(tmp_path: Path) -> None:
    data = graph()
    data.train_mask |= data.val_mask
    del data.val_mask
    write_graph(data, tmp_path / "graph.npz")
    arguments = ["tune", str(tmp_path / "graph.npz"), *SMALL, "--holdout", "0.3", "--quiet"]
    assert main([*arguments, "--out", str(tmp_path / "a")]) == 0
    assert main([*arguments, "--noise", "symmetric:0.4", "--out", str(tmp_path / "b")]) == 0
    assert table(tmp_path / "a")["score"].tolist() != table(tmp_path / "b")["score"].tolist()
    saved = json.loads((tmp_path / "b" / "best.json").read_text())
    assert (saved["noise"], saved["holdout"]) == ("symmetric:0.4", 0.3)
    task = validation_tasks(data, SEEDS, noise=("symmetric", 0.4), holdout=0.3)[0]
    assert saved["validation_labels"] == len(task.val_index)


def test_after_noise_the_command_trains_on_what_was_tuned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_graph(graph(), tmp_path / "graph.npz")
    arguments = ["tune", str(tmp_path / "graph.npz"), *SMALL, "--noise", "symmetric:0.4"]
    assert main([*arguments, "--trials", "1", "--out", str(tmp_path / "out")]) == 0
    output = capsys.readouterr().out
    assert "Best of trial: " in output
    command = shlex.split(output.splitlines()[-1])
    assert main([*command[1:], "--device", "cpu", "--out", str(tmp_path / "fit"), "--quiet"]) == 0
    summary = json.loads((tmp_path / "fit" / "summary.json").read_text())
    assert summary["noise"] == "symmetric:0.4"
    assert summary["protocol"] == {"noise": "redrawn", "validation": "noisy", "labels": "split"}


def test_a_method_that_needs_the_noise_rate_gets_it(tmp_path: Path) -> None:
    write_graph(graph(), tmp_path / "graph.npz")
    arguments = ["tune", str(tmp_path / "graph.npz"), *SMALL, "--noise", "symmetric:0.4", "--quiet"]
    arguments[arguments.index("ce")] = "codis"
    for given, rate in (([], 0.4), (["--set", "noise_rate=0.1"], 0.1)):
        out = tmp_path / str(rate)
        assert main([*arguments, *given, "--trials", "1", "--out", str(out)]) == 0
        assert json.loads((out / "settings.json").read_text())["start"]["noise_rate"] == rate


@pytest.mark.parametrize("name", METHODS)
def test_every_method_declares_a_space_within_its_constraints(name: str) -> None:
    method = METHODS[name]()
    assert method.space
    for key, values in method.space.items():
        ends = values.values if isinstance(values, OneOf) else (values.low, values.high)
        assert all(method.constraints[key].accepts(end) for end in ends), key


def test_interrupted_it_says_that_the_same_command_continues(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_graph(graph(), tmp_path / "graph.npz")
    command = ["tune", str(tmp_path / "graph.npz"), *SMALL, "--trials", "4", "--quiet", "--out"]
    assert main([*command, str(tmp_path / "unbroken")]) == 0
    run, seen = NodeClassifier.fit_many, []

    def stop_at_the_third(self: NodeClassifier, *given: Any, **how: Any) -> Any:
        seen.append(self)
        if len(seen) == 3:
            raise KeyboardInterrupt
        return run(self, *given, **how)

    monkeypatch.setattr(NodeClassifier, "fit_many", stop_at_the_third)
    assert main([*command, str(tmp_path / "broken")]) == 130
    assert "interrupted. The same command continues." in capsys.readouterr().err
    assert len(table(tmp_path / "broken")) == 2
    assert main([*command, str(tmp_path / "broken")]) == 0
    assert len(seen) == 5  # the third once more, and the fourth
    assert table(tmp_path / "broken").equals(table(tmp_path / "unbroken"))


@pytest.mark.slow
def test_kill_9_and_the_same_command_continues(tmp_path: Path) -> None:
    write_graph(graph(), tmp_path / "graph.npz")
    arguments = [
        *(sys.executable, "-m", "erase", "tune", str(tmp_path / "graph.npz"), *SMALL),
        *("--set", "epochs=40", "--trials", "12", "--quiet", "--out"),
    ]
    subprocess.run([*arguments, str(tmp_path / "unbroken")], check=True)
    for done in (1, 4, 9):
        process = subprocess.Popen([*arguments, str(tmp_path / "broken")])
        trials = tmp_path / "broken" / "trials.csv"
        while not (trials.exists() and len(pd.read_csv(trials)) >= done):
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
    subprocess.run([*arguments, str(tmp_path / "broken")], check=True)
    assert table(tmp_path / "broken").equals(table(tmp_path / "unbroken"))


# What a search keeps ------------------------------------------------------------------------------


def test_a_search_leaves_the_method_as_it_was(tmp_path: Path) -> None:
    method = network()
    before = method.get_params()
    search(tmp_path, 3, method=method)
    assert method.get_params() == before


def test_trials_are_scored_by_what_the_method_predicts(tmp_path: Path) -> None:
    """Not by its labels: those of ERASE are the semantic ones."""
    method = ERASE(hidden=4, heads=1, width=8, epochs=3, device="cpu")
    tasks = validation_tasks(graph(), [1], noise=("symmetric", 0.4))
    arguments: dict[str, Any] = {"method": method, "seeds": [1], "tasks": tasks}
    (trial,) = search(tmp_path, 1, **arguments, space={"lr": SPACE["lr"]})
    model = method.set_params(**trial.params, seed=1).fit(tasks[0])
    nodes, y = tasks[0].val_index, tasks[0].y.numpy()
    assert trial.score == pytest.approx((model.predict() == y)[nodes].mean())
    assert trial.score != pytest.approx((model.labels_ == y)[nodes].mean())


def other_tasks(change: str) -> list[NodeTask]:
    first, second = validation_tasks(graph(), SEEDS, noise=("symmetric", 0.4))
    if change == "masks":
        first = replace(first, train_mask=first.val_mask, val_mask=first.train_mask)
    if change == "edges":
        first, second = (
            replace(task, edge_index=task.edge_index[:, 2:]) for task in (first, second)
        )
    if change == "second run":
        second = replace(second, y=second.y.where(second.y < 0, 0))
    return [first, second]


@pytest.mark.parametrize("change", ["masks", "edges", "second run"])
def test_a_search_is_continued_on_the_same_graph_and_labels_only(
    change: str, tmp_path: Path
) -> None:
    search(tmp_path, 1, tasks=other_tasks(""))
    assert len(search(tmp_path, 1, tasks=other_tasks(""))) == 1
    with pytest.raises(EraseError, match=r"graph_sha256|validation_labels"):
        search(tmp_path, 1, tasks=other_tasks(change))


def test_what_a_killed_search_had_not_written_is_written(tmp_path: Path) -> None:
    search(tmp_path, 2)
    (tmp_path / "best.json").unlink()
    search(tmp_path, 2)
    assert json.loads((tmp_path / "best.json").read_text())["trials"] == 2


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("whole", [False, True])
def test_a_range_is_drawn_by_its_logarithm_where_it_says_so(log: bool, whole: bool) -> None:
    trial = optuna.create_study().ask()
    _suggest(trial, "it", Range(1, 100, log, whole))
    (drawn,) = trial.distributions.values()
    kind = optuna.distributions.IntDistribution if whole else optuna.distributions.FloatDistribution
    assert isinstance(drawn, kind)
    assert (drawn.low, drawn.high, drawn.log) == (1, 100, log)


@pytest.mark.parametrize("ends", [(4, 8), (2, 4)])
def test_a_usual_value_at_the_end_of_its_range_is_tried_first(
    ends: tuple[int, int], tmp_path: Path
) -> None:
    method = CrossEntropy(hidden=4, heads=1, epochs=1, device="cpu")
    tasks = validation_tasks(two_communities(size=20), [0])
    for seed in range(3):
        space = {"hidden": Range(*ends, whole=True)}
        (first,) = tune(method, tasks, [0], space, tmp_path / f"{seed}", trials=1, seed=seed)
        assert first.params == {"hidden": 4}


def test_of_equal_trials_the_first_is_the_best() -> None:
    trials = [Trial(i, {}, score, 0.0, 1.0) for i, score in ((1, 0.5), (2, 0.7), (3, 0.7))]
    assert best_of(trials).number == 2


def test_a_range_has_a_width() -> None:
    with pytest.raises(EraseError, match="LOW < HIGH"):
        choose_space(ERASE(), ["steps=4:4"])


def test_the_journal_of_a_search_is_a_regular_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_graph(two_communities(size=10), tmp_path / "g.npz")
    (tmp_path / "out").mkdir()
    os.mkfifo(tmp_path / "out" / "journal.log")
    words = [str(tmp_path / "g.npz"), "--method", "ce", "--trials", "1"]
    assert main(["tune", *words, "--out", str(tmp_path / "out")]) == 2
    assert "journal.log', which is a folder, a device or a pipe" in capsys.readouterr().err
