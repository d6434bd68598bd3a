"""A request's outputs as an asynchronous iterator."""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import reduce

from hookline.exceptions import HooklineError
from hookline.frontend.client_request import ClientRequest, Deliver, Delivery
from hookline.frontend.front_end import FrontEnd
from hookline.frontend.stop_strings import StopScope
from hookline.outputs import RequestOutput
from hookline.request import RequestFacts

MOST_DELIVERIES = 64
"""Outputs that wait for a reader one by one; more are merged into one."""


class OutputStream:
    """Outputs of one request; those that pile up are merged, so nothing grows.

    Attributes:
        facts: The request's facts, as observers get them.
    """

    def __init__(
        self, front_end: FrontEnd, submit: Callable[[Deliver], ClientRequest]
    ) -> None:
        """Has the request sent, whose outputs it gets; raises what `submit` raises."""
        self._front_end = front_end
        self._deliveries: deque[Delivery] = deque()
        self._waiting: asyncio.Future[None] | None = None
        self._is_over = False
        self._request = submit(self.deliver)
        self.facts: RequestFacts = self._request.inner.facts

    def __aiter__(self) -> "OutputStream":
        return self

    async def __anext__(self) -> RequestOutput:
        """Waits for the next output.

        Raises:
            EngineDeadError: The engine died before the request ended.
        """
        if self._is_over:
            raise StopAsyncIteration
        if not self._deliveries:
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting
        merged: RequestOutput | None = None
        while self._deliveries:
            delivery = self._deliveries.popleft()
            if isinstance(delivery, HooklineError):
                self._is_over = True
                raise delivery
            merged = delivery if merged is None else merged.followed_by(delivery)
        if merged is None:
            raise StopAsyncIteration
        self._is_over = self._is_over or merged.finished
        return merged

    @property
    def prompt_tokens(self) -> int:
        """Number of tokens of the prompt."""
        return len(self._request.inner.prompt_token_ids)

    @property
    def output_tokens(self) -> int:
        """Number of tokens generated so far, of all its completions."""
        completions = self._request.completions
        return sum(each.account.timeline.output_tokens for each in completions)

    def scope_stops(self, scope: StopScope) -> None:
        """Limits where stop strings count; to be called before any output comes."""
        self._request.stop_scope = scope

    def abort(self, cause: str) -> None:
        """Ends the request; does nothing once it has ended."""
        self._front_end.abort(self._request, cause)
        self._is_over = True
        self._wake()

    def deliver(self, delivery: Delivery) -> None:
        if len(self._deliveries) >= MOST_DELIVERIES:
            self._merge()
        self._deliveries.append(delivery)
        self._wake()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def _merge(self) -> None:
        """Merges what waits; the first part may be large, so it is copied once only."""
        first, *rest = [
            each for each in self._deliveries if not isinstance(each, HooklineError)
        ]
        errors = [each for each in self._deliveries if isinstance(each, HooklineError)]
        merged = first.followed_by(reduce(RequestOutput.followed_by, rest))
        # An error is the last delivery of a request.
        self._deliveries = deque([merged, *errors])
