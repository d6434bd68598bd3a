"""Bias, allowed and bad words, stop tokens and least lengths."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
import pytest
import torch

from hookline import LLM, SamplingParams
from hookline.config import CacheConfig, EngineConfig, ModelConfig
from hookline.request import FinishReason
from hookline_models.sampling.sampler import Sampler
from hookline_testing import assert_conserved
from hookline_testing.oracle import Oracle

MakeSampler = Callable[..., tuple[Sampler, npt.NDArray[np.int64]]]

PROMPT = [11, 150, 42]
VOCAB = 16


def greedy(**more: object) -> SamplingParams:
    return SamplingParams(**{"temperature": 0.0, "max_tokens": 12, **more})  # type: ignore[arg-type]


def tokens_of(llm: LLM, params: SamplingParams) -> list[int]:
    [output] = llm.generate(PROMPT, params)
    return output.outputs[0].token_ids


@pytest.fixture(scope="module")
def with_eos(llama: Oracle, tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    """The same model, which ends its texts with the fifth token of PROMPT's output."""
    folder: Path = tmp_path_factory.mktemp("eos") / "model"
    shutil.copytree(llama.folder, folder)
    eos = llama.greedy(PROMPT, 5)[-1]
    for name in ("config.json", "generation_config.json"):
        config = json.loads((folder / name).read_text("utf-8"))
        (folder / name).write_text(json.dumps({**config, "eos_token_id": eos}))
    return Oracle(folder, llama.model)


@pytest.fixture(scope="module")
def module_eos_llm(with_eos: Oracle) -> Iterator[LLM]:
    config = EngineConfig(
        model=ModelConfig(model=str(with_eos.folder)),
        cache=CacheConfig(num_kv_blocks=64),
    )
    with LLM.from_config(config) as llm:
        yield llm


@pytest.fixture
def eos_llm(module_eos_llm: LLM) -> Iterator[LLM]:
    """An engine of a model with an end-of-text token."""
    yield module_eos_llm

    assert_conserved(module_eos_llm)


def constrained(
    make_sampler: MakeSampler, params: SamplingParams, **more: object
) -> torch.Tensor:
    """Logits of a row that were all 0, after its constraints."""
    sampler, rows = make_sampler([params], vocab_size=VOCAB, **more)
    logits = torch.zeros(1, VOCAB)
    assert sampler._process(logits, rows, sampler._batch.num_tokens[rows], None) == {}
    return logits[0]


def possible(logits: torch.Tensor) -> set[int]:
    return set(torch.isfinite(logits).nonzero()[:, 0].tolist())


def test_logit_bias_is_added(make_sampler: MakeSampler) -> None:
    """Each named token's logit changes by its bias, and no other."""
    logits = constrained(make_sampler, SamplingParams(logit_bias={3: 2.5, 9: -7.0}))

    expected = torch.zeros(VOCAB)
    expected[3], expected[9] = 2.5, -7.0
    assert torch.equal(logits, expected)


def test_only_allowed_tokens_remain(make_sampler: MakeSampler) -> None:
    """Everything else becomes impossible, and the allowed keep their bias."""
    params = SamplingParams(allowed_token_ids=(1, 5, 5), logit_bias={5: 1.0})

    logits = constrained(make_sampler, params)

    assert possible(logits) == {1, 5}
    assert logits[5] == 1.0


@pytest.mark.parametrize(
    ("output", "banned"),
    [
        ((), {4}),
        ((7,), {4, 8}),
        ((7, 8), {4, 9}),
        ((8, 7), {4, 8}),
        ((7, 8, 7, 8), {4, 9}),
    ],
)
def test_bad_words_may_not_be_completed(
    make_sampler: MakeSampler, output: tuple[int, ...], banned: set[int]
) -> None:
    """The last token of a bad word is banned where the output ends in the others."""
    words = ((4,), (7, 8), (7, 8, 9))

    logits = constrained(
        make_sampler, SamplingParams(), prompt=(7,), output=output, bad_words=words
    )

    assert possible(logits) == set(range(VOCAB)) - banned


@pytest.mark.parametrize(
    ("produced", "is_held_back"), [(0, True), (2, True), (3, False)]
)
def test_stop_tokens_are_held_back(
    make_sampler: MakeSampler, produced: int, is_held_back: bool
) -> None:
    """A stop token cannot be drawn until it would be the least length's last token."""
    params = SamplingParams(min_tokens=4)

    logits = constrained(
        make_sampler, params, output=[1] * produced, stop_tokens=(2, 6)
    )

    assert (possible(logits) == set(range(VOCAB)) - {2, 6}) is is_held_back


def test_a_ban_on_everything_is_ignored(make_sampler: MakeSampler) -> None:
    """Where only banned tokens are allowed, they can be drawn after all."""
    params = SamplingParams(allowed_token_ids=(2,), min_tokens=3)

    logits = constrained(make_sampler, params, stop_tokens=(2,))

    assert possible(logits) == {2}


