"""The engine's output streams of a client's request: opened, merged, never leaked."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from hookline.clock import NANOSECONDS
from hookline.exceptions import EngineDeadError, RequestError
from hookline.frontend.stop_strings import StopScope
from hookline.outputs import RequestOutput
from hookline.request import GenerateRequest
from hookline_metrics.front_end_parts import StreamStats
from hookline_server.api_error import ApiError
from hookline_server.api_servers.share import Share
from hookline_server.engine import OpenStream, ServingEngine
from hookline_server.request_identity import RequestIdentity

Batch = list[tuple[int, RequestOutput]]
"""Simultaneous outputs: (index of the prompt, output)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptBatch:
    """The requests for the engine that a client's request becomes, one per prompt.

    Attributes:
        requests: The requests.
        identity: Who asks for all of them.
        arrived_at: When they arrived, in monotonic ns.
        is_streamed: Whether outputs come step by step.
        data_parallel_rank: Index of the engine that the client named, or None.
        stop_scopes: Where stop strings count in each request's text; empty if they do
            in all of it.
    """

    requests: Sequence[GenerateRequest]
    identity: RequestIdentity
    arrived_at: int
    is_streamed: bool
    data_parallel_rank: int | None = None
    stop_scopes: Sequence[StopScope] = ()


class OpenStreams:
    """All open streams of the server; a shutdown aborts the remaining ones."""

    def __init__(self, share: Share | None = None) -> None:
        """Starts without streams; with a share, others see their number."""
        self._streams: set[OpenStream] = set()
        self._share = share
        self._keep_alives = 0

    @property
    def count(self) -> int:
        """Number of open streams, of all servers on the port."""
        return len(self._streams) if self._share is None else self._share.num_streams

    @property
    def own_count(self) -> int:
        """Number of open streams of this server."""
        return len(self._streams)

    def count_keep_alive(self) -> None:
        """Counts what was sent only to keep a stream alive."""
        self._keep_alives += 1

    def stats(self) -> StreamStats:
        """Totals since the start."""
        return StreamStats(keep_alives=self._keep_alives)

    @asynccontextmanager
    async def opened(
        self, engine: ServingEngine, batch: PromptBatch
    ) -> AsyncIterator[list[OpenStream]]:
        """Sends all requests or none; aborts those still running on exit.

        Their tokens are charged to the allowance.
        """
        deadline, allowance = batch.identity.deadline, batch.identity.allowance
        streams: list[OpenStream] = []
        try:
            await self._add_all(engine, batch, streams)
            if allowance is not None:
                allowance.charge(sum(each.prompt_tokens for each in streams))
            yield streams
        finally:
            if allowance is not None:
                allowance.charge(sum(each.output_tokens for each in streams))
            # A stream that has not ended by now is late, or has lost its client.
            is_late = deadline is not None and deadline.has_passed
            self._end(streams, "timeout" if is_late else "client_disconnect")

    async def _add_all(
        self, engine: ServingEngine, batch: PromptBatch, streams: list[OpenStream]
    ) -> None:
        requests, identity = batch.requests, batch.identity
        ends_at = None
        if identity.deadline is not None:  # on the engine's clock, too
            ends_at = round(identity.deadline.at * NANOSECONDS)
        try:
            if len(requests) > 1:  # so that none runs if not all of them fit
                engine.check_room(sum(each.params.n for each in requests))
            for request in requests:
                if streams:
                    await asyncio.sleep(0)  # others get their turns
                stream = engine.add(
                    request,
                    arrived_at=batch.arrived_at,
                    is_streamed=batch.is_streamed,
                    ends_at=ends_at,
                    data_parallel_rank=batch.data_parallel_rank,
                )
                if batch.stop_scopes:
                    stream.scope_stops(batch.stop_scopes[len(streams)])
                streams.append(stream)
                identity.enter_span(stream.facts)
                self._streams.add(stream)
                if self._share is not None:
                    self._share.streams_changed(len(self._streams))
        except (RequestError, EngineDeadError):
            self._end(streams, "sibling_refused")
            raise
        identity.is_rejectable = False

    def _end(self, streams: Sequence[OpenStream], cause: str) -> None:
        self._streams.difference_update(streams)
        if self._share is not None:
            self._share.streams_changed(len(self._streams))
        for stream in streams:
            stream.abort(cause)

    def abort_all(self, cause: str) -> None:
        """Ends every request that is still open."""
        for stream in self._streams:
            stream.abort(cause)


async def whole_outputs(streams: Sequence[OpenStream]) -> list[RequestOutput]:
    """Returns the single output of each stream; they must not be streamed."""
    return [output for stream in streams async for output in _complete(stream)]


async def merged(streams: Sequence[OpenStream]) -> AsyncGenerator[Batch, None]:
    """Yields the outputs of all streams as they arrive, simultaneous ones together.

    Raises:
        ApiError: 503; a stream ended early, because the server aborted it.
    """
    if len(streams) == 1:
        is_finished = False
        async for output in streams[0]:
            is_finished = output.finished
            yield [(0, output)]
        if not is_finished:
            raise _aborted()
        return
    iterators = [_complete(stream) for stream in streams]
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


async def spaced(
    batches: AsyncIterator[Batch], interval: int
) -> AsyncGenerator[Batch, None]:
    """Yields outputs once they have a number of tokens; the first and last at once.

    Args:
        batches: Simultaneous outputs.
        interval: Number of tokens, of any completion of a prompt.
    """
    held: dict[int, RequestOutput] = {}
    async for batch in batches:
        ready: Batch = []
        for number, output in batch:
            before = held.pop(number, None)
            whole = output if before is None else before.followed_by(output)
            if _is_due(whole, interval):
                ready.append((number, whole))
            else:
                held[number] = whole
        if ready:
            yield ready


def _is_due(output: RequestOutput, interval: int) -> bool:
    return output.finished or any(
        each.finish_reason is not None
        or len(each.token_ids) >= interval
        or each.output_tokens == len(each.token_ids)  # the first
        for each in output.outputs
    )


def _next(
    iterator: AsyncIterator[RequestOutput],
) -> asyncio.Task[RequestOutput | None]:
    return asyncio.create_task(_next_or_none(iterator))


async def _next_or_none(
    iterator: AsyncIterator[RequestOutput],
) -> RequestOutput | None:
    return await anext(iterator, None)


async def _complete(stream: OpenStream) -> AsyncIterator[RequestOutput]:
    """Yields a stream's outputs.

    Raises:
        ApiError: 503; the stream ended early, because the server aborted it.
    """
    is_finished = False
    async for output in stream:
        is_finished = output.finished
        yield output
    if not is_finished:
        raise _aborted()


def _aborted() -> ApiError:
    return ApiError(503, "the server is shutting down", code="aborted")
