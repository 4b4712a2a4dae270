"""Studies are the paper's experiments, cell by cell; a file of that shape is read or refused."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from erase.bench.records import Cell
from erase.bench.studies import (
    NEAREST_TO_PRINT,
    STUDIES,
    Grid,
    Study,
    check,
    choose,
    read_study,
)
from erase.errors import EraseError

CELLS = {name: study.cells() for name, study in STUDIES.items()}


def values(cells: list[Cell], field: str) -> set[Any]:
    return {getattr(cell, field) for cell in cells}


def params(cells: list[Cell], name: str) -> set[Any]:
    return {cell.params[name] for cell in cells}


@pytest.mark.parametrize("name", STUDIES)
def test_every_name_in_a_study_is_in_its_registry(name: str) -> None:
    check(STUDIES[name], CELLS[name])


@pytest.mark.parametrize("name", STUDIES)
def test_no_cell_occurs_twice_and_seeds_count_from_zero(name: str) -> None:
    first = 10 if name == "confirmation" else 0  # draws that "beyond" has not
    assert len(set(CELLS[name])) == len(CELLS[name])
    groups: dict[Cell, list[int]] = {}
    for cell in CELLS[name]:
        same = Cell(**{**cell.fields, "seed": 0})
        groups.setdefault(same, []).append(cell.seed)
    assert all(seeds == list(range(first, first + len(seeds))) for seeds in groups.values())


# a method that is added later need not be run on all these cells
COMPARED = (
    *("erase", "ce", "ce-gcn", "gce", "apl", "mcr2", "codis", "rtgnn", "pignn"),
    *("nrgnn", "pta"),
    *("label-propagation", "smoothed", "relabelling"),
)


@pytest.mark.parametrize("name", ["paper", "honest"])
def test_the_main_table_has_every_method_in_thirty_cells(name: str) -> None:
    cells = CELLS[name]
    assert values(cells, "protocol") == {name}
    assert values(cells, "method") == set(COMPARED)
    for method in COMPARED:
        own = [cell for cell in cells if cell.method == method]
        assert len(own) == 3 * 2 * 5 * 10
        assert values(own, "dataset") == {"cora", "citeseer", "pubmed"}
        assert values(own, "noise") == {"asymmetric", "symmetric"}
        assert values(own, "rate") == {0.1, 0.2, 0.3, 0.4, 0.5}


@pytest.mark.parametrize("name", ["paper", "honest", "pool", "beyond", "clean", "arxiv"])
def test_rivals_have_the_settings_nearest_to_print(name: str) -> None:
    changes = {cell.method: cell.params for cell in CELLS[name] if cell.params}
    assert changes == {"rtgnn": {"lr": 0.01}, "codis": {"warm_up": 200}} == NEAREST_TO_PRINT
    assert all(bool(cell.params) == (cell.method in changes) for cell in CELLS[name])


def test_the_settings_nearest_to_print_are_compared_with_the_printed_ones() -> None:
    for method, settings in NEAREST_TO_PRINT.items():
        own = [cell for cell in CELLS["departures"] if cell.method == method]
        assert any(cell.params == settings for cell in own)
        assert any(cell.params == {} for cell in own)


def test_pool_and_beyond_differ_in_the_protocol_only() -> None:
    pool = {replace(cell, protocol="honest") for cell in CELLS["pool"]}
    assert pool == {cell for cell in CELLS["beyond"] if cell.noise != "none"}
    assert values(CELLS["pool"], "seed") == set(range(10))
    assert values(CELLS["pool"], "method") == set(COMPARED)


@pytest.mark.parametrize(
    ("name", "size", "tried"),
    [
        # datasets × noises × rates × values × seeds
        ("eps2", 2 * 2 * 5 * 4 * 5, {"eps2": {0.01, 0.05, 0.1, 0.5}}),
        ("propagation", 2 * 2 * 3 * 4 * 5, {"denoise": {False, True}, "propagate": {False, True}}),
        ("semantics", 2 * 2 * 5 * 1 * 5, {"semantics": {"cross-entropy"}}),
        ("backbones", 3 * 2 * 5 * 2 * 5, {"encoder": {"gcn", "sage"}}),
        ("heads", 2 * 2 * 3 * 3 * 5, {"head": {"mlp", "poly-svm", "linear-svm"}}),
        ("one-stage", 2 * 2 * 5 * 1 * 5, {"one_stage": {True}}),
        ("depth", 2 * 2 * 5 * 9 * 5, {"steps": {0, 2, 4, 6, 8, 10, 12, 14, 16}}),
        ("alpha", 2 * 2 * 5 * 10 * 5, {"keep": {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1}}),
        ("beta", 2 * 2 * 5 * 10 * 5, {"trust": {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1}}),
    ],
)
def test_the_ablations_vary_what_the_paper_varies(
    name: str, size: int, tried: dict[str, set[Any]]
) -> None:
    cells = CELLS[name]
    assert len(cells) == size
    assert values(cells, "method") == {"erase"}
    assert values(cells, "protocol") == {"paper"}
    for parameter, expected in tried.items():
        assert params(cells, parameter) == expected
    assert all(set(cell.params) == set(tried) for cell in cells)


def test_what_else_a_study_keeps() -> None:
    assert [name for name, study in STUDIES.items() if study.shift] == ["eps2"]
    assert [name for name, study in STUDIES.items() if study.keep_embeddings] == ["pictures"]
    assert values(CELLS["clean"], "rate") == {0.0}
    assert values(CELLS["clean"], "noise") == {"none"}
    assert values(CELLS["train-size"], "labels_per_class") == {4, 8, 12, 16, 20}
    assert len(CELLS["smoke"]) == 2 * 14 * 2 * 2
    assert values(CELLS["smoke"], "dataset") == {"debian"}


def test_cells_of_one_method_stand_together() -> None:
    cells = Grid(("cora", "pubmed"), ("pair",), (0.1, 0.2), ("ce", "gce"), range(3)).cells()
    order = [(cell.dataset, cell.method) for cell in cells]
    assert order == [(d, m) for d in ("cora", "pubmed") for m in ("ce", "gce") for _ in range(6)]


def test_overlapping_grids_and_rates_of_no_noise_give_a_cell_once() -> None:
    grid = Grid(("cora",), ("none", "pair"), (0.1, 0.2), ("ce",), (0,))
    cells = Study("twice", (grid, grid)).cells()
    assert [(cell.noise, cell.rate) for cell in cells] == [
        ("none", 0.0),
        ("pair", 0.1),
        ("pair", 0.2),
    ]


TOML = """
summary = "two methods"
shift = false
keep_embeddings = true

