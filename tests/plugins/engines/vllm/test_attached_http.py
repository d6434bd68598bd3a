"""What the middleware tells of HTTP requests, which it passes on as they are."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hookline.pages import PageEvent, PageRequest, PageResponse, Routes
from hookline_vllm.attachment import Attachment
from hookline_vllm.endpoints import Endpoints
from hookline_vllm.general import HTTP
from hookline_vllm.middleware import Middleware
from hookline_vllm.notices import Answered

Message = dict[str, Any]


class Client:
    """One HTTP exchange, whose client sends a body and then leaves."""

    def __init__(self, path: str) -> None:
        self.scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "headers": [(b"x-tenant", b"acme"), (b"traceparent", b"00-a")],
        }
        self.got: list[Message] = []
        self._has_asked = False

    async def receive(self) -> Message:
        if not self._has_asked:
            self._has_asked = True
            return {"type": "http.request", "body": b"abc"}
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self.got.append(message)


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Answers in three parts, unless the client leaves before."""
    scope["route"] = SimpleNamespace(path="/v1/completions")
    await receive()
    facts = HTTP.get()
    assert facts is not None
    assert (facts.tenant, facts.trace_headers) == ("acme", {"traceparent": "00-a"})
    facts.client_id = "cmpl-a"
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"12", "more_body": True})
    if scope["path"] == "/left":
        await receive()
        return
    await send({"type": "http.response.body", "body": b"3"})


async def exchanged(path: str) -> tuple[Answered, Client]:
    attachment, client = Attachment(), Client(path)
    attachment.inbox.is_open = True
    middleware = Middleware(application, attachment)
    await middleware(client.scope, client.receive, client.send)
    told = attachment.inbox.pop()
    assert isinstance(told, Answered)
    assert not +attachment.in_flight
    return told, client


async def test_exchange_has_its_route_bytes_and_client() -> None:
    """The application gets and gives what it would without the middleware."""
    told, client = await exchanged("/v1/completions")

    exchange = told.exchange
    assert (exchange.route, exchange.method) == ("/v1/completions", "POST")
    assert (exchange.status, exchange.client_id) == (200, "cmpl-a")
    assert (exchange.request_bytes, exchange.response_bytes) == (3, 3)
    assert exchange.first_byte_seconds is not None
    assert [each.get("body") for each in client.got] == [None, b"12", b"3"]


async def test_client_that_leaves_has_its_own_status() -> None:
    """Its response has not ended."""
    told, _ = await exchanged("/left")

    assert told.exchange.status == 499


async def test_error_of_the_application_goes_on() -> None:
    """It is counted, and nobody swallows it."""

    async def broken(*_: object) -> None:
        raise ValueError("vLLM's own")

    attachment, client = Attachment(), Client("/")
    attachment.inbox.is_open = True
    with pytest.raises(ValueError, match="vLLM's own"):
        await Middleware(broken, attachment)(client.scope, client.receive, client.send)

    told = attachment.inbox.pop()
    assert isinstance(told, Answered)
    assert told.exchange.status == 500


async def test_endpoint_plugin_adds_the_middleware_and_streams_events() -> None:
    """vLLM attaches it before its application starts."""
    added: list[tuple[type, Attachment]] = []
    app = SimpleNamespace(
        add_middleware=lambda made, attachment: added.append((made, attachment))
    )
    plugin = Endpoints()
    plugin.attach_router(app)
    await plugin.init_state(None, None, None)
    ((made, _),) = added

    def frames() -> Any:
        yield PageEvent(data="first")

    def add_routes(routes_of: Any, _: object) -> None:
        routes: Routes = routes_of("live")
        routes.events("/live/frames", frames)

    attachment, client = Attachment(), Client("/hookline/live/frames")
    observers = SimpleNamespace(add_routes=add_routes, settle=lambda _: 0.0)
    attachment.pages.open(observers, lambda _: 0.0)
    await made(application, attachment)(client.scope, never, client.send)

    bodies = [each.get("body") for each in client.got]
    assert bodies == [None, b"data: first\n\n", b""]


@pytest.mark.parametrize(
    ("path", "body"),
    [("/why/7", b"why 7"), ("/flight-recorder/7", b"12"), ("/v1/completions", b"12")],
)
async def test_page_has_its_own_path_where_vllm_has_none(
    path: str, body: bytes
) -> None:
    """A route of vLLM's goes before, whatever its method."""

    def add_routes(routes_of: Any, _: object) -> None:
        routes: Routes = routes_of("insight")
        for pattern in ("/why/{id}", "/flight-recorder/{id}"):
            routes.get(pattern, _why)

    attachment, client = Attachment(), Client(path)
    attachment.inbox.is_open = True
    observers = SimpleNamespace(add_routes=add_routes, settle=lambda _: 0.0)
    attachment.pages.open(observers, lambda _: 0.0)
    vllms = SimpleNamespace(matches=lambda scope: (Match(scope["path"]), {}))
    app = SimpleNamespace(router=SimpleNamespace(routes=[vllms]))
    scope = {**client.scope, "method": "GET", "app": app, "query_string": b""}

    await Middleware(application, attachment)(scope, client.receive, client.send)

    assert client.got[1]["body"] == body


def _why(request: PageRequest) -> PageResponse:
    body = f"why {request.path_values['id']}".encode()
    return PageResponse(body=body, content_type="text/plain")


@pytest.mark.parametrize("path", ["/live", "/hookline/live"])
async def test_folder_of_pages_is_led_to(path: str, tmp_path: Path) -> None:
    """The links in it are relative, so its path ends in a slash."""
    (tmp_path / "index.html").write_text("the view")

    def add_routes(routes_of: Any, _: object) -> None:
        routes: Routes = routes_of("live")
        routes.files("/live", tmp_path)

    attachment, client = Attachment(), Client(path)
    observers = SimpleNamespace(add_routes=add_routes, settle=lambda _: 0.0)
    attachment.pages.open(observers, lambda _: 0.0)
    app = SimpleNamespace(router=SimpleNamespace(routes=[]))
    scope = {**client.scope, "method": "GET", "app": app, "query_string": b""}
    middleware = Middleware(application, attachment)

    await middleware(scope, client.receive, client.send)
    assert client.got[0]["status"] == 308
    assert (b"location", b"live/") in client.got[0]["headers"]
    await middleware({**scope, "path": f"{path}/"}, client.receive, client.send)
    assert client.got[-1]["body"] == b"the view"


class Match:
    """Starlette's: whether vLLM has a route, perhaps with another method."""

    def __init__(self, path: str) -> None:
        self.value = int(path.startswith(("/flight-recorder", "/v1")))


async def never() -> Message:
    """Waits for a client that does not leave."""
    await asyncio.Event().wait()
    raise AssertionError
