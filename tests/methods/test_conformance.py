"""Every method of the registry keeps the promises of `NodeClassifier`."""

import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from torch_geometric.data import Data

from erase.data.datasets import load_dataset
from erase.data.files import save_arrays
from erase.data.noise import corrupt
from erase.data.task import NodeTask
from erase.errors import EraseError
from erase.methods import METHODS, LabelPropagation, NodeClassifier, load_model
from erase.methods.base import (
    COUNT,
    POSITIVE,
    SHARE,
    SWITCH,
    Constraint,
    Number,
    OneOf,
    resolve_device,
)
from erase.methods.network import NetworkClassifier
from graphs import interrupt_and_resume, two_communities, with_weights
from tf32 import is_in_backward, on_a_gpu_that_may_round

# small enough for a test; everything else is the default
SMALL: dict[str, Any] = {
    "hidden": 16,
    "width": 12,
    "heads": 2,
    "epochs": 8,
    "lr": 0.01,
    "rounds": 1,
    "folds": 3,
    "device": "cpu",
}
# methods that neither select nor correct labels
TAKES_LABELS_AS_GIVEN = (
    *("ce", "ce-gcn", "gce", "apl", "mcr2", "pignn", "nrgnn", "pta"),
    *("label-propagation", "smoothed"),
)
NETWORKS = [name for name in sorted(METHODS) if issubclass(METHODS[name], NetworkClassifier)]


def small(name: str, **changes: Any) -> NodeClassifier:
    known = METHODS[name]().get_params()
    return METHODS[name](**({k: v for k, v in SMALL.items() if k in known} | changes))


@cache
def fitted(name: str) -> NodeClassifier:
    """Return the method fitted on the graph of `communities`, for tests that only read it."""
    return small(name).fit(two_communities())


@pytest.fixture(params=sorted(METHODS))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=NETWORKS)
def network(request: pytest.FixtureRequest) -> str:
    """The name of a method with weights, epochs and dropout: not those that compute an answer."""
    return str(request.param)


def test_fit_returns_itself_and_predicts_every_node(name: str, communities: Data) -> None:
    model = small(name)
    assert model.fit(communities) is model
    n = communities.num_nodes
    proba = model.predict_proba()
    assert proba.shape == (n, 2)
    np.testing.assert_allclose(proba.sum(1), 1, rtol=1e-5)
    assert model.predict().tolist() == proba.argmax(1).tolist()
    assert model.transform().shape[0] == n
    assert np.isfinite(model.transform()).all()
    assert model.labels_.shape == (n,)
    assert 0 <= model.best_epoch_ <= len(model.history_)


def test_the_graph_of_the_fit_gets_the_same_answer_again(name: str, communities: Data) -> None:
    model = fitted(name)
    np.testing.assert_allclose(model.predict_proba(communities), model.predict_proba(), atol=1e-5)
    np.testing.assert_allclose(model.transform(communities), model.transform(), atol=1e-5)
    np.testing.assert_array_equal(model.predict(communities), model.predict())
    assert model.predict_proba(NodeTask.of(communities)).shape == model.predict_proba().shape


def test_the_order_of_nodes_does_not_matter(name: str, communities: Data) -> None:
    communities.x += torch.rand(communities.x.shape, generator=torch.manual_seed(0))  # no ties
    model = small(name).fit(communities)
    order = torch.randperm(communities.num_nodes, generator=torch.manual_seed(1))
    other = communities.subgraph(order)
    assert torch.equal(other.x, communities.x[order])
    np.testing.assert_allclose(
        model.predict_proba(other), model.predict_proba()[order.numpy()], atol=1e-5
    )


@pytest.mark.parametrize("name", METHODS)
def test_edge_weights_of_another_graph_are_those_of_the_fit(
    name: str, communities: Data, tmp_path: Path
) -> None:
    weighted = with_weights(communities)
    model, plain = small(name).fit(weighted), fitted(name)
    model.save(tmp_path / "m.safetensors")
    for each in (model, load_model(tmp_path / "m.safetensors")):
        np.testing.assert_allclose(each.predict_proba(weighted), model.predict_proba(), atol=1e-5)
    if not model.uses_edge_weights:
        np.testing.assert_allclose(plain.predict_proba(weighted), plain.predict_proba(), atol=1e-5)
        return
    with pytest.raises(EraseError, match="with which this model was fitted"):
        model.predict(communities)
    with pytest.raises(EraseError, match="weights=False"):
        plain.predict(weighted)
    ignored = plain.predict_proba(NodeTask.of(weighted, weights=False))
    np.testing.assert_allclose(ignored, plain.predict_proba(), atol=1e-5)


