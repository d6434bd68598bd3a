"""What the command says, and where."""

import sys
from collections.abc import Sequence


def say(text: str) -> None:
    """A line (or more) of result, at once, also into a pipe."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def complain(text: str) -> None:
    """A line of complaint."""
    sys.stderr.write(f"{text}\n")


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows as lines, their cells in columns."""
    # The last two columns hold whole sentences, so the last is not padded.
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    )
