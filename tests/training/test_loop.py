"""The loop: which epoch is taken, when it stops, and that a broken run ends as an unbroken one."""

import io
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from erase.data.files import load_arrays, save_arrays
from erase.data.task import NodeTask
from erase.errors import EraseError
from erase.training.loop import Fit, Learner, Loop, Outcome
from graphs import two_communities


class Scripted(Learner):
    """Gets `right[e]` of the validation nodes right in epoch e, and draws from a stream."""

    def __init__(self, task: NodeTask, right: list[int]) -> None:
        self.task, self.right = task, right
        self.network: nn.ParameterDict = nn.ParameterDict({"weight": torch.ones(1, 1)})
        self.optimiser = torch.optim.Adam(self.network.parameters(), lr=0.1)
        self.streams = {"draw": torch.Generator().manual_seed(7)}
        self.evaluations = 0
        self.stop_after: int | None = None
        self.steps = 0

    def step(self) -> dict[str, torch.Tensor]:
        if self.steps == self.stop_after:
            raise KeyboardInterrupt
        self.steps += 1
        target = torch.rand(1, generator=self.streams["draw"])
        loss = (self.network["weight"] - target).square().sum()
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        return {"loss": loss.detach()[None]}

    def evaluate(self) -> Outcome:
        self.evaluations += 1
        epoch = int(self.optimiser.state[self.network["weight"]]["step"])
        n, k = self.task.num_nodes, self.task.num_classes
        proba = torch.zeros(n, k)
        val = self.task.val_index
        correct = torch.arange(len(val)) < self.right[epoch - 1]
        proba[val, torch.where(correct, self.task.y[val], 1 - self.task.y[val])] = 1.0
        embedding, labels = torch.full((1, n, 1), float(epoch)), torch.full((1, n), epoch % k)
        return Outcome(proba[None], embedding, labels)


def task(validation: bool = True) -> NodeTask:
    data = two_communities()
    if not validation:
        data.val_mask = torch.zeros_like(data.val_mask)
    return NodeTask.from_data(data)


def run(right: list[int], patience: int = 99, loop: Loop | None = None, **more: bool) -> Fit:
    learner = Scripted(task(**more), right)
    loop = loop or Loop()
    (fit,) = loop.run(learner, [learner.task], {}, epochs=len(right), patience=patience)
    return fit


def test_the_first_of_equally_good_epochs_is_taken() -> None:
    fit = run([3, 9, 5, 9, 8])
    assert fit.best_epoch == 2
    assert float(fit.outcome.embedding[0]) == 2.0
    assert [h["val_accuracy"] for h in fit.history] == pytest.approx([0.15, 0.45, 0.25, 0.45, 0.4])
    assert [h["epoch"] for h in fit.history] == [1, 2, 3, 4, 5]


def test_a_learner_may_take_the_last_of_equally_good_epochs() -> None:
    learner = Scripted(task(), [3, 9, 5, 9, 8, 8])
    learner.takes_last = True
    (fit,) = Loop().run(learner, [learner.task], {}, epochs=6, patience=2)
    assert fit.best_epoch == 4
    assert float(fit.outcome.embedding[0]) == 4.0
    assert len(fit.history) == 6  # patience counts from the epoch that is taken


def test_an_epoch_that_was_not_evaluated_is_never_taken() -> None:
    learner = Scripted(task(), [0] * 5)
    learner.takes_last, learner.evaluate_every = True, 2
    (fit,) = Loop().run(learner, [learner.task], {}, epochs=5, patience=9)
    assert (fit.best_epoch, learner.evaluations) == (5, 3)
    learner = Scripted(task(), [0, 2, 2, 1])
    learner.takes_last, learner.evaluate_every = True, 2
    (fit,) = Loop().run(learner, [learner.task], {}, epochs=4, patience=9)
    assert (fit.best_epoch, learner.evaluations) == (2, 2)


def test_patience_counts_epochs_without_a_better_one() -> None:
    fit = run([1, 2, 0, 0, 0, 20, 0], patience=3)
    assert (fit.best_epoch, len(fit.history)) == (2, 5)
    assert run([1, 2, 0, 0, 0, 20, 0], patience=4).best_epoch == 6


def test_without_validation_the_last_epoch_is_taken_and_only_it_is_evaluated() -> None:
    learner = Scripted(task(validation=False), [0] * 6)
    (fit,) = Loop().run(learner, [learner.task], {}, epochs=6, patience=2)
    assert (fit.best_epoch, len(fit.history), learner.evaluations) == (6, 6, 1)
    assert "val_accuracy" not in fit.history[0]


def test_weights_are_those_of_the_best_epoch() -> None:
    best = run([9, 1, 1]).weights
    later = run([1, 1, 9]).weights
    assert not torch.equal(best["weight"], later["weight"])
    assert torch.equal(best["weight"], run([9]).weights["weight"])


def interrupted(path: Path, right: list[int], after: int) -> Loop:
    """Run until `after` steps with a checkpoint after every epoch; return a loop that resumes."""
    learner = Scripted(task(), right)
    learner.stop_after = after
    with pytest.raises(KeyboardInterrupt):
        Loop(checkpoint=path).run(learner, [learner.task], {}, epochs=len(right), patience=99)
    return Loop(checkpoint=path, resume=True)


