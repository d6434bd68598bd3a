"""A producer offers what it has to who is to decode, before the request comes."""

from collections.abc import Callable, Mapping

import pytest

from hookline_faults.p2p_transport import PREFILL, Held, Wire, flipped, prefilled
from hookline_metrics.transfer_stats import transfers_of
from hookline_p2p.wire import Offer, Released, decode
from hookline_testing.driven_engine import DrivenEngine, rest, turn_for, turn_until

MakeEngine = Callable[..., tuple[DrivenEngine, Wire]]

PROMPT = list(range(3, 44))
"""Ten full blocks of 32 bytes, and a token."""


class Pushing:
    """A producer that knows its consumer."""

    def __init__(self, make_engine: MakeEngine, **options: object) -> None:
        self.producer, self.giving = make_engine(mode="push")
        self.consumer, self.taking = make_engine(**options)
        self.both = [self.producer, self.consumer]
        assert self.taking.address is not None
        alone = self.producer.add(PROMPT, 6)
        rest([self.producer])
        self.right = self.producer.tokens[alone]
        self.to = {
            **PREFILL,
            "remote_host": self.taking.address.host,
            "remote_port": self.taking.address.port,
        }

    def push(self) -> dict[str, object]:
        """Computes the prompt, and waits until the producer has let go."""
        told = prefilled(self.producer, PROMPT, self.to)
        rest([self.producer])
        return told

    def serve(self, told: dict[str, object]) -> list[int]:
        request = self.consumer.add(PROMPT, 6, told)
        turn_until(self.both, lambda: request in self.consumer.ended)
        return self.consumer.tokens[request]


def test_blocks_are_there_before_their_request(make_engine: MakeEngine) -> None:
    """The producer is free, and may be gone, before the request has come."""
    pushing = Pushing(make_engine)
    told = pushing.push()
    pushing.giving.is_cut = True

    tokens = pushing.serve(told)

    giving, taking = rest(pushing.both)
    assert tokens == pushing.right
    assert transfers_of(taking).external_cache.hit_tokens == 40
    assert transfers_of(giving).saves == transfers_of(taking).loads == 1
    assert (transfers_of(giving).failures, transfers_of(taking).failures) == ({}, {})


def test_request_waits_for_its_incoming_blocks(make_engine: MakeEngine) -> None:
    """It is filled once they are there; nothing is brought twice."""
    pushing = Pushing(make_engine)
    pushing.giving.spoil = held = Held()
    told = prefilled(pushing.producer, PROMPT, pushing.to)
    turn_until([pushing.producer], lambda: saved_bytes(pushing.producer) > 0)

    request = pushing.consumer.add(PROMPT, 6, told)
    turn_until([pushing.consumer], lambda: loading(pushing.consumer) == 1)
    held.go_on()
    turn_until(pushing.both, lambda: request in pushing.consumer.ended)

    giving, taking = rest(pushing.both)
    assert pushing.consumer.tokens[request] == pushing.right
    assert transfers_of(taking).external_cache.hit_tokens == 40
    assert transfers_of(giving).saved_bytes == 10 * 32
    assert (transfers_of(giving).failures, transfers_of(taking).failures) == ({}, {})


def test_known_beginning_is_left_out(make_engine: MakeEngine) -> None:
    """A load takes the part of what was staged that its engine has not."""
    pushing = Pushing(make_engine)
    pushing.consumer.add(PROMPT[:13], 1)
    rest([pushing.consumer])
    told = pushing.push()

    tokens = pushing.serve(told)

    _, taking = rest(pushing.both)
    assert tokens == pushing.right
    assert transfers_of(taking).external_cache.hit_tokens == 40 - 12


