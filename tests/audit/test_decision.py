"""Decisions against the model they assume, drawn by hand: rates, posteriors, false alarms."""

from dataclasses import replace
from itertools import permutations
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given as drawn_by_chance
from numpy.typing import NDArray
from scipy.stats import binom, norm
from sklearn.metrics import matthews_corrcoef, roc_auc_score

from erase.audit import decision as decisions
from erase.audit.decision import (
    Estimate,
    _calibrated,
    _independent_share,
    _noise_by_features,
    _rate_interval,
    agreement,
    contradicted_share,
    decide,
    flag,
    verdicts,
)
from erase.audit.feature_noise import joint_posterior, weigh_label
from erase.audit.statements import wrong_share_sentences
from erase.audit.witnesses import Witnesses, pool
from erase.errors import EraseError
from erase.methods.relabelling.noise_model import (
    Calibration,
    calibrate,
    log_proba,
    maximise,
    powered,
)

Floats = NDArray[np.float64]


def drawn(
    n: int, transition: Floats, seed: int = 0, spread: float = 3.0
) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
    """Return true classes [n], given ones [n] and the true posteriors [n, K] of random nodes."""
    rng = np.random.default_rng(seed)
    k = len(transition)
    logits = spread * rng.normal(size=(n, k))
    proba = np.exp(logits - logits.max(1, keepdims=True))
    proba /= proba.sum(1, keepdims=True)
    true = np.array([rng.choice(k, p=row) for row in proba])
    given = np.array([rng.choice(k, p=transition[c]) for c in true])
    return true, given, proba


def symmetric(k: int, rate: float) -> Floats:
    matrix = np.full((k, k), rate / (k - 1))
    np.fill_diagonal(matrix, 1 - rate)
    return matrix


def pairwise(k: int, rate: float) -> Floats:
    return (1 - rate) * np.eye(k) + rate * np.roll(np.eye(k), 1, axis=1)


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("kind", [symmetric, pairwise])
@pytest.mark.parametrize("distortion", [1.0, 0.5])
def test_rate_transition_and_false_alarms_are_those_of_the_draw(
    rate: float, kind: object, distortion: float
) -> None:
    transition = (symmetric if kind is symmetric else pairwise)(4, rate)
    true, given, proba = drawn(3_000, transition)
    distorted = proba**distortion  # an underconfident model
    found = decide(given, distorted / distorted.sum(1, keepdims=True), max_false_alarms=0.2)
    wrong = given != true
    assert found.noise_rate.value == pytest.approx(wrong.mean(), abs=0.03)
    assert found.noise_rate.low <= found.noise_rate.value <= found.noise_rate.high
    assert found.noise_rate.high - found.noise_rate.low < 0.08
    np.testing.assert_allclose(found.transition, transition, atol=0.08)
    np.testing.assert_allclose(found.transition.sum(1), 1)
    assert (found.transition_low <= found.transition).all()
    assert (found.transition <= found.transition_high).all()
    if rate:
        assert roc_auc_score(wrong, -found.quality) > 0.85
        promised = found.expected_false_alarms
        assert 0.1 < promised <= 0.2
        chance = 0.02 + 3 * np.sqrt(promised * (1 - promised) / found.is_issue.sum())
        assert np.mean(~wrong[found.is_issue]) == pytest.approx(promised, abs=chance)
        assert found.is_issue.sum() > 0.5 * wrong.sum() if rate == 0.3 else found.is_issue.any()
    for low in (0.0, 0.2, 0.4, 0.6, 0.8):  # quality means what it says
        inside = (found.quality >= low) & (found.quality < low + 0.2)
        if inside.sum() > 100:
            assert np.mean(~wrong[inside]) == pytest.approx(found.quality[inside].mean(), abs=0.12)


@pytest.mark.parametrize("rate", [0.1, 0.3])
def test_what_a_method_has_corrected_is_sharpened_by_the_rate_of_wrong_labels(rate: float) -> None:
    """Its probabilities are too modest by the power (1 − rate)^-1.5, and its own mistakes stay."""
    true, given, proba = drawn(3_000, symmetric(4, rate))
    wrong = given != true
    modest = proba ** (1 - rate) ** 1.5
    modest /= modest.sum(1, keepdims=True)
    plain, found = (
        decide(given, modest, max_false_alarms=0.2, corrected=corrected)
        for corrected in (False, True)
    )
    assert found.noise_rate.value < plain.noise_rate.value + 0.005
    assert found.noise_rate.low <= wrong.mean() <= found.noise_rate.high
    assert found.is_issue.any()
    assert np.mean(~wrong[found.is_issue]) < 0.25


