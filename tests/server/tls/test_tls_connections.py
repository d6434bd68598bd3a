"""Connections with TLS, over real sockets."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial

import pytest
from aiohttp import ClientError, ClientSession, TCPConnector, web

from hookline.config import EngineConfig
from hookline_gateway.measuring.told import named
from hookline_gateway.serving import serve_gateway
from hookline_gateway.settings import GatewaySettings
from hookline_server.app import create_app
from hookline_server.auth.exposure import warn_if_open
from hookline_server.auth.key_ring import KeyRing
from hookline_server.cli.asking import open_page
from hookline_server.cli.errors import CommandFailedError
from hookline_server.connections.limits import ConnectionLimits
from hookline_server.connections.pool import ConnectionPool
from hookline_server.listening import Bound, Listening, bound_on, bound_port, listen
from hookline_server.settings import ServerSettings
from hookline_server.sites import sites
from hookline_server.tls.certificates import Certificates, Tls
from hookline_server.tls.settings import TlsSettings
from hookline_testing.scripted_server import FakeEngine
from hookline_testing.tls_files import TlsFiles

WAIT_SECONDS = 30.0
ASK = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
LARGE = 3_000_000


async def _hello(request: web.Request) -> web.Response:
    return web.Response(text=f"hello by {request.scheme}")


async def _large(_: web.Request) -> web.Response:
    return web.Response(body=bytes(LARGE))


async def _endless(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(bytes(1_000_000))


@asynccontextmanager
async def serving(
    settings: TlsSettings,
    limits: ConnectionLimits | None = None,
    *,
    asks_clients: bool = True,
) -> AsyncIterator[tuple[ConnectionPool, int]]:
    app = web.Application()
    app.router.add_get("/", _hello)
    app.router.add_get("/large", _large)
    app.router.add_get("/endless", _endless)
    listening = listen("127.0.0.1", 0)
    port = bound_port(listening)
    tls = Tls(Certificates(settings), asks_clients=asks_clients)
    async with sites([(app, Bound((listening,), tls))], limits) as pool:
        yield pool, port


def settings_of(files: TlsFiles, **more: object) -> TlsSettings:
    return TlsSettings(ssl_certfile=files.chain, ssl_keyfile=files.key, **more)  # type: ignore[arg-type]


def client_of(files: TlsFiles) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=files.ca)


async def ask(port: int, tls: ssl.SSLContext, path: str = "/") -> bytes:
    async with (
        asyncio.timeout(WAIT_SECONDS),
        ClientSession(connector=TCPConnector(ssl=tls)) as session,
        session.get(f"https://localhost:{port}{path}") as answer,
    ):
        return await answer.read()


async def wait_for_end(pool: ConnectionPool, reason: str) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while reason not in dict(pool.stats().closed):  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0.01)


async def test_a_client_that_trusts_the_authority_is_served(files: TlsFiles) -> None:
    """
    Small and large answers come whole, and handlers know that the scheme is https.
    """
    async with serving(settings_of(files)) as (_, port):
        small = await ask(port, client_of(files))
        large = await ask(port, client_of(files), "/large")

    assert small == b"hello by https"
    assert len(large) == LARGE


async def test_versions_before_1_2_are_refused(files: TlsFiles) -> None:
    """
    A client of TLS 1.1 gets no connection, and the end is counted.
    """
    old = client_of(files)
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    old.set_ciphers("DEFAULT:@SECLEVEL=0")

    async with serving(settings_of(files)) as (pool, port):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection("localhost", port, ssl=old)
        await wait_for_end(pool, "tls_handshake")
        assert await ask(port, client_of(files))


async def test_plain_http_is_told_to_use_https(files: TlsFiles) -> None:
    """
    The answer is a whole 400 in JSON, and the connection ends.
    """
    async with serving(settings_of(files)) as (pool, port):
        reader, writer = await asyncio.open_connection("localhost", port)
        writer.write(ASK)
        async with asyncio.timeout(WAIT_SECONDS):
            answer = await reader.read()
        writer.close()
        await wait_for_end(pool, "malformed")

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b'"tls_required"' in answer
    assert b"use https://" in answer


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01\x02\x00", b"\x00\x01\x02"])
async def test_a_handshake_that_is_never_finished_ends(
    files: TlsFiles, sent: bytes
) -> None:
    """
    Whoever sends nothing, a part, or rubbish is cut off in time, and others are served.
    """
    limits = ConnectionLimits(header=0.2)
    async with serving(settings_of(files), limits) as (pool, port):
        reader, writer = await asyncio.open_connection("localhost", port)
        writer.write(sent)
        served = await ask(port, client_of(files))
        async with asyncio.timeout(WAIT_SECONDS):
            with suppress(ConnectionError):
                assert await reader.read() == b""
        writer.close()
        reason = "malformed" if sent[:1] == b"\x00" else "tls_handshake"
        await wait_for_end(pool, reason)
        assert pool.stats().open == 0 or dict(pool.stats().closed)[reason] == 1

    assert served == b"hello by https"


async def test_handshakes_make_room_for_others(files: TlsFiles) -> None:
    """
    At the maximum of connections the oldest unfinished handshake is given up.
    """
    limits = ConnectionLimits(max_connections=4)
    async with serving(settings_of(files), limits) as (pool, port):
        silent = [await asyncio.open_connection("localhost", port) for _ in range(4)]
        for number in range(4):
            silent[number][1].write(b"\x16" * (number % 2))
        answers = [await ask(port, client_of(files)) for _ in range(3)]
        evicted = dict(pool.stats().closed)
        for _, writer in silent:
            writer.close()

    assert answers == [b"hello by https"] * 3
    assert evicted.get("evicted", 0) >= 1


async def test_a_client_that_leaves_before_its_handshake_is_forgotten(
    files: TlsFiles,
) -> None:
    """
    Health checks of load balancers that only connect leave nothing, and count nowhere.
    """
    async with serving(settings_of(files)) as (pool, port):
        _, writer = await asyncio.open_connection("localhost", port)
        writer.close()
        await ask(port, client_of(files))
        async with asyncio.timeout(WAIT_SECONDS):
            while pool.stats().open:  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(0.01)

        assert pool.stats().closed == ()


async def test_late_headers_are_a_408_over_tls_too(files: TlsFiles) -> None:
    """
    A refusal reaches the client although TLS cannot end one direction alone.
    """
    limits = ConnectionLimits(header=0.2)
    async with serving(settings_of(files), limits) as (_, port):
        reader, writer = await asyncio.open_connection(
            "localhost", port, ssl=client_of(files)
        )
        writer.write(ASK[:5])
        async with asyncio.timeout(WAIT_SECONDS):
            answer = await reader.read()
        writer.close()

    assert answer.startswith(b"HTTP/1.1 408 ")
    assert answer.endswith(b"}")


@pytest.mark.parametrize(("required", "expected"), [(1, True), (2, False)])
async def test_certificates_of_clients_are_checked(
    files: TlsFiles, required: int, expected: bool
) -> None:
    """
    With a certificate everybody is served, without one only if none is required.
    """
    settings = settings_of(files, ssl_ca_certs=files.ca, ssl_cert_reqs=required)
    known = client_of(files)
    known.load_cert_chain(files.client)
    async with serving(settings) as (_, port):
        with_certificate = await ask(port, known)
        try:
            is_served = bool(await ask(port, client_of(files)))
        except ClientError:
            is_served = False

    assert with_certificate == b"hello by https"
    assert is_served is expected


async def test_pages_need_no_certificate_of_clients(files: TlsFiles) -> None:
    """
    Probes and Prometheus have none: where pages have their own port, nobody is asked.
    """
    settings = settings_of(files, ssl_ca_certs=files.ca, ssl_cert_reqs=2)
    async with serving(settings, asks_clients=False) as (_, port):
        assert await ask(port, client_of(files))


async def test_a_drain_ends_idle_connections(files: TlsFiles) -> None:
    """
    Kept connections end at a drain, with the end that TLS demands.
    """
    async with serving(settings_of(files)) as (pool, port):
        reader, writer = await asyncio.open_connection(
            "localhost", port, ssl=client_of(files)
        )
        writer.write(ASK)
        async with asyncio.timeout(WAIT_SECONDS):
            await reader.readuntil(b"https")
            pool.drain()
            assert await reader.read() == b""
        writer.close()


async def test_a_client_that_reads_nothing_is_cut_off(files: TlsFiles) -> None:
    """
    What TLS holds back counts as unsent, too.
    """
    limits = ConnectionLimits(write=0.3)
    async with serving(settings_of(files), limits) as (pool, port):
        reader, writer = await asyncio.open_connection(
            "localhost", port, ssl=client_of(files), limit=1
        )
        writer.write(ASK.replace(b"/ ", b"/endless "))
        await wait_for_end(pool, "write_timeout")
        with suppress(ConnectionError, ssl.SSLError):
            writer.transport.abort()
        assert reader.at_eof() is False


async def test_a_port_that_demands_certificates_needs_no_key(
    files: TlsFiles, caplog: pytest.LogCaptureFixture
) -> None:
    """
    The warning of an open port is for ports that everybody may use.
    """
    everywhere = listen("0.0.0.0", 0)  # noqa: S104
    guarded = settings_of(files, ssl_ca_certs=files.ca, ssl_cert_reqs=2)
    for settings, asks in (
        (guarded, True),
        (guarded, False),
        (settings_of(files), True),
    ):
        tls = Tls(Certificates(settings), asks_clients=asks)
        caplog.clear()
        warn_if_open(Listening(Bound((everywhere,), tls)), KeyRing())
        assert bool(caplog.records) is not (asks and settings is guarded)
    everywhere.close()


async def test_commands_say_which_authority_they_miss(
    files: TlsFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A command that does not trust a server says how it can, and then does.
    """
    async with serving(settings_of(files)) as (_, port):
        root = f"https://localhost:{port}"
        read = partial(open_page, root, "/", key=None, scope="metrics", logger="live")
        with pytest.raises(CommandFailedError, match="SSL_CERT_FILE names a file"):
            await asyncio.to_thread(read)
        monkeypatch.setenv("SSL_CERT_FILE", files.ca)
        with await asyncio.to_thread(read) as answer:
            assert answer.status == 200


async def test_a_gateway_speaks_tls_to_both_sides(
    files: TlsFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Towards servers it trusts what SSL_CERT_FILE names, as `hookline route` does.
    """
    monkeypatch.setenv("SSL_CERT_FILE", files.ca)
    tls = Tls(Certificates(settings_of(files)))
    upstream = Bound((listen("127.0.0.1", 0),), tls)
    port = bound_port(upstream.sockets[0])
    settings = GatewaySettings(
        upstream=[f"https://localhost:{port}"], tls=settings_of(files)
    )
    front = bound_on("127.0.0.1", 0, settings.tls)
    stopping, ready = asyncio.Event(), asyncio.Event()
    async with sites([(create_app(FakeEngine(), ServerSettings()), upstream)]):
        config = named(EngineConfig())
        gateway = asyncio.create_task(
            serve_gateway(front, settings, config, stopping, ready.set)
        )
        await ready.wait()
        found = await ask(
            bound_port(front.sockets[0]), client_of(files), "/v1/models/fake"
        )
        stopping.set()
        await gateway

    assert b'"fake"' in found
