"""How data travels: TLS, compression, headers, and answers of all kinds."""

import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer

import grpc
import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import (
    SimpleSpanProcessor,
    SpanExporter,
    SpanExportResult,
)
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

import hookline_otel
from hookline.exceptions import ConfigError
from hookline_faults.otlp import Identity, Receiver
from hookline_otel.endpoint import Endpoint, OtlpProtocol
from hookline_otel.envelope import Envelope
from hookline_otel.exporters import Exporters
from hookline_otel.watch import why_failed
from hookline_server.listening import bound_port, listen

VARIABLE = "OTEL_EXPORTER_OTLP"
RESOURCE, SCOPE = Resource({"service.name": "a"}), InstrumentationScope("tests")


def endpoint_of(receiver: Receiver) -> Endpoint:
    path = "/v1/traces" if receiver.protocol is OtlpProtocol.HTTP else ""
    return Endpoint(receiver.url + path, receiver.protocol)


def exporter_to(receiver: Receiver, **headers: str) -> SpanExporter:
    return made_to(endpoint_of(receiver), headers or None)


def made_to(endpoint: Endpoint, headers: dict[str, str] | None = None) -> SpanExporter:
    envelope = Envelope(RESOURCE, SCOPE)
    [made] = Exporters(headers).of_spans(endpoint, (), envelope)
    return made


def post(exporter: SpanExporter) -> str | None:
    """Sends one span; why that failed, if it did."""
    sent = InMemorySpanExporter()
    provider = TracerProvider(ALWAYS_ON, RESOURCE, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(sent))
    provider.get_tracer("tests").start_span("span").end()
    spans = sent.get_finished_spans()
    return why_failed(lambda: exporter.export(spans), SpanExportResult.SUCCESS)


@pytest.fixture(params=list(OtlpProtocol))
def protocol(request: pytest.FixtureRequest) -> OtlpProtocol:
    return OtlpProtocol(request.param)


