"""A graph's folder: the same task as before, opened without reading, whole or not at all."""

import gc
import json
import os
import shutil
import sys
import tracemalloc
from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import HealthCheck, given, settings
from torch_geometric.data import Data

import erase.data.folder
from erase.data import edge_sorter
from erase.data.fields import Names, was_checked
from erase.data.files import read_graph, write_graph
from erase.data.folder import MANIFEST, FolderWriter, open_folder, write_folder
from erase.data.labels import encode_labels
from erase.data.parts import put_in_place
from erase.data.splits import split_mask
from erase.data.task import NodeTask
from erase.errors import EraseError
from graphs import two_communities

CLASSES = ["ham", "añb", "c"]


def a_graph(**changes: Any) -> Data:
    data = Data(
        x=torch.tensor([[0.1, 2.0], [1 / 3, -1e-30], [3e30, 0.0], [4.0, 5.0]]),
        edge_index=torch.tensor([[0, 1, 3, 3, 0, 1], [1, 2, 3, 0, 1, 0]]),
        y=torch.tensor([0, 1, 2, -1]),
        train_mask=torch.tensor([True, True, False, False]),
        test_mask=torch.tensor([False, False, True, True]),
        class_names=CLASSES,
    )
    for name, value in changes.items():
        data[name] = value
    return data


def same_graph(a: Data, b: Data) -> None:
    """Assert that two graphs are one: to a method, to who scores, and in their splits."""
    left, right = NodeTask.from_data(a), NodeTask.from_data(b)
    for name in ("edge_index", "y", "train_mask", "val_mask", "indptr"):
        assert torch.equal(getattr(left, name), getattr(right, name)), name
    assert left.x.layout == right.x.layout
    assert torch.equal(left.x.to_dense(), right.x.to_dense())
    assert left.class_names == right.class_names
    assert left.label_values.tolist() == right.label_values.tolist()
    assert left.label_values.dtype.kind == right.label_values.dtype.kind
    names = [None if each.node_names is None else list(each.node_names) for each in (left, right)]
    assert names[0] == names[1]
    assert torch.equal(encode_labels(a)[0], encode_labels(b)[0])
    for name in ("edge_weight", "edge_is_given"):
        torch.testing.assert_close(getattr(left, name), getattr(right, name))
    ids = [
        None if each.node_ids is None else list(map(str, each.node_ids)) for each in (left, right)
    ]
    assert ids[0] == ids[1]
    for part in ("train", "val", "test"):
        masks = [split_mask(each, part, left.num_nodes) for each in (a, b)]
        assert str(masks[0]) == str(masks[1])


@st.composite
def graphs(draw: st.DrawFn) -> Data:
    n = draw(st.integers(2, 12))
    node = st.integers(0, n - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=30))
    labels = [0, 1, *draw(st.lists(st.integers(-1, 2), min_size=n - 2, max_size=n - 2))]
    data = Data(edge_index=torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t())
    data.y = torch.tensor(labels)
    if draw(st.booleans()):
        weight = st.sampled_from([0.0, 0.5, 1.0, 3.0])
        weights = draw(st.lists(weight, min_size=len(edges), max_size=len(edges)))
        data.edge_weight = torch.tensor(weights)
    if draw(st.booleans()):
        data.directed = True
    if draw(st.booleans()):
        data.node_ids = list(range(n, 2 * n))
    if draw(st.booleans()):
        data.y = [None if label < 0 else CLASSES[label] for label in labels]
    if draw(st.booleans()):
        data.class_names = CLASSES
    elif draw(st.booleans()) and isinstance(data.y, torch.Tensor):
        data.y = torch.tensor([7, 1, 40, -1])[data.y]
    rows = draw(st.lists(st.lists(st.sampled_from([0, 0, 0, 1.5, -2]), min_size=3, max_size=3),
                         min_size=n, max_size=n))  # fmt: skip
    x = torch.tensor(rows, dtype=torch.float32)
    data.num_nodes = n
    if kind := draw(st.sampled_from(["", "dense", "sparse"])):
        data.x = x if kind == "dense" else x.to_sparse_csr()
    part = st.lists(st.booleans(), min_size=n - 2, max_size=n - 2)
    if draw(st.booleans()):
        data.train_mask = torch.tensor([True, True, *draw(part)])
    if draw(st.booleans()):
        data.test_mask = torch.tensor([False, False, *draw(part)])
    if draw(st.booleans()):
        # numpy, and so .npz, loses zero bytes at a name's end
        name = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=3)
        data.node_names = draw(st.lists(name, min_size=n, max_size=n))
    return data


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=graphs())
def test_any_graph_comes_back_exactly(data: Data, tmp_path: Path) -> None:
    folder, back = tmp_path / "folder", tmp_path / "back.npz"
    write_folder(data, folder)
    opened = read_graph(folder)
    same_graph(data, opened)
    notes, notes_again = NodeTask.from_data(data).notes, NodeTask.from_data(opened).notes
    assert sorted(notes) == sorted(notes_again)
    write_graph(opened, back)
    write_folder(read_graph(back), folder)
    same_graph(data, read_graph(folder))
    write_folder(opened, tmp_path / "again")
    same_graph(data, read_graph(tmp_path / "again"))


