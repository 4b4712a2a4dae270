"""Write docs/results.md from the records in benchmarks/records: every table, and what they rest on.

    python benchmarks/results.py [--figures] [--records DIR] [--out FILE]

The same records give the same page, byte for byte. `--figures` first draws into `figures` beside
the page what the records allow; those of representations need the arrays that `erase bench
pictures` keeps.
"""

import argparse
import io
import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

import pandas as pd
from matplotlib.figure import Figure
from PIL import Image

from causes import STUDY as OTHER_SETTINGS
from causes import causes_section
from erase.audit.report.drawing import picture_bytes
from erase.bench.correction import CORRECTED_BY
from erase.bench.detection import AUDIT, MODEL, DetectionSetup
from erase.bench.figures import FIGURES, draw_figure
from erase.bench.frame import Runs, Wanted, find_runs, finished, run_frame
from erase.bench.names import METHOD_NAMES, PAPER_METHODS, dataset_label
from erase.bench.published import published
from erase.bench.records import Record, read
from erase.bench.studies import ALL, CITATION_GRAPHS, NEAREST_TO_PRINT, RATES, STUDIES
from erase.bench.tables import CLOSE, TABLES, Table, build, holm
from erase.bench.tables.build import is_far
from erase.bench.tables.claims import NEAR, Lead, relabelling_lead, times_best, times_near
from erase.bench.tables.numbers import fixed, signed, span
from erase.bench.tables.render import NOTHING, markdown
from erase.data.files import atomic_write
from erase.errors import EraseError
from grids import grid
from ledger import commands, gaps, is_stale, runs_made, stale_note, studies_of_the_page
from pace import read_lines, speed_section
from pooled import side_by_side
from reach import PICTURE, growth_picture, scale_section

HERE = Path(__file__).parent
RECORDS = HERE / "records"
EXPLANATIONS = HERE / "explanations.toml"
DOCS = HERE.parent / "docs"
PAGE = DOCS / "results.md"
LARGEST_SVG = 150_000  # bytes; what is larger becomes a PNG

BEYOND_TABLES = ("beyond", "parts", "relabelled", "heterophily")
REVIEW_TABLES = ("review", "review-errors", "review-promises")
ALL_LABELS_TABLES = ("annotators", "witnesses", "featureless")
OTHER_TABLES = (
    "clean",
    "confirmation",
    "corrected",
    "detection",
    "inductive",
    "annotators-split",
    "noises",
    "own",
    "pool",
    "smoke",
    *ALL_LABELS_TABLES,
    *BEYOND_TABLES,
    *REVIEW_TABLES,
)
PAPER_TABLES = tuple(name for name in TABLES if name not in OTHER_TABLES)
HONEST_TABLES = ("main", "correction", "metrics", "guidance")

TITLE = "# Results"
INTRODUCTION = """\
`make results` makes this page from the records in `benchmarks/records`; edit neither by hand.

The page repeats the paper's evaluation with ERASE and the seven methods it is compared with. It
adds three baselines (a GCN with cross-entropy, label propagation, and logistic regression on
smoothed features), two further rivals (NRGNN and PTA) and relabelling, the default model of
`erase audit`. All methods get the same graphs, splits and wrong labels. Tables show our mean over
the runs and, in brackets, the paper's.
Protocol `paper` has one draw of the noise and clean validation labels, as the published figures do.
Protocol `honest` redraws the noise for every run and corrupts validation labels too, because
clean validation labels are rarely available in practice. Methods are compared by paired t-tests
over runs with equal seeds. RT-GNN and Co-Dis have the settings that come nearest to their published
figures (`NEAREST_TO_PRINT` in `bench/studies.py`); all others have the paper's. Rows "printed
settings" are earlier runs of these two with the paper's settings, shown for reference."""

