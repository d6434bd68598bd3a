"""The sockets of the logger `kv_events`: messages, replay, losses."""

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec
import pytest
import zmq

from hookline.config import EngineConfig
from hookline.events import BlocksRemoved, BlocksStored, CacheCleared
from hookline.exceptions import ConfigError
from hookline_kv_events.config import KVEventsConfig, KVEventsSection
from hookline_kv_events.publisher import END, Publisher, address_of, is_wide
from hookline_kv_events.wire import KVEventBatch, wire_event

SECONDS = 5000
HASH = bytes(range(24)) + (2**64 - 2).to_bytes(8, "big")
PARENT = bytes(24) + (7).to_bytes(8, "big")


def number(sequence: int) -> bytes:
    return sequence.to_bytes(8, "big")


@contextmanager
def publisher(**given: object) -> Iterator[Publisher]:
    local = {"endpoint": "tcp://127.0.0.1:*", "replay_endpoint": "tcp://127.0.0.1:*"}
    made = Publisher(KVEventsConfig.from_mapping({**local, **given}), 0)
    try:
        yield made
    finally:
        made.close()


@contextmanager
def socket(kind: int, endpoint: str) -> Iterator["zmq.Socket[bytes]"]:
    with zmq.Context() as context, context.socket(kind) as made:
        made.setsockopt(zmq.RCVTIMEO, SECONDS)
        made.setsockopt(zmq.LINGER, 0)
        made.setsockopt(zmq.IPV6, int("[" in endpoint))
        made.connect(endpoint)
        yield made


def asked(made: Publisher, first: int, kind: int = zmq.REQ) -> list[tuple[int, bytes]]:
    """Returns the replayed batches from a number on."""
    found: list[tuple[int, bytes]] = []
    with socket(zmq.DEALER, made.endpoints[1]) as replay:
        empty = [b""] if kind == zmq.REQ else []
        replay.send_multipart([*empty, number(first)])
        while True:
            *way, sequence, payload = replay.recv_multipart()
            assert way == empty
            if sequence == END:
                assert payload == b""
                return found
            found.append((int.from_bytes(sequence, "big"), payload))


def test_events_are_vllms_arrays() -> None:
    """By position, the tag first; hashes are the last 8 bytes as a number."""
    stored = BlocksStored([HASH, PARENT], PARENT, [1, 2, 3, 4], "adapter")
    events = [
        wire_event(each, 2) for each in (stored, BlocksRemoved([HASH]), CacheCleared())
    ]

    data = msgspec.msgpack.encode(KVEventBatch(1.5, events, 3))

    assert msgspec.msgpack.decode(data) == [
        1.5,
        [
            [
                *("BlockStored", [2**64 - 2, 7], 7, [1, 2, 3, 4], 2),
                *(None, "GPU", "adapter", None),
            ],
            ["BlockRemoved", [2**64 - 2], "GPU"],
            ["AllBlocksCleared"],
        ],
        3,
    ]
    assert msgspec.msgpack.decode(data, type=KVEventBatch).events == events


def test_salt_is_in_the_first_blocks_event() -> None:
    """It goes into the first block's hash alone."""
    first = BlocksStored([HASH, PARENT], None, [1, 2], cache_salt="secret")
    later = BlocksStored([HASH], PARENT, [1], cache_salt="secret")

    told = [msgspec.to_builtins(wire_event(each, 1)) for each in (first, later)]

    assert told[0][8] == [("secret",), None]
    assert told[1][8] is None


def test_messages_have_three_frames() -> None:
    """Topic, number and batch; to those who have subscribed to the topic."""
    with (
        publisher(topic="kv@pod@model") as made,
        socket(zmq.SUB, made.endpoints[0]) as reader,
    ):
        reader.setsockopt(zmq.SUBSCRIBE, b"kv@")
        sequence = 0
        reader.setsockopt(zmq.RCVTIMEO, 50)
        for sequence in range(100):  # until the subscription has arrived
            made.publish(sequence, b"batch")
            try:
                frames = reader.recv_multipart()
                break
            except zmq.Again:
                continue

    assert frames == [b"kv@pod@model", number(sequence), b"batch"]


