"""The page's section on large graphs, and its picture, from the records of scale.py."""

import math
from collections.abc import Mapping, Sequence
from statistics import median

from matplotlib.figure import Figure

from erase.audit.report.drawing import COLOURS, GREY
from erase.audit.report.drawing.canvas import add_panels, new_figure
from erase.bench.tables.numbers import fixed
from grids import grid
from pace import Line, lines_of

PICTURE = "growth"
WORDS = """\
Made by `python benchmarks/scale.py`: graphs of `citations` with ogbn-arxiv's density, homophily
(0.65), number and sizes of classes, 54 % of the nodes for training, labels corrupted by one draw,
the epoch chosen by clean validation labels. Every row is `erase fit` in a process of its own on two
cores; seconds and gigabytes are those of the whole process. *Recipe* is the published one for
ogbn-arxiv ([paper.md](paper.md#ogbn-arxiv)); *usual* are ERASE's settings for small graphs in
larger batches, and cross-entropy with the encoder and the batches of either. The batches,
neighbours and hidden width of *usual* were chosen from three trials of ERASE on the symmetric draw
and a few at other sizes. Nothing was tuned for cross-entropy, which at that learning rate has not
converged after its five epochs; its better row is *recipe*. Seconds marked † were measured
while other work ran and are too high; older records without the mark may be affected too."""
NAMES = {
    "erase": "ERASE, recipe",
    "ce": "cross-entropy, recipe",
    "erase, usual": "ERASE, usual",
    "ce, usual": "cross-entropy, usual",
    "erase, whole graph": "ERASE, usual, the whole graph in chunks",
}
KINDS = {"file": "in memory", "folder": "out of a folder"}


def scale_section(lines: Sequence[Line]) -> str:
    """Return the section; empty without records."""
    parts = [
        _fits(lines_of("arxiv", lines)),
        _million(lines_of("million", lines)),
        _growth(lines_of("growth", lines)),
        _ranks(lines_of("ranks", lines)),
        _audits(lines),
    ]
    return "\n\n".join(["## Large graphs", WORDS, *filter(None, parts)]) if lines else ""


def growth_picture(lines: Sequence[Line]) -> Figure | None:
    """Draw time and memory against the number of nodes; None without records of two sizes."""
    found = sorted(lines_of("growth", lines), key=lambda line: line["nodes"])
    if len(found) < 2:
        return None
    figure = new_figure(8.0, 3.2)
    nodes = [line["nodes"] for line in found]
    for panel, key, title in zip(
        add_panels(figure, 2, 2),
        ("seconds_per_epoch", "peak_gigabytes"),
        ("seconds an epoch", "gigabytes at most"),
        strict=True,
    ):
        values = [line[key] for line in found]
        panel.loglog(nodes, values, marker="o", color=COLOURS[0], label="measured")
        steepest = [values[0] * 2.3 ** math.log2(n / nodes[0]) for n in nodes]
        panel.loglog(nodes, steepest, "--", color=GREY, label="2.3 times per doubling")
        panel.set(title=title, xlabel="nodes")
        panel.legend(frameon=False)
    return figure


def _fits(lines: Sequence[Line]) -> str:
    ordered = sorted(lines, key=lambda line: (line["noise"], list(NAMES).index(line["method"])))
    return _outcomes(
        "169,343 nodes, 1,166,243 edges",
        {f"{NAMES[line['method']]}, {line['noise'].replace(':', ' ')}": line for line in ordered},
    )


def _million(lines: Sequence[Line]) -> str:
    return _outcomes(
        "1,000,000 nodes, 10,000,000 edges",
        {f"{NAMES[line['method']]}, {KINDS[line['kind']]}": line for line in lines},
    )


def _outcomes(graph: str, lines: Mapping[str, Line]) -> str:
    """Return a table of fits on one graph, by what they are called."""
    rows = [
        [
            name,
            fixed(100 * line["test_accuracy"], 1),
            fixed(line["seconds"], 0) + (" †" if line.get("beside_other_work") else ""),
            fixed(line["peak_gigabytes"], 2),
        ]
        for name, line in lines.items()
    ]
    head = [graph, "test accuracy, %", "seconds", "GB at most"]
    return grid(head, rows, numbers=(1, 2, 3)) if rows else ""


