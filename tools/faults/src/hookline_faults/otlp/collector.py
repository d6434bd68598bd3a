"""A collector for tests: receives OTLP over both protocols, and can hang."""

import gzip
import ssl
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Self

import grpc
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from hookline_otel.endpoint import OtlpProtocol

Request = (
    ExportTraceServiceRequest | ExportMetricsServiceRequest | ExportLogsServiceRequest
)
Response = (
    ExportTraceServiceResponse
    | ExportMetricsServiceResponse
    | ExportLogsServiceResponse
)
Headers = dict[str, str]

WAIT_SECONDS = 60.0

_SERVICE = "opentelemetry.proto.collector"


class Inbox:
    """The received requests; thread-safe.

    Attributes:
        traces: Trace requests, in order of arrival.
        metrics: Metrics requests, in order of arrival.
        logs: Requests with log records, in order of arrival.
        headers: Headers of every request, by lower-case name.
        gate: While it is cleared, requests are received but not answered.
    """

    def __init__(self) -> None:
        self.traces: list[ExportTraceServiceRequest] = []
        self.metrics: list[ExportMetricsServiceRequest] = []
        self.logs: list[ExportLogsServiceRequest] = []
        self.headers: list[Headers] = []
        self.gate = threading.Event()
        self.gate.set()
        self._changed = threading.Condition()

    def put(self, request: Request, headers: Headers) -> None:
        with self._changed:
            self.headers.append(headers)
            if isinstance(request, ExportTraceServiceRequest):
                self.traces.append(request)
            elif isinstance(request, ExportLogsServiceRequest):
                self.logs.append(request)
            else:
                self.metrics.append(request)
            self._changed.notify_all()
        self.gate.wait()

    def wait_for(self, is_enough: Callable[[Self], bool]) -> None:
        """Waits until enough requests have arrived.

        Raises:
            TimeoutError: Too few arrived in time.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: is_enough(self), WAIT_SECONDS):
                raise TimeoutError(
                    f"{len(self.traces)} requests with traces, {len(self.metrics)} "
                    f"with metrics and {len(self.logs)} with log records have arrived, "
                    "and no more"
                )

    @property
    def spans(self) -> list[Span]:
        """Returns all received spans, in order."""
        return [
            span
            for request in list(self.traces)
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    @property
    def records(self) -> list[LogRecord]:
        """Returns all received log records, in order."""
        return [
            record
            for request in list(self.logs)
            for resource in request.resource_logs
            for scope in resource.scope_logs
            for record in scope.log_records
        ]

    @property
    def last_metrics(self) -> dict[str, Metric]:
        """Returns the metrics of the latest request, by name."""
        return {
            metric.name: metric
            for resource in self.metrics[-1].resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


@dataclass(frozen=True, slots=True)
class Identity:
    """Paths of a certificate for `localhost` and its key, for TLS."""

    certificate: Path
    key: Path


class Receiver:
    """Listens on a local port until its `with` block ends.

    Attributes:
        inbox: The received requests.
        protocol: Protocol of the collector.
        port: Port; 0 before the block begins if a free one was requested.
        url: URL for exporters, valid within the block.
    """

    def __init__(
        self,
        protocol: OtlpProtocol,
        *,
        port: int = 0,
        identity: Identity | None = None,
    ) -> None:
        """Creates a collector; it listens once its block begins.

        Args:
            protocol: Protocol of the collector.
            port: Port to listen on; 0 takes a free one.
            identity: Certificate and key for TLS; None means plain text.
        """
        self.inbox = Inbox()
        self.protocol = protocol
        self.port = port
        self.url = ""
        self._identity = identity
        self._close: Callable[[], None] = lambda: None

    def __enter__(self) -> Self:
        start = _start_grpc if self.protocol is OtlpProtocol.GRPC else _start_http
        self.port, self._close = start(self.inbox, self.port, self._identity)
        base = "http://127.0.0.1" if self._identity is None else "https://localhost"
        self.url = f"{base}:{self.port}"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.inbox.gate.set()
        self._close()


def _start_grpc(
    inbox: Inbox, port: int, identity: Identity | None
) -> tuple[int, Callable[[], None]]:
    pool = ThreadPoolExecutor(4)
    server = grpc.server(pool)
    server.add_generic_rpc_handlers(
        (
            grpc.method_handlers_generic_handler(
                f"{_SERVICE}.trace.v1.TraceService",
                {"Export": _grpc_handler(inbox, ExportTraceServiceRequest)},
            ),
            grpc.method_handlers_generic_handler(
                f"{_SERVICE}.metrics.v1.MetricsService",
                {"Export": _grpc_handler(inbox, ExportMetricsServiceRequest)},
            ),
            grpc.method_handlers_generic_handler(
                f"{_SERVICE}.logs.v1.LogsService",
                {"Export": _grpc_handler(inbox, ExportLogsServiceRequest)},
            ),
        )
    )
    address = f"127.0.0.1:{port}"
    if identity is None:
        port = server.add_insecure_port(address)
    else:
        pair = (identity.key.read_bytes(), identity.certificate.read_bytes())
        port = server.add_secure_port(address, grpc.ssl_server_credentials([pair]))
    server.start()

    def close() -> None:
        server.stop(grace=None).wait()
        pool.shutdown()

    return port, close


def _grpc_handler(
    inbox: Inbox,
    kind: type[Request],
) -> "grpc.RpcMethodHandler[bytes, bytes]":
    def handle(body: bytes, context: grpc.ServicerContext) -> bytes:
        metadata = {key: str(value) for key, value in context.invocation_metadata()}
        inbox.put(kind.FromString(body), metadata)
        return b""  # an empty message of either kind

    return grpc.unary_unary_rpc_method_handler(handle)


def _start_http(
    inbox: Inbox, port: int, identity: Identity | None
) -> tuple[int, Callable[[], None]]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            if headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            if self.path not in _HTTP_KINDS:
                self._answer(404, b"")
                return
            request, answer = _HTTP_KINDS[self.path]
            inbox.put(request.FromString(body), headers)
            self._answer(200, answer().SerializeToString())

        def _answer(self, status: int, body: bytes) -> None:
            with suppress(
                ConnectionError
            ):  # the client may have disconnected meanwhile
                self.send_response(status)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Logs nothing, to keep the tests' output clean."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    if identity is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(identity.certificate, identity.key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()

    def close() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return server.server_port, close


_HTTP_KINDS: dict[str, tuple[type[Request], type[Response]]] = {
    "/v1/traces": (ExportTraceServiceRequest, ExportTraceServiceResponse),
    "/v1/metrics": (ExportMetricsServiceRequest, ExportMetricsServiceResponse),
    "/v1/logs": (ExportLogsServiceRequest, ExportLogsServiceResponse),
}
