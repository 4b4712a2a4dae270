"""What all commands share: the program itself, errors, Ctrl-C and plain output."""

import io
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
import torch

import erase
from erase.audit import DEFAULT_METHOD, FOLDS
from erase.cli import main
from erase.cli.output import Output
from erase.data.noise import NOISES
from erase.methods import METHODS
from erase.methods.erase import RECIPES
from graphs import two_communities


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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Missing command."),
        (["lst"], "No such command 'lst'. Did you mean 'list'?"),
        (["fit"], "Missing argument 'GRAPH'."),
        (["fit", "debian", "--methd", "ce"], "--method"),
        (["fit", "debian", "--method", "eraze"], "Did you mean 'erase'?"),
        (["fit", "debian", "--method", "[red]ce[/red]"], "'[red]ce[/red]' is not among erase, ce,"),
        (["fit", "debian", "--draw", "twice"], "'twice' is not one of 'redrawn', 'fixed'"),
        (["fit", "debian", "--no-resume"], "--no-resume"),
        (["fit", "debian", "--seed", "one"], "'--seed'"),
        (["bench", "smoke", "--jobs", "0"], "must be at least 1, not 0"),
        (["table", "main"], "Missing argument 'RECORDS'."),
        (["audit", "debian", "--folds"], "'--folds' requires an argument"),
        (["tune", "debian", "--preset", "papr"], "Did you mean 'paper'?"),
        (["fit", "[red]nowhere[/red]"], "got '[red]nowhere[/red]', which is neither"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_command_line_is_one_line_with_status_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert line.startswith("erase: ")
    assert message in line
    assert captured.out == ""


@pytest.mark.parametrize("words", [["--help"], ["fit", "--help"], ["list", "methods"], ["fitt"]])
def test_what_is_not_a_terminal_gets_plain_text(words: list[str]) -> None:
    coloured = os.environ | {"FORCE_COLOR": "1", "TERM": "xterm-256color"}
    done = subprocess.run(command(*words), capture_output=True, text=True, env=coloured)
    assert done.stdout + done.stderr
    assert "\x1b" not in done.stdout + done.stderr


def test_help_names_every_option_with_its_default(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "--help"]) == 0
    output = "".join(capsys.readouterr().out.split())
    assert f"[default:{DEFAULT_METHOD}]" in output
    assert f"--folds<int>Numberofmodelstotrain.[default:{FOLDS}]" in output
    assert "[default:(out/GRAPH-audit)]" in output
    assert all(name in output for name in [*METHODS, *NOISES, *RECIPES])


@pytest.mark.parametrize("as_module", [False, True])
@pytest.mark.parametrize("swallows", [False, True])
def test_ctrl_c_while_torch_is_imported_is_one_line(
    swallows: bool, as_module: bool, tmp_path: Path
) -> None:
    """Some libraries turn an interrupt inside their import into an error of their own."""
    started = tmp_path / "started"
    caught = "BaseException" if swallows else "()"
    (tmp_path / "torch.py").write_text(
        "import pathlib, time\n"
        f"pathlib.Path({str(started)!r}).touch()\n"
        "try:\n"
        "    time.sleep(60)\n"
        f"except {caught}:\n"
        "    raise ImportError('half of torch')\n"
    )
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        [sys.executable, "-m", "erase", "fit", "debian"] if as_module else command("fit", "debian"),
        env=os.environ | {"PYTHONPATH": path},
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 60
    while not started.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, output = process.communicate()
    assert output == "\nerase: interrupted.\n"
    assert process.returncode == 130


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with Output().progress(3) as show:
        show(2, "Trial 2 of 3: [red]82.0%")
    shown = terminal.getvalue()
    assert "2/3" in shown
    assert "[red]82.0%" in shown
    assert "━" in shown


def test_progress_is_a_line_each_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    with Output().progress(3) as show:
        show(1, "Trial 1 of 3")
        show(2, "Trial 2 of 3")
    assert capsys.readouterr().err == "Trial 1 of 3\nTrial 2 of 3\n"
    with Output(quiet=True).progress(3) as show:
        show(1, "Trial 1 of 3")
    assert "".join(capsys.readouterr()) == ""


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_results_of_another_command_are_not_written_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = tmp_path / "shop"
    erase.write_graph(two_communities(size=40, classes=3), shop)
    quick = ["--method", "label-propagation", "--device", "cpu", "--quiet"]
    model = str(tmp_path / "fit" / "model.safetensors")
    commands = {
        "audit": ["audit", str(shop), *quick],
        "fit": ["fit", str(shop), *quick],
        "predict": ["predict", model, str(shop), "--quiet"],
    }
    for name, words in commands.items():
        assert main([*words, "--out", str(tmp_path / name)]) == 0
        assert main([*words, "--out", str(tmp_path / name)]) == 0  # its own, again
    for name, words in commands.items():
        for other in commands.keys() - {name}:
            before = contents(tmp_path / other)
            assert main([*words, "--out", str(tmp_path / other)]) == 2
            message = (
                f"one of `erase {name}`; got {tmp_path / other}, which holds results of `erase"
            )
            assert f"{message} {other}`. Choose another --out." in capsys.readouterr().err
            assert contents(tmp_path / other) == before
        before = contents(shop)
        assert main([*words, "--out", f"{shop}/../shop"]) == 2
        assert f"{shop}/../shop, the graph. Choose" in capsys.readouterr().err
        assert contents(shop) == before


@pytest.mark.parametrize("command", ["audit", "fit", "demo", "tune"])
def test_what_is_no_folder_to_write_to_is_told_before_the_work(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def work(*_: object, **__: object) -> None:
        raise AssertionError("minutes of work, and then an error")

    for name in (
        "erase.audit.run.audit_by_all",
        "erase.bench.demo.run_demo",
        "erase.bench.tune._run",
    ):
        monkeypatch.setattr(name, work)
    monkeypatch.setattr("erase.methods.LabelPropagation.fit", work)
    graph, taken = tmp_path / "g.npz", tmp_path / "nodes.csv"
    erase.write_graph(two_communities(size=10), graph)
    taken.write_text("id\n")
    words = [] if command == "demo" else [str(graph), "--method", "label-propagation"]
    for out, reason in (
        (taken, "which is a file"),
        (taken / "deeper", "not a directory"),
        (Path("/proc/nope"), "no such file or directory"),
    ):
        assert main([command, *words, "--out", str(out)]) == 2
        message = f"expected a folder to write to; got '{out}', {reason}. Choose another --out."
        assert message in capsys.readouterr().err
    assert taken.read_text() == "id\n"
