"""What methods that train a network share: parameters, batches, encoders, epochs, optimiser."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, prod
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from erase.data.task import NodeTask
from erase.errors import EraseError
from erase.methods.base import (
    COUNT,
    POSITIVE,
    SHARE,
    Constraint,
    NodeClassifier,
    Number,
    Numbers,
    OneOf,
    Range,
    resolve_device,
)
from erase.nn.encoders import ENCODERS, Activation, Encoder, Features, take_rows
from erase.nn.precision import full_float32
from erase.nn.sparse import Graph
from erase.random import torch_stream
from erase.training.chunks import hidden_of_all, output_of_all
from erase.training.loop import Fit, Learner, Loop
from erase.training.processes import average_gradients, count, own_rows, put_together
from erase.training.sampling import Sample, SampledNeighbours

# what every network has on a dataset whose published numbers rest on other settings than the usual
SHARED_SETTINGS: dict[str, dict[str, Any]] = {
    "ogbn-arxiv": {
        "hidden": 64,
        "lr": 0.01,
        "batch_size": 200,
        "num_neighbors": (5, 5),
        "epochs": 5,
    },
}


@dataclass(kw_only=True, eq=False, repr=False)
class NetworkClassifier(NodeClassifier):
    """A method that trains a network by epochs: it writes ``_learner(tasks, seeds) -> Learner``.

    Args:
        encoder: "gat", "gcn" or "sage"; two layers.
        hidden: width of the hidden layer, all attention heads together.
        heads: attention heads of the first layer.
        dropout: share of input features dropped in training.
        lr: Adam's learning rate.
        weight_decay: Adam's weight decay.
        epochs: most epochs to train.
        patience: epochs without a better validation accuracy before stopping.
        batch_size: training nodes of a step, with sampled neighbours; an epoch is then a pass over
            all training nodes. 0: the whole graph, an epoch is one step.
        num_neighbors: with `batch_size`: neighbours drawn for a training node, and for each of
            these; −1: all.
        seed: of initial weights, dropout and batches.
        device: "auto", "cpu" or "cuda".
    """

    constraints: ClassVar[dict[str, Constraint]] = NodeClassifier.constraints | {
        "encoder": OneOf(tuple(ENCODERS)),
        "hidden": COUNT,
        "heads": COUNT,
        "dropout": SHARE,
        "lr": POSITIVE,
        "weight_decay": Number(low=0),
        "epochs": COUNT,
        "patience": COUNT,
        "batch_size": Number(low=0, whole=True),
        "num_neighbors": Numbers(length=2, low=-1),
    }
    space: ClassVar[dict[str, Range | OneOf]] = {
        "dropout": Range(0.0, 0.8),
        "lr": Range(1e-4, 1e-2, log=True),
        "weight_decay": Range(1e-5, 1e-2, log=True),
    }
    keeps_checkpoints: ClassVar[bool] = True

    encoder: str = "gat"
    hidden: int = 256
    heads: int = 8
    dropout: float = 0.5
    lr: float = 1e-3
    weight_decay: float = 5e-4
    epochs: int = 400
    patience: int = 150
    batch_size: int = 0
    num_neighbors: tuple[int, ...] = (15, 10)

    @classmethod
    def preset(cls, recipe: str = "reference", dataset: str | None = None, **changes: Any) -> Self:
        """Return the method with what all networks share on a dataset, and your `changes`."""
        settings = SHARED_SETTINGS.get((dataset or "").lower(), {})
        return super().preset(recipe, dataset, **(settings | changes))

    @abstractmethod
    def _learner(self, tasks: Sequence[NodeTask], seeds: Sequence[int]) -> Learner:
        """Return what is to be trained: a run for each task and seed, all on one graph."""

    def _train(self, tasks: Sequence[NodeTask], seeds: Sequence[int], loop: Loop) -> list[Fit]:
        if count() > 1 and not self.batch_size:
            raise EraseError(
                "batch_size of at least 1 where several processes train",
                "batch_size=0",
                "Set batch_size, or start one process.",
            )
        if self.batch_size and len(tasks) > 1:  # their batches differ: one after the other
            return [
                fit
                for task, seed in zip(tasks, seeds, strict=True)
                for fit in self._train([task], [seed], loop)
            ]
        settings = self.settings() | {"seeds": list(seeds)}
        learner = self._learner(tasks, seeds)
        return loop.run(learner, tasks, settings, epochs=self.epochs, patience=self.patience)


@dataclass(frozen=True, eq=False)
class Batch:
    """The nodes of a step, and all that their representations follow from.

    The whole graph is one batch. Of a sample, the first layer is computed where the second needs
    it, and the second where the loss does.

    Attributes:
        x: features of the columns of `graph`.
        graph: whom nodes listen to in the first layer.
        last: whom they listen to in the second; its M rows are the nodes of the batch.
        nodes: [M] their numbers in the whole graph.
        train: [R, n] the rows that are training nodes of the step.
        given: [R, n] their given labels.
    """

    x: Features
    graph: Graph
    last: Graph
    nodes: Tensor
    train: Tensor
    given: Tensor


class NetworkLearner(Learner):
    """R runs of a method on one graph, put where they are trained.

    A subclass builds its network from `build_encoder`, hands it to `train_by_adam`, and writes the
    losses of a batch and the outcome.

    Args:
        method: whose parameters hold for all runs.
        tasks: [R] the same graph with each run's labels; one where batches are sampled.
        seeds: [R].

    Attributes:
        looks_around: whether the losses are about all nodes of a sample, not its seeds alone.
        graph: the whole graph.
        train_index: [R, n] training nodes of each run.
        given: [R, n] their given labels.
        dropout: a stream for each run.
        samples: batches of training nodes; None where the whole graph is one batch, `whole`, and
            where a method goes through it by itself.
    """

    looks_around: ClassVar[bool] = False

    def __init__(
        self, method: NetworkClassifier, tasks: Sequence[NodeTask], seeds: Sequence[int]
    ) -> None:
        self.method = method
        self.seeds = list(seeds)
        task = tasks[0]
        self.num_classes = task.num_classes
        self.num_features = task.num_features
        self.device = resolve_device(method.device)
        self.graph = Graph(task.edge_index.to(self.device), task.num_nodes)
        self.train_index = torch.stack([t.train_index for t in tasks]).to(self.device)
        self.given = torch.stack([t.y[t.train_index] for t in tasks]).to(self.device)
        self.streams = self.dropout_streams("dropout")
        self.dropout = list(self.streams.values())
        self.samples: SampledNeighbours | None = None
        if method.batch_size:
            self._go_through(task)
            if self.samples_batches():
                self._sample_from(task, seeds[0])
        else:
            self.x = Features(task.x.to(self.device))
            self.whole = Batch(
                x=self.x,
                graph=self.graph,
                last=self.graph,
                nodes=torch.arange(task.num_nodes, device=self.device),
                train=self.train_index,
                given=self.given,
            )

    def samples_batches(self) -> bool:
        """Return whether `batch_size` means samples, as it does unless a method says otherwise."""
        return True

    def _go_through(self, task: NodeTask) -> None:
        """Train on parts of a task whose features and edges stay where they are."""
        self._x, self._y = task.x, task.y
        # the loop must not record an epoch, nor keep an outcome [N, D] beside the one it looks at
        self.waits = self.revisits = True

    def _sample_from(self, task: NodeTask, seed: int) -> None:
        """Draw batches of training nodes."""
        method = self.method
        drawn = [10**9 if k < 0 else k for k in method.num_neighbors]
        reached = task.train_index.numel() * sum(prod(drawn[:i]) for i in range(len(drawn) + 1))
        self.evaluate_every = ceil(task.num_nodes / reached)
        self.streams["sampling"] = torch_stream(seed, "sampling")
        self._on_cpu = Graph(task.edge_index, task.num_nodes)
        self.samples = SampledNeighbours(
            self._on_cpu,
            task.train_index,
            batch_size=method.batch_size,
            num_neighbors=method.num_neighbors,
            stream=self.streams["sampling"],
        )

    def _batch(self, sample: Sample) -> Batch:
        """Return a sample as the batch of a step."""
        seeds, inner, size = sample.hops[0], sample.hops[-2], sample.nodes.numel()
        rows, last_rows = (size, size) if self.looks_around else (inner, seeds)
        degree = self._on_cpu.degree[sample.nodes].to(self.device)
        edges = sample.edge_index.to(self.device)
        return Batch(
            x=self.read(sample.nodes),
            graph=_first_rows(edges, degree, rows),
            last=_first_rows(edges, degree[:rows], last_rows),
            nodes=sample.nodes[:last_rows].to(self.device),
            train=torch.arange(seeds, device=self.device)[None],
            given=self._y[sample.nodes[:seeds]].to(self.device)[None],
        )

    def rows_of(self, nodes: Tensor) -> Tensor:
        """Return rows of x [n, F], where the network is."""
        return take_rows(self._x, nodes.to(self._x.device)).to(self.device)

    def read(self, nodes: Tensor) -> Features:
        """Return the features of some nodes, where the network is."""
        return Features(self.rows_of(nodes))

    def build_encoder(
        self, purpose: str, width: int, *, hidden: Activation, output: Activation
    ) -> Encoder:
        """Return an encoder of each run, its initial weights drawn from the stream `purpose`."""
        return Encoder(
            self.method.encoder,
            in_width=self.num_features,
            hidden=self.method.hidden,
            width=width,
            heads=self.method.heads,
            dropout=self.method.dropout,
            hidden_activation=hidden,
            output_activation=output,
            streams=[torch_stream(seed, purpose) for seed in self.seeds],
        ).to(self.device)

    def dropout_streams(self, purpose: str) -> dict[str, torch.Generator]:
        """Return the random stream `purpose` of each run, where the network is."""
        return {
            f"{purpose} {run}": torch_stream(seed, purpose, self.device)
            for run, seed in enumerate(self.seeds)
        }

    def train_by_adam(self, network: nn.Module, *, amsgrad: bool = False) -> None:
        """Make `network` what is trained."""
        self.network = network
        self.optimiser = torch.optim.Adam(
            network.parameters(),
            lr=self.method.lr,
            weight_decay=self.method.weight_decay,
            amsgrad=amsgrad,
            capturable=self.device.type == "cuda",
        )

    @abstractmethod
    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return what to write into the history [R], ``loss`` among it."""

    def minimised(self, watched: dict[str, Tensor]) -> Tensor:
        """Return what a step goes down [R]: the loss, unless a method says otherwise."""
        return watched["loss"]

    def begin_epoch(self) -> None:
        """Do what an epoch needs before its first step: nothing, unless a method says so."""

    def end_epoch(self) -> None:
        """Do what is due after the last step of an epoch: nothing, unless a method says so."""

    def step(self) -> dict[str, Tensor]:
        """Train one epoch: a step on the whole graph, or on every batch."""
        self.begin_epoch()
        watched = self._step_on(self.whole) if self.samples is None else self._train_by_batches()
        self.end_epoch()
        return watched

    def _train_by_batches(self) -> dict[str, Tensor]:
        """Take a step on every batch; return the mean of what is watched, over training nodes."""
        total: dict[str, Tensor] = {}
        for sample in self.samples or ():
            batch = self._batch(sample)
            for name, value in self._step_on(batch).items():
                total[name] = total.get(name, 0.0) + batch.train.shape[1] * value
        return {name: value / self.train_index.shape[1] for name, value in total.items()}

    def _step_on(self, batch: Batch) -> dict[str, Tensor]:
        """Take a step down the losses of a batch; return what is watched."""
        watched = self.losses(batch)
        self.descend(self.minimised(watched))
        return {name: value.detach() for name, value in watched.items()}

    @full_float32()
    def descend(self, losses: Tensor) -> None:
        """Take an optimiser's step down the `losses` [R], whose runs share no parameter."""
        self.optimiser.zero_grad()
        losses.sum().backward()
        average_gradients(list(self.network.parameters()))
        self.optimiser.step()

    def encode(self, encoder: Encoder, batch: Batch, dropout: Sequence[torch.Generator]) -> Tensor:
        """Return what `encoder` says in training of the nodes of a batch [R, M, width]."""
        if count() > 1:
            z, rows = self.encode_own(encoder, batch, dropout)
            return put_together(z, rows, batch.last.num_rows)
        whole: Tensor = encoder(batch.x, batch.graph, dropout, last=batch.last)
        return whole

    def encode_own(
        self, encoder: Encoder, batch: Batch, dropout: Sequence[torch.Generator]
    ) -> tuple[Tensor, Tensor]:
        """Return what `encoder` says of this process's share of a batch, and which rows that is.

        All processes drop the same entries of the same features, whoever needs them.
        """
        rows = own_rows(batch.last.num_rows, batch.nodes.device)
        x = batch.x.dropout(encoder.dropout, dropout) if encoder.dropout > 0 else batch.x
        some = rows if rows.numel() else rows.new_zeros(1)  # layers need a row
        last, middle = batch.last.only(some)
        first, columns = batch.graph.only(middle)
        z: Tensor = encoder(x.take(columns), first, last=last)
        return z[:, : rows.numel()], rows

    def hidden_of_all(self, encoder: Encoder) -> Tensor:
        """Return the hidden layer of all nodes [R, N, hidden], in use."""
        if not self.method.batch_size:
            return encoder.hidden(self.whole.x, self.graph)
        return hidden_of_all(encoder, self.read, self.graph)

    def output_of_all(self, encoder: Encoder, hidden: Tensor) -> Tensor:
        """Return the output for all nodes [R, N, width] from their hidden layer."""
        if not self.method.batch_size:
            return encoder.output(hidden, self.graph)
        return output_of_all(encoder, hidden, self.graph)


def _first_rows(edge_index: Tensor, degree: Tensor, rows: int) -> Graph:
    """Return the first rows of a sampled graph among as many nodes as there are in `degree`."""
    kept = int(torch.searchsorted(edge_index[0], rows))
    itself = torch.arange(rows, device=degree.device)
    return Graph(edge_index[:, :kept], degree.numel(), itself=itself, degree=degree)
