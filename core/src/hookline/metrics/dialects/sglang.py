"""SGLang 0.5's metric names: all subjects, and the names without a number here."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from hookline.metrics.dialects import (
    sglang_cache,
    sglang_hicache,
    sglang_requests,
    sglang_scheduler,
)
from hookline.metrics.dialects.sglang_labels import Names
from hookline.metrics.metric import Alias, Metric


def _joined(parts: Iterable[Names]) -> Names:
    """Joins names by metric: one metric may have names of several subjects."""
    found: dict[str, tuple[Alias, ...]] = defaultdict(tuple)
    for part in parts:
        for metric_name, aliases in part.items():
            found[metric_name] += aliases
    return dict(found)


NAMES: Names = _joined(
    (
        sglang_scheduler.NAMES,
        sglang_cache.NAMES,
        sglang_hicache.NAMES,
        sglang_requests.NAMES,
    )
)

ONLY_THERE: tuple[Metric, ...] = (
    *sglang_requests.ONLY_THERE,
    *sglang_hicache.ONLY_THERE,
)

NOT_APPLICABLE: Mapping[str, str] = {
    "sglang:swa_token_usage": "sliding-window layers share the one block pool",
    "sglang:mamba_usage": "state-space models are not supported",
    "sglang:lora_pool_slots_used": "LoRA adapters are not supported",
    "sglang:num_grammar_total": "structured output is not supported",
    "sglang:kv_transfer_latency_ms": "a load of KV has no phases of its own; its "
    "duration is in sglang:load_back_duration_seconds",
    "sglang:is_cuda_graph": "whether a step replayed a CUDA graph is not recorded",
    "sglang:new_token_ratio": "admission does not estimate output lengths",
    "sglang:utilization": "SGLang never sets it; see hookline_saturation_ratio",
}
