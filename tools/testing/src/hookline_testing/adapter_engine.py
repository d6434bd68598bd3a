"""An engine core with adapters, on a virtual clock, whose worker only keeps account."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from hookline.clock import NANOSECONDS, VirtualClock
from hookline.config import CacheConfig, SchedulerConfig
from hookline.engine.commands import TellExtensions
from hookline.engine.worker.executor import DeferredStep, Executor, StartedStep
from hookline.events import Finished, StepOutput
from hookline.exceptions import RequestError
from hookline.frozen import EMPTY
from hookline.request import GenerateRequest, RequestFacts
from hookline.sampling_params import SamplingParams
from hookline.step import StepPlan, StepResult
from hookline_lora.adapter import USE, AdapterRef, AdapterUse
from hookline_lora.config import AdapterSource, LoraConfig
from hookline_lora.messages import (
    ANSWER,
    ORDERS,
    AdapterOrders,
    AdapterReports,
    LoadedWeights,
    LoraAnswer,
    LoraCommand,
)
from hookline_lora.scheduler.side import LoraScheduler
from hookline_metrics.adapters import (
    ADAPTER_NEWS,
    ADAPTER_STATS,
    LORA,
    AdapterWait,
    LoraStats,
)
from hookline_testing.simulation import EOS, simulated_core
from hookline_testing.wrapped_executor import WrappedExecutor

PAUSE_SECONDS = 0.25
"""Seconds between two polls."""


class AdapterFiles:
    """What lies in adapters' folders; a digest is the folder's content.

    Attributes:
        contents: Content by path.
        num_bytes: Bytes of an adapter's weights by its content; 1 if it is not there.
    """

    def __init__(self) -> None:
        self.contents: dict[str, str] = {}
        self.num_bytes: dict[str, int] = {}

    def describe(self, source: AdapterSource) -> AdapterRef:
        """Describes what lies in a folder; a folder has its own name as content.

        Raises:
            RequestError: The content is `broken`.
        """
        content = self.digest(source.path)
        if content == "broken":
            raise RequestError(f"{source.path}: q_proj.lora_A is not finite")
        return AdapterRef(
            name=source.name,
            digest=content,
            path=source.path,
            rank=8,
            alpha=16.0,
            targets=("q_proj",),
            num_bytes=self.num_bytes.get(content, 1),
            base_model_name=source.base_model_name,
            is_pinned=source.is_pinned,
        )

    def digest(self, path: str) -> str:
        return self.contents.get(path, Path(path).name)


class AdapterWorker(WrappedExecutor):
    """Follows orders as a worker does, and fails if one makes no sense.

    Attributes:
        memory: Digests in main memory.
        slots: Digest by slot.
        rows: Digest of each request in the batch that has an adapter.
        orders: All orders so far.
    """

    def __init__(
        self,
        inner: Executor,
        clock: VirtualClock,
        files: AdapterFiles,
        config: LoraConfig,
        load_seconds: float,
    ) -> None:
        super().__init__(inner)
        self._clock, self._files, self._config = clock, files, config
        self._load_ns = round(load_seconds * NANOSECONDS)
        self._loading: dict[str, tuple[str, int]] = {}
        self.memory: set[str] = set()
        self.slots: dict[int, str] = {}
        self.rows: dict[int, str] = {}
        self.orders: list[AdapterOrders] = []

    def start(self, plan: StepPlan) -> StartedStep:
        started = self._inner.start(plan)
        return DeferredStep(lambda plan: self._execute(plan, started), plan)

    def _execute(self, plan: StepPlan, started: StartedStep) -> StepResult:
        if (orders := ORDERS.read(plan.sections)) is not None:
            self.orders.append(orders)
            self._follow(orders)
        for request_id in plan.released:
            self.rows.pop(request_id, None)
        for admitted in plan.admitted:
            if (use := USE.read(admitted.sections)) is not None:
                self.rows[admitted.request_id] = use.digest
        used = {self.rows[each] for each in plan.request_ids if each in self.rows}
        missing = used - set(self.slots.values())
        assert not missing, f"a step needs {missing}, and slots have {self.slots}"
        result = started.result()
        reports = self._reports()
        if reports.loaded or reports.failed:
            result.sections[LORA] = reports  # type: ignore[index]
        return result

    def _follow(self, orders: AdapterOrders) -> None:
        for digest in orders.drop:
            self.memory.remove(digest)
            self.slots = {at: it for at, it in self.slots.items() if it != digest}
        for digest, path in orders.load.items():
            assert digest not in self.memory
            assert digest not in self._loading
            ends = [end for _, end in self._loading.values()]
            begin = max([self._clock.now(), *ends])
            self._loading[digest] = path, begin + self._load_ns
        most = self._config.max_cpu_loras
        assert most is None or len(self.memory) + len(self._loading) <= most
        for slot, digest in orders.fill.items():
            assert digest in self.memory
            assert 0 <= slot < self._config.max_loras
            self.slots[slot] = digest

    def _reports(self) -> AdapterReports:
        loaded, failed = {}, {}
        for digest, (path, end) in list(self._loading.items()):
            if end > self._clock.now():
                continue
            del self._loading[digest]
            if self._files.digest(path) == digest:
                self.memory.add(digest)
                loaded[digest] = LoadedWeights(self._load_ns / NANOSECONDS, 1)
            else:
                failed[digest] = f"{path} has changed"
        return AdapterReports(loaded, failed)


class AdapterEngine:
    """An engine with adapters, and what it has put out.

    Attributes:
        files: The adapters' files.
        clock: The engine's clock.
        outputs: All outputs so far.
        sent_at: When each request was sent, ns.
    """

    def __init__(
        self,
        config: LoraConfig | None = None,
        *,
        load_seconds: float = 0.0,
        files: AdapterFiles | None = None,
        scheduler: SchedulerConfig | None = None,
        cache: CacheConfig | None = None,
    ) -> None:
        config = config or LoraConfig()
        self.files, self.clock = files or AdapterFiles(), VirtualClock()
        self._workers: list[AdapterWorker] = []
        self.side = LoraScheduler(config, lambda _: self.files.describe)

        def wrap(inner: Executor) -> Executor:
            worker = AdapterWorker(inner, self.clock, self.files, config, load_seconds)
            self._workers.append(worker)
            return worker

        self.core = simulated_core(
            clock=self.clock,
            wrap=wrap,
            extensions={LORA: self.side},
            scheduler=scheduler,
            cache=cache,
        )
        self.outputs: list[StepOutput] = []
        self.sent_at: dict[int, int] = {}

    @property
    def worker(self) -> AdapterWorker:
        return self._workers[0]

    def tell(self, command: LoraCommand) -> LoraAnswer:
        """Returns the answer to a command."""
        told = self.core.tell(TellExtensions({LORA: command}))
        answer = ANSWER.read(told.sections)
        assert answer is not None
        return answer

    def send(
        self,
        request_id: int,
        adapter: str | None,
        max_tokens: int = 3,
        *,
        path: str = "",
        digest: str | None = None,
        timeout_seconds: float | None = None,
    ) -> None:
        """Sends a request, whose adapter's digest is its folder's content."""
        self.sent_at[request_id] = self.clock.now()
        sections: Mapping[str, object] = EMPTY
        path = path or adapter or ""
        if adapter is not None:
            digest = digest or self.files.digest(path)
            sections = {LORA: AdapterUse(digest, adapter, path)}
        request = GenerateRequest(
            request_id=request_id,
            prompt_token_ids=[request_id % 7 + 3] * 4,
            params=SamplingParams(max_tokens=max_tokens),
            eos_token_ids=(EOS,),
            facts=RequestFacts(lora=adapter),
            timeout_seconds=timeout_seconds,
            sections=sections,
            adapter=digest,
        )
        self.core.add(request)

    def step(self) -> StepOutput:
        """Runs one step, or waits a little if all work awaits something.

        Files are read before it, however long that takes.
        """
        while not self.side.describing.has_ended:
            time.sleep(0.0001)
        output = self.core.step()
        self.outputs.append(output)
        if output.record is None:
            self.clock.sleep(PAUSE_SECONDS)
        return output

    def run(self, most_steps: int = 10_000) -> None:
        """Runs until there is no work.

        Raises:
            RuntimeError: There is work left.
        """
        for _ in range(most_steps):
            if not self.core.has_work:
                self.outputs.append(self.core.report("idle"))
                return
            self.step()
        raise RuntimeError(f"there is work left: {self.core.stats}")

    def steps(self, number: int) -> None:
        """Runs some steps."""
        for _ in range(number):
            self.step()

    @property
    def stats(self) -> LoraStats:
        found = ADAPTER_STATS.read(self.core.stats.sections)
        assert found is not None
        return found

    @property
    def finished(self) -> dict[int, Finished]:
        """How requests have ended, by id."""
        return {
            event.request_id: event
            for output in self.outputs
            for event in output.events.finished
        }

    @property
    def waits(self) -> Sequence[AdapterWait]:
        """Waits that have ended."""
        news = [ADAPTER_NEWS.read(output.sections) for output in self.outputs]
        return [wait for each in news if each is not None for wait in each.waits]
