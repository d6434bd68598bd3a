"""Pages of other sites, and names that are not this server's, need a key."""

from collections.abc import Mapping

import pytest
from aiohttp.test_utils import TestClient, TestServer

from hookline.exceptions import ConfigError
from hookline_server.app import create_app
from hookline_server.auth.key_ring import KeyRing
from hookline_server.browser_guard import BrowserGuard, is_loopback
from hookline_server.cors import CorsSettings
from hookline_server.loading import create_loading_app
from hookline_server.pages_app import PAGES_APP
from hookline_server.settings import ServerSettings
from hookline_testing.scripted_server import FakeEngine, client_of

PAGE = "https://chat.example.org"
EVIL = {"Origin": "https://evil.example"}
CROSS = {"Sec-Fetch-Site": "cross-site"}
VISIT = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
BODY = '{"model": "fake", "prompt": "a"}'
COMPLETIONS = "/v1/completions"
WIDE = "0.0.0.0"  # noqa: S104 - nothing listens on it here


def settings(
    *,
    host: str = "127.0.0.1",
    api_key: str | None = None,
    allowed_origins: tuple[str, ...] = (),
    allowed_hosts: tuple[str, ...] = (),
) -> ServerSettings:
    return ServerSettings(
        host=(host,),
        api_key=api_key,
        cors=CorsSettings(allowed_origins=allowed_origins, allowed_hosts=allowed_hosts),
        enable_sleep_mode=True,
        enable_reset_prefix_cache=True,
    )


async def asked(
    given: ServerSettings, path: str, headers: Mapping[str, str], method: str = "GET"
) -> tuple[int, str]:
    """The status, and the code of an error."""
    data = BODY if method == "POST" else None
    async with client_of(FakeEngine(), given) as client:
        answer = await client.request(method, path, data=data, headers=headers)
        is_error = answer.status >= 400 and method != "HEAD"
        code = (await answer.json())["error"]["code"] if is_error else ""
    return answer.status, code or ""


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("POST", COMPLETIONS, EVIL),
        ("POST", COMPLETIONS, {**EVIL, "Content-Type": "text/plain"}),
        ("POST", COMPLETIONS, {"Origin": "null"}),
        ("POST", COMPLETIONS, {"Origin": "http://localhost:3000"}),
        ("POST", COMPLETIONS, CROSS),
        ("POST", COMPLETIONS, {"Sec-Fetch-Site": "same-site"}),
        ("POST", COMPLETIONS, {**CROSS, **VISIT}),
        ("POST", "/sleep", {"Sec-Fetch-Site": "Cross-Site"}),
        ("POST", "/reset_prefix_cache", EVIL),
        ("POST", "/no/such/path", EVIL),
        ("GET", "/health/deep", CROSS),
        ("GET", "/v1/models", EVIL),
        ("GET", "/openapi.json", {**CROSS, "Sec-Fetch-Mode": "no-cors"}),
        ("GET", "/docs", {**CROSS, **VISIT, "Sec-Fetch-Dest": "iframe"}),
    ],
)
async def test_pages_of_other_sites_are_refused(
    method: str, path: str, headers: dict[str, str]
) -> None:
    """
    Whatever they ask for, and however simple the request is.
    """
    found = await asked(settings(), path, headers, method)

    assert found == (403, "origin_not_allowed")


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8000", "localhost.evil.example", "LOCALHOST.evil",
     "127.0.0.1.evil.example", "localhost:8000@evil.example", "[::1].evil.example"],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/v1/models", "/metrics", "/docs", "/health"])
async def test_a_foreign_name_is_refused_on_loopback(host: str, path: str) -> None:
    """
    A page whose name was made to point to this machine has its own name in `Host`.
    """
    found = await asked(settings(), path, {"Host": host})

    assert found == (403, "host_not_allowed")


@pytest.mark.parametrize(
    ("headers", "method"),
    [
        ({}, "POST"),
        ({"Content-Type": "text/plain"}, "POST"),
        ({"Host": "localhost:1234"}, "POST"),
        ({"Host": "app.localhost"}, "POST"),
        ({"Host": "[::1]:8000"}, "POST"),
        ({"Host": "10.1.2.3"}, "POST"),
        ({"Host": "0.0.0.0:8000"}, "POST"),
        ({"Host": ""}, "POST"),
        ({"Origin": "http://localhost:80", "Host": "localhost"}, "POST"),
        ({"Origin": "http://[::1]:8000", "Host": "[::1]:8000"}, "POST"),
        ({"Sec-Fetch-Site": "same-origin"}, "POST"),
        ({"Sec-Fetch-Site": "none", **VISIT}, "GET"),
        ({**CROSS, **VISIT}, "GET"),
    ],
)
async def test_programs_and_own_pages_are_let_in(
    headers: dict[str, str], method: str
) -> None:
    """
    What sends no such headers, the server's own pages, and somebody who follows a link.
    """
    path = COMPLETIONS if method == "POST" else "/v1/models"

    assert await asked(settings(), path, headers, method) == (200, "")


