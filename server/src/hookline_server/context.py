"""The application keys through which handlers get engine, settings and streams."""

import time
from dataclasses import dataclass

from aiohttp import web

from hookline.frontend.observing import RemotePages
from hookline_server.api_servers.shared_parts import AllowanceOf, SharedParts
from hookline_server.auth.allowance import Allowance, OwnAllowance
from hookline_server.auth.key import ApiKey, Scope
from hookline_server.auth.key_ring import KEY_RING, KeyRing
from hookline_server.auth.route_scopes import ROUTE_SCOPES, RouteScopes
from hookline_server.browser_guard import BROWSER_GUARD, BrowserGuard
from hookline_server.deep_health import DeepHealth
from hookline_server.engine import ServingEngine
from hookline_server.engine_number import EngineNumber
from hookline_server.fixed_number import FixedNumber
from hookline_server.heap_trimmer import HEAP, HeapTrimmer
from hookline_server.ignored import IGNORED, IgnoredCounts
from hookline_server.kept_responses import KeptResponses, OwnResponses
from hookline_server.replies.parsers import ChosenParsers, choose_parsers
from hookline_server.request_body import UNKNOWN_FIELDS, UnknownFields
from hookline_server.respelling import ROOT_PATH
from hookline_server.response_store import ResponseStore
from hookline_server.settings import ServerSettings
from hookline_server.streams import OpenStreams

ENGINE: web.AppKey[ServingEngine] = web.AppKey("hookline_engine", ServingEngine)
SETTINGS: web.AppKey[ServerSettings] = web.AppKey("hookline_settings", ServerSettings)
DEEP_HEALTH: web.AppKey[DeepHealth] = web.AppKey("hookline_deep_health", DeepHealth)
OPEN_STREAMS: web.AppKey[OpenStreams] = web.AppKey("hookline_streams", OpenStreams)
RESPONSE_STORE: web.AppKey[KeptResponses] = web.AppKey("hookline_response_store")
ALLOWANCE_OF: web.AppKey[AllowanceOf] = web.AppKey("hookline_allowance_of")
SCALING: web.AppKey[EngineNumber] = web.AppKey("hookline_scaling")
REMOTE_PAGES: web.AppKey[RemotePages] = web.AppKey("hookline_remote_pages", RemotePages)
"""The loggers' pages, only if another process serves them."""
PAGE_PATHS: web.AppKey[list[str]] = web.AppKey("hookline_page_paths")
"""Paths of the loggers' pages; only of the application that serves them."""


@dataclass(slots=True)
class Departure:
    """Whether the server is about to end.

    Attributes:
        is_announced: Whether new requests, which are still served, should go elsewhere.
    """

    is_announced: bool = False


DEPARTURE: web.AppKey[Departure] = web.AppKey("hookline_departure", Departure)
PARSERS: web.AppKey[ChosenParsers] = web.AppKey("hookline_parsers", ChosenParsers)
STARTED: web.AppKey[int] = web.AppKey("hookline_started", int)


def fill(
    app: web.Application,
    engine: ServingEngine,
    settings: ServerSettings,
    shared: SharedParts | None = None,
) -> None:
    """Sets the keys of a new application."""
    if shared is not None:
        app.cleanup_ctx.append(shared.share.lifetime)
    app[ENGINE] = engine
    app[SETTINGS] = settings
    app[ROOT_PATH] = settings.root_path
    app[KEY_RING] = key_ring(settings)
    app[BROWSER_GUARD] = BrowserGuard(settings.hosts, settings.cors)
    app[ROUTE_SCOPES] = RouteScopes(Scope.SERVE)
    app[OPEN_STREAMS] = OpenStreams(None if shared is None else shared.share)
    app[DEEP_HEALTH] = DeepHealth(engine, settings.deep_health_timeout)
    app[DEPARTURE] = Departure()
    app[PARSERS] = choose_parsers(settings.replies, engine.texts.tokenizer_info)
    app[UNKNOWN_FIELDS] = UnknownFields()
    app[IGNORED] = IgnoredCounts()
    app[RESPONSE_STORE] = (
        OwnResponses(ResponseStore(settings.response_store))
        if shared is None
        else shared.responses
    )
    app[ALLOWANCE_OF] = (
        _own_allowances(app[KEY_RING]) if shared is None else shared.allowance_of
    )
    app[SCALING] = _own_number(engine) if shared is None else shared.scaling
    app[HEAP] = HeapTrimmer()
    app[STARTED] = int(time.time())


def _own_number(engine: ServingEngine) -> EngineNumber:
    return engine.capability(EngineNumber) or FixedNumber(engine.facts)


def _own_allowances(ring: KeyRing) -> AllowanceOf:
    def allowance_of(key: ApiKey, tenant: str | None) -> Allowance:
        return OwnAllowance(ring.budgets.of(key, tenant), ring.budgets.clock)

    return allowance_of


def key_ring(settings: ServerSettings) -> KeyRing:
    """Returns the keys that the settings name."""
    return KeyRing(
        api_key=settings.api_key,
        metrics_token=settings.metrics_token,
        file=settings.api_keys or settings.tenant_keys,
        tenant_header=settings.tenant_header,
    )