def test_ids_come_back_as_numbers_or_names(tmp_path: Path) -> None:
    for ids in ([7, 8, 9, 10], ["007", "8", "9", "ten"]):
        write_folder(a_graph(node_ids=ids), tmp_path / "g")
        assert list(NodeTask.of(open_folder(tmp_path / "g")).node_ids or ()) == ids


@pytest.mark.parametrize("form", ["g.npz", "tables", "folder"])
def test_a_graph_without_labels_comes_back(form: str, tmp_path: Path) -> None:
    for changes in ({}, {"x": None, "num_nodes": 4}):
        data = a_graph(y=None, class_names=None, train_mask=None, test_mask=None, **changes)
        (write_folder if form == "folder" else write_graph)(data, tmp_path / form)
        back = read_graph(tmp_path / form)
        assert "y" not in back
        first, again = (NodeTask.of(each, labelled=False) for each in (data, back))
        torch.testing.assert_close(first.x.to_dense(), again.x.to_dense())
        assert torch.equal(first.edge_index, again.edge_index)


def test_weights_of_both_ways_and_of_pieces(tmp_path: Path) -> None:
    with FolderWriter(tmp_path / "g", 3, ["a", "b"]) as writer:
        writer.add_edges([[0], [1]], weight=[2.0], both_ways=True)
        writer.add_edges([[1, 2], [0, 1]], weight=[3.0, 5.0])
        with pytest.raises(EraseError, match="weights for all edges or for none"):
            writer.add_edges([[0], [2]])
    data = open_folder(tmp_path / "g")
    assert data.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert data.edge_weight.tolist() == [3.5, 3.5, 5, 5]  # the mean of 2 and 2 + 3


def test_labels_piece_by_piece_in_their_own_numbers(tmp_path: Path) -> None:
    with FolderWriter(tmp_path / "g", 3, ["a", "b"], class_values=[10, 30]) as writer:
        writer.add_labels([30, -1])
        with pytest.raises(EraseError, match=r"labels among class_values, .*label 1 at node 2"):
            writer.add_labels([1])
        writer.add_labels([10])
    y, names, values = encode_labels(open_folder(tmp_path / "g"))
    assert (y.tolist(), names, values.tolist()) == ([1, -1, 0], ("a", "b"), [10, 30])
    with pytest.raises(EraseError, match="2 class_values, one for each of class_names; got 1"):
        FolderWriter(tmp_path / "h", 3, ["a", "b"], class_values=[10])


