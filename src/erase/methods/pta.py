"""PTA: propagate the given labels, then train a network on them adaptively (Dong et al., 2021).

A network without edges learns from labels that were spread over the graph; its own predictions
weigh them, more from epoch to epoch, so that spread labels it disagrees with lose influence.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, one_hot, relu

from erase.data.task import NodeTask
from erase.methods.base import POSITIVE, SHARE, Constraint, Number, OneOf, Range
from erase.methods.network import BatchLearner, NetworkClassifier, NetworkSize
from erase.nn.encoders import Encoder, Features, Layer, Messages, Streams
from erase.nn.sparse import Graph, propagate
from erase.random import torch_stream
from erase.training.graphs import Batch, WholeGraph
from erase.training.large_graphs import ChunkedGraph
from erase.training.loop import Learner, Outcome

# not the citation graphs of its authors: with their decay the network learns little or nothing
DATASET_SETTINGS: dict[str, dict[str, Any]] = {
    "computers": {"weight_decay": 5e-4},
    "cs": {"weight_decay": 5e-4},
}


class _DenseLayer(Layer):
    """xW plus a bias: a layer that uses no edges."""

    def _draw_weights(self, in_width: int, out_width: int, streams: Streams) -> None:
        bound = (6 / (in_width + out_width)) ** 0.5
        shape = (in_width, out_width)
        drawn = [torch.empty(shape).uniform_(-bound, bound, generator=own) for own in streams]
        self.weight = nn.Parameter(torch.stack(drawn))

    def message(self, x: Features | Tensor) -> Messages:
        return (x.project(self.weight) if isinstance(x, Features) else x @ self.weight,)

    def aggregate(self, messages: Messages, graph: Graph) -> Tensor:
        return graph.of_rows(messages[0], 1) + self.bias


class _Perceptron(Encoder):
    """Two layers that use no edges, with the interface of an encoder."""

    def __init__(
        self, *, in_width: int, hidden: int, width: int, dropout: float, streams: Streams
    ) -> None:
        nn.Module.__init__(self)
        self.first = _DenseLayer(in_width, hidden, 1, streams)
        self.second = _DenseLayer(hidden, width, 1, streams)
        self.dropout = dropout
        self.hidden_activation = "relu"
        self.output_activation = "none"


class _HiddenLayer(nn.Module):
    """The hidden layer of a fitted network as a module of plain torch operations."""

    def __init__(self, network: _Perceptron) -> None:
        super().__init__()
        weight, bias = network.first.weight, network.first.bias
        assert isinstance(weight, Tensor)
        self.weight = nn.Parameter(weight.detach()[0].clone())
        self.bias = nn.Parameter(bias.detach()[0].clone())
        self.dropout = network.dropout
        self.eval()

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return the representations [N, hidden], which depend on features alone."""
        return relu(dropout(x, self.dropout, self.training) @ self.weight + self.bias)


def spread(graph: Graph, values: Tensor, keep: float, steps: int) -> Tensor:
    """Return Z^(T) of Z^(t+1) = (1−α) Ŝ Z^(t) + α Z^(0) for Z^(0) = `values` [R, N, K].

    Ŝ = D̂^-1/2 (A + I) D̂^-1/2, with the edge weights as entries of A, if there are any.

    Args:
        graph: A.
        values: [R, N, K], not below 0.
        keep: α.
        steps: T.
    """
    pattern, entries = graph.normalised("symmetric", self_loops=True)
    return propagate(pattern, entries, values, keep=keep, steps=steps, restart=True, bounded=False)


def adaptive_loss(logits: Tensor, labels: Tensor, exponent: Tensor) -> Tensor:
    """Return −Σ_ik w_ik log f_ik / Σ_ik w_ik [R] with w_ik = y_ik f_ik^γ, held fixed.

    Args:
        logits: [R, n, K] of f.
        labels: [R, n, K] spread labels y, not below 0; the loss of a run without any is 0.
        exponent: [R] γ; 0: w = y.
    """
    log_f = logits.log_softmax(2)
    weights = labels * (exponent[:, None, None] * log_f.detach()).exp()
    total = weights.sum((1, 2))
    return -(weights * log_f).sum((1, 2)) / total.where(total > 0, 1.0)


