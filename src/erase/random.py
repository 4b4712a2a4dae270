"""One named random stream per purpose, so that no draw disturbs another.

The stream called ``"dropout"`` of seed 0 is the same whether or not somebody drew noise before.
Nothing here touches a global generator, and seed 0 is a seed like any other.
"""

import zlib

import numpy as np
import torch

from erase.errors import EraseError, shown


def _sequence(seed: int, purpose: str) -> np.random.SeedSequence:
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**63:
        raise EraseError(
            "a seed that is a whole number from 0 to 2^63 - 1", shown(seed)[:50], "Pass seed=0, …"
        )
    return np.random.SeedSequence([int(seed), zlib.crc32(purpose.encode())])


def numpy_stream(seed: int, purpose: str) -> np.random.Generator:
    """Return numpy's generator for `purpose` under `seed`.

    >>> [int(numpy_stream(0, "noise").integers(100)) for _ in range(2)]  # the same stream, twice
    [92, 92]
    """
    return np.random.default_rng(_sequence(seed, purpose))


def torch_stream(seed: int, purpose: str, device: str | torch.device = "cpu") -> torch.Generator:
    """Return torch's generator for `purpose` under `seed`, on `device`."""
    state = int(_sequence(seed, purpose).generate_state(1, np.uint64)[0])
    return torch.Generator(device).manual_seed(state)
