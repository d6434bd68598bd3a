"""Extensions: their sides, in an engine without a model."""

from collections.abc import Mapping

from hookline.config import EngineConfig
from hookline.engine.scheduler.extension import SchedulerExtension, SchedulerSide
from hookline.engine.worker.extension import WorkerContext, WorkerExtension, WorkerSide
from hookline.payloads import ExtensionContext
from hookline_registry import Failure
from hookline_testing.conformance.model_run import run
from hookline_testing.conformance.subject import Subject


def check(subject: Subject) -> None:
    """Makes the sides, and runs an engine with the extension."""
    subject.refuses_unknown(_context)
    made = subject.create(context=_context(subject.options))
    if made is None:
        return
    if not isinstance(made, SchedulerExtension | WorkerExtension):
        subject.fault(
            "it makes neither scheduler_side() nor worker_side(context)", type(made)
        )
        return
    if isinstance(made, SchedulerExtension):
        side = subject.call("scheduler_side", made.scheduler_side)
        if not isinstance(side, SchedulerSide | Failure):
            subject.fault("scheduler_side returns no SchedulerSide", type(made))
    if isinstance(made, WorkerExtension):
        other = subject.call("worker_side", made.worker_side, WorkerContext())
        if not isinstance(other, WorkerSide | Failure | None):
            subject.fault("worker_side returns no WorkerSide, nor None", type(made))
    if not subject.faults:
        run(
            subject,
            executor="uniproc",
            extensions={subject.name: dict(subject.options)},
        )


def _context(options: Mapping[str, object]) -> ExtensionContext:
    return ExtensionContext(config=EngineConfig(), options=options)
