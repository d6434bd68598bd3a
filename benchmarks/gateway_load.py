"""A client and an upstream that cost little, for what stands between them.

Both speak HTTP on asyncio's bare protocols: 64 streams of 20 tokens a second take each
of them a few percent of a core, so that what a gateway adds is its own time and not
theirs. Each token has the time when it was sent, on the machine's monotonic clock.
"""

import argparse
import asyncio
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

PATH = "/v1/chat/completions"
TEXT = "x" * 200

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_IS_CHUNKED = re.compile(rb"\r\ntransfer-encoding: *chunked", re.IGNORECASE)
_LAST_CHUNK = b"\r\n0\r\n\r\n"
_SENT = re.compile(rb'"t(\d+)"')
_IS_STREAM = re.compile(rb'"stream": ?true')
_USAGE = '{"prompt_tokens":50,"completion_tokens":%d,"total_tokens":%d}'
_PIECE = (
    '{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m",'
    '"choices":[{"index":0,"delta":{"content":%s},"finish_reason":%s}]}'
)
_ANSWER = (
    '{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":'
    '[{"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"stop"}],'
    '"usage":' + _USAGE % (1, 51) + "}"
)
_MODELS = '{"object":"list","data":[{"id":"m","object":"model"}]}'


class Pace(NamedTuple):
    """How an upstream answers a stream."""

    tokens: int
    seconds: float


class Upstream(asyncio.Protocol):
    """One connection: answers at once, or streams tokens at equal intervals."""

    sent_tokens = 0
    sent_answers = 0

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._in = b""
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, _: Exception | None) -> None:
        self._transport = None

    def data_received(self, data: bytes) -> None:
        self._in += data
        while (request := _message(self._in)) is not None:
            self._in = self._in[len(request) :]
            if not request.startswith(b"POST"):
                self._write(self._page(request))
            elif _IS_STREAM.search(request):
                self._begin()
            else:
                Upstream.sent_answers += 1
                self._write(_whole(_ANSWER))

    def _page(self, request: bytes) -> bytes:
        if request.startswith(b"GET /v1/models"):
            return _whole(_MODELS)
        counts = f'"tokens":{self.sent_tokens},"answers":{self.sent_answers}'
        return _whole("{" + counts + "}")

    def _begin(self) -> None:
        self._write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        self._token(0, self._loop.time())

    def _token(self, number: int, begun: float) -> None:
        if self._transport is None:
            return
        if number == self._pace.tokens:
            usage = '{"choices":[],"usage":' + _USAGE % (number, number + 50) + "}"
            ends = (_PIECE % ("null", '"stop"'), usage)
            self._write(b"".join(map(_event, (*ends, "[DONE]"))) + b"0\r\n\r\n")
            return
        Upstream.sent_tokens += 1
        self._write(_event(_PIECE % (f'"t{time.monotonic_ns()}"', "null")))
        at = begun + (number + 1) * self._pace.seconds
        self._loop.call_at(at, self._token, number + 1, begun)

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)


def _event(text: str) -> bytes:
    data = b"data: %b\n\n" % text.encode()
    return b"%x\r\n%b\r\n" % (len(data), data)


def _whole(text: str) -> bytes:
    lines = (
        "HTTP/1.1 200 OK",
        "Content-Type: application/json",
        f"Content-Length: {len(text)}",
    )
    return "\r\n".join((*lines, "", text)).encode()


def _message(data: bytes) -> bytes | None:
    """Returns the first whole message: of a length, in chunks, or without a body."""
    head, end, _ = data.partition(b"\r\n\r\n")
    if not end:
        return None
    if _IS_CHUNKED.search(head):
        end_at = data.find(_LAST_CHUNK, len(head))
        return data[: end_at + len(_LAST_CHUNK)] if end_at >= 0 else None
    length = _LENGTH.search(head)
    size = len(head) + 4 + (0 if length is None else int(length[1]))
    return data[:size] if len(data) >= size else None


@dataclass
class Times:
    """Milliseconds to the first tokens, and of tokens on their way."""

    first: list[float] = field(default_factory=list)
    token: list[float] = field(default_factory=list)

    def add(self, other: "Times") -> None:
        """Adds those of another round."""
        self.first += other.first
        self.token += other.token


