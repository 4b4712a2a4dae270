"""ERASE itself: presets, every switch, one epoch against a straightforward twin."""

from copy import deepcopy
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize, one_hot
from torch_geometric.data import Data

from erase.data.noise import corrupt
from erase.data.task import NodeTask
from erase.errors import EraseError
from erase.methods.erase import DATASET_SETTINGS, ERASE, EraseLearner
from erase.methods.relabelling.method import Relabelling
from erase.methods.semantics import denoise, prototype_labels, prototypes, semantic_labels
from erase.nn.coding import rate_reduction
from erase.nn.encoders import Activation, Encoder
from erase.nn.sparse import Normalisation, propagate
from erase.random import torch_stream
from graphs import two_communities
from straightforward import Settings, Straightforward

SMALL: dict[str, Any] = {
    "hidden": 16,
    "width": 12,
    "heads": 2,
    "epochs": 12,
    "patience": 99,
    "device": "cpu",
}


def noisy_communities() -> Data:
    return corrupt(two_communities(size=30, classes=3), "symmetric", 0.3, seed=1, on="train+val")


@pytest.fixture(scope="module")
def noisy() -> Data:
    return noisy_communities()


def trace(model: ERASE) -> list[float]:
    return [record["loss"] for record in model.history_]


@cache
def usual_trace(**changes: Any) -> list[float]:
    return trace(ERASE(**(SMALL | changes)).fit(noisy_communities()))


@pytest.mark.parametrize(
    "change",
    [
        {"eps2": 0.5},
        {"gamma": 1.0},
        {"steps": 1},
        {"keep": 0.1},
        {"trust": 0.05},
        {"denoise": False},
        {"propagate": False},
        {"normalisation": "symmetric"},
        {"normalisation": "row"},
        {"prototype": "softmax"},
        {"mixture_softmax": False},
        {"semantics": "cross-entropy"},
        {"one_stage": True},
        {"encoder": "gcn"},
        {"encoder": "sage"},
        {"hidden": 8},
        {"width": 6},
        {"heads": 4},
        {"dropout": 0.0},
        {"output": "l2-relu"},
        {"lr": 0.01},
        {"weight_decay": 0.1},
        {"amsgrad": False, "lr": 0.1},
        {"epochs": 3},
        {"patience": 1},
        {"restart": True},
        {"inner": "relu"},
        {"inner": "relu-l1"},
        {"denoise_edges": "all"},
        {"seed": 1},
    ],
    ids=lambda change: " ".join(f"{k}={v}" for k, v in change.items()),
)
def test_every_parameter_changes_the_training(change: dict[str, Any]) -> None:
    base = {"lr": 0.1} if "amsgrad" in change else {}
    changed = ERASE(**(SMALL | base | change)).fit(noisy_communities())
    assert trace(changed) != usual_trace(**base)


@pytest.mark.parametrize("head", ["linear-svm", "poly-svm", "mlp"])
def test_every_head_changes_the_probabilities_but_not_the_encoder(noisy: Data, head: str) -> None:
    changes = SMALL | {"epochs": 2}
    base, other = ERASE(**changes).fit(noisy), ERASE(**changes, head=head).fit(noisy)
    assert trace(base) == trace(other)
    assert not np.allclose(base.predict_proba(), other.predict_proba())


