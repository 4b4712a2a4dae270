"""Licences and versions of what `erase` installs, from the metadata of installed packages.

    python tools/dependencies.py                              # pins, licences; status 1 if wrong
    python tools/dependencies.py --write docs/dependencies.md # and the table
    python tools/dependencies.py --vulnerabilities            # known ones of the pins, by pip-audit

Nothing but the last needs a network.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from release import environment, run

ROOT = Path(__file__).parent.parent
OWN = "graph-erase"
EXTRAS = ("parquet", "ogb", "cluster", "tune", "review", "bench")
# licences that a program under the MIT licence may depend on; words of their names
ALLOWED = (
    "mit", "bsd", "apache", "isc", "psf", "python", "mpl", "hpnd", "cmu", "unlicense", "zlib",
    "0bsd", "boost", "cc0", "public domain",
)  # fmt: skip
# libraries of NVIDIA, and triton: builds of torch for GPUs bring them, in versions that torch names
OF_GPUS = re.compile(r"(nvidia|cuda)-.+|triton")


class Row(NamedTuple):
    """A package: its name, version, licence, and the extras that need it ("" is the package)."""

    name: str
    version: str
    licence: str
    needed_by: tuple[str, ...]


def requirements(name: str, extra: str) -> Iterator[Requirement]:
    """Yield what an installed package requires for an extra ("" without one)."""
    texts = _own(extra) if name == OWN else distribution(name).requires or ()
    for text in texts:
        needed = Requirement(text)
        if name == OWN:
            yield needed
            continue
        marker = needed.marker
        if marker is None or marker.evaluate({"extra": extra}):
            if extra and (marker is None or marker.evaluate({"extra": ""})):
                continue  # not because of the extra
            yield needed


def _own(extra: str) -> list[str]:
    """Return the requirements of this checkout."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found: list[str] = project["optional-dependencies"][extra] if extra else project["dependencies"]
    return found


def closure(extra: str) -> set[str]:
    """Return every package that the package, or one of its extras, needs, directly or not.

    Without what only some builds of torch need, so that it is the same on every machine.
    """
    found: set[str] = set()
    waiting = [(OWN, extra)]
    seen: set[tuple[str, str]] = set()
    while waiting:
        name, part = waiting.pop()
        if (name, part) in seen:
            continue
        seen.add((name, part))
        try:
            needs = list(requirements(name, part))
        except PackageNotFoundError:
            continue
        for needed in needs:
            other = canonicalize_name(needed.name)
            if OF_GPUS.fullmatch(other):
                continue
            if other != OWN:
                found.add(other)
            waiting += [(other, each) for each in ("", *needed.extras) if other != OWN or each]
    return found


def licence_of(package: Distribution) -> str:
    """Return the licence that a package declares: its expression, classifiers or text."""
    about = package.metadata
    classifiers = [text for text in about.get_all("Classifier") or () if "License" in text]
    named = [text.rsplit("::", 1)[-1].strip() for text in classifiers]
    named = [text for text in named if text != "OSI Approved"]
    (text, *_) = about.get_all("License") or [""]
    (expression, *_) = about.get_all("License-Expression") or [""]
    first = text.strip().splitlines() or [""]
    found = expression or ", ".join(named) or first[0]
    return " ".join(found.split())[:60] or "not declared"


def rows() -> list[Row]:
    """Return a row for every installed package that the package or an extra needs."""
    needed: dict[str, list[str]] = {}
    base = closure("")
    for extra in ("", *EXTRAS):
        for name in closure(extra):
            if not extra or name not in base:
                needed.setdefault(name, []).append(extra)
    found = []
    for name, by in sorted(needed.items()):
        try:
            package = distribution(name)
        except PackageNotFoundError:  # of another platform
            continue
        plain = package.version.split("+")[0]
        found.append(Row(name, plain, licence_of(package), tuple(by)))
    return found


def pins(path: Path) -> dict[str, str]:
    """Return the versions that a file of constraints has."""
    lines = path.read_text(encoding="utf-8").splitlines()
    named = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in named}


