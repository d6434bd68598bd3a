"""Engines in processes of their own, which are killed and stopped mid-transfer."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hookline_faults.p2p_transport import Wire, prefilled, slowly
from hookline_metrics.transfer_stats import transfers_of
from hookline_testing.driven_engine import DrivenEngine, rest, turn_for, turn_until

pytestmark = pytest.mark.slow

MakeEngine = Callable[..., tuple[DrivenEngine, Wire]]

PROMPT = list(range(3, 44))
PATIENT = {"peer_timeout_seconds": 20.0, "load_timeout_seconds": 40.0}
"""For a consumer that is to wait for a process, however busy the machine is."""

_CHILD = """
import json, sys
from contextlib import ExitStack
from pathlib import Path

import conftest
from hookline_testing.driven_engine import rest, turn_until
from hookline_faults.p2p_transport import prefilled, slowly

folder, prompt, told = json.loads(sys.argv[1])
with ExitStack() as stack:
    engine, wire = stack.enter_context(conftest.engines(Path(folder)))()
    wire.spoil = slowly(0.1)
    if told is None:
        print(json.dumps(prefilled(engine, prompt)), flush=True)
    else:
        engine.add(prompt, 6, told)
        print("{}", flush=True)
    turn_until([engine], lambda: False, 60.0)
"""


@contextmanager
def child(
    folder: Path, told: dict[str, object] | None
) -> Iterator[tuple[subprocess.Popen[str], dict[str, object]]]:
    """An engine that produces a prompt's KV, or consumes another's."""
    folder.mkdir()
    given = json.dumps([str(folder), PROMPT, told])
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    process = subprocess.Popen(
        [sys.executable, "-c", _CHILD, given],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": path},
    )
    with process:
        try:
            assert process.stdout is not None
            yield process, json.loads(process.stdout.readline())
        finally:
            process.kill()


def test_killed_producer(make_real_engine: MakeEngine, tmp_path: Path) -> None:
    """What came of its blocks is used; the rest is computed within the time-out."""
    consumer, _ = make_real_engine()
    alone = consumer.add(PROMPT, 6)
    rest([consumer])
    consumer.core.reset_prefix_cache()
    with child(tmp_path / "child", None) as (process, told):
        request = consumer.add(PROMPT, 6, told)
        turn_until([consumer], lambda: transfers_of(consumer.stats).loaded_bytes > 0)

        process.send_signal(signal.SIGKILL)
        took = turn_until([consumer], lambda: request in consumer.ended)

    [stats] = rest([consumer])
    assert consumer.tokens[request] == consumer.tokens[alone]
    assert transfers_of(stats).failures == {"load": {"peer": 1}}
    assert 0 < transfers_of(stats).transferred_tokens < 40
    assert took.own_seconds < 1.4


def test_paused_producer_continues(
    make_real_engine: MakeEngine, tmp_path: Path
) -> None:
    """It stands still for less than the time-out: nothing is lost but time."""
    consumer, _ = make_real_engine(**PATIENT)
    alone = consumer.add(PROMPT, 6)
    rest([consumer])
    consumer.core.reset_prefix_cache()
    with child(tmp_path / "child", None) as (process, told):
        request = consumer.add(PROMPT, 6, told)
        turn_until([consumer], lambda: transfers_of(consumer.stats).loaded_bytes > 0)

        process.send_signal(signal.SIGSTOP)
        turn_for([consumer], 0.3)
        process.send_signal(signal.SIGCONT)
        turn_until([consumer], lambda: request in consumer.ended)

    [stats] = rest([consumer])
    assert consumer.tokens[request] == consumer.tokens[alone]
    assert transfers_of(stats).failures == {}
    assert transfers_of(stats).transferred_tokens == 40


def test_killed_consumer(make_real_engine: MakeEngine, tmp_path: Path) -> None:
    """The producer keeps the blocks, and another consumer takes them."""
    # A process is started within the deadline, however busy the machine is.
    producer, wire = make_real_engine(save_timeout_seconds=60.0)
    consumer, _ = make_real_engine(**PATIENT)
    wire.spoil = slowly(0.05)
    told = prefilled(producer, PROMPT)
    producer.turn()  # the deadline runs from here
    with child(tmp_path / "child", told) as (process, _):
        turn_until([producer], lambda: transfers_of(producer.stats).saved_bytes > 0)
        process.send_signal(signal.SIGKILL)
    request = consumer.add(PROMPT, 6, told)
    turn_until([producer, consumer], lambda: request in consumer.ended)
    giving, taking = rest([producer, consumer])
    alone = producer.add(PROMPT, 6)
    rest([producer])

    assert consumer.tokens[request] == producer.tokens[alone]
    assert transfers_of(taking).transferred_tokens == 40
    assert (transfers_of(giving).saves, transfers_of(giving).failures) == (1, {})
