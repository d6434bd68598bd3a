"""Helpers shared by the handlers."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
from aiohttp import web
from msgspec import UNSET

from hookline.exceptions import RequestError
from hookline_server.answers.answer import Identity
from hookline_server.api_error import ApiError, as_api_error, body_too_large
from hookline_server.context import ENGINE
from hookline_server.engine import ServingEngine
from hookline_server.logs.current_request import enter_span
from hookline_server.protocol.wire import encode
from hookline_server.request_identity import request_facts
from hookline_server.request_ids import request_id

MAX_SHOWN = 256
"""Maximum length of a client's text in an error."""


def json_response(message: msgspec.Struct) -> web.Response:
    """A successful response."""
    return web.Response(body=encode(message), content_type="application/json")


def make_identity(request: web.Request, prefix: str) -> Identity:
    """Returns the identity of a response; `prefix` begins its id."""
    facts = request.app[ENGINE].facts
    return Identity(
        id=prefix + request_id(request),
        created=int(time.time()),
        model=facts.model_name,
        system_fingerprint=f"fp_{facts.config_hash}" if facts.config_hash else UNSET,
    )


def ready_engine(request: web.Request) -> ServingEngine:
    """Returns the engine; raises `ApiError` if it cannot accept requests."""
    engine = request.app[ENGINE]
    reason = unready_reason(engine)
    if reason is not None:
        raise ApiError(503, reason, code="engine_unavailable")
    return engine


def unready_reason(engine: ServingEngine) -> str | None:
    """Returns why no requests are accepted, or None if they are."""
    if engine.failure is not None:
        return f"the engine has failed: {engine.failure}"
    return None if engine.is_ready else "the server is shutting down"


def check_model(engine: ServingEngine, name: str | None) -> None:
    """Raises `ApiError` if the model is not served."""
    served = engine.facts.model_name
    if name is not None and name != served:
        raise ApiError(
            404,
            f"the model {name[:MAX_SHOWN]!r} is not served; available: {served!r}",
            code="model_not_found",
            param="model",
        )


@contextmanager
def rejections_counted(request: web.Request) -> Iterator[None]:
    """Reports requests that the server rejects to the observers."""
    try:
        yield
    except (ApiError, RequestError) as error:
        cause = as_api_error(error).rejection
        enter_span(request.app[ENGINE].reject(request_facts(request), cause))
        raise
    except web.HTTPRequestEntityTooLarge:
        cause = body_too_large(request.client_max_size).rejection
        enter_span(request.app[ENGINE].reject(request_facts(request), cause))
        raise