def test_new_nodes_and_other_graphs_are_predicted_without_training(
    name: str, communities: Data
) -> None:
    longer = {"epochs": 40} if name in NETWORKS else {}
    model = small(name, **longer).fit(communities)
    before = {key: value.clone() for key, value in model.fit_.weights.items()}
    for graph in (grown(communities), two_communities(seed=9)):
        predicted = model.predict(graph)
        assert np.mean(predicted == graph.y.numpy()) > 0.8
        assert model.transform(graph).shape == (graph.num_nodes, model.transform().shape[1])
    for key, value in before.items():
        assert torch.equal(model.fit_.weights[key], value)


def test_a_graph_to_predict_needs_no_labels(name: str, communities: Data) -> None:
    model = fitted(name)
    bare = Data(x=communities.x, edge_index=communities.edge_index)
    if not (model.fit_.weights or model.reads_features):  # there is nothing but labels to apply
        with pytest.raises(EraseError, match="training labels"):
            model.predict(bare)
        return
    assert model.predict_proba(bare).shape == model.predict_proba().shape
    other = communities.clone()
    other.y = 1 - other.y
    np.testing.assert_allclose(model.predict_proba(other), model.predict_proba(), atol=1e-5)


def test_other_features_are_refused(name: str, communities: Data) -> None:
    model, other = fitted(name), communities.clone()
    other.x = communities.x[:, 1:]
    if model.reads_features:
        with pytest.raises(EraseError, match="16 features, as in the fit; got 15"):
            model.predict(other)
    else:
        assert model.predict(other).shape == (80,)


def test_features_made_from_edges_are_good_for_their_graph_alone(
    name: str, communities: Data
) -> None:
    del communities.x
    model, other = small(name).fit(communities), grown(communities)
    np.testing.assert_allclose(model.predict_proba(communities), model.predict_proba(), atol=1e-5)
    if model.reads_features:
        with pytest.raises(EraseError, match="edges of the fit"):
            model.predict(other)
    else:
        assert model.predict(other).shape == (88,)


def grown(data: Data) -> Data:
    """Return a graph of communities with a tenth more nodes, each tied to three of its class."""
    n, new = len(data.y), len(data.y) // 10
    y = torch.arange(new) % 2
    ends = torch.arange(new)[:, None] + n, 2 * (3 * torch.arange(new)[:, None] + torch.arange(3))
    edges = torch.stack([ends[0].expand(-1, 3), (ends[1] + y[:, None]) % n]).flatten(1)
    rows: dict[str, Any] = {
        "y": torch.cat([data.y, y]),
        "edge_index": torch.cat([data.edge_index, edges], 1),
    }
    if data.x is not None:
        rows["x"] = torch.cat([data.x, data.x[y]])
    for part in ("train_mask", "val_mask", "test_mask"):
        rows[part] = torch.cat([data[part], torch.full((new,), part == "test_mask")])
    return Data(**rows)


@pytest.mark.parametrize("objective", ["batch", "graph"])
def test_a_network_trained_in_batches_predicts_another_graph(
    network: str, objective: str, communities: Data
) -> None:
    choice: dict[str, Any] = {"objective": objective} if network == "erase" else {}
    if objective == "graph" and not choice:
        pytest.skip("no such parameter")
    model = small(network, batch_size=20, epochs=2, **choice).fit(communities)
    np.testing.assert_allclose(model.predict_proba(communities), model.predict_proba(), atol=1e-5)
    del communities.val_mask  # then the last epoch is taken, and nothing is evaluated before
    model = small(network, batch_size=20, epochs=2, **choice).fit(communities)
    np.testing.assert_allclose(model.predict_proba(communities), model.predict_proba(), atol=1e-5)


def test_every_epoch_is_recorded(network: str, communities: Data) -> None:
    model = fitted(network)
    assert [h["epoch"] for h in model.history_] == list(range(1, 9))
    assert 1 <= model.best_epoch_ <= 8
    assert all(np.isfinite(h["loss"]) for h in model.history_)


def test_it_learns_two_communities(name: str, communities: Data) -> None:
    longer = {"epochs": 40} if name in NETWORKS else {}
    assert small(name, **longer).fit(communities).score(communities) > 0.8


def test_same_seed_same_result(name: str, communities: Data) -> None:
    first, again = fitted(name), small(name).fit(communities)
    np.testing.assert_array_equal(first.predict_proba(), again.predict_proba())
    np.testing.assert_array_equal(first.transform(), again.transform())


