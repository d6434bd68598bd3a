"""Adapters of the executor without a model, on a virtual clock."""

from pathlib import Path

import pytest

from hookline.clock import NANOSECONDS, VirtualClock
from hookline.config import EngineConfig, ExecutorConfig, ModelConfig
from hookline.exceptions import ConfigError
from hookline.sampling_params import SamplingParams
from hookline.step import AdmittedSequence, ModelShape, StepPlan
from hookline_lora.adapter import AdapterUse
from hookline_lora.config import LoraConfig
from hookline_lora.messages import REPORTS, AdapterOrders, AdapterReports
from hookline_lora.simulated import SimulatedAdapters
from hookline_lora.targets import LoraTargets
from hookline_metrics.adapters import LORA
from hookline_simulated.config import SimulationConfig
from hookline_simulated.executor import SimulatedExecutor
from hookline_testing.adapters import make_adapter, shapes_of
from hookline_testing.oracle import Oracle, make_oracle

COSTS = SimulationConfig(
    step_seconds=1.0,
    prefill_token_seconds=0.0,
    decode_request_seconds=0.0,
    adapter_rank_seconds=0.5,
    adapter_token_seconds=0.25,
)
SHAPE = ModelShape(
    architecture="Simulated",
    dtype="float32",
    cache_dtype="float32",
    vocab_size=100,
    max_model_len=64,
    num_kv_blocks=8,
    eos_token_ids=(),
)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    """A small Llama."""
    return make_oracle("llama", tmp_path_factory.mktemp("base"))


@pytest.fixture
def clock() -> VirtualClock:
    """The executor's clock."""
    return VirtualClock()


@pytest.fixture
def executor(base: Oracle, clock: VirtualClock) -> SimulatedExecutor:
    """An executor with adapters of the model."""
    config = EngineConfig(
        model=ModelConfig(model=str(base.folder)),
        executor=ExecutorConfig(name="simulated"),
        sections={"simulated": COSTS},
    )
    adapters = SimulatedAdapters(config, LoraConfig(), SHAPE, clock)
    return SimulatedExecutor(COSTS, clock, SHAPE, extensions=[adapters])


def told(executor: SimulatedExecutor, **orders: object) -> AdapterReports | None:
    """What a poll with these orders tells."""
    sections = {LORA: AdapterOrders(**orders)} if orders else {}  # type: ignore[arg-type]
    plan = StepPlan(step=1, sections=sections)
    return REPORTS.read(executor.start(plan).result().sections)


def test_its_layers_are_those_of_the_model(
    base: Oracle, executor: SimulatedExecutor
) -> None:
    """Without its weights."""
    targets = LoraTargets.joined(executor.shape.rank_sections)

    assert targets is not None
    assert targets.shapes == shapes_of(base.model)


def test_adapters_are_loaded_one_after_another_by_their_ranks(
    base: Oracle, executor: SimulatedExecutor, clock: VirtualClock, tmp_path: Path
) -> None:
    """Each is told when its time has passed, and what has no files at once."""
    shapes = shapes_of(base.model)
    small, large = (
        str(make_adapter(tmp_path / f"r{rank}", shapes, rank=rank)) for rank in (2, 8)
    )

    at_once = told(executor, load={"none": str(tmp_path), "a": small, "b": large})
    clock.sleep(1.0)
    first = told(executor)
    clock.sleep(3.5)
    too_early = told(executor, drop=("b",))
    clock.sleep(0.5)
    second = told(executor)

    assert at_once is not None
    assert at_once.failed.keys() == {"none"}
    assert first is not None
    assert first.loaded.keys() == {"a"}
    assert first.loaded["a"].seconds == 1.0
    assert too_early is None
    assert second is not None
    assert second.failed.keys() == {"b"}, "it was dropped meanwhile"


def test_steps_cost_by_rank(
    base: Oracle, executor: SimulatedExecutor, clock: VirtualClock, tmp_path: Path
) -> None:
    """Each token of a request with an adapter, and no other."""
    adapter = make_adapter(tmp_path / "a", shapes_of(base.model), rank=4)
    told(executor, load={"d": str(adapter)})
    use = AdapterUse("d", "a", str(adapter))
    admitted = [
        AdmittedSequence(
            request_id=request_id,
            token_ids=[1, 2, 3],
            num_prompt_tokens=3,
            num_computed_tokens=0,
            block_ids=[request_id],
            params=SamplingParams(),
            eos_token_ids=(),
            bad_words_token_ids=(),
            sections=sections,
        )
        for request_id, sections in ((1, {LORA: use}), (2, {}))
    ]
    before = clock.now()
    plan = StepPlan(step=1, admitted=admitted, request_ids=[1, 2], num_tokens=[3, 3])
    executor.start(plan).result()
    after_both = clock.now()
    plan = StepPlan(step=2, released=[1], request_ids=[2], num_tokens=[1])
    executor.start(plan).result()

    assert (after_both - before) / NANOSECONDS == 1.0 + 3 * 4 * 0.25
    assert (clock.now() - after_both) / NANOSECONDS == 1.0


def test_models_without_such_layers_are_refused(tmp_path: Path) -> None:
    """The error names what their description lacks."""
    folder = make_oracle("gpt2", tmp_path).folder
    config = EngineConfig(model=ModelConfig(model=str(folder)))

    with pytest.raises(ConfigError, match=r"enable-lora.*hidden_size"):
        SimulatedAdapters(config, LoraConfig(), SHAPE, VirtualClock())
