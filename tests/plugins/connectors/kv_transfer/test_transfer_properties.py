"""Whatever a connector does: right tokens, all requests end, no block is lost."""

import random
from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hookline.config import SchedulerConfig
from hookline.events import StepOutput
from hookline.stats.scheduler_stats import Residue
from hookline_kv_transfer import LoadFailurePolicy
from hookline_metrics.transfer_stats import transfers_of
from hookline_testing.connected_core import (
    SHORT,
    ConnectedCore,
    connected_core,
    news_of,
    tokens_by_request,
)
from hookline_testing.connected_traffic import (
    random_prompts,
    run_alone,
    run_disturbed,
)
from hookline_testing.connectors import DictStore, Faults
from hookline_testing.essential import examples


def check_staged(output: StepOutput) -> None:
    """Requests that wait for a load are among those that wait."""
    stats = output.stats
    transfers = transfers_of(stats)
    assert transfers.waiting_to_load + transfers.loaded_waiting <= stats.waiting


SHARE = st.sampled_from([0.0, 0.0, 0.1, 0.4])
FAULTS = st.builds(
    Faults,
    fails=SHARE,
    hides=SHARE,
    forgets=SHARE,
    late=SHARE,
    raises=st.sampled_from([0.0, 0.02]),
    doubles=SHARE,
)
STORES = st.builds(
    DictStore,
    is_async=st.booleans(),
    keeps=st.booleans(),
    saves_evicted=st.booleans(),
    delay_seconds=st.sampled_from([0.0, 0.004, 0.03]),
    max_blocks=st.sampled_from([1, 3, 99]),
    faults=FAULTS,
)
SCHEDULERS = st.builds(
    SchedulerConfig,
    max_num_seqs=st.sampled_from([2, 8]),
    max_num_batched_tokens=st.sampled_from([9, 64]),
    async_scheduling=st.booleans(),
)


@given(
    store=STORES,
    scheduler=SCHEDULERS,
    num_blocks=st.sampled_from([16, 24, 96]),
    policy=st.sampled_from(LoadFailurePolicy),
    stages=st.sampled_from([1, 2, 3]),
    seed=st.integers(0, 1000),
)
@settings(
    max_examples=examples(30),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
def test_nothing_is_wrong_and_nothing_is_left(  # noqa: PLR0917 - all are drawn
    store: DictStore,
    scheduler: SchedulerConfig,
    num_blocks: int,
    policy: LoadFailurePolicy,
    stages: int,
    seed: int,
) -> None:
    """Faults, lateness, aborts, preemption, stages: forty requests, twice over."""
    source = random.Random(seed)  # noqa: S311 - a test
    prompts = random_prompts(source, 40)
    no_store = connected_core(DictStore(max_blocks=0), num_blocks=512)
    right = run_alone(no_store, prompts)
    transfer = replace(SHORT, kv_load_failure_policy=policy)
    engine = connected_core(
        store,
        num_blocks=num_blocks,
        transfer=transfer,
        scheduler=scheduler,
        stages=stages,
    )
    outputs: list[StepOutput] = []
    for _ in range(2):
        driven = run_disturbed(engine, source, prompts, check_staged)
        outputs += driven
        tokens = tokens_by_request(driven)

        for at, found in tokens.items():
            assert found == right[at][: len(found)]
        stats = engine.core.report("test").stats
        assert stats.totals.residue == Residue()
        assert stats.kv_blocks_used == stats.held.get("remote_kv", 0) == 0
        assert transfers_of(stats) == transfers_of(stats).at_rest()
        assert sum(stats.totals.finished.values()) == stats.totals.received
        if policy is LoadFailurePolicy.RECOMPUTE:
            assert "error" not in stats.totals.finished
    compare_totals(engine, outputs)


def compare_totals(engine: ConnectedCore, outputs: list[StepOutput]) -> None:
    """Totals are the sums over what outputs have told."""
    stats = engine.core.report("test").stats
    preempted = [event for output in outputs for event in output.events.preempted]
    assert stats.preempted == 0
    assert stats.totals.preemptions == len(preempted)
    assert stats.totals.preempted_prompt_tokens == sum(
        event.prompt_tokens for event in preempted
    )
    assert stats.totals.preempted_output_tokens == sum(
        event.output_tokens for event in preempted
    )
    loads = [load for output in outputs for load in news_of(output).loads]
    assert transfers_of(stats).loads == len(loads)
    assert transfers_of(stats).load_ns == sum(load.nanoseconds for load in loads)
    records = [output.record for output in outputs if output.record is not None]
    untold = engine.core._evictions.take_work()
    assert stats.evicted_blocks == untold.blocks + sum(
        record.evictions.blocks for record in records
    )