PROTOCOL_WORDS = {
    "paper": """\
All runs of a cell share one draw of the noise, the published one; only the seed of the initial
weights and of dropout changes. Training labels are noisy. The validation labels that select the
epoch are clean. Smoothed features and relabelling have no epochs and train on the validation labels
too; with several times as many labels, they are not ranked here. Co-Dis gets the true noise rate.
Standard deviations are over seeds and do not cover other draws. Runs of two methods with one seed
share only the wrong labels. On a GPU a run also depends on the runs trained together with it; the
list above names the machines. p-values in the tables are not corrected for the number of cells, the
counts at the top are; neither is corrected for the choice of the rival.""",
    "honest": """\
The noise is redrawn for every run and corrupts training and validation labels alike. All methods
get the same draws, so runs with equal seeds are pairs. The study has ten draws for every method;
the column of runs says how many are here. Where methods differ in that, ranks compare means over
different draws; tests use the draws that both methods have. Smoothed features and relabelling train
on the validation labels too, which are several times as many. Co-Dis gets the true noise rate. The
published figures are shown for orientation only. All runs belong to study `honest`. p-values in the
tables are not corrected for the number of cells, the counts at the top are; neither is corrected
for the choice of the rival.""",
}
HOW_TO = """\
`ERASE_DATA` names the folder with the raw files; without it they are downloaded. The same command
continues a study that was interrupted. On a GPU, runs are trained together; on many cores add
`--jobs`, on a Dask cluster `--cluster ADDRESS`. `--renew` runs cells again whose code has changed,
and `--out benchmarks/records/STUDY.jsonl` adds to the records of this page. The last table of this
section lists the commands, options and machines behind the records."""
CODE_WORDS = """\
Runs that the studies consist of, and those that are on this page. The last column says whether the
code that the runs depend on has changed since: a record carries a digest of its method, dataset,
noise and scoring with all that they import, comments and formatting left out."""
PRECISION_WORDS = """\
ERASE on Cora, half of the labels wrong in one direction, published draw, mean ± standard error over
ten seeds. `--precision tf32` lets a GPU round the factors of the encoder's forward products; Gram
matrices, cosines, solves, the classifier and all gradients stay in float32."""
FLAGS_BEFORE = """\
Some audits predate the present rules ({}): a label is not flagged if its class is the most probable
one, nothing is flagged if the models predict the given labels no better than chance, and the
prediction by the graph is combined with that of the model."""
NOT_EXPLAINED = "*Not explained yet.*"
ALL_LABELS = "all-labels"  # the protocol of audits and reviews of whole graphs
OTHER_DRAWS, PRECISION, PICTURES, REVIEW = "confirmation", "precision", "pictures", "review"
# studies whose runs must not mix with others'
APART = (OTHER_DRAWS, PRECISION, OTHER_SETTINGS, PICTURES)
# what the paper's tables and figures are made from: its own protocol, and one study of the other
COMPARED = tuple(
    name
    for name, study in STUDIES.items()
    if name not in APART
    and (name == "honest" or {cell.protocol for cell in study.cells()} == {"paper"})
)
OTHER_PICTURES = {PICTURE: "time and memory of an epoch by the size of the graph"}


@dataclass(frozen=True)
class Evidence:
    """What the page is made of.

    Attributes:
        records: by study.
        explanations: by cell, row or table.
        figures: files to show, relative to the page.
        speed: lines of speed.jsonl.
        profile: lines of profile.jsonl.
        scale: lines of scale.jsonl.
        epochs: lines of epochs.jsonl.
    """

    records: Mapping[str, Sequence[Record]]
    explanations: Mapping[str, str] = field(default_factory=dict)
    figures: Sequence[str] = ()
    speed: Sequence[Mapping[str, Any]] = ()
    profile: Sequence[Mapping[str, Any]] = ()
    scale: Sequence[Mapping[str, Any]] = ()
    epochs: Sequence[Mapping[str, Any]] = ()

    def all(self) -> list[Record]:
        """Return the records of all studies except those kept apart from the others."""
        return self.of(name for name in self.records if name not in APART)

    def of(self, studies: Iterable[str]) -> list[Record]:
        """Return the records of some studies."""
        return [record for study in studies for record in self.records.get(study, ())]


def gather(
    records: Path = RECORDS, explanations: Path = EXPLANATIONS, docs: Path = DOCS
) -> Evidence:
    """Return what is there: ``STUDY.jsonl`` for each study, explanations, drawn figures."""
    found = {study: records / f"{study}.jsonl" for study in STUDIES if study != "smoke"}
    drawn = [
        path
        for path in (docs / "figures").glob("*.*")
        if path.suffix in (".svg", ".png")
        and _name_and_protocol(path)[0] in {*FIGURES, *OTHER_PICTURES}
    ]
    by_study = {study: read(path) for study, path in found.items() if path.exists()}
    if (in_tf32 := records / f"{PRECISION}-tf32.jsonl").exists():  # the same cells once more
        by_study[PRECISION] = [*by_study.get(PRECISION, ()), *read(in_tf32)]
    return Evidence(
        by_study,
        tomllib.loads(explanations.read_text(encoding="utf-8")) if explanations.exists() else {},
        [str(path.relative_to(docs)) for path in sorted(drawn, key=_place_of_figure)],
        read_lines(records / "speed.jsonl"),
        read_lines(records / "profile.jsonl"),
        read_lines(records / "scale.jsonl"),
        read_lines(records / "epochs.jsonl"),
    )


def _place_of_figure(path: Path) -> tuple[int, str]:
    """Return where a figure stands: in the order of `FIGURES`, then by name."""
    order = list(FIGURES)
    name, _ = _name_and_protocol(path)
    return order.index(name) if name in order else len(order), path.stem