@pytest.mark.parametrize("block", [1, 7, 1000])
def test_small_blocks_and_buckets_give_the_same_edges(
    block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    fame = np.minimum(rng.pareto(1.0, 600) * 3, 49).astype(np.int64)  # hubs: uneven buckets
    edges = torch.from_numpy(np.stack([fame, rng.integers(0, 50, 600)]))
    x = sp.csr_array((rng.random((50, 9)) * (rng.random((50, 9)) < 0.3)).astype(np.float32))
    data = Data(edge_index=edges, y=torch.arange(50) % 3, x=torch.from_numpy(x.toarray()))
    weight = torch.from_numpy(rng.random(600).astype(np.float32))
    for module in (erase.data.folder, edge_sorter):
        monkeypatch.setattr(module, "BLOCK", block)
    monkeypatch.setattr(edge_sorter, "BUCKETS", 3)
    monkeypatch.setattr(edge_sorter, "LARGEST_BUCKET", 20)
    for features, edge_weight, directed in (
        (data.x, None, False),
        (x, weight, False),
        (data.x.to_sparse_csr(), weight, True),
    ):
        data.x, data.edge_weight, data.directed = features, edge_weight, directed
        write_folder(data, tmp_path / "folder")
        same_graph(data, read_graph(tmp_path / "folder"))
    assert sorted(NodeTask.of(read_graph(tmp_path / "folder")).notes) == sorted(
        NodeTask.of(data).notes
    )


def test_the_task_lies_in_the_files_and_writing_to_it_changes_no_file(tmp_path: Path) -> None:
    for x in (a_graph().x, torch.eye(4).to_sparse_csr()):
        write_folder(a_graph(x=x), tmp_path / "folder")
        before = {file.name: file.read_bytes() for file in (tmp_path / "folder").iterdir()}
        data = open_folder(tmp_path / "folder")
        task = NodeTask.from_data(data)
        assert task.edge_index is data.edge_index
        assert task.x is data.x
        assert task.indptr is data.indptr
        maps = Path("/proc/self/maps")
        if maps.exists():
            assert str(tmp_path / "folder" / "edge_index.npy") in maps.read_text()
        task.edge_index[0, 0] = 3
        task.y[0] = 2
        data.y[0] = 2
        after = {file.name: file.read_bytes() for file in (tmp_path / "folder").iterdir()}
        assert before == after


def test_a_nearly_empty_matrix_becomes_sparse_as_in_any_task(tmp_path: Path) -> None:
    data = a_graph(x=torch.eye(4, 8))
    write_folder(data, tmp_path / "folder")
    opened = read_graph(tmp_path / "folder")
    assert opened.x.layout == torch.sparse_csr
    assert "x is kept sparse: 12.5% of its entries are not zero." in opened.notes
    same_graph(data, opened)


def test_another_tensor_in_its_place_is_checked_as_usual(tmp_path: Path) -> None:
    write_folder(a_graph(), tmp_path / "folder")
    data = open_folder(tmp_path / "folder")
    data.edge_index = torch.tensor([[0], [9]])
    with pytest.raises(EraseError, match=r"edge 0 from 0 to 9"):
        NodeTask.of(data)
    data = open_folder(tmp_path / "folder")
    data.x = torch.full((4, 2), float("nan"))
    with pytest.raises(EraseError, match="finite features"):
        NodeTask.of(data)
    assert not was_checked(a_graph(), "x")


def weighted_folder(path: Path) -> Data:
    data = two_communities(size=10)
    data.x = data.x.to_sparse_csr()
    data.edge_weight = torch.ones(data.edge_index.shape[1])
    write_folder(data, path)
    return open_folder(path)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda data: data.edge_index[1].fill_(10**9), "from 0 to 1000000000"),
        (lambda data: data.x.values().fill_(torch.nan), "finite features"),
        (lambda data: data.x.col_indices().fill_(10**9), "sparse matrix"),
        (lambda data: data.edge_weight.neg_(), "weights"),
        (lambda data: data.update({"edge_weight": data.edge_weight[:3]}), "weights?"),
        (lambda data: data.update({"edge_weight": -data.edge_weight}), "weights"),
    ],
)
def test_a_tensor_that_is_written_to_is_checked_again(
    edit: Callable[[Data], object], message: str, tmp_path: Path
) -> None:
    """Unchecked, other indices end the interpreter."""
    data = weighted_folder(tmp_path / "folder")
    assert was_checked(data, "x")
    assert was_checked(copy(data), "edge_index")
    edit(data)
    with pytest.raises(EraseError, match=message):
        NodeTask.of(data)


def test_edges_are_checked_again_for_fewer_nodes(tmp_path: Path) -> None:
    data = weighted_folder(tmp_path / "folder")
    data.update({"num_nodes": 3, "x": data.x.to_dense()[:3]})
    with pytest.raises(EraseError, match=r"between the nodes 0\.\.2"):
        NodeTask.of(data, labelled=False)


@pytest.mark.parametrize("in_place", [True, False])
def test_row_starts_that_are_written_to_are_not_used(in_place: bool, tmp_path: Path) -> None:
    data = weighted_folder(tmp_path / "folder")
    right = data.indptr.clone()
    if in_place:
        data.indptr.fill_(2**40)
    else:
        data.indptr = torch.full_like(right, 2**40)
    assert torch.equal(NodeTask.of(data).indptr, right)


def test_a_folder_opened_without_gradients_is_not_checked_twice(tmp_path: Path) -> None:
    weighted_folder(tmp_path / "folder")
    with torch.inference_mode():
        data = open_folder(tmp_path / "folder")
        assert was_checked(data, "x")
        assert was_checked(data, "edge_index")


