"""The one exception a user of this package has to catch."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

WITHOUT_WEIGHTS = "NodeTask.of(graph, weights=False)"
WITH_CONTRACT = "from_tables(nodes, edges, contract=model.contract_)"
_ON_THE_COMMAND_LINE = {  # what a remedy names, and what does the same there
    WITHOUT_WEIGHTS: "--no-weights",
    WITH_CONTRACT: "erase convert TABLES FOLDER --model MODEL",
}
# an argument that most functions on graphs lack, and the calls that have it
_LABEL = "that holds them: label=…"
_CALLS_WITH_LABEL = (
    "that holds them: erase.NodeTask.from_tables(nodes, edges, label=…), "
    "from_networkx(graph, label=…) or erase.read_graph(path, label=…)"
)


class EraseError(ValueError):
    """Bad input: what was expected, what came, and what to do.

    Attributes:
        option: the argument that the remedy names as ``option=…``, or None.

    >>> print(EraseError("labels in 0..6", "label 9 at node 12", "Fix the label or set it to -1."))
    expected labels in 0..6; got label 9 at node 12. Fix the label or set it to -1.
    """

    def __init__(self, expected: str, got: str, remedy: str, option: str | None = None) -> None:
        in_python = remedy.replace(_LABEL, _CALLS_WITH_LABEL)
        super().__init__(f"expected {expected}; got {got}. {in_python}")
        self.expected = expected
        self.got = got
        self.remedy = remedy
        self.option = option

    def for_command_line(self) -> str:
        """Return the message with the argument as an option of the command line.

        >>> EraseError("a column 'id'", "none", "Name it: id=….", "id").for_command_line()
        "expected a column 'id'; got none. Name it: --id …."
        """
        message = f"expected {self.expected}; got {self.got}. {self.remedy}"
        for python, command in _ON_THE_COMMAND_LINE.items():
            message = message.replace(python, command)
        if self.option is None:
            return message
        option = f"--{self.option.replace('_', '-')}"
        flag = message.replace(f"{self.option}=True", option)
        unquoted = re.sub(rf"\b{self.option}='(\w+)'", rf"{option} \1", flag)
        return unquoted.replace(f"{self.option}=", f"{option} ")


def shown(value: object) -> str:
    """Return a value for an error, a huge number by its size: Python refuses to write those out.

    >>> shown("a"), shown(2**64), shown(10**5000)
    ("'a'", '18446744073709551616', 'a number of 16610 bits')
    """
    if isinstance(value, int) and value.bit_length() > 128:
        return f"a number of {value.bit_length()} bits"
    return repr(value)


def is_memory_error(error: BaseException) -> bool:
    """Return whether an allocation failed: torch raises RuntimeErrors then."""
    words = r"allocate|not enough memory|out of memory|overflow"
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and re.search(words, str(error), re.I) is not None
    )


@contextmanager
def input_errors(what: str) -> Iterator[None]:
    """Turn what input of wrong types makes the block, or the function, raise into an EraseError.

    Usual mistakes have errors of their own; this is for the others.

    Args:
        what: was expected.
    """
    odd = (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, RuntimeError)
    libraries = ("networkx", "numpy")  # numpy's MaskError and networkx's errors are none of these
    try:
        with memory_errors():
            yield
    except Exception as error:
        is_odd = isinstance(error, odd) or type(error).__module__.split(".")[0] in libraries
        if not is_odd or isinstance(error, EraseError | OSError) or is_memory_error(error):
            raise
        reason = f"{type(error).__name__}: {first_line(error)[:200]}"
        raise EraseError(what, reason, "Check its types and shapes.") from error


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or its type where it has none."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


@contextmanager
def damage_errors(expected: str, path: object, remedy: str) -> Iterator[None]:
    """Turn whatever broken contents of a file make the block raise into an EraseError.

    An OSError is left as it is: it names its own file.

    Args:
        expected: of the file.
        path: of the file.
        remedy: what to do.
    """
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        raise EraseError(expected, f"{path}, damaged: {first_line(error)}", remedy) from error


@contextmanager
def memory_errors() -> Iterator[None]:
    """Turn a failed allocation of the block, or of the function, into an EraseError.

    That of a GPU is left as it is: a caller may try again with less.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_memory_error(error) or "CUDA" in str(error):
            raise
        remedy = "Use a smaller graph or model, or a larger machine."
        raise EraseError("enough memory", first_line(error), remedy) from error
