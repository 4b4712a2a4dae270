"""NRGNN: pseudo-labels and edges to nodes with labels (Dai, Aggarwal and Wang, 2021).

An edge predictor links unlabelled nodes to labelled ones with similar features, so that more labels
reach them. On that graph a first GCN, the miner, is trained on the given labels; its certain
predictions are pseudo-labels. Nodes with a pseudo-label get edges to unlabelled nodes as well, and
a second GCN, the classifier, is trained on that graph with given labels and pseudo-labels.

Which nodes have a pseudo-label changes in every step. So the candidate edges of all nodes are found
beforehand, those to their nearest unlabelled nodes, and stored in one sparse pattern with the
graph's edges; a step sets weights to zero where neither end has a label.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

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
from erase.nn.encoders import Encoder, Features
from erase.nn.links import LinkedGCN, Links
from erase.nn.sparse import Graph
from erase.random import torch_stream
from erase.training.graphs import Batch, WholeGraph
from erase.training.large_graphs import ChunkedGraph
from erase.training.loop import Learner, Outcome, mean_cross_entropy


def nearest_without_label(x: Tensor, labelled: Tensor, nearest: int) -> Tensor:
    """Return every node with the unlabelled ones of highest cosine, [2, N·k].

    k is `nearest`, or one less than there are unlabelled nodes if that is fewer. Of equal cosines
    the lowest node numbers win: see :func:`erase.nn.neighbours.nearest`.

    Args:
        x: [N, F] features, dense or CSR.
        labelled: [N] bool.
        nearest: most candidates of a node.

    >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, 1.0], [1.0, 1.0]])
    >>> nearest_without_label(x, torch.tensor([True, False, False, False]), 1)
    tensor([[0, 1, 2, 3],
            [2, 3, 3, 2]])
    """
    far = (~labelled).nonzero().squeeze(1)
    k = max(min(nearest, len(far) - 1), 0)
    found, _ = neighbours.nearest(x.double(), k, among=far)
    near = torch.arange(len(labelled), device=labelled.device)
    return torch.stack([near.repeat_interleave(k), found.flatten()])


def find_links(graph: Graph, x: Tensor, labelled: Tensor, nearest: int) -> Links:
    """Return the links of a graph for each run's `labelled` nodes [R, N]."""
    splits, split_of_run = labelled.unique(dim=0, return_inverse=True)
    found = [nearest_without_label(x, split, nearest) for split in splits]
    return Links.of(graph, [found[i] for i in split_of_run.tolist()])


@torch.no_grad()
def pseudo_labels(logits: Tensor, labelled: Tensor, certainty: float) -> tuple[Tensor, Tensor]:
    """Return which nodes get a pseudo-label, and the predicted classes of all, both [R, N].

    Unlabelled nodes whose highest probability is above `certainty` do.

    Args:
        logits: [R, N, K].
        labelled: [R, N] bool.
        certainty: p_th.
    """
    highest, named = logits.softmax(2).max(2)
    return ~labelled & (highest > certainty), named


def extended_loss(logits: Tensor, classes: Tensor, used: Tensor) -> Tensor:
    """Return the mean cross-entropy [R] of `logits` [R, N, K] to `classes` over `used` [R, N]."""
    losses = -logits.log_softmax(2).gather(2, classes[..., None])[..., 0]
    return torch.where(used, losses, 0.0).sum(1) / used.sum(1).clamp(min=1)


