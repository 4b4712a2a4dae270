"""Detectors: right where it is plain, equal to their formulas, one of them to cleanlab."""

import inspect
import math
from collections.abc import Sequence
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given as drawn
from hypothesis import settings
from numpy.typing import NDArray
from scipy.stats import norm, spearmanr
from sklearn.metrics import roc_auc_score
from torch import Tensor

from erase.audit import detectors
from erase.audit.detectors import (
    DETECTORS,
    area_under_margin,
    areas_under_margin,
    confidence,
    confident_learning,
    estimate_joint,
    graphcleaner,
    loss_mixture,
    neighbourhood_agreement,
)
from erase.audit.out_of_fold import OutOfFold, out_of_sample
from erase.bench import PROTOCOLS, given_labels
from erase.data.datasets import load_dataset
from erase.data.labels import encode_labels
from erase.data.task import NodeTask
from erase.errors import EraseError
from erase.methods import METHODS
from graphs import dense_adjacency, edge_lists

Floats = NDArray[np.float64]
NO_EDGES = torch.empty(2, 0, dtype=torch.int64)


def out_of_fold_of(given: Any, proba: Any, fold: Any = None, by_fold: Any = None) -> OutOfFold:
    """Return an `OutOfFold`; by default labels alternate between two folds."""
    given, proba = np.asarray(given, np.int64), np.asarray(proba, np.float32)
    if fold is None:
        fold = np.where(given >= 0, np.cumsum(given >= 0) % 2, -1)
    if by_fold is None:
        by_fold = np.stack([proba] * (int(np.max(fold)) + 1))
    embedding = np.zeros((len(given), 1), np.float32)
    return OutOfFold(
        given, proba, np.asarray(fold, np.int64), embedding, lambda: np.asarray(by_fold)
    )


def noisy_case(
    seed: int, n: int = 200, classes: int = 3, rate: float = 0.3, sharp: float = 2.0
) -> tuple[NDArray[np.int64], Floats, NDArray[np.bool_]]:
    """Return given classes [n], probabilities [n, K] of mostly the true ones, and who is wrong."""
    rng = np.random.default_rng(seed)
    true = rng.integers(classes, size=n)
    true[:classes] = np.arange(classes)
    logits = rng.standard_normal((n, classes)) + sharp * np.eye(classes)[true]
    proba = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    shift = np.where(rng.random(n) < rate, rng.integers(1, classes, size=n), 0)
    shift[:classes] = 0
    given = (true + shift) % classes
    return given, proba, given != true


def ring(n: int) -> Tensor:
    """Return the edges of a ring, as a task has them: both directions, sorted."""
    nodes = torch.arange(n).repeat(2)
    others = (nodes + torch.tensor([1, n - 1]).repeat_interleave(n)) % n
    return torch.stack([nodes, others])[:, (nodes * n + others).argsort()].contiguous()


# --- every detector


@pytest.mark.parametrize("name", DETECTORS)
def test_finds_what_is_plain(name: str) -> None:
    given = np.arange(60) % 3
    wrong = np.arange(60) % 10 == 0
    true = np.where(wrong, (given + 1) % 3, given)
    proba = 0.02 + 0.94 * np.eye(3)[true]
    # neighbours of the same true class: each class is a ring
    nodes = np.argsort(true, kind="stable")
    pairs = [(a, b) for a, b in zip(nodes, np.roll(nodes, -1), strict=True) if true[a] == true[b]]
    edges = torch.tensor(sorted([*pairs, *[(b, a) for a, b in pairs]])).T.contiguous()
    found = DETECTORS[name](out_of_fold_of(given, proba), edges, 0)
    assert found.is_issue.tolist() == wrong.tolist()
    assert found.quality[wrong].max() < 0.5 < found.quality[~wrong].min()


@pytest.mark.parametrize("name", DETECTORS)
def test_is_better_than_chance_where_it_is_not_plain(name: str) -> None:
    given, proba, wrong = noisy_case(0)
    found = DETECTORS[name](out_of_fold_of(given, proba), ring(200), 0)
    assert found.quality.shape == found.is_issue.shape == (200,)
    assert found.is_issue.dtype == np.bool_
    assert roc_auc_score(wrong, -found.quality) > 0.8
    assert wrong[found.is_issue].mean() > 2 * wrong.mean()


