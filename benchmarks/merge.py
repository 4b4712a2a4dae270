"""Put records that were made elsewhere into the records of this repository.

    python benchmarks/merge.py FILE …

Every study of `benchmarks/records` takes from the files what it consists of: a run that several
studies share was made once. A record replaces that of the same run if its code is the present one.
"""

import argparse
from collections.abc import Iterable
from pathlib import Path

from erase.bench.digests import code_of
from erase.bench.records import Cell, Record, read
from erase.bench.studies import STUDIES
from erase.data.files import atomic_write

RECORDS = Path(__file__).parent / "records"


def joining(made: Iterable[Record], cells: Iterable[Cell]) -> dict[Cell, Record]:
    """Return the records `made` elsewhere that join a study of these `cells`."""
    wanted = set(cells)
    return {
        record.cell: record
        for record in made
        if record.cell in wanted and record.error is None and record.code == code_of(record.cell)
    }


def main() -> None:
    """Merge the files that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    made = [record for file in parser.parse_args().files for record in read(file)]
    for name, study in STUDIES.items():
        path = RECORDS / f"{name}.jsonl"
        if study.keep_embeddings or study.shift:  # their records need more than the runs of others
            continue
        joined = joining(made, study.cells())
        if not joined:
            continue
        before = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        lines = {Record.from_json(line).cell: line for line in before}
        lines |= {cell: record.to_json() for cell, record in joined.items()}
        with atomic_write(path) as file:
            file.writelines(f"{line}\n" for line in lines.values())
        print(f"{path.name}: {len(joined)} of {len(made)} records")


if __name__ == "__main__":
    main()
