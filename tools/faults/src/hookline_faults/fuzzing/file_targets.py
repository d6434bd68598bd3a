"""Readers of files and of messages that others wrote, and right contents to mutate.

A target reads one mutated content. It raises the errors that its reader documents, or
nothing; all others are faults.
"""

import logging
import random
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import msgspec
import numpy as np

from hookline.clock import SystemClock
from hookline.config import EngineConfig, ModelConfig
from hookline.engine.commands import Call, Finish, ResetPrefixCache
from hookline.engine_setup.building import build_core, build_loop
from hookline.exceptions import HooklineError, ModelLoadError
from hookline.finish_cause import Aborted
from hookline.model_description import find_folder
from hookline.tokenizer import Tokenizer
from hookline_cluster.clients.messages import Attach, Detach, ToEngine
from hookline_description.describing import describe
from hookline_faults.fuzzing.mutator import mutated
from hookline_kv_transfer import KVLayout
from hookline_models.checkpoints.loading import load_model
from hookline_process_engine.mailbox import Mailbox, make_key
from hookline_process_engine.messages import Failed, Start
from hookline_process_engine.transport import Party, Role
from hookline_processes.tokenizer_trial import tokenizer_refusal
from hookline_recording import RecordingError, read_recording
from hookline_recording.config import RecordingConfig
from hookline_server.auth.key_file import read_keys
from hookline_server.cli.errors import UsageError
from hookline_server.cli.options.config_file import read_file
from hookline_shared_storage.options import StorageOptions
from hookline_shared_storage.store import BlockStore, DamagedError

Mutate = Callable[[bytes, random.Random], bytes]
Errors = tuple[type[Exception], ...]


@dataclass(frozen=True, slots=True)
class Target:
    """A reader under test.

    Attributes:
        right: Contents that it reads without an error.
        read: Reads a content.
        errors: What it may raise.
        mutate: How contents are changed.
    """

    right: tuple[bytes, ...]
    read: Callable[[bytes], object]
    errors: Errors
    mutate: Mutate = mutated


def make_target(name: str, folder: Path) -> Target:
    """Returns a target that keeps its files in the folder."""
    return TARGETS[name](folder)


def _demo_file(folder: Path, name: str) -> tuple[Path, bytes]:
    """Copies the demo model; returns the copy and a file's right content."""
    model = folder / "model"
    if not model.exists():
        source = find_folder("demo")
        shutil.copytree(source, model, ignore=shutil.ignore_patterns("eagle", "medusa"))
    return model, (model / name).read_bytes()


def _config_json(folder: Path) -> Target:
    model, right = _demo_file(folder, "config.json")

    def read(content: bytes) -> None:
        (model / "config.json").write_bytes(content)
        config = ModelConfig(model=str(model))
        described = describe(config)
        load_model(config, described, min(described.max_position_embeddings, 4096))

    return Target((right,), read, (HooklineError,), _mutated_json)


def _tokenizer(folder: Path) -> Target:
    model, right = _demo_file(folder, "tokenizer.json")

    def read(content: bytes) -> None:
        (model / "tokenizer.json").write_bytes(content)
        if reason := tokenizer_refusal(model):
            raise ModelLoadError(str(model), reason)
        Tokenizer.load(model)

    return Target((right,), read, (HooklineError,), _mutated_ends)


def _safetensors(folder: Path) -> Target:
    model, right = _demo_file(folder, "model.safetensors")
    config = ModelConfig(model=str(model))
    described = describe(config)

    def read(content: bytes) -> None:
        (model / "model.safetensors").write_bytes(content)
        load_model(config, described, 512)

    return Target((right,), read, (HooklineError,), _mutated_head)


def _kv_file(folder: Path) -> Target:
    layout = KVLayout(
        fingerprint="ab", num_blocks=4, block_size=16, dtype="f", block_bytes=(64, 64)
    )
    store = BlockStore(StorageOptions(shared_storage_path=folder), layout)
    block_hash = b"\x01" * 32
    right = np.arange(128, dtype=np.uint8)
    store.write(block_hash, right)
    path = store.path_of(block_hash)
    into = np.zeros(128, dtype=np.uint8)

    def read(content: bytes) -> None:
        path.write_bytes(content)
        store.read(block_hash, into)
        assert (into == right).all(), "wrong bytes are served"

    return Target((path.read_bytes(),), read, (DamagedError,))


def _recording(folder: Path) -> Target:
    path = folder / "recording"
    sections: dict[str, object] = {"recording": RecordingConfig(record=str(path))}
    core = build_core(replace(_simulated(), sections=sections), SystemClock())
    tap = build_loop(core).core.tap
    assert tap is not None
    tap.command(1, Finish([1, 2], Aborted("client")))
    tap.command(2, Call(0, 1, ResetPrefixCache()))
    tap.close(None)

    def read(content: bytes) -> None:
        path.write_bytes(content)
        recording = read_recording(path)
        assert len(recording.steps) + len(recording.requests) >= 0

    return Target((path.read_bytes(),), read, (RecordingError,))


