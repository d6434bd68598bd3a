"""Tokenizers in GGUF files split and merge texts as those they were made of."""

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import gguf
import pytest
from gguf import GGMLQuantizationType as Kind
from tokenizers import Tokenizer as Backend
from transformers import LlamaConfig

from hookline.config import EngineConfig, ModelConfig
from hookline.tokenizer import Tokenizer
from hookline_demo_model import folder as demo_folder
from hookline_description.describing import describe
from hookline_description.locating import located
from hookline_gguf.tokenizer import SPLITS
from hookline_testing.gguf_files import GgufFile

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
TEXTS = (
    "def f(x):\n    return x  # naïve\n",
    "It's 12345 o'clock; HelloWorld, I'LL\tgo!\r\n\r\n   end  ",
    "日本語 and 😀🏽 and \u202e and e\u0301",
    "<|im_start|>user\nHi<|im_end|>",
    "",
    " ",
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def written(folder: Path, metadata: Mapping[str, object], vocab: int = 320) -> Path:
    """Writes a small model with this metadata; returns the folder that describes it."""
    config = LlamaConfig(
        vocab_size=vocab,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=64,
        eos_token_id=None,
    )
    file = GgufFile(folder, config, Kind.F16)
    [values] = file.writer.kv_data
    for key, value in metadata.items():
        values.pop(key, None)
        if isinstance(value, list):
            file.writer.add_array(key, value)
        elif isinstance(value, int) and not isinstance(value, bool):
            file.writer.add_uint32(key, value)
        else:
            kind = gguf.GGUFValueType.get_type(value)
            file.writer.add_key_value(key, value, kind)
    model = ModelConfig(model=str(file.write()))
    return Path(located(EngineConfig(model=model)).model.model)


def of_demo() -> dict[str, object]:
    """The demo model's tokenizer, as converters write it."""
    made = json.loads((demo_folder() / "tokenizer.json").read_text())
    ids = {**made["model"]["vocab"]}
    special = {each["content"]: each["id"] for each in made["added_tokens"]}
    texts = {token_id: text for text, token_id in {**ids, **special}.items()}
    tokens = [texts.get(each, f"[PAD{each}]") for each in range(max(texts) + 1)]
    kinds = [
        CONTROL if text in special else NORMAL if text in ids else UNUSED
        for text in tokens
    ]
    merges = made["model"]["merges"]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.merges": [" ".join(each) for each in merges],
        "tokenizer.ggml.eos_token_id": special["<|endoftext|>"],
        "tokenizer.ggml.eot_token_id": special["<|im_end|>"],
        "tokenizer.chat_template": "{{ messages[0].content }}",
        "tokenizer.chat_template.rag": "named",
        "general.sampling.temp": 0.6,
        "general.sampling.top_k": 20,
        "general.sampling.top_p": 0.95,
        "general.sampling.penalty_repeat": 1.05,
    }


def test_byte_level_tokens_are_the_original_ones(tmp_path: Path) -> None:
    """Ids, texts, special tokens, stops, templates and sampling are the model's."""
    metadata = of_demo()
    expected = Tokenizer.load(demo_folder())

    folder = written(tmp_path, metadata, vocab=4096)
    found = Tokenizer.load(folder)

    for text in TEXTS:
        ids = expected.encode(text)
        assert found.encode(text) == ids
        assert found.decode(ids) == expected.decode(ids)
    assert found.special_texts == expected.special_texts
    assert found.is_byte_level
    assert found.render_chat([{"role": "user", "content": "Hi"}]) == found.encode("Hi")
    named = folder / "additional_chat_templates" / "rag.jinja"
    assert named.read_text() == "named"
    description = describe(ModelConfig(model=str(folder)))
    assert description.eos_token_ids == (0, 2)
    assert dict(description.sampling.values) == {
        "temperature": 0.6,
        "top_k": 20,
        "top_p": 0.95,
        "repetition_penalty": 1.05,
    }


@pytest.mark.parametrize(
    ("rule", "text", "parts"),
    [
        ("gpt-2", "it's 1234 I'LL", ["it", "'s", " 1234", " I", "'", "LL"]),
        (
            "llama-bpe",
            "it'S 1234 (x)\n\n",
            ["it", "'S", " ", "123", "4", " (", "x", ")\n\n"],
        ),
        ("qwen2", "a 12\n b", ["a", " ", "1", "2", "\n", " b"]),
        ("smollm", "a 12b", ["a", " ", "1", "2", "b"]),
        ("dbrx", "1234", ["123", "4"]),
        (
            "tekken",
            "HelloWorld 12 it's",
            ["Hello", "World", " ", "1", "2", " it", "'s"],
        ),
        (
            "gpt-4o",
            "HelloWorld it's 1234",
            ["Hello", "World", " it's", " ", "123", "4"],
        ),
    ],
)
def test_texts_are_split_by_the_named_rule(
    rule: str, text: str, parts: Sequence[str], tmp_path: Path
) -> None:
    """The rules are those of the models' own tokenizers."""
    folder = written(tmp_path, {"tokenizer.ggml.pre": rule})
    backend = Backend.from_file(str(folder / "tokenizer.json"))

    split = backend.pre_tokenizer.pre_tokenize_str(text)

    assert [text[slice(*span)] for _, span in split] == list(parts)
    assert rule in SPLITS


