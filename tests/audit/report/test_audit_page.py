"""The audit's page tells what was found, holds it compactly, and nothing else can run in it."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from html import unescape
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from erase.audit import Agreement, Audit
from erase.audit.decision import FOLLOWS_FEATURES, MAY_FOLLOW_FEATURES
from erase.audit.feature_noise import FeatureNoise
from erase.audit.noise_rate import Estimate
from erase.audit.report import audit_data, audit_page, embedding, projection
from erase.audit.report.audit_page import expected_errors, write_audit_page
from erase.audit.report.embedding import look_alikes, plane
from erase.audit.report.palette import PAGE_COLOURS, SHAPES, class_marks, contrast
from erase.audit.report.projection import directions
from erase.audit.report.render import render
from erase.audit.statements import plausible_range, wrong_share_sentences
from erase.nn import neighbours
from synthetic_audits import CLASSES, planted_audit

Page = dict[str, Any]
PAGES = ("#ffffff", "#14181d")  # the light and the dark background


@pytest.fixture(scope="module")
def audit() -> Audit:
    return planted_audit(300)


@pytest.fixture(scope="module")
def page(audit: Audit) -> Page:
    return audit_page.audit_page(audit)


@pytest.fixture(scope="module")
def arrays(page: Page) -> dict[str, NDArray[Any]]:
    return unpacked(page)


def unpacked(page: Page) -> dict[str, NDArray[Any]]:
    """Return the arrays as a script that knows only the format would read them."""
    found = {}
    for name, packed in page["data"]["arrays"].items():
        raw = base64.b64decode(packed["data"])
        if packed["type"] == "share":
            steps = np.frombuffer(raw, "<u2")
            found[name] = np.where(steps == 65535, np.nan, steps / 65534)
        else:
            found[name] = np.frombuffer(raw, np.dtype(packed["type"]).newbyteorder("<"))
    return found


def cards(page: Page) -> list[tuple[str, str]]:
    """Return the number and the details of every card."""
    found = re.findall(
        r'<li><span class="big">(.*?)</span>.*?<span class="quiet">(.*?)</span>', html(page)
    )
    return [(unescape(number), unescape(detail)) for number, detail in found]


def html(page: Page) -> str:
    return render("audit.html", **page)


def words(page: Page) -> str:
    """Return the document's text, without its tags, its scripts and its data."""
    visible = re.sub(r"<(script|style).*?</\1>", "", html(page), flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]*>", "", visible)).split())


def plain_neighbours(audit: Audit) -> list[set[int]]:
    around: list[set[int]] = [set() for _ in audit.given]
    for a, b in audit.edge_index.T.tolist():
        around[a].add(b)
    return around


def test_how_noisy_in_sentences(audit: Audit, page: Page) -> None:
    labels = len(audit.issues)
    flagged = [row for row in audit.issues.itertuples() if row.is_issue]
    wrong = [row for row in flagged if row.verdict == "wrong"]
    alarms = sum(row.quality for row in flagged)
    assert 5 < len(wrong) < len(flagged) < labels
    models, noisy, listed, false = cards(page)
    others = "The most common class alone matches 11%, the most common label of the neighbours 64%."
    assert models == ("72%", others)
    assert noisy == ("12% to 30%", "From a lower bound to all that a model contradicts.")
    assert (
        "12.0% to 29.9% of the labels look wrong: the first is a lower bound (90 % interval 10.5% "
        "to 15.0%), the second are all that a model contradicts, wrong or hard to predict. "
        "Mistakes that models repeat come on top. If "
        "mistakes depend on the class alone: about 15.0%. Confirm 50 labels drawn at random to "
        "measure the share: erase review GRAPH --strategy random."
    ) in words(page)
    assert listed[0] == str(len(flagged))
    assert f"For {len(wrong)} of them" in listed[1]
    assert f"for {len(flagged) - len(wrong)} the audit can't tell" in listed[1]
    expected = f"{alarms / len(flagged):.0%} false alarms are expected; you allowed 20%."
    assert false == (str(round(alarms)), expected)