def test_mistakes_of_a_corrected_model_are_not_called_wrong_labels() -> None:
    """A tenth of the nodes looks like another class: nothing tells them from wrong labels."""
    rng = np.random.default_rng(0)
    true = rng.integers(5, size=400)
    seen = np.where(rng.random(400) < 0.1, rng.integers(5, size=400), true)
    logits = 2.0 * np.eye(5)[seen] + rng.normal(size=(400, 5))
    proba = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    plain, found = (
        decide(true, proba, max_false_alarms=0.2, corrected=corrected)
        for corrected in (False, True)
    )
    assert found.noise_rate.value < 0.75 * plain.noise_rate.value
    assert found.is_issue.sum() < plain.is_issue.sum() / 2


def test_flags_are_the_largest_set_within_the_limit() -> None:
    quality = np.array([0.9, 0.1, 0.5, 0.0, 0.3])
    assert np.flatnonzero(flag(quality, 0.2)).tolist() == [1, 3, 4]  # mean 0.133; 0.225 is next
    assert np.flatnonzero(flag(quality, 0.225)).tolist() == [1, 2, 3, 4]
    assert not flag(quality[:3], 0.05).any()
    assert flag(quality, 1.0).all()
    assert flag(np.array([]), 0.5).tolist() == []


def test_labels_of_equal_quality_share_their_fate() -> None:
    assert not flag(np.array([0.3, 0.3, 0.3]), 0.2).any()
    flagged = flag(np.array([0.0, 0.5, 0.5, 0.5]), 0.3)
    assert flagged.tolist() == [True, False, False, False]  # a part of the ties would fit


@pytest.mark.parametrize("limit", [0.0, 0.05, 0.2, 0.5, 1.0])
def test_what_is_flagged_keeps_its_promise(limit: float) -> None:
    _, given, proba = drawn(400, pairwise(5, 0.3))
    found = decide(given, proba, max_false_alarms=limit)
    assert found.expected_false_alarms <= limit
    if found.is_issue.any():
        assert found.expected_false_alarms == pytest.approx(found.quality[found.is_issue].mean())
        assert found.threshold == found.quality[found.is_issue].max()
    other = found.suggested != given
    assert other[found.is_issue].all()
    if found.is_issue.any() and limit < 0.5:
        assert (found.quality[other & ~found.is_issue] > found.threshold).all()
    assert found.is_issue.sum() == (other.sum() if limit >= 0.5 else found.is_issue.sum())
    wrong = found.is_issue & (found.posterior.max(1) > 0.5)
    assert ((found.verdict == "wrong") == wrong).all()
    right = (found.quality > 0.5) & (proba.argmax(1) == given)
    assert ((found.verdict == "right") == right).all()
    assert set(found.verdict) <= {"wrong", "right", "can't tell"}


def test_what_models_contradict_is_not_called_right() -> None:
    """Labels go wrong where the models are unsure: nothing is flagged, and quality is high."""
    rng = np.random.default_rng(0)
    true = rng.integers(2, size=2_000)
    sure = 1 / (1 + np.exp(-rng.normal(scale=3.0, size=2_000)))
    proba = np.stack([1 - sure, sure], 1)
    given = (rng.random(2_000) < sure).astype(np.int64)  # as the probabilities say
    assert (given != true).mean() > 0.2
    found = decide(given, proba, max_false_alarms=0.2)
    against = proba.argmax(1) != given
    assert 0.1 < against.mean() < 0.3
    assert found.is_issue.mean() < 0.05
    assert (found.quality[against] > 0.5).mean() > 0.5
    assert not (found.verdict[against] == "right").any()
    assert (found.verdict[~against] == "right").all()