@pytest.mark.skipif(sys.platform != "linux", reason="asks the system how much memory it holds")
@pytest.mark.parametrize("width", [2**24, 2**34])  # 256 MiB and 256 GiB of zeros, on no disk
def test_opening_costs_no_memory_however_large_the_file(
    width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if width > 2**30:  # as if it had been checked, which would take minutes
        monkeypatch.setattr(erase.data.folder, "is_remembered", lambda _: True)
    write_folder(a_graph(), tmp_path / "folder")
    path, manifest = tmp_path / "folder" / "x.npy", tmp_path / "folder" / MANIFEST
    content = json.loads(manifest.read_text())
    shape = (4, width)
    with path.open("r+b") as file:
        form = {"descr": "<f4", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, form)
        size = file.tell() + 4 * shape[0] * shape[1]
        file.truncate(size)
    content["num_features"] = shape[1]
    content["arrays"]["x"] |= {"shape": shape, "bytes": size}
    manifest.write_text(json.dumps(content))
    before = resident()
    task = NodeTask.of(read_graph(tmp_path / "folder"))
    assert float(task.x[3, -1]) == 0
    assert resident() - before < 2**25


def resident() -> int:
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.split("VmRSS:")[1].split()[0])


def test_names_are_read_one_by_one(tmp_path: Path) -> None:
    names = ["α", "", "node", "ζ" * 9]
    write_folder(a_graph(node_names=names), tmp_path / "folder")
    read = NodeTask.of(read_graph(tmp_path / "folder")).node_names
    assert isinstance(read, Names)
    assert list(read) == names == read[:]
    assert (read[3], read[-1], read[1:3]) == ("ζ" * 9, "ζ" * 9, ["", "node"])
    for wrong in (4, -5):
        with pytest.raises(IndexError):
            read[wrong]


def test_names_of_classes_stay_what_is_predicted(tmp_path: Path) -> None:
    data = a_graph(y=["c", "ham", "añb", ""])
    write_folder(data, tmp_path / "folder")
    opened = read_graph(tmp_path / "folder")
    assert opened.y.tolist() == [2, 0, 1, -1]
    assert NodeTask.of(opened).label_values.tolist() == CLASSES
    write_graph(opened, tmp_path / "back.npz")
    assert read_graph(tmp_path / "back.npz").y.tolist() == ["c", "ham", "añb", ""]


def change_manifest(folder: Path, **changes: Any) -> None:
    content = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps(content | changes))


def cut(name: str) -> Any:
    def damage(folder: Path) -> None:
        os.truncate(folder / name, (folder / name).stat().st_size - 4)

    return damage


def lengthen(folder: Path) -> None:
    with (folder / "y.npy").open("ab") as file:
        file.write(b"12345678")


def retype(folder: Path) -> None:
    np.save(folder / "y.npy", np.load(folder / "y.npy").view(np.float64))


def reshape(folder: Path) -> None:
    content = json.loads((folder / MANIFEST).read_text())
    np.save(folder / "indptr.npy", np.zeros(4, np.int64))
    entry = {"shape": [4], "bytes": (folder / "indptr.npy").stat().st_size}
    content["arrays"]["indptr"] |= entry
    (folder / MANIFEST).write_text(json.dumps(content))


def cut_and_lie(folder: Path) -> None:
    content = json.loads((folder / MANIFEST).read_text())
    cut("y.npy")(folder)
    content["arrays"]["y"]["bytes"] = (folder / "y.npy").stat().st_size
    (folder / MANIFEST).write_text(json.dumps(content))


def look_outside(folder: Path) -> None:
    content = json.loads((folder / MANIFEST).read_text())
    content["arrays"]["y"]["file"] = "../y.npy"
    (folder / MANIFEST).write_text(json.dumps(content))


