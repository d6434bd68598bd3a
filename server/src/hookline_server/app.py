"""Composes the application: context, middleware, routes and the loggers' pages."""

from aiohttp import web
from aiohttp.typedefs import Middleware

from hookline_server import context
from hookline_server.api_servers.shared_parts import SharedParts
from hookline_server.auth.key_ring import KEY_RING
from hookline_server.cors import Cors
from hookline_server.deadlines import Deadlines
from hookline_server.dialects import (
    EMBEDDINGS_PATH,
    MESSAGES_PATH,
    POOLING_PATH,
    RESPONSES_PATH,
)
from hookline_server.engine import ServingEngine
from hookline_server.entrance import Entrance, show_limits
from hookline_server.errors import shape_error
from hookline_server.handlers.adapters import ADAPTER_ROUTES
from hookline_server.handlers.anthropic_messages import count_tokens, create_message
from hookline_server.handlers.chat_completions import chat_completions
from hookline_server.handlers.completions import completions
from hookline_server.handlers.description import DESCRIPTION_ROUTES
from hookline_server.handlers.embeddings import embeddings, pooling
from hookline_server.handlers.health import DEEP_HEALTH_ROUTES, HEALTH_ROUTES
from hookline_server.handlers.invocations import invocations
from hookline_server.handlers.kv_transfers import release_transfer
from hookline_server.handlers.load import show_load
from hookline_server.handlers.missing_metrics import explain_missing_metrics
from hookline_server.handlers.models import list_models, show_model
from hookline_server.handlers.prefix_cache import reset_prefix_cache
from hookline_server.handlers.responses import count_input_tokens, create_response
from hookline_server.handlers.scale import SCALE_ROUTES
from hookline_server.handlers.sleep import SLEEP_ROUTES
from hookline_server.handlers.stored_responses import STORED_RESPONSE_ROUTES
from hookline_server.handlers.tokenize import detokenize, tokenize
from hookline_server.handlers.tokenizer_info import show_tokenizer
from hookline_server.handlers.version import show_version
from hookline_server.heap_trimmer import HEAP
from hookline_server.http_meter import HttpMeter
from hookline_server.leftovers import close_if_long
from hookline_server.middlewares import load_middlewares
from hookline_server.openapi.description import DESCRIPTION, Description
from hookline_server.page_counts import PageCounts
from hookline_server.page_forwarding import forward_pages
from hookline_server.page_news import PageNews
from hookline_server.pages import PAGES, Pages
from hookline_server.pages_app import PAGES_APP, create_pages_app
from hookline_server.request_body import HANDLER_ARGS
from hookline_server.request_identity import echo_request_id
from hookline_server.sending import send
from hookline_server.settings import ServerSettings
from hookline_server.trace_rules import IS_PLAIN, trace_rules

ROUTES = (
    web.post("/v1/completions", completions),
    web.post("/v1/chat/completions", chat_completions),
    web.post(RESPONSES_PATH, create_response),
    web.post(f"{RESPONSES_PATH}/input_tokens", count_input_tokens),
    *STORED_RESPONSE_ROUTES,
    web.post(MESSAGES_PATH, create_message),
    web.post(f"{MESSAGES_PATH}/count_tokens", count_tokens),
    web.get("/v1/models", list_models),
    *ADAPTER_ROUTES,
    web.get("/v1/models/{model:.+}", show_model),
    web.post(EMBEDDINGS_PATH, embeddings),
    web.post(POOLING_PATH, pooling),
    web.post("/invocations", invocations),
    web.delete("/v1/kv_transfers/{transfer_id}", release_transfer),
    web.post("/tokenize", tokenize),
    web.post("/detokenize", detokenize),
    *HEALTH_ROUTES,
    *DEEP_HEALTH_ROUTES,
    web.get("/load", show_load),
    web.get("/version", show_version),
)


def create_app(
    engine: ServingEngine,
    settings: ServerSettings,
    shared: SharedParts | None = None,
) -> web.Application:
    """Composes the server of a started engine; one of several has shared parts.

    Run it with `handler_cancellation=True`, which aborts requests of clients that left.
    """
    if not IS_PLAIN:
        trace_rules()  # warns of wrong variables, before the first request needs them
    page_counts = PageCounts()
    observers = engine.observers
    needs_http = observers.listens("http_answered")
    meter = HttpMeter(engine, page_counts.stats) if needs_http else None
    outermost: tuple[Middleware, ...]
    outermost = (send,) if meter is None else (meter.middleware, send)
    cors = Cors(settings.cors) if settings.cors.allowed_origins else None
    if cors is not None:
        outermost = (*outermost, cors.middleware)
    entrance = Entrance(Deadlines(settings.request_timeout))
    app = web.Application(
        middlewares=(
            *outermost,
            entrance.middleware,
            *load_middlewares(settings.middleware),
        ),
        client_max_size=settings.max_body_bytes,
        handler_args=HANDLER_ARGS,
    )
    if meter is not None:
        app.cleanup_ctx.append(meter.lifetime)
    context.fill(app, engine, settings, shared)
    app.cleanup_ctx.append(app[KEY_RING].follow)
    app.cleanup_ctx.append(app[HEAP].lifetime)
    app.cleanup_ctx.append(app[context.RESPONSE_STORE].lifetime)
    app.on_response_prepare.append(shape_error)
    app.on_response_prepare.append(echo_request_id)
    if cors is not None:
        app.on_response_prepare.append(cors.mark)
    if app[KEY_RING].may_have_limits:
        app.on_response_prepare.append(show_limits)
    app.on_response_prepare.append(close_if_long)
    app.add_routes(ROUTES)
    if not settings.disable_fastapi_docs:
        app[DESCRIPTION] = Description(app)
        app.add_routes(DESCRIPTION_ROUTES)
    _add_chosen_routes(app, settings)
    app[PAGES_APP] = (
        app if settings.metrics_port is None else create_pages_app(app, outermost)
    )
    app[PAGES] = Pages(app[PAGES_APP], page_counts, observers.settle)
    news = PageNews(engine, meter)
    app.cleanup_ctx.append(news.lifetime)
    if (remote := observers.add_routes(app[PAGES].of, news.tell)) is not None:
        forward_pages(app[PAGES_APP], app[PAGES], remote)
        app[context.REMOTE_PAGES] = app[PAGES_APP][context.REMOTE_PAGES] = remote
    explain_missing_metrics(app)
    return app


def _add_chosen_routes(app: web.Application, settings: ServerSettings) -> None:
    """Adds the routes that exist only where they are enabled."""
    if settings.enable_reset_prefix_cache:
        app.router.add_post("/reset_prefix_cache", reset_prefix_cache)
    if settings.enable_tokenizer_info_endpoint:
        app.router.add_get("/tokenizer_info", show_tokenizer)
    if settings.enable_scaling:
        app.add_routes(SCALE_ROUTES)
    if settings.enable_sleep_mode:
        app.add_routes(SLEEP_ROUTES)
