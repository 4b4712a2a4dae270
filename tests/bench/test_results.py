"""docs/results.md is what the committed records give; the page says all it has to."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import results
from erase.bench.figures import FIGURES
from erase.bench.records import Cell, Record
from erase.bench.studies import STUDIES
from erase.bench.tables import TABLES
from erase.errors import EraseError
from results import Evidence, gather, page

COMMITTED = gather()


def made_up(study: str, count: int | None = None) -> list[Record]:
    return [
        Record(
            cell,
            {"test_accuracy": 0.5 + cell.seed / 100, "correction_rate": 0.5},
            epochs=10,
            seconds=36.0,
            batch=5,
            machine="a machine",
            versions={"erase": "1", "torch": "2"},
        )
        for cell in STUDIES[study].cells()[:count]
    ]


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    return Evidence({study: made_up(study) for study in ("paper", "honest", "clean", "eps2")})


@pytest.mark.skipif(not COMMITTED.records, reason="no records of a study yet")
def test_the_page_is_what_the_records_give() -> None:
    assert results.PAGE.read_text(encoding="utf-8") == page(COMMITTED), "run `make results`"


@pytest.mark.skipif("paper" not in COMMITTED.records, reason="no records of the main table yet")
def test_every_larger_difference_of_erase_is_explained() -> None:
    assert results.NOT_EXPLAINED not in page(COMMITTED)


def test_the_same_records_give_the_same_page(evidence: Evidence) -> None:
    shuffled = {study: records[::-1] for study, records in evidence.records.items()}
    assert page(evidence) == page(evidence) == page(Evidence(shuffled))


def test_the_page_has_every_table_of_the_paper_and_both_protocols(evidence: Evidence) -> None:
    text = page(evidence)
    for name, layout in TABLES.items():
        assert (f"\n### {layout.title}\n" in text) == (name != "smoke")
    order = [text.index(f"\n## {title}\n") for title in (
        "At a glance",
        "Reproduce",
        "Protocol `paper`",
        "Protocol `honest`",
        "Without noise",
        "Finding wrong labels",
        "Differences from the paper",
        "Failed cells",
    )]  # fmt: skip
    assert order == sorted(order)
    assert "**CoraFull**: data not available here." in text
    assert "Data not available here; `erase bench arxiv`" in text
    assert "No records here; `erase bench depth` makes them." in text
    assert "another protocol" in text[order[3] : order[4]]
    assert "another protocol" not in text[order[2] : order[3]]


def test_the_page_says_what_the_records_were_made_on(evidence: Evidence) -> None:
    text = page(evidence)
    assert "erase bench eps2\n" in text
    assert "| `clean` | 165 | 0 | 1.65 h | a machine | erase 1 torch 2 |" in text


def test_the_glance_averages_ten_cells_and_counts_ranks(evidence: Evidence) -> None:
    text = page(evidence)
    # seeds 0–9 of ERASE and CE have a mean of 54.5 %, seeds 0–4 of the others 52 %
    assert "| CE | 54.50 | 64.79 | 54.50 | 54.50 |" in text
    assert "| PI-GNN | 52.00 | 68.22 | 52.00 |" in text
    assert "| label propagation | 52.00 | – | 52.00 |" in text
    assert "- Under `paper` ERASE has the highest mean of the 8 methods in 30 of 30 cells" in text
    assert "(published: 27)" in text
    part = {"paper": [r for r in evidence.records["paper"] if r.cell.rate < 0.5]}
    assert "| CE | – | 64.79 | – |" in page(Evidence(part))


def test_the_glance_tells_sure_from_unsure_and_ahead_from_behind() -> None:
    low, high = [0.70, 0.72, 0.71, 0.73, 0.70], [0.80, 0.82, 0.84, 0.81, 0.83]
    unsure = [0.79, 0.81, 0.84, 0.80, 0.835]  # p of 0.19
    pairs = {0.3: (high, low), 0.4: (low, high), 0.5: (high, unsure)}
    records = [
        Record(Cell("cora", "symmetric", rate, method, {}, "paper", seed), {"test_accuracy": score})
        for rate, both in pairs.items()
        for method, scores in zip(("erase", "ce"), both, strict=True)
        for seed, score in enumerate(scores)
    ]
    assert (
        "ERASE has the highest mean of the 2 methods in 2 of 3 cells (published: 3). Against its "
        "best rival p < 0.05 in 2 of 3 cells; ERASE is ahead in 1 of them."
    ) in page(Evidence({"paper": records}))


def test_differences_are_listed_with_their_explanations(evidence: Evidence) -> None:
    told = {
        "main/cora/erase/symmetric:0.3": "A reason of this cell.",
        "main/rtgnn": "A reason of this row.",
        "eps2": "A reason of this table.",
    }
    text = page(replace(evidence, explanations=told))
    assert "- **Cora symmetric 0.3**: 54.50 against 81.61, −27.11. A reason of this cell.\n" in text
    assert f"- **Cora symmetric 0.4**: 54.50 against 80.13, −25.63. {results.NOT_EXPLAINED}" in text
    assert "| main: RT-GNN | 30 |" in text
    assert "A reason of this row. |" in text
    assert "| The tolerance ε² | 80 |" in text
    assert "A reason of this table. |" in text
    assert "PubMed asymmetric 0.5" in text


def test_an_explanation_of_nothing_is_an_error(evidence: Evidence) -> None:
    for key in ("main/cora/erase/symmetric:0.35", "main/cora/ce/symmetric:0.3", "eps2/0.1"):
        with pytest.raises(EraseError, match=key):
            page(replace(evidence, explanations={key: "shown nowhere"}))
    page(replace(evidence, explanations={"depth": "of a table that has no records here"}))


def test_failed_cells_are_named() -> None:
    cell = Cell("cora", "symmetric", 0.3, "rtgnn", {}, "honest", 4)
    failed = Record(cell, error="EraseError: out of memory")
    text = page(Evidence({"paper": made_up("paper", 20), "honest": [failed]}))
    assert f"## Failed cells\n\n- {cell}: EraseError: out of memory\n" in text
    assert "| `honest` | 1 | 1 |" in text
    assert page(Evidence({"paper": made_up("paper", 20)})).endswith("## Failed cells\n\nNone.\n")


def files(records: Mapping[str, Sequence[Record]], folder: Path) -> None:
    for study, found in records.items():
        text = "".join(record.to_json() + "\n" for record in found)
        (folder / f"{study}.jsonl").write_text(text, encoding="utf-8")


def test_gathers_records_of_studies_explanations_and_figures(tmp_path: Path) -> None:
    files({"paper": made_up("paper", 5), "smoke": made_up("smoke", 5)}, tmp_path)
    (tmp_path / "speed.jsonl").write_text("another kind of record\n")
    (tmp_path / "figures").mkdir()
    for name in ("radar.svg", "gains.svg", "another.svg", "notes.txt"):
        (tmp_path / "figures" / name).touch()
    (tmp_path / "why.toml").write_text('"main/erase" = "Because."\n')
    found = gather(tmp_path, tmp_path / "why.toml", tmp_path)
    assert {study: len(records) for study, records in found.records.items()} == {"paper": 5}
    assert found.figures == ["figures/radar.svg", "figures/gains.svg", "figures/another.svg"]
    assert found.explanations == {"main/erase": "Because."}
    text = page(found)
    assert f"(`erase figure radar`):\n\n![{FIGURES['radar'].summary}](figures/radar.svg)\n" in text
    assert "Another:\n\n![another](figures/another.svg)\n" in text


def test_the_script_writes_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "results.md"
    monkeypatch.setattr("sys.argv", ["results", "--records", str(tmp_path), "--out", str(out)])
    with pytest.raises(SystemExit, match="no records of a study"):
        results.main()
    assert not out.exists()
    files({"paper": made_up("paper", 5)}, tmp_path)
    results.main()
    assert out.read_text(encoding="utf-8").startswith("# Results\n")
