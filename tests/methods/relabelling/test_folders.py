"""A graph in a folder gives the result of the same graph in memory."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from erase.audit import audit
from erase.data.folder import open_folder, write_folder
from erase.data.noise import corrupt
from erase.methods import METHODS
from erase.methods.relabelling import ensemble, smoothing
from erase.nn import neighbours
from graphs import two_communities


@pytest.fixture(params=["sparse", "dense"])
def graph(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a graph that is read, searched and held as a large one is."""
    monkeypatch.setattr(neighbours, "MOST_ROWS_IN_FULL", 40)
    monkeypatch.setattr(smoothing, "_LARGE", 100)
    monkeypatch.setattr(smoothing, "_JOINED_AT_ONCE", 50)
    for module in (ensemble, smoothing):
        monkeypatch.setattr(module, "NODES_AT_ONCE", 16)
    noisy = corrupt(two_communities(classes=3, size=41), "pair", 0.3, seed=0, on="train+val")
    if request.param == "dense":
        noisy.x = noisy.x + 0.1
    return noisy


@pytest.mark.parametrize("name", ["relabelling", "smoothed", "label-propagation"])
def test_a_fit_and_its_predictions_are_those_of_the_graph_in_memory(
    name: str, graph: Any, tmp_path: Path
) -> None:
    write_folder(graph, tmp_path / "g")
    mapped = open_folder(tmp_path / "g")
    options: dict[str, Any] = {} if name == "label-propagation" else {"width": 9}
    ours, expected = (METHODS[name](**options, device="cpu").fit(each) for each in (mapped, graph))
    np.testing.assert_allclose(ours.predict_proba(), expected.predict_proba(), atol=1e-6)
    np.testing.assert_allclose(ours.transform(), expected.transform(), atol=1e-6)
    found = ours.predict_proba(mapped)
    np.testing.assert_allclose(found, expected.predict_proba(), atol=1e-4)


def test_an_audit_is_that_of_the_graph_in_memory(graph: Any, tmp_path: Path) -> None:
    write_folder(graph, tmp_path / "g")
    model = METHODS["relabelling"](width=9, folds=3, rounds=1, device="cpu")
    ours, expected = (audit(each, method=model) for each in (open_folder(tmp_path / "g"), graph))
    np.testing.assert_allclose(ours.decision.quality, expected.decision.quality, atol=1e-6)
    np.testing.assert_allclose(ours.pred_probs, expected.pred_probs, atol=1e-6)
    assert ours.issues["is_issue"].sum() > 5
    assert ours.issues["node"].tolist() == expected.issues["node"].tolist()
