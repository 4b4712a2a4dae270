"""The share of wrong labels, its bound and their intervals: formulas and constants."""

from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given as drawn_by_chance
from scipy.stats import binom

from drawn_labels import drawn, symmetric, witnesses_of
from erase.audit import noise_rate
from erase.audit.feature_noise import joint_posterior, weigh_label
from erase.audit.noise_rate import (
    Estimate,
    _rate_interval,
    independent_share,
    noise_by_class,
    noise_by_features,
)
from erase.methods.relabelling.noise_model import calibrate


def test_many_labels_leave_the_interval_as_the_resamples_have_it() -> None:
    resampled = np.random.default_rng(0).normal(0.2, 0.006, size=50)
    low, high = _rate_interval(0.2, resampled, labels=10_000)
    assert low == pytest.approx(np.percentile(resampled, 5), abs=0.002)
    assert high == pytest.approx(np.percentile(resampled, 95), abs=0.002)
    wide = np.random.default_rng(0).normal(0.2, 0.02, size=50)
    assert _rate_interval(0.2, wide, labels=10_000) == tuple(np.percentile(wide, (5, 95)))
    low, high = _rate_interval(0.0, np.zeros(50), labels=10_000)
    assert low == 0
    assert high == pytest.approx(3 / 10_000, rel=0.01)


@pytest.mark.parametrize(("wrong", "labels"), [(0, 9), (2, 9), (9, 9), (30, 200)])
def test_the_interval_of_a_count_is_that_of_clopper_and_pearson(wrong: int, labels: int) -> None:
    """Written from its definition: rates at which so many, or so few, are a 5 % chance."""
    rates = np.linspace(0, 1, 20_001)
    many, few = binom.sf(wrong - 1, labels, rates), binom.cdf(wrong, labels, rates)
    low, high = _rate_interval(wrong / labels, np.full(50, wrong / labels), labels)
    assert low == pytest.approx(rates[many >= 0.05].min(), abs=1e-4)
    assert high == pytest.approx(rates[few >= 0.05].max(), abs=1e-4)


@drawn_by_chance(
    st.one_of(st.sampled_from([0.0, 1e-300, 1e-16, 1 - 1e-16, 1.0]), st.floats(0, 1)),
    st.lists(st.floats(0, 1), min_size=1, max_size=5),
    st.integers(2, 100_000),
)
def test_an_interval_holds_its_value_and_is_never_a_point(
    rate: float, resampled: list[float], labels: int
) -> None:
    low, high = _rate_interval(rate, np.array(resampled), labels)
    assert 0 <= low <= rate <= high <= 1
    assert low < high


def test_the_bound_on_wrong_labels_has_the_interval_of_the_labels_weight() -> None:
    """Ends: 1.645 standard errors of the weight, or the count of the labels, whichever is wider."""
    rng = np.random.default_rng(0)
    true, given, features = drawn(400, symmetric(3, 0.3), spread=1.5)
    logits = 1.5 * np.eye(3)[true] + rng.normal(size=(400, 3))
    graph = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    weight = weigh_label(given, features, graph)
    shares = []
    for steps in (1.645, 0.0, -1.645):
        moved = replace(weight, weight=weight.weight + steps * weight.error)
        posterior = joint_posterior(given, features, graph, moved)
        shares.append(float(1 - posterior[np.arange(400), given].mean()))
    found = independent_share(given, witnesses_of(given, features, graph))
    low, high = _rate_interval(shares[1], np.full(50, shares[1]), 400)
    assert shares[0] < low < high < shares[2]  # so that the weight decides
    assert (found.low, found.value, found.high) == pytest.approx(shares)


@pytest.mark.parametrize(
    ("weight", "factor"), [(3.2, 0.0), (4.0, 0.0), (2.3, 0.5), (1.4, 1.0), (-1.0, 1.0)]
)
def test_the_more_a_label_adds_the_fewer_contradicted_ones_count_as_wrong(
    weight: float, factor: float
) -> None:
    """From all at a weight of 1.4 to none at 3.2."""
    assert noise_rate._wrong_among(weight) == pytest.approx(factor)


def test_where_mistakes_follow_features_the_bound_leaves_out_right_labels() -> None:
    rng = np.random.default_rng(0)
    true, given, features = drawn(2_000, symmetric(3, 0.4), spread=1.5)
    logits = 1.5 * np.eye(3)[true] + rng.normal(size=(2_000, 3))
    graph = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    known = witnesses_of(given, features, graph)
    weight = weigh_label(given, features, graph)
    assert 1.4 < weight.weight < 3.2
    everything, least = (
        independent_share(given, known, follows_features=follows) for follows in (False, True)
    )
    assert least.value == pytest.approx(everything.value * (3.2 - weight.weight) / 1.8)
    for end, steps in ((least.low, 1.645), (least.high, -1.645)):
        moved = weight.weight + steps * weight.error
        posterior = joint_posterior(given, features, graph, replace(weight, weight=moved))
        contradicted = float(1 - posterior[np.arange(2_000), given].mean())
        assert end == pytest.approx(contradicted * (3.2 - moved) / 1.8)


def test_with_noise_by_features_the_rate_is_at_least_the_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, given, features = drawn(200, symmetric(3, 0.1))
    _, _, graph = drawn(200, symmetric(3, 0.1))
    for bound in (0.0, 0.9):
        stated = Estimate(bound, bound / 2, 1.0)

        def found(*_: Any, follows_features: bool = False, stated: Estimate = stated) -> Estimate:
            assert follows_features
            return stated

        monkeypatch.setattr(noise_rate, "independent_share", found)
        model = noise_by_features(given, witnesses_of(given, features, graph), 0)
        assert model.at_least == stated
        assert (model.rate.low, model.rate.high) == (bound / 2, 1.0)
        assert (model.rate.value == 0.9) == (bound == 0.9)


def test_the_bound_by_class_lies_below_the_interval_of_the_rate() -> None:
    _, given, proba = drawn(400, symmetric(4, 0.2))
    model = noise_by_class(given, proba, calibrate(given, proba), seed=0)
    assert 0.05 < model.rate.low < model.rate.value < model.rate.high < 0.4
    rates = np.linspace(0, 1, 20_001)
    n, count = 400, 400 * model.rate.low
    # the rate at which `count` wrong labels or more are a 5 % chance, between two whole numbers
    ends = [rates[binom.sf(k - 1, n, rates) >= 0.05].min() for k in (int(count), int(count) + 1)]
    assert ends[0] <= model.at_least.value <= ends[1]
    assert model.at_least.low < model.at_least.value < model.rate.low
    assert model.at_least.high >= model.rate.value