def test_what_models_contradict_together_with_the_graph_is_not_called_right() -> None:
    true, given, proba = drawn(1_000, symmetric(4, 0.1))
    rng = np.random.default_rng(1)
    graph = rng.dirichlet(np.ones(4), 1_000) + np.eye(4)[true]
    graph /= graph.sum(1, keepdims=True)
    found = decide(given, proba, max_false_alarms=0.2, witnesses=witnesses_of(given, proba, graph))
    pooled = pool([proba, graph], given, 0, keep_confidence=True)
    alone, together = (each.argmax(1) != given for each in (proba, pooled))
    assert (alone & ~together).any()
    assert (together & ~alone).any()
    assert (found.contradicted == (alone | together)).all()
    assert not (found.verdict[alone | together] == "right").any()


def test_a_label_whose_own_class_is_the_most_probable_is_never_flagged() -> None:
    """With a certain and correct model, allowed false alarms stay unused."""
    true, given, proba = drawn(2_000, symmetric(4, 0.1), spread=30.0)
    found = decide(given, proba, max_false_alarms=0.2)
    assert (found.suggested != given)[found.is_issue].all()
    assert found.quality[found.is_issue].max() < 0.5
    assert found.is_issue.sum() == pytest.approx((given != true).sum(), rel=0.05)
    assert found.expected_false_alarms < 0.05
    everything = decide(given, proba, max_false_alarms=1.0)
    assert (everything.is_issue == (everything.suggested != given)).all()


def test_verdicts_by_hand() -> None:
    posterior = np.array(
        [
            [0.1, 0.9, 0.0],  # another class is more probable than all others together
            [0.3, 0.4, 0.3],  # another class is the most probable, but not by so much
            [0.4, 0.3, 0.3],  # the given class is the most probable, though hardly
            [0.9, 0.1, 0.0],
            [0.2, 0.4, 0.4],
            [0.5, 0.5, 0.0],  # no class is more probable than the given one
        ]
    )
    given, nowhere = np.array([0, 0, 0, 0, 1, 1]), np.zeros(6, bool)
    flagged, verdict = verdicts(given, posterior, 0.2, nowhere)
    assert flagged.tolist() == [True, True, False, False, False, False]
    unsure = ["can't tell"]
    assert verdict.tolist() == ["wrong", *unsure * 2, "right", *unsure * 2]
    flagged, verdict = verdicts(given, posterior, 0.15, nowhere)
    assert flagged.tolist() == [True] + [False] * 5
    flagged, verdict = verdicts(given, posterior, 0.0, nowhere)
    assert not flagged.any()
    assert verdict.tolist() == [*unsure * 3, "right", *unsure * 2]  # not flagged is not right
    flagged, _ = verdicts(given, posterior, 1.0, nowhere)
    assert flagged.tolist() == [True, True, False, False, False, False]
    _, verdict = verdicts(given, posterior, 0.2, np.array([True, False, False, True, False, False]))
    assert verdict.tolist() == ["wrong", *unsure * 5]  # contradicted: not right


def test_the_only_label_of_a_class_is_never_decided_however_probable_it_is() -> None:
    posterior = np.array([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9]])
    flagged, verdict = verdicts(np.array([0, 0, 1]), posterior, 0.2, np.zeros(3, bool))
    assert not flagged.any()
    assert verdict.tolist() == ["right", "right", "can't tell"]


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


@pytest.mark.parametrize("seed", range(3))
def test_half_of_the_labels_may_be_wrong(seed: int) -> None:
    _, given, proba = drawn(300, symmetric(7, 0.5), seed=seed)
    found = decide(given, proba, max_false_alarms=0.2)
    assert found.agreement.correlation > 3 * found.agreement.needed
    assert found.is_issue.any()


def test_a_correlation_can_be_certain_and_too_weak() -> None:
    rng = np.random.default_rng(0)
    chance = 0.5 + 0.015 * rng.choice([-1, 1], size=200_000)
    found = agreement((rng.random(200_000) < chance).astype(int), np.stack([1 - chance, chance], 1))
    assert found.correlation > 2.33 * np.sqrt(2 / 200_000)
    assert found.needed == 0.05
    assert not found.is_informative


