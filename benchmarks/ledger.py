"""The records behind the results page: runs planned and made, their code, and their commands."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from erase.bench.digests import code_of
from erase.bench.names import dataset_label
from erase.bench.records import Cell, Record, described
from erase.bench.studies import STUDIES
from erase.bench.tables.build import NOT_HERE
from grids import grid

SHOWN = [study for study in STUDIES if study != "smoke"]
# only when some are here
LISTED_WITH_RECORDS = (
    *("annotators", "annotators-split", "featureless", "inductive", "noises", "review"),
    "witnesses",
)
TF32 = ", TF32 products"
_STALE = """\
> Runs of {} here were made in TF32 by a version whose classifier lost digits in it: on
> Cora with half of the labels wrong in one direction it had 48.2 % instead of 46.0, and 46.0 %
> instead of 30.0 without propagation. These runs are due to be repeated."""


def runs_made(records: Mapping[str, Sequence[Record]]) -> str:
    """Return how many runs each study consists of, and how many of them are here."""
    head = ["study", "what", "protocol", "runs", "here", "missing", "failed", "code since"]
    rows = [
        _runs_of(study, records.get(study, ()))
        for study in SHOWN
        if study in records or study not in LISTED_WITH_RECORDS
    ]
    return grid(head, rows, numbers=(3, 4, 5, 6))


def studies_of_the_page(records: Mapping[str, Sequence[Record]]) -> list[str]:
    """Return the studies that are here, or should be: their data is at hand."""
    return [
        study
        for study in SHOWN
        if study in records or not (study in LISTED_WITH_RECORDS or _lacks_data(study))
    ]


def _lacks_data(study: str) -> bool:
    return {cell.dataset for cell in _planned(study)} <= set(NOT_HERE)


def _runs_of(study: str, records: Sequence[Record]) -> list[str]:
    planned = _planned(study)
    protocols = dict.fromkeys(cell.protocol for cell in planned)
    failed = sum(record.error is not None for record in records)
    missing = len(_missing(study, _finished(records)))
    counts = [len(planned), len(planned) - missing, missing, failed]
    summary = STUDIES[study].summary
    if _lacks_data(study):
        summary += ": data not available here"
    names = ", ".join(f"`{protocol}`" for protocol in protocols)
    return [f"`{study}`", summary, names, *map(str, counts), code_since(records)]


def code_since(records: Iterable[Record]) -> str:
    """Return whether the code that records depend on has changed since they were made."""
    found = Counter(map(_code_since, records))
    if len(found) < 2:
        return "".join(found)
    return ", ".join(f"{state} ({found[state]})" for state in sorted(found))


def _code_since(record: Record) -> str:
    if not record.code:
        return "made before digests"
    return "unchanged" if record.code == code_of(record.cell) else "changed"


@cache
def _planned(study: str) -> list[Cell]:
    return STUDIES[study].cells()


def _finished(records: Iterable[Record]) -> set[Cell]:
    return {record.cell for record in records if record.error is None}


def _missing(study: str, here: set[Cell]) -> list[Cell]:
    planned = _planned(study)
    return [cell for cell in planned if cell not in here] if here else planned


def gaps(records: Mapping[str, Sequence[Record]]) -> list[str]:
    """Return what is missing of studies that were begun: a line for each."""
    lines = []
    for study in SHOWN:
        here = _finished(records.get(study, ()))
        if here and (missing := _missing(study, here)):
            lines.append(f"- `{study}` lacks {len(missing)} runs: {_listed(missing)}.")
    return lines


def _listed(missing: Iterable[Cell]) -> str:
    """Return what cells are about: methods with their changes, datasets, how many of them."""
    places: dict[str, Counter[str]] = {}
    for cell in missing:
        what = described(cell.method, cell.params)
        places.setdefault(what, Counter())[dataset_label(cell.dataset)] += 1
    return "; ".join(
        f"{what} on {', '.join(datasets)} ({datasets.total()})" for what, datasets in places.items()
    )


def commands(records: Mapping[str, Sequence[Record]]) -> str:
    """Return which command made which records, on which machine; a run counts once."""
    rows = []
    seen: set[str] = set()
    for study, of_study in records.items():
        lines = {record.to_json(): record for record in of_study}
        found = [record for line, record in lines.items() if line not in seen]
        seen |= lines.keys()
        for machine in sorted({record.machine for record in found}):
            made = [record for record in found if record.machine == machine]
            hours = sum(record.seconds or 0 for record in made) / 3600
            versions = sorted({" ".join(map(" ".join, r.versions.items())) for r in made})
            command = f"`erase bench {study}{_options(machine)}`"
            rows.append([command, f"{len(made)}", f"{hours:.2f} h", machine, "; ".join(versions)])
    return grid(["command", "runs", "training", "machine", "versions"], rows, numbers=(1, 2))


def _options(machine: str) -> str:
    """Return the options of `erase bench` that lead to the machine of a record."""
    if "NVIDIA" not in machine:
        return ""
    return " --device cuda" + (" --precision tf32" if machine.endswith(TF32) else "")


def is_stale(record: Record) -> bool:
    """Return whether a run of ERASE or MCR² is of the version whose classifier lost digits in TF32.

    That version wrote no digest of any kind.
    """
    in_tf32 = record.cell.method in ("erase", "mcr2") and record.machine.endswith(TF32)
    return in_tf32 and not record.code and "source" not in record.versions


def stale_note(methods: Sequence[str]) -> str:
    """Return the warning that stands at the head of a table with such runs of some methods."""
    return _STALE.format(" and ".join(methods))
