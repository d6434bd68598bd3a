"""Connections between machines: who gets in, and how a loss is noticed."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest
import zmq

from hookline.exceptions import ConfigError
from hookline_cluster.machines.endpoint import Endpoint
from hookline_cluster.machines.link_keys import LinkKeys
from hookline_cluster.machines.tcp import TcpHub, TcpLink
from hookline_process_engine.transport import Party, Role
from hookline_testing.own_time import Deadline

KEYS = LinkKeys.derive(b"a secret of some length")
OTHERS = LinkKeys.derive(b"another one, as long as")
ENGINE, HEAD = Party(Role.ENGINE, 2), Party(Role.CLIENT, 0)
WAIT_SECONDS = 60.0


def free_endpoint() -> Endpoint:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return Endpoint("127.0.0.1", probe.getsockname()[1])


class Ends:
    """Hubs and links; they are closed with the test."""

    def __init__(self, stack: ExitStack) -> None:
        self.endpoint = free_endpoint()
        self._stack = stack

    def hub(self, keys: LinkKeys = KEYS) -> TcpHub:
        made = TcpHub(self.endpoint, keys)
        self._stack.callback(made.close)
        return made

    def link(
        self,
        keys: LinkKeys = KEYS,
        on_lost: Callable[[], None] = lambda: None,
    ) -> TcpLink:
        made = TcpLink(self.endpoint, keys, max_waiting=10, on_lost=on_lost)
        self._stack.callback(made.close)
        return made


@pytest.fixture
def ends() -> Iterator[Ends]:
    with ExitStack() as stack:
        yield Ends(stack)


def received(hub: TcpHub | TcpLink) -> bytes | None:
    """The next frame; None if none comes."""
    deadline = Deadline(WAIT_SECONDS)
    while deadline.is_ahead:
        if (frame := hub.receive(0.1)) is not None:
            return frame
    return None


def say(link: TcpLink, hub: TcpHub, frame: bytes) -> None:
    """Sends a frame once the hub has admitted the link."""
    turn_until(hub, lambda: link.send(HEAD, bytearray(frame), waits=False))


def turn_until(hub: TcpHub, holds: Callable[[], bool]) -> None:
    deadline = Deadline(WAIT_SECONDS)
    while not holds():
        assert deadline.is_ahead
        hub.receive(0.05)


def test_frames_go_both_ways(ends: Ends) -> None:
    """The hub answers to the address from which a frame came."""
    hub, link = ends.hub(), ends.link()

    say(link, hub, b"hello")
    first = received(hub)
    hub.connect(ENGINE, hub.origin, max_waiting=0)
    sent = hub.send(ENGINE, bytearray(b"welcome"), waits=True)
    hub.receive(0.1)  # forwards it

    assert first == b"hello"
    assert sent
    assert received(link) == b"welcome"
    assert hub.refused == 0


def test_a_peer_with_another_secret_gets_nowhere(ends: Ends) -> None:
    """It is refused and counted, its frames do not arrive, and others are served."""
    hub, stranger = ends.hub(), ends.link(OTHERS)

    turn_until(hub, lambda: hub.refused > 0 and stranger.failures > 0)
    sent = stranger.send(HEAD, bytearray(b"let me in"), waits=False)
    friend = ends.link()
    say(friend, hub, b"hello")

    assert not sent
    assert received(hub) == b"hello"


def test_the_key_of_the_head_is_not_enough(ends: Ends) -> None:
    """Whoever knows the public key alone is refused by the gatekeeper."""
    hub = ends.hub()
    ends.link(LinkKeys(head=KEYS.head, engine=OTHERS.engine))

    turn_until(hub, lambda: hub.refused > 0)


@pytest.mark.parametrize(
    "garbage", [b"GET / HTTP/1.1\r\n\r\n", bytes(range(200)), b"\xff" * 5000, b""]
)
def test_garbage_disturbs_nobody(ends: Ends, garbage: bytes) -> None:
    """It is counted when its connection ends, and an engine is heard meanwhile."""
    hub = ends.hub()

    with socket.create_connection((ends.endpoint.host, ends.endpoint.port)) as scanner:
        scanner.sendall(garbage)
        hub.receive(0.1)
    turn_until(hub, lambda: hub.refused == 1)
    say(ends.link(), hub, b"hello")

    assert received(hub) == b"hello"
    assert hub.refused == 1


def test_a_peer_that_does_not_encrypt_is_refused(ends: Ends) -> None:
    """Also on loopback, where other users are: its frames do not arrive."""
    hub = ends.hub()
    with zmq.Context() as context, context.socket(zmq.DEALER) as plain:
        plain.linger = 0
        plain.connect(str(ends.endpoint))
        plain.send(b"let me in")
        turn_until(hub, lambda: hub.refused > 0)
        say(ends.link(), hub, b"hello")

    assert received(hub) == b"hello"


def test_a_lost_connection_is_noticed_when_something_is_sent(ends: Ends) -> None:
    """The hub says why, and a new connection of the peer takes its place."""
    hub, link = ends.hub(), ends.link()
    say(link, hub, b"hello")
    received(hub)
    hub.connect(ENGINE, hub.origin, max_waiting=0)

    link.close()
    turn_until(
        hub,
        lambda: (
            hub.send(ENGINE, bytearray(b"?"), waits=True)
            and hub.lost(ENGINE) is not None
        ),
    )
    reason = hub.lost(ENGINE)
    say(ends.link(), hub, b"again")
    again = received(hub)
    hub.connect(ENGINE, hub.origin, max_waiting=0)

    assert reason == "its connection is lost"
    assert again == b"again"
    assert hub.lost(ENGINE) is None


def test_an_engine_learns_that_its_head_is_gone(ends: Ends) -> None:
    """It is told once, in a thread of the link."""
    lost = threading.Event()
    hub, link = ends.hub(), ends.link(on_lost=lost.set)
    say(link, hub, b"hello")
    received(hub)

    hub.close()

    assert lost.wait(WAIT_SECONDS)


def test_an_expected_end_is_no_loss(ends: Ends) -> None:
    """Nobody is told once the end was announced."""
    lost = threading.Event()
    hub, link = ends.hub(), ends.link(on_lost=lost.set)
    say(link, hub, b"hello")
    received(hub)

    link.expect_end()
    hub.close()

    assert not lost.wait(0.3)


def test_nothing_is_sent_to_an_unknown_peer(ends: Ends) -> None:
    """A send says so."""
    assert not ends.hub().send(ENGINE, bytearray(b"x"), waits=True)


def test_a_port_in_use_is_one_clear_error(ends: Ends) -> None:
    """It names the option and the address."""
    ends.hub()

    with pytest.raises(ConfigError, match=r"rpc-port: cannot listen on tcp://127.0.0"):
        ends.hub()
