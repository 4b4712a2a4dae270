"""Numbers as tables show them."""

import math
from collections.abc import Iterable

MINUS = "−"


def fixed(value: float, decimals: int) -> str:
    """Return a number with this many decimals and a real minus sign; never −0.

    >>> fixed(-0.004, 2), fixed(-12.345, 1), fixed(float("-inf"), 0)
    ('0.00', '−12.3', '−∞')
    """
    if math.isinf(value):
        return "∞" if value > 0 else f"{MINUS}∞"
    rounded = round(value, decimals) or 0.0
    return f"{rounded:.{decimals}f}".replace("-", MINUS)


def signed(value: float, decimals: int) -> str:
    """Return a number with its sign.

    >>> signed(1.25, 1), signed(-0.5, 2), signed(0.001, 2)
    ('+1.2', '−0.50', '0.00')
    """
    text = fixed(value, decimals)
    return f"+{text}" if round(value, decimals) > 0 else text


def probability(value: float | None) -> str:
    """Return a p-value with two digits.

    >>> probability(0.0437), probability(3e-7), probability(None)
    ('p 0.044', 'p < 0.0001', 'no p')
    """
    if value is None:
        return "no p"
    return "p < 0.0001" if value < 0.0001 else f"p {float(f'{value:.2g}'):g}"


def span(numbers: Iterable[int]) -> str:
    """Return the range of a few numbers.

    >>> span([5, 5]), span([10, 5])
    ('5', '5–10')
    """
    ordered = sorted(numbers)
    low, high = ordered[0], ordered[-1]
    return f"{low}" if low == high else f"{low}–{high}"
