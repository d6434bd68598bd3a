"""The transport: who sent what, what is dropped, and other schema versions."""

import shutil
import stat
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest
import zmq

from hookline.engine.commands import SCHEMA_VERSION, Call, ResetPrefixCache
from hookline.exceptions import SchemaVersionError
from hookline_process_engine.ipc import IpcTransport, socket_folder
from hookline_process_engine.mailbox import KEY_BYTES, Keys, Mailbox
from hookline_process_engine.messages import Failed, Hello, ToClient, ToEngine
from hookline_process_engine.transport import Party, Role
from hookline_testing.waiting import wait_until

WAIT_SECONDS = 30.0
KEY = b"k" * KEY_BYTES


def one_key(_: Party) -> bytes:
    return KEY


def head(role: int) -> bytes:
    return struct.pack("<4sHBI", b"hkln", SCHEMA_VERSION, role, 0) + KEY


class Ends:
    """Parties in a folder; they are closed with the test."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self._stack = stack

    def transport(self, party: Party) -> IpcTransport:
        transport = IpcTransport(self.folder, party)
        self._stack.callback(transport.close)
        return transport

    def client(self, index: int) -> tuple[IpcTransport, Mailbox[ToClient]]:
        party = Party(Role.CLIENT, index)
        transport = self.transport(party)
        return transport, Mailbox(
            transport, party, msgspec.msgpack.Decoder(ToClient), one_key
        )

    def engine(
        self,
        index: int,
        schema_version: int = SCHEMA_VERSION,
        keys: Keys = one_key,
    ) -> tuple[IpcTransport, Mailbox[ToEngine]]:
        party = Party(Role.ENGINE, index)
        transport = self.transport(party)
        decoder = msgspec.msgpack.Decoder(ToEngine)
        return transport, Mailbox(
            transport, party, decoder, keys, schema_version=schema_version
        )


@pytest.fixture
def ends() -> Iterator[Ends]:
    folder = socket_folder()
    with ExitStack() as stack:
        yield Ends(folder, stack)
    shutil.rmtree(folder)


def test_several_clients_and_engines_know_each_other(ends: Ends) -> None:
    """Every message arrives at its receiver alone, with its sender's identity."""
    clients = [ends.client(index) for index in range(2)]
    engines = [ends.engine(index) for index in range(2)]
    for client in range(2):
        for engine in range(2):
            for (transport, _), peer, (other, _) in (
                (clients[client], Party(Role.ENGINE, engine), engines[engine]),
                (engines[engine], Party(Role.CLIENT, client), clients[client]),
            ):
                transport.connect(peer, other.address, max_waiting=0)
            clients[client][1].post(
                Party(Role.ENGINE, engine), Call(client, engine, ResetPrefixCache())
            )
            engines[engine][1].post(
                Party(Role.CLIENT, client), Failed(f"{engine} to {client}")
            )

    for engine, (_, mailbox) in enumerate(engines):
        mails = [mailbox.receive(WAIT_SECONDS) for _ in range(2)]
        found = {mail.sender.index: mail.message for mail in mails if mail is not None}
        assert found == {
            client: Call(client, engine, ResetPrefixCache()) for client in range(2)
        }
        assert mailbox.receive(0.0) is None
    for client, (_, inbox) in enumerate(clients):
        got = [inbox.receive(WAIT_SECONDS) for _ in range(2)]
        texts = {mail.sender: mail.message for mail in got if mail is not None}
        assert texts == {
            Party(Role.ENGINE, engine): Failed(f"{engine} to {client}")
            for engine in range(2)
        }


def test_a_removed_address_is_there_again(
    ends: Ends, caplog: pytest.LogCaptureFixture
) -> None:
    """Who connects later finds the inbox; who was connected has noticed nothing."""
    inbox, mailbox = ends.client(0)
    before, old = ends.engine(0)
    before.connect(Party(Role.CLIENT, 0), inbox.address, max_waiting=0)
    old.post(Party(Role.CLIENT, 0), Failed("early"))
    assert mailbox.receive(WAIT_SECONDS) is not None
    shutil.rmtree(ends.folder)
    inbox._looks_at = 0.0

    assert mailbox.receive(0.0) is None
    after, new = ends.engine(1)
    after.connect(Party(Role.CLIENT, 0), inbox.address, max_waiting=0)
    new.post(Party(Role.CLIENT, 0), Failed("late"))
    late = mailbox.receive(WAIT_SECONDS)
    old.post(Party(Role.CLIENT, 0), Failed("still"))
    still = mailbox.receive(WAIT_SECONDS)

    assert late is not None
    assert late.message == Failed("late")
    assert still is not None
    assert still.message == Failed("still")
    assert stat.S_IMODE(ends.folder.stat().st_mode) == 0o700
    assert "was removed, and is there again" in caplog.text


