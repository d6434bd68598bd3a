"""The proxy's handlers: both phases, and requests that are only forwarded."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import msgspec
from aiohttp import web

from hookline_gateway.upstreams.asking import BrokenError, Message, Upstream
from hookline_gateway.upstreams.connections.head import Head
from hookline_gateway.upstreams.headers import Headers, traced, without
from hookline_gateway.upstreams.instance import Instance
from hookline_gateway.upstreams.open_requests import OpenRequests
from hookline_gateway.upstreams.relay import (
    BROKEN,
    EVENT_STREAM,
    NO_INSTANCE,
    TIMEOUT,
    UNREACHABLE,
    Attempts,
    Relay,
    SeeBytes,
    broken,
)
from hookline_pd_proxy.handover import Handover, Releases
from hookline_pd_proxy.headers import request_headers
from hookline_pd_proxy.numbers import Endpoint, Numbers, Outcome
from hookline_pd_proxy.pools import Pools, Role
from hookline_pd_proxy.prefill import Prefill
from hookline_pd_proxy.proxied_request import ProxiedRequest
from hookline_pd_proxy.settings import RouteSettings
from hookline_pd_proxy.tracing import RouteSpan, Tracing
from hookline_server.api_error import ApiError
from hookline_server.request_body import read_body, read_raw
from hookline_server.request_identity import CHAT_ROUTE

OUTCOMES = {
    NO_INSTANCE: Outcome.NO_INSTANCE,
    UNREACHABLE: Outcome.UNREACHABLE,
    TIMEOUT: Outcome.DEADLINE,
    BROKEN: Outcome.BROKEN,
}

RELEASE_SECONDS = 5.0
"""Time at the end for releases of KV that nobody took."""

Work = Callable[["Forwarding", RouteSpan], Awaitable[web.StreamResponse]]


class Forwarding(Relay):
    """The second phase: a decode instance's response is streamed to the client.

    Attributes:
        first_event_at: When the first event of a stream came, as of
            `time.perf_counter`; None before, and without a stream.
    """

    def __init__(self, request: web.Request) -> None:
        super().__init__(request, self._see_head)
        self.first_event_at: float | None = None

    def _see_head(self, head: Head) -> SeeBytes | None:
        is_stream = head.status == 200 and head.content_type == EVENT_STREAM
        return self._see_bytes if is_stream else None

    def _see_bytes(self, chunk: bytes) -> None:
        if self.first_event_at is None and b"data:" in chunk:
            self.first_event_at = time.perf_counter()


class Proxy:
    """Answers clients with the responses of instances.

    Attributes:
        open: The open requests.
    """

    def __init__(
        self,
        pools: Pools,
        upstream: Upstream,
        settings: RouteSettings,
        numbers: Numbers,
        tracing: Tracing,
    ) -> None:
        self._pools = pools
        self._upstream = upstream
        self._settings = settings
        self._numbers = numbers
        self._tracing = tracing
        self._prefill = Prefill(pools.prefill, upstream, settings, numbers)
        self._releases = Releases(upstream, numbers)
        self.open = OpenRequests()

    async def complete(self, request: web.Request) -> web.StreamResponse:
        """Answers a completion: one instance computes the prompt, another generates."""
        is_chat = request.path == CHAT_ROUTE
        endpoint = Endpoint.CHAT if is_chat else Endpoint.COMPLETIONS

        async def work(forwarding: Forwarding, span: RouteSpan) -> web.StreamResponse:
            asked = ProxiedRequest.read(request.path, await read_body(request))
            # The body is sent on decoded.
            headers = without(self._headers(request, span), "Content-Encoding")
            handover = Handover(self._releases, headers)
            try:
                params = await self._prefilled(asked, headers, handover, span)
                message = Message(
                    method="POST",
                    path=request.rel_url.raw_path_qs,
                    headers=headers,
                    body=asked.for_decode(params),
                )
                with span.phase("decode"):
                    response = await self._forward(forwarding, message)
                if response.status < 400:
                    handover.taken()
            finally:
                handover.release()
            return response

        return await self._answer(request, endpoint, work)

    async def pass_on(self, request: web.Request) -> web.StreamResponse:
        """Forwards any other request to a decode instance."""

        async def work(forwarding: Forwarding, span: RouteSpan) -> web.StreamResponse:
            message = Message(
                method=request.method,
                path=request.rel_url.raw_path_qs,
                headers=self._headers(request, span),
                body=await read_raw(request),
            )
            return await self._forward(forwarding, message)

        return await self._answer(request, Endpoint.OTHER, work)

    async def close(self) -> None:
        """Has KV freed that nobody took; for a limited time."""
        await self._releases.end(RELEASE_SECONDS)

    def _headers(self, request: web.Request, span: RouteSpan) -> Headers:
        headers = request_headers(request, self._settings.instance_key)
        return traced(headers, span.headers)

    async def _prefilled(
        self,
        asked: ProxiedRequest,
        headers: Headers,
        handover: Handover,
        span: RouteSpan,
    ) -> msgspec.Raw | None:
        """Has the prompt computed, if a prefill instance is of use."""
        if not self._pools.prefill.instances:
            return None
        longest = self._pools.decode.max_model_len
        fewest = self._settings.prefill_min_characters
        if (reason := asked.reason_to_be_plain(fewest, longest)) is not None:
            self._numbers.went_plain(reason)
            return None
        with span.phase("prefill"):
            return await self._prefill.run(asked, headers, handover, longest)

    async def _forward(
        self, forwarding: Forwarding, message: Message
    ) -> web.StreamResponse:
        def asked(_: Instance) -> None:
            if forwarding.instance is not None:
                self._numbers.retried(Role.DECODE)

        attempts = Attempts(self._pools.decode, self._settings.retries, asked)
        return await forwarding.run(attempts, self._upstream, message)

    async def _answer(
        self, request: web.Request, endpoint: Endpoint, work: Work
    ) -> web.StreamResponse:
        """Runs a request within its time limit, and counts its outcome."""
        with self.open:
            return await self._counted(request, endpoint, work)

    async def _counted(
        self, request: web.Request, endpoint: Endpoint, work: Work
    ) -> web.StreamResponse:
        outcome, arrived_at = Outcome.FAILED, time.perf_counter()
        forwarding, span = Forwarding(request), self._tracing.begin(request)
        try:
            response, outcome = await self._ended(forwarding, span, work)
        except ApiError as error:
            outcome = OUTCOMES[error.code]
            raise
        except web.HTTPException:
            outcome = Outcome.REFUSED
            raise
        except (asyncio.CancelledError, ConnectionError):
            outcome = Outcome.CLIENT_LEFT
            raise
        finally:
            self._numbers.ended(endpoint, outcome)
            if outcome is Outcome.COMPLETED and endpoint is not Endpoint.OTHER:
                self._numbers.completed(time.perf_counter() - arrived_at)
            if forwarding.first_event_at is not None and endpoint is not Endpoint.OTHER:
                self._numbers.first_token(forwarding.first_event_at - arrived_at)
            span.end(outcome, forwarding.response, forwarding.instance)
        return response

    async def _ended(
        self, forwarding: Forwarding, span: RouteSpan, work: Work
    ) -> tuple[web.StreamResponse, Outcome]:
        try:
            async with asyncio.timeout(self._settings.request_timeout):
                response = await work(forwarding, span)
                return response, _outcome(response.status)
        except TimeoutError:
            limit = f"{self._settings.request_timeout:g} s"
            error = ApiError(504, f"no complete response within {limit}", code=TIMEOUT)
        except BrokenError as cause:
            error = broken(cause)
        if forwarding.response is None:
            raise error
        return await forwarding.end_broken(error), OUTCOMES[error.code]


def _outcome(status: int) -> Outcome:
    if status < 400:
        return Outcome.COMPLETED
    return Outcome.REFUSED if status < 500 else Outcome.FAILED
