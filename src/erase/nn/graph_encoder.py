"""A fitted encoder as a module of plain torch operations, for use outside this package."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, leaky_relu, normalize, relu

from erase.errors import EraseError
from erase.nn.encoders import Activation, Encoder, GATLayer, GCNLayer, SAGELayer

_TINY = torch.finfo(torch.float32).tiny  # of a norm; a shorter row becomes zero


class GraphEncoder(nn.Module):
    """Representations [N, D] of a graph by fitted encoders, to call, fine-tune and export.

    It takes `x` and `edge_index` as PyG has them and returns what `transform` does. In training
    mode entries of `x` are dropped as in the fit. The outputs of several encoders are side by side.

    Args:
        encoders: of one run each; their weights are copied.
        hidden: whether the hidden layer is the representation, and not the output.
        weighted: whether the encoders were fitted with edge weights.
    """

    def __init__(
        self, encoders: Sequence[Encoder], *, hidden: bool, weighted: bool = False
    ) -> None:
        super().__init__()
        self.weighted = weighted
        self.dropout = encoders[0].dropout
        self.encoders = nn.ModuleList(
            nn.ModuleList(_layers(encoder)[: 1 if hidden else 2]) for encoder in encoders
        )
        self.eval()

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return the representations [N, D].

        Args:
            x: [N, F] features.
            edge_index: [2, E] both directions of every edge, each once; self-loops do not count.
            edge_weight: [E] of the edges, if the fit had weights; else None.
        """
        if (edge_weight is not None) != self.weighted:
            raise EraseError(
                f"{'' if self.weighted else 'no '}edge_weight, as in the fit",
                "None" if self.weighted else "weights",
                "Pass the weights of the edges." if self.weighted else "Leave out edge_weight.",
            )
        if edge_weight is None:
            edge_weight = torch.ones_like(edge_index[0], dtype=x.dtype)
        # each node has a self-loop of its own: those of the graph do not count
        edge_weight = torch.where(edge_index[0] == edge_index[1], 0.0, edge_weight)
        outputs = []
        for layers in self.encoders:
            h = dropout(x, self.dropout, self.training)
            for layer in layers:  # type: ignore[attr-defined]
                h = layer(h, edge_index, edge_weight)
            outputs.append(h)
        return torch.cat(outputs, 1)


def _layers(encoder: Encoder) -> list[nn.Module]:
    kinds = (encoder.hidden_activation, encoder.output_activation)
    return [
        _LAYERS[type(layer)](layer, kind)
        for layer, kind in zip((encoder.first, encoder.second), kinds, strict=True)
    ]


class _PlainLayer(nn.Module):
    """The parameters of a layer without the dimension of runs, and its activation."""

    weight: Tensor
    bias: Tensor

    def __init__(self, layer: Any, activation: Activation) -> None:
        super().__init__()
        for name, value in layer.named_parameters():
            self.register_parameter(name, nn.Parameter(value.detach()[0].clone()))
        self.activation = activation

    def forward(self, x: Tensor, edge_index: Tensor, weights: Tensor) -> Tensor:
        source, target = edge_index
        return _activate(self.combine(x, source, target, weights) + self.bias, self.activation)

    @abstractmethod
    def combine(self, x: Tensor, source: Tensor, target: Tensor, weights: Tensor) -> Tensor:
        """Return the output [N, D] before bias and activation."""


class _PlainGCN(_PlainLayer):
    def combine(self, x: Tensor, source: Tensor, target: Tensor, weights: Tensor) -> Tensor:
        h = x @ self.weight
        scale = (torch.ones_like(h[:, 0]).index_add(0, target, weights)).rsqrt()
        values = (weights * scale[source] * scale[target])[:, None]
        return (scale**2)[:, None] * h + torch.zeros_like(h).index_add(
            0, target, values * h[source]
        )


class _PlainSAGE(_PlainLayer):
    neighbours: Tensor
    itself: Tensor

    def combine(self, x: Tensor, source: Tensor, target: Tensor, weights: Tensor) -> Tensor:
        h = x @ self.neighbours
        degree = torch.zeros_like(h[:, 0]).index_add(0, target, weights)
        total = torch.zeros_like(h).index_add(0, target, weights[:, None] * h[source])
        return total / degree.where(degree > 0, 1.0)[:, None] + x @ self.itself


class _PlainGAT(_PlainLayer):
    source: Tensor
    target: Tensor
    edge: Tensor  # of a fit with edge weights
    edge_weight: Tensor

    def combine(self, x: Tensor, source: Tensor, target: Tensor, weights: Tensor) -> Tensor:
        h = (x @ self.weight).unflatten(1, self.source.shape)  # [N, H, C]
        sent, received = (h * self.source).sum(2), (h * self.target).sum(2)  # [N, H]
        itself, between = sent + received, sent[source] + received[target]  # [N, H], [E, H]
        if hasattr(self, "edge"):
            slopes = (self.edge_weight.view_as(self.edge) * self.edge).sum(1)  # [H]
            real = (source != target).to(h.dtype)
            degree = torch.zeros_like(h[:, 0, 0]).index_add(0, target, real).clamp(min=1)
            mean = torch.zeros_like(degree).index_add(0, target, weights) / degree
            itself, between = itself + mean[:, None] * slopes, between + weights[:, None] * slopes
        own, scores = leaky_relu(itself, 0.2), leaky_relu(between, 0.2)
        scores = scores.masked_fill((source == target)[:, None], -torch.inf)
        places = target[:, None].expand_as(scores)
        highest = own.detach().scatter_reduce(0, places, scores.detach(), "amax")
        own, scores = (own - highest).exp(), (scores - highest[target]).exp()
        total = own.index_add(0, target, scores)
        around = (own[..., None] * h).index_add(0, target, scores[..., None] * h[source])
        mixed: Tensor = (around / total[..., None]).flatten(1)
        return mixed


_LAYERS: dict[type, type[_PlainLayer]] = {
    GATLayer: _PlainGAT,
    GCNLayer: _PlainGCN,
    SAGELayer: _PlainSAGE,
}


def _activate(h: Tensor, kind: Activation) -> Tensor:
    """Return what :func:`erase.nn.encoders.activate` does, by operations that can be exported."""
    match kind:
        case "leaky-l1":
            return normalize(leaky_relu(h, 0.01), p=1.0, dim=1, eps=_TINY)
        case "relu-l1":
            return normalize(relu(h), p=1.0, dim=1, eps=_TINY)
        case "l1-relu":
            return relu(normalize(h, p=1.0, dim=1, eps=_TINY))
        case "relu":
            return relu(h)
        case "l2-relu":
            return relu(normalize(h, dim=1))
        case "l2":
            return normalize(h, dim=1)
        case "none":
            return h
