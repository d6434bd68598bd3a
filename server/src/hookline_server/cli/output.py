"""What the command says, and where."""

import sys


def say(text: str) -> None:
    """A line (or more) of result, at once, also into a pipe."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def complain(text: str) -> None:
    """A line of complaint."""
    sys.stderr.write(f"{text}\n")
