"""Statistics made of engine events: state, steps and finished requests."""

from hookline.stats.block_eviction import BlockEviction
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
from hookline.stats.prefix_cache import HitRateWindow, PrefixCacheCounts
from hookline.stats.rank_use import NO_RANKS, RankUse
from hookline.stats.scheduler_stats import (
    MOST_TENANTS,
    Residue,
    SchedulerStats,
    TenantStats,
)
from hookline.stats.thread_use import NO_THREADS, ThreadUse

__all__ = [
    "GRAMMARS",
    "GRAMMAR_NEWS",
    "GRAMMAR_STATS",
    "GRAMMAR_USE",
    "MAX_STALLS",
    "MOST_TENANTS",
    "NO_GRAMMARS",
    "NO_RANKS",
    "NO_THREADS",
    "BlockEviction",
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
    "PrefixCacheCounts",
    "RankUse",
    "RequestTimes",
    "Residue",
    "SchedulerStats",
    "TenantStats",
    "ThreadUse",
]
