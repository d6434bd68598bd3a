"""The bytes of each message between engines and their clients are what they were.

`golden/wire.txt` has each message, and each type inside of one: the names of its
fields, its value decoded, its bytes. The same bytes must mean the same in all processes
of one `SCHEMA_VERSION`, so a file of the same version is not rewritten for other bytes:
increment the version first. Run this file with `HOOKLINE_UPDATE_GOLDEN=1` to accept it.
"""

import json
from pathlib import Path
from typing import cast

import msgspec
from msgspec import inspect

from hookline.engine.commands import SCHEMA_VERSION
from hookline.frozen import plain
from hookline_cluster.clients.messages import (
    AttachDetails,
    ToClient,
    ToEngine,
    ToSecondaryClient,
)
from hookline_cluster.machines.link_messages import Ping, ToHead, ToRemoteEngine
from hookline_process_engine.mailbox import Mailbox
from hookline_process_engine.transport import Party, Role, Transport
from hookline_server.engine_sharing import AttachInfo
from hookline_testing.golden import check_golden, is_updating
from hookline_testing.wire_samples import Record, encoded, records_of, sample

GOLDEN = Path(__file__).parent / "golden/wire.txt"
MESSAGES = (ToEngine, ToClient, ToSecondaryClient, AttachInfo, AttachDetails)
LINKS = (ToRemoteEngine, ToHead)
RECORDS = records_of(*MESSAGES, *LINKS)
CHECKED = ("SamplingValues.",)
"""Types whose values are checked have samples with some of them."""
_WIDTH = 88


class Sent:
    """A transport that keeps the last frame."""

    def send(self, receiver: Party, frame: bytearray, *, waits: bool = True) -> bool:
        del receiver, waits
        self.frame = bytes(frame)
        return True


def entry(name: str, record: Record) -> str:
    """A type's part of the file."""
    data = encoded(sample(record), plain)
    fields = " ".join(
        each.name if each.required else f"{each.name}?" for each in record.fields
    )
    value = json.dumps(msgspec.msgpack.decode(data), default=repr, ensure_ascii=False)
    return "\n".join([f"== {name}", fields, value, *in_hex(data), ""])


def in_hex(data: bytes) -> list[str]:
    text = data.hex()
    return [text[at : at + _WIDTH] for at in range(0, len(text), _WIDTH)]


def transcript() -> str:
    entries = [entry(name, record) for name, record in sorted(RECORDS.items())]
    return "\n".join([f"SCHEMA_VERSION {SCHEMA_VERSION}", "", *entries])


def test_bytes_of_each_message_are_golden() -> None:
    """Each type of message is encoded as it was in this version of the schema."""
    now = transcript()
    golden = GOLDEN.read_text("utf-8") if GOLDEN.exists() else now
    is_same_version = golden.splitlines()[0] == now.splitlines()[0]

    assert golden == now or not (is_updating() and is_same_version), (
        "increment SCHEMA_VERSION, or delete the file if only the samples have changed"
    )
    check_golden(GOLDEN, now)


def test_samples_survive_the_wire() -> None:
    """What is decoded as the type it was encoded from has the same bytes again."""
    sent = {name: encoded(sample(each), plain) for name, each in RECORDS.items()}

    decoded: dict[str, object] = {
        name: msgspec.msgpack.decode(data, type=RECORDS[name].cls)
        for name, data in sent.items()
    }

    assert {name: encoded(each, plain) for name, each in decoded.items()} == sent


def test_samples_show_every_field() -> None:
    """A struct that leaves out default values is sampled without any."""
    hidden = {
        f"{name}.{field.name}"
        for name, record in RECORDS.items()
        if isinstance(record, inspect.StructType) and not record.array_like
        for field in record.fields
        if field.encode_name not in shown(record)
    }

    assert {each for each in hidden if not each.startswith(CHECKED)} == set()


def shown(record: Record) -> set[object]:
    value = msgspec.msgpack.decode(encoded(sample(record), plain))
    return set(value)


def test_frame_begins_with_version_sender_and_key() -> None:
    """The header is the same in every version: magic, version, role, index, key."""
    transport = Sent()
    sender, key = Party(Role.ENGINE, 3), bytes(range(16))
    mailbox = Mailbox(
        cast("Transport", transport),
        sender,
        msgspec.msgpack.Decoder(Ping),
        lambda _: key,
        schema_version=258,
    )

    mailbox.post(Party(Role.CLIENT, 0), Ping(7))

    header, message = transport.frame[:27], transport.frame[27:]
    assert header.hex() == "686b6c6e02010203000000" + key.hex()
    assert message == b"\x82\xa4type\xa4Ping\xa2at\x07"
