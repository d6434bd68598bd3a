"""The scheduler's side: lets requests wait for their adapters, and places adapters."""

from collections.abc import Callable
from dataclasses import replace

from hookline.engine.scheduler.extension import SchedulerSide
from hookline.engine.scheduler.extension_port import SchedulerPort
from hookline.engine.scheduler.plan_builder import PlanBuilder
from hookline.exceptions import ConfigError, HooklineError
from hookline.frozen import frozen_map
from hookline.payloads import EngineFacts
from hookline.request import Request
from hookline.step import ModelShape
from hookline_lora.adapter import AdapterUse
from hookline_lora.config import AdapterSource, LoraConfig
from hookline_lora.facts import KnownAdapters, LoraFacts
from hookline_lora.messages import REPORTS, AdapterOrders, AdapterReports, LoraAnswer
from hookline_lora.pacing import Pacing
from hookline_lora.scheduler.accounting import Account
from hookline_lora.scheduler.capacity import Capacity
from hookline_lora.scheduler.commands import Commands
from hookline_lora.scheduler.describing import Describe, Describing
from hookline_lora.scheduler.gate import AdapterGate
from hookline_lora.scheduler.placing import Placing
from hookline_lora.scheduler.registry import Registry
from hookline_lora.scheduler.residency import Residency
from hookline_lora.scheduler.weights import Weights
from hookline_metrics.adapters import LORA, LoraStats

DescriberOf = Callable[[ModelShape], Describe]
"""Returns what describes adapters of a model."""


