"""A replay may begin at a checkpoint, as that of a ring must."""

from itertools import count
from pathlib import Path

import pytest

import hookline_recording.checkpoints
from hookline.config import CacheConfig
from hookline_recording import RecordingError, read_recording
from hookline_recording.checkpoint_schema import Checkpoint
from hookline_recording.recorder import Recorder
from hookline_recording.ring import MappedFile
from hookline_recording.schema import Record
from hookline_replay.replaying import Replay
from hookline_replay.script import Script
from hookline_testing.replay_corpus.recorded_engine import RecordedEngine
from hookline_testing.replay_corpus.scenarios import SCENARIOS, plain
from hookline_testing.replay_corpus.traffic import Load, arrivals

NAMES = (
    *("preemption", "preemption_with_tokens", "fair_queue", "priorities", "gates"),
    *("faults", "aborts", "steps_ahead", "drafts", "conversations", "sleep"),
)


def begin_at(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has replays begin at another checkpoint than the first."""

    def find(self: Script, records: list[Record]) -> int:
        places = [at for at, each in enumerate(records) if isinstance(each, Checkpoint)]
        found = records[places[number]]
        assert isinstance(found, Checkpoint)
        self.checkpoint = found
        return places[number] + 1

    monkeypatch.setattr(Script, "_find_checkpoint", find)


@pytest.mark.parametrize("name", NAMES)
def test_a_replay_begins_at_each_checkpoint(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Queue, batch, blocks and hashes are those of the recorded engine."""
    monkeypatch.setattr(hookline_recording.checkpoints, "INTERVAL", 400_000_000)
    path = tmp_path / f"{name}.rec"
    SCENARIOS[name](path)
    records = read_recording(path).records
    number = sum(isinstance(each, Checkpoint) for each in records)

    assert number >= 2
    for at in range(number):
        begin_at(at, monkeypatch)
        outcome = Replay(path, from_checkpoint=True).run()
        assert outcome.difference is None, f"{at}: {outcome.difference}"


def test_a_ring_that_was_overwritten_is_repeated_from_its_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest records are gone, and what they told of live requests is not."""
    monkeypatch.setattr(hookline_recording.checkpoints, "INTERVAL", 500_000_000)
    monkeypatch.setattr(MappedFile, "has_room", lambda *_: True)  # written around
    monkeypatch.setattr(
        "hookline_testing.replay_corpus.recorded_engine.MOST_BYTES", 64 * 1024
    )
    path = tmp_path / "ring.rec"
    core = plain(cache=CacheConfig(num_kv_blocks=24, block_size=8))
    engine = RecordedEngine(core, path)
    engine.serve(arrivals(Load(requests=120, seconds=6.0), 31))
    engine.close()

    outcome = Replay(path).run()

    assert read_recording(path).overwritten > 100
    assert outcome.difference is None, str(outcome.difference)
    assert outcome.steps > 50


def test_a_begin_in_mid_run_without_a_checkpoint_is_refused(tmp_path: Path) -> None:
    """It is told when there is one."""
    path = tmp_path / "short.rec"
    SCENARIOS["prefix_hits"](path)

    with pytest.raises(RecordingError, match="a ring has one after ten seconds"):
        Replay(path, from_checkpoint=True)


def test_a_pool_that_is_too_large_has_no_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine's thread copies no more than a key frame's size."""
    monkeypatch.setattr(hookline_recording.checkpoints, "INTERVAL", 0)
    made = count()
    write = Recorder._write_checkpoint

    def counted(self: Recorder, *arguments: object) -> None:
        next(made)
        write(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Recorder, "_write_checkpoint", counted)
    path = tmp_path / "large.rec"
    engine = RecordedEngine(plain(cache=CacheConfig(num_kv_blocks=70_000)), path)
    engine.serve(arrivals(Load(requests=3), 32))
    engine.close()

    records = read_recording(path).records
    assert next(made) > 3
    assert not [each for each in records if isinstance(each, Checkpoint)]
