"""Greedy output is `transformers`' own, whatever the drafts are."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from hookline import LLM, SamplingParams
from hookline.config import (
    CacheConfig,
    EngineConfig,
    ExecutorConfig,
    Kernels,
    ModelConfig,
    SchedulerConfig,
)
from hookline_drafting import Proposer
from hookline_testing import assert_conserved
from hookline_testing.essential import essential
from hookline_testing.oracle import ESSENTIAL_FAMILIES, FAMILIES, Oracle, make_oracle
from hookline_testing.oracle_prompts import mixed_prompts
from hookline_testing.proposers import RandomProposer, ScriptedProposer

SpeculatingLLM = Callable[[EngineConfig, Proposer], AbstractContextManager[LLM]]

OUTPUT_TOKENS = 24
GREEDY = SamplingParams(temperature=0.0, max_tokens=OUTPUT_TOKENS)
BASE = EngineConfig(
    speculative={
        "method": "scripted",
        "num_speculative_tokens": 4,
        "timeout_seconds": 30,
    }
)
MODES = {
    "batched": BASE,
    "chunked": replace(
        BASE, scheduler=SchedulerConfig(max_num_batched_tokens=13, max_num_seqs=4)
    ),
    "no-prefix-cache": replace(BASE, cache=CacheConfig(enable_prefix_caching=False)),
    "one-token-blocks": replace(BASE, cache=CacheConfig(block_size=1)),
    "preempted": replace(BASE, cache=CacheConfig(block_size=4, num_kv_blocks=26)),
    "torch-kernels": replace(BASE, executor=ExecutorConfig(kernels=Kernels.TORCH)),
}


KINDS = ("right", "half-right", "random")


def texts(oracle: Oracle) -> list[list[int]]:
    return [
        [*prompt, *oracle.greedy(prompt, OUTPUT_TOKENS + 5)]
        for prompt in mixed_prompts()
    ]


def proposers(known: list[list[int]]) -> dict[str, Proposer]:
    return {
        "right": ScriptedProposer(known),
        "half-right": ScriptedProposer(known, errors=0.3, with_probabilities=True),
        "random": RandomProposer(),
    }


@pytest.fixture(scope="module")
def family(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Oracle:
    return make_oracle(request.param, tmp_path_factory.mktemp(request.param))


def config_for(folder: Path, mode: str) -> EngineConfig:
    limit = 96 if mode == "preempted" else None
    model = ModelConfig(model=str(folder), max_model_len=limit)
    return replace(MODES[mode], model=model)


def check(speculating_llm: SpeculatingLLM, oracle: Oracle, name: str, mode: str) -> int:
    """Runs all prompts twice over; gives how many drafts were accepted."""
    known = texts(oracle)
    expected = [
        text[len(prompt) : len(prompt) + OUTPUT_TOKENS]
        for prompt, text in zip(mixed_prompts(), known, strict=True)
    ]
    config = config_for(oracle.folder, mode)
    with speculating_llm(config, proposers(known)[name]) as llm:
        first = llm.generate(mixed_prompts(), GREEDY)
        again = llm.generate(mixed_prompts(), GREEDY)
        stats = llm.front_end.engines[0].stats
        assert_conserved(llm)

    assert [output.outputs[0].token_ids for output in first] == expected
    assert [output.outputs[0].token_ids for output in again] == expected
    if mode == "preempted":
        assert stats.totals.preemptions > 0
    return sum(output.outputs[0].accepted_tokens for output in first)


@pytest.mark.parametrize(
    ("family", "name"),
    essential(
        product(sorted(FAMILIES), KINDS),
        ("gpt-oss", "half-right"),
        ("llama", "half-right"),
        ("llama", "random"),
        slow=[*product(ESSENTIAL_FAMILIES, ["half-right"]), ("llama", "right")],
    ),
    indirect=["family"],
)
def test_every_family_is_left_as_it_is(
    speculating_llm: SpeculatingLLM, family: Oracle, name: str
) -> None:
    """Each family gives the oracle's tokens with drafts of each kind."""
    accepted = check(speculating_llm, family, name, "batched")

    if name != "random":
        assert accepted > len(mixed_prompts()) * OUTPUT_TOKENS * 0.2


@pytest.mark.parametrize("name", essential(KINDS, "random", slow=KINDS))
@pytest.mark.parametrize(
    "mode", essential(sorted(set(MODES) - {"batched"}), "preempted")
)
def test_every_mode_is_left_as_it_is(
    speculating_llm: SpeculatingLLM, llama: Oracle, name: str, mode: str
) -> None:
    """Chunks, tiny pools, preemption and blocks of one token change no token."""
    check(speculating_llm, llama, name, mode)


@pytest.mark.parametrize("count", [1, 2, 5, 32])
def test_batches_of_every_size_are_left_as_they_are(
    speculating_llm: SpeculatingLLM, llama: Oracle, count: int
) -> None:
    """1 to 32 requests side by side, half of their drafts being wrong."""
    many = [mixed_prompts()[index % 7] + [index] for index in range(count)]
    expected = [llama.greedy(prompt, OUTPUT_TOKENS) for prompt in many]
    known = [[*prompt, *tokens] for prompt, tokens in zip(many, expected, strict=True)]
    proposer = ScriptedProposer(known, errors=0.5)

    with speculating_llm(config_for(llama.folder, "batched"), proposer) as llm:
        outputs = llm.generate(many, GREEDY)
        assert_conserved(llm)

    assert [output.outputs[0].token_ids for output in outputs] == expected


def test_right_drafts_save_steps(
    speculating_llm: SpeculatingLLM, llama: Oracle
) -> None:
    """With drafts that are always right a step brings five tokens, not one."""
    prompt = mixed_prompts()[2]
    known = [[*prompt, *llama.greedy(prompt, OUTPUT_TOKENS)]]
    proposer = ScriptedProposer(known)

    with speculating_llm(config_for(llama.folder, "batched"), proposer) as llm:
        [output] = llm.generate([prompt], GREEDY)

    [completion] = output.outputs
    # One token of the prompt's step, then 5, 5, 5, 5 and 3.
    assert proposer.calls <= 6
    assert (completion.draft_tokens, completion.accepted_tokens) == (18, 18)