def _name_and_protocol(path: Path) -> tuple[str, str]:
    """Return what a file shows: ``radar-honest.svg`` is "radar" under protocol "honest"."""
    name = path.stem.removesuffix("-honest")
    return name, "honest" if name != path.stem else "paper"


def draw(records: Path, folder: Path) -> list[Path]:
    """Draw every figure that the records allow, and return the files; others stay as they are."""
    files = sorted(path for study in STUDIES if (path := records / f"{study}.jsonl").exists())
    folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    for name, picture in FIGURES.items():
        redrawn = picture.study == "paper" and not picture.any_protocol
        studies = (picture.study,) if picture.study in (PICTURES, REVIEW) else COMPARED
        sources = [path for path in files if path.stem in studies]
        for protocol in ("paper", "honest") if redrawn else ("paper",):
            try:
                figure = draw_figure(name, sources, protocol)
            except EraseError:  # nothing to draw it from
                continue
            stem = name if protocol == "paper" else f"{name}-{protocol}"
            drawn.append(_save_small(figure, folder / stem))
    if (grown := growth_picture(read_lines(records / "scale.jsonl"))) is not None:
        drawn.append(_save_small(grown, folder / PICTURE))
    return drawn


def _save_small(figure: Figure, path: Path) -> Path:
    """Write a figure as SVG, or as PNG where that is too large, in the place of the other."""
    content = picture_bytes(figure, "svg")
    kind, other = ".svg", ".png"
    if len(content) > LARGEST_SVG:
        content, kind, other = _few_colours(picture_bytes(figure, "png")), other, kind
    path.with_suffix(other).unlink(missing_ok=True)
    with atomic_write(path.with_suffix(kind), "wb") as file:
        file.write(content)
    return path.with_suffix(kind)


def _few_colours(png: bytes) -> bytes:
    """Return a picture in 256 colours, which is a third of the size and looks the same."""
    smaller = io.BytesIO()
    Image.open(io.BytesIO(png)).convert("RGB").quantize(256).save(smaller, "PNG", optimize=True)
    return smaller.getvalue()


def page(evidence: Evidence) -> str:
    """Return the page."""
    records, compared = evidence.all(), evidence.of(COMPARED)
    runs, compared_runs = _runs(records), _runs(compared)
    tables = {
        (protocol, name): _build(name, compared_runs, protocol)
        for protocol, names in {"paper": PAPER_TABLES, "honest": HONEST_TABLES}.items()
        for name in names
    }
    parts = [
        _glance(tables["paper", "main"], tables["honest", "main"], compared_runs),
        _reproduce(evidence.records),
    ]
    for protocol, words in PROTOCOL_WORDS.items():
        parts += [f"## Protocol `{protocol}`", words]
        for (of, name), table in tables.items():
            if of == protocol:
                parts += [
                    _section(name, table, compared_runs, protocol),
                    _beside_the_paper(name, table, evidence),
                ]
        if protocol == "paper":
            parts.append(_precision(evidence.records.get(PRECISION, ())))
    parts += ["## Without noise", _section("clean", _build("clean", runs, "honest"), runs)]
    parts.append("## Beyond the paper")
    beyond = {name: _build(name, runs, "honest") for name in BEYOND_TABLES}
    parts += [_section(name, table, runs) for name, table in beyond.items()]
    if "noises" in evidence.records:
        parts.append(_section("noises", _build("noises", runs, "honest"), runs))
    pool = _build("pool", runs, "pool")
    parts += [_section("pool", pool, runs, "pool"), side_by_side(beyond["beyond"], pool)]
    others = _runs(evidence.records.get(OTHER_DRAWS, ()))
    confirmation = _build(OTHER_DRAWS, others, "honest")
    parts.append(_section(OTHER_DRAWS, confirmation, others))
    if (inductive := _build("inductive", runs, "honest")) is not None:
        parts.append(_section("inductive", inductive, runs))
    found = _build("detection", runs, "honest")
    before = _flags_before(evidence.of(["detection", "corrected"]))
    parts += ["## Finding wrong labels", before, _section("detection", found, runs)]
    for name in (*ALL_LABELS_TABLES, "annotators-split"):
        if own := evidence.of([TABLES[name].study]):
            shown, its = _runs(own), TABLES[name].only_protocol or ALL_LABELS
            parts.append(_section(name, _build(name, shown, its), shown, its))
    parts.append(_section("corrected", _build("corrected", runs, "honest"), runs))
    reviews = {name: _build(name, runs, ALL_LABELS) for name in REVIEW_TABLES}
    if any(reviews.values()):
        parts.append("## Labels reviewed by a person")
        parts += [_section(name, table, runs, ALL_LABELS) for name, table in reviews.items()]
    if evidence.speed or evidence.profile:
        parts += [speed_section(evidence.speed, evidence.profile)]
    parts += [scale_section(evidence.scale)]
    if evidence.figures:
        parts += ["## Figures", *map(_shown, evidence.figures)]
    paper = [table for (protocol, _), table in tables.items() if protocol == "paper" and table]
    parts.append(_differences(paper, evidence.explanations))
    parts += [causes_section(evidence.records, evidence.epochs), _failures(records)]
    text = "\n\n".join(part.strip() for part in parts if part) + "\n"
    conclusions = _conclusions(
        {
            "paper": tables["paper", "main"],
            "honest": tables["honest", "main"],
            "beyond": pool if _has_all_methods(pool, beyond["beyond"]) else beyond["beyond"],
            "confirmation": confirmation,
            "detection": found,
        }
    )
    opening = [TITLE, conclusions, INTRODUCTION, _contents(text), text]
    return "\n\n".join(part for part in opening if part)


