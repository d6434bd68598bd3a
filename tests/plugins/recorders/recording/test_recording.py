"""Recordings of engines: what is read is what the engine took and gave."""

import logging
import resource
import struct
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from hookline.clock import VirtualClock
from hookline.config import (
    CacheConfig,
    EngineConfig,
    ExecutorConfig,
    ModelConfig,
    ObserverConfig,
)
from hookline.engine.commands import (
    SCHEMA_VERSION,
    Add,
    Call,
    Command,
    EngineMessage,
    Finish,
    Reply,
    ResetPrefixCache,
    Told,
)
from hookline.engine.engine_loop import EngineLoop
from hookline.engine_setup.building import build_core, build_loop
from hookline.engine_setup.engine_recorder import GuardedRecorder
from hookline.events import StepOutput
from hookline.exceptions import ConfigError, SchemaVersionError
from hookline.finish_cause import Aborted
from hookline.transport.engine_client import EngineDied
from hookline_process_engine.capabilities import EngineReplaced
from hookline_process_engine.process_client import ProcessClient
from hookline_process_engine.supervision.config import SupervisionConfig
from hookline_recording import (
    RecordedCommand,
    RecordedOutput,
    RecordedReply,
    Truncated,
    read_recording,
)
from hookline_recording.recording import RecordingError
from hookline_simulated.config import SimulationConfig
from hookline_testing.oracle import Oracle
from hookline_testing.simulation import engine_request, simulated_core

COMMANDS: list[Command] = [
    Add(engine_request(1, [3, 4, 5], 4)),
    Add(engine_request(2, [3, 4, 6], 30, cache_salt="salt")),
    Call(0, 7, ResetPrefixCache()),
    Finish([2], Aborted("gone")),
]


@pytest.fixture
def config(llama: Oracle, tmp_path: Path) -> EngineConfig:
    return EngineConfig(
        model=ModelConfig(model=str(llama.folder)),
        cache=CacheConfig(num_kv_blocks=64),
        executor=ExecutorConfig(name="simulated"),
        observers=ObserverConfig(record=str(tmp_path / "engine.rec")),
        sections={"simulated": SimulationConfig(step_seconds=0.01)},
    )


def path_of(config: EngineConfig) -> Path:
    assert config.observers.record is not None
    return Path(config.observers.record)