def test_fresh_targets_change_the_probabilities_but_not_the_encoder(noisy: Data) -> None:
    changes = SMALL | {"epochs": 2, "lr": 0.02}
    base, other = ERASE(**changes).fit(noisy), ERASE(**changes, fresh_targets=True).fit(noisy)
    assert trace(base) == trace(other)
    assert not np.allclose(base.predict_proba(), other.predict_proba())


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"semantics": "cross-entropy"},
        {"batch_size": 8, "num_neighbors": (3, 3)},
        {"batch_size": 30, "objective": "graph"},
    ],
    ids=str,
)
def test_fresh_targets_are_the_semantic_labels_of_the_final_weights(
    noisy: Data, change: dict[str, Any]
) -> None:
    learner = learner_of(noisy, fresh_targets=True, lr=0.02, **change)
    for _ in range(3):
        learner.step()
    trained_with = learner.membership.clone()
    outcome = learner.evaluate()
    twin = learner_of(noisy, dropout=0.0, semantics=learner.method.semantics)
    twin.network.load_state_dict(learner.network.state_dict(), strict=False)
    with torch.no_grad():
        (z,) = twin.encoder(twin.x, twin.graph)
    twin.step()  # its labels are those of the weights before the step, without dropout
    assert torch.equal(outcome.labels, twin.membership)
    assert not torch.equal(outcome.labels, trained_with)
    (train,) = learner.train_index
    points = normalize(z, dim=1).numpy()
    head = LogisticRegression(C=1.0, tol=1e-8, max_iter=1000).fit(
        points[train], outcome.labels[0, train]
    )
    (proba,) = outcome.proba
    np.testing.assert_allclose(proba[:, head.classes_], head.predict_proba(points), atol=1e-3)


def test_ties_choose_among_epochs_of_equal_validation_accuracy(noisy: Data) -> None:
    first, last = (
        ERASE(**SMALL, lr=1e-9, dropout=0.0, ties=ties).fit(noisy) for ties in ("first", "last")
    )
    assert len({record["val_accuracy"] for record in last.history_}) == 1
    assert (first.best_epoch_, last.best_epoch_) == (1, 12)
    with pytest.raises(EraseError, match="Correct ties of"):
        ERASE(ties="middle").fit(noisy)


def test_switching_both_phases_off_is_zero_steps(noisy: Data) -> None:
    off = ERASE(**SMALL, denoise=False, propagate=False).fit(noisy)
    none = ERASE(**SMALL, steps=0).fit(noisy)
    assert trace(off) == trace(none)


def test_presets_take_the_papers_table() -> None:
    assert ERASE.preset().get_params() == ERASE().get_params()
    paper = ERASE.preset("paper", "pubmed", seed=4, trust=0.2)
    assert (paper.normalisation, paper.prototype, paper.mixture_softmax) == (
        "symmetric",
        "softmax",
        False,
    )
    assert (paper.gamma, paper.steps, paper.trust, paper.seed) == (3.0, 3, 0.2, 4)
    assert not paper.amsgrad
    assert ERASE.preset("paper", "corafull").gamma == 1.0
    assert ERASE.preset("reference", "corafull").gamma == 2.0
    assert set(DATASET_SETTINGS) == {"cora", "citeseer", "pubmed", "corafull", "ogbn-arxiv"}
    assert ERASE.preset(dataset="my own graph").eps2 == 0.05
    odd: Any
    for odd in ("magic", ["paper"], None, 1):
        with pytest.raises(EraseError, match="reference, paper"):
            ERASE.preset(odd)
    for odd in (1.5, ["cora"], len):
        with pytest.raises(EraseError, match="the name of a dataset, or None"):
            ERASE.preset("paper", odd)


def test_representations_lie_in_the_l1_ball(noisy: Data) -> None:
    z = ERASE(**SMALL).fit(noisy).transform()
    assert (z >= 0).all()
    assert (np.abs(z).sum(1) <= 1 + 1e-5).all()


def test_semantic_labels_and_history_are_the_best_epochs(noisy: Data) -> None:
    model = ERASE(**SMALL).fit(noisy)
    best = max(record["val_accuracy"] for record in model.history_)
    assert model.history_[model.best_epoch_ - 1]["val_accuracy"] == best
    assert set(np.unique(model.labels_)) <= {0, 1, 2}
    record = model.history_[0]
    assert record["loss"] == pytest.approx(record["class_rate"] - 2.0 * record["rate"], rel=1e-5)


