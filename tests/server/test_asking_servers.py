"""How commands name a server, and what they say if it does not answer as they hope."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from hookline_server.cli.asking import open_page, url_of
from hookline_server.cli.errors import CommandFailedError


@pytest.mark.parametrize(
    ("source", "url"),
    [
        ("http://node:8000", "http://node:8000"),
        ("https://node/base", "https://node/base"),
        ("node:8000", "http://node:8000"),
        ("127.0.0.1:8000/", "http://127.0.0.1:8000/"),
        ("[::1]:8000", "http://[::1]:8000"),
        *((each, None) for each in (None, "4711", "a.rec", "./node:8000", "node:")),
    ],
)
def test_a_server_is_named_by_its_url_or_its_port(
    source: str | None, url: str | None
) -> None:
    """All else is a process or a file."""
    assert url_of(source) == url


def test_a_file_goes_before_a_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a name that could be both."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "day:12").touch()

    assert url_of("day:12") is None
    assert url_of("day:13") == "http://day:13"


@contextmanager
def answering(status: int, body: str) -> Iterator[str]:
    """A server that has one answer to all."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def error(code: str) -> str:
    return json.dumps({"error": {"code": code, "message": "so it is"}})


@pytest.mark.parametrize(
    ("status", "body", "key", "said"),
    [
        (401, error("key"), None, "asks for a key of the scope admin: --api-key"),
        (401, error("key"), "k", "needs the scope admin: so it is"),
        (403, error("permission_denied"), "k", "needs the scope admin: so it is"),
        (404, error("route_not_found"), None, "has no /why: it takes --stat-logger"),
        (404, error("no_recording"), None, "answers: so it is"),
        (404, "nothing is known", None, "answers: nothing is known"),
        (503, "", None, "answers 503 Service Unavailable"),
    ],
)
def test_a_refusal_says_what_to_do(
    status: int, body: str, key: str | None, said: str
) -> None:
    """About the key, the logger, or in the server's own words."""
    with (
        answering(status, body) as url,
        pytest.raises(CommandFailedError) as caught,
        open_page(url, "/why?slowest=1", key=key, scope="admin", logger="insight"),
    ):
        pass

    assert said in str(caught.value)
    assert url in str(caught.value)


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://127.0.0.1:0", "http://"])
def test_a_server_that_is_not_there_is_named(url: str) -> None:
    """Nobody listens, or it is no address."""
    with (
        pytest.raises(CommandFailedError, match=url),
        open_page(url, "/why", key=None, scope="admin", logger="insight"),
    ):
        pass