@pytest.mark.parametrize("name", DETECTORS)
def test_says_the_same_of_classes_in_another_order(name: str) -> None:
    given, proba, _ = noisy_case(1, classes=4)
    order = np.array([2, 0, 3, 1])
    edges = ring(200)
    first = DETECTORS[name](out_of_fold_of(given, proba), edges, 0)
    other = DETECTORS[name](out_of_fold_of(np.argsort(order)[given], proba[:, order]), edges, 0)
    if name == "graphcleaner":  # draws other flips
        assert spearmanr(first.quality, other.quality).statistic > 0.9
        return
    assert other.quality == pytest.approx(first.quality)
    assert other.is_issue.tolist() == first.is_issue.tolist()


@pytest.mark.parametrize("name", DETECTORS)
def test_speaks_of_labelled_nodes_in_node_order(name: str) -> None:
    given, proba, _ = noisy_case(2, n=60)
    everywhere = DETECTORS[name](out_of_fold_of(given, proba), NO_EDGES, 0)
    labelled = np.sort(np.random.default_rng(0).permutation(100)[:60])
    wide, wide_proba = np.full(100, -1), np.full((100, 3), 1 / 3)
    wide[labelled], wide_proba[labelled] = given, proba
    among = DETECTORS[name](out_of_fold_of(wide, wide_proba), NO_EDGES, 0)
    assert among.quality == pytest.approx(everywhere.quality)
    assert among.is_issue.tolist() == everywhere.is_issue.tolist()


@pytest.mark.parametrize("name", DETECTORS)
def test_an_empty_class_changes_nothing(name: str) -> None:
    given, proba, _ = noisy_case(3)
    wider = np.insert(proba, 1, 0.0, axis=1)
    first = DETECTORS[name](out_of_fold_of(given, proba), ring(200), 0)
    other = DETECTORS[name](out_of_fold_of(given + (given >= 1), wider), ring(200), 0)
    assert other.quality == pytest.approx(first.quality)
    assert other.is_issue.tolist() == first.is_issue.tolist()


@pytest.mark.parametrize("name", DETECTORS)
def test_what_it_is_given_stays_as_it_was(name: str) -> None:
    given, proba, _ = noisy_case(4, n=30)
    out_of_fold = out_of_fold_of(given, proba)
    names = ("given", "proba", "fold", "embedding", "by_fold")
    arrays = {name: getattr(out_of_fold, name) for name in names}
    before = {key: value.copy() for key, value in arrays.items()}
    first = DETECTORS[name](out_of_fold, ring(30), 0)
    again = DETECTORS[name](out_of_fold, ring(30), 0)
    assert first.quality.tolist() == again.quality.tolist()
    assert all((value == before[key]).all() for key, value in arrays.items())


@pytest.mark.parametrize("name", DETECTORS)
@settings(max_examples=15)
@drawn(data=st.data())
def test_is_a_number_from_0_to_1_whatever_comes(name: str, data: st.DataObject) -> None:
    """One class only, classes without a label, isolated nodes, probabilities of 0 and 1."""
    edges, n = data.draw(edge_lists(max_nodes=8))
    classes = data.draw(st.integers(2, 4))
    given = np.array(data.draw(st.lists(st.integers(-1, classes - 1), min_size=n, max_size=n)))
    sure = np.array(data.draw(st.lists(st.integers(0, classes - 1), min_size=n, max_size=n)))
    doubt = np.array(data.draw(st.lists(st.sampled_from([0.0, 1e-9, 0.3]), min_size=n, max_size=n)))
    proba = (1 - doubt)[:, None] * np.eye(classes)[sure] + doubt[:, None] / classes
    if (given >= 0).sum() < 2:
        given[:] = 0
        edges, given, proba = (edges, given, proba) if n > 1 else (NO_EDGES, *_two_alike(proba))
    found = DETECTORS[name](out_of_fold_of(given, proba), edges, 0)
    assert found.quality.shape == ((given >= 0).sum(),)
    assert ((found.quality >= 0) & (found.quality <= 1)).all()