@pytest.mark.parametrize(
    ("metadata", "ids"),
    [
        ({}, [256, 72, 105]),
        ({"tokenizer.ggml.add_bos_token": False}, [72, 105]),
        ({"tokenizer.ggml.add_eos_token": True}, [256, 72, 105, 257]),
    ],
)
def test_texts_begin_and_end_as_the_file_says(
    metadata: Mapping[str, object], ids: Sequence[int], tmp_path: Path
) -> None:
    """Llama 3's rule adds the begin token, unless the file says otherwise."""
    given = {
        "tokenizer.ggml.pre": "llama-bpe",
        "tokenizer.ggml.token_type": [NORMAL] * 256 + [CONTROL] * 64,
        "tokenizer.ggml.bos_token_id": 256,
        "tokenizer.ggml.eos_token_id": 257,
        **metadata,
    }

    found = Tokenizer.load(written(tmp_path, given))

    assert found.encode("Hi") == list(ids)
    assert found.decode(ids, skip_special_tokens=True) == "Hi"


PIECES = (
    *("▁", "t", "h", "e", "a", "n", "o", "w", "▁t", "he", "▁the", "an", "en", "▁a"),
    *("▁an", "the", "ow", "now", "▁▁", "no", "▁now", "\n"),
)
FIRST = 3 + 256
USER = "<tool>"


def sentence_piece(*, prefix: bool) -> dict[str, object]:
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{each:02X}>" for each in range(256))]
    tokens += [*PIECES, USER]
    scores = [0.0] * FIRST + [-float(at) for at in range(len(PIECES))] + [0.0]
    kinds = [UNKNOWN, CONTROL, CONTROL, *[BYTE] * 256, *[NORMAL] * len(PIECES)]
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": scores,
        "tokenizer.ggml.token_type": [*kinds, USER_DEFINED],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.add_space_prefix": prefix,
    }


def merged(text: str) -> list[int]:
    """SentencePiece's BPE, word for word: the best whole of two neighbours first."""
    rank = {piece: at for at, piece in enumerate(PIECES)}
    parts = list(text.replace(" ", "▁"))
    while True:
        wholes = [left + right for left, right in pairwise(parts)]
        best = min(
            (each for each in wholes if each in rank),
            key=rank.__getitem__,
            default=None,
        )
        if best is None:
            break
        at = wholes.index(best)
        parts[at : at + 2] = [best]
    found = []
    for part in parts:
        if part in rank:
            found.append(FIRST + rank[part])
        else:
            found += [3 + byte for byte in part.encode()]
    return found


@pytest.mark.parametrize("prefix", [True, False])
def test_pieces_are_merged_by_their_scores(prefix: bool, tmp_path: Path) -> None:
    """Unknown characters become bytes, and texts come back as they were."""
    found = Tokenizer.load(written(tmp_path, sentence_piece(prefix=prefix)))

    for text in ("the now", "an  ant hen", "thethe\nno", "zé 😀", "a"):
        ids = found.encode(text)
        assert ids == [1, *merged(f" {text}" if prefix else text)]
        assert found.decode(ids, skip_special_tokens=True) == text
    before = merged(" a" if prefix else "a")
    assert found.encode(f"a{USER}")[: 1 + len(before)] == [1, *before]
    assert FIRST + len(PIECES) in found.encode(f"a{USER}")


def test_a_tokenizer_may_come_from_elsewhere(tmp_path: Path) -> None:
    """A file without one is served with --tokenizer."""
    path = GgufFile(
        tmp_path,
        LlamaConfig(
            vocab_size=4096,
            hidden_size=32,
            intermediate_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
        ),
        Kind.F16,
    )
    for values in path.writer.kv_data:
        for key in [each for each in values if each.startswith("tokenizer.")]:
            del values[key]
    model = ModelConfig(model=str(path.write()), tokenizer=str(demo_folder()))

    config = located(EngineConfig(model=model)).model

    assert config.tokenizer == str(demo_folder())
    assert config.served_name == "small"
    assert not (Path(config.model) / "tokenizer.json").exists()
