"""What extensions override is called, and nothing else is."""

# ruff: noqa: ARG002 - what is overridden has arguments

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from types import FrameType
from typing import Any

import msgspec

from hookline.engine.scheduler.extension import SchedulerExtensions, SchedulerSide
from hookline.engine.scheduler.plan_builder import PlanBuilder
from hookline.engine.worker.extension import WorkerSide, WorkerStep
from hookline.engine.worker.followed_rows import FollowedRows
from hookline.events import Finished
from hookline.finish_cause import Embedded, StoppedByToken
from hookline.frozen import plain
from hookline.payloads import EngineFacts
from hookline.request import GenerateRequest, Request
from hookline.sampling_params import SamplingParams
from hookline.sections import NO_SECTIONS, Section
from hookline.step import AdmittedSequence, StepPlan, StepResult
from hookline_testing.simulation import simulated_core


class Note(msgspec.Struct, frozen=True, array_like=True):
    text: str
    counts: dict[int, int] = {}


NOTE = Section("noting", Note)


class Noting(SchedulerSide):
    """Overrides everything."""

    def describe(self, facts: EngineFacts) -> EngineFacts:
        return replace(facts, sections={"noting": Note("facts")})

    def start(self, port: Any) -> None:
        self.port = port

    def plan(self, builder: PlanBuilder) -> Note:
        self.port.news(list).append(len(builder.entries))
        return Note("plan", {len(builder.entries): 1})

    def update(self, section: object, now: int) -> Note | None:
        found = NOTE.typed(section)
        self.port.report(found)
        return found

    def finished(self, request: Request, now: int) -> Note:
        return Note("finished", {request.request_id: request.num_output_tokens})


def calls_of(work: Callable[[], object]) -> Counter[str]:
    """Counts the calls in extension modules, by function."""
    found: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        folder, _, file = code.co_filename.rpartition("/")
        is_of_extensions = file.startswith(("extension", "followed_rows", "sections"))
        if event == "call" and is_of_extensions and "/src/" in folder:
            found[code.co_name] += 1

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found


def request(request_id: int = 1, max_tokens: int = 3) -> GenerateRequest:
    params = SamplingParams(max_tokens=max_tokens)
    return GenerateRequest(
        request_id=request_id, prompt_token_ids=[5, 6], params=params
    )


def test_without_extensions_nothing_of_them_is_called() -> None:
    """Neither in a step, nor when a request comes or ends."""
    core = simulated_core()

    def serve() -> None:
        core.add(request())
        while core.has_work:
            core.step()
        core.expire()
        core.report("idle")

    assert calls_of(serve) == {}


def test_an_extension_that_overrides_nothing_is_not_called() -> None:
    """Only its sections are looked for, in results that have some."""
    sides = SchedulerExtensions({"idle": SchedulerSide()})

    assert (sides.plans, sides.updates, sides.finishes, sides.gates) == ([], {}, [], [])
    assert sides.updated({"idle": Note("?")}, 0) is NO_SECTIONS


def test_sections_reach_plan_record_state_output_and_client() -> None:
    """Each by the extension's name."""
    plans: list[StepPlan] = []

    class Telling:
        """An executor whose results have a section."""

        def __init__(self, inner: Any) -> None:
            self._inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

        def start(self, plan: StepPlan) -> Any:
            plans.append(plan)
            started = self._inner.start(plan)

            class Step:
                def result(self) -> StepResult:
                    section = Note("result", {plan.step: 2})
                    result: StepResult = started.result()
                    return replace(result, sections={"noting": section})

            return Step()

    core = simulated_core(wrap=Telling, extensions={"noting": Noting()})
    core.add(request(max_tokens=1))

    output = core.step()

    assert core.facts.sections == {"noting": Note("facts")}
    assert plans[0].sections == {"noting": Note("plan", {1: 1})}
    assert output.record is not None
    assert output.record.sections == {"noting": Note("result", {1: 2})}
    assert output.stats.sections == {"noting": Note("result", {1: 2})}
    assert output.sections == {"noting": [1]}
    assert output.events.finished[0].sections == {"noting": Note("finished", {1: 1})}


def test_a_section_is_the_same_behind_a_wire() -> None:
    """It becomes plain data, and its reader makes it what it was."""
    sent = Finished(1, 2, StoppedByToken(3), 4, sections={"noting": Note("a", {7: 8})})
    other = Finished(1, 2, Embedded(), 0)
    encode = msgspec.msgpack.Encoder(enc_hook=plain).encode

    found, empty = msgspec.msgpack.decode(encode([sent, other]), type=list[Finished])

    assert found.sections != sent.sections
    assert NOTE.read(found.sections) == NOTE.read(sent.sections) == Note("a", {7: 8})
    assert NOTE.read(empty.sections) is None


class Follower(WorkerSide):
    """Follows requests whose sections say so."""

    states_option = "follow"

    def __init__(self) -> None:
        self.calls: list[str] = []

    def joined(self, row: int, sequence: AdmittedSequence) -> bool:
        return "follow" in sequence.sections

    def left(self, row: int) -> None:
        self.calls.append(f"left {row}")

    def computed(self, step: WorkerStep) -> None:
        self.calls.append("computed")


def sequence(request_id: int, **sections: object) -> AdmittedSequence:
    return AdmittedSequence(
        request_id=request_id,
        token_ids=[1],
        num_prompt_tokens=1,
        num_computed_tokens=0,
        block_ids=[0],
        params=SamplingParams(),
        eos_token_ids=(),
        bad_words_token_ids=(),
        sections=sections,
    )


def test_a_worker_calls_an_extension_only_while_it_follows_a_request() -> None:
    """Also hidden states are computed only then."""
    side = Follower()
    followed = FollowedRows([side])

    followed.joined(0, sequence(1))
    before = (followed.is_active, followed.needs_states)
    followed.joined(1, sequence(2, follow=True))
    during = (followed.is_active, followed.needs_states)
    followed.left(0)
    followed.left(1)
    after = (followed.is_active, followed.needs_states)

    assert (before, during, after) == ((False, False), (True, True), (False, False))
    assert side.calls == ["left 1"]
