"""OTLP over HTTP."""

import gzip
import os
import zlib
from collections.abc import Callable, Mapping
from http import HTTPStatus

import requests

from hookline_otel.endpoint import Endpoint
from hookline_otel.transport import Refusal
from hookline_otel.transport_settings import (
    Compression,
    TransportSettings,
    proxy_of,
    user_agent,
)

_PASSING = (
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
)
"""Status codes after which OTLP allows a retry."""

_COMPRESS: Mapping[Compression, Callable[[bytes], bytes]] = {
    Compression.NONE: bytes,
    Compression.GZIP: gzip.compress,
    Compression.DEFLATE: zlib.compress,
}


class HttpTransport:
    """Posts to one URL; does not follow redirects."""

    def __init__(self, endpoint: Endpoint, settings: TransportSettings) -> None:
        self._url = endpoint.url
        self._compress = _COMPRESS[settings.compression]
        self._verify = _trusted(settings)
        self._session = requests.Session()
        # It would ask a proxy for this machine, and take passwords from ~/.netrc.
        self._session.trust_env = False
        if (proxy := proxy_of(endpoint)) is not None:
            self._session.proxies = {"http": proxy, "https": proxy}
        self._session.cert = _client_certificate(settings)
        self._session.headers.update(_headers(settings))

    def post(self, body: bytes, timeout_seconds: float) -> Refusal | None:
        try:
            answer = self._session.post(
                self._url,
                data=self._compress(body),
                timeout=timeout_seconds,
                verify=self._verify,
                allow_redirects=False,
            )
        except (requests.ConnectionError, requests.Timeout) as error:
            return Refusal(str(error), is_passing=True)
        if HTTPStatus.OK <= answer.status_code < HTTPStatus.MULTIPLE_CHOICES:
            return None
        return Refusal(
            f"{answer.status_code} {answer.reason}",
            is_passing=answer.status_code in _PASSING,
            pause_seconds=_pause(answer.headers.get("Retry-After", "")),
        )

    def close(self) -> None:
        self._session.close()


def _trusted(settings: TransportSettings) -> str | bool:
    """Returns the file of certificate authorities; True for the usual ones."""
    if settings.certificate is not None:
        return str(settings.certificate)
    usual = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
    return next((found for name in usual if (found := os.environ.get(name))), True)


def _headers(settings: TransportSettings) -> dict[str, str]:
    headers = {
        "user-agent": user_agent(),
        "content-type": "application/x-protobuf",
        **settings.headers,
    }
    if settings.compression is not Compression.NONE:
        headers["content-encoding"] = settings.compression
    return headers


def _client_certificate(settings: TransportSettings) -> str | tuple[str, str] | None:
    if settings.client_certificate is None:
        return None
    if settings.client_key is None:
        return str(settings.client_certificate)
    return str(settings.client_certificate), str(settings.client_key)


def _pause(text: str) -> float:
    """Returns the seconds of a Retry-After header, 0 if it is missing or a date."""
    return float(text) if text.isdecimal() else 0.0
