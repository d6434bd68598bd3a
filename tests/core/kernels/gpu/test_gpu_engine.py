"""An engine with a GPU's kernels, feed and graphs gives the oracle's tokens.

In Triton's interpreter the tensors lie in main memory, and graphs are functions that
are called again; all else is what runs on a device.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from msgspec import structs

from hookline import LLM, SamplingParams
from hookline.config import (
    CacheConfig,
    Device,
    EngineConfig,
    ExecutorConfig,
    Kernels,
    ModelConfig,
    SchedulerConfig,
)
from hookline.engine.engine_core import EngineCore
from hookline.request import TokenLogprobs
from hookline.step import SleepLevel
from hookline.transport.inproc_client import InprocClient
from hookline_kernels import Platform
from hookline_kernels.gpu.graph_capture import Capture, CudaCapture, Graph
from hookline_kernels.runtime.gpu_memory import GpuMemory, Profiled
from hookline_models.machines.cuda import CudaMachine
from hookline_testing import assert_conserved
from hookline_testing.essential import essential
from hookline_testing.oracle import Oracle, make_oracle
from hookline_testing.paced_client import core_of as inproc_core
from hookline_testing.plugin_site import PluginSite
from hookline_testing.proposers import ScriptedProposer, WatchingProposer

TOKENS = 3
GREEDY = SamplingParams(temperature=0.0, max_tokens=TOKENS)
PROMPTS = [list(range(3, 3 + length)) for length in (1, 5, 17, 33, 2)]
"""More than there are rows, and one of more tokens than a step has."""
BASE = EngineConfig(
    cache=CacheConfig(num_kv_blocks=24, block_size=8),
    scheduler=SchedulerConfig(max_num_seqs=4, max_num_batched_tokens=24),
)


@dataclass
class Recomputed:
    """A graph without a device: computes again, into the same output."""

    compute: Callable[[], torch.Tensor]
    output: torch.Tensor

    def replay(self) -> None:
        self.output.copy_(self.compute())


@dataclass
class Recorded:
    """A graph whose replays are recorded by its size."""

    graph: Graph
    output: torch.Tensor
    replays: list[int]

    def replay(self) -> None:
        self.replays.append(len(self.output))
        self.graph.replay()


@dataclass
class Recorder:
    """Captures graphs, and records the sizes that are replayed."""

    device: torch.device
    captured: list[int] = field(default_factory=list)
    replays: list[int] = field(default_factory=list)

    def new_capture(self) -> Capture:
        """Returns a capturer with its own memory, as `CudaMachine.new_capture` does."""
        capture: Capture = CudaCapture() if self.device.type == "cuda" else _recomputed

        def captured(compute: Callable[[], torch.Tensor]) -> Graph:
            graph = capture(compute)
            self.captured.append(len(graph.output))
            return Recorded(graph, graph.output, self.replays)

        return captured


def _recomputed(compute: Callable[[], torch.Tensor]) -> Recomputed:
    return Recomputed(compute, compute())


@pytest.fixture
def recorder(device: torch.device) -> Recorder:
    return Recorder(device)


@pytest.fixture(scope="module", params=essential(["llama", "qwen3"], "qwen3"))
def oracle(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Oracle:
    """A decoder without head norms, and one with them."""
    return make_oracle(request.param, tmp_path_factory.mktemp(request.param))


Serve = Callable[..., LLM]


@pytest.fixture
def serve(
    monkeypatch: pytest.MonkeyPatch, device: torch.device, recorder: Recorder
) -> Serve:
    """Makes an engine on a GPU, or on a simulated one."""

    def make(folder: Path, config: EngineConfig = BASE, *, graphs: bool = False) -> LLM:
        machine = CudaMachine(
            Platform(device, is_gpu=True), recorder.new_capture if graphs else None
        )
        choosing = "hookline_models.machines.choosing"
        monkeypatch.setattr(f"{choosing}.choose_machine", lambda *_: machine)
        model = ModelConfig(model=str(folder), max_model_len=64)
        return LLM.from_config(replace(config, model=model))

    return make


def tokens_of(llm: LLM, prompts: Sequence[list[int]] = PROMPTS) -> list[list[int]]:
    outputs = llm.generate(prompts, GREEDY)
    assert_conserved(llm)
    return [output.outputs[0].token_ids for output in outputs]


@pytest.mark.exhaustive
def test_eager_steps_give_the_oracles_tokens(oracle: Oracle, serve: Serve) -> None:
    """Prompts are chunked, mixed with decodes, and repeated from the cache."""
    with serve(oracle.folder) as llm:
        first, again = tokens_of(llm), tokens_of(llm, PROMPTS[3:4])
        told = llm.front_end.facts.model.kernels

    parts = ("decoder", "Triton attention", "Triton sampling")
    assert told == ", ".join((*parts, "no CUDA graphs (enforce-eager)"))
    assert first == [oracle.greedy(prompt, TOKENS) for prompt in PROMPTS]
    assert again == first[3:4]


@pytest.mark.exhaustive
def test_graphs_give_the_oracles_tokens(
    oracle: Oracle,
    serve: Serve,
    recorder: Recorder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Decodes are replayed: three requests in the graph of four.

    Products of few rows are a kernel's, as they are of large weights.
    """
    plan = SimpleNamespace(tile=64, step=64)  # needs no Triton
    monkeypatch.setattr(
        "hookline_kernels.decoder.gpu_layer_ops.plans_of",
        lambda _weight, **_: dict.fromkeys((1, 2, 4), plan),
    )
    with serve(oracle.folder, graphs=True) as llm:
        found = tokens_of(llm, PROMPTS[:3])
        before = list(recorder.replays)
        found += tokens_of(llm, PROMPTS[3:])
        told = llm.front_end.facts.model.kernels

    assert told == "decoder with CUDA graphs, Triton attention, Triton sampling"
    assert found == [oracle.greedy(prompt, TOKENS) for prompt in PROMPTS]
    assert recorder.captured == [4, 2, 1]
    assert before == [4] * (TOKENS - 1)
    assert set(recorder.replays) >= {4, 2}


