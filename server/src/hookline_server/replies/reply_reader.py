"""Turns the text of one reply into its parts."""

import codecs
from collections.abc import Callable, Iterable, Iterator, Sequence

from hookline_server.replies.guarded_parser import GuardedParser
from hookline_server.reply_parsing.parts import CallArguments, CallBegun, Content, Part

SLICE_CHARS = 4096
"""Maximum characters that are read at once."""

TokenBytes = Callable[[int], bytes]


class ReplyReader:
    """Reads one reply: first its reasoning, then the calls in its content.

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
    ) -> None:
        """Reads nothing yet.

        Args:
            reasoning: Finds the reasoning; None takes all text for content.
            tools: Finds the calls; None finds none.
            is_parallel: Whether calls after the first one count.
        """
        self._reasoning = reasoning
        self._tools = tools
        self._is_parallel = is_parallel
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

    def finish(self) -> list[Part]:
        """Returns the last parts."""
        last = [] if self._reasoning is None else self._reasoning.finish()
        parts = list(self._with_calls(last))
        if self._tools is not None:
            parts += self._tools.finish()
        return list(self._wanted(parts))

    def push(self, text: str) -> list[Part]:
        """Returns the parts that a piece completes; tokens are not counted."""
        if not text:
            return []
        parts: Sequence[Part] = [Content(text)]
        if self._reasoning is not None:
            parts = self._reasoning.push(text)
        return list(self._wanted(self._with_calls(parts)))

    def _count(self, tokens: int) -> None:
        if self._reasoning is not None and self._reasoning.is_reasoning:
            self.reasoning_tokens += tokens

    def _with_calls(self, parts: Iterable[Part]) -> Iterator[Part]:
        for part in parts:
            if self._tools is not None and isinstance(part, Content):
                yield from self._tools.push(part.text)
            else:
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
