"""Decisions against the model they assume, drawn by hand: rates, posteriors, false alarms."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from drawn_labels import drawn, pairwise, symmetric, witnesses_of
from erase.audit import noise_rate
from erase.audit.agreement import agreement
from erase.audit.decision import IGNORES_FEATURES, decide
from erase.audit.noise_rate import independent_share
from erase.audit.statements import wrong_share_sentences
from erase.audit.witnesses import Floats, Witnesses, pool
from erase.errors import EraseError


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


def test_a_graph_that_predicts_the_labels_makes_up_for_models_that_do_not() -> None:
    """The agreement is that of both together."""
    true, given, _ = drawn(300, symmetric(3, 0.1))
    proba = np.random.default_rng(1).dirichlet(np.ones(3), 300)
    graph = 0.1 + 0.7 * np.eye(3)[true]
    found = decide(given, proba, max_false_alarms=0.2, witnesses=witnesses_of(given, None, graph))
    pooled = agreement(given, pool([proba, graph], given, 0, keep_confidence=True))
    assert found.agreement.model == pooled.model
    assert found.agreement.correlation == pytest.approx(pooled.correlation)
    assert found.agreement.is_informative
    assert not decide(given, proba, max_false_alarms=0.2).agreement.is_informative


def repeating(
    given: NDArray[np.int64], true: NDArray[np.int64], share: float, strength: float = 1.0
) -> Witnesses:
    """Return features and a graph that repeat the same given labels, and tell the others' truth."""
    rng = np.random.default_rng(0)
    n, k = len(given), int(given.max()) + 1
    seen = np.where(rng.random(n) < share, given, true)
    logits = strength * np.eye(k)[seen] + rng.normal(size=(2, n, k))
    features, graph = np.exp(logits) / np.exp(logits).sum(2, keepdims=True)
    return witnesses_of(given, features, graph)


def test_the_bound_is_the_smaller_one_of_two() -> None:
    """Of that by class, and of what features and graph contradict if mistakes ignore features."""
    true, given, proba = drawn(600, symmetric(4, 0.2))
    alone = decide(given, proba, max_false_alarms=0.2)
    known = repeating(given, true, share=0.5)
    found = decide(given, proba, max_false_alarms=0.2, witnesses=known)
    bound = independent_share(given, known)
    assert found.assumption == IGNORES_FEATURES
    assert found.at_least == bound
    assert 0 < bound.value < alone.at_least.value
    truthful = repeating(given, true, share=0.0, strength=2.0)
    bound = independent_share(given, truthful)
    found = decide(given, proba, max_false_alarms=0.2, witnesses=truthful)
    assert found.feature_noise is not None
    assert bound.low > alone.at_least.low
    assert bound.value > alone.at_least.value
    assert bound.high > alone.at_least.high
    assert found.at_least == alone.at_least


def test_where_most_nodes_have_no_label_the_graph_does_not_lower_the_bound() -> None:
    true, given, proba = drawn(600, symmetric(4, 0.2))
    known = replace(repeating(given, true, share=0.5), coverage=0.4)
    found = decide(given, proba, max_false_alarms=0.2, witnesses=known)
    assert found.feature_noise is None
    assert found.at_least == decide(given, proba, max_false_alarms=0.2).at_least
    assert independent_share(given, known).value < found.at_least.value


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


@pytest.mark.parametrize("seed", range(3))
def test_half_of_the_labels_may_be_wrong(seed: int) -> None:
    _, given, proba = drawn(300, symmetric(7, 0.5), seed=seed)
    found = decide(given, proba, max_false_alarms=0.2)
    assert found.agreement.correlation > 3 * found.agreement.needed
    assert found.is_issue.any()


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
    assert first.startswith("0.0% to 28.3% of the labels look wrong: the first is a lower bound")


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


def test_the_intervals_of_transitions_hold_the_transitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Resamples need not: here all are beside the estimate."""
    _, given, proba = drawn(60, symmetric(3, 0.3))
    for beside in (-1.0, 2.0):
        monkeypatch.setattr(noise_rate, "_interval_of", lambda drawn, v=beside: (v, v))
        found = decide(given, proba, max_false_alarms=0.2)
        low, high = (found.transition, beside)[:: 1 if beside > 1 else -1]
        np.testing.assert_array_equal(found.transition_low, np.broadcast_to(low, (3, 3)))
        np.testing.assert_array_equal(found.transition_high, np.broadcast_to(high, (3, 3)))
