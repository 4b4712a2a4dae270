"""Model files: a model applied in another process, equal files, and files that are refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

import erase
import forked
from erase.data.files import load_arrays, save_arrays, write_graph
from erase.errors import EraseError
from erase.methods import METHODS, NodeClassifier, load_model
from graphs import two_communities

SMALL: dict[str, Any] = {
    "hidden": 16,
    "width": 12,
    "heads": 2,
    "epochs": 3,
    "batch_size": 0,
    "device": "cpu",
}


def fitted(name: str, graph: Any, **changes: Any) -> NodeClassifier:
    known = METHODS[name]().get_params()
    params = {key: value for key, value in (SMALL | changes).items() if key in known}
    return METHODS[name](**params).fit(graph)


def test_a_model_is_applied_in_another_process(tmp_path: Path) -> None:
    """Fitted on nine tenths of the nodes, and asked about all."""
    whole = two_communities()
    known = whole.subgraph(torch.arange(72))
    models = {name: fitted(name, known) for name in METHODS}
    for name, model in models.items():
        model.save(tmp_path / f"{name}.safetensors")
    write_graph(whole, tmp_path / "whole.npz")
    script = (
        "import sys, pathlib, numpy, erase\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        "graph = erase.read_graph(folder / 'whole.npz')\n"
        "for path in folder.glob('*.safetensors'):\n"
        "    numpy.save(path.with_suffix('.npy'), erase.load_model(path).predict_proba(graph))\n"
    )
    done = forked.run(script, str(tmp_path))
    assert done.returncode == 0, done.stderr
    for name, model in models.items():
        there = np.load(tmp_path / f"{name}.npy")
        np.testing.assert_allclose(there, model.predict_proba(whole), atol=1e-6)
        assert there.shape == (80, 2)


def test_equal_models_are_equal_files(tmp_path: Path) -> None:
    for name in METHODS:
        for copy in ("first", "again"):
            fitted(name, two_communities()).save(tmp_path / copy)
        load_model(tmp_path / "first").save(tmp_path / "loaded")
        first, again, loaded = (
            (tmp_path / file).read_bytes() for file in ("first", "again", "loaded")
        )
        assert first == again == loaded


def without(name: str) -> Callable[[dict[str, Tensor], dict[str, Any]], None]:
    def remove(arrays: dict[str, Tensor], metadata: dict[str, Any]) -> None:
        del (arrays if name in arrays else metadata)[name]

    return remove


def changed(name: str, value: Any) -> Callable[[dict[str, Tensor], dict[str, Any]], None]:
    def change(arrays: dict[str, Tensor], metadata: dict[str, Any]) -> None:
        if name in arrays:
            arrays[name] = value(arrays[name])
        else:
            metadata[name] = value

    return change


def in_params(name: str, value: Any) -> Callable[[dict[str, Tensor], dict[str, Any]], None]:
    return lambda arrays, metadata: metadata["params"].update({name: value})


ENCODER, HEAD = "weights/encoder.first.weight", "weights/head.intercept"


@pytest.mark.parametrize(
    "damage",
    [
        without("fit/proba"),
        without(ENCODER),
        without(HEAD),
        without("contract"),
        without("classes"),
        changed("fit/proba", lambda value: value[:-1]),
        changed("fit/proba", lambda value: value.double()),
        changed("fit/labels", lambda value: value + 2),
        changed("fit/labels", lambda value: value - 1),
        changed("fit/embedding", lambda value: value * torch.nan),
        changed("fit/embedding", lambda value: value * torch.inf),
        changed("fit/proba", lambda value: value * torch.nan),
        changed("fit/proba", lambda value: value * 2),
        changed("fit/proba", lambda value: 2 * value - 0.5),
        changed("classes", [0, 0]),
        changed("classes", [True, False]),
        changed("classes", [0, 2**70]),
        changed("class_names", ["one", "one"]),
        changed("best_epoch", 99),
        changed("best_epoch", -1),
        changed("contract", {"width": 10**13}),
        in_params("hidden", 10**12),
        in_params("seed", 10**30),
        changed(ENCODER, lambda value: value[:, :-1]),
        changed(ENCODER, lambda value: value * torch.nan),
        changed(HEAD, lambda value: value[:, :1]),
        changed("class_names", ["one", "two", "three"]),
        changed("classes", "two"),
        changed("contract", {"width": 3}),
        changed("contract", {"width": "many"}),
        changed("params", ["hidden"]),
        changed("history", [{"loss": "low"}]),
        in_params("hidden", 17),
        in_params("hidden", -1),
        in_params("hiden", 16),
        in_params("encoder", "gcn"),
    ],
)
def test_a_damaged_file_is_refused(
    damage: Callable[[dict[str, Tensor], dict[str, Any]], None], tmp_path: Path
) -> None:
    path = tmp_path / "model.safetensors"
    fitted("erase", two_communities()).save(path)
    arrays, metadata = load_arrays(path)
    damage(arrays, metadata)
    save_arrays(path, arrays, metadata)
    with pytest.raises(EraseError, match="parts fit together"):
        load_model(path)


@pytest.mark.parametrize("name", ["relabelling", "smoothed", "mcr2", "rtgnn", "nrgnn"])
def test_missing_weights_are_noticed_when_the_file_is_read(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    fitted(name, two_communities()).save(path)
    arrays, metadata = load_arrays(path)
    needed = {
        "relabelling": "weights/mean/",
        "smoothed": "weights/intercept",
        "mcr2": "weights/head.",
        "rtgnn": "weights/second.",
        "nrgnn": "weights/miner.",
    }[name]
    assert any(key.startswith(needed) for key in arrays)
    kept = {key: value for key, value in arrays.items() if not key.startswith(needed)}
    save_arrays(path, kept, metadata)
    with pytest.raises(EraseError, match="parts fit together"):
        load_model(path)


def test_a_file_cut_short_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    fitted("ce", two_communities()).save(path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(EraseError, match="cut short"):
        load_model(path)


@pytest.mark.parametrize("name", ["ce", "relabelling"])
def test_a_model_of_a_gpu_is_read_without_one(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    graph = two_communities()
    fitted(name, graph).set_params(device="cuda").save(tmp_path / "model.safetensors")
    model = load_model(tmp_path / "model.safetensors")
    assert model.device == "cuda"
    with pytest.raises(EraseError, match="device='cpu'"):
        model.predict(graph)
    assert (model.set_params(device="cpu").predict(graph) == model.predict()).all()


def people(count: int, seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return tables of people with a number, a category and a text that tell their class."""
    random = np.random.default_rng(seed)
    kind = np.arange(count) % 2
    nodes = pd.DataFrame(
        {
            "id": [f"p{i}" for i in range(count)],
            "label": np.array(["cat", "dog"])[kind],
            "age": 30 + 20 * kind + random.normal(size=count),
            "town": np.array(["Rome", "Oslo"])[(kind + (random.random(count) < 0.2)) % 2],
            "bio": [f"likes {'milk and mice' if k == 0 else 'bones and sticks'}" for k in kind],
        }
    )
    ends = random.integers(count // 2, size=(2, 3 * count)) * 2 + np.arange(3 * count) % 2
    edges = pd.DataFrame({"source": nodes.id[ends[0]].values, "target": nodes.id[ends[1]].values})
    return nodes, edges


@pytest.mark.parametrize("name", ["ce", "relabelling"])
def test_tables_are_read_by_the_contract_of_the_fit(name: str, tmp_path: Path) -> None:
    fitted(name, people(60), epochs=60, lr=0.01).save(tmp_path / "model.safetensors")
    model = load_model(tmp_path / "model.safetensors")
    assert [column.name for column in model.contract_.columns] == ["age", "town", "bio"]
    nodes, edges = people(40, seed=1)
    truth = nodes.pop("label")
    nodes.loc[0, "town"] = "Paris"  # no feature of the fit
    nodes["age"] += 5  # standardised by the means of the fit, not by its own
    predicted = model.predict((nodes, edges))
    assert np.mean(predicted == truth) > 0.9
    with_contract = erase.from_tables(nodes, edges, contract=model.contract_)
    np.testing.assert_array_equal(model.predict(with_contract), predicted)
    with pytest.raises(EraseError, match="made as those of the fit"):
        model.predict(erase.from_tables(nodes, edges))
    with pytest.raises(EraseError, match="without 'town' and with 'city' besides"):
        model.predict((nodes.rename(columns={"town": "city"}), edges))


def test_names_of_features_are_compared() -> None:
    graph = two_communities()
    graph.feature_names = [f"word {j}" for j in range(16)]
    model, other = fitted("ce", graph), graph.clone()
    other.x, other.feature_names = graph.x[:, 2:], graph.feature_names[2:]
    with pytest.raises(EraseError, match="without 'word 0', 'word 1'"):
        model.predict(other)
    other.x, other.feature_names = graph.x, graph.feature_names[::-1]
    with pytest.raises(EraseError, match="'word 0' in column 0"):
        model.predict(other)
    other = Data(x=graph.x, edge_index=graph.edge_index)  # without names
    assert model.predict(other).shape == (80,)


def test_the_contract_in_the_file_is_json(tmp_path: Path) -> None:
    fitted("ce", people(60)).save(tmp_path / "model.safetensors")
    raw = (tmp_path / "model.safetensors").read_bytes()
    header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
    metadata = json.loads(header["__metadata__"]["json"])
    assert metadata["contract"]["columns"][1]["categories"] == ["Oslo", "Rome"]
    assert metadata["format"] == 2
