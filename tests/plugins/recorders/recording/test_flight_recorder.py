"""Rings of engines: bounded, whole after any death, and without what clients wrote."""

import errno
import os
import signal
import subprocess
import sys
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from zlib import crc32

import msgspec
import pytest

from hookline.clock import VirtualClock
from hookline.config import CacheConfig, EngineConfig, ExecutorConfig
from hookline.engine.commands import Add, Command
from hookline.engine.engine_loop import EngineLoop
from hookline.engine_setup.building import build_core, build_loop
from hookline.request import GenerateRequest, RequestFacts
from hookline.sampling_params import SamplingParams
from hookline_processes.private_files import open_private
from hookline_recording import (
    EngineState,
    Recording,
    folder,
    read_recording,
    read_state,
    record_command,
    stores,
)
from hookline_recording.config import Content, RecordingConfig
from hookline_recording.front_end import FrontEndRing
from hookline_recording.reading import (
    NewerRecordingError,
    RecordingError,
    stalled_seconds,
)
from hookline_recording.saving import Saving
from hookline_recording.schema import FRAME, HEADER_BYTES, MAGIC, PREFIX, VERSION
from hookline_simulated.config import SimulationConfig
from hookline_testing.simulation import engine_request

RING_BYTES = 256 * 1024
MARKER = "xyzzy-marker"


@pytest.fixture(autouse=True)
def rings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of rings of this test."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path / f"hookline-recordings-{os.geteuid()}"


def config_with(**recording: object) -> EngineConfig:
    options: dict[str, object] = {"flight_recorder_bytes": RING_BYTES, **recording}
    return EngineConfig(
        cache=CacheConfig(num_kv_blocks=128),
        executor=ExecutorConfig(name="simulated"),
        sections={
            "simulated": SimulationConfig(step_seconds=0.01),
            "recording": RecordingConfig(**options),  # type: ignore[arg-type]
        },
    )


def loop_of(config: EngineConfig) -> EngineLoop:
    return build_loop(build_core(config, VirtualClock()))


def drive(loop: EngineLoop, *commands: Command, turns: int = 12) -> None:
    waiting = list(commands)
    for _ in range(turns):
        loop.run_once(lambda _: waiting.pop(0) if waiting else None, 0.0)


def the_ring(rings: Path) -> Path:
    (ring,) = rings.glob("*.ring")
    return ring


def recorded(rings: Path) -> Recording:
    return read_recording(the_ring(rings))


def test_a_ring_tells_requests_and_steps(rings: Path) -> None:
    """Read while the engine runs: facts, plans, results, states and times."""
    loop = loop_of(config_with())
    request = replace_facts(
        engine_request(1, [3] * 33, 4), client_id="mine", tenant="t"
    )

    drive(loop, Add(request), Add(engine_request(2, [3] * 33, 4)))

    recording = recorded(rings)
    assert recording.header.model == loop.core.facts.model_name
    assert (recording.lost, recording.overwritten) == (0, 0)
    assert recording.find_request("mine") == [1]
    first = recording.requests[1]
    assert first.facts is not None
    assert (first.facts.tenant, first.facts.prompt_tokens) == ("t", 33)
    assert first.scheduled[0].local_cached_tokens == 0
    assert recording.requests[2].scheduled[0].local_cached_tokens == 32
    assert first.finished is not None
    assert (first.finished.reason, first.finished.output_tokens) == ("length", 4)
    assert first.steps == [1, 2, 3, 4]
    step = recording.steps[1]
    assert step.request_tokens == {1: 1, 2: 1}
    assert step.sampled == {1: 1, 2: 1}
    assert step.execute_ns is not None
    assert step.execute_ns >= 10_000_000
    assert step.published is not None
    assert step.published.running == 2
    loop.close()
    assert not list(rings.glob("*.ring"))


