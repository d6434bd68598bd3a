"""How data travels: TLS, compression, headers, and answers of all kinds."""

import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer

import grpc
import pytest

from hookline.clock import VirtualClock
from hookline_faults.otlp import Identity, Receiver
from hookline_otel.connecting import make_transport
from hookline_otel.delivery import Delivery
from hookline_otel.endpoint import Endpoint, OtlpProtocol, Signal
from hookline_otel.outage_log import OutageLog
from hookline_otel.transport import Refusal, Transport
from hookline_otel.transport_settings import TransportSettings
from hookline_server.listening import bound_port, listen

VARIABLE = "OTEL_EXPORTER_OTLP"
EMPTY = b""
"""A request of either signal without anything in it."""


def endpoint_of(receiver: Receiver) -> Endpoint:
    path = "/v1/traces" if receiver.protocol is OtlpProtocol.HTTP else ""
    return Endpoint(receiver.url + path, receiver.protocol)


def transport_to(receiver: Receiver, **headers: str) -> Transport:
    return made_to(endpoint_of(receiver), headers or None)


def made_to(
    endpoint: Endpoint,
    headers: dict[str, str] | None = None,
    signal: Signal = Signal.TRACES,
) -> Transport:
    settings = TransportSettings.read(signal, endpoint, headers, os.environ)
    return make_transport(signal, endpoint, settings)


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
        transport = transport_to(receiver)

        refusal = transport.post(EMPTY, 30)

        transport.close()
        assert refusal is None
        assert len(receiver.inbox.traces) == 1


def test_unknown_collector_gets_nothing(
    protocol: OtlpProtocol, identity: Identity
) -> None:
    """Nothing is sent to a server with an untrusted certificate."""
    with Receiver(protocol, identity=identity) as receiver:
        transport = transport_to(receiver)

        refusal = transport.post(EMPTY, 30)

        transport.close()
        assert isinstance(refusal, Refusal)
        assert not receiver.inbox.traces


@pytest.mark.parametrize("compression", ["gzip", "none"])
def test_data_is_compressed_if_the_environment_asks(
    protocol: OtlpProtocol, compression: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compressed or not, the collector reads it."""
    monkeypatch.setenv(f"{VARIABLE}_TRACES_COMPRESSION", compression)
    with Receiver(protocol) as receiver:
        transport = transport_to(receiver)

        refusal = transport.post(EMPTY, 30)

        transport.close()
        assert refusal is None
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
        transport = transport_to(receiver, **given)

        transport.post(EMPTY, 30)

        transport.close()
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
        transport = transport_to(receiver)

        refusal = transport.post(EMPTY, 30)

        transport.close()
        assert refusal is None
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
        transport = made_to(Endpoint("http://198.51.100.1:4317", protocol))
        posting = threading.Thread(target=transport.post, args=(EMPTY, 2))
        posting.start()
        asked = False
        with suppress(BlockingIOError):
            if not proxied:
                posting.join()
            connection, _ = proxy.accept()
            with connection:
                asked = b"198.51.100.1:4317" in connection.recv(4096)
        posting.join()
        transport.close()

    assert asked is proxied


def test_restarted_collector_is_found(protocol: OtlpProtocol) -> None:
    """A restart of the collector needs no restart of the engine."""
    with Receiver(protocol) as gone:
        transport = transport_to(gone)
        outage = OutageLog(Signal.TRACES, endpoint_of(gone), VirtualClock())
    refusal = transport.post(EMPTY, 30)
    assert isinstance(refusal, Refusal)
    assert refusal.is_passing
    delivery = Delivery(transport, outage, 30.0)

    with Receiver(protocol, port=gone.port) as back:
        why = delivery.export(bytes)

        delivery.shutdown()
        assert why is None
        assert len(back.inbox.traces) == 1


@pytest.fixture
def busy_url() -> Iterator[str]:
    """Of a web server that always asks for another seven seconds."""

    class Busy(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(503)
            self.send_header("Retry-After", "7")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Keeps the tests' output clean."""

    with HTTPServer(("127.0.0.1", 0), Busy) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_retry_after_of_a_busy_server_is_used(busy_url: str) -> None:
    """The answer is quoted, and the pause that it asks for is known."""
    endpoint = Endpoint(busy_url, OtlpProtocol.HTTP)
    transport = made_to(endpoint)

    refusal = transport.post(EMPTY, 30)

    transport.close()
    assert refusal == Refusal(
        "503 Service Unavailable", is_passing=True, pause_seconds=7.0
    )


def test_server_without_the_service_is_quoted() -> None:
    """Trying again would not help where gRPC knows no such method."""
    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    endpoint = Endpoint(f"http://127.0.0.1:{port}", OtlpProtocol.GRPC)
    transport = made_to(endpoint, signal=Signal.METRICS)

    refusal = transport.post(EMPTY, 30)

    transport.close()
    server.stop(grace=None).wait()
    assert refusal is not None
    assert refusal.why.startswith("UNIMPLEMENTED: ")
    assert not refusal.is_passing
