"""Outputs of an engine whose work all awaits KV transfers lose nothing."""

from hookline.config import SchedulerConfig
from hookline.engine.engine_core import WAIT
from hookline_testing.connected_core import ConnectedCore, connected_core
from hookline_testing.connectors import DictStore
from hookline_testing.simulation import engine_request

PROMPTS = [list(range(start, start + 41)) for start in (3, 103, 203, 303)]


def evicting_core(*, follows_cache: bool) -> ConnectedCore:
    """Loads take time, and there are blocks for one request and a half."""
    return connected_core(
        DictStore(is_async=True, delay_seconds=0.03),
        num_blocks=16,
        scheduler=SchedulerConfig(max_num_seqs=1, max_num_batched_tokens=64),
        follows_cache=follows_cache,
        residency_sample=1.0,
    )


def evictions(engine: ConnectedCore) -> int:
    """Evictions reported for prompts that are computed once and loaded later."""
    for request_id, prompt in enumerate([*PROMPTS, *PROMPTS]):
        engine.core.add(engine_request(request_id, prompt, 1))
    return sum(len(output.events.evictions) for output in engine.run())


def test_evictions_are_reported_while_loads_are_awaited() -> None:
    """As many as where changes of the cache are followed, so that no output waits."""
    expected = evictions(evicting_core(follows_cache=True))

    assert expected > 20
    assert evictions(evicting_core(follows_cache=False)) == expected


def test_a_waiting_output_takes_nothing() -> None:
    """What it could have carried comes with the next output."""
    engine = evicting_core(follows_cache=False)
    engine.core.add(engine_request(1, PROMPTS[0], 1))
    engine.run()
    engine.core.reset_prefix_cache()
    engine.core.add(engine_request(2, PROMPTS[0], 1))
    causes = set()
    while (output := engine.step()).cause != WAIT:
        causes.add(output.cause)
    engine.core.add(engine_request(3, PROMPTS[1], 1))

    assert causes == {"transfer"}
    assert output.events.queued == []
    assert [event.request_id for event in engine.core.report("test").events.queued] == [
        3
    ]