def test_another_seed_another_result(network: str, communities: Data) -> None:
    first, other = fitted(network), small(network, seed=1).fit(communities)
    assert not np.array_equal(first.transform(), other.transform())


def test_no_global_random_state_is_read_or_written(name: str, communities: Data) -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = small(name).fit(communities).predict_proba()
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    np.testing.assert_array_equal(first, small(name).fit(communities).predict_proba())


def test_fit_changes_neither_parameters_nor_graph(name: str, communities: Data) -> None:
    model = small(name)
    params = model.get_params()
    copy = communities.clone()
    model.fit(communities)
    assert model.get_params() == params
    assert communities.keys() == copy.keys()
    for key in copy.keys():  # noqa: SIM118
        assert torch.equal(communities[key], copy[key])


def test_test_labels_cannot_matter(name: str, communities: Data) -> None:
    shuffled = communities.clone()
    shuffled.y[communities.test_mask] = 1 - shuffled.y[communities.test_mask]
    np.testing.assert_array_equal(
        fitted(name).predict_proba(), small(name).fit(shuffled).predict_proba()
    )


@pytest.mark.parametrize("choice", [{}, {"validation": False}])
def test_a_method_says_whether_validation_labels_train_it(
    name: str, choice: dict[str, Any], communities: Data
) -> None:
    """With one epoch there is none to choose."""
    if not set(choice) <= set(METHODS[name]().get_params()):
        pytest.skip("no such parameter")
    one = {"epochs": 1} if name in NETWORKS else {}
    other = communities.clone()
    other.y[other.val_mask] = 1 - other.y[other.val_mask]
    model = small(name, **one, **choice)
    first, second = (clone(model).fit(graph).predict_proba() for graph in (communities, other))
    assert np.array_equal(first, second) != model.trains_on_validation


def test_a_method_says_whether_it_uses_edge_weights(name: str, communities: Data) -> None:
    weighted = with_weights(communities)
    model, plain = small(name).fit(weighted), fitted(name)
    differ = not np.allclose(model.predict_proba(), plain.predict_proba(), atol=1e-5)
    assert differ == model.uses_edge_weights
    what = "used" if model.uses_edge_weights else "ignored"
    assert any(f"Edge weights are {what} by" in note for note in model.notes_)
    ignored = small(name).fit(NodeTask.of(weighted, weights=False))
    np.testing.assert_array_equal(ignored.predict_proba(), plain.predict_proba())
    assert not any("weights" in note for note in ignored.notes_)


def test_weights_of_one_are_no_weights(name: str, communities: Data) -> None:
    """Except for attention, which learns a parameter for them."""
    task = NodeTask.of(communities)
    weighted = replace(task, edge_weight=torch.ones(task.num_edges))
    takes_gcn = name in NETWORKS and METHODS[name].constraints["encoder"].accepts("gcn")
    change = {"encoder": "gcn"} if takes_gcn else {}
    ours, plain = (small(name, **change).fit(graph) for graph in (weighted, task))
    np.testing.assert_allclose(ours.predict_proba(), plain.predict_proba(), atol=2e-3)
    np.testing.assert_array_equal(ours.predict(), plain.predict())


def test_runs_with_other_edge_weights_are_not_runs_of_one_graph(
    name: str, communities: Data
) -> None:
    model = small(name)
    graphs = [with_weights(communities), communities]
    if model.uses_edge_weights:
        with pytest.raises(EraseError, match="edge weights"):
            model.fit_many(graphs, [0, 1])
    else:
        assert len(model.fit_many(graphs, [0, 1])) == 2


def test_clone_and_repr(name: str) -> None:
    model = small(name, seed=3)
    twin = clone(model)
    assert twin is not model
    assert twin.get_params() == model.get_params()
    assert "seed=3" in repr(model)
    assert model.set_params(seed=2).seed == 2


def test_saving_round_trips_exactly(name: str, communities: Data, tmp_path: Path) -> None:
    model = small(name, seed=2).fit(communities)
    model.save(tmp_path / "model.safetensors")
    path = tmp_path / "model.safetensors"
    for back in (load_model(path), type(model).load(path)):
        assert type(back) is type(model)
        assert back.get_params() == model.get_params()
        np.testing.assert_array_equal(back.predict_proba(), model.predict_proba())
        np.testing.assert_array_equal(back.transform(), model.transform())
        np.testing.assert_array_equal(back.labels_, model.labels_)
        assert back.history_ == model.history_
        assert back.best_epoch_ == model.best_epoch_
        assert back.score(communities) == model.score(communities)
        for key, value in model.fit_.weights.items():
            assert torch.equal(back.fit_.weights[key], value)


