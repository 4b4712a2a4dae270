"""ERASE itself: presets, every switch, one epoch against a straightforward twin."""

from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from conftest import two_communities
from erase.errors import EraseError
from erase.methods.erase import DATASET_SETTINGS, ERASE, _EraseLearner
from erase.noise import corrupt
from erase.task import NodeTask
from straightforward import Settings, Straightforward

SMALL: dict[str, Any] = {
    "hidden": 16,
    "width": 12,
    "heads": 2,
    "epochs": 12,
    "patience": 99,
    "device": "cpu",
}


@pytest.fixture(scope="module")
def noisy() -> Data:
    return corrupt(two_communities(size=30, classes=3), "symmetric", 0.3, seed=1, on="train+val")


def trace(model: ERASE) -> list[float]:
    return [record["loss"] for record in model.history_]


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
        {"seed": 1},
    ],
    ids=lambda change: " ".join(f"{k}={v}" for k, v in change.items()),
)
def test_every_parameter_changes_the_training(noisy: Data, change: dict[str, Any]) -> None:
    base = SMALL | ({"lr": 0.1} if "amsgrad" in change else {})
    assert trace(ERASE(**(base | change)).fit(noisy)) != trace(ERASE(**base).fit(noisy))


@pytest.mark.parametrize("head", ["linear-svm", "poly-svm", "mlp"])
def test_every_head_changes_the_probabilities_but_not_the_encoder(noisy: Data, head: str) -> None:
    changes = SMALL | {"epochs": 2}
    base, other = ERASE(**changes).fit(noisy), ERASE(**changes, head=head).fit(noisy)
    assert trace(base) == trace(other)
    assert not np.allclose(base.predict_proba(), other.predict_proba())


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
    assert set(DATASET_SETTINGS) == {"cora", "citeseer", "pubmed", "corafull"}
    assert ERASE.preset(dataset="my own graph").eps2 == 0.05
    with pytest.raises(EraseError, match="reference, paper"):
        ERASE.preset("magic")


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


def test_epochs_equal_the_straightforward_implementation(noisy: Data) -> None:
    """Losses and semantic labels agree with PyG's layers, K×N×N memberships and autograd."""
    task = NodeTask.from_data(noisy)
    ours = _EraseLearner(ERASE(**SMALL, dropout=0.0, lr=1e-2), [task], [0])
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
