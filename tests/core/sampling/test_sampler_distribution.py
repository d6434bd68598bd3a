"""The sampler's tokens have the oracle's distribution."""

from collections.abc import Callable
from typing import cast

import msgspec
import numpy as np
import numpy.typing as npt
import pytest
import torch
from transformers import (
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from hookline import LLM, SamplingParams
from hookline.engine.worker.sampling.sampler import Samples
from hookline_kernels.drawing import invert_distribution, keep_likeliest, uniforms
from hookline_models.sampling.sampler import Sampler
from hookline_testing.essential import essential
from hookline_testing.oracle import Oracle

Int64 = npt.NDArray[np.int64]
MakeSampler = Callable[..., tuple[Sampler, Int64]]
Score = Callable[[Int64, torch.Tensor], float]

DRAWS = 20_000
VOCAB = 24
LIMIT = 4.0
"""Standard deviations; a right sampler passes it once in some 30 000 seeds, and the
seeds are fixed."""

SETTINGS = {
    "plain": SamplingParams(),
    "cold": SamplingParams(temperature=0.6),
    "hot": SamplingParams(temperature=1.9),
    "top-k": SamplingParams(temperature=1.3, top_k=7),
    "top-p": SamplingParams(temperature=0.8, top_p=0.85),
    "min-p": SamplingParams(temperature=1.2, min_p=0.1),
    "all": SamplingParams(temperature=1.5, top_k=12, top_p=0.9, min_p=0.02),
}


def some_logits(seed: int = 5, vocab_size: int = VOCAB) -> torch.Tensor:
    return torch.randn(vocab_size, generator=torch.Generator().manual_seed(seed)) * 2


def warped(logits: torch.Tensor, params: SamplingParams) -> torch.Tensor:
    """The oracle's probabilities: `transformers`' own processors, in its order."""
    ids = cast("torch.LongTensor", torch.zeros(1, 1, dtype=torch.int64))
    scores = logits[None].clone()
    scores = TemperatureLogitsWarper(params.temperature)(ids, scores)
    if params.top_k is not None:
        scores = TopKLogitsWarper(params.top_k)(ids, scores)
    if params.top_p < 1:
        scores = TopPLogitsWarper(params.top_p)(ids, scores)
    if params.min_p > 0:
        scores = MinPLogitsWarper(params.min_p)(ids, scores)
    return scores[0].double().softmax(-1)


def draw(make_sampler: MakeSampler, params: SamplingParams) -> Int64:
    """Counts of DRAWS requests that differ in their seeds alone."""
    each = [msgspec.structs.replace(params, seed=seed) for seed in range(DRAWS)]
    sampler, rows = make_sampler(each, vocab_size=VOCAB)
    samples: Samples = sampler.sample(some_logits().expand(DRAWS, -1).clone(), rows)
    return np.bincount(samples.token_ids, minlength=VOCAB)


@pytest.mark.parametrize(
    "name", essential(SETTINGS, "plain", "top-k", "top-p", "all", slow=SETTINGS)
)
def test_draws_match_the_oracle(
    make_sampler: MakeSampler, score: Score, name: str
) -> None:
    """Over many seeds, token frequencies match the oracle's processors."""
    params = SETTINGS[name]

    counts = draw(make_sampler, params)

    assert score(counts, warped(some_logits(), params)) < LIMIT


@pytest.mark.parametrize("change", [{"temperature": 2.3}, {"top_k": 8}, {"top_k": 6}])
def test_a_wrong_sampler_is_found_out(
    make_sampler: MakeSampler, score: Score, change: dict[str, float]
) -> None:
    """The check fails for a temperature or a top-k that is off by one."""
    params = SETTINGS["top-k"]

    counts = draw(make_sampler, msgspec.structs.replace(params, **change))

    assert score(counts, warped(some_logits(), params)) > LIMIT


def test_a_shifted_token_is_found_out(make_sampler: MakeSampler, score: Score) -> None:
    """The check fails for a sampler that returns the next token id."""
    counts = np.roll(draw(make_sampler, SETTINGS["plain"]), 1)

    assert score(counts, warped(some_logits(), SETTINGS["plain"])) > LIMIT


def test_positions_of_one_seed_are_independent(score: Score) -> None:
    """Pairs of neighbouring draws of one seed come as often as independent ones."""
    probabilities = some_logits(vocab_size=6).softmax(-1)
    points = uniforms(np.full(DRAWS, 3, np.uint64), np.arange(DRAWS, dtype=np.int64))

    drawn = invert_distribution(
        probabilities.expand(DRAWS, -1), torch.from_numpy(points)
    ).numpy()
    counts = np.bincount(drawn[0::2] * 6 + drawn[1::2], minlength=36)

    assert score(counts, torch.outer(probabilities, probabilities).flatten()) < LIMIT


def test_neighbouring_seeds_are_independent(score: Score) -> None:
    """Pairs of draws of seeds that differ by one come as often as independent ones."""
    probabilities = some_logits(vocab_size=6).softmax(-1)
    points = uniforms(np.arange(DRAWS, dtype=np.uint64), np.zeros(DRAWS, np.int64))

    drawn = invert_distribution(
        probabilities.expand(DRAWS, -1), torch.from_numpy(points)
    ).numpy()
    counts = np.bincount(drawn[0::2] * 6 + drawn[1::2], minlength=36)

    assert score(counts, torch.outer(probabilities, probabilities).flatten()) < LIMIT


def test_filters_keep_what_the_oracle_keeps() -> None:
    """300 random settings in one batch restrict the support as the oracle does."""
    source = np.random.default_rng(11)
    settings = [
        SamplingParams(
            temperature=float(source.uniform(0.2, 3)),
            top_k=int(source.integers(1, 80)) if source.random() < 0.6 else None,
            top_p=float(source.uniform(0.05, 1)) if source.random() < 0.6 else 1.0,
            min_p=float(source.uniform(0, 0.5)) if source.random() < 0.6 else 0.0,
        )
        for _ in range(300)
    ]
    logits = torch.stack([some_logits(seed, 64) for seed in range(300)])
    temperature = torch.tensor([params.temperature for params in settings])

    kept = keep_likeliest(
        logits / temperature[:, None],
        torch.tensor([min(params.top_k or 64, 64) for params in settings]),
        torch.tensor([params.top_p for params in settings]),
        torch.tensor([params.min_p for params in settings]),
    )

    expected = torch.stack(list(map(warped, logits, settings)))
    found = kept.double().softmax(-1)
    assert torch.equal(found > 0, expected > 0)
    assert torch.allclose(found, expected, atol=1e-6)


def test_a_point_at_the_very_end_is_a_possible_token() -> None:
    """No rounding of the cumulative sum ever returns a token of probability 0."""
    probabilities = torch.tensor([[0.0, 0.3, 0.7, 0.0]])
    points = torch.tensor([0.0, 0.3, 1 - 2**-53, 1.0], dtype=torch.float64)

    drawn = invert_distribution(probabilities.expand(4, -1), points)

    assert set(drawn.tolist()) <= {1, 2}
    assert drawn[0] == 1
    assert drawn[-1] == 2


@pytest.mark.parametrize("temperature", [1e-30, 1e-40, 1e-300, 5e-324])
def test_the_lowest_temperatures_are_greedy(
    make_sampler: MakeSampler, temperature: float
) -> None:
    """A temperature that overflows when divided by gives the likeliest token."""
    logits = some_logits()
    params = SamplingParams(temperature=temperature, seed=1)
    sampler, rows = make_sampler([params], vocab_size=VOCAB)

    samples = sampler.sample(logits[None].clone(), rows)

    assert samples.token_ids.tolist() == [int(logits.argmax())]


@pytest.mark.parametrize("temperature", [1e30, 1e38, 1e300])
def test_the_highest_temperatures_are_uniform(
    make_sampler: MakeSampler, score: Score, temperature: float
) -> None:
    """What is allowed becomes equally likely, and what is not stays impossible."""
    allowed = (1, 4, 9)
    params = SamplingParams(temperature=temperature, allowed_token_ids=allowed)

    counts = draw(make_sampler, params)

    expected = torch.zeros(VOCAB)
    expected[list(allowed)] = 1 / 3
    assert score(counts, expected) < LIMIT


def test_an_engine_draws_from_the_oracles_distribution(
    llm: LLM, llama: Oracle, score: Score
) -> None:
    """First tokens of 20 requests with n = 128 have the oracle's distribution."""
    prompt = [7, 80, 33, 5]
    params = SamplingParams(n=128, max_tokens=1, temperature=1.6, top_p=0.9)

    outputs = llm.generate([prompt] * 20, params)

    drawn = [
        completion.token_ids[0] for output in outputs for completion in output.outputs
    ]
    counts = np.bincount(drawn, minlength=320)
    logits = llama.probabilities(prompt).log().float()
    assert counts.sum() == 2560
    assert score(counts, warped(logits, params)) < LIMIT
    colder = msgspec.structs.replace(params, temperature=0.6)
    assert score(counts, warped(logits, colder)) > LIMIT