def test_few_labels_have_a_wide_interval() -> None:
    """None of nine labels is wrong: with 95 % certainty no more than 28 % of such labels are."""
    given = np.repeat([0, 1, 2], 3)
    found = decide(given, 0.0001 + 0.9997 * np.eye(3)[given], max_false_alarms=0.2)
    assert found.agreement.is_informative
    assert found.noise_rate.value < 0.05
    assert found.noise_rate.low < 0.01
    assert 0.28 < found.noise_rate.high < 0.4
    assert found.at_least.low <= found.at_least.value < 0.01
    assert found.at_least.high > 0.28
    perfect = decide(given, np.eye(3)[given], max_false_alarms=0.2)
    first = wrong_share_sentences(perfect)[0]
    assert first.endswith("(90 % interval of this bound 0.0% to 28.3%).")


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


def test_more_false_alarms_flag_more_labels() -> None:
    _, given, proba = drawn(400, symmetric(5, 0.3))
    counts = [decide(given, proba, max_false_alarms=a).is_issue.sum() for a in (0.01, 0.1, 0.4)]
    assert counts[0] < counts[1] < counts[2]


def test_names_and_order_of_nodes_and_classes_do_not_matter() -> None:
    _, given, proba = drawn(300, pairwise(4, 0.3))
    found = decide(given, proba, max_false_alarms=0.2)
    shuffled = np.random.default_rng(1).permutation(300)
    moved = decide(given[shuffled], proba[shuffled], max_false_alarms=0.2)
    np.testing.assert_allclose(moved.quality, found.quality[shuffled], atol=0.05)  # other folds
    names = np.array([2, 0, 3, 1])  # class c is called names[c]
    renamed = decide(names[given], proba[:, np.argsort(names)], max_false_alarms=0.2)
    np.testing.assert_allclose(renamed.quality, found.quality, atol=0.05)
    np.testing.assert_allclose(
        renamed.transition[np.ix_(names, names)], found.transition, atol=0.05
    )


def test_the_seed_decides_folds_and_samples() -> None:
    _, given, proba = drawn(200, symmetric(3, 0.3))
    first, again, other = (
        decide(given, proba, max_false_alarms=0.2, seed=seed) for seed in (0, 0, 1)
    )
    assert first.noise_rate == again.noise_rate
    assert first.noise_rate != other.noise_rate
    np.testing.assert_array_equal(first.quality, again.quality)
    np.testing.assert_allclose(first.quality, other.quality, atol=0.1)
    wide = decide(given[:50], proba[:50], max_false_alarms=0.2).noise_rate
    assert wide.high - wide.low > first.noise_rate.high - first.noise_rate.low


def test_the_only_label_of_a_class_is_never_flagged_and_takes_no_part() -> None:
    """Five labels that look wrong, forty right, and the only one of its class."""
    given = np.array([0] * 25 + [1] * 20)
    proba = np.array(
        [[0.02, 0.97, 0.01]] * 5 + [[0.97, 0.02, 0.01]] * 20 + [[0.02, 0.97, 0.01]] * 20
    )
    without = decide(given, proba, max_false_alarms=1.0)
    found = decide(np.append(given, 2), np.vstack([proba, [0.7, 0.3, 0.0]]), max_false_alarms=1.0)
    assert without.is_issue.tolist() == [True] * 5 + [False] * 40
    assert found.is_issue.tolist() == [*without.is_issue.tolist(), False]
    assert found.suggested[-1] != 2
    assert found.agreement == without.agreement
    assert found.verdict[-1] == "can't tell"
    np.testing.assert_allclose(found.quality[:-1], without.quality)
    assert found.noise_rate == without.noise_rate
    np.testing.assert_array_equal(found.transition, without.transition)
    np.testing.assert_allclose(found.posterior[-1].sum(), 1)
    assert found.quality[-1] < 0.5


@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_the_only_label_of_a_class_never_shows_that_it_is_right(rate: float) -> None:
    """A misspelt class: models that never saw it give it no probability, or all of it."""
    _, given, proba = drawn(200, symmetric(3, rate))
    proba = np.hstack([proba, np.zeros((200, 1))])
    for row in ([0.6, 0.3, 0.1, 0.0], [0.0, 0.0, 0.0, 1.0]):
        found = decide(np.append(given, 3), np.vstack([proba, row]), max_false_alarms=1.0)
        assert 0 < found.quality[-1] <= 0.5
        assert found.verdict[-1] == "can't tell"
        assert not found.is_issue[-1]
    small = (1 - found.noise_rate.value) / 201
    large = found.noise_rate.value * 200 / 201 / 3
    assert found.quality[-1] == pytest.approx(min(0.5, small / (small + large)))
    assert (found.quality[-1] < 0.1) == (rate > 0)