class LoraScheduler(SchedulerSide):
    """Implements the scheduler's side of adapters.

    Attributes:
        describing: Reads adapters' files, once the model is loaded.
    """

    def __init__(
        self,
        config: LoraConfig,
        describer_of: DescriberOf,
        priority: Callable[[Request], int] = lambda _: 0,
        pacing: Pacing | None = None,
    ) -> None:
        """Begins without adapters.

        Args:
            config: How adapters are served.
            describer_of: Makes what reads adapters' files, once the model is loaded.
            priority: Lower is served first.
            pacing: Is told of steps, during which files are read slowly.
        """
        self._config = config
        self._describer_of = describer_of
        self._registry = registry = Registry()
        self._residency = Residency(Capacity.of(config))
        self._placing = Placing(self._residency, priority)
        self._account = Account(registry, self._residency)
        self.gate = self._gate = AdapterGate(
            registry, self._placing, self._account, self._read_unknown
        )
        self._ages_at: int | None = None
        self._stats: LoraStats | None = None
        self._num_entries = 0
        self._pacing = pacing or Pacing()

    # -- start -------------------------------------------------------------------

    def loaded(self, shape: ModelShape) -> None:
        """Reads what the adapters are that are loaded at the start.

        Raises:
            ConfigError: One of them cannot be served.
        """
        describe = self._describer_of(shape)
        self.describing = Describing(describe)
        added = [self._added(describe, each) for each in self._config.modules]
        num_pinned = sum(each.is_pinned for each in self._config.modules)
        if num_pinned and not self._residency.capacity.can_pin(num_pinned):
            raise ConfigError("lora-modules", "too many adapters are pinned")
        for weights in sorted(added, key=lambda each: not each.is_pinned):
            if obstacle := self._residency.obstacle(weights):
                raise ConfigError("lora-modules", f"{weights.ref.name}: {obstacle}")
            self._residency.preload(weights, 0)

    def _added(self, describe: Describe, source: AdapterSource) -> Weights:
        """Adds an adapter that the configuration names."""
        try:
            ref = describe(source)
        except (HooklineError, OSError) as error:
            raise ConfigError("lora-modules", f"{source.name}: {error}") from error
        self._registry.add(ref)
        return self._registry.weights[ref.digest]

    def describe(self, facts: EngineFacts) -> EngineFacts:
        """Tells which adapters there are."""
        registry, capacity = self._registry, self._residency.capacity
        told = LoraFacts(
            max_loras=capacity.slots,
            max_lora_rank=self._config.max_lora_rank,
            max_cpu_loras=capacity.most,
            directory=self._config.directory,
            known=KnownAdapters(registry.version, dict(registry.refs)),
        )
        return replace(facts, sections=frozen_map({**facts.sections, LORA: told}))

    def start(self, port: SchedulerPort) -> None:
        self._port = port
        self._account.start(port)
        self._commands = Commands(
            self._registry, self._residency, self.describing, port
        )
        self._account.tell_residency()

    # -- steps -------------------------------------------------------------------

    def planning(self, now: int) -> None:
        """Gives places to adapters, if anything has changed."""
        gate = self._gate
        gate.now = now
        if self.describing.num_pending:
            self._take_described()
        if gate.is_changed or (self._ages_at is not None and now >= self._ages_at):
            gate.is_changed = False
            self._place(now)

    def _place(self, now: int) -> None:
        residency, claims = self._residency, self._gate.claims
        self._registry.age_loadings(now)
        self._gate.settle_replaced()
        self._forget_unneeded()
        for weights in self._registry.wanted_by_loadings():
            claims[weights.digest] = weights
        for weights in list(claims.values()):
            if weights.is_wanted and (obstacle := residency.obstacle(weights)):
                self._fail(weights, obstacle)
            if not weights.is_wanted:
                del claims[weights.digest]
        self._placing.place(claims.values(), now)
        aging = (self._placing.ages_at(each) for each in claims.values())
        self._ages_at = min((at for at in aging if at > now), default=None)
        self._account.tell_residency()
        self._stats = None

    def _forget_unneeded(self) -> None:
        """Frees the places of weights that nothing can ask for any more."""
        for weights in list(self._registry.orphans.values()):
            if weights.is_idle() and not weights.is_loading:
                self._residency.drop(weights)
                self._registry.forget(weights)

    def plan(self, builder: PlanBuilder) -> AdapterOrders | None:
        """Returns the orders of workers."""
        gate = self._gate
        if builder.entries:
            self._pacing.stepped()
        # Requests that were preempted are missing among the entries.
        has_moved = builder.admitted or len(builder.entries) != self._num_entries
        self._num_entries = len(builder.entries)
        if has_moved and gate.has_requests:
            self._stats = None
            for request in builder.admitted:
                if request.inner.adapter is not None:
                    self._account.admitted(request, gate.now)
        return self._residency.take_orders()

    def is_busy(self) -> bool:
        """Whether workers have orders to follow, or files are being read."""
        return bool(
            self.describing.num_pending
            or self._gate.is_changed
            or self._residency.has_orders
            or self._residency.is_loading
        )

    def update(self, section: object, now: int) -> AdapterReports | None:
        """Notes which adapters workers have loaded; it goes into the step's record."""
        reports = REPORTS.typed(section)
        resident = self._residency.resident
        for digest, loaded in reports.loaded.items():
            weights = resident[digest]
            self._residency.loaded(weights, now)
            self._account.loaded(weights, loaded)
        for digest, reason in reports.failed.items():
            weights = resident[digest]
            self._residency.failed(weights, now)
            self._account.failed(weights, reason)
            self._fail(weights, reason)
        if not (reports.loaded or reports.failed):
            return None
        self._gate.is_changed, self._stats = True, None
        self._account.tell_residency()
        return reports

    def _fail(self, weights: Weights, reason: str) -> None:
        """Ends what waits for weights that cannot be had."""
        self._registry.fail_loadings(weights, reason)
        self._gate.load_failed(weights, reason)

    def finished(self, request: Request, now: int) -> None:
        """Forgets a request that ends."""
        if request.inner.adapter is None:
            return
        self._account.ended(request, now)
        if (weights := self._gate.forget(request)) is not None:
            weights.last_used = now

    # -- files -------------------------------------------------------------------

    def _read_unknown(self, use: AdapterUse) -> bool:
        """Has an adapter read that a request names, and that is not known here."""
        source = AdapterSource(name=use.name, path=use.path)
        return self.describing.ask(use.digest, source)

    def _take_described(self) -> None:
        for described in self.describing.drain():
            self._gate.is_changed = True
            if self._commands.take_described(described):
                continue
            self._gate.read(described.key, described.ref, described.error)

    # -- clients and observers ---------------------------------------------------

    def told(self, section: object) -> LoraAnswer:
        """Carries out a front end's command."""
        if self.describing.num_pending:  # an engine that sleeps plans nothing
            self._take_described()
        answer = self._commands.run(section, self._gate.now)
        self._gate.is_changed = True
        return answer

    def statistics(self) -> LoraStats:
        """Returns the state, the same object as long as it stays the same."""
        if self._stats is None or self._gate.is_news:
            self._gate.is_news = False
            self._stats = self._account.stats()
        return self._stats

    def close(self) -> None:
        self.describing.close()
