"""Random prompts have the lengths that were asked for."""

from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from hookline.exceptions import ConfigError
from hookline_bench.random_prompts import (
    PromptShape,
    id_prompts,
    plain_ids,
    read_tokenizer,
    text_prompts,
)

SHAPE = PromptShape(
    input_tokens=40, output_tokens=10, range_ratio=0.5, prefix_tokens=16
)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return read_tokenizer("demo")


def source() -> np.random.Generator:
    return np.random.default_rng(7)


def test_lengths_fill_the_range() -> None:
    """
    Lengths are spread evenly from (1 − ratio) to (1 + ratio) times the mean.
    """
    prompts = id_prompts(SHAPE, 4000, range(100), source())

    inputs = {prompt.prompt_tokens - 16 for prompt in prompts}
    outputs = {prompt.output_tokens for prompt in prompts}
    assert inputs == set(range(20, 61))
    assert outputs == set(range(5, 16))
    assert all(len(prompt.content) == prompt.prompt_tokens for prompt in prompts)


def test_prefix_is_common_and_the_rest_is_not() -> None:
    """
    All prompts begin alike, and no two are the same.
    """
    prompts = id_prompts(SHAPE, 100, range(1000), source())

    assert len({tuple(prompt.content[:16]) for prompt in prompts}) == 1
    assert len({tuple(prompt.content[16:36]) for prompt in prompts}) == 100


def test_text_becomes_as_many_tokens(tokenizer: Tokenizer) -> None:
    """
    A server's tokenizer finds the reported length, nearly always the requested one.
    """
    wanted = id_prompts(SHAPE, 200, plain_ids(tokenizer), source())

    prompts = text_prompts(SHAPE, 200, tokenizer, source())

    lengths = [len(tokenizer.encode(str(each.content)).ids) for each in prompts]
    assert lengths == [each.prompt_tokens for each in prompts]
    exact = sum(
        one.prompt_tokens == other.prompt_tokens
        for one, other in zip(prompts, wanted, strict=True)
    )
    assert exact >= 0.9 * len(prompts)
    mean = sum(lengths) / len(lengths)
    assert mean == pytest.approx(56, rel=0.05)


def test_special_tokens_are_not_in_prompts(tokenizer: Tokenizer) -> None:
    """
    A prompt holds no end of text.
    """
    special = tokenizer.get_added_tokens_decoder()

    assert special
    assert not set(plain_ids(tokenizer)) & set(special)


@pytest.mark.parametrize(
    ("given", "option"),
    [
        ({"input_tokens": 0}, "random-input-len"),
        ({"output_tokens": 0}, "random-output-len"),
        ({"prefix_tokens": -1}, "random-prefix-len"),
        ({"range_ratio": 1.0}, "random-range-ratio"),
        ({"range_ratio": -0.1}, "random-range-ratio"),
    ],
)
def test_impossible_shapes_are_refused(given: dict[str, float], option: str) -> None:
    """
    A length that cannot be names its option.
    """
    with pytest.raises(ConfigError) as caught:
        PromptShape(**given)  # type: ignore[arg-type]

    assert caught.value.option == option


def test_a_missing_or_broken_tokenizer_is_one_clear_error(tmp_path: Path) -> None:
    """
    The error names the problem and the path.
    """
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "tokenizer.json").write_text("{")

    with pytest.raises(ConfigError, match="neither a folder nor an installed model"):
        read_tokenizer("no-such-model")
    with pytest.raises(ConfigError, match=r"tokenizer\.json does not exist"):
        read_tokenizer(str(tmp_path))
    with pytest.raises(ConfigError, match="cannot read"):
        read_tokenizer(str(broken))
