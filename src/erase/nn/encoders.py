"""Graph encoders: two message-passing layers on sparse features.

Each layer equals PyG's layer of the same name with the same weights (the tests copy them); only the
cost differs. Features stay sparse through the first layer, dropout included, and attention is a
sparse product on the narrower side.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from copy import copy
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn.functional import leaky_relu, normalize, relu

from erase.errors import EraseError
from erase.nn.sparse import Graph, Pattern, attend, sparse_product

_LEAK = 0.01  # LeakyReLU's negative slope in the hidden layer
_ROWS_IN_CACHE = 512
# Above this share of entries a GPU multiplies features faster as a dense matrix, zeros and all.
_DENSE_SHARE = 0.04
_leaky_backward = torch.ops.aten.leaky_relu_backward  # g where h > 0, slope · g elsewhere

Activation = Literal["leaky-l1", "relu-l1", "relu", "l1-relu", "l2-relu", "l2", "none"]


class Features:
    """Node features x [N, F] as the first factor of a product, dense or sparse.

    Args:
        x: [N, F] dense, or a torch CSR tensor.
    """

    def __init__(self, x: Tensor) -> None:
        if x.is_cuda and x.is_sparse_csr and x.values().numel() > _DENSE_SHARE * x.numel():
            x = x.to_dense()
        self.shape = x.shape
        self._pattern: Pattern | None = None
        self._values = x  # [N, F] or [nnz]; with a leading run dimension after dropout
        self._copies: dict[int, tuple[Pattern, Tensor]] = {}
        if x.layout == torch.sparse_csr:
            self._pattern, self._values = Pattern.of(x), x.values()

    def dropout(self, share: float, streams: Sequence[torch.Generator]) -> "Features":
        """Return features of R runs with a random `share` of entries zeroed, the rest scaled up.

        Every run draws from its own stream. Only stored entries are drawn: dropping a zero changes
        nothing.
        """
        kept = torch.empty((len(streams), *self._values.shape), device=self._values.device)
        for run, stream in zip(kept, streams, strict=True):
            run.bernoulli_(1 - share, generator=stream)
        dropped = copy(self)
        dropped._values = kept.mul_(self._values)
        if share < 1:
            dropped._values.div_(1 - share)
        return dropped

    def take(self, nodes: Tensor) -> "Features":
        """Return the features of some nodes [n], after dropout where that was applied."""
        taken = copy(self)
        taken._copies = {}
        shape = (nodes.numel(), self.shape[1])
        taken.shape = torch.Size(shape)
        if self._pattern is None:
            taken._values = self._values.index_select(-2, nodes)
            return taken
        taken._pattern, entries = self._pattern.take(nodes)
        taken._values = self._values[..., entries]
        return taken

    def dense(self) -> Tensor:
        """Return the features [N, F] of one run, zeros and all."""
        if self._pattern is None:
            return self._values if self._values.dim() == 2 else self._values[0]
        return self._pattern.matrix(self._values.flatten()).to_dense()

    def project(self, weight: Tensor) -> Tensor:
        """Return x·W [R, N, C] for the weights W [R, F, C] of R runs, differentiable in W."""
        if self._pattern is None:
            return self._values @ weight
        runs, width, channels = weight.shape
        pattern, values = self._pattern, self._values
        if values.dim() == 2 and runs > 1:
            pattern, order = self._repeated(runs)
            values = values.flatten()[order]
            stacked = weight.transpose(0, 1).reshape(width * runs, channels)
        else:
            values = values.flatten()
            stacked = weight.transpose(0, 1).reshape(width, runs * channels)
        return sparse_product(pattern, values, stacked).view(-1, runs, channels).transpose(0, 1)

    def _repeated(self, runs: int) -> tuple[Pattern, Tensor]:
        """Return the pattern of R copies and where its values lie among [R, nnz]; built once."""
        if runs not in self._copies and self._pattern is not None:
            self._copies[runs] = (self._pattern.repeat(runs), self._pattern.repeat_order(runs))
        return self._copies[runs]


def take_rows(x: Tensor, nodes: Tensor) -> Tensor:
    """Return the rows [n, F] of `x` [N, F], dense or CSR, at `nodes` [n]; the rest is not read."""
    if x.layout != torch.sparse_csr:
        return x[nodes]
    pattern, entries = Pattern.of(x).take(nodes)
    return pattern.matrix(x.values()[entries])


def _nodes_first(h: Tensor) -> Tensor:
    """Return [R, N, C] as [N, R, C], contiguous; free where that is how it lies in memory."""
    return h.transpose(0, 1).contiguous()


Streams = Sequence[torch.Generator]


def _glorot(streams: Streams, *shape: int) -> nn.Parameter:
    bound = (6.0 / (shape[-2] + shape[-1])) ** 0.5
    return _uniform(streams, bound, shape)


def _uniform(streams: Streams, bound: float, shape: tuple[int, ...]) -> nn.Parameter:
    """Draw [R, *shape] from ±bound, each run from its own stream."""
    drawn = [torch.empty(shape).uniform_(-bound, bound, generator=stream) for stream in streams]
    return nn.Parameter(torch.stack(drawn))


Messages = tuple[Tensor, ...]


class Layer(nn.Module, ABC):
    """A message-passing layer for R runs at once, in two halves.

    `message` computes what each node sends, node by node; `aggregate` combines the messages that
    arrive at a row. Each half can be computed for some nodes at a time.

    Args:
        in_width: F.
        out_width: C, of all attention heads together.
        heads: attention heads H, where the layer has attention.
        streams: draw the initial weights, one for each of R runs.
        weighted: whether the graph has edge weights, where the layer has parameters for them.
    """

    def __init__(
        self,
        in_width: int,
        out_width: int,
        heads: int,
        streams: Streams,
        *,
        weighted: bool = False,
    ) -> None:
        super().__init__()
        self.heads = heads
        self.weighted = weighted
        self._draw_weights(in_width, out_width, streams)
        # zero: a random one outweighs features whose rows sum to 1
        self.bias = nn.Parameter(torch.zeros(len(streams), 1, out_width))

    @abstractmethod
    def _draw_weights(self, in_width: int, out_width: int, streams: Streams) -> None:
        """Draw the initial weights of all runs."""

    @abstractmethod
    def message(self, x: Features | Tensor) -> Messages:
        """Return tensors [R, N, …] from features, or from a hidden layer [R, N, C]."""

    @abstractmethod
    def aggregate(self, messages: Messages, graph: Graph) -> Tensor:
        """Return the output [R, M, out_width] of the M rows of `graph`."""

    def forward(self, x: Features | Tensor, graph: Graph) -> Tensor:
        """Return the output [R, M, out_width] of the M rows of `graph`."""
        return self.aggregate(self.message(x), graph)


def _narrow_or_product(x: Features | Tensor, weight: Tensor) -> Tensor:
    """Return x·W, or x itself where it is narrower, for W to be applied later: A(xW) = (Ax)W."""
    if isinstance(x, Features):
        return x.project(weight)
    return x if weight.shape[1] < weight.shape[2] else x @ weight


class GATLayer(Layer):
    """GAT (Veličković et al., 2018): neighbours weighted by learnt attention.

    Heads of Σ_j a_ij W x_j over neighbours and the node itself, plus a bias. `heads` must divide
    `out_width`. An edge weight w_ij adds w_ij (u · e) to the score before the softmax, with learnt
    vectors u and e per head: PyG's layer with ``edge_dim=1``. A self-loop has the mean of its
    node's weights.
    """

    def _draw_weights(self, in_width: int, out_width: int, streams: Streams) -> None:
        if out_width % self.heads:
            raise EraseError(
                "a width that the attention heads divide",
                f"width {out_width} with {self.heads} heads",
                "Change hidden or heads so that one divides the other.",
            )
        per_head = (self.heads, out_width // self.heads)
        self.weight = _glorot(streams, in_width, out_width)  # [R, F, H·C]
        self.source = _glorot(streams, *per_head)  # [R, H, C]
        self.target = _glorot(streams, *per_head)
        if self.weighted:
            self.edge_weight = _glorot(streams, 1, out_width)  # u of all heads [R, 1, H·C]
            self.edge = _glorot(streams, *per_head)  # e [R, H, C]

    def message(self, x: Features | Tensor) -> Messages:
        """Return xW, or x where one head makes it narrower, and the scores [R, N, 2, H]."""
        runs, in_width, out_width = self.weight.shape
        vectors = torch.stack([self.source, self.target], -1)  # [R, H, C, 2]
        if isinstance(x, Tensor) and self.heads == 1 and in_width < out_width:
            return x, _scores(x, (self.weight @ vectors[:, 0])[..., None])
        h = x.project(self.weight) if isinstance(x, Features) else x @ self.weight
        # one product for the scores of all heads: a block per head, zero elsewhere
        eye = torch.eye(self.heads, dtype=h.dtype, device=h.device)
        blocks = vectors[..., None] * eye[:, None, None]  # [R, H, C, 2, H]
        return h, _scores(h, blocks.reshape(runs, out_width, 2, self.heads))

    def aggregate(self, messages: Messages, graph: Graph) -> Tensor:
        """Return the output [R, M, out_width] of the M rows of `graph`."""
        h, scores = messages
        runs, _, out_width = self.weight.shape
        pattern = graph.pattern(self_loops=True, copies=runs * self.heads)
        of_nodes = scores.permute(2, 1, 0, 3)  # [2, N, R, H]
        source, target = of_nodes[0].flatten(), graph.of_rows(of_nodes[1], 0).flatten()
        edge = self._edge_scores(graph)
        around = attend(pattern, _nodes_first(h).view(source.numel(), -1), source, target, edge)
        around = around.view(graph.num_rows, runs, -1).transpose(0, 1)  # [R, M, C]
        if h.shape[2] == out_width:
            return around + self.bias
        return torch.baddbmm(self.bias, around, self.weight)

    def _edge_scores(self, graph: Graph) -> Tensor | None:
        """Return w_ij (u · e) for the entries of R·H copies of the graph with self-loops."""
        if not self.weighted:
            if graph.weight is not None:
                raise EraseError(
                    "a graph without edge weights, as in the fit",
                    "one with edge weights",
                    "Ignore them, NodeTask.of(graph, weights=False), or fit a graph with weights.",
                )
            return None
        slopes = (self.edge_weight.view_as(self.edge) * self.edge).sum(2).flatten()  # [R·H]
        scores = slopes[:, None] * graph.weights_and_loops()  # [R·H, E + M]
        return scores.flatten().index_select(0, graph.repeat_order(slopes.numel()))


def _scores(h: Tensor, vectors: Tensor) -> Tensor:
    """Return s and t [R, N, 2, H] of h [R, N, C] for `vectors` [R, C, 2, H]."""
    scores: Tensor = (h @ vectors.flatten(2)).unflatten(2, (2, -1))
    return scores


class GCNLayer(Layer):
    """GCN (Kipf and Welling, 2017): neighbours averaged, weighted by their degrees.

    D̂^-1/2 (A + I) D̂^-1/2 x W plus a bias; `heads` is not used. A has the edge weights as entries,
    if there are any.
    """

    def _draw_weights(self, in_width: int, out_width: int, streams: Streams) -> None:
        self.weight = _glorot(streams, in_width, out_width)

    def message(self, x: Features | Tensor) -> Messages:
        """Return xW, or x where that is narrower."""
        return (_narrow_or_product(x, self.weight),)

    def aggregate(self, messages: Messages, graph: Graph) -> Tensor:
        """Return the output [R, M, out_width] of the M rows of `graph`."""
        around = _aggregate(graph.normalised("symmetric", self_loops=True), messages[0])
        return (
            around if around.shape[2] == self.bias.shape[2] else around @ self.weight
        ) + self.bias


class SAGELayer(Layer):
    """GraphSAGE (Hamilton et al., 2017): the mean of the neighbours beside the node itself.

    The mean of the neighbours' x W plus x W' plus a bias; `heads` is not used. With edge weights
    it is the weighted mean Σ_j w_ij x_j / Σ_j w_ij.
    """

    def _draw_weights(self, in_width: int, out_width: int, streams: Streams) -> None:
        bound = in_width**-0.5
        self.neighbours = _uniform(streams, bound, (in_width, out_width))
        self.itself = _uniform(streams, bound, (in_width, out_width))

    def message(self, x: Features | Tensor) -> Messages:
        """Return xW and xW', or x twice where that is narrower."""
        return _narrow_or_product(x, self.neighbours), _narrow_or_product(x, self.itself)

    def aggregate(self, messages: Messages, graph: Graph) -> Tensor:
        """Return the output [R, M, out_width] of the M rows of `graph`."""
        around, own = (
            _aggregate(graph.normalised("row"), messages[0]),
            graph.of_rows(messages[1], 1),
        )
        if around.shape[2] != self.bias.shape[2]:
            around, own = around @ self.neighbours, own @ self.itself
        return around + own + self.bias