def replace_facts(request: GenerateRequest, **facts: str) -> GenerateRequest:
    return msgspec.structs.replace(request, facts=RequestFacts(**facts))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("content", "has_hashes", "has_text"),
    [
        (Content.NONE, False, False),
        (Content.HASHES, True, False),
        (Content.TOKENS, True, True),
    ],
)
def test_a_ring_has_what_clients_wrote_only_with_tokens(
    rings: Path, content: Content, *, has_hashes: bool, has_text: bool
) -> None:
    """Neither a stop string nor the prompt's tokens are in it below that."""
    prompt = [54321] * 32
    params = SamplingParams(max_tokens=2, stop=(MARKER,))
    request = msgspec.structs.replace(engine_request(1, prompt), params=params)
    loop = loop_of(config_with(flight_recorder_content=content))

    drive(loop, Add(request))

    data = the_ring(rings).read_bytes()
    assert (MARKER.encode() in data) is has_text
    assert ((b"\xcd" + (54321).to_bytes(2, "big")) in data) is has_text
    facts = recorded(rings).requests[1].facts
    assert facts is not None
    assert len(facts.block_hashes) == (16 if has_hashes else 0)
    loop.close()


def test_a_ring_keeps_the_newest_and_names_its_requests(rings: Path) -> None:
    """What a key frame repeats tells who the requests of overwritten arrivals are."""
    loop = loop_of(config_with())
    request = replace_facts(engine_request(1, [3] * 4, 40), client_id="long")
    drive(loop, Add(request), turns=3)
    size = the_ring(rings).stat().st_size
    for number in range(2, 900):
        drive(loop, Add(engine_request(number, [number % 900] * 20, 2)), turns=3)

    recording = recorded(rings)

    assert the_ring(rings).stat().st_size == size == HEADER_BYTES + RING_BYTES
    assert recording.overwritten > 1000
    assert recording.lost == 0
    assert recording.state.steps == recording.steps[-1].number
    assert recording.requests[899].finished is not None
    loop.close()


def test_damaged_records_are_skipped_and_counted(rings: Path) -> None:
    """A byte that changed costs one record; a cut file loses what is behind."""
    loop = loop_of(config_with())
    drive(loop, Add(engine_request(1, [3] * 20, 8)))
    whole = recorded(rings)
    data = bytearray(the_ring(rings).read_bytes())
    loop.close()
    path = rings / "damaged"
    data[HEADER_BYTES + 3 * FRAME.size + 120] ^= 0xFF
    path.write_bytes(data)

    damaged = read_recording(path)

    assert damaged.lost == 1
    assert len(damaged.records) == len(whole.records) - 1
    path.write_bytes(data[: HEADER_BYTES + 400])
    assert 0 < len(read_recording(path).records) < len(damaged.records)


def test_newer_schemas_are_refused_by_name(tmp_path: Path) -> None:
    """So are other files, and those of before the schema had a version."""
    path = tmp_path / "other"
    body = msgspec.msgpack.encode({"hookline": "9.1"})
    prefix = PREFIX.pack(MAGIC, VERSION + 1, len(body), crc32(body))
    path.write_bytes((prefix + body).ljust(HEADER_BYTES, b"\0"))
    with pytest.raises(NewerRecordingError, match=f"version {VERSION + 1} .* 9.1,"):
        read_recording(path)
    for data in (b"", b"PK\x03\x04" + bytes(20), b"hkrc" + bytes(99)):
        path.write_bytes(data)
        with pytest.raises(RecordingError, match="other"):
            read_recording(path)


