"""Small files that ask for a lot of memory, and objects that declare more than there is."""

import gzip
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Data

import erase
from erase.cli import main
from erase.data.files import read_graph
from erase.data.limits import VARIABLE, memory_limit, parse_size
from erase.data.task import NodeTask
from erase.errors import EraseError
from graphs import path_graph, two_communities

HUGE = 20_000_000_000  # bytes, of which nothing is allocated


def npz(path: Path, **members: bytes) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(f"{name}.npy", content)


def npy(array: Any, shape: tuple[int, ...] | None = None) -> bytes:
    """Return an array as a file that may declare another shape."""
    file = io.BytesIO()
    header = {"descr": array.dtype.str, "fortran_order": False, "shape": shape or array.shape}
    np.lib.format.write_array_header_1_0(file, header)
    return file.getvalue() + bytes(array.tobytes())


EDGES, LABELS = npy(np.array([[0], [1]])), npy(np.array([0, 1]))


def declares_numbers(folder: Path) -> Path:
    x = npy(np.zeros(8, np.float32), (HUGE // 8, 1))
    npz(folder / "g.npz", edge_index=EDGES, y=LABELS, x=x)
    return folder / "g.npz"


def decompresses(folder: Path) -> Path:
    npz(folder / "g.npz", edge_index=EDGES, y=LABELS, x=npy(np.zeros(3 * 2**20 - 128, np.uint8)))
    content = (folder / "g.npz").read_bytes()
    size = (3 * 2**20).to_bytes(4, "little")
    lie = content.replace(size, (4_000_000_000).to_bytes(4, "little"))  # as a real bomb declares
    (folder / "g.npz").write_bytes(lie)
    return folder / "g.npz"


def graphml(folder: Path) -> Path:
    with gzip.open(folder / "g.graphml.gz", "wb") as file:
        for _ in range(80):
            file.write(b" " * 2**20)
    return folder / "g.graphml.gz"


def repeats(folder: Path) -> Path:
    x = torch.zeros(1, 1).expand(HUGE // 8, 1)
    torch.save({"edge_index": torch.tensor([[0], [1]]), "x": x}, folder / "g.pt")
    return folder / "g.pt"


@pytest.mark.parametrize("bomb", [declares_numbers, decompresses, graphml, repeats])
def test_a_file_that_declares_too_much_is_refused(bomb: Any, tmp_path: Path) -> None:
    with pytest.raises(EraseError, match=r"to take at most .* got one that declares"):
        read_graph(bomb(tmp_path))


def test_other_compressions_and_wide_tables_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "g.npz", "w", zipfile.ZIP_LZMA) as file:
        file.writestr("edge_index.npy", EDGES)
    with pytest.raises(EraseError, match="compressed in another way"):
        read_graph(tmp_path / "g.npz")
    (tmp_path / "edges.csv").write_text("source,target\n")
    (tmp_path / "nodes.csv").write_text(",".join(f"x{i}" for i in range(50_001)) + "\n")
    with pytest.raises(EraseError, match=r"at most 50,000 columns in nodes.csv; got 50,001"):
        read_graph(tmp_path)


def test_a_default_of_attributes_is_refused(tmp_path: Path) -> None:
    bomb = '<!DOCTYPE graphml [<!ATTLIST node a CDATA "aaaa">]><graphml/>'
    (tmp_path / "g.graphml").write_text(bomb)
    with pytest.raises(EraseError, match="without a document type"):
        read_graph(tmp_path / "g.graphml")


@pytest.mark.parametrize(
    "graph",
    [
        path_graph(x=sp.csr_matrix((5, 50_000_000), dtype=np.float32)),
        path_graph(x=torch.sparse_coo_tensor(torch.zeros(2, 0), torch.zeros(0), (5, 10**9))),
        path_graph(y=torch.zeros(1).expand(10**13)),
        path_graph(x=torch.zeros(1, 1).expand(5, 10**12)),
    ],
)
def test_an_object_that_declares_too_much_is_refused(graph: Data) -> None:
    with pytest.raises(EraseError, match=r"columns of sparse|to take at most|enough memory"):
        NodeTask.of(graph)


@pytest.mark.parametrize("name", ["node_ids", "node_names", "class_names", "feature_names"])
@pytest.mark.parametrize(
    "given", [torch.zeros(1).expand(10**12), np.broadcast_to(np.array("a"), 10**12), range(10**12)]
)
def test_names_that_declare_too_much_are_refused(name: str, given: Any) -> None:
    graph = path_graph()
    x = np.ones((len(graph.y), 2))
    with pytest.raises(
        EraseError, match=rf"at most .* {name}; got 1,000,000,000,000|one each; got"
    ):
        erase.from_arrays(graph.edge_index, graph.y, x, **{name: given})
    graph[name] = given
    with pytest.raises(
        EraseError, match=rf"at most .* {name}; got 1,000,000,000,000|one each; got"
    ):
        NodeTask.of(graph)


def test_many_nodes_without_features_are_refused() -> None:
    graph = Data(edge_index=torch.tensor([[0], [1]]), num_nodes=10**11)
    with pytest.raises(EraseError, match="the graph to take at most"):
        NodeTask.of(graph, labelled=False)


def test_a_failed_allocation_is_an_error_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise MemoryError("Unable to allocate 1 TiB")

    monkeypatch.setattr("erase.data.task.undirected_edges", fail)
    with pytest.raises(EraseError, match="expected enough memory; got Unable to allocate 1 TiB"):
        NodeTask.of(path_graph())
    huge = erase.CrossEntropy(hidden=10**13, device="cpu", epochs=1)
    monkeypatch.undo()
    with pytest.raises(EraseError, match="a network that fits into"):
        huge.fit(path_graph())


def test_the_limit_can_be_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert [parse_size(text) for text in ("7", "1.5k", "2 MiB")] == [7, 1536, 2**21]
    monkeypatch.setenv(VARIABLE, "100")
    assert memory_limit(10**9) == 100
    np.savez(tmp_path / "g.npz", edge_index=[[0], [1]], y=[0, 1])
    for words in ([], ["--max-memory", "1K"]):
        status = main([*words, "convert", str(tmp_path / "g.npz"), str(tmp_path / "out")])
        assert status == (0 if words else 2)
    assert main(["--max-memory", "a lot", "list"]) == 2
    assert "an amount of memory, such as 500M or 16G; got 'a lot'" in capsys.readouterr().err


def test_parquet_declares_its_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    pd.DataFrame({"id": range(1000), "label": 0}).to_parquet(tmp_path / "nodes.parquet")
    pd.DataFrame({"source": [0], "target": [1]}).to_parquet(tmp_path / "edges.parquet")
    read_graph(tmp_path)
    monkeypatch.setenv(VARIABLE, "1k")
    with pytest.raises(EraseError, match=r"'nodes.parquet' to take at most"):
        read_graph(tmp_path)


def test_a_long_text_that_parquet_stores_once_counts_for_every_row(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    pd.DataFrame({"source": [0], "target": [1]}).to_parquet(tmp_path / "edges.parquet")
    for length, is_fine in ((100, True), (1_000_000, False)):
        texts = pa.DictionaryArray.from_arrays(np.zeros(2000, np.int32), ["a" * length])
        table = pa.table({"id": np.arange(2000), "label": texts})
        pq.write_table(table, tmp_path / "nodes.parquet", store_schema=False)
        assert (tmp_path / "nodes.parquet").stat().st_size < 100_000
        if is_fine:
            assert read_graph(tmp_path).num_nodes == 2000
            continue
        with pytest.raises(EraseError, match=r"'nodes.parquet' to take .* declares 2\.\d GB"):
            read_graph(tmp_path)


def test_a_long_list_in_a_parquet_cell_counts(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    pd.DataFrame({"source": [0], "target": [1]}).to_parquet(tmp_path / "edges.parquet")
    cells = pa.ListArray.from_arrays([0, 150_000_000], pa.nulls(150_000_000, pa.int8()))
    pq.write_table(pa.table({"id": [0], "x": cells}), tmp_path / "nodes.parquet")
    with pytest.raises(EraseError, match=r"'nodes.parquet' to take .* declares 1\.2 GB"):
        read_graph(tmp_path)


DEEP = "[" * 100_000 + "]" * 100_000


def deep_manifest(folder: Path) -> list[str]:
    erase.write_folder(two_communities(size=10), folder / "graph")
    manifest = json.loads((folder / "graph" / "graph.json").read_text(encoding="utf-8"))
    text = json.dumps(manifest | {"notes": "@"}).replace('"@"', DEEP)
    (folder / "graph" / "graph.json").write_text(text)
    return ["convert", str(folder / "graph"), str(folder / "copy.npz")]


def deep_study(folder: Path) -> list[str]:
    (folder / "own.toml").write_text(f"[[grid]]\ndatasets = {DEEP}\n")
    return ["bench", str(folder / "own.toml"), "--out", str(folder / "out.jsonl")]


def deep_record(folder: Path) -> list[str]:
    (folder / "records.jsonl").write_text(f'{{"dataset": {DEEP}}}\n')
    return ["table", "main", str(folder / "records.jsonl")]


def deep_summary(folder: Path) -> list[str]:
    erase.write_graph(two_communities(size=10), folder / "g.npz")
    words = ["fit", str(folder / "g.npz"), "--method", "label-propagation", "--quiet"]
    words += ["--out", str(folder / "out")]
    assert main(words) == 0
    (folder / "out" / "summary.json").write_text(DEEP)
    return [*words, "--resume"]


def deep_model(folder: Path) -> list[str]:
    model = erase.methods.LabelPropagation().fit(two_communities(size=10))
    model.save(folder / "model.safetensors")
    content = (folder / "model.safetensors").read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    metadata = json.loads(header["__metadata__"]["json"])
    header["__metadata__"]["json"] = json.dumps(metadata | {"notes": "@"}).replace('"@"', DEEP)
    text = json.dumps(header).encode()
    length = len(text).to_bytes(8, "little")
    (folder / "model.safetensors").write_bytes(length + text + content[end:])
    erase.write_graph(two_communities(size=10), folder / "g.npz")
    return ["predict", str(folder / "model.safetensors"), str(folder / "g.npz")]


@pytest.mark.parametrize("made", [deep_manifest, deep_study, deep_record, deep_summary, deep_model])
def test_deep_nesting_is_one_line(
    made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = made(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    capsys.readouterr()
    assert main(words) == 2
    (told,) = capsys.readouterr().err.splitlines()
    assert told.startswith("erase: expected ")
    assert sorted(tmp_path.rglob("*")) == before