def test_what_the_flags_allow_for_is_said_where_it_is_more() -> None:
    known = planted_audit(30).decision
    rate = 1 - float(known.quality.mean())
    for less in (-0.02, 0.004):
        near = replace(known, noise_rate=Estimate(rate - less, 0.0, 1.0))
        assert wrong_share_sentences(near)[1] == (
            f"If mistakes depend on the class alone: about {rate - less:.1%}."
        )
    for less in (0.006, 0.02):
        far = replace(known, noise_rate=Estimate(rate - less, 0.0, 1.0))
        assert wrong_share_sentences(far)[1] == (
            f"If mistakes depend on the class alone: about {rate - less:.1%}. Flags and "
            f"qualities allow for more at nodes that are hard to predict: about {rate:.1%} in all."
        )


def test_the_range_of_wrong_labels_ends_where_models_contradict_none() -> None:
    known = planted_audit(30).decision
    decision = replace(known, at_least=Estimate(0.1, 0.05, 0.2), noise_rate=Estimate(0.1, 0.1, 0.2))
    some = np.arange(len(known.quality)) % 4 == 0
    contradicted = replace(decision, contradicted=some)
    assert plausible_range(contradicted) == (0.1, some.mean())
    assert "the second are all that a model contradicts" in wrong_share_sentences(contradicted)[0]
    assert plausible_range(replace(decision, contradicted=~some)) == (0.1, 1 - some.mean())
    none = replace(decision, contradicted=some & ~some)
    assert plausible_range(none) == (0.1, 0.2)
    assert wrong_share_sentences(none)[0] == (
        "10.0% to 20.0% of the labels look wrong: the first is a lower bound (90 % interval 5.0% "
        "to 20.0%), the second is the upper end of the interval of the estimate. Mistakes that "
        "models repeat come on top."
    )


def test_no_more_labels_are_to_be_confirmed_than_there_are() -> None:
    known = planted_audit(30).decision
    assert "Confirm all labels to measure the share: " in wrong_share_sentences(known)[-1]


def test_verdicts_are_counted_once_each(audit: Audit, page: Page) -> None:
    table = audit.issues
    unsure = table["verdict"] == "can't tell"
    assert [(part["words"], part["count"]) for part in page["verdicts"]] == [
        ("right", (table["verdict"] == "right").sum()),
        ("can't tell, not flagged", (unsure & ~table["is_issue"]).sum()),
        ("can't tell, flagged", (unsure & table["is_issue"]).sum()),
        ("wrong, flagged", (table["verdict"] == "wrong").sum()),
    ]
    counts = re.findall(r"(?:right|flagged): <strong>(.*?)</strong>", html(page))
    assert [int(count) for count in counts] == [part["count"] for part in page["verdicts"]]


def test_nothing_flagged_is_stated() -> None:
    audit = planted_audit(60)
    clean = replace(
        audit.decision,
        is_issue=np.zeros(len(audit.issues), bool),
        verdict=np.full(len(audit.issues), "right"),
        expected_false_alarms=0.0,
    )
    page = audit_page.audit_page(replace(audit, decision=clean))
    assert [number for number, _ in cards(page)] == ["72%", "12% to 20%", "0"]
    assert cards(page)[2][1] == "No label is suspicious enough."
    assert "There is nothing to correct first" in words(page)


def test_confused_pairs_come_by_expected_labels(audit: Audit, page: Page) -> None:
    sums = np.zeros((13, 13))
    given = audit.given[audit.given >= 0]
    for g, row in zip(given.tolist(), audit.decision.posterior, strict=True):
        for true in range(13):
            sums[true, g] += row[true]
    np.testing.assert_allclose(expected_errors(given, audit.decision), sums)
    np.fill_diagonal(sums, 0)
    pairs = page["pairs"]
    assert len(pairs) == 8
    found = [sums[pair["true"], pair["given"]] for pair in pairs]
    np.testing.assert_allclose([pair["labels"] for pair in pairs], found)
    assert found == sorted(sums.ravel(), reverse=True)[:8]
    first = pairs[0]
    true_name, given_name = CLASSES[first["true"]], CLASSES[first["given"]]
    share = audit.decision.transition[first["true"], first["given"]]
    assert f"{true_name} labelled as" in words(page)
    assert (
        f"about {round(first['labels'])} labels. Of the nodes that are truly {true_name}, "
        f"{share:.0%} ({100 * 0.7 * share:.0f}–{1.3 * share:.0%}) are labelled {given_name}."
        in words(page)
    )


