"""The one exception a user of this package has to catch."""


class EraseError(ValueError):
    """Bad input: what was expected, what came, and what to do.

    Attributes:
        option: the argument that the remedy names as ``option=…``, or None.

    >>> print(EraseError("labels in 0..6", "label 9 at node 12", "Fix the label or set it to -1."))
    expected labels in 0..6; got label 9 at node 12. Fix the label or set it to -1.
    """

    def __init__(self, expected: str, got: str, remedy: str, option: str | None = None) -> None:
        super().__init__(f"expected {expected}; got {got}. {remedy}")
        self.expected = expected
        self.got = got
        self.remedy = remedy
        self.option = option

    def for_command_line(self) -> str:
        """Return the message with the argument as an option of the command line.

        >>> EraseError("a column 'id'", "none", "Name it: id=….", "id").for_command_line()
        "expected a column 'id'; got none. Name it: --id …."
        """
        if self.option is None:
            return str(self)
        option = f"--{self.option.replace('_', '-')}"
        flag = str(self).replace(f"{self.option}=True", option)
        return flag.replace(f"{self.option}=", f"{option} ")