def test_a_place_that_somebody_took_is_reported_once(
    ends: Ends, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """No socket is made behind a link, wherever it leads."""
    inbox, _ = ends.client(0)
    shutil.rmtree(ends.folder)
    ends.folder.symlink_to(tmp_path)

    for _ in range(2):
        inbox._looks_at = 0.0
        inbox.keep_address()
    ends.folder.unlink()
    ends.folder.mkdir(0o700)

    assert list(tmp_path.iterdir()) == []
    assert caplog.text.count("was removed, and is lost") == 1


def test_an_inbox_whose_party_waits_looks_now_and_then(ends: Ends) -> None:
    """Also an idle engine, which waits for a minute, is found by a new API server."""
    transport, mailbox = ends.engine(0)
    sender = ends.transport(Party(Role.CLIENT, 0))
    shutil.rmtree(ends.folder)
    waiting = threading.Thread(target=mailbox.receive, args=[WAIT_SECONDS])
    waiting.start()

    wait_until(lambda: any(ends.folder.glob("engine-0.ipc")), "it does not look")

    sender.connect(Party(Role.ENGINE, 0), transport.address, max_waiting=0)
    sender.send(Party(Role.ENGINE, 0), b"wakes it", waits=True)
    waiting.join(WAIT_SECONDS)
    assert not waiting.is_alive()


GARBAGE = {
    "nothing": b"",
    "text": b"GET / HTTP/1.1\r\n\r\n",
    "a header alone": head(2),
    "no such role": head(9),
    "a header without a key": head(2)[:-KEY_BYTES],
    "too many lists in each other": head(2) + b"\x91" * 100_000,
    "an unknown message": head(2) + msgspec.msgpack.encode({"type": "Surprise"}),
    "a value of another type": head(2)
    + msgspec.msgpack.encode({"type": "Failed", "reason": 7}),
    "text that is no UTF-8": head(2) + b"\x82\xa4type\xa6Failed\xa6reason\xa2\xff\xfe",
}


@pytest.mark.parametrize("frame", GARBAGE.values(), ids=GARBAGE)
def test_garbage_is_counted_and_dropped(
    ends: Ends, frame: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """What cannot be understood changes nothing: the next message arrives."""
    _, mailbox = ends.client(0)
    engine, sender = ends.engine(0)
    engine.connect(
        Party(Role.CLIENT, 0), f"ipc://{ends.folder}/client-0.ipc", max_waiting=0
    )

    engine.send(Party(Role.CLIENT, 0), bytearray(frame), waits=True)
    sender.post(Party(Role.CLIENT, 0), Failed("later"))
    first = mailbox.receive(WAIT_SECONDS)
    second = mailbox.receive(WAIT_SECONDS)

    assert first is None
    assert second is not None
    assert second.message == Failed("later")
    assert mailbox.dropped == 1
    assert "dropped an invalid message" in caplog.text


def test_a_message_without_the_key_is_dropped(
    ends: Ends, caplog: pytest.LogCaptureFixture
) -> None:
    """A forged message changes nothing, even if it is valid otherwise."""
    _, mailbox = ends.client(0)
    client, address = Party(Role.CLIENT, 0), f"ipc://{ends.folder}/client-0.ipc"
    for index, keys in ((0, lambda _: b"w" * KEY_BYTES), (1, one_key)):
        transport, engine = ends.engine(index, keys=keys)
        transport.connect(client, address, max_waiting=0)
        engine.post(client, Failed(f"from {index}"))

    mails = [mailbox.receive(WAIT_SECONDS) for _ in range(2)]

    assert [mail.message for mail in mails if mail] == [Failed("from 1")]
    assert mailbox.dropped == 1
    assert "without the key" in caplog.text


def test_a_wrong_address_is_an_error(ends: Ends) -> None:
    """It leaves no outbox behind, and a message to the peer is not sent."""
    transport, engine = ends.engine(0)
    peer = Party(Role.CLIENT, 3)

    with pytest.raises(ValueError, match="is not an address"):
        transport.connect(peer, "nowhere", max_waiting=0)

    assert not engine.post(peer, Failed("x"))


def test_another_schema_version_is_one_clear_error(ends: Ends) -> None:
    """During the handshake it names both versions; later it is dropped."""
    _, mailbox = ends.client(0)
    transport, engine = ends.engine(3, schema_version=SCHEMA_VERSION + 1)
    client = Party(Role.CLIENT, 0)
    transport.connect(client, f"ipc://{ends.folder}/client-0.ipc", max_waiting=0)

    engine.post(client, Hello("somewhere"))
    with pytest.raises(SchemaVersionError) as caught:
        mailbox.receive(WAIT_SECONDS)
    mailbox.is_shaking_hands = False
    engine.post(client, Hello("somewhere"))

    assert str(caught.value) == (
        f"engine 3 has schema version {SCHEMA_VERSION + 1}, this process has "
        f"{SCHEMA_VERSION}: use the same version of Hookline for both"
    )
    while not mailbox.dropped:
        assert mailbox.receive(0.1) is None
    assert mailbox.dropped == 1


def test_a_bounded_outbox_refuses_what_does_not_fit(ends: Ends) -> None:
    """A send that does not wait returns False once the peer takes nothing.

    ØMQ empties the outbox into the connection whenever its thread gets to it, so that
    any send may find room again, but not as many as are tried.
    """
    context = zmq.Context()
    silent = context.socket(zmq.PULL)
    silent.set_hwm(1)
    silent.bind(f"ipc://{ends.folder}/client-7.ipc")
    transport, engine = ends.engine(0)
    secondary = Party(Role.CLIENT, 7)
    transport.connect(secondary, f"ipc://{ends.folder}/client-7.ipc", max_waiting=2)

    taken = [
        engine.post(secondary, Failed("x" * 100_000), waits=False) for _ in range(99)
    ]
    context.destroy(linger=0)

    assert taken[0]
    assert not all(taken)
