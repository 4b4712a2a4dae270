"""Logistic regression on smoothed features against scikit-learn's, and what it learns from."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch_geometric.data import Data

from erase.data.noise import corrupt
from erase.data.task import NodeTask
from erase.errors import EraseError
from erase.methods.relabelling.smoothing import Smoother, Smoothing
from erase.methods.smoothed import SmoothedLogReg
from erase.nn.sparse import Graph
from graphs import path_graph, renumbered, two_communities

OPTIONS: dict[str, Any] = {
    "width": 8,
    "restart": 0.3,
    "steps": 3,
    "neighbours": 4,
    "neighbour_weight": 0.5,
}


def regression(**changes: Any) -> SmoothedLogReg:
    return SmoothedLogReg(**{"device": "cpu", **OPTIONS, **changes})


def noisy(classes: int = 3) -> Data:
    return corrupt(two_communities(classes=classes), "symmetric", 0.3, seed=0, on="train+val")


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("strength", [0.3, 1.0, 5.0])
@pytest.mark.parametrize("validation", [False, True])
def test_it_is_scikit_learns_regression_on_smoothed_features(
    classes: int, strength: float, validation: bool
) -> None:
    task = NodeTask.from_data(noisy(classes))
    model = regression(strength=strength, validation=validation).fit(task)
    how = {"it": Smoothing(**{name: value for name, value in OPTIONS.items() if name != "width"})}
    graph = Graph(task.edge_index, task.num_nodes)
    rows = Smoother.fit(task.x, graph, OPTIONS["width"], how)[1]["it"].numpy()
    np.testing.assert_array_equal(model.transform(), rows)
    nodes = task.train_mask | task.val_mask if validation else task.train_mask
    used = nodes.nonzero().squeeze(1).numpy()
    theirs = LogisticRegression(C=strength, tol=1e-8, max_iter=1000)
    theirs.fit(rows[used], task.y.numpy()[used])
    np.testing.assert_allclose(model.predict_proba(), theirs.predict_proba(rows), atol=1e-3)


def test_the_weights_give_the_probabilities() -> None:
    model = regression(strength=4.0).fit(noisy())
    weights = model.fit_.weights
    logits = torch.from_numpy(model.transform()) @ weights["weight"] + weights["intercept"]
    np.testing.assert_allclose(model.predict_proba(), logits.softmax(1), atol=1e-5)
    np.testing.assert_array_equal(model.labels_, model.predict())


@pytest.mark.parametrize(
    "change",
    [
        {"width": 4},
        {"restart": 0.9},
        {"steps": 1},
        {"neighbours": 0},
        {"neighbour_weight": 2.0},
        {"strength": 3.0},
        {"validation": False},
    ],
    ids=str,
)
def test_every_option_changes_the_result(change: dict[str, Any]) -> None:
    usual, other = (regression(**c).fit(noisy()).predict_proba() for c in ({}, change))
    assert np.abs(usual - other).max() > 1e-3


def test_validation_labels_train_unless_told_otherwise() -> None:
    data = noisy()
    moved = data.clone()
    moved.y[data.val_mask] = (data.y[data.val_mask] + 1) % 3
    assert not np.allclose(
        regression().fit(data).predict_proba(), regression().fit(moved).predict_proba(), atol=0.1
    )
    alone, other = (regression(validation=False).fit(d).predict_proba() for d in (data, moved))
    np.testing.assert_array_equal(alone, other)
    together = data.clone()
    together.train_mask = data.train_mask | data.val_mask
    together.val_mask = torch.zeros_like(data.val_mask)
    np.testing.assert_array_equal(
        regression(validation=False).fit(together).predict_proba(),
        regression().fit(data).predict_proba(),
    )


def test_labels_outside_training_and_validation_cannot_matter() -> None:
    data = noisy()
    test = ~(data.train_mask | data.val_mask)
    other = data.clone()
    other.test_mask = test
    other.y[test] = torch.arange(int(test.sum())) % 3
    np.testing.assert_array_equal(
        regression().fit(data).predict_proba(), regression().fit(other).predict_proba()
    )


def test_runs_share_smoothed_features(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0

    fit = Smoother.fit

    def counted(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        return fit(*args)

    monkeypatch.setattr(Smoother, "fit", counted)
    data = two_communities(classes=3)
    graphs = [corrupt(data, "symmetric", 0.4, seed=s) for s in range(3)]
    together = regression().fit_many(graphs, [0, 1, 2])
    assert calls == 1
    assert together[0].fit_.outcome.embedding is together[2].fit_.outcome.embedding
    for model, graph in zip(together, graphs, strict=True):
        np.testing.assert_array_equal(
            model.predict_proba(), regression().fit(graph).predict_proba()
        )
    assert not np.array_equal(together[0].predict_proba(), together[1].predict_proba())


def test_a_class_without_a_label_is_never_predicted() -> None:
    data = noisy()
    task = NodeTask.from_data(data)
    data.train_mask, data.val_mask = task.train_mask & (task.y != 1), task.val_mask & (task.y != 1)
    data.num_classes = 3
    proba = regression().fit(data).predict_proba()
    assert proba.shape[1] == 3
    assert not proba[:, 1].any()


def test_seeds_do_not_matter_and_there_is_nothing_to_watch_or_to_resume(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    model = regression().fit(noisy(), checkpoint=path, resume=True, progress=True)
    assert not path.exists()
    assert (model.best_epoch_, model.history_) == (0, [])
    again = regression(seed=7).fit(noisy())
    np.testing.assert_array_equal(again.predict_proba(), model.predict_proba())


def test_its_defaults_and_what_it_refuses() -> None:
    assert SmoothedLogReg().get_params() == {
        "width": 256,
        "restart": 0.1,
        "steps": 20,
        "neighbours": 10,
        "neighbour_weight": 0.25,
        "strength": 1.0,
        "validation": True,
        "seed": 0,
        "device": "auto",
    }
    for name, value in {
        "width": 0,
        "restart": 1.5,
        "steps": -1,
        "neighbours": -1,
        "neighbour_weight": -0.1,
        "strength": 0.0,
        "validation": 1,
    }.items():
        with pytest.raises(EraseError, match=f"Correct {name} of SmoothedLogReg"):
            regression(**{name: value}).fit(path_graph())


def test_it_applies_to_a_graph_without_training(tmp_path: Path) -> None:
    """To the graph of the fit as `predict` does, in any order of nodes, whatever the labels."""
    task = NodeTask.from_data(noisy())
    regression().fit(task).save(tmp_path / "model.safetensors")
    model = SmoothedLogReg.load(tmp_path / "model.safetensors")
    np.testing.assert_allclose(model._apply(task).proba, model.predict_proba(), atol=1e-5)
    np.testing.assert_allclose(model._apply(task).embedding, model.transform(), atol=1e-5)
    order = torch.randperm(task.num_nodes, generator=torch.Generator().manual_seed(0))
    other = renumbered(task, order)
    np.testing.assert_allclose(
        model._apply(other).proba, model.predict_proba()[order.numpy()], atol=1e-5
    )


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("is_dense", [False, True])
def test_a_gpu_finds_the_same_features(is_dense: bool) -> None:
    data = noisy()
    data.x = torch.rand(data.x.shape, generator=torch.Generator().manual_seed(0)) * data.x
    data.x = data.x + 0.1 if is_dense else data.x
    here, there = (regression(device=device).fit(data) for device in ("cpu", "cuda"))
    np.testing.assert_allclose(there.transform(), here.transform(), atol=1e-4)
    np.testing.assert_allclose(there.predict_proba(), here.predict_proba(), atol=1e-3)
