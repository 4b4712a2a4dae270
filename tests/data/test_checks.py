"""Folders of `erase convert` whose contents are wrong: found at the first opening, and once."""

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import erase.data.folder
from erase.data import checks
from erase.data.files import read_graph
from erase.data.folder import write_folder
from erase.errors import EraseError


def a_graph(seed: int = 0, n: int = 40) -> Data:
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(n, 12, generator=generator) * (torch.rand(n, 12, generator=generator) < 0.1)
    return Data(
        x=x,
        edge_index=torch.randint(n, (2, 3 * n), generator=generator),
        y=torch.arange(n) % 3,
        train_mask=torch.arange(n) < 9,
        node_names=[f"näme {i}" for i in range(n)],
    )


def edited(folder: Path, name: str, change: Any) -> None:
    """Change an array in its file."""
    array = np.load(folder / f"{name}.npy")
    change(array)
    np.save(folder / f"{name}.npy", array)


def put(place: Any, value: Any) -> Any:
    return lambda array: array.__setitem__(place, value)


def swap(array: Any) -> None:
    array[:, [0, 1]] = array[:, [1, 0]]


def one_way(array: Any) -> None:
    """Point an edge at another node, still sorted, so that its mirror image is another."""
    n, (rows, columns) = 40, array
    for i in range(rows.size - 1):
        free = columns[i] + 1
        if free != rows[i] and free < n and (rows[i + 1], columns[i + 1]) > (rows[i], free):
            columns[i] = free
            return
    raise AssertionError("no edge to move")


@pytest.mark.parametrize("block", [5, 2**20])
@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("edge_index", put((1, 0), 40), r"an edge to a node outside 0\.\.39"),
        ("edge_index", put((1, -1), -1), r"an edge to a node outside 0\.\.39"),
        ("edge_index", put((0, 3), 2**62), "edges in other rows than indptr says"),
        ("edge_index", put((1, 0), 0), "an edge from a node to itself"),
        ("edge_index", swap, "edges that are not sorted, or repeated"),
        ("edge_index", one_way, "edges without their mirror images"),
        ("indptr", put(7, 2**63 - 1), "indptr.npy, which does not rise from 0"),
        ("indptr", put(0, -(2**63)), "indptr.npy, which does not rise from 0"),
        ("indptr", put(-1, 2**40), "indptr.npy, which ends at 1,099,511,627,776 in place of"),
        ("x_indptr", put(slice(None), 0), "x_indptr.npy, which ends at 0 in place of"),
        ("x_indices", put(2, 12), r"a feature outside the columns 0\.\.11"),
        ("x_indices", put(2, -(2**63)), r"a feature outside the columns 0\.\.11"),
        ("x_values", put(-1, np.nan), "nan in x_values.npy"),
        ("y", put(4, 3), "the label 3, which has no class"),
        ("y", put(4, -2), "the label -2, which has no class"),
        ("train_mask", lambda a: put(1, 7)(a.view(np.uint8)), "neither true nor false"),
        ("name_text", put(3, 0xFF), "a name that is not UTF-8"),
        ("name_starts", put(1, 2), "a name that is not UTF-8"),
        ("name_starts", put(2, 10**9), "name_starts.npy, which does not rise from 0"),
    ],
)
def test_wrong_contents_are_found(
    block: int,
    name: str,
    change: Any,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checks, "_BLOCK", block)
    folder = tmp_path / "graph"
    write_folder(a_graph(), folder)
    read_graph(folder)
    edited(folder, name, change)
    with pytest.raises(EraseError, match=message):
        read_graph(folder)


def test_any_written_graph_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for block in (1, 3, 2**20):
        monkeypatch.setattr(checks, "_BLOCK", block)
        for seed in range(4):
            write_folder(a_graph(seed, n=3 + 5 * seed), tmp_path / f"{block}-{seed}")
            read_graph(tmp_path / f"{block}-{seed}")


def test_a_folder_is_checked_once_until_a_file_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "graph"
    write_folder(a_graph(), folder)
    calls: list[Any] = []
    check = checks.check_contents
    watch = lambda *given: (calls.append(given), check(*given))  # type: ignore[func-returns-value]  # noqa: E731
    monkeypatch.setattr(erase.data.folder, "check_contents", watch)
    time.sleep(0.1)
    for _ in range(3):
        read_graph(folder)
    assert len(calls) == 1
    about = (folder / "y.npy").stat()
    edited(folder, "y", put(0, 2))
    os.utime(folder / "y.npy", ns=(about.st_atime_ns, about.st_mtime_ns))  # as if unchanged
    read_graph(folder)
    assert len(calls) == 2
    shutil.copytree(folder, tmp_path / "copy")
    read_graph(tmp_path / "copy")
    assert len(calls) == 3


def test_pipes_are_refused_and_links_are_followed(tmp_path: Path) -> None:
    folder = tmp_path / "graph"
    write_folder(a_graph(), folder)
    (folder / "y.npy").rename(tmp_path / "elsewhere.npy")
    (folder / "y.npy").symlink_to(tmp_path / "elsewhere.npy")
    (tmp_path / "link").symlink_to(folder)
    assert read_graph(tmp_path / "link").y.tolist() == a_graph().y.tolist()
    write_folder(a_graph(n=3), tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert len(read_graph(folder).y) == 3
    for name in ("y.npy", "graph.json"):
        (folder / name).unlink()
        os.mkfifo(folder / name)
        with pytest.raises(EraseError, match="which is not a regular file"):
            read_graph(folder)
    os.mkfifo(tmp_path / "graph.npz")
    with pytest.raises(EraseError, match="a pipe or device"):
        read_graph(tmp_path / "graph.npz")


def test_a_changed_file_that_could_be_right_is_noted(tmp_path: Path) -> None:
    folder = tmp_path / "graph"
    write_folder(a_graph(), folder)
    before = read_graph(folder).get("notes") or []
    edited(folder, "y", put(0, 2 - int(np.load(folder / "y.npy")[0])))
    time.sleep(0.1)
    for _ in range(2):  # and it is not remembered as right
        notes = read_graph(folder).notes
        assert notes == [*before, "y.npy was changed after the folder was written."]
    manifest = json.loads((folder / "graph.json").read_text())
    del manifest["checksums"]  # as another writer may leave it
    (folder / "graph.json").write_text(json.dumps(manifest))
    assert (read_graph(folder).get("notes") or []) == before
