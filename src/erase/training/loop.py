"""The one training loop: epochs, selection, history, progress, checkpoints."""

import hashlib
import json
import math
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any

import torch
from msgspec import convert
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from erase.data.files import load_arrays, save_arrays
from erase.data.task import NodeTask, fingerprint
from erase.errors import EraseError, damage_errors
from erase.training.processes import agree, rank
from erase.training.progress import Progress

State = dict[str, Tensor]

_SECONDS_BETWEEN_CHECKPOINTS = float(os.environ.get("ERASE_CHECKPOINT_SECONDS", "3"))


@dataclass(frozen=True, eq=False)
class Outcome:
    """Predictions for every node after an epoch; R runs at once have a leading dimension.

    Attributes:
        proba: [N, K] float32, rows sum to 1.
        embedding: [N, D] float32.
        labels: [N] int64, the method's own labels (ERASE: semantic labels).
    """

    proba: Tensor
    embedding: Tensor
    labels: Tensor


@dataclass(frozen=True, eq=False)
class Fit:
    """A trained run: the outcome of the chosen epoch, its weights, and the history.

    Attributes:
        outcome: of the chosen epoch, on the CPU.
        best_epoch: the chosen epoch, from 1.
        history: one dict per epoch: ``epoch``, ``loss`` and other values of the method.
        weights: parameters of the chosen epoch by name, on the CPU.
    """

    outcome: Outcome
    best_epoch: int
    history: list[dict[str, float]]
    weights: State


class Learner(ABC):
    """What the loop trains: how R runs take a step, and what they predict.

    The runs share only the graph. Everything that changes in training must be in one of the first
    three attributes, so that a run can be saved and resumed. Parameters and buffers have the run as
    their first dimension.

    Attributes:
        network: the parameters.
        optimiser: of these parameters.
        streams: random generators by purpose.
        waits: whether an epoch reads values on the host, so that it cannot be recorded as a CUDA
            graph.
        revisits: whether only the weights of the best epoch are kept, and its outcome is computed
            from them at the end: for graphs whose outcome is large.
        evaluate_every: epochs from one evaluation to the next; the last is always evaluated.
        takes_last: whether the last of equally good epochs is taken, not the first.
    """

    network: nn.Module
    optimiser: torch.optim.Optimizer
    streams: dict[str, torch.Generator]
    waits: bool = False
    revisits: bool = False
    evaluate_every: int = 1
    takes_last: bool = False

    @abstractmethod
    def step(self) -> dict[str, Tensor]:
        """Train one epoch; return values for the history [R], ``loss`` among them."""

    @abstractmethod
    def evaluate(self) -> Outcome:
        """Return the outcome of the last step, [R, ...]."""

    def finish(self) -> Outcome:
        """Return the outcome with its embedding, which `evaluate` may omit where it `revisits`."""
        return self.evaluate()

    def moments(self) -> State:
        """Return the optimiser's tensors by name, not copied."""
        entries = self.optimiser.state_dict()["state"].items()
        return {f"{i}/{key}": value for i, entry in entries for key, value in entry.items()}

    def state(self) -> State:
        """Return a copy of the state: parameters, moments, random streams."""
        return (
            {f"network/{k}": v.detach().clone() for k, v in self.network.state_dict().items()}
            | {f"moments/{k}": v.clone() for k, v in self.moments().items()}
            | {f"streams/{k}": stream.get_state() for k, stream in self.streams.items()}
        )

    def restore(self, state: State) -> None:
        """Set the state."""
        groups: dict[str, State] = {"network": {}, "moments": {}, "streams": {}}
        for path, value in state.items():
            group, _, name = path.partition("/")
            groups[group][name] = value
        self.network.load_state_dict(groups["network"])
        for name, value in groups["streams"].items():
            self.streams[name].set_state(value)
        moments: dict[int, State] = {}
        for path, value in groups["moments"].items():
            index, _, key = path.partition("/")
            moments.setdefault(int(index), {})[key] = value
        self.optimiser.load_state_dict(self.optimiser.state_dict() | {"state": moments})

    def rewind(self, state: State) -> None:
        """Set the state in place, in the same tensors; missing moments become zero."""
        with torch.no_grad():
            for name, value in self.network.state_dict().items():
                value.copy_(state[f"network/{name}"])
            for name, value in self.moments().items():
                before = state.get(f"moments/{name}")
                value.zero_() if before is None else value.copy_(before)
        for name, stream in self.streams.items():
            stream.set_state(state[f"streams/{name}"])


