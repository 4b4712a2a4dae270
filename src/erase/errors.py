"""The one exception a user of this package has to catch."""


class EraseError(ValueError):
    """Bad input: what was expected, what came, and what to do.

    >>> print(EraseError("labels in 0..6", "label 9 at node 12", "Fix the label or set it to -1."))
    expected labels in 0..6; got label 9 at node 12. Fix the label or set it to -1.
    """

    def __init__(self, expected: str, got: str, remedy: str) -> None:
        super().__init__(f"expected {expected}; got {got}. {remedy}")
        self.expected = expected
        self.got = got
        self.remedy = remedy