@pytest.mark.parametrize(
    ("given", "proba"),
    [
        (np.array([0, 0]), np.array([[1.0, 0.0]] * 2)),
        (np.array([1, 1]), np.array([[1.0, 0.0]] * 2)),
        (np.array([0, 0, 0]), np.full((3, 4), 0.25)),
        (np.array([0, 0, 1]), np.array([[1e-30, 1.0]] * 2 + [[1.0, 1e-30]])),
        (np.array([0, 0]), np.ones((2, 1))),
    ],
    ids=["two nodes", "a zero for the given label", "no idea", "all wrong", "one class"],
)
def test_small_and_extreme_input_gives_probabilities(
    given: NDArray[np.int64], proba: Floats
) -> None:
    found = decide(given, proba, max_false_alarms=0.2)
    np.testing.assert_allclose(found.posterior.sum(1), 1)
    assert np.isfinite(found.transition).all()
    assert 0 <= found.noise_rate.low <= found.noise_rate.high <= 1


@pytest.mark.parametrize(
    ("given", "proba", "limit", "words"),
    [
        (np.array([0, 1]), np.ones((3, 2)), 0.2, "at least one node"),
        (np.array([], dtype=int), np.ones((0, 2)), 0.2, "at least one node"),
        (np.array([2]), np.ones((1, 2)), 0.2, "classes from 0 to 1"),
        (np.array([-1]), np.ones((1, 2)), 0.2, "without a label"),
        (np.array([0]), np.ones((1, 2)), 0.2, "two labels of one class"),
        (np.array([0, 1]), np.ones((2, 2)), 0.2, "2 labels, each the only one"),
        (np.array([0, 0]), np.array([[np.nan, 1.0]] * 2), 0.2, "probabilities"),
        (np.array([0, 0]), np.array([[-0.1, 1.1]] * 2), 0.2, "probabilities"),
        (np.array([0, 0]), np.zeros((2, 2)), 0.2, "probabilities"),
        (np.array([0, 0]), np.ones((2, 2)), 1.5, "false alarms"),
    ],
)
def test_bad_input_is_refused(
    given: NDArray[np.int64], proba: Floats, limit: float, words: str
) -> None:
    with pytest.raises(EraseError, match=words):
        decide(given, proba, max_false_alarms=limit)


# Formulas and constants ---------------------------------------------------------------------------


def witnesses_of(
    given: NDArray[np.int64],
    features: Floats | None,
    graph: Floats,
    coverage: float = 1.0,
) -> Witnesses:
    return Witnesses(features, features, graph, graph, coverage)


def test_a_corrected_model_is_too_modest_by_a_power_of_the_rate() -> None:
    """A normal density of log τ around -1.5 log(1 − rate), with a standard deviation of 0.1."""
    matrices = np.stack([symmetric(4, rate) for rate in (0.0, 0.1, 0.3)])
    best = np.array([1.0, 0.9**-1.5, 0.7**-1.5])
    for steps in (0.0, 1.0, -2.0):
        found = decisions._prior_of_corrected(best * np.exp(0.1 * steps), matrices)
        np.testing.assert_allclose(found, -(steps**2) / 2, atol=1e-12)


def test_a_rate_below_the_least_is_a_matter_of_two_hundredths() -> None:
    matrices = np.stack([pairwise(4, rate) for rate in (0.2, 0.18, 0.16, 0.3)])
    found = decisions._prior_of_rate(0.2, np.ones(4), matrices)
    np.testing.assert_allclose(found, [0, -0.5, -2, 0], atol=1e-12)


def test_a_third_of_the_weight_is_for_corrected_probabilities_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[dict[str, Any]] = []

    def watched(*arguments: Any, **options: Any) -> Calibration:
        seen.append(options)
        return calibrate(*arguments, **options)

    monkeypatch.setattr(decisions, "calibrate", watched)
    _, given, proba = drawn(200, symmetric(3, 0.2))
    _calibrated(given, proba, 0, True, 0.0)
    _calibrated(given, proba, 0, False, 0.0)
    assert seen[0]["unchanged"] == 0.35
    np.testing.assert_allclose(seen[0]["powers"], np.geomspace(1, 8, 28))
    assert sorted(np.bincount(seen[0]["folds"]).tolist()) == [40] * 5
    assert set(seen[1]) == {"folds"}


