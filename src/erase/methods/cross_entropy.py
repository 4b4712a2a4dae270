"""CE: a graph neural network trained by cross-entropy on the labels as they are given."""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from erase.encoders import ENCODERS, Encoder, Features
from erase.graph import Graph
from erase.methods.base import (
    COUNT,
    POSITIVE,
    SHARE,
    Constraint,
    NodeClassifier,
    Number,
    OneOf,
    resolve_device,
)
from erase.seeds import torch_stream
from erase.task import NodeTask
from erase.train import Learner, Outcome, mean_cross_entropy


class CrossEntropy(NodeClassifier):
    """Minimise −log p(given label) over the training nodes: the baseline that believes every label.

    Args:
        encoder: "gat", "gcn" or "sage"; two layers, the second as wide as there are classes.
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

    constraints: ClassVar[dict[str, Constraint]] = {
        "encoder": OneOf(tuple(ENCODERS)),
        "hidden": COUNT,
        "heads": COUNT,
        "dropout": SHARE,
        "lr": POSITIVE,
        "weight_decay": Number(low=0),
        "epochs": COUNT,
        "patience": COUNT,
        "seed": Number(low=0, whole=True),
    }

    def __init__(
        self,
        *,
        encoder: str = "gat",
        hidden: int = 256,
        heads: int = 8,
        dropout: float = 0.5,
        lr: float = 1e-3,
        weight_decay: float = 5e-4,
        epochs: int = 400,
        patience: int = 150,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        self.encoder = encoder
        self.hidden = hidden
        self.heads = heads
        self.dropout = dropout
        self.lr = lr
        self.weight_decay = weight_decay
        self.epochs = epochs
        self.patience = patience
        self.seed = seed
        self.device = device

    def _learner(self, tasks: Sequence[NodeTask], seeds: Sequence[int]) -> Learner:
        return _CrossEntropyLearner(self, tasks, seeds)


class _CrossEntropyLearner(Learner):
    def __init__(
        self, method: CrossEntropy, tasks: Sequence[NodeTask], seeds: Sequence[int]
    ) -> None:
        device = resolve_device(method.device)
        task = tasks[0]
        self.x = Features(task.x.to(device))
        self.graph = Graph(task.edge_index.to(device), task.num_nodes)
        self.train_index = torch.stack([t.train_index for t in tasks]).to(device)  # [R, n]
        self.given = torch.stack([t.y[t.train_index] for t in tasks]).to(device)
        self.encoder = Encoder(
            method.encoder,
            in_width=task.num_features,
            hidden=method.hidden,
            width=task.num_classes,
            heads=method.heads,
            dropout=method.dropout,
            hidden_activation="relu",
            output_activation="none",
            streams=[torch_stream(seed, "weights") for seed in seeds],
        ).to(device)
        self.network = self.encoder
        self.optimiser = torch.optim.Adam(
            self.network.parameters(),
            lr=method.lr,
            weight_decay=method.weight_decay,
            capturable=device.type == "cuda",
        )
        self.streams = {
            f"dropout {run}": torch_stream(seed, "dropout", device)
            for run, seed in enumerate(seeds)
        }

    def step(self) -> dict[str, Tensor]:
        logits = self.encoder(self.x, self.graph, list(self.streams.values()))
        losses = mean_cross_entropy(logits, self.train_index, self.given)
        self.optimiser.zero_grad()
        losses.sum().backward()
        self.optimiser.step()
        return {"loss": losses.detach()}

    @torch.no_grad()
    def evaluate(self) -> Outcome:
        hidden = self.encoder.hidden(self.x, self.graph)
        proba = self.encoder.output(hidden, self.graph).softmax(2)
        return Outcome(proba, hidden, proba.argmax(2))