def _two_alike(proba: Floats) -> tuple[NDArray[np.int64], Floats]:
    return np.zeros(2, np.int64), np.repeat(proba, 2, axis=0)


def test_one_signature() -> None:
    for detector in DETECTORS.values():
        assert list(inspect.signature(detector).parameters) == ["out_of_fold", "edge_index", "seed"]


# --- confidence


def test_confidence_is_the_probability_of_the_label_and_a_tie_is_no_issue() -> None:
    proba = [[0.5, 0.5, 0.0], [0.2, 0.3, 0.5], [0.1, 0.8, 0.1], [0.0, 0.0, 1.0]]
    found = confidence(out_of_fold_of([1, 1, 1, 0], proba), NO_EDGES, 0)
    assert found.quality == pytest.approx([0.5, 0.3, 0.8, 0.0])
    assert found.is_issue.tolist() == [False, True, False, True]


# --- confident learning


def joint_by_loops(given: Sequence[int], proba: Floats) -> list[list[float]]:
    """Return Q[given, true] from the printed formulas, label by label."""
    n, k = proba.shape
    rows = {i: [m for m in range(n) if given[m] == i] for i in range(k)}
    threshold = {i: sum(proba[m, i] for m in rows[i]) / len(rows[i]) for i in range(k) if rows[i]}
    count = [[0 for _ in range(k)] for _ in range(k)]
    for m in range(n):
        likely = [j for j in threshold if proba[m, j] >= threshold[j] - 1e-6]
        if likely:
            count[given[m]][max(likely, key=lambda j: proba[m, j])] += 1
    for i in range(k):
        count[i][i] = max(count[i][i], 1)
    return [[c / sum(row) * len(rows[i]) / n for c in row] for i, row in enumerate(count)]


@pytest.mark.parametrize("seed", range(5))
def test_the_joint_is_the_printed_formula(seed: int) -> None:
    given, proba, _ = noisy_case(seed, classes=2 + seed, sharp=1.0)
    given[given == 1] = 0  # a class without labels
    joint = estimate_joint(given, proba)
    assert joint == pytest.approx(np.array(joint_by_loops(given.tolist(), proba)))
    assert joint.sum(1) == pytest.approx(np.bincount(given, minlength=2 + seed) / 200)


def test_a_probability_that_equals_its_threshold_is_confident() -> None:
    # the mean of seven times 0.1 is not 0.1 in floating-point numbers
    joint = estimate_joint(np.repeat([0, 1], 7), np.tile([0.9, 0.1], (14, 1)))
    # all nodes are confidently of class 0; that some labels 1 are right is taken for granted
    assert joint == pytest.approx(np.array([[0.5, 0], [0.5 * 7 / 8, 0.5 / 8]]))


def test_the_joint_recovers_the_noise() -> None:
    given, proba, wrong = noisy_case(0, n=5000, rate=0.4, sharp=6.0)
    assert 1 - np.trace(estimate_joint(given, proba)) == pytest.approx(wrong.mean(), abs=0.02)


def is_plain(given: NDArray[np.int64], proba: Floats) -> bool:
    """Return whether no node's most probable class is below its threshold while two others are not.

    There the formula takes the most probable of the two, and cleanlab the most probable of all.
    """
    threshold = np.array([proba[given == k, k].mean() for k in range(proba.shape[1])])
    confident = proba >= threshold - 1e-6
    top = confident[np.arange(len(given)), proba.argmax(1)]
    return bool((top | (confident.sum(1) < 2)).all())


