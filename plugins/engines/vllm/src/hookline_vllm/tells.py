"""What an attached vLLM tells, by the part that tells it."""

from typing import Any

from hookline.tells import Tells
from hookline_metrics.engine_tells import EngineTells

_STAT_LOGGER = (Tells.LOAD, Tells.USAGE, Tells.CACHE, Tells.CONFIG, Tells.CONTEXT)
_REQUESTS = (Tells.REQUESTS, Tells.EVENTS, Tells.CONTENT)

TELLS = EngineTells(
    # Recorders get the plan of the wrapped scheduler, in another process than loggers.
    always=(*_STAT_LOGGER, Tells.PLAN),
    sometimes={
        **dict.fromkeys(_REQUESTS, "vLLM's `OutputProcessor` could be wrapped"),
        Tells.EVICTIONS: "vLLM runs with --kv-cache-metrics",
        Tells.OBSERVER: "its loggers have a process, as several API servers need",
    },
    never={
        Tells.STEPS: "vLLM gives loggers sums; only recordings have its steps",
        Tells.BLOCKS: "vLLM tells how full its cache is, not what its blocks hold",
        Tells.DRAFTS: "its drafts are not read; vLLM's own page has them",
        Tells.COST: "the model is vLLM's, and nothing is known of its layers",
        Tells.FRONT_END: "the server that prepares requests is vLLM's",
    },
)


def told(config: Any, *, tells_requests: bool, has_process: bool) -> tuple[Tells, ...]:
    """Returns what loggers are told of an engine with a `VllmConfig`.

    Args:
        config: The configuration.
        tells_requests: Whether the wraps of `OutputProcessor` are in place.
        has_process: Whether the loggers have a process of their own.
    """
    found = [*TELLS.always]
    if tells_requests:
        found += _REQUESTS
    observability = getattr(config, "observability_config", None)
    if getattr(observability, "kv_cache_metrics", False):
        found.append(Tells.EVICTIONS)
    if has_process:
        found.append(Tells.OBSERVER)
    return tuple(found)
