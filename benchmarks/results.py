"""Write docs/results.md from the records in benchmarks/records: every table, and what they rest on.

    python benchmarks/results.py [--records DIR] [--out FILE]

The same records give the same page, byte for byte.
"""

import argparse
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean

from erase.bench.figures import FIGURES
from erase.bench.names import METHOD_NAMES, dataset_name
from erase.bench.records import Record, read
from erase.bench.studies import STUDIES
from erase.bench.tables import CLOSE, TABLES, Table, build
from erase.bench.tables.numbers import fixed, signed, span
from erase.bench.tables.render import NOTHING, markdown
from erase.bench.tables.table import Entry, Spot, is_far
from erase.errors import EraseError
from erase.io import atomic_write

HERE = Path(__file__).parent
RECORDS = HERE / "records"
EXPLANATIONS = HERE / "explanations.toml"
DOCS = HERE.parent / "docs"
PAGE = DOCS / "results.md"

DATASETS = ("cora", "citeseer", "pubmed")
PAPER_TABLES = tuple(name for name in TABLES if name not in ("clean", "detection", "smoke"))
HONEST_TABLES = ("main", "correction", "guidance")

INTRODUCTION = """\
# Results

Made by `make results` from the records in `benchmarks/records`; edit neither by hand.

The paper's evaluation, rerun: ERASE, the seven methods it is compared with, and three sanity rows
that nobody proposed (a GCN with cross-entropy, label propagation without any training, and logistic
regression on smoothed features), all on the same graphs, splits and wrong labels. Every table shows
our mean over the runs with the paper's figure beside it. The main comparison is made under two
protocols, because the published figures rest on one draw of the noise and on clean validation
labels, which nobody has whose labels are wrong. Whether two methods differ is judged by a paired
test over runs with equal seeds."""

PROTOCOL_WORDS = {
    "paper": """\
One draw of the noise serves all runs of a cell, the one behind the published figures; only the seed
of the initial weights and of dropout changes. Training labels are noisy, the validation labels that
choose the epoch are clean; the row of smoothed features, which has no epochs, trains on them too.
Standard deviations are over seeds, and say nothing about other draws.""",
    "honest": """\
The noise is drawn anew for every run, and corrupts validation labels as it does training labels.
All methods get the same draws, so that runs of equal seed are pairs. The published figures stand
beside ours for orientation only.""",
}
HOW_TO = """\
`ERASE_DATA` names the folder with the raw files; without it they are downloaded. Every study can be
killed and continued by the same command. On a GPU runs are trained together; on many cores add
`--jobs`, on a Dask cluster `--cluster ADDRESS`."""
NOT_EXPLAINED = "*Not explained yet.*"


@dataclass(frozen=True)
class Evidence:
    """What the page is made of.

    Attributes:
        records: by study.
        explanations: by cell, row or table.
        figures: files to show, relative to the page.
    """

    records: Mapping[str, Sequence[Record]]
    explanations: Mapping[str, str] = field(default_factory=dict)
    figures: Sequence[str] = ()

    def all(self) -> list[Record]:
        """Return the records of all studies."""
        return [record for records in self.records.values() for record in records]


def gather(
    records: Path = RECORDS, explanations: Path = EXPLANATIONS, docs: Path = DOCS
) -> Evidence:
    """Return what is there: ``STUDY.jsonl`` for each study, explanations, drawn figures."""
    found = {study: records / f"{study}.jsonl" for study in STUDIES if study != "smoke"}
    drawn = (docs / "figures").glob("*.svg")
    return Evidence(
        {study: read(path) for study, path in found.items() if path.exists()},
        tomllib.loads(explanations.read_text(encoding="utf-8")) if explanations.exists() else {},
        [str(path.relative_to(docs)) for path in sorted(drawn, key=_place_of_figure)],
    )


def _place_of_figure(path: Path) -> tuple[int, str]:
    """Return where a figure stands: in the order of `FIGURES`, then by name."""
    order = list(FIGURES)
    return order.index(path.stem) if path.stem in order else len(order), path.name


