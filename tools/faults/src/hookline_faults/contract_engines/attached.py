"""An attachment to a fake vLLM, as the suite for engines drives it."""

from collections.abc import Mapping, Sequence

from hookline.clock import NANOSECONDS, SystemClock
from hookline.config import EngineConfig
from hookline.frontend.observation import Observers
from hookline.request import FinishReason
from hookline_testing.engine_contract import Case, End, Scene, Session
from hookline_testing.fake_vllm import (
    LENGTH,
    STOP,
    AggregateStatLoggerBase,
    EngineCoreEvent,
    EngineCoreOutput,
    FakeVllm,
    PrefillStats,
    SchedulerStats,
    output_processor,
    vllm_config,
)
from hookline_testing.fake_vllm import FinishReason as TheirReason
from hookline_testing.recording_logger import RecordingLogger
from hookline_vllm.attachment import Attachment
from hookline_vllm.engine_account import EngineAccount
from hookline_vllm.facts import engine_facts
from hookline_vllm.front_end import FrontEnd, NoticeClock
from hookline_vllm.general import wrap_processor
from hookline_vllm.stat_logger import make_stat_logger
from hookline_vllm.tells import TELLS, told

_QUEUED, _SCHEDULED = 1, 2


class AttachedEngine:
    """Implements `EngineUnderTest`."""

    name = "vllm-attached"
    tells = TELLS
    cannot: Mapping[Case, str] = {
        Case.ABORT_PREFILL: "vLLM tells SCHEDULED with the first token",
        Case.TIMEOUT: "vLLM has no deadlines",
    }

    def play(self, scene: Scene) -> Session:
        """Implements `EngineUnderTest`."""
        run = _Run(2 if scene is Scene.SEVERAL else 1)
        if scene is Scene.DEATH:
            run.begin(Case.DEATH)
        elif scene is Scene.SEVERAL:
            for engine in range(2):
                run.serve(f"{Case.SEVERAL}-{engine}", LENGTH, engine=engine)
        else:
            run.serve(Case.LENGTH, LENGTH)
            run.serve(Case.STOP, STOP)
            run.vllm.add(Case.ABORT_WAITING)
            run.leave(Case.ABORT_WAITING, tokens=0)
            run.begin(Case.ABORT_DECODE)
            run.leave(Case.ABORT_DECODE, tokens=1)
            run.refuse()
        run.close()
        return Session(tuple(run.heard.calls), run.ends)


class _Timed(FakeVllm):
    """A fake whose engine has this machine's clock."""

    @property
    def seconds(self) -> float:
        return SystemClock().now() / NANOSECONDS


class _Run:
    """A fake vLLM whose wraps and stat logger are heard at once."""

    def __init__(self, engines: int) -> None:
        self._attachment = Attachment()
        processor = output_processor()
        wrap_processor(processor, self._attachment)
        logger = make_stat_logger(AggregateStatLoggerBase, self._attachment)
        self._processor = processor()
        self.vllm = _Timed(self._processor, logger(vllm_config(), [0]))
        self.heard, self.ends = RecordingLogger(), dict[str, End]()
        config, clock = EngineConfig(), NoticeClock()
        observers = Observers(config, recorder=self.heard)
        tells = told(vllm_config(), tells_requests=True, has_process=False)
        accounts = {
            index: EngineAccount(
                engine_facts(vllm_config(), index, "0.32.0", tells=tells),
                config,
                observers,
                clock,
                is_alone=engines == 1,
                tells_requests=True,
            )
            for index in range(engines)
        }
        self._engines: Sequence[int] = range(engines)
        self._front_end = FrontEnd(accounts, config, observers, clock)

    def begin(self, name: str, *, engine: int = 0) -> None:
        """Has a request come and get its first token."""
        vllm = self.vllm
        vllm.add(name)
        events = [EngineCoreEvent(each, vllm.seconds) for each in (_QUEUED, _SCHEDULED)]
        stats = PrefillStats(8)
        output = EngineCoreOutput(name, [5], events=events, prefill_stats=stats)
        self._step(output, engine=engine)

    def serve(self, name: str, reason: TheirReason, *, engine: int = 0) -> None:
        """Has a request come and get two tokens, with which it ends."""
        self.begin(name, engine=engine)
        last = EngineCoreOutput(name, [6], finish_reason=reason)
        self._step(last, engine=engine)
        self.ends[name] = End(FinishReason(str(reason)), 2, engine)

    def leave(self, name: str, *, tokens: int) -> None:
        """Has a request's client leave."""
        self._processor.abort_requests([name], internal=False)
        self._hear()
        self.ends[name] = End(FinishReason.ABORT, tokens)

    def refuse(self) -> None:
        self.vllm.stat_logger.record_admission_rejection("max_num_queued_reqs")
        self._hear()
        self.ends[Case.REJECTED] = End(FinishReason.REJECTED)

    def close(self) -> None:
        """Ends vLLM, and with it the requests that are left."""
        for name in self._processor.request_states:
            self.ends[name] = End(FinishReason.ERROR)
        if not self.ends.get(Case.DEATH):
            for engine in self._engines:
                self._step(engine=engine)
        self._front_end.close()

    def _step(self, *outputs: EngineCoreOutput, engine: int) -> None:
        ends = sum(each.finish_reason is not None for each in outputs)
        left = len(self._processor.request_states) - ends
        self.vllm.step(*outputs, engine=engine, stats=SchedulerStats(left))
        self._hear()

    def _hear(self) -> None:
        while (notice := self._attachment.inbox.pop()) is not None:
            self._front_end.handle(notice)
        self._front_end.tick({})
