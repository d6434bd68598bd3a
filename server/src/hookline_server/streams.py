"""The engine's output streams of a client's request: opened, merged, never leaked."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial

import msgspec

from hookline.exceptions import EngineDeadError, PromptTooLongError, RequestError
from hookline.outputs import RequestOutput
from hookline.pooling import PoolingParams
from hookline.request import RequestFacts
from hookline.sampling_params import SamplingParams
from hookline_server.api_error import ApiError, as_api_error
from hookline_server.api_servers.share import Share
from hookline_server.auth.allowance import Allowance
from hookline_server.deadlines import Deadline
from hookline_server.engine import OutputStream, ServingEngine
from hookline_server.logs.current_request import enter_span
from hookline_server.protocol.completion import Prompt

Batch = list[tuple[int, RequestOutput]]
"""Simultaneous outputs: (index of the prompt, output)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A client's prompts and everything else that the engine needs.

    Attributes:
        prompts: The prompts; each becomes one request.
        params: Sampling parameters of all prompts.
        facts: Client, tenant and priority.
        cache_salt: Salt of the prefix cache's hashes, or None.
        kv_transfer_params: Parameters for the KV connector, or None.
        client: Clients' texts are tokenized in turn.
        is_streamed: Whether outputs come step by step.
        may_be_shorter: Whether `max_tokens` may be reduced to fit the context, because
            it is a default and not the client's value.
        pooling: How the prompts are embedded; None if text is generated.
        data_parallel_rank: Index of the engine that the client named, or None.
    """

    prompts: Sequence[Prompt]
    params: SamplingParams
    facts: RequestFacts
    cache_salt: str | None
    is_streamed: bool
    may_be_shorter: bool = False
    kv_transfer_params: dict[str, object] | None = None
    client: str = ""
    pooling: PoolingParams | None = None
    data_parallel_rank: int | None = None


class OpenStreams:
    """All open streams of the server; a shutdown aborts the remaining ones."""

    def __init__(self, share: Share | None = None) -> None:
        """Starts without streams; with a share, others see their number."""
        self._streams: set[OutputStream] = set()
        self._share = share

    @property
    def count(self) -> int:
        """Number of open streams, of all servers on the port."""
        return len(self._streams) if self._share is None else self._share.num_streams

    @property
    def own_count(self) -> int:
        """Number of open streams of this server."""
        return len(self._streams)

    @asynccontextmanager
    async def opened(
        self,
        engine: ServingEngine,
        submission: Submission,
        deadline: Deadline | None = None,
        allowance: Allowance | None = None,
    ) -> AsyncIterator[list[OutputStream]]:
        """Submits all prompts or none; aborts those still running on exit.

        Their tokens are charged to the allowance.
        """
        streams: list[OutputStream] = []
        try:
            await self._submit_all(engine, submission, streams, deadline)
            if allowance is not None:
                allowance.charge(sum(each.prompt_tokens for each in streams))
            yield streams
        finally:
            if allowance is not None:
                allowance.charge(sum(each.output_tokens for each in streams))
            # A stream that has not ended by now is late, or has lost its client.
            is_late = deadline is not None and deadline.has_passed
            self._end(streams, "timeout" if is_late else "client_disconnect")

    async def _submit_all(
        self,
        engine: ServingEngine,
        submission: Submission,
        streams: list[OutputStream],
        deadline: Deadline | None,
    ) -> None:
        try:
            with _rejection_counted(engine, submission):
                # Checked first, so that no prompt runs if not all of them fit.
                engine.check_room(len(submission.prompts) * submission.params.n)
                for prompt in submission.prompts:
                    if streams:
                        await asyncio.sleep(0)  # others get their turns
                    streams.append(await _submit(engine, prompt, submission, deadline))
                    enter_span(streams[-1].facts)
                    self._streams.add(streams[-1])
                    self._changed()
        except (RequestError, EngineDeadError):
            self._end(streams, "sibling_refused")
            raise

    def _end(self, streams: Sequence[OutputStream], cause: str) -> None:
        self._streams.difference_update(streams)
        self._changed()
        for stream in streams:
            stream.abort(cause)

    def _changed(self) -> None:
        if self._share is not None:
            self._share.streams_changed(len(self._streams))

    def abort_all(self, cause: str) -> None:
        """Ends every request that is still open."""
        for stream in self._streams:
            stream.abort(cause)


async def whole_outputs(streams: Sequence[OutputStream]) -> list[RequestOutput]:
    """Returns the single output of each stream; they must not be streamed."""
    return [output for stream in streams async for output in _complete(stream)]


async def merged(streams: Sequence[OutputStream]) -> AsyncGenerator[Batch, None]:
    """Yields the outputs of all streams as they arrive, simultaneous ones together."""
    iterators = [_complete(stream) for stream in streams]
    if len(iterators) == 1:
        async for output in iterators[0]:
            yield [(0, output)]
        return
    waiting = {_next(iterator): n for n, iterator in enumerate(iterators)}
    try:
        while waiting:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            results = {waiting.pop(task): task.result() for task in done}
            batch = sorted((n, out) for n, out in results.items() if out is not None)
            waiting |= {_next(iterators[n]): n for n, _ in batch}
            if batch:
                yield batch
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
    """Yields a stream's outputs.

    Raises:
        ApiError: 503; the stream ended early, because the server aborted it.
    """
    is_finished = False
    async for output in stream:
        is_finished = output.finished
        yield output
    if not is_finished:
        raise ApiError(503, "the server is shutting down", code="aborted")


@contextmanager
def _rejection_counted(engine: ServingEngine, submission: Submission) -> Iterator[None]:
    """Counts a rejected submission once, even if it has several prompts."""
    try:
        yield
    except (RequestError, EngineDeadError) as error:
        enter_span(engine.reject(submission.facts, as_api_error(error).rejection))
        raise


async def _submit(
    engine: ServingEngine,
    prompt: Prompt,
    submission: Submission,
    deadline: Deadline | None,
) -> OutputStream:
    submit = partial(
        engine.submit,
        prompt,
        facts=submission.facts,
        cache_salt=submission.cache_salt,
        kv_transfer_params=submission.kv_transfer_params,
        is_streamed=submission.is_streamed,
        timeout_seconds=None if deadline is None else deadline.seconds_left,
        client=submission.client,
        pooling=submission.pooling,
        data_parallel_rank=submission.data_parallel_rank,
    )
    try:
        return await submit(params=submission.params)
    except PromptTooLongError as error:
        room = error.max_model_len - error.prompt_tokens
        if room < 1:
            error.param = "prompt"
        if room < 1 or not submission.may_be_shorter:
            raise
    shorter = msgspec.structs.replace(submission.params, max_tokens=room)
    return await submit(params=shorter)
