"""Trusted labels in an audit: never flagged, and their verdicts are known."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data

import erase
from erase.audit import Audit, audit
from erase.audit.agreement import Agreement
from erase.audit.decision import Decision, decide
from erase.audit.flags import CANNOT_TELL
from erase.audit.report.audit_page import audit_page
from erase.audit.trusted import (
    BY_TRUSTED,
    Trusted,
    _calibrated,
    _mixed,
    _share,
    apply_trusted,
    learn,
    wrong_share,
)
from erase.cli import main
from erase.data.noise import corrupt
from erase.methods import SmoothedLogReg
from erase.methods.relabelling.trusted import Evidence, trusted_posterior
from graphs import two_communities

METHOD = SmoothedLogReg(device="cpu", width=8)


@pytest.fixture(scope="module")
def graph() -> Data:
    """Return a graph with wrong labels and 20 trusted ones; node 3 has no other label."""
    clean = two_communities(size=60, classes=3)
    data = corrupt(clean, "symmetric", 0.3, on="train+val")
    data.trusted = torch.where(torch.arange(180) < 20, clean.y, -1)
    data.y = torch.where(data.test_mask, clean.y, data.y)
    data.y[3] = -1
    return data


@pytest.fixture(scope="module")
def found(graph: Data) -> Audit:
    return audit(graph, method=METHOD)


def test_trusted_labels_have_the_verdicts_of_a_person(graph: Data, found: Audit) -> None:
    assert found.trusted is not None
    issues = found.issues.set_index("node").sort_index()
    rows, names = issues[issues["trusted"]], np.array(found.class_names)
    trusted = graph.trusted[graph.trusted >= 0].numpy()
    assert rows.index.tolist() == list(range(20))
    assert not rows["is_issue"].any()
    assert rows["suggested"].tolist() == names[trusted].tolist()
    is_right = rows["given"] == rows["suggested"]
    assert rows["verdict"].tolist() == np.where(is_right, "right", "wrong").tolist()
    assert rows["quality"].tolist() == is_right.astype(float).tolist()
    assert issues["is_issue"].any()
    assert found.summary()["trusted"] == 20


def test_the_estimate_names_what_it_rests_on(graph: Data, found: Audit) -> None:
    summary = found.summary()
    assert summary["confirmed"] == 20
    assert summary["assumption"] == BY_TRUSTED
    assert repr(found).endswith(f"flagged, {summary['noise_rate']['value']:.1%} wrong>")
    assert found.notes[-1] == (
        "The estimate takes the 20 trusted labels for a random sample; set trusted_random if they "
        "are not."
    )
    known = graph.clone()
    known.trusted_random = torch.arange(180) < 12
    assert not any("takes the" in note for note in audit(known, method=METHOD).notes)


def test_corrected_labels_are_the_trusted_ones(graph: Data, found: Audit) -> None:
    cleaned = found.clean_graph(graph)
    assert cleaned.y[:20].tolist() == graph.trusted[:20].tolist()
    assert cleaned.trusted.tolist() == graph.trusted.tolist()
    assert found.clean_labels()[:20].tolist() == graph.trusted[:20].tolist()


def test_an_audit_of_trusted_labels_is_stored_and_shown(found: Audit, tmp_path: Path) -> None:
    found.save(tmp_path)
    again = erase.load_audit(tmp_path)
    pd.testing.assert_frame_equal(again.issues, found.issues)
    np.testing.assert_array_equal(again.clean_labels(), found.clean_labels())
    counts = {each["words"]: each["count"] for each in audit_page(found)["verdicts"]}
    assert sum(counts.values()) == len(found.issues)
    wrong = found.issues["trusted"] & (found.issues["verdict"] == "wrong")
    assert counts["wrong, corrected by a person"] == wrong.sum() > 0


def test_an_audit_without_trusted_labels_does_not_mention_them() -> None:
    plain = audit(two_communities(), method=METHOD)
    assert plain.trusted is None
    assert "trusted" not in plain.issues
    assert "trusted" not in plain.summary()


def test_the_other_labels_are_flagged_among_themselves() -> None:
    """A wrong label that a person found does not make room for a doubtful one."""
    rng = np.random.default_rng(0)
    given = rng.integers(3, size=300)
    proba = np.eye(3)[np.where(rng.random(300) < 0.3, (given + 1) % 3, given)] * 0.6 + 0.4 / 3
    decision = decide(given, proba, max_false_alarms=0.2)
    trusted = np.where(np.arange(300) % 2, -1, proba.argmax(1))
    known = trusted >= 0
    applied = apply_trusted(decision, given, trusted, 0.2)
    assert not applied.is_issue[known].any()
    assert 0 < applied.is_issue.sum() < decision.is_issue.sum()
    assert applied.quality[applied.is_issue].mean() <= 0.2
    np.testing.assert_array_equal(applied.quality[~known], decision.quality[~known])


def test_the_command_counts_trusted_labels_and_writes_them_back(
    graph: Data, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A label that only the trusted column has is written, labels of test nodes stay."""
    erase.write_graph(graph, tmp_path / "graph")
    quick = ["--method", "smoothed", "--set", "width=8", "--device", "cpu"]
    target = tmp_path / "nodes.csv"
    words = ["audit", str(tmp_path / "graph"), *quick, "--out", str(tmp_path / "out")]
    assert main([*words, "--write-back", str(target)]) == 0
    assert "20 of them beside a trusted one" in capsys.readouterr().out
    before, after = (pd.read_csv(file) for file in (tmp_path / "graph" / "nodes.csv", target))
    assert after["label"][:20].tolist() == graph.trusted[:20].tolist()
    test = graph.test_mask.numpy()
    assert after["label"][test].tolist() == before["label"][test].tolist()
    assert before.drop(columns="label").equals(after.drop(columns="label"))
    assert main(["fit", str(tmp_path / "graph"), *quick, "--out", str(tmp_path / "fit")]) == 0
    shown = capsys.readouterr()
    assert "20 of the labels are trusted." in shown.out + shown.err
    assert erase.data.files.read_json(tmp_path / "fit" / "summary.json")["trusted_labels"] == 20


