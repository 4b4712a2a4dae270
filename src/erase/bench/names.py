"""Names as tables and figures show them."""

from pathlib import Path

METHOD_NAMES: dict[str, str] = {
    # the paper's eight, in its order
    "ce": "CE",
    "apl": "APL",
    "gce": "GCE",
    "codis": "Co-Dis",
    "mcr2": "MCR²",
    "rtgnn": "RT-GNN",
    "pignn": "PI-GNN",
    "erase": "ERASE",
    # sanity rows
    "ce-gcn": "CE with GCN",
    "label-propagation": "label propagation",
    "smoothed": "smoothed features",
    # ours beyond the paper
    "relabelling": "relabelling",
    # published elsewhere
    "nrgnn": "NRGNN",
    "pta": "PTA",
}

DETECTOR_NAMES: dict[str, str] = {
    "audit": "audit",
    "confidence": "confidence",
    "confident-learning": "confident learning",
    "graphcleaner": "GraphCleaner",
    "loss-mixture": "loss mixture",
    "area-under-margin": "area under margin",
}
# what an audit lacks in an ablation, by the name in ABLATIONS
ABLATION_NAMES: dict[str, str] = {
    "labels": "without neighbours' labels",
    "place": "without the adjacency embedding",
    "graph": "without either",
    "edges": "features alone, no edges",
    "features": "edges alone, no features",
}
EDGE_MODEL_NAMES: dict[str, str] = {
    "propagation": "label propagation",
    "neighbours": "neighbour majority",
    "place": "regression on the adjacency embedding",
}

# strategies of a simulated review: ours, then those of a plain regression on the answers
REVIEW_NAMES: dict[str, str] = {
    "audit-gain": "audit, most gained",
    "audit-suspicious": "audit, most suspicious first",
    "audit-random": "audit, random",
    "plain-random": "regression, random",
    "plain-margin": "regression, smallest margin",
    "plain-clusters": "regression, clusters",
    "plain-activelab": "regression, ActiveLab",
}

FIT_NAMES: dict[str, str] = {
    "seen": "nodes seen",
    "unseen": "nodes unseen",
}

PAPER_METHODS = tuple(METHOD_NAMES)[:8]

_DATASET_NAMES = {
    "cora": "Cora",
    "citeseer": "CiteSeer",
    "pubmed": "PubMed",
    "corafull": "CoraFull",
}


def dataset_label(dataset: str) -> str:
    """Return the name of a dataset or file as tables and figures show it."""
    return _DATASET_NAMES.get(dataset, Path(dataset).stem)


def noise_place(noise: str, rate: float) -> str:
    """Return ``"noise:rate"``, the name of a cell in ``published.json``.

    >>> noise_place("symmetric", 0.30)
    'symmetric:0.3'
    """
    return f"{noise}:{rate:g}"
