"""A table as Markdown, as LaTeX for booktabs, and as CSV with one line per entry."""

import csv
import io
from collections.abc import Callable

from erase.bench.tables.numbers import fixed, probability, signed, span
from erase.bench.tables.table import Entry, Line, Panel, Table

NOTHING = "–"


def markdown(table: Table, level: int = 1) -> str:
    """Return the table as Markdown: a heading, a panel after the other, then the notes."""
    parts = [f"{'#' * level} {table.title}", _legend(table, "In brackets")]
    for panel in table.panels:
        if panel.lacking:
            parts.append(f"**{panel.title}**: {panel.lacking}.")
        else:
            parts += [f"**{panel.title}**", _markdown_panel(panel, table.is_comparable)]
    if table.notes:
        parts.append("\n".join(f"- {note}" for note in table.notes))
    return "\n\n".join(parts) + "\n"


def _legend(table: Table, where: str) -> str:
    """Return what an entry says; `where` the published figure stands."""
    measures = {panel.measure.words: panel.measure.unit for panel in table.panels}
    what = "; ".join(f"{words} in {unit}" if unit else words for words, unit in measures.items())
    spread = "error" if any(p.measure.shows_error for p in table.panels) else "deviation"
    text = f"{what[0].upper()}{what[1:]}: mean ± standard {spread} over the runs."
    if any(spot.entry.published for spot in table.spots()):
        text += (
            f" {where} the paper's figure{' and ours minus it' if _is_alike(table) else ''}."
            if table.is_comparable
            else f" {where} the paper's figure, made under another protocol: one draw of the noise "
            "and clean validation labels."
        )
    if any(panel.measure.ranks for panel in table.panels):
        aside = any(spot.row.sanity for spot in table.spots())
        rows = ", rows without rank aside," if aside else ""
        text += f" The highest mean of a column{rows} is in bold."
    if any(spot.entry.contest for spot in table.spots()):
        text += (
            " p is of a two-sided paired t-test over runs with equal seeds, not corrected for the "
            "number of tests."
        )
    sanity = dict.fromkeys(spot.row.label for spot in table.spots() if spot.row.sanity)
    if sanity and any(spot.entry.rank for spot in table.spots()):
        text += f" Nobody's rivals, without rank: {', '.join(sanity)}."
    return text


def _is_alike(table: Table) -> bool:
    return any(panel.measure.is_alike for panel in table.panels)


def _markdown_panel(panel: Panel, comparable: bool) -> str:
    head = ["", *(place.label for place in panel.places), "runs"]
    rows = [head, ["---", *("---:" for _ in head[1:])]]
    for line in panel.lines:
        cells = [_markdown_entry(entry, panel, comparable) for entry in line.entries]
        rows.append([line.row.label, *cells, _runs(line)])
    for label, texts in _remarks(panel):
        rows.append([f"*{label}*", *texts, ""])
    return "\n".join(f"| {' | '.join(row)} |".replace("|  |", "| |") for row in rows)


def _markdown_entry(entry: Entry, panel: Panel, comparable: bool) -> str:
    ours = _ours(entry, panel)
    if entry.is_best:
        ours = f"**{ours}**"
    theirs = _theirs(entry, panel, comparable)
    if not theirs:
        return ours
    return f"{ours} ({theirs})" if comparable else f"{ours} [{theirs}]"


def _ours(entry: Entry, panel: Panel) -> str:
    if entry.mean is None:
        return NOTHING
    mean = fixed(entry.mean, panel.measure.decimals)
    spread = entry.error if panel.measure.shows_error else entry.std
    return mean if spread is None else f"{mean} ± {fixed(spread, panel.measure.decimals)}"


def _theirs(entry: Entry, panel: Panel, comparable: bool) -> str:
    if entry.published is None:
        return ""
    text = fixed(entry.published.mean, panel.measure.decimals)
    if comparable and panel.measure.is_alike and entry.difference is not None:
        text += f", {signed(entry.difference, panel.measure.decimals)}"
    return text


def _runs(line: Line) -> str:
    counts = [entry.runs for entry in line.entries if entry.runs]
    return span(counts) if counts else NOTHING


