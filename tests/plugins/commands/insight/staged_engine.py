"""A real engine on a virtual clock with a flight recorder, for staged cases."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from hookline.clock import NANOSECONDS, VirtualClock
from hookline.config import CacheConfig, SchedulerConfig
from hookline.engine.commands import Add, Command
from hookline.engine.engine_loop import EngineLoop
from hookline.engine.scheduler.readiness import ReadinessGate
from hookline.engine.tap import TapContext
from hookline.engine.worker.executor import DeferredStep, Executor, StartedStep
from hookline.request import GenerateRequest, RequestFacts, Slo
from hookline.step import StepPlan, StepResult
from hookline_insight import Explainer
from hookline_lora.adapter import AdapterUse
from hookline_lora.config import LoraConfig
from hookline_lora.scheduler.side import LoraScheduler
from hookline_metrics.adapters import LORA
from hookline_recording import read_recording
from hookline_recording.config import RecordingConfig
from hookline_recording.folder import save
from hookline_recording.taps import flight_recorder
from hookline_simulated.config import SimulationConfig
from hookline_testing.adapter_engine import AdapterFiles, AdapterWorker
from hookline_testing.simulation import engine_request, simulated_core
from hookline_testing.wrapped_executor import WrappedExecutor

RING_BYTES = 1 << 20
STEP, PREFILL, DECODE = 0.010, 0.0001, 0.001
"""Seconds of a step, of a prompt token and of a request that decodes."""
START = 5 * NANOSECONDS
"""By then the recording has steps enough to fit costs."""
BLOCKS = 512
LOAD = 0.5
"""Seconds to read an adapter."""
FILES = AdapterFiles()


class TickingClock(VirtualClock):
    """Each reading takes a moment, as on a real machine, so that nothing is free."""

    def now(self) -> int:
        self._now += 1009
        return self._now


class ChangedExecutor(WrappedExecutor):
    """Lets a case change the results of steps, on the engine's clock."""

    def __init__(
        self, inner: Executor, change: Callable[[StepPlan, StepResult], StepResult]
    ) -> None:
        super().__init__(inner)
        self._change = change

    def start(self, plan: StepPlan) -> StartedStep:
        started = super().start(plan)

        def result(plan: StepPlan) -> StepResult:
            return self._change(plan, started.result())

        return DeferredStep(result, plan)


@dataclass
class Stage:
    """What happens on an engine, and when.

    Attributes:
        scheduler: Options of its scheduler.
        blocks: KV blocks.
        events: (ns, command, or what else happens then).
        until: When the recording is read, ns; None for once all is done.
        saved: Where the recording is saved; None for nowhere.
    """

    scheduler: SchedulerConfig = field(default_factory=SchedulerConfig)
    blocks: int = BLOCKS
    stages: int = 1
    gates: Sequence[ReadinessGate] = ()
    change: Callable[[StepPlan, StepResult, VirtualClock], StepResult] | None = None
    adapters: LoraConfig | None = None
    events: list[tuple[int, Command | Callable[[], None]]] = field(default_factory=list)
    until: int | None = None
    ring_bytes: int = RING_BYTES
    saved: Path | None = None

    def at(self, seconds: float, what: Command | Callable[[], None]) -> "Stage":
        """Has something happen so many seconds after `START`."""
        self.events.append((START + round(seconds * NANOSECONDS), what))
        return self

    def add(
        self,
        seconds: float,
        request_id: int,
        prompt: int,
        output: int = 1,
        **facts: object,
    ) -> "Stage":
        """Has a request come then."""
        return self.at(seconds, Add(request(request_id, prompt, output, **facts)))

    def play(self, folder: Path) -> Explainer:
        """Plays it to its end; returns what the ring tells then."""
        clock = TickingClock()
        core = simulated_core(
            cache=CacheConfig(num_kv_blocks=self.blocks, enable_prefix_caching=False),
            scheduler=self.scheduler,
            simulation=SimulationConfig(
                step_seconds=STEP,
                prefill_token_seconds=PREFILL,
                decode_request_seconds=DECODE,
            ),
            max_model_len=self.blocks * 16,
            clock=clock,
            gates=self.gates,
            stages=self.stages,
            wrap=lambda inner: self._wrapped(inner, clock),
            extensions={}
            if self.adapters is None
            else {LORA: LoraScheduler(self.adapters, lambda _: FILES.describe)},
        )
        recording = RecordingConfig(flight_recorder_bytes=self.ring_bytes)
        config = replace(
            core.config, sections={**core.config.sections, "recording": recording}
        )
        tap = flight_recorder.create_tap(
            TapContext(config=config, facts=core.facts, clock=core.clock_pair())
        )
        loop = EngineLoop(core, 5.0, tap)
        self._run(loop, clock)
        (ring,) = (folder / f"hookline-recordings-{os.geteuid()}").glob("*.ring")
        explainer = Explainer(read_recording(ring))
        if self.saved is not None:
            save(ring, self.saved)
        loop.close()
        return explainer

    def _wrapped(self, inner: Executor, clock: VirtualClock) -> Executor:
        if (change := self.change) is not None:
            return ChangedExecutor(
                inner, lambda plan, result: change(plan, result, clock)
            )
        if self.adapters is not None:
            return AdapterWorker(inner, clock, FILES, self.adapters, LOAD)
        return inner

    def _run(self, loop: EngineLoop, clock: VirtualClock) -> None:
        events = sorted([*_warm_up(), *self.events], key=lambda each: each[0])

        def receive(timeout: float) -> Command | None:
            if events and timeout > 0:
                pause = (events[0][0] - clock.now()) / NANOSECONDS
                clock.sleep(max(0.0, min(timeout, pause)))
            while events and events[0][0] <= clock.now():
                what = events.pop(0)[1]
                if not callable(what):
                    return what
                what()
            return None

        for _ in range(200_000):
            if self.until is not None and clock.now() > self.until:
                return
            if not events and not loop.core.has_work:
                loop.run_once(receive, 0.0)  # the state of rest
                return
            loop.run_once(receive, 0.05)
        raise AssertionError("the stage does not end")


def request(
    request_id: int, prompt: int, output: int, **facts: object
) -> GenerateRequest:
    """Returns a request of which nothing is cached."""
    slo, adapter = facts.pop("slo", None), facts.get("lora")
    use = AdapterUse(str(adapter), str(adapter), f"/adapters/{adapter}")
    tokens = [3 + (request_id * 7919 + at) % 900 for at in range(prompt)]
    made = engine_request(request_id, tokens, output)
    named = {"client_id": f"r-{request_id}", **facts}
    return msgspec.structs.replace(
        made,
        adapter=None if adapter is None else use.digest,
        sections={} if adapter is None else {LORA: use},
        params=msgspec.structs.replace(made.params, ignore_eos=True),
        facts=RequestFacts(slo=slo if isinstance(slo, Slo) else None, **named),  # type: ignore[arg-type]
    )


def _warm_up() -> list[tuple[int, Command]]:
    """Returns requests of several sizes, from which costs are fitted."""
    return [
        (NANOSECONDS * number // 10, Add(request(900 + number, 10 + 9 * number, 12)))
        for number in range(10)
    ]