@pytest.mark.parametrize("kind", [zmq.REQ, zmq.DEALER])
def test_batches_can_be_replayed(kind: int) -> None:
    """From the number asked for, with the end behind them; the oldest are gone."""
    with publisher(buffer_steps=3) as made:
        for sequence in range(5):
            made.publish(sequence, b"%d" % sequence)
        while len(asked(made, 0)) < 3 or asked(made, 0)[-1][0] != 4:
            pass

        assert asked(made, 0, kind) == [(2, b"2"), (3, b"3"), (4, b"4")]
        assert asked(made, 4, kind) == [(4, b"4")]
        assert asked(made, 9, kind) == []


def test_slow_reader_gets_the_whole_replay() -> None:
    """More than ZMQ would let wait by itself."""
    with publisher(buffer_steps=3000) as made:
        for sequence in range(3000):
            made.publish(sequence, bytes(8000))
        while not (found := asked(made, 2999)):
            pass

        with socket(zmq.DEALER, made.endpoints[1]) as replay:
            replay.setsockopt(zmq.RCVHWM, 10)
            replay.send_multipart([b"", number(0)])
            threading.Event().wait(0.2)
            count = 0
            while replay.recv_multipart()[1] != END:
                count += 1

    assert found
    assert count == 3000


@pytest.mark.parametrize("frames", [[b""], [b"", b"short"], [b"", b"", number(0)]])
def test_other_requests_get_no_answer(frames: list[bytes]) -> None:
    """And do no harm to those that follow."""
    with publisher() as made:
        made.publish(0, b"x")
        with socket(zmq.DEALER, made.endpoints[1]) as replay:
            replay.setsockopt(zmq.RCVTIMEO, 50)
            replay.send_multipart(frames)
            with pytest.raises(zmq.Again):
                replay.recv_multipart()

        assert asked(made, 0) == [(0, b"x")]


def test_queue_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the thread is held up the oldest go, and are counted."""
    go = threading.Event()
    publish: Callable[[Publisher], None] = Publisher._publish_waiting

    def held_up(self: Publisher) -> None:
        go.wait(5)
        publish(self)

    monkeypatch.setattr(Publisher, "_publish_waiting", held_up)
    with publisher(max_queue_size=3) as made:
        for sequence in range(10):
            made.publish(sequence, b"x")
        go.set()
        while not (found := asked(made, 0)):
            pass

        assert made.dropped_batches == 7
        assert [sequence for sequence, _ in found] == [7, 8, 9]


def test_closing_publishes_what_waits_and_ends_the_thread() -> None:
    """Twice is as good as once."""
    with publisher() as made:
        name = made._thread.name
        assert name in [thread.name for thread in threading.enumerate()]
    made.close()

    assert not made._thread.is_alive()


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("tcp://*:5557", True),
        ("tcp://0.0.0.0:5557", True),
        ("tcp://[::]:5557", True),
        ("tcp://eth0:5557", True),
        ("tcp://10.0.0.1:*", True),
        ("tcp://127.0.0.1:5557", False),
        ("tcp://[::1]:5557", False),
        ("tcp://localhost:5557", False),
        ("ipc:///run/kv", False),
    ],
)
def test_addresses_beyond_this_machine_are_known(address: str, expected: bool) -> None:
    """They cause a warning, because the sockets have no authentication."""
    assert is_wide(address) is expected


def test_wide_address_logs_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Once for each socket, with its address."""
    config = KVEventsConfig(endpoint="tcp://127.0.0.1:*", replay_endpoint="tcp://*:*")
    Publisher(config, 0).close()

    (record,) = caplog.records
    assert "tcp://*:* without authentication" in record.getMessage()


