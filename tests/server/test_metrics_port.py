"""Where the loggers' pages are served, and to whom."""

import asyncio
import json
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import pytest
from aiohttp.test_utils import TestClient, TestServer

from hookline.exceptions import ConfigError
from hookline.pages import PageRequest, PageResponse
from hookline_server.app import create_app
from hookline_server.auth.key import ApiKey, KeySet
from hookline_server.auth.key_file import KeyFile
from hookline_server.auth.key_table import digest_of
from hookline_server.listening import listen
from hookline_server.page_threads import PageThreads
from hookline_server.pages_app import PAGES_APP
from hookline_server.settings import ServerSettings
from hookline_testing.scripted_server import FakeEngine, client_of

TOKEN = "t" * 20
OWN_PORT = ServerSettings(metrics_port=0)


def paged_engine() -> FakeEngine:
    engine = FakeEngine()
    engine.pages["/metrics"] = lambda _: PageResponse(body=b"x 1\n", content_type="a/b")
    return engine


async def test_pages_can_have_a_separate_port() -> None:
    """
    With a metrics port the pages are there and no longer among the API's routes.
    """
    app = create_app(paged_engine(), OWN_PORT)

    async with (
        TestClient(TestServer(app)) as api,
        TestClient(TestServer(app[PAGES_APP])) as pages,
    ):
        statuses = {
            (name, path): (await client.get(path)).status
            for name, client in (("api", api), ("pages", pages))
            for path in ("/metrics", "/health", "/health/live", "/v1/models")
        }

    assert statuses == {
        ("api", "/metrics"): 404,
        ("api", "/health"): 200,
        ("api", "/health/live"): 200,
        ("api", "/v1/models"): 200,
        ("pages", "/metrics"): 200,
        ("pages", "/health"): 200,
        ("pages", "/health/live"): 200,
        ("pages", "/v1/models"): 404,
    }


async def test_both_ports_are_metered_together() -> None:
    """
    Requests of both ports are reported, the last ones at shutdown.
    """
    engine = paged_engine()
    app = create_app(engine, OWN_PORT)

    async with (
        TestClient(TestServer(app)) as api,
        TestClient(TestServer(app[PAGES_APP])) as pages,
    ):
        await api.get("/health")
        await pages.get("/metrics")

    routes = [each.route for answered in engine.answered for each in answered.exchanges]
    assert routes == ["/health", "/metrics"]


async def test_errors_of_the_metrics_port_are_in_shape() -> None:
    """
    Errors look the same on both ports.
    """
    engine = paged_engine()
    engine.fail("gone")
    app = create_app(engine, OWN_PORT)

    async with TestClient(TestServer(app[PAGES_APP])) as pages:
        unknown = await pages.get("/nope", headers={"X-Request-Id": "me"})
        unready = await pages.get("/health")

        assert (await unknown.json())["error"]["code"] == "route_not_found"
        assert unknown.headers["X-Request-Id"] == "me"
        assert (await unready.json())["error"]["code"] == "engine_unavailable"


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (None, 401),
        ("Bearer wrong", 401),
        ("Bearer ", 401),
        ("Basic secret", 401),
        ("Bearer sécret", 401),
        (f"Bearer {TOKEN}", 200),
        (f"bearer  {TOKEN}", 200),
    ],
)
@pytest.mark.parametrize("port", [None, 0])
async def test_token_guards_the_pages(
    header: str | None, status: int, port: int | None
) -> None:
    """
    With a token the pages ask for it wherever they are; probes do not.
    """
    headers = {} if header is None else {"Authorization": header}
    settings = ServerSettings(metrics_token=TOKEN, metrics_port=port)
    app = create_app(paged_engine(), settings)

    async with TestClient(TestServer(app[PAGES_APP])) as client:
        page = await client.get("/metrics", headers=headers)
        health = await client.get("/health")

    assert (page.status, health.status) == (status, 200)
    assert page.headers.get("WWW-Authenticate") == ("Bearer" if status == 401 else None)