def misled(seed: int, reviewed: int) -> tuple[NDArray[np.bool_], Decision, Evidence, Trusted]:
    """Return which of 400 labels are wrong, and what is known about them, a random sample included.

    Whoever gave the labels took most nodes of class 0 for class 1, and so do the features.
    """
    rng = np.random.default_rng(seed)
    true = rng.integers(3, size=400)
    fooled = (true == 0) & (rng.random(400) < 0.6)
    given = np.where(rng.random(400) < 0.05, rng.integers(3, size=400), np.where(fooled, 1, true))
    seen = np.where(rng.random(400) < 0.1, rng.integers(3, size=400), np.where(fooled, 1, true))
    around = np.where(rng.random(400) < 0.2, rng.integers(3, size=400), true)
    smoothed, graph = 0.04 + 0.88 * np.eye(3)[seen], 0.1 + 0.7 * np.eye(3)[around]
    evidence = Evidence(smoothed, graph, given, rng.normal(size=(400, 1)))
    sample = rng.permutation(400) < reviewed
    quality = smoothed[np.arange(400), given]
    plain = replace(
        decide(given[:30], smoothed[:30], max_false_alarms=0.2),  # quick; its parts are replaced
        quality=quality,
        posterior=smoothed,
        suggested=smoothed.argmax(1),
        is_issue=quality < 0.2,
        verdict=np.where(quality < 0.2, "wrong", "right"),
        contradicted=seen != given,
        agreement=Agreement(0.8, 0.4, 0.7, 0.1),
    )
    return given != true, plain, evidence, Trusted(np.where(sample, true, -1), sample)


def test_trusted_labels_reduce_false_alarms() -> None:
    before, after = [], []
    for seed in range(3):
        wrong, plain, evidence, trusted = misled(seed, reviewed=120)
        learnt = learn(plain, evidence, trusted, max_false_alarms=0.2, seed=seed)
        before.append(np.mean(~wrong[plain.is_issue]))
        after.append(np.mean(~wrong[learnt.is_issue]))
        assert learnt.is_issue.sum() > 20
    assert np.mean(before) > 0.5
    assert np.mean(after) < 0.35


