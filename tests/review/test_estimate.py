"""The share of wrong labels from random draws, errors left, and the stopping rule."""

from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from erase.audit import Estimate
from erase.audit.statements import headline
from erase.review import estimate
from erase.review.estimate import Draws, basis, errors_left, is_sampled, may_stop, wrong_share
from erase.review.exports import export_tables
from erase.review.session import Plan, Session
from erase.review.store import Reviews, read_reviews
from reviewed_graphs import graph_of
from synthetic_audits import planted_audit

AUDIT = planted_audit(400, unlabelled=0.0)
LARGE = planted_audit(20_000, unlabelled=0.0)


def reviewed(
    size: int, wrong: int, drawn: int | None = None, audit: object = AUDIT
) -> tuple[NDArray[np.int64], Draws]:
    """Return `trusted` and the draws where the first `size` labels are reviewed, one after another.

    The first of them are wrong, and the first `drawn` are random, by default all.
    """
    given = audit.given  # type: ignore[attr-defined]
    classes = len(audit.class_names)  # type: ignore[attr-defined]
    trusted = np.full(len(given), -1)
    trusted[:size] = given[:size]
    trusted[:wrong] = (given[:wrong] + 1) % classes
    order = [(i, drawn is None or i < drawn) for i in range(size)]
    return trusted, Draws.of(order, given, trusted)


def test_what_was_known_at_each_draw() -> None:
    """Nodes 1 and 3 are drawn; 2 was unsure, 4 has no label, and neither is a draw."""
    given = np.array([0, 0, 0, 0, -1, 0])
    trusted = np.array([1, 0, -1, 1, 1, -1])
    order = [(0, False), (1, True), (2, True), (4, True), (3, True)]
    draws = Draws.of(order, given, trusted)
    assert draws.wrong.tolist() == [False, True]
    assert draws.found.tolist() == [1, 1]
    assert draws.unseen.tolist() == [4, 2]  # of 5 labels


def test_of_many_labels_the_interval_is_that_of_the_binomial_distribution() -> None:
    """At its ends, what was seen or more (or less) has a chance of 5 %."""
    found = wrong_share(LARGE, *reviewed(50, 4, audit=LARGE))
    assert found.value == pytest.approx(0.08, abs=3e-4)
    assert binom.sf(3, 50, found.low) == pytest.approx(0.05, abs=1e-3)
    assert binom.cdf(4, 50, found.high) == pytest.approx(0.05, abs=1e-3)


def test_the_estimate_is_unbiased_although_suspicious_labels_are_reviewed_between() -> None:
    """The mean over all random orders of six labels is the number of wrong ones, three."""
    given = np.zeros(6, dtype=np.int64)
    truth = np.array([1, 1, 0, 1, 0, 0])
    suspicious = [1, 2, 0, 5, 3, 4]
    for places in ((True, False, True), (False, True, False, True), (False, False, True, True)):
        errors = []
        for order in permutations(range(6)):
            taken: dict[int, bool] = {}
            for random in places:
                node = next(each for each in (order if random else suspicious) if each not in taken)
                taken[node] = random
            trusted = np.where(np.isin(np.arange(6), [*taken]), truth, -1)
            draws = Draws.of([*taken.items()], given, trusted)
            errors.append(draws.errors(draws.wrong.mean()))
        assert np.mean(errors) == pytest.approx(3)


def test_the_interval_holds_the_truth_nine_times_in_ten() -> None:
    rng = np.random.default_rng(0)
    hit, classes = 0, len(AUDIT.class_names)
    for _ in range(200):
        wrong = rng.random(400) < 0.2
        truth = np.where(wrong, (AUDIT.given + 1) % classes, AUDIT.given)
        by = {False: np.argsort(-1.0 * wrong - rng.normal(size=400)), True: rng.permutation(400)}
        taken: dict[int, bool] = {}
        for turn in range(150):
            random = turn % 5 == 4
            taken[next(i for i in by[random].tolist() if i not in taken)] = random
        trusted = np.where(np.isin(np.arange(400), [*taken]), truth, -1)
        draws = Draws.of([*taken.items()], AUDIT.given, trusted)
        found = wrong_share(AUDIT, trusted, draws)
        assert found.low <= found.value <= found.high
        hit += int(found.low <= wrong.mean() <= found.high)
    assert hit >= 180


