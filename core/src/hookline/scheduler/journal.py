"""Collects a step's events until they are sent as one batch."""

from dataclasses import dataclass, field

from hookline.events import Finished, NewTokens, Preempted, Queued, Scheduled


@dataclass(slots=True)
class Journal:
    """Events since the last batch."""

    queued: list[Queued] = field(default_factory=list)
    scheduled: list[Scheduled] = field(default_factory=list)
    preempted: list[Preempted] = field(default_factory=list)
    new_tokens: list[NewTokens] = field(default_factory=list)
    finished: list[Finished] = field(default_factory=list)
