"""Whether predictions agree with labels better than chance: by its definition, and on draws."""

from itertools import permutations

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.metrics import matthews_corrcoef

from erase.audit.agreement import agreement
from erase.audit.decision import decide


def test_the_correlation_of_chosen_classes_is_that_of_matthews() -> None:
    rng = np.random.default_rng(0)
    given = rng.choice(4, size=200, p=[0.6, 0.2, 0.1, 0.1])
    chosen = np.where(rng.random(200) < 0.4, given, rng.integers(4, size=200))
    found = agreement(given, np.eye(4)[chosen])
    assert found.correlation == pytest.approx(matthews_corrcoef(given, chosen))
    assert found.model == np.mean(chosen == given)
    assert found.majority == np.bincount(given).max() / 200
    assert agreement(given, np.eye(4)[given]).correlation == pytest.approx(1)


def test_what_is_needed_follows_from_all_orders_of_the_labels() -> None:
    proba = np.random.default_rng(0).dirichlet(np.ones(3), size=7)
    given = np.array([0, 0, 0, 0, 1, 1, 2])
    orders = np.array([given[list(order)] for order in permutations(range(7))])
    chance = [agreement(order, proba).correlation for order in orders[::7]]  # a 7th of 5,040
    chance += [agreement(order, proba).correlation for order in orders[3::7]]
    assert np.mean(chance) == pytest.approx(0, abs=0.03)
    needed = norm.isf(0.01) * np.sqrt(2) * np.std(chance)
    assert agreement(given, proba).needed == pytest.approx(needed, rel=0.03)


@pytest.mark.parametrize("shares", [[0.5, 0.5], [0.8, 0.2], [1 / 7] * 7], ids=len)
def test_probabilities_without_meaning_are_not_informative(shares: list[float]) -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        given = rng.choice(len(shares), size=300, p=shares)
        for strength in (0.3, 3.0):
            proba = rng.dirichlet(strength * np.array(shares) * len(shares), size=300)
            assert not agreement(given, proba).is_informative
    found = decide(given, proba, max_false_alarms=1.0)
    assert not found.is_issue.any()
    assert set(found.verdict) == {"can't tell"}
    assert (found.noise_rate.low, found.noise_rate.high) == (0.0, 1.0)
    assert (found.expected_false_alarms, found.threshold) == (0.0, 0.0)


@pytest.mark.parametrize("row", [[0.1, 0.2, 0.7], [1 / 3] * 3])
def test_the_same_answer_for_all_is_not_informative(row: list[float]) -> None:
    found = agreement(np.array([2] * 70 + [1] * 30), np.tile(row, (100, 1)))
    assert found.correlation == 0
    assert not found.is_informative
    assert not agreement(np.zeros(50, int), np.random.default_rng(0).random((50, 2))).is_informative


def test_rare_labels_that_are_separated_are_informative_without_any_gain_in_agreement() -> None:
    """The rare class is never the most probable one, yet its nodes are those where it is likely."""
    rng = np.random.default_rng(0)
    chance = rng.choice([0.05, 0.45], size=2_000, p=[0.6, 0.4])
    given = (rng.random(2_000) < chance).astype(int)
    found = agreement(given, np.stack([1 - chance, chance], axis=1))
    assert found.model == found.majority == np.mean(given == 0)
    assert found.is_informative
    assert found.correlation > 5 * found.needed


def test_a_correlation_can_be_certain_and_too_weak() -> None:
    rng = np.random.default_rng(0)
    chance = 0.5 + 0.015 * rng.choice([-1, 1], size=200_000)
    found = agreement((rng.random(200_000) < chance).astype(int), np.stack([1 - chance, chance], 1))
    assert found.correlation > 2.33 * np.sqrt(2 / 200_000)
    assert found.needed == 0.05
    assert not found.is_informative
