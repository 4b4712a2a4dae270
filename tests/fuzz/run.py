"""`make fuzz`: thousands of malformed inputs through every way into the package.

Each group of cases runs in worker processes with limits of memory and time. A worker that crashes
or hangs is a finding with the case it was at, and the next one goes on behind it. Exit status 1 if
there are findings, or a worker took more than two gigabytes. One case again:
`python -m fuzz.worker GROUP 1 CASE FOLDER`.
"""

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

GROUPS = {  # shares of the cases
    "pyg_data": 16, "given_arrays": 12, "pandas_tables": 8, "networkx_graphs": 6, "arguments": 10,
    "graph_files": 14, "converted_folders": 12, "models_and_audits": 8, "checkpoints": 4,
    "records_and_studies": 6, "reviews_and_searches": 4, "command_line": 4, "review_requests": 4,
}  # fmt: skip
AT_ONCE = 200  # cases of a worker
MOST_PEAK = 2.0  # GB of a worker
STALLED = 300  # seconds at one case before a worker counts as hung


def run_worker(group: str, cases: int, first: int) -> dict[str, Any]:
    """Run a worker, and others behind a case that ended it; return counts and findings."""
    total: dict[str, Any] = {"group": group, "cases": 0, "findings": [], "peak": 0, "seconds": 0.0}
    total["peak_at"] = first
    end, start = first + cases, time.monotonic()
    while first < end:
        with tempfile.TemporaryDirectory(prefix="erase-fuzz-") as folder:
            command = [sys.executable, "-m", "fuzz.worker", group, f"{end - first}", f"{first}"]
            environment = os.environ | {"OMP_NUM_THREADS": "1", "XDG_CACHE_HOME": folder}
            trying = Path(folder) / "trying.json"
            with tempfile.TemporaryFile("w+") as printed, tempfile.TemporaryFile("w+") as failed:
                process = subprocess.Popen(
                    [*command, folder], env=environment, stdout=printed, stderr=failed
                )
                status = _wait(process, trying)
                output, errors = _text(printed), _text(failed)
            lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
            if status == 0 and lines:
                result = lines[-1]
                total["cases"] += result["cases"]
                total["findings"] += result["findings"]
                if result["peak"] > total["peak"]:
                    total["peak"], total["peak_at"] = result["peak"], result["peak_at"]
                break
            total["findings"] += [line["finding"] for line in lines if "finding" in line]
            at = json.loads(trying.read_text())["case"] if trying.exists() else end
            what = f"the process ended with status {status}"
            total["findings"].append(
                {
                    "group": group,
                    "case": at,
                    "what": what,
                    "trace": errors.split("Extension modules")[0][-3000:],
                    "times": 1,
                }
            )
            total["cases"] += at + 1 - first
            first = at + 1
    total["seconds"] = time.monotonic() - start
    return total


def _wait(process: "subprocess.Popen[bytes]", trying: Path) -> int:
    """Return the exit status of a worker; one that stays at a case is aborted, with its stack."""
    start = time.time()
    while True:
        try:
            return process.wait(1)
        except subprocess.TimeoutExpired:
            # loading everything may take long on a busy machine
            since = trying.stat().st_mtime if trying.exists() else start + 3 * STALLED
            if time.time() - since > STALLED:
                process.send_signal(signal.SIGABRT)
                return process.wait()


def _text(file: IO[str]) -> str:
    file.seek(0)
    return file.read()


def main() -> int:
    """Run all groups, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--group", choices=list(GROUPS), help="only this one")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args()
    shares = {asked.group: 1} if asked.group else GROUPS
    start = time.monotonic()
    work = []
    for group, share in shares.items():
        count = -(-asked.cases * share // sum(shares.values()))
        for first in range(0, count, AT_ONCE):
            work.append((group, min(AT_ONCE, count - first), asked.first + first))
    results, findings = [], set()
    with ThreadPoolExecutor(asked.jobs) as pool:
        for result in pool.map(lambda each: run_worker(*each), work):
            results.append(result)
            for found in result["findings"]:
                if (found["group"], found["what"]) not in findings:
                    findings.add((found["group"], found["what"]))
                    print(f"{found['group']} {found['case']}: {found['what']}\n{found['trace']}\n")
                    sys.stdout.flush()
    for group in shares:
        own = [result for result in results if result["group"] == group]
        count, took = sum(each["cases"] for each in own), sum(each["seconds"] for each in own)
        most = max(own, key=lambda each: each["peak"])
        print(
            f"{group}: {count} cases, {took:.0f} s in its processes, "
            f"{most['peak'] / 1e9:.1f} GB at case {most['peak_at']}"
        )
    cases = sum(result["cases"] for result in results)
    peak = max(result["peak"] for result in results) / 1e9
    seconds = time.monotonic() - start
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"{cases} cases, {len(findings)} findings, {peak:.1f} GB at most, {seconds:.0f} s, "
        f"{used.ru_utime + used.ru_stime:.0f} s of processor time"
    )
    if peak > MOST_PEAK:
        print(f"A case took more than {MOST_PEAK} GB.")
    return 1 if findings or peak > MOST_PEAK else 0


if __name__ == "__main__":
    raise SystemExit(main())
