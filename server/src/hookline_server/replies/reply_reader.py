"""Turns the text of one reply into its parts."""

import codecs
from collections.abc import Callable, Iterable, Iterator, Sequence

from hookline_server.replies.guarded_parser import GuardedParser
from hookline_server.reply_parsing.parts import CallArguments, CallBegun, Content, Part

SLICE_CHARS = 4096
"""Maximum characters that are read at once."""

TokenBytes = Callable[[int], bytes]


class ReplyReader:
    """Reads one reply: first its calls, and then the reasoning in the rest.

    So a call ends the reasoning in every format, and what a call's arguments say is
    never taken for a tag. A forced call takes up all that follows the reasoning.

    Attributes:
        has_calls: Whether a call has begun.
        reasoning_tokens: Tokens of the reasoning so far.
    """

    def __init__(
        self,
        reasoning: GuardedParser | None,
        tools: GuardedParser | None,
        *,
        is_parallel: bool = True,
        is_forced: bool = False,
    ) -> None:
        """Reads nothing yet.

        Args:
            reasoning: Finds the reasoning; None takes all text for content.
            tools: Finds the calls; None finds none.
            is_parallel: Whether calls after the first one count.
            is_forced: Whether the text after the reasoning is a call.
        """
        self._reasoning = reasoning
        self._tools = tools
        self._is_parallel = is_parallel
        self._is_forced = is_forced
        if reasoning is not None and tools is not None:
            reasoning.follow(tools)
        self._calls = 0
        self.reasoning_tokens = 0

    @property
    def has_calls(self) -> bool:
        return self._calls > 0

    def read(
        self, text: str, token_ids: Sequence[int], token_bytes: TokenBytes
    ) -> Iterator[list[Part]]:
        """Yields the parts of the next piece of text, slice by slice.

        Args:
            text: The text.
            token_ids: Its tokens.
            token_bytes: Returns the bytes of a token.
        """
        if self._reasoning is None:
            for start in range(0, len(text), SLICE_CHARS):
                yield self.push(text[start : start + SLICE_CHARS])
            return
        if len(token_ids) < 2:
            yield self.push(text)
            self._count(len(token_ids))
            return
        for piece in _by_token(text, token_ids, token_bytes):
            yield self.push(piece)
            self._count(1)

    def finish(self, *, is_cut: bool = False) -> list[Part]:
        """Returns the last parts; `is_cut` if the reply was cut short."""
        first, second = self._tools, self._reasoning
        if self._is_forced:
            first, second = second, first
        parts: list[Part] = []
        if first is not None:
            parts += self._passed_on(first.finish(is_cut=is_cut), second)
        if second is not None:
            parts += second.finish(is_cut=is_cut)
        return list(self._wanted(parts))

    def push(self, text: str) -> list[Part]:
        """Returns the parts that a piece completes; tokens are not counted."""
        if not text:
            return []
        first, second = self._tools, self._reasoning
        if self._is_forced:
            first, second = second, first
        parts: Sequence[Part] = [Content(text)] if first is None else first.push(text)
        return list(self._wanted(self._passed_on(parts, second)))

    def _count(self, tokens: int) -> None:
        parsers = (self._tools, self._reasoning)
        if any(each is not None and each.is_reasoning for each in parsers):
            self.reasoning_tokens += tokens

    def _passed_on(
        self, parts: Iterable[Part], second: GuardedParser | None
    ) -> Iterator[Part]:
        """Yields the parts of the first parser, after the second has read the text."""
        for part in parts:
            if second is not None and isinstance(part, Content):
                yield from second.push(part.text)
                continue
            if second is not None and isinstance(part, CallBegun):
                yield from second.call_begun()
            yield part

    def _wanted(self, parts: Iterable[Part]) -> Iterator[Part]:
        """Leaves out empty parts, and surplus calls."""
        for part in parts:
            if isinstance(part, CallBegun):
                self._calls += 1
            elif not part.text:
                continue
            is_of_call = isinstance(part, CallBegun | CallArguments)
            if self._is_parallel or self._calls < 2 or not is_of_call:
                yield part


def joined(parts: Iterable[Part]) -> list[Part]:
    """Joins neighbours of one kind."""
    found: list[Part] = []
    for part in parts:
        last = found[-1] if found else None
        if (
            last is None
            or isinstance(part, CallBegun)
            or isinstance(last, CallBegun)
            or type(last) is not type(part)
        ):
            found.append(part)
        else:
            found[-1] = type(part)(last.text + part.text)
    return found


def _by_token(
    text: str, token_ids: Sequence[int], token_bytes: TokenBytes
) -> Iterator[str]:
    """Splits a text where its tokens end, as far as their bytes show it."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    data, at = text.encode("utf-8", "replace"), 0
    for token_id in token_ids[:-1]:
        size = len(token_bytes(token_id))
        yield decoder.decode(data[at : at + size])
        at += size
    yield decoder.decode(data[at:], final=True)
