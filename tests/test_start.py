"""What `import erase` and light commands do, and do not do, to the process they are in."""

import os
import subprocess
import sys
import time

import pytest

import erase
import forked


def fresh(code: str, **variables: str) -> str:
    """Return what a new interpreter prints."""
    kept = {k: v for k, v in os.environ.items() if k not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    command = [sys.executable, "-c", code]
    output = subprocess.run(
        command, check=True, capture_output=True, text=True, env=kept | variables
    )
    return output.stdout.strip()


def test_importing_loads_nothing_heavy() -> None:
    code = "import erase, sys; print(sorted({'torch', 'numpy', 'sklearn'} & set(sys.modules)))"
    assert fresh(code) == "[]"


def test_importing_changes_no_filter_of_warnings_for_others() -> None:
    code = "import erase.methods, warnings; print('Sparse' in str(warnings.filters))"
    done = forked.run(code)
    assert done.stdout.strip() == "False", done.stderr


HEAVY = ["torch", "torch_geometric", "sklearn", "pandas", "scipy", "matplotlib", "numpy"]
COMMANDS = ("demo", "audit", "review", "fit", "convert", "tune", "bench", "table", "figure", "list")
KINDS = ("methods", "detectors", "datasets", "noises", "encoders", "heads", "presets", "studies",
         "tables", "figures", "protocols")  # fmt: skip
LIGHT = [
    ["--help"],
    ["--version"],
    ["list"],
    *(["list", kind] for kind in KINDS),
    *([command, "--help"] for command in COMMANDS),
]


def test_help_and_lists_load_nothing_heavy() -> None:
    code = f"""
import sys
from erase.cli import main
for words in {LIGHT}:
    assert main(words) == 0, words
    loaded = sorted(set({HEAVY}) & set(sys.modules))
    assert not loaded, (words, loaded)
print("light")
"""
    assert fresh(code).endswith("light")


@pytest.mark.parametrize("words", [["--help"], ["list", "methods"], ["fit", "--help"]])
def test_help_and_lists_start_at_once(words: list[str]) -> None:
    """A third of a second on an idle machine; torch alone takes several."""

    def seconds() -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "erase", *words], check=True, capture_output=True)
        return time.perf_counter() - start

    assert any(seconds() < 3 for _ in range(5))  # another program may slow one down


def test_every_public_name_is_there_when_asked_for() -> None:
    for name in erase.__all__:
        assert getattr(erase, name) is getattr(erase, name)
    assert set(erase.__all__) < set(dir(erase))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = erase.nothing


def test_packages_are_there_after_a_plain_import() -> None:
    code = """
import erase
print(erase.methods.METHODS["gce"].__name__, erase.nn.rate_reduction_loss.__name__)
print(erase.bench.Protocol.__name__, {"methods", "nn", "bench"} <= set(dir(erase)))
"""
    assert fresh(code).split() == ["GCE", "rate_reduction_loss", "Protocol", "True"]


def test_idle_threads_do_not_spin_for_long() -> None:
    code = "import erase, os; print(os.environ.get('GOMP_SPINCOUNT'))"
    assert fresh(code) == "1000"


@pytest.mark.parametrize("variable", ["GOMP_SPINCOUNT", "OMP_WAIT_POLICY"])
def test_what_the_user_says_about_waiting_threads_stands(variable: str) -> None:
    code = "import erase, os; print(os.environ.get('GOMP_SPINCOUNT'))"
    assert fresh(code, **{variable: "7"}) == ("7" if variable == "GOMP_SPINCOUNT" else "None")


def test_the_setting_is_in_time_for_torch() -> None:
    """The OpenMP library that torch loads reads it: GNU's prints what it read."""
    code = "import erase; import torch; torch.ones(1 << 20).sum()"
    environment = {"OMP_DISPLAY_ENV": "VERBOSE"}
    kept = {k: v for k, v in os.environ.items() if k not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    output = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        env=kept | environment,
    )
    if "GOMP_SPINCOUNT" not in output.stderr:
        pytest.skip("torch's OpenMP library is not GNU's")
    assert "GOMP_SPINCOUNT = '1000'" in output.stderr


@pytest.mark.parametrize("first", ["pass", "import erase.audit.result"])
def test_audit_is_a_function_whatever_was_imported_before(first: str) -> None:
    code = f"""
import inspect
import erase
{first}
from torch_geometric.data import Data
nodes = range(24)
edges = [[u, v] for u in nodes for v in nodes if u != v and u // 12 == v // 12]
graph = Data(x=[[u // 12, 1 - u // 12] for u in nodes], edge_index=list(zip(*edges)), y=[0] * 24)
graph.y = [u // 12 for u in nodes[:-1]] + [0]
found = erase.audit(graph, method="label-propagation", folds=3, max_false_alarms=0.5)
print(len(found.issues), next(iter(inspect.signature(erase.audit).parameters)))
"""
    done = forked.run(code)
    assert done.stdout.strip() == "24 graph", done.stderr
