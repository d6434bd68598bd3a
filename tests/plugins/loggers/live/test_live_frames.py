"""Frames of the live view: every number is that of a staged engine."""

import os
import time
from pathlib import Path

import pytest

from hookline_live import feed as feeds
from hookline_live.columns import bin_of
from hookline_live.feed import EngineFeed, Feed, moment
from hookline_live.frame import EngineFrame, Row
from hookline_recording import read_recording
from hookline_recording.schema import Planned, Published
from hookline_recording.tail import RingTail
from hookline_testing.staged_engine import START, StagedEngine

STEP_NS = 10_000_000


def frame_of(staged: StagedEngine) -> EngineFrame:
    """All that has happened."""
    feed = EngineFeed(staged.ring)
    feed.skip_to(0)
    try:
        return feed.frame(staged.clock.wall(), 100)
    finally:
        feed.close()


def row_of(frame: EngineFrame, client: str) -> Row:
    (found,) = [row for row in frame.rows if row.client == client]
    return found


def total(frame: EngineFrame, name: str) -> int:
    return sum(getattr(column, name) for column in frame.columns)


def durations(frame: EngineFrame, kind: str) -> dict[int, int]:
    found: dict[int, int] = {}
    for column in frame.columns:
        for number, count in column.durations.get(kind, {}).items():
            found[number] = found.get(number, 0) + count
    return found


def test_frame_tells_what_the_engine_did(staged: StagedEngine) -> None:
    """
    Two requests in steps of 10 ms: phases, tokens, latencies, blocks and tenants.
    """
    staged.add("a", "red", prompt=32, n=4)
    staged.add("b", "blue", prompt=40, n=8)
    staged.turn(times=20)
    frame = frame_of(staged)

    a, b = row_of(frame, "a"), row_of(frame, "b")
    assert [phase for phase, _ in a.phases] == ["queued", "prefill", "decode", "end"]
    assert a.phases[3][1] - a.phases[2][1] == 30  # three more tokens
    assert (a.output, a.end, a.tenant, a.prompt) == (4, "length", "red", 32)
    assert (b.output, b.phases[3][1] - b.phases[2][1]) == (8, 70)
    assert (total(frame, "steps"), total(frame, "finished")) == (9, 2)
    assert (total(frame, "prefill"), total(frame, "decode")) == (72, 3 + 7)
    assert durations(frame, "ttft") == {bin_of(STEP_NS): 2}
    assert durations(frame, "itl") == {bin_of(STEP_NS): 10}
    assert durations(frame, "e2e") == {bin_of(4 * STEP_NS): 1, bin_of(8 * STEP_NS): 1}
    assert sum(durations(frame, "queue").values()) == 2
    assert sum(column.tenants.get("red", 0) for column in frame.columns) == 4
    assert sum(column.tenants.get("blue", 0) for column in frame.columns) == 8
    assert total(frame, "forward_us") == 9 * 10_000
    computed = ("fixed_us", "prompts_us", "decodes_us", "slower_us")
    assert sum(total(frame, name) for name in computed) == 9 * 10_000
    assert total(frame, "longest_step") > 0
    assert (frame.running, frame.waiting, frame.used) == (0, 0, 0)
    assert frame.cells == [-1, 64]


