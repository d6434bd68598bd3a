"""Every hook of Hookline, and nothing else. `docs/hooks.md` explains each.

Observing hooks run in the plugin's own lane, never on the engine's critical path and
never on the server's event loop. An implementation may take fewer arguments than the
specification gives it.
"""

import pluggy

from hookline.kv_transfer import SchedulerConnector, WorkerConnector
from hookline.payloads import (
    CacheChanged,
    CliOptions,
    ConnectorContext,
    EngineFailed,
    EngineStarted,
    EngineStopped,
    HttpAnswered,
    LoggerContext,
    ProposerContext,
    RequestsFinished,
    RequestsPreempted,
    RequestsQueued,
    RequestsScheduled,
    Routes,
    StateChanged,
    StepFinished,
    TokensGenerated,
    TrainingContext,
    TrainingReport,
)
from hookline.spec_decode import Proposer

hookspec = pluggy.HookspecMarker("hookline")
hookimpl = pluggy.HookimplMarker("hookline")


@hookspec
def engine_started(started: EngineStarted) -> None:
    """Called once when an engine is ready, before any request."""


@hookspec
def engine_stopped(stopped: EngineStopped) -> None:
    """Called once when an engine was stopped on purpose; the last call of all."""


@hookspec
def engine_failed(failed: EngineFailed) -> None:
    """Called once when an engine died; its open requests have ended with an error."""


@hookspec
def requests_queued(queued: RequestsQueued) -> None:
    """Called for each step before which the engine took requests in."""


@hookspec
def requests_scheduled(scheduled: RequestsScheduled) -> None:
    """Called for each step in which requests were admitted, first or again."""


@hookspec
def requests_preempted(preempted: RequestsPreempted) -> None:
    """Called for each step in which requests lost their blocks."""


@hookspec
def tokens_generated(generated: TokensGenerated) -> None:
    """Called for each step that brought tokens; never per token."""


@hookspec
def requests_finished(finished: RequestsFinished) -> None:
    """Called when requests ended, for whatever reason, once for each request."""


@hookspec
def cache_changed(changed: CacheChanged) -> None:
    """Called for each step in which the prefix cache gained or lost blocks."""


@hookspec
def step_finished(step: StepFinished) -> None:
    """Called after each step, after its other hooks."""


@hookspec
def state_changed(state: StateChanged) -> None:
    """Called when the state changed without a step, and as a heartbeat."""


@hookspec
def http_answered(answered: HttpAnswered) -> None:
    """Called by a server a few times a second while it has answered requests."""


@hookspec
def add_cli_options(options: CliOptions) -> None:
    """Called while the command line is read, to declare a logger's own options."""


@hookspec
def add_routes(routes: Routes) -> None:
    """Called once when the server starts, to add a logger's pages."""


@hookspec(firstresult=True)
def create_stat_logger(context: LoggerContext) -> object | None:
    """Called on the one plugin chosen by name: returns an object with hookimpls."""


@hookspec(firstresult=True)
def create_proposer(context: ProposerContext) -> Proposer | None:
    """Called on the one plugin chosen by name: returns a draft proposer."""


@hookspec(firstresult=True)
def train_draft(context: TrainingContext) -> TrainingReport | None:
    """Called on the one proposer's plugin that is to be trained, by `train-draft`."""


@hookspec(firstresult=True)
def create_kv_connector(
    context: ConnectorContext,
) -> SchedulerConnector | WorkerConnector | None:
    """Called on the one plugin chosen by name: returns the asked-for side."""
