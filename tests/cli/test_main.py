"""What all commands share: the program itself, errors, Ctrl-C and plain output."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import erase
from erase.cli import main


def command(*arguments: str) -> list[str]:
    """Return the installed command, not a function of it."""
    return [str(Path(sys.executable).parent / "erase"), *arguments]


def test_arithmetic_is_torchs_own_switches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    try:
        assert main(["bench", "smoke", "--dry-run"]) == 0
        assert torch.get_float32_matmul_precision() == "highest"
        assert not torch.are_deterministic_algorithms_enabled()
        assert main(["bench", "smoke", "--dry-run", "--precision", "tf32"]) == 0
        assert torch.get_float32_matmul_precision() == "high"
        assert main(["bench", "smoke", "--dry-run", "--deterministic"]) == 0
        assert torch.are_deterministic_algorithms_enabled()
        assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"  # else cuBLAS refuses
    finally:
        torch.set_float32_matmul_precision("highest")
        torch.use_deterministic_algorithms(False)


def test_a_reader_that_leaves_early_is_no_error() -> None:
    listing = " ".join(command("list", "datasets"))
    done = subprocess.run(
        f"{listing} | head -1", shell=True, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("cora")
    assert done.stderr == ""


def test_the_installed_command_and_the_module_are_one() -> None:
    installed = subprocess.run(command("--version"), capture_output=True, text=True, check=True)
    module = subprocess.run(
        [sys.executable, "-m", "erase", "--version"], capture_output=True, text=True, check=True
    )
    assert installed.stdout == module.stdout == f"erase {erase.__version__}\n"
