"""Run cases of one group in this process, within limits; `fuzz.run` starts it.

A line of JSON for each finding goes to standard output. What is being tried is written to a file
first, so that a crash or a hang has its input.
"""

import faulthandler
import json
import resource
import signal
import sys
import traceback
import warnings
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

MOST_MEMORY = 2 * 2**30  # beyond what the libraries have mapped when they are loaded
MOST_SECONDS = 30  # of processor time for a case; `fuzz.run` sees one that waits


class TooSlow(BaseException):
    """A case took longer than it may; no code under test catches it."""


def run_group(name: str, cases: int, first: int, place: Path) -> dict[str, Any]:
    """Run `cases` cases of a group from number `first` on; return counts and findings."""
    from fuzz.ways_in import DRAWN, GROUPS, emptied

    group = GROUPS[name]
    findings: dict[str, dict[str, Any]] = {}
    done, most = 0, (_peak(), first)

    def attempt(source: Any, number: int) -> None:
        nonlocal done, most
        done += 1
        (place / "next.json").write_text(json.dumps({"group": name, "case": number}))
        (place / "next.json").replace(place / "trying.json")  # whole, whenever we are killed
        signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                group(source, emptied(place / "case"))
        except TooSlow:
            _note(findings, name, number, "TooSlow", place)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:
            if type(error).__module__.startswith("hypothesis"):
                raise
            _note(findings, name, number, type(error).__name__, place)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            most = max(most, (_peak(), number), key=lambda each: each[0])

    if name in DRAWN:

        @seed(first)
        @settings(
            max_examples=cases,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(data=st.data())
        def search(data: Any) -> None:
            attempt(data, first + done)

        search()
    else:
        for number in range(first, first + cases):
            attempt(Random(f"{name} {number}"), number)
    peak, at = most
    found = list(findings.values())
    return {"group": name, "cases": done, "findings": found, "peak": peak, "peak_at": at}


def _note(findings: dict[str, Any], name: str, number: int, kind: str, place: Path) -> None:
    """Keep the first finding at each place in the source."""
    trace = traceback.extract_tb(sys.exc_info()[2])
    ours = [each for each in trace if "/erase/" in each.filename or "/fuzz/" in each.filename]
    where = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "?"
    key = f"{kind} at {where}"
    if key not in findings:
        text = traceback.format_exc()[-3000:]
        findings[key] = {"group": name, "case": number, "what": key, "trace": text, "times": 0}
        print(json.dumps({"finding": findings[key]}), flush=True)
    findings[key]["times"] += 1


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _too_slow(*_: Any) -> None:
    raise TooSlow


def set_limits() -> None:
    """Limit the address space of this process to what it has and `MOST_MEMORY`; watch the time."""
    signal.signal(signal.SIGPROF, _too_slow)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MOST_MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def main() -> None:
    """Run the group that the command line names: GROUP CASES FIRST FOLDER."""
    name, cases, first, place = sys.argv[1:]
    faulthandler.enable()
    import erase.bench.figures
    import erase.bench.tune  # noqa: F401
    from fuzz.ways_in import whole_files

    whole_files()
    set_limits()
    print(json.dumps(run_group(name, int(cases), int(first), Path(place))), flush=True)


if __name__ == "__main__":
    main()
