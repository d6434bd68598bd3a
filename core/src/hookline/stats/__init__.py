"""Statistics made of engine events: state, steps and finished requests."""

from hookline.stats.block_eviction import BlockEviction
from hookline.stats.connector_events import (
    MOST_EVENTS,
    ConnectorEvent,
    ConnectorLookup,
    TierAllocation,
    TierEvent,
    TierLookup,
    TierMove,
)
from hookline.stats.expert_stats import ExpertStats
from hookline.stats.finished_request import (
    MAX_STALLS,
    FinishedGroup,
    FinishedRequest,
    RequestTimes,
)
from hookline.stats.grammars import (
    GRAMMAR_NEWS,
    GRAMMAR_STATS,
    GRAMMAR_USE,
    GRAMMARS,
    NO_GRAMMARS,
    GrammarCompiling,
    GrammarNews,
    GrammarStats,
    GrammarUse,
)
from hookline.stats.iteration_stats import FirstScheduled, FirstToken, IterationStats
from hookline.stats.kv_load import KVLoad
from hookline.stats.prefix_cache import HitRateWindow, PrefixCacheCounts
from hookline.stats.rank_use import NO_RANKS, RankUse
from hookline.stats.scheduler_stats import (
    MOST_TENANTS,
    Residue,
    SchedulerStats,
    TenantStats,
)
from hookline.stats.thread_use import NO_THREADS, ThreadUse
from hookline.stats.transfers import MOST_TIERS, TierStats, TransferStats

__all__ = [
    "GRAMMARS",
    "GRAMMAR_NEWS",
    "GRAMMAR_STATS",
    "GRAMMAR_USE",
    "MAX_STALLS",
    "MOST_EVENTS",
    "MOST_TENANTS",
    "MOST_TIERS",
    "NO_GRAMMARS",
    "NO_RANKS",
    "NO_THREADS",
    "BlockEviction",
    "ConnectorEvent",
    "ConnectorLookup",
    "ExpertStats",
    "FinishedGroup",
    "FinishedRequest",
    "FirstScheduled",
    "FirstToken",
    "GrammarCompiling",
    "GrammarNews",
    "GrammarStats",
    "GrammarUse",
    "HitRateWindow",
    "IterationStats",
    "KVLoad",
    "PrefixCacheCounts",
    "RankUse",
    "RequestTimes",
    "Residue",
    "SchedulerStats",
    "TenantStats",
    "ThreadUse",
    "TierAllocation",
    "TierEvent",
    "TierLookup",
    "TierMove",
    "TierStats",
    "TransferStats",
]
