"""Gateways that route by adapter find what they read, by their documented rules.

The Gateway API inference extension and llm-d read the adapters of a server from labels
of one metric: lists with commas, of which the sample with the largest value is the
latest. They prefer servers that run the adapter, then servers with room for one more,
then servers at which it waits. llm-d's scorer of residency prefers adapters in slots to
those in memory, and these to servers with a free slot.
"""

import re
from collections.abc import Mapping

import pytest

from hookline.clock import VirtualClock
from hookline.config import EngineConfig
from hookline.stats.iteration_stats import IterationStats
from hookline.stats.scheduler_stats import SchedulerStats
from hookline_metrics import Family, Recorder
from hookline_metrics.adapters import (
    LORA,
    AdapterCounts,
    AdapterLevel,
    AdapterResidence,
    LoraNews,
    LoraStats,
)
from hookline_metrics.config import MetricsConfig
from hookline_prometheus.exposition import Format, MediaType, write_page
from hookline_testing.payloads import make_started, make_state
