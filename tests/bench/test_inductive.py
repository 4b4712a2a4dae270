"""Cells scored on drawn test nodes, which the fit saw or did not see, and their table."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from erase.bench import labels_of_cell
from erase.bench.correction import CORRECTED_BY
from erase.bench.inductive import (
    SEEN,
    UNSEEN,
    drawn_nodes,
    task_to_fit,
    without_drawn_nodes,
    without_nodes,
)
from erase.bench.records import Cell, Record, read
from erase.bench.runner import Batch, Execution, plan, run_batch, run_cells
from erase.bench.studies import STUDIES, Study, check
from erase.bench.tables import build
from erase.data.labels import encode_labels
from erase.data.splits import read_splits
from erase.data.task import NodeTask
from erase.errors import EraseError
from erase.methods import NodeClassifier
from erase.methods.smoothed import SmoothedLogReg
from graphs import tiny, with_weights

pytestmark = pytest.mark.usefixtures("tiny_dataset")
HERE = Execution("cpu", threads=1)


def cell(fit: str | None = UNSEEN, share: Any = 0.2, **changes: Any) -> Cell:
    params = {"width": 8} | ({} if fit is None else {fit: share})
    return replace(Cell("tiny", "symmetric", 0.3, "smoothed", params, "honest", 0), **changes)


def run(*cells: Cell) -> list[Record]:
    return [result.record for result in run_batch(Batch(cells, False, False, "cpu", 1))]


def test_drawn_nodes_are_test_nodes_with_a_known_class() -> None:
    graph = tiny()
    unknown = read_splits(graph, graph.y).test.nonzero().squeeze(1)[::2]
    graph.y[unknown] = -1
    for seed in range(5):
        drawn = drawn_nodes(graph, cell(seed=seed, share=0.1))
        assert drawn.sum() == 12
        assert not (drawn & (graph.train_mask | graph.val_mask)).any()
        assert (graph.test_mask[drawn] & (graph.y[drawn] >= 0)).all()


def test_a_pair_has_the_same_nodes_and_another_seed_has_others() -> None:
    ours = drawn_nodes(tiny(), cell(UNSEEN))
    assert torch.equal(ours, drawn_nodes(tiny(), cell(SEEN)))
    assert torch.equal(ours, drawn_nodes(tiny(), cell(UNSEEN, noise="asymmetric")))
    assert not torch.equal(ours, drawn_nodes(tiny(), cell(UNSEEN, seed=1)))


def test_all_test_nodes_are_drawn_where_there_are_fewer() -> None:
    graph = tiny()
    assert torch.equal(drawn_nodes(graph, cell(share=1.0)), graph.test_mask)
    graph.y[graph.test_mask] = -1
    with pytest.raises(EraseError, match="test nodes with labels"):
        drawn_nodes(graph, cell())


@pytest.mark.parametrize("sparse", [False, True])
def test_a_task_without_nodes_is_that_of_the_induced_graph(sparse: bool) -> None:
    graph = with_weights(tiny())
    removed = torch.rand(120, generator=torch.Generator().manual_seed(0)) < 0.3
    expected = NodeTask.from_data(graph.subgraph(~removed))
    whole = NodeTask.from_data(graph)
    if sparse:
        whole = replace(whole, x=whole.x.to_dense().to_sparse_csr())
    found = without_nodes(whole, removed)
    assert torch.equal(found.x.to_dense(), expected.x.to_dense())
    for name in ("edge_index", "edge_weight", "y", "train_mask", "val_mask"):
        assert torch.equal(getattr(found, name), getattr(expected, name)), name
    assert found.node_names is not None
    assert expected.node_names is not None
    assert list(found.node_names) == list(expected.node_names)
    assert found.class_names == expected.class_names


def test_unseen_nodes_do_not_reach_the_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    fitted: list[NodeTask] = []
    fit_many = NodeClassifier.fit_many

    def watch(self: Any, graphs: Sequence[NodeTask], seeds: Sequence[int]) -> Any:
        fitted.extend(graphs)
        return fit_many(self, graphs, seeds)

    monkeypatch.setattr(NodeClassifier, "fit_many", watch)
    (unseen,), (seen,) = run(cell(UNSEEN)), run(cell(SEEN))
    without, whole = fitted
    assert (without.num_nodes, whole.num_nodes) == (96, 120)
    assert without.num_edges < whole.num_edges
    kept = ~drawn_nodes(tiny(), cell())
    assert torch.equal(without.y, whole.y[kept])  # the same labels, drawn before nodes go
    assert unseen.scores.keys() == seen.scores.keys()
    assert (unseen.scores["scored_nodes"], unseen.scores["fit_nodes"]) == (24, 96)
    assert (seen.scores["scored_nodes"], seen.scores["fit_nodes"]) == (24, 120)


def test_the_fit_does_not_depend_on_what_unseen_nodes_are() -> None:
    graph, other = tiny(), tiny()
    drawn = drawn_nodes(graph, cell())
    other.x[drawn] = 1 - other.x[drawn]
    inside = other.edge_index[:, ~drawn[other.edge_index].any(0)]
    other.edge_index = inside
    first, second = (
        task_to_fit(NodeTask.from_data(labels_of_cell(g, cell())), g, cell())
        for g in (graph, other)
    )
    assert torch.equal(first.x.to_dense(), second.x.to_dense())
    assert torch.equal(first.edge_index, second.edge_index)
    assert torch.equal(first.y, second.y)


def test_scores_are_those_of_a_fit_applied_to_the_whole_graph() -> None:
    graph, wanted = tiny(), cell()
    drawn = drawn_nodes(graph, wanted).numpy()
    given = labels_of_cell(graph, wanted)
    y, _, _ = encode_labels(graph)
    task = NodeTask.from_data(given)
    for fit, to_fit, applied_to in (
        (UNSEEN, task_to_fit(task, graph, wanted), given),
        (SEEN, task, None),
    ):
        predicted = SmoothedLogReg(width=8, device="cpu").fit(to_fit).predict(applied_to)
        accuracy = np.mean(predicted[drawn] == y.numpy()[drawn])
        (record,) = run(cell(fit))
        assert record.scores["test_accuracy"] == pytest.approx(accuracy)
        assert record.settings == {"width": 8}


@pytest.mark.parametrize("method", STUDIES["inductive"].grids[0].methods)
def test_every_method_of_the_study_runs(method: str) -> None:
    params = {"epochs": 2} if method in ("erase", "ce") else {}
    for fit in (SEEN, UNSEEN):
        (record,) = run(cell(method=method, params={**params, fit: 0.2}))
        assert record.error is None
        assert 0 <= (record.scores["test_accuracy"] or 0) <= 1


def test_unseen_cells_are_trained_one_by_one() -> None:
    cells = [cell(fit, seed=seed) for fit in (None, SEEN, UNSEEN) for seed in range(2)]
    batches = plan(Study("tests", ()), cells, replace(HERE, batch=10))
    assert [len(batch.cells) for batch in batches] == [4, 1, 1]


def test_a_batch_of_several_graphs_gives_the_records_of_single_cells() -> None:
    cells = [cell(seed=0), cell(seed=1), cell(SEEN, seed=1)]
    together = run(*cells)
    alone = [run(one)[0] for one in cells]
    assert [r.scores for r in together] == [r.scores for r in alone]
    assert [r.error for r in together] == [None] * 3


def test_records_keep_the_share(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    summary = run_cells(Study("tests", ()), [cell(SEEN), cell(UNSEEN), cell(None)], path, HERE)
    assert not summary.failures
    scores = {record.cell: record.scores for record in read(path)}
    assert set(scores) == {cell(SEEN), cell(UNSEEN), cell(None)}
    assert "macro_f1" in scores[cell(None)]
    assert without_drawn_nodes(cell(SEEN)) == without_drawn_nodes(cell(UNSEEN)) == cell(None)


@pytest.mark.parametrize("share", [0, -0.1, 1.5, "0.2", None, True])
@pytest.mark.parametrize("fit", [SEEN, UNSEEN])
def test_a_share_that_is_none_is_found_before_work(fit: str, share: Any) -> None:
    with pytest.raises(EraseError, match=f"{fit} = {share!r}"):
        check(Study("tests", ()), [cell(fit, share)])
    check(Study("tests", ()), [cell(fit)])


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (cell(params={SEEN: 0.2, UNSEEN: 0.2}), "seen and unseen"),
        (cell(params={UNSEEN: 0.2, CORRECTED_BY: "smoothed"}), "unseen and corrected_by"),
        (cell(method="audit", params={SEEN: 0.2, "judge": "ce"}), "seen and audit"),
    ],
)
def test_what_cannot_be_combined_is_found_before_work(wanted: Cell, words: str) -> None:
    with pytest.raises(EraseError, match=words):
        check(Study("tests", ()), [wanted])


@pytest.mark.parametrize(
    "study", [Study("tests", (), shift=True), Study("tests", (), keep_embeddings=True)]
)
def test_a_study_of_representations_has_no_drawn_nodes(study: Study) -> None:
    with pytest.raises(EraseError, match="representations"):
        check(study, [cell(method="erase", params={UNSEEN: 0.2})])


def test_the_study_consists_of_pairs() -> None:
    cells = STUDIES["inductive"].cells()
    assert len(cells) == 2 * 4 * 4 * 2 * 5
    seen = {without_drawn_nodes(c) for c in cells if SEEN in c.params}
    unseen = {without_drawn_nodes(c) for c in cells if UNSEEN in c.params}
    assert seen == unseen
    assert {c.protocol for c in cells} == {"honest"}


def test_the_table_has_both_rows_of_a_method() -> None:
    def made_up(fit: str | None, seed: int, accuracy: float, dataset: str = "cora") -> Record:
        params = {} if fit is None else {fit: 0.2}
        place = Cell(dataset, "symmetric", 0.3, "ce", params, "honest", seed)
        return Record(place, {"test_accuracy": accuracy})

    records = [
        made_up(None, 0, 0.10),  # scored on all test nodes: another cell
        made_up(SEEN, 0, 0.70),
        made_up(SEEN, 1, 0.72),
        made_up(UNSEEN, 0, 0.68),
        made_up(UNSEEN, 1, 0.66),
        made_up(SEEN, 0, 0.60, "debian"),
        made_up(UNSEEN, 0, 0.61, "debian"),
    ]
    table = build("inductive", records)
    cells = table.cells[table.cells["runs"] > 0]
    means = {(c.row, c.place): c.mean for c in cells.itertuples()}
    assert means == pytest.approx(
        {
            ("ce:seen", "Cora sym 0.3"): 71.0,
            ("ce:unseen", "Cora sym 0.3"): 67.0,
            ("ce:seen", "debian sym 0.3"): 60.0,
            ("ce:unseen", "debian sym 0.3"): 61.0,
        }
    )
    assert table.notes[0] == (
        "CE: not to have seen the nodes changes the accuracy by −1.50 points on average over 2 "
        "cells, from −4.00 to +1.00."
    )
    with pytest.raises(EraseError, match="erase bench inductive"):
        build("inductive", records[:1])
