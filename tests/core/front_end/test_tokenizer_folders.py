"""Tokenizers as folders have them: added tokens, other files, ids beyond them."""

import json
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest
from transformers import AutoTokenizer, BertTokenizer

from hookline import LLM, ModelLoadError, SamplingParams
from hookline.config.model import TokenizerMode
from hookline.tokenizer import Tokenizer
from hookline_testing.byte_tokenizer import save_byte_tokenizer
from hookline_testing.oracle import Oracle


def test_added_tokens_of_their_own_files(tmp_path: Path) -> None:
    """They have the ids and roles that `transformers` gives them."""
    save_byte_tokenizer(tmp_path)
    first = len(Tokenizer.load(tmp_path).inner)
    added = {"<tool>": first, "<|x|>": first + 1}
    (tmp_path / "added_tokens.json").write_text(json.dumps(added))
    (tmp_path / "special_tokens_map.json").write_text(
        json.dumps({"additional_special_tokens": ["<|x|>"], "pad_token": "<|x|>"})
    )

    found = Tokenizer.load(tmp_path)

    expected = AutoTokenizer.from_pretrained(tmp_path)
    text = "hi<tool>you<|x|>"
    assert found.encode(text) == expected.encode(text)
    assert {first, first + 1} <= {*found.encode(text)}
    assert found.special_ids == {first + 1}
    assert found.decode(found.encode(text), skip_special_tokens=True) == "hi<tool>you"


def test_ids_beyond_the_tokenizer_are_no_text(llama: Oracle) -> None:
    """Embeddings padded to a round number have ids that no text has."""
    tokenizer = Tokenizer.load(llama.folder)
    beyond = len(tokenizer.inner) + 5

    with LLM(str(llama.folder), max_model_len=64) as llm:
        params = SamplingParams(
            temperature=0.0, max_tokens=3, logit_bias={beyond: 100.0}, logprobs=2
        )
        (output,) = llm.generate([[5, 9]], params, use_tqdm=False)

    assert output.outputs[0].token_ids == [beyond] * 3
    assert output.outputs[0].text == ""
    assert tokenizer.decode([104, beyond, 105]) == "hi"
    assert (tokenizer.token_text(beyond), tokenizer.token_bytes(beyond)) == ("", b"")


def test_the_class_that_is_named_is_asked(tmp_path: Path) -> None:
    """By the mode `hf`; `auto` takes tokenizer.json as it is."""
    words = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]", "a", "b"]
    vocabulary = {word: index for index, word in enumerate(words)}
    BertTokenizer(vocab=vocabulary).save_pretrained(tmp_path)

    asked = Tokenizer.load(tmp_path, TokenizerMode.HF)
    plain = Tokenizer.load(tmp_path)

    assert type(asked.inner).__name__ == "BertTokenizer"
    assert type(plain.inner).__name__ != "BertTokenizer"
    assert asked.encode("b a") == plain.encode("b a") == [1, 6, 5, 2]
    assert asked.decode([6, 99, 5]) == plain.decode([6, 99, 5]) == "b a"


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        (None, b"", r"no tokenizer \(none of tokenizer.json.*: --tokenizer names"),
        ("tokenizer.model", b"\n", "tokenizer.model is converted by a library: pip"),
    ],
    ids=["nothing", "sentencepiece"],
)
def test_what_is_missing_is_said(
    name: str | None,
    content: bytes,
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In one sentence each: the tokenizer, or the library that converts it."""

    def without(module: str) -> object:
        return None if module == "sentencepiece" else find_spec(module)

    monkeypatch.setattr("hookline_processes.tokenizer_texts.find_spec", without)
    if name is not None:
        (tmp_path / name).write_bytes(content)

    with pytest.raises(ModelLoadError, match=reason):
        Tokenizer.load(tmp_path)


def test_a_model_without_a_tokenizer_takes_another_folders(
    llama: Oracle, tmp_path: Path
) -> None:
    """By `--tokenizer`: a folder, or an installed model."""
    bare = tmp_path / "bare"
    bare.mkdir()
    for name in ("config.json", "model.safetensors"):
        shutil.copy(llama.folder / name, bare)

    with pytest.raises(ModelLoadError, match="it has no tokenizer"):
        LLM(str(bare))
    for tokenizer, vocabulary in ((str(llama.folder), 256), ("demo", None)):
        with LLM(str(bare), tokenizer=tokenizer) as llm:
            found = len(llm.get_tokenizer())
            assert found == (vocabulary or found)
