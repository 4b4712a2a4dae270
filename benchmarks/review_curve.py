"""A simulated reviewer drives the app: python benchmarks/review_curve.py [--decisions 300].

Labels of a dataset are corrupted, the server of `erase review` runs as for a person, and a script
answers through its HTTP interface: the true class, and a wrong one in 5 % of the answers. After
every audit it prints how many decisions were made, how many wrong labels were found, the estimate
of the share of wrong labels beside the truth, and the test accuracy of relabelling with the trusted
labels. Needs the raw files of the dataset (ERASE_DATA).
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx2
import numpy as np

import erase
from erase.bench import PROTOCOLS, given_labels
from erase.data.labels import encode_labels
from erase.review.server import served
from erase.review.session import Plan, Session

SLIPS = 0.05  # share of answers that are wrong


class Reviewer:
    """A client of the server at a start address."""

    def __init__(self, url: str) -> None:
        self.client = httpx2.Client(
            base_url=url.split("/?")[0],
            timeout=60,
            # an audit takes longer than a connection is kept
            limits=httpx2.Limits(max_keepalive_connections=0),
        )
        self.client.get(url, follow_redirects=True).raise_for_status()
        self.client.post("/api/reviewer", json={"name": "simulated"}).raise_for_status()

    def get(self, path: str) -> Any:
        """Return what the server answers."""
        return self.client.get(path).raise_for_status().json()

    def decide(self, node: int, k: int, turn: int) -> None:
        """Send a decision."""
        body = {"decisions": [{"key": f"decision-{turn:06}", "node": node, "class": k}]}
        self.client.post("/api/decisions", json=body).raise_for_status()


def simulate(
    dataset: str, noise: str, rate: float, decisions: int, every: int, seed: int, strategy: str
) -> list[dict[str, Any]]:
    """Return a point of the learning curve for every audit."""
    clean = erase.load_dataset(dataset)
    truth = encode_labels(clean)[0].numpy()
    given = given_labels(clean, noise, rate, seed, PROTOCOLS["honest"])
    rng = np.random.default_rng(seed)
    points = []
    with (
        tempfile.TemporaryDirectory() as folder,
        erase.Reviews(Path(folder) / "reviews.sqlite", given) as reviews,
    ):

        def audit() -> Any:
            return erase.audit(reviews.apply(given), seed=seed, device="cpu")

        first = audit()
        labelled = first.given >= 0
        classes = len(first.class_names)
        plan = Plan(strategy=strategy, every=every, budget=decisions)  # type: ignore[arg-type]
        session = Session(first, reviews, plan, reaudit=audit, name=dataset)

        def point(app: Reviewer) -> dict[str, Any]:
            progress = app.get("/api/state")["progress"]
            trusted, _ = reviews.trusted_of(given)
            labels = np.where(trusted >= 0, trusted, first.given)[labelled]
            model = erase.Relabelling(seed=seed, device="cpu").fit(reviews.apply(given))
            return {
                "decisions": progress["reviewed"],
                "found": progress["changed"],
                "basis": progress["basis"],
                "wrong": {name: round(value, 4) for name, value in progress["wrong"].items()},
                "left": {name: round(value, 1) for name, value in progress["left"].items()},
                "truly_wrong": int((first.given != truth)[labelled].sum()),
                "still_wrong": int((labels != truth[labelled]).sum()),
                "may_stop": progress["may_stop"],
                "test_accuracy": round(100 * model.score(clean), 2),
            }

        with served(session) as url:
            app = Reviewer(url)
            points.append(point(app))
            for turn in range(decisions):
                (item,) = app.get("/api/items?n=1")
                node = int(item["node"])
                slip = rng.random() < SLIPS
                k = (truth[node] + (rng.integers(1, classes) if slip else 0)) % classes
                app.decide(node, int(k), turn)
                if (turn + 1) % every == 0:  # a person would go on; here every audit counts
                    wanted = (turn + 1) // every
                    while app.get("/api/state")["progress"]["audits"] < wanted:
                        time.sleep(0.2)
                    if wanted % 5 == 0:
                        points.append(point(app))
            app.client.close()
    return points


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="cora")
    parser.add_argument("--noise", default="annotator")
    parser.add_argument("--rate", type=float, default=0.3)
    parser.add_argument("--decisions", type=int, default=300)
    parser.add_argument("--every", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--strategy", default="mixed")
    for point in simulate(**vars(parser.parse_args())):
        print(json.dumps(point))


if __name__ == "__main__":
    main()