AHEAD = replace(BASE, scheduler=replace(BASE.scheduler, async_scheduling=True))


@pytest.mark.slow
def test_steps_started_ahead_give_the_oracles_tokens(
    oracle: Oracle, serve: Serve, recorder: Recorder
) -> None:
    """Each step but the first takes tokens that only the device knows."""
    with serve(oracle.folder, AHEAD, graphs=True) as llm:
        found, again = tokens_of(llm), tokens_of(llm, PROMPTS[3:4])

    assert found == [oracle.greedy(prompt, TOKENS) for prompt in PROMPTS]
    assert again == found[3:4]
    assert recorder.replays


def test_steps_started_ahead_sample_as_those_that_wait(
    llama: Oracle, serve: Serve
) -> None:
    """Requests that need tokens of the host join and leave those that do not.

    In torch: whose tokens a step may begin without is decided on the host.
    """
    waiting = replace(BASE, executor=ExecutorConfig(kernels=Kernels.TORCH))
    ahead = replace(waiting, scheduler=AHEAD.scheduler)
    kinds = list(SAMPLED.values())
    asked = [
        structs.replace(kinds[number % len(kinds)], max_tokens=TOKENS + number)
        for number in range(2 * len(kinds))
    ]
    prompts = [PROMPTS[number % 3] for number in range(len(asked))]

    with serve(llama.folder, waiting, graphs=True) as llm:
        expected = llm.generate(prompts, asked)
    with serve(llama.folder, ahead, graphs=True) as llm:
        found = llm.generate(prompts, asked)
        assert_conserved(llm)

    for own, wanted in zip(found, expected, strict=True):
        assert own.outputs[0].token_ids == wanted.outputs[0].token_ids
        assert close(own.outputs[0].logprobs, wanted.outputs[0].logprobs)
        assert close(own.prompt_logprobs, wanted.prompt_logprobs)