@dataclass(kw_only=True, eq=False, repr=False)
class NRGNN(NetworkClassifier):
    """NRGNN (Dai et al., 2021): pseudo-labels, and edges from labelled to similar nodes.

    Minimises L_G + α L_E + β L_P: L_P is the miner's cross-entropy to the given labels, L_E the
    edge predictor's :meth:`erase.nn.links.Links.reconstruction_loss`, and L_G the classifier's
    cross-entropy to given labels and pseudo-labels. The classifier predicts; the representation is
    its hidden layer.

    Args:
        nearest: candidate edges of a node with a label or pseudo-label, to the unlabelled nodes
            with the most similar features.
        min_weight: candidates that the edge predictor gives less are dropped.
        negatives: pairs without an edge, for each node, in the edge predictor's loss.
        predictor: width of both layers of the edge predictor, a GCN with rows of length 1.
        certainty: p_th, the miner's probability above which a prediction is a pseudo-label.
        edges: α, weight of the edge predictor's loss.
        miner: β, weight of the miner's loss.

    The other parameters are those of :class:`erase.methods.network.NetworkClassifier`, where
    `heads` has no effect and `encoder` is "gcn".

    Note:
        Edge weights of the graph are ignored. Dropout acts on the input of each network, as
        everywhere here, and the predictor's loss is the mean over all draws of negatives. The
        miner of the same step gives the pseudo-labels. With `batch_size`, candidates are searched
        among the nodes of a sample; predictions then use the edges of the whole graph without
        candidates.

        `predict(graph)` adds candidates to the labelled nodes of that graph; without labels, none.
    """

    constraints: ClassVar[dict[str, Constraint]] = NetworkClassifier.constraints | {
        "encoder": OneOf(("gcn",)),
        "nearest": COUNT,
        "min_weight": SHARE,
        "negatives": COUNT,
        "predictor": COUNT,
        "certainty": SHARE,
        "edges": Number(low=0),
        "miner": Number(low=0),
    }
    space: ClassVar[dict[str, Range | OneOf]] = NetworkClassifier.space | {
        "nearest": Range(5, 100, whole=True),
        "min_weight": Range(0.0, 0.5),
        "certainty": Range(0.5, 0.95),
        "edges": Range(0.003, 3.0, log=True),
        "miner": Range(0.1, 10.0, log=True),
    }

    uses_edge_weights: ClassVar[bool] = False
    reads_labels: ClassVar[bool] = True
    representing: ClassVar[tuple[str, ...]] = ("classifier",)

    encoder: str = "gcn"
    hidden: int = 128
    lr: float = 3e-3
    epochs: int = 200
    nearest: int = 50
    min_weight: float = 0.1
    negatives: int = 50
    predictor: int = 64
    certainty: float = 0.8
    edges: float = 0.03
    miner: float = 1.0

    def _networks(self, size: NetworkSize) -> dict[str, Any]:
        shared: dict[str, Any] = {"in_width": size.in_width, "heads": 1, "dropout": self.dropout}
        streams = {
            part: [torch_stream(seed, f"{part} weights") for seed in size.seeds]
            for part in ("predictor", "miner", "classifier")
        }
        predictor = Encoder(
            "gcn",
            hidden=self.predictor,
            width=self.predictor,
            hidden_activation="relu",
            output_activation="l2",
            streams=streams["predictor"],
            **shared,
        )
        networks = {
            part: LinkedGCN(
                "gcn",
                hidden=self.hidden,
                width=size.num_classes,
                hidden_activation="relu",
                output_activation="none",
                streams=streams[part],
                **shared,
            )
            for part in ("miner", "classifier")
        }
        return {"predictor": predictor, **networks}

    def _learner(self, tasks: Sequence[NodeTask], seeds: Sequence[int]) -> Learner:
        return _NRGNNLearner(self, tasks, seeds)

    def _outcome(self, network: Any, data: WholeGraph | ChunkedGraph) -> Outcome:
        """Return the classifier's probabilities and hidden layer, on the graph as it is."""
        return mean_outcome([network["classifier"]], data)

    def _outcome_with_candidates(
        self, network: Any, x: Features, graph: Graph, links: Links, labelled: Tensor
    ) -> Outcome:
        """Return the same on the graph with the edges of labelled and pseudo-labelled nodes."""
        alike = links.likeness(network["predictor"](x, graph))
        values = links.normalised(links.weights(alike, labelled, self.min_weight))
        miner, classifier = network["miner"], network["classifier"]
        mined = miner.linked_output(miner.linked_hidden(x, links, values), links, values)
        pseudo, _ = pseudo_labels(mined, labelled, self.certainty)
        values = links.normalised(links.weights(alike, labelled | pseudo, self.min_weight))
        hidden = classifier.linked_hidden(x, links, values)
        proba = classifier.linked_output(hidden, links, values).softmax(2)
        return Outcome(proba, hidden, proba.argmax(2))

    @torch.no_grad()
    def _apply(self, task: NodeTask) -> Outcome:
        labelled = task.train_mask[None]
        if self.batch_size or not bool(labelled.any()):
            return super()._apply(task)
        device = resolve_device(self.device)
        graph, x = Graph(task.edge_index.to(device), task.num_nodes), task.x.to(device)
        labelled = labelled.to(device)
        links = find_links(graph, x, labelled, self.nearest)
        network = self._fitted_network().to(device)
        return one_run(self._outcome_with_candidates(network, Features(x), graph, links, labelled))


