"""A step's events and counts, until they are sent as one output."""

from dataclasses import dataclass, field

from hookline.events import (
    Finished,
    NewTokens,
    Preempted,
    Queued,
    Scheduled,
)
from hookline.sections import Sections


@dataclass(slots=True)
class StepEvents:
    """Events and counts since the last output."""

    queued: list[Queued] = field(default_factory=list)
    scheduled: list[Scheduled] = field(default_factory=list)
    preempted: list[Preempted] = field(default_factory=list)
    new_tokens: list[NewTokens] = field(default_factory=list)
    finished: list[Finished] = field(default_factory=list)
    sections: Sections = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether there are no events."""
        events = (self.queued, self.scheduled, self.preempted, self.new_tokens)
        return not any((*events, self.finished))
