"""The gateway's handlers: requests that are measured, and all others."""

from collections.abc import Callable, Mapping

from aiohttp import web

from hookline.frozen import EMPTY
from hookline_gateway.asked import Asked
from hookline_gateway.measuring.books import Books
from hookline_gateway.measuring.request_meter import RequestMeter
from hookline_gateway.measuring.token_counter import Recount, TokenCounter
from hookline_gateway.models import merged_list, not_serving
from hookline_gateway.settings import GatewaySettings
from hookline_gateway.upstreams.asking import BrokenError, Message, Upstream
from hookline_gateway.upstreams.headers import ID, OWN_OF_REQUESTS, passed, traced
from hookline_gateway.upstreams.instance import Instance
from hookline_gateway.upstreams.open_requests import OpenRequests
from hookline_gateway.upstreams.pool import Pool
from hookline_gateway.upstreams.relay import Attempts, Relay, broken
from hookline_server.api_error import ApiError
from hookline_server.dialects import COUNTED_PATHS
from hookline_server.handlers.common import json_response
from hookline_server.handlers.health import Health
from hookline_server.request_body import read_raw
from hookline_server.request_identity import identity_of
from hookline_server.tenant_names import cleaned


class Gateway:
    """Answers clients with the responses of upstreams.

    Attributes:
        open: The open requests.
    """

    def __init__(
        self, pool: Pool, upstream: Upstream, settings: GatewaySettings, books: Books
    ) -> None:
        self.open = OpenRequests()
        self._pool = pool
        self._upstream = upstream
        self._settings = settings
        self._books = books
        folder = settings.tokenizer
        self._counter = None if folder is None else TokenCounter(folder)

    async def forward(self, request: web.Request) -> web.StreamResponse:
        """Forwards a request as it is, and its answer as it comes."""
        arrived_at = self._books.clock.now()
        with self.open:
            self._name_tenant(request)
            body = await read_raw(request)
            asked = Asked.read(request, body)
            if request.method != "POST" or request.path not in COUNTED_PATHS:
                attempts = self._attempts(asked, _nobody)
                message = self._message(request, body)
                return await self._relay(Relay(request, _unseen), attempts, message)
            counter = self._counter
            recount = None if counter is None else Recount(counter, body)
            meter = RequestMeter(self._books, request, asked, arrived_at, recount)
            message = self._message(request, body, meter.trace_headers)
            relay = Relay(request, meter.see_head)
            attempts = self._attempts(asked, meter.ask)
            try:
                response = await self._relay(relay, attempts, message)
            except BaseException as error:
                meter.failed(error)
                raise
            if relay.error is None:
                await meter.answered()
            else:
                meter.failed(relay.error)
            return response

    async def list_models(self, request: web.Request) -> web.StreamResponse:
        """Lists the models of all upstreams, if they differ."""
        merged = merged_list([each for each in self._pool.instances if each.is_up])
        if merged is None:
            return await self.forward(request)
        return web.Response(body=merged, content_type="application/json")

    async def ready(self, _: web.Request) -> web.Response:
        """Answers 200 while an upstream is up that has answered since it came."""
        if self.open.is_leaving:
            raise ApiError(503, "the gateway is shutting down", code="aborted")
        if not self._pool.is_ready:
            raise ApiError(503, "no upstream is up", code="no_instance")
        return json_response(Health("ready"))

    async def _relay(
        self, relay: Relay, attempts: Attempts, message: Message
    ) -> web.StreamResponse:
        """Passes an answer on, which may end by an error of its own (`Relay.error`).

        Raises:
            ApiError: There is none, or it broke off before anything was sent.
        """
        try:
            return await relay.run(attempts, self._upstream, message)
        except BrokenError as cause:
            error = broken(cause)
        if relay.response is None:
            raise error
        return await relay.end_broken(error)

    def _attempts(self, asked: Asked, ask: Callable[[Instance], None]) -> Attempts:
        barred = not_serving(asked.model, self._pool.instances)
        return Attempts(self._pool, self._settings.retries, ask, barred)

    def _message(
        self, request: web.Request, body: bytes, trace: Mapping[str, str] = EMPTY
    ) -> Message:
        headers = traced(passed(request.headers, OWN_OF_REQUESTS), trace)
        headers.append((ID, identity_of(request).request_id))
        return Message(
            method=request.method,
            path=request.rel_url.raw_path_qs,
            headers=headers,
            body=body,
        )

    def _name_tenant(self, request: web.Request) -> None:
        if (name := self._settings.tenant_header) is not None:
            identity_of(request).tenant = cleaned(request.headers.get(name, ""))


def _nobody(_: Instance) -> None:
    """Accounts for no attempt."""


def _unseen(_: object) -> None:
    """Measures no answer."""
