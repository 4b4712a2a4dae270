"""The page's section on speed, from the records of speed.py and profile_stages.py."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from erase.bench.names import METHOD_NAMES, dataset_label
from erase.bench.published import published
from erase.bench.tables.numbers import fixed, signed, span
from erase.bench.tables.render import NOTHING
from grids import grid

Line = Mapping[str, Any]

WORDS = """\
Made by `python benchmarks/speed.py` and `python benchmarks/profile_stages.py`, each with
`--device cuda` on a GPU. The straightforward implementation of the same formulas launches its many
small operations from the host and selects the epoch there with scikit-learn, so on a GPU its time
depends on the host too. Our epoch is recorded once and replayed."""
PROFILE_WORDS = """\
Time of an epoch by stage, in milliseconds. In brackets the lower bound: multiplications at the
measured rate of a matrix product or bytes at the measured bandwidth, whichever takes longer. Stages
are launched separately here, which on a GPU takes several times as long as the epoch that a fit
replays."""


COMPANY = ("alone", "beside a busy process")


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the JSON lines of a file; none where there is no file."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [json.loads(line) for line in text.splitlines()]


def speed_section(speed: Sequence[Line], profile: Sequence[Line]) -> str:
    """Return the section."""
    parts = [
        _epochs(lines_of("epoch with selection", speed)),
        _iterations(lines_of("iteration", speed)),
        _together([line for line in speed if line["measure"].endswith("runs at once")]),
        _fits(lines_of("fit", speed)),
        _growth(lines_of("twice the size", speed)),
        _relabelling(lines_of("fit of relabelling", speed)),
        _busy(lines_of("audit beside a busy process", speed)),
        _stages(profile),
    ]
    return "\n\n".join(["## Speed", WORDS, *filter(None, parts)])


def lines_of(measure: str, lines: Iterable[Line]) -> list[Line]:
    """Return the lines of one measure."""
    return [line for line in lines if line["measure"] == measure]


def _milliseconds(seconds: float) -> str:
    return fixed(1000 * seconds, 1)


def _epochs(lines: Sequence[Line]) -> str:
    rows = [
        [
            f"{dataset_label(line['dataset'])}, {line['machine']}",
            _milliseconds(line["ours_seconds"]),
            _milliseconds(line["straightforward_seconds"]),
            fixed(line["ratio"], 1),
        ]
        for line in lines
    ]
    head = ["epoch with selection", "ours, ms", "straightforward, ms", "times faster"]
    return grid(head, rows, numbers=(1, 2, 3)) if rows else ""


def _iterations(lines: Sequence[Line]) -> str:
    """Return the time of a forward and a backward pass of every method, beside the paper's."""
    if not lines:
        return ""
    rows = []
    for method in lines[0]["milliseconds"]:
        figure = published()["time"].get("cora", method, "any")
        times = [line["milliseconds"][method] for line in lines]
        row = [METHOD_NAMES[method], NOTHING if figure is None else fixed(figure.mean, 0)]
        for time in times:
            apart = "" if figure is None else f" ({signed(time - figure.mean, 1)})"
            row.append(f"{fixed(time, 1)}{apart}")
        rows.append(row)
    head = ["forward and backward of one run, Cora, ms", "the paper, RTX 3090"]
    head += [line["machine"] for line in lines]
    words = (
        f"Medians of {span(line['steps'] for line in lines)} steps, launched one by one; in "
        "brackets ours minus the paper's, which is of another machine."
    )
    return f"{grid(head, rows, numbers=range(1, len(head)))}\n\n{words}"


def _together(lines: Sequence[Line]) -> str:
    rows = [
        [
            f"{line['measure']}, {dataset_label(line['dataset'])}, {line['machine']}",
            _milliseconds(line["many_seconds"]),
            _milliseconds(line["one_seconds"]),
            fixed(line["ratio"], 2),
            fixed(line["gigabytes"], 1),
        ]
        for line in lines
    ]
    head = ["epoch of many runs", "all, ms", "one run, ms", "times one run", "GB"]
    return grid(head, rows, numbers=(1, 2, 3, 4)) if rows else ""


def _fits(lines: Sequence[Line]) -> str:
    rows = [
        [
            f"{METHOD_NAMES[line.get('method', 'erase')]}, "
            f"{dataset_label(line['dataset'])}{_size(line['options'])}, {line['machine']}",
            fixed(line["seconds_per_epoch"], 2),
            fixed(line.get("peak_gigabytes", line.get("gigabytes")), 1),
            f"{line['epochs']}",
        ]
        for line in lines
    ]
    head = ["whole fit", "seconds an epoch", "GB at most", "epochs"]
    return grid(head, rows, numbers=(1, 2, 3)) if rows else ""


def _growth(lines: Sequence[Line]) -> str:
    return "\n".join(
        f"On a graph twice as large as {line['options']['num_nodes']:,} nodes an epoch takes "
        f"{fixed(line['ratio'], 2)} times as long ({fixed(line['twice_seconds'], 1)} s against "
        f"{fixed(line['once_seconds'], 1)} s, {line['epochs']} epochs of each in turn, "
        f"{line['machine']})."
        for line in lines
    )


def _relabelling(lines: Sequence[Line]) -> str:
    rows = [
        [
            f"{dataset_label(line['dataset'])}{_size(line['options'])}, {line['machine']}",
            fixed(line["seconds"], 1),
            fixed(line["gigabytes"], 1),
            f"{line['fits']}",
            fixed(100 * line["test_accuracy"], 1),
        ]
        for line in lines
    ]
    head = ["whole fit of relabelling", "seconds", "GB at most", "fits", "test accuracy, %"]
    return grid(head, rows, numbers=(1, 2, 3, 4)) if rows else ""


def _size(options: Mapping[str, Any]) -> str:
    return f" of {options['num_nodes']:,} nodes" if "num_nodes" in options else ""


def _busy(lines: Sequence[Line]) -> str:
    """Return the time of an audit beside a busy process, by how idle threads wait."""
    words = {
        "usual": "GNU OpenMP's own, 300,000 rounds",
        "ours": "as `import erase` sets it, 1,000 rounds",
        "passive": "not at all (`OMP_WAIT_POLICY=PASSIVE`)",
    }
    rows = [
        [
            f"{words[waiting]}; {line['cores']} cores, {line['machine']}",
            *(fixed(line["seconds"][f"{waiting}, {company}"], 1) for company in COMPANY),
        ]
        for line in lines
        for waiting in words
    ]
    head = ["audit of Cora, all labels; how long idle threads spin", *(f"s, {c}" for c in COMPANY)]
    return grid(head, rows, numbers=(1, 2)) if rows else ""


def _stages(profile: Sequence[Line]) -> str:
    tables = []
    for machine in dict.fromkeys(line["machine"] for line in profile):
        lines = [line for line in profile if line["machine"] == machine]
        rows = [
            [name, *(_stage(line, name) for line in lines)]
            for name in dict.fromkeys(s["stage"] for line in lines for s in line["stages"])
        ]
        head = [machine, *(dataset_label(line["dataset"]) for line in lines)]
        tables.append(grid(head, rows, numbers=range(1, len(head))))
    return "\n\n".join([PROFILE_WORDS, *tables]) if tables else ""


def _stage(line: Line, name: str) -> str:
    (stage,) = (stage for stage in line["stages"] if stage["stage"] == name)
    return f"{fixed(stage['milliseconds'], 2)} ({fixed(stage['floor_milliseconds'], 2)})"
