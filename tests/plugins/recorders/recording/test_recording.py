"""Recordings of `--record`: what an engine gets and decides, to repeat it."""

import os
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

import msgspec
import pytest

from hookline.clock import VirtualClock
from hookline.config import (
    CacheConfig,
    EngineConfig,
    ExecutorConfig,
    ModelConfig,
    SchedulerConfig,
)
from hookline.engine.commands import Add, Call, Command, Finish, Reply, ResetPrefixCache
from hookline.engine.engine_loop import EngineLoop
from hookline.engine.scheduler.scheduler import Scheduler
from hookline.engine_setup.building import build_core, build_loop
from hookline.engine_setup.making import make_scheduler_parts
from hookline.events import StepEvents
from hookline.exceptions import ConfigError
from hookline.finish_cause import Aborted
from hookline.step import ModelShape, StepResult
from hookline.transport.engine_client import EngineDied
from hookline_process_engine.capabilities import EngineReplaced
from hookline_process_engine.process_client import ProcessClient
from hookline_process_engine.supervision.config import SupervisionConfig
from hookline_recording import Recording, read_recording, schema
from hookline_recording.checkpoint_schema import Checkpoint, InFlight, LiveRequest
from hookline_recording.config import MIB, RecordingConfig
from hookline_recording.front_end_schema import Answered, Served
from hookline_recording.needs import Needs
from hookline_simulated.config import SimulationConfig
from hookline_testing.oracle import Oracle
from hookline_testing.simulation import engine_request

COMMANDS: list[Command] = [
    Add(engine_request(1, [3, 4, 5], 4)),
    Add(engine_request(2, [3, 4, 6], 30, cache_salt="salt")),
    Call(0, 7, ResetPrefixCache()),
    Finish([2], Aborted("gone")),
]


@pytest.fixture
def config(llama: Oracle, tmp_path: Path) -> EngineConfig:
    return EngineConfig(
        model=ModelConfig(model=str(llama.folder), max_model_len=64),
        cache=CacheConfig(num_kv_blocks=64),
        executor=ExecutorConfig(name="simulated"),
        sections={
            "simulated": SimulationConfig(step_seconds=0.01),
            "recording": RecordingConfig(record=str(tmp_path / "engine.rec")),
        },
    )


def path_of(config: EngineConfig) -> Path:
    return Path(str(RecordingConfig.of(config).record))


def with_recording(config: EngineConfig, **options: object) -> EngineConfig:
    own = replace(RecordingConfig.of(config), **options)  # type: ignore[arg-type]
    return replace(config, sections={**config.sections, "recording": own})


def loop_of(config: EngineConfig) -> EngineLoop:
    return build_loop(build_core(config, VirtualClock()))


