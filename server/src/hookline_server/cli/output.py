"""Printing of results and errors."""

import sys
from collections.abc import Sequence


def say(text: str) -> None:
    """Prints one or more lines of result and flushes them."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def complain(text: str) -> None:
    """Prints a line to standard error."""
    sys.stderr.write(f"{text}\n")


def table(rows: Sequence[Sequence[str]]) -> str:
    """Formats rows as lines with aligned columns."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    )
