"""Who asks, and what logs, limits and observers know of a request; made once for it."""

import re
import secrets
from contextvars import ContextVar

from aiohttp import web
from opentelemetry.trace import INVALID_SPAN, get_current_span

from hookline.frozen import EMPTY
from hookline.request import RequestFacts, Slo
from hookline_processes.fair_queue import NOBODY
from hookline_processes.trace_parent import TraceParent
from hookline_server.auth.allowance import Allowance
from hookline_server.auth.key import ApiKey
from hookline_server.deadlines import Deadline
from hookline_server.dialects import (
    EMBEDDINGS_PATH,
    MESSAGES_PATH,
    POOLING_PATH,
    RESPONSES_PATH,
    dialect_of,
)
from hookline_server.protocol.ignored import Ignored
from hookline_server.trace_rules import (
    IS_PLAIN,
    NO_TRACE,
    RequestTrace,
    trace_rules,
)

MAX_ID_LENGTH = 128

CHAT_ROUTE = "/v1/chat/completions"

IGNORED_HEADER = "X-Hookline-Ignored"

_OPERATIONS = {
    CHAT_ROUTE: "chat",
    RESPONSES_PATH: "chat",
    MESSAGES_PATH: "chat",
    EMBEDDINGS_PATH: "embeddings",
    POOLING_PATH: "embeddings",
}
_NOT_IN_ID = re.compile(r"[^A-Za-z0-9._:\-]")


class RequestIdentity:
    """Who asks, and this request's ids and limits.

    Attributes:
        request_id: Its id, for the client and in the log: the client's if it sent a
            valid one, otherwise a new one.
        key: Its API key, once it is authenticated; None if it needs none.
        tenant: Tenant of the key, else of the header, which is not trusted.
        payer: Who pays for it, which no client chooses: its key, else its address.
        client: Whom to serve in turn with others.
        weight: Share of the first part of `client`, relative to others.
        allowance: What it draws on; None if it has no limits.
        deadline: When it has to be finished; None without limit.
        facts: Its facts for observers, once it becomes requests for the engine.
        is_rejectable: Whether observers count it as rejected if it fails now.
        ignored: What is left out of it; None as long as nothing can be.
    """

    def __init__(self, request: web.BaseRequest) -> None:
        """Takes the id; the rest is set as the request is let in."""
        sent = request.headers.get("X-Request-Id")
        cleaned = "" if sent is None else _NOT_IN_ID.sub("", sent)[:MAX_ID_LENGTH]
        self.request_id = cleaned or secrets.token_hex(16)
        self.key: ApiKey | None = None
        self.tenant: str | None = None
        self.payer = ""
        self.client = NOBODY
        self.weight = 1.0
        self.allowance: Allowance | None = None
        self.deadline: Deadline | None = None
        self.facts: RequestFacts | None = None
        self.is_rejectable = False
        self.ignored: Ignored | None = None
        self._headers = request.headers
        self._trace: RequestTrace | None = None
        self._span: tuple[str, str] | None = None

    @property
    def trace(self) -> RequestTrace:
        """What counts of its trace, as found when it is first asked for."""
        if self._trace is None:
            has_none = IS_PLAIN and "traceparent" not in self._headers
            has_none = has_none and get_current_span() is INVALID_SPAN
            self._trace = (
                NO_TRACE if has_none else trace_rules().trace_of(self._headers)
            )
        return self._trace

    def enter_span(self, facts: RequestFacts) -> None:
        """Makes the span of these facts that of the request's later log lines.

        Of a request with several prompts it is the first one's; untraced facts have
        none.
        """
        if self._span is None and facts.trace_id:
            self._span = (facts.trace_id, facts.span_id)

    @property
    def log_fields(self) -> dict[str, str]:
        """The fields `request_id` and, for a traced request, those of its trace.

        These are `trace_id` and `span_id`; without a span of its own, as before it is
        submitted, only the `trace_id` that the client sent.
        """
        fields = {"request_id": self.request_id}
        if self._span is not None:
            fields["trace_id"], fields["span_id"] = self._span
        elif parent := TraceParent.of(self.trace.context):
            fields["trace_id"] = parent.trace_id
        return fields


IDENTITY: web.RequestKey[RequestIdentity] = web.RequestKey(
    "hookline_identity", RequestIdentity
)
"""Present in every request that has come as far as to a handler."""

CURRENT: ContextVar[RequestIdentity | None] = ContextVar("request", default=None)
"""That of the current task's request, for its lines of the log."""


def identity_of(request: web.Request) -> RequestIdentity:
    """Returns the request's identity, which is made on the first call."""
    try:
        return request[IDENTITY]
    except KeyError:
        found = request[IDENTITY] = RequestIdentity(request)
        return found


def request_facts(
    request: web.Request,
    *,
    response_id: str = "",
    priority: int = 0,
    slo: Slo | None = None,
    session_id: str | None = None,
    adapter: str | None = None,
) -> RequestFacts:
    """Returns the facts of a request for observers; a refused one has no response."""
    identity = request[IDENTITY]
    return RequestFacts(
        client_id=identity.request_id,
        response_id=response_id,
        tenant=identity.tenant,
        lora=adapter,
        client=identity.client,
        weight=identity.weight,
        priority=priority,
        trace_context=identity.trace.context or EMPTY,
        trace_id=identity.trace.trace_id,
        slo=slo,
        operation=_operation(request),
        session_id=session_id,
    )


def stranger_facts(request: web.Request) -> RequestFacts:
    """Returns the facts of a request without a valid key: its id, and no claims.

    Tenants and traces that it names could be those of others.
    """
    return RequestFacts(
        client_id=request[IDENTITY].request_id, operation=_operation(request)
    )


async def echo_request_id(request: web.Request, response: web.StreamResponse) -> None:
    """Adds the id to the response's headers, and the kinds of what was left out."""
    identity = identity_of(request)
    request_id = identity.request_id
    response.headers["X-Request-Id"] = request_id
    if identity.ignored is not None and (kinds := identity.ignored.kinds):
        response.headers[IGNORED_HEADER] = ", ".join(kinds)
    if name := dialect_of(request).id_header:
        response.headers[name] = request_id


def _operation(request: web.Request) -> str:
    resource = request.match_info.route.resource
    path = "" if resource is None else resource.canonical
    return _OPERATIONS.get(path, "text_completion")
