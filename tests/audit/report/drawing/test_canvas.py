"""Files of pictures."""

from pathlib import Path

import pytest
from matplotlib.figure import Figure
from PIL import Image

from erase.audit.report.drawing import Line, Look, lines, picture_bytes, save_picture
from erase.audit.report.drawing.canvas import label
from erase.errors import EraseError


def figure() -> Figure:
    return lines({"a": [Line("b", [0, 1], [0, 1], Look("#000000"))]}, x_label="x", y_label="y")


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_the_same_numbers_give_the_same_bytes(tmp_path: Path, kind: str) -> None:
    files = [tmp_path / f"{i}.{kind}" for i in range(2)]
    for path in files:
        save_picture(figure(), path)
    first, again = (path.read_bytes() for path in files)
    assert first == again
    assert b"date" not in first.lower()


def test_the_ending_chooses_the_kind(tmp_path: Path) -> None:
    save_picture(figure(), tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_text().startswith("<?xml")
    save_picture(figure(), tmp_path / "new folder" / "a.PNG")
    with Image.open(tmp_path / "new folder" / "a.PNG") as image:
        assert image.format == "PNG"


def test_another_ending_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(EraseError, match=r"\.svg or \.png"):
        save_picture(figure(), tmp_path / "a.pdf")
    assert not list(tmp_path.iterdir())


def test_pictures_do_not_touch_matplotlibs_settings() -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    picture_bytes(figure(), "svg")
    assert dict(matplotlib.rcParams) == before


def test_long_names_keep_both_ends() -> None:
    assert label("a name that is far longer than any label can be") == "a name that …abel can be"
    assert label("x" * 60, longest=80) == "x" * 60
