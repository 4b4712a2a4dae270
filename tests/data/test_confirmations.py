"""The column of trusted labels in a table: classes or true and false, and what the notes say."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import erase
from erase.data.task import NodeTask
from erase.errors import EraseError

LABELS = ["chess", "rowing"] * 15
EDGES = pd.DataFrame({"source": [0, 1], "target": [1, 2]})


def task(trusted: list[Any], labels: list[Any] = LABELS, **options: Any) -> NodeTask:
    column = [*trusted, *[None] * (len(labels) - len(trusted))]
    nodes = pd.DataFrame({"id": range(len(labels)), "label": labels, "trusted": column})
    return NodeTask.from_tables(nodes.assign(size=range(len(labels))), EDGES, **options)


def trusted_notes(made: NodeTask) -> list[str]:
    return [note for note in made.notes if "rusted" in note or "write true" in note]


@pytest.mark.parametrize(
    "values", [[True, None, False], [1, None, 0], ["yes", "", "No"], ["TRUE", None, " false"]]
)
def test_true_and_false_have_many_spellings(values: list[Any]) -> None:
    made = task(values)
    assert made.class_names == ("chess", "rowing")
    assert made.trusted is not None
    assert made.trusted[:3].tolist() == [0, -1, -1]
    assert trusted_notes(made) == ["Trusted labels: the column 'trusted' (1)."]


@pytest.mark.parametrize("values", [["yes", "no"], ["true", "false"], [1, 0]])
def test_they_are_classes_where_labels_have_them(values: list[Any]) -> None:
    made = task(values, [*values, values[0]])
    assert made.trusted is not None
    assert made.trusted.tolist() == [*made.y[:2].tolist(), -1]
    assert trusted_notes(made)[0] == "Trusted labels: the column 'trusted' (2)."
    assert trusted_notes(made)[1] == (
        "The values of 'trusted' are classes: write true to confirm a label."
    )


def test_a_column_without_any_given_class_is_refused() -> None:
    with pytest.raises(EraseError) as caught:
        task(["ja", None, "ja"])
    assert str(caught.value) == (
        "expected classes in the column 'trusted' ('chess', 'rowing'), or true and false; got "
        "'ja'. Rename the column if it means something else."
    )
    with pytest.raises(EraseError, match=r"trusted label 0\.93.* Rename the column 'trusted'"):
        task([0.93])
    with pytest.raises(EraseError, match="merge misspelt classes: merge_classes=True"):
        task(["Chess", "ROWING"])
    with pytest.raises(EraseError, match="got 'ja'"):
        task(["ja"], [3, 4] * 10)


def test_new_classes_are_told_with_their_counts() -> None:
    made = task(["chess", "Chess", "go", "go"])
    assert made.class_names == ("Chess", "chess", "go", "rowing")
    assert trusted_notes(made) == [
        "Trusted labels: the column 'trusted' (4).",
        "Trusted labels of classes that no given label has: 'Chess' (1) for 'chess', 'go' (2); "
        "merge_classes=True or --merge-classes merges misspelt ones.",
    ]
    merged = task(["chess", "Chess", "go", "go"], merge_classes=True)
    assert merged.class_names == ("chess", "go", "rowing")
    assert merged.num_trusted == 4
    assert trusted_notes(merged)[1:] == [
        "Misspelt trusted classes were merged: 'Chess' (1) for 'chess'.",
        "Trusted labels of classes that no given label has: 'go' (2).",
    ]


def test_labels_that_are_all_unknown_allow_any_trusted_class() -> None:
    made = task(["chess", "rowing"] * 5, [""] * 30)
    assert made.class_names == ("chess", "rowing")
    assert made.num_trusted == 10


@pytest.mark.parametrize("word", ["1", "yes"])
def test_a_csv_is_read_alike(word: str, tmp_path: Path) -> None:
    no = {"1": "0", "yes": "no"}[word]
    cells = [f"{word},{word}" if i < 4 else f",{no}" for i in range(10)]
    rows = "".join(f"{i},{3 + i % 2},{cell}\n" for i, cell in enumerate(cells))
    (tmp_path / "nodes.csv").write_text(f"id,label,trusted,trusted_random\n{rows}")
    (tmp_path / "edges.csv").write_text("source,target\n1,2\n2,3\n")
    made = NodeTask.of(erase.read_graph(tmp_path))
    assert made.label_values.tolist() == [3, 4]
    assert made.num_trusted == 4
    assert made.trusted_random is not None
    assert int(made.trusted_random.sum()) == 4
