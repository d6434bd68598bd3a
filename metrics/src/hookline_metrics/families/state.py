"""Metrics of an engine: configuration, queues, KV cache and running totals."""

from collections.abc import Iterable

from hookline.clock import NANOSECONDS
from hookline.payloads import EngineFacts
from hookline.stats.scheduler_stats import SchedulerStats
from hookline.tells import Tells
from hookline_metrics.adapters import ADAPTER_GATE
from hookline_metrics.metric import (
    Kind,
    Label,
    Metric,
    Point,
    Stability,
)
from hookline_metrics.readings import Reading, StateReading, by_label, one
from hookline_metrics.transfer_stats import transfers_of


def _info(facts: EngineFacts) -> Iterable[Point]:
    values = (
        facts.model.architecture,
        facts.model.dtype,
        facts.model.cache_dtype,
        str(facts.block_size),
        str(facts.model.num_kv_blocks),
        str(facts.model.max_model_len),
        str(facts.max_num_seqs),
        str(facts.max_num_batched_tokens),
        "true" if facts.enable_prefix_caching else "false",
        facts.executor,
        str(facts.tensor_parallel_size),
        str(facts.pipeline_parallel_size),
        facts.model.isa or "none",
        facts.version,
        facts.config_hash,
    )
    return ((values, 1.0, 1),)


_SAMPLING = (
    *("temperature", "top_p", "top_k", "min_p", "repetition_penalty"),
    *("presence_penalty", "frequency_penalty", "max_tokens"),
)


def _sampling(facts: EngineFacts) -> Iterable[Point]:
    defaults = facts.model.sampling
    if not defaults.values:
        return ()
    found = (str(defaults.values.get(name, "")) for name in _SAMPLING)
    return (((*found, defaults.source), 1.0, 1),)


def _waiting(stats: SchedulerStats) -> Iterable[Point]:
    return by_label(
        {
            "capacity": stats.waiting,
            "grammar": stats.held.get("grammar", 0),
            "remote_kv": stats.held.get("remote_kv", 0),
            ADAPTER_GATE: stats.held.get(ADAPTER_GATE, 0),
        }
    )


def _blocks(stats: SchedulerStats) -> Iterable[Point]:
    idle = stats.kv_blocks - stats.kv_blocks_used
    return by_label(
        {
            "used": stats.kv_blocks_used,
            "cached": stats.kv_blocks_cached,
            "free": idle - stats.kv_blocks_cached,
        }
    )


def _kv_tokens(state: StateReading) -> Iterable[Point]:
    size = state.facts.block_size
    return [
        (labels, value * size, count) for labels, value, count in _blocks(state.stats)
    ]


def _sleep_state(stats: SchedulerStats) -> Iterable[Point]:
    names = ("awake", "kv_cache_released", "weights_released")
    return by_label({name: stats.sleep_level == i for i, name in enumerate(names)})


def _capacity_bytes(facts: EngineFacts) -> Iterable[Point]:
    tokens = facts.model.num_kv_blocks * facts.block_size
    return one(tokens * facts.model.cost.kv_bytes_per_token)


def _startup(facts: EngineFacts) -> Iterable[Point]:
    return [((phase.name,), phase.seconds, 1) for phase in facts.startup]


def _residue(stats: SchedulerStats) -> Iterable[Point]:
    residue = stats.totals.residue
    return by_label(
        {
            "requests": residue.requests,
            "tokens": residue.tokens,
            "blocks": residue.blocks,
        }
    )


def _age(at: int, since: int | None) -> Iterable[Point]:
    """Seconds from `since` to `at`; 0 without a `since`."""
    return one(0.0 if since is None else max(at - since, 0) / NANOSECONDS)


