"""Gates that close and open before requests as they did in the recording."""

from collections.abc import Sequence

from hookline.engine.scheduler.readiness import Readiness
from hookline.request import Request
from hookline_recording.schema import Gated
from hookline_replay.clock import RecordedClock
from hookline_replay.requests import CAUSES
from hookline_replay.script import FAILING, Script

FETCHING = "remote_kv"
"""Gate of requests that wait for keys and values from a connector."""


class RecordedGate:
    """Implements `ReadinessGate`.

    The gates of an engine share what they hold: whichever is asked first lets requests
    go in the order of the recording.
    """

    param = None
    timeout_ns = None
    is_pending = False

    def __init__(
        self,
        name: str,
        script: Script,
        clock: RecordedClock,
        held: dict[int, Request],
    ) -> None:
        self.name = name
        self._script, self._clock, self._held = script, clock, held

    def is_open(self, request: Request) -> bool:
        """Returns False if the recording says so before its next output."""
        closings = self._script.closings.get(request.request_id)
        if not closings:
            return True
        place, gate = closings[0]
        if gate != self.name or place >= self._script.output_place:
            return True
        closings.popleft()
        self._held[request.request_id] = request
        return False

    def take_ready(self) -> Sequence[Readiness]:
        """Returns those that were let go next, and those that failed here."""
        found: list[Readiness] = []
        script, held = self._script, self._held
        script.skip_closings()
        while isinstance(record := script.next, Gated) and record.request_id in held:
            found.append(Readiness(held.pop(record.request_id)))
            script.place += 1
            script.skip_closings()
        for request_id in list(held):
            end = script.ended.get(request_id)
            if end is None or end.kind not in FAILING or end.at > self._clock.at:
                continue
            found.append(Readiness(held.pop(request_id), CAUSES[end.kind]))
        return found

    def cancel(self, request: Request) -> None:
        self._held.pop(request.request_id, None)

    def close(self) -> None:
        """Has nothing to end."""


class BeginningGate:
    """A `ReadinessGate` that keeps restored requests until they have their places.

    Attributes:
        is_closed: Whether they are being restored.
    """

    name = "checkpoint"
    param = None
    timeout_ns = None
    is_pending = False

    def __init__(self) -> None:
        self.is_closed = True

    def is_open(self, request: Request) -> bool:
        """Returns whether no request is being restored."""
        del request
        return not self.is_closed

    def take_ready(self) -> Sequence[Readiness]:
        """Returns nothing: whoever restores a request lets it go."""
        return ()

    def cancel(self, request: Request) -> None:
        """Has nothing to forget."""

    def close(self) -> None:
        """Has nothing to end."""


def gates_of(
    script: Script, clock: RecordedClock, held: dict[int, Request]
) -> list[RecordedGate]:
    """Makes the gates that requests of a recording had to wait at.

    Args:
        script: The recording.
        clock: The engine's clock.
        held: The requests that wait at any of them, by their ids.
    """
    for known in script.closings.values():  # a fetch closes its gate by itself
        kept = [each for each in known if each[1] != FETCHING]
        known.clear()
        known.extend(kept)
    names = {gate for each in script.closings.values() for _, gate in each}
    if script.checkpoint is not None:
        names |= {each.gate for each in script.checkpoint.requests if each.gate}
    return [RecordedGate(name, script, clock, held) for name in sorted(names)]
