"""RT-GNN: two networks that correct labels, on a graph with added edges (Qian et al., 2023).

Labelled nodes are few, so a wrong label affects many predictions. Candidate edges to nodes with
similar features, weighted by an edge predictor, give every labelled node more neighbours. Two
classifiers on that graph train first on the labels with small losses, correct labels that both
contradict, and add pseudo-labels where both are certain. Candidates are found block by block and
stored in one sparse pattern with the edges: nothing of size N×N exists.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn.functional import relu

from erase.data.task import NodeTask
from erase.methods.base import COUNT, SHARE, Constraint, Number, OneOf, Range, resolve_device
from erase.methods.network import (
    BatchLearner,
    NetworkClassifier,
    NetworkSize,
    mean_outcome,
    one_run,
)
from erase.nn import neighbours
from erase.nn.encoders import Encoder, Features, GCNLayer, Streams
from erase.nn.precision import full_float32
from erase.nn.sparse import Graph, Pattern, sparse_product
from erase.random import torch_stream
from erase.training.graphs import Batch, WholeGraph
from erase.training.large_graphs import ChunkedGraph
from erase.training.loop import Learner, Outcome, at_nodes


def nearest_unlabelled(x: Tensor, labelled: Tensor, nearest: int) -> Tensor:
    """Return each labelled node with the unlabelled ones of highest cosine, [2, n·k].

    k is `nearest`, but no more than there are labelled nodes (n), or unlabelled ones. Of equal
    cosines the lowest node numbers win: see :func:`erase.nn.neighbours.nearest`.

    Args:
        x: [N, F] features, dense or CSR.
        labelled: [N] bool.
        nearest: most candidates of a labelled node.

    >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, 1.0], [1.0, 1.0]])
    >>> nearest_unlabelled(x, torch.tensor([True, False, False, False]), 2)  # k = 1
    tensor([[0],
            [2]])
    """
    near, far = (side.nonzero().squeeze(1) for side in (labelled, ~labelled))
    k = min(nearest, len(near), len(far))
    found, _ = neighbours.nearest(x.double(), k, of=near, among=far)
    return torch.stack([near.repeat_interleave(k), found.flatten()])


@dataclass(frozen=True, eq=False)
class Links:
    """Self-loops, edges and candidate edges of R runs; node i of run r is row r·N + i.

    Attributes:
        graph: whose edges these are.
        runs: R.
        pattern: [R·N, R·N], symmetric, L entries; the links of different runs do not meet.
        loop: [L] which entries are self-loops.
        edge: [L] which entries are edges of the graph; the rest are candidates.
    """

    graph: Graph
    runs: int
    pattern: Pattern
    loop: Tensor
    edge: Tensor

    @classmethod
    def of(cls, graph: Graph, candidates: Sequence[Tensor]) -> "Links":
        """Add to the graph the `candidates` [2, c] of each run, and their way back.

        A candidate that is an edge already is that edge.
        """
        n, runs = graph.num_nodes, len(candidates)
        edges = graph.edge_index[0] * n + graph.edge_index[1]
        loops = torch.arange(n, device=edges.device) * (n + 1)
        keys = [
            torch.cat([edges, loops, near * n + far, far * n + near]).unique()
            for near, far in candidates
        ]
        key = torch.cat(keys)
        rows, cols = key // n, key % n
        first = torch.cat([torch.full_like(own, run * n) for run, own in enumerate(keys)])
        pattern = Pattern.from_coordinates(first + rows, first + cols, (runs * n, runs * n))
        return cls(graph, runs, pattern, rows == cols, torch.isin(key, edges))

    def total(self, values: Tensor) -> Tensor:
        """Return the sum of `values` [L] over the links of each run [R]."""
        return self.pattern.row_sum(values).view(self.runs, -1).sum(1)

    def aggregate(self, values: Tensor, h: Tensor) -> Tensor:
        """Return Σ_j w_ij h_j [R, N, C] for w = `values` [L] and h [R, N, C]."""
        flat = h.reshape(self.pattern.shape[0], -1)
        return sparse_product(self.pattern, values, flat).view(h.shape)


class _Likeness(Function):
    """h_i·h_j at the entries of a symmetric pattern, with the gradient (G + Gᵀ) h."""

    @staticmethod
    def forward(ctx: Any, pattern: Pattern, h: Tensor) -> Tensor:
        ctx.pattern = pattern
        ctx.save_for_backward(h)
        return pattern.sample(h, h)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (grad,) = grads
        (h,) = ctx.saved_tensors
        pattern: Pattern = ctx.pattern
        return None, pattern.matmul(grad + grad[pattern.t_order], h)


def likeness(links: Links, h: Tensor) -> Tensor:
    """Return h_i·h_j of every link [L] for h [R, N, C]."""
    flat = h.reshape(links.pattern.shape[0], -1)
    alike: Tensor = _Likeness.apply(links.pattern, flat)  # type: ignore[no-untyped-call]
    return alike


def link_weights(links: Links, alike: Tensor, min_weight: float) -> Tensor:
    """Return 1 for self-loops and edges; ReLU(h_i·h_j), 0 below `min_weight`, for candidates; [L].

    Args:
        links: of R runs.
        alike: [L] h_i·h_j.
        min_weight: candidates below it are dropped; ≥ 0, and so it does the work of the ReLU.
    """
    return torch.where(links.loop | links.edge, 1.0, alike * (alike >= min_weight))


def normalised_weights(links: Links, weights: Tensor) -> Tensor:
    """Return D^-1/2 W D^-1/2 with D the row sums of W = `weights`; [L]."""
    scale = links.pattern.row_sum(weights).rsqrt()
    return weights * scale[links.pattern.rows] * scale[links.pattern.indices]


@full_float32()
def reconstruction_loss(links: Links, alike: Tensor, h: Tensor, negatives: int) -> Tensor:
    """Return [Σ_neg (h_i·h_j)² + Σ_pos (1 − h_i·h_j)²] · N / (#neg + #pos) of each run [R].

    pos are the edges of the graph, neg are `negatives` · N of the pairs without one, or all of
    them where there are fewer.

    Note:
        The sum over neg is its mean over all draws, in closed form: nothing is drawn, since
        Σ_ij (h_i·h_j)² = ‖HᵀH‖² takes no more than a [C, C] matrix to know.

    Args:
        links: of R runs.
        alike: [L] h_i·h_j.
        h: [R, N, C].
        negatives: pairs without an edge for each node.
    """
    n, edges = links.graph.num_nodes, links.graph.edge_index.shape[1]
    apart = n * n - n - edges
    drawn = min(negatives * n, apart)
    everywhere = (h.mT @ h).square().sum((1, 2))
    known = links.total(torch.where(links.loop | links.edge, alike.square(), 0.0))
    negative = (everywhere - known) * (drawn / max(apart, 1))
    positive = links.total(torch.where(links.edge, (1 - alike).square(), 0.0))
    return (negative + positive) * (n / max(drawn + edges, 1))


def _cross_entropies(log_p: Tensor, classes: Tensor) -> Tensor:
    """Return CE1 + CE2 [R, n] of two networks' log-probabilities [2, R, n, K] to `classes`."""
    return -log_p.gather(3, classes.expand(2, -1, -1)[..., None])[..., 0].sum(0)


@torch.no_grad()
def _agreement(log_p: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return whether both networks predict the same class, the first's class, and p1·p2 of it."""
    highest, named = log_p.max(3)  # [2, R, n]
    return named[0] == named[1], named[0], highest.sum(0).exp()


def labelled_loss(
    log_p: Tensor,
    given: Tensor,
    progress: Tensor,
    *,
    forget: float,
    doubted: float,
    trusted: Tensor | None = None,
) -> Tensor:
    """Return the mean over labelled nodes of w_i (CE1 + CE2) for each run [R].

    The nodes of smallest ℓ = CE1 + CE2 to the given label keep it with w = 1: the share
    1 − forget·t/T of all, or that of ℓ below its mean if it is larger; nodes with a trusted label
    do in any case. Of the rest, nodes for which both networks predict the same other class with
    p1·p2 > 1 − (1 − 1/K) t/T get that class, w = (p1·p2)^(½ − ½ t/T). The others keep their label
    with w = `doubted`.

    Args:
        log_p: [2, R, n, K] log-probabilities of two networks at the labelled nodes.
        given: [R, n].
        progress: [R] float64, t/T, the share of the epochs that are over; 0: all labels are kept.
        forget: share of labels not kept at the end.
        doubted: weight of a label that is neither kept nor corrected.
        trusted: [R, n] bool, which labels are trusted; None: none is.
    """
    losses = _cross_entropies(log_p, given)
    n, classes = losses.shape[1], log_p.shape[3]
    with torch.no_grad():
        below = (losses < losses.mean(1, keepdim=True)).sum(1, keepdim=True)
        # 1e-6: 0.9 · 140 is 126, not what floating point makes of it
        least = (n * (1 - forget * progress[:, None]) + 1e-6).long()
        progress = progress[:, None].to(losses.dtype)
        rank = losses.argsort(dim=1, stable=True).argsort(dim=1)
        kept = rank < torch.maximum(below, least)
        if trusted is not None:
            kept = kept | trusted
        agreed, named, certainty = _agreement(log_p)
        threshold = 1 - (1 - 1 / classes) * progress
        corrected = ~kept & agreed & (named != given) & (certainty > threshold)
        weight = torch.where(corrected, certainty ** (0.5 - 0.5 * progress), doubted)
        weight = torch.where(kept, 1.0, weight)
        target = torch.where(corrected, named, given)
    return (weight * _cross_entropies(log_p, target)).mean(1)


def pseudo_loss(log_p: Tensor, unlabelled: Tensor, certainty: float) -> Tensor:
    """Return the mean of CE1 + CE2 to the class both networks predict with certainty [R].

    Over unlabelled nodes with p1·p2 > certainty²; 0 where there is none.

    Args:
        log_p: [2, R, N, K].
        unlabelled: [R, N] bool.
        certainty: of a network, on average.
    """
    agreed, named, both = _agreement(log_p)
    sure = unlabelled & agreed & (both > certainty**2)
    losses = _cross_entropies(log_p, named)
    return torch.where(sure, losses, 0.0).sum(1) / sure.sum(1).clamp(min=1)


def disagreement(log_p: Tensor) -> Tensor:
    """Return the mean over all nodes of KL(p1‖p2) + KL(p2‖p1) for log_p [2, R, N, K]; [R]."""
    p = log_p.exp()
    return ((p[0] - p[1]) * (log_p[0] - log_p[1])).sum(2).mean(1)


def neighbour_divergence(
    links: Links, weights: Tensor, log_p: Tensor, train_index: Tensor
) -> Tensor:
    """Return the mean over labelled nodes of Σ_j ŵ_ij KL(p_j‖p_i), of both networks together [R].

    ŵ are the weights of a node's links but for its self-loop, scaled to sum 1. Neither they nor the
    neighbours' p_j take a gradient. A node without neighbours counts 0.

    Args:
        links: of R runs.
        weights: [L].
        log_p: [2, R, N, K].
        train_index: [R, n] labelled nodes.
    """
    with torch.no_grad():
        others = torch.where(links.loop, 0.0, weights)
        share = others / links.pattern.row_sum(others).clamp(min=1e-12)[links.pattern.rows]
        p = log_p.exp()
        # Σ_j ŵ_ij KL(p_j‖p_i) = Σ_j ŵ_ij Σ_k p_jk log p_jk − Σ_k (Σ_j ŵ_ij p_jk) log p_ik
        sent = torch.cat([p, (p * log_p).sum(3, keepdim=True)], 3)  # [2, R, N, K+1]
        received = links.aggregate(share, sent.permute(1, 2, 0, 3).flatten(2))
        received = at_nodes(received, train_index).unflatten(2, (2, -1))  # [R, n, 2, K+1]
    own = at_nodes(log_p.permute(1, 2, 0, 3).flatten(2), train_index).unflatten(2, (2, -1))
    divergence: Tensor = received[..., -1] - (received[..., :-1] * own).sum(3)  # [R, n, 2]
    return divergence.sum(2).mean(1)


class _WeightedGCN(Encoder):
    """Two graph convolutions that can also run on a weighted graph of its own for each run."""

    first: GCNLayer
    second: GCNLayer

    def weighted_hidden(self, x: Features, links: Links, values: Tensor) -> Tensor:
        """Return the hidden layer [R, N, hidden]."""
        return relu(links.aggregate(values, x.project(self.first.weight)) + self.first.bias)

    def weighted_output(self, hidden: Tensor, links: Links, values: Tensor) -> Tensor:
        """Return the logits [R, N, K]."""
        return links.aggregate(values, hidden @ self.second.weight) + self.second.bias


@dataclass(kw_only=True, eq=False, repr=False)
class RTGNN(NetworkClassifier):
    """RT-GNN (Qian et al., 2023): two GCNs that correct labels, on a graph with added edges.

    What is minimised is :func:`labelled_loss` + :func:`pseudo_loss` + :func:`reconstruction_loss`
    + `consistency` · (:func:`disagreement` + :func:`neighbour_divergence`). The mean of both
    networks' probabilities predicts; the representation is their hidden layers side by side.

    Args:
        nearest: candidate edges of a labelled node, to the unlabelled ones with the most similar
            features; no more than there are labelled nodes.
        min_weight: candidates that the edge predictor gives less are dropped.
        negatives: pairs without an edge, for each node, in the edge predictor's loss.
        predictor: width of both layers of the edge predictor, a GCN with rows of length 1.
        forget: share of the given labels that is not kept at the end.
        doubted: weight of a given label that is neither kept nor corrected.
        certainty: of both networks, on average, above which a common class is a pseudo-label.
        consistency: λ, weight of the divergence between the networks, and between labelled nodes
            and their neighbours.

    The other parameters are those of :class:`erase.methods.network.NetworkClassifier`, where
    `heads` has no effect and `encoder` is "gcn".

    Note:
        Edge weights of the graph are ignored.
        Dropout acts on the input of each network, as everywhere here. Edges have weight 1
        whatever the predictor returns, and both networks train it through the weights of its
        candidates. With `batch_size`, candidates are searched among the nodes of a sample;
        predictions then use the edges of the whole graph without candidates.

        `predict(graph)` adds candidates to the labelled nodes of that graph; without labels, none.
    """

    constraints: ClassVar[dict[str, Constraint]] = NetworkClassifier.constraints | {
        "encoder": OneOf(("gcn",)),
        "nearest": COUNT,
        "min_weight": SHARE,
        "negatives": COUNT,
        "predictor": COUNT,
        "forget": SHARE,
        "doubted": SHARE,
        "certainty": SHARE,
        "consistency": Number(low=0),
    }
    space: ClassVar[dict[str, Range | OneOf]] = NetworkClassifier.space | {
        "nearest": Range(10, 200, whole=True),
        "min_weight": Range(0.0, 0.5),
        "forget": Range(0.0, 0.9),
        "certainty": Range(0.7, 0.99),
        "consistency": Range(0.01, 1.0, log=True),
    }

    uses_edge_weights: ClassVar[bool] = False
    reads_labels: ClassVar[bool] = True
    representing: ClassVar[tuple[str, ...]] = ("first", "second")

    encoder: str = "gcn"
    hidden: int = 128
    epochs: int = 200
    nearest: int = 100
    min_weight: float = 0.05
    negatives: int = 100
    predictor: int = 64
    forget: float = 0.5
    doubted: float = 0.1
    certainty: float = 0.95
    consistency: float = 0.1

    def _networks(self, size: NetworkSize) -> dict[str, Any]:
        shared: dict[str, Any] = {"in_width": size.in_width, "heads": 1, "dropout": self.dropout}
        predictor = Encoder(
            "gcn",
            hidden=self.predictor,
            width=self.predictor,
            hidden_activation="relu",
            output_activation="l2",
            streams=_weight_streams(size.seeds, "predictor"),
            **shared,
        )
        first, second = (
            _WeightedGCN(
                "gcn",
                hidden=self.hidden,
                width=size.num_classes,
                hidden_activation="relu",
                output_activation="none",
                streams=_weight_streams(size.seeds, purpose),
                **shared,
            )
            for purpose in ("first", "second")
        )
        return {"predictor": predictor, "first": first, "second": second}

    def _learner(self, tasks: Sequence[NodeTask], seeds: Sequence[int]) -> Learner:
        return _RTGNNLearner(self, tasks, seeds)

    def _outcome(self, network: Any, data: WholeGraph | ChunkedGraph) -> Outcome:
        """Return the mean of both classifiers' probabilities, and their hidden layers."""
        return mean_outcome([network["first"], network["second"]], data)

    def _outcome_with_candidates(
        self, network: Any, x: Features, graph: Graph, links: Links
    ) -> Outcome:
        """Return the same on the graph with candidate edges."""
        alike = likeness(links, network["predictor"](x, graph))
        values = normalised_weights(links, link_weights(links, alike, self.min_weight))
        classifiers = [network["first"], network["second"]]
        hidden = [classifier.weighted_hidden(x, links, values) for classifier in classifiers]
        logits = [
            classifier.weighted_output(h, links, values)
            for classifier, h in zip(classifiers, hidden, strict=True)
        ]
        proba = torch.stack(logits).softmax(3).mean(0)
        return Outcome(proba, torch.cat(hidden, 2), proba.argmax(2))

    @torch.no_grad()
    def _apply(self, task: NodeTask) -> Outcome:
        labelled = task.train_mask[None]
        if self.batch_size or not bool(labelled.any()):
            return super()._apply(task)
        device = resolve_device(self.device)
        graph, x = Graph(task.edge_index.to(device), task.num_nodes), task.x.to(device)
        links = find_links(graph, x, labelled.to(device), self.nearest)
        network = self._fitted_network().to(device)
        return one_run(self._outcome_with_candidates(network, Features(x), graph, links))


def find_links(graph: Graph, x: Tensor, labelled: Tensor, nearest: int) -> Links:
    """Return the links of a graph for each run's `labelled` nodes [R, N]."""
    splits, split_of_run = labelled.unique(dim=0, return_inverse=True)
    candidates = [nearest_unlabelled(x, split, nearest) for split in splits]
    return Links.of(graph, [candidates[i] for i in split_of_run.tolist()])


def _weight_streams(seeds: Sequence[int], purpose: str) -> Streams:
    return [torch_stream(seed, f"{purpose} weights") for seed in seeds]


class _RTGNNLearner(BatchLearner):
    method: RTGNN
    all_nodes = True

    def __init__(self, method: RTGNN, tasks: Sequence[NodeTask], seeds: Sequence[int]) -> None:
        super().__init__(method, tasks, seeds)
        self.labelled = torch.stack([task.train_mask for task in tasks]).to(self.device)
        if not method.batch_size:
            x = tasks[0].x.to(self.device)
            self.links = find_links(self.graph, x, self.labelled, method.nearest)
        self.predictor: Encoder = self.parts["predictor"]
        self.classifiers: list[_WeightedGCN] = [self.parts["first"], self.parts["second"]]
        # a buffer, so that checkpoints and recorded epochs contain the progress of training
        self.epoch = torch.zeros(len(seeds), dtype=torch.int64, device=self.device)
        self.network.register_buffer("epoch", self.epoch)
        self.train_by_adam()

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return the losses of the predictor and both classifiers."""
        method, links = self.method, self._links_of(batch)
        h = self.predictor(batch.x, batch.graph, self.dropout, last=batch.last)
        alike = likeness(links, h)
        weights = link_weights(links, alike, method.min_weight)
        values = normalised_weights(links, weights)
        logits = []
        for classifier in self.classifiers:
            x = batch.x.dropout(method.dropout, self.dropout) if method.dropout > 0 else batch.x
            hidden = classifier.weighted_hidden(x, links, values)
            logits.append(classifier.weighted_output(hidden, links, values))
        log_p = torch.stack(logits).log_softmax(3)  # [2, R, N, K]
        labelled = labelled_loss(
            torch.stack([at_nodes(own, batch.train) for own in log_p]),
            batch.given,
            self.epoch.double() / method.epochs,
            forget=method.forget,
            doubted=method.doubted,
            trusted=self.trusted_in(batch),
        )
        reconstruction = reconstruction_loss(links, alike, h, method.negatives)
        pseudo = pseudo_loss(log_p, ~self.labelled[:, batch.nodes], method.certainty)
        divergence = neighbour_divergence(links, weights, log_p, batch.train)
        consistency = disagreement(log_p) + divergence
        return {
            "loss": labelled + reconstruction + pseudo + method.consistency * consistency,
            "labelled": labelled,
            "reconstruction": reconstruction,
            "pseudo": pseudo,
            "consistency": consistency,
        }

    def _links_of(self, batch: Batch) -> Links:
        if isinstance(self.data, WholeGraph):
            return self.links
        labelled = self.labelled[:, batch.nodes]
        graph, x = self.data.among(batch), self.data.rows(batch.nodes)
        return find_links(graph, x, labelled, self.method.nearest)

    def end_epoch(self) -> None:
        self.epoch += 1

    @torch.no_grad()
    def evaluate(self) -> Outcome:
        """Return the mean of both classifiers' probabilities, and their hidden layers."""
        if isinstance(self.data, WholeGraph):
            return self.method._outcome_with_candidates(
                self.network, self.data.x, self.graph, self.links
            )
        return self.method._outcome(self.network, self.data)
