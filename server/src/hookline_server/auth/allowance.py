"""What one request draws on: the budgets of its key and its tenant."""

import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from hookline_server.api_error import ApiError
from hookline_server.auth.budget import Budget, Exceeded
from hookline_server.auth.token_bucket import TokenBucket

RATE_LIMITED = "rate_limit_exceeded"
"""Code of the error."""


class Allowance(Protocol):
    """What one request draws on."""

    def used(self) -> AbstractAsyncContextManager[None]:
        """Counts the request as open.

        Raises:
            ApiError: 429; a limit has no room for it.
        """
        ...

    def charge(self, tokens: int) -> None:
        """Takes tokens that the request has used."""
        ...

    def headers(self) -> dict[str, str]:
        """Returns OpenAI's headers of rate limits."""
        ...


class OwnAllowance:
    """The budgets of a request, of which the tightest counts."""

    __slots__ = ("_budgets", "_clock")

    def __init__(self, budgets: Sequence[Budget], clock: Callable[[], float]) -> None:
        self._budgets = budgets
        self._clock = clock

    @asynccontextmanager
    async def used(self) -> AsyncIterator[None]:
        """Counts the request as open.

        Raises:
            ApiError: 429; a limit has no room for it.
        """
        if (exceeded := self.open_request()) is not None:
            raise refusal(exceeded)
        try:
            yield
        finally:
            for budget in self._budgets:
                budget.close_request()

    def open_request(self) -> Exceeded | None:
        """Counts the request as open, unless a limit has no room for it."""
        now = self._clock()
        for budget in self._budgets:
            if (exceeded := budget.exceeded(now)) is not None:
                return exceeded
        for budget in self._budgets:
            budget.open_request(now)
        return None

    def charge(self, tokens: int) -> None:
        """Takes tokens that the request has used."""
        now = self._clock()
        for budget in self._budgets:
            budget.charge(tokens, now)

    def headers(self) -> dict[str, str]:
        """Returns OpenAI's headers of rate limits."""
        now = self._clock()
        requests = [each.requests for each in self._budgets if each.requests]
        tokens = [each.tokens for each in self._budgets if each.tokens]
        return {
            **_headers("requests", requests, now),
            **_headers("tokens", tokens, now),
        }


def duration(seconds: float) -> str:
    """Returns a time as OpenAI writes it, such as `450ms`, `12s` or `1m30s`."""
    if seconds < 1:
        return f"{math.ceil(seconds * 1000)}ms"
    minutes, rest = divmod(math.ceil(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def _headers(what: str, buckets: Sequence[TokenBucket], now: float) -> dict[str, str]:
    if not buckets:
        return {}
    tightest = min(buckets, key=lambda each: each.level(now))
    left = max(math.floor(tightest.level(now)), 0)
    reset = tightest.seconds_until(tightest.capacity, now)
    return {
        f"x-ratelimit-limit-{what}": str(tightest.capacity),
        f"x-ratelimit-remaining-{what}": str(left),
        f"x-ratelimit-reset-{what}": duration(reset),
    }


def refusal(exceeded: Exceeded) -> ApiError:
    """Returns the error of a request that exceeds a limit."""
    what = exceeded.limit.value.replace("_", " ")
    return ApiError(
        429,
        f"the limit of {exceeded.most} {what} is reached",
        code=RATE_LIMITED,
        retry_after_seconds=max(math.ceil(exceeded.seconds), 1),
        limit=exceeded.limit,
    )