def test_trusted_labels_are_neither_denoised_nor_relabelled(noisy: Data) -> None:
    """Those of training nodes are used as they are; those of validation nodes are not used."""
    task = NodeTask.from_data(noisy)
    trusted = torch.where((task.y >= 0) & (torch.arange(90) % 3 == 0), (task.y + 1) % 3, -1)
    shown = replace(task, trusted=trusted, y=trusted.where(trusted >= 0, task.y))
    learner = EraseLearner(ERASE(**SMALL), [shown], [0])
    learner.step()
    nodes = ((trusted >= 0) & task.train_mask).nonzero().flatten()
    assert torch.equal(learner.denoised[0, nodes], one_hot(trusted[nodes], 3).float())
    assert torch.equal(learner.membership[0, nodes], trusted[nodes])
    assert not learner.denoised[0, ~task.train_mask].any()


def test_epochs_equal_the_straightforward_implementation(noisy: Data) -> None:
    """Losses and semantic labels agree with PyG's layers, K×N×N memberships and autograd."""
    task = NodeTask.from_data(noisy)
    ours = EraseLearner(ERASE(**SMALL, dropout=0.0, lr=1e-2), [task], [0])
    undirected = noisy.clone()
    undirected.edge_index = task.edge_index
    settings = Settings(hidden=16, width=12, heads=2, dropout=0.0, lr=1e-2)
    theirs = Straightforward(undirected, noisy.y, task.train_mask, task.val_mask, settings)
    with torch.no_grad():
        for layer in ("first", "second"):
            mine, twin = getattr(ours.encoder, layer), getattr(theirs.encoder, layer)
            twin.lin.weight.copy_(mine.weight[0].T)
            twin.att_src.copy_(mine.source)
            twin.att_dst.copy_(mine.target)
            twin.bias.copy_(mine.bias[0, 0])
    for _ in range(5):
        assert float(ours.step()["loss"]) == pytest.approx(theirs.step(), rel=1e-4)
        assert torch.equal(ours.membership[0], theirs.labels)
    _, predicted = theirs.select()
    assert ours.evaluate().proba[0].argmax(1).tolist() == predicted.tolist()


DEFAULTS: dict[str, Any] = {
    "eps2": 0.05,
    "gamma": 2.0,
    "steps": 5,
    "keep": 0.6,
    "trust": 0.6,
    "denoise": True,
    "propagate": True,
    "normalisation": "column",
    "prototype": "absolute",
    "mixture_softmax": True,
    "semantics": "prototype",
    "one_stage": False,
    "head": "logreg",
    "encoder": "gat",
    "hidden": 256,
    "width": 512,
    "heads": 8,
    "dropout": 0.5,
    "output": "l1-relu",
    "lr": 1e-3,
    "weight_decay": 5e-4,
    "amsgrad": True,
    "epochs": 400,
    "patience": 150,
    "batch_size": 0,
    "num_neighbors": (15, 10),
    "restart": False,
    "inner": "leaky-l1",
    "denoise_edges": "training",
    "fresh_targets": False,
    "ties": "first",
    "objective": "batch",
    "seed": 0,
    "device": "auto",
}
FORMULAS_AS_PRINTED = {
    "normalisation": "symmetric",
    "prototype": "softmax",
    "mixture_softmax": False,
    "amsgrad": False,
}
PAPERS_TABLE = {  # ε², γ, T, α, β
    "cora": (0.05, 2.0, 5, 0.6, 0.6),
    "citeseer": (0.4, 2.0, 4, 0.6, 0.7),
    "pubmed": (0.05, 3.0, 3, 0.6, 0.6),
    "corafull": (0.01, 1.0, 2, 0.7, 0.7),
}


def test_the_defaults_are_those_behind_the_published_numbers() -> None:
    assert ERASE().get_params() == DEFAULTS
    assert ERASE.preset("paper").get_params() == DEFAULTS | FORMULAS_AS_PRINTED