@pytest.mark.parametrize("seed", range(12))
def test_issues_and_qualities_are_cleanlabs(seed: int) -> None:
    count = pytest.importorskip("cleanlab.count")
    cleanlab_filter = pytest.importorskip("cleanlab.filter")
    rank = pytest.importorskip("cleanlab.rank")
    given, proba, _ = noisy_case(seed, n=150 + seed, classes=2 + seed % 5)
    assert is_plain(given, proba)
    found = confident_learning(out_of_fold_of(given, proba), NO_EDGES, 0)
    joint = estimate_joint(given, proba)
    theirs = count.estimate_joint(given, proba)
    assert np.abs(joint - theirs).max() < 1 / len(given)  # cleanlab rounds to whole labels
    # cleanlab rounds so that rows keep their sums; here it gets our whole numbers
    counts = np.rint(joint * len(given)).astype(int)
    np.fill_diagonal(counts, counts.diagonal() + np.bincount(given) - counts.sum(1))
    flags = cleanlab_filter.find_label_issues(given, proba, confident_joint=counts, n_jobs=1)
    assert found.is_issue.tolist() == flags.tolist()
    assert 0 < found.is_issue.sum() < len(given)
    scores = rank.get_label_quality_scores(given, proba, method="normalized_margin")
    assert found.quality == pytest.approx(scores, abs=1e-6)


def test_a_label_the_model_agrees_with_is_never_pruned() -> None:
    given, proba, _ = noisy_case(0, sharp=0.3)
    found = confident_learning(out_of_fold_of(given, proba), NO_EDGES, 0)
    agrees = proba.argmax(1) == given
    assert not found.is_issue[agrees].any()
    assert found.is_issue.sum() < (~agrees).sum()  # and not all others are


# --- GraphCleaner


@drawn(graph=edge_lists(), seed=st.integers(0, 99))
def test_agreement_is_that_of_dense_powers_without_the_own_fold(
    graph: tuple[Tensor, int], seed: int
) -> None:
    edges, n = graph
    rng = np.random.default_rng(seed)
    given, fold = rng.integers(-1, 3, size=n), rng.integers(0, 2, size=n)
    given[0], fold[given < 0] = 0, -1
    by_fold = rng.dirichlet(np.ones(3), size=(2, n)).astype(np.float32)
    out_of_fold = out_of_fold_of(given, by_fold.mean(0), fold, by_fold)
    agreement = neighbourhood_agreement(out_of_fold, edges)
    dense = dense_adjacency(edges, n).numpy()
    step = dense / np.maximum(dense.sum(1, keepdims=True), 1)
    labelled = np.flatnonzero(given >= 0)
    assert agreement.shape == (len(labelled), 3, 7)
    for row, i in enumerate(labelled):
        for c in range(3):
            others = np.array([given[j] == c and fold[j] != fold[i] for j in range(n)], float)
            expected = [out_of_fold.proba[i, c]]
            for values in (by_fold[fold[i], :, c].astype(float), others):
                for hops in (1, 2, 3):
                    expected.append(np.linalg.matrix_power(step, hops)[i] @ values)
            assert agreement[row, c] == pytest.approx(expected, abs=1e-6)


def test_a_nodes_own_label_changes_only_which_class_is_read() -> None:
    rng = np.random.default_rng(0)
    given = rng.integers(0, 3, size=30)
    proba = rng.dirichlet(np.ones(3), size=30)
    other = given.copy()
    other[7] = (given[7] + 1) % 3
    agreement = [
        neighbourhood_agreement(out_of_fold_of(y, proba), ring(30)) for y in (given, other)
    ]
    assert agreement[0][7].tolist() == agreement[1][7].tolist()
    assert agreement[0][8].tolist() != agreement[1][8].tolist()


def test_graphcleaner_uses_the_neighbours() -> None:
    """The model cannot predict the nodes in question; their neighbours are of their class."""
    rng = np.random.default_rng(0)
    true = np.repeat([0, 1, 2], 60)
    nodes = np.arange(180)
    pairs = [(i, j) for i in nodes for j in rng.choice(nodes[true == true[i]], 3) if i != j]
    edges = torch.tensor(sorted({*pairs, *[(b, a) for a, b in pairs]})).T.contiguous()
    given = np.where(rng.random(180) < 0.2, (true + 1) % 3, true)
    proba = np.full((180, 3), 1 / 3)
    found = graphcleaner(out_of_fold_of(given, proba), edges, 0)
    assert roc_auc_score(given != true, -found.quality) > 0.95
    without = graphcleaner(out_of_fold_of(given, proba), NO_EDGES, 0)
    assert np.ptp(without.quality) < 0.2
    # predictions for the neighbours count too, where no neighbour has a label
    probes = np.where(rng.random(180) < 0.3, given, -1)
    predicted = 0.1 + 0.7 * np.eye(3)[true]
    by_model = np.where((probes >= 0)[:, None], 1 / 3, predicted)
    fold = np.where(probes >= 0, nodes % 2, -1)
    by = graphcleaner(out_of_fold_of(probes, proba, fold, np.stack([by_model] * 2)), edges, 0)
    assert roc_auc_score((given != true)[probes >= 0], -by.quality) > 0.95


