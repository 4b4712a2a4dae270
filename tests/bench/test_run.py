"""What a protocol gives to a method, and every share of the score, counted by hand."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import one_hot
from torch_geometric.data import Data

from conftest import mask, two_communities
from erase.bench import PROTOCOLS, Protocol, given_labels, score
from erase.methods import NodeClassifier
from erase.noise import corrupt
from erase.task import NodeTask
from erase.train import Fit, Loop, Outcome


class Parrot(NodeClassifier):
    """Predicts what it was told to predict."""

    def __init__(self, *, device: str = "cpu") -> None:
        self.device = device

    def _train(self, tasks: Sequence[NodeTask], seeds: Sequence[int], loop: Loop) -> list[Fit]:
        raise AssertionError("a parrot does not learn")


# 0 to 6 train, 7 validates, 8 to 11 test; -1 is unknown
TRUTH = [0, 1, 2, 0, 1, -1, 2, 1, 0, 1, 2, -1]
TOLD = [0, 1, 2, 1, 2, 1, -1, 0, -1, -1, -1, -1]
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
    model._keep(fit, task.label_values, task.class_names, task.notes)
    return model


def test_every_share_is_counted_on_its_own_nodes() -> None:
    given = graph(TOLD, **masks())
    assert score(parrot(given), graph(TRUTH, **masks()), given) == {
        "test_accuracy": pytest.approx(2 / 3),  # 8 and 9 of 8, 9, 10; nobody knows 11
        "semantic_accuracy": pytest.approx(1 / 3),  # 9
        "correction_rate": pytest.approx(1 / 2),  # 3 of 3 and 4; 5 has no truth, 7 validates
        "accuracy_correct": pytest.approx(2 / 3),  # 0 and 2 of 0, 1, 2
        "mislabelled": 2.0,
        "train_labels": 6.0,  # 6 was not told
    }


def test_without_masks_told_labels_train_and_untold_ones_test() -> None:
    given = graph(TOLD)
    scores = score(parrot(given), graph(TRUTH), given)
    assert scores["train_labels"] == 7.0
    assert scores["mislabelled"] == 3.0  # 3, 4 and 7
    assert scores["correction_rate"] == pytest.approx(2 / 3)
    assert scores["test_accuracy"] == pytest.approx(3 / 4)  # 6, 8 and 9 of 6, 8, 9, 10


def test_shares_of_nothing_are_left_out() -> None:
    given = graph(TRUTH, **(masks() | {"test_mask": mask(11, n=12)}))  # nobody knows 11
    scores = score(parrot(given), given, given)
    assert set(scores) == {"accuracy_correct", "mislabelled", "train_labels"}
    assert scores["mislabelled"] == 0.0


def test_names_are_compared_as_names() -> None:
    names = ["apple", "pear", "plum", ""]
    truth, told = graph(TRUTH, **masks()), graph(TOLD, **masks())
    truth.y, told.y = [names[k] for k in TRUTH], [names[k] for k in TOLD]
    numbered = graph(TOLD, **masks())
    expected = score(parrot(numbered), graph(TRUTH, **masks()), numbered)
    assert score(parrot(told), truth, told) == expected


def test_a_method_keeps_its_own_labels_apart_from_its_predictions() -> None:
    model = parrot(graph(TOLD, **masks()))
    assert model.labels_.tolist() == OWN_LABELS
    assert model.predict().tolist() == PREDICTED


def test_the_two_protocols_that_matter() -> None:
    assert {name: asdict(protocol) for name, protocol in PROTOCOLS.items()} == {
        "paper": {"noise": "fixed", "validation": "clean"},
        "honest": {"noise": "redrawn", "validation": "noisy"},
    }


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
