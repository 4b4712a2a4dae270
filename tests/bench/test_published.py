"""The paper's figures: counts, and values copied by hand from its pages."""

import pytest

from erase.bench.names import METHOD_NAMES, PAPER_METHODS, noise_place
from erase.bench.published import Value, published
from erase.data.datasets import DATASETS
from erase.data.noise import NOISES

TEN = [noise_place(n, r / 10) for n in ("asymmetric", "symmetric") for r in range(1, 6)]
SIX = [place for place in TEN if place[-1] in "345"]


def test_every_table_has_all_its_figures() -> None:
    counts = {
        name: sum(len(row) for rows in table.values.values() for row in rows.values())
        for name, table in published().items()
    }
    assert counts == {
        "main": 4 * 8 * 10,
        "correction": 8 * 6,
        "eps2": 2 * 4 * 10,
        "ntvr": 2 * 4 * 10,
        "propagation": 2 * 4 * 6,
        "semantics": 2 * 2 * 10,
        "backbones": 3 * 3 * 10,
        "classifiers": 2 * 4 * 6,
        "arxiv": 7 * 6,  # RT-GNN is not reported
        "guidance": 2 * 2 * 10,
        "depth": 2 * 9 * 10,
        "alpha": 2 * 10 * 10,
        "beta": 2 * 10 * 10,
        "time": 3,
    }


def test_names_are_those_of_the_registries() -> None:
    for name, table in published().items():
        for dataset, rows in table.values.items():
            assert dataset in DATASETS
            for row, figures in rows.items():
                if name in ("main", "correction", "arxiv", "time"):
                    assert row in PAPER_METHODS
                if name != "time":
                    assert list(figures) == (TEN if len(figures) == 10 else SIX)
                    assert {place.split(":")[0] for place in figures} <= set(NOISES)
    assert list(METHOD_NAMES)[:8] == list(PAPER_METHODS)
    assert list(published()["main"].values["cora"]) == [*PAPER_METHODS]


def test_figures_are_plausible() -> None:
    for table in published().values():
        for rows in table.values.values():
            for figures in rows.values():
                for value in figures.values():
                    assert 0 < value.mean < {"%": 100, "": 1, "ms": 1000}[table.unit]
                    assert value.std is None or 0 < value.std < 10


# table, dataset, row, place: mean, standard deviation
COPIED: list[tuple[str, str, str, str, float, float | None]] = [
    ("main", "cora", "ce", "asymmetric:0.1", 75.72, 0.57),
    ("main", "cora", "rtgnn", "asymmetric:0.4", 52.71, 1.44),
    ("main", "cora", "pignn", "symmetric:0.5", 61.71, 5.92),
    ("main", "cora", "erase", "asymmetric:0.1", 81.43, 0.90),
    ("main", "cora", "erase", "asymmetric:0.5", 48.00, 2.52),
    ("main", "cora", "erase", "symmetric:0.5", 78.01, 1.05),
    ("main", "citeseer", "apl", "symmetric:0.3", 62.73, 0.94),
    ("main", "citeseer", "rtgnn", "asymmetric:0.1", 71.52, 0.66),
    ("main", "citeseer", "erase", "asymmetric:0.4", 59.32, 4.69),
    ("main", "pubmed", "mcr2", "asymmetric:0.5", 51.63, 1.33),
    ("main", "pubmed", "gce", "symmetric:0.3", 67.25, 8.38),
    ("main", "pubmed", "codis", "asymmetric:0.1", 79.00, 1.66),
    ("main", "pubmed", "erase", "symmetric:0.1", 78.16, 0.88),
    ("main", "corafull", "apl", "symmetric:0.3", 45.73, 0.23),
    ("main", "corafull", "erase", "symmetric:0.5", 48.87, 0.64),
    ("correction", "cora", "codis", "symmetric:0.3", 37.32, None),
    ("correction", "cora", "erase", "asymmetric:0.3", 84.86, None),
    ("correction", "cora", "erase", "symmetric:0.5", 62.46, None),
    ("eps2", "cora", "0.01", "asymmetric:0.1", 81.96, 0.42),
    ("eps2", "cora", "0.5", "asymmetric:0.5", 41.98, 5.50),
    ("eps2", "pubmed", "0.1", "asymmetric:0.5", 62.36, 2.30),
    ("eps2", "pubmed", "0.5", "symmetric:0.5", 67.54, 0.68),
    ("ntvr", "cora", "0.05", "asymmetric:0.4", 0.122, None),
    ("ntvr", "pubmed", "0.5", "symmetric:0.5", 0.021, None),
    ("propagation", "cora", "none", "asymmetric:0.5", 29.16, None),
    ("propagation", "cora", "propagate", "symmetric:0.3", 81.00, None),
    ("propagation", "pubmed", "denoise", "symmetric:0.5", 64.96, None),
    ("propagation", "pubmed", "denoise+propagate", "asymmetric:0.4", 72.08, None),
    ("semantics", "cora", "cross-entropy", "symmetric:0.5", 62.20, None),
    ("semantics", "pubmed", "cross-entropy", "asymmetric:0.3", 74.26, None),
    ("semantics", "pubmed", "prototype", "symmetric:0.5", 70.78, None),
    ("backbones", "cora", "gcn", "asymmetric:0.4", 75.53, 0.81),
    ("backbones", "citeseer", "sage", "symmetric:0.4", 52.61, 5.61),
    ("backbones", "pubmed", "gcn", "asymmetric:0.4", 68.83, 2.31),
    ("classifiers", "cora", "linear-svm", "asymmetric:0.3", 80.34, None),
    ("classifiers", "citeseer", "mlp", "symmetric:0.5", 63.12, None),
    ("arxiv", "ogbn-arxiv", "pignn", "symmetric:0.3", 53.70, 0.45),
    ("arxiv", "ogbn-arxiv", "erase", "symmetric:0.5", 67.63, 0.21),
    ("guidance", "cora", "semantic", "asymmetric:0.5", 44.46, None),
    ("guidance", "citeseer", "erase", "symmetric:0.5", 58.08, None),
    ("depth", "cora", "14", "asymmetric:0.5", 51.62, None),
    ("depth", "citeseer", "0", "symmetric:0.4", 68.34, None),
    ("depth", "citeseer", "16", "symmetric:0.5", 53.26, None),
    ("alpha", "cora", "0.8", "symmetric:0.5", 77.08, None),
    ("alpha", "citeseer", "1.0", "symmetric:0.5", 54.00, None),
    ("beta", "cora", "0.1", "symmetric:0.5", 78.84, None),
    ("beta", "citeseer", "0.9", "symmetric:0.5", 60.82, None),
    ("beta", "citeseer", "1.0", "asymmetric:0.2", 61.10, None),
    ("time", "cora", "pignn", "any", 65, None),
    ("time", "cora", "rtgnn", "any", 355, None),
    ("time", "cora", "erase", "any", 145, None),
]