def test_steps_started_ahead_survive_preemptions(llama: Oracle, serve: Serve) -> None:
    """Rows change hands while tokens of their former requests are on their way."""
    source = random.Random(7)  # noqa: S311 - the same each time
    prompts = [
        [source.randrange(3, 90) for _ in range(source.randrange(1, 30))]
        for _ in range(24)
    ]
    asked = [
        SamplingParams(
            temperature=source.choice([0.0, 0.8]),
            seed=number,
            max_tokens=source.randrange(1, 20),
            stop_token_ids=tuple(source.sample(range(90), 20)),
            logprobs=1 if number % 7 == 3 else None,
        )
        for number in range(len(prompts))
    ]
    # Of 64 tokens, for four requests of up to 50.
    narrow = replace(
        AHEAD,
        cache=CacheConfig(num_kv_blocks=8, block_size=8),
        executor=ExecutorConfig(kernels=Kernels.TORCH),
    )
    waiting = replace(narrow, scheduler=BASE.scheduler)

    with serve(llama.folder, waiting) as llm:
        expected = llm.generate(prompts, asked)
    with serve(llama.folder, narrow) as llm:
        found = llm.generate(prompts, asked)
        assert_conserved(llm)
        stats = [each.stats for each in llm.front_end.engines]

    assert sum(each.totals.preemptions for each in stats) > 0
    assert [each.outputs[0].token_ids for each in found] == [
        each.outputs[0].token_ids for each in expected
    ]


PROPOSER = """
from hookline import hookimpl

proposer = None


@hookimpl
def create_proposer(context):
    return proposer
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize("drawn", [False, True])
def test_drafts_are_verified_as_on_the_cpu(
    llama: Oracle, serve: Serve, recorder: Recorder, tmp_path: Path, drawn: bool
) -> None:
    """Right and wrong drafts are replayed; sampled drafts use Triton's kernel."""
    params = SamplingParams(max_tokens=8, seed=5, temperature=0.0)
    if drawn:
        params = SamplingParams(max_tokens=8, seed=5, temperature=0.2, top_k=30)
    chosen = {"method": "scripted", "num_speculative_tokens": 3, "timeout_seconds": 60}
    model = ModelConfig(model=str(llama.folder), max_model_len=64)
    with LLM.from_config(replace(BASE, model=model)) as llm:
        plain = [each.outputs[0] for each in llm.generate(PROMPTS[:3], params)]
    texts = [
        [*prompt, *each.token_ids]
        for prompt, each in zip(PROMPTS[:3], plain, strict=True)
    ]
    config = replace(BASE, speculative=chosen)
    makers: list[Callable[[], LLM]] = [
        lambda: LLM.from_config(replace(config, model=model)),
        lambda: serve(llama.folder, config, graphs=True),
    ]
    found = []

    with PluginSite(tmp_path) as site:
        site.install("scripted", PROPOSER, group="hookline.proposers")
        for make in makers:
            proposer = ScriptedProposer(texts, errors=0.3, with_probabilities=drawn)
            vars(site.module("scripted"))["proposer"] = proposer
            with make() as llm:
                outputs = llm.generate(PROMPTS[:3], params)
                assert_conserved(llm)
            found.append([output.outputs[0] for output in outputs])

    host, device = found
    assert [each.token_ids for each in device] == [each.token_ids for each in host]
    assert sum(each.accepted_tokens for each in device) > 0
    assert recorder.replays
    if not drawn:
        assert [each.token_ids for each in device] == [each.token_ids for each in plain]


@pytest.mark.exhaustive
def test_hidden_states_are_not_in_graph_memory(
    llama: Oracle, serve: Serve, recorder: Recorder, tmp_path: Path
) -> None:
    """They keep their values, whether their steps are replayed or not."""
    chosen = {"method": "scripted", "num_speculative_tokens": 2, "timeout_seconds": 60}
    texts = [[*prompt, *llama.greedy(prompt, 8)] for prompt in PROMPTS[:3]]
    watching = WatchingProposer(ScriptedProposer(texts, errors=0.3))

    with PluginSite(tmp_path) as site:
        site.install("scripted", PROPOSER, group="hookline.proposers")
        vars(site.module("scripted"))["proposer"] = watching
        with serve(llama.folder, replace(BASE, speculative=chosen), graphs=True) as llm:
            llm.generate(PROMPTS[:3], SamplingParams(temperature=0.0, max_tokens=8))

    assert recorder.replays
    assert watching.wrong == []
    for text, states in watching.seen:
        with torch.inference_mode():
            output = llama.model(torch.tensor([text]), output_hidden_states=True)
        for place, state in states.items():
            expected = output.hidden_states[-1][0, place]
            torch.testing.assert_close(state.cpu(), expected, rtol=2e-3, atol=2e-3)


