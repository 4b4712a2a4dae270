"""Audit Debian's packages as they are, and compare the result with Debian's own debtags.

    python benchmarks/debian_audit.py PACKAGES    # audits, records, page
    python benchmarks/debian_audit.py             # only the page, from the committed records

PACKAGES is a ``Packages`` index of Debian 12, main, amd64, plain or compressed. No noise is added:
the labels in question are the sections that people chose. The index itself is not kept.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from statistics import mean
from time import perf_counter
from typing import Any

import pandas as pd

from erase.data.datasets.build_debian import read_packages
from erase.data.files import atomic_write, read_json

HERE = Path(__file__).parent
TAGS = HERE / "debtags.toml"
REMARKS = HERE / "debian_remarks.toml"
RECORDS = HERE / "records" / "debian.jsonl"
PAGE = HERE.parent / "docs" / "debian.md"
SHOWN = 50
PAIRS = 12

Json = dict[str, Any]


@dataclass(frozen=True)
class Agreement:
    """How the tags of flagged packages agree with their sections, in shares of `usable`.

    Attributes:
        packages: that the audit would move to another section.
        usable: of them, those whose tags support at least one section of the graph.
        suggested: their tags support the suggested section.
        given: their tags support the given section.
        any_other: what a section drawn from all but the given one would reach.
        by_size: likewise, drawn as often as packages are in it.
        decided: how many have tags that support one of the two and not the other.
        for_suggestion: the share of the decided that support the suggestion; None where none is.
    """

    packages: int
    usable: int
    suggested: float
    given: float
    any_other: float
    by_size: float
    decided: int
    for_suggestion: float | None


def sections_named(tags: Iterable[str], mapping: Mapping[str, Sequence[str]]) -> frozenset[str]:
    """Return the sections that a package's tags support.

    >>> sorted(sections_named(["game::board", "game::TODO"], {"games": ["game::*"], "net": []}))
    ['games']
    """
    known = [tag for tag in tags if not tag.endswith("TODO")]
    return frozenset(
        section
        for section, patterns in mapping.items()
        if any(fnmatchcase(tag, pattern) for tag in known for pattern in patterns)
    )


def agreement(
    moved: pd.DataFrame, named: Mapping[str, frozenset[str]], sizes: Mapping[str, int]
) -> Agreement:
    """Return how tags agree with the packages that are to be `moved`.

    Args:
        moved: rows of an audit's issues, with ``name``, ``given`` and ``suggested``.
        named: the sections that each package's tags support.
        sizes: packages of each section of the graph.
    """
    rows = [(row.given, row.suggested, named[row.name] & set(sizes)) for row in moved.itertuples()]
    rows = [row for row in rows if row[2]]
    total = sum(sizes.values())
    split = [
        suggested in tagged
        for given, suggested, tagged in rows
        if len({given, suggested} & tagged) == 1
    ]
    return Agreement(
        packages=len(moved),
        usable=len(rows),
        suggested=mean(suggested in tagged for _, suggested, tagged in rows),
        given=mean(given in tagged for given, _, tagged in rows),
        any_other=mean(len(tagged - {given}) / (len(sizes) - 1) for given, _, tagged in rows),
        by_size=mean(
            sum(sizes[s] for s in tagged - {given}) / (total - sizes[given])
            for given, _, tagged in rows
        ),
        decided=len(split),
        for_suggestion=mean(split) if split else None,
    )


def share_of_given(
    kept: pd.DataFrame, named: Mapping[str, frozenset[str]], sections: Iterable[str]
) -> tuple[int, float]:
    """Return how many packages have usable tags, and the share where these name the section."""
    known = set(sections)
    hits = [row.given in tagged for row in kept.itertuples() if (tagged := named[row.name] & known)]
    return len(hits), mean(hits)


def run_audit(graph: str, title: str, *options: str) -> tuple[Json, pd.DataFrame]:
    """Run ``erase audit`` in a process of its own; return its record and the list of labels."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "erase", "audit", graph, *options, "--out", folder]
        load, start = os.getloadavg()[0], perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        seconds = perf_counter() - start
        if status:
            ended = os.waitstatus_to_exitcode(status)
            raise SystemExit(f"{' '.join(command)} ended with {ended}")
        summary = read_json(Path(folder) / "summary.json")
        issues = pd.read_csv(Path(folder) / "issues.csv", keep_default_na=False)
    settings = summary["settings"]
    moved = issues[issues["is_issue"] & (issues["verdict"] == "wrong")]
    pairs = Counter(zip(moved["given"], moved["suggested"], strict=True)).most_common(PAIRS)
    keys = ("nodes", "edges", "labels", "noise_rate", "flagged", "wrong", "cannot_tell")
    record = {
        "kind": "audit",
        "graph": title,
        "command": " ".join(["erase audit", title, *options]),
        "seconds": round(seconds, 1),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
        "peak_bytes": used.ru_maxrss * 1024,
        "load_before": round(load, 2),
        "cores": len(os.sched_getaffinity(0)),
        "machine": platform.machine(),
        **{key: summary[key] for key in keys},
        "expected_false_alarms": summary["expected_false_alarms"],
        "pairs": [[given, suggested, count] for (given, suggested), count in pairs],
        "method": settings["method"],
        "folds": settings["folds"],
        "versions": settings["versions"],
    }
    return record, issues


