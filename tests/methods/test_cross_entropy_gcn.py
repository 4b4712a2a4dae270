"""The sanity row is cross-entropy with another encoder, and only that."""

from typing import Any

import numpy as np
import pytest
from torch_geometric.data import Data

from erase.errors import EraseError
from erase.methods.cross_entropy import CrossEntropy
from erase.methods.cross_entropy_gcn import CrossEntropyGCN


def test_it_is_cross_entropy_with_a_gcn(communities: Data) -> None:
    assert CrossEntropyGCN().get_params() == CrossEntropy(encoder="gcn").get_params()
    small: dict[str, Any] = {"hidden": 16, "epochs": 5, "seed": 3, "device": "cpu"}
    ours = CrossEntropyGCN(**small).fit(communities)
    theirs = CrossEntropy(encoder="gcn", **small).fit(communities)
    np.testing.assert_array_equal(ours.predict_proba(), theirs.predict_proba())
    assert ours.history_ == theirs.history_


def test_another_encoder_is_refused(communities: Data) -> None:
    with pytest.raises(EraseError, match="Correct encoder of CrossEntropyGCN"):
        CrossEntropyGCN(encoder="gat").fit(communities)
