"""ERASE on graphs too large for one step: by samples, or exactly in chunks (`batch_size` > 0)."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from erase.data.task import NodeTask
from erase.methods.erase import ERASE, EraseLearner
from erase.methods.semantics import prototype_labels
from erase.nn.class_grams import ClassGrams, shared_rate_reduction
from erase.nn.precision import full_float32
from erase.training.chunks import InferencePass, RecomputedPass, classify_in_chunks
from erase.training.graphs import Batch
from erase.training.large_graphs import ChunkedGraph, mean_over_batches
from erase.training.loop import Outcome, mean_cross_entropy
from erase.training.processes import add_up, average_gradients, count, rank


class LargeErase(EraseLearner):
    """Common base: representations of all nodes are computed in chunks and not kept.

    Attributes:
        data: the graph, read some nodes at a time.
    """

    data: ChunkedGraph

    def __init__(self, method: ERASE, tasks: Sequence[NodeTask], seeds: Sequence[int]) -> None:
        super().__init__(method, tasks, seeds)
        # buffers: the labels are those of another step than the one that is evaluated
        self.network.register_buffer("membership", self.membership)
        self.epoch = torch.zeros(len(seeds), dtype=torch.int64)
        self.network.register_buffer("epoch", self.epoch)
        self._inferred: InferencePass | None = None  # of the present weights; None after a step

    def _inference(self) -> InferencePass:
        """Return the representations of all nodes, without dropout, in chunks."""
        if self._inferred is None:
            self._inferred = InferencePass(self.encoder, self.data.read, self.graph)
        return self._inferred

    def _refresh_labels(self) -> None:
        """Compute the classes of all nodes from the present weights, without dropout."""
        if self.method.semantics == "relabelling":
            guesses = self.relabelled
        elif self.method.semantics == "cross-entropy":
            hidden = self.data.hidden(self.guesser)
            guesses = self.data.output(self.guesser, hidden).softmax(2)
        else:
            guesses = self._prototype_labels(self._inference())
        self.membership.copy_(self._membership(guesses))

    @torch.no_grad()
    @full_float32()
    def _prototype_labels(self, z: RecomputedPass | InferencePass) -> Tensor:
        """Return the prototype labels of all nodes [1, N, K] from representations in chunks."""
        centres = self.denoised.new_zeros(1, self.num_classes, self.method.width)
        for rows, some in z.chunks():
            members = one_hot(self.founder_of[:, rows], self.num_classes + 1)[..., :-1].float()
            centres += members.mT @ some
        add_up(centres)
        sizes = self.founder_of[0].bincount(minlength=self.num_classes + 1)[:-1]
        centres /= sizes.clamp(min=1)[:, None]
        labels = torch.zeros_like(self.denoised)
        for rows, some in z.chunks():
            labels[:, rows] = prototype_labels(some, centres, self.method.prototype)
        add_up(labels)
        return labels

    @torch.no_grad()
    def evaluate(self) -> Outcome:
        """Return the outcome without its embedding, which `finish` computes."""
        method = self.method
        self._inferred = None
        if method.fresh_targets:
            self._refresh_labels()
        inference = self._inference()
        if method.one_stage:
            proba = inference.map(self.classify)
        elif method.head == "logreg":
            targets = self.membership.gather(1, self.train_index)
            proba = classify_in_chunks(
                self.parts["head"], inference, self.train_index[0], targets[0]
            )
        else:
            proba = self.head(inference.map(lambda z: z))
        return Outcome(proba, proba.new_empty(1, 0, method.width), self.membership)

    def finish(self) -> Outcome:
        """Return the outcome with the representations of all nodes."""
        return replace(self.evaluate(), embedding=self._inference().z())


class SampledErase(LargeErase):
    """Coding rates of samples: a step for every batch of training nodes and their neighbours."""

    def __init__(self, method: ERASE, tasks: Sequence[NodeTask], seeds: Sequence[int]) -> None:
        super().__init__(method, tasks, seeds)
        self.data = self.samples = self.sampled(tasks[0], all_nodes=True)

    def step(self) -> dict[str, Tensor]:
        """Train one epoch: a step for every batch."""
        self.begin_epoch()
        watched = mean_over_batches(self._step_on, self.samples.batches())
        self.epoch += 1
        return watched

    @torch.no_grad()
    def begin_epoch(self) -> None:
        """Compute the classes of all nodes where that is due."""
        # an evaluation that refreshed the labels did so from the weights this epoch begins with
        fresh = self.method.fresh_targets and self._inferred is not None
        if int(self.epoch[0]) % self.evaluate_every == 0 and not fresh:
            self._refresh_labels()
        self._inferred = None

    def _step_on(self, batch: Batch) -> dict[str, Tensor]:
        watched = self.losses(batch)
        self.descend(watched["loss"])
        return {name: value.detach() for name, value in watched.items()}

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return the losses of a batch, which several processes compute together."""
        membership = self.membership[:, batch.nodes]
        if count() > 1 and not self.method.one_stage:
            z, rows = self.samples.encode_own(self.encoder, batch, self.dropout)
            guess_loss = self._guess_loss(batch, z)
            reduction, rate, class_rate = (
                answer[None]
                for answer in shared_rate_reduction(
                    z[0],
                    membership[0, rows],
                    self.num_classes,
                    eps2=self.method.eps2,
                    gamma=self.method.gamma,
                    add_up=add_up,
                    process=rank(),
                    processes=count(),
                )
            )
        else:
            z = self.samples.encode(self.encoder, batch, self.dropout)
            guess_loss = self._guess_loss(batch, z)
            reduction, rate, class_rate = self.rate_reduction(z, membership)
        loss = guess_loss - reduction
        if self.method.one_stage:
            loss = loss + self.classifier_loss(z, batch.train, membership)
        return {"loss": loss, "rate": rate, "class_rate": class_rate}

    def _guess_loss(self, batch: Batch, z: Tensor) -> Tensor:
        """Return the loss [R] of the network that predicts labels: 0 where there is none."""
        if self.method.semantics != "cross-entropy":
            return z.new_zeros(len(z))
        logits = self.samples.encode(self.guesser, batch, self.dropout)
        return mean_cross_entropy(logits, batch.train, batch.given)


class ExactErase(LargeErase):
    """Coding rates of the whole graph, in chunks: an epoch is one step, as without batches."""

    def __init__(self, method: ERASE, tasks: Sequence[NodeTask], seeds: Sequence[int]) -> None:
        super().__init__(method, tasks, seeds)
        self.data = ChunkedGraph(tasks[0], self.graph, self.device)

    def step(self) -> dict[str, Tensor]:
        """Take the step of the whole graph, without holding its z."""
        method = self.method
        z = RecomputedPass(
            self.encoder, self.data.read, self.graph, self.dropout, method.batch_size
        )
        self.membership.copy_(self._membership(self._prototype_labels(z)))
        classes = self.membership[0]
        grams = ClassGrams(self.num_classes, method.width, self.denoised)
        for rows, some in z.chunks():
            grams.add(some[0], classes[rows])
        add_up(grams.grams, grams.sizes)
        reduction, rate, class_rate, pull = grams.reduction(
            eps2=method.eps2,
            gamma=method.gamma,
            share=slice(rank(), None, count()),
            add_up=add_up,
        )
        self.optimiser.zero_grad()
        z.backward(lambda rows, some: -grams.gradient(some[0], classes[rows], pull)[None])
        average_gradients(list(self.network.parameters()))
        self.optimiser.step()
        watched = {"loss": -reduction, "rate": rate, "class_rate": class_rate}
        return {name: value[None] for name, value in watched.items()}
