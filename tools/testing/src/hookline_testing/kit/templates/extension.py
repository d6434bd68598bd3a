"""Extension `sample`: counts how often a token is sampled."""

import msgspec

from hookline import hookimpl
from hookline.config.checks import refuse_unknown
from hookline.engine.scheduler.extension import SchedulerSide
from hookline.engine.worker.extension import WorkerContext, WorkerSide, WorkerStep
from hookline.payloads import ExtensionContext
from hookline.sections import Section
from hookline.step import AdmittedSequence

OPTION = "extension-config"


class SampleCount(msgspec.Struct, frozen=True):
    """The section of a step's result and of the engine's state.

    Attributes:
        tokens: Number of tokens.
    """

    tokens: int


COUNT = Section("sample", SampleCount)


class SampleWorkerSide(WorkerSide):
    """Counts in each step; runs in the worker."""

    def __init__(self, token_id: int) -> None:
        self._token_id = token_id

    def joined(self, row: int, sequence: AdmittedSequence) -> bool:
        """Follows every request."""
        del row, sequence
        return True

    def left(self, row: int) -> None:
        """Has no state of single requests."""

    def sampled(self, step: WorkerStep) -> None:
        """Adds the step's count to its result."""
        count = sum(each.count(self._token_id) for each in step.tokens.values())
        step.sections[COUNT.name] = SampleCount(count)


class SampleSchedulerSide(SchedulerSide):
    """Adds up, on the engine's thread; what it raises ends the engine."""

    def __init__(self) -> None:
        self._tokens = 0

    def update(self, section: object, now: int) -> object | None:
        """Takes a step's count, and shows it to loggers."""
        del now
        count = COUNT.typed(section)
        self._tokens += count.tokens
        return count

    def statistics(self) -> object | None:
        """Returns the total."""
        return SampleCount(self._tokens)


class SampleExtension:
    """Makes the sides."""

    def __init__(self, token_id: int) -> None:
        self._token_id = token_id

    def scheduler_side(self) -> SampleSchedulerSide:
        """Called in the engine's process."""
        return SampleSchedulerSide()

    def worker_side(self, context: WorkerContext) -> SampleWorkerSide | None:
        """Called in each rank."""
        return SampleWorkerSide(self._token_id) if context.samples else None


@hookimpl
def create_extension(context: ExtensionContext) -> SampleExtension:
    """Raises `ConfigError` for an unknown option."""
    refuse_unknown("sample", OPTION, context.options, ("token_id",))
    token_id = context.options.get("token_id", 0)
    return SampleExtension(token_id if isinstance(token_id, int) else 0)
