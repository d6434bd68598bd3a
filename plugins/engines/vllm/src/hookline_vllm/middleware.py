"""A plain ASGI middleware: who asks, when bytes come and go, and who leaves."""

import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from hookline.clock import NANOSECONDS
from hookline.payloads import CLIENT_LEFT, HttpExchange
from hookline_registry import Failure, isolate
from hookline_vllm.asgi import Receive, Send
from hookline_vllm.attachment import Attachment
from hookline_vllm.general import HTTP
from hookline_vllm.notices import Answered, HttpFacts, now
from hookline_vllm.shapes import complain

App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

TENANT_HEADER: Final = "HOOKLINE_TENANT_HEADER"
"""Variable that names the header of tenants; without it X-Tenant."""

_TRACE = {b"traceparent", b"tracestate"}
_METHODS = {"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"}


class Middleware:
    """Passes everything on as it is."""

    def __init__(self, app: App, attachment: Attachment) -> None:
        self._app = app
        self._attachment = attachment
        header = os.environ.get(TENANT_HEADER, "X-Tenant")
        self._tenant_header = header.lower().encode("latin-1", "replace")

    async def __call__(
        self, scope: MutableMapping[str, Any], receive: Receive, send: Send
    ) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif self._attachment.pages.takes(scope):
            await self._attachment.pages.serve(scope, receive, send)
        else:
            await self._passed(scope, receive, send)

    async def _passed(
        self, scope: MutableMapping[str, Any], receive: Receive, send: Send
    ) -> None:
        tenant = self._tenant_header
        exchange = _Exchange(scope, receive, send, tenant, self._attachment.in_flight)
        token = HTTP.set(exchange.facts)
        try:
            await self._app(scope, exchange.receive, exchange.forward)
        finally:
            HTTP.reset(token)
            outcome = isolate(self._ended, exchange)
            if isinstance(outcome, Failure):
                complain("an HTTP exchange", outcome)

    def _ended(self, exchange: "_Exchange") -> None:
        self._attachment.inbox.put(Answered(now(), exchange.ended()))


class _Exchange:
    """One HTTP request and its response."""

    def __init__(
        self,
        scope: MutableMapping[str, Any],
        receive: Receive,
        send: Send,
        tenant_header: bytes,
        in_flight: Counter[tuple[str, str]],
    ) -> None:
        self.facts = HttpFacts()
        self._in_flight, self._key = in_flight, ("", "")
        self._scope, self._receive, self._send = scope, receive, send
        self._begun, self._begun_at = time.time_ns(), now()
        self._first_at: int | None = None
        self._status = 0
        self._unread = self._received = self._sent = 0
        self._is_complete = self._has_left = False
        for name, value in scope["headers"]:
            if name == tenant_header:
                self.facts.tenant = value.decode("latin-1")[:256]
            elif name in _TRACE:
                header = name.decode("latin-1")
                self.facts.trace_headers[header] = value.decode("latin-1")

    async def receive(self) -> dict[str, Any]:
        if not self._key[0]:
            self._begin()
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self._has_left = not self._is_complete
        else:
            self._received += len(message.get("body", b""))
        return message

    async def forward(self, message: dict[str, Any]) -> None:
        before = now()
        await self._send(message)
        after = now()
        self._unread += after - before
        if message["type"] == "http.response.start":
            self._status = message["status"]
        elif message["type"] == "http.response.body":
            body = message.get("body", b"")
            self._sent += len(body)
            if body and self._first_at is None:
                self._first_at = after
            self._is_complete = not message.get("more_body", False)

    def _begin(self) -> None:
        """Counts it as in flight: its handler reads it, so that its route is known."""
        route = str(getattr(self._scope.get("route"), "path", "unmatched"))
        method = str(self._scope["method"])
        self._key = (route, method if method in _METHODS else "OTHER")
        self._in_flight[self._key] += 1

    def ended(self) -> HttpExchange:
        """Returns what became of it."""
        if not self._key[0]:
            self._begin()
        self._in_flight[self._key] -= 1
        route, method = self._key
        first = self._first_at
        status = self._status or 500
        if self._has_left and not self._is_complete:
            status = CLIENT_LEFT
        return HttpExchange(
            route=route,
            method=method,
            status=status,
            seconds=(now() - self._begun_at) / NANOSECONDS,
            request_bytes=self._received,
            response_bytes=self._sent,
            client_id=self.facts.client_id,
            begun=self._begun,
            first_byte_seconds=None
            if first is None
            else (first - self._begun_at) / NANOSECONDS,
            unread_seconds=self._unread / NANOSECONDS,
        )
