"""Responses of `/v1/messages`: parts of a reply become blocks."""

import secrets
from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Raw

from hookline.outputs import CompletionOutput, RequestOutput
from hookline_server.answers.answer import Identity, UsageMeter, finish_word
from hookline_server.answers.reply import next_parts, whole_parts
from hookline_server.answers.slices import Turns
from hookline_server.engine import ServingEngine
from hookline_server.protocol.anthropic_response import (
    EMPTY_INPUT,
    AnswerBlock,
    AnswerText,
    AnswerThinking,
    AnswerToolUse,
    AnthropicMessage,
    ContentBlockDelta,
    ContentBlockStart,
    ContentBlockStop,
    InputJsonDelta,
    MessageDelta,
    MessageEnd,
    MessageStart,
    MessageStop,
    MessageUsage,
    Ping,
    TextDelta,
    ThinkingDelta,
)
from hookline_server.replies.reading import ReplyReading
from hookline_server.reply_parsing.parts import (
    CallArguments,
    CallBegun,
    Content,
    Part,
    Reasoning,
)
from hookline_server.streams import Batch

_ID_BYTES = 12


class AnthropicAnswer:
    """Creates the messages of one request."""

    def __init__(
        self, identity: Identity, engine: ServingEngine, reading: ReplyReading
    ) -> None:
        self._identity = identity
        self._token_bytes = engine.texts.token_bytes
        self._reader = reading.reader()
        self._meter = UsageMeter()
        self._has_begun = False
        self._open: type[Part] | None = None
        self._index = -1

    async def whole(self, outputs: Sequence[RequestOutput]) -> AnthropicMessage:
        """Returns the response to a request without streaming."""
        output = outputs[0]
        self._meter.add_output(0, output, n=1)
        completion = output.outputs[0]
        parts = await whole_parts(self._reader, completion, self._token_bytes, Turns())
        return self._message(_blocks(parts), self._end(completion))

    def chunks(self, batch: Batch) -> Iterator[msgspec.Struct]:
        """Yields the events of the next outputs."""
        for _, output in batch:
            if not self._has_begun:
                self._has_begun = True
                self._meter.take_prompt(0, output)
                yield MessageStart(self._message([], None))
                yield Ping()
            self._meter.add_output(0, output, n=1)
            for completion in output.outputs:
                yield from self._events(completion)

    def usage_chunk(self) -> None:
        """Returns nothing: the last events have the usage."""

    def _events(self, completion: CompletionOutput) -> Iterator[msgspec.Struct]:
        finish_word(completion)  # raises before a reply seems complete
        for part in next_parts(self._reader, completion, self._token_bytes):
            is_new = self._open is not _kind(part) or isinstance(part, CallBegun)
            if is_new:
                yield from self._closed()
                self._index += 1
                self._open = _kind(part)
                yield ContentBlockStart(self._index, _empty_block(part))
            if (delta := _delta(part)) is not None:
                yield ContentBlockDelta(self._index, delta)
        end = self._end(completion)
        if end is not None:
            yield from self._closed()
            yield MessageDelta(end, self._usage)
            yield MessageStop()

    def _closed(self) -> Iterator[ContentBlockStop]:
        if self._open is not None:
            self._open = None
            yield ContentBlockStop(self._index)

    def _end(self, completion: CompletionOutput) -> MessageEnd | None:
        """Returns why a completion ended; None if it has not."""
        word = finish_word(completion)
        if word is None:
            return None
        if word == "length":
            return MessageEnd("max_tokens", None)
        if isinstance(completion.stop_reason, str):
            return MessageEnd("stop_sequence", completion.stop_reason)
        has_calls = self._reader is not None and self._reader.has_calls
        return MessageEnd("tool_use" if has_calls else "end_turn", None)

    def _message(
        self, content: list[AnswerBlock], end: MessageEnd | None
    ) -> AnthropicMessage:
        return AnthropicMessage(
            id=self._identity.id,
            model=self._identity.model,
            content=content,
            stop_reason=None if end is None else end.stop_reason,
            stop_sequence=None if end is None else end.stop_sequence,
            usage=self._usage,
        )

    @property
    def _usage(self) -> MessageUsage:
        usage = self._meter.usage
        cached = usage.prompt_tokens_details.cached_tokens
        return MessageUsage(
            input_tokens=usage.prompt_tokens - cached,
            output_tokens=usage.completion_tokens,
            cache_read_input_tokens=cached,
        )


def _kind(part: Part) -> type[Part]:
    """Returns the kind of block that a part belongs to."""
    return CallBegun if isinstance(part, CallArguments) else type(part)


def _empty_block(part: Part) -> AnswerBlock:
    match part:
        case CallBegun(name):
            return AnswerToolUse(_call_id(part), name, EMPTY_INPUT)
        case Reasoning():
            return AnswerThinking("")
        case _:
            return AnswerText("")


def _delta(part: Part) -> TextDelta | ThinkingDelta | InputJsonDelta | None:
    match part:
        case Content(text):
            return TextDelta(text)
        case Reasoning(text):
            return ThinkingDelta(text)
        case CallArguments(text):
            return InputJsonDelta(text)
        case _:
            return None


def _blocks(parts: Sequence[Part]) -> list[AnswerBlock]:
    blocks: list[AnswerBlock] = []
    arguments: dict[int, list[str]] = {}
    for part in parts:
        match part:
            case Content(text):
                if text:
                    blocks.append(AnswerText(text))
            case Reasoning(text):
                blocks.append(AnswerThinking(text))
            case CallBegun(name):
                arguments[len(blocks)] = []
                blocks.append(AnswerToolUse(_call_id(part), name, EMPTY_INPUT))
            case CallArguments(text):
                arguments[max(arguments)].append(text)
    for index, texts in arguments.items():
        call = blocks[index]
        whole = Raw("".join(texts).encode())
        blocks[index] = msgspec.structs.replace(call, input=whole)
    return blocks


def _call_id(begun: CallBegun) -> str:
    return begun.id or f"toolu_{secrets.token_hex(_ID_BYTES)}"
