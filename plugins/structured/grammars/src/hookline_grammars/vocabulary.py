"""The bytes that each token stands for."""

import re

from hookline.tokenizer import Tokenizer
from hookline_processes.tokenizer_texts import byte_level_alphabet

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_SPACE = "▁"
"""What SentencePiece writes for a space."""


def token_bytes(tokenizer: Tokenizer, vocab_size: int) -> list[bytes]:
    """Returns the bytes of each token of a model, by its id.

    They are empty for special tokens and for ids without a token: no grammar allows
    them.

    Args:
        tokenizer: The model's tokenizer.
        vocab_size: The model's number of token ids.
    """
    inner = tokenizer.inner
    spell = _byte_level if tokenizer.is_byte_level else _sentence_piece
    alphabet = byte_level_alphabet()
    added = {
        token_id: b"" if token.special else token.content.encode()
        for token_id, token in inner.added_tokens_decoder.items()
    }
    found = [b""] * vocab_size
    for text, token_id in inner.get_vocab().items():
        if token_id >= vocab_size or tokenizer.is_special(token_id):
            continue
        known = added.get(token_id)
        found[token_id] = spell(text, alphabet) if known is None else known
    return found


def _byte_level(text: str, alphabet: dict[str, int]) -> bytes:
    known = [alphabet.get(char) for char in text]
    return bytes(byte for byte in known if byte is not None)


def _sentence_piece(text: str, _: dict[str, int]) -> bytes:
    if (match := _BYTE.fullmatch(text)) is not None:
        return bytes([int(match[1], 16)])
    return text.replace(_SPACE, " ").encode()
