"""Replayed steps give the same output as steps that start each kernel."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from hookline import LLM, EngineConfig, ModelConfig, SamplingParams
from hookline.config import CacheConfig, Dtype, SchedulerConfig
from hookline.engine.decoder import Decoder
from hookline.outputs import RequestOutput
from hookline_kernels.cpu.linear import can_pack, pack
from hookline_kernels.cpu.recording import Arena, Recorder, Recording
from hookline_kernels.cpu.shared_prefixes import SharedPrefixes
from hookline_kernels.cpu.skinny_gemm import skinny_gemm_for
from hookline_kernels.cpu.vector_gemm import takes
from hookline_kernels.decoder import step_replay
from hookline_kernels.metadata import AttentionMetadata
from hookline_testing.essential import essential
from hookline_testing.oracle import (
    FAMILIES,
    VOCAB,
    Oracle,
    make_oracle,
)


def _by_kernels() -> bool:
    """Whether products of bfloat16 are kernels, on vectors or on oneDNN's weights.

    Steps with products of torch are not replayed.
    """
    weight = torch.randn(64, 64).bfloat16()
    if takes(weight):
        return True
    return can_pack(weight) and skinny_gemm_for(pack(weight), None) is not None


REPLAYS_BFLOAT16 = _by_kernels()
DTYPES = [Dtype.FLOAT32, Dtype.BFLOAT16] if REPLAYS_BFLOAT16 else [Dtype.FLOAT32]
"""In which products are kernels of ours."""
DENSE = {"llama", "qwen2", "qwen3", "mistral"}
SMALL_POOL = CacheConfig(block_size=4, num_kv_blocks=64)
TILED_POOL = CacheConfig(block_size=16, num_kv_blocks=60)

Generate = Callable[..., list[RequestOutput]]


class Counts:
    """Numbers of recorded and replayed steps.

    Attributes:
        tries: Recorded steps.
        done: Replayed steps.
        several: Replayed steps with requests of several tokens.
        mixed: Those that also have requests of one token.
    """

    tries = done = several = mixed = 0


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counts:
    found = Counts()
    run, begin = Recording.run, Recorder.__init__

    def run_and_count(recording: Recording, metadata: AttentionMetadata) -> bool:
        is_done = run(recording, metadata)
        found.done += is_done
        if is_done and metadata.num_decodes < len(metadata.query_lens):
            found.several += 1
            found.mixed += metadata.num_decodes > 0
        return is_done

    def begin_and_count(recorder: Recorder, arena: Arena) -> None:
        found.tries += 1
        begin(recorder, arena)

    monkeypatch.setattr(Recording, "run", run_and_count)
    monkeypatch.setattr(Recorder, "__init__", begin_and_count)
    return found


def texts(lengths: list[int]) -> list[list[int]]:
    source = torch.Generator().manual_seed(8)
    return [
        torch.randint(VOCAB, (length,), generator=source).tolist() for length in lengths
    ]


def tokens_and_logprobs(outputs: list[RequestOutput]) -> list[object]:
    """Tokens and log-probabilities."""
    found: list[object] = []
    for output in outputs:
        [completion] = output.outputs
        found += [completion.token_ids, completion.logprobs]
    return found


def both_ways(
    oracle: Oracle,
    monkeypatch: pytest.MonkeyPatch,
    generate: Callable[[LLM], list[RequestOutput]],
    *,
    cache: CacheConfig = SMALL_POOL,
    dtype: Dtype = DTYPES[-1],
    most_at_once: int = 256,
) -> tuple[list[object], list[object]]:
    """Output with and without replay."""
    config = EngineConfig(
        model=ModelConfig(model=str(oracle.folder), dtype=dtype),
        cache=cache,
        scheduler=SchedulerConfig(max_num_seqs=most_at_once),
    )
    with LLM.from_config(config) as llm:
        replayed = tokens_and_logprobs(generate(llm))
    monkeypatch.setattr(step_replay, "_MOST_TOKENS", 0)
    monkeypatch.setattr(step_replay, "_MOST_OF_SEVERAL", 0)
    with LLM.from_config(config) as llm:
        return replayed, tokens_and_logprobs(generate(llm))


@pytest.fixture(scope="module")
def tiled(tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    """A model whose prompts use tiles, on CPUs that have them."""
    return make_oracle("llama", tmp_path_factory.mktemp("tiled"), head_dim=32)


def of_many_lengths(llm: LLM) -> list[RequestOutput]:
    """Batches of five to one requests, some of which are preempted."""
    prompts = texts([30, 60, 50, 41, 20])
    ends = [40, 12, 30, 25, 18]
    params = [
        SamplingParams(temperature=0.0, max_tokens=end, ignore_eos=True, logprobs=2)
        for end in ends
    ]
    first = llm.generate(prompts, params)
    return [*first, *llm.generate(prompts[::-1], params)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("family", essential(sorted(FAMILIES), "gemma2", "llama"))
def test_output_is_the_same(
    family: str,
    dtype: Dtype,
    tmp_path: Path,
    counts: Counts,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To the last bit, for every family; those with parts in torch do not replay."""
    oracle = make_oracle(family, tmp_path)

    replayed, plain = both_ways(oracle, monkeypatch, of_many_lengths, dtype=dtype)

    assert replayed == plain
    assert (counts.done > 60) == (family in DENSE)
    assert (counts.done == 0) == (family not in DENSE)


