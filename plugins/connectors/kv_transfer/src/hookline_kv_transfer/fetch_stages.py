"""Which queued requests wait for their KV's load to begin, and which have got theirs.

Those between the two, whose loads are in progress, are held aside at their gate.
"""

from collections.abc import Mapping

from hookline.request import Request

_ELSEWHERE = "do_remote_prefill"
"""The parameter by which a client says that another engine has a prompt's KV."""


class FetchStages:
    """The ids of queued requests by stage; each live request is in at most one."""

    def __init__(self) -> None:
        self._to_start: set[int] = set()
        self._loaded: set[int] = set()

    @property
    def num_to_start(self) -> int:
        """Number of queued requests whose load has not begun."""
        return len(self._to_start)

    @property
    def num_loaded(self) -> int:
        """Number of queued requests whose load has ended."""
        return len(self._loaded)

    def arrived(self, request: Request, params: Mapping[str, object] | None) -> None:
        """A request is queued, whose client may know that its KV is elsewhere."""
        if params is not None and params.get(_ELSEWHERE) is True:
            self._to_start.add(request.request_id)

    def looked_up(self, request: Request, *, will_wait: bool) -> None:
        """The connector has answered whether there is something to wait for."""
        if will_wait:
            self._loaded.discard(request.request_id)
            self._to_start.add(request.request_id)
        else:
            self._to_start.discard(request.request_id)

    def begun(self, request: Request) -> None:
        """The load has begun, or never will."""
        self._to_start.discard(request.request_id)

    def ended(self, request: Request) -> None:
        """The load has ended, and the request is queued again."""
        self._loaded.add(request.request_id)

    def left(self, request: Request) -> None:
        """The request has been admitted, or has ended."""
        self._to_start.discard(request.request_id)
        self._loaded.discard(request.request_id)
