"""What methods that train a network share: parameters, encoders, epochs, optimiser."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from erase.data.limits import memory_limit
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
from erase.nn.encoders import ENCODERS, Activation, Encoder
from erase.nn.graph_encoder import GraphEncoder
from erase.nn.own_encoder import Factory, OwnEncoder
from erase.nn.precision import full_float32
from erase.random import torch_stream
from erase.training.graphs import Batch, WholeGraph, whole_graph
from erase.training.large_graphs import ChunkedGraph, SampledGraph, mean_over_batches
from erase.training.loop import Fit, Learner, Loop, Outcome
from erase.training.processes import average_gradients, count

# settings of every network on a dataset whose published numbers need other ones than usual
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
    """A method that trains a network by epochs.

    It writes ``_networks``, which builds the network, ``_learner``, which trains it, and
    ``_outcome``, what it predicts for a graph.

    The encoder uses edge weights, if the graph has any.

    Args:
        encoder: "gat", "gcn" or "sage", two layers; or a function that is called with the numbers
            of input and output columns and returns a module with PyG's ``forward(x, edge_index)``.
            Such a module trains on whole graphs; `hidden` and `heads` are its own.
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
        "encoder": OneOf(tuple(ENCODERS), "(in_channels, out_channels) -> torch.nn.Module"),
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
    uses_edge_weights: ClassVar[bool] = True
    representing: ClassVar[tuple[str, ...]] = ("encoder",)  # the encoders behind `transform`
    represents_hidden: ClassVar[bool] = True  # whether `transform` returns their hidden layers

    encoder: str | Factory = "gat"
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

    def check_params(self) -> None:
        """Raise an EraseError for the first parameter, or pair of them, that cannot be used."""
        super().check_params()
        if callable(self.encoder) and self.batch_size:
            raise EraseError(
                "batch_size=0 with an encoder of your own, which sees the whole graph",
                f"batch_size={self.batch_size}",
                f"Set batch_size=0, or encoder to {', '.join(map(repr, ENCODERS))}.",
            )

    @abstractmethod
    def _networks(self, size: "NetworkSize") -> dict[str, Any]:
        """Return the parts of the network by name, with their initial weights."""

    @abstractmethod
    def _learner(self, tasks: Sequence[NodeTask], seeds: Sequence[int]) -> Learner:
        """Return what the loop trains: a run for each task and seed, all on one graph."""

    @abstractmethod
    def _outcome(self, network: Any, data: WholeGraph | ChunkedGraph) -> Outcome:
        """Return the predictions [R, N, …] of a trained network for all nodes of a graph."""

    def _build_encoder(
        self,
        purpose: str,
        size: "NetworkSize",
        width: int,
        *,
        hidden: Activation,
        output: Activation,
    ) -> Encoder:
        """Return an encoder of each run, its initial weights drawn from the stream `purpose`."""
        streams = [torch_stream(seed, purpose) for seed in size.seeds]
        # weights, gradients and two moments of Adam, in float32
        needed = 16 * len(size.seeds) * self.hidden * (size.in_width + width)
        if not callable(self.encoder) and needed > (limit := memory_limit()):
            raise EraseError(
                f"a network that fits into {limit / 1e9:.0f} GB of memory",
                f"one of {needed / 1e9:,.0f} GB with hidden={self.hidden}",
                "Lower hidden.",
            )
        if callable(self.encoder):
            return OwnEncoder(
                self.encoder,
                in_width=size.in_width,
                width=width,
                dropout=self.dropout,
                output_activation=output,
                stream=streams[0],
            )
        return Encoder(
            self.encoder,
            in_width=size.in_width,
            hidden=self.hidden,
            width=width,
            heads=self.heads,
            dropout=self.dropout,
            hidden_activation=hidden,
            output_activation=output,
            streams=streams,
            weighted=size.weighted,
        )

    def _fitted_network(self) -> nn.ModuleDict:
        """Return the network with the weights of the best epoch, as one run."""
        weights = self._fitted().weights
        width, classes = self.contract_.width, len(self.classes_)
        size = NetworkSize(width, classes, [self.seed], weighted=self.weighted_)
        network = nn.ModuleDict(self._networks(size))
        # without a dot: buffers of the training, such as its epoch
        of_parts = {name: value[None] for name, value in weights.items() if "." in name}
        network.load_state_dict(of_parts)
        return network

    @cached_property
    def encoder_(self) -> nn.Module:
        """The fitted encoder as a torch module with ``forward(x, edge_index, edge_weight=None)``.

        Its output is that of `transform`; changing it does not change this method. Of an encoder of
        your own it is that module, whose output the method's activation follows.
        """
        network: Any = self._fitted_network()
        encoders = [network[name] for name in self.representing]
        if isinstance(encoders[0], OwnEncoder):
            return encoders[0].module.eval()
        return GraphEncoder(encoders, hidden=self.represents_hidden, weighted=self.weighted_)

    @torch.no_grad()
    def _apply(self, task: NodeTask) -> Outcome:
        device = resolve_device(self.device)
        graph, network = whole_graph(task, device), self._fitted_network().to(device)
        data: WholeGraph | ChunkedGraph
        if callable(self.encoder):
            nothing = torch.empty(1, 0, dtype=torch.int64, device=device)
            data = WholeGraph(task.x.to(device), graph, nothing, nothing)
        else:
            data = ChunkedGraph(task, graph, device)
        return one_run(self._outcome(network, data))

    def _check_weights(self) -> None:
        self._fitted_network()

    def _train(self, tasks: Sequence[NodeTask], seeds: Sequence[int], loop: Loop) -> list[Fit]:
        if count() > 1 and not self.batch_size:
            raise EraseError(
                "batch_size of at least 1 where several processes train",
                "batch_size=0",
                "Set batch_size, or start one process.",
            )
        # runs whose batches differ, or whose encoder holds one run: one after the other
        if (self.batch_size or callable(self.encoder)) and len(tasks) > 1:
            return [
                fit
                for task, seed in zip(tasks, seeds, strict=True)
                for fit in self._train([task], [seed], loop)
            ]
        settings = self.settings() | {"seeds": list(seeds)}
        learner = self._learner(tasks, seeds)
        return loop.run(learner, tasks, settings, epochs=self.epochs, patience=self.patience)


