"""The head node's client: who becomes an engine, and what becomes of it."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import msgspec
import pytest

from hookline import __version__
from hookline.config import EngineConfig
from hookline.engine.commands import SCHEMA_VERSION, Call, IsSleeping, Reply, Told
from hookline.events import ClockPair
from hookline.exceptions import EngineDeadError
from hookline.model_description import find_folder
from hookline.transport.engine_client import DeathKind, EngineDied, Received
from hookline_cluster.machines.endpoint import Endpoint
from hookline_cluster.machines.folder_digest import digest_of_folder
from hookline_cluster.machines.link_keys import LinkKeys
from hookline_cluster.machines.link_messages import (
    JOINING_KEY,
    Goodbye,
    Join,
    Leaving,
    Left,
    Ping,
    Pong,
    Refused,
    ToRemoteEngine,
    Welcome,
)
from hookline_cluster.machines.remote_client import RemoteClient
from hookline_cluster.machines.tcp import TcpHub, TcpLink
from hookline_cluster.news import EngineLeaving
from hookline_process_engine.capabilities import EngineReplaced
from hookline_process_engine.mailbox import Mailbox
from hookline_process_engine.messages import Failed, Ready
from hookline_process_engine.transport import Party, Role
from hookline_testing.own_time import Deadline
from hookline_testing.payloads import FACTS

HEAD = Party(Role.CLIENT, 0)
WAIT_SECONDS = 10.0
KEYS = LinkKeys.derive(b"a secret of some length")
DIGEST = digest_of_folder(find_folder("demo"))


class Engine:
    """A process that asks to be an engine, as far as the head node sees it."""

    def __init__(self, endpoint: Endpoint, index: int, client: RemoteClient) -> None:
        self.index = index
        self.link = TcpLink(endpoint, KEYS, max_waiting=0, on_lost=lambda: None)
        self.client = client
        self.key = JOINING_KEY
        self.mailbox = self.make_mailbox(Role.JOINER, JOINING_KEY)

    def make_mailbox(
        self, role: Role, key: bytes, schema_version: int = SCHEMA_VERSION
    ) -> Mailbox[ToRemoteEngine]:
        return Mailbox(
            self.link,
            Party(role, self.index),
            msgspec.msgpack.Decoder(ToRemoteEngine),
            lambda _: key,
            schema_version=schema_version,
        )

    def say(self, message: msgspec.Struct) -> None:
        deadline = Deadline(WAIT_SECONDS)
        while not self.mailbox.post(HEAD, message, waits=False):
            assert deadline.is_ahead
            self.client.receive(0.02)

    def hear(self) -> object:
        """The next message but pings, while the head node turns."""
        deadline = Deadline(WAIT_SECONDS)
        while deadline.is_ahead:
            assert self.client.receive(0.0) is None
            mail = self.mailbox.receive(0.02)
            if mail is not None and not isinstance(mail.message, Ping):
                return mail.message
        raise AssertionError("the head node says nothing")

    def ask(self, **changes: object) -> object:
        """Asks to be the engine; returns the answer."""
        facts: dict[str, object] = {
            "host": "node-b",
            "pid": 77,
            "version": __version__,
            "model_digest": DIGEST,
            "given": {},
        }
        self.say(Join(**facts | changes))  # type: ignore[arg-type]
        return self.hear()

    def join(self) -> None:
        """Becomes the engine, and is ready."""
        welcome = self.ask()
        assert isinstance(welcome, Welcome)
        assert welcome.config.engine_index == self.index
        self.key = welcome.key
        self.mailbox = self.make_mailbox(Role.ENGINE, welcome.key)
        self.say(Ready(FACTS, ClockPair(1, 2)))


class Head:
    """A head node without engines of its own; closed with the test."""

    def __init__(self, stack: ExitStack) -> None:
        with closing(socket.socket()) as probe:
            probe.bind(("127.0.0.1", 0))
            self.endpoint = Endpoint("127.0.0.1", probe.getsockname()[1])
        config = EngineConfig.from_options(
            data_parallel_size=3,
            data_parallel_size_local=1,
            data_parallel_join_timeout=WAIT_SECONDS,
        )
        self.client = RemoteClient(config, TcpHub(self.endpoint, KEYS))
        self._stack = stack
        stack.callback(self.client.close)

    def process(self, index: int) -> Engine:
        made = Engine(self.endpoint, index, self.client)
        self._stack.callback(made.link.close)
        return made

    def both(self) -> tuple[Engine, Engine]:
        """Both engines of other machines, ready."""
        engines = self.process(1), self.process(2)
        for each in engines:
            each.join()
        self.client.wait()
        return engines

    def receive(self) -> Received:
        """The next message; fails if none comes."""
        deadline = Deadline(WAIT_SECONDS)
        while (received := self.client.receive(0.1)) is None:
            assert deadline.is_ahead
        return received

    def turn_until(self, holds: Callable[[], bool]) -> None:
        deadline = Deadline(WAIT_SECONDS)
        while not holds():
            assert deadline.is_ahead
            assert self.client.receive(0.05) is None


@pytest.fixture
def head() -> Iterator[Head]:
    with ExitStack() as stack:
        yield Head(stack)


REFUSALS = {
    "version": ({"version": "0.0.1"}, "it has version 0.0.1, the head node "),
    "model": ({"model_digest": "abc"}, "its model is another one: its files have the"),
    "option": (
        {"given": {"max-num-seqs": "7"}},
        "--max-num-seqs is 7 there and 256 on the head node",
    ),
}


@pytest.mark.parametrize(("changes", "reason"), REFUSALS.values(), ids=REFUSALS)
def test_what_does_not_fit_is_refused(
    head: Head, changes: dict[str, object], reason: str
) -> None:
    """Both sides learn why, and there is no use in asking again."""
    answer = head.process(1).ask(**changes)

    assert isinstance(answer, Refused)
    assert answer.reason.startswith(reason)
    assert answer.is_final


def test_an_unexpected_index_is_refused(
    head: Head, caplog: pytest.LogCaptureFixture
) -> None:
    """The reason names those that are expected."""
    answer = head.process(7).ask()

    assert answer == Refused("the engines of other machines are 1, 2", is_final=True)
    assert "refused a process of node-b as engine 7: the engines of" in caplog.text


def test_another_schema_version_is_refused(head: Head) -> None:
    """The reason names both versions, though the request could not be read."""
    old = head.process(1)
    old.mailbox = old.make_mailbox(Role.JOINER, JOINING_KEY, SCHEMA_VERSION - 1)
    old.say(Failed("anything"))
    old.mailbox = old.make_mailbox(Role.JOINER, JOINING_KEY)

    answer = old.hear()

    assert isinstance(answer, Refused)
    assert f"has schema version {SCHEMA_VERSION - 1}, this process has" in answer.reason


def test_an_engine_that_is_there_is_not_replaced(head: Head) -> None:
    """Another process may ask again: the first one may have ended unnoticed."""
    head.process(1).join()
    answer = head.process(1).ask()

    assert answer == Refused(
        "engine 1 runs on node-b (process 77) already", is_final=False
    )


def test_calls_are_answered_and_pings_measured(head: Head) -> None:
    """What the engine sends is received, and its answer to a ping is timed."""
    engine, _ = head.both()

    head.client.send(1, Call(0, 5, IsSleeping()))
    command = engine.hear()
    engine.say(Reply(0, 5, Told()))
    reply = head.receive()
    engine.say(Pong(time.monotonic_ns()))
    head.turn_until(lambda: head.client.links.engines[0].round_trip_seconds is not None)

    assert command == Call(0, 5, IsSleeping())
    assert reply == Reply(0, 5, Told())
    assert [each.is_up for each in head.client.links.engines] == [True, True]
    assert head.client.links.engines[0].host == "node-b"


def test_a_lost_engine_is_told_once_and_taken_again(head: Head) -> None:
    """The next process is a replacement, and commands reach it."""
    engine, _ = head.both()

    engine.link.close()
    death = head.receive()
    with pytest.raises(EngineDeadError, match="connection is lost"):
        head.client.send(1, Call(0, 5, IsSleeping()))
    successor = head.process(1)
    successor.join()
    replaced = head.receive()
    head.client.send(1, Call(0, 6, IsSleeping()))

    assert isinstance(death, EngineDied)
    assert death.kind is DeathKind.LOST
    assert "its connection is lost (on node-b (process 77))" in death.reason
    assert isinstance(replaced, EngineReplaced)
    assert replaced.info.clock == ClockPair(1, 2)
    assert successor.hear() == Call(0, 6, IsSleeping())
    link = head.client.links.engines[0]
    assert (link.joined, link.lost, link.is_up) == (2, 1, True)


def test_an_earlier_process_is_not_heard(head: Head) -> None:
    """Its messages have another key: they are dropped and counted."""
    engine, _ = head.both()
    head.client.kill(1, "it hangs")
    death = head.receive()
    farewell = engine.hear()
    head.process(1).join()
    replaced = head.receive()

    engine.say(Reply(0, 5, Told()))
    head.turn_until(lambda: head.client.dropped == 1)

    assert isinstance(death, EngineDied)
    assert (death.kind, farewell) == (DeathKind.STALLED, Goodbye(returns=True))
    assert isinstance(replaced, EngineReplaced)


def test_the_last_words_of_a_lost_engine_are_not_heard(head: Head) -> None:
    """Nothing reaches the front end between a death and the next process."""
    engine, _ = head.both()
    head.client.kill(1, "it hangs")
    head.receive()

    engine.say(Reply(0, 5, Told()))
    engine.say(Failed("too late"))

    assert head.client.receive(0.3) is None


def test_an_engine_may_leave(head: Head) -> None:
    """It says so first, and its end is no loss."""
    engine, _ = head.both()

    engine.say(Leaving())
    first = head.receive()
    engine.say(Left())
    second = head.receive()

    assert first == EngineLeaving(1)
    assert isinstance(second, EngineDied)
    assert second.kind is DeathKind.EXITED
    assert head.client.links.engines[0].lost == 0


def test_a_failure_is_told_with_its_reason(head: Head) -> None:
    """The machine is named, too."""
    engine, _ = head.both()

    engine.say(Failed("RuntimeError: the device fell off"))
    death = head.receive()

    assert isinstance(death, EngineDied)
    assert death.kind is DeathKind.FAILED
    assert death.reason.startswith("RuntimeError: the device fell off (on node-b")


def test_engines_are_dismissed_at_the_end(head: Head) -> None:
    """The end waits for them, and then the client is closed."""
    engines = head.both()

    closing_thread = threading.Thread(target=head.client.close)
    closing_thread.start()
    farewells = [next_but_pings(each) for each in engines]
    for each in engines:
        each.mailbox.post(HEAD, Left())
    closing_thread.join(WAIT_SECONDS)

    assert farewells == [Goodbye(returns=False)] * 2
    assert not any(each.is_up for each in head.client.links.engines)
    with pytest.raises(EngineDeadError, match="it was closed"):
        head.client.receive(0.0)


def next_but_pings(engine: Engine) -> object:
    while (mail := engine.mailbox.receive(WAIT_SECONDS)) is not None:
        if not isinstance(mail.message, Ping):
            return mail.message
    return None


def test_engines_that_do_not_come_are_named() -> None:
    """The wait is bounded."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        endpoint = Endpoint("127.0.0.1", probe.getsockname()[1])
    config = EngineConfig.from_options(
        data_parallel_size=3,
        data_parallel_size_local=1,
        data_parallel_join_timeout=0.2,
    )
    client = RemoteClient(config, TcpHub(endpoint, KEYS))

    with (
        closing(client),
        pytest.raises(EngineDeadError, match=r"1, 2 did not join at tcp://127.* 0.2 s"),
    ):
        client.wait()