def test_the_matrix_is_true_by_given_with_intervals() -> None:
    def matrix(value: NDArray[np.float64]) -> str:
        audit = planted_audit(30, ("cat", "dog"))
        decision = replace(
            audit.decision,
            transition=value,
            transition_low=0.5 * value,
            transition_high=0.5 + 0.5 * value,
        )
        return html(audit_page.audit_page(replace(audit, decision=decision)))

    page = matrix(np.array([[0.7, 0.3], [0.004, 0.996]]))
    assert re.findall(r'<td [^>]*aria-label="([^"]*)">(.*?)</td>', page) == [
        ("Of the nodes that are truly cat, 70.0% are labelled cat (90% interval: 35–85%).", "70"),
        ("Of the nodes that are truly cat, 30.0% are labelled dog (90% interval: 15–65%).", "30"),
        ("Of the nodes that are truly dog, 0.4% are labelled cat (90% interval: 0–50%).", ""),
        ("Of the nodes that are truly dog, 99.6% are labelled dog (90% interval: 50–100%).", "100"),
    ]
    assert re.findall(r"--share:([\d.]+)", page) == ["1.00", "0.00"]  # blank has none
    page = matrix(np.array([[0.99, 0.01], [0.04, 0.96]]))
    assert re.findall(r"--share:([\d.]+)", page) == ["0.50", "1.00"]


def test_many_classes_show_those_with_errors() -> None:
    names = tuple(f"c{k}" for k in range(45))
    audit = planted_audit(400, names)
    given = audit.given[audit.given >= 0]
    true = np.where(given < 5, given, 5 + (given - 4) % 40)  # the first five are never confused
    decision = replace(audit.decision, posterior=np.eye(45)[true])
    page = audit_page.audit_page(replace(audit, decision=decision))
    assert [row["true"] for row in page["matrix"]] == list(range(5, 45))
    assert "The 40 classes of 45 with the most errors:" in words(page)


def test_method_settings_and_notes(page: Page) -> None:
    text = words(page)
    assert "The method is erase. The given labels were split into 5 folds" in text
    assert "Three predictions of each label are compared, none of which uses the label" in text
    assert "Notes: 3 duplicate edges were dropped." in text
    assert ["max_false_alarms", "0.2"] in page["settings"]
    assert page["settings"][-1] == ["seconds", "61"]
    assert '<tr><th scope="row">seconds</th><td>61</td></tr>' in html(page).replace(
        "</td>\n", "</td>"
    )


def test_the_lead_tells_how_good_the_models_are_what_was_found_and_what_to_do(
    audit: Audit, page: Page
) -> None:
    lead = words(page)
    flagged, wrong = page["flagged"], page["wrong"]
    assert (
        "Models predict 72% of the given labels that they had not seen; the most common class "
        "alone matches 11%, and the most common label of a node's neighbours 64%. "
        f"12% to 30% of the given labels look wrong, and {flagged} labels are flagged; "
        f"for {wrong} of them another label is suggested. "
        "Check the flagged labels below, the most suspicious first"
    ) in lead
    pairs = {frozenset(pair) for pair in audit.edge_index.T.tolist()}
    counts = f"300 nodes in 13 classes, {len(pairs):,} edges, {len(audit.issues)} given labels"
    assert counts in lead


def test_a_small_share_is_a_number_and_not_less_than_another(audit: Audit) -> None:
    few = replace(
        audit.decision,
        at_least=Estimate(0.004, 0.003, 0.007),
        assumption=FOLLOWS_FEATURES,
        feature_noise=FeatureNoise(1.5, 0.2, 0.5, 1.0),
        expected_false_alarms=0.004,
    )
    page = audit_page.audit_page(replace(audit, decision=few))
    text = words(page)
    assert "At least 0.4% of the given labels are wrong, and" in text
    assert "0.4% false alarms are expected, or more" in text
    assert "least less" not in text
    assert cards(page)[1][0] == "0.4%"


def test_an_uninformative_audit_makes_no_estimate() -> None:
    audit = planted_audit(60)
    n = len(audit.issues)
    unknown = replace(
        audit.decision,
        agreement=Agreement(0.104, 0.11, 0.02, 0.2),
        is_issue=np.zeros(n, bool),
        verdict=np.full(n, "can't tell"),
    )
    page = audit_page.audit_page(replace(audit, decision=unknown))
    text = words(page)
    assert "This audit cannot tell which labels are wrong, and flags none." in text
    assert "Models predict 10% of the given labels" in text
    assert "That may be chance. Label more nodes" in text
    assert f"The audit cannot tell: {unknown.agreement}. Confirm 50 labels" in text
    assert not cards(page)
    assert not re.search('class="(matrix|pairs|stack)"', html(page))
    assert not re.search(r"1[25](\.0)?%", text)


