"""What a protocol gives to a method, and every share of the score, counted by hand."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import one_hot
from torch_geometric.data import Data

from erase.bench import PROTOCOLS, Protocol, given_labels, labels_of_cell, score
from erase.bench.records import Cell
from erase.data.noise import corrupt
from erase.data.task import NodeTask
from erase.errors import EraseError
from erase.methods import METHODS, NodeClassifier, build_method
from erase.training.loop import Fit, Loop, Outcome
from graphs import mask, two_communities


class Parrot(NodeClassifier):
    """Predicts the labels it was given."""

    def __init__(self, *, device: str = "cpu") -> None:
        self.device = device

    def _train(self, tasks: Sequence[NodeTask], seeds: Sequence[int], loop: Loop) -> list[Fit]:
        raise AssertionError("a parrot does not learn")

    def _apply(self, task: NodeTask) -> Outcome:
        raise AssertionError("a parrot knows one graph")


WITH_SPLIT = [PROTOCOLS["paper"], PROTOCOLS["honest"]]

# 0 to 6 train, 7 validates, 8 to 11 test; -1 is unknown
TRUTH = [0, 1, 2, 0, 1, -1, 2, 1, 0, 1, 2, -1]
GIVEN = [0, 1, 2, 1, 2, 1, -1, 0, -1, -1, -1, -1]
PREDICTED = [0, 2, 2, 0, 2, 1, 2, 1, 0, 1, 0, 2]
OWN_LABELS = [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 2]


def graph(y: list[int], **splits: Tensor) -> Data:
    edges = torch.zeros(2, 0, dtype=torch.int64)
    return Data(x=torch.eye(12), y=torch.tensor(y), edge_index=edges, num_classes=3, **splits)


def masks() -> dict[str, Tensor]:
    return {
        "train_mask": mask(*range(7), n=12),
        "val_mask": mask(7, n=12),
        "test_mask": mask(8, 9, 10, 11, n=12),
    }


def parrot(given: Data) -> NodeClassifier:
    task, model = NodeTask.from_data(given), Parrot()
    proba = one_hot(torch.tensor(PREDICTED), task.num_classes).float()
    fit = Fit(Outcome(proba, proba, torch.tensor(OWN_LABELS)), 1, [], {})
    model._keep(fit, task)
    return model


def test_every_share_is_counted_on_its_own_nodes() -> None:
    given = graph(GIVEN, **masks())
    assert score(parrot(given), graph(TRUTH, **masks()), given) == {
        "test_accuracy": pytest.approx(2 / 3),  # 8 and 9 of 8, 9, 10; 11 is unknown
        # of 8, 9, 10: class 0 is found once and claimed once too often, 1 is found, 2 is missed
        "macro_f1": pytest.approx((2 / 3 + 1 + 0) / 3),
        "semantic_accuracy": pytest.approx(1 / 3),  # 9
        "calibration_error": pytest.approx(1 / 3),  # sure of all, right in two of three
        "correction_rate": pytest.approx(1 / 2),  # 3 of 3 and 4; 5 has no truth, 7 validates
        "accuracy_correct": pytest.approx(2 / 3),  # 0 and 2 of 0, 1, 2
        "mislabelled": 2.0,
        "train_labels": 6.0,  # 6 has no given label
    }


def test_without_masks_given_labels_train_and_the_others_test() -> None:
    given = graph(GIVEN)
    scores = score(parrot(given), graph(TRUTH), given)
    assert scores["train_labels"] == 7.0
    assert scores["mislabelled"] == 3.0  # 3, 4 and 7
    assert scores["correction_rate"] == pytest.approx(2 / 3)
    assert scores["test_accuracy"] == pytest.approx(3 / 4)  # 6, 8 and 9 of 6, 8, 9, 10


def test_shares_of_nothing_are_left_out() -> None:
    given = graph(TRUTH, **(masks() | {"test_mask": mask(11, n=12)}))  # 11 is unknown
    scores = score(parrot(given), given, given)
    assert set(scores) == {"accuracy_correct", "mislabelled", "train_labels"}
    assert scores["mislabelled"] == 0.0


def test_where_the_truth_is_unknown_no_label_is_called_wrong_or_right() -> None:
    labels = graph(TRUTH, **masks())
    model = parrot(labels)
    known, unknown = score(model, labels, labels), score(model, labels, None)
    assert known["mislabelled"] == 0
    about_truth = {"accuracy_correct", "mislabelled"}
    assert unknown == {name: value for name, value in known.items() if name not in about_truth}
    assert unknown["test_accuracy"] == pytest.approx(2 / 3)
    assert unknown["train_labels"] == 6


def test_names_are_compared_as_names() -> None:
    names = ["apple", "pear", "plum", ""]
    truth, given = graph(TRUTH, **masks()), graph(GIVEN, **masks())
    truth.y, given.y = [names[k] for k in TRUTH], [names[k] for k in GIVEN]
    numbered = graph(GIVEN, **masks())
    expected = score(parrot(numbered), graph(TRUTH, **masks()), numbered)
    assert score(parrot(given), truth, given) == expected


def test_own_numbers_are_compared_as_they_are() -> None:
    numbers = torch.tensor([10, 200, 3000, -1])
    numbered = graph(GIVEN, **masks())
    expected = score(parrot(numbered), graph(TRUTH, **masks()), numbered)
    truth, given = graph(TRUTH, **masks()), graph(GIVEN, **masks())
    for data in (truth, given):
        del data.num_classes
        data.y = numbers[data.y]
    assert score(parrot(given), truth, given) == expected


def test_labels_of_another_kind_are_refused() -> None:
    truth, given = graph(TRUTH, **masks()), graph(GIVEN, **masks())
    model = parrot(given)
    named = graph(TRUTH, **masks())
    named.y = [["apple", "pear", "plum", ""][k] for k in TRUTH]
    with pytest.raises(EraseError, match=r"numbers \(0, 1, 2\); got clean labels with class names"):
        score(model, named, given)
    with pytest.raises(EraseError, match="got given labels with class names"):
        score(model, truth, named)


def test_a_method_keeps_its_own_labels_apart_from_its_predictions() -> None:
    model = parrot(graph(GIVEN, **masks()))
    assert model.labels_.tolist() == OWN_LABELS
    assert model.predict().tolist() == PREDICTED


def test_the_protocols_that_matter() -> None:
    assert {name: asdict(protocol) for name, protocol in PROTOCOLS.items()} == {
        "paper": {"noise": "fixed", "validation": "clean", "labels": "split"},
        "honest": {"noise": "redrawn", "validation": "noisy", "labels": "split"},
        "pool": {"noise": "redrawn", "validation": "noisy", "labels": "pool"},
        "all-labels": {"noise": "redrawn", "validation": "none", "labels": "all"},
    }


def test_a_pool_has_the_labels_of_the_split_divided_anew() -> None:
    clean = two_communities(size=100)
    split = given_labels(clean, "symmetric", 0.3, 3, PROTOCOLS["honest"])
    pool, other = (given_labels(clean, "symmetric", 0.3, s, PROTOCOLS["pool"]) for s in (3, 4))
    assert torch.equal(pool.y, split.y)  # runs of both protocols are pairs
    pooled = split.train_mask | split.val_mask
    assert torch.equal(pool.train_mask | pool.val_mask, pooled)
    assert not (pool.train_mask & pool.val_mask).any()
    assert not torch.equal(pool.train_mask, other.train_mask)
    for part in (pool.train_mask, pool.val_mask):  # noise falls on both parts
        assert (pool.y != clean.y)[part].any()
    counts = [torch.bincount(pool.y[mask]) for mask in (pooled, pool.val_mask)]
    assert int(counts[1].sum()) == int(counts[0].sum()) // 5
    assert ((counts[1] - counts[0] / 5).abs() < 1).all()  # a fifth of each given class


def test_of_a_pool_methods_without_epochs_train_on_all_labels() -> None:
    clean = two_communities(size=100)
    pooled = clean.train_mask | clean.val_mask
    for method, model in METHODS.items():
        given = labels_of_cell(clean, Cell("tiny", "symmetric", 0.3, method, {}, "pool", 0))
        selects = hasattr(model(), "patience")
        assert bool(given.val_mask.any()) == selects, method
        assert torch.equal(given.train_mask | given.val_mask, pooled)
    few = Cell("tiny", "symmetric", 0.3, "smoothed", {}, "pool", 0, 2)
    assert int(labels_of_cell(clean, few).train_mask.sum()) == 2 * int(clean.y.max() + 1)


@pytest.mark.parametrize("method", ["smoothed", "relabelling"])
def test_a_method_that_trains_on_validation_labels_has_the_same_pool_anyway(method: str) -> None:
    clean = two_communities(size=60)
    cell = Cell("tiny", "symmetric", 0.3, method, {}, "honest", 0)
    models = [
        build_method(method, seed=0, device="cpu").fit(labels_of_cell(clean, each))
        for each in (cell, replace(cell, protocol="pool"))
    ]
    first, second = (model.predict_proba() for model in models)
    np.testing.assert_allclose(first, second, atol=1e-6)


def test_all_labels_are_given_whatever_the_split() -> None:
    clean = two_communities(size=100)
    given = given_labels(clean, "symmetric", 0.3, 3, PROTOCOLS["all-labels"])
    without_split = clean.clone()
    for name in ("train_mask", "val_mask", "test_mask"):
        del without_split[name]
    assert torch.equal(given.y, corrupt(without_split, "symmetric", 0.3, seed=3).y)
    assert 0.2 < float((given.y != clean.y).float().mean()) < 0.4
    assert bool(NodeTask.from_data(given).train_mask.all())


@pytest.mark.parametrize("draw", ["fixed", "redrawn"])
@pytest.mark.parametrize(("validation", "on"), [("clean", "train"), ("noisy", "train+val")])
def test_a_protocol_says_how_labels_are_drawn_and_which(
    draw: Any, validation: Any, on: Any
) -> None:
    clean = two_communities(size=100)
    given = given_labels(clean, "symmetric", 0.5, 3, Protocol(draw, validation))
    expected = corrupt(clean, "symmetric", 0.5, seed=3, on=on, draw=draw)
    assert torch.equal(given.y, expected.y)
    wrong_validation = (given.y != clean.y)[clean.val_mask].float().mean()
    assert float(wrong_validation) == pytest.approx(0.5 if on == "train+val" else 0.0, abs=0.2)
    assert bool((given.y[clean.test_mask] == -1).all())


def test_without_validation_no_validation_label_is_given_and_the_graph_stays_whole() -> None:
    clean = two_communities(size=100)
    before = clean.clone()
    given = given_labels(clean, "symmetric", 0.5, 3, Protocol("redrawn", "none"))
    assert not bool(given.val_mask.any())
    assert torch.equal(given.train_mask, clean.train_mask)
    assert bool((given.y[~clean.train_mask] == -1).all())
    expected = corrupt(clean, "symmetric", 0.5, seed=3)
    assert torch.equal(given.y[clean.train_mask], expected.y[clean.train_mask])
    for key in before.keys():  # noqa: SIM118
        assert torch.equal(clean[key], before[key])


def test_without_validation_and_splits_every_label_trains() -> None:
    clean = graph(TRUTH)
    given = given_labels(clean, "pair", 0.0, 0, Protocol("redrawn", "none"))
    assert given.train_mask.tolist() == [k >= 0 for k in TRUTH]
    assert given.y.tolist() == TRUTH


@pytest.mark.parametrize("protocol", WITH_SPLIT)
def test_without_noise_the_labels_are_those_of_the_graph(protocol: Protocol) -> None:
    clean = two_communities(size=100)
    given = given_labels(clean, "none", 0.0, 3, protocol)
    labelled = clean.train_mask | clean.val_mask
    assert torch.equal(given.y, torch.where(labelled, clean.y, -1))
    with pytest.raises(EraseError, match="rate 0 without noise"):
        given_labels(clean, "none", 0.3, 3, protocol)


def kept_labels(count: int, seed: int, protocol: Protocol) -> tuple[Data, Tensor]:
    clean = two_communities(size=100)
    given = given_labels(clean, "symmetric", 0.5, seed, protocol, count)
    whole = given_labels(clean, "symmetric", 0.5, seed, protocol)
    nodes: Tensor = given.train_mask
    assert torch.equal(given.y[nodes], whole.y[nodes])  # the noise is that of all labels
    assert bool(clean.train_mask[nodes].all())
    assert torch.bincount(clean.y[nodes]).tolist() == [min(count, 50)] * 2
    assert torch.equal(NodeTask.from_data(given).train_mask, nodes)
    assert torch.equal(NodeTask.from_data(given).val_mask, clean.val_mask)
    assert torch.equal(given.test_mask, clean.test_mask)
    return clean, nodes


@pytest.mark.parametrize("protocol", WITH_SPLIT)
def test_fewer_labels_of_each_class_are_a_part_of_more(protocol: Protocol) -> None:
    clean, few = kept_labels(4, 1, protocol)
    _, more = kept_labels(12, 1, protocol)
    _, all_of_them = kept_labels(70, 1, protocol)
    assert bool(more[few].all())
    assert torch.equal(all_of_them, clean.train_mask)


def test_the_labels_kept_change_with_the_seed_where_the_noise_does() -> None:
    for protocol, same in ((PROTOCOLS["paper"], True), (PROTOCOLS["honest"], False)):
        chosen = [kept_labels(4, seed, protocol)[1] for seed in (1, 2)]
        assert torch.equal(*chosen) == same


def test_fewer_labels_and_no_validation_go_together() -> None:
    clean = two_communities(size=100)
    given = given_labels(clean, "none", None, 0, Protocol("redrawn", "none"), 5)
    assert int(given.train_mask.sum()) == 10
    assert not bool(given.val_mask.any())


def test_a_cell_says_all_that_its_labels_depend_on() -> None:
    clean = two_communities(size=100)
    cell = Cell("any", "pair", 0.4, "ce", {}, "honest", 7, labels_per_class=9)
    expected = given_labels(clean, "pair", 0.4, 7, PROTOCOLS["honest"], 9)
    given = labels_of_cell(clean, cell)
    assert torch.equal(given.y, expected.y)
    assert torch.equal(given.train_mask, expected.train_mask)
