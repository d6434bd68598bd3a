"""Delivers a request's outputs: as one response, or as server-sent events."""

import asyncio
from contextlib import aclosing

from aiohttp import web

from hookline.exceptions import EngineDeadError
from hookline_server.answers.answer import Answer
from hookline_server.api_error import ApiError, as_api_error, error_body
from hookline_server.auth.allowance import allowance_of
from hookline_server.context import ENGINE, HEAP, OPEN_STREAMS
from hookline_server.deadlines import deadline_of
from hookline_server.engine import OutputStream
from hookline_server.handlers.common import json_response
from hookline_server.protocol.wire import encode
from hookline_server.sse import EventResponse
from hookline_server.streams import Submission, merged, whole_outputs


async def deliver(
    request: web.Request, submission: Submission, answer: Answer
) -> web.StreamResponse:
    """Runs a submission; aborts it if the client leaves."""
    app = request.app
    opened = app[OPEN_STREAMS].opened(
        app[ENGINE], submission, deadline_of(request), allowance_of(request)
    )
    async with opened as streams:
        if submission.is_streamed:
            return await _stream(request, streams, answer)
        response = json_response(await answer.whole(await whole_outputs(streams)))
        app[HEAP].add(response.content_length or 0)
        return response


async def _stream(
    request: web.Request, streams: list[OutputStream], answer: Answer
) -> web.StreamResponse:
    response = EventResponse(request)
    try:
        async with aclosing(merged(streams)) as batches:
            async for batch in batches:
                await response.send(encode(chunk) for chunk in answer.chunks(batch))
        usage = answer.usage_chunk()
        await response.send([] if usage is None else [encode(usage)])
    except (ApiError, EngineDeadError) as error:
        if not response.has_started:
            raise
        # Too late for an error status: client libraries raise on this event.
        await response.send([error_body(as_api_error(error))])
    except asyncio.CancelledError:
        deadline = deadline_of(request)
        if deadline is None or not deadline.has_passed or not response.has_started:
            raise
        if request.transport is not None and request.protocol.writing_paused:
            # The client does not read, so that it would not get the error, either.
            request.transport.abort()
            raise
        await response.send([error_body(deadline.error)])
    return await response.finish()