def test_the_page_says_what_the_share_rests_on(audit: Audit) -> None:
    follows = replace(
        audit.decision,
        assumption=FOLLOWS_FEATURES,
        feature_noise=FeatureNoise(1.5, 0.2, 0.5, 1.0),
        expected_false_alarms=0.07,
    )
    text = words(audit_page.audit_page(replace(audit, decision=follows)))
    assert "Mistakes follow the features: about 15.0%, and the upper end is not known." in text
    assert "Here the labels repeat the features more than they fit the graph" in text
    assert "7% false alarms are expected, or more; you allowed 20%." in text
    between = replace(
        follows, assumption=MAY_FOLLOW_FEATURES, feature_noise=FeatureNoise(2.9, 0.2, 0.96, 0.7)
    )
    text = words(audit_page.audit_page(replace(audit, decision=between)))
    assert "Mistakes may follow the features: about 15.0%, and the upper end is not known." in text
    assert "so mistakes may follow the features; each chance is the mean" in text
    assert "7% false alarms are expected, or more; you allowed 20%." in text
    confirmed = replace(audit.decision, confirmed=50)
    text = words(audit_page.audit_page(replace(audit, decision=confirmed)))
    assert (
        "15.0% of the labels are wrong (90 % interval 12.0% to 19.5%), by 50 labels that a person "
        "confirmed or corrected."
    ) in text
    assert "t least 1" not in text
    assert "Confirm 50" not in text
    unknown = replace(confirmed, agreement=Agreement(0.1, 0.11, 0.02, 0.2))
    text = words(audit_page.audit_page(replace(audit, decision=unknown)))
    assert "flags none. By 50 confirmed labels, 15% are wrong." in text


def test_the_page_explains_that_only_doubtful_labels_are_flagged(page: Page) -> None:
    text = words(page)
    assert "Among the labels for which another class is more probable" in text
    assert "A label whose own class is the most probable is never flagged." in text
    assert "have a correlation of 0.65: 0 is chance" in text
    assert "Below 0.05 nothing is flagged." in text


def test_arrays_hold_the_audit(audit: Audit, arrays: dict[str, NDArray[Any]]) -> None:
    labelled = audit.given >= 0
    decision = audit.decision
    assert arrays["id"].tolist() == list(range(300))
    assert arrays["given"].tolist() == audit.given.tolist()
    assert arrays["ranked"].tolist() == audit.issues["node"].tolist()
    assert arrays["suggested"][labelled].tolist() == decision.suggested.tolist()
    assert set(arrays["suggested"][~labelled]) == {-1}
    assert arrays["flagged"][labelled].tolist() == decision.is_issue.tolist()
    assert not arrays["flagged"][~labelled].any()
    verdicts = np.array(audit_data.VERDICTS)[arrays["verdict"][labelled]]
    assert verdicts.tolist() == decision.verdict.tolist()
    by_node = audit.issues.sort_values("node")
    for name, column in {
        "quality": "quality",
        "probability": "probability",
        "agree": "neighbours_agree",
    }.items():
        np.testing.assert_allclose(arrays[name][labelled], by_node[column], atol=1e-5)
        assert np.isnan(arrays[name][~labelled]).all()


def test_arrays_hold_the_predictions(audit: Audit, arrays: dict[str, NDArray[Any]]) -> None:
    for i in range(0, 300, 7):
        row = audit.pred_probs[i]
        best = sorted(range(13), key=lambda k: -row[k])[:4]
        assert arrays["likely"][4 * i : 4 * i + 4].tolist() == best
        np.testing.assert_allclose(arrays["likelyShare"][4 * i : 4 * i + 4], row[best], atol=1e-5)
        if audit.given[i] >= 0:
            given, suggested = audit.given[i], arrays["suggested"][i]
            assert arrays["predictedGiven"][i] == pytest.approx(row[given], abs=1e-5)
            assert arrays["predictedSuggested"][i] == pytest.approx(row[suggested], abs=1e-5)
        else:
            assert np.isnan(arrays["predictedGiven"][i])