def test_errors_found_between_the_draws_count_as_they_are() -> None:
    """The same draws; 40 further errors are found before the last 20 of them."""
    classes = len(AUDIT.class_names)
    trusted = AUDIT.given.copy()
    trusted[300:] = -1
    trusted[200:240] = (AUDIT.given[200:240] + 1) % classes
    early = [*((i, True) for i in range(20)), *((i, False) for i in range(200, 240))]
    draws = Draws.of([*early, *((i, True) for i in range(20, 40))], AUDIT.given, trusted)
    trusted[[i for i in range(300) if not (i < 40 or 200 <= i < 240)]] = -1
    assert draws.errors(0.0) == pytest.approx(
        sum(40 / (340 - i) for i in range(20))
        / (sum(1 / (400 - i) for i in range(20)) + sum(1 / (340 - i) for i in range(20)))
    )
    assert wrong_share(AUDIT, trusted, draws).value == 40 / 400  # 40 are found
    assert errors_left(AUDIT, trusted, draws).value == 0
    all_left = errors_left(AUDIT, *reviewed(40, 0))
    assert 0 < errors_left(AUDIT, trusted, draws).high < all_left.high


def test_without_draws_the_audit_answers_and_nobody_stops() -> None:
    own = AUDIT.decision.at_least  # which is what it says everywhere
    for size in (0, 29):
        assert wrong_share(AUDIT, *reviewed(size, 0)) == own
        assert wrong_share(AUDIT, *reviewed(60, 0, drawn=size)) == own
        assert not may_stop(AUDIT, *reviewed(size, 0), below=1.0)
    assert wrong_share(AUDIT, *reviewed(30, 0)).value == 0
    assert may_stop(AUDIT, *reviewed(30, 0), below=1.0)
    small = planted_audit(70, unlabelled=0.0)
    assert [is_sampled(small, *reviewed(size, 0, audit=small)) for size in (6, 7)] == [False, True]


def test_what_the_estimate_rests_on() -> None:
    trusted, none = reviewed(0, 0)
    assert basis(AUDIT, trusted, none) == "least"
    assert basis(AUDIT, *reviewed(30, 0)) == "random"
    agreement = replace(AUDIT.decision.agreement, correlation=-1.0)
    decision = replace(AUDIT.decision, agreement=agreement)
    assert basis(replace(AUDIT, decision=decision), trusted, none) == "nothing"
    confirmed = replace(decision, confirmed=20)
    assert basis(replace(AUDIT, decision=confirmed), trusted, none) == "audit"
    assert wrong_share(replace(AUDIT, decision=confirmed), trusted, none) == decision.noise_rate


def test_what_is_known_limits_every_estimate() -> None:
    """At least what was found, at most what was found and all that nobody has decided."""
    trusted, draws = reviewed(400, 390)
    trusted[395:] = -1
    sure = replace(AUDIT.decision, at_least=Estimate(0.0, 0.0, 1.0))
    audit = replace(AUDIT, decision=sure)
    for given, found in ((audit, reviewed(0, 0)[1]), (AUDIT, draws)):
        share = wrong_share(given, trusted, found)
        assert share.low >= 390 / 400
        assert share.high <= 395 / 400
        assert errors_left(given, trusted, found).high <= 5


def test_where_all_labels_are_decided_nothing_is_estimated() -> None:
    trusted, draws = reviewed(400, 4, drawn=10)
    assert wrong_share(AUDIT, trusted, draws) == Estimate(0.01, 0.01, 0.01)
    assert errors_left(AUDIT, trusted, draws) == Estimate(0.0, 0.0, 0.0)
    assert may_stop(AUDIT, trusted, draws)