def test_models_that_find_fewer_wrong_labels_than_there_are_at_least_are_left_out() -> None:
    _, given, proba = drawn(600, symmetric(4, 0.0), spread=1.0)
    usual, found = (_calibrated(given, proba, 0, False, least) for least in (0.0, 0.15))
    rates = [1 - np.trace(one.transition) / 4 for one in (usual, found)]
    assert rates[0] < 0.05
    assert rates[1] > 0.1


def test_noise_models_of_a_sample_are_fitted_to_all_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "_WEIGHED", 100)
    _, given, proba = drawn(1_000, pairwise(3, 0.3))
    found = _calibrated(given, proba, 0, False, 0.0)
    order = np.argsort(given, kind="stable")
    logs = log_proba(proba)[order]
    for power, count, matrix in zip(
        found.powers, found.prior_counts, found.transitions, strict=True
    ):
        expected = maximise(given[order], powered(logs, power)[None], count[None])[0]
        np.testing.assert_allclose(matrix, expected, atol=3e-3)


def test_contradictions_are_counted_by_hand() -> None:
    """Of 200 labels 40 contradict both; of the others both disagree on 20."""
    features, graph, given = np.arange(200) % 2, np.arange(200) % 2, np.arange(200) % 2
    given = np.where(np.arange(200) < 40, 1 - given, given)
    graph = np.where(np.arange(200) >= 180, 1 - graph, graph)
    expected = 40 / 200 - 0.5 * (20 / 200) / 0.5
    hot = np.eye(2)
    both = (hot[features], hot[graph])
    assert contradicted_share(given, witnesses_of(given, *both)) == pytest.approx(expected)
    assert contradicted_share(given, witnesses_of(given, *both, 0.5)) == pytest.approx(expected)
    assert contradicted_share(given, witnesses_of(given, *both, 0.49)) == 0
    assert contradicted_share(given, witnesses_of(given, None, both[1])) == 0
    few = slice(0, 99)
    assert contradicted_share(given[few], witnesses_of(given, both[0][few], both[1][few])) == 0
    few = slice(0, 100)
    assert contradicted_share(given[few], witnesses_of(given, both[0][few], both[1][few])) == 0.4
    same = hot[np.zeros(200, int)]  # both always name the same class
    assert contradicted_share(given, witnesses_of(given, same, same)) == 0


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
    found = _independent_share(given, witnesses_of(given, features, graph))
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
    assert decisions._wrong_among(weight) == pytest.approx(factor)


def test_where_mistakes_follow_features_the_bound_leaves_out_right_labels() -> None:
    rng = np.random.default_rng(0)
    true, given, features = drawn(2_000, symmetric(3, 0.4), spread=1.5)
    logits = 1.5 * np.eye(3)[true] + rng.normal(size=(2_000, 3))
    graph = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    known = witnesses_of(given, features, graph)
    weight = weigh_label(given, features, graph)
    assert 1.4 < weight.weight < 3.2
    everything, least = (
        _independent_share(given, known, follows_features=follows) for follows in (False, True)
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

        monkeypatch.setattr(decisions, "_independent_share", found)
        model = _noise_by_features(given, witnesses_of(given, features, graph), 0)[1]
        assert model.at_least == stated
        assert (model.rate.low, model.rate.high) == (bound / 2, 1.0)
        assert (model.rate.value == 0.9) == (bound == 0.9)


def test_the_intervals_of_transitions_hold_the_transitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Resamples need not: here all are beside the estimate."""
    _, given, proba = drawn(60, symmetric(3, 0.3))
    for beside in (-1.0, 2.0):
        monkeypatch.setattr(decisions, "_interval_of", lambda drawn, v=beside: (v, v))
        found = decide(given, proba, max_false_alarms=0.2)
        low, high = (found.transition, beside)[:: 1 if beside > 1 else -1]
        np.testing.assert_array_equal(found.transition_low, np.broadcast_to(low, (3, 3)))
        np.testing.assert_array_equal(found.transition_high, np.broadcast_to(high, (3, 3)))
