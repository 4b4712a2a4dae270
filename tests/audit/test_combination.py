"""Two posteriors become one: its equation, its share of wrong labels, when the second counts."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given as drawn_by_chance
from hypothesis import strategies as st

from drawn_labels import drawn, pairwise, symmetric, witnesses_of
from erase.audit import combination
from erase.audit.combination import combine, share_of_other_mistakes, unexplained_excess
from erase.audit.decision import decide
from erase.audit.witnesses import Classes, Floats, Witnesses, pool


def by_loops(given: Classes, one: Floats, other: Floats, share: float, factor: float) -> Floats:
    """Return the weighted geometric mean [n, K] whose odds of given labels are multiplied."""
    rows = []
    for g, p, q in zip(given.tolist(), one.tolist(), other.tolist(), strict=True):
        mean = [a ** (1 - share) * b**share for a, b in zip(p, q, strict=True)]
        mean[g] *= factor
        rows.append([value / sum(mean) for value in mean])
    return np.array(rows)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("wrong", [0.05, 0.4, 0.9])
def test_it_is_a_geometric_mean_with_the_wanted_share_of_wrong_labels(
    share: float, wrong: float
) -> None:
    rng = np.random.default_rng(0)
    one, other = rng.dirichlet(np.ones(4), 200), rng.dirichlet(np.ones(4), 200)
    given = rng.integers(4, size=200)
    found = combine(given, one, other, share, wrong)
    np.testing.assert_allclose(found.sum(1), 1)
    own = found[np.arange(200), given]
    assert 1 - own.mean() == pytest.approx(wrong, abs=1e-6)
    plain = by_loops(given, one, other, share, 1.0)
    odds = own / (1 - own)
    before = plain[np.arange(200), given] / (1 - plain[np.arange(200), given])
    factor = odds[0] / before[0]
    np.testing.assert_allclose(found, by_loops(given, one, other, share, factor), rtol=1e-5)


def test_hardly_any_label_is_wrong_if_hardly_any_is_to_be() -> None:
    """With a share of 0.5 for the other, labels that both contradict have to be called right."""
    given = np.repeat([0, 1], 50)
    against = np.where(np.eye(2)[given] > 0, 1e-9, 1.0)
    found = combine(given, against, against, share=0.5, wrong=1e-30)
    assert found[np.arange(100), 1 - given].mean() == pytest.approx(1e-30, rel=1e-6)


@drawn_by_chance(
    st.integers(0, 100), st.integers(2, 6), st.sampled_from([0.0, 1e-12, 0.3, 1.0]), st.booleans()
)
def test_rows_are_probabilities_whatever_the_extremes(
    seed: int, k: int, wrong: float, certain: bool
) -> None:
    rng = np.random.default_rng(seed)
    one = np.eye(k)[rng.integers(k, size=9)] if certain else rng.dirichlet(np.full(k, 0.01), 9)
    other = rng.dirichlet(np.full(k, 0.01), 9)
    found = combine(rng.integers(k, size=9), one, other, 0.5, wrong)
    assert np.isfinite(found).all()
    assert (found >= 0).all()
    np.testing.assert_allclose(found.sum(1), 1)


def test_the_excess_is_counted_label_by_label() -> None:
    given = np.array([0, 0, 1, 1, 2, 2, 0, 1])
    features = np.array([0, 1, 1, 2, 2, 1, 0, 1])
    graph = np.array([0, 1, 1, 2, 0, 1, 1, 1])
    sure = np.eye(3) * 0.94 + 0.02
    posterior = np.full((8, 3), 0.05) + 0.85 * np.eye(3)[given]
    witnesses = Witnesses(sure[features], sure[features], sure[graph], sure[graph])
    # three of eight are contradicted by both; six agree, a tenth of each is explained
    chance = 1 - (2 * 2 + 4 * 5 + 2 * 1) / 64
    expected = (3 / 8 - 6 * 0.1 / 8) * chance / (2 / 8)
    assert unexplained_excess(given, witnesses, posterior) == pytest.approx(expected)
    alike = replace(witnesses, graph=sure[features])
    assert unexplained_excess(given, alike, posterior) == 0
    assert unexplained_excess(given, replace(witnesses, features=None), posterior) == 0


def test_the_excess_compares_a_nodes_own_features_with_the_graph_where_they_agree() -> None:
    """Smoothed features contain neighbours, so that they err with the graph."""
    given = np.array([0, 0, 1, 1, 2, 2, 0, 1])
    features = np.array([0, 1, 1, 2, 2, 1, 0, 1])
    graph = np.array([0, 1, 1, 2, 0, 1, 1, 1])
    sure = np.eye(3) * 0.94 + 0.02
    wrong = np.array([0.0, 0.5, 0.1, 0.3, 0.9, 0.2, 0.8, 0.1])  # mean 0.2 where the two agree
    hot = np.eye(3)[given]
    posterior = (1 - wrong[:, None]) * hot + wrong[:, None] / 2 * (1 - hot)
    witnesses = Witnesses(sure[features], sure[(features + 1) % 3], sure[graph], sure[features])
    chance = 1 - (2 * 2 + 4 * 5 + 2 * 1) / 64
    expected = (3 / 8 - 1.2 / 8) * chance / (2 / 8)
    assert unexplained_excess(given, witnesses, posterior) == pytest.approx(expected)


def share(
    monkeypatch: pytest.MonkeyPatch,
    excess: float,
    *,
    labels: int = 300,
    told: float = 0.8,
    probability: float = 0.0,
) -> float:
    """Return how far other mistakes count; the graph is that confident."""
    given = np.arange(labels) % 3
    graph = (1 - told) / 3 + told * np.eye(3)[given]
    monkeypatch.setattr(combination, "unexplained_excess", lambda *_: excess)
    witnesses = Witnesses(graph, graph, graph, graph)
    return share_of_other_mistakes(given, witnesses, graph, probability)


def test_other_mistakes_count_by_what_is_unexplained(monkeypatch: pytest.MonkeyPatch) -> None:
    assert share(monkeypatch, -1.0) == pytest.approx(0.1)
    assert share(monkeypatch, 0.18) == pytest.approx(0.1)
    assert share(monkeypatch, 0.28) == pytest.approx(0.4)
    assert share(monkeypatch, 9.0) == pytest.approx(0.75)
    assert share(monkeypatch, 0.0, labels=99) == 0
    assert share(monkeypatch, 0.0, labels=100) == pytest.approx(0.1)
    assert share(monkeypatch, 9.0, told=0.01) < 1e-3
    assert share(monkeypatch, 9.0, probability=1.0) == pytest.approx(0.9)
    assert share(monkeypatch, 0.0, probability=0.5) == pytest.approx(0.45)
    assert share(monkeypatch, 9.0, told=0.01, probability=0.5) == pytest.approx(0.45)


@pytest.mark.parametrize(("near", "far", "expected"), [(0.8, 0.01, 0.0), (0.01, 0.8, 0.1)])
def test_it_is_the_graph_that_must_tell_something(near: float, far: float, expected: float) -> None:
    """Features that predict the labels do not make up for a graph that does not."""
    given = np.arange(300) % 3
    features, graph = ((1 - told) / 3 + told * np.eye(3)[given] for told in (near, far))
    witnesses = Witnesses(features, features, graph, features)
    found = share_of_other_mistakes(given, witnesses, features, 0.0)
    assert found == pytest.approx(expected, abs=1e-3)


def test_surroundings_that_agree_with_all_labels_do_not_make_them_fewer() -> None:
    """What a noise model by class finds is the least that is expected to be wrong."""
    _, given, proba = drawn(600, symmetric(4, 0.2))
    around = 0.01 + 0.96 * np.eye(4)[given]
    witnesses = witnesses_of(given, None, around)
    found = decide(given, proba, max_false_alarms=0.2, witnesses=witnesses)
    assert found.noise_rate.value > 0.1
    assert 1 - found.quality.mean() == pytest.approx(found.noise_rate.value, abs=1e-6)


def test_mistakes_by_class_that_the_graph_repeats_are_flagged() -> None:
    """Neighbours' labels go wrong like a node's own: pooled with them, mistakes look uncertain."""
    true, given, proba = drawn(3_000, pairwise(4, 0.3))
    graph = 0.1 + 0.9 * proba @ pairwise(4, 0.3)  # what neighbours are called
    graph /= graph.sum(1, keepdims=True)
    witnesses = witnesses_of(given, None, graph)
    found = decide(given, proba, max_false_alarms=0.2, witnesses=witnesses, corrected=True)
    alone = decide(given, proba, max_false_alarms=0.2, corrected=True)
    pooled = pool([proba, graph], given, 0, keep_confidence=True)
    mixed = decide(given, pooled, max_false_alarms=0.2, corrected=True)
    wrong = given != true
    assert found.noise_rate.value == pytest.approx(alone.noise_rate.value)
    assert found.noise_rate.value == pytest.approx(wrong.mean(), abs=0.05)
    assert mixed.noise_rate.value < found.noise_rate.value - 0.02
    assert wrong[found.is_issue].mean() > 0.7
    assert found.is_issue[wrong].mean() > 0.5


def test_mistakes_at_hard_nodes_are_flagged_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Features and graph contradict a fifth of the labels; no class goes wrong more than others."""
    rng = np.random.default_rng(0)
    n = 2_000
    true = rng.integers(3, size=n)
    hard = rng.random(n) < 0.3
    given = np.where(hard, (true + 1) % 3, true)
    predictions = []
    for _ in range(2):
        miss = rng.random(n) < 0.1
        named = np.where(miss, rng.integers(3, size=n), true)
        sharp = np.where(hard, 0.5, 0.9)
        predictions.append((1 - sharp[:, None]) / 3 + sharp[:, None] * np.eye(3)[named])
    features, graph = predictions
    witnesses = witnesses_of(given, features, graph)
    found = decide(given, features, max_false_alarms=0.2, witnesses=witnesses)
    monkeypatch.setattr(combination, "_MOST", 0.0)
    alone = decide(given, features, max_false_alarms=0.2, witnesses=witnesses)
    wrong = given != true
    assert wrong[alone.is_issue].sum() == 0
    assert found.is_issue.sum() > 100
    assert wrong[found.is_issue].mean() > 0.8


def test_symmetric_mistakes_are_found_as_before() -> None:
    true, given, proba = drawn(2_000, symmetric(4, 0.2))
    witnesses = witnesses_of(given, proba, 0.7 * proba + 0.3 / 4)
    found = decide(given, proba, max_false_alarms=0.2, witnesses=witnesses, corrected=True)
    wrong = given != true
    assert found.noise_rate.value == pytest.approx(wrong.mean(), abs=0.05)
    assert np.mean(~wrong[found.is_issue]) < 0.25