def test_arrays_hold_the_edges(audit: Audit, arrays: dict[str, NDArray[Any]]) -> None:
    around: list[set[int]] = [set() for _ in range(300)]
    ends = iter(arrays["edgeTo"].tolist())
    for a, count in enumerate(arrays["edgeCount"].tolist()):
        for _ in range(count):
            b = next(ends)
            around[a].add(b)
            around[b].add(a)
    assert next(ends, None) is None
    assert around == plain_neighbours(audit)
    assert arrays["degree"].tolist() == [len(nodes) for nodes in around]


def test_arrays_hold_look_alikes(audit: Audit, arrays: dict[str, NDArray[Any]]) -> None:
    z = audit.embedding.astype(np.float64)
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    alike = arrays["alike"].reshape(-1, 8)
    cosine = arrays["alikeCosine"].reshape(-1, 8)
    assert len(alike) == len(audit.issues)
    for rank in range(0, len(alike), 11):
        node = int(audit.issues["node"][rank])
        others = [j for j in range(300) if audit.given[j] >= 0 and j != node]
        best = sorted(others, key=lambda j: -float(z[node] @ z[j]))[:8]
        assert alike[rank].tolist() == best
        np.testing.assert_allclose(cosine[rank], z[best] @ z[node], atol=1e-5)


def test_names_travel(audit: Audit, page: Page) -> None:
    assert page["data"]["names"] == list(audit.node_names or ())
    assert [mark["name"] for mark in page["data"]["classes"]] == list(CLASSES)
    unnamed = replace(audit, node_names=None, issues=audit.issues.drop(columns="name"))
    assert audit_page.audit_page(unnamed)["data"]["names"] is None


def test_look_alikes_are_found_for_the_most_suspicious() -> None:
    assert audit_data._with_look_alikes(500) == 500
    assert audit_data._with_look_alikes(20_000) == 20_000
    assert audit_data._with_look_alikes(50_000) == 8_000
    assert audit_data._with_look_alikes(10_000_000) == 2_000


def test_look_alikes_in_blocks_and_with_few_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    unit = directions(np.random.default_rng(0).normal(size=(50, 4)))
    nodes, among = np.arange(0, 50, 3), np.arange(10, 40)
    whole = look_alikes(unit, nodes, among, 5)
    monkeypatch.setattr(neighbours, "_COSINES_AT_ONCE", 100)  # two rows at a time
    parts = look_alikes(unit, nodes, among, 5)
    np.testing.assert_array_equal(whole[0], parts[0])
    np.testing.assert_allclose(whole[1], parts[1], rtol=1e-6)
    few, cosine = look_alikes(unit, np.array([3, 4]), np.array([3, 7]), 3)
    assert few.tolist() == [[7, -1, -1], [*sorted([3, 7], key=lambda j: -unit[4] @ unit[j]), -1]]
    assert cosine[0, 1:].tolist() == [0, 0]
    none, _ = look_alikes(unit, np.array([3]), np.array([], int), 2)
    assert none.tolist() == [[-1, -1]]


def test_directions_have_length_one_and_zero_stays_zero() -> None:
    unit = directions(np.array([[3.0, 4.0], [0, 0], [-1e-300, 0], [1e300, 1e300]]))
    expected = np.array([[0.6, 0.8], [0, 0], [-1, 0], [np.sqrt(0.5), np.sqrt(0.5)]])
    np.testing.assert_allclose(unit.astype(float), expected, rtol=1e-6)


def test_the_map_keeps_classes_together_and_is_the_same_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(projection, "_TSNE_ITERATIONS", 500)
    audit = planted_audit(200, CLASSES[:4], noise=0.0, unlabelled=0.0)
    unit = directions(audit.embedding)
    places = plane(unit, seed=1)
    np.testing.assert_array_equal(places, plane(unit, seed=1))
    assert places.min() >= 0
    assert places.max() <= 1
    assert np.ptp(places, axis=0).max() == pytest.approx(1)
    distance = np.linalg.norm(places[:, None] - places, axis=2)
    np.fill_diagonal(distance, np.inf)
    nearest = audit.given[distance.argmin(1)]
    assert (nearest == audit.given).mean() > 0.7  # by chance a quarter


