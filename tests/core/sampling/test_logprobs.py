"""Log-probabilities of output and prompt equal the oracle's log-softmax."""

import pytest
import torch

from hookline import LLM, SamplingParams
from hookline.config import CacheConfig, EngineConfig, ModelConfig, SchedulerConfig
from hookline.request import TokenLogprobs
from hookline_testing import assert_conserved
from hookline_testing.essential import essential
from hookline_testing.oracle import Oracle

PROMPTS = [[5, 6, 7], list(range(40, 75)), [*range(40, 75), 3], [250]]
TOLERANCE = 2e-4

MODES: dict[str, dict[str, object]] = {
    "batched": {"cache": CacheConfig(num_kv_blocks=64)},
    "chunked": {
        "scheduler": SchedulerConfig(max_num_batched_tokens=9, max_num_seqs=3),
        "cache": CacheConfig(num_kv_blocks=64),
    },
    "preempted": {"cache": CacheConfig(block_size=4, num_kv_blocks=24)},
    "process": {"in_process": False, "cache": CacheConfig(num_kv_blocks=64)},
}


def reference(llama: Oracle, tokens: list[int]) -> torch.Tensor:
    """[tokens, vocabulary]: row i is about the token after the i-th."""
    with torch.inference_mode():
        logits: torch.Tensor = llama.model(torch.tensor([tokens])).logits
    return logits[0].log_softmax(-1)


def check(entry: TokenLogprobs, token_id: int, row: torch.Tensor, count: int) -> None:
    """One entry holds the token, its rank, and the likeliest in order."""
    best = row.topk(count)
    assert entry.token_ids == [token_id, *best.indices.tolist()]
    assert entry.logprobs == pytest.approx(
        [float(row[token_id]), *best.values.tolist()], abs=TOLERANCE
    )
    assert entry.rank == 1 + int((row > row[token_id]).sum())


@pytest.mark.parametrize(
    ("mode", "temperature"),
    essential(
        [
            ("batched", 0.0),
            ("batched", 1.5),
            ("chunked", 0.0),
            ("chunked", 1.5),
            ("preempted", 0.0),
            ("preempted", 1.5),
            ("process", 0.0),
        ],
        ("batched", 1.5),
        ("preempted", 0.0),
    ),
)
def test_logprobs_equal_the_oracle(
    llama: Oracle, mode: str, temperature: float
) -> None:
    """However requests are run, cached prefixes included, greedy or not."""
    params = SamplingParams(
        temperature=temperature, seed=4, max_tokens=9, logprobs=4, prompt_logprobs=2
    )
    model = ModelConfig(model=str(llama.folder), max_model_len=96)

    with LLM.from_config(EngineConfig(model=model, **MODES[mode])) as llm:  # type: ignore[arg-type]
        outputs = llm.generate([*PROMPTS, *PROMPTS], params)
        outputs += llm.generate(PROMPTS, params)
        preemptions = llm.front_end.engines[0].stats.totals.preemptions
        assert_conserved(llm)

    assert (preemptions > 0) is (mode == "preempted")
    for output in outputs:
        prompt, [completion] = output.prompt_token_ids, output.outputs
        rows = reference(llama, prompt + completion.token_ids)
        prompt_entries = output.prompt_logprobs or []
        assert len(prompt_entries) == len(prompt) - 1
        for at, entry in enumerate(prompt_entries):
            check(entry, prompt[at + 1], rows[at], 2)
        assert completion.logprobs is not None
        for at, token_id in enumerate(completion.token_ids):
            check(completion.logprobs[at], token_id, rows[len(prompt) - 1 + at], 4)


def test_logprobs_with_a_cached_prefix(llm: LLM, llama: Oracle) -> None:
    """A request whose prompt comes from the prefix cache has the right numbers."""
    prompt = list(range(100, 140))
    params = SamplingParams(temperature=0.0, max_tokens=4, logprobs=3)

    llm.generate(prompt, params)
    [output] = llm.generate(prompt, params)

    assert output.cached_tokens == 32
    [completion] = output.outputs
    rows = reference(llama, prompt + completion.token_ids)
    assert completion.logprobs is not None
    for at, token_id in enumerate(completion.token_ids):
        check(completion.logprobs[at], token_id, rows[39 + at], 3)


def test_logprobs_are_of_the_unmodified_distribution(llm: LLM, llama: Oracle) -> None:
    """Bias, penalties and temperature move the token, not the numbers."""
    params = SamplingParams(
        temperature=3.0, max_tokens=1, logprobs=0, logit_bias={200: 100.0}
    )

    [output] = llm.generate([8, 9], params)

    row = reference(llama, [8, 9])[-1]
    assert output.outputs[0].logprobs is not None
    check(output.outputs[0].logprobs[0], 200, row, 0)


def test_only_requests_that_ask_get_logprobs(llm: LLM) -> None:
    """Requests of one batch that ask for different numbers get just these."""
    wishes: list[int | None] = [None, 0, 20, 3]
    each = [
        SamplingParams(
            temperature=0.0, max_tokens=2, logprobs=wish, prompt_logprobs=wish
        )
        for wish in wishes
    ]

    outputs = llm.generate([[1, 2, 3]] * 4, each)

    assert outputs[0].outputs[0].logprobs is None
    assert outputs[0].prompt_logprobs is None
    for output, wish in zip(outputs[1:], [0, 20, 3], strict=True):
        entries = [*(output.outputs[0].logprobs or [])]
        entries += output.prompt_logprobs or []
        assert [len(entry.token_ids) for entry in entries] == [wish + 1] * 4


def test_prompt_logprobs_come_once_for_many_completions(llm: LLM) -> None:
    """With n = 3 the request has one list for its one prompt."""
    params = SamplingParams(n=3, max_tokens=2, prompt_logprobs=1)

    [output] = llm.generate([4, 5, 6, 7], params)

    assert len(output.prompt_logprobs or []) == 3
    assert len(output.outputs) == 3