@pytest.mark.parametrize(
    "endpoint", ["tcp://[::1]:*", "tcp://[::1]:0", "tcp://localhost:*", "tcp://[::]:*"]
)
def test_ipv6_and_names_are_bound_like_ipv4(
    endpoint: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A free port is told in the log."""
    caplog.set_level("INFO")

    with publisher(endpoint="tcp://127.0.0.1:*", replay_endpoint=endpoint) as made:
        made.publish(0, b"x")
        while not (found := asked(made, 0)):
            pass
        places = " and ".join(made.endpoints)

    assert found == [(0, b"x")]
    assert f"KV events of engine 0 are at {places}" in caplog.text


def test_all_interfaces_are_those_of_ipv4_and_ipv6() -> None:
    """vLLM's `tcp://*` is reached by either."""
    with publisher(endpoint="tcp://127.0.0.1:*", replay_endpoint="tcp://*:*") as made:
        port = made.endpoints[1].rpartition(":")[2]
        for host in ("127.0.0.1", "[::1]"):
            with socket(zmq.DEALER, f"tcp://{host}:{port}") as replay:
                replay.send_multipart([b"", number(0)])
                assert replay.recv_multipart()[1] == END


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"endpoint": "tcp://::1:5557"}, "endpoint: '::1:5557' is ambiguous: an IPv6"),
        ({"endpoint": "tcp://*"}, "endpoint: '*' is not HOST:PORT"),
        ({"endpoint": "tcp://*:70000"}, "endpoint: '70000' is not a port, 0 to 65535"),
        ({"replay_endpoint": "tcp://a b:1"}, "replay_endpoint: 'a b' is not a host"),
        ({"endpoint": "udp://*:1"}, "endpoint must begin with tcp://, ipc://, inproc"),
    ],
)
def test_a_wrong_endpoint_is_named(given: dict[str, object], message: str) -> None:
    """Before anything starts, in one line."""
    with pytest.raises(ConfigError, match=re.escape(message)):
        KVEventsConfig.from_mapping(given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"endpoint": "tcp://*:65534"},
            "endpoint: port 65534 leaves no room: 2 more would be 65536",
        ),
        (
            {"endpoint": "tcp://*:5557", "replay_endpoint": "tcp://*:5558"},
            "replay_endpoint: port 5558 is also an engine's endpoint, because each",
        ),
        ({"endpoint": "tcp://*:5557", "replay_endpoint": "tcp://*:5560"}, ""),
        ({"endpoint": "tcp://*:0", "replay_endpoint": "tcp://*:0"}, ""),
    ],
)
def test_every_engines_ports_are_checked_at_the_start(
    given: dict[str, object], message: str
) -> None:
    """Each engine adds its index, which must not leave the ports or meet another."""
    publication = {"enable_kv_cache_events": True, **given}
    section = KVEventsSection(publication=KVEventsConfig.from_mapping(publication))
    config = EngineConfig(server_indices=(0, 1, 2))

    if message:
        with pytest.raises(ConfigError, match=re.escape(message)):
            section.check(config)
    else:
        section.check(config)


def test_address_in_use_is_an_error() -> None:
    """At the start, in one line."""
    with publisher() as made:
        taken = made.endpoints[1]
        config = KVEventsConfig(endpoint="tcp://127.0.0.1:*", replay_endpoint=taken)
        with pytest.raises(ConfigError, match="cannot be used"):
            Publisher(config, 0)


@pytest.mark.parametrize(
    ("endpoint", "rank", "own"),
    [
        ("tcp://*:5557", 0, "tcp://*:5557"),
        ("tcp://*:5557", 3, "tcp://*:5560"),
        ("tcp://[::]:5557", 1, "tcp://[::]:5558"),
        ("tcp://*:*", 2, "tcp://*:*"),
        ("tcp://127.0.0.1:0", 2, "tcp://127.0.0.1:*"),
        ("tcp://[fe80::1%eth0]:5557", 1, "tcp://[fe80::1%eth0]:5558"),
        ("ipc:///run/kv", 1, "ipc:///run/kv_dp1"),
    ],
)
def test_engines_have_separate_addresses(endpoint: str, rank: int, own: str) -> None:
    """By their index."""
    assert address_of(endpoint, rank) == own