def drive(loop: EngineLoop, turns: int = 40) -> list[EngineMessage]:
    """Gives a command every other turn; returns all that comes."""
    news: list[EngineMessage] = []
    for turn in range(turns):
        given = COMMANDS[turn // 2 : turn // 2 + 1] if turn % 2 == 0 else []

        def receive(_: float, given: list[Command] = given) -> Command | None:
            return given.pop() if given else None

        news += loop.run_once(receive, 0.0)
    return news


def test_a_recording_has_every_command_and_output(config: EngineConfig) -> None:
    """In order, equal to what went in and out, with times that do not go back."""
    loop = build_loop(build_core(config, VirtualClock()))
    news = drive(loop)
    loop.close()

    recording = read_recording(path_of(config))

    assert recording.is_complete
    written = recording.header.config
    assert replace(written, sections={}) == replace(config, sections={})
    assert SimulationConfig.of(written) == SimulationConfig.of(config)
    assert recording.header.facts == loop.core.facts
    entries = recording.entries
    assert [e.command for e in entries if isinstance(e, RecordedCommand)] == COMMANDS
    recorded: list[EngineMessage] = []
    for entry in entries:
        if isinstance(entry, RecordedOutput):
            recorded.append(entry.output)
        elif isinstance(entry, RecordedReply):
            recorded.append(entry.reply)
    assert recorded == news
    assert Reply(0, 7, Told()) in recorded
    times = [entry.at for entry in entries]
    assert times == sorted(times)
    assert times[0] >= recording.header.clock.monotonic


def test_a_killed_process_leaves_its_recording(config: EngineConfig) -> None:
    """All that the front end has received is in the file, without any farewell."""
    client = ProcessClient(replace(config, in_process=False))
    client.send(0, Add(engine_request(1, [3, 4], 10)))
    received: list[StepOutput] = []
    while not any(output.events.finished for output in received):
        output = client.receive(20.0)
        assert isinstance(output, StepOutput)
        received.append(output)
    client._launched[0]._process.kill()
    client.close()

    entries = read_recording(path_of(config)).entries

    outputs = [each.output for each in entries if isinstance(each, RecordedOutput)]
    assert outputs[: len(received)] == received


def test_a_process_that_replaces_another_records_elsewhere(
    config: EngineConfig,
) -> None:
    """The recording of the one that was killed stays as it is."""
    supervised = SupervisionConfig(engine_restart=1)
    sections = {**config.sections, "supervision": supervised}
    client = ProcessClient(replace(config, in_process=False, sections=sections))
    with closing(client):
        client.kill(0, "a test")
        while not isinstance(received := client.receive(20.0), EngineDied):
            assert received is not None
        before = path_of(config).read_bytes()
        client.replace(0, 0.0)
        while not isinstance(received := client.receive(20.0), EngineReplaced):
            assert received is None
        client.send(0, Call(0, 7, ResetPrefixCache()))
        while not isinstance(client.receive(20.0), Reply):
            pass

    second = read_recording(Path(f"{path_of(config)}.2"))
    assert path_of(config).read_bytes() == before
    assert any(isinstance(each, RecordedReply) for each in second.entries)


def test_a_recording_ends_at_its_limit(
    config: EngineConfig, caplog: pytest.LogCaptureFixture
) -> None:
    """The last entry marks it, later ones are counted, and the engine runs on."""
    whole = build_loop(build_core(config, VirtualClock()))
    drive(whole)
    whole.close()
    limit = path_of(config).stat().st_size // 2
    observers = replace(config.observers, record_max_bytes=limit)
    config = replace(config, observers=observers)
    loop = build_loop(build_core(config, VirtualClock()))
    with caplog.at_level(logging.WARNING):
        news = drive(loop)
        loop.close()

    recording = read_recording(path_of(config))

    last = recording.entries[-1]
    assert isinstance(last, Truncated)
    assert last.max_bytes == limit
    assert path_of(config).stat().st_size < 2 * limit
    num_dropped = len(news) + len(COMMANDS) - (len(recording.entries) - 1)
    assert num_dropped > 0
    assert f"lacks {num_dropped} entries beyond" in caplog.text
    assert f"has reached {limit} bytes" in caplog.text


def test_a_recording_ends_whole_where_the_disk_is_full(
    config: EngineConfig, caplog: pytest.LogCaptureFixture
) -> None:
    """One line says so, later entries are counted, and the engine runs on."""
    whole = build_loop(build_core(config, VirtualClock()))
    drive(whole)
    whole.close()
    room = path_of(config).stat().st_size - 10
    loop = build_loop(build_core(config, VirtualClock()))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        news = drive(loop)
        loop.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    recording = read_recording(path_of(config))

    assert recording.is_complete
    num_dropped = len(news) + len(COMMANDS) - len(recording.entries)
    assert 0 < num_dropped < len(news)
    assert f"lacks {num_dropped} entries beyond" in caplog.text
    assert caplog.text.count("recording ends: cannot write") == 1


def test_a_recording_that_is_cut_off_can_be_read(config: EngineConfig) -> None:
    """Everything before the cut is read, and the reader reports the truncation."""
    loop = build_loop(build_core(config, VirtualClock()))
    drive(loop)
    loop.close()
    path = path_of(config)
    whole = read_recording(path)
    path.write_bytes(path.read_bytes()[:-3])

    cut = read_recording(path)

    assert not cut.is_complete
    assert cut.entries == whole.entries[:-1]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a recording"),
        (b"PK\x03\x04" + bytes(20), "not a recording"),
        (struct.pack("<4sI", b"hkrc", SCHEMA_VERSION), "does not begin"),
        (
            struct.pack("<4sII", b"hkrc", SCHEMA_VERSION, 3) + b"\xc1\xc1\xc1",
            "damaged",
        ),
    ],
)
def test_other_files_are_refused(tmp_path: Path, data: bytes, message: str) -> None:
    """What is no recording is one clear error with the file's name."""
    path = tmp_path / "other"
    path.write_bytes(data)

    with pytest.raises(RecordingError, match=message) as caught:
        read_recording(path)

    assert caught.value.path == str(path)


def test_another_schema_version_is_refused(tmp_path: Path) -> None:
    """The error names both versions."""
    path = tmp_path / "later"
    path.write_bytes(struct.pack("<4sI", b"hkrc", SCHEMA_VERSION + 1))

    with pytest.raises(SchemaVersionError) as caught:
        read_recording(path)

    assert (caught.value.found, caught.value.expected) == (
        SCHEMA_VERSION + 1,
        SCHEMA_VERSION,
    )


def test_a_file_that_cannot_be_written_is_a_config_error(config: EngineConfig) -> None:
    """The option is named, before any request."""
    observers = replace(config.observers, record="/proc/nowhere/engine.rec")
    config = replace(config, observers=observers)

    with pytest.raises(ConfigError, match="record: cannot write"):
        build_loop(build_core(config, VirtualClock()))


def test_a_link_is_not_recorded_through(config: EngineConfig, tmp_path: Path) -> None:
    """What it leads to stays as it is."""
    (target := tmp_path / "target").write_text("mine")
    (path := tmp_path / "engine.rec").symlink_to(target)
    observers = replace(config.observers, record=str(path))
    config = replace(config, observers=observers)

    with pytest.raises(ConfigError, match="it is a link"):
        build_loop(build_core(config, VirtualClock()))

    assert target.read_text() == "mine"


class Faulty:
    """A recorder that fails with its third output."""

    def __init__(self) -> None:
        self.outputs = 0

    def command(self, at: int, command: Command) -> None:
        pass

    def output(self, at: int, message: EngineMessage) -> None:  # noqa: ARG002
        self.outputs += 1
        if self.outputs == 3:
            raise OSError("disk full")

    def close(self) -> None:
        raise AssertionError("a recorder that failed is not called again")


def test_a_recorder_that_fails_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    """Its error is logged once; the engine's outputs are those without a recorder."""
    tap = Faulty()
    tapped = EngineLoop(simulated_core(), 1000.0, GuardedRecorder(tap))
    plain = EngineLoop(simulated_core(), 1000.0)

    assert drive(tapped) == drive(plain)
    tapped.close()
    plain.close()
    assert tap.outputs == 3
    assert caplog.text.count("the recorder failed and is not called again") == 1
    assert "disk full" in caplog.text
