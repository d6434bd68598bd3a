"""SGLang 0.5's metric names, of all subjects."""

from collections import defaultdict
from collections.abc import Iterable

from hookline_metrics.dialects import (
    sglang_cache,
    sglang_hicache,
    sglang_requests,
    sglang_scheduler,
    sglang_storage,
)
from hookline_metrics.dialects.sglang_labels import Names
from hookline_metrics.metric import Alias, Metric


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
        sglang_storage.NAMES,
        sglang_requests.NAMES,
    )
)

ONLY_THERE: tuple[Metric, ...] = (
    *sglang_scheduler.ONLY_THERE,
    *sglang_requests.ONLY_THERE,
    *sglang_hicache.ONLY_THERE,
    *sglang_storage.ONLY_THERE,
)