@pytest.mark.parametrize("dataset", PAPERS_TABLE)
def test_every_cell_of_the_papers_table(dataset: str) -> None:
    row = dict(zip(("eps2", "gamma", "steps", "keep", "trust"), PAPERS_TABLE[dataset], strict=True))
    printed = ERASE.preset("paper", dataset).get_params()
    assert printed == DEFAULTS | FORMULAS_AS_PRINTED | row
    departure = {"gamma": 2.0} if dataset == "corafull" else {}
    assert ERASE.preset("reference", dataset).get_params() == DEFAULTS | row | departure


def test_the_recipe_of_ogbn_arxiv() -> None:
    shared = {
        "eps2": 0.05,
        "gamma": 2.0,
        "steps": 50,
        "keep": 0.4,  # the recipe's α = 0.6 weighs the neighbours
        "trust": 0.5,
        "batch_size": 200,
        "num_neighbors": (5, 5),
    }
    recipe = {
        "normalisation": "symmetric",
        "restart": True,
        "denoise_edges": "all",
        "mixture_softmax": False,
        "fresh_targets": True,
        "ties": "last",
        "hidden": 64,
        "inner": "relu-l1",
        "output": "l2-relu",
        "lr": 0.01,
        "amsgrad": False,
        "epochs": 5,
    }
    assert ERASE.preset("reference", "ogbn-arxiv").get_params() == DEFAULTS | shared | recipe
    printed = DEFAULTS | FORMULAS_AS_PRINTED | shared | {"epochs": 10}
    assert ERASE.preset("paper", "ogbn-arxiv").get_params() == printed


def test_changes_win_over_recipe_and_dataset() -> None:
    model = ERASE.preset("paper", "citeseer", eps2=0.3, amsgrad=True, normalisation="row")
    assert (model.eps2, model.amsgrad, model.normalisation) == (0.3, True, "row")


@pytest.mark.parametrize(
    "changes",
    [
        *({"head": head} for head in ("linear-svm", "poly-svm", "mlp")),
        {"one_stage": True},
        {"semantics": "cross-entropy"},
        {"semantics": "relabelling"},
        {"fresh_targets": True},
        {"head": "mlp", "batch_size": 16},
    ],
    ids=str,
)
def test_every_variant_predicts_another_graph(changes: dict[str, Any], communities: Data) -> None:
    model = ERASE(**SMALL, **changes).fit(communities)
    np.testing.assert_allclose(model.predict_proba(communities), model.predict_proba(), atol=1e-5)
    some = communities.subgraph(torch.arange(30))
    assert model.predict_proba(some).shape == (30, 2)


def learner_of(noisy: Data, seed: int = 0, **changes: Any) -> EraseLearner:
    learner = ERASE(**(SMALL | changes))._learner([NodeTask.from_data(noisy)], [seed])
    assert isinstance(learner, EraseLearner)
    return learner


def by_hand(
    learner: EraseLearner, task: NodeTask, network: Any, dropout: torch.Generator
) -> tuple[Tensor, Tensor]:
    """The loss of one epoch of the only run and the classes it rests on [N]."""
    method, train = learner.method, task.train_mask
    (z,) = network["encoder"](learner.x, learner.graph, [dropout])
    (denoised,) = learner.denoised
    loss = z.new_zeros(())
    if method.semantics == "cross-entropy":
        (logits,) = network["guesser"](learner.x, learner.graph, [dropout])
        loss = cross_entropy(logits[train], task.y[train])
        guesses = logits.detach().softmax(1)
    else:
        members = one_hot(denoised.argmax(1), 3).float()
        members[~train] = 0
        guesses = prototype_labels(z.detach(), prototypes(z.detach(), members), method.prototype)
    labels = semantic_labels(guesses, denoised, trust=method.trust, softmax=method.mixture_softmax)
    adjacency = learner.graph.normalised(method.normalisation)
    classes = propagate(*adjacency, labels, keep=method.keep, steps=method.steps).argmax(1)
    loss = loss - rate_reduction(z, classes, 3, eps2=method.eps2, gamma=method.gamma)[0]
    if method.one_stage:
        classifier = network["classifier"]
        logits = normalize(z[train], dim=1) @ classifier.weight[0] + classifier.bias[0]
        loss = loss + cross_entropy(logits, classes[train])
    return loss, classes


