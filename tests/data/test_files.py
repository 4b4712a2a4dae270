"""Files: what is read equals what was written, nothing runs code, nothing is half written."""

import contextlib
import os
import pickle
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from hypothesis import HealthCheck, given, settings
from torch_geometric.data import Data, InMemoryDataset

import erase.data.files
from data.test_conversion import many_columns
from erase.data.files import (
    atomic_write,
    load_arrays,
    read_graph,
    read_json,
    save_arrays,
    write_graph,
    write_json,
    write_table,
)
from erase.data.folder import write_folder
from erase.data.labels import encode_labels
from erase.data.task import NodeTask
from erase.errors import EraseError

NAN = float("nan")
SUFFIXES = ["graph.npz", "csv", "parquet"]


def store(data: Data, path: Path, form: str) -> Path:
    """Write `data` below `path` in one of the forms of SUFFIXES."""
    target = path / form
    write_graph(data, target, tables="parquet" if form == "parquet" else "csv")
    return target


def small_graph(**changes: Any) -> Data:
    data = Data(
        x=torch.tensor([[0.1, 2.0], [1 / 3, -1e-30], [3e30, 0.0], [4.0, 5.0]]),
        edge_index=torch.tensor([[0, 1, 3, 3], [1, 2, 3, 0]]),
        y=torch.tensor([0, 1, -1, 1]),
        train_mask=torch.tensor([True, True, False, False]),
        test_mask=torch.tensor([False, False, False, True]),
    )
    for name, value in changes.items():
        data[name] = value
    return data


def same_task(a: Data, b: Data) -> None:
    left, right = NodeTask.from_data(a), NodeTask.from_data(b)
    for name in ("edge_index", "y", "train_mask", "val_mask"):
        assert torch.equal(getattr(left, name), getattr(right, name)), name
    assert torch.equal(left.x.to_dense(), right.x.to_dense())
    assert left.class_names == right.class_names
    assert left.label_values.tolist() == right.label_values.tolist()


def test_atomic_write_makes_folders_and_leaves_only_the_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "file.txt"
    with atomic_write(path) as file:
        file.write("ε²\n")
        assert not path.exists()
    assert path.read_bytes() == "ε²\n".encode()
    assert os.listdir(path.parent) == ["file.txt"]


def test_an_exception_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "file.bin"
    path.write_bytes(b"old")
    with contextlib.suppress(KeyboardInterrupt), atomic_write(path, "wb") as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file.bin"]


def test_the_file_has_the_rights_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    with atomic_write(tmp_path / "atomic") as file:
        file.write("x")
    assert (tmp_path / "atomic").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_bytes_are_on_the_disk_before_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []

    def watch(name: str, call: Any) -> Any:
        return lambda *args: (events.append(name), call(*args))[1]  # type: ignore[func-returns-value]

    monkeypatch.setattr(os, "fsync", watch("sync", os.fsync))
    monkeypatch.setattr(os, "replace", watch("name", os.replace))
    write_json({}, tmp_path / "a.json")
    assert events == ["sync", "name"]


