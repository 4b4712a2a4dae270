"""A table as Markdown, as LaTeX for booktabs, and as CSV with one line per cell."""

from collections.abc import Callable
from itertools import groupby
from typing import Any

import pandas as pd

from erase.bench.tables.build import NOT_HERE, Table
from erase.bench.tables.measures import MEASURES, Measure
from erase.bench.tables.numbers import fixed, probability, signed, span

NOTHING = "–"


def markdown(table: Table, level: int = 1) -> str:
    """Return the table as Markdown: a heading, a panel after the other, then the notes."""
    parts = [f"{'#' * level} {table.title}", _legend(table, "In brackets")]
    for panel in table.panels():
        title = panel["panel"].iloc[0]
        if lacking := why_empty(panel):
            parts.append(f"**{title}**: {lacking}.")
        else:
            parts += [f"**{title}**", _markdown_panel(panel, table.is_comparable)]
    if table.notes:
        parts.append("\n".join(f"- {note}" for note in table.notes))
    return "\n\n".join(parts) + "\n"


def _markdown_panel(panel: pd.DataFrame, comparable: bool) -> str:
    head = ["", *_places(panel), "runs"]
    rows = [head, ["---", *("---:" for _ in head[1:])]]
    for label, row in _rows(panel):
        cells = []
        for cell in row:
            ours = f"**{_ours(cell)}**" if cell.is_best else _ours(cell)
            if theirs := _theirs(cell):
                ours += f" ({theirs})" if comparable else f" [{theirs}]"
            cells.append(ours)
        rows.append([label, *cells, _runs(row)])
    rows += [[f"*{label}*", *texts, ""] for label, texts in _remarks(panel)]
    return "\n".join(f"| {' | '.join(row)} |".replace("|  |", "| |") for row in rows)


def latex(table: Table) -> str:
    r"""Return the table as LaTeX: one ``table`` for each panel; needs ``\usepackage{booktabs}``."""
    legend = _legend(table, "Below")
    notes = [f"% {note}" for note in table.notes]
    return "\n".join([*notes, *(_latex_panel(table, panel, legend) for panel in table.panels())])


def _latex_panel(table: Table, panel: pd.DataFrame, legend: str) -> str:
    places = _places(panel)
    caption = f"{table.title}. {panel['panel'].iloc[0]}. {legend}"
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{_tex(caption)}}}",
        rf"\begin{{tabular}}{{l{'r' * (len(places) + 1)}}}",
        r"\toprule",
        _latex_row(["", *map(_tex, places), "runs"]),
        r"\midrule",
    ]
    if lacking := why_empty(panel):
        lines.append(rf"\multicolumn{{{len(places) + 2}}}{{c}}{{{_tex(lacking)}}} \\")
    for label, row in [] if lacking else _rows(panel):
        ours = [
            rf"\textbf{{{_tex(_ours(cell))}}}" if cell.is_best else _tex(_ours(cell))
            for cell in row
        ]
        lines.append(_latex_row([_tex(label), *ours, _tex(_runs(row))]))
        theirs = [_tex(_theirs(cell)) for cell in row]
        if any(theirs):
            lines.append(_latex_row([r"\quad published", *theirs, ""]))
    if remarks := _remarks(panel):
        lines.append(r"\midrule")
        lines += [_latex_row([_tex(label), *map(_tex, texts), ""]) for label, texts in remarks]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


def _latex_row(cells: list[str]) -> str:
    return " & ".join(cells) + r" \\"


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
    """Return the table as CSV: a line for each cell, empty where there is nothing."""
    cells = table.cells[CSV_COLUMNS].assign(is_best=table.cells["is_best"].astype(int))
    text: str = cells.to_csv(index=False, float_format="%.6g", lineterminator="\n")
    return text


FORMATS: dict[str, Callable[[Table], str]] = {"md": markdown, "latex": latex, "csv": long_csv}


# What all formats show ----------------------------------------------------------------------------