def measure(packages: Path) -> list[Json]:
    """Return the records: audits, agreement with tags, and the most suspicious packages."""
    with tempfile.TemporaryDirectory() as folder:
        index = Path(folder) / "index.npz"
        build = [
            sys.executable,
            "-m",
            "erase.data.datasets.build_debian",
            str(packages),
            str(index),
        ]
        subprocess.run([*build, "--as-graph"], check=True)
        # before the index is read: a child's peak counts what its parent held at the start
        few, _ = run_audit("debian", "debian")
        slice_, listed = run_audit("debian", "debian", "--all-labels")
        whole, all_listed = run_audit(str(index), "index.npz", "--all-labels")
    mapping = tomllib.loads(TAGS.read_text(encoding="utf-8"))
    tags = {package.name: package.tags for package in read_packages(packages)}
    named = {name: sections_named(own, mapping) for name, own in tags.items()}
    records = [few, slice_, whole]
    for graph, issues in (("debian", listed), ("index.npz", all_listed)):
        records += _agreements(graph, issues, named)
    records += _sides(all_listed, named)
    records += [
        {
            "kind": "package",
            "rank": rank,
            **{key: row[key] for key in ("name", "given", "suggested", "verdict")},
            "quality": round(row["quality"], 4),
            "tags": list(tags[row["name"]]),
            "tags_name": sorted(named[row["name"]] & set(listed["given"])),
        }
        for rank, row in enumerate(listed.head(SHOWN).to_dict("records"), 1)
    ]
    return records


def _agreements(
    graph: str, issues: pd.DataFrame, named: Mapping[str, frozenset[str]]
) -> Iterable[Json]:
    sizes = issues["given"].value_counts().to_dict()
    flagged = issues[issues["is_issue"]]
    moved = flagged[flagged["verdict"] == "wrong"]
    top = issues.head(SHOWN)
    parts = {"all flagged": moved, f"top {SHOWN}": top[top["verdict"] == "wrong"]}
    usable, share = share_of_given(issues[~issues["is_issue"]], named, sizes)
    for part, rows in parts.items():
        yield {
            "kind": "agreement",
            "graph": graph,
            "part": part,
            **asdict(agreement(rows, named, sizes)),
            "kept_usable": usable,
            "kept_given": share,
        }


def _sides(issues: pd.DataFrame, named: Mapping[str, frozenset[str]]) -> list[Json]:
    """Return, by given section, how often tags support the suggestion and not for the given."""
    moved = issues[issues["is_issue"] & (issues["verdict"] == "wrong")]
    sides: dict[str, list[bool]] = {}
    for row in moved.itertuples():
        if len({row.given, row.suggested} & named[row.name]) == 1:
            sides.setdefault(row.given, []).append(row.suggested in named[row.name])
    most = sorted(sides.items(), key=lambda item: (-len(item[1]), item[0]))[:PAIRS]
    return [
        {"kind": "side", "given": given, "decided": len(side), "for_suggestion": mean(side)}
        for given, side in most
    ]


