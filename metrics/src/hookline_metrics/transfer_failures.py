"""Stages and reasons of failures of transfers, as labels of their metric."""

from enum import StrEnum


class Stage(StrEnum):
    """Stage of a transfer that failed.

    `load` and `save` are transfers, an `incident` is reported by a connector and
    belongs to no transfer; the others are calls of the connector.
    """

    LOOKUP = "lookup"
    ALLOCATE = "allocate"
    METADATA = "metadata"
    LOAD = "load"
    SAVE = "save"
    FINISH = "finish"
    POLL = "poll"
    RESET = "reset"
    INCIDENT = "incident"


class Reason(StrEnum):
    """Reasons that the engine detects; connectors report further ones."""

    RAISED = "raised"
    HUNG = "hung"
    MALFORMED = "malformed"
    DEADLINE = "deadline"
    ABORTED = "aborted"
    UNREPORTED = "unreported"
    INCOMPLETE = "incomplete"
    NO_METADATA = "no_metadata"
    RECLAIMED = "reclaimed"


MOST_LETTERS = 40
"""Longest reason or tier name of a connector in a label, in characters."""
