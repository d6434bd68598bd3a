"""A seed decides a request's tokens, whatever happens around it."""

import msgspec
import pytest

from hookline import LLM, SamplingParams
from hookline.config import CacheConfig, EngineConfig, ModelConfig, SchedulerConfig
from hookline_testing import assert_conserved
from hookline_testing.essential import essential
from hookline_testing.oracle import Oracle

PROMPT = list(range(30, 70))
SEEDED = SamplingParams(temperature=1.4, max_tokens=20, seed=99, top_p=0.95)

OTHERS = [
    SamplingParams(temperature=0.0, max_tokens=18),
    SamplingParams(temperature=2.0, max_tokens=25, seed=99, top_k=5),
    SamplingParams(max_tokens=9, repetition_penalty=1.3, logprobs=2),
    SamplingParams(max_tokens=14, min_p=0.1, presence_penalty=1.0, prompt_logprobs=1),
    SamplingParams(max_tokens=30, allowed_token_ids=(4, 5), logit_bias={4: 1.0}),
]

MODES: dict[str, dict[str, object]] = {
    "batched": {"cache": CacheConfig(num_kv_blocks=64)},
    "chunked": {
        "scheduler": SchedulerConfig(max_num_batched_tokens=11, max_num_seqs=4),
        "cache": CacheConfig(num_kv_blocks=64),
    },
    "preempted": {"cache": CacheConfig(block_size=4, num_kv_blocks=26)},
    "process": {"in_process": False, "cache": CacheConfig(num_kv_blocks=64)},
}


@pytest.mark.parametrize("mode", essential(MODES, "batched", "preempted"))
def test_seeded_tokens_ignore_their_neighbours(
    llm: LLM, llama: Oracle, mode: str
) -> None:
    """Alone or among others, chunked, preempted or elsewhere: the same tokens."""
    [alone] = llm.generate(PROMPT, SEEDED)
    model = ModelConfig(model=str(llama.folder), max_model_len=104, seed=12)
    prompts = [PROMPT[:12], PROMPT, PROMPT, [7], PROMPT, list(range(90, 130))]

    with LLM.from_config(EngineConfig(model=model, **MODES[mode])) as other:  # type: ignore[arg-type]
        outputs = other.generate(prompts, [*OTHERS[:2], SEEDED, *OTHERS[2:]])
        preemptions = other.front_end.engines[0].stats.totals.preemptions
        assert_conserved(other)

    assert outputs[2].outputs[0].token_ids == alone.outputs[0].token_ids
    assert (preemptions > 0) is (mode == "preempted")


def test_completions_of_a_seed_differ_and_repeat(llm: LLM) -> None:
    """The n completions are different texts, and the same ones the next time."""
    params = msgspec.structs.replace(SEEDED, n=4)

    [first] = llm.generate(PROMPT, params)
    [again] = llm.generate(PROMPT, params)

    texts = [completion.token_ids for completion in first.outputs]
    assert len({tuple(tokens) for tokens in texts}) == 4
    assert [completion.token_ids for completion in again.outputs] == texts
    [alone] = llm.generate(PROMPT, SEEDED)
    assert texts[0] == alone.outputs[0].token_ids


@pytest.mark.parametrize("seed", [-(2**63), -1, 0, 2**63 - 1])
def test_every_seed_can_be_used(llm: LLM, seed: int) -> None:
    """Seeds at the ends of their range sample, with n > 1 too, repeatably."""
    params = msgspec.structs.replace(SEEDED, seed=seed, n=2, max_tokens=6)

    [first] = llm.generate(PROMPT, params)
    [again] = llm.generate(PROMPT, params)

    assert first.outputs == again.outputs


def test_different_seeds_differ(llm: LLM) -> None:
    """Ten seeds give ten outputs."""
    each = [msgspec.structs.replace(SEEDED, seed=seed) for seed in range(10)]

    outputs = llm.generate([PROMPT] * 10, each)

    assert len({tuple(output.outputs[0].token_ids) for output in outputs}) == 10


def test_requests_without_a_seed_differ(llm: LLM) -> None:
    """Equal requests of one engine get different outputs when none brings a seed."""
    params = msgspec.structs.replace(SEEDED, seed=None)

    outputs = llm.generate([PROMPT] * 5, params)

    assert len({tuple(output.outputs[0].token_ids) for output in outputs}) == 5
