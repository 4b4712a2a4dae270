"""Methods with an encoder of the user's: training, many runs, checkpoints, files."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GCN, GATv2Conv

import erase
from erase.errors import EraseError
from erase.methods import METHODS, NodeClassifier
from erase.methods.network import NetworkClassifier
from graphs import with_weights

OWN = [
    name
    for name, method in sorted(METHODS.items())
    if issubclass(method, NetworkClassifier) and method.constraints["encoder"].accepts(print)
]
SETTINGS: dict[str, Any] = {"epochs": 30, "lr": 0.01, "device": "cpu", "dropout": 0.2}


class GATv2(nn.Module):
    """Two layers of GATv2 with dropout between them."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.first = GATv2Conv(in_channels, 8, heads=2)
        self.second = GATv2Conv(16, out_channels)
        self.dropout = nn.Dropout(0.2)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z: Tensor = self.second(self.dropout(self.first(x, edge_index).relu()), edge_index)
        return z


def gcn(in_channels: int, out_channels: int) -> nn.Module:
    module: nn.Module = GCN(in_channels, 16, 2, out_channels)
    return module


def method(name: str, **changes: Any) -> NodeClassifier:
    width = {"width": 16} if name in ("erase", "mcr2") else {}
    return METHODS[name](**(SETTINGS | width | {"encoder": GATv2} | changes))


@pytest.mark.parametrize("name", OWN)
def test_every_network_learns_with_it_and_repeats_itself(name: str, communities: Data) -> None:
    first = method(name).fit(communities)
    torch.manual_seed(11)
    again = method(name).fit(communities)
    assert first.score(communities) > 0.8
    np.testing.assert_array_equal(first.predict_proba(), again.predict_proba())
    other = method(name, seed=1).fit(communities)
    assert not np.array_equal(first.predict_proba(), other.predict_proba())


def test_only_methods_that_need_an_encoder_of_their_own_refuse_it() -> None:
    networks = {n for n, m in METHODS.items() if issubclass(m, NetworkClassifier)}
    assert networks - set(OWN) == {"ce-gcn", "rtgnn", "nrgnn", "pta"}


def test_many_runs_are_their_single_fits(communities: Data) -> None:
    many = method("ce").fit_many([communities], [0, 3])
    for seed, run in zip((0, 3), many, strict=True):
        alone = method("ce", seed=seed).fit(communities)
        np.testing.assert_array_equal(run.predict_proba(), alone.predict_proba())


def test_an_audit_takes_it(communities: Data) -> None:
    found = erase.audit(communities, method=method("ce", epochs=5), folds=2)
    assert found.settings["parameters"]["encoder"].endswith("test_own_encoders.GATv2")
    json.dumps(found.settings)


def test_batches_are_refused(communities: Data) -> None:
    with pytest.raises(EraseError, match="Set batch_size=0"):
        method("erase", batch_size=10).fit(communities)


def test_what_is_neither_a_name_nor_a_function_is_refused(communities: Data) -> None:
    with pytest.raises(EraseError, match=r"'sage'.*, or a function \(in_channels, out_channels\)"):
        method("ce", encoder="gin").fit(communities)


def test_edge_weights_are_used_or_refused(communities: Data) -> None:
    weighted = with_weights(communities)
    used, plain = (method("ce", encoder=gcn).fit(data) for data in (weighted, communities))
    assert not np.allclose(used.predict_proba(), plain.predict_proba())
    with pytest.raises(EraseError, match="weights=False"):
        method("ce").fit(weighted)


@pytest.mark.parametrize("name", ["ce", "erase"])
def test_a_file_needs_the_function_again(name: str, communities: Data, tmp_path: Path) -> None:
    model, path = method(name, epochs=3).fit(communities), tmp_path / "model.safetensors"
    model.save(path)
    loaded = erase.load_model(path, encoder=GATv2)
    np.testing.assert_array_equal(loaded.predict_proba(), model.predict_proba())
    assert loaded.get_params()["encoder"] is GATv2
    with pytest.raises(EraseError, match=r"test_own_encoders.GATv2; got none. .*encoder=function"):
        erase.load_model(path)
    method(name, encoder="gcn", epochs=1).fit(communities).save(path)
    with pytest.raises(EraseError, match="Leave it out"):
        erase.load_model(path, encoder=GATv2)


def test_a_killed_run_resumes_to_the_same_result(
    communities: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("erase.training.loop._SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    whole = method("ce", epochs=6).fit(communities)
    path, calls = tmp_path / "run", 0
    forward = GATv2.forward

    def stop_later(self: GATv2, x: Tensor, edge_index: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        if calls > 7:
            raise KeyboardInterrupt
        return forward(self, x, edge_index)

    monkeypatch.setattr(GATv2, "forward", stop_later)
    with pytest.raises(KeyboardInterrupt):
        method("ce", epochs=6).fit(communities, checkpoint=path)
    monkeypatch.setattr(GATv2, "forward", forward)
    resumed = method("ce", epochs=6).fit(communities, checkpoint=path, resume=True)
    np.testing.assert_array_equal(resumed.predict_proba(), whole.predict_proba())


@pytest.mark.parametrize("name", OWN)
def test_it_predicts_another_graph(name: str, communities: Data) -> None:
    model = method(name, epochs=5).fit(communities)
    np.testing.assert_allclose(model.predict_proba(communities), model.predict_proba(), atol=1e-5)
    np.testing.assert_allclose(model.transform(communities), model.transform(), atol=1e-5)


def test_the_fitted_module_is_the_encoder(communities: Data) -> None:
    model = method("ce", epochs=5).fit(communities)
    task = erase.NodeTask.of(communities)
    assert isinstance(model.encoder_, GATv2)
    found = model.encoder_(task.x, task.edge_index).detach()
    np.testing.assert_allclose(found, model.transform(), atol=1e-5)
