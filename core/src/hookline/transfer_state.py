"""The state of a request's KV transfers."""

from collections.abc import Mapping

from hookline.frozen import EMPTY, frozen_json


class TransferState:
    """State of a request's KV transfers.

    Attributes:
        params: The client's parameters for the connector, unchangeable; or None.
        seen_token_ids: The request's tokens when the connector last saw them.
        seen_block_hashes: Likewise its block hashes.
        may_load: Whether to look up the request's KV in the connector.
        external_tokens: Range of positions whose KV the connector has loaded since the
            request last waited.
        waited: Begin and end of the time that the request waited for a load since it
            was last admitted, ns; the end is 0 until it is known.
        unproven: Id of the synchronous load in progress that the request's KV depends
            on; None if there is none.
        tier_tokens: Tokens of its last load by the connector's tier that had them, as
            far as the connector told when it accepted the load.
        num_doomed_results: Number of results in flight that depend on a failed load;
            their tokens are dropped.
    """

    __slots__ = (
        "external_tokens",
        "may_load",
        "num_doomed_results",
        "params",
        "seen_block_hashes",
        "seen_token_ids",
        "tier_tokens",
        "unproven",
        "waited",
    )

    def __init__(self, params: Mapping[str, object] | None = None) -> None:
        self.params = None if params is None else frozen_json(params)
        self.seen_token_ids: tuple[int, ...] = ()
        self.seen_block_hashes: tuple[bytes, ...] = ()
        self.may_load = True
        self.external_tokens = range(0)
        self.waited: tuple[int, int] | None = None
        self.unproven: int | None = None
        self.tier_tokens: Mapping[str, int] = EMPTY
        self.num_doomed_results = 0
