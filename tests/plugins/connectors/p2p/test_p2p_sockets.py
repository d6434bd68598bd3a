"""Strangers at the port are ignored or refused, in the system's time."""

import random
import socket
from collections.abc import Callable

import pytest
import zmq

from hookline_faults.p2p_transport import Wire, make_known, prefilled
from hookline_metrics.transfer_stats import transfers_of
from hookline_testing.driven_engine import DrivenEngine, rest, turn_until

MakeEngine = Callable[..., tuple[DrivenEngine, Wire]]

PROMPT = list(range(3, 44))
"""Ten full blocks, and a token."""


def computed(engine: DrivenEngine) -> list[int]:
    """The output if the engine computes everything itself; it forgets it again."""
    request = engine.add(PROMPT, 6)
    rest([engine])
    engine.core.reset_prefix_cache()
    return engine.tokens[request]


def has_refused(engine: DrivenEngine) -> bool:
    return "refused" in transfers_of(engine.stats).failures.get("incident", {})


SECRETS = {"same": ("a" * 16, "a" * 16), "other": ("a" * 16, "b" * 16)}
SECRETS |= {"none": ("a" * 16, ""), "needless": ("", "a" * 16)}


@pytest.mark.parametrize("secrets", sorted(SECRETS))
def test_secret_is_needed(
    make_real_engine: MakeEngine,
    monkeypatch: pytest.MonkeyPatch,
    secrets: str,
) -> None:
    """Who has another, or none, is refused at once; both sides count it."""
    engines = []
    for secret in SECRETS[secrets]:
        monkeypatch.delenv("HOOKLINE_P2P_SECRET", raising=False)
        if secret:
            monkeypatch.setenv("HOOKLINE_P2P_SECRET", secret)
        engines.append(make_real_engine()[0])
    producer, consumer = engines
    right = computed(consumer)
    told = prefilled(producer, PROMPT)

    request = consumer.add(PROMPT, 6, told)
    took = turn_until(engines, lambda: request in consumer.ended)
    [taking] = rest([consumer])
    turn_until([producer], lambda: secrets == "same" or has_refused(producer))

    assert consumer.tokens[request] == right
    assert took.own_seconds < 1.4
    if secrets == "same":
        assert transfers_of(taking).transferred_tokens == 40
    else:
        assert transfers_of(taking).failures == {"load": {"refused": 1}}


def test_garbage_at_the_port_is_ignored(make_real_engine: MakeEngine) -> None:
    """Random bytes and meaningless messages change nothing."""
    (producer, _), (consumer, _) = make_real_engine(), make_real_engine()
    right = computed(consumer)
    told = prefilled(producer, PROMPT)
    address = ("127.0.0.1", told["remote_port"])
    with socket.create_connection(address) as stranger:  # type: ignore[arg-type]
        stranger.sendall(random.Random(1).randbytes(5000))  # noqa: S311 - a test
        with zmq.Context() as context, context.socket(zmq.DEALER) as speaker:
            speaker.linger = 0
            make_known(speaker)
            speaker.connect("tcp://{}:{}".format(*address))
            speaker.send(b"")
            speaker.send_multipart([b"\x91\xa4ping", b"x" * 100])
            speaker.send_multipart([b"x"] * 50)
            speaker.send(b"\x91\xa4pong")
            assert speaker.poll(2000)  # a ping's answer

            request = consumer.add(PROMPT, 6, told)
            turn_until([producer, consumer], lambda: request in consumer.ended)
            giving, taking = rest([producer, consumer])

    assert consumer.tokens[request] == right
    assert transfers_of(taking).transferred_tokens == 40
    assert transfers_of(giving).failures["incident"]["malformed"] >= 3
