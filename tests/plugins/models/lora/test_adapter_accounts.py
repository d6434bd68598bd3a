"""Metrics by adapter add up to the engine's own, and tell where adapters are."""

from collections.abc import Iterable

import msgspec
import pytest

from hookline.config import CacheConfig, EngineConfig, SchedulerConfig
from hookline.frozen import frozen_json
from hookline.payloads import EngineStarted, StateChanged, StepFinished
from hookline.request import GenerateRequest, Slo
from hookline.sampling_params import SamplingParams
from hookline_lora.adapter import AdapterUse
from hookline_lora.config import AdapterSource, LoraConfig
from hookline_metrics import HistogramValue, Recorder
from hookline_metrics.adapter_trails import (
    MOST_KEPT,
    NO_TRAIL,
    AdapterTrail,
    AdapterTrails,
)
from hookline_metrics.adapters import (
    LORA,
    MOST_SHOWN,
    AdapterLevel,
    AdapterLoad,
    AdapterResidence,
    AdapterUsage,
    AdapterWait,
    LoraNews,
    adapters_of,
)
from hookline_metrics.config import MetricsConfig
from hookline_metrics.news import news_of
from hookline_testing.adapter_engine import PAUSE_SECONDS, AdapterEngine
from hookline_testing.observed import ObservedEngine

Series = dict[tuple[str, ...], float]


class ServedEngine:
    """An engine with adapters, a front end's accounting of it, and its metrics."""

    def __init__(
        self,
        config: LoraConfig,
        *,
        max_adapter_labels: int = 50,
        load_seconds: float = 1.0,
        max_num_seqs: int = 8,
        num_kv_blocks: int = 64,
    ) -> None:
        adapters = AdapterEngine(
            config,
            load_seconds=load_seconds,
            scheduler=SchedulerConfig(max_num_seqs=max_num_seqs),
            cache=CacheConfig(block_size=4, num_kv_blocks=num_kv_blocks),
        )
        self.core, self.clock, self.files = (
            adapters.core,
            adapters.clock,
            adapters.files,
        )
        self.engine = ObservedEngine(self.core, self.clock)
        metrics = MetricsConfig(
            dialects=("hookline", "vllm", "sglang"),
            max_adapter_labels=max_adapter_labels,
        )
        engine_config = EngineConfig(
            extensions={LORA: {}}, sections={"metrics": metrics}
        )
        self.recorder = Recorder(engine_config, clock=self.clock)
        self.recorder.engine_started(
            EngineStarted(facts=self.core.facts, clock=self.core.clock_pair())
        )

    def submit(
        self,
        adapter: str | None,
        *,
        prompt: Iterable[int] = (3, 4, 5, 6, 7),
        max_tokens: int = 4,
        slo: Slo | None = None,
    ) -> None:
        """Sends a request, whose adapter's digest is its name."""

        def change(request: GenerateRequest) -> GenerateRequest:
            facts = msgspec.structs.replace(request.facts, lora=adapter, slo=slo)
            request = msgspec.structs.replace(request, facts=facts)
            if adapter is None:
                return request
            digest = self.files.digest(adapter)
            use = AdapterUse(digest, adapter, f"/adapters/{adapter}")
            return msgspec.structs.replace(
                request, adapter=digest, sections={LORA: use}
            )

        params = SamplingParams(max_tokens=max_tokens)
        self.engine.submit(list(prompt), params, change=change)

    def turn(self) -> bool:
        """Runs a step, or waits a little; returns whether there may be more to do."""
        output = self.engine.receive()
        if output is None or output.record is None:
            self.clock.sleep(PAUSE_SECONDS)
        if output is None:
            return self.core.has_work
        iteration = self.engine.iterations[-1]
        if output.record is None:
            self.recorder.state_changed(
                StateChanged(
                    engine_index=0,
                    cause=output.cause,
                    at=output.at,
                    scheduler=output.stats,
                    iteration=iteration,
                )
            )
        else:
            self.recorder.step_finished(
                StepFinished(
                    engine_index=0,
                    record=output.record,
                    iteration=iteration,
                    scheduler=output.stats,
                )
            )
        return True

    def run(self) -> None:
        """Runs until there is no work."""
        for _ in range(10_000):
            if not self.turn():
                return
        raise AssertionError(f"there is work left: {self.core.stats}")

    def series(self, name: str, *, common: int = 2) -> Series:
        """A family's values, or counts, by its own labels."""
        [family] = [each for each in self.recorder.snapshot() if each.name == name]
        return {
            sample.labels[common:]: sample.value.count
            if isinstance(sample.value, HistogramValue)
            else sample.value
            for sample in family.samples
        }

    def total(self, name: str) -> float:
        return sum(self.series(name).values())