[[grid]]
datasets = ["cora", "citeseer"]
noises = "symmetric"
rates = [0, 0.3]
methods = ["erase", "ce"]
seeds = 2
protocols = ["paper", "honest"]
labels_per_class = [4, 8]

[grid.params]
epochs = 7
dropout = [0.2, 0.4]

[[grid]]
datasets = "debian"
noises = "none"
methods = "ce"
seeds = [3, 5]
"""


def written(tmp_path: Path, content: str) -> str:
    path = tmp_path / "own.toml"
    path.write_text(content, encoding="utf-8")
    return str(path)


def test_a_study_is_read_from_a_file(tmp_path: Path) -> None:
    study = read_study(written(tmp_path, TOML))
    assert study == Study(
        "two methods",
        (
            Grid(
                ("cora", "citeseer"),
                ("symmetric",),
                (0, 0.3),
                ("erase", "ce"),
                range(2),
                ("paper", "honest"),
                {"epochs": (7,), "dropout": (0.2, 0.4)},
                (4, 8),
            ),
            Grid(("debian",), ("none",), (0.0,), ("ce",), (3, 5)),
        ),
        keep_embeddings=True,
    )
    assert len(study.cells()) == 2 * 2 * 2 * 2 * 2 * 2 * 2 + 2
    assert study.cells()[-1] == Cell("debian", "none", 0.0, "ce", {}, "paper", 5)
    check(study, study.cells())


def test_a_study_is_read_by_its_name() -> None:
    assert read_study("paper") is STUDIES["paper"]


GRID = '[[grid]]\ndatasets = "cora"\nnoises = "pair"\nrates = 0.1\nmethods = "ce"\n'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("grid", "TOML"),
        ("", "missing required field `grid`"),
        ("grid = 3", "`$.grid`"),
        ("grid = []", "`$.grid`"),
        ("sumary = 'x'\n" + GRID, "unknown field `sumary`"),
        ("summary = 3\n" + GRID, "`$.summary`"),
        ("shift = 1\n" + GRID, "`$.shift`"),
        (GRID + "sead = 1", "unknown field `sead` - at `$.grid[0]`"),
        (GRID.replace("methods", "method"), "method` - at `$.grid[0]`"),
        (GRID.replace('methods = "ce"', ""), "missing required field `methods`"),
        (GRID.replace("rates = 0.1", ""), "missing required field `rates`"),
        (GRID.replace('"cora"', "3"), "`$.grid[0].datasets`"),
        (GRID.replace("0.1", "1.5"), "<= 1.0 - at `$.grid[0].rates`"),
        (GRID.replace("0.1", "true"), "`$.grid[0].rates`"),
        (GRID.replace("0.1", "nan"), "`$.grid[0].rates`"),
        (GRID.replace("0.1", "[]"), "`$.grid[0].rates`"),
        (GRID + "seeds = [-1]", ">= 0 - at `$.grid[0].seeds[0]`"),
        (GRID + "seeds = 0", ">= 1 - at `$.grid[0].seeds`"),
        (GRID + "seeds = -1", "`$.grid[0].seeds`"),
        (GRID + "seeds = 100_001", "<= 100000 - at `$.grid[0].seeds`"),
        (GRID + "seeds = 100_000\nprotocols = ['paper', 'honest']", "got 200,000"),
        (GRID + "params = {epochs = [1, 2], hidden = [3, 4]}\nseeds = 25_001", "got 100,004"),
        (GRID.replace("[[grid]]", "[[grd]]"), "own.toml; got unknown field `grd`"),
        (GRID + "seeds = true", "`$.grid[0].seeds`"),
        (GRID + "labels_per_class = 0", "`$.grid[0].labels_per_class`"),
        (GRID + "params = 3", "`$.grid[0].params`"),
        (GRID + "params = {epochs = [[1]]}", "`$.grid[0].params"),
        (GRID + "params = {epochs = []}", "`$.grid[0].params"),
    ],
)
def test_a_bad_file_is_refused_by_its_key(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(EraseError) as caught:
        read_study(written(tmp_path, content))
    assert message in str(caught.value)


@pytest.mark.parametrize("name", ["papr", "nowhere.toml"])
def test_a_missing_study_is_an_error(name: str) -> None:
    with pytest.raises(EraseError) as caught:
        read_study(name)
    assert name in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dataset": "coral"}, "a dataset among cora"),
        ({"noise": "loud"}, "none; got 'loud'"),
        ({"method": "magic"}, "a method among erase, ce"),
        ({"protocol": "secret"}, "paper, honest, pool, all-labels; got 'secret'"),
        ({"params": {"epoch": 3}}, "got epoch"),
        ({"params": {"seed": 3}}, "got seed"),
        ({"params": {"epochs": 0}}, "epochs to be a whole number"),
    ],
    ids=str,
)
def test_what_no_registry_knows_is_found_before_anything_runs(
    change: dict[str, Any], message: str
) -> None:
    cell = Cell("cora", "pair", 0.1, "ce", {}, "paper", 0)
    study = Study("one cell", ())
    check(study, [cell])
    with pytest.raises(EraseError) as caught:
        check(study, [cell, Cell(**{**cell.fields, **change})])
    assert message in str(caught.value)


def test_only_methods_with_a_tolerance_have_a_shift() -> None:
    erase, ce = (Cell("cora", "pair", 0.1, name, {}, "paper", 0) for name in ("erase", "ce"))
    study = Study("shift", (), shift=True)
    check(study, [erase])
    with pytest.raises(EraseError, match="eps2 in a study with shift"):
        check(study, [erase, ce])


def test_cells_are_chosen_by_every_key() -> None:
    cells = CELLS["smoke"]
    assert choose(cells, []) == cells
    one = choose(cells, ["method=ce", "noise=symmetric", "rate=0.3", "seed=1", "protocol=honest"])
    assert [str(cell) for cell in one] == ["ce epochs=5 on debian, symmetric 0.3, honest, seed 1"]
    assert choose(cells, ["rate=0.30"]) == choose(cells, ["rate=0.3"])
    two = choose(cells, ["method=ce", "method=erase", "seed=1", "dataset=debian"])
    assert values(two, "method") == {"ce", "erase"}
    assert len(two) == 2 * 2 * 2


@pytest.mark.parametrize(
    ("only", "message"),
    [
        (["size=3"], "KEY among dataset, noise"),
        (["method"], "KEY=VALUE"),
        (["method=magic"], "a method of the study: apl, ce"),
        (["rate=0.9"], "0.1, 0.2, 0.3, 0.4, 0.5; got 0.9"),
        (["rate=much"], "0.5; got much"),
    ],
    ids=str,
)
def test_a_choice_that_chooses_nothing_is_an_error(only: list[str], message: str) -> None:
    with pytest.raises(EraseError) as caught:
        choose(CELLS["paper"], only)
    assert message in str(caught.value)


def test_choices_that_no_cell_has_together_are_an_error() -> None:
    with pytest.raises(EraseError, match=r"none with dataset=citeseer rate=0\.1"):
        choose(CELLS["pictures"], ["dataset=citeseer", "rate=0.1"])


def test_no_noise_in_a_list_needs_no_rate(tmp_path: Path) -> None:
    content = GRID.replace('"pair"', '["none"]').replace("rates = 0.1\n", "")
    assert values(read_study(written(tmp_path, content)).cells(), "rate") == {0.0}


def test_all_labels_may_be_wrong(tmp_path: Path) -> None:
    content = GRID.replace("rates = 0.1", "rates = [0, 1, 1.0]")
    (grid,) = read_study(written(tmp_path, content)).grids
    assert grid.rates == (0, 1, 1.0)


def test_a_key_of_thousands_of_parts_is_refused_at_once(tmp_path: Path) -> None:
    for key in (".".join("a" * 100_000), " . ".join(['"a b"'] * 100_000).replace(" b", "b")):
        (tmp_path / "deep.toml").write_text(f"{key} = 1\n")
        with pytest.raises(EraseError, match="keys of at most 20 parts"):
            read_study(str(tmp_path / "deep.toml"))
    with pytest.raises(EraseError, match="a study's name"):
        read_study(3)  # type: ignore[arg-type]


def test_an_unknown_field_comes_with_the_known_ones(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text("[[gird]]\ndatasets = ['cora']\n")
    with pytest.raises(EraseError, match=r"got unknown field `gird`.* A study has grid, summary"):
        read_study(str(tmp_path / "own.toml"))
    (tmp_path / "own.toml").write_text("[[grid]]\ndataset = 'cora'\n")
    with pytest.raises(EraseError, match=r"`dataset`.* each \[\[grid\]\] has datasets, noises"):
        read_study(str(tmp_path / "own.toml"))
