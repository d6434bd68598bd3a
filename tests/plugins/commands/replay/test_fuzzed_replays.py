"""Engines of random options and traffic are repeated, also from checkpoints."""

from pathlib import Path

import pytest

import hookline_recording.checkpoints
from hookline_recording import read_recording
from hookline_recording.checkpoint_schema import Checkpoint
from hookline_replay.replaying import Replay
from hookline_testing.replay_corpus.fuzzed import record_fuzzed

SEEDS = (
    *range(6),
    *(pytest.param(seed, marks=pytest.mark.exhaustive) for seed in range(6, 60)),
)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_engines_are_repeated(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Policies, sizes, gates, faults, sleep, resets and aborts come in any mixture."""
    monkeypatch.setattr(hookline_recording.checkpoints, "INTERVAL", 500_000_000)
    path = tmp_path / f"{seed}.rec"
    record_fuzzed(path, seed)

    outcome = Replay(path).run()

    assert outcome.difference is None, str(outcome.difference)
    records = read_recording(path).records
    if any(isinstance(each, Checkpoint) for each in records):
        resumed = Replay(path, from_checkpoint=True).run()
        assert resumed.difference is None, str(resumed.difference)
