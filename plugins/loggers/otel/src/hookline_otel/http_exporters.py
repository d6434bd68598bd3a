"""OpenTelemetry's exporters over HTTP, with this plugin's settings and encoding."""

import os
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import requests
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult

from hookline_otel.endpoint import Endpoint
from hookline_otel.envelope import Envelope
from hookline_otel.transport_settings import (
    TransportSettings,
    proxy_of,
    user_agent,
)

METRICS = OTLPMetricExporter
LOGS = OTLPLogExporter


class SpanExporter(OTLPSpanExporter):
    """Exports spans that are encoded as bytes."""

    def __init__(self, envelope: Envelope, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._envelope = envelope

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        sent = self._client.export(self._envelope.encode(spans))
        return SpanExportResult.SUCCESS if sent.success else SpanExportResult.FAILURE


def arguments(endpoint: Endpoint, settings: TransportSettings) -> dict[str, Any]:
    """Returns what the constructors of all these exporters take."""
    client = settings.client_certificate
    return {
        "endpoint": endpoint.url,
        "certificate_file": _trusted(settings),
        "client_key_file": settings.client_key and str(settings.client_key),
        "client_certificate_file": client and str(client),
        "headers": {"user-agent": user_agent(), **settings.headers},
        "timeout": settings.export_seconds,
        "compression": Compression(settings.compression.value),
        "session": _session(endpoint),
    }


def _session(endpoint: Endpoint) -> requests.Session:
    session = requests.Session()
    # It would ask a proxy for this machine, and take passwords from ~/.netrc.
    session.trust_env = False
    if (proxy := proxy_of(endpoint)) is not None:
        session.proxies = {"http": proxy, "https": proxy}
    session.hooks["response"] = [_refuse_redirect]
    return session


def _refuse_redirect(response: requests.Response, *_: object, **__: object) -> None:
    """Raises for a redirect, which nobody follows, but the exporters take for success.

    Raises:
        RequestException: It is one.
    """
    if HTTPStatus.MULTIPLE_CHOICES <= response.status_code < HTTPStatus.BAD_REQUEST:
        response.close()
        raise requests.RequestException(f"{response.status_code} {response.reason}")


def _trusted(settings: TransportSettings) -> str | None:
    """Returns the file of certificate authorities; None for the usual ones."""
    if settings.certificate is not None:
        return str(settings.certificate)
    usual = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
    return next((found for name in usual if (found := os.environ.get(name))), None)
