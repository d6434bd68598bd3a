"""What `why`, `stalled`, `/why` and comparisons answer, of staged engines."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from hookline.clock import NANOSECONDS
from hookline.config import SchedulerConfig
from hookline.engine.commands import Finish
from hookline.finish_cause import Aborted
from hookline.pages import PageRequest, PageResponse
from hookline.request import Slo
from hookline_bench.compare import run as compare
from hookline_insight import Explainer, why_command
from hookline_insight.account import Cause
from hookline_insight.activity import Activity
from hookline_insight.answers import answers, missing, of_request, shown
from hookline_insight.bounds import bound_of
from hookline_insight.pages import Insight
from hookline_insight.selection import Selection, selected
from hookline_insight.stalled import Condition, standstill
from hookline_insight.stalled_command import run as stalled
from hookline_insight.usage import NOBODY, OTHERS, Usage
from hookline_insight.usage import lines as usage_lines
from hookline_recording import read_recording
from hookline_recording.front_end_schema import Served
from hookline_server.cli.errors import CommandFailedError, UsageError

from .staged_engine import DECODE, PREFILL, START, STEP, Stage

HOSTILE = "\x1b[2J\x1b]0;own\x07<script>\u202e"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of rings of this test."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def slots(count: int, **given: object) -> Stage:
    return Stage(SchedulerConfig(max_num_seqs=count), **given)  # type: ignore[arg-type]


def test_states_of_a_request_are_told_apart(folder: Path) -> None:
    """Ended, aborted, running, waiting, unknown."""
    stage = slots(2, until=START + NANOSECONDS).add(0, 1, 16, 3).add(0.1, 2, 16, 300)
    stage.add(0.1, 3, 16, 300).add(0.2, 4, 16, 3).add(0.2, 5, 16, 3)
    stage.at(0.5, Finish([5], Aborted("disconnect")))

    dead = stage.play(folder)

    explainer = Explainer(dead.recording, dead.until)
    said = {
        number: answers(f"r-{number}", [explainer])[0].lines()[0]
        for number in range(1, 6)
    }
    assert said[1].startswith("r-1 took ")
    assert said[2].startswith("r-2 has not ended after ")
    assert "r-4 has not ended after" in said[4]
    assert "waiting for one of the 2 batch slots: r-" in said[4]
    assert said[5].startswith("r-5 was aborted after ")
    (lost,) = answers("r-2", [dead])
    assert lost.sentence.startswith("r-2 had not ended after ")
    assert lost.fields()["state"] == "lost"
    assert not answers("r-6", [explainer])
    assert missing("r-6", [explainer]).endswith("has got a request of that id")


def test_a_request_of_a_killed_engine_ends_when_its_client_was_told(
    folder: Path,
) -> None:
    """As its front end saw it, after the last that is known of the engine."""
    stage = slots(2, until=START + NANOSECONDS).add(0, 1, 16, 300)
    dead = stage.play(folder)
    facts = dead.recording.requests[1].facts
    assert facts is not None
    offset = dead.recording.header.wall - dead.recording.header.monotonic
    served = Served(
        *(0, 0, 1, "r-1"),
        kind="Dead",
        arrived=facts.at + offset,
        ended_ns=10**10,
    )

    explainer = Explainer(replace(dead.recording, front_end=[served]))
    (answer,) = answers("r-1", [explainer])

    assert answer.sentence.startswith("r-1 ended without its engine after 10.00 s (")
    assert "after the last that is known of its engine" in answer.sentence
    assert answer.account.latency == 10**10
    assert answer.account.residue == 0
    gone = [each.ns for each in answer.account.parts if each.cause is Cause.GONE]
    assert gone == [10**10 - (dead.until - facts.at)]


def test_who_waits_for_a_hung_engine_is_told_so(folder: Path) -> None:
    """Whether it is in the step that hangs, or waits for a place."""
    stage = slots(1, until=START + NANOSECONDS // 2).add(0, 1, 16, 100)
    recording = stage.add(0.1, 2, 16, 5).play(folder).recording
    flying = recording.steps[-1]
    flying.computed = flying.published = None
    last = recording.records[-1].at

    def said(name: str, seconds: int) -> str:
        explainer = Explainer(recording, last + seconds * NANOSECONDS)
        return answers(name, [explainer])[0].sentence

    for name in ("r-1", "r-2"):
        assert f". The engine hangs in step {flying.number}, which" in said(name, 30)
        assert "hangs" not in said(name, 0)


def test_requests_whose_records_are_overwritten_are_said_to_be_so(folder: Path) -> None:
    """By the engine's number for sure, by another name as one of two."""
    stage = Stage(ring_bytes=256 * 1024)
    stage.add(0, 1, 16, 1).add(1, 2, 16, 4000)

    explainer = stage.play(folder)

    assert 1 not in explainer.recording.requests
    assert missing("1", [explainer]).startswith("request 1 has ended and its records")
    assert "either no engine" in missing("r-1", [explainer])
    assert not explainer.account(2).is_whole


