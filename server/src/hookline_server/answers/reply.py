"""Converts the parts of a reply to messages: at once, or as deltas of a stream."""

import secrets
from collections.abc import Iterable, Iterator

from msgspec import UNSET

from hookline.outputs import CompletionOutput
from hookline.request import FinishReason
from hookline_server.answers.slices import Turns
from hookline_server.protocol.chat import (
    AnswerCall,
    AnswerFunction,
    AnswerMessage,
    Delta,
)
from hookline_server.replies.reading import ReplyReading
from hookline_server.replies.reply_reader import ReplyReader, TokenBytes, joined
from hookline_server.reply_parsing.parts import (
    CallArguments,
    CallBegun,
    Content,
    Part,
    Reasoning,
)

_ID_BYTES = 12


class WholeReply:
    """Collects the parts of a reply."""

    def __init__(self, *, is_legacy: bool, shows_reasoning: bool) -> None:
        """Collects nothing yet.

        Args:
            is_legacy: Whether the client knows `function_call` only.
            shows_reasoning: Whether the client gets the reasoning.
        """
        self._is_legacy = is_legacy
        self._shows_reasoning = shows_reasoning
        self._content: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[tuple[CallBegun, list[str]]] = []

    def add(self, parts: Iterable[Part]) -> None:
        """Adds the next parts."""
        for part in parts:
            match part:
                case Content(text):
                    self._content.append(text)
                case Reasoning(text):
                    self._reasoning.append(text)
                case CallBegun():
                    self._calls.append((part, []))
                case CallArguments(text):
                    self._calls[-1][1].append(text)

    def message(self) -> AnswerMessage:
        """Returns the whole message."""
        calls = [
            (begun, AnswerFunction(name=begun.name, arguments="".join(arguments)))
            for begun, arguments in self._calls
        ]
        reasoning = "".join(self._reasoning) if self._shows_reasoning else ""
        content = "".join(self._content)
        has_other = bool(calls or self._reasoning)
        return AnswerMessage(
            content=None if has_other and not content else content,
            tool_calls=(
                UNSET
                if self._is_legacy or not calls
                else [
                    AnswerCall(id=call_id(begun), type="function", function=function)
                    for begun, function in calls
                ]
            ),
            function_call=calls[0][1] if self._is_legacy and calls else UNSET,
            reasoning_content=reasoning or UNSET,
            reasoning=reasoning or UNSET,
        )


class ReplyStream:
    """Converts a streamed reply as it arrives."""

    def __init__(self, reading: ReplyReading, token_bytes: TokenBytes) -> None:
        """Converts nothing yet.

        Args:
            reading: How replies are read.
            token_bytes: Returns the bytes of a token.
        """
        self._is_legacy = reading.use.is_legacy
        self._shows_reasoning = reading.shows_reasoning
        self._reader = reading.reader()
        self._token_bytes = token_bytes
        self._calls = 0

    @property
    def has_calls(self) -> bool:
        return self._calls > 0

    @property
    def reasoning_tokens(self) -> int:
        """Tokens of the reasoning so far."""
        return 0 if self._reader is None else self._reader.reasoning_tokens

    def deltas(
        self, completion: CompletionOutput, *, wants_tokens: bool
    ) -> Iterator[Delta]:
        """Yields the deltas of the next output; at least one if token ids are shown."""
        if self._reader is None:
            if completion.text or completion.token_ids:
                yield Delta(content=completion.text)
            return
        has_delta = False
        for delta in self._of(next_parts(self._reader, completion, self._token_bytes)):
            has_delta = True
            yield delta
        if wants_tokens and completion.token_ids and not has_delta:
            yield Delta()

    def _of(self, parts: Iterable[Part]) -> Iterator[Delta]:
        for part in parts:
            match part:
                case Content(text):
                    yield Delta(content=text)
                case Reasoning(text):
                    if self._shows_reasoning:
                        yield Delta(reasoning_content=text, reasoning=text)
                case CallBegun(name):
                    self._calls += 1
                    function = AnswerFunction(name=name, arguments="")
                    yield self._delta(function, part)
                case CallArguments(text):
                    yield self._delta(AnswerFunction(arguments=text), None)

    def _delta(self, function: AnswerFunction, begun: CallBegun | None) -> Delta:
        if self._is_legacy:
            return Delta(function_call=function)
        call = AnswerCall(
            index=self._calls - 1,
            id=UNSET if begun is None else call_id(begun),
            type=UNSET if begun is None else "function",
            function=function,
        )
        return Delta(tool_calls=[call])


def next_parts(
    reader: ReplyReader | None, completion: CompletionOutput, token_bytes: TokenBytes
) -> list[Part]:
    """Returns the parts that a streamed reply's next output completes.

    Args:
        reader: Reads the reply; None takes all text for content.
        completion: The output.
        token_bytes: Returns the bytes of a token.
    """
    text, token_ids = completion.text, completion.token_ids
    if reader is None:
        return [Content(text)] if text else []
    found = [
        part for some in reader.read(text, token_ids, token_bytes) for part in some
    ]
    if completion.finish_reason is not None:
        found += reader.finish(is_cut=is_cut(completion))
    return joined(found)


async def whole_parts(
    reader: ReplyReader | None,
    completion: CompletionOutput,
    token_bytes: TokenBytes,
    turns: Turns,
) -> list[Part]:
    """Returns the parts of a whole reply; others get their turns between slices.

    Args:
        reader: Reads the reply; None takes all text for content.
        completion: The reply.
        token_bytes: Returns the bytes of a token.
        turns: Counts the slices.
    """
    text, token_ids = completion.text, completion.token_ids
    if reader is None:
        return [Content(text)] if text else []
    parts: list[Part] = []
    for some in reader.read(text, token_ids, token_bytes):
        parts += some
        await turns.took(1)
    return joined(parts + reader.finish(is_cut=is_cut(completion)))


def is_cut(completion: CompletionOutput) -> bool:
    """Returns whether a reply ended where the model had more to say."""
    return completion.finish_reason is not FinishReason.STOP


def call_id(begun: CallBegun) -> str:
    """Returns the id of a call: the model's, or a new one."""
    return begun.id or f"call_{secrets.token_hex(_ID_BYTES)}"
