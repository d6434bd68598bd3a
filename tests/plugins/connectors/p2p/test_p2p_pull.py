"""A prompt is computed by one engine, and continued by another."""

from collections.abc import Callable

from hookline_faults.p2p_transport import PREFILL, Wire, prefilled, slowly
from hookline_metrics.transfer_stats import transfers_of
from hookline_testing.driven_engine import DrivenEngine, rest, turn_until

MakeEngine = Callable[..., tuple[DrivenEngine, Wire]]

PROMPT = list(range(3, 44))
"""Ten full blocks, and a token."""


def test_consumer_continues_the_producers_prompt(make_engine: MakeEngine) -> None:
    """All but a token is loaded; then the producer lets its blocks go."""
    (producer, _), (consumer, _) = make_engine(), make_engine()
    alone = producer.add(PROMPT, 6)
    rest([producer])

    params = prefilled(producer, PROMPT, PREFILL)
    request = consumer.add(PROMPT, 6, params)
    took = turn_until([producer, consumer], lambda: request in consumer.ended)
    giving, taking = rest([producer, consumer])

    assert took.own_seconds < 1.0
    assert consumer.tokens[request] == producer.tokens[alone]
    assert transfers_of(taking).external_cache.hit_tokens == 40
    assert transfers_of(taking).hit_source == "p2p"
    assert (transfers_of(taking).failures, transfers_of(giving).failures) == ({}, {})
    assert (transfers_of(giving).saves, transfers_of(taking).loads) == (1, 1)
    assert transfers_of(taking).loaded_bytes == 10 * 4 * 8
    assert transfers_of(giving).saved_bytes == 10 * 4 * 8
    assert transfers_of(giving).expired_blocks == 0


def test_completions_of_one_request_load_side_by_side(make_engine: MakeEngine) -> None:
    """The producer keeps the blocks until the last of them has them."""
    (producer, wire), (consumer, _) = make_engine(), make_engine()
    alone = producer.add(PROMPT, 6)
    rest([producer])
    wire.spoil = slowly(0.02)
    params = prefilled(producer, PROMPT)

    requests = [consumer.add(PROMPT, 6, params) for _ in range(2)]
    turn_until([producer, consumer], lambda: set(requests) <= set(consumer.ended))

    giving, taking = rest([producer, consumer])
    for request in requests:
        assert consumer.tokens[request] == producer.tokens[alone]
    assert transfers_of(taking).loads == 2
    assert (transfers_of(giving).saves, transfers_of(taking).failures) == (1, {})
