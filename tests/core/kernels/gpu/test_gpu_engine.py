"""An engine with a GPU's kernels, feed and graphs gives the oracle's tokens.

In Triton's interpreter the tensors lie in main memory, and graphs are functions that
are called again; all else is what runs on a device.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import torch

from hookline import LLM, SamplingParams
from hookline.config import (
    CacheConfig,
    EngineConfig,
    ExecutorConfig,
    Kernels,
    ModelConfig,
    SchedulerConfig,
)
from hookline.testing import assert_conserved
from hookline.testing.oracle import Oracle, make_oracle
from hookline.worker.cuda_graphs import Capture, CudaCapture, Graph
from hookline.worker.machine import Machine
from hookline_kernels import Platform

TOKENS = 6
GREEDY = SamplingParams(temperature=0.0, max_tokens=TOKENS)
PROMPTS = [list(range(3, 3 + length)) for length in (1, 5, 17, 33, 2)]
"""More than there are rows, and one of more tokens than a step has."""
BASE = EngineConfig(
    cache=CacheConfig(num_kv_blocks=24, block_size=8),
    scheduler=SchedulerConfig(max_num_seqs=3, max_num_batched_tokens=24),
)


@dataclass
class Recomputed:
    """A graph where there is no device: computes again, into the same output."""

    compute: Callable[[], torch.Tensor]
    output: torch.Tensor
    replays: list[int]

    def replay(self) -> None:
        self.replays.append(len(self.output))
        self.output.copy_(self.compute())


@dataclass
class Recorder:
    """Captures, and notes the sizes of what is replayed."""

    capture: Capture | None
    captured: list[int] = field(default_factory=list)
    replays: list[int] = field(default_factory=list)

    def __call__(self, compute: Callable[[], torch.Tensor]) -> Graph:
        graph = self.capture(compute) if self.capture else self._fake(compute)
        self.captured.append(len(graph.output))
        return graph

    def _fake(self, compute: Callable[[], torch.Tensor]) -> Graph:
        return Recomputed(compute, compute(), self.replays)


@pytest.fixture
def recorder(device: torch.device) -> Recorder:
    return Recorder(CudaCapture() if device.type == "cuda" else None)


@pytest.fixture(scope="module", params=["llama", "qwen3"])
def oracle(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Oracle:
    """A decoder without norms of heads, and one with them."""
    return make_oracle(request.param, tmp_path_factory.mktemp(request.param))


Serve = Callable[..., LLM]


@pytest.fixture
def serve(
    monkeypatch: pytest.MonkeyPatch, device: torch.device, recorder: Recorder
) -> Serve:
    """Makes an engine on a GPU, or on what is one for its kernels."""

    def make(folder: Path, config: EngineConfig = BASE, *, graphs: bool = False) -> LLM:
        machine = Machine(
            Platform(device, is_gpu=True), (lambda: recorder) if graphs else None
        )
        monkeypatch.setattr("hookline.worker.uniproc.choose_machine", lambda _: machine)
        model = ModelConfig(model=str(folder), max_model_len=64)
        return LLM(config=replace(config, model=model))

    return make


def tokens_of(llm: LLM, params: SamplingParams = GREEDY) -> list[list[int]]:
    outputs = llm.generate(PROMPTS, params)
    assert_conserved(llm)
    return [output.completions[0].token_ids for output in outputs]


def test_eager_steps_give_the_oracles_tokens(oracle: Oracle, serve: Serve) -> None:
    """Prompts in pieces, beside decodes, and again from cached prefixes."""
    with serve(oracle.folder) as llm:
        first, again = tokens_of(llm), tokens_of(llm)
        told = llm.front_end.facts.kernels

    assert told == "decoder, Triton attention, Triton sampling"
    assert first == again == [oracle.greedy(prompt, TOKENS) for prompt in PROMPTS]


def test_graphs_give_the_oracles_tokens(
    oracle: Oracle, serve: Serve, recorder: Recorder, device: torch.device
) -> None:
    """Decodes of one, two and three requests are replayed; the largest comes first."""
    with serve(oracle.folder, graphs=True) as llm:
        found = tokens_of(llm)
        told = llm.front_end.facts.kernels

    assert told.startswith("decoder with CUDA graphs, ")
    assert found == [oracle.greedy(prompt, TOKENS) for prompt in PROMPTS]
    assert recorder.captured == [3, 2, 1]
    if device.type == "cpu":
        assert set(recorder.replays) == {3, 2, 1}
