"""The state of requests' KV transfers."""

from collections.abc import Mapping

from hookline.config.extensions import KV_TRANSFER
from hookline.frozen import EMPTY, frozen_json, frozen_map
from hookline.request import Request
from hookline_registry import Failure, isolate

REMOTE_CACHED = "remote_num_cached_tokens"
"""Key in `kv_transfer_params`: prompt tokens that the other engine had cached."""
REMOTE_ADAPTER = "remote_adapter"
"""Key in `kv_transfer_params`: digest of the adapter that the prompt was computed with.

It is there if there was one, so that an engine whose adapter of that name has other
weights by now does not even ask for keys and values that are not its request's.
"""


class TransferState:
    """State of a request's KV transfers.

    Attributes:
        params: The client's parameters for the connector, unchangeable; or None.
        moved_from: Position from which another instance has computed the prompt for
            this request; None if none has. What is before it was cached there.
        seen_token_ids: The request's tokens when the connector last saw them.
        seen_block_hashes: Likewise its block hashes.
        may_load: Whether to look up the request's KV in the connector.
        external_tokens: Range of positions whose KV the connector has loaded for its
            next admission.
        waited: Begin and end of the time that the request waited for a load since it
            was last admitted, ns; the end is 0 until it is known.
        tier_tokens: Tokens of its last load by the connector's tier that had them, as
            far as the connector told when it accepted the load.
    """

    __slots__ = (
        "external_tokens",
        "may_load",
        "moved_from",
        "params",
        "seen_block_hashes",
        "seen_token_ids",
        "tier_tokens",
        "waited",
    )

    def __init__(self, params: Mapping[str, object] | None = None) -> None:
        self.params = params
        self.moved_from = _moved_from(params)
        self.seen_token_ids: tuple[int, ...] = ()
        self.seen_block_hashes: tuple[bytes, ...] = ()
        self.may_load = True
        self.external_tokens = range(0)
        self.waited: tuple[int, int] | None = None
        self.tier_tokens: Mapping[str, int] = EMPTY

    def is_of_adapter(self, digest: str | None) -> bool:
        """Whether no other instance has computed the prompt with another adapter.

        Args:
            digest: That of the request's adapter; None without one.
        """
        params = self.params
        if not params or params.get("do_remote_prefill") is not True:
            return True
        return params.get(REMOTE_ADAPTER) == digest

    @property
    def transfer_id(self) -> str | None:
        """Name under which a client may release what is kept for another engine."""
        name = self.params and self.params.get("transfer_id")
        return name if isinstance(name, str) and name else None

    def num_moved(self, brought: range) -> int:
        """Returns how many of these positions another instance computed for it."""
        if self.moved_from is None:
            return 0
        return len(range(max(brought.start, self.moved_from), brought.stop))


def _moved_from(params: Mapping[str, object] | None) -> int | None:
    if not params or params.get("do_remote_prefill") is not True:
        return None
    cached = params.get(REMOTE_CACHED)
    return cached if type(cached) is int and cached > 0 else 0


class TransferStates:
    """The states of live requests."""

    def __init__(self) -> None:
        self._states: dict[int, TransferState] = {}

    def __contains__(self, request: Request) -> bool:
        return request.request_id in self._states

    def of(self, request: Request) -> TransferState:
        """Returns a request's state, which begins when it is first asked for."""
        if (state := self._states.get(request.request_id)) is None:
            state = self._states[request.request_id] = TransferState(_taken(request))
        return state

    def forget(self, request: Request) -> None:
        """The request ends."""
        self._states.pop(request.request_id, None)


def _taken(request: Request) -> Mapping[str, object] | None:
    """Takes the client's parameters from a request, which no worker needs."""
    if (given := request.sections.get(KV_TRANSFER)) is None:
        return None
    others = {name: one for name, one in request.sections.items() if one is not given}
    request.sections = frozen_map(others)
    if not isinstance(given, Mapping):
        return None
    frozen = isolate(frozen_json, given)
    return None if isinstance(frozen, Failure) else frozen
