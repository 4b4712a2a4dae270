"""Numbers as a page shows them."""


def percent(share: float, decimals: int = 0) -> str:
    """Return a share in percent; only 0 looks like nothing, and only 1 like all.

    >>> percent(0.125), percent(0.005), percent(0.9996), percent(0.0), percent(0.034, 1)
    ('12%', 'less than 1%', 'more than 99%', '0%', '3.4%')
    """
    step = 10 ** -(decimals + 2)
    if 0 < share <= step / 2:
        return f"less than {step:.{decimals}%}"
    if 1 - step / 2 <= share < 1:
        return f"more than {1 - step:.{decimals}%}"
    return f"{share:.{decimals}%}"


def fine_percent(share: float) -> str:
    """Return a share in percent, with tenths below one: for "at least", where "less than" is wrong.

    >>> fine_percent(0.125), fine_percent(0.0044), fine_percent(0.0004), fine_percent(0.0)
    ('12%', '0.4%', '0%', '0%')
    """
    return f"{share:.1%}" if 0.0005 <= share < 0.00995 else f"{share:.0%}"


def interval(low: float, high: float) -> str:
    """Return two shares as an interval.

    >>> interval(0.02, 0.071), interval(0.001, 0.004), interval(0, 0)
    ('2–7%', '0.1–0.4%', '0–0%')
    """
    decimals = 1 if 0 < high < 0.01 else 0
    return f"{100 * low:.{decimals}f}–{high:.{decimals}%}"
