"""Browsers may use the API for pages of allowed origins, and for no others."""

from collections.abc import Mapping
from typing import Any

import pytest

from hookline.config.options import assemble
from hookline.exceptions import ConfigError
from hookline_server.cors import CorsSettings, read_words
from hookline_server.settings import ServerSettings
from hookline_testing.scripted_server import FakeEngine, client_of

PAGE = "https://chat.example.org"
OTHER = "https://evil.example.org"
PREFLIGHT = {
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization, content-type",
}
ALLOW_ORIGIN = "Access-Control-Allow-Origin"


def settings(*origins: str, **more: Any) -> ServerSettings:
    return ServerSettings(
        cors=CorsSettings(allowed_origins=origins, **more), api_key="secret"
    )


async def ask(
    made: ServerSettings, method: str, path: str, headers: Mapping[str, str]
) -> tuple[int, Mapping[str, str]]:
    async with client_of(FakeEngine(), made) as client:
        answer = await client.request(method, path, headers=headers)
        return answer.status, answer.headers


@pytest.mark.parametrize("origins", [(PAGE,), (OTHER, PAGE), ("*",)])
async def test_a_preflight_needs_no_key(origins: tuple[str, ...]) -> None:
    """The browser learns that the page may send its method and its headers."""
    status, headers = await ask(
        settings(*origins),
        "OPTIONS",
        "/v1/chat/completions",
        {"Origin": PAGE, **PREFLIGHT},
    )

    assert status == 204
    assert headers[ALLOW_ORIGIN] == PAGE
    assert headers["Access-Control-Allow-Methods"] == "POST"
    assert headers["Access-Control-Allow-Headers"] == "authorization, content-type"


async def test_methods_and_headers_can_be_limited() -> None:
    """The browser learns the lists that were set."""
    made = settings(PAGE, allowed_methods=("GET",), allowed_headers=("X-A", "X-B"))
    _, headers = await ask(made, "OPTIONS", "/v1/models", {"Origin": PAGE, **PREFLIGHT})

    assert headers["Access-Control-Allow-Methods"] == "GET"
    assert headers["Access-Control-Allow-Headers"] == "X-A, X-B"


@pytest.mark.parametrize(
    ("origins", "origin"), [((PAGE,), OTHER), ((), PAGE), ((PAGE,), None)]
)
async def test_other_pages_get_no_permission(
    origins: tuple[str, ...], origin: str | None
) -> None:
    """Preflights of other pages are refused, as all are by default."""
    sent = {} if origin is None else {"Origin": origin}
    status, headers = await ask(
        settings(*origins), "OPTIONS", "/v1/models", {**sent, **PREFLIGHT}
    )

    assert status in (401, 403)
    assert ALLOW_ORIGIN not in headers


@pytest.mark.parametrize("key", ["secret", "wrong"])
async def test_pages_can_read_answers_and_errors(key: str) -> None:
    """A response says that the page may read it, whatever its status."""
    authorization = {"Authorization": f"Bearer {key}"}
    status, headers = await ask(
        settings(PAGE), "GET", "/v1/models", {"Origin": PAGE, **authorization}
    )
    _, elsewhere = await ask(
        settings(PAGE), "GET", "/v1/models", {"Origin": OTHER, **authorization}
    )

    assert status == (200 if key == "secret" else 401)
    assert headers[ALLOW_ORIGIN] == PAGE
    assert "Origin" in headers["Vary"]
    assert ALLOW_ORIGIN not in elsewhere


@pytest.mark.parametrize(
    ("text", "words"),
    [("a,b", ["a", "b"]), ('["*"]', ["*"]), ("a, b", ["a", "b"])],
)
def test_lists_have_the_form_of_vllm_too(text: str, words: list[str]) -> None:
    """Words stand between commas or in a JSON list."""
    assert read_words(text) == words


@pytest.mark.parametrize("text", ["a,,b", "[1]", "[", '[""]', ""])
def test_what_is_no_list_is_refused(text: str) -> None:
    """Anything else is an error."""
    with pytest.raises(ValueError, match=r"list|Expecting"):
        read_words(text)


@pytest.mark.parametrize("origin", ["chat.example.org", "https://a/b", "https://"])
def test_an_origin_has_a_scheme_and_no_path(origin: str) -> None:
    """A wrong origin, which would match no page, is an error at the start."""
    with pytest.raises(ConfigError, match="is not an origin"):
        assemble(ServerSettings, {"cors": {"allowed_origins": (origin,)}})


async def test_credentials_need_named_origins() -> None:
    """Both answers allow them to the named origin, and to no other."""
    cors = CorsSettings(allowed_origins=(PAGE,), allow_credentials=True)
    made = ServerSettings(cors=cors)
    name = "Access-Control-Allow-Credentials"

    _, preflight = await ask(
        made, "OPTIONS", "/v1/models", {"Origin": PAGE, **PREFLIGHT}
    )
    _, answer = await ask(made, "GET", "/v1/models", {"Origin": PAGE})
    _, other = await ask(made, "GET", "/v1/models", {"Origin": OTHER})

    assert (preflight.get(name), answer.get(name)) == ("true", "true")
    assert name not in other
    with pytest.raises(ConfigError, match="requires named allowed-origins"):
        CorsSettings(allowed_origins=("*",), allow_credentials=True)