def page(evidence: Evidence) -> str:
    """Return the page."""
    records = evidence.all()
    tables = {
        (protocol, name): _build(name, records, protocol)
        for protocol, names in {"paper": PAPER_TABLES, "honest": HONEST_TABLES}.items()
        for name in names
    }
    parts = [
        INTRODUCTION,
        _glance(tables["paper", "main"], tables["honest", "main"]),
        _reproduce(evidence.records),
    ]
    for protocol, words in PROTOCOL_WORDS.items():
        parts += [f"## Protocol `{protocol}`", words]
        parts += [_section(n, table) for (p, n), table in tables.items() if p == protocol]
    parts += ["## Without noise", _section("clean", _build("clean", records, "honest"))]
    found = _build("detection", records, "honest")
    parts += ["## Finding wrong labels", _section("detection", found)]
    if evidence.figures:
        parts += ["## Figures", *map(_shown, evidence.figures)]
    paper = [table for (protocol, _), table in tables.items() if protocol == "paper" and table]
    parts += [_differences(paper, evidence.explanations), _failures(records)]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _shown(figure: str) -> str:
    """Return a figure with what it shows and the command that draws it."""
    name = Path(figure).stem
    what = FIGURES[name].summary if name in FIGURES else name
    made = f" (`erase figure {name}`)" if name in FIGURES else ""
    return f"{what[0].upper()}{what[1:]}{made}:\n\n![{what}]({figure})"


def _build(name: str, records: Iterable[Record], protocol: str) -> Table | None:
    try:
        return build(name, records, protocol)
    except EraseError:  # no record belongs there
        return None


def _section(name: str, table: Table | None) -> str:
    if table is not None:
        return markdown(table, level=3)
    study = TABLES[name].study
    why = "Data not available here" if study == "arxiv" else "No records here"
    return f"### {TABLES[name].title}\n\n{why}; `erase bench {study}` makes them.\n"


def _glance(paper: Table | None, honest: Table | None) -> str:
    """Return the mean over the ten cells of each dataset, and how often ERASE is first."""
    rows = []
    for method, label in METHOD_NAMES.items():
        cells = []
        for dataset in DATASETS:
            ours = _ten_cells(paper, method, dataset)
            redrawn = _ten_cells(honest, method, dataset)
            cells += [
                _average(entry.mean for entry in ours),
                _average(entry.published.mean for entry in ours if entry.published),
                _average(entry.mean for entry in redrawn),
            ]
        rows.append([label, *cells])
    kinds = ("`paper`", "published", "`honest`")
    head = [f"{dataset_name(dataset)} {kind}" for dataset in DATASETS for kind in kinds]
    standings = [_standing(table) for table in (paper, honest) if table and _ranked(table)]
    return "\n\n".join(
        [
            "## At a glance",
            "Mean test accuracy in % over the ten cells of a dataset:",
            _grid(["", *head], rows),
            *(["\n".join(standings)] if standings else []),
        ]
    )


def _ten_cells(table: Table | None, method: str, dataset: str) -> list[Entry]:
    if table is None:
        return []
    keys = (method, dataset)
    return [s.entry for s in table.spots() if (s.row.key, s.place.dataset) == keys]


def _average(values: Iterable[float | None]) -> str:
    """Return the mean of ten values; a part of them would be another average."""
    known = [value for value in values if value is not None]
    return fixed(mean(known), 2) if len(known) == 10 else NOTHING


def _ranked(table: Table) -> list[Entry]:
    return [spot.entry for spot in table.spots() if spot.entry.rank]


def _standing(table: Table) -> str:
    entries = _ranked(table)
    ranks = [entry.rank for entry in entries if entry.rank]
    contests = [entry.contest for entry in entries if entry.contest]
    sure = [c for c in contests if c.p_value is not None and c.p_value < 0.05]
    ahead = sum(c.difference > 0 for c in sure)
    first = sum(rank.ours == 1 for rank in ranks)
    printed = sum(rank.published == 1 for rank in ranks)
    return (
        f"- Under `{table.protocol}` ERASE has the highest mean of the {span(r.of for r in ranks)} "
        f"methods in {first} of {len(ranks)} cells (published: {printed}). Against its best rival "
        f"p < 0.05 in {len(sure)} of {len(contests)} cells; ERASE is ahead in {ahead} of them."
    )


def _reproduce(records: Mapping[str, Sequence[Record]]) -> str:
    commands = [f"erase bench {study}" for study in records]
    commands += ["python benchmarks/results.py --records out --out out/results.md  # this page"]
    rows = []
    for study, found in records.items():
        failed = sum(record.error is not None for record in found)
        hours = sum(record.seconds or 0 for record in found) / 3600
        machines = sorted({record.machine for record in found})
        versions = sorted({" ".join(map(" ".join, r.versions.items())) for r in found})
        numbers = [f"{len(found)}", f"{failed}", f"{hours:.2f} h"]
        rows.append([f"`{study}`", *numbers, ", ".join(machines), "; ".join(versions)])
    return "\n\n".join(
        [
            "## Reproduce",
            HOW_TO,
            "\n".join(["```console", *commands, "```"]),
            "What the records of this page were made on:",
            _grid(["study", "cells", "failed", "training", "machine", "versions"], rows, words=2),
        ]
    )