WRITERS: dict[str, Any] = {
    "a.json": lambda path: write_json({"a": 1}, path),
    "a.csv": lambda path: write_table(pd.DataFrame({"a": [1]}), path),
    "a.parquet": lambda path: write_table(pd.DataFrame({"a": [1]}), path),
    "a.safetensors": lambda path: save_arrays(path, {"a": torch.ones(1)}),
    "a.npz": lambda path: write_graph(small_graph(), path),
    "folder": lambda path: write_graph(small_graph(), path),
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_writer_is_atomic(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: Any) -> None:
        raise OSError("disk full")

    path = tmp_path / name
    monkeypatch.setattr(os, "fsync", killed)
    with pytest.raises(OSError, match="disk full"):
        WRITERS[name](path)
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == []
    monkeypatch.undo()
    WRITERS[name](path)
    assert path.exists()


def test_json_round_trip_of_everything_results_hold(tmp_path: Path) -> None:
    value = {
        "scores": np.array([[0.5, np.nan]]),
        "n": np.int64(3),
        "z": torch.tensor([1.0, float("inf")]),
        "name": "ε",
        1: (True, None),
        "path": Path("a") / "b",
    }
    write_json(value, tmp_path / "r.json")
    assert read_json(tmp_path / "r.json") == {
        "scores": [[0.5, None]],
        "n": 3,
        "z": [1.0, None],
        "name": "ε",
        "1": [True, None],
        "path": "a/b",
    }


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_table_round_trip(suffix: str, tmp_path: Path) -> None:
    table = pd.DataFrame({"node": ["a", "b"], "quality": [0.1, 1 / 3]}, index=[5, 7])
    path = tmp_path / f"t.{suffix}"
    write_table(table, path)
    back = pd.read_csv(path) if suffix == "csv" else pd.read_parquet(path)
    assert back.to_dict("list") == table.to_dict("list")


def test_json_that_is_no_object_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("[1]")
    with pytest.raises(EraseError, match=r"a JSON object; got something else in 'a.json'"):
        read_json(tmp_path / "a.json")


def test_one_long_name_does_not_fill_the_memory(tmp_path: Path) -> None:
    """Every text of a numpy array takes the memory of the longest."""
    graph = Data(edge_index=torch.tensor([[0], [1]]), y=torch.arange(3000) % 2)
    graph.node_names = ["n" * 10_000_000, *map(str, range(2999))]
    with pytest.raises(EraseError, match=r"one of 10,000,000 characters among 3,000"):
        write_graph(graph, tmp_path / "g.npz")
    write_folder(graph, tmp_path / "g")
    assert len(read_graph(tmp_path / "g").node_names[0]) == 10_000_000


def test_a_table_of_another_kind_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(EraseError, match=r"\.csv or \.parquet; got '\.xlsx'"):
        write_table(pd.DataFrame(), tmp_path / "new" / "t.xlsx")
    assert os.listdir(tmp_path) == []


def test_arrays_round_trip_exactly(tmp_path: Path) -> None:
    weight = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    arrays = {
        "weight": weight,
        "tied": weight,
        "transposed": weight.t(),
        "bits": torch.tensor([NAN, -0.0, 1e-45]),
        "half": weight.bfloat16(),
        "mask": torch.tensor([True, False]),
        "count": torch.tensor(7),
        "none": torch.empty(0, 3),
        "grad": weight.clone().requires_grad_(),
    }
    metadata = {"preset": "paper", "eps2": 0.1, "layers": [1, None]}
    save_arrays(tmp_path / "m.safetensors", arrays, metadata)
    back, read = load_arrays(tmp_path / "m.safetensors")
    assert read == metadata
    assert back.keys() == arrays.keys()
    for name, array in arrays.items():
        assert back[name].dtype == array.dtype
        assert torch.equal(back[name].nan_to_num(5), array.detach().nan_to_num(5))
    assert back["bits"].isnan().tolist() == [True, False, False]
    assert bool(back["bits"][1].signbit())


@pytest.mark.parametrize("reader", [read_json, load_arrays])
def test_results_that_are_missing_or_broken(reader: Any, tmp_path: Path) -> None:
    with pytest.raises(EraseError, match=r"existing file.*Check the path"):
        reader(tmp_path / "nothing")
    (tmp_path / "broken").write_bytes(b"{broken")
    with pytest.raises(EraseError, match=r"'broken', which cannot.*write it again"):
        reader(tmp_path / "broken")


@pytest.mark.parametrize("form", SUFFIXES)
def test_a_graph_comes_back_with_its_test_labels(form: str, tmp_path: Path) -> None:
    data = small_graph()
    back = read_graph(store(data, tmp_path, form))
    same_task(data, back)
    assert back.test_mask.tolist() == [False, False, False, True]
    assert torch.as_tensor(back.y).nan_to_num(-1).tolist() == [0, 1, -1, 1]
    assert torch.equal(back.edge_index, data.edge_index)
    assert torch.equal(back.x, data.x)
    assert NodeTask.from_data(back).y.tolist() == [0, 1, -1, -1]


@pytest.mark.parametrize("form", SUFFIXES)
def test_names_come_back_as_names(form: str, tmp_path: Path) -> None:
    data = small_graph(y=["NA", 'b, "c"', None, "NA"], node_names=["007", "null", "x,y", "ü"])
    back = read_graph(store(data, tmp_path, form))
    task = NodeTask.from_data(back)
    assert task.class_names == ("NA", 'b, "c"')
    assert task.label_values.tolist() == ["NA", 'b, "c"']
    assert task.node_names == ("007", "null", "x,y", "ü")
    assert task.y.tolist() == [0, 1, -1, -1]
    assert encode_labels(back)[0].tolist() == [0, 1, -1, 0]
    same_task(data, back)


@pytest.mark.parametrize("form", SUFFIXES)
def test_labels_come_back_in_their_own_numbers(form: str, tmp_path: Path) -> None:
    data = small_graph(y=torch.tensor([3000, 10, -1, 200]))
    back = read_graph(store(data, tmp_path, form))
    same_task(data, back)
    y, names, values = encode_labels(back)
    assert y.tolist() == [2, 0, -1, 1]
    assert values.tolist() == [10, 200, 3000]
    assert names == ("10", "200", "3000")


def test_npz_keeps_a_class_that_nobody_has(tmp_path: Path) -> None:
    data = small_graph(y=torch.tensor([3000, 10, -1, 10]), class_values=[10, 200, 3000])
    write_graph(data, tmp_path / "g.npz")
    assert encode_labels(read_graph(tmp_path / "g.npz"))[2].tolist() == [10, 200, 3000]


def test_npz_keeps_class_numbers_names_and_order(tmp_path: Path) -> None:
    data = small_graph(class_names=["z", "a", "m"])
    write_graph(data, tmp_path / "g.npz")
    task = NodeTask.from_data(read_graph(tmp_path / "g.npz"))
    assert task.class_names == ("z", "a", "m")
    assert task.label_values.tolist() == [0, 1, 2]


def test_a_folder_keeps_class_names_rather_than_numbers(tmp_path: Path) -> None:
    write_graph(small_graph(class_names=["z", "a", "m"]), tmp_path / "g")
    assert pd.read_csv(tmp_path / "g" / "nodes.csv")["label"].tolist()[:2] == ["z", "a"]


def test_npz_keeps_sparse_features_sparse(tmp_path: Path) -> None:
    x = torch.zeros(4, 50)
    x[1, 7] = 2.5
    write_graph(small_graph(x=x.to_sparse()), tmp_path / "g.npz")
    back = read_graph(tmp_path / "g.npz")
    assert back.x.layout == torch.sparse_csr
    assert torch.equal(back.x.to_dense(), x)


@pytest.mark.parametrize("form", SUFFIXES)
def test_a_graph_without_features_splits_or_edges_comes_back(form: str, tmp_path: Path) -> None:
    data = Data(edge_index=torch.empty(2, 0, dtype=torch.long), y=torch.tensor([0, 1, 0]))
    back = read_graph(store(data, tmp_path, form))
    assert "x" not in back
    assert "train_mask" not in back
    assert back.num_nodes == 3
    assert NodeTask.from_data(back).train_index.tolist() == [0, 1, 2]


@st.composite
def any_graph(draw: st.DrawFn) -> Data:
    n = draw(st.integers(3, 6))
    node = st.integers(0, n - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=8))
    finite = st.floats(width=32, allow_nan=False, allow_infinity=False)
    x = draw(st.lists(st.tuples(finite, finite), min_size=n, max_size=n))
    labels = [0, 1, *draw(st.lists(st.integers(-1, 2), min_size=n - 2, max_size=n - 2))]
    parts = np.array(
        ["t", "t", *draw(st.lists(st.sampled_from("tve-"), min_size=n - 2, max_size=n - 2))]
    )
    return Data(
        x=torch.tensor(x),
        edge_index=torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t().contiguous(),
        y=torch.tensor(labels),
        **{f"{p}_mask": torch.from_numpy(parts == p[0]) for p in ("train", "val")},
        test_mask=torch.from_numpy(parts == "e"),
    )