def _legend(table: Table, where: str) -> str:
    """Explain the cells of a table; `where` the published figure stands."""
    cells = table.cells
    measures = [MEASURES[name] for name in dict.fromkeys(cells["panel_measure"])]
    what = "; ".join(f"{m.words} in {m.unit}" if m.unit else m.words for m in measures)
    spread = "error" if any(m.shows_error for m in measures) else "deviation"
    text = f"{what[0].upper()}{what[1:]}: mean ± standard {spread} over the runs."
    if cells["published"].notna().any():
        minus = " and ours minus it" if any(m.is_alike for m in measures) else ""
        text += (
            f" {where} the paper's figure{minus}."
            if table.is_comparable
            else f" {where} the paper's figure, made under another protocol: one draw of the noise "
            "and clean validation labels."
        )
    sanity = dict.fromkeys(cells.loc[cells["is_sanity"], "label"])
    if any(m.ranks for m in measures):
        rows = " among ranked rows" if sanity else ""
        text += f" The highest mean of a column{rows} is in bold."
    if cells["pairs"].notna().any():
        text += (
            " p is of a two-sided paired t-test over runs with equal seeds, not corrected for the "
            "number of tests."
        )
    if sanity and cells["rank"].notna().any():
        text += f" Shown for reference, not ranked: {', '.join(sanity)}."
    return text


def why_empty(panel: pd.DataFrame) -> str:
    """Return why a panel has no run; nothing where it has one."""
    if panel["runs"].any():
        return ""
    return "data not available here" if panel["dataset"].isin(NOT_HERE).all() else "no records"


def _places(panel: pd.DataFrame) -> list[str]:
    return list(panel.drop_duplicates("column")["place"])


def _rows(panel: pd.DataFrame) -> list[tuple[str, list[Any]]]:
    """Return the cells of each row of a panel with its label, in order."""
    rows = [list(row) for _, row in groupby(panel.itertuples(), key=lambda cell: cell.row)]
    return [(row[0].label, row) for row in rows]


def _measure(cell: Any) -> Measure:
    return MEASURES[cell.panel_measure]


def _ours(cell: Any) -> str:
    if not cell.runs:
        return NOTHING
    measure = _measure(cell)
    spread = cell.error if measure.shows_error else cell.std
    mean = fixed(cell.mean, measure.decimals)
    return mean if pd.isna(spread) else f"{mean} ± {fixed(spread, measure.decimals)}"


def _theirs(cell: Any) -> str:
    if pd.isna(cell.published):
        return ""
    text = fixed(cell.published, _measure(cell).decimals)
    if pd.notna(cell.difference):
        text += f", {signed(cell.difference, _measure(cell).decimals)}"
    return text


def _runs(row: list[Any]) -> str:
    counts = [cell.runs for cell in row if cell.runs]
    return span(counts) if counts else NOTHING


def _remarks(panel: pd.DataFrame) -> list[tuple[str, list[str]]]:
    """Return the lines under a panel: a label, and a text for each column."""
    remarks = []
    for label, cells in _rows(panel):
        compared = [cell for cell in cells if pd.notna(cell.pairs)]
        ranked = [cell for cell in cells if pd.notna(cell.rank)]
        if compared:
            texts = [
                f"{signed(c.rival_difference, _measure(c).decimals)} ({c.rival}), "
                f"{probability(None if pd.isna(c.p_value) else c.p_value)}"
                if pd.notna(c.pairs)
                else NOTHING
                for c in cells
            ]
            pairs = span(int(cell.pairs) for cell in compared)
            other = "best rival" if ranked else "best other row"
            remarks.append((f"{label} − {other}, {pairs} pairs", texts))
        if ranked:
            printed = any(pd.notna(cell.published_rank) for cell in ranked)
            texts = [
                f"{c.rank:g} of {c.ranked:g}" + (f" ({_rank(c.published_rank)})" if printed else "")
                if pd.notna(c.rank)
                else NOTHING
                for c in cells
            ]
            remarks.append((f"rank of {label}{' (published)' if printed else ''}", texts))
    return remarks


def _rank(rank: float) -> str:
    return NOTHING if pd.isna(rank) else f"{rank:g}"