@dataclass(kw_only=True, eq=False, repr=False)
class PTA(NetworkClassifier):
    """PTA (Dong et al., 2021): spread the given labels, then train on them adaptively.

    The given labels are spread over the graph by personalised PageRank, see :func:`spread`. A
    network of two layers, which uses no edges, learns these soft labels y of all nodes: it
    minimises :func:`adaptive_loss`, whose weights are y f^γ for its own probabilities f, with γ =
    log(1 + e/ε) in the e-th epoch, counted from 0. Its probabilities, spread in the same way and
    divided by their sums, predict; the representation is its hidden layer.

    Args:
        keep: α, weight of a node's own label in a step of the propagation.
        steps: of the propagation.
        ramp: ε; the larger, the longer all spread labels count alike.
        weight_decay: Adam's, of the first layer's weights alone.

    The other parameters are those of :class:`erase.methods.network.NetworkClassifier`, where
    `heads` has no effect and `encoder` is "mlp".

    Note:
        The loss is a weighted mean. With `batch_size` it is taken over the nodes of a sample, and
        both propagations are of the whole graph.
    """

    constraints: ClassVar[dict[str, Constraint]] = NetworkClassifier.constraints | {
        "encoder": OneOf(("mlp",)),
        "keep": SHARE,
        "steps": Number(low=0, whole=True),
        "ramp": POSITIVE,
    }
    space: ClassVar[dict[str, Range | OneOf]] = NetworkClassifier.space | {
        "lr": Range(1e-3, 0.2, log=True),
        "keep": Range(0.02, 0.5, log=True),
        "steps": Range(2, 20, whole=True),
        "ramp": Range(10.0, 1000.0, log=True),
    }

    representing: ClassVar[tuple[str, ...]] = ("network",)

    encoder: str = "mlp"
    hidden: int = 64
    dropout: float = 0.0
    lr: float = 0.1
    weight_decay: float = 5e-3
    keep: float = 0.1
    steps: int = 10
    ramp: float = 100.0

    @classmethod
    def preset(cls, recipe: str = "reference", dataset: str | None = None, **changes: Any) -> Self:
        """Return the method with its settings for a dataset, and your `changes`."""
        settings = DATASET_SETTINGS.get((dataset or "").lower(), {})
        return super().preset(recipe, dataset, **(settings | changes))

    def _networks(self, size: NetworkSize) -> dict[str, Any]:
        return {
            "network": _Perceptron(
                in_width=size.in_width,
                hidden=self.hidden,
                width=size.num_classes,
                dropout=self.dropout,
                streams=[torch_stream(seed, "weights") for seed in size.seeds],
            )
        }

    def _learner(self, tasks: Sequence[NodeTask], seeds: Sequence[int]) -> Learner:
        return _PTALearner(self, tasks, seeds)

    def _outcome(self, network: Any, data: WholeGraph | ChunkedGraph) -> Outcome:
        """Return the probabilities spread over the graph, and the hidden layer."""
        hidden = data.hidden(network["network"])
        own = data.output(network["network"], hidden).softmax(2)
        proba = spread(data.graph, own, self.keep, self.steps)
        proba = proba / proba.sum(2, keepdim=True)
        return Outcome(proba, hidden, proba.argmax(2))

    @cached_property
    def encoder_(self) -> nn.Module:
        """The fitted network's hidden layer as a torch module; it ignores the edges."""
        network: Any = self._fitted_network()
        return _HiddenLayer(network["network"])


class _PTALearner(BatchLearner):
    method: PTA
    all_nodes = True

    def __init__(self, method: PTA, tasks: Sequence[NodeTask], seeds: Sequence[int]) -> None:
        super().__init__(method, tasks, seeds)
        runs, n = len(tasks), self.graph.num_nodes
        given = torch.zeros(runs, n, self.num_classes, device=self.device)
        known = one_hot(self.given, self.num_classes).to(given.dtype)
        given.scatter_(1, self.train_index[..., None].expand_as(known), known)
        self.labels = spread(self.graph, given, method.keep, method.steps)
        self.perceptron: _Perceptron = self.parts["network"]
        # a buffer, so that checkpoints and recorded epochs contain the progress of training
        self.epoch = torch.zeros(runs, dtype=torch.int64, device=self.device)
        self.network.register_buffer("epoch", self.epoch)
        decayed = [self.perceptron.first.weight]
        others = [self.perceptron.first.bias, *self.perceptron.second.parameters()]
        self.optimiser = torch.optim.Adam(
            [
                {"params": decayed, "weight_decay": method.weight_decay},
                {"params": others, "weight_decay": 0.0},
            ],
            lr=method.lr,
            capturable=self.device.type == "cuda",
        )

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        logits = self.data.encode(self.perceptron, batch, self.dropout)
        exponent = (self.epoch / self.method.ramp).log1p()
        return {"loss": adaptive_loss(logits, self.labels[:, batch.nodes], exponent)}

    def end_epoch(self) -> None:
        self.epoch += 1

    @torch.no_grad()
    def evaluate(self) -> Outcome:
        return self.method._outcome(self.network, self.data)
