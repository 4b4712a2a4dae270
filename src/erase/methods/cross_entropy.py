"""CE: a graph neural network trained by cross-entropy on the labels as they are given."""

from dataclasses import dataclass

from torch import Tensor

from erase.methods.supervised import SupervisedClassifier
from erase.train import mean_cross_entropy


@dataclass(kw_only=True, eq=False, repr=False)
class CrossEntropy(SupervisedClassifier):
    """Minimise −log p(given label) over the training nodes: the baseline that believes every label.

    Args:
        encoder: "gat", "gcn" or "sage"; two layers, the second as wide as there are classes.
        hidden: width of the hidden layer, all attention heads together.
        heads: attention heads of the first layer.
        dropout: share of input features dropped in training.
        lr: Adam's learning rate.
        weight_decay: Adam's weight decay.
        epochs: most epochs to train.
        patience: epochs without a better validation accuracy before stopping.
        seed: of initial weights and dropout.
        device: "auto", "cpu" or "cuda".
    """

    def _losses(self, logits: Tensor, nodes: Tensor, classes: Tensor) -> Tensor:
        return mean_cross_entropy(logits, nodes, classes)