def at_nodes(values: Tensor, nodes: Tensor) -> Tensor:
    """Return the rows [R, n, C] of `values` [R, N, C] at each run's `nodes` [R, n]."""
    return values.gather(1, nodes[..., None].expand(-1, -1, values.shape[2]))


def mean_cross_entropy(logits: Tensor, nodes: Tensor, classes: Tensor) -> Tensor:
    """Return the mean of −log p(class) over `nodes` for each run [R].

    Args:
        logits: [R, N, K].
        nodes: [R, n].
        classes: [R, n].
    """
    chosen = at_nodes(logits, nodes).transpose(1, 2)  # [R, K, n]
    losses = cross_entropy(chosen, classes, reduction="none")  # [R, n]
    return losses.mean(1)


@dataclass(frozen=True, eq=False)
class _Epoch:
    """The results of an epoch of R runs: values for the history [R], and the outcome."""

    watched: dict[str, Tensor]
    outcome: Outcome | None


def _epoch(learner: Learner, val: Tensor, given: Tensor, *, evaluate: bool) -> _Epoch:
    """Train an epoch, and evaluate it on the `given` labels [R, m] of nodes `val` [R, m]."""
    watched = learner.step()
    if not evaluate:
        return _Epoch(watched, None)
    outcome = learner.evaluate()
    if val.numel():
        guessed = outcome.proba.argmax(2).gather(1, val)
        watched["val_accuracy"] = (guessed == given).float().mean(1)
    return _Epoch(watched, outcome)


class _Recorded:
    """An epoch recorded as a CUDA graph: a replay is one launch instead of hundreds."""

    def __init__(self, learner: Learner, work: Callable[[], _Epoch]) -> None:
        self._kept = learner, work  # a replay reads and writes their tensors
        before = learner.state()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):  # libraries allocate and choose algorithms on their first calls
                work()
        torch.cuda.current_stream().wait_stream(side)
        learner.rewind(before)
        self._graph = torch.cuda.CUDAGraph()
        for stream in learner.streams.values():
            self._graph.register_generator_state(stream)
        with torch.cuda.graph(self._graph):
            self._epoch = work()

    def __call__(self, *, evaluate: bool = True) -> _Epoch:
        """Replay the epoch; it was recorded with its evaluation."""
        self._graph.replay()
        return self._epoch


@dataclass
class Loop:
    """The training loop; its attributes do not change the result.

    Of several processes only the first writes and prints; all read the checkpoint.

    Attributes:
        checkpoint: file for the state of the run, or None.
        resume: continue from `checkpoint` where it exists.
        progress: show rate, loss and time left on stderr.
    """

    checkpoint: Path | None = None
    resume: bool = False
    progress: bool = False

    def run(
        self,
        learner: Learner,
        tasks: Sequence[NodeTask],
        settings: dict[str, Any],
        *,
        epochs: int,
        patience: int,
    ) -> list[Fit]:
        """Train R runs for up to `epochs`; return each one's best epoch by validation accuracy.

        The first of equally good epochs is taken (the last, if the learner `takes_last`). A run
        ends `patience` epochs after its best one, but not before it was evaluated twice. Without
        validation labels all epochs are run and the last is taken.

        Args:
            learner: R runs to train.
            tasks: [R] graph and labels; validation labels choose the epochs.
            settings: the method's name and parameters: a checkpoint of others is refused.
            epochs: most epochs to run.
            patience: epochs without improvement before stopping.
        """
        device = next(learner.network.parameters()).device
        val = torch.stack([task.val_index for task in tasks]).to(device)
        given = torch.stack([task.y[task.val_index] for task in tasks]).to(device)
        selects = bool(val.numel())
        every = learner.evaluate_every
        patience = max(patience, every)
        epoch, runs, best = 0, [_Run() for _ in tasks], State()
        checkpoint = _Checkpoint(self.checkpoint, tasks, settings) if self.checkpoint else None
        if checkpoint and self.resume and checkpoint.path.exists():
            epoch, runs, best = checkpoint.read(learner)
        work: Callable[..., _Epoch] = partial(_epoch, learner, val, given)
        if device.type == "cuda" and not learner.waits and selects:
            work = _Recorded(learner, partial(work, evaluate=True))
        shown = self.progress and rank() == 0
        with Progress(shown, epochs, epoch, "epoch") as progress:
            while epoch < epochs and any(run.continues(epoch, patience) for run in runs):
                epoch += 1
                result = work(evaluate=selects and (epoch % every == 0 or epoch == epochs))
                if not selects and epoch == epochs and not learner.revisits:
                    result = _Epoch(result.watched, learner.evaluate())
                records = _records(epoch, result.watched)
                better = [
                    i
                    for i, (run, record) in enumerate(zip(runs, records, strict=True))
                    if run.continues(epoch - 1, patience)
                    and run.take(record, epochs, selects, learner.takes_last)
                ]
                if better:
                    best = _keep(best, learner, result.outcome, better)
                del result
                _show(progress, records[0], epochs)
                if checkpoint and rank() == 0:
                    checkpoint.write_when_due(learner, epoch, runs, best)
        if learner.revisits:
            best |= _revisit(learner, best)
        return [_finish(run, i, best) for i, run in enumerate(runs)]


