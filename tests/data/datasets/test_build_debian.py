"""The builder, on handwritten indices."""

import gzip
import lzma
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import forked
from erase.data.datasets import load_dataset
from erase.data.datasets.build_debian import (
    Package,
    PackageGraph,
    build_graph,
    main,
    parse_packages,
    read_packages,
    save_graph,
    words_of,
)
from erase.data.datasets.debian import load_debian
from erase.data.files import read_graph
from erase.errors import EraseError

INDEX = """\
Package: chess
Section: games
Depends: libc6 (>= 2.34), board:any | chess-data (= 1.0) [amd64],
 engine <!nocheck>
Pre-Depends: dpkg
Recommends: clock
Suggests: chess
Description: Play chess against the board
 A long description, whose words do not count.
Tag: game::board,
 role::program

Package: board
Section: contrib/games
Version: 2.0
Description: board and pieces for chess

Package: board
Section: misc
Version: 1.0
Description: an older version

Package: engine
Section: science
Depends: board
Description: engine that thinks

Package: clock
Section: science

Package: dpkg
Section: admin
Description: package manager
"""


@pytest.fixture
def index(tmp_path: Path) -> Path:
    path = tmp_path / "Packages"
    path.write_text(INDEX)
    return path


def package(name: str, section: str, related: tuple[str, ...] = (), summary: str = "") -> Package:
    return Package(name, section, summary, related, ())


def edge_names(graph: PackageGraph) -> set[tuple[str, str]]:
    return {(graph.node_names[i], graph.node_names[j]) for i, j in graph.edges.T.tolist()}


def test_a_stanza_becomes_a_package() -> None:
    chess = next(parse_packages(INDEX.splitlines(keepends=True)))
    assert chess == Package(
        name="chess",
        section="games",
        summary="Play chess against the board",
        related=("dpkg", "libc6", "board", "chess-data", "engine", "clock", "chess"),
        tags=("game::board", "role::program"),
    )


def test_the_first_of_several_versions_counts(index: Path) -> None:
    packages = {package.name: package for package in read_packages(index)}
    assert list(packages) == ["chess", "board", "engine", "clock", "dpkg"]
    assert packages["board"].section == "games"
    assert packages["clock"].summary == ""


def test_words_are_lower_case_runs_of_letters_without_stop_words() -> None:
    words = words_of(
        package("libX11-6_data", "x11", summary="The X11 client-side Library (R6), naïve")
    )
    assert words == {"libx", "data", "client", "side", "library", "naïve"}


def test_the_whole_index_becomes_a_graph(index: Path) -> None:
    graph = build_graph(read_packages(index), min_packages=1)
    assert graph.node_names == ["board", "chess", "clock", "dpkg", "engine"]
    assert graph.class_names == ["admin", "games", "science"]
    assert graph.y.tolist() == [1, 1, 2, 0, 2]
    assert edge_names(graph) == {
        ("board", "chess"),
        ("board", "engine"),
        ("chess", "clock"),
        ("chess", "dpkg"),
        ("chess", "engine"),
    }
    assert graph.homophily() == 1 / 5
    assert graph.words == sorted(graph.words)
    assert graph.word_counts.tolist() == [3, 4, 1, 3, 2]
    first = [graph.words[j] for j in graph.word_indices[:3]]
    assert first == ["board", "chess", "pieces"]
    assert set(graph.words) >= {"against", "play", "thinks", "manager"}


def test_sections_are_the_classes_in_the_requested_order(index: Path) -> None:
    graph = build_graph(read_packages(index), sections=["science", "games"], min_packages=1)
    assert graph.class_names == ["science", "games"]
    assert graph.node_names == ["board", "chess", "clock", "engine"]
    assert graph.y.tolist() == [1, 1, 0, 0]
    with pytest.raises(EraseError, match=r"admin, games, science; got gamez"):
        build_graph(read_packages(index), sections=["gamez"])


def test_a_word_must_occur_often_and_the_most_frequent_are_kept(index: Path) -> None:
    packages = read_packages(index)
    assert build_graph(packages, min_packages=2).words == ["board", "chess"]
    assert build_graph(packages, min_packages=1, max_words=2).words == ["board", "chess"]
    # of words as frequent as each other the first in the alphabet
    assert build_graph(packages, min_packages=1, max_words=3).words == ["against", "board", "chess"]


def test_isolated_and_wordless_packages_are_dropped_until_none_is_left() -> None:
    packages = [
        package("alpha", "games", ("beta",), "word"),
        package("beta", "games", (), "word"),
        package("lonely", "games", (), "word"),
        package("hanging", "games", ("mute",), "word"),
        package("mute", "games", (), ""),  # its only neighbour goes when it goes
    ]
    graph = build_graph(packages, drop_isolated=True, min_packages=2)
    assert graph.node_names == ["alpha", "beta"]
    assert len(build_graph(packages, min_packages=2).node_names) == 5
    with pytest.raises(EraseError, match="at least one package"):
        build_graph(packages[2:3], drop_isolated=True)