CHILD = """
import sys, time
sys.path.insert(0, {here!r})
from test_flight_recorder import *
loop = loop_of(config_with())
drive(loop, Add(engine_request(1, [3] * 20, 30)), turns=9)
real = loop.core._executor.start
def hang(plan):
    print("hangs", flush=True)
    time.sleep(600)
loop.core._executor.start = hang
loop.run_once(lambda _: None, 0.0)
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_the_last_step_before_a_death_is_readable(
    rings: Path, number: signal.Signals
) -> None:
    """The step that was in flight has its plan and no result, dead or stopped."""
    code = CHILD.format(here=str(Path(__file__).parent))
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"hangs\n"
        child.send_signal(number)
        if number is signal.SIGKILL:
            child.wait()
        ring = the_ring(rings)
        recording = read_recording(ring)
        is_live = folder.is_live(ring)
        child.kill()

    last = recording.steps[-1]
    assert (last.request_ids, last.computed) == ((1,), None)
    assert recording.steps[-2].published is not None
    assert recording.lost == 0
    assert is_live is (number is signal.SIGSTOP)
    state = recording.state
    assert state.busy_since == last.planned.at  # type: ignore[union-attr]
    later = state.busy_since + 12_000_000_000
    assert stalled_seconds(state, recording.header, later) == 12.0


def test_a_ring_of_a_dead_engine_becomes_a_saved_recording(rings: Path) -> None:
    """The next engine of this user keeps it, and only a few of them."""
    for _ in range(4):
        loop = loop_of(config_with(flight_recorder_keep=2))
        drive(loop, Add(engine_request(1, [3] * 20, 8)))
        loop.core.tap.close(RuntimeError("it failed"))  # type: ignore[union-attr]
    last = loop_of(config_with(flight_recorder_keep=2))

    saved = sorted(rings.glob("*.rec"))

    assert len(list(rings.glob("*.ring"))) == 1
    assert len(saved) <= 2
    assert read_recording(saved[-1]).failure == "RuntimeError"
    assert saved[-1].stat().st_size < RING_BYTES
    assert saved[-1].stat().st_mode & 0o777 == 0o600
    last.close()


def dead_ring(rings: Path) -> Path:
    """A ring that a killed engine has left."""
    loop = loop_of(config_with())
    drive(loop, Add(engine_request(1, [3] * 20, 8)))
    data = the_ring(rings).read_bytes()
    loop.close()
    ring = rings / "engine-0-1.ring"
    ring.write_bytes(data)
    return ring


@pytest.mark.parametrize("is_newer", [False, True], ids=["ours", "of a newer one"])
def test_a_ring_is_kept_without_room_for_a_copy(
    rings: Path, monkeypatch: pytest.MonkeyPatch, *, is_newer: bool
) -> None:
    """It is renamed then, so that a full disk has no more rings at each start."""
    ring = dead_ring(rings)
    if is_newer:
        ring.write_bytes(PREFIX.pack(MAGIC, VERSION + 1, 0, 0) + bytes(HEADER_BYTES))
    data = ring.read_bytes()

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(folder, "save", refuse)
    folder.keep_what_was_left(1)

    [kept] = rings.iterdir()
    assert kept.name.endswith("-engine-0-1-left.rec")
    assert kept.read_bytes() == data


def test_rings_that_others_see_to_stay(rings: Path) -> None:
    """One that is being made, and one that another engine keeps just now."""
    ring, new = dead_ring(rings), rings / "engine-1-2.ring"
    new.touch()

    with folder._claimed(ring):
        folder.keep_what_was_left(5)
        assert sorted(rings.iterdir()) == [ring, new]
        with pytest.raises(BlockingIOError):
            folder.retire(ring, "left", 5)
    folder.keep_what_was_left(5)

    assert new.exists()
    assert not ring.exists()


def test_copies_that_were_never_finished_go(rings: Path) -> None:
    """Once nobody has written to them for an hour."""
    dead_ring(rings).unlink()
    old, new = rings / ".a-left.rec.7", rings / ".b-left.rec.8"
    for path in (old, new):
        path.touch()
    os.utime(old, (0, 0))

    folder.keep_what_was_left(5)

    assert list(rings.iterdir()) == [new]


def test_a_copy_without_room_is_no_recording(
    rings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither if it ends in the engine's records, nor in those of a front end."""
    loop = loop_of(config_with())
    drive(loop, Add(engine_request(1, [3] * 20, 8)))
    front_end = FrontEndRing(os.getpid())
    target = rings / "copy"

    class Full(BytesIO):
        room = 0

        def write(self, data: bytes) -> int:  # type: ignore[override]
            type(self).room -= len(data)
            if self.room < 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return super().write(data)

    def full(path: Path) -> Full:
        open_private(path).close()
        return Full()

    monkeypatch.setattr(folder, "open_private", full)
    for Full.room in (1000, the_ring(rings).stat().st_size):
        with pytest.raises(OSError, match="No space"):
            folder.save(the_ring(rings), target)

        assert {path.suffix for path in rings.iterdir()} == {".ring", ".front"}
    front_end.close()
    loop.close()


