"""What debtags say about suggestions, by hand; and docs/debian.md is what its records give."""

import json
import re
import tomllib
from typing import Any

import pandas as pd
import pytest

import debian_audit
from debian_audit import PAGE, RECORDS, REMARKS, TAGS, agreement, page, sections_named
from erase.data.datasets import load_dataset

SIZES = {"games": 60, "net": 30, "web": 10}


def moves(*rows: tuple[str, str, str]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["name", "given", "suggested"])


def named(**sections: str) -> dict[str, frozenset[str]]:
    return {name: frozenset(sections_of.split()) for name, sections_of in sections.items()}


def test_tags_speak_for_sections_by_their_patterns() -> None:
    mapping = {"games": ["game::*", "use::playing"], "net": ["network::*"], "web": ["web::blog"]}
    assert sections_named(["game::board", "web::blogs"], mapping) == {"games"}
    assert sections_named(["use::playing", "network::client"], mapping) == {"games", "net"}
    assert sections_named(["game::TODO", "role::program"], mapping) == frozenset()


def test_agreement_by_hand() -> None:
    found = agreement(
        moves(("a", "net", "web"), ("b", "net", "web"), ("c", "web", "games"), ("d", "web", "net")),
        named(a="web", b="net web", c="web mail", d="mail"),
        SIZES,
    )
    assert (found.packages, found.usable) == (4, 3)  # d's tags name no section of the graph
    assert found.suggested == pytest.approx(2 / 3)
    assert found.given == pytest.approx(2 / 3)
    assert found.any_other == pytest.approx((1 / 2 + 1 / 2 + 0) / 3)
    assert found.by_size == pytest.approx((10 / 70 + 10 / 70 + 0) / 3)
    assert (found.decided, found.for_suggestion) == (2, 0.5)  # a and c


def test_where_tags_decide_nothing_there_is_no_share() -> None:
    found = agreement(moves(("a", "net", "web")), named(a="net web"), SIZES)
    assert (found.decided, found.for_suggestion) == (0, None)


def test_given_sections_are_looked_up_in_usable_tags_alone() -> None:
    kept = moves(("a", "net", ""), ("b", "net", ""), ("c", "net", ""))
    sections_of = named(a="net web", b="web", c="")
    assert debian_audit.share_of_given(kept, sections_of, SIZES) == (2, 0.5)


def test_tags_are_mapped_to_sections_that_exist() -> None:
    mapping = tomllib.loads(TAGS.read_text(encoding="utf-8"))
    assert set(load_dataset("debian").class_names) <= set(mapping)
    for patterns in mapping.values():
        assert all(re.fullmatch(r"[a-z0-9-]+::[a-z0-9:+*-]+", pattern) for pattern in patterns)


def committed() -> list[dict[str, Any]]:
    return [json.loads(line) for line in RECORDS.read_text(encoding="utf-8").splitlines()]


def test_the_page_is_what_the_records_and_remarks_give() -> None:
    remarks = tomllib.loads(REMARKS.read_text(encoding="utf-8"))
    assert PAGE.read_text(encoding="utf-8") == page(committed(), remarks)


def test_the_records_hold_all_audits() -> None:
    audits = {r["command"]: r for r in committed() if r["kind"] == "audit"}
    assert audits["erase audit debian"]["seconds"] < 180
    whole = audits["erase audit index.npz --all-labels"]
    assert whole["labels"] == 63_436
    assert whole["seconds"] < 1800
    assert whole["peak_bytes"] < 8e9


def test_remarks_rate_by_sections() -> None:
    package = {"given": "net", "suggested": "web"}
    assert debian_audit._fitting(package, {"fits": ["web"]}) == "suggested"
    assert debian_audit._fitting(package, {"fits": ["net", "games"]}) == "given"
    assert debian_audit._fitting(package, {"fits": ["net", "web"]}) == "both"
    assert debian_audit._fitting(package, {"fits": []}) == "neither"
    sections = set(load_dataset("debian").class_names)
    for remark in tomllib.loads(REMARKS.read_text(encoding="utf-8")).values():
        assert set(remark) == {"fits", "why"}
        assert set(remark["fits"]) <= sections