def test_loading_a_foreign_file_is_refused(name: str, tmp_path: Path) -> None:
    save_arrays(tmp_path / "other.safetensors", {"a": torch.ones(1)}, {"method": "Oracle"})
    with pytest.raises(EraseError, match="'Oracle'"):
        load_model(tmp_path / "other.safetensors")
    with pytest.raises(EraseError, match=r"erase\.load_model"):
        METHODS[name].load(tmp_path / "other.safetensors")


def test_class_names_come_back_as_names(name: str, communities: Data) -> None:
    named = communities.clone()
    named.y = [["apple", "pear"][k] for k in communities.y.tolist()]
    model = small(name).fit(named)
    assert set(model.predict()) <= {"apple", "pear"}
    assert set(model.labels_) <= {"apple", "pear"}
    assert model.score(named) == fitted(name).score(communities)


def test_classes_keep_the_numbers_they_have(name: str, communities: Data, tmp_path: Path) -> None:
    own = communities.clone()
    own.y = torch.tensor([10, 3000])[communities.y]
    model, usual = small(name).fit(own), fitted(name)
    assert model.classes_.tolist() == [10, 3000]
    assert model.predict_proba().shape == (communities.num_nodes, 2)
    np.testing.assert_array_equal(model.predict(), np.array([10, 3000])[usual.predict()])
    np.testing.assert_array_equal(model.labels_, np.array([10, 3000])[usual.labels_])
    assert model.score(own) == usual.score(communities)
    model.save(tmp_path / "own.safetensors")
    back = load_model(tmp_path / "own.safetensors")
    np.testing.assert_array_equal(back.predict(), model.predict())


def test_nasty_graphs_are_fine(name: str) -> None:
    """Isolated nodes, no edges, one-way edges, self-loops, an empty class, no validation set."""
    data = two_communities(size=20)
    data.y, data.num_classes = data.y * 2, 3  # class 1 of three has no node at all
    data.edge_index = torch.tensor([[0, 0, 3, 3], [2, 0, 5, 5]])
    data.val_mask = torch.zeros_like(data.val_mask)
    model = small(name).fit(data)
    assert model.predict_proba().shape == (40, 3)
    assert np.isfinite(model.predict_proba()).all()
    data.edge_index = torch.zeros(2, 0, dtype=torch.int64)
    del data.x
    model = small(name).fit(data)
    assert np.isfinite(model.predict_proba()).all()
    assert any("features" in note for note in model.notes_)


def test_a_task_and_its_data_give_the_same(name: str, communities: Data) -> None:
    np.testing.assert_array_equal(
        fitted(name).predict_proba(),
        small(name).fit(NodeTask.from_data(communities)).predict_proba(),
    )


def test_sparse_and_dense_features_give_the_same(network: str, communities: Data) -> None:
    sparse = communities.clone()
    sparse.x = communities.x.to_sparse_csr()
    dense = communities.clone()
    dense.x = communities.x + 0.0
    np.testing.assert_allclose(
        small(network, dropout=0.0).fit(sparse).predict_proba(),
        small(network, dropout=0.0).fit(dense).predict_proba(),
        atol=1e-3,
    )


def test_a_killed_run_resumes_to_the_same_result(
    network: str, communities: Data, tmp_path: Path
) -> None:
    whole = fitted(network)
    resumed = interrupt_and_resume(small(network), communities, tmp_path / "run.safetensors")
    np.testing.assert_array_equal(resumed.predict_proba(), whole.predict_proba())
    np.testing.assert_array_equal(resumed.transform(), whole.transform())
    assert resumed.history_ == whole.history_
    for key, value in whole.fit_.weights.items():
        assert torch.equal(resumed.fit_.weights[key], value)