def _aggregate(operator: tuple[Pattern, Tensor], h: Tensor) -> Tensor:
    """Return A h [R, M, C] for A [M, N] and h [R, N, C]."""
    runs, _, channels = h.shape
    around = sparse_product(*operator, _nodes_first(h).view(-1, runs * channels))
    return around.view(-1, runs, channels).transpose(0, 1)


class _RowNormalised(Function):
    """f(h) / ‖g(h)‖₁ by rows, where f and g scale negative entries by a slope of their own.

    On a CPU it works on blocks of rows that stay in the cache: allocating whole temporary tensors
    would take longer than the arithmetic.
    """

    @staticmethod
    def forward(ctx: Any, h: Tensor, numerator_slope: float, norm_slope: float) -> Tensor:
        out, inverse = torch.empty_like(h), h.new_empty((*h.shape[:-1], 1))
        tiny = torch.finfo(h.dtype).tiny  # below it a reciprocal overflows
        for rows, scaled, scale in _row_blocks(h, out, inverse):
            size = torch.linalg.vector_norm(rows, 1, dim=-1, keepdim=True)  # Σ|h|
            below = 0.5 * (size - rows.sum(-1, keepdim=True))  # Σ max(−h, 0)
            norm = size - (1 - norm_slope) * below
            scale.copy_(torch.where(norm > tiny, norm.reciprocal(), 0.0))
            torch.mul(leaky_relu(rows, numerator_slope), scale, out=scaled)
        ctx.slopes = numerator_slope, norm_slope
        ctx.save_for_backward(h, out, inverse)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        h, out, inverse = ctx.saved_tensors
        numerator_slope, norm_slope = ctx.slopes
        answer = torch.empty_like(h)
        for grad, rows, scaled, scale, block in _row_blocks(grads[0], h, out, inverse, answer):
            through_norm = (grad * scaled).sum(-1, keepdim=True) * scale
            # entries above 0 get g·s − t, those below slope·g·s + slope'·t
            passed = _leaky_backward(grad * scale, rows, numerator_slope, False)
            lost = _leaky_backward(through_norm.expand_as(rows), rows, -norm_slope, False)
            torch.sub(passed, lost, out=block)
        return answer, None, None


