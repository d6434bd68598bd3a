"""The hooks' payloads: frozen dataclasses, safe to keep and to read in any thread."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from hookline.cache_facts import CacheFacts
from hookline.config.engine import EngineConfig
from hookline.events import (
    CacheChanges,
    ClockPair,
    Finished,
    NewTokens,
    Preempted,
    Queued,
    Scheduled,
    StepRecord,
    VerifiedDrafts,
)
from hookline.front_end_parts import FrontEndPart
from hookline.moved_modules import moved_name
from hookline.request import RequestFacts
from hookline.sections import NO_SECTIONS, Sections
from hookline.startup_timer import StartupPhase
from hookline.stats.finished_request import FinishedRequest
from hookline.stats.iteration_stats import IterationStats
from hookline.stats.scheduler_stats import EngineTotals, SchedulerStats
from hookline.stats.step_work import Execution, StepWork
from hookline.step import ModelShape
from hookline.tells import Tells
from hookline_processes.logged_record import LoggedRecord
from hookline_registry import LaneStats
from hookline_registry.former_fields import former_fields

# Only loggers of others read these, so the types themselves do not know them.
former_fields(
    work=StepWork,
    execution=Execution,
    verified=VerifiedDrafts,
    evictions={"evicted_blocks": "blocks", "eviction_ns": "nanoseconds"},
)(StepRecord)
former_fields(totals=EngineTotals)(SchedulerStats)


@former_fields(model=ModelShape)
@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFacts:
    """Facts about a started engine.

    Attributes:
        engine_index: Index of the engine, from 0.
        model_name: Name of the model in the API and in metrics.
        model: The model, with its KV cache and kernels.
        block_size: Tokens per KV block.
        max_num_seqs: Maximum requests per step.
        max_num_batched_tokens: Maximum tokens per step.
        enable_prefix_caching: Whether requests share KV blocks of equal prefixes.
        executor: Name of the executor, such as `uniproc` or `simulated`.
        version: Version of Hookline.
        config_hash: Short hash of all options; engines with equal options share it.
        startup: Phases of the startup, in order; a phase may contain others.
        enable_kv_cache_events: Whether changes of the prefix cache are reported.
        cache: Facts about the KV cache beyond its size.
        structured_outputs: Name of the grammar backend; empty if there is none.
        enable_in_reasoning: Whether grammars also apply to reasoning.
        sections: What its extensions tell of themselves, by their names.
        data_parallel_size: Number of engines of the server, this one included.
        tensor_parallel_size: Number of ranks that share each layer.
        pipeline_parallel_size: Number of stages that divide the layers.
        shares_experts: Whether its engines share the experts, and so end together.
        rank_pids: Process ids of its ranks; none if it computes in its own process.
        rank_hosts: Names of its ranks' machines, by rank, if a cluster has placed them.
        tells: What it tells of itself; metrics of other things are left out.
    """

    engine_index: int
    model_name: str
    model: ModelShape
    block_size: int
    max_num_seqs: int
    max_num_batched_tokens: int
    enable_prefix_caching: bool
    executor: str
    version: str = ""
    config_hash: str = ""
    startup: tuple[StartupPhase, ...] = ()
    enable_kv_cache_events: bool = False
    cache: CacheFacts = field(default_factory=CacheFacts)
    structured_outputs: str = ""
    enable_in_reasoning: bool = False
    sections: Sections = field(default_factory=lambda: NO_SECTIONS)
    data_parallel_size: int = 1
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    shares_experts: bool = False
    rank_pids: tuple[int, ...] = ()
    rank_hosts: tuple[str, ...] = ()
    tells: tuple[Tells, ...] = tuple(Tells)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStarted:
    """Payload of `engine_started`.

    Attributes:
        facts: What the engine is.
        clock: Its clocks, read together.
        restart_cause: Why it replaces another process: `failed`, `crashed`, `exited`,
            `memory`, `stalled`, `start`, `lost` or `peer`; empty for the first one.
        resubmitted: Requests of the old process that it gets again, and does not count.
        ended_before: Requests that had ended before the loggers began.
    """

    facts: EngineFacts
    clock: ClockPair
    restart_cause: str = ""
    resubmitted: int = 0
    ended_before: int = 0


REMOVED = "removed"
"""Reason of `EngineStopped`, of an engine that left while others serve."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStopped:
    """Payload of `engine_stopped`.

    Attributes:
        reason: `closed` with the server; `removed` if one less is wanted for a time.
    """

    engine_index: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFailed:
    """Payload of `engine_failed`.

    Attributes:
        reason: Cause of the failure, in one line.
        open_requests: Number of requests that ended with an error because of it.
        is_final: Whether it is gone for good; otherwise it starts, or fails, again.
    """

    engine_index: int
    reason: str
    open_requests: int
    is_final: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestsQueued:
    """Payload of `requests_queued`: QUEUED events, with each request's facts."""

    engine_index: int
    events: tuple[Queued, ...]
    facts: Mapping[int, RequestFacts]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestsScheduled:
    """Payload of `requests_scheduled`: the step's SCHEDULED events."""

    engine_index: int
    events: tuple[Scheduled, ...]
    facts: Mapping[int, RequestFacts]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestsPreempted:
    """Payload of `requests_preempted`: the step's PREEMPTED events."""

    engine_index: int
    events: tuple[Preempted, ...]
    facts: Mapping[int, RequestFacts]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensGenerated:
    """Payload of `tokens_generated`: the step's NEW_TOKENS events."""

    engine_index: int
    events: tuple[NewTokens, ...]
    facts: Mapping[int, RequestFacts]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestsFinished:
    """Payload of `requests_finished`: a summary of each, and FINISHED events.

    Rejected requests have no event; those of a failed engine are the front end's.
    """

    engine_index: int
    events: tuple[Finished, ...]
    facts: Mapping[int, RequestFacts]
    requests: tuple[FinishedRequest, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheChanged:
    """Payload of `cache_changed`.

    Attributes:
        changes: Changes of the prefix cache; only with `--kv-events-config`.
    """

    engine_index: int
    changes: CacheChanges


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFinished:
    """Payload of `step_finished`."""

    engine_index: int
    record: StepRecord
    iteration: IterationStats
    scheduler: SchedulerStats


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChanged:
    """Payload of `state_changed`.

    Attributes:
        cause: One of `idle`, `abort`, `heartbeat`, `reset`, `sleep`, `wake_up`,
            `rejected`, `drain`, `failed`.
        at: Time of `scheduler`, in monotonic nanoseconds of the engine's process.
        scheduler: The engine's state.
        iteration: Requests that ended outside of steps, and their totals.
        lanes: State of each logger's lane (queue and thread).
        clock: Clock pair of the engine's process, sent periodically.
    """

    engine_index: int
    cause: str
    at: int
    scheduler: SchedulerStats
    iteration: IterationStats
    lanes: tuple[LaneStats, ...] = ()
    clock: ClockPair | None = None


CLIENT_LEFT = 499
"""Status of an HTTP request whose client disconnected before the response's end, as in
nginx; no such response is sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpExchange:
    """An answered HTTP request.

    Attributes:
        route: Template of the route, such as `/v1/models/{model}`, or `unmatched`.
        method: HTTP method; `OTHER` for unusual ones.
        status: Status of the response; `CLIENT_LEFT` if the client left before its end.
        seconds: Time from the request's head to the last byte of the response.
        request_bytes: Size of the request body.
        response_bytes: Size of the response body.
        client_id: The client's id of a request for the engine; empty for others.
        begun: When its head was there, ns since the epoch.
        first_byte_seconds: Time from then to the response's first byte.
        unread_seconds: Time in which a streamed response waited for its client to read.
    """

    route: str
    method: str
    status: int
    seconds: float
    request_bytes: int
    response_bytes: int
    client_id: str = ""
    begun: int = 0
    first_byte_seconds: float | None = None
    unread_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PageStats:
    """State of a logger's pages; totals count from the server's start.

    Attributes:
        logger: Name of the logger.
        hung: Number of handlers that are late and still hold their threads.
        raised: Total requests whose handler raised, or returned no page.
        timed_out: Total requests whose handler was late.
        refused: Total requests that were refused, because threads were missing.
    """

    logger: str
    hung: int
    raised: int
    timed_out: int
    refused: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswered:
    """Payload of `http_answered`.

    Attributes:
        exchanges: Requests answered since the previous call.
        in_flight: Requests in flight by (route, method); pairs without are left out.
        missed: Number of exchanges dropped because there were too many.
        pages: State of each logger's pages.
    """

    exchanges: tuple[HttpExchange, ...]
    in_flight: Mapping[tuple[str, str], int]
    missed: int = 0
    pages: tuple[PageStats, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontEndChanged:
    """Payload of `front_end_changed`.

    Attributes:
        parts: State of each part of the front end that has changed.
    """

    parts: tuple[FrontEndPart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsLogged:
    """Payload of `records_logged`.

    Attributes:
        records: Records of the server's log since the previous call, in order.
        missed: Number of records dropped since then because too many waited.
    """

    records: tuple[LoggedRecord, ...]
    missed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggerContext:
    """Payload of `create_stat_logger`.

    Attributes:
        name: The logger's name on the command line.
        config: The engine's configuration.
        options: Values of `--stat-logger-option NAME.KEY=VALUE` by key.
        kept: File for what the next process's logger goes on with; None if none comes.
    """

    name: str
    config: EngineConfig
    options: Mapping[str, str] = field(default_factory=dict)
    kept: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtensionContext:
    """Payload of `create_extension`.

    Attributes:
        config: The engine's configuration.
        options: The extension's section of it.
        has_logits: Whether the executor has logits, which extensions can change.
        has_hidden_states: Whether it has the model's hidden states.
        has_draft_trees: Whether it verifies trees of drafts, not only chains.
        is_rank: Whether it is for a rank in a process of its own, without a scheduler.
    """

    config: EngineConfig
    options: Mapping[str, object] = field(default_factory=dict)
    has_logits: bool = True
    has_hidden_states: bool = True
    has_draft_trees: bool = True
    is_rank: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtensionFacts:
    """Payload of `create_extension_facts`.

    Attributes:
        section: The extension's section of `EngineFacts`, as plain data.
    """

    section: object


class CliOptions(Protocol):
    """Payload of `add_cli_options`: declares a logger's options."""

    def add(self, key: str, *, help: str, default: str | None = None) -> None:  # noqa: A002
        """Adds `--LOGGER-KEY VALUE` for `--stat-logger-option LOGGER.KEY=VALUE`."""


def __getattr__(name: str) -> object:
    return moved_name(__name__, name)
