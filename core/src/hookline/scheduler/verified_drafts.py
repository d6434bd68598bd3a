"""Counts what became of a step's drafts."""

from dataclasses import dataclass, field


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