def test_rows_are_constrained_independently(make_sampler: MakeSampler) -> None:
    """All kinds in one batch give each row what it gets alone."""
    params = [
        SamplingParams(),
        SamplingParams(logit_bias={3: 2.5, 9: -7.0}),
        SamplingParams(allowed_token_ids=(4,), logit_bias={4: 1.0}),
        SamplingParams(min_tokens=4, allowed_token_ids=(2, 6)),
        SamplingParams(min_tokens=2, presence_penalty=1.0),
        SamplingParams(repetition_penalty=2.0, logit_bias={3: 1.0}),
    ]
    more = {"output": (7, 8), "stop_tokens": (2, 6), "bad_words": ((4,), (7, 8, 9))}
    sampler, rows = make_sampler(params, vocab_size=VOCAB, **more)
    together = torch.ones(len(params), VOCAB)

    sampler._process(together, rows, sampler._batch.num_tokens[rows], None)

    for one, found in zip(params, together, strict=True):
        alone, row = make_sampler([one], vocab_size=VOCAB, **more)
        expected = torch.ones(1, VOCAB)
        alone._process(expected, row, alone._batch.num_tokens[row], None)
        assert torch.equal(found, expected[0])
    assert possible(together[2]) == {4}
    assert possible(together[3]) == {2, 6}


def test_bias_decides_greedy_output(llm: LLM) -> None:
    """The greatest bias makes a token the whole output; the least removes one."""
    plain = tokens_of(llm, greedy())

    forced = tokens_of(llm, greedy(logit_bias={77: 100.0}))
    without = tokens_of(llm, greedy(logit_bias={plain[0]: -100.0}))

    assert forced == [77] * 12
    assert plain[0] not in without


def test_allowed_tokens_bound_the_output(llm: LLM) -> None:
    """Sampled output holds allowed tokens only, and all of them."""
    params = SamplingParams(max_tokens=80, temperature=5.0, allowed_token_ids=(3, 4))

    assert set(tokens_of(llm, params)) == {3, 4}


def test_bad_words_change_the_text(llm: LLM) -> None:
    """Neither a bad letter nor a bad pair of letters is in the text any more."""
    letters = tuple(llm.front_end.tokenizer.encode("abcd"))
    params = SamplingParams(
        max_tokens=120, temperature=9.0, seed=1, allowed_token_ids=letters
    )
    banned = msgspec.structs.replace(params, bad_words=("ab", "c"))

    outputs = llm.generate([PROMPT, PROMPT], [params, banned])

    before, after = (output.outputs[0].text for output in outputs)
    assert "ab" in before
    assert set(before) == set("abcd")
    assert "ab" not in after
    assert set(after) == set("abd")


def test_a_stop_token_ends_the_request(llm: LLM) -> None:
    """It is the last token, is named as the reason, and is no part of the text."""
    plain = tokens_of(llm, greedy())
    stop = plain[4]
    end = plain.index(stop) + 1

    [output] = llm.generate(PROMPT, greedy(stop_token_ids=(stop, 318)))

    completion = output.outputs[0]
    assert completion.token_ids == plain[:end]
    assert completion.finish_reason is FinishReason.STOP
    assert completion.stop_reason == stop
    tokenizer = llm.front_end.tokenizer
    assert completion.text == tokenizer.decode(plain[: end - 1])


def test_the_models_own_end_needs_no_naming(eos_llm: LLM, with_eos: Oracle) -> None:
    """The model's end-of-text token ends the request without a stop reason."""
    expected = with_eos.greedy(PROMPT, 5)

    [output] = eos_llm.generate(PROMPT, greedy())

    completion = output.outputs[0]
    assert completion.token_ids == expected[: expected.index(expected[-1]) + 1]
    assert completion.finish_reason is FinishReason.STOP
    assert completion.stop_reason is None


def test_ignore_eos_generates_on(eos_llm: LLM, with_eos: Oracle) -> None:
    """The model's end-of-text token is a token like any other."""
    assert tokens_of(eos_llm, greedy(ignore_eos=True)) == with_eos.greedy(PROMPT, 12)


def test_ignore_eos_keeps_named_stop_tokens(eos_llm: LLM, with_eos: Oracle) -> None:
    """A stop token that the request names counts all the same."""
    expected = with_eos.greedy(PROMPT, 12)
    stop = expected[6]

    found = tokens_of(eos_llm, greedy(ignore_eos=True, stop_token_ids=(stop,)))

    assert found == expected[: expected.index(stop) + 1]


def test_min_tokens_puts_the_end_off(eos_llm: LLM, with_eos: Oracle) -> None:
    """Before the least length the end-of-text token is not even drawn."""
    eos = with_eos.greedy(PROMPT, 5)[-1]

    found = tokens_of(eos_llm, greedy(min_tokens=9))

    assert len(found) >= 9
    assert eos not in found[:8]


def test_min_tokens_of_one_changes_nothing(eos_llm: LLM) -> None:
    """A stop token may be the first token where one token is the least."""
    params = greedy(min_tokens=1, stop_token_ids=(77,), logit_bias={77: 100.0})

    assert tokens_of(eos_llm, params) == [77]