def _flags_before(records: Sequence[Record]) -> str:
    """Return which audits of these records were made before records had digests."""
    old = [record.cell for record in records if not record.code]
    models = dict.fromkeys(cell.params[MODEL] for cell in old if cell.method == AUDIT)
    which = [f"{METHOD_NAMES[name]} model" for name in models]
    which += ["corrected labels"] if any(CORRECTED_BY in cell.params for cell in old) else []
    return FLAGS_BEFORE.format(", ".join(which)) if which else ""


def _has_all_methods(pool: Table | None, beyond: Table | None) -> bool:
    """Return whether protocol `pool` has every method of "beyond": a lead over some says little."""
    if pool is None:
        return False
    return beyond is None or _methods(beyond) <= _methods(pool)


def _methods(table: Table) -> set[str]:
    """Return the methods of a table that have runs, with whatever settings."""
    rows = table.cells.loc[table.cells["mean"].notna(), "row"]
    return {row.split(":")[0] for row in rows}


def _contents(text: str) -> str:
    """Return a list of the page's sections, with links as GitHub names them."""
    titles = [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")]
    return "\n".join(f"- [{t}](#{t.replace('`', '').lower().replace(' ', '-')})" for t in titles)


def _shown(figure: str) -> str:
    """Return a figure with what it shows and the command that draws it."""
    name, protocol = _name_and_protocol(Path(figure))
    what = FIGURES[name].summary if name in FIGURES else OTHER_PICTURES[name]
    what += "" if protocol == "paper" else f", protocol {protocol}"
    option = "" if protocol == "paper" else f" --protocol {protocol}"
    made = f" (`erase figure {name}{option}`)" if name in FIGURES else ""
    return f"{what[0].upper()}{what[1:]}{made}:\n\n![{what}]({figure})"


def _build(name: str, records: Iterable[Record] | pd.DataFrame, protocol: str) -> Table | None:
    try:
        return build(name, records, protocol)
    except EraseError:  # no record belongs there
        return None


def _runs(records: Sequence[Record]) -> pd.DataFrame:
    """Return the runs as a frame, with whether each is stale."""
    return run_frame(records).assign(is_stale=[is_stale(record) for record in records])


def _section(name: str, table: Table | None, runs: pd.DataFrame, protocol: str = "honest") -> str:
    if table is not None:
        title, _, rest = markdown(table, level=3).partition("\n")
        return f"{title}\n{_stale_rows(name, table, protocol, runs)}{rest}"
    study = TABLES[name].study
    if study == "arxiv":
        return f"### {TABLES[name].title}\n\n{_printed_only(name)}\n"
    return f"### {TABLES[name].title}\n\nNo records here; `erase bench {study}` makes them.\n"


def _stale_rows(name: str, table: Table, protocol: str, runs: pd.DataFrame) -> str:
    """Return a warning if the table would differ without its stale runs, see `is_stale`."""
    changed = []
    of_table = runs["dataset"].isin(table.cells["dataset"])
    if table.protocol is not None:
        of_table &= runs["protocol"] == table.protocol
    for method in ("erase", "mcr2"):
        stale = of_table & runs["is_stale"].astype(bool) & (runs["method"] == method)
        if stale.any() and _build(name, runs[of_table & ~stale], protocol) != table:
            changed.append(METHOD_NAMES[method])
    return f"\n{stale_note(changed)}\n" if changed else ""


def _printed_only(name: str) -> str:
    """Return the paper's figures of a table for which there is no data here."""
    (rows,) = published()[name].values.values()
    places = list(dict.fromkeys(place for figures in rows.values() for place in figures))
    shown = [
        [METHOD_NAMES[row], *(f"– ({fixed(figures[p].mean, 2)})" for p in places)]
        for row, figures in rows.items()
    ]
    head = ["data not available here", *(place.replace(":", " ") for place in places)]
    words = f"In brackets the paper's figures; `erase bench {TABLES[name].study}` makes ours."
    return f"{words}\n\n{grid(head, shown, numbers=range(1, len(head)))}"


def _beside_the_paper(name: str, table: Table | None, evidence: Evidence) -> str:
    """Return how a table compares with the paper's: counts, and a sentence where there is one."""
    if table is None or name == "main" or not table.is_comparable:
        return ""
    cells = _compared(table)
    words = [_agreement(cells, table)] if len(cells) else []
    words += [evidence.explanations[name]] if name in evidence.explanations else []
    return f"*Beside the paper.* {' '.join(words)}" if words else ""


def _compared(table: Table) -> pd.DataFrame:
    """Return the cells in % that have a published figure beside ours."""
    cells = table.cells
    return cells[(cells["unit"] == "%") & cells["difference"].notna()]


def _agreement(cells: pd.DataFrame, table: Table) -> str:
    near = (~is_far(cells)).sum()
    columns = _columns(table)
    same = sum(_best_row(column, "mean") == _best_row(column, "published") for column in columns)
    text = (
        f"{near} of {len(cells)} figures are within {CLOSE} points of the paper's; ours minus the "
        f"paper's is {signed(mean(cells['difference']), 2)} on average."
    )
    if columns:
        text += (
            f" The highest row of a column is the paper's highest in {same} of {len(columns)} "
            "complete columns."
        )
    return text


def _columns(table: Table) -> list[pd.DataFrame]:
    """Return the columns in which every row that the paper prints has a mean of ours."""
    cells = table.cells
    printed = cells[(cells["unit"] == "%") & cells["published"].notna()]
    columns = [column for _, column in printed.groupby("place_name", sort=False)]
    return [column for column in columns if column["mean"].notna().all()]


def _best_row(column: pd.DataFrame, of: str) -> str:
    return str(column["row"].iloc[column[of].astype(float).to_numpy().argmax()])


def _precision(records: Sequence[Record]) -> str:
    """Return ERASE in a cell where reduced precision would show, in float32 and in TF32."""
    title = "### Float32 and TF32"
    found: dict[int, dict[str, list[float]]] = {}
    for record in records:
        if (accuracy := record.scores.get("test_accuracy")) is not None:
            by_machine = found.setdefault(int(record.cell.params["steps"]), {})
            by_machine.setdefault(record.machine, []).append(100 * accuracy)
    machines = sorted({machine for by_machine in found.values() for machine in by_machine})
    if len(machines) < 2:
        return f"{title}\n\nNo records here; `erase bench {PRECISION}` makes them."
    rows = [
        [f"T = {steps}", *(_mean_and_error(by_machine[machine]) for machine in machines)]
        for steps, by_machine in sorted(found.items())
    ]
    return f"{title}\n\n{PRECISION_WORDS}\n\n{grid(['', *machines], rows, numbers=(1, 2))}"


def _mean_and_error(scores: Sequence[float]) -> str:
    error = stdev(scores) / math.sqrt(len(scores))
    return f"{fixed(mean(scores), 2)} ± {fixed(error, 2)}"


def _glance(paper: Table | None, honest: Table | None, runs: pd.DataFrame) -> str:
    """Return the mean over the ten cells of each dataset, and how often ERASE is first."""
    rows = []
    for method in (name for name in METHOD_NAMES if name in ALL):
        cells = []
        for dataset in CITATION_GRAPHS:
            ours = _ten_cells(paper, method, dataset)
            redrawn = _ten_cells(honest, method, dataset)
            cells += [
                _average(ours["mean"]),
                _average(ours["published"]),
                _average(redrawn["mean"]),
            ]
        rows.append([METHOD_NAMES[method], *cells])
    kinds = ("`paper`", "published", "`honest`")
    head = [f"{dataset_label(dataset)} {kind}" for dataset in CITATION_GRAPHS for kind in kinds]
    ranked = [table for table in (paper, honest) if table and len(_ranked(table))]
    standings = [f"{_standing_text(table)} {_standing_of_shared(table, runs)}" for table in ranked]
    numbers = range(1, len(head) + 1)
    return "\n\n".join(
        [
            "## At a glance",
            "Mean test accuracy in % over the ten cells of a dataset; smoothed features and "
            "relabelling train on validation labels too, which under `paper` are clean:",
            grid(["", *head], rows, numbers=numbers),
            *(["\n".join(standings)] if standings else []),
            *([_ranks(paper, honest)] if standings else []),
        ]
    )


def _standing_of_shared(table: Table, runs: pd.DataFrame) -> str:
    """Return how often ERASE is first where all methods are averaged over the same seeds."""
    cells = list(_ranked(table).itertuples())
    wanted = [
        Wanted(
            "test_accuracy",
            cell.dataset,
            cell.noise,
            cell.rate,
            method,
            NEAREST_TO_PRINT.get(method, {}),
        )
        for cell in cells
        for method in PAPER_METHODS
    ]
    found = iter(find_runs(finished(runs, table.protocol), wanted))
    ranks = {
        cell.place_name: _shared_rank({method: next(found) for method in PAPER_METHODS})
        for cell in cells
    }
    behind = [f"{place} ({rank})" for place, rank in ranks.items() if rank > 1]
    listed = f"; its rank elsewhere: {', '.join(behind)}" if behind else ""
    same = "the same draws of the noise" if table.protocol == "honest" else "the same seeds"
    return (
        f"With every method averaged over {same}, those that all have, it is first in "
        f"{len(ranks) - len(behind)}{listed}."
    )


def _shared_rank(scores: Mapping[str, Runs]) -> int:
    """Return ERASE's rank by the mean over the runs that all methods have."""
    scores = {method: runs for method, runs in scores.items() if runs}
    shared = set.intersection(*map(set, scores.values()))
    sums = {method: sum(found[run] for run in sorted(shared)) for method, found in scores.items()}
    return 1 + sum(one > sums["erase"] + 1e-9 for one in sums.values())


def _ranks(paper: Table | None, honest: Table | None) -> str:
    """Return ERASE's rank in every cell, under both protocols and as published."""
    rows: dict[str, list[str]] = {}
    here, there = _ranks_by_place(paper), _ranks_by_place(honest)
    for place in here | there:
        ours, redrawn = here.get(place), there.get(place)
        printed = (ours or redrawn or (None, None))[1]
        ranks = [ours[0] if ours else None, redrawn[0] if redrawn else None, printed]
        text = " / ".join(NOTHING if pd.isna(rank) else f"{rank:g}" for rank in ranks)
        dataset, noise, _ = place
        rows.setdefault(f"{dataset_label(dataset)}, {noise}", []).append(text)
    head = ["", *(f"{rate:g}" for rate in RATES)]
    table = grid(head, [[row, *ranks] for row, ranks in rows.items()], numbers=range(1, len(head)))
    return (
        "ERASE's rank by the mean among the paper's methods that have runs: under `paper` / under "
        f"`honest` / published, at each noise rate:\n\n{table}"
    )


def _ranks_by_place(
    table: Table | None,
) -> dict[tuple[str, str, float], tuple[float | None, float | None]]:
    """Return ERASE's rank and its published one by dataset, noise and rate."""
    if table is None:
        return {}
    return {
        (cell.dataset, cell.noise, cell.rate): (cell.rank, cell.published_rank)
        for cell in _ranked(table).itertuples()
    }


def _ten_cells(table: Table | None, method: str, dataset: str) -> pd.DataFrame:
    """Return the cells of a method on a dataset."""
    if table is None:
        return pd.DataFrame(columns=["mean", "published"])
    cells = table.cells
    return cells[(cells["row"] == method) & (cells["dataset"] == dataset)]


def _average(values: pd.Series) -> str:
    """Return the mean of ten values; a part of them would be another average."""
    known = values.dropna()
    return fixed(mean(known), 2) if len(known) == 10 else NOTHING


def _ranked(table: Table) -> pd.DataFrame:
    return table.cells[table.cells["rank"].notna()]


class Standing(NamedTuple):
    """In how many cells ERASE has the highest mean, and in how many the lead is significant.

    Attributes:
        cells: in which it is ranked.
        first: cells in which it has the highest mean.
        published_first: the same by the published means.
        tests: paired tests against the best rival of a cell.
        uncorrected: of these with p < 0.05.
        corrected: with p < 0.05 after Holm's correction.
        ahead: of the corrected, those in which ERASE is ahead.
    """

    cells: int
    first: int
    published_first: int
    tests: int
    uncorrected: int
    corrected: int
    ahead: int


def _standing(table: Table) -> Standing:
    """Count the cells in which ERASE leads."""
    ranked = _ranked(table)
    contests = ranked[ranked["pairs"].notna()]
    p_values = contests["p_value"].astype(float).fillna(1.0)
    significant = contests[pd.Series(holm(list(p_values)), contests.index, dtype=float) < 0.05]
    return Standing(
        len(ranked),
        (ranked["rank"] == 1).sum(),
        (ranked["published_rank"] == 1).sum(),
        len(contests),
        (p_values < 0.05).sum(),
        len(significant),
        (significant["rival_difference"] > 0).sum(),
    )


def _standing_text(table: Table) -> str:
    count = _standing(table)
    methods = span(map(int, _ranked(table)["ranked"]))
    return (
        f"- Under `{table.protocol}` ERASE has the highest mean of the {methods} "
        f"methods in {count.first} of {count.cells} cells (published: {count.published_first}). "
        f"Against its best rival p < 0.05 in {count.uncorrected} of {count.tests} cells, and in "
        f"{count.corrected} after Holm's correction for {count.tests} tests; ERASE is ahead in "
        f"{count.ahead} of these."
    )


def _conclusions(tables: Mapping[str, Table | None]) -> str:
    """Return what a reader should conclude, as far as there are records for it.

    Args:
        tables: "paper" and "honest", the main table by protocol; "beyond", of protocol "pool"
            where it has all methods; "confirmation" and "detection".
    """
    points = [
        _recommendation(tables["beyond"]),
        _confirmation(tables["confirmation"]),
        _reproduction(tables["paper"]),
        _significance(tables["paper"], tables["honest"]),
        _detection(tables["detection"]),
    ]
    return "\n".join(f"{i}. {point}" for i, point in enumerate(filter(None, points), start=1))


def _recommendation(table: Table | None) -> str:
    lead = relabelling_lead(table.cells) if table else None
    if lead is None:
        return ""
    best = "relabelling" if lead.ours >= lead.theirs else lead.rival
    return (
        f"Use {best} when no label is known to be clean: over {lead.noisy} noisy cells the mean "
        f"test accuracy of relabelling is {fixed(lead.ours, 1)} %, that of the best other method, "
        f"{lead.rival}, {fixed(lead.theirs, 1)} %{_of_erase(lead)}; it is ahead of all others in "
        f"{lead.ahead} of {lead.cells} cells."
    )


def _confirmation(table: Table | None) -> str:
    lead = relabelling_lead(table.cells) if table else None
    if lead is None:
        return ""
    confirm = "confirm" if lead.ours >= lead.theirs else "contradict"
    return (
        f"Ten draws of the noise on which nothing was chosen {confirm} that relabelling is "
        f"ahead: its mean over {lead.noisy} noisy cells is {fixed(lead.ours, 1)} %, that of "
        f"{lead.rival} {fixed(lead.theirs, 1)} %{_of_erase(lead)}; it is ahead in {lead.ahead} of "
        f"{lead.cells} cells."
    )


def _of_erase(lead: Lead) -> str:
    return "" if lead.erase is None else f", that of ERASE {fixed(lead.erase, 1)} %"


def _reproduction(table: Table | None) -> str:
    if table is None or table.cells.empty:
        return ""
    ours = _compared(table)
    ours = ours[ours["row"] == "erase"]
    if ours.empty:
        return ""
    count = _standing(table)
    return (
        f"Under the paper's protocol ERASE is within {CLOSE} points of its published mean in "
        f"{(~is_far(ours)).sum()} of {len(ours)} cells, and has the highest mean of the compared "
        f"methods in {count.first} of {count.cells} (published: {count.published_first})."
    )


def _significance(paper: Table | None, honest: Table | None) -> str:
    found = [(table.protocol, _standing(table)) for table in (paper, honest) if table]
    found = [(protocol, count) for protocol, count in found if count.tests]
    if not found:
        return ""
    counts = " and ".join(
        f"{count.ahead} of {count.tests} cells under `{protocol}`" for protocol, count in found
    )
    return (
        "After Holm's correction for the number of tests, ERASE is significantly ahead of its "
        f"best rival in {counts}; its other leads may be chance."
    )


def _detection(table: Table | None) -> str:
    if table is None:
        return ""
    best = times_best(table.cells[table.cells["measure"] == "auroc"])
    rate = times_near(table.cells, "noise_rate_error", 0.0)
    alarms = times_near(table.cells, "false_alarms", DetectionSetup.max_false_alarms)
    if not best.cells:
        return ""
    return (
        "The audit ranks wrong labels best, or within one standard error of the best, in "
        f"{best.rivals} of {best.cells} cells by AUROC; its noise rate is within {NEAR} of the "
        f"true one in {rate.near} of {rate.cells}, and its share of false alarms within {NEAR} of "
        f"the {DetectionSetup.max_false_alarms} allowed in {alarms.near} of {alarms.cells}."
    )


def _reproduce(records: Mapping[str, Sequence[Record]]) -> str:
    lines = [f"erase bench {study}" for study in studies_of_the_page(records)]
    lines += ["python benchmarks/results.py --records out --out out/results.md  # this page"]
    missing = gaps(records)
    return "\n\n".join(
        [
            "## Reproduce",
            HOW_TO,
            "\n".join(["```console", *lines, "```"]),
            CODE_WORDS,
            runs_made(records),
            *(["\n".join(missing)] if missing else []),
            "What made the records of this page:",
            commands(records),
        ]
    )


def _differences(tables: Sequence[Table], explanations: Mapping[str, str]) -> str:
    """Return where we are further than `CLOSE` from the paper, and why as far as we know."""
    all_cells = [(table, cell) for table in tables for cell in table.cells.itertuples()]
    known = {_group(table.name, cell.row) for table, cell in all_cells}
    known |= {
        _name(cell) for table, cell in all_cells if (table.name, cell.row) == ("main", "erase")
    }
    built = {table.name for table in tables}
    if unknown := sorted(k for k in set(explanations) - known if k.partition("/")[0] in built):
        raise EraseError(
            "keys that name a cell of ERASE, a row of main or a table in explanations.toml",
            unknown[0],
            "Correct or remove it.",
        )
    # rows, not pd.concat: pandas before 3 warns of columns that are empty in one of the tables
    compared = [row for table in tables for row in _compared(table).to_dict("records")]
    cells = pd.DataFrame(compared)
    groups: dict[str, pd.DataFrame] = {}
    if len(cells):
        keys = [_group(*name) for name in zip(cells["table"], cells["row"], strict=True)]
        groups = {str(key): group for key, group in cells.groupby(keys, sort=False)}
    rows = [
        [_group_label(key, group), *_distance(group), _reason(key, explanations)]
        for key, group in groups.items()
    ]
    ours = groups.get("main/erase", pd.DataFrame(columns=["difference", "panel_measure"]))
    far = list(ours[is_far(ours)].itertuples())
    return "\n\n".join(
        [
            "## Differences from the paper",
            f"ERASE in the main table: {len(ours) - len(far)} of {len(ours)} cells are within "
            f"{CLOSE} points of the published mean{'; the others:' if far else '.'}",
            *(["\n".join(_explained(cell, explanations) for cell in far)] if far else []),
            f"All accuracies, by method and by table; within {CLOSE} points, and ours minus the "
            "paper's:",
            grid(["", "cells", "within", "mean", "largest", "why"], rows, numbers=(1, 2, 3)),
        ]
    )


def _reason(key: str, explanations: Mapping[str, str]) -> str:
    """Return why a row of the main table differs; other tables explain it in their sections."""
    if key.startswith("main/"):
        return explanations.get(key, "see above" if key == "main/erase" else "")
    return "see below that table" if key in explanations else ""


def _distance(cells: pd.DataFrame) -> list[str]:
    """Return how many cells there are, how many are close, the mean and the largest difference."""
    apart = cells["difference"].astype(float)
    worst = cells.iloc[apart.abs().to_numpy().argmax()]
    largest = f"{signed(worst['difference'], 2)} ({worst['label']}, {worst['place_name']})"
    near = (~is_far(cells)).sum()
    return [f"{len(cells)}", f"{near}", signed(mean(apart), 2), largest]


def _explained(cell: Any, explanations: Mapping[str, str]) -> str:
    why = explanations.get(_name(cell), NOT_EXPLAINED)
    return (
        f"- **{cell.place_name}**: {fixed(cell.mean, 2)} against {fixed(cell.published, 2)}, "
        f"{signed(cell.difference, 2)}{_in_errors(cell)}. {why}"
    )


def _in_errors(cell: Any) -> str:
    """Return a difference of ERASE in standard errors, both means taken to be of their own runs."""
    runs = published()["main"].runs
    if pd.isna(cell.error) or pd.isna(cell.published_std) or not runs:
        return ""
    error = math.hypot(cell.error, cell.published_std / math.sqrt(runs))
    return f", {fixed(abs(cell.difference) / error, 1)} standard errors"


def _group(table: str, row: str) -> str:
    """Return the line of the summary that a difference belongs to."""
    return f"main/{row}" if table == "main" else table


def _group_label(key: str, cells: pd.DataFrame) -> str:
    return f"main: {cells['label'].iloc[0]}" if key.startswith("main/") else TABLES[key].title


def _name(cell: Any) -> str:
    """Return a cell's name in explanations.toml."""
    return f"main/{cell.dataset}/{cell.row}/{cell.place_key}"


def _failures(records: Sequence[Record]) -> str:
    failed = [record for record in records if record.error is not None]
    lines = [f"- {record.cell}: {record.error}" for record in failed]
    return "## Failed cells\n\n" + ("\n".join(lines) or "None.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--records", type=Path, default=RECORDS)
    parser.add_argument("--out", type=Path, default=PAGE)
    parser.add_argument("--figures", action="store_true", help="draw them beside the page first")
    options = parser.parse_args()
    docs = options.out.parent
    if options.figures:
        for path in draw(options.records, docs / "figures"):
            print(f"Drew {path}.")
    evidence = gather(options.records, docs=docs)
    if not evidence.records:
        raise SystemExit(f"no records of a study in {options.records}")
    with atomic_write(options.out, "w") as file:
        file.write(page(evidence))
    print(f"Wrote {options.out}.")


if __name__ == "__main__":
    main()
