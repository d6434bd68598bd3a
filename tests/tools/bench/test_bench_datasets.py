"""Prompts from files."""

import json
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from hookline.exceptions import ConfigError
from hookline_bench.client import Backend
from hookline_bench.datasets.mooncake import BLOCK_TOKENS
from hookline_bench.datasets.settings import DatasetName, DatasetSettings
from hookline_bench.random_prompts import read_tokenizer
from hookline_bench.serve_settings import ServeSettings
from hookline_bench.workload import Workload, make_workload

LINES = (
    {"timestamp": 7000, "input_length": 600, "output_length": 9, "hash_ids": [3, 5]},
    {"timestamp": 5000, "input_length": 513, "output_length": 7, "hash_ids": [3, 4]},
    {"timestamp": 9000, "input_length": 30, "output_length": 5},
    {"timestamp": 9000, "input_length": 30, "output_length": 5},
)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return read_tokenizer("demo")


def load(
    tokenizer: Tokenizer,
    dataset: DatasetSettings,
    *,
    backend: Backend = Backend.OPENAI,
    num_prompts: int = 10,
    prompt_token_ids: bool = False,
) -> Workload:
    settings = ServeSettings(
        dataset=dataset,
        backend=backend,
        num_prompts=num_prompts,
        num_warmups=2,
        prompt_token_ids=prompt_token_ids,
    )
    return make_workload(settings, tokenizer, np.random.default_rng(0))


def dataset(path: Path, name: str, *lines: object, **options: float) -> DatasetSettings:
    file = path / name
    text = "\n".join(json.dumps(line) for line in lines)
    file.write_text(json.dumps(lines) if name == "sharegpt" else text)
    return DatasetSettings(name=DatasetName(name), path=str(file), **options)  # type: ignore[arg-type]


def conversation(*turns: str) -> dict[str, object]:
    return {"id": "x", "conversations": [{"from": "any", "value": t} for t in turns]}


def test_sharegpt_asks_for_the_first_turn(tmp_path: Path, tokenizer: Tokenizer) -> None:
    """
    The first turn is the prompt, and the second gives the length; single turns, and
    very short or long ones, are left out.
    """
    asked, replied = "one two three four five", "six seven eight nine ten eleven"
    made = dataset(
        tmp_path,
        "sharegpt",
        conversation(asked, replied, "more"),
        conversation("alone in the dark of the night"),
        conversation("a", replied),
        conversation(asked, "b"),
        conversation("word " * 3000, replied),
    )

    found = load(tokenizer, made)

    (prompt,) = found.prompts
    assert prompt.content == asked
    assert prompt.prompt_tokens == len(tokenizer.encode(asked).ids)
    reply = tokenizer.encode(replied, add_special_tokens=False)
    assert prompt.output_tokens == len(reply.ids)
    assert found.times == [0.0]
    assert len(found.warmups) == 3


def test_lengths_of_completions_can_be_given(
    tmp_path: Path, tokenizer: Tokenizer
) -> None:
    """
    A length given as an option wins over ShareGPT's replies, and is that of custom
    lines without one.
    """
    asked = "one two three four five"
    sharegpt = dataset(
        tmp_path, "sharegpt", conversation(asked, "b"), sharegpt_output_len=77
    )
    lines = [{"prompt": "a"}, {"prompt": "b", "output_tokens": 5}]
    custom = dataset(tmp_path, "custom", *lines, custom_output_len=88)

    assert [each.output_tokens for each in load(tokenizer, sharegpt).prompts] == [77]
    assert [each.output_tokens for each in load(tokenizer, custom).prompts] == [88, 5]


def test_no_more_is_sent_than_asked_for(tmp_path: Path, tokenizer: Tokenizer) -> None:
    """
    The first prompts of a file are sent, each once; warmups are other prompts of about
    their length.
    """
    lines = [{"prompt": f"prompt {number}"} for number in range(5)]
    custom = dataset(tmp_path, "custom", *lines)

    few = load(tokenizer, custom, num_prompts=3)
    all_of_them = load(tokenizer, custom)

    assert [each.content for each in few.prompts] == [f"prompt {n}" for n in range(3)]
    assert len(all_of_them.prompts) == 5
    contents = {each.content for each in all_of_them.prompts}
    assert not contents & {each.content for each in all_of_them.warmups}
    assert {each.output_tokens for each in all_of_them.warmups} == {256}


def test_text_can_be_sent_as_token_ids(tmp_path: Path, tokenizer: Tokenizer) -> None:
    """
    Prompts of a file are tokenized if token ids are wanted.
    """
    custom = dataset(tmp_path, "custom", {"prompt": "Hello"})

    (prompt,) = load(tokenizer, custom, prompt_token_ids=True).prompts

    assert prompt.content == tokenizer.encode("Hello").ids


