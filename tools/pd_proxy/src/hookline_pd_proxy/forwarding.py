"""The second phase: a decode instance's response is streamed to the client."""

import logging
import time
from contextlib import suppress

import aiohttp
from aiohttp import web

from hookline_pd_proxy.headers import answer_headers
from hookline_pd_proxy.instance import Instance, Role
from hookline_pd_proxy.numbers import Numbers
from hookline_pd_proxy.pool import Pool
from hookline_pd_proxy.upstream import Answer, Message, UnreachableError, Upstream
from hookline_server.api_error import ApiError, error_body
from hookline_server.request_identity import identity_of
from hookline_server.sse import DONE, event

EVENT_STREAM = "text/event-stream"

NO_INSTANCE = "no_instance"
UNREACHABLE = "upstream_unreachable"
TIMEOUT = "upstream_timeout"
BROKEN = "upstream_broken"

logger = logging.getLogger(__name__)


class Forwarding:
    """Forwards the response to one client.

    Attributes:
        response: Response to the client, once its headers are sent.
        first_event_at: When the first event of a stream came, as of
            `time.perf_counter`; None before, and without a stream.
        instance: The instance that was asked last; None before.
    """

    def __init__(self, request: web.Request) -> None:
        self._request = request
        self.response: web.StreamResponse | None = None
        self.first_event_at: float | None = None
        self.instance: Instance | None = None

    async def run(
        self,
        pool: Pool,
        upstream: Upstream,
        message: Message,
        *,
        retries: int,
        numbers: Numbers,
    ) -> web.StreamResponse:
        """Forwards the response of the first instance that gives one.

        The last instance's response is forwarded whatever it is. Once bytes are sent,
        no other instance is tried. Where none is up, the one that has been down for
        longest is tried: it may be back.

        Raises:
            ApiError: No instance is up, or none can be reached.
            BrokenError: The response broke off after part of it was sent.
        """
        tried: list[Instance] = []
        failure = ApiError(503, "no decode instance is up", code=NO_INSTANCE)
        while len(tried) <= retries:
            instance = pool.choose(tried)
            is_last_resort = instance is None and not pool.up
            if is_last_resort:
                instance = pool.last_resort(tried)
            if instance is None:
                break
            if tried:
                numbers.retried(Role.DECODE)
            tried.append(instance)
            self.instance = instance
            try:
                async with upstream.ask(instance, message) as answer:
                    is_last = len(tried) > retries or not pool.has_other(tried)
                    if is_last or not answer.is_worth_a_retry:
                        return await self._pass(answer)
            except UnreachableError as error:
                logger.warning("%s: %s", identity_of(self._request).request_id, error)
                if is_last_resort:
                    break
                failure = ApiError(502, str(error), code=UNREACHABLE)
        raise failure

    async def end_broken(self, error: ApiError) -> web.StreamResponse:
        """Ends a response that has begun and cannot be completed.

        A stream of events ends with an error event; anything else is cut off.
        """
        response = self.response
        assert response is not None
        logger.warning("%s: %s", identity_of(self._request).request_id, error)
        if response.content_type == EVENT_STREAM:
            # Ends what may be half an event.
            await response.write(b"\n\n" + event(error_body(error)) + DONE)
            await response.write_eof()
        elif self._request.transport is not None:
            self._request.transport.abort()
        return response

    async def _pass(self, answer: Answer) -> web.StreamResponse:
        head = answer.head
        response = web.StreamResponse(
            status=head.status, reason=head.reason, headers=answer_headers(head.headers)
        )
        with suppress(KeyError, ValueError):
            response.content_length = int(head.headers[aiohttp.hdrs.CONTENT_LENGTH])
        await response.prepare(self._request)
        self.response = response
        is_stream = head.status == 200 and response.content_type == EVENT_STREAM
        async for chunk in answer.chunks():
            if is_stream and self.first_event_at is None and b"data:" in chunk:
                self.first_event_at = time.perf_counter()
            await response.write(chunk)
        await response.write_eof()
        return response
