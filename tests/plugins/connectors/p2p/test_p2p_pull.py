"""A prompt is computed by one engine, and continued by another."""

from collections.abc import Callable

from hookline.testing.driven_engine import DrivenEngine, rest, turn_until
from hookline_p2p.testing import PREFILL, Wire, prefilled

MakeEngine = Callable[..., tuple[DrivenEngine, Wire]]

PROMPT = list(range(3, 44))
"""Ten full blocks, and a token."""


def test_what_one_engine_computed_another_continues(make_engine: MakeEngine) -> None:
    """All but a token is loaded; then the producer lets its blocks go."""
    (producer, _), (consumer, _) = make_engine(), make_engine()
    alone = producer.add(PROMPT, 6)
    rest([producer])

    told = prefilled(producer, PROMPT, PREFILL)
    request = consumer.add(PROMPT, 6, told)
    took = turn_until([producer, consumer], lambda: request in consumer.ended)
    giving, taking = rest([producer, consumer])

    assert took < 1.0
    assert consumer.tokens[request] == producer.tokens[alone]
    assert taking.external_cache.hit_tokens == 40
    assert (taking.transfers.failures, giving.transfers.failures) == ({}, {})
    assert (giving.transfers.saves, taking.transfers.loads) == (1, 1)
    assert taking.transfers.loaded_bytes == 10 * 4 * 8
    assert giving.transfers.saved_bytes == 10 * 4 * 8
    assert giving.transfers.expired_blocks == 0
