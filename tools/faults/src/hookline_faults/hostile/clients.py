"""One hostile client of each kind; each repeats its mischief until it is cancelled."""

import asyncio
import random
import zlib
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack, closing

from hookline_faults.fuzzing.bodies import huge_body
from hookline_faults.fuzzing.raw_http import raw_case
from hookline_faults.fuzzing.responses import read_response
from hookline_faults.fuzzing.socket_cases import line_bytes
from hookline_faults.hostile.target import MOST_SECONDS, Target, completion

Client = Callable[[Target, random.Random], Awaitable[str]]
"""Does its mischief once, and returns how that ended."""

_HOLD_SECONDS = 20.0
_NUM_IDLE = 40
_BOMB_BYTES = 64 << 20
_PROMPT_BYTES = 8_000_000


async def keep_on(kind: str, target: Target, source: random.Random) -> None:
    """Runs a client of a kind again and again."""
    client = CLIENTS[kind]
    while True:
        try:
            async with asyncio.timeout(MOST_SECONDS):
                target.note(kind, await client(target, source))
        except TimeoutError:
            target.note(kind, "gave up")
        except (OSError, EOFError, ValueError) as error:
            target.note(kind, type(error).__name__)
        await asyncio.sleep(source.uniform(0.2, 1.0))


async def _never_reader(target: Target, source: random.Random) -> str:
    body = completion(source, stream=True, max_tokens=1500, ignore_eos=True, n=8)
    _, writer = await target.connect()
    with closing(writer):
        writer.write(target.post("/v1/completions", body))
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.sleep(_HOLD_SECONDS)
    return "left"


async def _one_byte_reader(target: Target, source: random.Random) -> str:
    body = completion(source, stream=True, max_tokens=400, ignore_eos=True)
    reader, writer = await target.connect()
    with closing(writer):
        writer.write(target.post("/v1/completions", body))
        for _ in range(400):
            if not await reader.read(1):
                return "was cut"
            await asyncio.sleep(0.05)
    return "left"


async def _slow_headers(target: Target, _: random.Random) -> str:
    reader, writer = await target.connect()
    with closing(writer):
        for byte in b"GET /health HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 400:
            writer.write(bytes((byte,)))
            await writer.drain()
            if reader.at_eof():
                return "was cut"
            await asyncio.sleep(0.1)
    return "left"


async def _slow_body(target: Target, source: random.Random) -> str:
    data = target.post("/v1/completions", completion(source))
    reader, writer = await target.connect()
    with closing(writer):
        writer.write(data[:-40])
        for byte in data[-40:]:
            if reader.at_eof():
                return "was cut"
            await asyncio.sleep(0.5)
            writer.write(bytes((byte,)))
        return str((await read_response(reader, is_head=False)).status)


async def _answered(target: Target, data: bytes) -> str:
    reader, writer = await target.connect()
    with closing(writer):
        writer.write(data)
        return str((await read_response(reader, is_head=False)).status)


async def _deflate_bomb(target: Target, source: random.Random) -> str:
    bomb = zlib.compress(b" " * _BOMB_BYTES)
    header = (b"Content-Encoding", b"deflate")
    key = source.choice(("wrong", None))
    return await _answered(
        target, target.post("/v1/completions", bomb, header, key=key)
    )


async def _long_prompt(target: Target, source: random.Random) -> str:
    path = source.choice(("/v1/completions", "/tokenize"))
    body = b'{"model":"demo","prompt":"' + b"a b " * (_PROMPT_BYTES // 4) + b'"}'
    return await _answered(target, target.post(path, body))


async def _huge_lists(target: Target, source: random.Random) -> str:
    body = huge_body("/v1/completions", source, 4_000_000)
    return await _answered(target, target.post("/v1/completions", body))


async def _idle_connections(target: Target, source: random.Random) -> str:
    with ExitStack() as stack:
        for _ in range(_NUM_IDLE):
            stack.callback((await target.connect())[1].close)
        await asyncio.sleep(_HOLD_SECONDS * source.random())
    return "left"


async def _garbage(target: Target, source: random.Random) -> str:
    for address in target.sockets:
        path = address.removeprefix("ipc://")
        _, writer = await asyncio.open_unix_connection(path)
        with closing(writer):
            writer.write(line_bytes(source))
    return "sent"


async def _wrong_key(target: Target, source: random.Random) -> str:
    key = source.choice(("", "wrong", "a" * 4000, target.key[:-1]))
    path = source.choice(("/v1/completions", "/tokenize", "/v1/chat/completions"))
    return await _answered(target, target.post(path, completion(source), key=key))


async def _maximum_n(target: Target, source: random.Random) -> str:
    body = completion(source, n=128, max_tokens=200, ignore_eos=True, temperature=1)
    return await _answered(target, target.post("/v1/completions", body))


async def _malformed(target: Target, source: random.Random) -> str:
    reader, writer = await target.connect()
    with closing(writer):
        writer.write(raw_case(source).data)
        async with asyncio.timeout(1.0):
            return (await reader.read(12)).decode("ascii", "replace")


async def _deadlines(target: Target, source: random.Random) -> str:
    body = completion(source, max_tokens=1500, ignore_eos=True)
    seconds = source.choice((b"0.01", b"0.3", b"2"))
    header = (b"X-Request-Timeout", seconds)
    return await _answered(target, target.post("/v1/completions", body, header))


CLIENTS: Mapping[str, Client] = {
    "never reads": _never_reader,
    "reads a byte at a time": _one_byte_reader,
    "slow headers": _slow_headers,
    "slow body": _slow_body,
    "deflate bomb": _deflate_bomb,
    "prompt of 8 MB": _long_prompt,
    "huge lists": _huge_lists,
    "idle connections": _idle_connections,
    "garbage to sockets": _garbage,
    "wrong keys": _wrong_key,
    "n = 128": _maximum_n,
    "malformed HTTP": _malformed,
    "request timeouts": _deadlines,
}
