"""The simulated executor gives log-probabilities like one that runs a model."""

import pytest

from hookline import LLM, EngineConfig, SamplingParams
from hookline.config import ExecutorConfig, SchedulerConfig


@pytest.mark.parametrize("tokens_per_step", [4, 2048])
def test_a_prompt_has_an_entry_for_each_token_but_the_first(
    tokens_per_step: int,
) -> None:
    """
    Whole or in chunks, prompts get as many log-probabilities as the API returns.
    """
    config = EngineConfig(
        executor=ExecutorConfig(name="simulated"),
        scheduler=SchedulerConfig(
            max_num_batched_tokens=tokens_per_step, max_num_seqs=4
        ),
    )
    prompt = list(range(10, 21))
    params = SamplingParams(max_tokens=2, logprobs=1, prompt_logprobs=1)

    with LLM.from_config(config) as llm:
        [output] = llm.generate([prompt], params)

    assert output.prompt_logprobs is not None
    found = [entry.token_ids[0] for entry in output.prompt_logprobs]
    assert found == prompt[1:]
    [completion] = output.outputs
    assert completion.logprobs is not None
    assert len(completion.logprobs) == 2
