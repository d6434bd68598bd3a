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
class VerifiedDrafts:
    """Outcome of a step's drafts.

    Attributes:
        drafts: Requests that had drafts.
        draft_tokens: Number of their drafts.
        accepted_tokens: Drafts that were accepted and given to their requests.
        accepted_by_position: How many of them were a request's first, second, …
    """

    drafts: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0
    accepted_by_position: list[int] = field(default_factory=list)

    def add(self, num_drafts: int, num_accepted: int) -> None:
        """Counts the drafts of one request."""
        self.drafts += 1
        self.draft_tokens += num_drafts
        self.accepted_tokens += num_accepted
        by_position = self.accepted_by_position
        by_position += [0] * (num_accepted - len(by_position))
        for position in range(num_accepted):
            by_position[position] += 1


@dataclass(slots=True)
class StepEvents:
    """Events and counts since the last output."""

    queued: list[Queued] = field(default_factory=list)
    scheduled: list[Scheduled] = field(default_factory=list)
    preempted: list[Preempted] = field(default_factory=list)
    new_tokens: list[NewTokens] = field(default_factory=list)
    finished: list[Finished] = field(default_factory=list)
    verified: VerifiedDrafts = field(default_factory=VerifiedDrafts)
    sections: Sections = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether there are no events."""
        events = (self.queued, self.scheduled, self.preempted, self.new_tokens)
        return not any((*events, self.finished))