def problems(found: list[Row]) -> list[str]:
    """Return what is wrong: no pin, an oldest version out of range, a licence not allowed."""
    newest, oldest = pins(ROOT / "constraints.txt"), pins(ROOT / "constraints-oldest.txt")
    wrong = [f"{row.name} has no pin in constraints.txt" for row in found if row.name not in newest]
    for row in found:
        if not any(re.search(rf"\b{word}", row.licence, re.I) for word in ALLOWED):
            wrong.append(f"{row.name} has the licence {row.licence!r}")
    for extra in ("", *EXTRAS):
        for needed in requirements(OWN, extra):
            name = canonicalize_name(needed.name)
            if name == OWN:
                continue
            lowest = [each.version for each in needed.specifier if each.operator == ">="]
            due = oldest.get(name)
            if name != "torch" and (not lowest or due is None):
                wrong.append(f"{name} has no oldest version")
            elif due is not None and due not in needed.specifier:
                wrong.append(f"{name} {due} of constraints-oldest.txt is not in {needed.specifier}")
            elif due is not None and _series(due) != _series(lowest[0]):
                wrong.append(f"{name}: {due} is tested as the oldest, {lowest[0]} is promised")
            if newest.get(name) and newest[name] not in needed.specifier:
                wrong.append(f"{name} {newest[name]} of constraints.txt is not in its range")
    return wrong


def _series(text: str) -> tuple[int, ...]:
    """Return the first two numbers of a version."""
    return (*Version(text).release, 0)[:2]


def page(found: list[Row]) -> str:
    """Return the page of the documentation."""
    lines = [
        "# Dependencies",
        "",
        "What `pip install graph-erase` and its extras install, with the versions that are tested",
        "and the licences that the packages declare. `make audit` makes this page from the",
        "installed metadata, and looks for known vulnerabilities of these versions with pip-audit.",
        "Builds of torch for GPUs also install NVIDIA's libraries (`nvidia-…`, `cuda-…`, most",
        "of them under NVIDIA's own licence) and triton (MIT), in the versions that torch names.",
        "",
        "| Package | Version | Licence | Needed by |",
        "| --- | --- | --- | --- |",
    ]
    for row in found:
        by = ", ".join(f"`{each}`" if each else "the package" for each in row.needed_by)
        lines.append(f"| {row.name} | {row.version} | {row.licence} | {by} |")
    return "\n".join([*lines, ""])


def vulnerabilities() -> int:
    """Print what pip-audit knows of the pins; return 1 for a finding, or a pin it cannot look up.

    It is installed in an environment of its own: a check does not change what it checks.
    """
    with tempfile.TemporaryDirectory(prefix="erase-audit-") as folder:
        place = Path(folder).resolve()
        programs = environment(place / "tools")
        run(programs / "python", "-m", "pip", "install", "--quiet", "pip-audit", cwd=place)
        words: list[str | Path] = [programs / "python", "-m", "pip_audit"]
        words += ["--requirement", ROOT / "constraints.txt", "--no-deps", "--disable-pip"]
        words += ["--progress-spinner", "off", "--format", "json", "--output", place / "found.json"]
        subprocess.run(list(map(str, words)), cwd=place, check=False)
        if not (place / "found.json").exists():
            print("pip-audit did not finish")
            return 1
        told = json.loads((place / "found.json").read_text(encoding="utf-8"))["dependencies"]
    lines = findings(told)
    print("\n".join(lines) or f"{len(told)} pins: no known vulnerability")
    return 1 if lines else 0


def findings(told: list[dict[str, Any]]) -> list[str]:
    """Return a line for each known vulnerability, and one for pins that were not looked up."""
    lines = []
    for each in told:
        for known in each.get("vulns", []):
            mended = ", ".join(known["fix_versions"]) or "no version yet"
            lines.append(f"{each['name']} {each['version']}: {known['id']}, mended in {mended}")
    unknown = [each["name"] for each in told if "skip_reason" in each]
    if unknown:
        lines.append(f"{len(unknown)} of {len(told)} not looked up: {', '.join(unknown)}")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, metavar="FILE")
    parser.add_argument("--vulnerabilities", action="store_true")
    asked = parser.parse_args()
    if asked.vulnerabilities:
        return vulnerabilities()
    found = rows()
    if asked.write:
        asked.write.write_text(page(found), encoding="utf-8")
    wrong = problems(found)
    print("\n".join(wrong) or f"{len(found)} packages: all pinned, licences known")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