@pytest.fixture(scope="session")
def identity(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    """A self-signed certificate."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl makes the certificate")
    folder = tmp_path_factory.mktemp("identity")
    made = Identity(folder / "certificate.pem", folder / "key.pem")
    subprocess.run(
        [
            *(openssl, "req", "-x509", "-nodes", "-newkey", "rsa:2048", "-days", "2"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"),
            *("-keyout", made.key, "-out", made.certificate),
        ],
        check=True,
        capture_output=True,
    )
    return made


def test_trusted_collector_is_sent_to_over_tls(
    protocol: OtlpProtocol, identity: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The standard's variable names who is trusted."""
    monkeypatch.setenv(f"{VARIABLE}_CERTIFICATE", str(identity.certificate))
    with Receiver(protocol, identity=identity) as receiver:
        exporter = exporter_to(receiver)

        why = post(exporter)

        exporter.shutdown()
        assert why is None
        assert len(receiver.inbox.traces) == 1


def test_unknown_collector_gets_nothing(
    protocol: OtlpProtocol, identity: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is sent to a server with an untrusted certificate."""
    monkeypatch.setenv(f"{VARIABLE}_TIMEOUT", "1500")
    with Receiver(protocol, identity=identity) as receiver:
        exporter = exporter_to(receiver)

        why = post(exporter)

        exporter.shutdown()
        assert why is not None
        assert not receiver.inbox.traces


@pytest.mark.parametrize("compression", ["gzip", "none"])
def test_data_is_compressed_if_the_environment_asks(
    protocol: OtlpProtocol, compression: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compressed or not, the collector reads it."""
    monkeypatch.setenv(f"{VARIABLE}_TRACES_COMPRESSION", compression)
    with Receiver(protocol) as receiver:
        exporter = exporter_to(receiver)

        why = post(exporter)

        exporter.shutdown()
        assert why is None
        (headers,) = receiver.inbox.headers
        if protocol is OtlpProtocol.HTTP:
            assert headers.get("content-encoding", "none") == compression


@pytest.mark.parametrize(
    ("given", "expected"), [({}, "signal"), ({"x-team": "given"}, "given")]
)
def test_headers_of_the_environment_are_sent(
    protocol: OtlpProtocol,
    given: dict[str, str],
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The signal's own variable outranks the shared one, and an option outranks it."""
    monkeypatch.setenv(f"{VARIABLE}_HEADERS", "x-team=shared")
    monkeypatch.setenv(f"{VARIABLE}_TRACES_HEADERS", "x-team=signal")
    with Receiver(protocol) as receiver:
        exporter = exporter_to(receiver, **given)

        post(exporter)

        exporter.shutdown()
        (headers,) = receiver.inbox.headers
        assert headers["x-team"] == expected
        assert headers["user-agent"].startswith("hookline-otel/")


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "grpc_proxy"])
def test_collector_on_this_machine_is_reached_without_a_proxy(
    protocol: OtlpProtocol, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proxy of the environment could not reach it."""
    with listen("127.0.0.1", 0) as free:
        monkeypatch.setenv(name, f"http://127.0.0.1:{bound_port(free)}")
    with Receiver(protocol) as receiver:
        exporter = exporter_to(receiver)

        why = post(exporter)

        exporter.shutdown()
        assert why is None
        assert len(receiver.inbox.traces) == 1


@pytest.mark.parametrize(
    ("exceptions", "proxied"), [("", True), ("198.51.100.0/24", False)]
)
def test_other_collectors_are_reached_by_the_proxy(
    protocol: OtlpProtocol,
    exceptions: str,
    proxied: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Unless NO_PROXY names them; nobody is at this address."""
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        proxy.settimeout(30 if proxied else 0)
        port = proxy.getsockname()[1]
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{port}")
        monkeypatch.setenv("NO_PROXY", exceptions)
        monkeypatch.setenv(f"{VARIABLE}_TIMEOUT", "2000")
        exporter = made_to(Endpoint("http://198.51.100.1:4317", protocol))
        posting = threading.Thread(target=post, args=(exporter,))
        posting.start()
        asked = False
        with suppress(BlockingIOError):
            if not proxied:
                posting.join()
            connection, _ = proxy.accept()
            with connection:
                asked = b"198.51.100.1:4317" in connection.recv(4096)
        exporter.shutdown()
        posting.join()

    assert asked is proxied


def test_restarted_collector_is_found(
    protocol: OtlpProtocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restart of the collector needs no restart of the engine."""
    monkeypatch.setenv(f"{VARIABLE}_TIMEOUT", "900")
    with Receiver(protocol) as gone:
        exporter = exporter_to(gone)
    why = post(exporter)
    assert why is not None

    with Receiver(protocol, port=gone.port) as back:
        for _ in range(60):  # each export tries again within its own time
            if (why := post(exporter)) is None:
                break

        exporter.shutdown()
        assert why is None
        assert len(back.inbox.traces) == 1


@pytest.fixture
def answers() -> list[tuple[int, str, str]]:
    """Status, name and value of a header, of each answer of the web server."""
    return []


@pytest.fixture
def url(answers: list[tuple[int, str, str]]) -> Iterator[str]:
    """Of a web server that answers as it is told."""

    class Told(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            status, name, value = answers.pop(0)
            self.send_response(status)
            self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Keeps the tests' output clean."""

    with HTTPServer(("127.0.0.1", 0), Told) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_retry_after_of_a_busy_server_is_used(
    url: str, answers: list[tuple[int, str, str]]
) -> None:
    """What it did not take is sent again, unless that is later than an export lasts."""
    exporter = made_to(Endpoint(url, OtlpProtocol.HTTP))
    answers += [(503, "Retry-After", "0"), (429, "Retry-After", "0"), (200, "X", "y")]

    assert post(exporter) is None

    answers.append((503, "Retry-After", "3600"))
    assert post(exporter) is not None
    assert not answers
    exporter.shutdown()


@pytest.mark.parametrize(("status", "quoted"), [(404, "404"), (307, "307")])
def test_what_a_server_answers_is_quoted(
    url: str, answers: list[tuple[int, str, str]], status: int, quoted: str
) -> None:
    """Trying again would not help; redirects are not followed."""
    exporter = made_to(Endpoint(url, OtlpProtocol.HTTP))
    answers.append((status, "Location", f"{url}/elsewhere"))

    why = post(exporter)

    exporter.shutdown()
    assert why is not None
    assert quoted in why
    assert not answers


def test_server_without_the_service_is_quoted() -> None:
    """Trying again would not help where gRPC knows no such method."""
    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    exporter = made_to(Endpoint(f"http://127.0.0.1:{port}", OtlpProtocol.GRPC))

    why = post(exporter)

    exporter.shutdown()
    server.stop(grace=None).wait()
    assert why is not None
    assert "UNIMPLEMENTED" in why


@pytest.mark.parametrize("protocol", list(OtlpProtocol))
def test_missing_exporter_is_one_clear_error(
    protocol: OtlpProtocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of gRPC is an extra of this distribution, as it is large."""
    name = {OtlpProtocol.GRPC: "grpc", OtlpProtocol.HTTP: "http"}[protocol]
    monkeypatch.delitem(sys.modules, f"hookline_otel.{name}_exporters", raising=False)
    monkeypatch.delattr(hookline_otel, f"{name}_exporters", raising=False)
    package = f"opentelemetry.exporter.otlp.proto.{name}"
    monkeypatch.setitem(sys.modules, f"{package}.trace_exporter", None)

    with pytest.raises(ConfigError, match=f"opentelemetry-exporter-otlp-proto-{name}"):
        made_to(Endpoint("http://localhost:4317", protocol))