class Client(asyncio.Protocol):
    """One connection, which asks anew as often as it is told."""

    def __init__(self, times: Times, model: str, headers: Sequence[str]) -> None:
        self._times = times
        self._head = "\r\n".join(
            (
                f"POST {PATH} HTTP/1.1",
                "Host: localhost",
                "Content-Type: application/json",
            )
        )
        self._headers = "".join(f"\r\n{each}" for each in headers)
        self._model = model
        self._in = b""
        self._begun = 0
        self._is_stream = self._is_first = False
        self._done: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_exception(error or ConnectionError("the answer has no end"))

    async def ask(self, *, is_stream: bool) -> None:
        """Sends a request, and waits for the end of its answer."""
        more = (
            ',"stream":true,"stream_options":{"include_usage":true}'
            if is_stream
            else ""
        )
        body = '{"model":"%s","messages":[{"role":"user","content":"%s"}]%s}'
        body %= (self._model, TEXT, more)
        head = f"{self._head}{self._headers}\r\nContent-Length: {len(body)}\r\n\r\n"
        self._is_stream = self._is_first = is_stream
        self._in = b""
        self._done = asyncio.get_running_loop().create_future()
        assert self._transport is not None
        self._begun = time.monotonic_ns()
        self._transport.write((head + body).encode())
        await self._done

    def close(self) -> None:
        """Ends the connection."""
        if self._transport is not None:
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        now = time.monotonic_ns()
        self._in += data
        if not self._is_stream:
            self._end_whole()
            return
        if self._is_first and not self._in.startswith(b"HTTP/1.1 200 "):
            self._end_whole()
            return
        at = 0
        for found in _SENT.finditer(self._in):
            at = found.end()
            if self._is_first:
                self._is_first = False
                self._times.first.append((now - self._begun) / 1e6)
            else:
                self._times.token.append((now - int(found[1])) / 1e6)
        self._in = self._in[at:]
        if self._in.endswith(_LAST_CHUNK):
            is_whole = b"[DONE]" in self._in
            self._end(
                None if is_whole else ValueError(f"a broken stream: {self._in!r}")
            )

    def _end_whole(self) -> None:
        if (answer := _message(self._in)) is not None:
            is_fine = answer.startswith(b"HTTP/1.1 200")
            self._end(None if is_fine else ValueError(f"an error: {answer!r}"))

    def _end(self, error: Exception | None) -> None:
        assert self._done is not None
        if error is None:
            self._done.set_result(None)
        else:
            self._done.set_exception(error)


class Target(NamedTuple):
    """Where a client sends what."""

    port: int
    model: str = "m"
    headers: tuple[str, ...] = ()


async def connected(target: Target, times: Times) -> Client:
    """Opens a connection."""
    loop = asyncio.get_running_loop()
    _, client = await loop.create_connection(
        lambda: Client(times, target.model, target.headers), "127.0.0.1", target.port
    )
    return client


async def streams(target: Target, number: int, each: int, pace: Pace) -> Times:
    """Keeps a number of streams open, which begin evenly in time."""
    times = Times()

    async def repeated(index: int) -> None:
        client = await connected(target, times)
        await asyncio.sleep((index + 0.5) * pace.tokens * pace.seconds / number)
        for _ in range(each):
            await client.ask(is_stream=True)
        client.close()

    await asyncio.gather(*map(repeated, range(number)))
    assert len(times.first) == number * each, "a stream began without a token"
    assert len(times.token) == number * each * (pace.tokens - 1), "tokens were lost"
    return times


async def requests(target: Target, number: int, count: int) -> float:
    """Asks so many times over a number of connections; returns the seconds."""
    clients = [await connected(target, Times()) for _ in range(number)]
    begun, left = time.monotonic(), count

    async def ask(client: Client) -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await client.ask(is_stream=False)

    await asyncio.gather(*map(ask, clients))
    for client in clients:
        client.close()
    return time.monotonic() - begun


class Relay(asyncio.Protocol):
    """One end of a relay, which passes bytes on to the other one."""

    def __init__(self, port: int | None) -> None:
        """Connects to a port for its client, or is that connection if it is None."""
        self._port = port
        self._waiting = b""
        self._connecting: asyncio.Task[None] | None = None
        self.transport: asyncio.Transport | None = None
        self.other: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        if self._port is not None:
            self._connecting = asyncio.ensure_future(self._connect(self._port))

    def data_received(self, data: bytes) -> None:
        if self.other is None:
            self._waiting += data
        else:
            self.other.write(data)

    def connection_lost(self, _: Exception | None) -> None:
        if self.other is not None:
            self.other.close()

    async def _connect(self, port: int) -> None:
        loop = asyncio.get_running_loop()
        _, end = await loop.create_connection(lambda: Relay(None), "127.0.0.1", port)
        end.other, self.other = self.transport, end.transport
        assert self.other is not None
        self.other.write(self._waiting)


async def serve(port: int, made: Callable[[], asyncio.Protocol]) -> None:
    """Serves connections on a port."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(made, "127.0.0.1", port, backlog=2048)
    await server.serve_forever()


def main() -> None:
    """Is the upstream, or a relay to it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--relay-to", type=int)
    parser.add_argument("--tokens", type=int, default=40)
    parser.add_argument("--interval", type=float, default=0.05)
    options = parser.parse_args()
    pace, to = Pace(options.tokens, options.interval), options.relay_to
    made = (lambda: Upstream(pace)) if to is None else (lambda: Relay(to))
    asyncio.run(serve(options.port, made))


if __name__ == "__main__":
    main()
