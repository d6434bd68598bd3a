"""An engine that could never serve a request of full length does not start."""

import msgspec
import pytest

from hookline.config import CacheConfig, SchedulerConfig
from hookline.exceptions import ConfigError
from hookline.request import FinishReason, RequestFacts
from hookline.stats.scheduler_stats import Residue
from hookline_testing.simulation import engine_request, run_to_end, simulated_core


def test_pool_smaller_than_one_request_is_refused() -> None:
    """The error names the option and both sizes."""
    cache = CacheConfig(block_size=4, num_kv_blocks=7)

    with pytest.raises(ConfigError, match="hold 28 tokens") as e:
        simulated_core(cache=cache, max_model_len=32)

    assert e.value.option == "num-kv-blocks"


def test_pool_of_exactly_one_request_serves_many() -> None:
    """The smallest pool that is let through lets everyone finish."""
    cache = CacheConfig(block_size=4, num_kv_blocks=8)
    core = simulated_core(cache=cache, max_model_len=32)
    for request_id in range(5):
        core.add(engine_request(request_id, [request_id + 3] * 16, 16))

    outputs = run_to_end(core)

    assert outputs[-1].stats.totals.finished == {"length": 5}
    assert core.report("check").stats.kv_blocks_used == 0


def test_budget_smaller_than_a_prompt_needs_chunks() -> None:
    """Without chunked prefill the budget must hold the longest prompt."""
    scheduler = SchedulerConfig(
        max_num_seqs=4, max_num_batched_tokens=31, enable_chunked_prefill=False
    )

    with pytest.raises(ConfigError, match="31 is less than max-model-len") as e:
        simulated_core(scheduler=scheduler, max_model_len=32)

    assert e.value.option == "max-num-batched-tokens"


def test_small_budget_is_fine_with_chunks() -> None:
    """With chunked prefill any budget serves any prompt."""
    scheduler = SchedulerConfig(max_num_seqs=1, max_num_batched_tokens=1)
    core = simulated_core(scheduler=scheduler, max_model_len=32)
    core.add(engine_request(1, [3] * 31, 1))

    assert len(run_to_end(core)) == 31


def test_request_that_does_not_fit_ends_alone() -> None:
    """What the front end should never have sent ends with an error; others go on."""
    core = simulated_core(max_model_len=8)
    core.add(engine_request(1, [3], 2))

    for bad in (engine_request(1, [3]), engine_request(2, [3] * 8)):
        core.add(bad)
    core.add(engine_request(3, []))

    ends = [each for output in run_to_end(core) for each in output.events.finished]
    assert {each.request_id: each.reason for each in ends} == {
        1: FinishReason.LENGTH,
        2: FinishReason.ERROR,
        3: FinishReason.ERROR,
    }
    assert "cannot be added" in ends[0].cause.label
    stats = core.report("check").stats
    assert (stats.totals.received, stats.totals.residue) == (3, Residue())


def test_line_of_a_refused_request_names_its_span(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The engine's line is joined to the trace of the request."""
    facts = RequestFacts(client_id="r", trace_id="ab" * 16, span_id="cd" * 8)
    core = simulated_core(max_model_len=8)

    core.add(msgspec.structs.replace(engine_request(2, [3] * 8), facts=facts))

    [line] = caplog.records
    assert "was refused" in line.getMessage()
    assert {"request_id": "r", "trace_id": "ab" * 16, "span_id": "cd" * 8}.items() <= (
        vars(line).items()
    )


def test_a_prefill_threshold_needs_chunked_prefill() -> None:
    """An option that could do nothing is refused."""
    with pytest.raises(ConfigError, match="requires enable-chunked-prefill") as e:
        SchedulerConfig(enable_chunked_prefill=False, long_prefill_token_threshold=8)

    assert e.value.option == "long-prefill-token-threshold"
