"""Standard input, which commands read first, and which no library may read."""

import os

READERS = frozenset({"generate", "replay", "run-batch"})
"""Commands that may read it; they close it once they have what they need. A debugger
needs it to the end."""


def close_standard_input() -> None:
    """Makes all readers find the end of the input: no library can prompt there."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    if nothing != 0:
        os.dup2(nothing, 0)
        os.close(nothing)