@pytest.mark.parametrize("after", [1, 3, 5])
def test_a_resumed_run_ends_exactly_as_an_unbroken_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    monkeypatch.setattr("erase.training.loop._SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    right = [1, 7, 2, 3, 1, 9, 4]
    whole = run(right)
    loop = interrupted(tmp_path / "run.safetensors", right, after)
    resumed = run(right, loop=loop)
    assert resumed.history == whole.history
    assert resumed.best_epoch == whole.best_epoch
    for name, value in whole.weights.items():
        assert torch.equal(value, resumed.weights[name])
    assert torch.equal(whole.outcome.embedding, resumed.outcome.embedding)


def test_resuming_really_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("erase.training.loop._SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    loop = interrupted(tmp_path / "run.safetensors", [1, 2, 3, 4], 3)
    learner = Scripted(task(), [1, 2, 3, 4])
    loop.run(learner, [learner.task], {}, epochs=4, patience=99)
    assert learner.steps == 1


def test_without_resume_a_checkpoint_is_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("erase.training.loop._SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    interrupted(tmp_path / "run.safetensors", [1, 2, 3], 2)
    learner = Scripted(task(), [1, 2, 3])
    Loop(checkpoint=tmp_path / "run.safetensors").run(
        learner, [learner.task], {}, epochs=3, patience=99
    )
    assert learner.steps == 3


@pytest.mark.parametrize(
    "damage",
    [
        lambda arrays, metadata: metadata.pop("epoch"),
        lambda arrays, metadata: metadata.update(epoch="two"),
        lambda arrays, metadata: metadata.update(epoch=7),
        lambda arrays, metadata: metadata.update(runs=[]),
        lambda arrays, metadata: metadata["runs"][0].update(best_epoch=50),
        lambda arrays, metadata: metadata["runs"][0].pop("history"),
        lambda arrays, metadata: arrays.pop("learner/network/weight"),
        lambda arrays, metadata: arrays.pop("learner/streams/draw"),
        lambda arrays, metadata: arrays.update({"learner/network/weight": torch.ones(2, 2)}),
        lambda arrays, metadata: arrays.update({"learner/streams/draw": torch.ones(3)}),
        lambda arrays, metadata: arrays.update({"learner/moments/x/step": torch.ones(1)}),
        lambda arrays, metadata: arrays.update({"mine": torch.ones(1)}),
        lambda arrays, metadata: arrays["best/outcome/proba"].fill_(torch.nan),
        lambda arrays, metadata: arrays.update({"best/outcome/labels": torch.zeros(5, 2)}),
    ],
)
def test_a_damaged_checkpoint_is_refused(
    damage: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("erase.training.loop._SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    loop = interrupted(tmp_path / "run.safetensors", [1, 2, 3, 4], 2)
    arrays, metadata = load_arrays(tmp_path / "run.safetensors")
    damage(arrays, metadata)
    save_arrays(tmp_path / "run.safetensors", arrays, metadata)
    fresh = Scripted(task(), [1, 2, 3, 4])
    with pytest.raises(EraseError, match=r"a whole checkpoint; got .* damaged"):
        loop.run(fresh, [fresh.task], {}, epochs=4, patience=99)


def test_a_checkpoint_of_another_run_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("erase.training.loop._SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    loop = interrupted(tmp_path / "run.safetensors", [1, 2, 3], 2)
    learner = Scripted(task(), [1, 2, 3])
    with pytest.raises(EraseError, match="leave out --resume"):
        loop.run(learner, [learner.task], {"trust": 0.1}, epochs=3, patience=99)
    other = two_communities(seed=5)
    learner = Scripted(NodeTask.from_data(other), [1, 2, 3])
    with pytest.raises(EraseError, match="same graph, labels and parameters"):
        loop.run(learner, [learner.task], {}, epochs=3, patience=99)


def test_progress_goes_to_stderr_in_plain_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("erase.training.progress.SECONDS_BETWEEN_LINES", -1.0)
    run([1, 2], loop=Loop(progress=True))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "epoch 2/2" in captured.err
    assert "val_accuracy 0.1" in captured.err
    run([1, 2])
    assert capsys.readouterr().err == ""


def test_an_epoch_without_a_hit_is_still_the_best_of_its_kind() -> None:
    fit = run([0, 0, 0])
    assert (fit.best_epoch, float(fit.outcome.embedding[0])) == (1, 1.0)


def test_a_resumed_run_remembers_how_good_its_best_epoch_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("erase.training.loop._SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    right = [1, 9, 2, 3, 8]
    loop = interrupted(tmp_path / "run.safetensors", right, 3)
    fit = run(right, loop=loop)
    assert (fit.best_epoch, float(fit.outcome.embedding[0])) == (2, 2.0)


def other_edge(task: NodeTask) -> NodeTask:
    edges = task.edge_index.clone()
    edges[:, -1] = edges[:, -2]
    return replace(task, edge_index=edges)


def other_entry(task: NodeTask) -> NodeTask:
    x = task.x.clone()
    x.values()[0] += 1
    return replace(task, x=x)


def other_column(task: NodeTask) -> NodeTask:
    """The same values, one of them elsewhere."""
    columns = task.x.col_indices().clone()
    start, end = task.x.crow_indices()[:2].tolist()
    free = sorted(set(range(task.num_features)) - set(columns[start:end].tolist()))
    columns[start] = free[0]
    x = torch.sparse_csr_tensor(
        task.x.crow_indices(), columns, task.x.values(), task.x.shape, check_invariants=False
    )
    return replace(task, x=x)


def other_label(task: NodeTask) -> NodeTask:
    y = task.y.clone()
    y[task.train_index[0]] = 1 - y[task.train_index[0]]
    return replace(task, y=y)


def other_split(task: NodeTask) -> NodeTask:
    """The same labels, one of them for validation."""
    moved = torch.zeros_like(task.train_mask)
    moved[task.train_index[0]] = True
    return replace(task, train_mask=task.train_mask ^ moved, val_mask=task.val_mask | moved)


@pytest.mark.parametrize(
    "change", [other_edge, other_entry, other_column, other_label, other_split]
)
def test_a_checkpoint_belongs_to_its_edges_features_labels_and_splits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[NodeTask], NodeTask]
) -> None:
    monkeypatch.setattr("erase.training.loop._SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    own = replace(task(), x=task().x.to_dense().to_sparse_csr())
    path = tmp_path / "run.safetensors"
    learner = Scripted(own, [1, 2])
    Loop(checkpoint=path).run(learner, [own], {}, epochs=2, patience=9)
    loop = Loop(checkpoint=path, resume=True)
    loop.run(Scripted(own, [1, 2]), [own], {}, epochs=2, patience=9)
    with pytest.raises(EraseError, match="same graph, labels and parameters"):
        loop.run(Scripted(change(own), [1, 2]), [change(own)], {}, epochs=2, patience=9)


class Slow(Scripted):
    """Takes `seconds` of a clock that stands still otherwise for every epoch."""

    def __init__(self, task: NodeTask, epochs: int, seconds: float) -> None:
        super().__init__(task, [1] * epochs)
        self.now, self.seconds = 100.0, seconds

    def step(self) -> dict[str, torch.Tensor]:
        self.now += self.seconds
        return super().step()


@pytest.mark.parametrize(
    ("save_cost", "saved"), [(0.0, [3, 6, 9, 12, 15]), (0.5, [3, 14])], ids=["quick", "slow"]
)
def test_checkpoints_are_seconds_apart_and_rarer_where_they_are_slow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save_cost: float, saved: list[int]
) -> None:
    learner = Slow(task(), 16, seconds=1.0)
    epochs = []

    def save(path: Path, arrays: Any, metadata: dict[str, Any]) -> None:
        epochs.append(metadata["epoch"])
        learner.now += save_cost

    monkeypatch.setattr("erase.training.loop.time", SimpleNamespace(monotonic=lambda: learner.now))
    monkeypatch.setattr("erase.training.loop.save_arrays", save)
    loop = Loop(checkpoint=tmp_path / "run.safetensors")
    loop.run(learner, [learner.task], {}, epochs=16, patience=99)
    assert epochs == saved  # every 3 s; after a save of 0.5 s every 3 · 7 · 0.5 = 10.5 s


def test_a_line_every_ten_seconds_shows_the_rate_and_the_time_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = Slow(task(), 8, seconds=4.0)
    clock = SimpleNamespace(monotonic=lambda: learner.now)
    monkeypatch.setattr("erase.training.progress.time", clock)
    Loop(progress=True).run(learner, [learner.task], {}, epochs=8, patience=99)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[1] for line in lines] == ["3/8", "6/8"]
    assert lines[0].endswith("0.2 epochs/s, ≤ 20 s left")
    assert lines[1].endswith("0.2 epochs/s, ≤ 8 s left")


def test_progress_of_a_resumed_run_counts_its_own_epochs_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("erase.training.loop._SECONDS_BETWEEN_CHECKPOINTS", 0.0)
        interrupted(tmp_path / "run.safetensors", [1] * 8, 5)
    learner = Slow(task(), 8, seconds=10.0)
    clock = SimpleNamespace(monotonic=lambda: learner.now)
    monkeypatch.setattr("erase.training.progress.time", clock)
    loop = Loop(checkpoint=tmp_path / "run.safetensors", resume=True, progress=True)
    loop.run(learner, [learner.task], {}, epochs=8, patience=99)
    first = capsys.readouterr().err.splitlines()[0]
    assert first.startswith("epoch 6/8")
    assert first.endswith("0.1 epochs/s, ≤ 20 s left")


def test_a_terminal_gets_a_bar_that_starts_where_the_run_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("erase.training.loop._SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    loop = interrupted(tmp_path / "run.safetensors", [1] * 6, 4)
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    run([1] * 6, loop=replace(loop, progress=True))
    shown = terminal.getvalue()
    assert [f"{done}/6" in shown for done in (0, 3, 6)] == [False, False, True]
    assert "loss" in shown
    assert "val_accuracy" in shown
