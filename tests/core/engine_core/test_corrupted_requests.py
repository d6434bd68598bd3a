"""A request whose logits are not finite ends alone, on every path."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from hookline import LLM, SamplingParams
from hookline.config import (
    CacheConfig,
    EngineConfig,
    ExecutorConfig,
    ModelConfig,
    SchedulerConfig,
)
from hookline.config.cache import KVCacheDtype
from hookline.config.executor import Kernels, OnNonFinite
from hookline.config.model import Dtype, Quantization
from hookline.exceptions import RequestError
from hookline.outputs import CompletionOutput, RequestOutput
from hookline.request import FinishReason
from hookline_testing import assert_conserved
from hookline_testing.essential import essential
from hookline_testing.oracle import Oracle
from hookline_testing.poisoned_model import NAN_TOKEN as NAN
from hookline_testing.poisoned_model import corrupted_counts, poisoned_copy

BAD, GOOD = [5, NAN, 6], [11, 150, 42]
SHARED = [20 + at for at in range(32)]
"""Two blocks."""
DETAIL = "the model gave logits that are not finite"
FILTERED = SamplingParams(
    temperature=0.7, top_p=0.9, top_k=5, max_tokens=6, seed=3, ignore_eos=True
)
GREEDY = SamplingParams(temperature=0.0, max_tokens=6, ignore_eos=True)


@pytest.fixture(scope="module")
def folder(llama: Oracle, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("poisoned") / "model"
    return poisoned_copy(llama.folder, target)


@pytest.fixture(scope="module")
def config(folder: Path) -> EngineConfig:
    return EngineConfig(
        model=ModelConfig(model=str(folder)), cache=CacheConfig(num_kv_blocks=64)
    )


@pytest.fixture(scope="module")
def engine(config: EngineConfig) -> Iterator[LLM]:
    with LLM.from_config(config) as llm:
        yield llm


def generate(
    llm: LLM, prompts: Sequence[list[int]], params: SamplingParams
) -> list[CompletionOutput]:
    """The first completion of each prompt."""
    outputs: list[RequestOutput] = llm.generate(list(prompts), params)
    return [each.outputs[0] for each in outputs]


def assert_only_bad_ends(llm: LLM, params: SamplingParams) -> None:
    alone = generate(llm, [GOOD, [7] * 40], params)
    before, bad, after = generate(llm, [GOOD, BAD, [7] * 40], params)
    [later] = generate(llm, [GOOD], params)

    assert bad.finish_reason is FinishReason.ERROR
    assert bad.stop_reason == DETAIL
    assert bad.token_ids == []
    for found, wanted in ((before, alone[0]), (after, alone[1]), (later, alone[0])):
        assert found.finish_reason is FinishReason.LENGTH
        assert found.token_ids == wanted.token_ids
        assert [each.token_ids for each in found.logprobs or ()] == [
            each.token_ids for each in wanted.logprobs or ()
        ]
    assert_conserved(llm)


@pytest.mark.parametrize(
    "params",
    [
        FILTERED,
        GREEDY,
        SamplingParams(temperature=1.0, max_tokens=6, seed=3, ignore_eos=True),
        SamplingParams(logprobs=2, max_tokens=6, seed=3, ignore_eos=True),
        SamplingParams(prompt_logprobs=1, temperature=0.0, max_tokens=6),
        SamplingParams(
            logit_bias={9: 1.0}, allowed_token_ids=(9, 10, 11), max_tokens=6, seed=1
        ),
    ],
    ids=["filtered", "greedy", "drawn", "logprobs", "prompt", "processors"],
)
def test_only_the_corrupted_request_ends(engine: LLM, params: SamplingParams) -> None:
    """With an error; the tokens of the others are those that they have alone."""
    assert_only_bad_ends(engine, params)


def test_steps_are_replayed_as_before(
    engine: LLM, caplog: pytest.LogCaptureFixture
) -> None:
    """A step with a not-a-number proves nothing against the replay of its size."""
    for _ in range(4):
        generate(engine, [BAD], GREEDY)

    assert not [each for each in caplog.messages if "not replayed" in each]


NGRAM = {"method": "ngram", "num_speculative_tokens": 3}
VARIANTS: dict[str, dict[str, object]] = {
    "ahead": {"scheduler": SchedulerConfig(async_scheduling=True)},
    "torch": {"executor": ExecutorConfig(kernels=Kernels.TORCH)},
    "int8": {"cache": CacheConfig(kv_cache_dtype=KVCacheDtype.INT8)},
    "fp8": {"cache": CacheConfig(kv_cache_dtype=KVCacheDtype.FP8_E4M3)},
    "bfloat16": {"model": {"dtype": Dtype.BFLOAT16}},
    "w8a16": {"model": {"quantization": Quantization.W8A16}},
    "ngram": {"speculative": NGRAM},
}


@pytest.mark.parametrize("name", essential(VARIANTS, "ahead", "torch", "fp8"))
def test_every_kind_of_engine_goes_on(config: EngineConfig, name: str) -> None:
    """Whatever computes, keeps and verifies."""
    changes = {
        key: replace(getattr(config, key), **change)
        if key == "model" and isinstance(change, dict)
        else change
        for key, change in VARIANTS[name].items()
    }
    if isinstance(cache := changes.get("cache"), CacheConfig):
        changes["cache"] = replace(cache, num_kv_blocks=64)
    changed = replace(config, **changes)  # type: ignore[arg-type]
    with LLM.from_config(changed) as llm:
        assert_only_bad_ends(llm, FILTERED)
        assert_only_bad_ends(llm, GREEDY)


def test_its_blocks_are_not_found_by_others(
    config: EngineConfig, caplog: pytest.LogCaptureFixture
) -> None:
    """Unless one that ended well has had them, too; it is counted, and logged once."""
    with LLM.from_config(config) as llm:
        generate(llm, [[*SHARED, NAN, 7]], GREEDY)
        [first] = llm.generate([[*SHARED, 8]], GREEDY)
        generate(llm, [[*SHARED, NAN, 7]], GREEDY)
        [second] = llm.generate([[*SHARED, 8]], GREEDY)
        counts = corrupted_counts(llm.get_metrics())
        assert_conserved(llm)

    assert first.cached_tokens == 0
    assert second.cached_tokens == len(SHARED)
    assert second.outputs[0].token_ids == first.outputs[0].token_ids
    assert counts == {"model": 2}
    [line] = [each for each in caplog.messages if each.startswith("corrupted output")]
    assert DETAIL in line


def test_who_shares_its_prefix_in_the_same_step_goes_on(config: EngineConfig) -> None:
    """Keys and values of the tokens before the corrupted one are good."""
    prompts = [[*SHARED, NAN, 7], [*SHARED, 8], [*SHARED, 9]]
    with LLM.from_config(config) as llm:
        bad, *good = generate(llm, prompts, GREEDY)
        [*alone] = generate(llm, prompts[1:], GREEDY)

    assert bad.finish_reason is FinishReason.ERROR
    assert [each.token_ids for each in good] == [each.token_ids for each in alone]


def test_a_served_request_has_tokens(config: EngineConfig) -> None:
    """With `allow`: the same each time, and log-probabilities that are numbers."""
    executor = ExecutorConfig(on_non_finite=OnNonFinite.ALLOW)
    params = structs.replace(FILTERED, logprobs=1)
    with LLM.from_config(replace(config, executor=executor)) as llm:
        alone = generate(llm, [GOOD], params)[0]
        found = [generate(llm, [BAD, GOOD], params) for _ in range(2)]
        generate(llm, [[*SHARED, NAN, 7]], params)
        [later] = llm.generate([[*SHARED, 8]], params)
        counts = corrupted_counts(llm.get_metrics())
        assert_conserved(llm)

    for bad, good in found:
        assert bad.finish_reason is FinishReason.LENGTH
        assert bad.token_ids == [0] * 6
        assert bad.logprobs is not None
        assert not any(math.isnan(n) for each in bad.logprobs for n in each.logprobs)
        assert good.token_ids == alone.token_ids
    assert later.cached_tokens == 0
    assert counts == {"model": 3}


def test_an_embedding_that_is_not_finite_ends_its_request(folder: Path) -> None:
    """The client learns why, and the next ones get their vectors."""
    options = {"model": str(folder), "convert": "embed", "num_kv_blocks": 64}
    with LLM.from_config(EngineConfig.from_options(**options)) as llm:
        with pytest.raises(RequestError, match="its hidden states are not finite"):
            llm.embed([BAD])
        [good] = llm.embed([GOOD])
        counts = corrupted_counts(llm.get_metrics())
        assert_conserved(llm)

    assert bool((good.outputs.data != 0).any())
    assert counts == {"model": 1}
