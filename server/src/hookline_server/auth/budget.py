"""What a key or a tenant has left of its limits."""

from enum import StrEnum
from typing import NamedTuple

from hookline_server.auth.key import Limits
from hookline_server.auth.token_bucket import TokenBucket

CONCURRENCY_RETRY_SECONDS = 1.0
"""When to try again if too many requests are open; nobody knows when one ends."""


class Limit(StrEnum):
    """Which limit a request exceeds; the names of the fields of `Limits`."""

    REQUESTS = "requests_per_minute"
    TOKENS = "tokens_per_minute"
    CONCURRENCY = "concurrent_requests"


class Exceeded(NamedTuple):
    """A limit without room.

    Attributes:
        most: Value of the limit.
        seconds: Time until there may be room.
    """

    limit: Limit
    most: int
    seconds: float


class Budget:
    """The buckets of one key or tenant, and the number of its open requests.

    Attributes:
        requests: Requests that are left; None without such a limit.
        tokens: Tokens that are left; None without such a limit.
    """

    __slots__ = ("_most_open", "_num_open", "requests", "tokens")

    def __init__(self, limits: Limits, now: float) -> None:
        self._num_open = 0
        self.requests: TokenBucket | None = None
        self.tokens: TokenBucket | None = None
        self.use(limits, now)

    def use(self, limits: Limits, now: float) -> None:
        """Changes the limits; what was used stays used."""
        self._most_open = limits.concurrent_requests
        self.requests = _resized(self.requests, limits.requests_per_minute, now)
        self.tokens = _resized(self.tokens, limits.tokens_per_minute, now)

    def exceeded(self, now: float) -> Exceeded | None:
        """Returns a limit that has no room for one more request, or None.

        A request needs one token of the minute; it may overdraw it.
        """
        if self._most_open is not None and self._num_open >= self._most_open:
            return Exceeded(
                Limit.CONCURRENCY, self._most_open, CONCURRENCY_RETRY_SECONDS
            )
        for limit, bucket in (
            (Limit.REQUESTS, self.requests),
            (Limit.TOKENS, self.tokens),
        ):
            if bucket is not None and bucket.level(now) < 1:
                return Exceeded(limit, bucket.capacity, bucket.seconds_until(1, now))
        return None

    def is_unused(self, now: float) -> bool:
        """Whether a new budget would be the same: nothing is open or used up."""
        buckets = (self.requests, self.tokens)
        return not self._num_open and all(
            each is None or each.level(now) >= each.capacity for each in buckets
        )

    def open_request(self, now: float) -> None:
        """Counts a request as open; pair it with `close_request`."""
        self._num_open += 1
        if self.requests is not None:
            self.requests.consume(1, now)

    def close_request(self) -> None:
        self._num_open -= 1

    def charge(self, tokens: int, now: float) -> None:
        """Takes tokens that were used."""
        if self.tokens is not None:
            self.tokens.consume(tokens, now)


def _resized(
    bucket: TokenBucket | None, per_minute: int | None, now: float
) -> TokenBucket | None:
    if per_minute is None:
        return None
    if bucket is None:
        return TokenBucket(per_minute, now)
    bucket.resize(per_minute, now)
    return bucket