def modules(*names: str) -> tuple[AdapterSource, ...]:
    return tuple(AdapterSource(name=name, path=f"/adapters/{name}") for name in names)


def by_owner(series: Series) -> Series:
    """Adds up all labels but the first."""
    found: Series = {}
    for labels, value in series.items():
        found[labels[:1]] = found.get(labels[:1], 0.0) + value
    return found


TOTALS = {
    "hookline_adapter_requests_finished": "hookline_requests_finished",
    "hookline_adapter_time_to_first_token_seconds": (
        "hookline_time_to_first_token_seconds"
    ),
    "hookline_adapter_time_per_output_token_seconds": (
        "hookline_request_time_per_output_token_seconds"
    ),
    "hookline_adapter_queue_seconds": "hookline_request_queue_seconds",
    "hookline_adapter_prompt_tokens": "hookline_prompt_tokens",
    "hookline_adapter_cached_tokens": "hookline_prefix_cache_hit_tokens",
    "hookline_adapter_generation_tokens": "hookline_generation_tokens",
    "hookline_adapter_slo_misses": "hookline_slo_misses",
}


def mixed_load(served: ServedEngine) -> None:
    """Four adapters over two slots and the base model, with shared prompts."""
    strict, lax = Slo(ttft=0.001), Slo(ttft=1e6)
    for number in range(24):
        adapter = (None, "a", "b", "c", "d")[number % 5]
        slo = strict if number % 3 == 0 else lax
        served.submit(adapter, max_tokens=2 + number % 4, slo=slo)


@pytest.mark.parametrize("most_labels", [1, 2, 50])
def test_adapters_and_base_add_up_to_the_engine(most_labels: int) -> None:
    """However many labels there are, nothing is lost and nothing counts twice."""
    served = ServedEngine(
        LoraConfig(modules=modules("a", "b", "c", "d"), max_loras=2, max_cpu_loras=3),
        max_adapter_labels=most_labels,
    )

    mixed_load(served)
    served.run()

    totals = {name: served.total(whole) for name, whole in TOTALS.items()}
    assert {name: served.total(name) for name in TOTALS} == totals
    assert all(totals.values())
    finished = by_owner(served.series("hookline_adapter_requests_finished"))
    assert finished[("none",)] == 5
    assert len(finished) == min(most_labels, 4) + (most_labels < 4) + 1


@pytest.mark.parametrize("blocks", [16, 64], ids=["preempting", "roomy"])
def test_requests_by_state_add_up_at_each_moment(blocks: int) -> None:
    """Running and waiting requests of all adapters are those of the engine."""
    served = ServedEngine(
        LoraConfig(modules=modules("a", "b"), max_loras=1, max_cpu_loras=2),
        num_kv_blocks=blocks,
    )
    for number in range(9):
        served.submit((None, "a", "b")[number % 3], max_tokens=12)

    seen = set()
    while served.turn():
        states: dict[str, float] = {"running": 0.0}
        for (owner, state), value in served.series("hookline_adapter_requests").items():
            states[state] = states.get(state, 0.0) + value
            seen.add((owner, state) if value else None)
        assert states["running"] == served.total("hookline_requests_running")
        waiting = sum(states.values()) - states["running"]
        assert waiting == served.total("hookline_requests_waiting")

    assert served.total("hookline_preemptions") > 0 or blocks == 64
    assert {("a", "running"), ("b", "no_slot"), ("none", "running")} <= seen
    assert served.series("hookline_adapter_requests") == {
        ("none", "running"): 0,
        ("none", "queued"): 0,
    }


def test_waits_are_divided_into_loading_and_the_rest() -> None:
    """A request waits while weights are read; another one until the slot is free."""
    served = ServedEngine(
        LoraConfig(modules=modules("a"), max_loras=1, max_cpu_loras=2),
        load_seconds=5.0,
    )
    served.run()
    served.submit("a", max_tokens=20)
    served.turn()
    served.submit("b")
    served.turn()
    held = served.series("hookline_requests_waiting")[("adapter",)]
    served.run()

    assert held == 1
    stats = adapters_of(served.core.stats)
    [family] = [
        each
        for each in served.recorder.snapshot()
        if each.name == "hookline_adapter_wait_seconds"
    ]
    parts = {sample.labels[2:]: sample.value for sample in family.samples}
    loading, rest = parts[("b", "loading")], parts[("b", "no_slot")]
    assert isinstance(loading, HistogramValue)
    assert isinstance(rest, HistogramValue)
    assert loading.sum >= 5.0
    assert rest.sum >= 8.0
    assert loading.sum + rest.sum == pytest.approx(stats.totals.wait_seconds)
    assert served.series("hookline_adapter_load_seconds") == {(): 2}
    assert served.series("hookline_adapter_loads") == {("failed",): 0, ("loaded",): 2}
    assert served.series("hookline_adapter_evictions") == {("gpu",): 1, ("cpu",): 0}


