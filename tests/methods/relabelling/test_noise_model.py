"""Labels gone wrong as the model has it: its parts against loops, its answers against truth."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given as examples
from hypothesis import strategies as st
from numpy.typing import NDArray

from erase.methods.relabelling import noise_model
from erase.methods.relabelling.noise_model import (
    POWERS,
    PRIOR_COUNTS,
    assign_folds,
    calibrate,
    log_proba,
    maximise,
    posteriors,
    powered,
    predicted,
)

Floats = NDArray[np.float64]
Classes = NDArray[np.int64]


def drawn(n: int, transition: Floats, seed: int = 0, spread: float = 3.0) -> tuple[Classes, Floats]:
    """Return given classes [n], ascending, and the true posteriors [n, K] of random nodes."""
    rng = np.random.default_rng(seed)
    k = len(transition)
    proba = powered(spread * rng.normal(size=(n, k)), 1.0)
    true = np.array([rng.choice(k, p=row) for row in proba])
    given = np.array([rng.choice(k, p=transition[c]) for c in true])
    order = np.argsort(given, kind="stable")
    return given[order], proba[order]


def symmetric(k: int, rate: float) -> Floats:
    matrix = np.full((k, k), rate / (k - 1))
    np.fill_diagonal(matrix, 1 - rate)
    return matrix


def pairwise(k: int, rate: float) -> Floats:
    return (1 - rate) * np.eye(k) + rate * np.roll(np.eye(k), 1, axis=1)


def by_loops(
    given: Classes,
    calibrated: Floats,
    prior_counts: float,
    steps: int,
    weights: Floats | None = None,
) -> Floats:
    """Return T after so many steps of expectation–maximisation, one label at a time."""
    k = calibrated.shape[1]
    weights = np.ones(len(given)) if weights is None else weights
    matrix = np.full((k, k), 0.1 / (k - 1))
    np.fill_diagonal(matrix, 0.9)
    for _ in range(steps):
        counts = np.zeros((k, k))
        for row, g, weight in zip(calibrated, given, weights, strict=True):
            joint = row * matrix[:, g]
            counts[:, g] += weight * joint / joint.sum()
        rate = sum(counts[i, j] for i in range(k) for j in range(k) if i != j) / weights.sum()
        for i in range(k):
            for j in range(k):
                flips = 1 - rate if i == j else rate / (k - 1)
                counts[i, j] += prior_counts * flips + 0.01 + (i == j)
        matrix = counts / counts.sum(1, keepdims=True)
    return matrix


@pytest.mark.parametrize("steps", [1, 7])
def test_the_transitions_are_those_of_counting_label_by_label(steps: int) -> None:
    given, proba = drawn(120, pairwise(3, 0.3))
    weights = np.random.default_rng(0).integers(0, 4, size=120).astype(float)
    logs = np.log(proba)
    stack = np.stack([powered(logs, 1.0), powered(logs, 0.5)])
    prior_counts = np.array([0.5, 50.0])
    for counted in (None, weights):
        found = maximise(given, stack, prior_counts, weights=counted, most_steps=steps)
        for matrix, calibrated, number in zip(found, stack, prior_counts, strict=True):
            expected = by_loops(given, calibrated, number, steps, counted)
            np.testing.assert_allclose(matrix, expected, atol=1e-12)


def test_fitting_continues_from_the_given_start() -> None:
    given, proba = drawn(80, symmetric(3, 0.2))
    once = maximise(given, proba[None], np.array([5.0]), most_steps=4)
    twice = maximise(given, proba[None], np.array([5.0]), once, most_steps=3)
    at_once = maximise(given, proba[None], np.array([5.0]), most_steps=7)
    np.testing.assert_allclose(twice, at_once)
    unchanged = maximise(given[:0], proba[None, :0], np.array([5.0]), once)
    np.testing.assert_array_equal(unchanged, once)


def test_a_class_without_labels_has_a_row_all_the_same() -> None:
    given, proba = drawn(60, symmetric(3, 0.2))
    proba = np.hstack([proba * 0.9, np.full((60, 1), 0.1)])
    matrix = maximise(given, proba[None], np.array([5.0]))[0]
    np.testing.assert_allclose(matrix.sum(1), 1)
    assert (matrix > 0).all()
    assert matrix[:3, 3].max() < 0.05


def test_posteriors_and_predictions_are_bayes_rule() -> None:
    given, proba = drawn(30, pairwise(3, 0.3))
    matrix = pairwise(3, 0.3)
    chances = predicted(given, proba, matrix)
    beliefs = posteriors(given, proba, matrix)
    for i, g in enumerate(given):
        joint = [proba[i, k] * matrix[k, g] for k in range(3)]
        assert chances[i] == pytest.approx(sum(joint))
        np.testing.assert_allclose(beliefs[i], np.array(joint) / sum(joint))


def test_a_calibration_is_the_weighted_mean_of_its_models() -> None:
    given, proba = drawn(200, symmetric(3, 0.3))
    calibration = calibrate(given, proba, folds=np.arange(200) % 5)
    assert calibration.weights.sum() == pytest.approx(1)
    assert calibration.weights.min() > 0
    logs = log_proba(proba)
    mean, belief = np.zeros_like(proba), np.zeros_like(proba)
    for power, matrix, weight in zip(
        calibration.powers, calibration.transitions, calibration.weights, strict=True
    ):
        mean += weight * powered(logs, power)
        belief += weight * posteriors(given, powered(logs, power), matrix)
    np.testing.assert_allclose(calibration.calibrated(proba), mean)
    np.testing.assert_allclose(calibration.posterior(given, proba), belief)
    np.testing.assert_allclose(
        calibration.transition, np.tensordot(calibration.weights, calibration.transitions, 1)
    )


def test_models_are_weighted_by_held_out_labels() -> None:
    given, proba = drawn(60, pairwise(3, 0.3))
    fold = np.arange(60) % 4
    calibration = calibrate(given, proba, powers=(1.0,), prior_counts=(5.0,), folds=fold)
    expected = np.empty(60)
    for index in range(4):
        others = fold != index
        matrix = maximise(given[others], proba[None, others], np.array([5.0]))[0]
        expected[~others] = predicted(given[~others], proba[~others], matrix)
    np.testing.assert_allclose(calibration.likelihood, expected, rtol=0.02)
    of_all = maximise(given, proba[None], np.array([5.0]))[0]
    in_sample = calibrate(given, proba, powers=(1.0,), prior_counts=(5.0,))
    np.testing.assert_allclose(in_sample.likelihood, predicted(given, proba, of_all))
    assert np.log(in_sample.likelihood).sum() > np.log(calibration.likelihood).sum()


def test_the_order_of_labels_does_not_matter() -> None:
    given, proba = drawn(90, pairwise(4, 0.3))
    fold = np.arange(90) % 3
    shuffled = np.random.default_rng(1).permutation(90)
    plain = calibrate(given, proba, folds=fold)
    moved = calibrate(given[shuffled], proba[shuffled], folds=fold[shuffled])
    np.testing.assert_allclose(moved.likelihood, plain.likelihood[shuffled])
    np.testing.assert_allclose(moved.transition, plain.transition)
    again = plain.refitted(given[shuffled], proba[shuffled])
    np.testing.assert_allclose(again.transition, plain.transition, atol=2e-3)


def test_a_refitted_calibration_has_the_transitions_of_the_new_labels() -> None:
    few, proba = drawn(100, symmetric(3, 0.0))
    calibration = calibrate(few, proba, powers=(1.0,), prior_counts=(0.5,))
    assert np.diag(calibration.transition).min() > 0.9
    many, many_proba = drawn(3_000, pairwise(3, 0.4), seed=1)
    found = calibration.refitted(many, many_proba)
    np.testing.assert_allclose(found.transition, pairwise(3, 0.4), atol=0.06)
    np.testing.assert_array_equal(found.powers, calibration.powers)


def test_one_too_modest_is_sharpened_and_one_too_sure_is_calmed() -> None:
    given, proba = drawn(2_000, symmetric(4, 0.2))
    for distortion in (0.5, 1.0, 2.0):
        distorted = powered(np.log(proba), distortion)
        calibration = calibrate(given, distorted, folds=np.arange(2_000) % 5)
        surest = calibration.calibrated(distorted).max(1).mean()
        assert surest == pytest.approx(proba.max(1).mean(), abs=0.05)


def test_symmetric_noise_is_distinguished_from_pair_noise() -> None:
    for kind in (symmetric, pairwise):
        given, proba = drawn(600, kind(5, 0.3), seed=2)
        calibration = calibrate(given, proba, folds=np.arange(600) % 5)
        prior_counts = calibration.weights @ calibration.prior_counts
        assert prior_counts > 20 if kind is symmetric else prior_counts < 20


@examples(
    st.lists(st.integers(0, 4), min_size=2, max_size=60), st.integers(2, 12), st.integers(0, 3)
)
def test_labels_are_dealt_evenly_in_all_and_in_every_class(
    classes: list[int], folds: int, seed: int
) -> None:
    fold = assign_folds(np.array(classes), folds, np.random.default_rng(seed))
    made = min(folds, len(classes))
    assert sorted(set(fold.tolist())) == list(range(made))
    sizes = np.bincount(fold)
    assert sizes.max() - sizes.min() <= 1
    for k in set(classes):
        counts = np.bincount(fold[np.array(classes) == k], minlength=made)
        assert counts.max() - counts.min() <= 1


def test_models_are_weighted_by_likelihood_and_power() -> None:
    given, proba = drawn(40, symmetric(3, 0.3))
    fold = np.arange(40) % 4
    evidence = {}
    for power, prior_counts in product(POWERS, PRIOR_COUNTS):
        one = calibrate(given, proba, powers=(power,), prior_counts=(prior_counts,), folds=fold)
        evidence[power, prior_counts] = np.log(one.likelihood).sum() + np.log(power)
    weights = {key: np.exp(value - max(evidence.values())) for key, value in evidence.items()}
    weights = {key: weight for key, weight in weights.items() if weight >= 0.01}
    calibration = calibrate(given, proba, folds=fold)
    found = zip(calibration.powers.tolist(), calibration.prior_counts.tolist(), strict=True)
    assert list(found) == list(weights)
    expected = np.array(list(weights.values()))
    np.testing.assert_allclose(calibration.weights, expected / expected.sum(), rtol=0.05)


def test_counting_ends_where_it_stands_still() -> None:
    given, proba = drawn(400, pairwise(3, 0.4), spread=1.0)
    found = maximise(given, proba[None], np.array([0.5]))
    later = maximise(given, proba[None], np.array([0.5]), found, most_steps=1)
    assert np.abs(later - found).max() < 1e-4


def test_labels_without_a_flip_may_hide_one_in_a_thousand() -> None:
    given = np.arange(90) // 30
    found = maximise(given, np.eye(3)[given][None], np.array([1000.0]))[0]
    flips = (1000 * 0.001 / 2 + 0.01) / (30 + 1000 + 1 + 3 * 0.01)
    np.testing.assert_allclose(found[~np.eye(3, dtype=bool)], flips)


def test_a_share_of_the_weight_is_for_probabilities_as_they_are() -> None:
    given, proba = drawn(3_000, symmetric(3, 0.1))
    sharp = (1.0, 2.0, 4.0)
    plain = calibrate(given, proba**0.4, powers=sharp)  # far too modest: 1 is no candidate
    assert 1.0 not in plain.powers
    kept = calibrate(given, proba**0.4, powers=sharp, unchanged=0.3)
    assert kept.weights.sum() == pytest.approx(1)
    assert kept.weights[kept.powers == 1].sum() < 0.05  # the evidence is clear
    few = calibrate(given[::20], proba[::20], powers=(1.0, 1.1), unchanged=0.3)
    even = calibrate(given[::20], proba[::20], powers=(1.0, 1.1))
    gained = few.weights[few.powers == 1].sum()
    own = even.weights[even.powers == 1].sum()
    assert gained == pytest.approx(own + 0.3 * (1 - own), abs=0.05)
    rest, before = few.weights[few.powers != 1], even.weights[even.powers != 1]
    np.testing.assert_allclose(rest / rest.sum(), before / before.sum(), atol=0.01)


def test_evidence_against_probabilities_as_they_are_counts_a_tenth() -> None:
    evidence, power = np.array([0.0, -10.0, -12.0]), np.array([2.0, 1.0, 1.0])
    odds = 0.3 * np.exp(-1.0) / 0.7  # of both models with τ = 1 together
    share = odds / (1 + odds)
    plain = np.exp(evidence) / np.exp(evidence).sum()
    own = np.exp([0.0, -2.0]) / np.exp([0.0, -2.0]).sum()
    expected = plain * (1 - share) + share * np.array([0.0, *own])
    found = noise_model._weigh(evidence, np.zeros(3), power, 0.3)
    np.testing.assert_allclose(found, expected)


def test_the_prior_of_powers_can_be_chosen() -> None:
    given, proba = drawn(600, symmetric(3, 0.3))
    seen: list[tuple[int, ...]] = []

    def only_four(power: Floats, transitions: Floats) -> Floats:
        seen.append(transitions.shape)
        return np.where(power == 4, 0.0, -np.inf)

    found = calibrate(given, proba, powers=(1.0, 2.0, 4.0), log_prior=only_four)
    assert set(found.powers.tolist()) == {4.0}
    assert seen[0] == (9, 3, 3)  # later only those that are likely enough
