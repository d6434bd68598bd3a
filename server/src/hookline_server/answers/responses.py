"""Responses of `/v1/responses`: parts of a reply become items."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count

import msgspec
from msgspec import structs

from hookline.outputs import CompletionOutput, RequestOutput
from hookline.request import TokenLogprobs
from hookline_server.answers.answer import UsageMeter, finish_word
from hookline_server.answers.chat_logprobs import chat_logprobs
from hookline_server.answers.output_items import OutputItems
from hookline_server.answers.reply import next_parts, whole_parts
from hookline_server.answers.slices import SLICE_TOKENS, Turns
from hookline_server.answers.token_names import TokenNames
from hookline_server.api_error import ApiError
from hookline_server.engine import ServingEngine
from hookline_server.protocol.call_forms import NO_FORMS, CallForms
from hookline_server.protocol.responses_events import (
    ResponseCompleted,
    ResponseCreated,
    ResponseEvent,
    ResponseFailed,
    ResponseIncomplete,
    ResponseInProgress,
)
from hookline_server.protocol.responses_object import (
    ErrorCode,
    IncompleteDetails,
    ResponseError,
    ResponseObject,
    ResponseUsage,
    response_usage,
)
from hookline_server.replies.reading import ReplyReading
from hookline_server.streams import Batch

Keep = Callable[[ResponseObject], None]

_ERROR_CODES: dict[int, ErrorCode] = {
    400: "invalid_prompt",
    429: "rate_limit_exceeded",
}
"""Codes of errors in responses by status; others are `server_error`."""


class ResponsesAnswer:
    """Creates the response to one request, or its events."""

    def __init__(
        self,
        begun: ResponseObject,
        engine: ServingEngine,
        reading: ReplyReading,
        *,
        forms: CallForms = NO_FORMS,
        seals: bool = False,
        keep: Keep | None = None,
    ) -> None:
        """Starts without output.

        Args:
            begun: The response without any output.
            engine: Knows the tokens' texts.
            reading: How the reply is read.
            forms: How the client knows the tools.
            seals: Whether reasoning is also told as encrypted content.
            keep: Stores the response when it ends; None if it is not stored.
        """
        self._begun = begun
        self._token_bytes = engine.texts.token_bytes
        self._names = TokenNames(engine, has_ids=False)
        self._reader = reading.reader()
        self._keep = keep
        self._meter = UsageMeter()
        self._numbers = count()
        self._items = OutputItems(self._numbers, forms, seals=seals)
        self._has_begun = False

    async def whole(self, outputs: Sequence[RequestOutput]) -> ResponseObject:
        """Returns the response to a request without streaming."""
        output = outputs[0]
        self._meter.add_output(0, output, n=1)
        completion, turns = output.outputs[0], Turns()
        word = finish_word(completion)
        entries = completion.logprobs or []
        for start in range(0, len(entries), SLICE_TOKENS):
            part = entries[start : start + SLICE_TOKENS]
            self._items.take_logprobs([self._logprobs(part)])
            await turns.took(len(part))
        for each in await whole_parts(
            self._reader, completion, self._token_bytes, turns
        ):
            _skip(self._items.add_part(each))
        _skip(self._items.finish("incomplete" if word == "length" else "completed"))
        return self._ended(word)

    def chunks(self, batch: Batch) -> Iterator[ResponseEvent]:
        """Yields the events of the next outputs."""
        for _, output in batch:
            if not self._has_begun:
                self._has_begun = True
                yield ResponseCreated(next(self._numbers), self._begun)
                yield ResponseInProgress(next(self._numbers), self._begun)
            self._meter.add_output(0, output, n=1)
            for completion in output.outputs:
                yield from self._events(completion)

    def usage_chunk(self) -> None:
        """Returns nothing: the last event has the usage."""

    def failed(self, error: ApiError) -> ResponseFailed:
        """Returns the last event of a response that an error ends."""
        code = _ERROR_CODES.get(error.status, "server_error")
        what = ResponseError(code=code, message=str(error), param=error.param)
        response = structs.replace(
            self._begun,
            status="failed",
            error=what,
            output=self._items.so_far,
            usage=self._usage,
        )
        return ResponseFailed(next(self._numbers), response)

    def _events(self, completion: CompletionOutput) -> Iterator[ResponseEvent]:
        # Raises before the response seems complete.
        word = finish_word(completion)
        if completion.logprobs:
            self._items.take_logprobs([self._logprobs(completion.logprobs)])
        for part in next_parts(self._reader, completion, self._token_bytes):
            yield from self._items.add_part(part)
        if word is None:
            return
        is_short = word == "length"
        yield from self._items.finish("incomplete" if is_short else "completed")
        kind = ResponseIncomplete if is_short else ResponseCompleted
        yield kind(next(self._numbers), self._ended(word))

    def _ended(self, word: str | None) -> ResponseObject:
        is_short = word == "length"
        response = structs.replace(
            self._begun,
            status="incomplete" if is_short else "completed",
            incomplete_details=IncompleteDetails() if is_short else None,
            completed_at=None if is_short else int(time.time()),
            output=self._items.done,
            usage=self._usage,
        )
        if self._keep is not None:
            self._keep(response)
        return response

    @property
    def _usage(self) -> ResponseUsage:
        reader = self._reader
        reasoning = 0 if reader is None else reader.reasoning_tokens
        return response_usage(self._meter.usage, reasoning)

    def _logprobs(self, entries: Iterable[TokenLogprobs]) -> bytes:
        """Returns log-probabilities as JSON, without the brackets of the list."""
        return msgspec.json.encode(chat_logprobs(self._names, entries).content)[1:-1]


def _skip(events: Iterable[ResponseEvent]) -> None:
    """Discards the events of growing items."""
    for _ in events:
        pass
