"""The app under load and in the hands of a simulated reviewer; the docs show what was recorded."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from erase.bench.records import read
from erase.bench.tables import build
from erase.bench.tables.claims import review_gains
from review_curve import simulate
from review_load import load

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "review.md").read_text(encoding="utf-8")


def records(name: str) -> list[dict[str, Any]]:
    text = (ROOT / "benchmarks" / "records" / name).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def test_the_page_shows_the_recorded_speed() -> None:
    small, large = records("review-load.jsonl")
    assert small["errors"] == 0
    assert small["decisions"] == small["stored"]
    assert f"{small['decisions']:,} decisions, no error" in PAGE
    assert (large["nodes"], large["labels"], large["errors"]) == (1_000_000, 100_000, 0)
    assert large["ready_s"] + large["first_page_ms"] / 1000 < 2
    assert large["one_new_item_ms"]["p95"] < 100
    wanted = [small["decision_ms"], small["ten_items_ms"]]
    wanted += [large["one_new_item_ms"], large["ten_items_ms"]]
    shown = re.findall(r"^\| .* \| (\d+) \| (\d+) \|$", PAGE, re.MULTILINE)
    assert shown == [(f"{row['p50']:.0f}", f"{row['p95']:.0f}") for row in wanted]


def test_the_page_shows_the_recorded_curve() -> None:
    """Means over draws."""
    points: dict[int, list[list[float]]] = {}
    for row in records("review-curve.jsonl"):
        numbers = [row["found"], row["still_wrong"], row["test_accuracy"]]
        points.setdefault(row["decisions"], []).append(numbers)
    for decisions, rows in points.items():
        assert len(rows) == 3
        found, wrong, accuracy = np.mean(rows, axis=0)
        assert f"| {decisions} | {found:.0f} | {wrong:.0f} | {accuracy:.1f} % |" in PAGE


@pytest.mark.parametrize("decisions", [100, 300])
def test_the_page_shows_the_recorded_estimates(decisions: int) -> None:
    rows = [row["wrong"] for row in records("review-curve.jsonl") if row["decisions"] == decisions]
    ends = [[f"{100 * row[name]:.0f}" for name in ("value", "low", "high")] for row in rows]
    words = [f"{value} % ({low} to {high})" for value, low, high in ends]
    assert f"{words[0]}, {words[1]} and {words[2]}" in " ".join(PAGE.split())


def test_the_page_shows_what_a_review_gains() -> None:
    """Means over the graphs, our choice less the best plain one, of both reviewers."""
    page = " ".join(PAGE.split())
    for table, words in (
        ("review", "by {}, {} and {} points after 50, 100 and 200 labels"),
        ("review-errors", "by {}, {} and {} if one answer in twenty is wrong"),
    ):
        gains = review_gains(
            build(table, read(ROOT / "benchmarks" / "records" / "review.jsonl")).cells
        )
        assert list(gains) == [50, 100, 200]
        assert words.format(*(f"{gain:.1f}" for gain in gains.values())) in page


@pytest.mark.slow
def test_twenty_reviewers_at_once_see_no_error() -> None:
    found = load(nodes=20_000, labels=10_000, reviewers=20, pace=0.5, seconds=20.0)
    assert found["errors"] == 0
    assert found["decisions"] == found["stored"] > 600


@pytest.mark.slow
def test_a_simulated_reviewer_finds_the_wrong_labels() -> None:
    """Of a random choice, 30 % would be wrong; the reviewer errs in 5 % of the answers."""
    points = simulate("debian", "symmetric", 0.3, decisions=100, every=20, seed=0, strategy="mixed")
    first, last = points
    assert (first["decisions"], last["decisions"]) == (0, 100)
    assert first["still_wrong"] - last["still_wrong"] > 60
    assert last["wrong"]["low"] < 0.3 < last["wrong"]["high"]
