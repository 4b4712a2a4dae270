"""Mistakes that follow the features are recognised, and others are not taken for them."""

import numpy as np
import pytest
import torch

from erase.audit.decision import FOLLOWS_FEATURES, IGNORES_FEATURES, decide
from erase.audit.feature_noise import (
    find_feature_noise,
    joint_posterior,
    level_posterior,
    weigh_label,
)
from erase.audit.witnesses import Classes, Floats, Witnesses, gather
from erase.data.noise import corrupt
from erase.data.task import NodeTask
from erase.methods.relabelling.noise_model import assign_folds
from graphs import topics


def witnessed(noise: str | None, seed: int = 0) -> tuple[Classes, Classes, Witnesses]:
    """Return true and given classes [n], and the opinions on them."""
    clean = topics(seed)
    noisy = clean if noise is None else corrupt(clean, noise, 0.3, seed=seed)
    given = noisy.y.numpy()
    fold = assign_folds(given, 5, np.random.default_rng(0))
    return clean.y.numpy(), given, gather(NodeTask.of(noisy), fold, 0, torch.device("cpu"))


@pytest.mark.parametrize("seed", [0, 1])
def test_the_mistakes_of_an_annotator_are_recognised(seed: int) -> None:
    """The graph has strong features; with weaker ones such mistakes are missed.

    Draws 20 to 39: recognised in 20. With 0.2 or 0.16 for the words of a node's class instead of
    0.24, in 13 and in none. The lower bound was below the true share in all 60.
    """
    true, given, opinions = witnessed("annotator", seed)
    noise = find_feature_noise(given, opinions)
    assert noise is not None
    assert noise.is_present
    assert opinions.smoothed is not None
    found = decide(given, opinions.smoothed, max_false_alarms=0.2, witnesses=opinions)
    assert found.assumption == FOLLOWS_FEATURES
    wrong = given != true
    assert found.at_least.low <= found.at_least.value <= wrong.mean()
    assert found.at_least.value > wrong.mean() / 3
    assert found.noise_rate.high == 1
    assert wrong[found.is_issue].mean() > 0.6


@pytest.mark.parametrize("noise", [None, "symmetric"])
def test_other_mistakes_do_not_follow_the_features(noise: str | None) -> None:
    true, given, opinions = witnessed(noise)
    found = find_feature_noise(given, opinions)
    assert found is None or not found.is_present
    assert opinions.smoothed is not None
    decision = decide(given, opinions.smoothed, max_false_alarms=0.2, witnesses=opinions)
    assert decision.assumption == IGNORES_FEATURES
    assert decision.at_least.value <= np.mean(given != true) + 0.01


def test_it_cannot_be_told_without_features_with_few_labels_or_with_useless_features() -> None:
    given = np.arange(120) % 3
    sure, even = 0.05 + 0.85 * np.eye(3)[given], np.full((120, 3), 1 / 3)
    assert find_feature_noise(given, Witnesses(sure, sure, sure, sure)) is not None
    assert find_feature_noise(given, Witnesses(None, None, sure, sure)) is None
    assert find_feature_noise(given, Witnesses(even, even, sure, sure)) is None
    few = np.arange(120) < 99
    assert find_feature_noise(given[few], Witnesses(sure, sure, sure, sure).rows(few)) is None


def drawn(n: int = 300) -> tuple[Classes, Floats, Floats]:
    """Return labels of which the opinion knows something, and the graph something else."""
    rng = np.random.default_rng(0)
    opinion = rng.dirichlet([0.5] * 3, n)
    true = np.array([rng.choice(3, p=row) for row in opinion])
    given = np.where(rng.random(n) < 0.3, rng.integers(3, size=n), true)
    graph = 0.1 + 0.7 * np.eye(3)[np.where(rng.random(n) < 0.3, rng.integers(3, size=n), true)]
    return given, opinion, graph


def test_the_weight_of_a_label_is_the_best_of_a_grid() -> None:
    given, opinion, graph = drawn()
    shares = np.bincount(given) / len(given)

    def likelihood(a: float, b: float) -> float:
        total = 0.0
        for own, row, around in zip(given.tolist(), opinion, graph, strict=True):
            q = np.maximum(row, 1e-9) ** a * np.exp(b * (np.arange(3) == own))
            total += np.log(q / q.sum() @ (around / shares))
        return total / len(given)

    found = weigh_label(given, opinion, graph)
    powers, weights = np.linspace(0.5, 2, 7) * found.power, found.weight + np.linspace(-2, 2, 9)
    grid = [(likelihood(a, b), a, b) for a in powers for b in weights]
    best, power, weight = max(grid)
    assert likelihood(found.power, found.weight) >= best - 1e-9
    assert (power, weight) == pytest.approx((found.power, found.weight))
    assert 0.5 < found.weight < 5


def test_four_times_the_labels_halve_the_error_of_their_weight() -> None:
    given, opinion, graph = drawn()
    one = weigh_label(given, opinion, graph)
    four = weigh_label(np.tile(given, 4), np.tile(opinion, (4, 1)), np.tile(graph, (4, 1)))
    assert four.weight == pytest.approx(one.weight, abs=1e-3)
    assert four.error == pytest.approx(one.error / 2, rel=1e-2)


def test_the_posterior_multiplies_features_label_and_graph() -> None:
    given, opinion, graph = drawn()
    weight = weigh_label(given, opinion, graph)
    shares = np.bincount(given) / len(given)
    label = np.eye(3)[given]
    found = joint_posterior(given, opinion, graph, weight)
    expected = opinion**weight.power * np.exp(weight.weight * label) * graph / shares
    np.testing.assert_allclose(found, expected / expected.sum(1, keepdims=True), atol=1e-4)
    level = level_posterior(given, opinion, graph)
    expected = graph / shares**2 * (opinion / shares) ** 0.5 * np.exp(0.5 * label)
    np.testing.assert_allclose(level, expected / expected.sum(1, keepdims=True), atol=1e-3)


@pytest.mark.parametrize("noise", ["annotator", "symmetric"])
def test_the_order_of_the_nodes_does_not_matter(noise: str) -> None:
    _, given, opinions = witnessed(noise)
    assert opinions.features is not None
    assert opinions.smoothed is not None
    order = np.random.default_rng(1).permutation(len(given))
    parts = (opinions.features, opinions.smoothed, opinions.graph, opinions.around)
    features, smoothed, graph, around = (part[order] for part in parts)
    moved = Witnesses(features, smoothed, graph, around)
    found = decide(given, opinions.smoothed, max_false_alarms=0.2, witnesses=opinions)
    again = decide(given[order], opinions.smoothed[order], max_false_alarms=0.2, witnesses=moved)
    follows = noise == "annotator"
    away = 1e-6 if follows else 0.05  # otherwise other folds weigh the noise models
    np.testing.assert_allclose(again.quality, found.quality[order], atol=away)
    assert again.at_least.value == pytest.approx(found.at_least.value, abs=away)
    if follows:
        np.testing.assert_array_equal(again.is_issue, found.is_issue[order])


def test_a_misspelt_class_is_not_suggested_for_the_class_that_is_meant() -> None:
    given = np.repeat([0, 1, 2], [98, 100, 2])
    shares = np.bincount(given) / len(given)
    support = shares * [0.1, 1.0, 1.0]  # in proportion to their shares, 1 and 2 are as probable
    proba = np.broadcast_to(support / support.sum(), (len(given), 3))
    posterior = level_posterior(given, proba, proba**2)
    assert posterior[0, 1] > 20 * posterior[0, 2]
    assert posterior[0].argmax() == 1