def test_a_method_says_whether_it_keeps_checkpoints(
    name: str, communities: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("erase.training.loop._SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    path = tmp_path / "run.safetensors"
    small(name).fit(communities, checkpoint=path)
    assert path.exists() == METHODS[name].keeps_checkpoints


BAD = [("seed", -1), ("lr", 0), ("epochs", 0), ("encoder", "cnn"), ("dropout", 1.5), ("keep", 2)]


@pytest.mark.parametrize(
    ("name", "parameter", "value"),
    [(n, key, value) for n in METHODS for key, value in BAD if key in METHODS[n]().get_params()],
)
def test_bad_parameters_are_named(
    name: str, communities: Data, parameter: str, value: object
) -> None:
    with pytest.raises(EraseError, match=f"Correct {parameter} of"):
        small(name, **{parameter: value}).fit(communities)


@pytest.mark.parametrize(
    ("seed", "got"),
    [(2**63, "seed=9223372036854775808"), (10**5000, "a number of 16610 bits")],
    ids=["just", "by far"],
)
def test_seeds_that_are_too_large_are_told_the_limit(
    communities: Data, seed: int, got: str
) -> None:
    with pytest.raises(EraseError, match=f"whole number ≥ 0 and below 2\\^63; got .*{got}"):
        small("smoothed", seed=seed).fit(communities)


def test_every_parameter_is_constrained_and_nothing_else(name: str) -> None:
    assert set(METHODS[name]().get_params()) == {*METHODS[name].constraints, "device"}


def test_the_space_to_search_holds_the_default_and_keeps_the_constraints(name: str) -> None:
    method, defaults = METHODS[name], METHODS[name]().get_params()
    assert method.space
    for key, where in method.space.items():
        ends = where.values if isinstance(where, OneOf) else (where.low, where.high)
        assert all(method.constraints[key].accepts(value) for value in ends), key
        if isinstance(where, OneOf):
            assert defaults[key] in where.values
        else:
            assert where.low <= defaults[key] <= where.high
            assert where.low < where.high
            assert where.whole == isinstance(defaults[key], int)
            assert where.low > 0 or not where.log


def test_a_preset_is_the_method_with_your_changes(name: str) -> None:
    assert METHODS[name].preset().get_params() == METHODS[name]().get_params()
    change = METHODS[name].preset("reference", "a graph of mine", seed=5)
    assert change.get_params() == METHODS[name](seed=5).get_params()
    with pytest.raises(EraseError, match="recipe"):
        METHODS[name].preset("magic")


def test_networks_share_their_settings_on_a_large_graph(name: str) -> None:
    method = METHODS[name].preset(dataset="ogbn-arxiv", seed=3)
    if not isinstance(method, NetworkClassifier):
        assert method.get_params() == METHODS[name](seed=3).get_params()
        return
    assert (method.hidden, method.lr, method.epochs) == (64, 0.01, 5)
    assert (method.batch_size, method.num_neighbors) == (200, (5, 5))


def test_no_method_imports_another(name: str) -> None:
    own = METHODS[name].__module__
    others = {method.__module__ for method in METHODS.values()} - {own}
    seen = vars(sys.modules[own]).values()
    assert not {getattr(value, "__module__", None) for value in seen} & others


def test_a_bad_device_says_what_to_do(name: str, communities: Data) -> None:
    with pytest.raises(EraseError, match="'auto', 'cpu' or 'cuda'"):
        small(name, device="tpu9").fit(communities)


def test_predicting_before_fitting(name: str) -> None:
    with pytest.raises(NotFittedError):
        small(name).predict()


def test_score_needs_a_graph_it_can_predict_and_some_test_labels(
    name: str, communities: Data
) -> None:
    model = fitted(name)
    for size in (3, communities.num_nodes // 2):  # also another graph of as many nodes
        other = two_communities(size=size, seed=1)
        right = model.predict(other) == other.y.numpy()
        assert model.score(other) == right[other.test_mask.numpy()].mean()
    clean = communities.clone()
    clean.y = torch.where(clean.test_mask, clean.y, 1 - clean.y)  # not what the fit was given
    assert model.score(clean) == model.score(communities)
    with pytest.raises(EraseError, match="labels to compare predictions with"):
        model.score(corrupt(communities, "pair", 0.1))


def test_score_without_a_test_mask_takes_the_nodes_outside_the_splits(
    name: str, communities: Data
) -> None:
    model = fitted(name)
    bare = communities.clone()
    del bare.test_mask
    assert model.score(bare) == model.score(communities)


def test_many_runs_at_once_equal_their_single_fits(name: str, communities: Data) -> None:
    graphs = [corrupt(communities, "symmetric", 0.3, seed=s, on="train+val") for s in (0, 1, 2)]
    seeds = [4, 0, 7]
    together = small(name).fit_many(graphs, seeds)
    for model, graph, seed in zip(together, graphs, seeds, strict=True):
        alone = small(name, seed=seed).fit(graph)
        assert model.seed == seed
        assert model.best_epoch_ == alone.best_epoch_
        np.testing.assert_allclose(model.predict_proba(), alone.predict_proba(), atol=1e-3)
        np.testing.assert_allclose(model.transform(), alone.transform(), atol=1e-4)
        assert [h["loss"] for h in model.history_] == pytest.approx(
            [h["loss"] for h in alone.history_], rel=1e-3
        )
        for key, value in alone.fit_.weights.items():
            torch.testing.assert_close(model.fit_.weights[key], value, rtol=1e-2, atol=1e-4)
        np.testing.assert_allclose(model.predict_proba(graph), model.predict_proba(), atol=1e-5)


def test_no_trusted_label_is_changed(name: str, communities: Data, tmp_path: Path) -> None:
    """Trusted labels that contradict the given ones are learnt in their place."""
    trusted = torch.full_like(communities.y, -1)
    trusted[:12], trusted[40:46] = 1 - communities.y[:12], communities.y[40:46]
    known = (trusted >= 0).numpy()
    graph = communities.clone()
    graph.trusted = trusted
    model, plain = small(name).fit(graph), fitted(name)
    assert model.labels_[known].tolist() == trusted[trusted >= 0].tolist()
    assert np.abs(model.predict_proba() - plain.predict_proba()).max() > 1e-4
    (again,) = small(name).fit_many([graph], [0])
    np.testing.assert_array_equal(again.labels_, model.labels_)
    np.testing.assert_allclose(model.predict_proba(graph), model.predict_proba(), atol=1e-5)
    model.save(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(load_model(tmp_path / "m.safetensors").labels_, model.labels_)
    if name in NETWORKS:
        sampled = small(name, batch_size=20, epochs=2).fit(graph)
        assert sampled.labels_[known].tolist() == trusted[trusted >= 0].tolist()


def test_confirmed_labels_are_learnt_as_given_ones_are(name: str, communities: Data) -> None:
    """Where every given label is right, to confirm some changes little, and often nothing."""
    graph = communities.clone()
    graph.trusted = (communities.train_mask | communities.val_mask) & (torch.arange(80) % 2 == 0)
    model, plain = small(name).fit(graph), fitted(name)
    if name in TAKES_LABELS_AS_GIVEN:
        np.testing.assert_array_equal(model.predict_proba(), plain.predict_proba())
    assert np.mean(model.predict() == plain.predict()) > 0.9


def test_runs_stop_each_on_their_own(network: str, communities: Data) -> None:
    graphs = [corrupt(communities, "symmetric", 0.4, seed=s, on="train+val") for s in range(4)]
    changes: dict[str, Any] = {"patience": 4, "epochs": 30, "lr": 0.03}
    together = small(network, **changes).fit_many(graphs, [0, 1, 2, 3])
    alone = [small(network, **changes, seed=s).fit(g) for s, g in enumerate(graphs)]
    lengths = [len(model.history_) for model in together]
    assert lengths == [len(model.history_) for model in alone]
    assert len(set(lengths)) > 1


def test_many_runs_need_one_graph(name: str, communities: Data) -> None:
    with pytest.raises(EraseError, match="Fit them one by one"):
        small(name).fit_many([communities, two_communities(seed=1)], [0, 1])
    with pytest.raises(EraseError, match="same length"):
        small(name).fit_many([communities, communities], [0])
    first, second = small(name).fit_many([communities], [0, 1])
    assert (first.seed, second.seed) == (0, 1)
    if name in NETWORKS:
        assert not np.array_equal(first.transform(), second.transform())


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_learns_as_well(name: str, communities: Data) -> None:
    longer = {"epochs": 40} if name in NETWORKS else {}
    assert small(name, device="cuda", **longer).fit(communities).score(communities) > 0.8


def test_reduced_precision_changes_no_answer(name: str) -> None:
    graph = corrupt(two_communities(seed=3), "symmetric", 0.3, seed=0)
    plain = small(name, dropout=0.0) if name in NETWORKS else small(name)
    plain.fit(graph)
    with on_a_gpu_that_may_round() as products:
        rounded = plain.__class__(**plain.get_params()).fit(graph)
    assert np.mean(plain.predict() == rounded.predict()) >= 0.98
    np.testing.assert_allclose(rounded.predict_proba(), plain.predict_proba(), atol=0.05)
    only_encoders = "compute other products within erase.nn.precision.full_float32()"
    assert (products.rounded > 0) == (name in NETWORKS), only_encoders


def test_gradients_are_computed_in_full_precision(network: str, communities: Data) -> None:
    with on_a_gpu_that_may_round() as products:
        may_round, steps = products.rounds, []

        def rounds() -> bool:
            steps.append(is_in_backward())
            return steps[-1] and may_round()

        products.rounds = rounds
        small(network, epochs=2).fit(communities)
    assert any(steps)  # there were products on the way back
    assert products.rounded == 0


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cpu_gpu_and_tf32_agree_on_a_hard_cell(name: str) -> None:
    """Half of the labels wrong, in one direction: where ERASE's head once lost its digits."""
    truth = load_dataset("debian")
    graph = corrupt(truth, "asymmetric", 0.5, seed=1, on="train+val")
    params: dict[str, Any] = {"dropout": 0.0, "epochs": 40} if name in NETWORKS else {}
    seeds = range(5)
    scores, answers = {}, {}
    for arithmetic in ("cpu", "cuda", "tf32"):
        device = "cpu" if arithmetic == "cpu" else "cuda"
        torch.set_float32_matmul_precision("high" if arithmetic == "tf32" else "highest")
        try:
            models = METHODS[name](device=device, **params).fit_many([graph], seeds)
        finally:
            torch.set_float32_matmul_precision("highest")
        scores[arithmetic] = np.array([model.score(truth) for model in models])
        answers[arithmetic] = np.stack([model.predict() for model in models])
    for other in ("cuda", "tf32"):
        error = np.sqrt((scores["cpu"].var(ddof=1) + scores[other].var(ddof=1)) / len(seeds))
        assert abs(scores["cpu"].mean() - scores[other].mean()) <= max(0.01, error)
        assert np.mean(answers["cpu"] == answers[other]) >= 0.9


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_told_to_be_deterministic_repeats_every_bit(
    name: str, communities: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    try:
        first, second = (small(name, device="cuda").fit(communities) for _ in range(2))
    finally:
        torch.use_deterministic_algorithms(False)
    assert np.array_equal(first.transform(), second.transform())
    assert np.array_equal(first.predict_proba(), second.predict_proba())


def test_initial_weights_and_dropout_both_take_the_seed(network: str, communities: Data) -> None:
    first, other = (small(network, dropout=0.0, seed=s).fit(communities) for s in (0, 1))
    assert not np.array_equal(first.transform(), other.transform())  # the weights alone


def test_patience_ends_a_training_that_stands_still(network: str, communities: Data) -> None:
    model = small(network, dropout=0.0, lr=1e-12, patience=3).fit(communities)
    assert (model.best_epoch_, len(model.history_)) == (1, 4)


def test_every_parameter_is_stored_under_its_own_name(name: str) -> None:
    defaults = METHODS[name]().get_params()
    for key in defaults:
        change: dict[str, Any] = {key: "mine"}
        assert METHODS[name](**change).get_params() == defaults | change


def test_names_and_notes_survive_saving(name: str, communities: Data, tmp_path: Path) -> None:
    communities.class_names = ["apple", "pear"]
    del communities.x
    model = small(name).fit(communities)
    assert model.notes_ == NodeTask.from_data(communities).notes != ()
    assert model.class_names_ == ("apple", "pear")
    model.save(tmp_path / "model.safetensors")
    back = load_model(tmp_path / "model.safetensors")
    assert (back.notes_, back.class_names_) == (model.notes_, model.class_names_)


def test_a_file_of_another_format_is_refused(name: str, tmp_path: Path) -> None:
    path, method = tmp_path / "other.safetensors", METHODS[name]
    save_arrays(path, {"a": torch.ones(1)}, {"method": method.__name__, "format": 1})
    with pytest.raises(EraseError, match=r"format 1\. Fit the model again"):
        method.load(path)


def test_score_refuses_labels_of_another_kind(communities: Data) -> None:
    model = small("label-propagation").fit(communities)
    named, shifted, more = communities.clone(), communities.clone(), communities.clone()
    named.y = [["apple", "pear"][k] for k in communities.y.tolist()]
    with pytest.raises(EraseError, match=r"numbers \(0, 1\); got .* names \('apple', 'pear'\)"):
        model.score(named)
    with pytest.raises(EraseError, match=r"names \('apple', 'pear'\); got .* numbers \(0, 1\)"):
        small("label-propagation").fit(named).score(communities)
    shifted.y = communities.y + 10
    with pytest.raises(EraseError, match=r"numbers \(0, 1\); got .* numbers \(10, 11\)"):
        model.score(shifted)
    more.y[communities.y == 1] = 7  # a class that the fit did not know: a wrong answer
    right = model.predict() == communities.y.numpy()
    test, first = communities.test_mask.numpy(), (communities.y == 0).numpy()
    assert model.score(more) == (right & first)[test].mean() > 0


def test_progress_is_shown_when_asked_for(
    network: str,
    communities: Data,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("erase.training.progress.SECONDS_BETWEEN_LINES", -1.0)
    small(network).fit(communities, progress=True)
    assert "epoch 8/8" in capsys.readouterr().err


def test_score_leaves_validation_and_unknown_labels_out(name: str, communities: Data) -> None:
    model = fitted(name)
    truth = communities.clone()
    truth.y = torch.from_numpy(model.predict()).clone()
    del truth.test_mask
    truth.y[truth.val_mask | truth.train_mask] = 1 - truth.y[truth.val_mask | truth.train_mask]
    assert model.score(truth) == 1.0
    last = int(communities.test_mask.nonzero()[-1])
    truth.test_mask = communities.test_mask
    truth.y[communities.test_mask] = 1 - truth.y[communities.test_mask]
    truth.y[last] = -1  # would be read as the last class
    assert model.score(truth) == 0.0
    truth.y = torch.from_numpy(model.predict()).clone()
    truth.y[last] = -1
    assert model.score(truth) == 1.0


@pytest.mark.parametrize(
    ("constraint", "good", "bad"),
    [
        (COUNT, [1, 2, np.int64(3)], [0, -1, 1.0, True, "1", None]),
        (POSITIVE, [1e-9, 3, np.float32(0.5)], [0, 0.0, -1, True, float("nan")]),
        (SHARE, [0, 0.0, 0.5, 1, 1.0], [-0.1, 1.1, True, float("nan")]),
        (SWITCH, [True, False], [0, 1, "true", None]),
        (Number(low=0), [0, 2.5], [-1e-9]),
        (Number(low=0, whole=True), [0, np.int32(7)], [-1, 0.5, False]),
    ],
    ids=str,
)
def test_constraints_at_their_limits(
    constraint: Constraint, good: list[Any], bad: list[Any]
) -> None:
    assert [constraint.accepts(value) for value in good] == [True] * len(good)
    assert [constraint.accepts(value) for value in bad] == [False] * len(bad)


@pytest.mark.parametrize(("there", "taken"), [(True, "cuda"), (False, "cpu")])
def test_auto_takes_a_gpu_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch, there: bool, taken: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    assert resolve_device("auto").type == taken
    assert resolve_device("cpu").type == "cpu"
    if there:
        assert resolve_device("cuda").type == "cuda"
    else:
        with pytest.raises(EraseError, match="Use device='cpu'"):
            resolve_device("cuda")


def test_scikit_learn_takes_a_method_for_a_classifier(name: str) -> None:
    assert is_classifier(METHODS[name]())


@pytest.mark.parametrize("wrap", [np.asarray, pd.DataFrame, list])
def test_arrays_without_edges_are_refused_with_what_to_use(wrap: Any, communities: Data) -> None:
    x, y = wrap(communities.x.numpy()), communities.y.numpy()
    remedy = r"expected a graph; got .*erase\.from_arrays\(edges, x=X, y=y\)"
    with pytest.raises(EraseError, match=remedy):
        LabelPropagation().fit(x, y)
    with pytest.raises(ValueError, match=remedy):
        cross_val_score(LabelPropagation(), x, y)


def test_labels_beside_a_graph_are_refused(communities: Data) -> None:
    refused = "a graph that holds its labels; got labels beside it"
    with pytest.raises(EraseError, match=refused):
        LabelPropagation().fit(communities, communities.y)
    model: Any = fitted("label-propagation")
    with pytest.raises(EraseError, match=refused):
        model.score(communities, communities.y)


def test_a_fitted_method_shows_what_was_fitted(
    name: str, communities: Data, tmp_path: Path
) -> None:
    model = small(name, seed=3)
    title = repr(model)
    assert "fitted" not in title
    model.fit(communities)
    assert repr(clone(model)) == title
    model.save(tmp_path / "model.safetensors")
    for each in (model, load_model(tmp_path / "model.safetensors")):
        assert repr(each).startswith(f"<{title}, fitted: 80 nodes, 2 classes")
        assert ("best epoch" in repr(each)) == bool(model.history_)
        shown = each._repr_mimebundle_()
        assert "<th>classes</th><td>2</td>" in shown["text/html"]
        assert f"<caption>{title.split('(')[0]}(" in shown["text/html"]