def test_residency_is_told_at_the_start_and_follows() -> None:
    """What idles in a slot is there before any request, and leaves when it must."""
    served = ServedEngine(
        LoraConfig(modules=modules("a", "b", "c"), max_loras=1, max_cpu_loras=2)
    )

    served.run()
    before = served.series("vllm:lora_adapter_loaded")
    counts = (
        served.series("vllm:num_gpu_loaded_lora_adapters"),
        served.series("vllm:num_cpu_loaded_lora_adapters"),
    )
    served.submit("c")
    served.run()
    after = served.series("vllm:lora_adapter_loaded")

    assert before == {("a", "gpu", "false", "8"): 1, ("b", "cpu", "false", "8"): 1}
    assert counts == ({(): 1}, {(): 2})
    assert ("c", "gpu", "false", "8") in after
    assert len(after) == 2
    assert served.series("vllm:max_gpu_lora_adapters") == {(): 1}
    used = served.series("sglang:lora_pool_slots_used", common=1)
    assert list(used.values()) == [1]
    utilization = served.series("sglang:lora_pool_utilization", common=1)
    assert list(utilization.values()) == [1.0]


def test_kv_block_seconds_are_blocks_times_time() -> None:
    """A request that holds two blocks for three seconds has taken six."""
    served = ServedEngine(
        LoraConfig(modules=modules("a"), max_loras=1), load_seconds=0.0
    )
    served.run()

    served.submit("a", prompt=range(3, 8), max_tokens=3)
    served.run()

    [finished] = served.engine.finished.values()
    assert finished.inference_seconds == 3
    assert served.series("hookline_adapter_kv_block_seconds") == {("a",): 6.0}


def test_adapters_beyond_those_that_a_state_shows_are_other() -> None:
    """A state names a bounded number of adapters, and has the sums of the rest."""
    names = [f"adapter-{number}" for number in range(MOST_SHOWN + 20)]
    served = ServedEngine(
        LoraConfig(modules=modules(*names), max_loras=1, max_cpu_loras=1),
        max_adapter_labels=200,
        load_seconds=100.0,
    )
    for name in names:
        served.submit(name)
    for _ in range(4):
        served.turn()

    found = by_owner(served.series("hookline_adapter_requests"))
    assert len(found) == MOST_SHOWN + 2
    assert found[("other",)] == 20
    assert sum(found.values()) == len(names)


def test_an_engine_of_the_base_model_tells_no_adapters() -> None:
    """Nothing happens to adapters while only the base model is asked for."""
    served = ServedEngine(LoraConfig(max_loras=1))

    served.submit(None)
    served.run()

    news = [each.sections for each in served.engine.iterations]
    assert not any(LORA in each for each in news)
    assert set(served.series("hookline_adapter_requests_finished")) == {
        ("none", "length")
    }


def test_steps_that_change_nothing_cost_nothing() -> None:
    """Of a batch that only decodes there is one state, and there are no news."""
    served = ServedEngine(
        LoraConfig(modules=modules("a", "b"), max_loras=2), load_seconds=0.0
    )
    served.run()
    for adapter in (None, "a", "b"):
        served.submit(adapter, max_tokens=30)
    for _ in range(5):
        served.turn()

    outputs = [served.engine.receive() for _ in range(20)]

    states = {id(each.stats.sections[LORA]) for each in outputs if each is not None}
    assert len(states) == 1
    assert not any(each.sections for each in served.engine.iterations[-20:])


def test_news_from_another_process_are_read() -> None:
    """There they are plain data, which nobody can change."""
    residency = {"a": AdapterResidence(AdapterLevel.SLOT, is_pinned=True, rank=8)}
    wait = AdapterWait(1, "a", 5, 9, 1.5, "b", 6)
    load, usage = AdapterLoad("a", "ab", 0.5, 7), AdapterUsage(1, "a", 2.0, "ab")
    news = LoraNews([wait], [load], [usage], residency)

    received = frozen_json({LORA: msgspec.to_builtins(news)})

    assert list(news_of(received)) == [wait, load, usage, news]
    trails = AdapterTrails()
    trails.note(0, received)
    assert trails.pop(0, 1) == AdapterTrail("ab", [wait])
    assert trails.pop(0, 1) == NO_TRAIL


def test_trails_are_bounded() -> None:
    """Requests whose ends nobody tells are forgotten in the end, the oldest first."""
    trails = AdapterTrails()

    for number in range(MOST_KEPT + 10):
        trails.note(0, {LORA: LoraNews(waits=[AdapterWait(number, "a", 0, 1)])})

    assert trails.pop(0, 9) == NO_TRAIL
    assert trails.pop(0, 10).waits