def test_one_may_stop_when_few_errors_can_be_left() -> None:
    assert not may_stop(AUDIT, *reviewed(50, 0))
    assert may_stop(AUDIT, *reviewed(200, 0))
    assert not may_stop(AUDIT, *reviewed(200, 0), below=0.001)


def decided(folder: Path, decisions: int, random_share: float = 0.5) -> Reviews:
    """Return reviews of AUDIT: suspicious and random labels take turns, and a third is wrong."""
    reviews = Reviews(folder / "r.sqlite", graph_of(AUDIT))
    reviews.start_order(3)
    names, k = AUDIT.class_names, len(AUDIT.class_names)
    session = Session(AUDIT, reviews, Plan(every=0, random_share=random_share))
    for node, random in session._ranked(AUDIT)[0][:decisions]:
        given = int(AUDIT.given[node])
        reviews.record(node, names[(given + (node % 3 == 0)) % k], random=random)
    return reviews


@pytest.mark.parametrize("kind", ["r.sqlite", "decisions.csv"])
@pytest.mark.parametrize(("decisions", "rests"), [(90, "random"), (20, "least")])
def test_an_audit_with_reviews_says_what_the_page_says(
    kind: str, decisions: int, rests: str, tmp_path: Path
) -> None:
    with decided(tmp_path, decisions) as reviews:
        if kind == "decisions.csv":
            export_tables(reviews, graph_of(AUDIT), tmp_path / kind)
        page = Session(AUDIT, reviews, Plan(every=0)).progress()
    assert page["basis"] == rests
    with read_reviews(tmp_path / kind) as read:
        found = estimate.with_share(AUDIT, read)
    assert headline(found.decision)[0] == pytest.approx(Estimate(**page["wrong"]))
    assert found.decision.confirmed == (page["random"] if rests == "random" else 0)
    assert found.decision.noise_rate.value >= page["wrong"]["value"]


def test_the_labels_table_keeps_its_random_sample(tmp_path: Path) -> None:
    """It does not say in which order labels were reviewed: the sample is one of all labels."""
    graph = graph_of(AUDIT)
    with decided(tmp_path, 90) as reviews:
        trusted, random = reviews.trusted_of(graph)
        export_tables(reviews, graph, tmp_path / "labels.csv")
    with read_reviews(tmp_path / "labels.csv") as read:
        _, known, draws = estimate.reviewed(AUDIT, read)
    assert known.tolist() == trusted.tolist()
    assert draws.unseen.tolist() == [400 - i for i in range(random.sum())]
    assert draws.wrong.sum() == (trusted != AUDIT.given)[random].sum() > 0


def test_labels_that_were_corrected_in_the_table_still_count_as_found(tmp_path: Path) -> None:
    with decided(tmp_path, 90) as reviews:
        before = Session(AUDIT, reviews, Plan(every=0))
        table, page = before.label_table(), before.progress()
        trusted, _ = reviews.trusted_of(graph_of(AUDIT))
        given = np.where(trusted >= 0, trusted, AUDIT.given)
        corrected = replace(AUDIT, given=given)
        now = Session(corrected, reviews, Plan(every=0))
        assert now.progress() == page
        assert now.label_table().equals(table)
        assert page["changed"] > 20
        found = estimate.with_share(corrected, reviews).decision
        share = page["wrong"]["value"] - page["changed"] / 400  # the rest of them
        assert found.noise_rate.value == pytest.approx(share)
        assert found.noise_rate.value == pytest.approx(page["left"]["value"] / 400)
    (tmp_path / "few").mkdir()
    with decided(tmp_path / "few", 20) as reviews:
        trusted, _ = reviews.trusted_of(graph_of(AUDIT))
        given = np.where(trusted >= 0, trusted, AUDIT.given)
        audit, _, _ = estimate.reviewed(replace(AUDIT, given=given), reviews)
        more = (given != AUDIT.given).sum() / 400
        assert more > 0
        assert audit.decision.at_least.value == pytest.approx(AUDIT.decision.at_least.value + more)
