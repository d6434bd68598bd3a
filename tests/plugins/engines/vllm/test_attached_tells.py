"""Which metrics an attached vLLM feeds: the others are absent, not 0."""

import asyncio
from contextlib import closing
from types import SimpleNamespace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from hookline_testing.attached_vllm import AttachedServer
from hookline_testing.fake_vllm import (
    LENGTH,
    STOP,
    EngineCoreEvent,
    EngineCoreOutput,
    FinishedRequestStats,
    IterationStats,
    PrefillStats,
    PrefixCacheStats,
    PromptTokenStats,
    SchedulerStats,
)
from hookline_vllm.tells import TELLS, told

QUIET = {
    *("hookline_engine_restarts", "hookline_page_behind_seconds"),
    *("hookline_slo_requests", "hookline_slo_misses"),
    *("hookline_goodput_requests_per_second", "hookline_label_values_folded"),
    *("hookline_logger_breaker_open", "hookline_logger_dropped_batches"),
    *("hookline_logger_errors", "hookline_requests_moved"),
    *("hookline_requests_taken_over", "hookline_conservation_residue"),
    "hookline_logger_delivered_batches",
}
"""What is 0 here because it has not happened, though it would be told."""


@pytest.mark.parametrize("tells_requests", [True, False])
async def test_every_metric_that_is_shown_is_fed(
    tells_requests: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the wraps there are fewer; a request that is preempted moves all."""
    monkeypatch.setenv("HOOKLINE_STAT_LOGGERS", "prometheus")
    server = AttachedServer(tells_requests=tells_requests)
    with closing(server):
        server.wait_until_begun()
        happen(server)
        _, text = await server.page("/hookline/metrics")
        for _ in range(100):
            if unfed(text) <= QUIET:
                break
            await asyncio.sleep(0.1)  # a page waits for a busy logger for 5 ms only
            _, text = await server.page("/hookline/metrics")

    assert unfed(text) <= QUIET
    assert "hookline_request_e2e_seconds_count" in text
    assert ("hookline_request_queue_seconds" in text) is tells_requests


def unfed(text: str) -> set[str]:
    """Returns the metrics of a page that are 0."""
    found = set()
    for family in text_string_to_metric_families(text):
        values = [
            each.value for each in family.samples if not each.name.endswith("_created")
        ]
        if family.name.startswith("hookline_") and not any(values):
            found.add(family.name)
    return found


def happen(server: AttachedServer) -> None:
    """Has three requests: one ends, one waits, one runs."""
    vllm, scheduled = server.vllm, []
    for name in "abc":
        vllm.add(name)
    for name in "ab":
        events = [EngineCoreEvent(kind, vllm.seconds) for kind in (1, 2)]
        prefill = PrefillStats(8, num_local_cached_tokens=4)
        scheduled.append(
            EngineCoreOutput(name, [1], events=events, prefill_stats=prefill)
        )
    state = SchedulerStats(1, 1, 0, 0.5, PrefixCacheStats(2, 16, 8))
    vllm.step(*scheduled, stats=state)
    vllm.step(EngineCoreOutput("a", [1]), EngineCoreOutput("b", [1]), stats=state)
    again = [EngineCoreEvent(kind, vllm.seconds) for kind in (3, 2)]
    done = FinishedRequestStats(
        LENGTH,
        "cmpl-a",
        *(0.5, 8, 1, 3, 16, 0.1, 0.1, 0.3, 0.2),
    )
    sums = IterationStats(3, PromptTokenStats(4, 4), 1, [done], [0.1], [0.02, 0.02])
    vllm.step(
        EngineCoreOutput("a", [1], STOP, events=again), stats=state, iteration=sums
    )
    vllm.stat_logger.record_admission_rejection("max_num_queued_reqs")
    vllm.stat_logger.record_sleep_state(1, 1)


def test_parts_add_what_they_tell() -> None:
    """Evictions are told if vLLM is asked to measure them."""
    config = SimpleNamespace(
        observability_config=SimpleNamespace(kv_cache_metrics=True)
    )

    sums = told(SimpleNamespace(), tells_requests=False, has_process=False)
    whole = told(config, tells_requests=True, has_process=True)

    assert {*sums} == {*TELLS.always}
    assert {*whole} == {*TELLS.always, *TELLS.sometimes}
