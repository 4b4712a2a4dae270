"""The demo audits noisy labels and trains on them; its page compares both with the truth."""

import json
import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import Data

import erase
from erase.audit.report import render
from erase.bench import demo as module
from erase.bench.demo import Demo, demo_page, run_demo
from erase.bench.detection import score_audit
from erase.bench.run import score
from erase.data.noise import corrupt
from erase.methods import METHODS, CrossEntropy
from graphs import two_communities

NAMES = ["north <N>", "south & sea"]


@pytest.fixture(scope="module")
def demo() -> Demo:
    clean = two_communities(size=100)
    clean.class_names = NAMES
    clean.node_names = [f"town <{i}>" for i in range(200)]
    given = corrupt(clean, "symmetric", 0.2, seed=0, on="train+val")
    small: dict[str, Any] = {"hidden": 8, "heads": 2, "epochs": 6, "device": "cpu"}
    models = {
        "propagation": METHODS["label-propagation"]().fit(given),
        "cross-entropy": CrossEntropy(**small).fit(given),
    }
    audit = erase.audit(given)
    return Demo(clean, given, "symmetric:0.2", audit, models, {"propagation": 1.25})


@pytest.fixture(scope="module")
def page(demo: Demo) -> dict[str, Any]:
    return demo_page(demo)


def words(page: dict[str, Any]) -> str:
    html = re.sub(r"<(script|style).*?</\1>", "", render("demo.html", **page), flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<(?!\d+>|N>)[^>]*>", "", html)).split())


def test_the_lead_counts_and_compares(demo: Demo, page: dict[str, Any]) -> None:
    wrong = int((demo.given.y != demo.clean.y)[~demo.clean.test_mask].sum())
    truth = page["truth"]
    assert truth == score_audit(demo.audit, demo.clean)
    assert (truth["mislabelled"], truth["labels"]) == (wrong, 150)
    text = words(page)
    assert (
        f"{wrong / 150:.0%} of 150 labels were made wrong at random (noise symmetric:0.2)" in text
    )
    flagged = int(demo.audit.decision.is_issue.sum())
    assert flagged > 2
    assert f"and flags {flagged} labels, {truth['recall']:.0%} of the wrong ones" in text
    scores = {name: score(model, demo.clean, demo.given) for name, model in demo.models.items()}
    accuracy = " and ".join(f"{row['test_accuracy']:.1%} ({name})" for name, row in scores.items())
    assert f"the methods classify {accuracy} of the test nodes correctly" in text


def test_the_audit_is_compared_with_the_truth(demo: Demo, page: dict[str, Any]) -> None:
    truth, text = page["truth"], words(page)
    assert f"{1 - truth['false_alarms']:.0%} are really wrong" in text
    assert f"{truth['suggestions_right']:.0%} of the suggestions for these are the true" in text
    suspects = demo.audit.issues[demo.audit.issues["is_issue"]].head(10)
    assert [row["node"] for row in page["examples"]] == suspects["node"].tolist()
    for row, given, suggested in zip(
        page["examples"], suspects["given"], suspects["suggested"], strict=True
    ):
        true = int(demo.clean.y[row["node"]])
        assert row["classes"] == [NAMES.index(given), NAMES.index(suggested), true]
        assert row["name"] == f"town <{row['node']}>"


def test_scores_are_in_the_table_and_gaps_are_gaps(demo: Demo, page: dict[str, Any]) -> None:
    assert page["score_header"] == [
        "Method", "Test accuracy", "Wrong labels corrected", "Right labels kept", "Training",
    ]  # fmt: skip
    for row, (name, model) in zip(page["score_rows"], demo.models.items(), strict=True):
        scores = score(model, demo.clean, demo.given)
        keys = ("test_accuracy", "correction_rate", "accuracy_correct")
        assert row[:4] == [name, *(f"{scores[key]:.1%}" for key in keys)]
    assert [row[-1] for row in page["score_rows"]] == ["1.2 s", "–"]
    assert 'class="num">1.2 s</td>' in render("demo.html", **page)


def test_right_labels_have_no_correction_rate(demo: Demo) -> None:
    clean = replace(demo, given=demo.clean)
    page = demo_page(clean)
    assert {row[2] for row in page["score_rows"]} == {"–"}
    assert "0% of 150 labels were made wrong" in words(page | {"truth": score_audit(
        replace(demo.audit, given=np.where(demo.audit.given >= 0, demo.clean.y.numpy(), -1)),
        demo.clean,
    )})  # fmt: skip


def test_predictions_are_listed_beside_the_labels(demo: Demo) -> None:
    table = demo.predictions()
    assert table["name"].tolist() == demo.clean.node_names
    names = np.array(NAMES)
    assert table["true"].tolist() == names[demo.clean.y].tolist()
    hidden = demo.clean.test_mask.numpy()
    assert set(table["given"][hidden]) == {""}
    assert table["given"][~hidden].tolist() == names[demo.given.y.numpy()[~hidden]].tolist()
    for name, model in demo.models.items():
        assert table[name].tolist() == names[model.predict()].tolist()


def test_names_are_escaped(page: dict[str, Any]) -> None:
    html = render("demo.html", **(page | {"noise": "<b>"}))
    assert html.startswith("<!DOCTYPE html>")
    assert html.endswith("</html>\n")
    for raw in ("<N>", "town <", "<b>", "south & sea"):
        assert raw not in re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL)
    assert html.count("<script") == 2


def test_all_methods_get_the_same_noisy_labels_and_seed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clean = two_communities(size=40, classes=3)
    seen: list[Demo] = []

    def recorded(demo: Demo) -> dict[str, Any]:
        seen.append(demo)
        return demo_page(demo)

    monkeypatch.setattr(module, "load_dataset", lambda name: clean)
    monkeypatch.setattr(module, "demo_page", recorded)
    summary = run_demo(tmp_path, rate=0.3, seed=3, device="cpu", epochs=2, progress=False)
    captured = capsys.readouterr()
    assert captured.out + captured.err == ""
    (demo,) = seen
    expected = corrupt(clean, "symmetric", 0.3, seed=3, on="train+val")
    assert torch.equal(demo.given.y, expected.y)
    assert list(demo.models) == ["relabelling", "ERASE", "cross-entropy"]
    for name, model in demo.models.items():
        assert model.seed == 3
        assert summary["scores"][name] == score(model, clean, expected)
    assert [len(demo.models[name].history_) for name in ("ERASE", "cross-entropy")] == [2, 2]
    given = demo.audit.given
    assert given.tolist() == [int(y) if y >= 0 else -1 for y in expected.y]
    assert summary["audit"] == score_audit(demo.audit, clean)
    assert summary["protocol"] == {"noise": "redrawn", "validation": "noisy", "labels": "split"}
    assert json.loads((tmp_path / "summary.json").read_text())["scores"] == summary["scores"]
    html = (tmp_path / "report.html").read_text("utf-8")
    links = re.findall(r'<li><a href="([^#"]*)">', html)
    assert len(links) == 5
    for file in links:
        assert (tmp_path / file).is_file(), file
    assert len(pd.read_csv(tmp_path / "predictions.csv")) == clean.num_nodes


def test_progress_names_each_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clean: Data = two_communities(size=20)
    monkeypatch.setattr(module, "load_dataset", lambda name: clean)
    run_demo(tmp_path, device="cpu", epochs=2)
    captured = capsys.readouterr()
    assert captured.out == ""
    for line in ("1/3 Auditing", "2/3 Training ERASE", "3/3 Writing the report"):
        assert line in captured.err