def test_conversations_are_chats(tmp_path: Path, tokenizer: Tokenizer) -> None:
    """
    Messages are kept as they are, and need the chat API.
    """
    messages = [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]
    custom = dataset(tmp_path, "custom", {"messages": messages})

    (prompt,) = load(tokenizer, custom, backend=Backend.OPENAI_CHAT).prompts

    assert prompt.messages == messages
    with pytest.raises(ConfigError, match="need backend openai-chat"):
        load(tokenizer, custom)


def test_traces_have_their_own_times(tmp_path: Path, tokenizer: Tokenizer) -> None:
    """
    Requests are sorted by time, begin with the first, and keep their lengths.
    """
    trace = dataset(tmp_path, "mooncake", *LINES)
    slow = dataset(tmp_path, "mooncake", *LINES, mooncake_slowdown_factor=2.0)

    found = load(tokenizer, trace, prompt_token_ids=True)

    lengths = [(each.prompt_tokens, each.output_tokens) for each in found.prompts]
    assert found.times == [0.0, 2.0, 4.0, 4.0]
    assert lengths == [(513, 7), (600, 9), (30, 5), (30, 5)]
    assert [len(each.content) for each in found.prompts] == [513, 600, 30, 30]
    assert load(tokenizer, slow, num_prompts=2).times == [0.0, 4.0]


def test_equal_hash_ids_are_equal_tokens(tmp_path: Path, tokenizer: Tokenizer) -> None:
    """
    Prompts share the blocks whose hash ids are the same, and no others.
    """
    trace = dataset(tmp_path, "mooncake", *LINES)

    prompts = load(tokenizer, trace, prompt_token_ids=True).prompts

    first, second, third, fourth = (list(each.content) for each in prompts)
    assert first[:BLOCK_TOKENS] == second[:BLOCK_TOKENS]
    assert first[BLOCK_TOKENS:] != second[BLOCK_TOKENS : len(first)]
    assert third != fourth
    assert third != first[:30]


def test_traces_can_be_text(tmp_path: Path, tokenizer: Tokenizer) -> None:
    """
    Text of a trace has nearly the planned number of tokens, and common beginnings.
    """
    trace = dataset(tmp_path, "mooncake", *LINES)

    first, second, third, _ = load(tokenizer, trace).prompts

    assert first.prompt_tokens == len(tokenizer.encode(str(first.content)).ids)
    assert first.prompt_tokens == pytest.approx(513, abs=20)
    assert third.prompt_tokens == pytest.approx(30, abs=5)
    assert str(first.content)[:500] == str(second.content)[:500]


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("custom", '{"prompt": "a"}\n\n{"prompt": 3}', "line 3 of .*`str"),
        ("custom", '{"prompt": "a"', "line 1 of .*truncated"),
        ("custom", "{}", "line 1 of .*needs either prompt or messages"),
        ("custom", '{"prompt": "a", "messages": []}', "needs either prompt or mess"),
        ("custom", '{"prompt": ""}', "line 1 of .*is empty"),
        ("custom", '{"prompt": "a", "output_tokens": 0}', "line 1 of .*>= 1"),
        ("custom", "\n", "has no prompt that can be sent"),
        ("mooncake", '{"timestamp": 1, "input_length": 5}', "line 1 .*output_length"),
        (
            "mooncake",
            '{"timestamp": -1, "input_length": 5, "output_length": 5}',
            "line 1 of .*>= 0",
        ),
        ("mooncake", "", "has no prompt that can be sent"),
        ("sharegpt", '[\n{"conversations": [}]', "is not JSON: .*line 2"),
        ("sharegpt", "{}", "is not a JSON array"),
        ("sharegpt", '[{"conversations": []}, {}]', "entry 2 of .*conversations"),
        ("sharegpt", "[]", "has no prompt that can be sent"),
    ],
)
def test_wrong_files_name_the_place(
    tmp_path: Path, tokenizer: Tokenizer, name: str, content: str, complaint: str
) -> None:
    """
    A wrong line is one clear error with its number.
    """
    file = tmp_path / "file"
    file.write_text(content)
    made = DatasetSettings(name=DatasetName(name), path=str(file))

    with pytest.raises(ConfigError, match=complaint) as caught:
        load(tokenizer, made)

    assert caught.value.option == "dataset-path"


def test_bytes_that_are_no_text_name_the_place(
    tmp_path: Path, tokenizer: Tokenizer
) -> None:
    """
    A line that is not UTF-8 is an error with its number.
    """
    file = tmp_path / "file"
    file.write_bytes(b'{"prompt": "a"}\n{"prompt": "\xff"}\n')
    made = DatasetSettings(name=DatasetName.CUSTOM, path=str(file))

    with pytest.raises(ConfigError, match="line 2 of"):
        load(tokenizer, made)