def test_the_newest_records_are_enough_for_a_new_request(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older one has the whole file read; both answers are those of all of it."""
    monkeypatch.setattr("hookline_insight.answers.NEWEST", 200)
    path = folder / "kept.rec"

    def keep() -> None:
        (ring,) = (folder / f"hookline-recordings-{os.geteuid()}").glob("*.ring")
        path.write_bytes(ring.read_bytes())

    stage = Stage().add(0, 1, 16, 9).add(1, 2, 16, 90).add(3, 3, 16, 9).at(8, keep)
    stage.add(9, 4, 16, 1).play(folder)

    part = read_recording(path, 200)
    assert len(part.records) == 200
    assert part.overwritten > 0
    assert 1 not in part.requests
    whole = Explainer(read_recording(path))
    for number in (1, 3):
        (answer,) = of_request(f"r-{number}", [path])
        assert answer.account.latency == whole.account(number).latency
        assert answer.account.is_whole


def test_no_terminal_obeys_a_clients_text(folder: Path) -> None:
    """Ids and tenants come without controls, in every answer."""
    stage = slots(1).add(0, 2, 16, 30, client_id=HOSTILE, tenant=HOSTILE)
    explainer = stage.add(0, 1, 16, 3).play(folder)

    told = shown(answers("r-1", [explainer]), is_json=False, is_list=False)
    told += shown(answers(HOSTILE, [explainer]), is_json=False, is_list=False)
    told += missing(HOSTILE + "x", [explainer])
    told += "".join(usage_lines(Usage(explainer), "tenant"))

    assert "\\x1b[2J" in told
    assert all(each.isprintable() or each == "\n" for each in told)


def test_the_slowest_and_those_that_missed_their_objectives(folder: Path) -> None:
    """The slowest first; of a tenant; by their own objective or a given one."""
    stage = slots(1)
    for number in range(1, 6):
        facts = {"tenant": "a" if number % 2 else "b", "slo": Slo(ttft=0.2)}
        stage.add(0, number, 16, 10, **facts)
    explainer = stage.play(folder)

    def names(selection: Selection | None) -> list[int]:
        assert selection is not None
        return [each.account.request_id for each in selected(selection, [explainer])]

    assert names(Selection.of(1, None, None)) == [5]
    assert names(Selection.of(9, None, "b")) == [4, 2]
    # Each takes ten steps: the third is the first that waits for 0.2 s.
    assert names(Selection.of(9, "ttft", None)) == [5, 4, 3]
    assert names(Selection.of(9, "e2e=0.5", None)) == [5]
    missed = Selection.of(1, "ttft", None)
    assert missed is not None
    (answer,) = selected(missed, [explainer])
    assert "r-5 had its first token after 4" in answer.sentence
    assert "ms (limit 200 ms): 9" in answer.sentence
    assert "% of it waiting for one of the 1 batch slots: r-" in answer.sentence
    slow = Selection.of(1, "tpot=0.005", None)
    assert slow is not None
    (answer,) = selected(slow, [explainer])
    assert "took 11.0 ms a token after its first (limit 5.00 ms)" in answer.sentence
    assert "of it the fixed cost of its steps" in answer.sentence
    with pytest.raises(ValueError, match="one of ttft"):
        Selection.of(None, "speed", None)


def test_all_of_the_engines_time_is_eaten_by_somebody(folder: Path) -> None:
    """Computing adds up to the steps' time, to the ns; blocks to what was held."""
    stage = slots(2)
    for number in range(1, 30):
        stage.add(0, number, 20, 5, tenant=f"t{number}")
    explainer = stage.play(folder)
    usage = Usage(explainer)

    eaten = usage.by("tenant")

    computed = sum(
        span.end - span.begin
        for span in explainer.activities
        if span.activity is Activity.EXECUTE
    )
    assert sum(each.compute_ns for each in eaten.values()) == computed
    assert len(eaten) == 21
    assert eaten[OTHERS].requests == 30 - 20
    assert eaten[NOBODY].requests == 10
    said = next(usage_lines(usage, "tenant"))
    assert said.startswith("(none) took ")
    assert "% of the computing and" in said
    assert list(usage.by("adapter")) == [NOBODY]
    assert usage.of(29).queue_ns > usage.of(3).queue_ns > 0
    # Two blocks from its admission to its end.
    account = explainer.account(1)
    run = [piece for piece in account.pieces if piece.step is not None]
    held = 2 * (run[-1].end - run[0].begin)
    assert usage.of(1).block_ns == pytest.approx(held, rel=0.01)


def test_what_bounds_an_engine_has_its_evidence(folder: Path) -> None:
    """Batch slots while others wait for them, for as long as they do."""
    alone = bound_of(slots(1).add(0, 1, 16, 100).play(folder))
    stage = slots(1).add(0, 1, 16, 100)

    bound = bound_of(stage.add(0, 2, 16, 1).play(folder))

    whole = 100 * STEP + 99 * DECODE + 16 * PREFILL
    more = bound.seconds["batch_slots"] - alone.seconds["batch_slots"]
    assert more == pytest.approx(whole, rel=0.02)
    assert bound.seconds["client"] == pytest.approx(alone.seconds["client"], rel=0.01)
    told = "\n".join(bound.lines())
    assert "bound by its clients" in told
    assert "while it had requests, by batch slots for" in told
    assert "waited while all 1 slots were taken." in told
    assert "batch slots" in told


def test_a_hung_engine_is_explained(folder: Path) -> None:
    """What it computes, since when, what that should take, and who waits for it."""
    stage = slots(1, until=START + NANOSECONDS // 2).add(0, 1, 16, 100)
    explainer = stage.add(0.1, 2, 16, 5).play(folder)
    flying = explainer.steps[-1]
    assert flying.planned is not None
    flying.computed = flying.published = None

    def look(seconds: float) -> list[str]:
        now = explainer.until + round(seconds * NANOSECONDS)
        found = standstill(explainer, is_live=True, now=now)
        assert found.condition is (Condition.HANGS if seconds > 5 else Condition.WORKS)
        return list(found.lines())

    assert f"in step {flying.number}" in look(0.1)[0]
    told = "\n".join(look(30))
    assert f"hangs in step {flying.number}" in told
    assert "r-1's next token; by its work it takes 11.0 ms" in told
    assert "r-2, for" in told
    ended = standstill(explainer, is_live=False, now=0)
    assert ended.condition is Condition.KILLED


def test_commands_read_rings_and_files(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By themselves, or a file; a request that is unknown is an error."""
    stage = slots(2).add(0, 1, 16, 3, tenant="a")
    kept: list[Path] = []

    def keep() -> None:
        (ring,) = (folder / f"hookline-recordings-{os.geteuid()}").glob("*.ring")
        kept.append(folder / "kept.rec")
        kept[0].write_bytes(ring.read_bytes())
        assert why_command.run(["r-900"]) == 0
        assert stalled([]) == 0

    stage.at(5.0, keep).add(6.0, 2, 16, 1).play(folder)
    path = str(kept[0])
    said = capsys.readouterr().out
    assert said.startswith("r-900 took ")
    assert f"(process {os.getpid()}, " in said

    assert why_command.run(["--json", "r-1", path]) == 0
    (fields,) = json.loads(capsys.readouterr().out)
    assert fields["residue_ns"] == 0
    # The virtual clock is the same on the wall.
    assert fields["began_at_ns"] == pytest.approx(fields["begin_ns"], abs=100_000)
    assert sum(part["ns"] for part in fields["parts"]) == fields["latency_ns"]
    assert why_command.run(["--slowest", "1", path]) == 0
    assert why_command.run(["--bound", "--eats", "tenant", path]) == 0
    assert "compute-seconds" in capsys.readouterr().out
    with pytest.raises(CommandFailedError, match="nothing is known of 'r-7'"):
        why_command.run(["r-7", path])
    for wrong in ([], ["--misses", "x"], ["r-1", path, "--slowest", "1"]):
        with pytest.raises(UsageError):
            why_command.run(wrong)
    assert stalled([path]) == 1  # no engine writes it any more


def test_the_page_answers_of_this_servers_engines(folder: Path) -> None:
    """As text or JSON; 404 for a request of which nothing is known."""
    pages, replies = Insight(os.getpid()), list[PageResponse]()

    def ask() -> None:
        for name, accept in (("r-900", ""), ("r-900", "application/json"), ("no", "")):
            asked = PageRequest(
                headers={"accept": accept}, query={}, path_values={"id": name}
            )
            replies.append(pages._why(asked))
        replies.append(pages._list(PageRequest(headers={}, query={"slowest": "2"})))
        wanted: list[dict[str, str]] = [{"slowest": "x"}, {"eats": "x"}]
        wanted += [{"bound": "1", "eats": "adapter"}]
        for query in wanted:
            replies.append(pages._list(PageRequest(headers={}, query=query)))
        replies.append(pages._stalled(PageRequest(headers={}, query={})))

    Stage().add(0, 1, 16, 3).at(1, ask).add(2, 2, 16, 1).play(folder)

    assert [each.status for each in replies] == [200] * 2 + [404, 200, 400, 400] + [
        200
    ] * 2
    assert replies[0].body.startswith(b"r-900 took ")
    assert json.loads(replies[1].body)[0]["residue_ns"] == 0
    assert replies[3].body.count(b"\n") == 2
    assert b"bound by its clients" in replies[6].body
    assert b"adapter" in replies[6].body
    assert b"is idle: it has no request." in replies[7].body


def test_two_recordings_are_compared_by_phase(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A change of one phase is found there, and none of an unchanged engine."""

    def recorded(name: str, places: int) -> str:
        path = folder / f"{name}.rec"

        def keep() -> None:
            (ring,) = (folder / f"hookline-recordings-{os.geteuid()}").glob("*.ring")
            path.write_bytes(ring.read_bytes())

        stage = slots(places).at(9, keep)
        for number in range(1, 41):
            stage.add(number * 0.05, number, 20 + number % 5, 20)
        stage.add(10, 99, 16, 1).play(folder)
        return str(path)

    before, same, slower = recorded("a", 8), recorded("b", 8), recorded("c", 4)

    assert compare([before, same]) == 0
    assert compare([before, slower]) == 1
    said = capsys.readouterr().out
    rows = [line for line in said.splitlines() if line.startswith("queue mean")]
    assert rows[-1].endswith("worse")
