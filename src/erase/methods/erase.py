"""ERASE: error-resilient representation learning on graphs (the paper's method)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
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
from erase.methods.network import SHARED_SETTINGS, Batch, NetworkClassifier, NetworkLearner
from erase.methods.relabelling.ensemble import relabel
from erase.methods.semantics import (
    DenoiseEdges,
    PrototypeLabels,
    denoise,
    prototype_labels,
    prototypes,
    semantic_labels,
)
from erase.nn.coding import (
    ClassGrams,
    rate_reduction,
    shared_rate_reduction,
    short_rows_are_tame,
)
from erase.nn.encoders import Activation
from erase.nn.heads import HEADS, classify
from erase.nn.precision import full_float32
from erase.nn.sparse import Normalisation, propagate
from erase.training.chunks import RecomputedPass, Survey, classify_in_chunks
from erase.training.loop import Learner, Outcome, mean_cross_entropy
from erase.training.processes import add_up, average_gradients, count, rank

RECIPES: dict[str, dict[str, Any]] = {
    # what yields the published accuracies; these are also ERASE's defaults
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
    # what relabelling believes the labels to be, in the place of the paper's semantic labels
    "relabelled": {"semantics": "relabelling", "trust": 0.0, "propagate": False},
}

DATASET_SETTINGS: dict[str, dict[str, Any]] = {
    # the paper's table of settings; ogbn-arxiv is not in it, and has those of its recipe
    "cora": {"eps2": 0.05, "gamma": 2.0, "steps": 5, "keep": 0.6, "trust": 0.6},
    "citeseer": {"eps2": 0.4, "gamma": 2.0, "steps": 4, "keep": 0.6, "trust": 0.7},
    "pubmed": {"eps2": 0.05, "gamma": 3.0, "steps": 3, "keep": 0.6, "trust": 0.6},
    "corafull": {"eps2": 0.01, "gamma": 1.0, "steps": 2, "keep": 0.7, "trust": 0.7},
    "ogbn-arxiv": {
        "eps2": 0.05,
        "gamma": 2.0,
        "steps": 50,
        "keep": 0.4,  # the recipe's α = 0.6 weighs the neighbours
        "trust": 0.5,
        "batch_size": 200,
        "num_neighbors": (5, 5),
        "epochs": 10,
    },
}

# where the published numbers of a dataset come from other settings than the paper prints
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

    Given labels are denoised once among training nodes; in every epoch they are mixed with what the
    representation itself says (prototype labels), spread over the graph, and the class each node
    gets then is what the coding rate reduction is computed with. A classifier on the frozen
    representations, trained on the semantic labels of the training nodes, predicts.

    The defaults are the ``"reference"`` recipe with the paper's settings for Cora;
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
            "cross-entropy" network trained alongside (an ablation of the paper); or what
            "relabelling" believes, once and for all, see :class:`erase.Relabelling`.
        one_stage: train a linear classifier together with the encoder instead of a head on the
            frozen representations (an ablation of the paper).
        head: "logreg", "linear-svm", "poly-svm" or "mlp".
        fresh_targets: recompute the semantic labels after an epoch, from its final weights, before
            the head learns them; off: the head learns those that the epoch was trained with.
        width: D, width of the representations.
        inner: activation of the hidden layer, "leaky-l1", "relu-l1" or "relu", see
            :func:`erase.nn.encoders.activate`.
        output: activation of the representations, see :func:`erase.nn.encoders.activate`.
        amsgrad: Adam with a non-increasing step size.
        encoder: "gat", "gcn" or "sage".
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
            the whole "graph", gone through in chunks of `batch_size` nodes: an epoch is one step as
            without batches, to the same result, in less memory and more time.
        seed: of initial weights, dropout and batches.
        device: "auto", "cpu" or "cuda".

    Note:
        ‖z‖₁ ≤ 1 by the reference recipe. On the unit sphere (``output="l2-relu"``) the same ε²
        means another tolerance.

        With samples the coding rates of a step are those of all nodes of its sample. Their
        semantic labels are computed for the whole graph, from its representations in use, before
        the first epoch and after every evaluation.
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
        """Return ERASE with a recipe, a dataset's settings from the paper, and your `changes`.

        Args:
            recipe: "reference", which yields the published numbers; "paper", the formulas as
                printed; or "relabelled", whose semantic labels are those of relabelling.
            dataset: take ε², γ, T, α, β from the paper's table; None or a dataset that is not in
                the table takes Cora's.
            changes: parameters by name; they win.

        >>> ERASE.preset("paper", "citeseer", seed=3).eps2
        0.4
        """
        if recipe not in RECIPES:
            raise EraseError(f"a recipe among {', '.join(RECIPES)}", repr(recipe), "Choose one.")
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
        """Whether validation labels train as well: relabelling reads all labels there are."""
        return self.semantics == "relabelling"

    def _learner(self, tasks: Sequence[NodeTask], seeds: Sequence[int]) -> Learner:
        return _EraseLearner(self, tasks, seeds)


_SHORT_OUTPUTS = ("l1-relu", "l2-relu", "l2")


class _EraseLearner(NetworkLearner):
    """Algorithm 1 of the paper, one iteration a step, for R runs at once."""

    method: ERASE
    network: nn.ModuleDict
    looks_around = True

    def __init__(self, method: ERASE, tasks: Sequence[NodeTask], seeds: Sequence[int]) -> None:
        super().__init__(method, tasks, seeds)
        self.adjacency = self.graph.normalised(method.normalisation)
        self.denoised = torch.stack([self._denoise(t) for t in tasks])  # [R, N, K]
        self.trains = torch.stack([t.train_mask for t in tasks]).to(self.device)
        # a label that faded away entirely (α^T = 0) still counts as given
        faded = self.denoised.sum(2) == 0
        given = torch.stack([t.y for t in tasks]).to(self.device).clamp(min=0)
        classes = torch.where(faded, given, self.denoised.argmax(2))
        self.founds = torch.where(self.trains, classes, self.num_classes)  # K: no class
        if not method.batch_size:
            self.members = self._members(slice(None))
        self.encoder = self.build_encoder(
            "weights", method.width, hidden=method.inner, output=method.output
        )
        network = nn.ModuleDict({"encoder": self.encoder})
        if method.semantics == "cross-entropy":
            self.guesser = self.build_encoder(
                "guesser weights", self.num_classes, hidden=method.inner, output="none"
            )
            network["guesser"] = self.guesser
        if method.semantics == "relabelling":
            fits = relabel(tasks, seeds, self.device)
            believed = torch.stack([fit.outcome.labels for fit in fits]).to(self.device)
            self.believed = one_hot(believed, self.num_classes).float()
        if method.one_stage:
            network["classifier"] = _Linear(len(seeds), method.width, self.num_classes).to(
                self.device
            )
        self.membership = torch.zeros_like(given)  # [R, N]
        if method.batch_size:  # of other steps than the one that is evaluated
            network.register_buffer("membership", self.membership)
            self.epoch = torch.zeros(len(seeds), dtype=torch.int64)
            network.register_buffer("epoch", self.epoch)
        self.train_by_adam(network, amsgrad=method.amsgrad)
        self.takes_last = method.ties == "last"
        self.short_rows = method.output in _SHORT_OUTPUTS
        tame = self.short_rows and short_rows_are_tame(method.width, method.eps2)
        self.waits |= not tame or not (method.one_stage or method.head == "logreg")
        self._surveyed: Survey | None = None  # while the weights are still those

    def samples_batches(self) -> bool:
        return self.method.objective == "batch"

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

    def _members(self, rows: slice) -> Tensor:
        """Return [R, M, K] 1 where a training node helps to found a class's prototype."""
        return one_hot(self.founds[:, rows], self.num_classes + 1)[..., :-1].float()

    @torch.no_grad()
    def begin_epoch(self) -> None:
        if self.samples is None:
            return
        # an evaluation that refreshed the labels did so from the weights this epoch begins with
        fresh = self.method.fresh_targets and self._surveyed is not None
        if int(self.epoch[0]) % self.evaluate_every == 0 and not fresh:
            self._refresh_labels()
        self._surveyed = None

    def end_epoch(self) -> None:
        if self.samples is not None:
            self.epoch += 1

    def step(self) -> dict[str, Tensor]:
        if not self.method.batch_size or self.samples is not None:
            return super().step()
        return self._step_by_chunks()

    def _step_by_chunks(self) -> dict[str, Tensor]:
        """Take the step of the whole graph, whose z is never held as a whole."""
        method = self.method
        passed = RecomputedPass(
            self.encoder, self.read, self.graph, self.dropout, method.batch_size
        )
        self.membership.copy_(self._membership(self._prototype_labels_of(passed)))
        classes = self.membership[0]
        grams = ClassGrams(self.num_classes, method.width, self.denoised)
        for rows, z in passed.chunks():
            grams.add(z[0], classes[rows])
        add_up(grams.grams, grams.sizes)
        reduction, rate, class_rate, pull = grams.reduction(
            eps2=method.eps2,
            gamma=method.gamma,
            share=slice(rank(), None, count()),
            add_up=add_up,
        )
        self.optimiser.zero_grad()
        passed.backward(lambda rows, z: -grams.gradient(z[0], classes[rows], pull)[None])
        average_gradients(list(self.network.parameters()))
        self.optimiser.step()
        watched = {"loss": -reduction, "rate": rate, "class_rate": class_rate}
        return {name: value[None] for name, value in watched.items()}

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        if count() > 1 and not self.method.one_stage:
            return self._shared_losses(batch)
        z = self.encode(self.encoder, batch, self.dropout)
        guesses, losses = self._guesses(batch, z)
        if self.samples is None:
            self.membership = self._membership(guesses)
            membership = self.membership
        else:
            membership = self.membership[:, batch.nodes]
        reduction, rate, class_rate = rate_reduction(
            z,
            membership,
            self.num_classes,
            eps2=self.method.eps2,
            gamma=self.method.gamma,
            short_rows=self.short_rows,
        )
        losses = losses - reduction
        if self.method.one_stage:
            logits = self.network["classifier"](normalize(z, dim=2))
            targets = membership.gather(1, batch.train)
            losses = losses + mean_cross_entropy(logits, batch.train, targets)
        return {"loss": losses, "rate": rate, "class_rate": class_rate}

    def _shared_losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return the losses of a sample of which this process computes some rows."""
        z, rows = self.encode_own(self.encoder, batch, self.dropout)
        _, losses = self._guesses(batch, z)
        reduction, rate, class_rate = shared_rate_reduction(
            z[0],
            self.membership[0, batch.nodes[rows]],
            self.num_classes,
            eps2=self.method.eps2,
            gamma=self.method.gamma,
            add_up=add_up,
            place=rank(),
            places=count(),
        )
        return {"loss": losses - reduction, "rate": rate[None], "class_rate": class_rate[None]}

    def _guesses(self, batch: Batch, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return what the network says of the nodes [R, M, K], and the loss of saying it [R].

        In a sample prototype labels are those of the whole graph, and nobody asks for them here.
        """
        if self.method.semantics == "cross-entropy":
            logits = self.encode(self.guesser, batch, self.dropout)
            losses = mean_cross_entropy(logits, batch.train, batch.given)
            return logits.detach().softmax(2), losses
        if self.method.semantics == "relabelling":
            return self.believed, z.new_zeros(len(z))
        labels = self._prototype_labels(z) if self.samples is None else z.new_empty(0)
        return labels, z.new_zeros(len(z))

    @torch.no_grad()
    def _prototype_labels(self, z: Tensor) -> Tensor:
        """Return what the representations of all nodes say of them [R, N, K]."""
        return prototype_labels(z, prototypes(z, self.members), self.method.prototype)

    @torch.no_grad()
    @full_float32()
    def _prototype_labels_of(self, z: RecomputedPass | Survey) -> Tensor:
        """Return what representations that come in chunks say of all nodes [1, N, K]."""
        centres = self.denoised.new_zeros(1, self.num_classes, self.method.width)
        for rows, some in z.chunks():
            centres += self._members(rows).mT @ some
        add_up(centres)
        sizes = self.founds[0].bincount(minlength=self.num_classes + 1)[:-1]
        centres /= sizes.clamp(min=1)[:, None]
        labels = torch.zeros_like(self.denoised)
        for rows, some in z.chunks():
            labels[:, rows] = prototype_labels(some, centres, self.method.prototype)
        add_up(labels)
        return labels

    def _guesses_of_all(self) -> Tensor:
        """Return what the network, in use, says of every node [R, N, K]."""
        if self.method.semantics == "relabelling":
            return self.believed
        if self.method.semantics == "cross-entropy":
            return self.output_of_all(self.guesser, self.hidden_of_all(self.guesser)).softmax(2)
        if self.method.batch_size:
            return self._prototype_labels_of(self._survey())
        return self._prototype_labels(self.encoder(self.x, self.graph))

    def _survey(self) -> Survey:
        """Return the representations of all nodes, in use, to be had in chunks."""
        if self._surveyed is None:
            self._surveyed = Survey(self.encoder, self.read, self.graph)
        return self._surveyed

    @torch.no_grad()
    def _membership(self, guesses: Tensor) -> Tensor:
        """Return the class of every node [R, N] (eqs. 8 to 10)."""
        method = self.method
        labels = semantic_labels(
            guesses, self.denoised, trust=method.trust, softmax=method.mixture_softmax
        )
        steps = method.steps if method.propagate else 0
        if method.restart and steps:  # labels of training nodes alone are spread
            labels = labels * self.trains[..., None]
        return propagate(
            *self.adjacency, labels, keep=method.keep, steps=steps, restart=method.restart
        ).argmax(2)

    def _refresh_labels(self) -> None:
        """Compute the semantic labels from the weights as they are, in use."""
        self.membership.copy_(self._membership(self._guesses_of_all()))

    @torch.no_grad()
    def evaluate(self) -> Outcome:
        method = self.method
        self._surveyed = None  # of the weights before the last step
        if method.fresh_targets:
            self._refresh_labels()
        targets = self.membership.gather(1, self.train_index)
        if method.batch_size:
            survey = self._survey()
            if method.one_stage:
                proba = survey.map(self._classify)
            elif method.head == "logreg":
                proba = classify_in_chunks(
                    survey, method.width, self.train_index[0], targets[0], self.num_classes
                )
            else:
                proba = self._by_head(survey.map(lambda z: z), targets)
            nothing = proba.new_empty(1, 0, method.width)
            return Outcome(proba, nothing, self.membership)
        z = self.encoder(self.x, self.graph)
        proba = self._classify(z) if method.one_stage else self._by_head(z, targets)
        return Outcome(proba, z, self.membership)

    def finish(self) -> Outcome:
        outcome = self.evaluate()
        if not self.method.batch_size:
            return outcome
        return replace(outcome, embedding=self._survey().z())

    def _classify(self, z: Tensor) -> Tensor:
        """Return what the classifier trained with the encoder says of representations [R, M, K]."""
        logits: Tensor = self.network["classifier"](normalize(z, dim=2))
        return logits.softmax(2)

    def _by_head(self, z: Tensor, targets: Tensor) -> Tensor:
        """Return what a head trained on `targets` [R, n] says of all nodes [R, N, K]."""
        return classify(
            self.method.head, z, self.train_index, targets, self.num_classes, self.seeds
        )


class _Linear(nn.Module):
    """A linear layer for R runs that starts at zero and so needs no random stream."""

    def __init__(self, runs: int, in_width: int, out_width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(runs, in_width, out_width))
        self.bias = nn.Parameter(torch.zeros(runs, 1, out_width))

    @full_float32()
    def forward(self, z: Tensor) -> Tensor:
        return torch.baddbmm(self.bias, z, self.weight)