def drive(loop: EngineLoop, commands: Sequence[Command], turns: int = 40) -> None:
    """Gives a command every other turn."""
    for turn in range(turns):
        given = list(commands[turn // 2 : turn // 2 + 1] if turn % 2 == 0 else [])

        def receive(_: float, given: list[Command] = given) -> Command | None:
            return given.pop() if given else None

        loop.run_once(receive, 0.0)


def commands_of(recording: Recording) -> list[tuple[int, Command]]:
    decode = msgspec.msgpack.Decoder(Add | Finish | Call).decode
    return [
        (each.at, decode(each.body))
        for each in recording.records
        if isinstance(each, schema.Command)
    ]


def test_a_recording_has_every_command_and_token(config: EngineConfig) -> None:
    """In order and whole, with times that do not go back; the file ends with them."""
    loop = loop_of(config)
    drive(loop, COMMANDS)
    loop.close()

    recording = read_recording(path_of(config))

    assert [command for _, command in commands_of(recording)] == COMMANDS
    assert (recording.lost, recording.overwritten, recording.failure) == (0, 0, None)
    times = [each.at for each in recording.records]
    assert times == sorted(times)
    tokens = [step.computed.tokens for step in recording.steps if step.computed]
    assert sum(len(each[1]) for each in tokens if each and 1 in each) == 4
    assert path_of(config).stat().st_size < 64 * 1024
    assert path_of(config).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("is_async", [False, True])
def test_a_run_is_repeated_from_its_recording(
    config: EngineConfig, *, is_async: bool
) -> None:
    """A scheduler that gets what was recorded makes the same plans and events.

    With preemptions, an abort, and steps that are planned before others have ended.
    """
    limits = SchedulerConfig(
        max_num_seqs=4, max_num_batched_tokens=24, async_scheduling=is_async
    )
    tight = replace(config, cache=CacheConfig(num_kv_blocks=6), scheduler=limits)
    loop = loop_of(tight)
    adds = [Add(engine_request(each, [3] * 9 + [each] * 9, 24)) for each in range(1, 7)]
    drive(loop, [*adds, Finish([3], Aborted("gone"))], turns=150)
    loop.close()
    recording = read_recording(path_of(tight))
    assert any(each.preempted for each in recording.requests.values())
    assert {step.obstacle for step in recording.steps} >= {"kv_blocks", ""}

    plans, events = repeated(recording, tight, loop.core.facts.model)

    assert plans == [
        (step.number, step.request_tokens, step.planned and step.planned.new_blocks)
        for step in recording.steps
    ]
    assert events == [
        told_by(each.events or schema.Events()) for each in recording.states
    ]
    assert sum(len(each[3]) for each in events) == len(adds)


Told = tuple[list[tuple[object, ...]], ...]
Plan = tuple[int, dict[int, int], dict[int, list[int]] | None]


def told_by(events: schema.Events | StepEvents) -> Told:
    """What an output tells of requests, as an engine or a recording has it."""
    return (
        [(each.request_id, each.at) for each in events.queued],
        [(each.request_id, each.at, each.is_resumed) for each in events.scheduled],
        [
            (each.request_id, each.at, str(each.cause), each.beneficiary_id)
            for each in events.preempted
        ],
        [
            (each.request_id, each.at, str(each.reason), each.output_tokens)
            for each in events.finished
        ],
    )


def repeated(
    recording: Recording, config: EngineConfig, shape: ModelShape
) -> tuple[list[Plan], list[Told]]:
    """Plans and events of a new scheduler with recorded commands, results and times."""
    parts = make_scheduler_parts(config, shape, VirtualClock(), {})
    scheduler = Scheduler(config.scheduler, parts, max_model_len=shape.max_model_len)
    commands = iter(commands_of(recording))
    started = {each.step: each.started_at for each in recording.states if each.step}
    plans: list[Plan] = []
    events: list[Told] = []
    for each in recording.records:
        if isinstance(each, schema.Command):
            at, command = next(commands)
            if isinstance(command, Add):
                scheduler.add(command.request, at)
            elif isinstance(command, Finish):
                scheduler.finish(command.request_ids, command.cause, at)
        elif isinstance(each, schema.Planned):
            plan = scheduler.schedule(started[each.step])
            assert plan is not None
            blocks = {number: list(new) for number, new in plan.new_block_ids.items()}
            blocks |= {new.request_id: list(new.block_ids) for new in plan.admitted}
            tokens = dict(zip(plan.request_ids, plan.num_tokens, strict=True))
            plans.append((plan.step, tokens, blocks or None))
        elif isinstance(each, schema.Published):
            if each.computed is not None:
                result = StepResult(tokens=each.computed.tokens or {})
                scheduler.update(result, each.computed.at)
            events.append(told_by(scheduler.take_events()))
    return plans, events


def test_the_last_owner_of_a_block_is_known(config: EngineConfig) -> None:
    """A block that a later request gets names the one that had it."""
    tight = replace(config, cache=CacheConfig(num_kv_blocks=4))
    loop = loop_of(tight)
    adds = [Add(engine_request(each, [each] * 40, 2)) for each in (1, 2, 3)]
    drive(loop, adds, turns=20)
    loop.close()

    steps = read_recording(path_of(tight)).steps

    taken = {(before, now) for step in steps for _, before, now in step.taken_blocks}
    assert {(1, 2), (2, 3)} <= taken


@pytest.mark.slow
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
    assert [command for _, command in commands_of(second)] == [COMMANDS[2]]


def test_a_recording_goes_on_in_further_files(config: EngineConfig) -> None:
    """Each can be read alone, and together they have all records."""
    config = with_recording(config, record_max_bytes=MIB // 4)
    loop = loop_of(config)
    adds = [Add(engine_request(each, [each % 90] * 50, 4)) for each in range(1, 900)]
    drive(loop, adds, turns=2000)
    loop.close()

    parts = sorted(path_of(config).parent.glob("engine.rec*"))
    read = [read_recording(each) for each in parts]

    assert len(read) > 1
    assert [each.lost for each in read] == [0] * len(read)
    assert sum(len(commands_of(each)) for each in read) == len(adds)
    assert read[1].overwritten == len(read[0].records)


def test_a_recording_ends_whole_where_the_disk_is_full(
    config: EngineConfig,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One line says so, later records are counted, and the engine runs on."""
    config = with_recording(config, record_max_bytes=MIB // 4)
    loop = loop_of(config)
    adds = [Add(engine_request(each, [each % 90] * 50, 4)) for each in range(1, 900)]

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    drive(loop, adds, turns=2000)
    loop.close()

    recording = read_recording(path_of(config))
    assert recording.lost == 0
    assert recording.state.steps > recording.steps[-1].number - 2
    assert caplog.text.count("recording ends: cannot write") == 1
    assert "records beyond its end" in caplog.text


def test_a_file_that_cannot_be_written_is_a_config_error(config: EngineConfig) -> None:
    """The option is named, before any request."""
    with pytest.raises(ConfigError, match="record: cannot write"):
        loop_of(with_recording(config, record="/proc/nowhere/engine.rec"))


def test_a_link_is_not_recorded_through(config: EngineConfig, tmp_path: Path) -> None:
    """What it leads to stays as it is."""
    (target := tmp_path / "target").write_text("mine")
    (path := tmp_path / "engine.rec").symlink_to(target)

    with pytest.raises(ConfigError, match="it is a link"):
        loop_of(with_recording(config, record=str(path)))

    assert target.read_text() == "mine"


def test_the_schema_of_version_1_stays() -> None:
    """Fields are only added at the end, with defaults; these are what version 1 has."""
    kinds = (
        *(schema.Arrived, schema.Planned, schema.Computed, schema.Published),
        *(schema.Command, schema.Ended, schema.KeyFrame, schema.Events),
        *(schema.Queued, schema.Scheduled, schema.Preempted, schema.Finished),
        *(schema.Blocked, schema.Gated, Served, Answered),
        *(Needs, Checkpoint, LiveRequest, InFlight),
    )
    fields = [(each.__name__, *each.__struct_fields__) for each in kinds]

    assert schema.VERSION == 1
    digest = blake2b(repr(fields).encode(), digest_size=8).hexdigest()
    assert digest == "ca6a9f4f041fc2cf"