def test_graphcleaners_seed_draws_other_flips() -> None:
    given, proba, _ = noisy_case(5, n=60)
    qualities = [
        graphcleaner(out_of_fold_of(given, proba), NO_EDGES, seed).quality for seed in (0, 1)
    ]
    assert qualities[0].tolist() != qualities[1].tolist()


def test_flips_follow_how_classes_are_confused() -> None:
    joint = np.array([[0.3, 0.0, 0.0], [0.03, 0.3, 0.0], [0.01, 0.0, 0.36]])  # [given, true]
    given = np.repeat([0, 1, 2], 4000)
    flipped = detectors._flip(given, joint, np.random.default_rng(0))
    assert (flipped != given).all()
    shares = [np.bincount(flipped[given == k], minlength=3) / 4000 for k in range(3)]
    # class 0 becomes 1 three times as often as 2; the others are never confused: any other class
    expected = [[0, 0.75, 0.25], [0.5, 0, 0.5], [0.5, 0.5, 0]]
    assert np.abs(np.array(shares) - expected).max() < 0.03


def test_one_fold_has_no_other_fold_to_train_on() -> None:
    out_of_fold = out_of_fold_of([0, 1], np.eye(2), fold=[0, 0])
    with pytest.raises(EraseError, match="two folds"):
        graphcleaner(out_of_fold, NO_EDGES, 0)


# --- loss mixture


def test_the_mixture_finds_two_normal_distributions() -> None:
    rng = np.random.default_rng(0)
    low, high = rng.normal(0.2, 0.05, 700), rng.normal(0.7, 0.1, 300)
    values = np.concatenate([low, high]).clip(0, 1)
    posterior = detectors._low_component(values)
    a, b = 0.7 * norm.pdf(values, 0.2, 0.05), 0.3 * norm.pdf(values, 0.7, 0.1)
    assert np.abs(posterior - a / (a + b)).max() < 0.1
    assert np.abs(posterior - a / (a + b)).mean() < 0.005


@pytest.mark.parametrize("seed", [0, 1])  # with 0, the most steps are not enough, without warning
def test_another_step_of_em_changes_nothing(seed: int) -> None:
    values = np.random.default_rng(seed).beta(0.5, 1.5, 400)
    low = detectors._low_component(values)
    weights = np.stack([low, 1 - low])
    means = [np.average(values, weights=w) for w in weights]
    variances = [
        np.average((values - m) ** 2, weights=w) + 1e-4 for w, m in zip(weights, means, strict=True)
    ]
    a, b = (
        w.mean() * norm.pdf(values, m, v**0.5)
        for w, m, v in zip(weights, means, variances, strict=True)
    )
    assert means[0] < means[1]
    assert low == pytest.approx(a / (a + b), abs=1e-4)
    assert detectors._low_component(values).tolist() == low.tolist()


def test_losses_are_those_of_the_given_labels() -> None:
    own = np.array([0.9, 0.85, 0.8, 0.9, 3e-4, 1e-4, 2e-4, 0.0])
    proba = np.stack([own, 1 - own], 1)
    found = loss_mixture(out_of_fold_of(np.zeros(8), proba), NO_EDGES, 0)
    assert found.is_issue.tolist() == [False] * 4 + [True] * 4
    losses = -np.log(own.clip(1e-4))
    scaled = (losses - losses.min()) / np.ptp(losses)
    assert found.quality == pytest.approx(detectors._low_component(scaled), abs=1e-6)