DAMAGES: dict[str, tuple[Any, str]] = {
    "no manifest": (lambda folder: (folder / MANIFEST).unlink(), "its writer did not finish"),
    "half a manifest": (cut(MANIFEST), "not JSON"),
    "another format": (lambda f: change_manifest(f, format=2), "of format 1; got format 2"),
    "no format": (lambda f: (f / MANIFEST).write_text("[1]"), "got format None"),
    "cut edges": (cut("edge_index.npy"), r"edge_index.npy of .* bytes in place of"),
    "cut features": (cut("x.npy"), r"x.npy of .* bytes in place of"),
    "longer": (lengthen, r"y.npy of 168 bytes in place of 160"),
    "cut with its manifest": (cut_and_lie, "y.npy, which is cut short"),
    "missing": (lambda folder: (folder / "y.npy").unlink(), "with no y.npy"),
    "another type": (retype, "another type or shape"),
    "no array": (lambda f: (f / "y.npy").write_bytes(b"#" * 160), "y.npy, which is no array"),
    "another size": (reshape, r"indptr of shape \(4,\) in place of \(5,\)"),
    "other nodes": (lambda f: change_manifest(f, num_nodes=5), r"in place of \(6,\)"),
    "no arrays": (lambda folder: change_manifest(folder, arrays={}), "None in place of"),
    "outside": (look_outside, "an array outside"),
    "odd arrays": (lambda folder: change_manifest(folder, arrays=[1]), "a manifest in which"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_folder_is_an_error(name: str, tmp_path: Path) -> None:
    damage, message = DAMAGES[name]
    folder = tmp_path / "graph"
    write_folder(a_graph(), folder)
    damage(folder)
    with pytest.raises(EraseError, match=message):
        read_graph(folder)


def interrupted(folder: Path) -> None:
    with FolderWriter(folder, num_nodes=4, class_names=CLASSES) as writer:
        writer.add_edges([[0], [1]])
        writer.add_labels([0, 1, 2, -1])
        raise KeyboardInterrupt


def test_a_writer_that_fails_leaves_the_old_folder_and_no_other(tmp_path: Path) -> None:
    folder = tmp_path / "graph"
    write_folder(a_graph(), folder)
    with pytest.raises(KeyboardInterrupt):
        interrupted(folder)
    assert os.listdir(tmp_path) == ["graph"]
    same_graph(a_graph(), read_graph(folder))
    write_folder(a_graph(y=torch.tensor([1, 0, 2, -1])), folder)
    assert read_graph(folder).y.tolist() == [1, 0, 2, -1]
    assert os.listdir(tmp_path) == ["graph"]


def test_a_killed_writer_leaves_nothing_under_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: Any, **__: Any) -> None:
        raise OSError("disk full")

    for step in ("put_in_place", "json.dump", "os.fsync"):
        with monkeypatch.context() as patch:
            patch.setattr(f"erase.data.folder.{step}", killed)
            with pytest.raises(OSError, match="disk full"):
                write_folder(a_graph(), tmp_path / "graph")
        assert os.listdir(tmp_path) == []


def test_what_a_killed_process_leaves_is_not_taken_for_a_graph(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)
    with pytest.raises(KeyboardInterrupt):
        interrupted(tmp_path / "graph")
    (left,) = tmp_path.iterdir()
    with pytest.raises(EraseError, match="its writer did not finish"):
        read_graph(left)


def test_the_bytes_are_on_the_disk_before_the_manifest_and_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []

    def watch(name: str, call: Any) -> Any:
        return lambda *args: (events.append(name), call(*args))[1]  # type: ignore[func-returns-value]

    monkeypatch.setattr(os, "fsync", watch("sync", os.fsync))
    monkeypatch.setattr(erase.data.folder, "put_in_place", watch("name", put_in_place))
    write_folder(a_graph(), tmp_path / "graph")
    arrays = len(list((tmp_path / "graph").glob("*.npy")))
    assert events == ["sync"] * (arrays + 1) + ["name"]


def test_only_a_graphs_folder_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    for taken in (tmp_path / "mine", tmp_path / "mine" / "thesis.txt"):
        with pytest.raises(EraseError, match="which holds something else"):
            write_folder(a_graph(), taken)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"
    results = tmp_path / "results"  # as of erase fit: an array, and no graph
    results.mkdir()
    np.save(results / "embeddings.npy", np.eye(3))
    write_folder(a_graph(), tmp_path / "graph")
    (tmp_path / "graph" / "notes.txt").write_text("of mine")
    for taken in (results, tmp_path / "graph"):
        with pytest.raises(EraseError, match="which holds something else"):
            write_folder(a_graph(), taken)
    assert os.listdir(results) == ["embeddings.npy"]
    (tmp_path / "empty").mkdir()
    write_folder(a_graph(), tmp_path / "empty")
    same_graph(a_graph(), read_graph(tmp_path / "empty"))


def test_pieces_give_what_the_whole_gives(tmp_path: Path) -> None:
    data = a_graph(node_names=["a", "b", "c", "d"])
    with FolderWriter(tmp_path / "pieces", num_nodes=4, class_names=CLASSES) as writer:
        for edge in data.edge_index.t():
            writer.add_edges(edge[:, None].numpy())
        for row in data.x:
            writer.add_features(row[None].double().numpy())
        writer.add_labels([0.0, 1.0])
        writer.add_labels(np.array([2.0, np.nan], np.float32))
        writer.set_split("train", [0, 1])
        writer.set_split("test", data.test_mask)
        writer.add_names(["a"])
        writer.add_names(["b", "c", "d"])
    same_graph(data, read_graph(tmp_path / "pieces"))


def failing(message: str, *steps: Any) -> Any:
    return pytest.param(steps, message, id=message)


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        failing("edge 2 from 0 to 4", ("add_edges", [[0, 1], [1, 2]]), ("add_edges", [[0], [4]])),
        failing("edge 0 from -1 to 0", ("add_edges", [[-1], [0]])),
        failing("rows of lengths", ("add_edges", [[0, 1], [1, 2], [2, 3]])),
        failing("whole node numbers", ("add_edges", [[0.5], [1]])),
        failing("nan at node 1", ("add_features", [[1.0]]), ("add_features", [[np.nan]])),
        failing("1e\\+40 at node 1", ("add_features", [[1.0]]), ("add_features", [[1e40]])),
        failing(
            "inf at node 2",
            ("add_features", sp.csr_matrix([[1.0], [0.0]])),
            ("add_features", sp.csr_matrix([[np.inf]])),
        ),
        failing("2 columns, dense, from node 1", *[("add_features", [[1.0] * k]) for k in (1, 2)]),
        failing(
            "1 columns, sparse, from node 1",
            ("add_features", [[1.0]]),
            ("add_features", sp.csr_matrix([[1.0]])),
        ),
        failing("4 nodes and 1 rows of features", ("add_features", [[1.0]])),
        failing("4 nodes and 5 labels", ("add_labels", [0] * 5)),
        failing("label 3 at node 2", ("add_labels", [0, 1]), ("add_labels", [3])),
        failing("label -2 at node 0", ("add_labels", [-2])),
        failing("label 0.5 at node 0", ("add_labels", [0.5])),
        failing("4 nodes and 1 names", ("add_names", ["a"])),
        failing("train, val or test; got 'valid'", ("set_split", "valid", [0])),
        failing("train_mask; got 4", ("set_split", "train", [4])),
    ],
)
def test_wrong_pieces_are_refused(steps: Any, message: str, tmp_path: Path) -> None:
    def write() -> None:
        with FolderWriter(tmp_path / "graph", num_nodes=4, class_names=CLASSES) as writer:
            for name, *arguments in steps:
                getattr(writer, name)(*arguments)

    with pytest.raises(EraseError, match=message):
        write()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("nodes", [0, 2**31])
