"""Sends one request to an OpenAI endpoint and measures its stream."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import aiohttp
import msgspec

from hookline_bench.answer import Answer, TokenTimes
from hookline_bench.event_reader import EventReader, EventStreamError
from hookline_bench.random_prompts import Prompt

MOST_ERROR_TEXT = 500
OK = 200

Clock = Callable[[], float]


class Backend(StrEnum):
    """The API of the requests."""

    OPENAI = "openai"
    OPENAI_CHAT = "openai-chat"


ENDPOINTS: Mapping[Backend, str] = {
    Backend.OPENAI: "/v1/completions",
    Backend.OPENAI_CHAT: "/v1/chat/completions",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The target of the requests, and their common fields.

    Attributes:
        fields: Additional fields of every body; they override the benchmark's own.
        has_counts: Ask the server for the number of tokens in each chunk.
    """

    url: str
    backend: Backend
    model: str
    ignore_eos: bool = True
    has_counts: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, object] = field(default_factory=dict)

    def body(self, prompt: Prompt) -> bytes:
        """Returns the body of a request as JSON."""
        options = {"include_usage": True}
        if self.has_counts:
            options["continuous_usage_stats"] = True
        body: dict[str, object] = {
            "model": self.model,
            "max_tokens": prompt.output_tokens,
            "stream": True,
            "stream_options": options,
        }
        if self.backend is Backend.OPENAI_CHAT:
            body["messages"] = prompt.messages or [
                {"role": "user", "content": prompt.content}
            ]
        else:
            body["prompt"] = prompt.content
        if self.ignore_eos:
            body["ignore_eos"] = True
        return msgspec.json.encode({**body, **self.fields})


class Client:
    """Sends requests to an endpoint over a shared session."""

    def __init__(
        self, session: aiohttp.ClientSession, endpoint: Endpoint, clock: Clock
    ) -> None:
        self._session = session
        self._endpoint = endpoint
        self._clock = clock
        self._headers = {"Content-Type": "application/json", **endpoint.headers}

    async def ask(self, prompt: Prompt, *, due_at: float | None = None) -> Answer:
        """Sends a request and reads its stream; a failure is an answer, too."""
        body = self._endpoint.body(prompt)
        sent_at = self._clock()
        tokens = TokenTimes()
        error: str | None = None
        try:
            await self._stream(body, tokens)
            if not tokens.times:
                error = "the stream brought no token"
        except (aiohttp.ClientError, EventStreamError, OSError) as failure:
            error = f"{type(failure).__name__}: {failure}".removesuffix(": ")
        counts = tokens.counts()
        total = tokens.completion_tokens
        return Answer(
            due_at=sent_at if due_at is None else due_at,
            sent_at=sent_at,
            ended_at=self._clock(),
            prompt_tokens=tokens.prompt_tokens or prompt.prompt_tokens,
            output_tokens=sum(counts) if total is None else total,
            cached_tokens=tokens.cached_tokens or 0,
            times=tokens.times,
            counts=counts,
            error=error,
        )

    async def _stream(self, body: bytes, tokens: TokenTimes) -> None:
        async with self._session.post(
            self._endpoint.url, data=body, headers=self._headers
        ) as response:
            if response.status != OK:
                raise EventStreamError(await _refusal(response))
            reader = EventReader()
            while data := await response.content.readany():
                now = self._clock()
                for payload in reader.feed(data):
                    tokens.take(payload, now)
            now = self._clock()
            for payload in reader.finish():
                tokens.take(payload, now)


async def _refusal(response: aiohttp.ClientResponse) -> str:
    text = (await response.content.read(MOST_ERROR_TEXT)).decode("utf-8", "replace")
    return f"{response.status} {response.reason}: {' '.join(text.split())}"
