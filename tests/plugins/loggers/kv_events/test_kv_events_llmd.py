"""A reader of llm-d's published types understands both encodings of an engine's events.

The types are those of `pkg/kvevents` in llm-d-router: a batch is an array, an event an
array read by position or a map read by name; whatever else is sent is ignored.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import pytest
import zmq
from aiohttp.test_utils import TestClient, TestServer

from hookline import LLM, SamplingParams
from hookline.config import CacheConfig, EngineConfig, ExecutorConfig, ModelConfig
from hookline.request import RequestFacts
from hookline_kv_events import map_wire
from hookline_kv_events.config import KVEventsConfig, KVEventsEncoding, KVEventsSection
from hookline_offline.prompts import TokensPrompt
from hookline_server.app import create_app
from hookline_server.settings import ServerSettings
from hookline_server.texts.engine import TextEngine

BLOCK = 4
CONFIG = EngineConfig(
    model=ModelConfig(model="demo", max_model_len=256),
    cache=CacheConfig(block_size=BLOCK, num_kv_blocks=160),
    executor=ExecutorConfig(name="simulated"),
)
PROMPT = list(range(100, 110))
ENCODINGS = list(KVEventsEncoding)

FIELDS = {
    "BlockStored": (
        *("block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id"),
        *("medium", "lora_name", "extra_keys", "group_idx", "kv_cache_spec_kind"),
        "kv_cache_spec_sliding_window",
    ),
    "BlockRemoved": ("block_hashes", "medium", "group_idx"),
    "AllBlocksCleared": (),
}
"""The fields that llm-d reads, in the order of their positions."""
REQUIRED = {"BlockStored": 4, "BlockRemoved": 1, "AllBlocksCleared": 0}


@dataclass(frozen=True)
class Read:
    """An event as llm-d knows it; what was not sent is None."""

    tag: str
    fields: Mapping[str, object]


def read_event(raw: object) -> Read:
    """Reads an array by position, or a map by name."""
    if isinstance(raw, list):
        tag, values = raw[0], raw[1:]
        assert len(values) >= REQUIRED[tag]
        names = FIELDS[tag]
        padded = [*values, *[None] * len(names)]
        return Read(tag, dict(zip(names, padded, strict=False)))
    assert isinstance(raw, dict)
    tag = raw["type"]
    return Read(tag, {name: raw.get(name) for name in FIELDS[tag]})


def read_batch(payload: bytes) -> list[Read]:
    """Reads a batch, which is an array of time, events and perhaps a rank."""
    ts, events, *_ = msgspec.msgpack.decode(payload)
    assert isinstance(ts, float)
    return [read_event(each) for each in events]


@dataclass(frozen=True)
class Block:
    """A block of llm-d's index, with what the router can check."""

    hash: int
    parent: int
    tokens: tuple[int, ...]
    tier: str
    salt: object


def blocks_of(batches: Sequence[bytes]) -> dict[int, Block]:
    """Applies all events in order and returns the index of the pod."""
    index: dict[int, Block] = {}
    for event in (each for payload in batches for each in read_batch(payload)):
        match event.tag:
            case "AllBlocksCleared":
                index.clear()
            case "BlockRemoved":
                for each in _list(event.fields["block_hashes"]):
                    del index[_whole(each)]
            case _:
                index |= {each.hash: each for each in _stored(event.fields)}
    return index


def _stored(fields: Mapping[str, object]) -> Iterator[Block]:
    size = _whole(fields["block_size"])
    tokens = [_whole(each) for each in _list(fields["token_ids"])]
    hashes = [_whole(each) for each in _list(fields["block_hashes"])]
    assert len(tokens) == size * len(hashes)
    keys = fields["extra_keys"] or [None] * len(hashes)
    parent = _whole(fields["parent_block_hash"] or 0)
    for at, (block_hash, extra) in enumerate(zip(hashes, _list(keys), strict=True)):
        run = tuple(tokens[at * size : (at + 1) * size])
        yield Block(block_hash, parent, run, str(fields["medium"]), extra)
        parent = block_hash


def _list(value: object) -> list[object]:
    assert isinstance(value, list)
    return value


def _whole(value: object) -> int:
    assert isinstance(value, int)
    assert 0 <= value < 1 << 64
    return value


def config_of(folder: Path, encoding: KVEventsEncoding) -> EngineConfig:
    events = KVEventsConfig(
        enable_kv_cache_events=True,
        endpoint=f"ipc://{folder}/events",
        replay_endpoint=f"ipc://{folder}/replay",
        topic="kv@pod-1@demo",
        encoding=encoding,
    )
    return replace(CONFIG, sections={"kv_events": KVEventsSection(publication=events)})


@contextmanager
def connected(kind: int, endpoint: str) -> Iterator["zmq.Socket[bytes]"]:
    with zmq.Context() as context, context.socket(kind) as socket:
        socket.setsockopt(zmq.RCVTIMEO, 5000)
        socket.setsockopt(zmq.LINGER, 0)
        socket.connect(endpoint)
        yield socket


def replayed(folder: Path) -> list[bytes]:
    batches: list[bytes] = []
    with connected(zmq.DEALER, f"ipc://{folder}/replay") as socket:
        socket.send_multipart([b"", bytes(8)])
        while payload := socket.recv_multipart()[2]:
            batches.append(payload)
    return batches


