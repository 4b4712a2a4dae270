"""ERASE: error-resilient representation learning on graphs (the paper's method)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, one_hot

from erase.data.task import NodeTask
from erase.errors import EraseError
from erase.methods.base import (
    COUNT,
    POSITIVE,
    SHARE,
    SWITCH,
    Constraint,
    Number,
    OneOf,
    Range,
)
from erase.methods.network import SHARED_SETTINGS, NetworkClassifier, NetworkLearner, NetworkSize
from erase.methods.relabelling.ensemble import relabel
from erase.methods.semantics import (
    DenoiseEdges,
    PrototypeLabels,
    denoise,
    prototype_labels,
    prototypes,
    semantic_labels,
)
from erase.nn.coding import rate_reduction, short_rows_are_tame
from erase.nn.encoders import Activation, Encoder, Features
from erase.nn.heads import HEADS, LinearHead, classify
from erase.nn.precision import full_float32
from erase.nn.sparse import Normalisation, propagate
from erase.training.chunks import by_rows
from erase.training.graphs import WholeGraph
from erase.training.large_graphs import ChunkedGraph
from erase.training.loop import Learner, Outcome, mean_cross_entropy

RECIPES: dict[str, dict[str, Any]] = {
    # yields the published accuracies; these are also ERASE's defaults
    "reference": {
        "normalisation": "column",
        "prototype": "absolute",
        "mixture_softmax": True,
        "amsgrad": True,
    },
    # the formulas as printed
    "paper": {
        "normalisation": "symmetric",
        "prototype": "softmax",
        "mixture_softmax": False,
        "amsgrad": False,
    },
    # the labels of relabelling in the place of the paper's semantic labels
    "relabelled": {"semantics": "relabelling", "trust": 0.0, "propagate": False},
}

DATASET_SETTINGS: dict[str, dict[str, Any]] = {
    # the paper's table of settings; ogbn-arxiv is not in it, and has those of the published runs
    "cora": {"eps2": 0.05, "gamma": 2.0, "steps": 5, "keep": 0.6, "trust": 0.6},
    "citeseer": {"eps2": 0.4, "gamma": 2.0, "steps": 4, "keep": 0.6, "trust": 0.7},
    "pubmed": {"eps2": 0.05, "gamma": 3.0, "steps": 3, "keep": 0.6, "trust": 0.6},
    "corafull": {"eps2": 0.01, "gamma": 1.0, "steps": 2, "keep": 0.7, "trust": 0.7},
    "ogbn-arxiv": {
        "eps2": 0.05,
        "gamma": 2.0,
        "steps": 50,
        "keep": 0.4,  # the published α = 0.6 weighs the neighbours
        "trust": 0.5,
        "batch_size": 200,
        "num_neighbors": (5, 5),
        "epochs": 10,
    },
}

# where the published numbers of a dataset come from other settings than the paper's table
REFERENCE_DEPARTURES: dict[str, dict[str, Any]] = {
    "corafull": {"gamma": 2.0},
    "ogbn-arxiv": {
        **SHARED_SETTINGS["ogbn-arxiv"],
        "normalisation": "symmetric",
        "restart": True,
        "denoise_edges": "all",
        "mixture_softmax": False,
        "fresh_targets": True,
        "ties": "last",
        "inner": "relu-l1",
        "output": "l2-relu",
        "amsgrad": False,
    },
}


@dataclass(kw_only=True, eq=False, repr=False)
class ERASE(NetworkClassifier):
    """ERASE (Chen et al., 2024): learn representations that tolerate wrong labels.

    The encoder maximises the coding rate reduction γ R(Z) − R^C(Z | Π) (eq. 12), where the class
    memberships Π come from semantic labels of all nodes.

    Given labels are denoised once among training nodes. In every epoch they are mixed with labels
    that follow from the representation itself (prototype labels) and propagated over the graph; the
    largest entry is a node's class in the coding rate reduction. A classifier on the frozen
    representations, trained on the semantic labels of the training nodes, predicts.

    The defaults are the ``"reference"`` preset with the paper's settings for Cora;
    :meth:`preset` gives others.

    Args:
        eps2: ε², the squared precision of the coding rate: the tolerance for wrong labels.
        gamma: γ, weight of the rate of all nodes against that of the classes.
        steps: T, propagation steps before and during training.
        keep: α, weight of a node's own label in a propagation step.
        restart: let a propagation step mix with the labels it began with, those of training nodes,
            not with those of the step before; results are clamped to [0, 1].
        trust: β, weight of the denoised label against the prototype label.
        denoise: phase 1, propagation among training nodes before training; off: labels as given.
        denoise_edges: edges that phase 1 propagates over: those between two "training" nodes, or
            "all".
        propagate: phase 2, propagation of semantic labels in every epoch; off: none.
        normalisation: of the adjacency matrix: "column", "symmetric" or "row".
        prototype: "absolute" cosine or "softmax" of the cosines.
        mixture_softmax: take the softmax of the mixture of prototype and denoised labels.
        semantics: what is mixed with the denoised labels: "prototype" labels; the predictions of a
            "cross-entropy" network trained alongside (an ablation of the paper); or the labels
            of "relabelling", computed once, see :class:`erase.Relabelling`.
        one_stage: train a linear classifier together with the encoder instead of a head on the
            frozen representations (an ablation of the paper).
        head: "logreg", "linear-svm", "poly-svm" or "mlp".
        fresh_targets: recompute the semantic labels after an epoch, from its final weights, before
            the head is trained on them; off: the head is trained on those of the epoch's step.
        width: D, width of the representations.
        inner: activation of the hidden layer, "leaky-l1", "relu-l1" or "relu", see
            :func:`erase.nn.encoders.activate`.
        output: activation of the representations, see :func:`erase.nn.encoders.activate`.
        amsgrad: Adam with a non-increasing step size.
        encoder: "gat", "gcn" or "sage", or a function that makes one of your own, see
            :class:`erase.methods.network.NetworkClassifier`.
        hidden: width of the hidden layer, all attention heads together.
        heads: attention heads of the first layer.
        dropout: share of input features dropped in training.
        lr: Adam's learning rate.
        weight_decay: Adam's weight decay.
        epochs: most epochs to train.
        patience: epochs without a better validation accuracy before stopping.
        ties: of epochs with equal validation accuracy take the "first" or the "last"; `patience`
            counts from the one that is taken.
        batch_size: training nodes of a step, with sampled neighbours; an epoch is then a pass over
            all training nodes. 0: the whole graph, an epoch is one step.
        num_neighbors: with `batch_size`: neighbours drawn for a training node, and for each of
            these; −1: all.
        objective: with `batch_size`: the coding rates of each "batch", a sample of the graph; or of
            the whole "graph", computed in chunks of `batch_size` nodes: an epoch is one step as
            without batches, with the same result, in less memory and more time.
        seed: of initial weights, dropout and batches.
        device: "auto", "cpu" or "cuda".

    Note:
        ‖z‖₁ ≤ 1 by the reference preset. On the unit sphere (``output="l2-relu"``) the same ε²
        means another tolerance.

        With samples the coding rates of a step are those of all nodes of its sample. Their
        semantic labels are computed for the whole graph, from its representations without dropout,
        before the first epoch and after every evaluation.
    """

    constraints: ClassVar[dict[str, Constraint]] = NetworkClassifier.constraints | {
        "eps2": POSITIVE,
        "gamma": POSITIVE,
        "steps": Number(low=0, whole=True),
        "keep": SHARE,
        "restart": SWITCH,
        "trust": SHARE,
        "denoise": SWITCH,
        "denoise_edges": OneOf(("training", "all")),
        "propagate": SWITCH,
        "normalisation": OneOf(("column", "symmetric", "row")),
        "prototype": OneOf(("absolute", "softmax")),
        "mixture_softmax": SWITCH,
        "semantics": OneOf(("prototype", "cross-entropy", "relabelling")),
        "one_stage": SWITCH,
        "head": OneOf(tuple(HEADS)),
        "fresh_targets": SWITCH,
        "width": COUNT,
        "objective": OneOf(("batch", "graph")),
        "inner": OneOf(("leaky-l1", "relu-l1", "relu")),
        "output": OneOf(("l1-relu", "l2-relu", "l2", "relu", "none")),
        "amsgrad": SWITCH,
        "ties": OneOf(("first", "last")),
    }
    space: ClassVar[dict[str, Range | OneOf]] = NetworkClassifier.space | {
        "eps2": Range(0.01, 1.0, log=True),
        "gamma": Range(1.0, 4.0),
        "steps": Range(1, 16, whole=True),
        "keep": Range(0.1, 0.95),
        "trust": Range(0.0, 1.0),
    }

    eps2: float = 0.05
    gamma: float = 2.0
    steps: int = 5
    keep: float = 0.6
    restart: bool = False
    trust: float = 0.6
    denoise: bool = True
    denoise_edges: DenoiseEdges = "training"
    propagate: bool = True
    normalisation: Normalisation = "column"
    prototype: PrototypeLabels = "absolute"
    mixture_softmax: bool = True
    semantics: str = "prototype"
    one_stage: bool = False
    head: str = "logreg"
    fresh_targets: bool = False
    width: int = 512
    objective: str = "batch"
    inner: Activation = "leaky-l1"
    output: Activation = "l1-relu"
    amsgrad: bool = True
    ties: str = "first"

    @classmethod
    def preset(cls, recipe: str = "reference", dataset: str | None = None, **changes: Any) -> Self:
        """Return ERASE with a preset, a dataset's settings from the paper, and your `changes`.

        Args:
            recipe: name of the preset: "reference", which yields the published numbers; "paper",
                the formulas as printed; or "relabelled", whose semantic labels are those of
                relabelling.
            dataset: take ε², γ, T, α, β from the paper's table; None or a dataset that is not in
                the table takes Cora's.
            changes: parameters by name; they win.

        >>> ERASE.preset("paper", "citeseer", seed=3).eps2
        0.4
        """
        if not isinstance(recipe, str) or recipe not in RECIPES:
            raise EraseError(f"a recipe among {', '.join(RECIPES)}", repr(recipe), "Choose one.")
        if not isinstance(dataset, str | None):
            raise EraseError("the name of a dataset, or None", repr(dataset), "Pass None.")
        known = (dataset or "").lower()
        settings = DATASET_SETTINGS.get(known, {})
        if recipe == "paper":
            return cls(**(RECIPES["paper"] | settings | changes))
        settings = RECIPES["reference"] | settings | REFERENCE_DEPARTURES.get(known, {})
        if recipe == "relabelled":
            settings |= RECIPES["relabelled"]
        return cls(**(settings | changes))

    def check_params(self) -> None:
        """Raise an EraseError for the first parameter, or pair of them, that cannot be used."""
        super().check_params()
        if self.objective == "graph" and (self.semantics != "prototype" or self.one_stage):
            raise EraseError(
                "prototype labels and a head on the representations with objective='graph'",
                f"semantics={self.semantics!r}, one_stage={self.one_stage}",
                "Use objective='batch', or batch_size=0.",
            )

    @property
    def trains_on_validation(self) -> bool:
        """Whether validation labels train as well: relabelling uses all labels."""
        return self.semantics == "relabelling"

    represents_hidden: ClassVar[bool] = False

    def _networks(self, size: NetworkSize) -> dict[str, Any]:
        parts: dict[str, Any] = {
            "encoder": self._build_encoder(
                "weights", size, self.width, hidden=self.inner, output=self.output
            )
        }
        if self.semantics == "cross-entropy":
            parts["guesser"] = self._build_encoder(
                "guesser weights", size, size.num_classes, hidden=self.inner, output="none"
            )
        if self.one_stage:
            parts["classifier"] = _Linear(len(size.seeds), self.width, size.num_classes)
        elif self.head == "logreg":
            parts["head"] = LinearHead(len(size.seeds), self.width, size.num_classes)
        return parts

    def _learner(self, tasks: Sequence[NodeTask], seeds: Sequence[int]) -> Learner:
        if self.batch_size:
            # here, because it builds on this module, and only large graphs need it
            from erase.methods.erase_large import ExactErase, SampledErase

            large = SampledErase if self.objective == "batch" else ExactErase
            return large(self, tasks, seeds)
        return EraseLearner(self, tasks, seeds)

    def _outcome(self, network: Any, data: WholeGraph | ChunkedGraph) -> Outcome:
        """Return what the head predicts from the representations.

        Heads of scikit-learn are fitted again, to the representations and semantic labels of the
        training nodes of the fit: both are kept.
        """
        z = data.z(network["encoder"])
        if self.one_stage or self.head == "logreg":
            head = network["classifier" if self.one_stage else "head"]
            proba = by_rows(head, z)
        else:
            fit = self._fitted()
            rows, before = fit.weights["examples"][None], fit.outcome.embedding[None].to(z)
            targets, both = fit.outcome.labels[rows], torch.cat([before, z], 1)
            proba = classify(
                self.head, both, rows.to(z.device), targets, len(self.classes_), [self.seed]
            )[:, before.shape[1] :]
        return Outcome(proba, z, proba.argmax(2))


class EraseLearner(NetworkLearner):
    """Algorithm 1 of the paper: one iteration an epoch, on the whole graph, for R runs at once.

    Attributes:
        denoised: [R, N, K] labels of the training nodes after phase 1, and trusted labels as they
            are; zero elsewhere.
        trains: [R, N] whether a node has a training label.
        founder_of: [R, N] the class whose prototype a training node is averaged into; K: none.
        members: [R, N, K] the same, 1 at that class.
        membership: [R, N] the class of every node in the last step.
    """

    method: ERASE

    def __init__(self, method: ERASE, tasks: Sequence[NodeTask], seeds: Sequence[int]) -> None:
        super().__init__(method, tasks, seeds)
        self.adjacency = self.graph.normalised(method.normalisation)
        self.denoised = torch.stack([self._denoise(t) for t in tasks])
        if self.trusted is not None:  # these are right, and stay as they are
            exact = one_hot(self.trusted.clamp(min=0), self.num_classes).float()
            self.denoised = torch.where(self.trusted[..., None] >= 0, exact, self.denoised)
        self.trains = torch.stack([t.train_mask for t in tasks]).to(self.device)
        # a label that faded away entirely (α^T = 0) still counts as given
        faded = self.denoised.sum(2) == 0
        given = torch.stack([t.y for t in tasks]).to(self.device).clamp(min=0)
        classes = torch.where(faded, given, self.denoised.argmax(2))
        self.founder_of = torch.where(self.trains, classes, self.num_classes)
        if not method.batch_size:  # else both are too large
            self.x = Features(tasks[0].x.to(self.device))
            self.members = one_hot(self.founder_of, self.num_classes + 1)[..., :-1].float()
        self.membership = torch.zeros_like(given)
        self.encoder: Encoder = self.parts["encoder"]
        if method.semantics == "cross-entropy":
            self.guesser: Encoder = self.parts["guesser"]
        if method.semantics == "relabelling":
            fits = relabel(tasks, seeds, self.device)
            relabelled = torch.stack([fit.outcome.labels for fit in fits]).to(self.device)
            self.relabelled = one_hot(relabelled, self.num_classes).float()
        if not method.one_stage and method.head != "logreg":
            self.network.register_buffer("examples", self.train_index)
        self.train_by_adam(amsgrad=method.amsgrad)
        self.takes_last = method.ties == "last"
        self.short_rows = method.output in ("l1-relu", "l2-relu", "l2")
        tame = self.short_rows and short_rows_are_tame(method.width, method.eps2)
        self.waits |= not tame or not (method.one_stage or method.head == "logreg")

    def _denoise(self, task: NodeTask) -> Tensor:
        return denoise(
            self.graph,
            task.y.to(self.device),
            task.train_mask.to(self.device),
            task.num_classes,
            keep=self.method.keep,
            steps=self.method.steps if self.method.denoise else 0,
            normalisation=self.method.normalisation,
            restart=self.method.restart,
            edges=self.method.denoise_edges,
        )

    def step(self) -> dict[str, Tensor]:
        """Train one epoch: encode, relabel, maximise the coding rate reduction."""
        z = self.encoder(self.x, self.graph, self.dropout)  # [R, N, D]
        guesses, loss = self.guess(z, self.dropout)
        self.membership = self._membership(guesses)
        reduction, rate, class_rate = self.rate_reduction(z, self.membership)
        loss = loss - reduction
        if self.method.one_stage:
            loss = loss + self.classifier_loss(z, self.train_index, self.membership)
        self.descend(loss)
        return {"loss": loss.detach(), "rate": rate, "class_rate": class_rate}

    @torch.no_grad()
    def evaluate(self) -> Outcome:
        """Encode without dropout, and classify the representations."""
        z = self.encoder(self.x, self.graph)
        if self.method.fresh_targets:
            self.membership = self._membership(self.guess(z)[0])
        proba = self.classify(z) if self.method.one_stage else self.head(z)
        return Outcome(proba, z, self.membership)

    def guess(
        self, z: Tensor, dropout: Sequence[torch.Generator] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return labels that the network predicts [R, N, K], and their loss [R].

        They are the prototype labels of `z` [R, N, D], unless `semantics` names others.
        """
        no_loss = z.new_zeros(len(z))
        if self.method.semantics == "cross-entropy":
            logits = self.guesser(self.x, self.graph, dropout)
            loss = mean_cross_entropy(logits, self.train_index, self.given)
            return logits.detach().softmax(2), loss
        if self.method.semantics == "relabelling":
            return self.relabelled, no_loss
        with torch.no_grad():
            centres = prototypes(z, self.members)
            return prototype_labels(z, centres, self.method.prototype), no_loss

    @torch.no_grad()
    def _membership(self, guesses: Tensor) -> Tensor:
        """Return the class of every node [R, N] (eqs. 8 to 10); a trusted label stays."""
        method = self.method
        labels = semantic_labels(
            guesses, self.denoised, trust=method.trust, softmax=method.mixture_softmax
        )
        steps = method.steps if method.propagate else 0
        if method.restart and steps:  # only labels of training nodes are propagated
            labels = labels * self.trains[..., None]
        classes = propagate(
            *self.adjacency, labels, keep=method.keep, steps=steps, restart=method.restart
        ).argmax(2)
        if self.trusted is None:
            return classes
        return torch.where(self.trusted >= 0, self.trusted, classes)

    def rate_reduction(self, z: Tensor, membership: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return γ R − R^C (eq. 12), R and R^C, [R] each, of rows `z` [R, M, D]."""
        return rate_reduction(
            z,
            membership,
            self.num_classes,
            eps2=self.method.eps2,
            gamma=self.method.gamma,
            short_rows=self.short_rows,
        )

    def classify(self, z: Tensor) -> Tensor:
        """Return the probabilities [R, M, K] of the classifier trained with the encoder."""
        proba: Tensor = self.parts["classifier"](z)
        return proba

    def classifier_loss(self, z: Tensor, nodes: Tensor, membership: Tensor) -> Tensor:
        """Return the cross-entropy [R] of that classifier at the classes of `nodes` [R, n]."""
        logits = self.parts["classifier"].logits(z)
        return mean_cross_entropy(logits, nodes, membership.gather(1, nodes))

    def head(self, z: Tensor) -> Tensor:
        """Return the probabilities [R, N, K] of a head trained on the classes of training nodes."""
        targets = self.membership.gather(1, self.train_index)
        if self.method.head == "logreg":
            head: LinearHead = self.parts["head"]
            head.fit(z, self.train_index, targets)
            proba: Tensor = head(z)
            return proba
        return classify(
            self.method.head, z, self.train_index, targets, self.num_classes, self.seeds
        )


class _Linear(nn.Module):
    """A linear classifier of rows of length 1 for R runs; it starts at zero."""

    def __init__(self, runs: int, in_width: int, out_width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(runs, in_width, out_width))
        self.bias = nn.Parameter(torch.zeros(runs, 1, out_width))

    @full_float32()
    def logits(self, z: Tensor) -> Tensor:
        return torch.baddbmm(self.bias, normalize(z, dim=2), self.weight)

    def forward(self, z: Tensor) -> Tensor:
        """Return the probabilities [R, M, K]."""
        return self.logits(z).softmax(2)
