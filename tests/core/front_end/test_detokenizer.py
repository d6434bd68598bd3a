"""Streaming tokens gives the whole text, and never half a character."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as FastTokenizer
from tokenizers import decoders, models, normalizers
from transformers import PreTrainedTokenizerFast

from hookline.frontend.detokenizer import (
    ByteDetokenizer,
    Detokenizer,
    WindowDetokenizer,
    make_detokenizer,
)
from hookline.tokenizer import Tokenizer
from hookline_testing import save_byte_tokenizer

REPLACEMENT = "\ufffd"
MANY = settings(
    max_examples=300,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
TEXTS = st.text(
    st.sampled_from("ab c\n▁<é€𝄞👩\u200d👧日ß\u0301"), max_size=30
) | st.text(max_size=12)


@pytest.fixture(scope="module")
def byte_level(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """256 tokens, one a byte, and a special one."""
    folder: Path = tmp_path_factory.mktemp("bytes")
    save_byte_tokenizer(folder)
    inner = PreTrainedTokenizerFast.from_pretrained(folder)
    inner.add_special_tokens({"eos_token": "<end>"})
    return Tokenizer(inner)


@pytest.fixture(scope="module")
def sentencepiece(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """A BPE with spaces as ▁ and unknown characters as bytes, as Llama 2 has it."""
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    pieces += ["▁", "a", "b", "c", "é", "ab", "▁a", "▁ab", "▁▁", "日"]
    merges = [("a", "b"), ("▁", "a"), ("▁", "ab"), ("▁", "▁")]
    inner = FastTokenizer(
        models.BPE(
            vocab={piece: index for index, piece in enumerate(pieces)},
            merges=merges,
            unk_token="<unk>",  # noqa: S106 - no password
            byte_fallback=True,
            fuse_unk=True,
        )
    )
    inner.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    inner.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    folder: Path = tmp_path_factory.mktemp("pieces")
    special = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, **special)
    tokenizer.save_pretrained(folder)
    (folder / "config.json").write_text('{"model_type": "llama"}')
    return Tokenizer(PreTrainedTokenizerFast.from_pretrained(folder))


def stream(detokenizer: Detokenizer, token_ids: list[int], sizes: list[int]) -> str:
    """Pushes tokens in pieces of these sizes; every piece ends in whole characters."""
    text, rest = "", list(token_ids)
    for size in [*sizes, *[1] * len(rest)]:
        piece, rest = rest[:size], rest[size:]
        text += detokenizer.push(piece)
    return text + detokenizer.flush()


@MANY
@given(
    data=st.binary(max_size=40) | TEXTS.map(str.encode),
    sizes=st.lists(st.integers(0, 5), max_size=12),
)
def test_bytes_stream_to_the_whole_text(
    byte_level: Tokenizer, data: bytes, sizes: list[int]
) -> None:
    """Any bytes, invalid ones too, become what decoding them all at once gives."""
    token_of = {byte_level.token_bytes(token)[0]: token for token in range(256)}
    detokenizer = make_detokenizer(byte_level, [1], skip_special_tokens=True)

    text = stream(detokenizer, [token_of[byte] for byte in data], sizes)

    assert isinstance(detokenizer, ByteDetokenizer)
    assert text == data.decode("utf-8", "replace")


@MANY
@given(text=TEXTS)
def test_no_piece_holds_half_a_character(byte_level: Tokenizer, text: str) -> None:
    """Each byte of a text brings nothing or a whole character of it."""
    detokenizer = make_detokenizer(byte_level, [1], skip_special_tokens=True)

    pieces = [detokenizer.push([token]) for token in byte_level.encode(text)]

    assert [piece for piece in pieces if piece] == list(text)
    assert detokenizer.flush() == ""


@pytest.mark.parametrize("skips", [True, False])
def test_special_tokens_are_skipped_unless_requested(
    byte_level: Tokenizer, skips: bool
) -> None:
    """A special token is left out, or appears by its name."""
    tokens = [*byte_level.encode("a"), 256, *byte_level.encode("b")]
    detokenizer = make_detokenizer(byte_level, [1], skip_special_tokens=skips)

    assert stream(detokenizer, tokens, []) == ("ab" if skips else "a<end>b")


def test_ids_without_a_token_have_no_text(byte_level: Tokenizer) -> None:
    """A model's vocabulary may be larger than its tokenizer's."""
    assert byte_level.token_bytes(4000) == b""
    assert byte_level.decode([4000]) == ""


@MANY
@given(prompt=TEXTS, text=TEXTS, sizes=st.lists(st.integers(0, 5), max_size=12))
def test_pieces_stream_to_the_whole_text(
    sentencepiece: Tokenizer, prompt: str, text: str, sizes: list[int]
) -> None:
    """Behind any prompt, tokens of any text give that text, spaces included."""
    before = sentencepiece.encode(prompt) or [1]
    tokens = sentencepiece.encode(text)
    detokenizer = make_detokenizer(sentencepiece, before, skip_special_tokens=True)

    streamed = stream(detokenizer, tokens, sizes)

    assert isinstance(detokenizer, WindowDetokenizer)
    whole = sentencepiece.decode(before + tokens, skip_special_tokens=True)
    start = sentencepiece.decode(before, skip_special_tokens=True)
    assert start + streamed == whole


@MANY
@given(text=TEXTS)
def test_no_piece_ends_within_a_character(sentencepiece: Tokenizer, text: str) -> None:
    """What a token brings is the next part of the text, behind the first space."""
    tokens = sentencepiece.encode(text)
    detokenizer = make_detokenizer(sentencepiece, [260], skip_special_tokens=True)

    streamed = ""
    for token in tokens:
        streamed += detokenizer.push([token])
        assert text.replace("▁", " ").startswith(streamed[1:])

    assert streamed[1:] + detokenizer.flush() == text.replace("▁", " ")


@MANY
@given(tokens=st.lists(st.integers(0, 268), max_size=25))
def test_any_tokens_stream_their_valid_characters(
    sentencepiece: Tokenizer, tokens: list[int]
) -> None:
    """Bytes that are no text never cost a character that stands for itself."""
    detokenizer = make_detokenizer(sentencepiece, [260], skip_special_tokens=True)

    streamed = stream(detokenizer, tokens, [])

    whole = sentencepiece.decode([260, *tokens], skip_special_tokens=True)[1:]
    characters = iter(streamed)
    assert all(char in characters for char in whole.replace(REPLACEMENT, ""))
    assert (REPLACEMENT in whole) or streamed == whole


def test_hopeless_bytes_are_not_held_back_for_ever(sentencepiece: Tokenizer) -> None:
    """Bytes that can never become a character are given out after a few tokens."""
    detokenizer = make_detokenizer(sentencepiece, [1], skip_special_tokens=True)

    pieces = [detokenizer.push([3 + 0xFF]) for _ in range(30)]

    assert len("".join(pieces)) >= 25
    assert set("".join(pieces)) == {REPLACEMENT}
