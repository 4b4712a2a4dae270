"""Projections for pictures, against singular values in float64."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from erase.audit.report.projection import principal_components, tsne, tsne_input


def by_singular_values(z: NDArray[Any], count: int) -> tuple[NDArray[Any], NDArray[Any]]:
    wide = z.astype(np.float64)
    left, scale, right = np.linalg.svd(wide - wide.mean(0), full_matrices=False)
    sign = np.sign(right[range(len(right)), np.abs(right).argmax(1)])
    return (left * scale * sign)[:, :count], (scale**2 / (scale**2).sum())[:count]


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize(("nodes", "width"), [(30, 5), (12, 40), (6, 6)])
def test_principal_components_are_those_of_the_singular_values(
    nodes: int, width: int, kind: Any
) -> None:
    z = np.random.default_rng(0).normal(size=(nodes, width)) * 0.8 ** np.arange(width)
    expected, expected_shares = by_singular_values(z.astype(kind), 3)
    points, shares = principal_components(z.astype(kind), 3)
    np.testing.assert_allclose(points, expected, atol=1e-5)
    np.testing.assert_allclose(shares, expected_shares, atol=1e-5)


@pytest.mark.parametrize("apart", [1e-2, 1e-4])
def test_rows_that_are_nearly_alike_keep_their_axes(apart: float) -> None:
    rng = np.random.default_rng(0)
    away = apart * rng.normal(size=(20_000, 16)) * 0.7 ** np.arange(16)
    z = (rng.normal(size=16) + away).astype(np.float32)
    expected, _ = by_singular_values(z, 2)
    np.testing.assert_allclose(principal_components(z, 2)[0], expected, atol=1e-2 * apart)


@pytest.mark.parametrize(
    "z", [np.zeros((4, 3)), np.ones((1, 3)), np.arange(4.0)[:, None], np.zeros((0, 3))]
)
def test_principal_components_of_too_little_are_zero(z: NDArray[Any]) -> None:
    points, shares = principal_components(z, 2)
    assert points[:, 1].tolist() == [0] * len(z)
    assert np.isfinite(points).all()
    assert np.isfinite(shares).all()


def test_differences_too_small_to_square_are_none() -> None:
    points, shares = principal_components(np.array([[1, 0], [1, 1e-200], [1, 0]]), 2)
    assert points.tolist() == [[0, 0]] * 3
    assert shares.tolist() == [0, 0]


def test_tsne_has_from_2_to_50_components_to_start_from() -> None:
    z = np.random.default_rng(0).normal(size=(80, 70))
    assert [tsne_input(z[:, :width]).shape[1] for width in (1, 2, 7, 70)] == [2, 2, 7, 50]


def test_tsne_of_a_few_nodes_is_their_first_two_components() -> None:
    z = np.random.default_rng(0).normal(size=(6, 5))
    np.testing.assert_array_equal(tsne(tsne_input(z[:4]), 0), tsne_input(z[:4])[:, :2])
    assert np.abs(tsne(tsne_input(z), 0) - tsne_input(z)[:, :2]).min() > 0
