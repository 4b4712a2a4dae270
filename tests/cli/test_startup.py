import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from erase.cli.startup import import_without


@pytest.mark.parametrize(
    ("uses", "loaded"),
    [
        ("", False),
        ("answer = later_on.ANSWER", True),
        ("from later_on.part import ANSWER", True),
        ("assert not hasattr(later_on, '__wrapped__')", False),
    ],
    ids=["nothing", "name", "part", "inspection"],
)
def test_a_package_is_imported_without_a_module_unless_it_needs_it_at_once(
    uses: str, loaded: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "later_on").mkdir()
    (tmp_path / "later_on" / "__init__.py").write_text("from later_on.part import ANSWER\n")
    (tmp_path / "later_on" / "part.py").write_text("ANSWER = 42\n")
    (tmp_path / "asker").mkdir()
    (tmp_path / "asker" / "__init__.py").write_text("import asker.first\n")
    (tmp_path / "asker" / "first.py").write_text(f"import later_on\n{uses}\n")
    monkeypatch.syspath_prepend(tmp_path)
    try:
        import_without("asker", "later_on")
        assert import_module("asker").first
        assert ("later_on.part" in sys.modules) == loaded
        assert import_module("later_on").ANSWER == 42
        import_without("asker", "later_on")  # both are there
        assert import_module("later_on").part.ANSWER == 42
    finally:
        for name in ("later_on", "later_on.part", "asker", "asker.first"):
            sys.modules.pop(name, None)


def test_a_command_does_not_load_torchs_compiler_until_it_is_asked_for() -> None:
    program = """
import sys
from erase.cli.options import set_arithmetic
set_arithmetic("float32", False)
from erase.audit import audit
import torch
print("torch._dynamo.symbolic_convert" in sys.modules)
from torch_geometric.isinstance import is_torch_instance
print(is_torch_instance(torch.nn.Linear(1, 1), torch.nn.Linear))
print(torch.compile(lambda x: x + 1, backend="eager")(torch.ones(1)).item())
print("torch._dynamo.symbolic_convert" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert done.stdout.split() == ["False", "True", "2.0", "True"]


def test_imports_of_a_command_are_never_searched_for_garbage() -> None:
    program = """
import gc
from erase.cli.options import set_arithmetic
from erase.cli.startup import starting
collections = sum(each["collections"] for each in gc.get_stats())
set_arithmetic("float32", False)
print(sum(each["collections"] for each in gc.get_stats()) - collections)
print(gc.isenabled(), gc.get_freeze_count() > 100_000)
count = gc.get_freeze_count()
with starting():
    kept = [[] for _ in range(100_000)]
print(gc.isenabled(), gc.get_freeze_count() == count)
gc.disable()
with starting():
    pass
print(gc.isenabled())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert done.stdout.split() == ["0", "True", "True", "True", "True", "False"]


def test_a_command_loads_of_pyg_only_what_it_needs() -> None:
    program = """
import sys
from erase.cli.options import set_arithmetic
set_arithmetic("float32", False)
from erase.audit import audit
from erase.data.datasets import load_dataset
load_dataset("debian")
parts = ("datasets.web_qsp_dataset", "explain", "llm", "nn", "profile", "transforms.knn_graph")
print([part for part in parts if f"torch_geometric.{part}" in sys.modules])
import torch_geometric
from torch_geometric import datasets
from torch_geometric.transforms import KNNGraph
print(torch_geometric.nn.GCNConv(3, 2))
print(torch_geometric.datasets.KarateClub.__name__, len(datasets.homo_datasets) > 50)
print(KNNGraph is torch_geometric.transforms.KNNGraph, torch_geometric.explain.Explanation.__name__)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    expected = "[]\nGCNConv(3, 2)\nKarateClub True\nTrue Explanation\n"
    assert done.stdout == expected, done.stderr


def test_a_command_does_not_load_scipys_statistics_until_they_are_used() -> None:
    program = """
import sys
from erase.cli.options import set_arithmetic
from erase.cli.startup import starting
set_arithmetic("float32", False)
with starting():
    from erase.audit import audit
    import erase.audit.report.audit_page
    from scipy.stats import beta, rankdata
print([name for name in sys.modules if name.startswith("scipy.stats")])
print(beta.ppf(0.5, 1, 1), rankdata([7, 5]).tolist(), hasattr(beta, "__wrapped__"))
import scipy.stats
print(scipy.stats.beta.ppf(0.5, 1, 1), scipy.stats.rankdata is not rankdata)
from sklearn.preprocessing import quantile_transform
print(quantile_transform([[1.0], [2.0], [3.0]], n_quantiles=3, output_distribution="normal")[1])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    expected = "[]\n0.5 [2.0, 1.0] False\n0.5 True\n[0.]\n"
    assert done.stdout == expected, done.stderr


@pytest.mark.parametrize(
    "uses",
    [
        "from scipy.stats import ttest_1samp",
        "import scipy.stats.qmc",
        "from scipy.stats import norm; norm.ppf(0.5)",
    ],
    ids=["name", "part", "at once"],
)
def test_what_is_used_at_once_of_a_module_that_is_put_off_is_there(uses: str) -> None:
    program = f"""
from erase.cli.startup import starting
with starting():
    {uses}
import scipy.stats
print(scipy.stats.ttest_1samp([1.0, 3.0], 2.0).statistic, len(scipy.stats.qmc.Sobol(2).random(2)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "0.0 2\n", done.stderr


def test_names_of_a_listing_are_imported_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "listed"
    package.mkdir()
    (package / "__init__.py").write_text("from .one import ONE\nfrom .two import TWO\nALL = 3\n")
    (package / "one.py").write_text("ONE = 1\n")
    (package / "two.py").write_text("TWO = 2\n")
    (tmp_path / "whole").mkdir()
    (tmp_path / "whole" / "__init__.py").write_text("import whole.parts\n")
    package.rename(tmp_path / "whole" / "parts")
    monkeypatch.syspath_prepend(tmp_path)
    try:
        import_without("whole", listings=("whole.parts",))
        assert import_module("whole").parts.TWO == 2
        assert "whole.parts.two" in sys.modules
        assert "whole.parts.one" not in sys.modules
        assert import_module("whole.parts.one").ONE == 1
        assert not hasattr(import_module("whole.parts"), "__wrapped__")
        assert import_module("whole").parts.ALL == 3  # not a name of a module: all is imported
        assert import_module("whole.parts").ALL == 3
    finally:
        for name in ("whole", "whole.parts", "whole.parts.one", "whole.parts.two"):
            sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("last", "status", "printed"),
    [
        ("status.append(3)", 3, ["thread", "handler", "buffered"]),
        ("raise SystemExit(4)", 4, ["thread", "handler", "buffered", "taken apart"]),
    ],
    ids=["known", "unknown"],
)
def test_a_program_leaves_after_all_else_has_ended(
    last: str, status: int, printed: list[str]
) -> None:
    program = f"""
from erase.cli.startup import leave_quickly
status = []
leave_quickly(status)
import atexit, os, sys, threading, time

class Last:
    def __del__(self, write=os.write):
        write(1, b"taken apart\\n")

def later():
    time.sleep(0.1)
    os.write(1, b"thread\\n")

sys.kept = Last()
atexit.register(os.write, 1, b"handler\\n")
threading.Thread(target=later).start()
sys.stdout.write("buffered\\n")
{last}
"""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=kept)
    assert (done.returncode, done.stdout.splitlines()) == (status, printed), done.stderr
