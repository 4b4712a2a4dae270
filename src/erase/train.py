"""The one training loop: epochs, selection, history, progress, checkpoints."""

import hashlib
import json
import os
import sys
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from tqdm import tqdm

from erase.errors import EraseError
from erase.io import load_arrays, save_arrays
from erase.task import NodeTask

State = dict[str, Tensor]

_SECONDS_BETWEEN_CHECKPOINTS = float(os.environ.get("ERASE_CHECKPOINT_SECONDS", "3"))
_SECONDS_BETWEEN_LINES = 10.0


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a model says about every node after an epoch.

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
        outcome: of the chosen epoch.
        best_epoch: the chosen epoch, from 1.
        history: one dict per epoch: ``epoch``, ``loss`` and whatever else the method watches.
        weights: parameters of the chosen epoch by name.
    """

    outcome: Outcome
    best_epoch: int
    history: list[dict[str, float]]
    weights: State


class Learner(ABC):
    """What a method hands to the loop: how to take a step, and how to read off the outcome.

    Everything that changes in training must be in one of the three attributes, so that a run can
    be put away and taken up again.

    Attributes:
        network: the parameters.
        optimiser: of these parameters.
        streams: random generators by purpose.
    """

    network: nn.Module
    optimiser: torch.optim.Optimizer
    streams: dict[str, torch.Generator]

    @abstractmethod
    def step(self) -> dict[str, float]:
        """Train one epoch; return what to write into the history, ``loss`` among it."""

    @abstractmethod
    def evaluate(self) -> Outcome:
        """Return the outcome of the last step, on the CPU."""

    def weights(self) -> State:
        """Return a copy of the parameters by name, on the CPU."""
        return {
            name: value.detach().cpu().clone() for name, value in self.network.state_dict().items()
        }

    def state(self) -> State:
        """Return all that is needed to continue: parameters, moments, random streams."""
        moments = self.optimiser.state_dict()["state"]
        return (
            {f"network/{name}": value for name, value in self.weights().items()}
            | {
                f"moments/{i}/{k}": v.cpu()
                for i, entry in moments.items()
                for k, v in entry.items()
            }
            | {f"streams/{name}": stream.get_state() for name, stream in self.streams.items()}
        )

    def restore(self, state: State) -> None:
        """Take a `state` back."""
        weights: State = {}
        moments: dict[int, State] = {}
        for path, value in state.items():
            group, _, name = path.partition("/")
            if group == "network":
                weights[name] = value
            elif group == "streams":
                self.streams[name].set_state(value)
            else:
                index, _, key = name.partition("/")
                moments.setdefault(int(index), {})[key] = value
        self.network.load_state_dict(weights)
        self.optimiser.load_state_dict(self.optimiser.state_dict() | {"state": moments})


@dataclass
class Loop:
    """How a training run is carried out; nothing here changes its result.

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
        task: NodeTask,
        settings: dict[str, Any],
        *,
        epochs: int,
        patience: int,
    ) -> Fit:
        """Train for up to `epochs`, and return the best epoch by validation accuracy.

        The first of equally good epochs is taken, and `patience` epochs without a better one end
        the training. Without validation labels all epochs are run and the last is taken.

        Args:
            learner: what is trained.
            task: graph and labels; its validation labels choose the epoch.
            settings: the method's name and parameters: a checkpoint of others is refused.
            epochs: most epochs to run.
            patience: epochs without improvement before stopping.
        """
        run = _Run()
        fingerprint = _fingerprint(task, settings)
        if self.resume and self.checkpoint is not None and self.checkpoint.exists():
            run = _Run.read(self.checkpoint, fingerprint, learner)
        val = task.val_index
        given = task.y[val]
        saved_at, save_cost = time.monotonic(), 0.0
        with _Display(self.progress, epochs, run) as display:
            while run.epoch < epochs and run.epoch - run.best_epoch < patience:
                record = {"epoch": float(run.epoch + 1), **learner.step()}
                last = run.epoch + 1 == epochs
                outcome: Outcome | None
                if val.numel():
                    outcome = learner.evaluate()
                    score = float((outcome.proba[val].argmax(1) == given).float().mean())
                    record["val_accuracy"] = score
                    better = score > run.best_score
                else:
                    score, better = float(run.epoch), last
                    outcome = learner.evaluate() if last else None
                run.epoch += 1
                run.history.append(record)
                if better and outcome is not None:
                    run.best_epoch, run.best_score = run.epoch, score
                    run.outcome, run.weights = outcome, learner.weights()
                elif not val.numel():
                    run.best_epoch = run.epoch
                display.show(record)
                # a save that takes a second is made seven times less often
                pause = _SECONDS_BETWEEN_CHECKPOINTS * max(1.0, 7 * save_cost)
                if self.checkpoint is not None and time.monotonic() - saved_at >= pause:
                    start = time.monotonic()
                    run.write(self.checkpoint, fingerprint, learner)
                    saved_at = time.monotonic()
                    save_cost = saved_at - start
        if run.outcome is None:
            raise EraseError("at least one epoch", f"epochs={epochs}", "Set epochs ≥ 1.")
        return Fit(run.outcome, run.best_epoch, run.history, run.weights)


