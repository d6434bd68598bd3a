"""Engines on two machines: a network that is cut, a machine that dies, strangers."""

import os
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest

from hookline_testing.headless_process import HeadlessNode, headless
from hookline_testing.second_machine import SecondMachine, second_machine
from hookline_testing.server_process import Server, serving
from hookline_testing.waiting import wait_until

pytestmark = [pytest.mark.hostile, pytest.mark.timeout(180)]

ENGINES = (
    *("--executor", "simulated", "--simulated-step-seconds", "0.01"),
    *("--data-parallel-size", "2", "--data-parallel-size-local", "1"),
    *("--num-kv-blocks", "512"),
)
SERVER = (
    *("--port", "0", "--heartbeat-seconds", "0.2", "--stat-logger", "prometheus"),
    # By load, an engine whose report of a waiting request is slow gets fewer.
    *("--load-balancing", "round-robin"),
)
BODY = {"model": "demo", "ignore_eos": True}
LONG, SHORT = 600, 5
REQUESTS = 8
RANK = "X-data-parallel-rank"
REFUSED = "hookline_transport_connections_refused_total"


class Site:
    """A head node here, and what its second machine needs to join it."""

    def __init__(self, folder: Path, address: str) -> None:
        self.secret = folder / "secret"
        self.secret.write_text("a secret for this test only\n")
        self.port = free_port()
        self.address = address
        self.link = (
            *("--data-parallel-address", address),
            *("--data-parallel-rpc-port", str(self.port)),
        )

    @contextmanager
    def node(
        self, machine: SecondMachine | None, *more: str, secret: Path | None = None
    ) -> Iterator[HeadlessNode]:
        """The second engine's machine."""
        file = str(secret or self.secret)
        with headless(
            *ENGINES,
            *self.link,
            *("--data-parallel-start-rank", "1", "--data-parallel-secret-file", file),
            *more,
            prefix=() if machine is None else machine.command(),
        ) as made:
            yield made

    @contextmanager
    def head(self) -> Iterator[Server]:
        """The head node, once the second engine has joined."""
        secret = {"HOOKLINE_DATA_PARALLEL_SECRET": self.secret.read_text()}
        with serving(*ENGINES, *SERVER, *self.link, environment=secret) as server:
            yield server


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(REQUESTS) as made:
        yield made


@pytest.fixture
def machine() -> Iterator[SecondMachine]:
    with second_machine() as made:
        yield made


def ask(
    server: Server, number: int, max_tokens: int = SHORT, rank: int | None = None
) -> int:
    """Sends a request of its own prompt; returns the status."""
    body = BODY | {"prompt": [5 + number, 6, 7], "max_tokens": max_tokens}
    headers = {} if rank is None else {RANK: str(rank)}
    return server.post("/v1/completions", body, headers)[0]


def burst(pool: ThreadPoolExecutor, server: Server) -> list[Future[int]]:
    """Sends long requests, of which both engines get a half."""
    sent = [pool.submit(ask, server, number, LONG) for number in range(REQUESTS)]
    for index in "01":
        server.wait_for("hookline_requests_running", REQUESTS / 2, engine=index)
    return sent


def statuses(sent: list[Future[int]]) -> Counter[int]:
    wait(sent)
    return Counter(each.result() for each in sent)


def wait_for_return(server: Server) -> None:
    wait_until(lambda: ask(server, 1, rank=1) == 200, "engine 1 does not come back")


def assert_books_balance(server: Server, moved: float = REQUESTS / 2) -> None:
    for engine in "01":
        for kind in ("requests", "tokens", "blocks"):
            name = "hookline_conservation_residue"
            assert server.metric(name, engine=engine, kind=kind) == 0
    assert server.metric("hookline_requests_moved_total", engine="1") == moved
    server.wait_for("hookline_requests_taken_over_total", moved, engine="0")


def test_a_machine_is_killed_and_comes_back(
    pool: ThreadPoolExecutor, machine: SecondMachine, tmp_path: Path
) -> None:
    """Its requests move to the engine that is left; its successor serves."""
    site = Site(tmp_path, machine.here)
    with ExitStack() as stack:
        node = stack.enter_context(site.node(machine))
        server = stack.enter_context(site.head())
        engine = node.wait_for_engine()
        sent = burst(pool, server)
        for pid in (node.process.pid, engine):
            os.kill(pid, signal.SIGKILL)
        seen = statuses(sent)
        during = [ask(server, 1), ask(server, 1, rank=1)]
        server.wait_for("hookline_engine_up", 0, engine="1")
        successor = stack.enter_context(site.node(machine))
        wait_for_return(server)

        assert seen == {200: REQUESTS}
        assert during == [200, 503]
        assert_books_balance(server)
        assert server.metric("hookline_engine_link_losses_total", engine="1") == 1
        server.wait_for("hookline_engine_link_joins_total", 2, engine="1")
        assert successor.end(signal.SIGINT) == 0
        server.wait_for("hookline_engine_up", 0, engine="1")
        assert server.metric("hookline_engine_link_losses_total", engine="1") == 1
        assert server.end() == 0