def of_cached_prompts(llm: LLM) -> list[RequestOutput]:
    """Prompts that are cached but for a few tokens, or one."""
    prompts = texts([65, 86, 35, 69, 65, 33])
    params = [
        SamplingParams(temperature=0.0, max_tokens=end, ignore_eos=True, logprobs=2)
        for end in (4, 9, 5, 7, 3, 6)
    ]
    found = llm.generate(prompts, params)
    for _ in range(6):
        for prompt, one in zip(prompts, params, strict=True):
            found += llm.generate([prompt], one)
        found += llm.generate(prompts, params)
    return found


@pytest.mark.parametrize(
    "most_at_once", essential([256, 2], 2, slow=[256]), ids=["together", "amid decodes"]
)
def test_prompts_are_replayed(
    most_at_once: int, tiled: Oracle, counts: Counts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Short ones, alone or mixed with decodes, are replayed."""
    replayed, plain = both_ways(
        tiled,
        monkeypatch,
        of_cached_prompts,
        cache=TILED_POOL,
        most_at_once=most_at_once,
    )

    assert replayed == plain
    assert counts.several > 10
    assert counts.mixed >= 3


def test_long_prompts_are_not_recorded(
    tiled: Oracle, counts: Counts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often they recur; decodes between them are."""
    monkeypatch.setattr(step_replay, "_MOST_OF_SEVERAL", 30)

    def generate(llm: LLM) -> list[RequestOutput]:
        params = SamplingParams(temperature=0.0, max_tokens=6, logprobs=1)
        return [llm.generate([texts([31 + n])[0][n:]], params)[0] for n in range(8)]

    replayed, plain = both_ways(tiled, monkeypatch, generate, cache=TILED_POOL)

    assert replayed == plain
    assert counts.several == 0 < counts.done


@pytest.mark.exhaustive
def test_prompts_in_torch_do_not_keep_decodes_from_replay(
    llama: Oracle, counts: Counts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Failing sizes are tried less and less often, others at once."""

    def generate(llm: LLM) -> list[RequestOutput]:
        params = SamplingParams(temperature=0.0, max_tokens=6, logprobs=1)
        return [llm.generate([text], params)[0] for text in texts([20] * 40)]

    replayed, plain = both_ways(llama, monkeypatch, generate)

    assert replayed == plain
    assert counts.several == 0
    assert 3 < counts.tries < 10
    assert counts.done >= 40 * 5 - 2


@pytest.mark.exhaustive
def test_parts_in_torch_are_tried_less_and_less_often(
    tmp_path: Path, counts: Counts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Experts run in torch, and a failing recording costs time."""
    mixtral = make_oracle("mixtral", tmp_path)

    replayed, plain = both_ways(mixtral, monkeypatch, of_many_lengths)

    assert replayed == plain
    assert 3 < counts.tries < 10


@pytest.mark.exhaustive
def test_what_is_shared_is_attended_to_once(
    tiled: Oracle, counts: Counts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps with a shared prefix are neither replayed nor recorded."""
    common, own = texts([130])[0], texts([5] * 12)

    def generate(llm: LLM) -> list[RequestOutput]:
        params = SamplingParams(
            temperature=0.0, max_tokens=20, ignore_eos=True, logprobs=1
        )
        apart = llm.generate(texts([20] * 12), params)
        llm.generate([common], params)
        return [*apart, *llm.generate([common + each for each in own], params)]

    calls = []
    attend = SharedPrefixes.__call__

    def attend_and_count(*args: Any, **options: Any) -> None:
        calls.append(1)
        attend(*args, **options)

    monkeypatch.setattr(SharedPrefixes, "__call__", attend_and_count)
    replayed, plain = both_ways(tiled, monkeypatch, generate, cache=TILED_POOL)

    assert replayed == plain
    assert len(calls) > 2 * 3 * 15  # in both, 3 layers
    assert 10 < counts.done < 2 * 20 + 25


@pytest.mark.exhaustive
def test_texts_longer_than_the_rotary_table(
    llama: Oracle, counts: Counts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recordings of another rotary table are replaced."""
    monkeypatch.setattr("hookline_kernels.decoder.rotary_table._FIRST", 16)

    replayed, plain = both_ways(llama, monkeypatch, of_many_lengths)

    assert replayed == plain
    assert counts.done > 40


def test_a_wrong_program_is_never_used(
    llama: Oracle,
    counts: Counts,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A recording that misses a kernel is found before it serves, and so logged."""
    start = Recorder.start

    def start_few(
        recorder: Recorder, function: int, numbers: object, *, is_alone: bool
    ) -> None:
        if len(recorder._starts) != 4:
            start(recorder, function, numbers, is_alone=is_alone)  # type: ignore[arg-type]

    monkeypatch.setattr(Recorder, "start", start_few)

    replayed, plain = both_ways(llama, monkeypatch, of_many_lengths)

    assert replayed == plain
    assert counts.done == step_replay._MOST_DIFFERING  # the trials
    lines = [each for each in caplog.messages if "not replayed" in each]
    assert len(lines) == counts.done
    assert lines[-1].startswith("steps are not replayed: one of ")


def test_a_size_that_differs_is_named_and_others_are_replayed(
    llama: Oracle,
    counts: Counts,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One wrong recording slows steps of its size only, and one log line says so."""
    fault = step_replay._fault

    def wrong_of_five(is_run: bool, found: torch.Tensor, expected: torch.Tensor) -> str:
        return "differed" if len(found) == 5 else fault(is_run, found, expected)

    monkeypatch.setattr(step_replay, "_fault", wrong_of_five)

    replayed, plain = both_ways(llama, monkeypatch, of_many_lengths)

    assert replayed == plain
    assert counts.done > 20
    (line,) = (each for each in caplog.messages if "not replayed" in each)
    assert line.startswith("steps of 5 tokens are not replayed: one of 5 tokens differ")


def test_decoder_says_why_steps_are_not_replayed() -> None:
    """The reason stands where the kernels in use are reported, while there is one."""
    steps = step_replay.RecordedSteps([], 8, torch.float32)
    decoder = object.__new__(Decoder)
    decoder._replay = steps

    before = decoder.reason
    steps._refuse(step_replay._Size(3, has_decodes=True, has_several=False), "is wrong")

    assert (before, decoder.reason) == (
        "",
        "steps of 3 tokens are not replayed: one of 3 tokens is wrong",
    )


def test_recording_that_replaces_an_older_one_is_kept_longest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A size that is recorded again counts as used last, not when it was first."""
    monkeypatch.setattr(step_replay, "_MOST_RECORDINGS", 2)
    steps = step_replay.RecordedSteps([], 8, torch.float32)
    first, second, third = (
        step_replay._Size(tokens, has_decodes=True, has_several=False)
        for tokens in (1, 2, 3)
    )

    for size in (first, second, first, third):
        steps._keep(size, cast("step_replay._Recorded", None))

    assert list(steps._recorded) == [first, third]


@pytest.mark.exhaustive
def test_few_are_kept(
    llama: Oracle, counts: Counts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The least recently used recording is dropped first."""
    monkeypatch.setattr(step_replay, "_MOST_RECORDINGS", 2)

    replayed, plain = both_ways(llama, monkeypatch, of_many_lengths)

    assert replayed == plain
    assert counts.done > 60