def test_a_decision_that_was_good_is_not_lost() -> None:
    """Thirty trusted labels teach little about random mistakes, which the decision knows well."""
    rng = np.random.default_rng(0)
    true = rng.integers(4, size=600)
    given = np.where(rng.random(600) < 0.3, rng.integers(4, size=600), true)
    smoothed, graph = (rng.dirichlet(np.ones(4), 600) + 0.8 * np.eye(4)[true] for _ in range(2))
    smoothed, graph = (part / part.sum(1, keepdims=True) for part in (smoothed, graph))
    plain = decide(given, smoothed, max_false_alarms=0.2)
    evidence = Evidence(smoothed, graph, given, rng.normal(size=(600, 1)))
    sample = np.arange(600) < 30
    trusted = Trusted(np.where(sample, true, -1), sample)
    learnt = learn(plain, evidence, trusted, max_false_alarms=0.2, seed=0)
    fold = np.where(sample, np.arange(600) % 5, -1)
    alone = trusted_posterior(evidence, trusted.label, fold)
    rest = ~sample
    before, after, without = (
        np.mean(each.argmax(1)[rest] == true[rest])
        for each in (plain.posterior, learnt.posterior, alone)
    )
    assert after > before - 0.01
    assert after > without


def test_what_models_contradict_is_not_called_right_after_a_review() -> None:
    _, plain, evidence, trusted = misled(0, reviewed=60)
    learnt = learn(plain, evidence, trusted, max_false_alarms=0.2, seed=0)
    applied = apply_trusted(learnt, evidence.given, trusted.label, 0.2)
    others = plain.contradicted & ~trusted.known
    assert (learnt.quality[others] > 0.5).any()
    for decision in (learnt, applied):
        assert not (decision.verdict[others] == "right").any()
        assert (decision.verdict[~plain.contradicted] == "right").any()


def test_shares_of_two_posteriors_are_the_most_probable_ones() -> None:
    rng = np.random.default_rng(0)
    one, other = rng.random((2, 50))
    grid = np.linspace(0.001, 0.999, 999)
    counted = np.log(grid) + np.log(1 - grid)  # a label for each of the two
    fit = np.log(grid[:, None] * one + (1 - grid[:, None]) * other).sum(1) + counted
    assert _share(one, other) == pytest.approx(grid[fit.argmax()], abs=2e-3)
    assert _share(other, one) == pytest.approx(1 - _share(one, other))
    assert 0 < _share(np.zeros(3), np.ones(3)) < 0.3


def test_a_trusted_label_takes_no_part_in_its_own_share() -> None:
    _, plain, evidence, trusted = misled(0, reviewed=60)
    fold = np.where(trusted.known, np.arange(400) % 5, -1)
    learnt = trusted_posterior(evidence, trusted.label, fold)
    one = int(np.flatnonzero(trusted.known)[0])
    changed = trusted.label.copy()
    changed[one] = (changed[one] + 1) % 3
    first, second = (_mixed(learnt, plain.posterior, t, fold) for t in (trusted.label, changed))
    own = fold == fold[one]
    np.testing.assert_array_equal(first[own], second[own])
    assert not np.allclose(first[~own], second[~own])
    np.testing.assert_allclose(first.sum(1), 1)


def test_the_interval_of_the_share_of_wrong_labels_covers() -> None:
    """Of 150 draws, 86 % were covered with 40 labels reviewed and 89 % with 80: below 90 %."""
    covered = 0
    for seed in range(40):
        wrong, plain, evidence, trusted = misled(seed, reviewed=100)
        learnt = learn(plain, evidence, trusted, max_false_alarms=0.2, seed=seed)
        rate = learnt.noise_rate
        covered += rate.low <= wrong.mean() <= rate.high
        assert 0 < rate.high - rate.low < 0.4
        assert learnt.confirmed == 100
        assert learnt.at_least.value == rate.low
    assert covered >= 34