@pytest.mark.parametrize("form", SUFFIXES)
@given(data=any_graph())
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_graph_comes_back(form: str, data: Data, tmp_path: Path) -> None:
    back = read_graph(store(data, tmp_path, form))
    same_task(data, back)
    assert torch.equal(back.x.to_dense(), data.x)
    assert torch.equal(back.edge_index, data.edge_index)
    assert torch.equal(back.test_mask, data.test_mask)


@pytest.mark.parametrize(
    ("changes", "target", "message"),
    [
        ({}, "g.txt", r"FILE\.npz or a folder.*'g\.txt'"),
        ({"node_names": ["a", "a", "b", "c"]}, "g", r"4 different node_names; got 3.*FILE\.npz"),
        ({"val_mask": torch.tensor([3])}, "g", r"node 3 in two\. Make the masks disjoint"),
    ],
)
def test_what_cannot_be_written_is_refused(
    changes: dict[str, Any], target: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(EraseError, match=message):
        write_graph(small_graph(**changes), tmp_path / target)
    assert os.listdir(tmp_path) == []


def test_a_huge_table_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(erase.data.files, "_MAX_CELLS", 7)
    with pytest.raises(EraseError, match=r"4 × 2. Write FILE\.npz"):
        write_graph(small_graph(), tmp_path / "g")


def test_the_layout_of_gnn_benchmark(tmp_path: Path) -> None:
    adjacency = sp.csr_matrix(([1, 1, 1], ([0, 1, 2], [1, 2, 0])), shape=(3, 3))
    attributes = sp.csr_matrix(np.array([[0, 2.0], [0, 0], [1, 0]]))
    arrays = {
        f"{name}_{part}": getattr(matrix, part)
        for name, matrix in (("adj", adjacency), ("attr", attributes))
        for part in ("data", "indices", "indptr", "shape")
    }
    names = np.array(["a", "b", "c"], dtype=object)
    np.savez(tmp_path / "g.npz", labels=[0, 1, 1], node_names=names, class_names=names, **arrays)
    data = read_graph(tmp_path / "g.npz")
    task = NodeTask.from_data(data)
    assert task.edge_index.tolist() == [[0, 0, 1, 1, 2, 2], [1, 2, 0, 2, 0, 1]]
    assert task.x.to_dense().tolist() == attributes.toarray().tolist()
    assert task.y.tolist() == [0, 1, 1]
    assert task.notes[:2] == (
        "node_names is ignored: it is pickled, and no pickle is opened.",
        "class_names is ignored: it is pickled, and no pickle is opened.",
    )
    for part in ("data", "indices", "indptr", "shape"):
        del arrays[f"attr_{part}"]
    np.savez(tmp_path / "h.npz", labels=[0, 1, 1], attr_matrix=np.ones((3, 2)), **arrays)
    assert read_graph(tmp_path / "h.npz").x.tolist() == [[1.0, 1.0]] * 3


def test_npz_with_node_numbers_as_splits(tmp_path: Path) -> None:
    edges = np.array([[0, 1], [1, 2]])
    np.savez(tmp_path / "g.npz", edge_index=edges, y=[0, 1, 1], train_idx=[1, 0], valid_idx=[2])
    task = NodeTask.from_data(read_graph(tmp_path / "g.npz"))
    assert task.train_index.tolist() == [0, 1]
    assert task.val_index.tolist() == [2]


@pytest.mark.parametrize("form", ["data", "dict", "dataset", "old dataset"])
def test_pt_files_of_pyg(form: str, tmp_path: Path) -> None:
    data = small_graph(class_names=["a", "b"])
    path = tmp_path / "g.pt"
    if form == "dataset":
        InMemoryDataset.save([data], path)
    else:
        content = {"data": data, "dict": data.to_dict(), "old dataset": (data, None)}[form]
        torch.save(content, path)
    back = read_graph(path)
    assert isinstance(back, Data)
    same_task(data, back)


def test_a_sparse_matrix_survives_a_pt_file(tmp_path: Path) -> None:
    data = small_graph(x=torch.eye(4).to_sparse_csr())
    torch.save(data, tmp_path / "g.pt")
    assert torch.equal(read_graph(tmp_path / "g.pt").x.to_dense(), torch.eye(4))


class Payload:
    """What an attacker pickles: opening it with pickle creates the file `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.system, (f"touch '{self.path}'",)


@pytest.mark.parametrize("form", ["alone", "in a Data", "in a dict", "legacy", "npz", "pickle"])
def test_a_file_that_runs_code_is_refused_and_does_not_run(form: str, tmp_path: Path) -> None:
    mark, path = tmp_path / "ran", tmp_path / "g.pt"
    payload = Payload(mark)
    if form == "npz":
        path = tmp_path / "g.npz"
        edges = np.array([payload, None], dtype=object)
        np.savez(path, edge_index=edges, y=np.array([0, 1]))
    elif form == "pickle":
        path.write_bytes(pickle.dumps(payload))
    else:
        content: Any = {
            "in a Data": small_graph(extra=payload),
            "in a dict": {**small_graph().to_dict(), "x": payload},
        }.get(form, payload)
        torch.save(content, path, _use_new_zipfile_serialization=form != "legacy")
    with pytest.raises(EraseError, match=r"refused|cannot"):
        read_graph(path)
    assert not mark.exists()
    if form == "pickle":  # the payload is a real one
        pickle.loads(path.read_bytes())
        assert mark.exists()


def test_the_permission_for_pyg_classes_is_withdrawn_again(tmp_path: Path) -> None:
    torch.save(small_graph(), tmp_path / "g.pt")
    torch.serialization.add_safe_globals([Data])  # PyG did so already; reading must not undo it
    before = set(torch.serialization.get_safe_globals())
    read_graph(tmp_path / "g.pt")
    assert set(torch.serialization.get_safe_globals()) == before


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"weight": torch.ones(2)}, r"a dict in 'g\.pt'. Save data\.to_dict\(\)"),
        ([1, 2], "a list in"),
        ((small_graph().to_dict(), {"x": torch.tensor([0, 2, 4])}), r"one graph; got several"),
    ],
)
def test_a_pt_file_without_one_graph_is_refused(content: Any, message: str, tmp_path: Path) -> None:
    torch.save(content, tmp_path / "g.pt")
    with pytest.raises(EraseError, match=message):
        read_graph(tmp_path / "g.pt")


def graphml(path: Path) -> None:
    graph = nx.Graph()
    graph.add_node("ann", label="red", split="train", age=1.5)
    graph.add_node("bob", label="blue", split="train", age=2.5)
    graph.add_node("cem", label="red", split="test", age=3.5)
    graph.add_edge("ann", "cem", weight=2.0)
    nx.write_graphml(graph, path)


@pytest.mark.parametrize("name", ["g.graphml", "G.GRAPHML", "g.graphml.gz"])
def test_graphml(name: str, tmp_path: Path) -> None:
    graphml(tmp_path / name.lower())
    os.rename(tmp_path / name.lower(), tmp_path / name)
    data = read_graph(tmp_path / name)
    assert data.test_mask.tolist() == [False, False, True]
    assert data.y.tolist() == ["red", "blue", "red"]
    task = NodeTask.from_data(data)
    assert task.node_names == ("ann", "bob", "cem")
    assert task.label_values[task.y[:2]].tolist() == ["red", "blue"]
    assert task.x.flatten().tolist() == pytest.approx([-(1.5**0.5), 0, 1.5**0.5])
    assert task.edge_index.tolist() == [[0, 2], [2, 0]]
    assert task.edge_weight is not None
    assert task.edge_weight.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_graphml_with_entities_is_refused(encoding: str, tmp_path: Path) -> None:
    bomb = f'<?xml version="1.0" encoding="{encoding}"?><!DOCTYPE g [<!ENTITY a "ha">'
    bomb += '<!ENTITY b "&a;&a;&a;&a;">]><graphml>&b;</graphml>'
    (tmp_path / "g.graphml").write_bytes(bomb.encode(encoding))
    with pytest.raises(EraseError, match=r"<!DOCTYPE g>\. Remove it"):
        read_graph(tmp_path / "g.graphml")


def test_a_folder_written_by_hand(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("key,label,size\na,1,2.5\nb,0,\nc,,1\n")
    (tmp_path / "edges.csv").write_text("from,to\na,b\nb,c\n")
    data = read_graph(tmp_path)
    assert data.node_names == ["a", "b", "c"]
    assert data.edge_index.tolist() == [[0, 1], [1, 2]]
    assert "Missing values became the column's median: 1 in 'size'." in data.notes
    assert NodeTask.from_data(data).y.tolist() == [1, 0, -1]
    with pytest.raises(EraseError, match=r"every row of the column 'size'; got none at node 'b'"):
        read_graph(tmp_path, strict=True)


def test_tables_stay_tables_where_results_were_written_beside_them(tmp_path: Path) -> None:
    """As `erase fit FOLDER --out FOLDER` does."""
    nodes, edges = many_columns()
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    edges.to_csv(tmp_path / "edges.csv", index=False)
    before = read_graph(tmp_path)
    np.save(tmp_path / "embeddings.npy", np.zeros((20, 2)))
    assert read_graph(tmp_path).y.tolist() == before.y.tolist()


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_files_and_tables_have_the_same_features(suffix: str, tmp_path: Path) -> None:
    nodes, edges = many_columns()
    for table, name in ((nodes, "nodes"), (edges, "edges")):
        write_table(table, tmp_path / f"{name}.{suffix}")
    read, given = NodeTask.of(read_graph(tmp_path)), NodeTask.from_tables(nodes, edges)
    assert read.notes == given.notes
    torch.testing.assert_close(read.x, given.x)
    assert read.num_features == 5


@pytest.mark.parametrize("form", SUFFIXES)
def test_features_that_look_like_identifiers_come_back(form: str, tmp_path: Path) -> None:
    x = torch.stack([torch.arange(30.0), torch.ones(30)], 1)
    data = Data(x=x, y=torch.arange(30) % 2, edge_index=torch.tensor([[0], [1]]))
    assert torch.equal(read_graph(store(data, tmp_path, form)).x, x)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing.npz", r"existing file.*Graphs are read from \.npz, \.pt.*load_dataset"),
        ("table.xlsx", r"\.graphml\.gz, or a folder.*'table\.xlsx'.*correct the ending"),
        ("empty", r"one table nodes\.csv or nodes\.parquet in the folder '.*empty'; got none"),
        ("twice", r"one table nodes\.csv or nodes\.parquet.*got both"),
        ("no_edges", r"one table edges\.csv.*got none. A graph's folder"),
    ],
)
def test_what_is_not_a_graph_file_is_refused(name: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "table.xlsx").touch()
    for folder, files in {
        "empty": [],
        "twice": ["nodes.csv", "nodes.parquet", "edges.csv"],
        "no_edges": ["nodes.csv"],
    }.items():
        (tmp_path / folder).mkdir()
        for file in files:
            (tmp_path / folder / file).write_text("id,label\n")
    with pytest.raises(EraseError, match=message):
        read_graph(tmp_path / name)


def test_a_table_alone_is_answered_with_the_folder(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("id,label\n1,a\n")
    with pytest.raises(EraseError, match="Pass the folder that holds the two tables"):
        read_graph(tmp_path / "nodes.csv")


def test_a_graph_is_not_a_path() -> None:
    with pytest.raises(EraseError, match=r"existing file or folder; got Data\(.*Check the path"):
        read_graph(small_graph())


@pytest.mark.parametrize("train", [np.array([True, True, False, False]), np.array([0, 1])])
def test_npz_with_the_names_of_from_arrays(train: Any, tmp_path: Path) -> None:
    graph: dict[str, Any] = {"edge_index": np.array([[0, 1], [2, 3]]), "y": [0, 1, 1, 0]}
    np.savez(tmp_path / "g.npz", **graph, train=train, val=np.array([2]), test=np.array([3]))
    data = read_graph(tmp_path / "g.npz")
    task = NodeTask.from_data(data)
    assert task.train_index.tolist() == [0, 1]
    assert task.val_index.tolist() == [2]
    assert task.y.tolist() == [0, 1, 1, -1]
    assert data.test_mask.tolist() == [3]
    np.savez(tmp_path / "g.npz", **graph, train=np.array([0.0, 1.0]))
    with pytest.raises(EraseError, match="train_mask as a bool mask or node numbers"):
        NodeTask.from_data(read_graph(tmp_path / "g.npz"))
    np.savez(tmp_path / "g.npz", **graph, train=np.array(["a"]))
    with pytest.raises(EraseError, match="train as an array of numbers; got <U1"):
        read_graph(tmp_path / "g.npz")


@pytest.mark.parametrize("y", ["y", "labels"])
def test_npz_without_labels_is_a_graph_to_predict_on(y: str, tmp_path: Path) -> None:
    adjacency = sp.eye_array(3, format="csr")
    parts = {"data": adjacency.data, "indices": adjacency.indices, "indptr": adjacency.indptr}
    benchmark = {f"adj_{name}": part for name, part in parts.items()} | {"adj_shape": (3, 3)}
    arrays = {"edge_index": np.array([[0], [1]])} if y == "y" else benchmark
    np.savez(tmp_path / "g.npz", **arrays, x=np.ones((3, 1)), attr_matrix=np.ones((3, 1)))
    data = read_graph(tmp_path / "g.npz")
    assert NodeTask.of(data, labelled=False).num_nodes == 3
    with pytest.raises(EraseError, match=r"labels in data.y; got none. Set y .*label=…"):
        NodeTask.of(data)


def test_a_refused_pt_is_told_in_one_plain_sentence(tmp_path: Path) -> None:
    torch.save({"edge_index": torch.ones(2, 1), "x": np.float64}, tmp_path / "g.pt")
    with pytest.raises(EraseError) as caught:
        read_graph(tmp_path / "g.pt")
    assert caught.value.got == "'g.pt', refused: it holds numpy.float64"
    assert caught.value.remedy.startswith("Where you trust it, load it yourself")


def test_an_edges_file_without_a_header_is_refused(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("id,label\n1,0\n2,1\n3,\n")
    (tmp_path / "edges.csv").write_text("1,2\n2,3\n")
    with pytest.raises(EraseError, match=r"two nodes, '1' and '2'\. Add a first line.*source,tar"):
        read_graph(tmp_path)
    (tmp_path / "edges.csv").write_text("source,target\n1,2\n2,3\n")
    assert read_graph(tmp_path).edge_index.tolist() == [[0, 1], [1, 2]]


@pytest.mark.parametrize("name", ["nodes", "edges"])
def test_a_csv_with_two_columns_of_one_name_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("id,label,age\n1,0,3\n2,1,4\n")
    (tmp_path / "edges.csv").write_text("source,target,age\n1,2,3\n")
    table = tmp_path / f"{name}.csv"
    table.write_text(table.read_text().replace("age\n", "age,age\n", 1).replace(",3\n", ",3,3\n"))
    with pytest.raises(EraseError, match="columns of different names; got two called 'age'"):
        read_graph(tmp_path)


def test_ids_that_are_lists_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    nodes = pd.DataFrame({"id": [[1], [2], [3]], "label": ["a", "b", "a"]})
    nodes.to_parquet(tmp_path / "nodes.parquet")
    pd.DataFrame({"source": ["a"], "target": ["b"]}).to_parquet(tmp_path / "edges.parquet")
    with pytest.raises(EraseError, match="a graph that can be read; got TypeError: unhashable"):
        read_graph(tmp_path)


def test_a_bad_cell_among_numbers_is_refused_by_its_place(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("id,label,age,home\n1,0,3,a\n2,1,x4,b\n3,,5,c\n")
    (tmp_path / "edges.csv").write_text("source,target\n1,2\n")
    with pytest.raises(EraseError, match="numbers in the column 'age'; got 'x4' at node '2'"):
        read_graph(tmp_path)


def test_npz_with_other_arrays_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "g.npz", weights=np.ones(3))
    with pytest.raises(EraseError, match=r"edge_index \[2, E\], x and y; got weights.*write_graph"):
        read_graph(tmp_path / "g.npz")


@pytest.mark.parametrize("name", ["g.npz", "g.pt", "g.graphml", "g.graphml.gz"])
@pytest.mark.parametrize("keep", [0.0, 0.3, 0.9])
def test_a_file_cut_short_is_refused(name: str, keep: float, tmp_path: Path) -> None:
    path = tmp_path / name
    if name == "g.npz":
        write_graph(small_graph(), path)
    elif name == "g.pt":
        torch.save(small_graph(), path)
    else:
        graphml(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * keep)])
    with pytest.raises(EraseError, match=f"'{name}'"):
        read_graph(path)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_broken_table_is_refused_by_its_name(suffix: str, tmp_path: Path) -> None:
    (tmp_path / f"nodes.{suffix}").write_bytes(b'"\xff\x00')
    (tmp_path / f"edges.{suffix}").write_bytes(b"source,target\n")
    with pytest.raises(EraseError, match=f"a table of nodes.*; got 'nodes.{suffix}'"):
        read_graph(tmp_path)


def test_parquet_without_pyarrow_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_graph(small_graph(), tmp_path / "g", tables="parquet")
    monkeypatch.setattr(erase.data.files, "find_spec", lambda name: None)
    with pytest.raises(EraseError, match=r"pip install 'graph-erase\[parquet\]'"):
        read_graph(tmp_path / "g")
    with pytest.raises(EraseError, match=r"pip install 'graph-erase\[parquet\]'"):
        write_table(pd.DataFrame({"a": [1]}), tmp_path / "t.parquet")