def test_too_few_and_too_many_nodes_are_refused(nodes: int, tmp_path: Path) -> None:
    with pytest.raises(EraseError, match="1 to 2,147,483,647 nodes"):
        FolderWriter(tmp_path / "graph", num_nodes=nodes, class_names=CLASSES)


def test_the_largest_node_numbers_do_not_overflow(tmp_path: Path) -> None:
    sorter = edge_sorter.EdgeSorter(tmp_path / "edges", 2**31 - 1)
    last = 2**31 - 2
    sorter.add(torch.tensor([last, 0]), torch.tensor([last - 1, last]))
    sorter._write_waiting()
    width = -(-sorter.n // edge_sorter.BUCKETS)
    found = np.fromfile(tmp_path / "edges" / f"{last // width * width}", np.int64)
    rows, cols = np.divmod(found >> 1, sorter.n)
    assert list(zip(rows, cols, strict=True)) == [(last - 1, last), (last, 0), (last, last - 1)]


def test_memory_does_not_grow_with_the_edges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (erase.data.folder, edge_sorter):
        monkeypatch.setattr(module, "BLOCK", 2**12)
    monkeypatch.setattr(edge_sorter, "LARGEST_BUCKET", 2**12)
    monkeypatch.setattr(edge_sorter, "BUCKETS", 4)  # so that they are dealt again
    rng = np.random.default_rng(0)

    def peak(chunks: int) -> int:
        gc.collect()  # what other tests left behind is not measured
        tracemalloc.start()
        with FolderWriter(tmp_path / "graph", num_nodes=2_000, class_names=CLASSES) as writer:
            for _ in range(chunks):
                writer.add_edges(rng.integers(0, 2_000, (2, 2**12)))
                writer.add_features(np.ones((2_000 // chunks, 64)))
            writer.add_labels(np.zeros(2_000))
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return used

    few, many = peak(4), peak(40)
    assert many < 1.5 * few
    assert many < 2**20 < 8 * 2 * 40 * 2**12