@pytest.mark.exhaustive
def test_experts_are_launched_and_right(
    tmp_path: Path, serve: Serve, recorder: Recorder
) -> None:
    """Routing may wait for the device, so such models have no graphs."""
    mixtral = make_oracle("mixtral", tmp_path)

    with serve(tmp_path, graphs=True) as llm:
        found = tokens_of(llm, PROMPTS[1:3])
        told = llm.front_end.facts.model.kernels

    assert told.startswith("decoder, Triton attention")
    assert told.endswith("no CUDA graphs (modules may wait for the device)")
    assert not recorder.captured
    assert found == [mixtral.greedy(prompt, TOKENS) for prompt in PROMPTS[1:3]]


@pytest.mark.exhaustive
@pytest.mark.parametrize("family", ["gpt2", "gemma2"])
def test_other_models_run_as_modules(
    family: str, tmp_path: Path, serve: Serve, recorder: Recorder
) -> None:
    """With Triton's attention, windows and soft caps, and without graphs."""
    other = make_oracle(family, tmp_path)

    with serve(tmp_path, graphs=True) as llm:
        found = tokens_of(llm, PROMPTS[1:3])
        told = llm.front_end.facts.model.kernels

    assert told.startswith("modules (")
    assert "Triton attention" in told
    assert not recorder.captured
    assert found == [other.greedy(prompt, TOKENS) for prompt in PROMPTS[1:3]]


def test_the_reference_runs_without_triton(oracle: Oracle, serve: Serve) -> None:
    """`--kernels torch` uses plain torch on the device."""
    plain = replace(BASE, executor=ExecutorConfig(kernels=Kernels.TORCH))

    with serve(oracle.folder, plain, graphs=True) as llm:
        found = tokens_of(llm)
        told = llm.front_end.facts.model.kernels

    assert "Triton" not in told
    assert found == [oracle.greedy(prompt, TOKENS) for prompt in PROMPTS]


SAMPLED = {
    "drawn": SamplingParams(max_tokens=TOKENS, temperature=0.9, seed=1),
    "filtered": SamplingParams(
        max_tokens=TOKENS, temperature=1.1, seed=2, top_k=40, top_p=0.8, min_p=0.01
    ),
    "penalties": SamplingParams(
        max_tokens=TOKENS,
        temperature=0.0,
        repetition_penalty=1.4,
        presence_penalty=0.5,
        frequency_penalty=0.3,
        logprobs=3,
    ),
    "constraints": SamplingParams(
        max_tokens=TOKENS,
        temperature=0.7,
        seed=3,
        logit_bias={7: 4.0, 9: -4.0, 11: 3.5},
        allowed_token_ids=(7, 9, 11, 13, 15),
        stop_token_ids=(13,),
        min_tokens=3,
        prompt_logprobs=2,
    ),
}


@pytest.mark.exhaustive
def test_sampling_equals_that_of_the_cpu(llama: Oracle, serve: Serve) -> None:
    """All kinds of requests in one batch get the same tokens for the same seeds."""
    asked = list(SAMPLED.values())
    prompts = [PROMPTS[1]] * len(asked)
    config = replace(
        BASE,
        model=ModelConfig(model=str(llama.folder), max_model_len=64),
        executor=ExecutorConfig(device=Device.CPU),
    )
    with LLM.from_config(config) as llm:
        expected = llm.generate(prompts, asked)

    with serve(llama.folder, graphs=True) as llm:
        found = llm.generate(prompts, asked)

    for own, wanted in zip(found, expected, strict=True):
        [ours], [theirs] = own.outputs, wanted.outputs
        assert ours.token_ids == theirs.token_ids
        assert close(ours.logprobs, theirs.logprobs)
        assert close(own.prompt_logprobs, wanted.prompt_logprobs)