@dataclass
class _Run:
    """The state of a training run between two epochs, on disk as one safetensors file."""

    epoch: int = 0
    best_epoch: int = 0
    best_score: float = -1.0
    history: list[dict[str, float]] = field(default_factory=list)
    outcome: Outcome | None = None
    weights: State = field(default_factory=dict)

    def write(self, path: Path, fingerprint: str, learner: Learner) -> None:
        arrays = {f"learner/{name}": value for name, value in learner.state().items()}
        arrays |= {f"weights/{name}": value for name, value in self.weights.items()}
        if self.outcome is not None:
            arrays |= {f"outcome/{f.name}": getattr(self.outcome, f.name) for f in fields(Outcome)}
        metadata = {
            "fingerprint": fingerprint,
            "epoch": self.epoch,
            "best_epoch": self.best_epoch,
            "best_score": self.best_score,
            "history": self.history,
        }
        save_arrays(path, arrays, metadata)

    @classmethod
    def read(cls, path: Path, fingerprint: str, learner: Learner) -> "_Run":
        arrays, metadata = load_arrays(path)
        if metadata.get("fingerprint") != fingerprint:
            raise EraseError(
                "a checkpoint of the same graph, labels and parameters",
                f"one of another run in {path}",
                "Repeat the command that was interrupted, or leave out --resume to start anew.",
            )
        groups: dict[str, State] = {"learner": {}, "weights": {}, "outcome": {}}
        for name, value in arrays.items():
            group, _, key = name.partition("/")
            groups[group][key] = value
        learner.restore(groups["learner"])
        return cls(
            epoch=metadata["epoch"],
            best_epoch=metadata["best_epoch"],
            best_score=metadata["best_score"],
            history=metadata["history"],
            outcome=Outcome(**groups["outcome"]) if groups["outcome"] else None,
            weights=groups["weights"],
        )


def _fingerprint(task: NodeTask, settings: dict[str, Any]) -> str:
    """Return a hash of everything the result depends on."""
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode())
    x = (
        (task.x.crow_indices(), task.x.col_indices(), task.x.values())
        if task.x.is_sparse_csr
        else (task.x,)
    )
    for tensor in (*x, task.edge_index, task.y, task.train_mask, task.val_mask):
        digest.update(str(tuple(tensor.shape)).encode())
        digest.update(tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()


class _Display:
    """Progress of a run: a bar on a terminal, a plain line now and then elsewhere."""

    def __init__(self, shown: bool, epochs: int, run: _Run) -> None:
        self._terminal = sys.stderr.isatty()
        self._shown = shown
        self._epochs = epochs
        self._bar: Any = None
        self._start = self._line = time.monotonic()
        self._first = run.epoch
        if shown and self._terminal:
            self._bar = tqdm(total=epochs, initial=run.epoch, unit="epoch", leave=False)

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
