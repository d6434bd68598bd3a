"""Drives a sampler directly, and scores what it draws."""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pytest
import torch

from hookline import EngineConfig, SamplingParams
from hookline.engine.worker.input_batch import InputBatch
from hookline.engine.worker.sampling.logits_processor import LogitsProcessorContext
from hookline.engine.worker.sampling.logits_processors import LogitsProcessors
from hookline.engine.worker.sampling.sampling_state import SamplingState
from hookline.step import AdmittedSequence
from hookline_models.logits_processors import logits_processors
from hookline_models.sampling.sampler import Sampler

MakeSampler = Callable[..., tuple[Sampler, npt.NDArray[np.int64]]]
Score = Callable[[npt.NDArray[np.int64], torch.Tensor], float]


@pytest.fixture(scope="session")
def make_sampler() -> MakeSampler:
    """A sampler whose rows are requests with these parameters, prompt and output."""

    def make(
        params: Sequence[SamplingParams],
        *,
        vocab_size: int,
        prompt: Sequence[int] = (0,),
        output: Sequence[int] = (),
        stop_tokens: tuple[int, ...] = (),
        bad_words: tuple[tuple[int, ...], ...] = (),
        seed: int = 0,
        processors: LogitsProcessors | None = None,
    ) -> tuple[Sampler, npt.NDArray[np.int64]]:
        batch = InputBatch(len(params), len(prompt) + len(output) + 1, 16)
        context = LogitsProcessorContext(
            config=EngineConfig(),
            vocab_size=vocab_size,
            max_num_seqs=len(params),
            device=torch.device("cpu"),
        )
        processors = processors or logits_processors(context)
        state = SamplingState(len(params), vocab_size, seed, processors)
        rows = []
        for index, one in enumerate(params):
            sequence = AdmittedSequence(
                request_id=index,
                token_ids=[*prompt, *output],
                num_prompt_tokens=len(prompt),
                num_computed_tokens=0,
                block_ids=(),
                params=one,
                eos_token_ids=stop_tokens,
                bad_words_token_ids=bad_words,
            )
            rows.append(batch.admit(sequence))
            state.admit(rows[-1], sequence)
        return Sampler(batch, state), np.array(rows, np.int64)

    return make


@pytest.fixture(scope="session")
def score() -> Score:
    """How many standard deviations the chi-square of counts is from its mean.

    By the transformation of Wilson and Hilferty (1931). Outcomes expected fewer than
    five times share one cell; an outcome that cannot be scores infinitely bad.
    """

    def chi_square(counts: npt.NDArray[np.int64], probabilities: torch.Tensor) -> float:
        expected = probabilities.double().numpy() * counts.sum()
        if counts[expected == 0].any():
            return float("inf")
        is_rare = expected < 5
        seen = np.append(counts[~is_rare], counts[is_rare].sum())
        wanted = np.append(expected[~is_rare], expected[is_rare].sum())
        seen, wanted = seen[wanted > 0], wanted[wanted > 0]
        free = len(wanted) - 1
        ratio = ((seen - wanted) ** 2 / wanted).sum() / free
        variance = 2 / (9 * free)
        return float((ratio ** (1 / 3) - (1 - variance)) / variance**0.5)

    return chi_square
