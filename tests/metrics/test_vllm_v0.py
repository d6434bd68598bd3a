"""Numbers under the names that vLLM's version 0 had."""

import msgspec
import pytest

from hookline.clock import NANOSECONDS, VirtualClock
from hookline.config import EngineConfig
from hookline.config.extensions import KV_TRANSFER
from hookline.events import VerifiedDrafts
from hookline.stats.iteration_stats import IterationStats
from hookline.stats.scheduler_stats import SchedulerStats
from hookline_metrics import Family, Recorder
from hookline_metrics.config import MetricsConfig
from hookline_metrics.drafts import DRAFT_USE, DraftUse
from hookline_metrics.transfer_stats import TierStats, TransferStats
from hookline_testing.payloads import RECORD, make_started, make_state, make_step


@pytest.fixture
def recorder() -> Recorder:
    """A recorder that shows hidden names, and knows one engine."""
    metrics = MetricsConfig(dialects=("vllm",), show_hidden_for_version="0.0")
    config = EngineConfig(sections={"metrics": metrics})
    recorder = Recorder(config, clock=VirtualClock())
    recorder.engine_started(make_started())
    return recorder


def family(recorder: Recorder, name: str) -> Family:
    [found] = [each for each in recorder.snapshot() if each.name == f"vllm:{name}"]
    return found


def value(recorder: Recorder, name: str) -> object:
    [sample] = family(recorder, name).samples
    return sample.value


def with_tier(**numbers: int) -> SchedulerStats:
    transfers = TransferStats(tiers={"cpu": TierStats(**numbers), "disk": TierStats(9)})
    return SchedulerStats(sections={KV_TRANSFER: transfers})


def test_host_tier_is_the_cpu_cache(recorder: Recorder) -> None:
    """Usage in blocks and hit rate in tokens are those of the tier cpu alone."""
    stats = with_tier(blocks=3, max_blocks=12, hit_tokens=48, missed_tokens=16)

    recorder.state_changed(make_state(scheduler=stats))

    assert value(recorder, "cpu_cache_usage_perc") == 0.25
    assert value(recorder, "cpu_prefix_cache_hit_rate") == 0.75


def test_cpu_cache_is_zero_without_a_host_tier(recorder: Recorder) -> None:
    """Without a connector, and before the first lookup, both are 0."""
    before = [
        value(recorder, name)
        for name in ("cpu_cache_usage_perc", "cpu_prefix_cache_hit_rate")
    ]
    recorder.state_changed(make_state(scheduler=with_tier(max_blocks=12)))

    assert before == [0, 0]
    assert value(recorder, "cpu_cache_usage_perc") == 0
    assert value(recorder, "cpu_prefix_cache_hit_rate") == 0


def test_drafts_emit_what_is_accepted_and_one_token_each(recorder: Recorder) -> None:
    """Emitted tokens add up over steps; their share is of what was possible."""
    record = msgspec.structs.replace(
        RECORD,
        verified=VerifiedDrafts(drafts=2, draft_tokens=8, accepted_tokens=5),
        sections={DRAFT_USE.name: DraftUse(most_drafts=4)},
    )
    for _ in range(2):
        recorder.step_finished(make_step(IterationStats(), record=record))

    assert value(recorder, "spec_decode_num_emitted_tokens") == 2 * (5 + 2)
    assert value(recorder, "spec_decode_efficiency") == (5 + 2) / (2 * (4 + 1))


def test_throughputs_are_of_the_last_ten_seconds(recorder: Recorder) -> None:
    """Prompts count whole at their first token; an idle engine has no throughput."""
    busy = SchedulerStats(running=1)
    for second in range(1, 22):
        record = msgspec.structs.replace(RECORD, ended_at=second * NANOSECONDS)
        prompt = 40 if second <= 5 else 20
        iteration = IterationStats(
            prompt_tokens_computed=prompt - 8,
            prompt_tokens_local=8,
            generation_tokens=3,
        )
        recorder.step_finished(make_step(iteration, busy, record=record))
    names = [f"avg_{kind}_throughput_toks_per_s" for kind in ("prompt", "generation")]
    found = [value(recorder, name) for name in names]

    recorder.state_changed(make_state(at=22 * NANOSECONDS))

    assert found == [pytest.approx(20, rel=0.11), pytest.approx(3, rel=0.11)]
    assert [value(recorder, name) for name in names] == [0, 0]
