"""Training by sampled batches: every method, exact where nothing is left out, bounded in memory."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import LabelPropagation

from erase.data.datasets import load_dataset
from erase.data.noise import corrupt
from erase.data.task import NodeTask
from erase.errors import EraseError
from erase.methods import ERASE, METHODS, CrossEntropy, NodeClassifier
from erase.methods.erase import EraseLearner
from erase.methods.network import NetworkClassifier, NetworkLearner
from erase.nn.encoders import ENCODERS, Encoder, Features, take_rows
from erase.nn.sparse import Graph
from erase.training import chunks
from erase.training.graphs import whole_graph
from graphs import LargestTensor, edge_lists, interrupt_and_resume, two_communities, with_weights

NETWORKS = [name for name in sorted(METHODS) if issubclass(METHODS[name], NetworkClassifier)]
SMALL: dict[str, Any] = {
    "hidden": 16,
    "width": 12,
    "heads": 2,
    "epochs": 5,
    "lr": 0.01,
    "device": "cpu",
    "batch_size": 8,
    "num_neighbors": (4, 3),
}
EVERYTHING: dict[str, Any] = {"batch_size": 10**6, "num_neighbors": (-1, -1), "dropout": 0.0}


def sampled(name: str, **changes: Any) -> NodeClassifier:
    known = METHODS[name]().get_params()
    return METHODS[name](**({k: v for k, v in SMALL.items() if k in known} | changes))


def learner_of(name: str, data: Data, **changes: Any) -> Any:
    method = sampled(name, **changes)
    assert isinstance(method, NetworkClassifier)
    return method._learner([NodeTask.of(data)], [0])


@pytest.fixture(params=NETWORKS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_it_learns_two_communities(name: str, communities: Data) -> None:
    assert sampled(name, epochs=12, lr=0.03).fit(communities).score(communities) > 0.8


def test_same_seed_same_result_and_no_global_random_state(name: str, communities: Data) -> None:
    before = torch.get_rng_state()
    first, again, other = (sampled(name, epochs=2, seed=s).fit(communities) for s in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), before)
    np.testing.assert_array_equal(first.predict_proba(), again.predict_proba())
    np.testing.assert_array_equal(first.transform(), again.transform())
    assert not np.array_equal(first.transform(), other.transform())


def test_batches_and_neighbours_matter(name: str, communities: Data) -> None:
    changes: list[dict[str, Any]] = [{}, {"batch_size": 5}, {"num_neighbors": (2, 3)}]
    usual, batches, neighbours = (
        sampled(name, epochs=2, **change).fit(communities).history_ for change in changes
    )
    assert batches != usual
    assert neighbours != usual


def test_many_runs_equal_their_single_fits(name: str, communities: Data) -> None:
    graphs = [corrupt(communities, "symmetric", 0.3, seed=s) for s in (0, 1)]
    together = sampled(name, epochs=3).fit_many(graphs, [4, 0])
    for model, graph, seed in zip(together, graphs, [4, 0], strict=True):
        alone = sampled(name, epochs=3, seed=seed).fit(graph)
        np.testing.assert_array_equal(model.predict_proba(), alone.predict_proba())


def test_a_killed_run_resumes_to_the_same_result(
    name: str, communities: Data, tmp_path: Path
) -> None:
    whole = sampled(name).fit(communities)
    resumed = interrupt_and_resume(sampled(name), communities, tmp_path / "run.safetensors")
    np.testing.assert_array_equal(resumed.predict_proba(), whole.predict_proba())
    np.testing.assert_array_equal(resumed.transform(), whole.transform())
    np.testing.assert_array_equal(resumed.labels_, whole.labels_)
    assert resumed.history_ == whole.history_


@pytest.mark.parametrize("encoder", sorted(ENCODERS))
@pytest.mark.parametrize("method", ["ce", "gce", "apl", "codis", "mcr2", "weighted ce"])
def test_all_training_nodes_with_all_neighbours_are_the_whole_graph(
    method: str, encoder: str, communities: Data
) -> None:
    """A loss on training nodes cannot tell, if the seeds' layers are the graph's own."""
    if method == "weighted ce":
        method, communities = "ce", with_weights(communities)
    batch = sampled(method, **EVERYTHING, encoder=encoder).fit(communities)
    whole = sampled(method, batch_size=0, dropout=0.0, encoder=encoder).fit(communities)
    assert [h["loss"] for h in batch.history_] == pytest.approx(
        [h["loss"] for h in whole.history_], rel=1e-4
    )
    np.testing.assert_allclose(batch.predict_proba(), whole.predict_proba(), atol=1e-3)
    assert batch.best_epoch_ == whole.best_epoch_


@pytest.mark.parametrize("encoder", sorted(ENCODERS))
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_seed_with_all_neighbours_has_the_output_of_the_whole_graph(
    encoder: str, sparse: bool, weighted: bool, communities: Data
) -> None:
    data = with_weights(communities) if weighted else communities.clone()
    data.x = data.x.to_sparse_csr() if sparse else data.x + 0.0
    learner = learner_of("ce", data, encoder=encoder, num_neighbors=(-1, -1))
    task = NodeTask.of(data)
    network = learner.parts["encoder"]
    assert isinstance(network, Encoder)
    whole = network(Features(task.x), whole_graph(task, torch.device("cpu")))
    for sample in learner.data.samples:
        batch = learner.data.batch_of(sample)
        ours = network(batch.x, batch.graph, last=batch.last)
        torch.testing.assert_close(ours, whole[:, batch.nodes], rtol=1e-4, atol=1e-5)
        assert batch.nodes.tolist() == sample.nodes[: sample.hops[0]].tolist()
        assert batch.given.tolist() == [task.y[batch.nodes].tolist()]


@pytest.mark.parametrize("kind", sorted(ENCODERS))
@given(edge_lists())
def test_layer_by_layer_equals_the_whole_forward(kind: str, graph: tuple[Tensor, int]) -> None:
    edge_index, n = graph
    stream = torch.Generator().manual_seed(0)
    whole = Graph(edge_index, n)
    for hidden, width in ((4, 9), (8, 3)):
        encoder = Encoder(
            kind,
            in_width=5,
            hidden=hidden,
            width=width,
            heads=2,
            dropout=0.5,
            hidden_activation="relu",
            output_activation="l2",
            streams=[stream, stream],
        )
        x = torch.randn(n, 5, generator=stream)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("erase.training.chunks.NODES_AT_ONCE", 3)
            ours = chunks.hidden_of_all(encoder, lambda nodes, x=x: Features(x[nodes]), whole)  # type: ignore[misc]
            torch.testing.assert_close(ours, encoder.hidden(Features(x), whole))
            torch.testing.assert_close(
                chunks.output_of_all(encoder, ours, whole), encoder(Features(x), whole)
            )


def test_rows_of_sparse_and_dense_features() -> None:
    dense = torch.tensor([[1.0, 0, 2], [0, 0, 0], [0, 3, 0], [4, 5, 6]])
    nodes = torch.tensor([3, 1, 3, 0])
    sparse = take_rows(dense.to_sparse_csr(), nodes)
    assert sparse.layout == torch.sparse_csr
    assert torch.equal(sparse.to_dense(), dense[nodes])
    assert torch.equal(take_rows(dense, nodes), dense[nodes])


@pytest.mark.parametrize("weighted", [False, True])
def test_a_convolution_over_sampled_neighbours_is_right_on_average(
    communities: Data, weighted: bool
) -> None:
    data = with_weights(communities) if weighted else communities
    learner = learner_of("ce-gcn", data, num_neighbors=(3, 3), batch_size=40)
    task = NodeTask.of(data)
    whole = whole_graph(task, torch.device("cpu"))
    x = take_rows(task.x, torch.arange(task.num_nodes)).to_dense()
    for how, loops in (("symmetric", True), ("row", False), ("column", False)):
        pattern, values = whole.normalised(how, self_loops=loops)  # type: ignore[arg-type]
        exact = pattern.matmul(values, x)[task.train_index]
        total = torch.zeros_like(x)
        for _ in range(300):
            (sample,) = learner.data.samples
            batch = learner.data.batch_of(sample)
            operator, weights = batch.last.normalised(how, self_loops=loops)
            around = x[sample.nodes[: batch.last.num_nodes]]
            total[batch.nodes] += operator.matmul(weights, around) / 300
        error = (total[task.train_index] - exact).abs().max()
        assert float(error) < 0.1 * float(exact.abs().max()), how


def test_semantic_labels_are_the_graphs_own_of_the_epochs_first_weights(communities: Data) -> None:
    learner = learner_of("erase", communities)
    twin = learner_of("erase", communities, batch_size=0, dropout=0.0)
    twin.network.load_state_dict(learner.network.state_dict(), strict=False)
    assert isinstance(twin, EraseLearner)
    expected = twin._membership(twin.guess(twin.encoder(twin.x, twin.graph))[0])
    learner.begin_epoch()
    assert torch.equal(learner.membership, expected)


def arxiv_recipe(**changes: Any) -> ERASE:
    small = {"hidden": 16, "width": 24, "heads": 2, "batch_size": 10, "device": "cpu"}
    return ERASE.preset("reference", "ogbn-arxiv", **(small | changes))


def test_the_semantic_labels_of_ogbn_arxiv_are_pygs_label_propagation() -> None:
    data = corrupt(two_communities(size=30, classes=3), "symmetric", 0.3, seed=1)
    task = NodeTask.of(data)
    learner = arxiv_recipe()._learner([task], [0])
    assert isinstance(learner, NetworkLearner)
    spread = LabelPropagation(num_layers=50, alpha=0.6)
    denoised = spread(task.y.clamp(min=0), task.edge_index, mask=task.train_mask)

    def expected() -> Tensor:
        """Return the classes that follow from the weights as they are [N]."""
        encoder = learner.network["encoder"]  # type: ignore[index]
        (z,) = encoder(Features(task.x), Graph(task.edge_index, task.num_nodes))
        train = torch.where(task.train_mask, denoised.argmax(1), -1)
        centres = torch.stack([z[train == k].mean(0) for k in range(3)])
        cosine = torch.cosine_similarity(z[:, None], centres[None], dim=2)
        mixture = 0.5 * denoised + 0.5 * cosine.abs()
        classes: Tensor = spread(mixture, task.edge_index, mask=task.train_mask).argmax(1)
        return classes

    with torch.no_grad():
        for _ in range(3):
            before = expected()
            with torch.enable_grad():
                learner.step()
            assert learner.membership[0].equal(before)  # type: ignore[attr-defined]
            assert learner.evaluate().labels[0].equal(expected())


def test_labels_refreshed_for_the_head_are_those_of_the_next_epoch(communities: Data) -> None:
    """They are not computed twice, and a run that computes them again goes the same way."""
    learners = [arxiv_recipe()._learner([NodeTask.of(communities)], [0]) for _ in range(2)]
    computed = []
    for learner, evaluates in zip(learners, (True, False), strict=True):
        refresh, calls = learner._refresh_labels, 0  # type: ignore[attr-defined]

        def counted(refresh: Callable[[], None] = refresh) -> None:
            nonlocal calls
            calls += 1
            refresh()

        learner._refresh_labels = counted  # type: ignore[attr-defined]
        for _ in range(3):
            learner.step()
            if evaluates:
                learner.evaluate()
        computed.append(calls)
    assert computed == [4, 3]
    for a, b in zip(*(learner.network.parameters() for learner in learners), strict=True):
        assert torch.equal(a, b)


@pytest.mark.slow
def test_the_recipe_of_ogbn_arxiv_learns_where_its_hidden_layer_is_normalised() -> None:
    """Without the L1 norm an output on the unit sphere loses the classes: 62 % in place of 85 %."""
    clean = load_dataset(
        "citations",
        num_nodes=3_000,
        num_edges=20_700,
        num_classes=20,
        num_features=64,
        homophily=0.65,
        class_exponent=3.0,
        dense=True,
        train_share=0.54,
    )
    noisy = corrupt(clean, "symmetric", 0.3, seed=0)
    scores = {
        inner: ERASE.preset(
            "reference", "ogbn-arxiv", width=128, batch_size=100, device="cpu", inner=inner
        )
        .fit(noisy)
        .score(clean)
        for inner in ("relu-l1", "relu")
    }
    assert scores["relu-l1"] > 0.75
    assert scores["relu-l1"] > scores["relu"] + 0.1


def test_the_recipe_of_ogbn_arxiv_trains(communities: Data) -> None:
    model = arxiv_recipe().fit(communities)
    assert model.score(communities) > 0.8
    lengths = np.linalg.norm(model.transform(), axis=1)
    assert (lengths <= 1 + 1e-5).all()


@pytest.mark.parametrize(
    ("train", "neighbours", "every"), [(40, (4, 3), 1), (4, (4, 3), 2), (4, (-1, 1), 1)]
)
def test_evaluations_are_as_far_apart_as_passes_over_the_graph(
    train: int, neighbours: tuple[int, int], every: int
) -> None:
    """4 training nodes with 4 and 3 neighbours: 4 · (1 + 4 + 12) = 68 of 80 nodes an epoch."""
    data = two_communities()
    mask = torch.zeros_like(data.train_mask)
    mask[:train] = True
    data.train_mask, data.val_mask = mask, ~mask & data.val_mask
    model = CrossEntropy(
        hidden=8, heads=2, epochs=5, batch_size=2, num_neighbors=neighbours, device="cpu"
    ).fit(data)
    evaluated = [h["epoch"] for h in model.history_ if "val_accuracy" in h]
    assert evaluated == sorted({*range(every, 6, every), 5})
    assert model.best_epoch_ in evaluated


def test_no_patience_ends_a_run_that_was_not_evaluated() -> None:
    data = two_communities()
    data.train_mask = torch.zeros_like(data.train_mask)
    data.train_mask[:2] = True
    data.val_mask[:2] = False
    model = CrossEntropy(
        hidden=8,
        heads=2,
        epochs=30,
        patience=1,
        lr=1e-12,
        batch_size=2,
        num_neighbors=(1, 1),
        device="cpu",
    ).fit(data)
    every = -(-80 // (2 * 3))
    assert (model.best_epoch_, len(model.history_)) == (every, 2 * every)


def test_without_validation_the_last_epoch_is_taken(name: str, communities: Data) -> None:
    data = communities.clone()
    data.val_mask = torch.zeros_like(data.val_mask)
    model = sampled(name).fit(data)
    assert model.best_epoch_ == 5
    assert model.predict_proba().shape == (80, 2)


def test_the_answer_is_that_of_the_best_epoch(communities: Data) -> None:
    model = sampled("ce", epochs=12, lr=0.05).fit(communities)
    short = sampled("ce", epochs=model.best_epoch_, lr=0.05).fit(communities)
    assert model.best_epoch_ < 12
    np.testing.assert_array_equal(model.predict_proba(), short.predict_proba())
    for key, value in model.fit_.weights.items():
        assert torch.equal(value, short.fit_.weights[key])


def test_features_are_read_row_by_row() -> None:
    """No tensor of a step is as large as x; a batch of 8 reaches at most 8 · 17 rows."""
    n, width = 2_000, 300
    stream = torch.Generator().manual_seed(0)
    edges = torch.randint(n, (2, 4 * n), generator=stream)
    y = torch.arange(n) % 2
    train = torch.arange(n) < 100
    x = torch.randn(n, width, generator=stream)
    data = Data(x=x, edge_index=edges, y=y, train_mask=train)
    learner = learner_of("ce", data)
    with LargestTensor() as largest:
        learner.step()
    assert largest.numbers <= 8 * 17 * width < n * width / 4


@pytest.mark.parametrize("value", [(0, 5), (5,), (5, 5, 5), (5, -2), (2.5, 1), "5,5", 5], ids=str)
def test_neighbours_that_cannot_be_are_named(communities: Data, value: Any) -> None:
    with pytest.raises(EraseError, match="Correct num_neighbors of"):
        CrossEntropy(num_neighbors=value).fit(communities)


def test_lists_are_as_good_as_tuples(communities: Data) -> None:
    first, second = (
        sampled("ce", num_neighbors=kind((4, 3))).fit(communities) for kind in (tuple, list)
    )
    np.testing.assert_array_equal(first.predict_proba(), second.predict_proba())


@pytest.mark.parametrize("objective", ["batch", "graph"])
def test_representations_of_all_nodes_are_held_at_the_end_alone(
    objective: str, communities: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "NODES_AT_ONCE", 10)
    model = ERASE(device="cpu", width=64, hidden=8, batch_size=10, objective=objective)
    learner = model._learner([NodeTask.of(communities)], [0])
    learner.step()
    trained = int(communities.train_mask.sum())
    with LargestTensor() as largest:
        assert learner.evaluate().embedding.numel() == 0
    assert largest.numbers <= max(trained * 65, 65 * 65) < communities.num_nodes * 64
    assert learner.finish().embedding.shape == (1, communities.num_nodes, 64)


@pytest.mark.parametrize("objective", ["batch", "graph"])
def test_chunks_of_representations_change_nothing(
    objective: str, communities: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes = []
    for size in (10, 10_000):
        monkeypatch.setattr(chunks, "NODES_AT_ONCE", size)
        model = ERASE(device="cpu", width=24, hidden=8, batch_size=10, objective=objective)
        learner = model._learner([NodeTask.of(communities)], [0])
        for _ in range(3):
            learner.step()
        outcomes.append(learner.finish())
    few, all_at_once = outcomes
    torch.testing.assert_close(few.proba, all_at_once.proba, atol=1e-4, rtol=1e-3)
    torch.testing.assert_close(few.embedding, all_at_once.embedding, atol=1e-4, rtol=1e-3)
    assert torch.equal(few.labels, all_at_once.labels)
