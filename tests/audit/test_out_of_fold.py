"""No node is predicted by a model that saw its label."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given
from sklearn.base import clone

from erase.audit.out_of_fold import fold_tasks, out_of_sample
from erase.data.task import NodeTask
from erase.errors import EraseError
from erase.methods import METHODS, CrossEntropy, NodeClassifier
from erase.methods.label_propagation import LabelPropagation
from erase.methods.relabelling.noise_model import assign_folds
from erase.methods.smoothed import SmoothedLogReg
from erase.random import numpy_stream
from erase.training.loop import Fit, Loop, Outcome
from graphs import mask, path_graph, two_communities

SEEN: list[NodeTask] = []


@dataclass(kw_only=True, eq=False, repr=False)
class Witness(NodeClassifier):
    """Keeps what it is given, and answers with its turn: run r is sure of class r mod K."""

    def _train(self, tasks: Sequence[NodeTask], seeds: Sequence[int], loop: Loop) -> list[Fit]:
        fits = []
        for task in tasks:
            turn = len(SEEN)
            SEEN.append(task)
            proba = torch.zeros(task.num_nodes, task.num_classes)
            proba[:, turn % task.num_classes] = 1.0
            embedding = torch.full((task.num_nodes, 2), float(turn))
            fits.append(Fit(Outcome(proba, embedding, proba.argmax(1)), 0, [], {}))
        return fits

    def _apply(self, task: NodeTask) -> Outcome:
        raise AssertionError("an audit asks about the graph of the fit")


def task_of(y: Sequence[int], classes: int | None = None) -> NodeTask:
    """Return a task of a ring of nodes; those with y ≥ 0 train."""
    n = len(y)
    ring = torch.arange(n)
    labels = torch.tensor(y)
    k = classes or int(labels.max()) + 1
    edges = torch.cat([torch.stack([ring, (ring + 1) % n]), torch.stack([(ring + 1) % n, ring])], 1)
    return NodeTask(
        x=torch.eye(n),
        edge_index=edges[:, (edges[0] * n + edges[1]).argsort()],
        y=labels,
        train_mask=labels >= 0,
        val_mask=torch.zeros(n, dtype=torch.bool),
        class_names=tuple(map(str, range(k))),
        label_values=np.arange(k),
    )


def witnessed(task: NodeTask, folds: int, seed: int = 0) -> tuple[Any, list[NodeTask]]:
    SEEN.clear()
    return out_of_sample(task, Witness(device="cpu"), folds, seed), list(SEEN)


def test_the_deal_depends_on_its_seed_alone() -> None:
    task = task_of([k % 3 for k in range(40)])
    first, again, other = (witnessed(task, 5, seed)[0].fold for seed in (0, 0, 1))
    assert (first == again).all()
    assert (first != other).any()


@given(
    st.lists(st.integers(-1, 3), min_size=2, max_size=90).filter(
        lambda y: 1 < len({k for k in y if k >= 0}) < len([k for k in y if k >= 0])
    ),
    st.integers(2, 7),
)
def test_no_model_sees_a_label_it_predicts(y: list[int], folds: int) -> None:
    task = task_of(y, classes=8)
    out_of_fold, seen = witnessed(task, folds)
    labelled = np.flatnonzero(task.y >= 0)
    assert len(seen) == min(folds, len(labelled))
    assert sorted(
        np.concatenate([np.flatnonzero(out_of_fold.fold == k) for k in range(len(seen))])
    ) == (labelled.tolist())
    for k, shown in enumerate(seen):
        own = torch.from_numpy(out_of_fold.fold == k)
        assert not bool((shown.train_mask | shown.val_mask)[own].any())
        assert bool((shown.y[own] == -1).all())
        given_there = shown.y >= 0
        assert torch.equal(shown.y[given_there], task.y[given_there])
        # the row is that of run k, or uniform where run k had no label of the class
        known = torch.isin(task.y, task.y[shown.train_mask]).numpy()
        rows = out_of_fold.proba[own.numpy()]
        expected = np.where(known[own.numpy()][:, None], np.eye(8)[k % 8], 1 / 8)
        np.testing.assert_allclose(rows, expected)
    assert len({(int(t.train_mask.sum()), int(t.val_mask.sum())) for t in seen}) == 1


def test_a_model_does_not_see_the_trusted_labels_of_its_fold() -> None:
    task = task_of([k % 3 for k in range(40)])
    task = replace(task, trusted=torch.tensor([(k + 1) % 3 if k < 20 else -1 for k in range(40)]))
    out_of_fold, tasks = witnessed(task, 5)
    for k, shown in enumerate(tasks):
        assert shown.trusted is not None
        assert (shown.trusted[torch.from_numpy(out_of_fold.fold == k)] == -1).all()
        assert torch.equal(shown.trusted >= 0, (shown.y >= 0) & (torch.arange(40) < 20))


def test_the_next_fold_validates_and_the_others_train() -> None:
    task = task_of([k % 3 for k in range(60)])
    out_of_fold, seen = witnessed(task, 5)
    for k, shown in enumerate(seen):
        assert (out_of_fold.fold[shown.val_mask.numpy()] == (k + 1) % 5).all()
        assert int(shown.val_mask.sum()) == 12
        assert int(shown.train_mask.sum()) == 36


@pytest.mark.parametrize(("labels", "folds"), [(60, 2), (49, 5)])
def test_without_a_fold_to_spare_there_is_no_validation(labels: int, folds: int) -> None:
    _, seen = witnessed(task_of([k % 3 for k in range(labels)]), folds)
    assert all(not bool(shown.val_mask.any()) for shown in seen)
    smaller = labels - -(-labels // folds)
    assert {int(shown.train_mask.sum()) for shown in seen} == {smaller}


def test_surplus_labels_of_the_most_frequent_class_stay_out() -> None:
    y = [0] * 40 + [1] * 8 + [2] * 5  # 53 labels: folds of 11, 11, 11, 10, 10
    out_of_fold, seen = witnessed(task_of(y), 5)
    assert {int(shown.train_mask.sum()) for shown in seen} == {31}
    assert {int(shown.val_mask.sum()) for shown in seen} == {10}
    for k, shown in enumerate(seen):
        could = (out_of_fold.fold != k) & (out_of_fold.fold != (k + 1) % 5)
        out = could & ~shown.train_mask.numpy()
        assert out.sum() == could.sum() - 31
        assert (np.array(y)[out] == 0).all()


def test_a_rare_class_trains_rather_than_validates() -> None:
    y = [0] * 30 + [1] * 28 + [2] * 2
    out_of_fold, seen = witnessed(task_of(y), 5)
    one, other = (58, 59) if (out_of_fold.fold[59] - out_of_fold.fold[58]) % 5 == 1 else (59, 58)
    model = out_of_fold.fold[one]
    assert out_of_fold.fold[other] == (model + 1) % 5  # it would select the epoch of this model
    assert bool(seen[model].train_mask[other])
    assert not bool(seen[model].val_mask[other])
    assert bool(seen[out_of_fold.fold[other]].train_mask[one])


def test_a_label_alone_of_its_class_gets_no_prediction() -> None:
    out_of_fold, seen = witnessed(task_of([0] * 6 + [1] * 6 + [2]), 3)
    assert not bool(seen[out_of_fold.fold[12]].train_mask[12])
    np.testing.assert_allclose(out_of_fold.proba[12], 1 / 3)
    assert (out_of_fold.proba[:12].max(1) == 1).all()


def test_nodes_without_a_label_get_the_mean_of_all_models() -> None:
    out_of_fold, _ = witnessed(task_of([0, 1, 0, 1, 0, 1, -1, -1], classes=3), 3)
    assert (out_of_fold.fold[6:] == -1).all()
    np.testing.assert_allclose(out_of_fold.proba[6:], 1 / 3, rtol=1e-6)
    assert (out_of_fold.given == [0, 1, 0, 1, 0, 1, -1, -1]).all()


def test_the_embedding_is_that_of_the_first_model() -> None:
    out_of_fold, _ = witnessed(task_of([0, 1] * 10), 4)
    assert out_of_fold.embedding.shape == (20, 2)
    assert (out_of_fold.embedding == 0).all()


def test_a_changed_label_does_not_change_its_own_prediction() -> None:
    y = [k % 3 for k in range(60)]
    before = task_of(y)
    fold = assign_folds(np.array(y), 5, numpy_stream(0, "audit folds"))
    changed = task_of([1, *y[1:]])
    own = int(fold[0])
    same, other = fold_tasks(before, fold, 0), fold_tasks(changed, fold, 0)
    assert torch.equal(same[own].y, other[own].y)
    assert sum(not torch.equal(a.y, b.y) for a, b in zip(same, other, strict=True)) == 4


def small(**changes: Any) -> CrossEntropy:
    params: dict[str, Any] = {"hidden": 8, "heads": 2, "epochs": 12, "device": "cpu"}
    return CrossEntropy(**(params | changes))


def test_one_by_one_is_all_at_once() -> None:
    task = NodeTask.of(two_communities(size=40, classes=3))
    out_of_fold = out_of_sample(task, small(seed=3), 5, seed=1)
    models = small(seed=3).fit_many(fold_tasks(task, out_of_fold.fold, 1), [3] * 5)
    for k, model in enumerate(models):
        own = out_of_fold.fold == k
        np.testing.assert_allclose(out_of_fold.proba[own], model.predict_proba()[own], atol=1e-5)
    mean = np.mean([model.predict_proba() for model in models], 0)
    free = out_of_fold.fold < 0
    assert free.sum() == 30
    np.testing.assert_allclose(out_of_fold.proba[free], mean[free], atol=1e-5)
    np.testing.assert_allclose(out_of_fold.embedding, models[0].transform(), atol=1e-5)


def count_runs(monkeypatch: pytest.MonkeyPatch, method: type[NodeClassifier]) -> list[int]:
    """Return how many runs each call of `fit_many` gets, in order."""
    calls: list[int] = []
    fit_many = method.fit_many

    def counted(self: Any, graphs: Sequence[Any], seeds: Sequence[int], **options: Any) -> Any:
        calls.append(len(graphs))
        return fit_many(self, graphs, seeds, **options)

    monkeypatch.setattr(method, "fit_many", counted)
    return calls


@pytest.mark.parametrize("method", [LabelPropagation(), SmoothedLogReg()], ids=repr)
def test_what_has_no_epochs_is_computed_once_for_all_folds(
    method: NodeClassifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = NodeTask.of(two_communities())
    calls = count_runs(monkeypatch, type(method))
    out_of_fold = out_of_sample(task, method, 4)
    assert calls == [4]
    for k, shown in enumerate(fold_tasks(task, out_of_fold.fold, 0)):
        alone = clone(method).fit(shown).predict_proba()
        np.testing.assert_allclose(out_of_fold.by_fold[k], alone, atol=1e-5)


def test_a_gpu_trains_all_folds_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    task = NodeTask.of(two_communities())
    calls = count_runs(monkeypatch, CrossEntropy)
    expected = out_of_sample(task, small(seed=3), 4)
    assert calls == []
    monkeypatch.setattr(
        "erase.audit.out_of_fold.resolve_device", lambda device: torch.device("cuda")
    )
    out_of_fold = out_of_sample(task, small(seed=3), 4)
    assert calls == [4]
    np.testing.assert_allclose(out_of_fold.proba, expected.proba, atol=1e-5)


def test_validation_and_training_labels_are_predicted_alike() -> None:
    data = two_communities()
    out_of_fold, _ = witnessed(NodeTask.of(data), 5)
    assert ((out_of_fold.fold >= 0) == (data.train_mask | data.val_mask).numpy()).all()


def test_neither_the_task_nor_the_method_is_changed() -> None:
    task, method = NodeTask.of(two_communities()), small(epochs=2)
    before = replace(task, y=task.y.clone(), train_mask=task.train_mask.clone())
    out_of_fold = out_of_sample(task, method, 3)
    out_of_fold.given[:] = 7
    assert torch.equal(task.y, before.y)
    assert torch.equal(task.train_mask, before.train_mask)
    assert not hasattr(method, "fit_")


def test_progress_counts_models(capsys: pytest.CaptureFixture[str]) -> None:
    out_of_sample(task_of([0, 1] * 6), small(epochs=1), 3, progress=True)
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("Model")]
    assert lines[0] == "Model 1 of 3 …"
    assert len(lines) == 3
    assert "s left" in lines[1]
    out_of_sample(task_of([0, 1] * 6), LabelPropagation(), 3, progress=True)
    assert capsys.readouterr().err.splitlines() == ["3 models at once …"]
    out_of_sample(task_of([0, 1] * 6), LabelPropagation(), 3)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("folds", [1, 0, -3, True, 2.5, None])
def test_folds_that_cannot_be_are_refused(folds: Any) -> None:
    with pytest.raises(EraseError, match="2 to 1,000 folds"):
        out_of_sample(task_of([0, 1, 0, 1]), LabelPropagation(), folds)


@pytest.mark.parametrize("y", [[1, 1, 1], [0], [-1, -1]])
def test_labels_of_one_class_or_none_are_refused(y: list[int]) -> None:
    with pytest.raises(EraseError, match="labels of at least two classes"):
        out_of_sample(task_of(y, classes=2), LabelPropagation(), 2)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_can_predict_three_labels(name: str) -> None:
    """No model saw another label of the class, so its prediction is uniform."""
    known = METHODS[name]().get_params()
    sizes: dict[str, Any] = {"hidden": 8, "width": 6, "heads": 2, "epochs": 3, "device": "cpu"}
    method = METHODS[name](**{key: value for key, value in sizes.items() if key in known})
    data = path_graph(train_mask=mask(0, 1, 2), val_mask=None)
    out_of_fold = out_of_sample(NodeTask.of(data), method, 5)
    np.testing.assert_allclose(out_of_fold.proba[0], 0.5)
    np.testing.assert_allclose(out_of_fold.proba.sum(1), 1, rtol=1e-5)
    assert sorted(out_of_fold.fold[:3]) == [0, 1, 2]


def test_labels_without_a_shared_class_are_refused() -> None:
    with pytest.raises(EraseError, match="3 labels, each the only one of its class"):
        out_of_sample(task_of([0, 1, -1, 2]), LabelPropagation(), 2)
