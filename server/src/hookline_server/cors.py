"""Cross-origin resource sharing: which web pages may use the API from a browser.

Off unless origins are allowed. Browsers first send a preflight request without a key;
it is answered before authentication and reaches no handler.
"""

import json
import re
from dataclasses import dataclass

from aiohttp import hdrs, web
from aiohttp.typedefs import Middleware

from hookline.config.options import option
from hookline.exceptions import ConfigError
from hookline_server.errors import Handler

ANY = "*"
MAX_AGE_SECONDS = "600"
EXPOSED = "Retry-After, X-Hookline-Ignored, X-Request-Id"
"""Headers of responses that pages may read."""

_NAME = re.compile(r"\*|(?:\*\.)?[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*")


def read_words(text: str) -> list[str]:
    """Reads comma-separated words, or a JSON list of texts, as in vLLM.

    Raises:
        ValueError: It is neither.
    """
    if not text.lstrip().startswith("["):
        found: object = [word.strip() for word in text.split(",")]
    else:
        found = json.loads(text)
    if not isinstance(found, list) or not all(isinstance(i, str) and i for i in found):
        raise ValueError(f"{text!r} is not a list of words")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedPages:
    """Which web pages may use a server, and by which names."""

    allowed_origins: tuple[str, ...] = option(
        "Origin of web pages that may use the API in browsers, such as "
        "https://chat.example.org; * allows all.",
        default=(),
        metavar="ORIGIN",
        commas=True,
        read=read_words,
        shown_default="none",
    )
    allowed_hosts: tuple[str, ...] = option(
        "Further name by which clients without a key may reach the server, such as "
        "*.example.org; * allows all.",
        default=(),
        metavar="NAME",
        commas=True,
        read=read_words,
        shown_default="none on loopback, else all",
    )

    def __post_init__(self) -> None:
        for origin in self.allowed_origins:
            scheme, separator, rest = origin.partition("://")
            is_origin = scheme and separator and rest and "/" not in rest
            if origin != ANY and not is_origin:
                raise ConfigError(
                    "allowed-origins",
                    f"{origin!r} is not an origin such as https://chat.example.org",
                )
        for name in self.allowed_hosts:
            if not _NAME.fullmatch(name):
                raise ConfigError(
                    "allowed-hosts",
                    f"{name!r} is not a name such as llm.example.org, without a port",
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class CorsSettings(AllowedPages):
    """Methods and headers, too, that pages of allowed origins may use."""

    allowed_methods: tuple[str, ...] = option(
        "HTTP method that such pages may use; * allows all.",
        default=(ANY,),
        metavar="METHOD",
        commas=True,
        read=read_words,
    )
    allowed_headers: tuple[str, ...] = option(
        "Header that such pages may send; * allows all.",
        default=(ANY,),
        metavar="NAME",
        commas=True,
        read=read_words,
    )
    allow_credentials: bool = option(
        "Let such pages send cookies and certificates.", default=False
    )

    def __post_init__(self) -> None:
        super(CorsSettings, self).__post_init__()
        if self.allow_credentials and (
            not self.allowed_origins or ANY in self.allowed_origins
        ):
            raise ConfigError("allow-credentials", "requires named allowed-origins")


class Cors:
    """Answers preflights, and marks responses for allowed origins."""

    def __init__(self, settings: CorsSettings) -> None:
        self._origins = frozenset(settings.allowed_origins)
        self._methods = settings.allowed_methods
        self._headers = settings.allowed_headers
        self._has_credentials = settings.allow_credentials

    @property
    def middleware(self) -> Middleware:
        """The middleware; it belongs before authentication."""

        @web.middleware
        async def answer_preflights(
            request: web.Request, handler: Handler
        ) -> web.StreamResponse:
            asked = request.headers.get(hdrs.ACCESS_CONTROL_REQUEST_METHOD)
            if request.method != hdrs.METH_OPTIONS or asked is None:
                return await handler(request)
            if not self._allows(request):
                return web.Response(status=403)
            return web.Response(status=204, headers=self._permission(request, asked))

        return answer_preflights

    async def mark(self, request: web.Request, response: web.StreamResponse) -> None:
        """Lets the page read the response; for `on_response_prepare`."""
        response.headers.add(hdrs.VARY, hdrs.ORIGIN)
        if self._allows(request):
            response.headers[hdrs.ACCESS_CONTROL_ALLOW_ORIGIN] = request.headers[
                hdrs.ORIGIN
            ]
            response.headers[hdrs.ACCESS_CONTROL_EXPOSE_HEADERS] = EXPOSED
            if self._has_credentials:
                response.headers[hdrs.ACCESS_CONTROL_ALLOW_CREDENTIALS] = "true"

    def _allows(self, request: web.Request) -> bool:
        origin = request.headers.get(hdrs.ORIGIN)
        return origin is not None and (ANY in self._origins or origin in self._origins)

    def _permission(self, request: web.Request, method: str) -> dict[str, str]:
        methods, headers = self._methods, self._headers
        # Browsers take a literal * as all headers but Authorization.
        asked = request.headers.get(hdrs.ACCESS_CONTROL_REQUEST_HEADERS, "")
        return {
            hdrs.ACCESS_CONTROL_ALLOW_METHODS: (
                method if ANY in methods else ", ".join(methods)
            ),
            hdrs.ACCESS_CONTROL_ALLOW_HEADERS: (
                asked if ANY in headers else ", ".join(headers)
            ),
            hdrs.ACCESS_CONTROL_MAX_AGE: MAX_AGE_SECONDS,
        }
