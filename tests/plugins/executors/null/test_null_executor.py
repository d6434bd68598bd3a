"""The executor `null`: tokens without a model, behind the real host."""

import pytest

from hookline import LLM, EngineConfig, ModelConfig, SamplingParams
from hookline.config import CacheConfig, ExecutorConfig, SchedulerConfig
from hookline_testing.oracle import Oracle

PROMPTS = [[5, 6, 7], [8] * 20, [9]]


def null_engine(llama: Oracle, *, overlaps: bool) -> LLM:
    config = EngineConfig(
        model=ModelConfig(model=str(llama.folder)),
        cache=CacheConfig(num_kv_blocks=64),
        scheduler=SchedulerConfig(max_num_seqs=4, async_scheduling=overlaps),
        executor=ExecutorConfig(name="null"),
    )
    return LLM.from_config(config)


@pytest.mark.parametrize("overlaps", [False, True])
def test_requests_get_as_many_tokens_as_they_ask_for(
    llama: Oracle, *, overlaps: bool
) -> None:
    """None of them ends a text, and they are not all the same."""
    params = SamplingParams(max_tokens=40)

    with null_engine(llama, overlaps=overlaps) as llm:
        outputs = [each.outputs[0] for each in llm.generate(PROMPTS, params)]

    assert [len(each.token_ids) for each in outputs] == [40] * 3
    assert {each.finish_reason for each in outputs} == {"length"}
    assert len({tuple(each.token_ids) for each in outputs}) == 3


def test_the_real_logits_processors_and_logprobs_are_used(llama: Oracle) -> None:
    """A step with such a request is sampled from logits, and others go on with it."""
    forced = SamplingParams(max_tokens=5, allowed_token_ids=(7,), logprobs=1)
    free = SamplingParams(max_tokens=20)

    with null_engine(llama, overlaps=True) as llm:
        first, second = llm.generate(PROMPTS[:2], [forced, free])

    assert first.outputs[0].token_ids == [7] * 5
    assert len(first.outputs[0].logprobs or ()) == 5
    assert len(second.outputs[0].token_ids) == 20


def test_an_engine_sleeps_and_wakes_up(llama: Oracle) -> None:
    """It has no memory to give back, and serves on."""
    with null_engine(llama, overlaps=False) as llm:
        llm.sleep()
        llm.wake_up()
        [output] = llm.generate([PROMPTS[0]], SamplingParams(max_tokens=3))

    assert len(output.outputs[0].token_ids) == 3
