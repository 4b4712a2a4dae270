"""Draw the README's picture: ``python docs/pictures.py`` writes docs/demo.png.

The models are those of `erase demo`, seed 0: the embedded Debian graph, 40 % symmetric noise on
training and validation labels.
"""

from pathlib import Path

from PIL import Image

import erase
from erase.bench import PROTOCOLS, given_labels
from erase.draw import Embeddings, cosine_map


def main() -> None:
    """Train both methods and draw the similarity of their representations."""
    clean = erase.load_dataset("debian")
    given = given_labels(clean, "symmetric", 0.4, 0, PROTOCOLS["honest"])
    test = clean.test_mask.numpy()
    models = {
        "ERASE": erase.ERASE(epochs=150, device="cpu").fit(given, progress=True),
        "cross-entropy": erase.CrossEntropy(epochs=150, device="cpu").fit(given, progress=True),
    }
    embeddings = {name: model.transform()[test] for name, model in models.items()}
    figure = cosine_map(Embeddings(embeddings, clean.y.numpy()[test], clean.class_names))
    path = Path(__file__).parent / "demo.png"
    figure.savefig(path, dpi=90)
    Image.open(path).convert("RGB").quantize(128).save(path, optimize=True)


if __name__ == "__main__":
    main()