def page(records: Sequence[Json], remarks: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the page; the same records and remarks give the same page."""
    audits = [record for record in records if record["kind"] == "audit"]
    agreements = [record for record in records if record["kind"] == "agreement"]
    sides = [record for record in records if record["kind"] == "side"]
    packages = [record for record in records if record["kind"] == "package"]
    by_command = {audit["command"]: audit for audit in audits}
    slice_, whole = by_command["erase audit debian --all-labels"], audits[-1]
    parts = [
        _introduction(slice_, whole),
        "## What it took",
        _costs(audits),
        "## What it found",
        _findings(slice_, whole),
        "## Comparison with Debian's tags",
        _about_tags(),
        _agreement_table(agreements),
        _reading(agreements, sides),
        f"## The {SHOWN} most suspicious packages of the slice",
        _look(packages, remarks),
        _package_table(packages, remarks),
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _introduction(slice_: Json, whole: Json) -> str:
    return f"""\
# Debian's packages, audited as they are

Made by `python benchmarks/debian_audit.py` from `benchmarks/records/debian.jsonl`; edit the remarks
in `benchmarks/debian_remarks.toml`, and nothing here.

The labels in question are real: the archive section that a maintainer chose for every package of
Debian 12. No noise is added, so the wrong sections are not known. Two graphs are audited: the
embedded slice ({slice_["labels"]:,} packages of 13 sections) and the whole index
({whole["labels"]:,} packages of 58, {whole["edges"]:,} relations). The model uses the words of
names and short descriptions, and the dependencies. Debian's debtags, which about half of all
packages have, take no part in the audit; its result is compared with them afterwards."""


def _costs(audits: Sequence[Json]) -> str:
    lines = [
        "| command | labels checked | wall time | CPU time | peak memory |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    lines += [
        f"| `{a['command']}` | {a['labels']:,} | {a['seconds']:.0f} s | {a['cpu_seconds']:.0f} s | "
        f"{a['peak_bytes'] / 1e9:.1f} GB |"
        for a in audits
    ]
    first = audits[0]
    loads = ", ".join(f"{a['load_before']:.1f}" for a in audits)
    note = (
        f"From the start of Python to the finished page, on {first['cores']} cores of "
        f"{first['machine']}; other work ran beside it (load before each: {loads}). Model: "
        f"`{first['method']}`, {first['folds']} folds; torch "
        f"{first['versions']['torch'].split('+')[0]}. `index.npz` is what "
        "`python -m erase.data.datasets.build_debian Packages index.npz --as-graph` writes."
    )
    return "\n".join(lines) + f"\n\n{note}"


def _findings(slice_: Json, whole: Json) -> str:
    def found(audit: Json) -> str:
        rate = audit["noise_rate"]
        return (
            f"{rate['value']:.1%} of the labels are wrong by the audit's own estimate (90 % "
            f"interval: {rate['low']:.1%} to {rate['high']:.1%}); {audit['flagged']:,} are "
            f"flagged, {audit['wrong']:,} of them with another section to suggest, and "
            f"{audit['expected_false_alarms']:.0%} of these alarms are expected to be false"
        )

    lines = [
        "| slice: given → suggested | | whole index: given → suggested | |",
        "| --- | ---: | --- | ---: |",
    ]
    for left, right in zip(slice_["pairs"], whole["pairs"], strict=False):
        lines.append(
            f"| {left[0]} → {left[1]} | {left[2]} | {right[0]} → {right[1]} | {right[2]} |"
        )
    return (
        f"Slice: {found(slice_)}. Whole index: {found(whole)}. These flags were made before "
        "packages whose own section is the most probable were exempted. The moves suggested most "
        "often:\n\n" + "\n".join(lines)
    )


def _about_tags() -> str:
    return """\
`benchmarks/debtags.toml` maps tags to sections: `game::*` to games, `works-with::audio` to sound,
`role::shared-lib` to libs, and so on. It was written from the names of tags and sections only, and
committed before any tag was compared with any suggestion. The tags of a package may support several
sections, or none: then they are not usable. As a baseline, the table also shows what a section
drawn at random among all but the given one would reach."""


def _agreement_table(agreements: Sequence[Json]) -> str:
    names = [f"{a['graph'].removesuffix('.npz')}, {a['part']}" for a in agreements]

    def row(title: str, cells: Iterable[str]) -> str:
        return f"| {title} | {' | '.join(cells)} |"

    def percent(key: str) -> list[str]:
        return ["–" if a[key] is None else f"{100 * a[key]:.0f} %" for a in agreements]

    return "\n".join(
        [
            row("", names),
            row("---", ["---:"] * len(agreements)),
            row("packages to move", (f"{a['packages']:,}" for a in agreements)),
            row(
                "… with usable tags",
                (f"{a['usable']:,} ({a['usable'] / a['packages']:.0%})" for a in agreements),
            ),
            row("**tags support the suggested section**", percent("suggested")),
            row("tags support the given section", percent("given")),
            row("… for any other section, at random", percent("any_other")),
            row("… for another section drawn by its size", percent("by_size")),
            row("tags support only one of the two", (f"{a['decided']:,}" for a in agreements)),
            row("… **and that is the suggestion**", percent("for_suggestion")),
            row(
                "packages not flagged, with usable tags",
                (f"{a['kept_usable']:,}" for a in agreements),
            ),
            row("… tags support their section", percent("kept_given")),
        ]
    )


def _reading(agreements: Sequence[Json], sides: Sequence[Json]) -> str:
    kept = ", ".join(f"{share:.0%}" for share in dict.fromkeys(a["kept_given"] for a in agreements))
    lines = ["| given section | tags support only one of the two | … for the suggestion |"]
    lines += ["| --- | ---: | ---: |"]
    lines += [f"| {s['given']} | {s['decided']} | {s['for_suggestion']:.0%} |" for s in sides]
    return (
        "Tags and sections do not always agree: even of packages that are not flagged, tags "
        f"support the section in {kept} only. Tags name what a package is for, while a section "
        "may follow another rule, as where all packages of one source are kept together. By "
        "given section, the largest groups of the whole index:\n\n" + "\n".join(lines)
    )


def _look(packages: Sequence[Json], remarks: Mapping[str, Mapping[str, Any]]) -> str:
    looked = [
        package
        for package in packages
        if package["name"] in remarks and package["given"] != package["suggested"]
    ]
    fits = Counter(_fitting(package, remarks[package["name"]]) for package in looked)
    return (
        f"Name, description and neighbours of the {len(looked)} packages with a suggestion were "
        f"read, knowing the suggestion: in {fits['suggested']} the suggested section fits "
        f"better, in {fits['both']} both fit, in {fits['given']} the given one does, in "
        f"{fits['neither']} neither. *Tags* are the sections of the slice that the package's "
        "debtags support; – where none is usable."
    )


def _fitting(package: Json, remark: Mapping[str, Any]) -> str:
    """Return which of the two sections a person finds fitting."""
    given, suggested = (package[key] in remark["fits"] for key in ("given", "suggested"))
    if given and suggested:
        return "both" if package["given"] != package["suggested"] else "given"
    return "suggested" if suggested else "given" if given else "neither"


def _package_table(packages: Sequence[Json], remarks: Mapping[str, Mapping[str, Any]]) -> str:
    lines = [
        "| | package | given | suggested | quality | tags | fits | remark |",
        "| ---: | --- | --- | --- | ---: | --- | --- | --- |",
    ]
    for package in packages:
        remark = remarks.get(package["name"])
        tags = ", ".join(package["tags_name"]) or "–"
        doubt = "" if package["verdict"] == "wrong" else f" ({package['verdict']})"
        fits = _fitting(package, remark) if remark else ""
        lines.append(
            f"| {package['rank']} | {package['name']} | {package['given']} | "
            f"{package['suggested']}{doubt} | {package['quality']:.3f} | {tags} | {fits} | "
            f"{remark['why'] if remark else ''} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("packages", nargs="?", type=Path, help="index; none: only the page")
    parser.add_argument("--records", type=Path, default=RECORDS, help="default: %(default)s")
    parser.add_argument("--out", type=Path, default=PAGE, help="default: %(default)s")
    options = parser.parse_args()
    if options.packages is not None:
        records = measure(options.packages)
        with atomic_write(options.records) as file:
            file.writelines(json.dumps(record) + "\n" for record in records)
    lines = options.records.read_text(encoding="utf-8").splitlines()
    remarks = tomllib.loads(REMARKS.read_text(encoding="utf-8")) if REMARKS.exists() else {}
    with atomic_write(options.out) as file:
        file.write(page([json.loads(line) for line in lines], remarks))


if __name__ == "__main__":
    main()
