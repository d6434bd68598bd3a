"""A text is too long before it is tokenized only if no tokens of it could fit."""

import sys
import unicodedata
from collections.abc import Callable

import pytest
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as FastTokenizer
from transformers import PreTrainedTokenizerFast

from hookline.exceptions import PromptTooLongError
from hookline.frontend.text_bounds import TextBounds
from hookline.model_description import find_folder
from hookline.tokenizer import Tokenizer
from hookline_processes.token_sizes import COMPOSING_FACTOR, UNBOUNDED_FACTOR
from hookline_processes.tokenizer_texts import byte_level_alphabet

LONGEST = "xyz" * 7


def make(edit: Callable[[FastTokenizer], None] = lambda _: None) -> Tokenizer:
    """A byte-level tokenizer whose longest token has 21 bytes."""
    vocabulary = {**byte_level_alphabet(), LONGEST: 256}
    inner = FastTokenizer(models.BPE(vocab=vocabulary, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    edit(inner)
    return Tokenizer(PreTrainedTokenizerFast(tokenizer_object=inner))


def set_nfc(inner: FastTokenizer) -> None:
    inner.normalizer = normalizers.NFC()


def set_strip(inner: FastTokenizer) -> None:
    inner.normalizer = normalizers.Strip()


def add_stripping_token(inner: FastTokenizer) -> None:
    inner.add_special_tokens([AddedToken("<mask>", lstrip=True)])


def test_the_longest_token_counts() -> None:
    """A tokenizer that keeps every byte has an exact bound."""
    assert TextBounds.of(make(), 1).bytes_per_token == len(LONGEST)


@pytest.mark.parametrize(
    ("edit", "factor"),
    [
        (set_nfc, COMPOSING_FACTOR),
        (set_strip, UNBOUNDED_FACTOR),
        (add_stripping_token, UNBOUNDED_FACTOR),
    ],
    ids=["composing", "dropping", "a token that takes the space before it"],
)
def test_tokenizers_that_shorten_text_get_more(
    edit: Callable[[FastTokenizer], None], factor: int
) -> None:
    """By how much NFC shortens at most, or generously."""
    bounds = TextBounds.of(make(edit), 1)

    assert bounds.bytes_per_token == factor * len(LONGEST)


def test_composing_shortens_less_than_assumed() -> None:
    """No character is written in more than four times its bytes."""
    longer: dict[str, str] = {}
    for code in range(sys.maxunicode + 1):
        if not 0xD800 <= code < 0xE000:
            char = chr(code)
            whole = unicodedata.normalize("NFD", char)
            if len(whole) == 1:
                longest = max(len(longer.get(whole, whole).encode()), 1)
                if len(char.encode()) >= longest:
                    longer[whole] = char
    for code in range(0x3400):
        parts = unicodedata.normalize("NFD", chr(code))
        written = sum(len(longer.get(part, part).encode()) for part in parts)
        assert written <= COMPOSING_FACTOR * len(chr(code).encode())


def test_a_text_that_may_fit_is_never_refused() -> None:
    """The bound of a real tokenizer, at its edge."""
    tokenizer = Tokenizer.load(find_folder("demo"))
    bounds = TextBounds.of(tokenizer, 64)
    longest = max(map(tokenizer.token_bytes, range(4096)), key=len).decode()

    bounds.check(longest * 64)
    with pytest.raises(PromptTooLongError, match="has at least 65 tokens") as caught:
        bounds.check("x" * (bounds.max_bytes + 1))

    assert caught.value.prompt_tokens == 65
    assert bounds.max_bytes >= 64 * len(longest)


def test_bytes_count_and_not_characters() -> None:
    """A text of fewer characters than the bound can still be too long."""
    bounds = TextBounds.of(make(), 8)
    text = "\u4e2d" * (bounds.max_bytes // 3)

    bounds.check(text)
    with pytest.raises(PromptTooLongError):
        bounds.check(text + "\u4e2d")