@pytest.mark.parametrize("semantics", ["prototype", "cross-entropy"])
@pytest.mark.parametrize("one_stage", [False, True])
@pytest.mark.parametrize("recipe", ["reference", "paper"])
def test_every_variants_epoch_is_the_formula_with_its_own_dropout_stream(
    noisy: Data, semantics: str, one_stage: bool, recipe: str
) -> None:
    variant = SMALL | {"semantics": semantics, "one_stage": one_stage, "trust": 0.3, "lr": 0.01}
    task = NodeTask.from_data(noisy)
    learner = EraseLearner(ERASE.preset(recipe, **variant), [task], [3])
    stream = torch_stream(3, "dropout")
    for _ in range(3):
        network = deepcopy(learner.network)
        network.zero_grad()
        loss, classes = by_hand(learner, task, network, stream)
        loss.backward()
        record = learner.step()
        assert float(record["loss"]) == pytest.approx(float(loss.detach()), rel=1e-5)
        assert torch.equal(learner.membership[0], classes)
        for name, parameter in network.named_parameters():
            ours = learner.network.get_parameter(name).grad
            torch.testing.assert_close(ours, parameter.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("amsgrad", [True, False])
def test_epochs_are_adam_steps(noisy: Data, amsgrad: bool) -> None:
    changes: dict[str, Any] = {"lr": 0.03, "weight_decay": 0.2, "amsgrad": amsgrad}
    learner = learner_of(noisy, semantics="cross-entropy", one_stage=True, **changes)
    twin = deepcopy(learner.network)
    adam = torch.optim.Adam(twin.parameters(), lr=0.03, weight_decay=0.2, amsgrad=amsgrad)
    for _ in range(4):
        learner.step()
        for name, parameter in twin.named_parameters():
            parameter.grad = learner.network.get_parameter(name).grad
        adam.step()
    for name, parameter in twin.named_parameters():
        torch.testing.assert_close(learner.network.get_parameter(name), parameter)


def test_every_run_and_every_network_starts_from_its_own_stream(noisy: Data) -> None:
    task, seeds = NodeTask.from_data(noisy), [3, 5]
    method = ERASE(**SMALL, semantics="cross-entropy")
    learner = EraseLearner(method, [task, task], seeds)

    def check(network: str, purpose: str, width: int, output: Activation) -> None:
        twin = Encoder(
            "gat",
            in_width=task.num_features,
            hidden=16,
            width=width,
            heads=2,
            dropout=0.5,
            hidden_activation="leaky-l1",
            output_activation=output,
            streams=[torch_stream(seed, purpose) for seed in seeds],
        )
        for name, parameter in twin.named_parameters():
            assert torch.equal(learner.parts[network].get_parameter(name), parameter)
        out = learner.parts[network](learner.x, learner.graph)
        assert torch.equal(out, twin(learner.x, learner.graph))

    check("encoder", "weights", 12, "l1-relu")
    check("guesser", "guesser weights", 3, "none")
    for run, seed in enumerate(seeds):
        state = torch_stream(seed, "dropout").get_state()
        assert torch.equal(learner.streams[f"dropout {run}"].get_state(), state)


def test_the_guesser_has_weights_of_its_own_and_plain_logits(noisy: Data) -> None:
    learner = learner_of(noisy, semantics="cross-entropy")
    guesser: Any = learner.parts["guesser"]
    encoder: Any = learner.encoder
    assert not torch.equal(guesser.first.weight, encoder.first.weight)
    logits = guesser(learner.x, learner.graph)
    assert logits.shape[2] == 3
    assert bool((logits < 0).any())
    assert guesser.dropout == encoder.dropout == 0.5


def test_given_and_denoised_labels_are_two_things(noisy: Data) -> None:
    """Prototypes rest on denoised labels; the guesser of the ablation learns the given ones."""
    learner = learner_of(noisy, semantics="cross-entropy", keep=0.1)
    task = NodeTask.from_data(noisy)
    train = task.train_mask
    assert torch.equal(learner.given[0], task.y[train])
    (members,) = learner.members
    denoised = learner.denoised[0, train].argmax(1)
    assert torch.equal(members[train], one_hot(denoised, 3).float())
    assert not members[~train].any()
    assert not torch.equal(learner.given[0], denoised)
    record = {name: float(value) for name, value in learner.step().items()}
    assert record["loss"] + 2 * record["rate"] - record["class_rate"] > 0.1  # its cross-entropy


def test_a_label_that_faded_away_entirely_counts_as_given(noisy: Data) -> None:
    alone = noisy.clone()  # every third node without a neighbour
    touched = (noisy.edge_index % 3 == 0).any(0)
    alone.edge_index = noisy.edge_index[:, ~touched]
    task = NodeTask.from_data(alone)
    isolated = torch.arange(task.num_nodes) % 3 == 0
    learner = learner_of(alone, keep=0.0, steps=2)
    (denoised,), (members,) = learner.denoised, learner.members
    faded = task.train_mask & isolated
    assert not denoised[faded].any()
    assert set(task.y[faded].tolist()) == {0, 1, 2}
    assert torch.equal(members[faded], one_hot(task.y[faded], 3).float())
    rest = task.train_mask & (denoised.sum(1) > 0)
    assert torch.equal(members[rest], one_hot(denoised[rest].argmax(1), 3).float())
    assert not torch.equal(members[rest].argmax(1), task.y[rest])
    assert not members[~task.train_mask].any()


@pytest.mark.parametrize("normalisation", ["column", "symmetric", "row"])
@pytest.mark.parametrize("on", [True, False])
def test_denoised_labels_take_the_normalisation_and_the_switch(
    noisy: Data, normalisation: Normalisation, on: bool
) -> None:
    learner = learner_of(noisy, normalisation=normalisation, denoise=on, keep=0.4, steps=3)
    task = NodeTask.from_data(noisy)
    expected = denoise(
        learner.graph,
        task.y,
        task.train_mask,
        3,
        keep=0.4,
        steps=3 if on else 0,
        normalisation=normalisation,
    )
    assert torch.equal(learner.denoised[0], expected)


def test_the_head_learns_semantic_labels_on_the_sphere_without_dropout(noisy: Data) -> None:
    learner = learner_of(noisy, trust=0.3, lr=0.01)
    for _ in range(3):
        learner.step()
    (train,), (classes,) = learner.train_index, learner.membership
    targets = classes[train]
    assert not torch.equal(targets, learner.given[0])
    assert not torch.equal(targets, learner.members[0, train].argmax(1))
    with torch.no_grad():
        (z,) = learner.encoder(learner.x, learner.graph)
    points = normalize(z, dim=1).numpy()
    head = LogisticRegression(C=1.0, tol=1e-8, max_iter=1000).fit(points[train], targets)
    drawn = learner.streams["dropout 0"].get_state()
    outcome = learner.evaluate()
    assert torch.equal(learner.streams["dropout 0"].get_state(), drawn)
    (embedding,), (labels,), (proba,) = outcome.embedding, outcome.labels, outcome.proba
    assert torch.equal(embedding, z)
    assert torch.equal(labels, classes)
    assert not torch.equal(labels, proba.argmax(1))
    np.testing.assert_allclose(proba[:, head.classes_], head.predict_proba(points), atol=1e-3)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_head_that_draws_takes_every_runs_seed(noisy: Data) -> None:
    task = NodeTask.from_data(noisy)
    learner = EraseLearner(ERASE(**SMALL, head="mlp"), [task, task], [5, 8])
    learner.step()
    outcome = learner.evaluate()
    train = task.train_index.numpy()
    for run, seed in enumerate((5, 8)):
        points = normalize(outcome.embedding[run], dim=1).numpy()
        twin = MLPClassifier((100, 100), learning_rate_init=1e-3, random_state=seed)
        twin.fit(points[train], learner.membership[run].numpy()[train])
        proba = outcome.proba[run][:, twin.classes_]
        np.testing.assert_allclose(proba, twin.predict_proba(points), rtol=1e-3)


def test_a_one_stage_classifier_starts_at_zero_and_predicts_by_itself(noisy: Data) -> None:
    learner = learner_of(noisy, one_stage=True, lr=0.1)
    classifier: Any = learner.parts["classifier"]
    assert not any(bool(parameter.any()) for parameter in classifier.parameters())
    for _ in range(3):
        learner.step()
    outcome = learner.evaluate()
    with torch.no_grad():
        (z,) = learner.encoder(learner.x, learner.graph)
        logits = normalize(z, dim=1) @ classifier.weight[0] + classifier.bias[0]
    assert torch.equal(outcome.embedding[0], z)
    assert torch.equal(outcome.labels, learner.membership)
    torch.testing.assert_close(outcome.proba[0], logits.softmax(1))
    assert not torch.allclose(outcome.proba, torch.full_like(outcome.proba, 1 / 3), atol=1e-3)


@pytest.mark.parametrize("output", ["l1-relu", "none"])
def test_a_training_that_diverges_is_an_error(noisy: Data, output: Activation) -> None:
    huge = noisy.clone()
    huge.x = noisy.x * 3e38
    with pytest.raises(
        EraseError, match=r"a finite loss; got nan in epoch 1\..*rescale the features"
    ):
        ERASE(**SMALL, output=output).fit(huge)


def test_an_infinite_learning_rate_is_refused(noisy: Data) -> None:
    with pytest.raises(EraseError, match="Correct lr of"):
        ERASE(**SMALL, lr=float("inf")).fit(noisy)


@pytest.mark.parametrize(
    ("changes", "waits"),
    [
        ({}, False),
        ({"eps2": 1e-9}, True),
        ({"output": "relu"}, True),
        ({"head": "mlp"}, True),
        ({"head": "mlp", "one_stage": True}, False),
    ],
)
def test_an_epoch_waits_for_the_host_only_where_it_must(
    communities: Data, changes: dict[str, Any], waits: bool
) -> None:
    learner = ERASE(**changes)._learner([NodeTask.of(communities)], [0])
    assert learner.waits is waits


@pytest.mark.parametrize("changes", [{}, {"batch_size": 30, "num_neighbors": (3, 3)}])
def test_the_preset_relabelled_believes_what_relabelling_believes(changes: dict[str, Any]) -> None:
    clean = two_communities(classes=3)
    given = corrupt(clean, "pair", 0.4, seed=1, on="train+val")
    ours = ERASE.preset("relabelled", "citeseer", device="cpu", seed=2, epochs=12, **changes)
    ours.fit(given)
    relabelling = Relabelling(device="cpu", seed=2).fit(given)
    np.testing.assert_array_equal(ours.labels_, relabelling.labels_)
    assert (ours.labels_ != given.y.numpy())[given.train_mask].any()
    assert ours.score(clean) > 0.9
    assert ours.eps2 == 0.4
    assert ERASE.preset("relabelled", "ogbn-arxiv").hidden == 64


def test_relabelled_labels_need_no_propagation_on_ogbn_arxiv() -> None:
    """Its restart spreads the labels of training nodes alone; nothing is spread here."""
    given = corrupt(two_communities(classes=3), "pair", 0.4, seed=1, on="train+val")
    small = {"hidden": 16, "width": 12, "epochs": 1, "device": "cpu"}
    ours = ERASE.preset("relabelled", "ogbn-arxiv", **small).fit(given)
    relabelling = Relabelling(device="cpu").fit(given)
    np.testing.assert_array_equal(ours.labels_, relabelling.labels_)
