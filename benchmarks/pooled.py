"""The page's section on protocol `pool`: the same labels for every method."""

from statistics import mean

import pandas as pd

from erase.bench.names import METHOD_NAMES, dataset_label
from erase.bench.tables import Table
from erase.bench.tables.numbers import fixed, signed
from erase.bench.tables.render import NOTHING
from grids import grid

WORDS = """\
Under `honest` networks train on the training labels, a quarter or less of those given, and use the
validation labels only to select an epoch; methods without epochs train on both. Under `pool` every
method gets all of these noisy labels: networks select their epoch by a fifth of them and train on
the rest. Noise, draws and seeds are the same. All graphs have the paper's learning rate. On
Computers it is too low for most networks: on one draw cross-entropy has 22 % after 150 epochs, and
64 % with 0.01 instead of 0.001. Mean test accuracy in % over the noisy cells that a method has
under both protocols, and what it gains:"""


def side_by_side(honest: Table | None, pool: Table | None) -> str:
    """Return the mean accuracy of every method under both protocols, by dataset and over all.

    Args:
        honest: the table "beyond".
        pool: the table "pool".
    """
    if honest is None or pool is None:
        return ""
    both = _means(honest, "honest").join(_means(pool, "pool"), how="inner")
    datasets = list(dict.fromkeys(both.index.get_level_values("dataset")))
    head = [
        "",
        *(f"{dataset_label(d)} {kind}" for d in datasets for kind in ("`honest`", "`pool`")),
    ]
    rows = []
    for method, label in METHOD_NAMES.items():
        if method not in both.index.get_level_values("row"):
            continue
        own = both.loc[method]
        shown = [_pair(own[own.index.get_level_values("dataset") == d]) for d in datasets]
        before, after = _averages(own)
        total = [fixed(before, 2), fixed(after, 2), signed(after - before, 2), f"{len(own)}"]
        rows.append([label, *(text for pair in shown for text in pair), *total])
    head += ["all `honest`", "all `pool`", "gain", "cells"]
    return f"{WORDS}\n\n{grid(head, rows, numbers=range(1, len(head)))}" if rows else ""


def _means(table: Table, name: str) -> pd.DataFrame:
    """Return the mean of each method in each noisy cell, as one column."""
    cells = table.cells
    cells = cells[(cells["noise"] != "none") & cells["mean"].notna()]
    means = cells.set_index(["row", "dataset", "place_name"])["mean"]
    return means.astype(float).to_frame(name)


def _pair(cells: pd.DataFrame) -> list[str]:
    return [fixed(value, 2) for value in _averages(cells)] if len(cells) else [NOTHING, NOTHING]


def _averages(cells: pd.DataFrame) -> tuple[float, float]:
    return mean(cells["honest"]), mean(cells["pool"])
