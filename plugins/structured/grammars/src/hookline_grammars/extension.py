"""The sides of an engine that follows grammars."""

from dataclasses import replace

from hookline.config import EngineConfig
from hookline.engine.scheduler.extension import SchedulerSide
from hookline.engine.scheduler.extension_port import SchedulerPort
from hookline.engine.worker.extension import WorkerContext, WorkerSide
from hookline.payloads import EngineFacts
from hookline_grammars.config import StructuredOutputsConfig
from hookline_grammars.gate import GrammarGate
from hookline_grammars.grammar_service import GrammarService
from hookline_grammars.settings import GrammarSettings
from hookline_metrics.grammars import GRAMMAR_USE, GrammarUse


class EngineExtension:
    """Makes the sides of an engine, which share what compiles grammars."""

    def __init__(
        self, settings: GrammarSettings, config: StructuredOutputsConfig
    ) -> None:
        """Starts nothing yet."""
        self._service = GrammarService(settings)
        self._config = config

    def scheduler_side(self) -> SchedulerSide:
        """Implements `SchedulerExtension`."""
        return GrammarScheduler(self._service, self._config)

    def worker_side(self, context: WorkerContext) -> WorkerSide | None:
        """Implements `WorkerExtension`."""
        if not context.samples:
            return None
        from hookline_grammars.worker_side import GrammarWorker  # noqa: PLC0415

        return GrammarWorker(self._service)


class RankExtension:
    """Makes the side of a rank in a process of its own."""

    def __init__(self, config: EngineConfig) -> None:
        self._config = config

    def worker_side(self, context: WorkerContext) -> WorkerSide | None:
        """Implements `WorkerExtension`: only the rank that samples follows grammars."""
        settings = GrammarSettings.of(self._config) if context.samples else None
        if settings is None:
            return None
        from hookline_grammars.rank_grammars import RankGrammars  # noqa: PLC0415
        from hookline_grammars.worker_side import RankWorker  # noqa: PLC0415

        return RankWorker(RankGrammars(settings))


class GrammarScheduler(SchedulerSide):
    """Lets requests wait for their grammars, and passes on what grammars do."""

    def __init__(
        self, service: GrammarService, config: StructuredOutputsConfig
    ) -> None:
        self._name = service.backend_name
        self._config = config
        self.gate = self._gate = GrammarGate(service, config)

    def start(self, port: SchedulerPort) -> None:
        self._gate.start(port)

    def describe(self, facts: EngineFacts) -> EngineFacts:
        """Names the backends."""
        return replace(
            facts,
            structured_outputs=self._name,
            enable_in_reasoning=self._config.enable_in_reasoning,
        )

    def update(self, section: object, now: int) -> GrammarUse:  # noqa: ARG002
        """Passes what grammars did in a step to its record."""
        return GRAMMAR_USE.typed(section)
