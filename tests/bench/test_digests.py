"""A digest changes with the code that a result depends on, and with nothing else."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from erase.bench.digests import (
    CHECKED_BEFORE,
    OF_FILES,
    OF_MANY_PROCESSES,
    PACKAGE,
    WITHOUT_EFFECT,
    digest,
    reached,
    where_code_begins,
)
from erase.bench.records import Cell
from erase.bench.studies import STUDIES

FILES = {
    "__init__.py": "from toy.method import Method",
    "method.py": "from toy.nn import layer\n\n\nclass Method:\n    size = layer(2)\n",
    "nn/__init__.py": "from toy.nn.layers import layer\nfrom toy.nn.other import other\n",
    "nn/layers.py": "def layer(n: int) -> int:\n    from toy.late import factor\n"
    "    if n < 1:\n        raise EraseError('wrong')\n    return n\n",
    "nn/other.py": "def other() -> None: ...\n",
    "late.py": "factor = 1\n",
    "talk.py": "words = 1\n",
}


@pytest.fixture
def digest_with(tmp_path: Path) -> Callable[..., str]:
    """Return the digest of ``toy.method`` with some of the `FILES` changed."""

    def found(skipped: tuple[str, ...] = (), **changes: str) -> str:
        package = tmp_path / str(len(list(tmp_path.iterdir()))) / "toy"
        for name, text in FILES.items():
            path = package / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(changes.get(name.removesuffix(".py").replace("/", "_"), text))
        return digest(("toy.method", "elsewhere.module"), skipped, (), package)

    return found


def test_names_are_followed_to_their_modules(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / "toy" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "toy" / name).write_text(text)

    def modules(*skipped: str, unused: tuple[tuple[str, str], ...] = ()) -> tuple[str, ...]:
        return reached(("toy.method",), skipped, unused, tmp_path / "toy")

    assert modules() == ("toy.late", "toy.method", "toy.nn.layers")
    assert modules("toy.nn") == ("toy.method",)
    unused = (("toy.nn.layers", "toy.late"),)
    assert modules(unused=unused) == ("toy.method", "toy.nn.layers")


@pytest.mark.parametrize(
    "changes",
    [
        {"talk": "words = 2\n"},  # not imported
        {"nn_other": "def other() -> int: ...\n"},
        {"nn___init__": "# names\n" + FILES["nn/__init__.py"]},
        {"late": "# a comment\nfactor = (\n    1  # another\n)\n"},
        {"late": '"""What it is for."""\n\nfactor = 1\n'},
        {"method": FILES["method.py"].replace("    size", '    """A class."""\n\n    size')},
        {"nn_layers": FILES["nn/layers.py"].replace("    from", '    """A layer."""\n    from')},
        {"nn_layers": FILES["nn/layers.py"].replace("wrong", "not right")},  # a refusal
        {"nn_layers": FILES["nn/layers.py"].replace("n < 1", "n < 2")},
    ],
)
def test_comments_docstrings_form_and_other_modules_do_not_count(
    changes: dict[str, str], digest_with: Callable[..., str]
) -> None:
    assert digest_with(**changes) == digest_with()


@pytest.mark.parametrize(
    "changes",
    [
        {"late": "factor = 2\n"},
        {"late": "factor = 1.0\n"},
        {"late": "factor = None\n"},
        {"late": "factor = '1'\n"},
        {"late": "other = 1\n"},
        {"method": FILES["method.py"].replace("layer(2)", "layer(n=2)")},
        {"nn_layers": FILES["nn/layers.py"].replace("int)", "int = 3)")},
        {"nn_layers": FILES["nn/layers.py"].replace("return n", "return -n")},
        {"nn_layers": FILES["nn/layers.py"].replace("raise EraseError", "n = max")},
        {
            "nn_layers": FILES["nn/layers.py"].replace(
                "        raise", "        n = 2\n        raise"
            )
        },
        {
            "nn_layers": FILES["nn/layers.py"].replace(
                "    return", "    else:\n        n = 2\n    return"
            )
        },
    ],
)
def test_code_counts(changes: dict[str, str], digest_with: Callable[..., str]) -> None:
    assert digest_with(**changes) != digest_with()
    if "late" in changes:
        assert digest_with(("toy.late",), **changes) == digest_with(("toy.late",))


def modules(study: str, method: str) -> set[str]:
    cell = next(cell for cell in STUDIES[study].cells() if cell.method == method)
    return {name.removeprefix("erase.") for name in reached(*where_code_begins(cell))}


def test_a_result_depends_on_its_method_its_data_and_the_scoring() -> None:
    erase = modules("paper", "erase")
    assert {"methods.erase", "methods.semantics", "nn.coding", "training.loop"} <= erase
    assert {"data.datasets.public", "data.noise", "data.task", "bench.run"} <= erase
    assert not erase & {"methods.losses", "methods.rtgnn", "bench.runner", "bench.records"}
    assert not any(name.startswith(("methods.relabelling", "audit", "cli")) for name in erase)


def test_a_result_depends_on_what_its_parameters_use() -> None:
    assert "methods.relabelling.ensemble" in modules("relabelled", "erase")
    assert {"audit.decision", "methods.relabelling.method"} <= modules("corrected", "ce")
    assert {"audit.detectors", "methods.relabelling.method"} <= modules("detection", "graphcleaner")
    assert {"audit.queue", "methods.relabelling.method"} <= modules("review", "audit-gain")
    audit, rival = (modules("annotators", name) for name in ("audit", "confident-learning"))
    parts = ("agreement", "calibration", "flags", "noise_rate", "feature_noise", "witnesses")
    decisions = {"audit.decision", *(f"audit.{part}" for part in parts)}
    assert decisions <= audit
    assert not decisions & rival  # it decides by itself
    assert {"audit.out_of_fold", "audit.detectors", "bench.detection"} <= audit & rival
    assert not {"audit.run", "audit.result"} & audit
    inductive = modules("inductive", "ce")
    assert "bench.inductive" in inductive
    assert "audit.run" not in inductive


def test_graphs_in_files_depend_on_how_they_are_read() -> None:
    cell = Cell("mine.npz", "symmetric", 0.3, "ce", {}, "honest", 0)
    assert {"erase.data.files", "erase.data.tables"} <= set(reached(*where_code_begins(cell)))


def test_definitions_without_effect_do_not_count(
    digest_with: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = "factor = 1\nseen = 1\n", "factor = 1\nseen = 2\n"
    assert digest_with(late=before) != digest_with(late=after)
    monkeypatch.setitem(CHECKED_BEFORE, "toy.late", ("seen",))
    assert digest_with(late=before) == digest_with(late=after) == digest_with()


@pytest.mark.parametrize("module", CHECKED_BEFORE)
def test_definitions_without_effect_exist(module: str) -> None:
    assert set(CHECKED_BEFORE[module]) <= set(vars(import_module(module)))


@pytest.mark.parametrize("module", [*WITHOUT_EFFECT, *OF_MANY_PROCESSES, *OF_FILES])
def test_what_is_skipped_exists(module: str) -> None:
    path = PACKAGE.joinpath(*module.split(".")[1:])
    assert path.is_dir() or path.with_suffix(".py").is_file()
