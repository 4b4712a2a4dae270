"""docs/results.md is what the committed records give; the page says all it has to."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from scipy.stats import ttest_1samp

import results
from erase.bench.digests import code_of
from erase.bench.figures import FIGURES
from erase.bench.records import Cell, Record
from erase.bench.studies import STUDIES
from erase.bench.tables import TABLES
from erase.errors import EraseError
from ledger import code_since
from results import Evidence, gather, page

COMMITTED = gather()
Place = tuple[str, float]  # noise and rate


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
    """Return ten runs of ERASE and CE in every cell, and five of the others."""
    return Evidence(
        {
            study: [
                r for r in made_up(study) if r.cell.seed < 5 or r.cell.method in ("erase", "ce")
            ]
            for study in ("paper", "honest", "clean", "eps2")
        }
    )


@pytest.fixture(scope="module")
def evidence_page(evidence: Evidence) -> str:
    return page(evidence)


@pytest.mark.skipif(not COMMITTED.records, reason="no records of a study yet")
def test_the_page_is_what_the_records_give() -> None:
    assert results.PAGE.read_text(encoding="utf-8") == page(COMMITTED), "run `make results`"


@pytest.mark.skipif("paper" not in COMMITTED.records, reason="no records of the main table yet")
def test_every_larger_difference_of_erase_is_explained() -> None:
    assert results.NOT_EXPLAINED not in results.PAGE.read_text(encoding="utf-8")


def test_the_same_records_give_the_same_page(evidence: Evidence, evidence_page: str) -> None:
    reversed_records = {study: records[::-1] for study, records in evidence.records.items()}
    assert page(Evidence(reversed_records)) == evidence_page


# tables that the page shows once there are records, and there are none here
WITHOUT_RECORDS = (
    "inductive",
    "annotators",
    "annotators-split",
    "witnesses",
    "featureless",
    "noises",
    "review",
    "review-errors",
    "review-promises",
)


def test_the_page_has_every_table_of_the_paper_and_both_protocols(evidence_page: str) -> None:
    text = evidence_page
    for name, layout in TABLES.items():
        assert (f"\n### {layout.title}\n" in text) == (
            name not in ("own", "smoke", *WITHOUT_RECORDS)
        )
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
    assert "`erase bench arxiv` makes ours" in text
    assert "| data not available here | asymmetric 0.3 |" in text
    assert "| CE | – (50.21) | – (44.32) |" in text
    assert "No records here; `erase bench depth` makes them." in text
    assert "another protocol" in text[order[3] : order[4]]
    assert "another protocol" not in text[order[2] : order[3]]


def test_audits_that_predate_the_rules_are_named() -> None:
    audit = Cell("cora", "symmetric", 0.3, "audit", {"judge": "ce"}, "honest", 0)
    rival = replace(audit, method="confidence")
    fixed = replace(audit, method="ce", params={"corrected_by": "relabelling"})
    old = [Record(cell) for cell in (audit, rival, fixed)]
    assert "(CE model, corrected labels)" in results._flags_before(old)
    assert "(CE model)" in results._flags_before(old[:2])
    assert not results._flags_before([*old[1:2], Record(audit, code="0123456789ab")])


@pytest.mark.skipif(len(COMMITTED.records) < 20, reason="needs the records of most studies")
def test_the_page_opens_with_five_conclusions_whose_figures_are_on_the_page() -> None:
    text = results.PAGE.read_text(encoding="utf-8")
    opening, _, rest = text.partition("`make results`")
    first, second, third, fourth, fifth = re.findall(r"^\d\. (.*)$", opening, re.MULTILINE)
    mean = r"noisy cells: relabelling ([\d.]+), the best single rival [\w ]+? ([\d.]+)"
    *_, pool, confirmation = re.findall(mean, rest)
    for sentence, found in ((first, pool), (second, confirmation)):
        assert all(f" {float(figure):.1f} %" in sentence for figure in found)
    assert "in 24 of 30 cells" in third
    assert "the published mean in 24 of 30 cells" in rest
    ahead = re.findall(r"ERASE is ahead in (\d+) of these", rest)
    assert f"in {ahead[0]} of 30 cells under `paper` and {ahead[1]} of 30 cells" in fourth
    best, _ = re.findall(r"AUROC: the audit is best .* in (\d+ of \d+) cells", rest)
    assert f"in {best} cells by AUROC" in fifth


def test_conclusions_follow_the_records_and_are_left_out_without_them() -> None:
    assert "Under the paper's protocol" not in page(Evidence({"clean": made_up("clean")}))
    accuracy = {"relabelling": 0.6, "erase": 0.7}
    records = [
        Record(cell, {"test_accuracy": accuracy[cell.method]})
        for cell in STUDIES["beyond"].cells()
        if cell.method in accuracy
    ]
    opening = page(Evidence({"beyond": records}))[:400]
    assert opening.startswith("# Results\n\n1. Use ERASE when no label is known to be clean")
    assert (
        "accuracy of relabelling is 60.0 %, that of the best other method, ERASE, 70.0 %;"
        in opening
    )


def test_the_page_says_what_the_records_were_made_on(evidence_page: str) -> None:
    assert "erase bench eps2\n" in evidence_page
    runs = len(STUDIES["clean"].cells())
    made = f"{runs} | {runs / 100:.2f} h | a machine | erase 1 torch 2"
    assert f"| `erase bench clean` | {made} |" in evidence_page


def test_a_run_that_two_studies_share_is_counted_once() -> None:
    honest = [replace(record, seconds=72.0) for record in made_up("honest", 50)]
    text = page(Evidence({"honest": honest, "beyond": [*honest[:20], *made_up("beyond", 5)]}))
    assert "| `erase bench honest` | 50 | 1.00 h |" in text
    assert "| `erase bench beyond` | 5 | 0.05 h |" in text


def test_the_inductive_study_is_on_the_page_once_it_has_records(evidence_page: str) -> None:
    title = f"### {TABLES['inductive'].title}\n"
    assert title not in evidence_page
    assert "`inductive`" not in evidence_page
    text = page(Evidence({"inductive": made_up("inductive")}))
    assert title in text
    runs = len(STUDIES["inductive"].cells())
    assert f"| `honest` | {runs} | {runs} | 0 | 0 |" in text


def test_the_page_says_which_options_led_to_a_machine() -> None:
    machines = ("NVIDIA H200, TF32 products", "NVIDIA H200", "x86_64")
    records = [
        replace(record, machine=machine)
        for record, machine in zip(made_up("paper", 3), machines, strict=True)
    ]
    text = page(Evidence({"paper": records}))
    for command, machine in zip(
        (" --device cuda --precision tf32", " --device cuda", ""), machines, strict=True
    ):
        assert f"| `erase bench paper{command}` | 1 | 0.01 h | {machine} |" in text


def test_the_page_says_what_is_missing() -> None:
    begun = [r for r in made_up("clean") if (r.cell.method, r.cell.dataset) != ("ce", "cora")]
    failed = replace(begun[0], scores={}, error="EraseError: broken")
    text = page(Evidence({"clean": [failed, *begun[1:]]}))
    runs = len(STUDIES["clean"].cells())
    counts = f"{runs} | {runs - 6} | 6 | 1"
    assert f"| `clean` | every method without any noise | `honest` | {counts} |" in text
    assert "- `clean` lacks 6 runs: erase on Cora (1); ce on Cora (5).\n" in text
    assert "| `depth` | the propagation depth T | `paper` | 900 | 0 | 900 | 0 |" in text
    assert "`depth` lacks" not in text
    none = page(Evidence({"clean": begun[:1]}))
    assert "; apl on Cora, CiteSeer, PubMed (15); " in none
    assert "every method on ogbn-arxiv: data not available here" in text
    assert "the main table on CoraFull: data not available here" in text


def test_the_glance_averages_ten_cells_and_counts_ranks(
    evidence: Evidence, evidence_page: str
) -> None:
    text = evidence_page
    # seeds 0–9 of ERASE and CE have a mean of 54.5 %, seeds 0–4 of the others 52 %
    assert "| CE | 54.50 | 64.79 | 54.50 | 54.50 |" in text
    assert "| PI-GNN | 52.00 | 68.22 | 52.00 |" in text
    assert "| label propagation | 52.00 | – | 52.00 |" in text
    assert "- Under `paper` ERASE has the highest mean of the 8 methods in 30 of 30 cells" in text
    assert "(published: 27)" in text
    assert "| Cora, asymmetric | 1 / 1 / 1 | 1 / 1 / 1 |" in text
    assert "| CiteSeer, asymmetric | 1 / 1 / 2 |" in text
    # over the five seeds that all methods have, all are equal
    assert (
        "With every method averaged over the same seeds, those that all have, it is first in 30."
        in text
    )
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
        "best rival p < 0.05 in 2 of 3 cells, and in 2 after Holm's correction "
        "for 3 tests; ERASE is ahead in 1 of these. With every method averaged over the same "
        "seeds, those that all have, it is first in 2; its rank elsewhere: Cora symmetric 0.4 (2)."
        "\n"
    ) in page(Evidence({"paper": records}))


def runs_apart(differences: Mapping[Place, Sequence[float]], first: int = 0) -> list[Record]:
    """Return runs of ERASE and CE that differ by so many points, one after the other."""
    return [
        Record(
            Cell("cora", noise, rate, method, {}, "honest", seed),
            {"test_accuracy": 0.5 + (apart / 100 if method == "erase" else 0.0)},
        )
        for (noise, rate), found in differences.items()
        for seed, apart in enumerate(found, start=first)
        for method in ("erase", "ce")
    ]


def test_the_count_of_sure_cells_is_corrected_for_their_number() -> None:
    spread = [-0.2, -0.1, 0.0, 0.1, 0.2]  # t is the mean times 14.1
    means = {0.1: 2.0, 0.2: 0.25, 0.3: 0.25, 0.4: 0.0, 0.5: -2.0}
    differences = {("symmetric", rate): [m + s for s in spread] for rate, m in means.items()}
    p = [float(ttest_1samp(found, 0).pvalue) for found in differences.values()]
    assert [value < 0.05 for value in p] == [True, True, True, False, True]
    assert [value < 0.05 / 3 for value in p] == [True, False, False, False, True]
    text = page(Evidence({"honest": runs_apart(differences)}))
    assert (
        "p < 0.05 in 4 of 5 cells, and in 2 after Holm's correction for 5 "
        "tests; ERASE is ahead in 1 of these." in text
    )


def test_the_honest_tables_are_of_one_study() -> None:
    """More draws of another study must not make a difference sure."""
    few = runs_apart({("symmetric", 0.3): [1.0, -0.5, 1.0]})
    more = runs_apart({("symmetric", 0.3): [1.0, 1.1, 0.9, 1.0, 1.2, 1.1]}, first=3)
    alone, both = (page(Evidence(found)) for found in ({"honest": few}, {"honest": [*few, *more]}))
    beside = page(Evidence({"honest": few, "beyond": more}))
    count = "p < 0.05 in {} of 1 cells, and"
    assert count.format(0) in alone
    assert count.format(1) in both
    assert count.format(0) in beside
    assert "best rival, 3 pairs*" in beside[: beside.index("## Beyond the paper")]


@pytest.mark.skipif("honest" not in COMMITTED.records, reason="no records of the main table yet")
def test_the_page_about_the_paper_has_the_counts_of_this_page() -> None:
    (standing,) = re.findall(r"- Under `honest`.*", results.PAGE.read_text(encoding="utf-8"))
    text = " ".join((results.DOCS / "paper.md").read_text(encoding="utf-8").split())
    first, alone, sure, shared = (
        re.findall(pattern, standing)[0]
        for pattern in (
            r"methods in (\d+) of 30 cells",
            r"p < 0.05 in (\d+) of 30",
            r"and in (\d+) after Holm's correction for 30 tests",
            r"it is first in (\d+);",
        )
    )
    assert f"in {first} with noise redrawn and validation noisy ({shared} where" in text
    assert (
        f"p < 0.05 in {sure} cells after Holm's correction for 30 tests, in {alone} without it"
        in text
    )


def test_ranks_over_shared_draws_leave_out_what_only_some_methods_have() -> None:
    scores = {"erase": [0.5, 0.5, 0.9], "ce": [0.6, 0.6]}
    records = [
        Record(Cell("cora", "symmetric", 0.3, method, {}, "honest", seed), {"test_accuracy": score})
        for method, found in scores.items()
        for seed, score in enumerate(found)
    ]
    text = page(Evidence({"honest": records}))
    assert "highest mean of the 2 methods in 1 of 1 cells" in text
    assert "is first in 0; its rank elsewhere: Cora symmetric 0.3 (2)." in text
    assert "| Cora, symmetric | – / 1 / 1 |" in text


def test_differences_are_listed_with_their_explanations(evidence: Evidence) -> None:
    explanations = {
        "main/cora/erase/symmetric:0.3": "A reason of this cell.",
        "main/rtgnn": "A reason of this row.",
        "eps2": "A reason of this table.",
    }
    text = page(replace(evidence, explanations=explanations))
    # our ten runs have an error of 3.03/√10, the paper's of 0.95/√10
    off = "−27.11, 27.0 standard errors"
    assert f"- **Cora symmetric 0.3**: 54.50 against 81.61, {off}. A reason of this cell.\n" in text
    assert f" standard errors. {results.NOT_EXPLAINED}\n- **Cora symmetric 0.5**" in text
    assert "| main: RT-GNN | 30 |" in text
    assert "A reason of this row. |" in text
    assert "| The tolerance ε² | 80 |" in text
    assert "average. The highest row of a column is the paper's highest in" in text
    assert "complete columns. A reason of this table.\n" in text
    assert "PubMed asymmetric 0.5" in text


@pytest.mark.slow
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
    runs = len(STUDIES["honest"].cells())
    assert f"| `honest` | {runs} | 0 | {runs} | 1 |" in text
    assert page(Evidence({"paper": made_up("paper", 20)})).endswith("## Failed cells\n\nNone.\n")


def test_the_page_says_whether_code_has_changed_since(evidence: Evidence) -> None:
    runs = made_up("pictures")
    as_now = [replace(record, code=code_of(record.cell)) for record in runs]
    other = [replace(record, code="0123456789ab") for record in runs]
    assert code_since(runs) == "made before digests"
    assert code_since(as_now) == "unchanged"
    assert code_since(other) == "changed"
    mixed = [*as_now[:3], *other[3:5], *runs[5:]]
    assert code_since(mixed) == f"changed (2), made before digests ({len(runs) - 5}), unchanged (3)"
    text = page(Evidence({"pictures": as_now}))
    assert f"| `paper` | {len(runs)} | {len(runs)} | 0 | 0 | unchanged |" in text
    assert "erase bench pictures\n" in text
    assert "erase bench pool\n" in text
    assert "erase bench arxiv\n" not in text


def test_the_page_has_both_protocols_side_by_side() -> None:
    cells = [c for c in STUDIES["pool"].cells() if c.seed < 2 and c.method in ("ce", "relabelling")]
    records = [
        Record(
            replace(cell, protocol=protocol),
            {"test_accuracy": 0.5 + 0.1 * (protocol == "pool") + 0.2 * (cell.method != "ce")},
        )
        for protocol in ("honest", "pool")
        for cell in cells
    ]
    by_study = {
        "beyond": [r for r in records if r.cell.protocol == "honest"],
        "pool": [r for r in records if r.cell.protocol == "pool"][1:],
    }
    text = page(Evidence(by_study))
    assert "| CE | 50.00 | 60.00 |" in text
    assert "| 50.00 | 60.00 | +10.00 | 24 |" in text
    assert "| 70.00 | 80.00 | +10.00 | 24 |" in text
    assert "mean test accuracy of relabelling is 80.0 %" in text  # quoted from pool
    partial = [r for r in by_study["pool"] if r.cell.method != "ce"]
    text = page(Evidence({**by_study, "pool": partial}))
    assert "mean test accuracy of relabelling is 70.0 %" in text  # a rival is missing in pool
    without = page(Evidence({"beyond": by_study["beyond"]}))
    assert "`erase bench pool` makes them." in without
    assert "mean test accuracy of relabelling is 70.0 %" in without


def files(records: Mapping[str, Sequence[Record]], folder: Path) -> None:
    for study, found in records.items():
        text = "".join(record.to_json() + "\n" for record in found)
        (folder / f"{study}.jsonl").write_text(text, encoding="utf-8")


def test_gathers_records_of_studies_explanations_and_figures(tmp_path: Path) -> None:
    files({"paper": made_up("paper", 5), "smoke": made_up("smoke", 5)}, tmp_path)
    (tmp_path / "speed.jsonl").write_text('{"measure": "another kind of record"}\n')
    (tmp_path / "figures").mkdir()
    for name in ("radar-honest.svg", "radar.svg", "gains.png", "another.svg", "notes.txt"):
        (tmp_path / "figures" / name).touch()
    (tmp_path / "why.toml").write_text('"main/erase" = "Because."\n')
    found = gather(tmp_path, tmp_path / "why.toml", tmp_path)
    assert {study: len(records) for study, records in found.records.items()} == {"paper": 5}
    assert [Path(figure).name for figure in found.figures] == [
        "radar.svg",
        "radar-honest.svg",
        "gains.png",
    ]
    assert found.speed == [{"measure": "another kind of record"}]
    assert found.profile == []
    assert found.explanations == {"main/erase": "Because."}
    text = page(found)
    assert f"(`erase figure radar`):\n\n![{FIGURES['radar'].summary}](figures/radar.svg)\n" in text
    assert "protocol honest (`erase figure radar --protocol honest`):\n" in text
    assert "another.svg" not in text


def test_the_script_writes_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "results.md"
    monkeypatch.setattr("sys.argv", ["results", "--records", str(tmp_path), "--out", str(out)])
    with pytest.raises(SystemExit, match="no records of a study"):
        results.main()
    assert not out.exists()
    files({"paper": made_up("paper", 5)}, tmp_path)
    results.main()
    assert out.read_text(encoding="utf-8").startswith("# Results\n")


@pytest.mark.slow
def test_draws_what_the_records_allow_beside_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files({study: made_up(study) for study in ("paper", "honest")}, tmp_path)
    figures = tmp_path / "docs" / "figures"
    figures.mkdir(parents=True)
    for kept in ("cosine.png", "radar.png"):
        (figures / kept).touch()
    out = tmp_path / "docs" / "results.md"
    options = ["results", "--figures", "--records", str(tmp_path), "--out", str(out)]
    monkeypatch.setattr("sys.argv", options)
    monkeypatch.setattr(results, "LARGEST_SVG", 100_000)
    results.main()
    drawn = {path.name for path in figures.iterdir()}
    assert {"cosine.png", "radar.svg", "radar-honest.svg", "guidance.png", "time.svg"} <= drawn
    assert not drawn & {"radar.png", "guidance.svg", "time-honest.svg", "depth.svg"}
    assert "](figures/guidance-honest.png)" in out.read_text(encoding="utf-8")


def test_accuracies_by_training_labels_of_a_class() -> None:
    records = [r for r in made_up("train-size") if r.cell.labels_per_class != 20]
    text = page(Evidence({"paper": made_up("paper", 20), "train-size": records}))
    section = text[text.index("### Fewer training labels") :]
    assert "**CiteSeer, symmetric 0.3**\n\n| | 4 | 8 | 12 | 16 | 20 | runs |\n" in section
    cell = "**52.00 ± 1.58**"
    assert f"| PI-GNN | {cell} | {cell} | {cell} | {cell} | – | 5 |" in section
    absent = page(Evidence({"paper": made_up("paper", 20)}))
    section = absent[absent.index("### Fewer training labels") :]
    assert "`erase bench train-size` makes them" in section[:200]


def test_a_table_says_how_often_its_highest_row_is_the_papers() -> None:
    better = {"gcn": 0.9, "sage": 0.1}
    records = [
        replace(record, scores={"test_accuracy": better[record.cell.params["encoder"]]})
        for record in made_up("backbones")
        if (record.cell.dataset, record.cell.rate) == ("cora", 0.1)
    ]
    usual = [r for r in made_up("paper") if r.cell.method == "erase"]
    text = page(Evidence({"paper": usual, "backbones": records}))
    # the paper's highest is GraphSAGE with asymmetric noise, GAT with symmetric; ours is GCN
    assert "is the paper's highest in 0 of 2 complete columns." in text
    turned = [
        replace(r, scores={"test_accuracy": 1 - better[r.cell.params["encoder"]]}) for r in records
    ]
    assert "highest in 1 of 2 complete columns." in page(
        Evidence({"paper": usual, "backbones": turned})
    )


def test_ranks_over_shared_seeds_know_no_other_settings_and_no_fewer_labels() -> None:
    usual = {"erase": 0.7, "ce": 0.6}
    cells = [Cell("cora", "symmetric", 0.3, method, {}, "paper", 0) for method in usual]
    records = [Record(cell, {"test_accuracy": usual[cell.method]}) for cell in cells]
    other = Record(replace(cells[0], params={"eps2": 0.5}), {"test_accuracy": 0.1})
    fewer = Record(replace(cells[0], labels_per_class=4), {"test_accuracy": 0.1})
    for more in ([other], [fewer]):
        assert "those that all have, it is first in 1." in page(Evidence({"paper": records + more}))


def test_figures_are_of_the_records_of_the_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files({study: made_up(study, 5) for study in ("paper", "honest", "beyond")}, tmp_path)
    sources: dict[str, set[str]] = {}

    def watched(name: str, paths: Sequence[Path], protocol: str) -> None:
        sources.setdefault(protocol, set()).update(path.stem for path in paths)
        raise EraseError("a figure", "none", "Nothing to do.")

    monkeypatch.setattr(results, "draw_figure", watched)
    assert results.draw(tmp_path, tmp_path / "figures") == []
    assert sources == {"paper": {"paper", "honest"}, "honest": {"paper", "honest"}}
    assert {"paper", "honest", "alpha", "eps2", "train-size"} < set(results.COMPARED)
    assert not {"beyond", "clean", "smoke", *results.APART} & set(results.COMPARED)


def test_tables_warn_of_stale_tf32_runs() -> None:
    stale = [
        replace(record, machine="a GPU, TF32 products")
        if record.cell.method in ("erase", "ce") and record.cell.dataset == "cora"
        else record
        for record in made_up("paper")
    ]
    warning = "Runs of ERASE here were made in TF32"
    head = page(Evidence({"paper": stale})).partition("### Test accuracy of all methods\n\n")[2]
    assert head.startswith(f"> {warning}")
    repeated = [replace(r, versions={**r.versions, "source": "0123"}) for r in stale]
    assert warning not in page(Evidence({"paper": repeated}))
    departures = [replace(r, machine="a GPU, TF32 products") for r in made_up("departures")]
    tried = page(Evidence({"departures": departures})).partition("### What was tried\n\n")[2]
    assert tried.startswith("> Runs of ERASE and MCR² here")


def test_precisions_are_shown_side_by_side() -> None:
    full = made_up("precision")
    rounded = [
        replace(r, machine="a machine, TF32 products", scores={"test_accuracy": 0.4}) for r in full
    ]
    text = page(Evidence({"precision": [*full, *rounded]}))
    # 50 to 59 %: mean 54.5, standard error √(110/12) / √10
    assert "| T = 0 | 54.50 ± 0.96 | 40.00 ± 0.00 |" in text
    assert "`erase bench precision` makes them" in page(Evidence({"precision": full}))