Entries = Sequence[TokenLogprobs | None] | None


def close(found: Entries, expected: Entries) -> bool:
    """Whether tokens and ranks are equal, and numbers up to rounding."""
    assert (found is None) == (expected is None)
    for one, other in zip(found or (), expected or (), strict=True):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            assert (one.token_ids, one.rank) == (other.token_ids, other.rank)
            assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)
    return True


@pytest.mark.exhaustive
def test_the_pool_gets_what_the_profile_leaves(
    llama: Oracle,
    serve: Serve,
    recorder: Recorder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The largest steps run and two graphs are captured before memory is counted."""
    profiles: list[Profiled] = []

    def measured(
        _device: torch.device, run: Callable[[], Profiled], *, is_shared: bool
    ) -> GpuMemory:
        assert not is_shared
        profiles.append(run())
        for capture in profiles[-1].graphs[:2]:
            capture()
        return GpuMemory(
            total=1_000_000, outside=0, weights=250_000, activations=0, graphs=50_000
        )

    monkeypatch.setattr("hookline_models.machines.profile.measure", measured)
    unsized = replace(BASE, cache=CacheConfig(block_size=8, gpu_memory_utilization=0.5))
    with serve(llama.folder, unsized, graphs=True) as llm:
        facts = llm.front_end.facts
        found = tokens_of(llm, PROMPTS[:2])

    block = 3 * 2 * 2 * 16 * 4 * 8  # layers, sides, heads, width, bytes, tokens
    assert facts.model.num_kv_blocks == 200_000 // block
    assert profiles[0].cache_bytes == 4 * block  # a prompt of 24 tokens and one more
    assert recorder.captured == [4, 2, 4, 2, 1]
    assert found == [llama.greedy(prompt, TOKENS) for prompt in PROMPTS[:2]]


@pytest.mark.exhaustive
def test_the_profile_verifies_drafts(
    llama: Oracle,
    serve: Serve,
    recorder: Recorder,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """The largest steps have four requests with three drafts each."""
    monkeypatch.setattr(
        "hookline_models.machines.profile.measure",
        lambda _, run, **_others: (
            run(),
            GpuMemory(total=10**6, outside=0, weights=0, activations=0, graphs=0),
        )[1],
    )
    chosen = {"method": "scripted", "num_speculative_tokens": 3, "timeout_seconds": 60}
    config = replace(BASE, cache=CacheConfig(block_size=8), speculative=chosen)

    with PluginSite(tmp_path) as site:
        site.install("scripted", PROPOSER, group="hookline.proposers")
        vars(site.module("scripted"))["proposer"] = ScriptedProposer([])
        with serve(llama.folder, config, graphs=True) as llm:
            found = tokens_of(llm, PROMPTS[:2])

    assert max(recorder.captured) == 16
    assert found == [llama.greedy(prompt, TOKENS) for prompt in PROMPTS[:2]]


@pytest.mark.exhaustive
@pytest.mark.parametrize("level", SleepLevel)
def test_graphs_are_captured_again_after_sleep(
    oracle: Oracle,
    serve: Serve,
    recorder: Recorder,
    device: torch.device,
    level: SleepLevel,
) -> None:
    """The cache has other addresses then, and its memory was the device's meanwhile."""
    with serve(oracle.folder, graphs=True) as llm:
        before = tokens_of(llm, PROMPTS[:3])
        core = core_of(llm)
        core.reset_prefix_cache()
        taken = allocated(device)
        core._executor.sleep(level)
        asleep = allocated(device)
        core._executor.wake_up()
        after = tokens_of(llm, PROMPTS[:3])

    assert after == before == [oracle.greedy(prompt, TOKENS) for prompt in PROMPTS[:3]]
    assert recorder.captured == [4, 2, 1] * 2
    if device.type == "cuda":
        assert asleep < taken


def core_of(llm: LLM) -> EngineCore:
    client = llm.front_end.engines.client
    assert isinstance(client, InprocClient)
    return inproc_core(client)


def allocated(device: torch.device) -> int:
    return torch.cuda.memory_allocated(device) if device.type == "cuda" else 0
