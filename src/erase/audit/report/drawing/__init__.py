"""The paper's pictures: functions from numbers to a matplotlib figure; nothing global is touched.

Colours are safe for colour-blind readers, and each comes with a marker, a dash or a name.
"""

from erase.audit.report.drawing.canvas import picture_bytes, picture_kind, save_picture
from erase.audit.report.drawing.maps import (
    Embeddings,
    cosine_map,
    pairwise_pca_map,
    pca_map,
    tsne_map,
)
from erase.audit.report.drawing.plots import (
    Bar,
    Line,
    Look,
    Slice,
    bars,
    dots,
    lines,
    radar,
    slices,
)
from erase.audit.report.palette import COLOURS, GREY, MARKERS

__all__ = [
    "COLOURS",
    "GREY",
    "MARKERS",
    "Bar",
    "Embeddings",
    "Line",
    "Look",
    "Slice",
    "bars",
    "cosine_map",
    "dots",
    "lines",
    "pairwise_pca_map",
    "pca_map",
    "picture_bytes",
    "picture_kind",
    "radar",
    "save_picture",
    "slices",
    "tsne_map",
]