@dataclass(frozen=True)
class NetworkSize:
    """What the shapes of a network depend on besides its hyper-parameters.

    Attributes:
        in_width: F.
        num_classes: K.
        seeds: [R] of the runs.
        weighted: whether the graphs have edge weights.
    """

    in_width: int
    num_classes: int
    seeds: Sequence[int]
    weighted: bool

    @classmethod
    def of(cls, task: NodeTask, seeds: Sequence[int]) -> Self:
        """Return the size of a network for a task."""
        return cls(task.num_features, task.num_classes, seeds, task.edge_weight is not None)


def one_run(outcome: Outcome) -> Outcome:
    """Return the outcome of the only run, on the CPU."""
    return Outcome(outcome.proba[0].cpu(), outcome.embedding[0].cpu(), outcome.labels[0].cpu())


class NetworkLearner(Learner):
    """R runs of a method on one graph, on the device where they train.

    A subclass calls `train_by_adam`, and writes `step` and `evaluate`. :class:`BatchLearner` has a
    `step` for methods that are a loss.

    Args:
        method: whose parameters hold for all runs.
        tasks: [R] the same graph with each run's labels; one where batches are sampled.
        seeds: [R].

    Attributes:
        parts: of the network by name.
        graph: the whole graph.
        train_index: [R, n] training nodes of each run.
        given: [R, n] their given labels, or trusted ones.
        trusted: [R, N] trusted labels of training nodes, -1 elsewhere; None where no run has any.
        dropout: a random stream for each run.
    """

    def __init__(
        self, method: NetworkClassifier, tasks: Sequence[NodeTask], seeds: Sequence[int]
    ) -> None:
        self.method = method
        self.seeds = list(seeds)
        task = tasks[0]
        self.num_classes = task.num_classes
        self.device = resolve_device(method.device)
        self.parts = method._networks(NetworkSize.of(task, seeds))
        self.network = nn.ModuleDict(self.parts).to(self.device)
        self.graph = whole_graph(task, self.device)
        self.train_index = torch.stack([t.train_index for t in tasks]).to(self.device)
        self.given = torch.stack([t.y[t.train_index] for t in tasks]).to(self.device)
        self.trusted = _trusted_labels(tasks, self.device)
        self.streams = self.random_streams("dropout")
        self.dropout = list(self.streams.values())
        # with batches an epoch cannot be recorded, and outcomes are too large to keep two of them
        self.waits = self.revisits = bool(method.batch_size)
        self.waits |= callable(method.encoder)  # it may do anything

    def sampled(self, task: NodeTask, *, all_nodes: bool) -> SampledGraph:
        """Return the graph in batches of training nodes with sampled neighbours."""
        self.streams["sampling"] = torch_stream(self.seeds[0], "sampling")
        data = SampledGraph(
            task,
            self.graph,
            self.device,
            batch_size=self.method.batch_size,
            num_neighbors=self.method.num_neighbors,
            stream=self.streams["sampling"],
            all_nodes=all_nodes,
        )
        self.evaluate_every = data.evaluate_every
        return data

    def random_streams(self, purpose: str) -> dict[str, torch.Generator]:
        """Return the random stream `purpose` of each run, on the network's device."""
        return {
            f"{purpose} {run}": torch_stream(seed, purpose, self.device)
            for run, seed in enumerate(self.seeds)
        }

    def train_by_adam(self, *, amsgrad: bool = False) -> None:
        """Train the network by Adam, with the method's learning rate and weight decay."""
        self.optimiser = torch.optim.Adam(
            self.network.parameters(),
            lr=self.method.lr,
            weight_decay=self.method.weight_decay,
            amsgrad=amsgrad,
            capturable=self.device.type == "cuda",
        )

    @full_float32()
    def descend(self, losses: Tensor) -> None:
        """Take an optimiser's step down the `losses` [R], whose runs share no parameter."""
        self.optimiser.zero_grad()
        losses.sum().backward()
        average_gradients(list(self.network.parameters()))
        self.optimiser.step()