def _row_blocks(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Yield the same rows of tensors [..., N, C], a cache's worth at a time on a CPU."""
    n = tensors[0].shape[-2]
    size = n if tensors[0].is_cuda else _ROWS_IN_CACHE
    return zip(*(tensor.split(max(size, 1), dim=-2) for tensor in tensors), strict=True)


def _row_normalised(h: Tensor, numerator_slope: float, norm_slope: float) -> Tensor:
    out: Tensor = _RowNormalised.apply(  # type: ignore[no-untyped-call]
        h, numerator_slope, norm_slope
    )
    return out


def activate(h: Tensor, kind: Activation) -> Tensor:
    """Return `h` [..., C] after an activation, with normalised rows where its name has a norm.

    ``"leaky-l1"`` (hidden) and ``"l1-relu"`` (output) are those behind the published numbers: the
    order matters: rows normalised before the ReLU have ‖z‖₁ ≤ 1, not = 1.
    On ogbn-arxiv they are ``"relu-l1"`` and ``"l2-relu"``; that preset divides the output by its L1
    norm as well, which the L2 norm undoes. A zero row stays zero, with gradient 0.
    """
    match kind:
        case "leaky-l1":
            return _row_normalised(h, _LEAK, _LEAK)
        case "relu-l1":
            return _row_normalised(relu(h), 1.0, 1.0)
        case "relu":
            return relu(h)
        case "l1-relu":
            return _row_normalised(h, 0.0, 1.0)
        case "l2-relu":
            return relu(normalize(h, p=2.0, dim=-1))
        case "l2":
            return normalize(h, p=2.0, dim=-1)
        case "none":
            return h


class Encoder(nn.Module):
    """Two layers of one kind: z = out(layer₂(hid(layer₁(dropout(x))))), for R runs at once.

    Args:
        kind: a name in :data:`ENCODERS`.
        in_width: F.
        hidden: width of the hidden layer, all heads together.
        width: D of the output.
        heads: attention heads of the first layer; the second has one.
        dropout: share of input entries dropped in training.
        hidden_activation: see :func:`activate`.
        output_activation: see :func:`activate`.
        streams: draw the initial weights, one for each of the R runs the encoder holds.
        weighted: whether the graphs have edge weights.
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
        streams: Streams,
        weighted: bool = False,
    ) -> None:
        super().__init__()
        if kind not in ENCODERS:
            raise EraseError(f"an encoder among {', '.join(ENCODERS)}", repr(kind), "Choose one.")
        self.first = ENCODERS[kind](in_width, hidden, heads, streams, weighted=weighted)
        self.second = ENCODERS[kind](hidden, width, 1, streams, weighted=weighted)
        self.dropout = dropout
        self.hidden_activation = hidden_activation
        self.output_activation = output_activation

    def hidden(self, x: Features, graph: Graph, dropout: Streams | None = None) -> Tensor:
        """Return the hidden layer [R, M, hidden]; `dropout` streams mean training."""
        if dropout is not None and self.dropout > 0:
            x = x.dropout(self.dropout, dropout)
        return self.hidden_from(self.first.message(x), graph)

    def output(self, hidden: Tensor, graph: Graph) -> Tensor:
        """Return z [R, M, width] from the hidden layer."""
        return self.output_from(self.second.message(hidden), graph)

    def forward(
        self,
        x: Features,
        graph: Graph,
        dropout: Streams | None = None,
        *,
        last: Graph | None = None,
    ) -> Tensor:
        """Return z [R, M, width].

        Args:
            x: features of the columns of `graph`.
            graph: edges of the first layer; messages go from columns to rows.
            dropout: a random stream for each run; None: no dropout.
            last: edges of the second layer, its columns the rows of `graph`; None: the same.
        """
        return self.output(self.hidden(x, graph, dropout), graph if last is None else last)

    def hidden_from(self, messages: Messages, rows: Graph) -> Tensor:
        """Return some rows of the hidden layer from the first layer's messages of all nodes."""
        return activate(self.first.aggregate(messages, rows), self.hidden_activation)

    def output_from(self, messages: Messages, rows: Graph) -> Tensor:
        """Return some rows of z from the second layer's messages of all nodes."""
        return activate(self.second.aggregate(messages, rows), self.output_activation)


ENCODERS: dict[str, type[Layer]] = {"gat": GATLayer, "gcn": GCNLayer, "sage": SAGELayer}