def _differences(tables: Sequence[Table], explanations: Mapping[str, str]) -> str:
    """Return where we are further than `CLOSE` from the paper, and why as far as we know."""
    spots = [(table, spot) for table in tables for spot in table.spots()]
    known = {_group(table, spot) for table, spot in spots}
    known |= {_cell(spot) for table, spot in spots if _group(table, spot) == "main/erase"}
    built = {table.name for table in tables}
    if unknown := sorted(k for k in set(explanations) - known if k.partition("/")[0] in built):
        raise EraseError(
            "keys that name a cell of ERASE, a row of main or a table in explanations.toml",
            unknown[0],
            "Correct or remove it.",
        )
    groups: dict[str, list[Spot]] = {}
    labels: dict[str, str] = {}
    for table in tables:
        for spot in table.compared():
            if spot.panel.measure.unit == "%":
                key = _group(table, spot)
                groups.setdefault(key, []).append(spot)
                labels[key] = f"main: {spot.row.label}" if table.name == "main" else table.title
    rows = [
        [labels[key], *_distance(spots), explanations.get(key, "")] for key, spots in groups.items()
    ]
    ours = groups.get("main/erase", [])
    far = [spot for spot in ours if is_far(spot, CLOSE)]
    return "\n\n".join(
        [
            "## Differences from the paper",
            f"ERASE in the main table: {len(ours) - len(far)} of {len(ours)} cells are within "
            f"{CLOSE} points of the published mean{'; the others:' if far else '.'}",
            *(["\n".join(_explained(spot, explanations) for spot in far)] if far else []),
            f"All accuracies, by method and by table; within {CLOSE} points, and ours minus the "
            "paper's:",
            _grid(["", "cells", "within", "mean", "largest", "why"], rows, words=2),
        ]
    )


def _distance(spots: Sequence[Spot]) -> list[str]:
    """Return how many cells there are, how many are close, the mean and the largest difference."""
    apart = [spot.entry.difference or 0.0 for spot in spots]
    near = sum(not is_far(spot, CLOSE) for spot in spots)
    worst, most = max(zip(spots, apart, strict=True), key=lambda pair: abs(pair[1]))
    largest = f"{signed(most, 2)} ({worst.row.label}, {worst.place})"
    return [f"{len(spots)}", f"{near}", signed(mean(apart), 2), largest]


def _explained(spot: Spot, explanations: Mapping[str, str]) -> str:
    entry = spot.entry
    assert entry.mean is not None
    assert entry.published is not None
    why = explanations.get(_cell(spot), NOT_EXPLAINED)
    return (
        f"- **{spot.place}**: {fixed(entry.mean, 2)} against {fixed(entry.published.mean, 2)}, "
        f"{signed(entry.mean - entry.published.mean, 2)}. {why}"
    )


def _group(table: Table, spot: Spot) -> str:
    """Return the line of the summary that a difference belongs to."""
    return f"main/{spot.row.key}" if table.name == "main" else table.name


def _cell(spot: Spot) -> str:
    return f"main/{spot.place.dataset}/{spot.row.key}/{spot.place.key}"


def _failures(records: Sequence[Record]) -> str:
    failed = [record for record in records if record.error is not None]
    lines = [f"- {record.cell}: {record.error}" for record in failed]
    return "## Failed cells\n\n" + ("\n".join(lines) or "None.")


def _grid(head: Sequence[str], rows: Sequence[Sequence[str]], words: int = 0) -> str:
    """Return a Markdown table: the first and the last `words` columns are text, others numbers."""
    numbers = len(head) - 1 - words
    rule = ["---", *(["---:"] * numbers), *(["---"] * words)]
    lines = [f"| {' | '.join(row)} |" for row in (head, rule, *rows)]
    return "\n".join(lines).replace("|  |", "| |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--records", type=Path, default=RECORDS)
    parser.add_argument("--out", type=Path, default=PAGE)
    options = parser.parse_args()
    evidence = gather(options.records)
    if not evidence.records:
        raise SystemExit(f"no records of a study in {options.records}")
    with atomic_write(options.out, "w") as file:
        file.write(page(evidence))
    print(f"Wrote {options.out}.")


if __name__ == "__main__":
    main()
