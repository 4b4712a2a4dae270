"""Names, descriptions and defaults that help texts show, without importing what they describe.

``catalogue.json`` is made from the registries by ``python -m erase.cli.catalogue``. A test compares
the two.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("catalogue.json")


@cache
def catalogue() -> dict[str, dict[str, Any]]:
    """Return the file: "lists" has names and a line each by kind, "defaults" has values."""
    content: dict[str, dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))
    return content


_GIVEN = {
    "split": "",
    "pool": ", training and validation labels pooled: a fifth validates where an epoch is selected",
    "all": ", every label of the graph given",
}

# what each preset of ERASE is for
_PRESETS = {
    "reference": "the settings behind the published numbers",
    "paper": "the formulas as printed",
    "relabelled": "relabelling's labels instead of ERASE's semantic labels",
}


def entries(kind: str) -> dict[str, str]:
    """Return the names of a kind, such as "methods", with a line about each."""
    found: dict[str, str] = catalogue()["lists"][kind]
    return found


def names(kind: str) -> str:
    """Return the names of a kind, separated by commas."""
    return ", ".join(entries(kind))


def default(name: str) -> Any:
    """Return a default value that is defined elsewhere."""
    return catalogue()["defaults"][name]


def read_registries() -> dict[str, dict[str, Any]]:
    """Return what the file has to hold, from the registries."""
    from erase.audit import DEFAULT_METHOD, DETECTORS, FOLDS, MAX_EPOCHS
    from erase.bench import PROTOCOLS
    from erase.bench.figures import FIGURES
    from erase.bench.runner import GPU_BATCH
    from erase.bench.studies import CHOICES, STUDIES
    from erase.bench.tables import TABLES
    from erase.data.datasets import DATASETS
    from erase.data.noise import NOISES
    from erase.methods import METHODS
    from erase.methods.erase import RECIPES
    from erase.nn.encoders import ENCODERS
    from erase.nn.heads import HEADS

    lists = {
        "methods": {name: _first_line(method) for name, method in METHODS.items()},
        "detectors": {name: _first_line(detector) for name, detector in DETECTORS.items()},
        "datasets": {name: dataset.description for name, dataset in DATASETS.items()},
        "noises": {name: noise.summary for name, noise in NOISES.items()},
        "encoders": {name: _first_line(encoder) for name, encoder in ENCODERS.items()},
        "heads": {name: head.summary for name, head in HEADS.items()},
        "presets": {
            name: f"{_PRESETS[name]} ({', '.join(f'{key}={value}' for key, value in to.items())})"
            for name, to in RECIPES.items()
        },
        "studies": {
            name: f"{study.summary} ({len(study.cells())} cells)" for name, study in STUDIES.items()
        },
        "tables": {name: f"{table.title} (study {table.study})" for name, table in TABLES.items()},
        "figures": {name: f"{fig.summary} (study {fig.study})" for name, fig in FIGURES.items()},
        "protocols": {
            name: f"noise {protocol.noise}, validation labels {protocol.validation}"
            + _GIVEN[protocol.labels]
            for name, protocol in PROTOCOLS.items()
        },
    }
    defaults = {
        "audit method": DEFAULT_METHOD,
        "audit folds": FOLDS,
        "audit epochs": MAX_EPOCHS,
        "GPU batch": GPU_BATCH,
        "keys of cells": list(CHOICES),
    }
    return {"lists": lists, "defaults": defaults}


def _first_line(documented: Any) -> str:
    return (documented.__doc__ or "").strip().split("\n")[0]


if __name__ == "__main__":
    text = json.dumps(read_registries(), indent=2, ensure_ascii=False)
    FILE.write_text(f"{text}\n", encoding="utf-8")