def test_the_share_of_wrong_labels_corrects_the_error_of_a_useless_model() -> None:
    wrong = np.arange(50) < 10
    for quality in (0.0, 0.5, 1.0):
        found = wrong_share(np.full(1000, quality), np.full(50, quality), wrong)
        assert found.value == pytest.approx(0.2)
        assert found.low == pytest.approx(0.11, abs=0.01)
    none = wrong_share(np.ones(1000), np.ones(50), np.zeros(50, dtype=bool))
    assert none.low == 0
    assert 0.01 < none.high < 0.05  # no wrong label in fifty is no proof that there is none
    known = wrong_share(np.full(50, 0.5), np.full(50, 0.5), wrong)
    assert known.low == known.value == known.high == pytest.approx(0.2)  # all were confirmed


def test_a_trusted_label_takes_no_part_in_its_own_quality() -> None:
    _, _, evidence, trusted = misled(0, reviewed=60)
    rows, given = np.arange(400), evidence.given
    known = trusted.known
    fold = np.where(known, rows % 5, -1)
    one = int(np.flatnonzero(known)[0])
    changed = trusted.label.copy()
    changed[one] = (changed[one] + 1) % 3
    before, after = (trusted_posterior(evidence, t, fold) for t in (trusted.label, changed))
    np.testing.assert_array_equal(after[fold == fold[one]], before[fold == fold[one]])
    assert not np.allclose(after, before)
    flipped = trusted.label.copy()  # right instead of wrong, or the other way round
    flipped[one] = (given[one] + (flipped[one] == given[one])) % 3
    first, second = (_calibrated(before, given, t, fold) for t in (trusted.label, flipped))
    np.testing.assert_array_equal(second[fold == fold[one]], first[fold == fold[one]])
    assert not np.allclose(second, first)
    np.testing.assert_allclose(first.sum(1), 1)


def test_quality_is_calibrated_on_all_labels_that_a_person_confirmed() -> None:
    """Which of them were drawn at random matters for the share of wrong labels alone."""
    _, plain, evidence, trusted = misled(1, reviewed=120)
    some = trusted.is_random & (np.cumsum(trusted.is_random) <= 30)
    whole, part, none = (
        learn(plain, evidence, Trusted(trusted.label, drawn), max_false_alarms=0.2, seed=1)
        for drawn in (trusted.is_random, some, np.zeros(400, dtype=bool))
    )
    np.testing.assert_array_equal(part.quality, whole.quality)
    assert not np.allclose(none.quality, whole.quality)
    assert part.noise_rate.value != whole.noise_rate.value


def test_labels_chosen_because_they_look_wrong_do_not_estimate() -> None:
    _, plain, evidence, trusted = misled(0, reviewed=60)
    few = Trusted(trusted.label, trusted.known & (np.cumsum(trusted.known) <= 9))
    learnt = learn(plain, evidence, few, max_false_alarms=0.2, seed=0)
    assert not np.allclose(learnt.quality, plain.quality)
    assert learnt.noise_rate == plain.noise_rate
    assert learnt.at_least == plain.at_least
    assert learnt.assumption == plain.assumption
    assert learnt.confirmed == 0
    fewer = Trusted(np.where(np.cumsum(trusted.known) <= 19, trusted.label, -1), trusted.is_random)
    assert learn(plain, evidence, fewer, max_false_alarms=0.2, seed=0) is plain


def test_a_useless_model_flags_nothing_though_the_share_is_known() -> None:
    wrong, plain, evidence, trusted = misled(0, reviewed=60)
    useless = replace(
        plain,
        agreement=Agreement(0.3, 0.4, 0.0, 0.1),
        is_issue=np.zeros(400, dtype=bool),
        verdict=np.full(400, CANNOT_TELL),
    )
    learnt = learn(useless, evidence, trusted, max_false_alarms=0.2, seed=0)
    assert not learnt.is_issue.any()
    assert set(learnt.verdict) == {CANNOT_TELL}
    assert learnt.has_rate
    assert not useless.has_rate
    assert learnt.noise_rate.low < wrong.mean() < learnt.noise_rate.high
