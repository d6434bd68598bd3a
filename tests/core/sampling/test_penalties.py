"""Penalties against `transformers` and against the formula written out."""

from collections import Counter
from collections.abc import Callable

import msgspec
import numpy as np
import numpy.typing as npt
import pytest
import torch
from transformers import RepetitionPenaltyLogitsProcessor

from hookline import LLM, SamplingParams
from hookline_models.sampling.sampler import Sampler
from hookline_testing.oracle import Oracle

MakeSampler = Callable[..., tuple[Sampler, npt.NDArray[np.int64]]]

VOCAB = 30
PROMPT = (3, 3, 7, 12)
OUTPUT = (12, 5, 5, 5, 29)


def some_logits() -> torch.Tensor:
    return torch.randn(VOCAB, generator=torch.Generator().manual_seed(2)) * 3


def penalised(make_sampler: MakeSampler, params: SamplingParams) -> torch.Tensor:
    """Logits of three equal rows, of which the middle one alone has penalties."""
    sampler, rows = make_sampler(
        [SamplingParams(), params, SamplingParams()],
        vocab_size=VOCAB,
        prompt=PROMPT,
        output=OUTPUT,
    )
    logits = some_logits().expand(3, -1).clone()
    assert sampler._process(logits, rows, sampler._batch.num_tokens[rows], None) == {}
    assert torch.equal(logits[0], some_logits())
    assert torch.equal(logits[2], some_logits())
    return logits[1]


@pytest.mark.parametrize("penalty", [0.5, 1.1, 2.0, 10.0])
def test_repetition_penalty_equals_the_oracle(
    make_sampler: MakeSampler, penalty: float
) -> None:
    """Tokens of prompt and output are penalised as `transformers` does it."""
    oracle = RepetitionPenaltyLogitsProcessor(penalty)

    found = penalised(make_sampler, SamplingParams(repetition_penalty=penalty))

    expected = oracle(torch.tensor([[*PROMPT, *OUTPUT]]), some_logits()[None])[0]
    assert torch.allclose(found, expected)


@pytest.mark.parametrize(("presence", "frequency"), [(1.5, 0.0), (0, 0.7), (-2, 0.3)])
def test_presence_and_frequency_count_the_output(
    make_sampler: MakeSampler, presence: float, frequency: float
) -> None:
    """Output tokens are penalised by the formula, prompt tokens are not."""
    params = SamplingParams(presence_penalty=presence, frequency_penalty=frequency)

    found = penalised(make_sampler, params)

    expected = some_logits()
    for token_id, count in Counter(OUTPUT).items():
        expected[token_id] -= presence + frequency * count
    assert torch.allclose(found, expected)


@pytest.mark.parametrize("penalty", [1e-300, 1e-40, 1e38, 1e300])
def test_absurd_repetition_penalties_draw_a_token(
    make_sampler: MakeSampler, penalty: float
) -> None:
    """Penalties beyond float32 still end in a token of the vocabulary."""
    params = SamplingParams(repetition_penalty=penalty, seed=3)
    sampler, rows = make_sampler([params], vocab_size=VOCAB, output=range(30))
    logits = some_logits()
    logits[4] = 0.0

    samples = sampler.sample(logits[None].clone(), rows)

    assert 0 <= samples.token_ids[0] < VOCAB


def test_greedy_with_repetition_penalty_equals_generate(
    llm: LLM, llama: Oracle
) -> None:
    """Whole greedy outputs equal those of `generate` with the same penalty."""
    prompt = [9, 41, 200, 7]
    params = SamplingParams(temperature=0.0, max_tokens=24, repetition_penalty=1.4)

    [output] = llm.generate(prompt, params)

    expected = llama.greedy(prompt, 24, repetition_penalty=1.4)
    assert output.outputs[0].token_ids == expected
    assert expected != llama.greedy(prompt, 24)


def test_frequency_penalty_shows_in_the_output(llm: LLM) -> None:
    """It grows until even a token with a much smaller bias takes its turn."""
    plain = SamplingParams(
        temperature=0.0,
        max_tokens=60,
        allowed_token_ids=(5, 6),
        logit_bias={5: 100.0, 6: 60.0},
    )
    penalised = msgspec.structs.replace(plain, frequency_penalty=2.0)

    outputs = llm.generate([[1, 2, 3]] * 2, [plain, penalised])

    assert set(outputs[0].outputs[0].token_ids) == {5}
    assert set(outputs[1].outputs[0].token_ids) == {5, 6}
