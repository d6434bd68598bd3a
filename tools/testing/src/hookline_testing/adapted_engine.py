"""An engine core whose worker computes adapters, which a test loads step by step."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hookline.clock import SystemClock
from hookline.config import EngineConfig
from hookline.engine.engine_core import EngineCore
from hookline.engine.scheduler.extension import SchedulerSide
from hookline.engine.scheduler.plan_builder import PlanBuilder
from hookline.engine.worker.executor import ExecutorContext
from hookline.engine.worker.extension import WorkerContext
from hookline.engine_setup.engine_facts import engine_facts
from hookline.engine_setup.executor_factory import load_executor_factory
from hookline.engine_setup.making import make_scheduler_parts
from hookline.request import GenerateRequest
from hookline.sampling_params import SamplingParams
from hookline.startup_timer import StartupTimer
from hookline.step import ModelShape
from hookline_lora.adapter import AdapterUse
from hookline_lora.config import LoraConfig
from hookline_lora.files.description import describe_adapter
from hookline_lora.messages import REPORTS, AdapterOrders, AdapterReports
from hookline_lora.targets import LoraTargets
from hookline_lora.worker.side import LoraWorker
from hookline_metrics.adapters import LORA
from hookline_testing.own_time import Deadline


@dataclass
class GivenOrders(SchedulerSide):
    """Gives the orders of a test, one in each plan.

    Attributes:
        orders: Those of the next plans.
        reports: What has been told of them.
        targets: What the model tells.
        expected: Number of orders to load whose end is awaited.
    """

    orders: list[AdapterOrders] = field(default_factory=list)
    reports: list[AdapterReports] = field(default_factory=list)
    targets: LoraTargets | None = None
    expected: int = 0

    def loaded(self, shape: ModelShape) -> None:
        self.targets = LoraTargets.joined(shape.rank_sections)

    def plan(self, builder: PlanBuilder) -> object | None:
        del builder
        return self.orders.pop(0) if self.orders else None

    def is_busy(self) -> bool:
        told = sum(len(each.loaded) + len(each.failed) for each in self.reports)
        return bool(self.orders) or told < self.expected

    def update(self, section: object, now: int) -> object | None:
        del now
        self.reports.append(REPORTS.typed(section))
        return None


@dataclass(frozen=True)
class AdapterMaker:
    """Makes the sides of one engine."""

    config: EngineConfig
    lora: LoraConfig
    orders: GivenOrders

    def worker_side(self, context: WorkerContext) -> LoraWorker:
        del context
        return LoraWorker(self.config, self.lora)


class AdaptedEngine:
    """An engine in this process, on the system's clock.

    Attributes:
        core: Its core.
        orders: The scheduler's side of its adapters.
        digests: Of the adapters by path.
        tokens: Output tokens by request id.
        logprobs: Their log-probabilities, of requests that ask for them.
        num_preempted: Number of preemptions.
    """

    def __init__(self, config: EngineConfig, lora: LoraConfig | None = None) -> None:
        clock = SystemClock()
        timer = StartupTimer(clock)
        factory = load_executor_factory(config.executor_name)
        config = factory.resolve(config, timer)
        self.lora, self.orders = lora or LoraConfig(max_lora_rank=64), GivenOrders()
        extension = AdapterMaker(config, self.lora, self.orders)
        executor = factory(
            ExecutorContext(
                config=config, clock=clock, timer=timer, extensions={LORA: extension}
            )
        )
        sides = {LORA: self.orders}
        parts = make_scheduler_parts(config, executor.shape, clock, sides)
        facts = engine_facts(config, executor.shape)
        self.core = EngineCore(config, executor, clock, facts, parts)
        self.digests: dict[Path, str] = {}
        self.tokens: dict[int, list[int]] = {}
        self.logprobs: dict[int, list[float]] = {}
        self.num_preempted = 0
        self._last_id = 0

    def digest(self, path: Path) -> str:
        """Returns the digest of an adapter for this engine's model."""
        if path not in self.digests:
            assert self.orders.targets is not None
            facts = describe_adapter(
                path, targets=self.orders.targets.shapes, config=self.lora
            )
            self.digests[path] = facts.digest
        return self.digests[path]

    def load(self, *paths: Path) -> None:
        """Reads adapters, and waits until they are in main memory, or have failed."""
        self.orders.expected += len(paths)
        self.order(AdapterOrders(load={self.digest(each): str(each) for each in paths}))
        deadline = Deadline(20.0)
        while self.orders.is_busy():
            self.core.step()
            time.sleep(0.001)
            assert deadline.is_ahead

    def fill(self, slots: Mapping[int, Path]) -> None:
        """Puts adapters into slots, in the next step."""
        self.order(
            AdapterOrders(fill={at: self.digest(path) for at, path in slots.items()})
        )

    def order(self, orders: AdapterOrders) -> None:
        """Gives orders in the next step."""
        self.orders.orders.append(orders)

    def add(
        self,
        prompt: Sequence[int],
        max_tokens: int,
        adapter: Path | None = None,
        **params: object,
    ) -> int:
        """Adds a greedy request; returns its id."""
        self._last_id += 1
        self.tokens[self._last_id], self.logprobs[self._last_id] = [], []
        use = None
        if adapter is not None:
            use = AdapterUse(self.digest(adapter), adapter.name, str(adapter))
        self.core.add(
            GenerateRequest(
                request_id=self._last_id,
                prompt_token_ids=list(prompt),
                params=SamplingParams(
                    max_tokens=max_tokens,
                    temperature=0.0,
                    **params,  # type: ignore[arg-type]
                ),
                adapter=None if use is None else use.digest,
                sections={} if use is None else {LORA: use},
            )
        )
        return self._last_id

    def run(self) -> None:
        """Computes steps until all requests have ended."""
        while self.core.has_work:
            self.turn()

    def turn(self) -> None:
        """Computes a step."""
        events = self.core.step().events
        self.num_preempted += len(events.preempted)
        for event in events.new_tokens:
            self.tokens[event.request_id].extend(event.token_ids)
            for each in event.logprobs or ():
                self.logprobs[event.request_id].append(each.logprobs[0])

    def close(self) -> None:
        self.core.close()