def test_full_staging_leaves_blocks_to_be_asked_for(
    make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The offer is refused, and counted; what was offered is pulled later."""
    monkeypatch.setattr("hookline_p2p.options._LEAST_BYTES", 1)
    pushing = Pushing(make_engine, max_staged_bytes=500)  # one prompt and a half
    first = pushing.push()
    told = prefilled(pushing.producer, PROMPT, pushing.to)
    turn_until([pushing.producer], lambda: "incident" in failures(pushing.producer))

    tokens = [pushing.serve(told)]
    pushing.consumer.core.reset_prefix_cache()
    tokens.append(pushing.serve(first))

    giving, taking = rest(pushing.both)
    assert tokens == [pushing.right] * 2
    assert transfers_of(giving).failures == {"incident": {"push_full": 1}}
    assert (transfers_of(giving).saves, transfers_of(taking).loads) == (2, 2)


def saved_bytes(engine: DrivenEngine) -> int:
    return transfers_of(engine.stats).saved_bytes


def failures(engine: DrivenEngine) -> Mapping[str, Mapping[str, int]]:
    return transfers_of(engine.stats).failures


def test_unrequested_pushed_blocks_expire(make_engine: MakeEngine) -> None:
    """Then it is gone at both ends, and is computed."""
    pushing = Pushing(make_engine, staged_seconds=0.1)
    told = pushing.push()
    turn_for(pushing.both, 0.3)

    tokens = pushing.serve(told)

    _, taking = rest(pushing.both)
    assert tokens == pushing.right
    assert transfers_of(taking).failures == {
        "incident": {"staged_expired": 1},
        "load": {"gone": 1},
    }


def test_absent_decoder_leaves_blocks_to_be_asked_for(make_engine: MakeEngine) -> None:
    """An unanswered offer is dropped, and another engine can pull the blocks."""
    pushing = Pushing(make_engine)
    pushing.giving.spoil = lambda header, frames: (
        [] if isinstance(decode(header), Offer) else [(header, frames)]
    )
    told = prefilled(pushing.producer, PROMPT, pushing.to)
    turn_until([pushing.producer], lambda: "incident" in failures(pushing.producer))

    tokens = pushing.serve(told)

    giving, taking = rest(pushing.both)
    assert tokens == pushing.right
    assert transfers_of(giving).failures == {"incident": {"push_unanswered": 1}}
    assert transfers_of(taking).external_cache.hit_tokens == 40


def test_damage_under_way_is_found(make_engine: MakeEngine) -> None:
    """What came damaged is thrown away; the request finds nothing, and computes."""
    pushing = Pushing(make_engine)
    pushing.giving.spoil = lambda header, frames: (
        [(header, flipped(frames, 40))] if frames else [(header, frames)]
    )
    told = pushing.push()

    tokens = pushing.serve(told)

    _, taking = rest(pushing.both)
    assert tokens == pushing.right
    assert transfers_of(taking).failures == {
        "incident": {"staging_checksum": 1},
        "load": {"gone": 1},
    }


def test_aborted_request_drops_what_was_staged(make_engine: MakeEngine) -> None:
    """Its memory is free for others."""
    pushing = Pushing(make_engine, staged_seconds=0.1)
    told = pushing.push()
    request = pushing.consumer.add(PROMPT, 6, told)

    pushing.consumer.abort(request)
    rest([pushing.consumer])
    turn_for(pushing.both, 0.3)
    pushing.consumer.add([1, 2, 3], 1)
    [taking] = rest([pushing.consumer])

    assert transfers_of(taking).failures == {}  # nothing was left to expire


def test_completions_of_one_request_share_what_was_pushed(
    make_engine: MakeEngine,
) -> None:
    """One of them goes before it was served; the others are."""
    pushing = Pushing(make_engine)
    pushing.giving.spoil = held = Held()
    told = prefilled(pushing.producer, PROMPT, pushing.to)
    turn_until([pushing.producer], lambda: saved_bytes(pushing.producer) > 0)
    first, second, gone, early = (
        pushing.consumer.add(PROMPT, 6, told) for _ in range(4)
    )
    pushing.consumer.abort(early)
    turn_until([pushing.consumer], lambda: loading(pushing.consumer) == 3)
    pushing.consumer.abort(gone)
    held.go_on()

    turn_until(pushing.both, lambda: {first, second} <= set(pushing.consumer.ended))

    giving, taking = rest(pushing.both)
    tokens = pushing.consumer.tokens
    assert tokens[first] == tokens[second] == pushing.right
    assert transfers_of(taking).failures == {"load": {"aborted": 1}}
    assert transfers_of(giving).saved_bytes == 10 * 32
    assert (transfers_of(giving).saves, transfers_of(giving).failures) == (1, {})


def loading(engine: DrivenEngine) -> int:
    return transfers_of(engine.stats).loading


def test_lost_confirmation_frees_the_producer(make_engine: MakeEngine) -> None:
    """A confirmation that is sent twice is harmless."""
    pushing = Pushing(make_engine)
    lost = [True, True]
    pushing.giving.spoil = lambda header, frames: (
        []
        if isinstance(decode(header), Released) and lost and lost.pop()
        else [(header, frames)]
    )

    tokens = pushing.serve(pushing.push())

    giving, _ = rest(pushing.both)
    assert tokens == pushing.right
    assert (transfers_of(giving).saves, transfers_of(giving).failures) == (1, {})
