"""`erase list`: what it shows, and that it agrees with the registries."""

import json
import re
from typing import Any

import pytest

from erase.audit import DETECTORS
from erase.bench.run import PROTOCOLS
from erase.cli import main
from erase.cli.catalogue import FILE, catalogue, read_registries
from erase.data.datasets import DATASETS
from erase.data.noise import NOISES
from erase.methods import METHODS
from erase.nn.encoders import ENCODERS
from erase.nn.heads import HEADS


def test_the_catalogue_is_made_from_the_registries() -> None:
    made = json.loads(json.dumps(read_registries()))
    assert catalogue() == made, f"run `make catalogue` to write {FILE.name} again"
    for kind, entries in made["lists"].items():
        assert list(catalogue()["lists"][kind]) == list(entries)


def test_without_a_kind_the_kinds_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(catalogue()["lists"])
    assert lines[0].split()[1:] == [str(len(METHODS)), "entries"]


def test_an_unknown_kind_is_refused_with_the_known_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["list", "[red]methods"]) == 2
    output = capsys.readouterr().err
    assert "'[red]methods' is not among methods, detectors, datasets" in output
    assert len(output.splitlines()) == 1


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("methods", METHODS),
        ("detectors", DETECTORS),
        ("datasets", DATASETS),
        ("noises", NOISES),
        ("encoders", ENCODERS),
        ("heads", HEADS),
        ("presets", {"reference": 0, "paper": 0, "relabelled": 0}),
        ("protocols", PROTOCOLS),
    ],
)
def test_lists_show_every_entry_of_a_registry_with_a_sentence(
    kind: str, names: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["list", kind]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(names)
    assert all(len(line.split()) > 2 for line in lines)
    main(["list", kind, "--json"])
    assert list(json.loads(capsys.readouterr().out)) == list(names)


@pytest.mark.parametrize("kind", ["methods", "encoders"])
def test_lists_name_the_paper_and_show_no_equation(
    kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["list", kind, "--json"])
    lines = json.loads(capsys.readouterr().out)
    year = re.compile(r" \(.+, (\w+ )?(19|20)\d\d\): ")
    dated = {name for name, line in lines.items() if year.search(line)}
    published = {
        "methods": {
            *("erase", "gce", "apl", "mcr2", "codis", "rtgnn", "pignn", "nrgnn", "pta"),
            "label-propagation",
        },
        "encoders": {"gat", "gcn", "sage"},
    }
    assert dated >= published[kind]
    assert not [line for line in lines.values() if re.search("[=−·Σ^←₀]", line)]
