"""Draw docs/relabelling.png from the embedded Debian graph: python docs/pictures.py.

Relabelling, seed 0: 30 % asymmetric noise on training and validation labels, and which rounds
count at other rates.
"""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

import erase
from erase.audit.report.drawing import COLOURS, GREY
from erase.audit.report.drawing.canvas import new_figure
from erase.bench import PROTOCOLS, given_labels


def relabelling() -> Figure:
    """Draw what relabelling finds out beside the truth, and what it rests on."""
    clean = erase.load_dataset("debian")
    rates = (0.0, 0.1, 0.3, 0.5)
    draws = {
        rate: given_labels(clean, "asymmetric", rate, 0, PROTOCOLS["honest"]) for rate in rates
    }
    models = {rate: erase.Relabelling(device="cpu").fit(draw) for rate, draw in draws.items()}
    given, model = draws[0.3].y.numpy(), models[0.3]
    labelled = given >= 0
    true = clean.y.numpy()
    counts = np.zeros_like(model.transition_)
    np.add.at(counts, (true[labelled], given[labelled]), 1)
    figure = new_figure(10, 8.4)
    upper, lower = figure.subplots(2, 2)
    for panel, matrix, title in (
        (upper[0], counts / counts.sum(1, keepdims=True), "which class was written down as which"),
        (upper[1], model.transition_, "the estimate of relabelling, from noisy labels alone"),
    ):
        image = panel.imshow(matrix, vmin=0, vmax=1, cmap="viridis")
        panel.set_title(title)
        panel.set_xticks(range(len(matrix)), clean.class_names, rotation=90)
        panel.set_yticks(range(len(matrix)), clean.class_names)
    figure.colorbar(image, ax=list(upper), label="P(given | true)", shrink=0.9)
    right = (true == given)[labelled]
    quality = model.quality_[labelled]
    lower[0].hist(
        [quality[right], quality[~right]],
        bins=20,
        range=(0, 1),
        color=[COLOURS[0], COLOURS[1]],
        label=[f"{right.sum()} right labels", f"{(~right).sum()} wrong ones"],
        hatch=["", "//"],
        edgecolor="white",
    )
    lower[0].set(xlabel="probability that the label is right", ylabel="labels", yscale="log")
    lower[0].set_title("quality of every label")
    lower[0].legend()
    bottom = np.zeros(len(rates))
    for number, colour in enumerate((GREY, COLOURS[0], COLOURS[2])):
        shares = np.array(
            [
                sum(share for (_, r, _), share in models[rate].evidence_.items() if r == number)
                for rate in rates
            ]
        )
        lower[1].bar(
            [f"{rate:.0%}" for rate in rates],
            shares,
            bottom=bottom,
            color=colour,
            hatch=("", "//", "..")[number],
            edgecolor="white",
            label=("labels as given", "reconsidered once", "reconsidered twice")[number],
        )
        bottom += shares
    lower[1].set(xlabel="labels made wrong", ylabel="share in the answer", ylim=(0, 1))
    lower[1].set_title("what the answer rests on")
    lower[1].legend(loc="lower left", framealpha=1.0)
    return figure


def main() -> None:
    """Draw the picture in 256 colours."""
    path = Path(__file__).parent / "relabelling.png"
    relabelling().savefig(path, dpi=90)
    Image.open(path).convert("RGB").quantize(256).save(path, optimize=True)


if __name__ == "__main__":
    main()
