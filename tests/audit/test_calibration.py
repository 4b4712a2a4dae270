"""Noise models, and what is known before the labels are seen: formulas and constants."""

from typing import Any

import numpy as np
import pytest

from drawn_labels import drawn, pairwise, symmetric, witnesses_of
from erase.audit import calibration
from erase.audit.calibration import calibrated, contradicted_share
from erase.methods.relabelling.noise_model import (
    Calibration,
    calibrate,
    log_proba,
    maximise,
    powered,
)


def test_a_corrected_model_is_too_modest_by_a_power_of_the_rate() -> None:
    """A normal density of log τ around -1.5 log(1 − rate), with a standard deviation of 0.1."""
    matrices = np.stack([symmetric(4, rate) for rate in (0.0, 0.1, 0.3)])
    best = np.array([1.0, 0.9**-1.5, 0.7**-1.5])
    for steps in (0.0, 1.0, -2.0):
        found = calibration._prior_of_corrected(best * np.exp(0.1 * steps), matrices)
        np.testing.assert_allclose(found, -(steps**2) / 2, atol=1e-12)


def test_a_rate_below_the_least_is_a_matter_of_two_hundredths() -> None:
    matrices = np.stack([pairwise(4, rate) for rate in (0.2, 0.18, 0.16, 0.3)])
    found = calibration._prior_of_rate(0.2, np.ones(4), matrices)
    np.testing.assert_allclose(found, [0, -0.5, -2, 0], atol=1e-12)


def test_a_third_of_the_weight_is_for_corrected_probabilities_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[dict[str, Any]] = []

    def watched(*arguments: Any, **options: Any) -> Calibration:
        seen.append(options)
        return calibrate(*arguments, **options)

    monkeypatch.setattr(calibration, "calibrate", watched)
    _, given, proba = drawn(200, symmetric(3, 0.2))
    calibrated(given, proba, 0, True, 0.0)
    calibrated(given, proba, 0, False, 0.0)
    assert seen[0]["unchanged"] == 0.35
    np.testing.assert_allclose(seen[0]["powers"], np.geomspace(1, 8, 28))
    assert sorted(np.bincount(seen[0]["folds"]).tolist()) == [40] * 5
    assert set(seen[1]) == {"folds"}


def test_models_that_find_fewer_wrong_labels_than_there_are_at_least_are_left_out() -> None:
    _, given, proba = drawn(600, symmetric(4, 0.0), spread=1.0)
    usual, found = (calibrated(given, proba, 0, False, least) for least in (0.0, 0.15))
    rates = [1 - np.trace(one.transition) / 4 for one in (usual, found)]
    assert rates[0] < 0.05
    assert rates[1] > 0.1


def test_noise_models_of_a_sample_are_fitted_to_all_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "_WEIGHED", 100)
    _, given, proba = drawn(1_000, pairwise(3, 0.3))
    found = calibrated(given, proba, 0, False, 0.0)
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
