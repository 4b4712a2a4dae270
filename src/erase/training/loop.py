"""The one training loop: epochs, selection, history, progress, checkpoints."""

import hashlib
import json
import math
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from tqdm import tqdm

from erase.data.files import load_arrays, save_arrays
from erase.data.task import NodeTask, fingerprint
from erase.errors import EraseError
from erase.training.processes import agree, rank

State = dict[str, Tensor]

_SECONDS_BETWEEN_CHECKPOINTS = float(os.environ.get("ERASE_CHECKPOINT_SECONDS", "3"))
_SECONDS_BETWEEN_LINES = 10.0


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a model says about every node after an epoch; R runs at once have a leading dimension.

    Attributes:
        proba: [N, K] float32, rows sum to 1.
        embedding: [N, D] float32.
        labels: [N] int64, the labels the method itself believes in (ERASE: semantic labels).
    """

    proba: Tensor
    embedding: Tensor
    labels: Tensor


@dataclass(frozen=True, eq=False)
class Fit:
    """What a method returns: the outcome of the chosen epoch, and how it got there.

    Attributes:
        outcome: of the chosen epoch, on the CPU.
        best_epoch: the chosen epoch, from 1.
        history: one dict per epoch: ``epoch``, ``loss`` and whatever else the method watches.
        weights: parameters of the chosen epoch by name, on the CPU.
    """

    outcome: Outcome
    best_epoch: int
    history: list[dict[str, float]]
    weights: State


class Learner(ABC):
    """What a method hands to the loop: how to take a step of R runs, and how to read them off.

    The runs share the graph and nothing else. Everything that changes in training must be in one
    of the first three attributes, so that a run can be put away and taken up again; parameters and
    buffers have the run as their first dimension.

    Attributes:
        network: the parameters.
        optimiser: of these parameters.
        streams: random generators by purpose.
        waits: whether an epoch looks at values on the host, so that it cannot be recorded once and
            replayed on a GPU.
        revisits: whether the best epoch's outcome is computed once more from its weights at the
            end, rather than kept all the while: for graphs whose outcome is large.
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
        """Train one epoch; return what to write into the history [R], ``loss`` among it."""

    @abstractmethod
    def evaluate(self) -> Outcome:
        """Return the outcome of the last step, [R, ...]."""

    def finish(self) -> Outcome:
        """Return the outcome to keep; `evaluate` of one that `revisits` may lack its embedding."""
        return self.evaluate()

    def moments(self) -> State:
        """Return the optimiser's tensors by name: the ones it uses, not copies."""
        entries = self.optimiser.state_dict()["state"].items()
        return {f"{i}/{key}": value for i, entry in entries for key, value in entry.items()}

    def state(self) -> State:
        """Return a copy of all that is needed to continue: parameters, moments, random streams."""
        return (
            {f"network/{k}": v.detach().clone() for k, v in self.network.state_dict().items()}
            | {f"moments/{k}": v.clone() for k, v in self.moments().items()}
            | {f"streams/{k}": stream.get_state() for k, stream in self.streams.items()}
        )

    def restore(self, state: State) -> None:
        """Take a `state` back."""
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
        """Take a `state` back into the very tensors in use; moments that it lacks become zero."""
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
    """The results of an epoch of R runs: what is watched [R], and the outcome."""

    watched: dict[str, Tensor]
    outcome: Outcome | None


def _epoch(learner: Learner, val: Tensor, given: Tensor, *, evaluate: bool) -> _Epoch:
    """Take a step, and compare its outcome with the `given` labels [R, m] of nodes `val` [R, m]."""
    watched = learner.step()
    if not evaluate:
        return _Epoch(watched, None)
    outcome = learner.evaluate()
    if val.numel():
        guessed = outcome.proba.argmax(2).gather(1, val)
        watched["val_accuracy"] = (guessed == given).float().mean(1)
    return _Epoch(watched, outcome)


class _Recorded:
    """An epoch recorded once as a CUDA graph: a replay costs one launch instead of hundreds."""

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
        """Take the step and look at its outcome, as recorded, whether or not that is asked for."""
        self._graph.replay()
        return self._epoch


