"""Delivers a request's outputs: as one response, or as server-sent events."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing

import msgspec
from aiohttp import web

from hookline.exceptions import EngineDeadError, GrammarError, RefusedError
from hookline.outputs import RequestOutput
from hookline.structured_outputs import PARAM
from hookline_server.answers.answer import Answer
from hookline_server.api_error import ApiError, as_api_error
from hookline_server.context import ENGINE, OPEN_STREAMS, SETTINGS
from hookline_server.deadlines import Deadline
from hookline_server.dialects import dialect_of
from hookline_server.engine import OpenStream
from hookline_server.handlers.common import json_response
from hookline_server.heap_trimmer import HEAP
from hookline_server.request_identity import IDENTITY
from hookline_server.sse import EventResponse, KeepAlive
from hookline_server.streams import PromptBatch, merged, spaced, whole_outputs

MakeWhole = Callable[[Sequence[RequestOutput]], Awaitable[msgspec.Struct]]
MakeFailure = Callable[[ApiError], msgspec.Struct]


async def deliver(
    request: web.Request,
    batch: PromptBatch,
    answer: Answer,
    *,
    grammar_field: str = PARAM,
    failure: MakeFailure | None = None,
) -> web.StreamResponse:
    """Runs a batch; aborts it if the client leaves.

    Args:
        request: The request.
        batch: What the engine is to do.
        answer: Makes the response's parts of outputs.
        grammar_field: The request's field that leads to a grammar, for errors.
        failure: Makes the event of an error in a stream; None leaves its form to the
            dialect.
    """
    if not batch.is_streamed:
        return await deliver_whole(request, batch, answer.whole)
    app = request.app
    async with app[OPEN_STREAMS].opened(app[ENGINE], batch) as streams:
        return await _stream(request, streams, answer, grammar_field, failure)


async def deliver_whole(
    request: web.Request, batch: PromptBatch, whole: MakeWhole
) -> web.Response:
    """Runs a batch, and makes one response of its outputs."""
    app = request.app
    async with app[OPEN_STREAMS].opened(app[ENGINE], batch) as streams:
        response = json_response(await whole(await whole_outputs(streams)))
        app[HEAP].add(response.content_length or 0)
        return response


async def _stream(
    request: web.Request,
    streams: list[OpenStream],
    answer: Answer,
    grammar_field: str,
    failure: MakeFailure | None,
) -> web.StreamResponse:
    keep_alive = None
    if seconds := request.app[SETTINGS].sse_keep_alive_interval:
        count = request.app[OPEN_STREAMS].count_keep_alive
        keep_alive = KeepAlive(lambda: dialect_of(request).keep_alive, seconds, count)
    response = EventResponse(request, keep_alive)
    interval = request.app[SETTINGS].stream_interval
    async with aclosing(merged(streams)) as every:
        batches = every if interval == 1 else spaced(every, interval)
        try:
            dialect = None
            async for batch in batches:
                dialect = dialect or dialect_of(request)
                events = map(dialect.event, answer.chunks(batch))
                await response.write(b"".join(events))
            usage = answer.usage_chunk()
            if usage is not None:
                await response.write(dialect_of(request).event(usage))
        except (ApiError, EngineDeadError, RefusedError) as error:
            if not response.has_started:  # it has a response of its own
                raise
            if isinstance(error, GrammarError):
                error.param = grammar_field
            # Too late for an error status: client libraries raise on this event.
            told = _error_event(request, as_api_error(error), failure)
            await response.write(told)
        except asyncio.CancelledError:
            deadline = request[IDENTITY].deadline
            if deadline is None or not _can_be_told(request, response, deadline):
                raise
            await response.write(_error_event(request, deadline.error, failure))
        finally:
            response.stop_keep_alive()
        await response.write(dialect_of(request).done)
        return await response.write_eof()


def _error_event(
    request: web.Request, error: ApiError, failure: MakeFailure | None
) -> bytes:
    dialect = dialect_of(request)
    if failure is not None:
        return dialect.event(failure(error))
    return dialect.error_event(error, request[IDENTITY].request_id)


def _can_be_told(
    request: web.Request, response: EventResponse, deadline: Deadline
) -> bool:
    """Whether a deadline has ended a stream, and its client can still read that."""
    if not deadline.has_passed or not response.has_started:
        return False
    if request.transport is not None and request.protocol.writing_paused:
        # The client does not read, so that it would not get the error, either.
        request.transport.abort()
        return False
    return True
