"""Tables in Markdown."""

from collections.abc import Collection, Sequence


def grid(head: Sequence[str], rows: Sequence[Sequence[str]], numbers: Collection[int]) -> str:
    """Return a Markdown table; the columns in `numbers` are aligned to the right."""
    rule = ["---:" if column in numbers else "---" for column in range(len(head))]
    lines = [f"| {' | '.join(row)} |" for row in (head, rule, *rows)]
    return "\n".join(lines).replace("|  |", "| |")