@pytest.mark.parametrize(("table", "dataset", "row", "place", "mean", "std"), COPIED)
def test_figures_copied_by_hand(
    table: str, dataset: str, row: str, place: str, mean: float, std: float | None
) -> None:
    assert published()[table].get(dataset, row, place) == Value(mean, std)


def test_sums_of_rows_added_up_by_hand() -> None:
    """A whole row at a time: a shifted column or a lost digit changes its sum."""
    main = published()["main"].values
    sums = {
        ("cora", "erase"): 768.07,
        ("citeseer", "erase"): 655.67,
        ("pubmed", "erase"): 740.94,
        ("cora", "ce"): 647.90,
        ("pubmed", "rtgnn"): 695.42,
    }
    for (dataset, method), total in sums.items():
        figures = main[dataset][method].values()
        assert sum(value.mean for value in figures) == pytest.approx(total)


def test_rows_that_the_paper_prints_twice_are_equal() -> None:
    tables = {name: table.values for name, table in published().items()}

    def means(name: str, dataset: str, row: str) -> dict[str, float]:
        return {place: value.mean for place, value in tables[name][dataset][row].items()}

    for dataset in ("cora", "pubmed"):
        usual = means("eps2", dataset, "0.05")
        assert means("semantics", dataset, "prototype") == usual
        both = means("propagation", dataset, "denoise+propagate")
        assert both == {place: usual[place] for place in SIX}
    assert means("guidance", "cora", "erase") == means("eps2", "cora", "0.05")
    assert means("beta", "cora", "0.6") == means("eps2", "cora", "0.05")
    for dataset in ("cora", "citeseer", "pubmed"):
        assert tables["backbones"][dataset]["gat"] == tables["main"][dataset]["erase"]
    for dataset in ("cora", "citeseer"):
        erase = means("main", dataset, "erase")
        logreg = means("classifiers", dataset, "logreg")
        assert logreg == {place: erase[place] for place in SIX}
    none, depth = means("propagation", "cora", "none"), means("depth", "cora", "0")
    assert none == {place: depth[place] for place in SIX}


def test_what_is_not_printed_is_none_and_misprints_are_noted() -> None:
    tables = published()
    assert tables["arxiv"].get("ogbn-arxiv", "rtgnn", "symmetric:0.3") is None
    assert tables["correction"].get("citeseer", "erase", "symmetric:0.3") is None
    assert tables["main"].get("debian", "erase", "symmetric:0.3") is None
    assert any("CiteSeer repeats" in note for note in tables["correction"].notes)
    assert any("headed Sym-0.5" in note for note in tables["eps2"].notes)
    assert any("75.73" in note for note in tables["backbones"].notes)
    assert any("headed β" in note for note in tables["alpha"].notes)
    assert tables["main"].runs == 10
    assert tables["depth"].runs == 5
