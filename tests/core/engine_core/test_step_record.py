"""A step's record and state contain exact amounts of work."""

from hookline.clock import NANOSECONDS
from hookline.config import CacheConfig, SchedulerConfig
from hookline.events import StepRecord
from hookline.finish_cause import Aborted
from hookline.step import ModelCost
from hookline_metrics.step_cost import flops, read_bytes, write_bytes
from hookline_simulated.config import SimulationConfig
from hookline_testing.simulation import engine_request, run_to_end, simulated_core

CHUNKS = SchedulerConfig(max_num_batched_tokens=8, max_num_seqs=4)


def record_of(steps: list[StepRecord | None]) -> list[StepRecord]:
    return [step for step in steps if step is not None]


def test_chunks_and_decodes_count_what_they_read() -> None:
    """A prompt of 11 tokens in chunks of 8, alone, then a decode.

    8 tokens after none see 36 pairs; 3 after 8 see 24 + 6; one after 11 sees 12.
    """
    core = simulated_core(scheduler=CHUNKS)
    core.add(engine_request(1, range(3, 14), 2))

    records = record_of([output.record for output in run_to_end(core)])

    assert [record.work.context_tokens for record in records] == [0, 8, 11]
    assert [record.work.attention_pairs for record in records] == [36, 30, 12]
    assert [record.sampled_requests for record in records] == [0, 1, 1]


def test_a_mixed_step_adds_up() -> None:
    """Two decodes after 3 and 4 tokens, and 6 new ones after none: 4 + 5 + 21."""
    core = simulated_core(scheduler=CHUNKS)
    core.add(engine_request(1, [5, 6, 7], 4))
    core.add(engine_request(2, [8, 9, 10, 11], 4))
    core.step()

    core.add(engine_request(3, range(20, 27), 1))
    record = core.step().record

    assert record is not None
    assert record.request_tokens == [(1, 1), (2, 1), (3, 6)]
    assert (record.work.context_tokens, record.work.attention_pairs) == (7, 30)
    assert record.sampled_requests == 2


def test_prefix_hits_are_context() -> None:
    """A request that finds 4 of its 6 tokens computes 2: 2·4 + 3 pairs."""
    core = simulated_core(cache=CacheConfig(block_size=2))
    core.add(engine_request(1, [5, 6, 7, 8], 1))
    core.step()

    core.add(engine_request(2, [5, 6, 7, 8, 9, 10], 1))
    record = core.step().record

    assert record is not None
    assert (record.work.context_tokens, record.work.attention_pairs) == (4, 11)


def test_forward_time_is_what_the_simulation_took() -> None:
    """The simulated step time is all forward pass, within that of executing."""
    simulation = SimulationConfig(
        step_seconds=0.25, prefill_token_seconds=0.5, decode_request_seconds=0.125
    )
    core = simulated_core(simulation=simulation)
    core.add(engine_request(1, [5, 6, 7], 2))

    records = record_of([output.record for output in run_to_end(core)])

    assert [each.execution.forward_ns / NANOSECONDS for each in records] == [
        1.75,
        0.375,
    ]
    assert [each.executed_at - each.scheduled_at for each in records] == [
        each.execution.forward_ns for each in records
    ]


def test_cost_of_a_step_from_its_record() -> None:
    """Operations and bytes follow from the facts' costs and the record alone."""
    cost = ModelCost(
        flops_per_token=100.0,
        flops_per_pair=10.0,
        flops_per_sample=1.0,
        weight_bytes=1000,
        kv_bytes_per_token=7,
    )
    core = simulated_core(cost=cost)
    core.add(engine_request(1, [5, 6, 7], 2))
    core.step()

    record = core.step().record

    assert record is not None
    assert core.facts.model.cost == cost
    assert flops(cost, record) == 100 + 10 * 4 + 1
    assert (read_bytes(cost, record), write_bytes(cost, record)) == (1021, 7)


def test_waiting_tokens_are_all_that_waits() -> None:
    """New requests count with their prompts, preempted ones with their output too.

    Of two requests with 4 tokens the second is preempted when the first needs the
    fourth and last block: it waits with its prompt and the tokens it has got.
    """
    cache = CacheConfig(block_size=2, num_kv_blocks=4, enable_prefix_caching=False)
    core = simulated_core(cache=cache, max_model_len=8)
    core.add(engine_request(1, [3, 4, 5], 5))
    core.add(engine_request(2, [6, 7, 8], 5))
    core.add(engine_request(3, [9] * 7, 1))
    counts = [core.report("check").stats.waiting_tokens]

    outputs = [core.step(), core.step(), core.step()]
    counts += [output.stats.waiting_tokens for output in outputs]
    core.finish([3], Aborted("client"))
    counts.append(core.report("check").stats.waiting_tokens)
    outputs += run_to_end(core)

    assert [len(output.events.preempted) for output in outputs[:3]] == [0, 0, 1]
    assert counts == [13, 7, 7, 7 + 5, 5]
    assert outputs[-1].stats.waiting_tokens == 0
