import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from erase.cli.startup import put_off


def test_a_module_is_put_off_until_something_of_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    package = tmp_path / "later_on"
    package.mkdir()
    (package / "__init__.py").write_text("print('loaded')\nfrom later_on.part import ANSWER\n")
    (package / "part.py").write_text("ANSWER = 42\n")
    monkeypatch.syspath_prepend(tmp_path)
    put_off("later_on")
    try:
        early = import_module("later_on")
        assert early.__file__ == str(package / "__init__.py")
        assert not hasattr(early, "__wrapped__")  # as inspect asks
        assert capsys.readouterr().out == ""
        assert early.ANSWER == 42
        assert early.part.ANSWER == 42
        assert import_module("later_on").ANSWER == 42
        with pytest.raises(AttributeError):
            _ = early.nothing
        assert capsys.readouterr().out == "loaded\n"
        put_off("later_on")  # it is loaded
        assert import_module("later_on").ANSWER == 42
        put_off("not_there_at_all")
        assert "not_there_at_all" not in sys.modules
    finally:
        for name in ("later_on", "later_on.part"):
            sys.modules.pop(name, None)


def test_a_command_does_not_load_torchs_compiler_until_it_is_asked_for() -> None:
    program = """
import sys
from erase.cli.options import set_arithmetic
set_arithmetic("float32", False)
from erase.audit import audit
import torch
print("torch._dynamo.symbolic_convert" in sys.modules)
print(torch.compile(lambda x: x + 1, backend="eager")(torch.ones(1)).item())
print("torch._dynamo.symbolic_convert" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert done.stdout.split() == ["False", "2.0", "True"]