def _growth(lines: Sequence[Line]) -> str:
    found = sorted(lines, key=lambda line: line["nodes"])
    rows = []
    for before, line in zip([None, *found], found, strict=False):
        cells = [f"{line['nodes']:,} nodes"]
        for key, digits in (("seconds_per_epoch", 1), ("peak_gigabytes", 2)):
            cells.append(fixed(line[key], digits))
            cells.append("" if before is None else fixed(_per_doubling(before, line, key), 2))
        rows.append(cells)
    head = ["ERASE, usual", "seconds an epoch", "per doubling", "GB at most", "per doubling"]
    return grid(head, rows, numbers=(1, 2, 3, 4)) if rows else ""


def _per_doubling(before: Line, after: Line, key: str) -> float:
    """Return by what a value is multiplied when the graph doubles."""
    doublings = math.log2(after["nodes"] / before["nodes"])
    return float((after[key] / before[key]) ** (1 / doublings))


def _ranks(lines: Sequence[Line]) -> str:
    rows = []
    for method in dict.fromkeys(line["method"] for line in lines):
        alone, paired = (
            [line for line in lines if (line["method"], line["processes"]) == (method, count)]
            for count in (1, 2)
        )
        if not alone or not paired:
            continue
        one, two = (median(line["seconds_per_epoch"] for line in them) for them in (alone, paired))
        apart = max(
            abs(a - b) / max(abs(a), 1e-9)
            for a, b in zip(alone[0]["losses"], paired[0]["losses"], strict=True)
        )
        free = [line["free_cores_before"] for line in (*alone, *paired)]
        rows.append(
            [
                NAMES[method],
                fixed(one, 1),
                fixed(two, 1),
                fixed(one / two, 2),
                f"{apart:.1e}",
                f"{min(free)} to {max(free)}",
                f"{len(paired)}",
            ]
        )
    head = [
        "50,000 nodes",
        "1 process of 1 thread, s an epoch",
        "2 processes",
        "times faster",
        "largest relative difference of the losses",
        "free cores before",
        "turns",
    ]
    words = (
        "One process and two, with one thread each, in turn; medians. Free cores: how many times "
        "faster two processes multiply matrices than one."
    )
    return f"{words}\n\n{grid(head, rows, numbers=range(1, len(head)))}" if rows else ""


def _audits(lines: Sequence[Line]) -> str:
    """Return the table of audits, of growth, of processes and of the usual way beside them."""
    rows = []
    for line in lines_of("audit", lines):
        rows.append(_audit_row(f"{line['graph']}, all labels", line, line["scores"]["auroc"]))
    for line in lines_of("audit-growth", lines):
        title = f"{line['nodes']:,} nodes, {line['labelled']:.0%} labelled, out of a folder"
        rows.append(_audit_row(title, line, line["scores"]["auroc"]))
    for line in lines_of("audit-gpu", lines):
        title = f"{line['nodes']:,} nodes, all labelled, out of a folder, {line['device']}"
        rows.append(_audit_row(title, line, line["scores"]["auroc"]))
    for line in lines_of("audit-ranks", lines):
        title = f"{line['nodes']:,} nodes, {line['processes']} processes of a thread"
        rows.append(_audit_row(title, line, line["scores"]["auroc"]))
    for line in lines_of("audit-beside", lines):
        title = f"{line['graph']}: regression on two-hop features, cross-validated, and cleanlab"
        rows.append(_audit_row(title, line, line["auroc"]))
    head = [
        "`erase audit`",
        "seconds",
        "processor seconds",
        "GB of a process",
        "AUROC",
        "free cores",
    ]
    words = (
        "Audits of `citations` graphs and of Cora with 30 % symmetric noise: the whole command. "
        "The usual way is timed without reading the graph and without a report."
    )
    return f"{words}\n\n{grid(head, rows, numbers=range(1, len(head)))}" if rows else ""


def _audit_row(title: str, line: Line, auroc: float) -> list[str]:
    mark = " †" if line.get("beside_other_work") else ""
    return [
        title,
        fixed(line["seconds"], 1) + mark,
        fixed(line["processor_seconds"], 1),
        fixed(line["peak_gigabytes"], 2),
        fixed(100 * auroc, 1),
        f"{line['free_cores_before']}",
    ]
