"""What tests of pictures ask a figure."""

import io

from matplotlib.figure import Figure


def titles(figure: Figure) -> list[str]:
    return [axes.get_title() for axes in figure.axes]


def legend_texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def drawn(figure: Figure) -> None:
    """Lay the figure out and rasterise it: what is wrong with a label shows only then."""
    figure.savefig(io.BytesIO(), dpi=60)


def nothing_is_cut_off(figure: Figure) -> bool:
    drawn(figure)
    box = figure.get_tightbbox()
    width, height = figure.get_size_inches()
    return bool(min(box.x0, box.y0) >= 0 and box.x1 <= width and box.y1 <= height)
