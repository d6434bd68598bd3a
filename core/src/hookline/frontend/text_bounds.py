"""How long a text can be and still fit into a model's context.

A text of B bytes has at least B / L tokens, if each token stands for at most L bytes of
the text. That holds for tokenizers that drop nothing, which nearly all are. The others
get a cap that is far above what texts have.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hookline.exceptions import PromptTooLongError
from hookline_processes.token_sizes import bytes_per_token

if TYPE_CHECKING:  # gateways have none, and 9 MB less
    from hookline.tokenizer import Tokenizer

_LONGEST_CHARACTER = 4
"""Bytes of the longest character in UTF-8."""


@dataclass(frozen=True, slots=True)
class TextBounds:
    """Limits on the length of a prompt's text.

    Attributes:
        max_model_len: The model's context length in tokens.
        max_bytes: Bytes above which no text fits.
        sure_chars: Characters of the longest text that fits whatever they are.
        bytes_per_token: Bytes for which a token can stand, at most; an estimate if the
            tokenizer may drop text.
    """

    max_model_len: int
    max_bytes: int
    sure_chars: int
    bytes_per_token: int

    @classmethod
    def of(cls, tokenizer: "Tokenizer", max_model_len: int) -> "TextBounds":
        """Derives the bounds from a tokenizer."""
        each = bytes_per_token(tokenizer.inner.backend_tokenizer.to_str())
        most = max_model_len * each
        return cls(max_model_len, most, most // _LONGEST_CHARACTER, each)

    def check(self, text: str) -> None:
        """Raises `PromptTooLongError` for a text that cannot fit.

        One of at most `sure_chars` need not be checked.
        """
        size = len(text)  # at most as many as bytes
        if size <= self.max_bytes:
            size = len(text.encode("utf-8", "surrogatepass"))
        if size > self.max_bytes:
            least = max(self.max_model_len + 1, -(-size // self.bytes_per_token))
            raise PromptTooLongError(least, self.max_model_len, is_minimum=True)
