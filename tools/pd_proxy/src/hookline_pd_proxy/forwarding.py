"""The second phase: a decode instance's answer goes to the client as it comes."""

import logging
from contextlib import suppress

import aiohttp
from aiohttp import web

from hookline_pd_proxy.headers import answer_headers
from hookline_pd_proxy.instance import Instance, Role
from hookline_pd_proxy.numbers import Numbers
from hookline_pd_proxy.pool import Pool
from hookline_pd_proxy.upstream import Answer, Message, UnreachableError, Upstream
from hookline_server.api_error import ApiError, error_body
from hookline_server.request_identity import request_id
from hookline_server.sse import DONE, event

NO_INSTANCE = "no_instance"
UNREACHABLE = "upstream_unreachable"
TIMEOUT = "upstream_timeout"
BROKEN = "upstream_broken"

logger = logging.getLogger(__name__)


class Forwarding:
    """Of one client's request.

    Attributes:
        response: What the client gets, once its headers have left.
    """

    def __init__(self, request: web.Request) -> None:
        self._request = request
        self.response: web.StreamResponse | None = None

    async def run(
        self,
        pool: Pool,
        upstream: Upstream,
        message: Message,
        *,
        retries: int,
        numbers: Numbers,
    ) -> web.StreamResponse:
        """The answer of the first instance that gives one, to its last byte.

        The last instance's answer counts whatever it is. Once bytes have left no
        other is asked.

        Raises:
            ApiError: There is no instance, or none could be reached.
            BrokenError: The answer broke off; part of it has left.
        """
        tried: list[Instance] = []
        failure = ApiError(503, "no decode instance is up", code=NO_INSTANCE)
        while len(tried) <= retries and (instance := pool.choose(tried)) is not None:
            if tried:
                numbers.retried(Role.DECODE)
            tried.append(instance)
            try:
                async with upstream.ask(instance, message) as answer:
                    is_last = len(tried) > retries or not pool.has_other(tried)
                    if is_last or not answer.is_worth_a_retry:
                        return await self._pass(answer)
            except UnreachableError as error:
                failure = ApiError(502, str(error), code=UNREACHABLE)
                logger.warning("%s: %s", request_id(self._request), error)
        raise failure

    async def end_broken(self, error: ApiError) -> web.StreamResponse:
        """Tells a client whose answer has begun that it will not end.

        A stream of events ends with one that says why. Anything else is cut off.
        """
        response = self.response
        assert response is not None
        logger.warning("%s: %s", request_id(self._request), error)
        if response.content_type == "text/event-stream":
            # Ends what may have been half an event.
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
        async for chunk in answer.chunks():
            await response.write(chunk)
        await response.write_eof()
        return response
