"""Tells an engine's owner of other clients' requests, in numbers."""

from hookline.events import StepOutput
from hookline.request_ids import client_of
from hookline.sections import Section
from hookline_metrics.saturation import OthersWork

OTHERS_WORK = Section("cluster", OthersWork)
"""Section of an output for the owner of its engine."""


class OtherClientsLoad:
    """Counts the requests of secondary clients that begin and end; for one thread.

    The owner knows only its own requests, and has to know what an engine's requests
    demand, to choose the number of engines.
    """

    def __init__(self, owner_index: int) -> None:
        """Counts the requests of all clients but the owner."""
        self._owner = owner_index
        self._cached: dict[int, int] = {}
        self._begun: set[int] = set()

    def on_output(self, output: StepOutput) -> OthersWork | None:
        """Counts an output; returns None if it says nothing of others' requests."""
        self._take_scheduling(output)
        begun = cached = ended = 0
        for tokens in output.events.new_tokens:
            request_id = tokens.request_id
            if request_id not in self._begun and client_of(request_id) != self._owner:
                self._begun.add(request_id)
                begun += 1
                cached += self._cached.pop(request_id, 0)
        for event in output.events.finished:
            self._cached.pop(event.request_id, None)
            if event.request_id in self._begun:
                self._begun.discard(event.request_id)
                ended += 1
        return OthersWork(begun, cached, ended) if begun or ended else None

    def _take_scheduling(self, output: StepOutput) -> None:
        for event in output.events.scheduled:
            request_id = event.request_id
            if request_id not in self._begun and client_of(request_id) != self._owner:
                found = event.local_cached_tokens + event.external_cached_tokens
                found += event.transferred_tokens
                self._cached.setdefault(request_id, found)
        for lost in output.events.preempted:
            if lost.request_id in self._cached:
                self._cached[lost.request_id] -= lost.failed_external_tokens