@dataclass
class Loop:
    """How a training run is carried out; nothing here changes its result.

    Of several processes the first alone writes and prints, and all read the checkpoint.

    Attributes:
        checkpoint: file to keep the state of the run in, or None.
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

        The first of equally good epochs is taken (the last, where the learner says so), and
        `patience` epochs after the one that would be taken end a run, but no run ends before it was
        evaluated twice. Without validation labels all epochs are run and the last is taken.

        Args:
            learner: what is trained.
            tasks: [R] graph and labels; their validation labels choose the epochs.
            settings: the method's name and parameters: a checkpoint of others is refused.
            epochs: most epochs to run.
            patience: epochs without improvement before stopping.
        """
        device = next(learner.network.parameters()).device
        val = torch.stack([task.val_index for task in tasks]).to(device)
        given = torch.stack([task.y[task.val_index] for task in tasks]).to(device)
        selects = bool(val.numel())
        runs = [_Run() for _ in tasks]
        best: State = {}
        epoch = 0
        every = learner.evaluate_every
        patience = max(patience, every)
        fingerprint = _fingerprint(tasks, settings) if self.checkpoint is not None else ""
        if self.resume and self.checkpoint is not None and self.checkpoint.exists():
            epoch, runs, best = _read_checkpoint(self.checkpoint, fingerprint, learner)
        work: Callable[..., _Epoch] = partial(_epoch, learner, val, given)
        if device.type == "cuda" and not learner.waits and selects:
            work = _Recorded(learner, partial(work, evaluate=True))
        saved_at, save_cost = time.monotonic(), 0.0
        kept_at = self.checkpoint if rank() == 0 else None
        with _Display(self.progress and rank() == 0, epochs, epoch) as display:
            while epoch < epochs and any(run.continues(epoch, patience) for run in runs):
                epoch += 1
                result = work(evaluate=selects and (epoch % every == 0 or epoch == epochs))
                if not selects and epoch == epochs and not learner.revisits:
                    result = _Epoch(result.watched, learner.evaluate())
                stacked = agree(torch.stack(list(result.watched.values())))
                values = stacked.T.tolist()  # the one wait
                records = [
                    {"epoch": epoch, **dict(zip(result.watched, row, strict=True))}
                    for row in values
                ]
                _check_finite(records)
                better = [
                    i
                    for i, (run, record) in enumerate(zip(runs, records, strict=True))
                    if run.continues(epoch - 1, patience)
                    and run.take(record, epochs, selects, learner.takes_last)
                ]
                if better:
                    best = _keep(best, learner, result.outcome, better)
                del result
                display.show(records[0])
                # a save that takes a second is made seven times less often
                pause = _SECONDS_BETWEEN_CHECKPOINTS * max(1.0, 7 * save_cost)
                if kept_at is not None and time.monotonic() - saved_at >= pause:
                    start = time.monotonic()
                    _write_checkpoint(kept_at, fingerprint, learner, epoch, runs, best)
                    saved_at = time.monotonic()
                    save_cost = saved_at - start
        if learner.revisits:
            best |= _revisit(learner, best)
        return [_finish(run, i, best) for i, run in enumerate(runs)]


@dataclass
class _Run:
    """How far one run has come."""

    best_epoch: int = 0
    best_score: float = -1.0
    history: list[dict[str, float]] = field(default_factory=list)

    def continues(self, epoch: int, patience: int) -> bool:
        """Return whether the run goes on after `epoch`."""
        return len(self.history) == epoch and epoch - self.best_epoch < patience

    def take(self, record: dict[str, float], epochs: int, selects: bool, last: bool) -> bool:
        """Add an epoch's record; return whether it is the one to keep by now."""
        self.history.append(record)
        if not selects:  # no validation: go on, and keep the last
            self.best_epoch = len(self.history)
            return self.best_epoch == epochs
        if "val_accuracy" not in record:  # an epoch that was not evaluated
            return False
        score = record["val_accuracy"]
        if score < self.best_score or (score == self.best_score and not last):
            return False
        self.best_epoch, self.best_score = len(self.history), score
        return True