def test_a_large_map_places_the_rest_amid_its_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "_TSNE_NODES", 100)
    monkeypatch.setattr(embedding, "_TSNE_SAMPLE", 40)
    mapped = []

    def recorded(points: NDArray[np.float64], *_: float) -> NDArray[np.float64]:
        mapped.append(points)
        return np.sin(9 * points[:, :2])  # any map will do

    monkeypatch.setattr(embedding, "tsne", recorded)
    unit = directions(np.random.default_rng(0).normal(size=(150, 6)))
    found = plane(unit, seed=0)
    sample = mapped[0]
    assert sample.shape == (40, 6)
    places = np.sin(9 * sample[:, :2])
    points = projection.tsne_input(unit)
    expected = np.zeros((150, 2))
    for i, point in enumerate(points):
        squared = ((sample - point) ** 2).sum(1)
        guides = np.argsort(squared)[:5]
        if squared.min() < 1e-12:
            expected[i] = places[squared.argmin()]  # it is in the sample
            continue
        weights = 1 / squared[guides]
        expected[i] = (weights[:, None] * places[guides]).sum(0) / weights.sum()
    low, high = expected.min(0), expected.max(0)
    expected = (expected - (low + high) / 2) / (high - low).max() + 0.5
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize(("nodes", "width"), [(0, 3), (1, 3), (2, 1), (4, 2), (9, 1), (7, 60)])
def test_any_embedding_has_a_map(nodes: int, width: int) -> None:
    z = np.random.default_rng(0).normal(size=(nodes, width))
    places = plane(directions(z))
    assert places.shape == (nodes, 2)
    assert np.isfinite(places).all()


def test_a_huge_graph_is_cut_around_the_suspicious(monkeypatch: pytest.MonkeyPatch) -> None:
    audit = planted_audit(400)
    whole = unpacked(audit_page.audit_page(audit))
    monkeypatch.setattr(audit_data, "_NODES", 120)
    monkeypatch.setattr(audit_data, "_FEWEST_WITH_LOOK_ALIKES", 3)
    monkeypatch.setattr(audit_data, "_SIMILARITIES", 0)
    page = audit_page.audit_page(audit)
    arrays = unpacked(page)
    kept = arrays["id"].tolist()
    assert kept == sorted(set(kept))
    assert len(kept) == 120
    assert page["data"]["nodes"] == 400
    assert page["data"]["labels"] == len(audit.issues)
    assert page["data"]["names"] == [f"package {i}" for i in kept]
    ranked = audit.issues["node"].tolist()
    assert set(ranked[:30]) <= set(kept)  # a quarter
    assert [kept[i] for i in arrays["ranked"].tolist()] == [i for i in ranked if i in kept]
    around = plain_neighbours(audit)
    assert not all(around[i] <= set(kept) for i in ranked[:30])
    assert all(around[i] <= set(kept) for i in ranked[:6])
    assert arrays["degree"].tolist() == [len(around[i]) for i in kept]
    ends = [kept[j] for j in arrays["edgeTo"].tolist()]
    starts = np.repeat(kept, arrays["edgeCount"]).tolist()
    inside = {(a, b) for a in kept for b in around[a] if b in kept and a < b}
    assert set(zip(starts, ends, strict=True)) == inside
    assert [kept[j] for j in arrays["alike"].tolist()] == whole["alike"][: 3 * 8].tolist()


def test_too_many_edges_leave_those_of_suspicious_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    audit = planted_audit(200)
    monkeypatch.setattr(audit_data, "_EDGES", 100)
    arrays = unpacked(audit_page.audit_page(audit))
    starts = np.repeat(np.arange(200), arrays["edgeCount"]).tolist()
    found = set(zip(starts, arrays["edgeTo"].tolist(), strict=True))
    assert len(found) == 100
    around = plain_neighbours(audit)
    for node in audit.issues["node"].tolist()[:5]:
        assert {(min(node, j), max(node, j)) for j in around[node]} <= found


def test_marks_tell_classes_apart() -> None:
    marks = class_marks([f"{'ab'[k % 2]} class {k}" for k in range(69)] + ["", "éé", "7", "7"])
    assert len({mark.code for mark in marks}) == 73
    assert max(len(mark.code) for mark in marks) <= 3
    assert len({(mark.colour, mark.shape) for mark in marks[:70]}) == 70
    for colour in PAGE_COLOURS:
        for background in PAGES:
            assert contrast(colour, background) >= 3  # WCAG for graphics
    for mark in marks:
        assert contrast(mark.colour, mark.ink) >= 4.5  # and for text
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert {mark.shape for mark in marks} == set(SHAPES)