class _NRGNNLearner(BatchLearner):
    method: NRGNN
    all_nodes = True

    def __init__(self, method: NRGNN, tasks: Sequence[NodeTask], seeds: Sequence[int]) -> None:
        super().__init__(method, tasks, seeds)
        self.labelled = torch.stack([task.train_mask for task in tasks]).to(self.device)
        if not method.batch_size:
            x = tasks[0].x.to(self.device)
            self.links = find_links(self.graph, x, self.labelled, method.nearest)
        self.predictor: Encoder = self.parts["predictor"]
        self.miner: LinkedGCN = self.parts["miner"]
        self.classifier: LinkedGCN = self.parts["classifier"]
        self.train_by_adam()

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return the losses of the predictor, the miner and the classifier, and their sum."""
        method, links = self.method, self._links_of(batch)
        labelled = self.labelled[:, batch.nodes]
        h = self.predictor(batch.x, batch.graph, self.dropout, last=batch.last)
        alike = links.likeness(h)
        weights = links.weights(alike, labelled, method.min_weight)
        mined = self._logits(self.miner, batch, links, weights)
        pseudo, named = pseudo_labels(mined, labelled, method.certainty)
        weights = links.weights(alike, labelled | pseudo, method.min_weight)
        logits = self._logits(self.classifier, batch, links, weights)
        in_batch = torch.zeros_like(labelled).scatter(1, batch.train, value=True)
        classes = named.scatter(1, batch.train, batch.given)
        classified = extended_loss(logits, classes, in_batch | pseudo)
        mining = mean_cross_entropy(mined, batch.train, batch.given)
        reconstruction = links.reconstruction_loss(alike, h, method.negatives)
        return {
            "loss": classified + method.edges * reconstruction + method.miner * mining,
            "classified": classified,
            "reconstruction": reconstruction,
            "mining": mining,
            "pseudo_labels": pseudo.float().sum(1),
        }

    def _logits(self, network: LinkedGCN, batch: Batch, links: Links, weights: Tensor) -> Tensor:
        share, values = self.method.dropout, links.normalised(weights)
        x = batch.x.dropout(share, self.dropout) if share > 0 else batch.x
        return network.linked_output(network.linked_hidden(x, links, values), links, values)

    def _links_of(self, batch: Batch) -> Links:
        if isinstance(self.data, WholeGraph):
            return self.links
        labelled = self.labelled[:, batch.nodes]
        graph, x = self.data.among(batch), self.data.rows(batch.nodes)
        return find_links(graph, x, labelled, self.method.nearest)

    @torch.no_grad()
    def evaluate(self) -> Outcome:
        """Return the classifier's probabilities and hidden layer."""
        if isinstance(self.data, WholeGraph):
            return self.method._outcome_with_candidates(
                self.network, self.data.x, self.graph, self.links, self.labelled
            )
        return self.method._outcome(self.network, self.data)