def test_a_network_is_cut_and_mended(
    pool: ThreadPoolExecutor, machine: SecondMachine, tmp_path: Path
) -> None:
    """Both sides give the other up; requests move; then both serve again."""
    site = Site(tmp_path, machine.here)
    with ExitStack() as stack:
        node = stack.enter_context(site.node(machine))
        server = stack.enter_context(site.head())
        engine = node.wait_for_engine()
        sent = burst(pool, server)
        machine.cut()
        lonely = [ask(server, number, rank=0) for number in range(3)]
        seen = statuses(sent)
        wait_until(lambda: not is_alive(engine), "the engine computes on")
        machine.mend()
        wait_for_return(server)

        assert lonely == [200] * 3
        assert seen == {200: REQUESTS}
        assert_books_balance(server)
        server.wait_for("hookline_requests_running", 0, engine="1")
        reason = {"engine": "1", "reason": "lost"}
        server.wait_for("hookline_engine_restarts_total", 1, **reason)
        assert server.end() == 0
        assert node.process.wait(60) == 0


def is_alive(pid: int) -> bool:
    with suppress(FileNotFoundError):
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
        return state not in "ZX"
    return False


def test_strangers_get_nowhere(tmp_path: Path) -> None:
    """Another secret, none, and garbage: refused, counted, and nobody is disturbed."""
    site = Site(tmp_path, "127.0.0.1")
    other = tmp_path / "other"
    other.write_text("another secret, as long")
    with site.node(None), site.head() as server:
        with site.node(None, secret=other) as stranger:
            status = stranger.process.wait(60)
            complaint = stranger.log.read_text()
        for garbage in (b"GET / HTTP/1.1\r\n\r\n", os.urandom(3000)):
            with socket.create_connection(("127.0.0.1", site.port)) as scanner:
                scanner.sendall(garbage)
                time.sleep(0.1)
        server.wait_for_any(REFUSED)
        served = [ask(server, 1, rank=rank) for rank in (0, 1)]
        environment = Path(f"/proc/{server.engine_pid}/environ").read_bytes()

    assert status == 1
    assert "the secret must be the head node's" in complaint
    assert served == [200, 200]
    assert b"a secret for this test only" not in environment


def test_without_a_secret_only_the_loopback_serves() -> None:
    """One clear error says what is missing."""
    options = (*ENGINES, "--data-parallel-address", "10.9.8.7")
    with headless(*options, "--data-parallel-start-rank", "1") as node:
        status = node.process.wait(60)
        complaint = node.log.read_text()

    assert status == 2
    assert "data-parallel-secret-file: is required, because other machines" in complaint


class SlowCable:
    """Passes bytes of TCP connections on, late, and now and then very late.

    That is what both ends see of a long way on which packets are lost and sent again.

    Attributes:
        is_slow: Whether bytes are late.
    """

    is_slow = True

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._is_closed = threading.Event()
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def close(self) -> None:
        """Ends all threads; both ends have closed their connections."""
        self._is_closed.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _start(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                self._join(self._listener.accept()[0])

    def _join(self, near: socket.socket) -> None:
        if (far := self._reach()) is None:
            near.close()
            return
        self._start(self._pass_on, near, far)
        self._start(self._pass_on, far, near)

    def _reach(self) -> socket.socket | None:
        """Connects to the head node, which may not be there yet."""
        while not self._is_closed.wait(0.1):
            with suppress(ConnectionRefusedError):
                return socket.create_connection(("127.0.0.1", self._target))
        return None

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        with source, suppress(OSError):
            count = 0
            while data := source.recv(65536):
                count += 1
                if self.is_slow:
                    time.sleep(0.3 if count % 100 == 0 else 0.05)
                sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)  # the other thread closes it


@pytest.mark.exhaustive
def test_a_slow_network_slows_nobody_else(
    pool: ThreadPoolExecutor, tmp_path: Path
) -> None:
    """All requests end well, and those of the other engine do not wait."""
    site = Site(tmp_path, "127.0.0.1")
    with closing(SlowCable(site.port)) as cable:
        port = ("--data-parallel-rpc-port", str(cable.port))
        with site.node(None, *port), site.head() as server:
            slow = [pool.submit(ask, server, each, LONG, 1) for each in range(4)]
            server.wait_for("hookline_requests_running", 4, engine="1")
            quick = [ask(server, each, rank=0) for each in range(20)]
            done = [each.done() for each in slow]
            name = "hookline_engine_link_round_trip_seconds"
            server.wait_for_any(name, engine="1")
            round_trip = server.metric(name, engine="1")
            cable.is_slow = False
            seen = statuses(slow)
            lost = server.metric("hookline_engine_link_losses_total", engine="1")
            assert_books_balance(server, moved=0)

    assert quick == [200] * 20
    assert done == [False] * 4
    assert seen == {200: 4}
    assert round_trip >= 0.1
    assert lost == 0