async def test_keys_of_the_api_do_not_open_pages_with_a_token() -> None:
    """
    The API's key opens no page, and the token does not open the API.
    """
    settings = ServerSettings(api_key="key", metrics_token=TOKEN)

    async with client_of(paged_engine(), settings) as client:
        page = await client.get("/metrics", headers={"Authorization": "Bearer key"})
        api = await client.get(
            "/v1/models", headers={"Authorization": f"Bearer {TOKEN}"}
        )

    assert (page.status, api.status) == (403, 403)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"metrics_port": 65536}, "metrics-port: must be 0 to 65535"),
        ({"metrics_host": "::1"}, "metrics-host: requires metrics-port"),
        ({"metrics_token": ""}, "metrics-token: must not be empty"),
    ],
)
def test_wrong_settings_are_errors(settings: dict[str, object], complaint: str) -> None:
    """
    What cannot be served is an error that names the option.
    """
    with pytest.raises(ConfigError, match=complaint):
        ServerSettings(**settings)  # type: ignore[arg-type]


def test_secrets_are_not_shown() -> None:
    """
    Settings can be logged without the secrets in them.
    """
    settings = ServerSettings(
        api_key=TOKEN,
        metrics_token=TOKEN,
        api_keys=KeyFile("keys", KeySet({digest_of(TOKEN): ApiKey(name="a")})),
    )

    assert TOKEN not in repr(settings)


async def test_pages_share_a_few_threads() -> None:
    """
    Views of pages run in the same threads again, and these end with the application.
    """
    seen: set[threading.Thread] = set()

    def page(_: PageRequest) -> PageResponse:
        seen.add(threading.current_thread())
        return PageResponse(body=b"", content_type="a/b")

    engine = FakeEngine()
    engine.pages["/metrics"] = page
    async with client_of(engine) as client:
        for _ in range(5):
            await asyncio.gather(*(client.get("/metrics") for _ in range(4)))

    for thread in seen:
        await asyncio.to_thread(thread.join, 10)
    assert 1 <= len(seen) <= 2
    assert not any(thread.is_alive() for thread in seen)


def test_threads_start_with_the_first_work() -> None:
    """
    Where no page is ever viewed, there is no thread.
    """
    before = threading.active_count()

    threads = PageThreads(2)
    threads.close()

    assert threading.active_count() == before


@pytest.mark.slow
def test_metrics_port_of_a_process() -> None:
    """
    `hookline serve` shows the pages' own port in its banner and serves them there.
    """
    ports = ("--port=0", "--metrics-port=0", f"--metrics-token={TOKEN}")
    engine = ("--executor=simulated", "--in-process", "--stat-logger=prometheus")
    command = [sys.executable, "-m", "hookline_server", "serve", *ports, *engine]

    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        try:
            assert run.stdout is not None
            lines = dict(_entry(run.stdout.readline()) for _ in range(4))
            while "hookline_requests_running" not in _get(lines["metrics"], TOKEN):
                time.sleep(0.05)  # the logger's lane has yet to deliver the start
            with pytest.raises(urllib.error.HTTPError) as refused:
                _get(lines["metrics"], "")
            refused.value.close()
            health = _get(lines["metrics"].replace("/metrics", "/health"), "")
        finally:
            run.terminate()

    assert lines["metrics"].rsplit("/", 1)[0] != lines["API"].rsplit("/", 1)[0]
    assert refused.value.code == 401
    assert json.loads(health) == {"status": "healthy"}
    assert run.returncode == 0


def test_metrics_port_in_use_is_an_immediate_error() -> None:
    """
    A metrics port that is taken ends the command before the model loads.
    """
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        command = [sys.executable, "-m", "hookline_server", "serve", "--port=0"]
        done = subprocess.run(
            [*command, f"--metrics-port={port}", "--model=/nonexistent"],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    assert done.returncode == 1
    assert done.stderr == (
        f"hookline: error: cannot listen on 127.0.0.1 port {port}: "
        "Address already in use\n"
    )


def _entry(line: str) -> tuple[str, str]:
    name, _, value = line.strip().partition(" ")
    return name, value.strip()


def _get(url: str, token: str) -> str:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(url, headers=headers)  # noqa: S310
    with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310
        text: str = response.read().decode()
    return text
