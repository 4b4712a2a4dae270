"""Write digests by the present rule into records that a commit's source made.

    python benchmarks/redigest.py COMMIT

For use where `erase.bench.digests` counts code in another way than before. A record whose digest is
that of COMMIT's code, by COMMIT's own rule, gets the digest of the same code by the present rule.
All other records stay as they are.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from erase.bench.digests import digest, where_code_begins
from erase.bench.records import Record, read
from erase.data.files import atomic_write

HERE = Path(__file__).parent
RECORDS = HERE / "records"

# reads a cell as JSON from each line, and writes its digest
THEIR_RULE = """
import json, sys
from erase.bench.digests import code_of
from erase.bench.records import Cell
for line in sys.stdin:
    print(code_of(Cell(**json.loads(line))))
"""


@contextmanager
def checkout(commit: str) -> Iterator[Path]:
    """Check a commit out into a folder of its own."""
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "source"
        git = ["git", "-C", str(HERE), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(folder), commit], check=True)
        try:
            yield folder
        finally:
            subprocess.run([*git, "remove", "--force", str(folder)], check=True)


def renewed(records: Sequence[Record], source: Path) -> list[Record]:
    """Return the records, with new digests where the code in the folder `source` made them."""
    cells = "".join(json.dumps(dict(record.cell.fields)) + "\n" for record in records)
    theirs = subprocess.run(
        [sys.executable, "-c", THEIR_RULE],
        input=cells,
        env={**os.environ, "PYTHONPATH": str(source / "src")},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    return [
        replace(record, code=digest(*where_code_begins(record.cell), source / "src" / "erase"))
        if record.code == code
        else record
        for record, code in zip(records, theirs, strict=True)
    ]


def main() -> None:
    """Renew the digests in all files of records."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commit")
    with checkout(parser.parse_args().commit) as source:
        for path in sorted(RECORDS.glob("*.jsonl")):
            lines = path.read_text(encoding="utf-8").splitlines()
            if not any('"code": "' in line and '"protocol"' in line for line in lines):
                continue
            before = read(path)
            after = renewed(before, source)
            changed = {new.cell: new for old, new in zip(before, after, strict=True) if old != new}
            if changed:
                cells = [Record.from_json(line).cell for line in lines]
                with atomic_write(path) as file:
                    file.writelines(
                        f"{changed[cell].to_json() if cell in changed else line}\n"
                        for cell, line in zip(cells, lines, strict=True)
                    )
            print(f"{path.name}: {len(changed)} of {len(before)} records")


if __name__ == "__main__":
    main()
