"""The state of requests' KV transfers."""

from collections.abc import Mapping

from hookline.config.extensions import KV_TRANSFER
from hookline.frozen import EMPTY, frozen_json, frozen_map
from hookline.request import Request
from hookline_registry import Failure, isolate


class TransferState:
    """State of a request's KV transfers.

    Attributes:
        params: The client's parameters for the connector, unchangeable; or None.
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
        "params",
        "seen_block_hashes",
        "seen_token_ids",
        "tier_tokens",
        "waited",
    )

    def __init__(self, params: Mapping[str, object] | None = None) -> None:
        self.params = params
        self.seen_token_ids: tuple[int, ...] = ()
        self.seen_block_hashes: tuple[bytes, ...] = ()
        self.may_load = True
        self.external_tokens = range(0)
        self.waited: tuple[int, int] | None = None
        self.tier_tokens: Mapping[str, int] = EMPTY


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