def _trusted_labels(tasks: Sequence[NodeTask], device: torch.device) -> Tensor | None:
    """Return the trusted labels of each run's training nodes [R, N], -1 elsewhere, if any."""
    if all(task.trusted is None for task in tasks):
        return None
    trusted = [
        torch.full_like(task.y, -1)
        if task.trusted is None
        else task.trusted.where(task.train_mask, -1)
        for task in tasks
    ]
    return torch.stack(trusted).to(device)


class BatchLearner(NetworkLearner):
    """A method that is a loss: an epoch is a step down `losses` of every batch.

    The whole graph is one batch, unless the method has a `batch_size`.

    Attributes:
        all_nodes: whether the losses are about all nodes of a sample, not its training nodes alone.
        data: the graph in batches.
    """

    all_nodes: ClassVar[bool] = False

    def __init__(
        self, method: NetworkClassifier, tasks: Sequence[NodeTask], seeds: Sequence[int]
    ) -> None:
        super().__init__(method, tasks, seeds)
        self.data: WholeGraph | SampledGraph
        if method.batch_size:
            self.data = self.sampled(tasks[0], all_nodes=self.all_nodes)
        else:
            x = tasks[0].x.to(self.device)
            self.data = WholeGraph(x, self.graph, self.train_index, self.given)

    @abstractmethod
    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return the values for the history [R], ``loss`` among them."""

    def minimised(self, watched: dict[str, Tensor]) -> Tensor:
        """Return what a step minimises [R]: the loss, unless a method has another."""
        return watched["loss"]

    def trusted_in(self, batch: Batch) -> Tensor | None:
        """Return which training nodes of a batch have a trusted label [R, n], if any node has."""
        if self.trusted is None:
            return None
        return self.trusted[:, batch.nodes].gather(1, batch.train) >= 0

    def end_epoch(self) -> None:
        """Do what is due after the last step of an epoch: nothing, unless a method overrides it."""

    def step(self) -> dict[str, Tensor]:
        """Train one epoch; return its mean losses."""
        if isinstance(self.data, WholeGraph):
            watched = self.step_on(self.data.batch)
        else:
            watched = mean_over_batches(self.step_on, self.data.batches())
        self.end_epoch()
        return watched

    def step_on(self, batch: Batch) -> dict[str, Tensor]:
        """Take a step down the losses of a batch, and return them."""
        watched = self.losses(batch)
        self.descend(self.minimised(watched))
        return {name: value.detach() for name, value in watched.items()}


@dataclass(kw_only=True, eq=False, repr=False)
class SupervisedClassifier(NetworkClassifier):
    """A network with one output per class; a method writes its loss.

    The representation is the hidden layer, and the method's own labels are its predictions.
    """

    @abstractmethod
    def _losses(self, logits: Tensor, nodes: Tensor, classes: Tensor) -> Tensor:
        """Return the loss of each run [R].

        Args:
            logits: [R, M, K] of the nodes of a step, in training mode.
            nodes: [R, n] the training nodes among them.
            classes: [R, n] their given labels.
        """

    def _networks(self, size: NetworkSize) -> dict[str, Any]:
        logits = self._build_encoder(
            "weights", size, size.num_classes, hidden="relu", output="none"
        )
        return {"encoder": logits}

    def _learner(self, tasks: Sequence[NodeTask], seeds: Sequence[int]) -> Learner:
        return SupervisedLearner(self, tasks, seeds)

    def _outcome(self, network: Any, data: WholeGraph | ChunkedGraph) -> Outcome:
        """Return the softmax of the logits, and the hidden layer."""
        return mean_outcome([network["encoder"]], data)


def mean_outcome(encoders: Sequence[Any], data: WholeGraph | ChunkedGraph) -> Outcome:
    """Return the mean of the encoders' softmax, and their hidden layers side by side."""
    hidden = [data.hidden(encoder) for encoder in encoders]
    probas = [
        data.output(encoder, h).softmax(2) for encoder, h in zip(encoders, hidden, strict=True)
    ]
    if len(encoders) == 1:  # nothing is copied
        return Outcome(probas[0], hidden[0], probas[0].argmax(2))
    proba = torch.stack(probas).mean(0)
    return Outcome(proba, torch.cat(hidden, 2), proba.argmax(2))


class SupervisedLearner(BatchLearner):
    """Steps down a method's loss."""

    method: SupervisedClassifier

    def __init__(
        self, method: SupervisedClassifier, tasks: Sequence[NodeTask], seeds: Sequence[int]
    ) -> None:
        super().__init__(method, tasks, seeds)
        self.encoder: Encoder = self.parts["encoder"]
        self.train_by_adam()

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return the method's loss."""
        logits = self.data.encode(self.encoder, batch, self.dropout)
        return {"loss": self.method._losses(logits, batch.train, batch.given)}

    @torch.no_grad()
    def evaluate(self) -> Outcome:
        """Return the softmax of the logits, and the hidden layer."""
        return self.method._outcome(self.network, self.data)
