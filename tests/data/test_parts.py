"""Whole or not at all: full disks, killed processes, folders that are replaced, two at once."""

import errno
import os
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

import erase
import forked
from erase.data import parts
from erase.data.files import atomic_write, read_graph, write_json
from erase.data.folder import FolderWriter, write_folder
from erase.data.parts import locked_folder
from erase.errors import EraseError
from graphs import two_communities


def a_graph(label: int = 0) -> Data:
    ends, names = torch.tensor([[0], [1]]), ["a", "b"]
    return Data(edge_index=ends, y=torch.tensor([label, 1]), class_names=names)


KILLED = """
import os, signal, sys
from erase.data.files import atomic_write
from erase.data.folder import FolderWriter
if sys.argv[2] == "file":
    with atomic_write(sys.argv[1]) as file:
        os.kill(os.getpid(), signal.SIGKILL)
with FolderWriter(sys.argv[1], 2, ["a", "b"]) as writer:
    writer.add_edges([[0], [1]])
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_a_killed_process_left_is_swept_by_the_next_writer(kind: str, tmp_path: Path) -> None:
    assert forked.run(KILLED, str(tmp_path / "graph"), kind).returncode == -signal.SIGKILL
    (left,) = os.listdir(tmp_path)
    assert left.endswith(".part")
    (tmp_path / ".mine.part").touch()  # not one of ours
    with atomic_write(tmp_path / "another") as file:
        file.write("x")
    assert sorted(os.listdir(tmp_path)) == [".mine.part", "another"]


def test_the_part_of_a_living_process_stays(tmp_path: Path) -> None:
    with atomic_write(tmp_path / "a") as first:
        first.write("1")
        write_json({}, tmp_path / "a")
        with FolderWriter(tmp_path / "b", 2, ["a", "b"]) as writer:
            write_folder(a_graph(), tmp_path / "b")
            writer.add_edges([[0], [1]])
    assert (tmp_path / "a").read_text() == "1"
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


@pytest.mark.parametrize("exchanges", [True, False])
def test_a_replaced_folder_is_never_missing_for_good(
    exchanges: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "graph"
    write_folder(a_graph(0), folder)
    if not exchanges:
        monkeypatch.setattr(parts, "_exchange", lambda *_: False)
    rename = Path.rename
    seen: list[bool] = []

    def watched(self: Path, target: Path) -> Path:
        seen.append(folder.exists())
        if self.suffix == ".part" and not exchanges:
            raise KeyboardInterrupt
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", watched)
    if exchanges:
        write_folder(a_graph(1), folder)
        assert seen == []  # nothing was moved away: the names were exchanged
    else:
        with pytest.raises(KeyboardInterrupt):
            write_folder(a_graph(1), folder)
        assert not folder.exists()
    monkeypatch.undo()
    assert read_graph(folder).y.tolist() == [int(exchanges), 1]
    assert os.listdir(tmp_path) == ["graph"]


@pytest.mark.parametrize("when", ["_lock", "sweep"])
def test_an_interrupt_leaves_no_part_however_early_it_comes(
    when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(parts, when, interrupted)
    for write, given in ((write_folder, a_graph()), (write_json, {})):
        with pytest.raises(KeyboardInterrupt):
            write(given, tmp_path / "target")
        assert os.listdir(tmp_path) == []


def test_an_interrupt_while_a_replaced_folder_is_removed_leaves_no_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_folder(a_graph(0), tmp_path / "graph")
    remove, calls = parts._remove, []

    def interrupted(part: Path) -> None:
        calls.append(part)
        if len(calls) == 1:
            raise KeyboardInterrupt
        remove(part)

    monkeypatch.setattr(parts, "_remove", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_folder(a_graph(1), tmp_path / "graph")
    assert os.listdir(tmp_path) == ["graph"]
    assert read_graph(tmp_path / "graph").y.tolist() == [1, 1]


@pytest.mark.parametrize("name", ["a**b", "a[1]", "**", "*"])
def test_names_that_look_like_patterns_are_names(name: str, tmp_path: Path) -> None:
    parts.recover(tmp_path / name)
    (tmp_path / ".other.0123abcd.old").mkdir()
    (tmp_path / f".{name}.0123abcd.old").mkdir()
    parts.recover(tmp_path / name)
    assert sorted(os.listdir(tmp_path)) == sorted([".other.0123abcd.old", name])


def test_a_full_disk_leaves_no_part_and_names_the_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    for write, given in ((write_folder, a_graph()), (write_json, {})):
        with pytest.raises(OSError, match=r"No space left on device: '.*target'"):
            write(given, tmp_path / "target")
        assert os.listdir(tmp_path) == []


def test_links_stay_links_and_devices_are_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write_json(1, tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "1\n"
    os.mkfifo(tmp_path / "pipe")
    for taken in (tmp_path / "pipe", tmp_path, Path(os.devnull)):
        with pytest.raises(EraseError, match="a file to write"):
            write_json(1, taken)


def test_a_folder_has_one_writer(tmp_path: Path) -> None:
    with (
        locked_folder(tmp_path / "out"),
        pytest.raises(EraseError, match="another command is writing to"),
        locked_folder(tmp_path / "out"),
    ):
        pass
    with locked_folder(tmp_path / "out"):
        pass
    with pytest.raises(EraseError), locked_folder(tmp_path / "new"):
        raise EraseError("a", "b", "c")
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("given", [None, 3, b"x", "a\0b", "\ud800"])
def test_what_names_no_file_is_refused(given: Any) -> None:
    model = erase.methods.LabelPropagation().fit(two_communities(size=10))
    audit = erase.audit(two_communities(size=10), method="label-propagation")
    writers: list[Any] = [model.save, audit.save, audit.to_html]
    writers.append(partial(erase.write_graph, two_communities(size=10)))
    writers.append(partial(erase.write_folder, two_communities(size=10)))
    if given is not None:
        fit = erase.CrossEntropy(epochs=1, hidden=8, heads=2, device="cpu").fit
        writers.append(lambda path: fit(two_communities(size=10), checkpoint=path))
    for write in writers:
        with pytest.raises(EraseError):
            write(given)