def test_a_command_removes_no_recordings_of_a_server(
    rings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The server may keep more than the default."""
    loop = loop_of(config_with())
    drive(loop, Add(engine_request(1, [3] * 20, 8)))
    for number in range(7):
        (rings / f"{number}.rec").touch()

    assert record_command.run(["save", str(os.getpid())]) == 0

    assert len(list(rings.glob("*.rec"))) == 8
    assert "0 damaged records" in capsys.readouterr().out
    loop.close()


def test_the_command_says_how_far_a_ring_reaches(
    rings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the size of its records and the time that they span."""
    loop = loop_of(config_with())
    drive(loop, Add(engine_request(1, [3] * 20, 8)))
    used = len(the_ring(rings).read_bytes().rstrip(b"\0")) - HEADER_BYTES
    records = recorded(rings).records
    minutes = RING_BYTES / used * (records[-1].at - records[0].at) / 60e9

    record_command.run(["save", str(os.getpid())])

    told = capsys.readouterr().out.strip()
    assert told.endswith(
        f"; {used / 8:.0f} bytes a step: 0.2 MiB hold {minutes:.0f} minutes of the like"
    )
    loop.close()


def test_two_engines_of_a_process_have_a_ring_each(rings: Path) -> None:
    """In one folder; each ring goes with its engine."""
    first, second = loop_of(config_with()), loop_of(config_with())
    drive(second, Add(engine_request(1, [3] * 4, 2)))

    assert len(folder.find_rings(os.getpid())) == 2
    assert sorted(read_state(path).steps for path in rings.glob("*.ring")) == [0, 2]
    first.close()
    second.close()
    assert not list(rings.glob("*.ring"))


@pytest.mark.parametrize("refused", ["folder", "full"])
def test_an_engine_runs_without_a_place_for_its_ring(
    rings: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    refused: str,
) -> None:
    """A read-only folder or a full disk costs the recorder, and one line."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if refused == "folder":
        monkeypatch.setattr(stores, "rings_folder", refuse)
    else:
        monkeypatch.setattr(os, "posix_fallocate", refuse)

    loop = loop_of(config_with())
    drive(loop, Add(engine_request(1, [3] * 4, 2)))

    assert loop.core.tap is None
    assert "there is no flight recorder" in caplog.text
    assert not list(rings.glob("*.ring"))
    loop.close()


def test_a_ring_leaves_most_of_a_small_place(
    rings: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As in a container with 64 MB of shared memory, which others need, too."""
    real = os.statvfs

    def small(path: str) -> object:
        found = real(path)
        return type("Small", (), {"f_bavail": 256, "f_frsize": 4096, "real": found})()

    monkeypatch.setattr(os, "statvfs", small)

    loop = loop_of(config_with(flight_recorder_bytes=64 * 1024 * 1024))

    assert the_ring(rings).stat().st_size == HEADER_BYTES + 256 * 1024
    assert "is short of room" in caplog.text
    loop.close()


def test_a_ring_is_on_by_default_in_a_process_of_its_own() -> None:
    """An engine in its caller's process has none unless it is asked for."""
    sections: dict[str, object] = {
        "recording": RecordingConfig(),
        "simulated": SimulationConfig(),
    }
    config = replace(config_with(), sections=sections)

    assert loop_of(config).core.tap is None
    loop = loop_of(replace(config, in_process=False))
    assert loop.core.tap is not None
    loop.close()


def test_a_stall_is_saved_once(rings: Path) -> None:
    """A step that takes too long is saved while it lasts, and no second time."""
    loop = loop_of(config_with())
    drive(loop, Add(engine_request(1, [3] * 20, 30)), turns=4)
    state = read_state(the_ring(rings))
    saving = Saving(os.getpid(), keep=5, stall_seconds=10.0)

    assert saving.look(state.at + 10_000_000_000) == []
    (saved,) = saving.look(state.at + 12_000_000_000)
    assert saving.look(state.at + 13_000_000_000) == []

    assert read_recording(Path(saved)).steps[-1].number == state.steps
    assert saving.save_unasked("failure") == []
    assert len(saving.save("asked").saved) == 1
    saving.forget(0)
    assert not list(rings.glob("*.ring"))
    loop.close()


def test_a_stall_has_its_measure(rings: Path) -> None:
    """The first step may compile kernels; between steps the heartbeat goes on."""
    loop = loop_of(config_with())
    header = recorded(rings).header
    second = 1_000_000_000

    def stalled(busy_since: int, steps: int, requests: int = 1) -> float:
        state = EngineState(50 * second, busy_since, requests, steps)
        return stalled_seconds(state, header, 100 * second)

    assert stalled(60 * second, steps=2) == 40.0
    assert stalled(60 * second, steps=1) == 4.0
    assert stalled(0, steps=9) == 49.0
    assert stalled(0, steps=9, requests=0) == 0.0
    loop.close()
