"""Every figure in a sentence of README comes from a record, or is listed as no measurement."""

import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import pandas as pd
import pytest

from erase.bench.detection import DetectionSetup
from erase.bench.names import dataset_label
from erase.bench.records import read
from erase.bench.studies import CITATION_GRAPHS, RATES
from erase.bench.tables import build
from erase.bench.tables.claims import OURS
from erase.data.datasets import DATASETS

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "benchmarks" / "records"
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAPER = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
Values = Sequence[object]

pytestmark = pytest.mark.skipif(not (RECORDS / "honest.jsonl").exists(), reason="no records yet")


@cache
def cells(table: str, study: str, protocol: str) -> pd.DataFrame:
    """Return the cells of a table, filled from the records of one study."""
    return build(table, read(RECORDS / f"{study}.jsonl"), protocol).cells


def accuracies(protocol: str, row: str, column: str = "mean") -> Values:
    """Return the mean over the ten cells of each dataset of the main table, with one decimal."""
    main = cells("main", protocol, protocol)
    own = main[main["row"] == row].set_index("dataset")
    return [f"{own.loc[name, column].astype(float).mean():.1f}" for name in CITATION_GRAPHS]


def ahead_of_erase() -> Values:
    """Return the number of noisy settings without clean labels, if relabelling leads in all."""
    both = pd.concat([cells("main", "honest", "honest"), cells("beyond", "beyond", "honest")])
    both = both[both["noise"].ne("none") & both["row"].isin(["erase", "relabelling"])]
    both = both.drop_duplicates(["place_name", "row"])
    means = both.pivot(index="place_name", columns="row", values="mean").astype(float).dropna()
    assert (means["relabelling"] > means["erase"]).all()
    return [len(means)]


def false_alarms() -> Values:
    """Return the fewest and most false alarms of a graph, and how many were allowed."""
    found = cells("annotators", "annotators", "all-labels")
    own = found[(found["measure"] == "false_alarms") & (found["row"] == OURS)]
    own = own[(own["noise"] == "annotator") & (own["rate"] == 0.3)]
    assert len(own) == 6
    allowed = 100 * DetectionSetup.max_false_alarms
    return [f"{own['mean'].min():.0f}", f"{own['mean'].max():.0f}", f"{allowed:.0f}"]


@cache
def pool() -> pd.DataFrame:
    """Return the mean accuracy with the same labels for all: settings by methods."""
    found = cells("pool", "pool", "pool")
    found = found[found["measure"] == "test_accuracy"]
    return found.pivot(index=["dataset", "noise", "rate"], columns="row", values="mean").dropna(
        axis=1, how="all"
    )


def pooled_accuracies(row: str) -> Values:
    """Return the mean over the six settings of each citation graph, with one decimal."""
    own = pool()[row].astype(float)
    assert all(len(own[name]) == 6 for name in CITATION_GRAPHS)
    return [f"{own[name].mean():.1f}" for name in CITATION_GRAPHS]


def pooled_lead() -> Values:
    """Return rivals, settings in which relabelling leads, all settings, rate and lost points."""
    rivals = pool().drop(columns="relabelling").astype(float)
    lead = pool()["relabelling"].astype(float) - rivals.max(axis=1)
    lost = lead[lead < 0]
    assert list(lost.index) == [("cs", "symmetric", 0.3), ("pubmed", "symmetric", 0.3)]
    behind = [f"{-points:.1f}" for points in lost.iloc[::-1]]
    assert rivals.shape[1] == 11
    return [(lead > 0).sum(), len(lead), 30, *behind]


def settings_of_the_main_table() -> Values:
    rates = [f"{100 * rate:.0f}" for rate in (min(RATES), max(RATES))]
    assert 2 * len(RATES) == 10
    return rates


def validation_labels() -> Values:
    (count,) = {DATASETS[name].split.split(" / ")[1] for name in CITATION_GRAPHS}
    return [count]


# fragment of a sentence → what its blanks have to be
CLAIMS: dict[str, Callable[[], Values]] = {
    "ahead of ERASE in all {} noisy settings without clean labels": ahead_of_erase,
    "over ten settings (symmetric and asymmetric noise, {} to {} %)": settings_of_the_main_table,
    "{} clean validation labels, one noise draw": validation_labels,
    "| ERASE, published | {} | {} | {} | | ERASE, ours | {} | {} | {} |": (
        lambda: [*accuracies("paper", "erase", "published"), *accuracies("paper", "erase")]
    ),
    "cross-entropy | {} | {} | {} | | ERASE | {} | {} | {} | | relabelling | {} | {} | {}": (
        lambda: [v for row in ("ce", "erase", "relabelling") for v in pooled_accuracies(row)]
    ),
    "ahead of eleven rivals in {} of {} settings; with {} % symmetric noise it is {} points behind "
    "on PubMed and {} on CS": pooled_lead,
    "follow features, {} to {} % of its flags were false alarms, where {} % were allowed": (
        false_alarms
    ),
}
# numbers that nobody measured: versions, settings, a property of the noise
NOT_MEASURED = (
    "Python ≥ 3.11",
    "-1, empty or NaN",
    "With asymmetric noise of 50 %, a class and the one it flips into are hardly separable",
)


def sentences(page: str) -> str:
    """Return a page without its code, links, names of papers and line breaks."""
    text = re.sub(r"```.*?```|`[^`]*`", "", page, flags=re.DOTALL)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return " ".join(re.sub(r"(et al\.|Sabuncu) \d{4}", "", text).split())


def shown(fragment: str) -> str:
    return fragment.format(*CLAIMS[fragment]())


@pytest.mark.parametrize("fragment", CLAIMS)
def test_what_readme_claims_is_what_the_records_give(fragment: str) -> None:
    assert shown(fragment) in sentences(README)


def test_every_figure_of_readme_is_claimed_or_no_measurement() -> None:
    text = sentences(README)
    for known in [*map(shown, CLAIMS), *NOT_MEASURED]:
        assert known in text
        text = text.replace(known, "")
    left = re.findall(r"[^.|]{0,40}\d[^.|]{0,40}", re.sub(r"\w*[A-Za-z²]\d+\w*", "", text))
    assert not left, "figures without a record: add them to CLAIMS"


def test_the_page_about_the_paper_has_the_same_accuracies() -> None:
    rows = [accuracies("paper", "erase", "published")]
    rows += [accuracies(protocol, "erase") for protocol in ("paper", "honest")]
    for name, *figures in zip(map(dataset_label, CITATION_GRAPHS), *rows, strict=True):
        assert f"| {name} | {' | '.join(map(str, figures))} |" in PAPER
