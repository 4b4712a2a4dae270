"""The model of trusted labels: its row, its prior, and the optimum between both."""

import numpy as np
import pytest

from erase.methods.relabelling.trusted import Evidence, fit_trusted

CLASSES = 3


def evidence(nodes: int, width: int = 5) -> Evidence:
    rng = np.random.default_rng(0)
    predictions = rng.dirichlet(np.ones(CLASSES), size=(2, nodes))
    given = rng.integers(-1, CLASSES, size=nodes)
    return Evidence(predictions[0], predictions[1], given, rng.normal(size=(nodes, width)))


def test_a_row_holds_directions_predictions_and_the_label() -> None:
    known = evidence(4, width=200)
    row = known.row()
    assert row.shape == (4, 128 + 3 * CLASSES)
    np.testing.assert_allclose(np.linalg.norm(row[:, :128], axis=1), 3)
    leading = known.features[:, :128]
    np.testing.assert_allclose(row[:, :128] / row[:, :1], leading / leading[:, :1])
    np.testing.assert_allclose(row[:, 128:131], 2 * known.smoothed)
    np.testing.assert_allclose(row[:, 131:134], 2 * known.graph)
    np.testing.assert_allclose(row[:, 134:], 1.5 * known.label())


def test_without_trusted_labels_both_predictions_count_four_tenths() -> None:
    known = evidence(0)
    model = fit_trusted(known, np.zeros(0, np.int64))
    assert model.predictions.tolist() == [0.4, 0.4]
    assert model.label == 0
    assert not model.classes.any()
    assert not model.row.any()


def test_weights_are_where_labels_and_prior_balance() -> None:
    """At the optimum each is away from its start by its variance times the slope of the labels."""
    known = evidence(30)
    trusted = np.random.default_rng(1).integers(CLASSES, size=30)
    model = fit_trusted(known, trusted)
    missing = np.eye(CLASSES)[trusted] - model.proba(known)
    slope = np.einsum("vnk,nk->v", known.logs(), missing)
    np.testing.assert_allclose(model.predictions, 0.4 + 0.4**2 * slope, atol=2e-3)
    assert model.label == pytest.approx((missing * known.label()).sum(), abs=2e-3)
    np.testing.assert_allclose(model.classes, 0.7**2 * missing.sum(0), atol=2e-3)
    np.testing.assert_allclose(model.row, 3 * known.row().T @ missing, atol=5e-3)
