"""Which preemptions of an engine have a line: one a second, however many there are."""

from collections.abc import Mapping
from dataclasses import dataclass

from hookline.clock import NANOSECONDS
from hookline.events import Preempted
from hookline.payloads import RequestsPreempted
from hookline.request import RequestFacts

MIN_INTERVAL_SECONDS = 1


@dataclass(slots=True)
class PreemptionLines:
    """Makes the lines of one engine.

    Attributes:
        left_out: Number of preemptions since the last line that had none.
        next_at: Nanoseconds from which the next line may be written.
    """

    left_out: int = 0
    next_at: int = 0

    def next_line(self, now: int, preempted: RequestsPreempted) -> dict[str, str | int]:
        """Returns the fields of the line that is due; empty if none is.

        A line is about the first of the events; the others are left out, and counted in
        the next line.
        """
        if now < self.next_at:
            self.left_out += len(preempted.events)
            return {}
        fields = _fields(preempted.events[0], preempted.facts)
        if self.left_out:
            fields["left_out"] = self.left_out
        self.left_out = len(preempted.events) - 1
        self.next_at = now + MIN_INTERVAL_SECONDS * NANOSECONDS
        return fields


def _fields(
    event: Preempted, facts: Mapping[int, RequestFacts]
) -> dict[str, str | int]:
    fields: dict[str, str | int] = {
        "victim": _name(event.request_id, facts),
        "cause": event.cause.value,
        "freed_tokens": event.computed_tokens,
    }
    if event.beneficiary_id is not None:
        fields["beneficiary"] = _name(event.beneficiary_id, facts)
    victim = facts.get(event.request_id)
    if victim is not None and victim.trace_id:
        fields |= {"trace_id": victim.trace_id, "span_id": victim.span_id}
    return fields


def _name(request_id: int, facts: Mapping[int, RequestFacts]) -> str:
    """Returns the client's id of a request; the engine's if that is all there is."""
    known = facts.get(request_id)
    return known.client_id if known and known.client_id else f"#{request_id}"
