"""How long a text can be and still fit into a model's context.

A text of B bytes has at least B / L tokens, if each token stands for at most L bytes of
the text. That holds for tokenizers that drop nothing, which nearly all are. The others
get a cap that is far above what texts have.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from hookline.exceptions import PromptTooLongError

if TYPE_CHECKING:  # gateways have none, and 9 MB less
    from hookline.tokenizer import Tokenizer

UNBOUNDED_FACTOR = 16
"""Multiple of the bound for tokenizers that may drop text."""
COMPOSING_FACTOR = 4
"""How many times shorter NFC can make a text in UTF-8, at most (3.5 in Unicode 16)."""
_LONGEST_CHARACTER = 4
"""Bytes of the longest character in UTF-8."""
_KEEPING_NORMALIZERS = {"Prepend", "NFC", "Replace", "ByteLevel"}
_KEEPING_PRE_TOKENIZERS = {"ByteLevel", "Metaspace", "Digits", "Split", "Punctuation"}

Part = Mapping[str, object]


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
        each = bytes_per_token(tokenizer)
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


def bytes_per_token(tokenizer: "Tokenizer") -> int:
    """Returns how many bytes of a text a token can stand for, at most.

    For tokenizers that may drop text it is a generous estimate.
    """
    whole = cast("Part", json.loads(tokenizer.inner.backend_tokenizer.to_str()))
    longest = _longest_token(whole)
    if not _keeps_everything(whole):
        return longest * UNBOUNDED_FACTOR
    has_nfc = any(each["type"] == "NFC" for each in _normalizers(whole))
    return longest * (COMPOSING_FACTOR if has_nfc else 1)


def _longest_token(whole: Part) -> int:
    """Returns the bytes of the longest token."""
    model = cast("Part", whole["model"])
    vocabulary = cast("Iterable[str | Sequence[str]]", model.get("vocab") or ())
    tokens = [each if isinstance(each, str) else each[0] for each in vocabulary]
    # In a byte-level vocabulary each character stands for one byte.
    size = len if _is_byte_level(whole) else _num_bytes
    added = [str(token["content"]) for token in _added_tokens(whole)]
    return max([1, *map(size, tokens), *map(_num_bytes, added)])


def _num_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _keeps_everything(whole: Part) -> bool:
    """Whether every byte of a text is part of a token."""
    return (
        all(_keeping_normalizer(each) for each in _normalizers(whole))
        and all(_keeping_pre_tokenizer(each) for each in _pre_tokenizers(whole))
        and _keeping_model(whole)
        and not any(
            token.get("lstrip") or token.get("rstrip") for token in _added_tokens(whole)
        )
    )


def _added_tokens(whole: Part) -> Sequence[Part]:
    return cast("Sequence[Part]", whole.get("added_tokens") or ())


def _is_byte_level(whole: Part) -> bool:
    parts = [*_pre_tokenizers(whole), *_normalizers(whole)]
    return any(part["type"] == "ByteLevel" for part in parts)


def _keeping_normalizer(part: Part) -> bool:
    if part["type"] != "Replace":
        return part["type"] in _KEEPING_NORMALIZERS
    pattern = cast("Part", part["pattern"])
    found = pattern.get("String")
    return isinstance(found, str) and len(str(part["content"]).encode()) >= len(
        found.encode()
    )


def _keeping_pre_tokenizer(part: Part) -> bool:
    is_removed = part.get("behavior") == "Removed"
    return part["type"] in _KEEPING_PRE_TOKENIZERS and not is_removed


def _keeping_model(whole: Part) -> bool:
    """Whether the model is a BPE that has a token for each byte."""
    model = cast("Part", whole["model"])
    affixes = ("continuing_subword_prefix", "end_of_word_suffix")
    if model.get("type") != "BPE" or any(model.get(each) for each in affixes):
        return False
    vocabulary = cast("Mapping[str, int]", model["vocab"])
    if model.get("byte_fallback"):
        return all(f"<0x{byte:02X}>" in vocabulary for byte in range(256))
    from tokenizers.pre_tokenizers import ByteLevel  # noqa: PLC0415 - as above

    has_bytes = all(char in vocabulary for char in ByteLevel.alphabet())
    return has_bytes and _is_byte_level(whole)


def _normalizers(whole: Part) -> list[Part]:
    return list(_flat(whole.get("normalizer"), "normalizers"))


def _pre_tokenizers(whole: Part) -> list[Part]:
    return list(_flat(whole.get("pre_tokenizer"), "pretokenizers"))


def _flat(part: object, children: str) -> Iterable[Part]:
    """Yields a part, or those of a sequence of parts."""
    if not isinstance(part, Mapping):
        return
    if part["type"] != "Sequence":
        yield part
        return
    for child in cast("Sequence[object]", part[children]):
        yield from _flat(child, children)