def batches_of(
    folder: Path, encoding: KVEventsEncoding, facts: RequestFacts | None = None
) -> list[bytes]:
    """What an engine tells of a salted prompt and of one that extends it."""
    folder.mkdir()
    with LLM.from_config(config_of(folder, encoding)) as llm:
        for tokens in (PROMPT, [*PROMPT, *range(200, 210)]):
            prompt = TokensPrompt(prompt_token_ids=tokens, cache_salt="salt")
            llm.generate([prompt], SamplingParams(max_tokens=1), facts=facts)
        llm.front_end.observers.flush(5)
        return replayed(folder)


def test_a_prompt_is_the_same_in_both_encodings(tmp_path: Path) -> None:
    """Its blocks are a chain of its tokens, from its salt on, in both."""
    array, by_name = (
        blocks_of(batches_of(tmp_path / each, each)) for each in ENCODINGS
    )

    assert array == by_name
    chain = list(array.values())
    assert [each.tokens for each in chain] == [
        tuple([*PROMPT, *range(200, 210)][at : at + BLOCK]) for at in range(0, 20, 4)
    ]
    assert [each.parent for each in chain] == [0, *[each.hash for each in chain[:-1]]]
    assert [each.salt for each in chain] == [["salt"], None, None, None, None]
    assert {each.tier for each in chain} == {"GPU"}


def test_maps_have_vllms_names(tmp_path: Path) -> None:
    """Fields without a value are left out, also where the request names no session."""
    with_session = RequestFacts(session_id="run-7")
    batches = batches_of(tmp_path / "a", KVEventsEncoding.MAP, with_session)
    cleared, stored, later = (msgspec.msgpack.decode(each)[1] for each in batches)
    _, plain, _ = (
        msgspec.msgpack.decode(each)[1]
        for each in batches_of(tmp_path / "b", KVEventsEncoding.MAP)
    )

    assert cleared == [{"type": "AllBlocksCleared"}]
    assert stored == [
        {
            "type": "BlockStored",
            "block_hashes": stored[0]["block_hashes"],
            "parent_block_hash": None,
            "token_ids": PROMPT[:8],
            "block_size": BLOCK,
            "lora_id": None,
            "medium": "GPU",
            "lora_name": None,
            "extra_keys": [["salt"], None],
            "group_idx": 0,
            "kv_cache_spec_kind": "full_attention",
            "session_id": "run-7",
        }
    ]
    assert "extra_keys" not in later[0]
    typed = msgspec.msgpack.decode(batches[1], type=map_wire.KVEventBatch)
    assert msgspec.msgpack.encode(typed) == batches[1]
    assert plain == [
        {name: value for name, value in stored[0].items() if name != "session_id"}
    ]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_evictions_are_read(tmp_path: Path, encoding: KVEventsEncoding) -> None:
    """The index is what the engine has cached, although its cache overflows."""
    folder = tmp_path / "a"
    folder.mkdir()
    with LLM.from_config(config_of(folder, encoding)) as llm:
        for start in range(0, 900, 100):
            llm.generate([list(range(start, start + 90))], SamplingParams(max_tokens=1))
        llm.front_end.observers.flush(5)
        batches = replayed(folder)
        cached = llm.front_end.engines[0].stats.kv_blocks_cached

    assert len(blocks_of(batches)) == cached
    assert any(e.tag == "BlockRemoved" for each in batches for e in read_batch(each))


def test_unknown_names_and_positions_are_ignored() -> None:
    """As a newer publisher may send them."""
    fields = {"type": "BlockRemoved", "block_hashes": [1], "medium": "GPU"}

    by_name = read_event({**fields, "locality": "LOCAL", "of_tomorrow": [1]})
    by_position = read_event(["BlockRemoved", [1], "GPU", None, "LOCAL", [1]])

    assert by_name == by_position == read_event(fields)


@pytest.mark.parametrize("encoding", ENCODINGS)
async def test_the_header_is_the_session_of_live_events(
    tmp_path: Path, encoding: KVEventsEncoding
) -> None:
    """From HTTP through the engine to a subscriber of the pod's topic."""
    engine = await TextEngine.start(config_of(tmp_path, encoding))
    app = create_app(engine, ServerSettings())
    try:
        with connected(zmq.SUB, f"ipc://{tmp_path}/events") as socket:
            socket.setsockopt(zmq.SUBSCRIBE, b"kv@pod-1@")
            async with TestClient(TestServer(app)) as client:
                raw = await _first_stored(socket, client)
    finally:
        await engine.close()

    event = read_event(raw)
    assert event.tag == "BlockStored"
    assert event.fields["block_size"] == BLOCK
    named = raw.get("session_id") if isinstance(raw, dict) else None
    assert named == ("run-7" if encoding is KVEventsEncoding.MAP else None)


async def _first_stored(socket: "zmq.Socket[bytes]", client: TestClient) -> object:  # type: ignore[type-arg]
    """Sends prompts until the subscription has arrived."""
    for start in range(100, 600, 20):
        body = {"model": "demo", "prompt": list(range(start, start + 9))}
        response = await client.post(
            "/v1/completions",
            json={**body, "max_tokens": 1},
            headers={"X-Session-ID": "run-7"},
        )
        assert response.status == 200
        while await asyncio.to_thread(socket.poll, 200):
            topic, _, payload = socket.recv_multipart()
            assert topic.split(b"@") == [b"kv", b"pod-1", b"demo"]
            for event in msgspec.msgpack.decode(payload)[1]:
                if read_event(event).tag == "BlockStored":
                    return event
    pytest.fail("no event arrived")
