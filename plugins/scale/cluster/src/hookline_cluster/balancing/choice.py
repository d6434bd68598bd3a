"""The engine that is chosen for a request."""

from enum import StrEnum
from typing import NamedTuple


class Reason(StrEnum):
    """Why an engine got a request.

    The client or a probe named it, it was the only one that could be chosen, it had the
    least load, it was its turn, it had cached most of the prompt, those that had cached
    more had too much load, or the request's engine had ended.
    """

    NAMED = "named"
    ONLY = "only"
    LOAD = "load"
    TURN = "turn"
    PREFIX = "prefix"
    SPILL = "spill"
    MOVED = "moved"


class Choice(NamedTuple):
    """The engine that gets a request, and why."""

    engine_index: int
    reason: Reason