@pytest.mark.parametrize(
    ("given", "headers", "status"),
    [
        (settings(allowed_origins=(PAGE,)), {"Origin": PAGE, **CROSS}, 200),
        (settings(allowed_origins=(PAGE,)), EVIL, 403),
        (settings(allowed_origins=("*",)), EVIL, 200),
        (settings(allowed_hosts=("a.example",)), {"Host": "A.example.:80"}, 200),
        (settings(allowed_hosts=("a.example",)), {"Host": "b.example"}, 403),
        (settings(allowed_hosts=("*.example",)), {"Host": "b.example"}, 200),
        (settings(allowed_hosts=("*.example",)), {"Host": "c.b.example"}, 403),
        (settings(allowed_hosts=("*",)), {"Host": "evil.example"}, 200),
        (settings(host=WIDE), {"Host": "hookline.default.svc"}, 200),
        (settings(host=WIDE), {"Host": "10.0.0.1:8000"}, 200),
        (settings(host=WIDE), EVIL, 403),
        (
            settings(host=WIDE),
            {"Host": "evil.example", "Origin": "http://evil.example"},
            403,
        ),
        (
            settings(host=WIDE, allowed_hosts=("a.example",)),
            {"Host": "evil.example"},
            403,
        ),
        (settings(host=WIDE, allowed_hosts=("a.example",)), {"Host": "10.0.0.1"}, 200),
        (settings(api_key="k"), {**EVIL, "Authorization": "Bearer k"}, 200),
        (settings(api_key="k"), {"Host": "x.y", "Authorization": "Bearer k"}, 200),
    ],
)
async def test_origins_and_names_can_be_allowed(
    given: ServerSettings, headers: dict[str, str], status: int
) -> None:
    """
    By option; names count where others cannot have meant another machine, and neither
    counts where a key does.
    """
    assert (await asked(given, COMPLETIONS, headers, "POST"))[0] == status


@pytest.mark.parametrize(
    ("given", "headers", "status"),
    [
        (settings(allowed_origins=("*",)), EVIL, 403),
        (settings(allowed_origins=(EVIL["Origin"],)), EVIL, 200),
        (settings(host=WIDE), {"Host": "hookline.default.svc"}, 403),
        (settings(host=WIDE), {"Host": "10.0.0.1"}, 200),
        (settings(api_key="k"), {**EVIL, "Authorization": "Bearer k"}, 200),
    ],
)
async def test_administration_is_always_guarded(
    given: ServerSettings, headers: dict[str, str], status: int
) -> None:
    """
    Without a key, its names count on all addresses, and only origins that are named.
    """
    assert (await asked(given, "/reset_prefix_cache", headers, "POST"))[0] == status


async def test_all_ports_are_guarded() -> None:
    """
    That of the metrics, and the API's while the model loads; a page that a metrics
    token guards is not.
    """
    both = ServerSettings(metrics_port=0)
    app = create_app(FakeEngine(), both)
    loading = create_loading_app(
        KeyRing(), BrowserGuard(("127.0.0.1",), CorsSettings())
    )
    found = []
    for each in (app[PAGES_APP], loading):
        async with TestClient(TestServer(each)) as client:
            found += [
                (await client.get("/health", headers=headers)).status
                for headers in (EVIL, CROSS, {"Host": "evil.example"})
            ]
    token = ServerSettings(metrics_token="t")  # noqa: S106 - of this test only
    headers = {**EVIL, "Authorization": "Bearer t"}

    assert found == [403] * 6
    assert (await asked(token, "/metrics", headers))[0] != 403
    assert (await asked(token, "/v1/models", headers))[0] == 403


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost", True),
        (WIDE, False),
        ("::", False),
        ("192.0.2.1", False),
        ("no-such-name.invalid", False),
    ],
)
def test_loopback_is_recognized(host: str, expected: bool) -> None:
    """
    By what an address resolves to.
    """
    assert is_loopback(host) is expected


@pytest.mark.parametrize("name", ["a.example:80", "http://a", "a b", "", "*.*.b"])
def test_a_name_has_no_port(name: str) -> None:
    """
    What no `Host` could be is an error at the start.
    """
    with pytest.raises(ConfigError, match="allowed-hosts"):
        CorsSettings(allowed_hosts=(name,))