def test_frame_tells_who_waits_and_why(folder: Path) -> None:
    """
    One slot for two requests: the second one waits for it, as long as the steps take.
    """
    staged = StagedEngine(folder, num_seqs=1)
    staged.add("first", n=20)
    staged.add("second", "t", n=4)
    staged.turn(times=3)
    frame = frame_of(staged)

    assert (frame.running, frame.waiting, frame.obstacle) == (1, 1, "batch_slots")
    second = row_of(frame, "second")
    assert [phase for phase, _ in second.phases] == ["queued"]
    assert not second.end
    (column,) = frame.columns
    assert column.obstacles == {"batch_slots": 4 * STEP_NS // 1000}
    assert [(each.name, each.running, each.waiting) for each in frame.tenants] == [
        ("", 1, 0),
        ("t", 0, 1),
    ]
    staged.loop.close()


def test_frame_tells_adapters(folder: Path) -> None:
    """
    Adapters and the base model have their requests and blocks, once there is one.
    """
    staged = StagedEngine(folder, num_seqs=2)
    staged.add("base", prompt=32, n=20)
    staged.turn(times=2)
    before = frame_of(staged)
    staged.add("one", prompt=32, n=20, adapter="legal")
    staged.add("two", prompt=32, n=20, adapter="legal")
    staged.turn(times=3)
    frame = frame_of(staged)

    assert before.adapters == []
    shown = [(each.name, each.running, each.waiting) for each in frame.adapters]
    assert shown == [("legal", 1, 1), ("", 1, 0)]
    assert sum(each.blocks for each in frame.adapters) == frame.used
    assert row_of(frame, "one").adapter == "legal"
    staged.loop.close()


def test_frame_tells_preemptions_and_owners(folder: Path) -> None:
    """
    Two requests outgrow the blocks: one loses its own, and the map shows who has them.
    """
    staged = StagedEngine(folder, num_blocks=6)
    staged.add("stays", prompt=32, n=40)
    staged.add("leaves", prompt=32, n=40)
    staged.turn(times=19)
    frame = frame_of(staged)

    assert total(frame, "preempted") == 1
    assert row_of(frame, "leaves").phases[-1][0] == "preempted"
    assert row_of(frame, "leaves").output == 16
    assert frame.holders == [1, frame.used]
    owners = [frame.cells[place] for place in range(0, len(frame.cells), 2)]
    assert set(owners) == {1, -1}
    assert sum(frame.cells[1::2]) == frame.num_blocks
    staged.loop.close()


def test_live_frames_add_up_to_a_window(staged: StagedEngine) -> None:
    """
    Frames that follow a ring have the same sums, and ends, as one of the whole window.
    """
    live = EngineFeed(staged.ring)
    live.skip_to(0)
    sums: dict[str, int] = {}
    ended: dict[str, int] = {}
    steps = 0
    for number in range(12):
        staged.add(f"r-{number}", prompt=20 + number, n=3 + number)
        staged.turn(times=3)
        frame = live.frame(staged.clock.wall(), 100)
        for name in ("steps", "prefill", "decode", "finished", "prompt"):
            sums[name] = sums.get(name, 0) + total(frame, name)
        steps += sum(durations(frame, "itl").values())
        ended |= {row.client: row.output for row in frame.rows if row.end}
    whole = frame_of(staged)

    assert sums == {name: total(whole, name) for name in sums}
    assert sums["steps"] > 30
    assert steps == sum(durations(whole, "itl").values())
    assert ended == {row.client: row.output for row in whole.rows if row.end}
    assert len(ended) > 5
    live.close()


def test_even_steps_count_for_each_request(staged: StagedEngine) -> None:
    """
    Steps of an unchanged batch are counted together, and their tokens are all told.
    """
    feed = EngineFeed(staged.ring)
    feed.skip_to(0)
    staged.add("a", n=50)
    staged.add("b", n=50)
    staged.turn(times=10)
    before = feed.frame(staged.clock.wall(), 100)
    staged.turn(times=10)
    after = feed.frame(staged.clock.wall(), 100)

    outputs = [row.output for row in before.rows]
    assert after.rows == []
    assert after.progress == [1, outputs[0] + 10, 2, outputs[1] + 10]
    assert durations(after, "itl") == {bin_of(STEP_NS): 20}
    feed.close()


def test_moment_shows_what_was(staged: StagedEngine) -> None:
    """
    An earlier moment is shown as it was: what followed is not there yet.
    """
    staged.add("first", n=10)
    staged.turn(times=4)
    then = staged.clock.wall()
    staged.turn(times=10)
    staged.add("later", n=4)
    staged.turn(times=10)

    (was,) = moment(os.getpid(), then).engines
    (now,) = moment(os.getpid(), staged.clock.wall()).engines

    assert [row.client for row in was.rows] == ["first"]
    assert (was.running, was.rows[0].end) == (1, "")
    assert [(row.client, row.end) for row in now.rows] == [
        ("first", "length"),
        ("later", "length"),
    ]
    assert now.oldest is not None
    assert now.oldest <= (START - staged.clock.wall()) // 1_000_000 + 100


def test_frames_of_a_server_follow_its_rings(
    staged: StagedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The feed finds the engines' rings, and one that is gone is shown no more.
    """
    monkeypatch.setattr(time, "sleep", lambda _: None)
    monkeypatch.setattr(feeds, "_LOOK_SECONDS", 0.0)
    frames = Feed(os.getpid()).frames()
    staged.add("a", n=4)
    first = next(frames)
    staged.ring.unlink()
    second = next(frames)

    assert [each.pid for each in first.engines] == [os.getpid()]
    assert first.engines[0].state in ("running", "hung")
    assert second.engines == []
    assert "--flight-recorder-bytes" in second.note
    frames.close()  # type: ignore[attr-defined]  # a generator


def test_tail_reads_each_record_once(staged: StagedEngine) -> None:
    """
    A ring that begins anew many times is read without a gap by who keeps up.
    """
    tail = RingTail(staged.ring)
    tail.seek(0)
    steps: list[int] = []
    for _ in range(60):
        staged.add(prompt=400, n=60)
        staged.turn(times=60)
        steps += [each.step for each in tail.read() if isinstance(each, Planned)]

    assert read_recording(staged.ring).overwritten > 0
    assert steps == list(range(1, len(steps) + 1))
    assert tail.lost == 0
    tail.close()


def test_tail_goes_on_after_it_was_overtaken(staged: StagedEngine) -> None:
    """
    Who is too slow loses records that were overwritten, counts them, and goes on.
    """
    tail = RingTail(staged.ring)
    tail.seek(0)
    staged.add(n=4)
    read = list(tail.read())
    for _ in range(60):
        staged.add(prompt=400, n=60)
        staged.turn(times=60)
    for _ in range(3):
        read += tail.read()

    newest = read_recording(staged.ring).states[-1]
    assert isinstance(read[-1], Published)
    assert read[-1].step == newest.step
    assert tail.lost > 0
    tail.close()


def test_tail_goes_to_a_moment(staged: StagedEngine) -> None:
    """
    Seeking in a ring that has begun anew leaves out what was before the moment.
    """
    for _ in range(60):
        staged.add(prompt=400, n=60)
        staged.turn(times=60)
    states = read_recording(staged.ring).states
    wanted = states[len(states) // 2]
    tail = RingTail(staged.ring)
    tail.seek(wanted.at)
    read = [each for each in tail.read() if isinstance(each, Published)]

    assert read[0].at <= wanted.at
    assert wanted in read
    assert len(read) < len(states)
    assert read[-1] == states[-1]
    tail.close()


def test_partial_requests_are_told_as_such(staged: StagedEngine) -> None:
    """
    Of a request that began before what is read, no first token is invented.
    """
    staged.add("old", n=900, prompt=16)
    staged.turn(times=500)
    feed = EngineFeed(staged.ring)
    feed.skip_to(staged.clock.wall())
    staged.turn(times=4)
    frame = feed.frame(staged.clock.wall(), 100)

    assert [row.client for row in frame.rows] in ([], ["old"])
    assert durations(frame, "ttft") == {}
    feed.close()
