"""What hooks carry: one frozen dataclass each, safe to keep and read in any thread."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from hookline.config import EngineConfig
from hookline.cost import ModelCost
from hookline.events import (
    CacheChanges,
    ClockPair,
    Finished,
    NewTokens,
    Preempted,
    Queued,
    Scheduled,
    StepRecord,
)
from hookline.request import RequestFacts
from hookline.stats import IterationStats, SchedulerStats
from hookline_registry import LaneStats


@dataclass(frozen=True, slots=True, kw_only=True)
class StartupPhase:
    """A part of an engine's start.

    Attributes:
        name: What was done, such as `load weights`.
        started_at: Nanoseconds since the epoch.
        seconds: How long it took.
    """

    name: str
    started_at: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFacts:
    """What an engine turned out to be, once it had started.

    Attributes:
        engine_index: Which of several engines.
        model_name: What clients call the model.
        architecture: The model's class.
        dtype: Of weights and KV cache.
        vocab_size: Number of token ids the model knows.
        max_model_len: Context length in tokens.
        block_size: Tokens a KV block.
        num_kv_blocks: Blocks in the pool.
        max_num_seqs: Most requests in a step.
        max_num_batched_tokens: Token budget of a step.
        enable_prefix_caching: Whether full blocks are reused.
        eos_token_ids: Tokens that end its texts.
        executor: `uniproc`, `simulated`, …
        cost: What steps of the model cost the machine.
        kernels: What computes them, and why not what is quicker.
        startup: What its start consisted of, in order; phases may contain others.
    """

    engine_index: int
    model_name: str
    architecture: str
    dtype: str
    vocab_size: int
    max_model_len: int
    block_size: int
    num_kv_blocks: int
    max_num_seqs: int
    max_num_batched_tokens: int
    enable_prefix_caching: bool
    eos_token_ids: tuple[int, ...]
    executor: str
    cost: ModelCost = field(default_factory=ModelCost)
    kernels: str = ""
    startup: tuple[StartupPhase, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStarted:
    """Of `engine_started`."""

    facts: EngineFacts
    clock: ClockPair


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStopped:
    """Of `engine_stopped`."""

    engine_index: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFailed:
    """Of `engine_failed`.

    Attributes:
        reason: What is known, in one line.
        open_requests: Requests that ended with an error because of it.
    """

    engine_index: int
    reason: str
    open_requests: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestsQueued:
    """Of `requests_queued`: the step's QUEUED events, with each request's facts."""

    engine_index: int
    events: tuple[Queued, ...]
    facts: Mapping[int, RequestFacts]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestsScheduled:
    """Of `requests_scheduled`: the step's SCHEDULED events."""

    engine_index: int
    events: tuple[Scheduled, ...]
    facts: Mapping[int, RequestFacts]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestsPreempted:
    """Of `requests_preempted`: the step's PREEMPTED events."""

    engine_index: int
    events: tuple[Preempted, ...]
    facts: Mapping[int, RequestFacts]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensGenerated:
    """Of `tokens_generated`: the step's NEW_TOKENS events."""

    engine_index: int
    events: tuple[NewTokens, ...]
    facts: Mapping[int, RequestFacts]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestsFinished:
    """Of `requests_finished`: the step's FINISHED events.

    Requests that never reached an engine (rejected, or lost with it) have no event of
    their own, so `events` holds what the front end knows of them.
    """

    engine_index: int
    events: tuple[Finished, ...]
    facts: Mapping[int, RequestFacts]


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheChanged:
    """Of `cache_changed`.

    Attributes:
        changes: Of the prefix cache; told only where `--kv-events-config` asks for it.
    """

    engine_index: int
    changes: CacheChanges


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFinished:
    """Of `step_finished`."""

    engine_index: int
    record: StepRecord
    iteration: IterationStats
    scheduler: SchedulerStats


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChanged:
    """Of `state_changed`.

    Attributes:
        cause: `idle`, `abort`, `heartbeat`, `reset`, `rejected`, `drain`, `failed`.
        at: Monotonic nanoseconds of the engine's process, when `scheduler` was true.
        scheduler: The state now.
        iteration: Requests that ended outside a step, and what they add up to.
        lanes: State of each logger's lane.
        clock: Of the engine's process, now and then.
    """

    engine_index: int
    cause: str
    at: int
    scheduler: SchedulerStats
    iteration: IterationStats
    lanes: tuple[LaneStats, ...] = ()
    clock: ClockPair | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpExchange:
    """A request that the server has answered.

    Attributes:
        route: The route's template, such as `/v1/models/{model}`; `unmatched` for
            paths that are served nowhere. Never the path itself.
        method: One of the usual ones, else `OTHER`.
        status: Of the response; 499 where the client left before it was complete.
        seconds: From the request's head to the response's last byte.
        request_bytes: Length of the request's body.
        response_bytes: Length of the response's body.
    """

    route: str
    method: str
    status: int
    seconds: float
    request_bytes: int
    response_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswered:
    """Of `http_answered`.

    Attributes:
        exchanges: Answered since the last call.
        in_flight: Requests that are being answered now, by (route, method); a pair
            that was there before and is not named has none.
        missed: Exchanges that were too many to be told one by one.
    """

    exchanges: tuple[HttpExchange, ...]
    in_flight: Mapping[tuple[str, str], int]
    missed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggerContext:
    """Of `create_stat_logger`.

    Attributes:
        name: The name it was chosen by.
        config: The engine's configuration.
        options: What `--stat-logger-option NAME.KEY=VALUE` gave, by key.
    """

    name: str
    config: EngineConfig
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposerContext:
    """Of `create_proposer`: how drafts are to be made, and for what target.

    Attributes:
        config: The engine's configuration.
        options: What `--speculative-config` says beyond the keys of every method.
    """

    config: EngineConfig
    options: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingContext:
    """Of `train_draft`: what is to be trained, for what target, and on what.

    Attributes:
        config: The target's engine; its model, device and seed are what counts.
        num_speculative_tokens: Drafts of a request in a step that are wanted.
        options: What `--training-config` says.
        make_rows: Gives token sequences to learn from, and others to judge by, which
            are not to be learnt from; all of one length. It takes its time: call it
            once, when the options are checked.
        num_given_tokens: How many tokens of each sequence the target was given; it says
            what follows at temperature 0. 0 where sequences are texts of others.
        folder: Where what was trained is to be written; it is made if need be.
        say: Told a line of progress now and then.
    """

    config: EngineConfig
    num_speculative_tokens: int
    make_rows: Callable[[], tuple[Sequence[Sequence[int]], Sequence[Sequence[int]]]]
    num_given_tokens: int
    folder: Path
    say: Callable[[str], None]
    options: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingReport:
    """What `train_draft` returns: what became of drafts on the held-out sequences.

    As verification at temperature 0 would judge them if the target said these tokens.

    Attributes:
        drafts: Steps with drafts.
        accepted_by_position: Of these steps, how many accepted the first draft, the
            second …
    """

    drafts: int
    accepted_by_position: tuple[int, ...]

    @property
    def mean_accepted_length(self) -> float:
        """1 + accepted ÷ drafts: tokens that a step brings."""
        return 1 + sum(self.accepted_by_position) / max(1, self.drafts)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorContext:
    """Of `create_kv_connector`.

    Attributes:
        role: `scheduler` or `worker`: which of the two Protocols is wanted.
        config: The engine's configuration.
        options: `kv_connector_extra_config` of `--kv-transfer-config`.
    """

    role: str
    config: EngineConfig
    options: Mapping[str, object] = field(default_factory=dict)


class CliOptions(Protocol):
    """Of `add_cli_options`: where a logger declares the options it takes."""

    def add(self, key: str, *, help: str, default: str | None = None) -> None:  # noqa: A002
        """Makes `--LOGGER-KEY VALUE` mean `--stat-logger-option LOGGER.KEY=VALUE`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """What a page's handler may know of an HTTP request.

    Attributes:
        headers: By lower-case name.
        query: The last value of each parameter.
    """

    headers: Mapping[str, str]
    query: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageResponse:
    """What a page's handler answers."""

    body: bytes
    content_type: str
    status: int = 200


PageHandler = Callable[[PageRequest], PageResponse]


class Routes(Protocol):
    """Of `add_routes`: where a logger registers its pages."""

    def get(self, path: str, handler: PageHandler) -> None:
        """Serves `path`; the handler runs in a thread, never on the event loop."""
        ...
