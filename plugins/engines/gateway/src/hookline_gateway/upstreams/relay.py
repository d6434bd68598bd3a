"""One client's response, which is that of the first instance that gives one."""

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass

from aiohttp import web

from hookline_gateway.upstreams.asking import (
    RETRIED_STATUSES,
    BrokenError,
    Message,
    UnreachableError,
    Upstream,
)
from hookline_gateway.upstreams.connections.connection import Take
from hookline_gateway.upstreams.connections.head import Head
from hookline_gateway.upstreams.instance import Instance
from hookline_gateway.upstreams.passed_response import PassedResponse
from hookline_gateway.upstreams.pool import Pool
from hookline_server.api_error import ApiError, error_body
from hookline_server.request_identity import identity_of
from hookline_server.sse import DONE, event

EVENT_STREAM = "text/event-stream"

NO_INSTANCE = "no_instance"
UNREACHABLE = "upstream_unreachable"
TIMEOUT = "upstream_timeout"
BROKEN = "upstream_broken"

logger = logging.getLogger(__name__)

SeeBytes = Callable[[bytes], None]
SeeHead = Callable[[Head], SeeBytes | None]
"""Called with a response before its body; returns what sees all pieces of that."""


@dataclass(frozen=True, slots=True)
class Attempts:
    """Which instances are asked.

    Attributes:
        pool: The instances.
        retries: Number of further ones to try if one fails.
        asked: Called with each instance as soon as it is asked.
        barred: Instances that are of no use for this request.
    """

    pool: Pool
    retries: int
    asked: Callable[[Instance], None]
    barred: Collection[Instance] = ()


class Relay:
    """Passes the response on to one client.

    Attributes:
        response: Response to the client, once its headers are sent.
        instance: The instance that was asked last; None before.
        error: Why a response that had begun was not completed; None if it was.
    """

    def __init__(self, request: web.Request, see_head: SeeHead) -> None:
        self._request = request
        self._see_head = see_head
        self.response: PassedResponse | None = None
        self.instance: Instance | None = None
        self.error: ApiError | None = None
        self._take: Take | None = None

    async def run(
        self, attempts: Attempts, upstream: Upstream, message: Message
    ) -> web.StreamResponse:
        """Passes on the response of the first instance that gives one.

        The last instance's response is passed on whatever it is. Once bytes are sent,
        no other instance is tried. Where none is up, the one that has been down for
        longest is tried: it may be back.

        Raises:
            ApiError: No instance is up, or none can be reached.
            BrokenError: The response broke off after part of it was sent.
        """
        pool, tried = attempts.pool, list(attempts.barred)
        most = len(tried) + attempts.retries
        failure: UnreachableError | None = None
        while len(tried) <= most:
            instance = pool.choose(tried)
            is_last_resort = instance is None and not pool.has_other(attempts.barred)
            if is_last_resort:
                instance = pool.last_resort(tried)
            if instance is None:
                break
            tried.append(instance)
            try:
                response = await self._try(instance, attempts, tried, upstream, message)
            except UnreachableError as error:
                logger.warning("%s: %s", identity_of(self._request).request_id, error)
                if is_last_resort:
                    break
                failure = error
            else:
                if response is not None:
                    return response
        raise unreachable(failure) if failure is not None else _none_up(pool)

    async def end_broken(self, error: ApiError) -> web.StreamResponse:
        """Ends a response that has begun and cannot be completed.

        A stream of events ends with an error event; anything else is cut off.
        """
        response, self.error = self.response, error
        assert response is not None
        logger.warning("%s: %s", identity_of(self._request).request_id, error)
        if response.head.content_type == EVENT_STREAM:
            # Ends what may be half an event.
            await response.write(b"\n\n" + event(error_body(error)) + DONE)
            await response.write_eof()
        elif self._request.transport is not None:
            self._request.transport.abort()
        return response

    async def _try(
        self,
        instance: Instance,
        attempts: Attempts,
        tried: Collection[Instance],
        upstream: Upstream,
        message: Message,
    ) -> web.StreamResponse | None:
        """Passes on an instance's response; None if another one should be tried.

        Raises:
            UnreachableError: It gives none.
            BrokenError: It broke off after part of it was sent.
        """
        most = len(attempts.barred) + attempts.retries

        def sent() -> None:
            if self.instance is not instance:
                attempts.asked(instance)
                self.instance = instance

        def pass_first(head: Head, first: bytes) -> Take | None:
            may_retry = head.status in RETRIED_STATUSES and len(tried) <= most
            if may_retry and attempts.pool.has_other(tried):
                return None
            return self._pass_first(head, first)

        try:
            asking = upstream.ask(instance, message, sent=sent, begin=pass_first)
            async with asking as answer:
                take, response = self._take, self.response
                if take is None or response is None:
                    return None
                await answer.hand_over(take, response.make_room)
                await response.write_eof()
                return response
        finally:
            sent()  # though it could not be connected

    def _pass_first(self, head: Head, first: bytes) -> Take:
        """Passes on a response's first bytes; returns what passes on the others."""
        see = self._see_head(head)
        self.response = response = PassedResponse(self._request, head)
        response.start(first)
        take: Take = response.pass_on
        if see is not None:
            if first:
                see(first)
            take = _seen(take, see)
        self._take = take
        return take


def _seen(take: Take, see: SeeBytes) -> Take:
    """Passes each piece on before it is looked at."""

    def take_seen(piece: bytes) -> bool:
        has_room = take(piece)
        see(piece)
        return has_room

    return take_seen


def _none_up(pool: Pool) -> ApiError:
    return ApiError(503, f"no {pool.role} instance is up", code=NO_INSTANCE)


def unreachable(error: UnreachableError) -> ApiError:
    """Returns what the client gets if no instance has answered, the last one so."""
    if error.is_late:
        return ApiError(504, str(error), code=TIMEOUT)
    return ApiError(502, str(error), code=UNREACHABLE)


def broken(error: BrokenError) -> ApiError:
    """Returns what the client gets of a response that broke off."""
    if error.is_late:
        return ApiError(504, f"the upstream fell silent: {error}", code=TIMEOUT)
    text = f"the instance's response broke off: {error}"
    return ApiError(502, text, code=BROKEN)
