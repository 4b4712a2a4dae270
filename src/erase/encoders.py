"""Graph encoders: two message-passing layers on sparse features.

Each layer equals PyG's layer of the same name when given the same weights (the tests copy them
over); what differs is the cost. Features stay sparse through the first layer, dropout included, and
attention is a sparse product on the narrower side.
"""

from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn.functional import normalize, relu

from erase.errors import EraseError
from erase.graph import Graph, Pattern, attend, sparse_product

_LEAK = 0.01  # LeakyReLU's negative slope in the hidden layer

Activation = Literal["leaky-l1", "relu", "l1-relu", "l2-relu", "l2", "none"]


class Features:
    """Node features x [N, F] as the first factor of a product, dense or sparse.

    Args:
        x: [N, F] dense, or a torch CSR tensor.
    """

    def __init__(self, x: Tensor) -> None:
        self.shape = x.shape
        self._pattern: Pattern | None = None
        self._values = x
        if x.layout == torch.sparse_csr:
            counts = x.crow_indices().diff()
            rows = torch.repeat_interleave(counts, output_size=x.values().numel())
            self._pattern = Pattern.from_coordinates(
                rows, x.col_indices(), (x.shape[0], x.shape[1])
            )
            self._values = x.values()

    def dropout(self, share: float, generator: torch.Generator) -> "Features":
        """Return the features with a random `share` of entries zeroed and the rest scaled up.

        Only stored entries are drawn: dropping a zero changes nothing.
        """
        kept = torch.empty_like(self._values).bernoulli_(1 - share, generator=generator)
        dropped = Features.__new__(Features)
        dropped.shape, dropped._pattern = self.shape, self._pattern
        dropped._values = self._values * kept.div_(1 - share) if share < 1 else kept
        return dropped

    def __matmul__(self, weight: Tensor) -> Tensor:
        """Return x·W [N, C], differentiable in W [F, C]."""
        if self._pattern is None:
            return self._values @ weight
        return sparse_product(self._pattern, self._values, weight)


def _glorot(generator: torch.Generator, *shape: int) -> nn.Parameter:
    bound = (6.0 / (shape[-2] + shape[-1])) ** 0.5
    return nn.Parameter(torch.empty(shape).uniform_(-bound, bound, generator=generator))


def _lecun(generator: torch.Generator, fan_in: int, *shape: int) -> nn.Parameter:
    bound = fan_in**-0.5
    return nn.Parameter(torch.empty(shape).uniform_(-bound, bound, generator=generator))


class Layer(Protocol):
    """What an entry of :data:`ENCODERS` is: a message-passing layer."""

    def __init__(
        self, in_width: int, out_width: int, heads: int, generator: torch.Generator
    ) -> None: ...

    def __call__(self, x: Features | Tensor, graph: Graph) -> Tensor:
        """Return the messages [N, out_width]."""
        ...


