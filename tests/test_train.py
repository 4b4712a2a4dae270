"""The loop: which epoch is taken, when it stops, and that a broken run ends as an unbroken one."""

from pathlib import Path

import pytest
import torch
from torch import nn

from conftest import two_communities
from erase.errors import EraseError
from erase.task import NodeTask
from erase.train import Fit, Learner, Loop, Outcome


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
    monkeypatch.setattr("erase.train._SECONDS_BETWEEN_CHECKPOINTS", 0.0)
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
    monkeypatch.setattr("erase.train._SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    loop = interrupted(tmp_path / "run.safetensors", [1, 2, 3, 4], 3)
    learner = Scripted(task(), [1, 2, 3, 4])
    loop.run(learner, [learner.task], {}, epochs=4, patience=99)
    assert learner.steps == 1


def test_without_resume_a_checkpoint_is_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("erase.train._SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    interrupted(tmp_path / "run.safetensors", [1, 2, 3], 2)
    learner = Scripted(task(), [1, 2, 3])
    Loop(checkpoint=tmp_path / "run.safetensors").run(
        learner, [learner.task], {}, epochs=3, patience=99
    )
    assert learner.steps == 3


def test_a_checkpoint_of_another_run_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("erase.train._SECONDS_BETWEEN_CHECKPOINTS", 0.0)
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
    monkeypatch.setattr("erase.train._SECONDS_BETWEEN_LINES", -1.0)
    run([1, 2], loop=Loop(progress=True))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "epoch 2/2" in captured.err
    assert "val_accuracy 0.1" in captured.err
    run([1, 2])
    assert capsys.readouterr().err == ""