@dataclass
class _Run:
    """The history of one run, and its best epoch."""

    best_epoch: int = 0
    best_score: float = -1.0
    history: list[dict[str, float]] = field(default_factory=list)

    def continues(self, epoch: int, patience: int) -> bool:
        """Return whether the run continues after `epoch`."""
        return len(self.history) == epoch and epoch - self.best_epoch < patience

    def take(self, record: dict[str, float], epochs: int, selects: bool, last: bool) -> bool:
        """Add an epoch's record; return whether it is the best so far."""
        self.history.append(record)
        if not selects:  # no validation: keep the last
            self.best_epoch = len(self.history)
            return self.best_epoch == epochs
        if "val_accuracy" not in record:  # an epoch that was not evaluated
            return False
        score = record["val_accuracy"]
        if score < self.best_score or (score == self.best_score and not last):
            return False
        self.best_epoch, self.best_score = len(self.history), score
        return True


def _records(epoch: int, watched: dict[str, Tensor]) -> list[dict[str, float]]:
    """Return the record of an epoch for each run; an EraseError where a loss is not finite."""
    values = agree(torch.stack(list(watched.values()))).T.tolist()  # the only wait for the device
    records = [{"epoch": epoch, **dict(zip(watched, row, strict=True))} for row in values]
    for record in records:
        if not math.isfinite(record["loss"]):
            raise EraseError(
                "a finite loss",
                f"{record['loss']} in epoch {epoch}",
                "Lower lr, or rescale the features: some are too large to multiply.",
            )
    return records


def _keep(best: State, learner: Learner, outcome: Outcome | None, better: list[int]) -> State:
    """Return `best` updated with the weights and the outcome of the runs `better`."""
    now = {f"weights/{k}": v.detach() for k, v in learner.network.state_dict().items()}
    if outcome is not None and not learner.revisits:
        now |= {f"outcome/{f.name}": getattr(outcome, f.name) for f in fields(Outcome)}
    if not best:
        return {name: value.clone() for name, value in now.items()}
    for name, value in now.items():
        runs = torch.tensor(better, device=value.device)
        best[name].index_copy_(0, runs, value.index_select(0, runs))
    return best


def _revisit(learner: Learner, best: State) -> State:
    """Return the outcome of the best epoch, computed from its weights, and these."""
    prefix = "weights/"
    learner.network.load_state_dict(
        {k.removeprefix(prefix): v for k, v in best.items() if k.startswith(prefix)}
    )
    outcome = learner.finish()  # may fit a head, which is among the weights
    weights = {f"{prefix}{k}": v.detach() for k, v in learner.network.state_dict().items()}
    return weights | {f"outcome/{f.name}": getattr(outcome, f.name) for f in fields(Outcome)}


def _finish(run: _Run, index: int, best: State) -> Fit:
    """Return the fit of run `index`."""
    groups: dict[str, State] = {"outcome": {}, "weights": {}}
    for path, value in best.items():
        group, _, name = path.partition("/")
        groups[group][name] = value[index].cpu()
    return Fit(Outcome(**groups["outcome"]), run.best_epoch, run.history, groups["weights"])


