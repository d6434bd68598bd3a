"""All hook specifications; `docs/hooks.md` describes each.

Observing hooks run in the logger's lane (a thread), never on that of an engine or a
server. An implementation may take fewer arguments than its specification.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:  # plugins and configurations are found without what hooks pass
    from collections.abc import Collection
    from pathlib import Path

    from hookline.config.engine import EngineConfig
    from hookline.config.sections import ConfigSection
    from hookline.engine.tap import TapContext
    from hookline.frontend.observing import ObserverContext, RecorderContext
    from hookline.pages import Routes
    from hookline.payloads import (
        CacheChanged,
        CliOptions,
        EngineFailed,
        EngineStarted,
        EngineStopped,
        ExtensionContext,
        ExtensionFacts,
        FrontEndChanged,
        HttpAnswered,
        LoggerContext,
        RecordsLogged,
        RequestsFinished,
        RequestsPreempted,
        RequestsQueued,
        RequestsScheduled,
        StateChanged,
        StepFinished,
        TokensGenerated,
    )
    from hookline.tells import Tells

hookspec = pluggy.HookspecMarker("hookline")
hookimpl = pluggy.HookimplMarker("hookline")
HANDLERS = {"add_routes": "PageResponse(body=text.encode(), content_type=…)"}
"""What a handler that is given to a hook's argument returns, in place of text."""


@hookspec
def engine_started(started: EngineStarted) -> None:
    """Called once when an engine is ready, before any request."""


@hookspec
def engine_stopped(stopped: EngineStopped) -> None:
    """Called once when an engine has been stopped; its last call.

    Others go on if it left because fewer are wanted; a new one may have its index.
    """


@hookspec
def engine_failed(failed: EngineFailed) -> None:
    """Called once when an engine has failed and its open requests have ended."""


@hookspec
def requests_queued(queued: RequestsQueued) -> None:
    """Called when requests were queued since the previous step."""


@hookspec
def requests_scheduled(scheduled: RequestsScheduled) -> None:
    """Called after each step that admitted requests, for the first time or again."""


@hookspec
def requests_preempted(preempted: RequestsPreempted) -> None:
    """Called after each step that preempted requests."""


@hookspec
def tokens_generated(generated: TokensGenerated) -> None:
    """Called after each step that generated tokens; never per token."""


@hookspec
def requests_finished(finished: RequestsFinished) -> None:
    """Called when requests finished; each request is reported once."""


@hookspec
def cache_changed(changed: CacheChanged) -> None:
    """Called after each step that stored blocks in the prefix cache or evicted some."""


@hookspec
def step_finished(step: StepFinished) -> None:
    """Called after each step, after its other hooks."""


@hookspec
def state_changed(state: StateChanged) -> None:
    """Called when the state changes between steps, and as a heartbeat."""


@hookspec
def http_answered(answered: HttpAnswered) -> None:
    """Called by a server a few times per second while it answers requests."""


@hookspec
def front_end_changed(changed: FrontEndChanged) -> None:
    """Called by a server once per second, if a part of its front end has changed."""


@hookspec
def records_logged(logged: RecordsLogged) -> None:
    """Called by a server a few times per second, if its log has new records."""


@hookspec
def add_cli_options(options: CliOptions) -> None:
    """Called before the command line is parsed, to declare the logger's options."""


@hookspec(firstresult=True)
def logger_needs() -> Collection[Tells] | None:
    """Called once a logger is loaded; returns what it makes nothing of without."""


@hookspec
def add_routes(routes: Routes) -> None:
    """Called once when the server starts, to register the logger's pages."""


@hookspec(firstresult=True)
def create_stat_logger(context: LoggerContext) -> object | None:
    """Called on the selected plugin; returns an object with hook implementations."""


@hookspec(firstresult=True)
def create_observers(context: ObserverContext) -> object | None:
    """Called on the plugin that runs loggers in an observer process; connects to it."""


@hookspec(firstresult=True)
def create_recorder(context: RecorderContext) -> object | None:
    """Called when a program wants to read metrics itself; returns their recorder."""


@hookspec(firstresult=True)
def create_proposer(context: object) -> object | None:
    """Called with a `ProposerContext`; returns the draft proposer."""