def test_equal_losses_are_no_issue() -> None:
    found = loss_mixture(out_of_fold_of([0, 1, 0], np.full((3, 2), 0.5)), NO_EDGES, 0)
    assert found.quality.tolist() == [1, 1, 1]
    assert not found.is_issue.any()


# --- area under margin


def areas_by_loops(evidence: Floats, y: Any) -> list[float]:
    """Return the mean margin of each node from the printed formulas, node by node."""
    n, classes, width = evidence.shape
    weights, velocity, totals = [0.0] * (width + 1), [0.0] * (width + 1), [0.0] * n

    def logits(i: int) -> list[float]:
        z = [sum(weights[d] * evidence[i, c, d] for d in range(width)) for c in range(classes)]
        return [*z, weights[width]]

    for _ in range(150):
        gradient = [1e-4 * w for w in weights]
        for i in range(n):
            powers = [math.exp(z) for z in logits(i)]
            for c in range(classes + 1):
                surplus = powers[c] / sum(powers) - (c == y[i])
                row = [*evidence[i, c], 0.0] if c < classes else [0.0] * width + [1.0]
                gradient = [g + surplus * x / n for g, x in zip(gradient, row, strict=True)]
        velocity = [0.9 * v + g for v, g in zip(velocity, gradient, strict=True)]
        weights = [w - 0.1 * v for w, v in zip(weights, velocity, strict=True)]
        for i in range(n):
            z = logits(i)
            totals[i] += z[y[i]] - max(value for c, value in enumerate(z) if c != y[i])
    return [total / 150 for total in totals]


def test_areas_under_margin_are_those_of_the_loops() -> None:
    rng = np.random.default_rng(0)
    evidence, y = rng.standard_normal((7, 3, 2)), np.array([0, 1, 2, 3, 1, 0, 3])
    assert areas_under_margin(evidence, y) == pytest.approx(areas_by_loops(evidence, y))


def test_replaced_labels_set_the_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run replaces one label in K + 1, no label in both; only the other run scores them."""
    asked: list[NDArray[np.int64]] = []
    given, proba, _ = noisy_case(0, n=40)
    areas = np.random.default_rng(1).standard_normal((2, 40))

    def watched(evidence: Floats, y: NDArray[np.int64]) -> Floats:
        assert evidence.shape == (40, 3, 7)
        assert evidence.mean(1) == pytest.approx(0.0)
        asked.append(y)
        mine: Floats = areas[len(asked) - 1]
        return mine

    monkeypatch.setattr(detectors, "areas_under_margin", watched)
    found = area_under_margin(out_of_fold_of(given, proba), ring(40), 0)
    replaced = [y == 3 for y in asked]
    assert [mask.sum() for mask in replaced] == [10, 10]
    assert not (replaced[0] & replaced[1]).any()
    for node in range(40):
        above = [
            areas[run, node] - np.quantile(areas[run][replaced[run]], 0.99)
            for run in range(2)
            if not replaced[run][node]
        ]
        assert found.quality[node] == pytest.approx(1 / (1 + math.exp(-np.mean(above))))
        assert found.is_issue[node] == (np.mean(above) <= 0)
        assert all(y[node] == given[node] for y in asked if y[node] != 3)


# --- on graphs


@pytest.mark.parametrize("dataset", ["citations", "debian"])
def test_finds_injected_noise(dataset: str) -> None:
    clean = load_dataset(dataset)
    given = given_labels(clean, "symmetric", 0.3, 0, PROTOCOLS["honest"])
    task = NodeTask.of(given)
    out_of_fold = out_of_sample(task, METHODS["label-propagation"](device="cpu"), 5)
    labelled = out_of_fold.given >= 0
    wrong = (encode_labels(clean)[0].numpy() != out_of_fold.given)[labelled]
    areas = {
        name: float(roc_auc_score(wrong, -detector(out_of_fold, task.edge_index, 0).quality))
        for name, detector in DETECTORS.items()
    }
    assert min(areas.values()) > 0.7, areas
