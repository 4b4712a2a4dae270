"""The places that several processes compute together are the spectral features."""

import networkx as nx
import numpy as np
import pytest
import torch

from erase.audit.places import own_places
from erase.data.features import spectral_features


def edges(nodes: int, seed: int) -> torch.Tensor:
    """Return both directions of a graph's edges; the last node has none."""
    graph = nx.fast_gnp_random_graph(nodes - 1, 0.1, seed=seed)
    ends = torch.tensor(list(graph.edges)).T
    return torch.cat([ends, ends.flip(0)], 1)


@pytest.mark.parametrize("width", [1, 8, 60, 200])
def test_places_are_spectral_features_but_for_signs(width: int) -> None:
    """Of 60 nodes the SVD has all directions, so no draw matters."""
    edge_index = edges(60, seed=1)
    places = own_places(edge_index, 60, width)
    features = spectral_features(edge_index, 60, width)
    assert places.shape == features.shape
    torch.testing.assert_close(places.abs(), features.abs(), atol=2e-4, rtol=0)
    torch.testing.assert_close(places @ places.T, features @ features.T, atol=1e-5, rtol=0)
    assert not places[-1].any()


def test_leading_places_of_a_larger_graph_come_from_the_same_draw() -> None:
    edge_index = edges(900, seed=2)
    places, features = own_places(edge_index, 900, 20), spectral_features(edge_index, 900, 20)
    torch.testing.assert_close(places @ places.T, features @ features.T, atol=1e-4, rtol=0)


def test_without_edges_all_places_are_zero() -> None:
    assert np.array_equal(own_places(torch.empty(2, 0, dtype=torch.long), 5, 3), np.zeros((5, 3)))