@hookspec(firstresult=True)
def create_logits_processor(context: object) -> object | None:
    """Called in the worker with a `LogitsProcessorContext`; returns the processor."""


@hookspec(firstresult=True)
def create_grammar_backend(context: object) -> object | None:
    """Called with a `BackendContext`; returns what compiles and follows grammars."""


@hookspec(firstresult=True)
def create_tool_parser(context: object) -> object | None:
    """Called for each reply with a `ToolParserContext`; returns its parser."""


@hookspec(firstresult=True)
def create_reasoning_parser(context: object) -> object | None:
    """Called for each reply with a `ReasoningParserContext`; returns its parser."""


@hookspec(firstresult=True)
def connect_engine_client(context: EngineConfig) -> object | None:
    """Called on the engine that `--engine` names; returns an `EngineClient`."""


@hookspec(firstresult=True)
def engine_tells() -> object | None:
    """Called by `hookline metrics list --engine`; returns an `EngineTells`."""


@hookspec(firstresult=True)
def create_engine(context: EngineConfig) -> object | None:
    """Called in its process on what `--engine` names; returns a `DrivenEngine`."""


@hookspec(firstresult=True)
def find_tokenizer(context: EngineConfig) -> Path | None:
    """Called on what `--engine` names; returns the folder of its model's tokenizer."""


@hookspec(firstresult=True)
def create_tap(context: TapContext) -> object | None:
    """Called when an engine starts; returns its `Tap`, None if nothing asks for one."""


@hookspec(firstresult=True)
def create_cluster() -> object | None:
    """Called when a front end starts; returns what has engines in processes."""


@hookspec(firstresult=True)
def open_engine_nodes(context: EngineConfig) -> object | None:
    """Called to start engines on other machines; returns the `EngineNodes`.

    It connects to the machines and starts nothing yet. It may raise `ConfigError` if an
    option does not fit, and `EngineDeadError` if the machines cannot be reached.
    """


@hookspec(firstresult=True)
def executor_factory() -> object | None:
    """Called on the executor that `--executor` names; returns its `ExecutorFactory`."""


@hookspec(firstresult=True)
def background_compiler() -> object | None:
    """Called when a worker starts; returns a `StartForward`."""


@hookspec(firstresult=True)
def config_section() -> type[ConfigSection] | None:
    """Called before options are read; returns the class of a `ConfigSection`.

    Those of all distributions that may be used are imported, so it should need little.
    """


@hookspec(firstresult=True)
def cli_command() -> object | None:
    """Called when `hookline` needs a command of this name; returns its `Command`."""


@hookspec(firstresult=True)
def model_family() -> object | None:
    """Called for a model's `model_type`; returns the `ModelFamily` of such models."""


@hookspec(firstresult=True)
def model_folder() -> Path | None:
    """Called when a model is named; returns the folder of its weights."""


@hookspec(firstresult=True)
def locate_model(context: EngineConfig) -> EngineConfig | None:
    """Called before a start; returns the configuration with folders for its names."""


@hookspec(firstresult=True)
def create_model_loader(context: object) -> object | None:
    """Called with a `LoaderContext`; returns the `ModelLoader` of its own format."""


@hookspec(firstresult=True)
def resolve_adapter(context: str) -> Path | None:
    """Called in a thread with a model's name that nobody has; returns its folder."""


@hookspec(firstresult=True)
def train_draft(context: object) -> object | None:
    """Called by `train-draft` with a `TrainingContext`; returns a `TrainingReport`."""


@hookspec(firstresult=True)
def create_kv_connector(context: object) -> object | None:
    """Called with a `ConnectorContext`; returns the requested side of the connector."""


@hookspec(firstresult=True)
def create_extension(context: ExtensionContext) -> object | None:
    """Called on the selected plugin; returns an object that makes its sides."""


@hookspec(firstresult=True)
def create_extension_facts(context: ExtensionFacts) -> object | None:
    """Called on an engine's extension in the front end; returns its facts, typed."""


@hookspec(firstresult=True)
def create_quantization_method(context: object) -> object | None:
    """Called with a `QuantizationContext`; returns the `QuantizationMethod`."""