_LONG_KEYS = b"""\
keys:
  - name: search
    key: a-long-key-of-the-search
    tenant: search
    scopes: [serve, metrics]
"""


def _keys(folder: Path) -> Target:
    path = folder / "keys.yaml"

    def read(content: bytes) -> None:
        path.write_bytes(content)
        read_keys(str(path))

    short = b'"key-of-a-tenant-1": blue\n"key-of-a-tenant-2": green\n'
    return Target((short, _LONG_KEYS), read, (ValueError,))


def _options(folder: Path) -> Target:
    path = folder / "serve.yaml"
    right = b"model: demo\nport: 8001\nstat-logger: [prometheus]\nslo: {ttft: 0.5}\n"

    def read(content: bytes) -> None:
        path.write_bytes(content)
        read_file(str(path))

    return Target((right,), read, (UsageError,))


class _OneFrame:
    """A transport with one frame."""

    address = ""

    def __init__(self) -> None:
        self.frame = b""

    def connect(self, peer: Party, address: str, *, max_waiting: int) -> None: ...

    def disconnect(self, peer: Party) -> None: ...

    def send(self, peer: Party, frame: bytearray, *, waits: bool) -> bool:  # noqa: ARG002
        self.frame = bytes(frame)
        return True

    def receive(self, timeout_seconds: float) -> bytes | None:  # noqa: ARG002
        return self.frame

    def close(self, linger_seconds: float = 0.0) -> None: ...


def _messages(_: Path) -> Target:
    logging.disable(logging.WARNING)
    key, me, transport = make_key(), Party(Role.ENGINE, 0), _OneFrame()
    decoder = msgspec.msgpack.Decoder(ToEngine)
    mailbox: Mailbox[ToEngine] = Mailbox(transport, me, decoder, lambda _: key)
    mailbox.is_shaking_hands = False
    sent: list[bytes] = []
    for message in (
        Start(_simulated()),
        Attach("ipc://a"),
        Detach(),
        Failed("a"),
        Finish([1, 2**40], Aborted("client")),
        Call(0, 1, ResetPrefixCache()),
    ):
        mailbox.post(me, message)
        sent.append(transport.frame)

    def read(content: bytes) -> None:
        transport.frame = content
        mailbox.receive(0.0)

    # The key stays right: what is behind it is under test.
    return Target(tuple(sent), read, (), partial(_mutated_behind, 27))


TARGETS: Mapping[str, Callable[[Path], Target]] = {
    "config.json": _config_json,
    "tokenizer.json": _tokenizer,
    "safetensors": _safetensors,
    "KV file": _kv_file,
    "recording": _recording,
    "keys file": _keys,
    "options file": _options,
    "messages": _messages,
}


def _simulated() -> EngineConfig:
    return EngineConfig()


_VALUE = re.compile(rb"(?<=: )[^,{}\[\]\n]+(?=[,\n])")
_HOSTILE = (
    *(b"0", b"-1", b"1", b"7", b"1e9", b"1000000000000", b"99999999999999999999"),
    *(b"null", b"true", b'""', b'"a"', b"[]", b"{}", b"[1, 2]", b"NaN", b"Infinity"),
    *(b'"llama"', b'"mamba"', b'"LlamaForCausalLM"', b'"float64"', b'"silu"', b"0.5"),
    *(b'{"AutoConfig": "evil.Config"}', b'"../../etc/passwd"', b'{"a": {"b": []}}'),
)


def _mutated_json(data: bytes, source: random.Random) -> bytes:
    """Puts hostile values into places of values, or changes bytes."""
    if source.random() < 0.2:
        return mutated(data, source)
    for _ in range(source.randint(1, 3)):
        places = list(_VALUE.finditer(data))
        place = source.choice(places)
        data = data[: place.start()] + source.choice(_HOSTILE) + data[place.end() :]
    return data


def _mutated_head(data: bytes, source: random.Random) -> bytes:
    """Changes the header of a safetensors file, and sometimes cuts its end."""
    size = int.from_bytes(data[:8], "little") + 8
    head = mutated(data[:size], source)
    if source.random() < 0.5:  # a length that fits what follows
        head = (len(head) - 8).to_bytes(8, "little", signed=True) + head[8:]
    rest = data[size:] if source.random() < 0.9 else data[size : -source.randint(1, 99)]
    return head + rest


def _mutated_ends(data: bytes, source: random.Random) -> bytes:
    """Changes what stands before and behind the long tables."""
    head, tail = data[:2000], data[-600:]
    if source.random() < 0.5:
        return _mutated_json(head, source) + data[2000:]
    return data[:-600] + mutated(tail, source)


def _mutated_behind(size: int, data: bytes, source: random.Random) -> bytes:
    return data[:size] + mutated(data[size:], source)
