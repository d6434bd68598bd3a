"""What observers get to know of a request."""

import re
from collections.abc import Mapping

from aiohttp import web

from hookline.config.readers import read_slo
from hookline.exceptions import RequestError
from hookline.frontend.request_context import TraceParent
from hookline.payloads import EngineFacts
from hookline.request import SESSION_ID, RequestFacts, Slo
from hookline_server.dialects import (
    EMBEDDINGS_PATH,
    MESSAGES_PATH,
    POOLING_PATH,
    RESPONSES_PATH,
)
from hookline_server.request_ids import request_id
from hookline_server.tenants import tenant_of, weight_of

MAX_TRACESTATE_LENGTH = 512
"""Minimum length that the W3C requires to propagate; longer values are dropped."""

SLO_HEADER = "X-Hookline-SLO"
SESSION_HEADER = "X-Session-ID"
CHAT_ROUTE = "/v1/chat/completions"

_OPERATIONS = {
    CHAT_ROUTE: "chat",
    RESPONSES_PATH: "chat",
    MESSAGES_PATH: "chat",
    EMBEDDINGS_PATH: "embeddings",
    POOLING_PATH: "embeddings",
}

_TRACESTATE = re.compile(r"[\x20-\x7e]+")
_SESSION_ID = re.compile(SESSION_ID)


def request_facts(
    request: web.Request,
    *,
    response_id: str = "",
    priority: int = 0,
    slo: Slo | None = None,
    session_id: str | None = None,
) -> RequestFacts:
    """Returns the facts of a request for observers; a refused one has no response."""
    return RequestFacts(
        client_id=request_id(request),
        response_id=response_id,
        tenant=tenant_of(request),
        weight=weight_of(request),
        priority=priority,
        trace_context=trace_context(request.headers),
        slo=slo,
        operation=_operation(request),
        session_id=session_id,
    )


def stranger_facts(request: web.Request) -> RequestFacts:
    """Returns the facts of a request without a valid key: its id, and no claims.

    Tenants and traces that it names could be those of others.
    """
    return RequestFacts(client_id=request_id(request), operation=_operation(request))


def requested_slo(request: web.Request) -> Slo | None:
    """Returns the objectives in the request's header, or None without the header.

    Raises:
        RequestError: The header is invalid.
    """
    text = request.headers.get(SLO_HEADER)
    if text is None:
        return None
    try:
        return read_slo(text)
    except ValueError as error:
        raise RequestError(f"{SLO_HEADER}: {error}", param=SLO_HEADER) from error


def named_session(
    request: web.Request, in_body: str | None, engine: EngineFacts
) -> str | None:
    """Returns the session that the request names; None if no event would tell it.

    The body's `session_id` prevails over the header, as in vLLM.

    Raises:
        RequestError: It is invalid.
    """
    if not engine.enable_kv_cache_events:
        return None
    name, session = "session_id", in_body
    if session is None:
        name, session = SESSION_HEADER, request.headers.get(SESSION_HEADER, "").strip()
        if not session:
            return None
    if _SESSION_ID.fullmatch(session) is None:
        raise RequestError(
            f"{name} must have 1 to 256 visible ASCII characters, no spaces", param=name
        )
    return session


def trace_context(headers: Mapping[str, str]) -> dict[str, str]:
    """Returns the valid W3C trace headers; `tracestate` only with `traceparent`."""
    if TraceParent.of(headers) is None:
        return {}
    parent = headers["traceparent"].strip()
    state = headers.get("tracestate", "").strip()
    if len(state) <= MAX_TRACESTATE_LENGTH and _TRACESTATE.fullmatch(state):
        return {"traceparent": parent, "tracestate": state}
    return {"traceparent": parent}


def _operation(request: web.Request) -> str:
    resource = request.match_info.route.resource
    path = "" if resource is None else resource.canonical
    return _OPERATIONS.get(path, "text_completion")