def test_the_scripts_know_every_shape() -> None:
    script = (
        files("erase.audit.report").joinpath("scripts", "elements.js").read_text(encoding="utf-8")
    )
    outlines = script[script.index("SHAPES = {") : script.index("};")]
    assert re.findall(r"^  (\w+):", outlines, flags=re.MULTILINE) == list(SHAPES)


def test_every_script_and_style_is_shipped_and_used(page: Page) -> None:
    package = files("erase.audit.report")
    content = html(page)
    for folder in ("scripts", "styles"):
        for file in package.joinpath(folder).iterdir():
            assert file.read_text(encoding="utf-8") in content, file.name
    included = {"base.html", "macros.html", "audit.html", "demo.html"}
    for name in re.findall(
        r'include "(.*?)"', package.joinpath("templates", "audit.html").read_text("utf-8")
    ):
        included.add(name)
    assert {file.name for file in package.joinpath("templates").iterdir()} == included


def test_the_file_needs_nothing_else_and_runs_nothing_else(tmp_path: Path, audit: Audit) -> None:
    path = tmp_path / "deep" / "report.html"
    write_audit_page(audit, path, name="towns & <b>")
    content = path.read_text(encoding="utf-8")
    assert content.startswith("<!DOCTYPE html>")
    assert content.endswith("</html>\n")
    assert "<title>Audit of towns &amp; &lt;b&gt;</title>" in content
    assert set(re.findall(r"https?://[^\"'\s)]+", content)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"@import|url\(|<link(?! rel=\"icon\" href=\"data:,\")", content)
    module = content[content.index('<script type="module">') + 22 : content.rindex("</script>")]
    digest = base64.b64encode(hashlib.sha256(module.encode()).digest()).decode()
    assert f"default-src 'none'; script-src 'sha256-{digest}'; style-src" in content
    assert "'unsafe-inline'" not in content[: content.index("style-src")]
    data = re.search(r'id="data">(.*?)</script>', content, flags=re.DOTALL)
    assert data is not None
    assert json.loads(data[1])["names"][3] == "package 3"


def test_hostile_names_stay_texts(tmp_path: Path) -> None:
    names = [f"package {i}" for i in range(40)]
    names[:4] = ["</script><script>alert(1)</script>", "<!--<script>", "\ud800", "\x00'\"&"]
    classes = ("<img src=x onerror=alert(2)>", 'a" onfocus="alert(3)', "c & d")
    audit = planted_audit(40, classes, node_names=tuple(names), notes=("<i>",))
    path = tmp_path / "report.html"
    audit.to_html(path)
    content = path.read_text(encoding="utf-8")
    assert content.count("<script") == 2
    assert content.count("</script>") == 2
    assert "<!--" not in content
    assert "<img" not in content
    assert "<i>" not in content
    assert 'a" onfocus' not in content.replace('\\"', "")
    data = re.search(r'id="data">(.*?)</script>', content, flags=re.DOTALL)
    assert data is not None
    read = json.loads(data[1])["names"]
    assert read == ["</script><script>alert(1)</script>", "<!--<script>", "?", *names[3:]]


@pytest.mark.parametrize(
    "changes",
    [
        {"nodes": 2, "class_names": ("a", "b"), "unlabelled": 0.0},
        {"nodes": 30, "class_names": ("a", "b"), "degree": 0.0},
        {"nodes": 40, "unlabelled": 0.0, "noise": 0.0},
    ],
)
def test_small_and_clean_graphs_have_a_page(changes: dict[str, Any]) -> None:
    audit = planted_audit(**changes)
    page = audit_page.audit_page(replace(audit, settings={}, notes=()))
    assert "Audit of a graph" in words(page)
    assert len(unpacked(page)["id"]) == changes["nodes"]


def test_no_pair_is_confused() -> None:
    audit = planted_audit(40, CLASSES[:3])
    sure = replace(audit.decision, posterior=np.eye(3)[audit.given[audit.given >= 0]])
    page = audit_page.audit_page(replace(audit, decision=sure))
    assert not page["pairs"]
    assert "No two classes seem to be confused." in words(page)


def test_fifty_thousand_nodes_make_a_small_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "_TSNE_SAMPLE", 20)  # t-SNE's time is not what is tested
    monkeypatch.setattr(audit_data, "_SIMILARITIES", 0)
    page = audit_page.audit_page(planted_audit(50_000))
    assert len(html(page)) < 8_000_000
