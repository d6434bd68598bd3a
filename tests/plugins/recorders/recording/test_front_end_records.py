"""What a front end tells of requests completes the recordings of its engines."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from hookline.clock import NANOSECONDS, VirtualClock
from hookline.config import EngineConfig, ExecutorConfig
from hookline.engine.commands import Add
from hookline.engine_setup.building import build_core, build_loop
from hookline.finish_cause import Rejected
from hookline.payloads import (
    EngineFailed,
    EngineStopped,
    HttpAnswered,
    HttpExchange,
    RequestsFinished,
)
from hookline.request import RequestFacts, Slo
from hookline.stats.finished_request import FinishedRequest, RequestTimes
from hookline_recording import FrontEndTimes, read_recording
from hookline_recording.config import RecordingConfig
from hookline_recording.folder import keep_what_was_left, save
from hookline_recording.front_end import FrontEndRing
from hookline_recording.saving import Saving
from hookline_recording.watch import BURST_MISSES, Watch
from hookline_simulated.config import SimulationConfig
from hookline_testing.payloads import FINISHED, make_started
from hookline_testing.simulation import engine_request

SECOND = NANOSECONDS
MARKER = "xyzzy-marker"


@pytest.fixture(autouse=True)
def rings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of rings of this test, with that of an engine that has a request."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    config = EngineConfig(
        executor=ExecutorConfig(name="simulated"),
        sections={
            "simulated": SimulationConfig(step_seconds=1.0),
            "recording": RecordingConfig(flight_recorder_bytes=256 * 1024),
        },
    )
    loop = build_loop(build_core(config, VirtualClock(50 * SECOND)))
    waiting = [Add(engine_request(1, [3] * 4, 4))]
    for _ in range(6):
        loop.run_once(lambda _: waiting.pop() if waiting else None, 0.0)
    monkeypatch.setattr(loop, "close", lambda: None)
    return tmp_path / f"hookline-recordings-{os.geteuid()}"


SERVED = FinishedRequest(
    request_id=1,
    facts=RequestFacts(client_id="mine", tenant="t"),
    cause=FINISHED.cause,
    prompt_tokens=4,
    output_tokens=4,
    preparation_seconds=0.5,
    ttft_seconds=2.0,
    e2e_seconds=5.5,
    # The wall clock is 1000 s ahead of the engine's clock, which queues it at 50 s.
    times=RequestTimes(arrived=1049 * SECOND, queued=1050 * SECOND),
    prompt_token_ids=None,
    is_streamed=True,
)
ANSWERED = HttpExchange(
    route="/v1/completions",
    method="POST",
    status=200,
    seconds=6.0,
    request_bytes=10,
    response_bytes=20,
    client_id="mine",
    begun=1048 * SECOND + SECOND // 2,
    first_byte_seconds=3.0,
    unread_seconds=0.25,
)
TIMES = FrontEndTimes(
    arrived=49 * SECOND,
    prepared=49 * SECOND + SECOND // 2,
    first_token=51 * SECOND,
    ended=54 * SECOND + SECOND // 2,
    head=48 * SECOND + SECOND // 2,
    first_byte=51 * SECOND + SECOND // 2,
    last_byte=54 * SECOND + SECOND // 2,
    unread_ns=SECOND // 4,
    status=200,
)


def the_ring(rings: Path) -> Path:
    (ring,) = rings.glob("*.ring")
    return ring


def watch_with(*requests: FinishedRequest) -> Watch:
    """A watch of this process's engine, which has been told of requests."""
    watch = Watch(Saving(os.getpid(), keep=5, stall_seconds=1e6))
    watch.engine_started(make_started())
    tell(watch, *requests)
    return watch


def tell(watch: Watch, *requests: FinishedRequest) -> None:
    finished = RequestsFinished(engine_index=0, events=(), facts={}, requests=requests)
    watch.requests_finished(finished)


def test_a_request_has_its_times_in_the_front_end(rings: Path) -> None:
    """On the engine's clock, in the ring and in what is saved of it."""
    watch = watch_with(SERVED)
    other = replace(ANSWERED, client_id="", route="/health")
    watch.http_answered(HttpAnswered(exchanges=(ANSWERED, other), in_flight={}))

    save(the_ring(rings), rings / "saved")

    for path in (the_ring(rings), rings / "saved"):
        recording = read_recording(path)
        assert (recording.lost, len(recording.front_end)) == (0, 2)
        assert recording.requests[1].queued_at == 50 * SECOND
        assert recording.front_end_times(1) == TIMES
        assert recording.front_end_times(7) is None
    watch.engine_stopped(EngineStopped(engine_index=0, reason="closed"))
    assert not list(rings.glob("*.front"))


def test_a_rejected_request_is_known(rings: Path) -> None:
    """No engine had it, but whoever asks for it learns why; not of its text."""
    refused = FinishedRequest(
        request_id=0,
        facts=RequestFacts(client_id="late"),
        cause=Rejected("queue_full", f"no room for {MARKER}"),
    )

    watch = watch_with(refused)

    (told,) = read_recording(the_ring(rings)).rejected
    assert (told.client_id, told.reason, told.kind) == (
        "late",
        "rejected",
        "queue_full",
    )
    (ring,) = rings.glob("*.front")
    assert MARKER.encode() not in ring.read_bytes()
    watch.close()


def test_what_is_lost_of_a_front_end_is_counted(rings: Path) -> None:
    """A damaged record is no record, and the others stay."""
    front_end = FrontEndRing(os.getpid())
    for number in (1, 2, 3):
        front_end.add_served(0, replace(SERVED, request_id=number))
    data = front_end.path.read_bytes()
    at = data.index(b"mine", data.index(b"mine") + 1)

    front_end.path.write_bytes(data[:at] + b"m!" + data[at + 2 :])

    recording = read_recording(the_ring(rings))
    assert (recording.lost, len(recording.front_end)) == (1, 2)


def test_a_ring_of_a_dead_server_goes_with_its_engines(rings: Path) -> None:
    """It is kept as long as a ring of an engine needs it, and saved with that."""
    front_end = FrontEndRing(os.getpid())
    front_end.add_served(0, SERVED)

    keep_what_was_left(5)
    assert list(rings.glob("*.front"))  # the engine lives
    front_end._file._map.close()
    os.close(front_end._file._descriptor)
    the_ring(rings).unlink()
    keep_what_was_left(5)

    assert not list(rings.glob("*.front"))


def test_a_failure_and_a_burst_of_misses_are_saved(
    rings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By themselves, and at most one a minute."""
    late = replace(
        SERVED, facts=RequestFacts(client_id="late", slo=Slo(ttft=0.001, e2e=0.001))
    )
    clock = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    watch = watch_with(*[late] * (BURST_MISSES - 1))
    assert not list(rings.glob("*.rec"))

    clock[0] += 10.5
    tell(watch, late)
    assert not list(rings.glob("*.rec"))  # they are no burst
    tell(watch, *[late] * (BURST_MISSES - 1))
    (saved,) = rings.glob("*-slo.rec")
    failed = EngineFailed(engine_index=0, reason="gone", open_requests=1)
    watch.engine_failed(failed)
    assert list(rings.glob("*.rec")) == [saved]
    clock[0] += 60.0
    watch.engine_failed(failed)

    assert len(list(rings.glob("*-failure.rec"))) == 1
    assert read_recording(saved).front_end[-1].client_id == "late"
    watch.close()
