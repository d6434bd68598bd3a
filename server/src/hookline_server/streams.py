"""The engine's streams behind a client's request: opened, merged, never leaked."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial

import msgspec

from hookline.exceptions import EngineDeadError, PromptTooLongError, RequestError
from hookline.outputs import RequestOutput
from hookline.request import RequestFacts
from hookline.sampling_params import SamplingParams
from hookline_server.api_error import ApiError, as_api_error
from hookline_server.engine import OutputStream, ServingEngine
from hookline_server.protocol.completion import Prompt

Batch = list[tuple[int, RequestOutput]]
"""News of one moment: (number of the prompt, output)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A client's prompts, with all that the engine needs to know.

    Attributes:
        prompts: Each becomes one request.
        params: The same for all of them.
        facts: Client, tenant and priority.
        cache_salt: Keeps the prefixes apart from others'.
        kv_transfer_params: For the KV connector.
        is_streamed: Whether outputs come step by step.
        may_be_shorter: The length is our default, not the client's wish: where the
            context ends earlier, so does the completion.
    """

    prompts: Sequence[Prompt]
    params: SamplingParams
    facts: RequestFacts
    cache_salt: str | None
    is_streamed: bool
    may_be_shorter: bool = False
    kv_transfer_params: dict[str, object] | None = None


class OpenStreams:
    """All open streams of the server; a shutdown aborts the remaining ones."""

    def __init__(self) -> None:
        self._streams: set[OutputStream] = set()

    @property
    def count(self) -> int:
        """How many are open."""
        return len(self._streams)

    @asynccontextmanager
    async def opened(
        self, engine: ServingEngine, ask: Ask
    ) -> AsyncIterator[list[OutputStream]]:
        """Submits all prompts or none; on the way out what still runs is aborted."""
        streams: list[OutputStream] = []
        try:
            await self._submit_all(engine, ask, streams)
            yield streams
        finally:
            # What has not ended by now has lost its client.
            self._end(streams, "client_disconnect")

    async def _submit_all(
        self, engine: ServingEngine, ask: Ask, streams: list[OutputStream]
    ) -> None:
        try:
            with _refusal_counted(engine, ask):
                # Else the first prompts would run until the one that is too much.
                engine.check_room(len(ask.prompts) * ask.params.n)
                for prompt in ask.prompts:
                    streams.append(await _submit(engine, prompt, ask))
                    self._streams.add(streams[-1])
        except (RequestError, EngineDeadError):
            self._end(streams, "sibling_refused")
            raise

    def _end(self, streams: Sequence[OutputStream], cause: str) -> None:
        self._streams.difference_update(streams)
        for stream in streams:
            stream.abort(cause)

    def abort_all(self, cause: str) -> None:
        """Ends every request that is still open."""
        for stream in self._streams:
            stream.abort(cause)


async def whole_outputs(streams: Sequence[OutputStream]) -> list[RequestOutput]:
    """The one output of each stream that was opened without streaming."""
    return [output for stream in streams async for output in _complete(stream)]


async def merged(streams: Sequence[OutputStream]) -> AsyncGenerator[Batch, None]:
    """The outputs of all streams as they come; those that came together stay so."""
    iterators = [_complete(stream) for stream in streams]
    if len(iterators) == 1:
        async for output in iterators[0]:
            yield [(0, output)]
        return
    waiting = {_next(iterator): n for n, iterator in enumerate(iterators)}
    try:
        while waiting:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            came = {waiting.pop(task): task.result() for task in done}
            news = sorted((n, out) for n, out in came.items() if out is not None)
            waiting |= {_next(iterators[n]): n for n, _ in news}
            if news:
                yield news
    finally:
        for task in waiting:
            task.cancel()


def _next(
    iterator: AsyncIterator[RequestOutput],
) -> asyncio.Task[RequestOutput | None]:
    return asyncio.create_task(_next_or_none(iterator))


async def _next_or_none(
    iterator: AsyncIterator[RequestOutput],
) -> RequestOutput | None:
    return await anext(iterator, None)


async def _complete(stream: OutputStream) -> AsyncIterator[RequestOutput]:
    """The outputs of a stream; one that ends early has been aborted by the server."""
    is_finished = False
    async for output in stream:
        is_finished = output.finished
        yield output
    if not is_finished:
        raise ApiError(503, "the server is shutting down", code="aborted")


@contextmanager
def _refusal_counted(engine: ServingEngine, ask: Ask) -> Iterator[None]:
    """Counts an ask that is refused once, however many prompts it has."""
    try:
        yield
    except RequestError as error:
        engine.reject(ask.facts, as_api_error(error).rejection)
        raise


async def _submit(engine: ServingEngine, prompt: Prompt, ask: Ask) -> OutputStream:
    submit = partial(
        engine.submit,
        prompt,
        facts=ask.facts,
        cache_salt=ask.cache_salt,
        kv_transfer_params=ask.kv_transfer_params,
        is_streamed=ask.is_streamed,
    )
    try:
        return await submit(params=ask.params)
    except PromptTooLongError as error:
        room = error.max_model_len - error.prompt_tokens
        if room < 1:
            error.param = "prompt"
        if room < 1 or not ask.may_be_shorter:
            raise
    shorter = msgspec.structs.replace(ask.params, max_tokens=room)
    return await submit(params=shorter)
