"""The page of the demo tells what was done and what came out."""

from html import unescape
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

from conftest import two_communities
from erase.audit.report.demo import demo_page, write_demo_report
from erase.audit.report.page import Page, Picture, Table, Text
from erase.data.noise import corrupt
from erase.methods import ERASE, CrossEntropy, NodeClassifier

SMALL: dict[str, Any] = {"hidden": 8, "heads": 2, "epochs": 6, "device": "cpu"}
SCORES = {
    "ERASE": {"test_accuracy": 0.875, "correction_rate": 0.5, "mislabelled": 12.0},
    "CE": {"test_accuracy": 0.75, "accuracy_correct": 1.0},
}


@pytest.fixture(scope="module")
def graph() -> Data:
    data = two_communities(size=40)
    data.name = "towns"
    data.class_names = ["north <N>", "south & sea"]
    data.node_names = [f"town <{i}>" for i in range(80)]
    return data


@pytest.fixture(scope="module")
def given(graph: Data) -> Data:
    return corrupt(graph, "symmetric", 0.4, seed=0, on="train+val")


@pytest.fixture(scope="module")
def models(given: Data) -> dict[str, NodeClassifier]:
    return {"CE": CrossEntropy(**SMALL).fit(given), "ERASE": ERASE(width=8, **SMALL).fit(given)}


@pytest.fixture(scope="module")
def page(graph: Data, given: Data, models: dict[str, NodeClassifier]) -> Page:
    return demo_page(graph, given, models, SCORES, "symmetric:0.4", {"ERASE": 1.25})


def blocks(page: Page, kind: type[Any]) -> list[Any]:
    return [block for section in page.sections for block in section.body if isinstance(block, kind)]


def test_the_lead_counts(page: Page, graph: Data, given: Data) -> None:
    wrong = int((given.y != graph.y)[graph.train_mask].sum())
    pairs = {frozenset(pair) for pair in graph.edge_index.T.tolist() if pair[0] != pair[1]}
    wrong_val = int((given.y != graph.y)[graph.val_mask].sum())
    assert min(wrong, wrong_val) > 0
    assert f"towns has 80 nodes in 2 classes and {len(pairs)} edges; 40 training" in page.lead
    assert (
        f"of which {wrong} ({wrong / 40:.0%}) are wrong, and {wrong_val} of the 20 that"
        in page.lead
    )
    assert "symmetric:0.4" in page.lead


def test_the_scores_are_in_the_table_and_gaps_are_gaps(page: Page) -> None:
    table = blocks(page, Table)[0]
    assert table.header == [
        "Method", "Test accuracy", "Wrong labels corrected", "Right labels kept", "Training",
    ]  # fmt: skip
    assert table.rows == [
        ["CE", "75.0%", "–", "100.0%", "–"],
        ["ERASE", "87.5%", "50.0%", "–", "1.2 s"],
    ]


def test_all_the_papers_pictures_are_there(page: Page, models: dict[str, NodeClassifier]) -> None:
    bars, cosine, pca, tsne, curves = blocks(page, Picture)
    assert "CE: test accuracy 75.0%, wrong labels corrected –" in bars.alt
    for picture in (cosine, pca, tsne):
        assert [axes.get_title().split("\n")[0] for axes in picture.figure.axes][:2] == [
            "CE",
            "ERASE",
        ]
    loss = curves.figure.axes[1].lines[0].get_ydata()
    assert list(loss) == [record["loss"] for record in models["ERASE"].history_]
    assert "Validation labels are wrong in part" in curves.caption


def test_pictures_show_the_test_nodes(page: Page, graph: Data) -> None:
    pca = blocks(page, Picture)[2]
    groups = pca.figure.axes[0].collections
    true = graph.y[graph.test_mask]
    assert [len(group.get_offsets()) for group in groups] == torch.bincount(true).tolist()


def test_corrected_labels_are_listed(
    page: Page, graph: Data, given: Data, models: dict[str, NodeClassifier]
) -> None:
    said = {name: model.predict() for name, model in models.items()}
    wrong = [i for i in range(40) if given.y[i] != graph.y[i]]
    corrected = [i for i in wrong if said["ERASE"][i] == graph.y[i]]
    assert 0 < len(corrected) <= 20
    section = page.sections[-2]
    assert section.heading == "Labels that ERASE corrected"
    text, table = section.body
    assert isinstance(text, Text)
    assert isinstance(table, Table)
    assert f"{len(corrected)} of the {len(wrong)} training nodes" in text.text
    assert table.header == ["Node", "Given", "ERASE", "True", "CE"]
    names = graph.class_names
    assert table.rows == [
        [f"town <{i}>", *(names[k] for k in (given.y[i], graph.y[i], graph.y[i], said["CE"][i]))]
        for i in corrected
    ]


def test_a_long_list_is_cut(given: Data, models: dict[str, NodeClassifier]) -> None:
    # a truth that ERASE hits everywhere and the given labels nowhere
    truth = Data(edge_index=given.edge_index, y=torch.from_numpy(models["ERASE"].predict()))
    truth.train_mask, truth.test_mask = given.train_mask, given.test_mask
    told = truth.clone()
    told.y = torch.where(truth.train_mask, 1 - truth.y, -1)
    page = demo_page(truth, told, {"ERASE": models["ERASE"]}, {}, "all", {})
    text, table = page.sections[-2].body
    assert isinstance(text, Text)
    assert isinstance(table, Table)
    assert "40 of the 40" in text.text
    assert "20 of them" in text.text
    assert len({row[0] for row in table.rows}) == 20
    assert table.rows[0][:3] == ["node 0", str(1 - int(truth.y[0])), str(int(truth.y[0]))]


def test_clean_labels_leave_nothing_to_correct(
    graph: Data, models: dict[str, NodeClassifier]
) -> None:
    page = demo_page(graph, corrupt(graph, "pair", 0.0), models, SCORES, "none", {})
    assert [type(block) for block in page.sections[-2].body] == [Text]
    assert "of which 0 (0%) are wrong, and 0 of the 20" in page.lead
    assert "wrong in part" not in blocks(page, Picture)[-1].caption


def test_the_file_is_whole_small_and_escaped(
    tmp_path: Path, graph: Data, given: Data, models: dict[str, NodeClassifier]
) -> None:
    path = tmp_path / "report.html"
    write_demo_report(
        path, graph=graph, given=given, models=models, scores=SCORES, noise="<b>", seconds={}
    )
    html = path.read_text(encoding="utf-8")
    assert html.startswith("<!DOCTYPE html>")
    assert html.endswith("</html>\n")
    assert len(html) < 3_000_000
    for raw in ("<N>", "town <", "<b>", "south & sea"):
        assert raw not in html
        assert raw in unescape(html)
    assert "erase demo" in html
    assert repr(models["ERASE"]) in unescape(html)