def _remarks(panel: Panel) -> list[tuple[str, list[str]]]:
    """Return the lines under a panel: a label, and a text for each column."""
    remarks = []
    for line in panel.lines:
        contests = [entry.contest for entry in line.entries]
        if any(contests):
            texts = [
                f"{signed(c.difference, panel.measure.decimals)} ({c.rival}), "
                f"{probability(c.p_value)}"
                if c
                else NOTHING
                for c in contests
            ]
            pairs = span(contest.pairs for contest in contests if contest)
            other = "best rival" if any(entry.rank for entry in line.entries) else "best other row"
            remarks.append((f"{line.row.label} − {other}, {pairs} pairs", texts))
        ranks = [entry.rank for entry in line.entries]
        if any(ranks):
            printed = any(rank and rank.published for rank in ranks)
            texts = [
                f"{r.ours} of {r.of}" + (f" ({r.published or NOTHING})" if printed else "")
                if r
                else NOTHING
                for r in ranks
            ]
            label = f"rank of {line.row.label}{' (published)' if printed else ''}"
            remarks.append((label, texts))
    return remarks


_LATEX = {
    "\\": r"\textbackslash{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "−": "$-$",
    "–": "--",
    "∞": r"$\infty$",
    "²": "$^2$",
    "ε": r"$\varepsilon$",
    "α": r"$\alpha$",
    "β": r"$\beta$",
    "γ": r"$\gamma$",
    "δ": r"$\delta$",
    "<": "$<$",
    ">": "$>$",
}


def _tex(text: str) -> str:
    """Return text as LaTeX shows it."""
    return "".join(_LATEX.get(character, character) for character in text)


def latex(table: Table) -> str:
    r"""Return the table as LaTeX: one ``table`` for each panel; needs ``\usepackage{booktabs}``."""
    legend = _legend(table, "Below")
    parts = [f"% {note}" for note in table.notes]
    return "\n".join([*parts, *(_latex_panel(table, panel, legend) for panel in table.panels)])


def _latex_panel(table: Table, panel: Panel, legend: str) -> str:
    columns = len(panel.places)
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{_tex(f'{table.title}. {panel.title}. {legend}')}}}",
        rf"\begin{{tabular}}{{l{'r' * (columns + 1)}}}",
        r"\toprule",
        _latex_row(["", *(_tex(place.label) for place in panel.places), "runs"]),
        r"\midrule",
    ]
    if panel.lacking:
        lines.append(rf"\multicolumn{{{columns + 2}}}{{c}}{{{_tex(panel.lacking)}}} \\")
    for line in () if panel.lacking else panel.lines:
        ours = [_tex(_ours(entry, panel)) for entry in line.entries]
        shown = [
            rf"\textbf{{{text}}}" if entry.is_best else text
            for text, entry in zip(ours, line.entries, strict=True)
        ]
        lines.append(_latex_row([_tex(line.row.label), *shown, _tex(_runs(line))]))
        theirs = [_tex(_theirs(entry, panel, table.is_comparable)) for entry in line.entries]
        if any(theirs):
            lines.append(_latex_row([r"\quad published", *theirs, ""]))
    if remarks := _remarks(panel):
        lines.append(r"\midrule")
        lines += [_latex_row([_tex(label), *map(_tex, texts), ""]) for label, texts in remarks]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


def _latex_row(cells: list[str]) -> str:
    return " & ".join(cells) + r" \\"


CSV_COLUMNS = [
    "table",
    "protocol",
    "panel",
    "dataset",
    "noise",
    "rate",
    "row",
    "measure",
    "unit",
    "mean",
    "std",
    "runs",
    "published",
    "published_std",
    "difference",
    "is_best",
    "rank",
    "ranked",
    "published_rank",
    "rival",
    "rival_difference",
    "p_value",
    "pairs",
]


def long_csv(table: Table) -> str:
    """Return the table as CSV: a line for each entry, empty where there is nothing."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for spot in table.spots():
        entry, printed = spot.entry, spot.entry.published
        rank, contest = entry.rank, entry.contest
        measure = spot.row.measure or spot.panel.measure
        cells: list[str | float | None] = [
            table.name,
            table.protocol,
            spot.panel.title,
            spot.place.dataset,
            spot.place.noise,
            spot.place.rate,
            spot.row.key,
            measure.name,
            measure.unit,
            entry.mean,
            entry.std,
            entry.runs,
            printed.mean if printed else None,
            printed.std if printed else None,
            entry.difference if table.is_comparable and measure.is_alike else None,
            int(entry.is_best),
            rank.ours if rank else None,
            rank.of if rank else None,
            rank.published if rank else None,
            contest.rival if contest else None,
            contest.difference if contest else None,
            contest.p_value if contest else None,
            contest.pairs if contest else None,
        ]
        writer.writerow([f"{cell:.6g}" if isinstance(cell, float) else cell for cell in cells])
    return file.getvalue()


FORMATS: dict[str, Callable[[Table], str]] = {"md": markdown, "latex": latex, "csv": long_csv}
