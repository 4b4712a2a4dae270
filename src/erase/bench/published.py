"""The paper's own figures: every number of its tables, by the names of the registries."""

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class Value:
    """A published figure: its mean, and its standard deviation where one is printed."""

    mean: float
    std: float | None = None


@dataclass(frozen=True)
class PublishedTable:
    """A table of the paper.

    Attributes:
        what: what its figures are.
        unit: "%", "ms" or "".
        runs: how many runs a figure is the mean of; None where the paper does not say, or where
            rows differ.
        notes: misprints and contradictions, a sentence each.
        values: dataset → row → "noise:rate" → figure. A row is a method's name, or the value of
            the parameter that the table varies, as text.
    """

    what: str
    unit: str
    runs: int | None
    notes: tuple[str, ...]
    values: dict[str, dict[str, dict[str, Value]]]

    def get(self, dataset: str, row: str, place: str) -> Value | None:
        """Return the figure at ``"noise:rate"``; None where the paper prints none."""
        return self.values.get(dataset, {}).get(row, {}).get(place)


@cache
def published() -> dict[str, PublishedTable]:
    """Return the paper's tables by name.

    >>> published()["main"].get("cora", "erase", "symmetric:0.3")
    Value(mean=81.61, std=0.95)
    """
    text = files("erase.bench").joinpath("published.json").read_text(encoding="utf-8")
    return {
        name: PublishedTable(
            table["what"],
            table["unit"],
            table["runs"],
            tuple(table["notes"]),
            {
                dataset: {
                    row: {place: Value(*figure) for place, figure in figures.items()}
                    for row, figures in rows.items()
                }
                for dataset, rows in table["values"].items()
            },
        )
        for name, table in json.loads(text).items()
    }
