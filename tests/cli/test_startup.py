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
        import_without("asker", put_off="later_on")
        assert import_module("asker").first
        assert ("later_on.part" in sys.modules) == loaded
        assert import_module("later_on").ANSWER == 42
        import_without("asker", put_off="later_on")  # both are there
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