class _Checkpoint:
    """The file that a killed run continues from, written every few seconds.

    Args:
        path: the file.
        tasks: graph and labels; a checkpoint of others is refused.
        settings: the method's name and parameters, likewise.
    """

    def __init__(self, path: Path, tasks: Sequence[NodeTask], settings: dict[str, Any]) -> None:
        self.path = path
        self._fingerprint = _fingerprint(tasks, settings)
        self._written_at, self._seconds = time.monotonic(), 0.0

    def write_when_due(self, learner: Learner, epoch: int, runs: list[_Run], best: State) -> None:
        """Write the state, unless that was done a few seconds ago."""
        # a file that takes a second is written seven times less often
        pause = _SECONDS_BETWEEN_CHECKPOINTS * max(1.0, 7 * self._seconds)
        start = time.monotonic()
        if start - self._written_at < pause:
            return
        arrays = {f"learner/{name}": value for name, value in learner.state().items()}
        arrays |= {f"best/{name}": value for name, value in best.items()}
        history = [vars(run) for run in runs]
        metadata = {"fingerprint": self._fingerprint, "epoch": epoch, "runs": history}
        save_arrays(self.path, arrays, metadata)
        self._written_at = time.monotonic()
        self._seconds = self._written_at - start

    def read(self, learner: Learner) -> tuple[int, list[_Run], State]:
        """Set the learner's state; return the epoch, the runs and the best outcomes so far."""
        arrays, metadata = load_arrays(self.path)
        if not isinstance(metadata, dict) or metadata.get("fingerprint") != self._fingerprint:
            raise EraseError(
                "a checkpoint of the same graph, labels and parameters",
                f"one of another run in {self.path}",
                "Repeat the command that was interrupted, or leave out --resume to start anew.",
            )
        with damage_errors("a whole checkpoint", self.path, "Leave out --resume to start anew."):
            return self._parse(arrays, metadata, learner)

    def _parse(
        self, arrays: State, metadata: dict[str, Any], learner: Learner
    ) -> tuple[int, list[_Run], State]:
        """Check what a checkpoint holds before the learner gets any of it."""
        groups: dict[str, State] = {"learner": {}, "best": {}}
        for name, value in arrays.items():
            group, _, key = name.partition("/")
            groups[group][key] = value
            if group == "best" and value.is_floating_point() and bool(value.isnan().any()):
                raise ValueError(f"NaN in {name}")
        epoch = convert(metadata["epoch"], int)
        convert(metadata["runs"], list[_Run])  # to check types: it makes floats of whole numbers
        runs = [_Run(**run) for run in metadata["runs"]]
        lengths = {len(run.history) for run in runs}
        if not runs or max(lengths) != epoch or any(run.best_epoch > epoch for run in runs):
            raise ValueError("a history of another length")
        own, best = learner.state(), groups["best"]
        # moments appear with the first step
        own = {k: v for k, v in own.items() if not k.startswith("moments/")}
        shapes = {name: (value.shape, value.dtype) for name, value in own.items()}
        found = {k: (v.shape, v.dtype) for k, v in groups["learner"].items() if k in own}
        if found != shapes or any(len(value) != len(runs) for value in best.values()):
            raise ValueError("a state of other shapes")
        learner.restore(groups["learner"])
        device = next(learner.network.parameters()).device
        return epoch, runs, {name: value.to(device) for name, value in best.items()}


def _fingerprint(tasks: Sequence[NodeTask], settings: dict[str, Any]) -> str:
    """Return a hash of everything the result depends on."""
    text = json.dumps(settings, sort_keys=True, default=str) + fingerprint(tasks)
    return hashlib.sha256(text.encode()).hexdigest()


def _show(progress: Progress, record: Mapping[str, float], epochs: int) -> None:
    """Show the values of an epoch, and the time left at most: training may stop early."""
    values = {name: f"{value:.4g}" for name, value in record.items() if name != "epoch"}
    text = "  ".join(f"{name} {value}" for name, value in values.items())
    progress.advance(
        1,
        values,
        lambda done, rate, left: (
            f"epoch {done}/{epochs}  {text}  {rate:.1f} epochs/s, ≤ {left:.0f} s left"
        ),
    )
