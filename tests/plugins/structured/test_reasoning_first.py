"""Whole engines: the model reasons, and then writes what its grammar describes."""

import re
from typing import Any

import pytest

from hookline import LLM, ReasoningSpan, SamplingParams, StructuredOutputsParams
from hookline.config import (
    CacheConfig,
    Dtype,
    EngineConfig,
    ModelConfig,
)
from hookline.request import FinishReason
from hookline_testing import assert_conserved
from hookline_testing.oracle import Oracle

from .conftest import config_of, tokens

BIAS = {ord("q"): 5.0, ord("b"): 1.5}
"""Reasoning ends soon, and optional reasoning begins often."""

SPANS = {
    "begun": (ReasoningSpan(end="qq"), r".*?qq"),
    "written": (ReasoningSpan(begin="ab", end="qq", lead="cd"), r"ab.*?qqcd"),
    "optional": (
        ReasoningSpan(begin="bcd", is_optional=True, end="qq"),
        r"(bcd.*?qq)?",
    ),
}
ANSWER = r"[0-9]{3}(x1|y22){2,5}!"


def params_of(kind: str, **fields: Any) -> SamplingParams:
    asked = StructuredOutputsParams(regex=ANSWER, reasoning=SPANS[kind][0])
    return SamplingParams(
        **{
            "max_tokens": 120,
            "n": 5,
            "logit_bias": BIAS,
            "structured_outputs": asked,
            **fields,
        }
    )


def texts_of(config: EngineConfig) -> tuple[list[tuple[str, FinishReason | None]], int]:
    """Returns the texts of all kinds, and how often they were preempted."""
    prompts = [tokens(index) for index in range(6)]
    kinds = [kind for kind in SPANS for _ in range(2)]
    with LLM.from_config(config) as llm:
        outputs = llm.generate(
            prompts,
            [params_of(kind, seed=index) for index, kind in enumerate(kinds)],
        )
        preemptions = llm.front_end.engines.first.stats.totals.preemptions
        assert_conserved(llm)
    found = []
    for kind, output in zip(kinds, outputs, strict=True):
        for each in output.outputs:
            found.append((each.text, each.finish_reason))
            if each.finish_reason is FinishReason.STOP:
                pattern = SPANS[kind][1] + ANSWER
                assert re.fullmatch(pattern, each.text, re.DOTALL), each.text
    return found, preemptions


@pytest.mark.slow
def test_grammar_begins_behind_the_reasoning(random_model: Oracle) -> None:
    """
    Also with drafts, and after a preemption, and the texts are the same.
    """
    plain, _ = texts_of(config_of(random_model.folder))
    whole = [text for text, reason in plain if reason is FinishReason.STOP]
    assert len(whole) > len(plain) / 2
    assert len(set(whole)) > 1
    starts = {text[:3] == "bcd" for text, _ in plain[-10:]}
    assert starts == {True, False}

    drafting = {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_min": 1}
    drafted, _ = texts_of(config_of(random_model.folder, speculative=drafting))
    assert drafted == plain

    overlapped, _ = texts_of(
        EngineConfig.from_options(
            model=str(random_model.folder),
            dtype="float32",
            num_kv_blocks=512,
            async_scheduling=True,
        )
    )
    assert overlapped == plain

    small = EngineConfig(
        model=ModelConfig(model=str(random_model.folder), dtype=Dtype.FLOAT32),
        cache=CacheConfig(num_kv_blocks=24),
    )
    crowded, preemptions = texts_of(small)
    assert preemptions > 0
    assert crowded == plain
