"""What methods that train a network share: their parameters, inputs, encoders and optimiser."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from erase.encoders import ENCODERS, Activation, Encoder, Features
from erase.graph import Graph
from erase.methods.base import (
    COUNT,
    POSITIVE,
    SHARE,
    Constraint,
    NodeClassifier,
    Number,
    OneOf,
    Range,
    resolve_device,
)
from erase.seeds import torch_stream
from erase.task import NodeTask
from erase.train import Fit, Learner, Loop


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
        seed: of initial weights and dropout.
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
    }
    space: ClassVar[dict[str, Range | OneOf]] = {
        "dropout": Range(0.0, 0.8),
        "lr": Range(1e-4, 1e-2, log=True),
        "weight_decay": Range(1e-5, 1e-2, log=True),
    }

    encoder: str = "gat"
    hidden: int = 256
    heads: int = 8
    dropout: float = 0.5
    lr: float = 1e-3
    weight_decay: float = 5e-4
    epochs: int = 400
    patience: int = 150

    @abstractmethod
    def _learner(self, tasks: Sequence[NodeTask], seeds: Sequence[int]) -> Learner:
        """Return what is to be trained: a run for each task and seed, all on one graph."""

    def _train(self, tasks: Sequence[NodeTask], seeds: Sequence[int], loop: Loop) -> list[Fit]:
        settings = self.settings() | {"seeds": list(seeds)}
        learner = self._learner(tasks, seeds)
        return loop.run(learner, tasks, settings, epochs=self.epochs, patience=self.patience)


class NetworkLearner(Learner):
    """R runs of a method on one graph, put where they are trained.

    A subclass builds its network from `build_encoder`, hands it to `train_by_adam`, and writes the
    step and the outcome.

    Args:
        method: whose parameters hold for all runs.
        tasks: [R] the same graph with each run's labels.
        seeds: [R].

    Attributes:
        x: features of the nodes.
        graph: its operators.
        train_index: [R, n] training nodes of each run.
        given: [R, n] their given labels.
    """

    def __init__(
        self, method: NetworkClassifier, tasks: Sequence[NodeTask], seeds: Sequence[int]
    ) -> None:
        self.method = method
        self.seeds = list(seeds)
        task = tasks[0]
        self.num_classes = task.num_classes
        self.device = resolve_device(method.device)
        self.x = Features(task.x.to(self.device))
        self.graph = Graph(task.edge_index.to(self.device), task.num_nodes)
        self.train_index = torch.stack([t.train_index for t in tasks]).to(self.device)
        self.given = torch.stack([t.y[t.train_index] for t in tasks]).to(self.device)
        self.streams = self.dropout_streams("dropout")

    def build_encoder(
        self, purpose: str, width: int, *, hidden: Activation, output: Activation
    ) -> Encoder:
        """Return an encoder of each run, its initial weights drawn from the stream `purpose`."""
        return Encoder(
            self.method.encoder,
            in_width=self.x.shape[1],
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

    def descend(self, losses: torch.Tensor) -> None:
        """Take an optimiser's step down the `losses` [R], whose runs share no parameter."""
        self.optimiser.zero_grad()
        losses.sum().backward()
        self.optimiser.step()
