"""What an engine process knows of its secondary clients, and their open requests."""

from collections import deque
from collections.abc import Iterable

from hookline.engine.commands import Add, Finish
from hookline.events import Finished, StepOutput
from hookline.finish_cause import Aborted
from hookline.request_ids import client_of

STATE_NS = 10_000_000
"""Least time between two steps' states for a secondary client whom no event concerns.

Its placement needs no more, and each output costs it a turn of its event loop.
"""

MOST_RECENT = 8192
"""Ends of a client's requests that are kept, in case it ends before it tells them."""

ABANDONED = Aborted("api_server_ended")


class ClientTable:
    """The secondary clients of an engine; for one thread.

    Attributes:
        orphaned_by: Those that have been force-detached and still have open requests.
    """

    def __init__(self) -> None:
        self.orphaned_by: set[int] = set()
        self._open: dict[int, set[int]] = {}
        self._gone: set[int] = set()
        self._recent: dict[int, deque[Finished]] = {}
        self._sent_at: dict[int, int] = {}

    @property
    def are_empty(self) -> bool:
        """Whether all open requests are the owner's, and will be."""
        return not self._open

    def arrived(self, client: int) -> None:
        """Opens the books of a secondary client."""
        self._open.setdefault(client, set())
        self._recent[client] = deque(maxlen=MOST_RECENT)

    def sent(self, client: int, add: Add) -> None:
        """Notes the requests that a secondary client has sent."""
        if (open_ids := self._open.get(client)) is not None:
            open_ids |= {add.request.request_id, *add.sibling_ids}

    def ended(self, events: Iterable[Finished]) -> None:
        """Notes the ends of requests."""
        for event in events:
            client = client_of(event.request_id)
            if (open_ids := self._open.get(client)) is not None:
                open_ids.discard(event.request_id)
                if client not in self._gone:
                    self._recent[client].append(event)
                elif not open_ids:
                    self._close(client)

    def left(self, client: int, *, is_forced: bool) -> Finish | None:
        """Closes the books of a secondary client.

        Returns:
            What ends its open requests; None if there are none. If it is
            force-detached, the ends of its requests still count.
        """
        if not is_forced:
            self._recent.pop(client, None)
        open_ids = self._open.get(client)
        if not open_ids:
            self._close(client)
            return None
        self._gone.add(client)
        if is_forced:
            self.orphaned_by.add(client)
        return Finish(sorted(open_ids), ABANDONED)

    def take_recent(self, client: int) -> list[Finished]:
        """Returns the latest ends that a force-detached client got, once."""
        return list(self._recent.pop(client, ()))

    def concerns(self, client: int, part: StepOutput) -> bool:
        """Whether a secondary client needs its part of an output now."""
        has_news = bool(
            part.events.have_requests
            or part.events.cache_changes is not None
            or part.clock is not None
            or part.cause != "step"
        )
        if not has_news and part.at - self._sent_at.get(client, 0) < STATE_NS:
            return False
        self._sent_at[client] = part.at
        return True

    def _close(self, client: int) -> None:
        self._open.pop(client, None)
        self._sent_at.pop(client, None)
        self._gone.discard(client)
        self.orphaned_by.discard(client)
