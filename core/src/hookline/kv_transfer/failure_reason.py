"""Where and why transfers fail, in the words of their metric."""

from enum import StrEnum


class Stage(StrEnum):
    """What was being done.

    A `load` and a `save` are transfers, an `incident` is what a connector tells of no
    transfer; the others are calls of the connector.
    """

    LOOKUP = "lookup"
    ALLOCATE = "allocate"
    METADATA = "metadata"
    LOAD = "load"
    SAVE = "save"
    FINISH = "finish"
    POLL = "poll"
    INCIDENT = "incident"


class Reason(StrEnum):
    """What the engine itself finds; a connector reports reasons of its own, too."""

    RAISED = "raised"
    MALFORMED = "malformed"
    DEADLINE = "deadline"
    ABORTED = "aborted"
    UNREPORTED = "unreported"
    INCOMPLETE = "incomplete"
    NO_METADATA = "no_metadata"


MOST_LETTERS = 40
"""Of a connector's own words in labels."""
