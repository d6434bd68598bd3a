"""Every way to sample and to stop gives the same with overlapping steps."""

from dataclasses import replace

import pytest

from hookline import LLM, SamplingParams
from hookline.config import CacheConfig, EngineConfig, ModelConfig, SchedulerConfig
from hookline.outputs import RequestOutput
from hookline.request import FinishReason, TokenLogprobs
from hookline_testing import assert_conserved
from hookline_testing.oracle import Oracle

PARAMS = [
    SamplingParams(temperature=0.0, max_tokens=18, logprobs=3, prompt_logprobs=2),
    SamplingParams(temperature=2.0, max_tokens=25, seed=99, top_k=5),
    SamplingParams(max_tokens=9, repetition_penalty=1.3, logprobs=2, seed=1),
    SamplingParams(max_tokens=14, min_p=0.1, presence_penalty=1.0, frequency_penalty=1),
    SamplingParams(max_tokens=30, allowed_token_ids=(4, 5), logit_bias={4: 1.0}),
    SamplingParams(max_tokens=1, prompt_logprobs=0),
    SamplingParams(max_tokens=30, stop_token_ids=tuple(range(0, 320, 9)), seed=3),
    SamplingParams(
        max_tokens=30, stop_token_ids=tuple(range(0, 320, 3)), min_tokens=6, seed=4
    ),
    SamplingParams(max_tokens=20, n=3, seed=5, top_p=0.9),
]
PROMPTS = [[7 + index, *range(30, 30 + 6 * index)] for index in range(len(PARAMS))]


def run(llama: Oracle, *, overlaps: bool) -> tuple[list[RequestOutput], int]:
    """Outputs in chunks and with preemptions, and the tokens sampled in vain."""
    config = EngineConfig(
        model=ModelConfig(model=str(llama.folder), max_model_len=96, seed=12),
        scheduler=SchedulerConfig(
            max_num_batched_tokens=48, max_num_seqs=12, async_scheduling=overlaps
        ),
        cache=CacheConfig(block_size=4, num_kv_blocks=26),
    )
    with LLM.from_config(config) as llm:
        outputs = llm.generate(PROMPTS, PARAMS)
        stats = llm.front_end.engines[0].stats
        assert_conserved(llm)
    assert stats.totals.preemptions > 0
    return outputs, stats.totals.discarded_tokens


def assert_alike(
    left: list[TokenLogprobs] | None, right: list[TokenLogprobs] | None
) -> None:
    """The same tokens, and log-probabilities that are equal but for rounding."""
    if left is None or right is None:
        assert left is right
        return
    for one, other in zip(left, right, strict=True):
        assert one.token_ids[0] == other.token_ids[0]
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)


def test_outputs_are_the_same_with_overlap(llama: Oracle) -> None:
    """Tokens, ends, and log-probabilities at every position, of prompts too."""
    plain, _ = run(llama, overlaps=False)
    overlapped, discarded = run(llama, overlaps=True)

    for one, other in zip(plain, overlapped, strict=True):
        assert_alike(one.prompt_logprobs, other.prompt_logprobs)
        for left, right in zip(one.outputs, other.outputs, strict=True):
            assert left.token_ids == right.token_ids
            assert left.finish_reason == right.finish_reason
            assert left.stop_reason == right.stop_reason
            assert_alike(left.logprobs, right.logprobs)
    reasons = {each.finish_reason for out in plain for each in out.outputs}
    assert reasons == {FinishReason.STOP, FinishReason.LENGTH}
    assert discarded > 0


@pytest.mark.exhaustive
def test_an_engine_process_overlaps_too(llama: Oracle) -> None:
    """The option crosses to the process, and its end is clean."""
    config = EngineConfig(
        model=ModelConfig(model=str(llama.folder)),
        scheduler=SchedulerConfig(async_scheduling=True),
        cache=CacheConfig(num_kv_blocks=64),
    )
    greedy = SamplingParams(temperature=0.0, max_tokens=12)
    with LLM.from_config(replace(config, in_process=False)) as llm:
        outputs = llm.generate(PROMPTS[:3], greedy)
        assert_conserved(llm)

    expected = [llama.greedy(prompt, 12) for prompt in PROMPTS[:3]]
    assert [output.outputs[0].token_ids for output in outputs] == expected