def test_large_sections_lose_their_least_connected_packages_first() -> None:
    ring = [package(f"ring{i}", "games", (f"ring{(i + 1) % 4}",)) for i in range(4)]
    tail = [package("tail1", "games", ("ring0",)), package("tail2", "games", ("tail1",))]
    other = [package("a", "science", ("ring1",)), package("b", "science")]
    graph = build_graph(ring + tail + other, max_per_section=4)
    # tail2 goes first, and then tail1, of which it was a neighbour; science is not too large
    assert graph.node_names == ["a", "b", "ring0", "ring1", "ring2", "ring3"]


def test_the_split_has_a_fixed_count_per_class_and_follows_the_seed() -> None:
    packages = [package(f"p{i:03}", "even" if i % 2 else "odd") for i in range(100)]
    graphs = [
        build_graph(packages, train_per_class=5, val_per_class=7, seed=seed) for seed in (0, 0, 1)
    ]
    for k in range(2):
        assert np.bincount(graphs[0].split[graphs[0].y == k]).tolist() == [5, 7, 38]
    assert np.array_equal(graphs[0].split, graphs[1].split)
    assert not np.array_equal(graphs[0].split, graphs[2].split)


def test_the_order_of_the_index_does_not_matter(index: Path, tmp_path: Path) -> None:
    packages = read_packages(index)
    files = [tmp_path / "one.npz", tmp_path / "two.npz"]
    for file, order in zip(files, (packages, packages[::-1]), strict=True):
        save_graph(build_graph(order, min_packages=1), file)
    assert files[0].read_bytes() == files[1].read_bytes()


def test_what_is_built_can_be_loaded(index: Path, tmp_path: Path) -> None:
    out = tmp_path / "graph.npz"
    assert main([str(index), str(out), "--min-packages", "1", "--train-per-class", "1"]) == 0
    data = load_dataset("debian", path=str(out))
    assert data.node_names == ["board", "chess", "clock", "dpkg", "engine"]
    assert data.num_edges == 10
    assert data.train_mask.sum() == 3
    assert data.val_mask.sum() == 2
    assert torch.equal(data.x.to_dense() > 0, data.x.to_dense() != 0)
    assert [data.word_names[j] for j in data.x[0].to_dense().nonzero().flatten()] == [
        "board",
        "chess",
        "pieces",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["Packages", "graph.npz"]


@pytest.mark.parametrize(("suffix", "compress"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_compressed_indices_are_read(
    index: Path, suffix: str, compress: Callable[[bytes], bytes]
) -> None:
    compressed = index.with_suffix(suffix)
    compressed.write_bytes(compress(index.read_bytes()))
    assert read_packages(compressed) == read_packages(index)


def test_lz4_without_its_module_names_the_remedy(
    index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "lz4.frame", None)
    with pytest.raises(EraseError, match="pip install lz4"):
        read_packages(index.with_suffix(".lz4"))


@pytest.mark.parametrize("content", [b"", b"no stanza here\n", b"\xff\xfe\x00"])
def test_files_that_are_no_index_are_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "Packages"
    file.write_bytes(content)
    with pytest.raises(EraseError, match="Packages index"):
        read_packages(file)


def test_a_file_that_is_not_what_its_name_says_is_refused(tmp_path: Path) -> None:
    for name in ("Packages.gz", "Packages.xz"):
        (tmp_path / name).write_text(INDEX)
        with pytest.raises(EraseError, match="compression"):
            read_packages(tmp_path / name)


def test_the_command_runs(index: Path, tmp_path: Path) -> None:
    module = "erase.data.datasets.build_debian"
    code = f"import runpy; runpy.run_module({module!r}, run_name='__main__', alter_sys=True)"
    options = ["--sections", "games", "science", "--max-per-section", "1"]
    done = forked.run(code, str(index), str(tmp_path / "out.npz"), *options)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("2 packages, 1 edges, 2 sections")
    assert done.stderr == ""


def test_every_command_reads_what_is_written_as_a_graph(index: Path, tmp_path: Path) -> None:
    compact, graph = tmp_path / "compact.npz", tmp_path / "graph.npz"
    assert main([str(index), str(compact)]) == 0
    assert main([str(index), str(graph), "--as-graph"]) == 0
    expected, found = load_debian(path=compact), read_graph(graph)
    assert found.node_names == expected.node_names
    assert found.class_names == expected.class_names
    assert torch.equal(found.y, expected.y)
    assert torch.equal(found.x.to_dense(), expected.x.to_dense())
    assert torch.equal(found.train_mask, expected.train_mask)
    with pytest.raises(EraseError, match="edge_index"):
        read_graph(compact)


def test_errors_are_one_line_and_leave_no_file(
    index: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.npz"
    assert main([str(index), str(out), "--sections", "nothing"]) == 2
    assert capsys.readouterr().err.startswith("error: expected sections among admin")
    assert not out.exists()
    with pytest.raises(SystemExit):
        main([str(index), str(out), "--max-words", "0"])
    assert "expected a whole number ≥ 1" in capsys.readouterr().err