ENGINE_METRICS: tuple[Metric, ...] = (
    Metric(
        name="hookline_engine_info",
        kind=Kind.GAUGE,
        unit="1",
        help="Engine configuration, as labels; the value is always 1. `isa` is the "
        "tier of instructions of the CPU's kernels, or none. `config_hash` "
        "changes with any option.",
        labels=tuple(
            Label(name)
            for name in (
                "architecture",
                "dtype",
                "cache_dtype",
                "block_size",
                "num_kv_blocks",
                "max_model_len",
                "max_num_seqs",
                "max_num_batched_tokens",
                "enable_prefix_caching",
                "executor",
                "tensor_parallel_size",
                "pipeline_parallel_size",
                "isa",
                "version",
                "config_hash",
            )
        ),
        value=Reading(EngineFacts, _info),
    ),
    Metric(
        name="hookline_sampling_defaults_info",
        kind=Kind.GAUGE,
        unit="1",
        help="Sampling of requests that name none, as labels, which are empty for "
        "what is not set; the value is always 1. Absent if neither the model's "
        "`generation_config.json` nor an option sets any.",
        labels=tuple(Label(name, cap=None) for name in (*_SAMPLING, "source")),
        value=Reading(EngineFacts, _sampling),
    ),
    Metric(
        name="hookline_engine_sleep_state",
        kind=Kind.GAUGE,
        unit="1",
        help="1 for the engine's current state, 0 for the others: awake, asleep "
        "without the KV cache's memory, or asleep without the weights as well.",
        labels=(Label("state", ("awake", "kv_cache_released", "weights_released")),),
        value=Reading(StateReading, lambda state: _sleep_state(state.stats)),
        needs=(Tells.CONFIG,),
    ),
    Metric(
        name="hookline_requests_running",
        kind=Kind.GAUGE,
        unit="requests",
        help="Requests in the running batch.",
        value=Reading(StateReading, lambda state: one(state.stats.running)),
        needs=(Tells.LOAD,),
    ),
    Metric(
        name="hookline_requests_waiting",
        kind=Kind.GAUGE,
        unit="requests",
        help="Waiting requests by what they wait for: capacity in the batch or the KV "
        "cache (preempted requests included), a grammar, a KV transfer, or an adapter.",
        labels=(Label("reason", ("capacity", "grammar", "remote_kv", ADAPTER_GATE)),),
        value=Reading(StateReading, lambda state: _waiting(state.stats)),
        needs=(Tells.LOAD,),
    ),
    Metric(
        name="hookline_oldest_waiting_age_seconds",
        kind=Kind.GAUGE,
        unit="seconds",
        help="Time since the oldest waiting request was QUEUED; 0 if no request waits.",
        value=Reading(
            StateReading, lambda state: _age(state.at, state.stats.oldest_waiting_at)
        ),
    ),
    Metric(
        name="hookline_oldest_running_age_seconds",
        kind=Kind.GAUGE,
        unit="seconds",
        help="Time since the oldest running request was QUEUED; 0 if no request runs.",
        value=Reading(
            StateReading, lambda state: _age(state.at, state.stats.oldest_running_at)
        ),
    ),
    Metric(
        name="hookline_kv_cache_usage_ratio",
        kind=Kind.GAUGE,
        unit="ratio",
        help="Fraction of KV blocks held by requests, 0 to 1; blocks that only cache "
        "a prefix count as free.",
        value=Reading(StateReading, lambda state: one(state.stats.kv_usage)),
        needs=(Tells.USAGE,),
    ),
    Metric(
        name="hookline_kv_blocks",
        kind=Kind.GAUGE,
        unit="blocks",
        help="Number of KV blocks by state: used (held by requests), cached (free, "
        "but caching a prefix) and free (empty).",
        labels=(Label("state", ("used", "cached", "free")),),
        value=Reading(StateReading, lambda state: _blocks(state.stats)),
        needs=(Tells.BLOCKS,),
    ),
    Metric(
        name="hookline_conservation_residue",
        kind=Kind.GAUGE,
        unit="1",
        help="Difference that the conservation laws leave; any value but 0 is a bug. "
        "Requests: received - finished - in flight. Tokens: sampled - those of "
        "finished requests - those of requests in flight. Blocks: pool - free - "
        "held. Requests that a plugin's engine counts otherwise than it has told are "
        "differences, too.",
        labels=(Label("kind", ("requests", "tokens", "blocks")),),
        value=Reading(StateReading, lambda state: _residue(state.stats)),
        needs=(Tells.EVENTS,),
        stability=Stability.EXPERIMENTAL,
    ),
    Metric(
        name="hookline_requests_received",
        kind=Kind.COUNTER,
        unit="requests",
        help="Requests that the engine accepted; rejected requests are not counted. "
        "The front end counts those of a plugin's engine.",
        value=Reading(StateReading, lambda state: one(state.stats.totals.received)),
        needs=(),
    ),
    Metric(
        name="hookline_computed_tokens",
        kind=Kind.COUNTER,
        unit="tokens",
        help="Tokens processed by the model, recomputed tokens included.",
        value=Reading(
            StateReading, lambda state: one(state.stats.totals.computed_tokens)
        ),
    ),
    Metric(
        name="hookline_recomputed_tokens",
        kind=Kind.COUNTER,
        unit="tokens",
        help="Tokens processed by the model again after a preemption.",
        value=Reading(
            StateReading, lambda state: one(state.stats.totals.recomputed_tokens)
        ),
    ),
    Metric(
        name="hookline_discarded_tokens",
        kind=Kind.COUNTER,
        unit="tokens",
        help="Tokens sampled and then discarded, because the request had ended "
        "meanwhile or its KV turned out to be invalid; 0 without asynchronous "
        "scheduling and KV connectors.",
        value=Reading(
            StateReading, lambda state: one(state.stats.totals.discarded_tokens)
        ),
    ),
    Metric(
        name="hookline_external_cache_queried_tokens",
        kind=Kind.COUNTER,
        unit="tokens",
        help="Tokens looked up in the KV connector, counted once per request, at its "
        "first admission.",
        value=Reading(
            StateReading,
            lambda state: one(transfers_of(state.stats).external_cache.queried_tokens),
        ),
    ),
    Metric(
        name="hookline_external_cache_hit_tokens",
        kind=Kind.COUNTER,
        unit="tokens",
        help="Tokens that the KV connector found in a cache and loaded, counted once "
        "per request, at its first admission.",
        value=Reading(
            StateReading,
            lambda state: one(transfers_of(state.stats).external_cache.hit_tokens),
        ),
    ),
    Metric(
        name="hookline_transferred_tokens",
        kind=Kind.COUNTER,
        unit="tokens",
        help="Tokens that another instance computed for a request and the KV connector "
        "loaded, counted once per request; no cache hits.",
        value=Reading(
            StateReading,
            lambda state: one(transfers_of(state.stats).transferred_tokens),
        ),
    ),
    Metric(
        name="hookline_waiting_tokens",
        kind=Kind.GAUGE,
        unit="tokens",
        help="Tokens that waiting requests have yet to compute, before prefix-cache "
        "hits.",
        value=Reading(StateReading, lambda state: one(state.stats.waiting_tokens)),
        needs=(Tells.EVENTS,),
    ),
    Metric(
        name="hookline_kv_tokens",
        kind=Kind.GAUGE,
        unit="tokens",
        help="Capacity of the KV blocks in tokens, by block state: used (held by "
        "requests), cached (free, but caching a prefix) and free (empty).",
        labels=(Label("state", ("used", "cached", "free")),),
        value=Reading(StateReading, _kv_tokens),
        needs=(Tells.BLOCKS,),
    ),
    Metric(
        name="hookline_kv_capacity_tokens",
        kind=Kind.GAUGE,
        unit="tokens",
        help="Capacity of the KV cache in tokens.",
        value=Reading(
            EngineFacts, lambda facts: one(facts.model.num_kv_blocks * facts.block_size)
        ),
    ),
    Metric(
        name="hookline_kv_capacity_bytes",
        kind=Kind.GAUGE,
        unit="bytes",
        help="Size of the KV cache in bytes, by the model's shape; 0 if that is not "
        "known.",
        value=Reading(EngineFacts, _capacity_bytes),
        needs=(Tells.CONFIG, Tells.COST),
    ),
    Metric(
        name="hookline_kv_block_size_tokens",
        kind=Kind.GAUGE,
        unit="tokens",
        help="Tokens per KV block.",
        value=Reading(EngineFacts, lambda facts: one(facts.block_size)),
    ),
    Metric(
        name="hookline_kv_pool_blocks",
        kind=Kind.GAUGE,
        unit="blocks",
        help="Total KV blocks in the pool.",
        value=Reading(EngineFacts, lambda facts: one(facts.model.num_kv_blocks)),
    ),
    Metric(
        name="hookline_context_length_tokens",
        kind=Kind.GAUGE,
        unit="tokens",
        help="Maximum prompt plus output tokens.",
        value=Reading(EngineFacts, lambda facts: one(facts.model.max_model_len)),
        needs=(Tells.CONTEXT,),
    ),
    Metric(
        name="hookline_startup_seconds",
        kind=Kind.GAUGE,
        unit="seconds",
        help="Duration of each phase of the engine's startup; some phases contain "
        "others.",
        labels=(Label("phase", cap=64),),
        value=Reading(EngineFacts, _startup),
        needs=(Tells.STEPS,),
    ),
)
