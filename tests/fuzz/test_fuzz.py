"""A fifth of `make fuzz`, and a slice of `make crash`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import forked
from fuzz.run import GROUPS
from fuzz.ways_in import DRAWN
from fuzz.ways_in import GROUPS as WAYS_IN

TESTS = Path(__file__).parents[1]


def module(*words: str, **variables: str) -> str:
    """Run a module of the fuzzer, and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", *words],
        env=os.environ | {"PYTHONPATH": f"{TESTS}:{os.environ.get('PYTHONPATH', '')}"} | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("group", list(GROUPS))
def test_odd_input_ends_in_success_or_an_error_of_ours(group: str, tmp_path: Path) -> None:
    cases = GROUPS[group] * 2_000 // sum(GROUPS.values())
    script = (
        f"import sys; sys.path.insert(0, {str(TESTS)!r})\n"
        "import json, pathlib\n"
        "from fuzz import worker, ways_in\n"
        "ways_in.whole_files()\n"
        "worker.set_limits()\n"
        "group, cases, place = sys.argv[1:]\n"
        "print(json.dumps(worker.run_group(group, int(cases), 0, pathlib.Path(place))))\n"
    )
    done = forked.run(script, group, str(cases), str(tmp_path))
    assert done.returncode == 0, done.stderr
    (result,) = (json.loads(line) for line in done.stdout.splitlines() if '"cases"' in line)
    assert result["findings"] == []
    assert result["cases"] >= cases
    assert result["peak"] < 2e9


def test_every_way_in_has_its_share() -> None:
    assert set(GROUPS) == set(WAYS_IN) > set(DRAWN)


@pytest.mark.slow
def test_a_few_crashes() -> None:
    assert "0 failed" in module("fuzz.crash", "--moments", "2", OMP_NUM_THREADS="1")
