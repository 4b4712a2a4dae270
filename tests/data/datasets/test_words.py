import math

import numpy as np
import torch

from erase.data.datasets.words import bag_of_words


def test_rare_words_weigh_log_one_plus_n_over_d() -> None:
    # node 0: words 0 1; node 1: word 1; node 2: none; node 3: words 1 2
    x = bag_of_words(np.array([0, 2, 3, 3, 5]), np.array([0, 1, 1, 1, 2]), 4)
    rare, common = math.log(1 + 4 / 1), math.log(1 + 4 / 3)
    total = rare + common
    expected = torch.tensor(
        [
            [rare / total, common / total, 0, 0],
            [0, 1, 0, 0],
            [0, 0, 0, 0],
            [0, common / total, rare / total, 0],
        ]
    )
    assert x.layout == torch.sparse_csr
    assert (x.dtype, x.crow_indices().dtype) == (torch.float32, torch.int64)
    torch.testing.assert_close(x.to_dense(), expected)