def _check_finite(records: list[dict[str, float]]) -> None:
    """Raise an EraseError where a loss is no number any more."""
    for record in records:
        if not math.isfinite(record["loss"]):
            raise EraseError(
                "a finite loss",
                f"{record['loss']} in epoch {record['epoch']}",
                "Lower lr, or rescale the features: some are too large to multiply.",
            )


def _keep(best: State, learner: Learner, outcome: Outcome | None, better: list[int]) -> State:
    """Return `best` with the weights and the outcome of the runs `better` put in."""
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
    """Return the outcome of the best epoch, whose weights are taken back for it."""
    prefix = "weights/"
    learner.network.load_state_dict(
        {k.removeprefix(prefix): v for k, v in best.items() if k.startswith(prefix)}
    )
    outcome = learner.finish()
    return {f"outcome/{f.name}": getattr(outcome, f.name) for f in fields(Outcome)}


def _finish(run: _Run, index: int, best: State) -> Fit:
    """Return the fit of run `index`."""
    groups: dict[str, State] = {"outcome": {}, "weights": {}}
    for path, value in best.items():
        group, _, name = path.partition("/")
        groups[group][name] = value[index].cpu()
    return Fit(Outcome(**groups["outcome"]), run.best_epoch, run.history, groups["weights"])


def _write_checkpoint(
    path: Path, fingerprint: str, learner: Learner, epoch: int, runs: list[_Run], best: State
) -> None:
    arrays = {f"learner/{name}": value for name, value in learner.state().items()}
    arrays |= {f"best/{name}": value for name, value in best.items()}
    metadata = {"fingerprint": fingerprint, "epoch": epoch, "runs": [vars(run) for run in runs]}
    save_arrays(path, arrays, metadata)


def _read_checkpoint(
    path: Path, fingerprint: str, learner: Learner
) -> tuple[int, list[_Run], State]:
    arrays, metadata = load_arrays(path)
    if not isinstance(metadata, dict) or metadata.get("fingerprint") != fingerprint:
        raise EraseError(
            "a checkpoint of the same graph, labels and parameters",
            f"one of another run in {path}",
            "Repeat the command that was interrupted, or leave out --resume to start anew.",
        )
    groups: dict[str, State] = {"learner": {}, "best": {}}
    for name, value in arrays.items():
        group, _, key = name.partition("/")
        groups[group][key] = value
    learner.restore(groups["learner"])
    device = next(learner.network.parameters()).device
    best = {name: value.to(device) for name, value in groups["best"].items()}
    return metadata["epoch"], [_Run(**run) for run in metadata["runs"]], best


def _fingerprint(tasks: Sequence[NodeTask], settings: dict[str, Any]) -> str:
    """Return a hash of everything the result depends on."""
    text = json.dumps(settings, sort_keys=True, default=str) + fingerprint(tasks)
    return hashlib.sha256(text.encode()).hexdigest()


class _Display:
    """Progress of a run: a bar on a terminal, a plain line now and then elsewhere."""

    def __init__(self, shown: bool, epochs: int, done: int) -> None:
        self._terminal = sys.stderr.isatty()
        self._shown = shown
        self._epochs = epochs
        self._bar: Any = None
        self._start = self._line = time.monotonic()
        self._first = done
        if shown and self._terminal:
            self._bar = tqdm(total=epochs, initial=done, unit="epoch", leave=False)

    def __enter__(self) -> "_Display":
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def show(self, record: dict[str, float]) -> None:
        if self._bar is not None:
            self._bar.update()
            self._bar.set_postfix({k: f"{v:.4g}" for k, v in record.items() if k != "epoch"})
            return
        now = time.monotonic()
        if not self._shown or now - self._line < _SECONDS_BETWEEN_LINES:
            return
        self._line = now
        done = int(record["epoch"])
        rate = (done - self._first) / (now - self._start)
        left = (self._epochs - done) / rate
        watched = "  ".join(f"{k} {v:.4g}" for k, v in record.items() if k != "epoch")
        print(
            f"epoch {done}/{self._epochs}  {watched}  {rate:.1f} epochs/s, ≤ {left:.0f} s left",
            file=sys.stderr,
        )
