"""Mistakes that follow the features are recognised, and others are not taken for them."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from erase.audit import decision as decisions
from erase.audit.decision import (
    FOLLOWS_FEATURES,
    IGNORES_FEATURES,
    MAY_FOLLOW_FEATURES,
    decide,
)
from erase.audit.feature_noise import (
    FeatureNoise,
    class_shares,
    find_feature_noise,
    graph_is_informative,
    information,
    joint_posterior,
    level_posterior,
    weigh_label,
)
from erase.audit.noise_rate import Estimate, transition_of
from erase.audit.witnesses import Classes, Floats, Witnesses, gather
from erase.data.noise import corrupt
from erase.data.task import NodeTask
from erase.methods.relabelling.noise_model import assign_folds
from graphs import topics


def witnessed(noise: str | None, seed: int = 0) -> tuple[Classes, Classes, Witnesses]:
    """Return true and given classes [n], and the predictions of them."""
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
    true, given, witnesses = witnessed("annotator", seed)
    assert witnesses.smoothed is not None
    found = decide(given, witnesses.smoothed, max_false_alarms=0.2, witnesses=witnesses)
    noise = found.feature_noise
    assert noise is not None
    assert noise.is_present
    assert noise.is_certain
    assert found.assumption == FOLLOWS_FEATURES
    wrong = given != true
    assert found.at_least.low <= found.at_least.value <= wrong.mean()
    assert found.at_least.value > wrong.mean() / 3
    assert found.noise_rate.high == 1
    assert wrong[found.is_issue].mean() > 0.6


@pytest.mark.parametrize("noise", [None, "symmetric"])
def test_other_mistakes_do_not_follow_the_features(noise: str | None) -> None:
    true, given, witnesses = witnessed(noise)
    assert witnesses.smoothed is not None
    decision = decide(given, witnesses.smoothed, max_false_alarms=0.2, witnesses=witnesses)
    found = decision.feature_noise
    assert found is None or found.probability == 0
    assert decision.assumption == IGNORES_FEATURES
    assert decision.at_least.value <= np.mean(given != true) + 0.01


def test_it_cannot_be_told_without_features_with_few_labels_or_with_useless_features() -> None:
    given = np.arange(120) % 3
    sure, even = 0.05 + 0.85 * np.eye(3)[given], np.full((120, 3), 1 / 3)
    assert find_feature_noise(given, Witnesses(sure, sure, sure, sure), sure) is not None
    assert find_feature_noise(given, Witnesses(None, None, sure, sure), sure) is None
    assert find_feature_noise(given, Witnesses(even, even, sure, sure), sure) is None
    few = np.arange(120) < 99
    known = Witnesses(sure, sure, sure, sure).rows(few)
    assert find_feature_noise(given[few], known, sure[few]) is None


def test_a_graph_that_tells_nothing_about_the_labels_contradicts_none() -> None:
    """Such a graph is Tolokers, in which neighbours are as often of other classes."""
    _, given, witnesses = witnessed("annotator")
    shares = class_shares(given, 4)

    def probability(kept: float) -> float:
        graph = kept * witnesses.graph + (1 - kept) * shares
        noise = find_feature_noise(given, replace(witnesses, graph=graph), right_by(given, 0.99, 4))
        assert noise is not None
        return noise.probability

    assert graph_is_informative(0.05) < 1e-3
    assert graph_is_informative(0.15) == pytest.approx(0.5)
    assert graph_is_informative(0.16) == pytest.approx(np.e / (1 + np.e))
    assert graph_is_informative(0.25) > 0.999
    assert information(given, witnesses.graph, shares) > 0.3
    assert probability(1.0) == 1
    assert probability(0.05) == 0
    assert information(given, np.tile(shares, (len(given), 1)), shares) == pytest.approx(0)


def test_a_graph_that_is_silent_about_most_labels_does_not_show_whose_mistakes_they_are() -> None:
    """All other signs are there: the label adds little, and features predict it better."""
    _, given, witnesses = witnessed("annotator")
    assert witnesses.features is not None
    shares = class_shares(given, 4)
    told = np.random.default_rng(0).random((len(given), 1)) < 0.2
    graph = np.where(told, witnesses.graph, shares)
    assert information(given, graph, shares) < 0.1
    assert information(given, witnesses.features, shares) > 0.3
    noise = find_feature_noise(given, replace(witnesses, graph=graph), right_by(given, 0.99, 4))
    assert noise is not None
    assert noise.label_weight < 2.5
    assert 0 < noise.graph_share < 0.5
    assert noise.probability == 0


def test_the_information_of_a_label_that_seems_impossible_is_finite() -> None:
    """A probability below a thousandth counts as a thousandth."""
    shares = np.array([0.5, 0.5])
    for own, counted in ((0.0, 0.001), (0.0001, 0.001), (0.005, 0.005), (0.8, 0.8)):
        found = information(np.array([0]), np.array([[own, 1 - own]]), shares)
        assert found == pytest.approx(np.log(counted / 0.5))


def right_by(given: Classes, share: float, num_classes: int) -> Floats:
    """Return posteriors [n, K] by which that share of the labels is right."""
    other = (1 - share) / (num_classes - 1)
    return np.where(np.eye(num_classes)[given] > 0, share, other)


def test_mistakes_that_a_model_by_class_finds_do_not_follow_the_features() -> None:
    _, given, witnesses = witnessed("annotator")
    found = [
        find_feature_noise(given, witnesses, right_by(given, 1 - wrong, 4))
        for wrong in (0.0, 0.02, 0.06, 0.07, 0.08, 0.12, 0.3)
    ]
    probabilities = [noise.probability for noise in found if noise is not None]
    assert probabilities[:2] == [1, 1]
    assert probabilities[-2:] == [0, 0]
    assert 0 < probabilities[4] < probabilities[3] < probabilities[2] < 1
    assert probabilities[3] == pytest.approx(0.5, abs=0.01)


def test_a_graph_that_knows_about_as_much_as_the_features_is_asked_what_it_contradicts() -> None:
    """Such graphs are those of Debian with annotator noise, and CS and PubMed without noise."""
    rng = np.random.default_rng(0)
    n, k = 4000, 4
    predicted = rng.integers(k, size=n)
    given = np.where(
        rng.random(n) < 0.1, rng.integers(k, size=n), predicted
    )  # repeats the features

    def noise(contradicted: float) -> FeatureNoise:
        named = np.where(rng.random(n) < 0.2, rng.integers(k, size=n), predicted)
        graph = 0.05 + 0.8 * np.eye(k)[named]
        weaker = (
            0.15 + 0.4 * np.eye(k)[predicted]
        )  # features that know a little more than the graph
        against = rng.random(n) < contradicted
        around = np.where(
            against[:, None], right_by((given + 1) % k, 0.97, k), right_by(given, 1.0, k)
        )
        found = find_feature_noise(
            given, Witnesses(weaker, around, graph, around**2), right_by(given, 0.99, k)
        )
        assert found is not None
        return found

    few, many = noise(0.05), noise(0.3)
    assert 0.9 < few.graph_share < 0.96, few
    assert 0.9 < many.graph_share < 0.96, many
    assert max(few.label_weight, many.label_weight) < 3
    assert few.probability == 0
    assert many.probability > 0.9


@pytest.mark.parametrize("probability", [0.3, 0.7])
def test_where_mistakes_may_follow_the_features_the_decision_lies_between(
    probability: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, given, witnesses = witnessed("annotator")
    assert witnesses.smoothed is not None

    def decided(probability: float) -> decisions.Decision:
        noise = FeatureNoise(2.9, 0.2, 0.96, probability)
        monkeypatch.setattr(decisions, "find_feature_noise", lambda *_: noise)
        assert witnesses.smoothed is not None
        return decide(given, witnesses.smoothed, max_false_alarms=0.2, witnesses=witnesses)

    one, two, found = decided(0.0), decided(1.0), decided(probability)
    assert one.assumption == IGNORES_FEATURES
    assert two.assumption == FOLLOWS_FEATURES
    assert found.assumption == MAY_FOLLOW_FEATURES

    def between(low: Floats, high: Floats) -> Floats:
        return (1 - probability) * low + probability * high

    rates = [1 - each.quality.mean() for each in (one, found, two)]
    assert sorted(rates) == rates
    counted = transition_of(given, found.posterior, np.ones(len(given)))
    np.testing.assert_allclose(found.transition, counted)
    for name in ("noise_rate", "at_least"):
        ends = [getattr(each, name) for each in (one, two, found)]
        assert all(isinstance(each, Estimate) for each in ends)
        low, high, mean = (np.array([e.low, e.value, e.high]) for e in ends)
        np.testing.assert_allclose(mean, between(low, high))
    assert one.is_issue.sum() <= found.is_issue.sum() <= two.is_issue.sum()


def drawn(n: int = 300) -> tuple[Classes, Floats, Floats]:
    """Return labels that one prediction explains in part, and the graph in another part."""
    rng = np.random.default_rng(0)
    proba = rng.dirichlet([0.5] * 3, n)
    true = np.array([rng.choice(3, p=row) for row in proba])
    given = np.where(rng.random(n) < 0.3, rng.integers(3, size=n), true)
    graph = 0.1 + 0.7 * np.eye(3)[np.where(rng.random(n) < 0.3, rng.integers(3, size=n), true)]
    return given, proba, graph


def test_the_weight_of_a_label_is_the_best_of_a_grid() -> None:
    given, proba, graph = drawn()
    shares = np.bincount(given) / len(given)

    def likelihood(a: float, b: float) -> float:
        total = 0.0
        for own, row, around in zip(given.tolist(), proba, graph, strict=True):
            q = np.maximum(row, 1e-9) ** a * np.exp(b * (np.arange(3) == own))
            total += np.log(q / q.sum() @ (around / shares))
        return total / len(given)

    found = weigh_label(given, proba, graph)
    powers, weights = np.linspace(0.5, 2, 7) * found.power, found.weight + np.linspace(-2, 2, 9)
    grid = [(likelihood(a, b), a, b) for a in powers for b in weights]
    best, power, weight = max(grid)
    assert likelihood(found.power, found.weight) >= best - 1e-9
    assert (power, weight) == pytest.approx((found.power, found.weight))
    assert 0.5 < found.weight < 5


def test_four_times_the_labels_halve_the_error_of_their_weight() -> None:
    given, proba, graph = drawn()
    one = weigh_label(given, proba, graph)
    four = weigh_label(np.tile(given, 4), np.tile(proba, (4, 1)), np.tile(graph, (4, 1)))
    assert four.weight == pytest.approx(one.weight, abs=1e-3)
    assert four.error == pytest.approx(one.error / 2, rel=1e-2)


def test_the_posterior_multiplies_features_label_and_graph() -> None:
    given, proba, graph = drawn()
    weight = weigh_label(given, proba, graph)
    shares = np.bincount(given) / len(given)
    label = np.eye(3)[given]
    found = joint_posterior(given, proba, graph, weight)
    expected = proba**weight.power * np.exp(weight.weight * label) * graph / shares
    np.testing.assert_allclose(found, expected / expected.sum(1, keepdims=True), atol=1e-4)
    level = level_posterior(given, proba, graph)
    expected = graph / shares**2 * (proba / shares) ** 0.5 * np.exp(0.5 * label)
    np.testing.assert_allclose(level, expected / expected.sum(1, keepdims=True), atol=1e-3)


@pytest.mark.parametrize("noise", ["annotator", "symmetric"])
def test_the_order_of_the_nodes_does_not_matter(noise: str) -> None:
    _, given, witnesses = witnessed(noise)
    assert witnesses.features is not None
    assert witnesses.smoothed is not None
    order = np.random.default_rng(1).permutation(len(given))
    parts = (witnesses.features, witnesses.smoothed, witnesses.graph, witnesses.around)
    features, smoothed, graph, around = (part[order] for part in parts)
    moved = Witnesses(features, smoothed, graph, around)
    found = decide(given, witnesses.smoothed, max_false_alarms=0.2, witnesses=witnesses)
    again = decide(given[order], witnesses.smoothed[order], max_false_alarms=0.2, witnesses=moved)
    follows = noise == "annotator"
    away = 0.01 if follows else 0.05  # other folds weigh the noise models
    np.testing.assert_allclose(again.quality, found.quality[order], atol=away)
    bound = 1e-6 if follows else away
    assert again.at_least.value == pytest.approx(found.at_least.value, abs=bound)
    assert np.mean(again.is_issue != found.is_issue[order]) < 0.01


def test_a_misspelt_class_is_not_suggested_for_the_class_that_is_meant() -> None:
    given = np.repeat([0, 1, 2], [98, 100, 2])
    shares = np.bincount(given) / len(given)
    support = shares * [0.1, 1.0, 1.0]  # in proportion to their shares, 1 and 2 are as probable
    proba = np.broadcast_to(support / support.sum(), (len(given), 3))
    posterior = level_posterior(given, proba, proba**2)
    assert posterior[0, 1] > 20 * posterior[0, 2]
    assert posterior[0].argmax() == 1