class GATLayer(nn.Module):
    """Graph attention: heads of Σ_j a_ij W x_j over neighbours and the node itself, plus a bias.

    Args:
        in_width: F.
        out_width: of all heads together; a multiple of `heads`.
        heads: H.
        generator: draws the initial weights.
    """

    def __init__(
        self, in_width: int, out_width: int, heads: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        if out_width % heads:
            raise EraseError(
                "a width that the attention heads divide",
                f"width {out_width} with {heads} heads",
                "Change hidden or heads so that one divides the other.",
            )
        self.heads = heads
        self.weight = _glorot(generator, in_width, out_width)
        self.source = _glorot(generator, heads, out_width // heads)
        self.target = _glorot(generator, heads, out_width // heads)
        self.bias = nn.Parameter(torch.zeros(out_width))

    def forward(self, x: Features | Tensor, graph: Graph) -> Tensor:
        """Return the messages [N, out_width]."""
        pattern = graph.pattern(self_loops=True, copies=self.heads)
        in_width, out_width = self.weight.shape
        if isinstance(x, Tensor) and self.heads == 1 and in_width < out_width:
            # A(xW) = (Ax)W: aggregate the narrow side
            source = x @ (self.weight @ self.source[0])
            target = x @ (self.weight @ self.target[0])
            return attend(pattern, x, source, target) @ self.weight + self.bias
        h = (x @ self.weight).view(-1, self.heads, out_width // self.heads)  # [N, H, C]
        source = (h * self.source).sum(-1).flatten()  # [N·H]
        target = (h * self.target).sum(-1).flatten()
        out = attend(pattern, h.reshape(-1, h.shape[-1]), source, target)
        return out.view(-1, out_width) + self.bias


class GCNLayer(nn.Module):
    """Graph convolution: D̂^-1/2 (A + I) D̂^-1/2 x W plus a bias; `heads` is not used."""

    def __init__(
        self, in_width: int, out_width: int, heads: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.weight = _glorot(generator, in_width, out_width)
        self.bias = nn.Parameter(torch.zeros(out_width))

    def forward(self, x: Features | Tensor, graph: Graph) -> Tensor:
        """Return the messages [N, out_width]."""
        pattern, values = graph.normalised("symmetric", self_loops=True)
        if isinstance(x, Tensor) and x.shape[1] < self.weight.shape[1]:
            return sparse_product(pattern, values, x) @ self.weight + self.bias
        return sparse_product(pattern, values, x @ self.weight) + self.bias


class SAGELayer(nn.Module):
    """GraphSAGE: mean of the neighbours' x W plus x W' plus a bias; `heads` is not used."""

    def __init__(
        self, in_width: int, out_width: int, heads: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.neighbours = _lecun(generator, in_width, in_width, out_width)
        self.itself = _lecun(generator, in_width, in_width, out_width)
        self.bias = _lecun(generator, in_width, out_width)

    def forward(self, x: Features | Tensor, graph: Graph) -> Tensor:
        """Return the messages [N, out_width]."""
        pattern, values = graph.normalised("row")
        if isinstance(x, Tensor) and x.shape[1] < self.neighbours.shape[1]:
            around = sparse_product(pattern, values, x) @ self.neighbours
        else:
            around = sparse_product(pattern, values, x @ self.neighbours)
        return around + x @ self.itself + self.bias


class _RowNormalised(Function):
    """f(h) / ‖g(h)‖₁ by rows, where f and g scale negative entries by a slope of their own."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, numerator_slope: float, norm_slope: float) -> Tensor:
        negative = h.clamp(max=0)
        norm = torch.add(h.clamp(min=0), negative, alpha=-norm_slope).sum(1, keepdim=True)
        inverse = torch.where(norm > 0, norm.reciprocal(), 0.0)
        out = h.sub(negative, alpha=1 - numerator_slope).mul_(inverse)
        ctx.slopes = numerator_slope, norm_slope
        ctx.save_for_backward(h, out, inverse)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (grad,) = grads
        h, out, inverse = ctx.saved_tensors
        numerator_slope, norm_slope = ctx.slopes
        through_norm = (grad * out).sum(1, keepdim=True) * inverse
        scaled = grad * inverse
        below = norm_slope * through_norm
        if numerator_slope:
            below = torch.add(below, scaled, alpha=numerator_slope)
        return torch.where(h > 0, scaled - through_norm, below), None, None


def _row_normalised(h: Tensor, numerator_slope: float, norm_slope: float) -> Tensor:
    out: Tensor = _RowNormalised.apply(  # type: ignore[no-untyped-call]
        h, numerator_slope, norm_slope
    )
    return out


def activate(h: Tensor, kind: Activation) -> Tensor:
    """Return `h` [N, C] through an activation, rows normalised where its name says so.

    ``"leaky-l1"`` (hidden) and ``"l1-relu"`` (output) are those behind the published numbers: the
    order matters, since rows that are normalised before the ReLU keep ‖z‖₁ ≤ 1 rather than = 1.
    A zero row stays zero, and sends no gradient back.
    """
    match kind:
        case "leaky-l1":
            return _row_normalised(h, _LEAK, _LEAK)
        case "relu":
            return relu(h)
        case "l1-relu":
            return _row_normalised(h, 0.0, 1.0)
        case "l2-relu":
            return relu(normalize(h, p=2.0, dim=1))
        case "l2":
            return normalize(h, p=2.0, dim=1)
        case "none":
            return h


class Encoder(nn.Module):
    """Two layers of one kind: z = out(layer₂(hid(layer₁(dropout(x))))).

    Args:
        kind: a name in :data:`ENCODERS`.
        in_width: F.
        hidden: width of the hidden layer, all heads together.
        width: D of the output.
        heads: attention heads of the first layer; the second has one.
        dropout: share of input entries dropped in training.
        hidden_activation: see :func:`activate`.
        output_activation: see :func:`activate`.
        generator: draws the initial weights.
    """

    def __init__(
        self,
        kind: str,
        *,
        in_width: int,
        hidden: int,
        width: int,
        heads: int,
        dropout: float,
        hidden_activation: Activation,
        output_activation: Activation,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        if kind not in ENCODERS:
            raise EraseError(f"an encoder among {', '.join(ENCODERS)}", repr(kind), "Choose one.")
        self.first = ENCODERS[kind](in_width, hidden, heads, generator)
        self.second = ENCODERS[kind](hidden, width, 1, generator)
        self.dropout = dropout
        self.hidden_activation = hidden_activation
        self.output_activation = output_activation

    def hidden(self, x: Features, graph: Graph, dropout: torch.Generator | None = None) -> Tensor:
        """Return the hidden layer [N, hidden]; a `dropout` generator means training."""
        if dropout is not None and self.dropout > 0:
            x = x.dropout(self.dropout, dropout)
        return activate(self.first(x, graph), self.hidden_activation)

    def output(self, hidden: Tensor, graph: Graph) -> Tensor:
        """Return z [N, width] from the hidden layer."""
        return activate(self.second(hidden, graph), self.output_activation)

    def forward(self, x: Features, graph: Graph, dropout: torch.Generator | None = None) -> Tensor:
        """Return z [N, width]; with a `dropout` generator as in training, without it as in use."""
        return self.output(self.hidden(x, graph, dropout), graph)


ENCODERS: dict[str, type[Layer]] = {"gat": GATLayer, "gcn": GCNLayer, "sage": SAGELayer}
