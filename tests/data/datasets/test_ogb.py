"""ogbn-arxiv and ogbn-products, on small graphs in OGB's layout."""

import gzip
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
import torch

import forked
from data.test_folder import same_graph
from erase.data.datasets import load_dataset, write_dataset
from erase.data.files import read_graph
from erase.errors import EraseError

EDGES = [(0, 1), (1, 2), (4, 0), (3, 5)]
LABELS = [0, 2, 1, 1, 0, 2]


def write_csv(path: Path, rows: Iterable[Iterable[object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt") as file:
        for row in rows:
            file.write(",".join(map(str, row)) + "\n")


@pytest.fixture
def arxiv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "ogbn_arxiv"
    write_csv(folder / "raw/edge.csv.gz", EDGES)
    write_csv(folder / "raw/node-feat.csv.gz", [[i + 0.5, -i] for i in range(6)])
    write_csv(folder / "raw/node-label.csv.gz", [[label] for label in LABELS])
    write_csv(folder / "raw/node_year.csv.gz", [[2015 + i] for i in range(6)])
    write_csv(folder / "raw/num-node-list.csv.gz", [[6]])
    write_csv(folder / "raw/num-edge-list.csv.gz", [[len(EDGES)]])
    write_csv(folder / "split/time/train.csv.gz", [[0], [1], [2]])
    write_csv(folder / "split/time/valid.csv.gz", [[3]])
    write_csv(folder / "split/time/test.csv.gz", [[4], [5]])
    monkeypatch.setenv("ERASE_DATA", str(tmp_path))
    return folder


@pytest.fixture
def products(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "ogbn_products"
    write_csv(folder / "raw/edge.csv.gz", EDGES)
    write_csv(folder / "raw/node-feat.csv.gz", [[i / 3, -i, 1e-5 * i] for i in range(6)])
    write_csv(folder / "raw/node-label.csv.gz", [[label] for label in LABELS])
    write_csv(folder / "raw/num-node-list.csv.gz", [[6]])
    write_csv(folder / "raw/num-edge-list.csv.gz", [[len(EDGES)]])
    write_csv(folder / "split/sales_ranking/train.csv.gz", [[5], [0]])
    write_csv(folder / "split/sales_ranking/valid.csv.gz", [[3]])
    write_csv(folder / "split/sales_ranking/test.csv.gz", [[4], [1], [2]])
    rows = [("label idx", "product category"), (0, "Books"), (1, ""), (2, '"Music, old"')]
    write_csv(folder / "mapping/labelidx2productcategory.csv.gz", rows)
    monkeypatch.setenv("ERASE_DATA", str(tmp_path))
    return folder


def test_products_has_both_directions_and_its_own_split(products: Path) -> None:
    before = sorted(products.rglob("*"))
    data = load_dataset("ogbn-products")
    pairs = [tuple(edge) for edge in data.edge_index.t().tolist()]
    assert sorted(pairs) == sorted([*EDGES, *((j, i) for i, j in EDGES)])
    assert data.x.shape == (6, 3)
    assert data.y.tolist() == LABELS
    assert data.train_mask.nonzero().flatten().tolist() == [0, 5]
    assert data.val_mask.nonzero().flatten().tolist() == [3]
    assert data.test_mask.nonzero().flatten().tolist() == [1, 2, 4]
    assert data.class_names == ["Books", "1", "Music, old"]
    assert sorted(products.rglob("*")) == before


@pytest.mark.parametrize("name", ["ogbn-arxiv", "ogbn-products"])
def test_streaming_gives_what_ogb_loads_without_ogb(
    name: str, arxiv: Path, products: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = load_dataset(name)
    monkeypatch.setattr("erase.data.datasets.ogb.BLOCK", 4)
    monkeypatch.setitem(sys.modules, "ogb.nodeproppred", None)
    write_dataset(name, tmp_path / "folder")
    opened = read_graph(tmp_path / "folder")
    same_graph(loaded, opened)
    mirrored = ["4 one-way edges were mirrored: the graph is used as undirected."]
    assert opened.to_dict().get("notes") == (mirrored if name == "ogbn-arxiv" else None)


def test_large_archives_are_not_downloaded_but_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ERASE_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("asked on the keyboard"))
    missing = r"ogbn_products/raw/edge\.csv\.gz; got no such file.*products\.zip.*unpack it as"
    for call in (load_dataset, lambda name: write_dataset(name, tmp_path / "folder")):
        with pytest.raises(EraseError, match=missing):
            call("ogbn-products")
    assert list(tmp_path.iterdir()) == []


def test_everything_is_as_in_the_files(arxiv: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(arxiv.rglob("*"))
    data = load_dataset("ogbn-arxiv")
    assert data.x.dtype == torch.float32
    assert data.x.tolist() == [[i + 0.5, -i] for i in range(6)]
    assert data.edge_index.t().tolist() == [list(edge) for edge in EDGES]  # one direction
    assert data.y.tolist() == LABELS
    assert data.train_mask.tolist() == [True, True, True, False, False, False]
    assert data.val_mask.tolist() == [False, False, False, True, False, False]
    assert data.test_mask.tolist() == [False, False, False, False, True, True]
    assert data.class_names == ["0", "1", "2"]
    assert sorted(arxiv.rglob("*")) == before
    assert capsys.readouterr() == ("", "")


def test_class_names_come_from_the_mapping_file(arxiv: Path) -> None:
    rows = [("label idx", "arxiv category"), *((k, f"arxiv cs {c}") for k, c in enumerate("abc"))]
    write_csv(arxiv / "mapping/labelidx2arxivcategeory.csv.gz", rows)
    assert load_dataset("ogbn-arxiv").class_names == ["cs a", "cs b", "cs c"]


def test_an_existing_release_file_is_left_alone(arxiv: Path) -> None:
    release = arxiv / "RELEASE_v1.txt"
    release.touch()
    os.utime(release, (1, 1))
    load_dataset("ogbn-arxiv")
    assert release.stat().st_mtime == 1


def test_what_torch_may_load_is_as_before(arxiv: Path) -> None:
    before = set(torch.serialization.get_safe_globals())
    load_dataset("ogbn-arxiv")
    assert set(torch.serialization.get_safe_globals()) == before


def test_a_missing_file_is_named(arxiv: Path) -> None:
    (arxiv / "raw/edge.csv.gz").unlink()
    with pytest.raises(EraseError, match=r"ogbn_arxiv/raw/edge\.csv\.gz.*unset ERASE_DATA"):
        load_dataset("ogbn-arxiv")


def test_without_ogb_the_remedy_is_named(arxiv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ogb.nodeproppred", None)
    with pytest.raises(EraseError, match=r"pip install 'graph-erase\[ogb\]'"):
        load_dataset("ogbn-arxiv")


FRESH_PROCESS = """
import builtins, json, socket, sys, threading, probe
calls = []
def record(*arguments, **named):
    calls.append(repr(arguments))
    raise OSError("no network, no keyboard")
socket.getaddrinfo = socket.create_connection = builtins.input = record
from erase.data.datasets import load_dataset
before = sorted(name for name in sys.modules if name.startswith(("ogb", "outdated")))
data = load_dataset("ogbn-arxiv")
for thread in threading.enumerate():
    if thread is not threading.current_thread() and not thread.daemon:
        thread.join()
print(json.dumps({
    "before": before, "nodes": data.num_nodes, "calls": calls,
    "hidden": "outdated" in sys.modules, "asked": probe.asked,
}))
"""


def test_a_fresh_process_uses_neither_the_network_nor_the_keyboard(
    arxiv: Path, tmp_path: Path
) -> None:
    # A stand-in for the module `outdated`, which ogb imports to look for updates.
    (tmp_path / "probe.py").write_text("asked = []\n")
    (tmp_path / "outdated.py").write_text(
        "import probe\n"
        "def check_outdated(*arguments):\n"
        "    probe.asked.append(arguments)\n"
        "    return False, None\n"
    )
    done = forked.run(f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{FRESH_PROCESS}")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "before": [],  # ogb is imported only when it is needed
        "nodes": 6,
        "calls": [],
        "hidden": False,
        "asked": [],
    }
