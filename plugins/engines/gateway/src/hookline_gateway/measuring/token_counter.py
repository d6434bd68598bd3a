"""Counts the tokens of answers that do not tell them, if a tokenizer is given."""

from pathlib import Path
from typing import TYPE_CHECKING

from hookline.exceptions import HooklineError
from hookline_gateway.measuring.answer_reading import Found
from hookline_gateway.measuring.texts import Prompt, texts_of

if TYPE_CHECKING:
    pass

MOST_BYTES = 4 << 20
"""Size from which on an answer is not counted."""


class TokenCounter:
    """Counts by one model's tokenizer and chat template."""

    def __init__(self, folder: Path) -> None:
        """Reads the tokenizer, which no other part of a gateway imports.

        Raises:
            ModelLoadError: The folder has none.
        """
        from hookline.tokenizer import Tokenizer  # noqa: PLC0415

        self._tokenizer: Tokenizer = Tokenizer.load(folder)

    def count(self, asked: bytes, answer: bytes, *, is_stream: bool) -> Found | None:
        """Returns the numbers of tokens; None if it cannot count both.

        It takes a while, and may be called on any thread.

        Args:
            asked: The request's body.
            answer: The answer's.
            is_stream: Whether that is a stream of events.
        """
        prompt, text = Prompt.read(asked), texts_of(answer, is_stream=is_stream)
        if prompt is None or not text:
            return None
        tokenizer = self._tokenizer
        try:
            if prompt.text is not None:
                ids = tokenizer.encode(prompt.text)
            else:
                tools = {} if prompt.tools is None else {"tools": prompt.tools}
                ids = tokenizer.render_chat(prompt.chat, variables=tools)
        except HooklineError:  # a chat that its template rejects
            return None
        output = tokenizer.encode(text, add_special_tokens=False)
        return Found(prompt_tokens=len(ids), output_tokens=len(output))


class Recount:
    """Keeps what is needed to count one request's tokens, should nobody tell them."""

    def __init__(self, counter: TokenCounter, asked: bytes) -> None:
        """Keeps the request's body."""
        self._counter = counter
        self._asked = asked
        self._answer = bytearray()
        self._is_long = False

    def see(self, piece: bytes) -> None:
        """Keeps the next bytes of the answer."""
        self._is_long = self._is_long or len(self._answer) + len(piece) > MOST_BYTES
        if not self._is_long:
            self._answer += piece

    def add_to(self, found: Found, *, is_stream: bool) -> None:
        """Counts what the answer has not told; it may be called on any thread."""
        if self._is_long or found.output_tokens is not None:
            return
        counted = self._counter.count(
            self._asked, bytes(self._answer), is_stream=is_stream
        )
        if counted is not None:
            found.prompt_tokens = counted.prompt_tokens
            found.output_tokens = counted.output_tokens
