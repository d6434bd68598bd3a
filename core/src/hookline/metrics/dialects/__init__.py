"""How other engines name what Hookline measures: a module for each dialect."""

from collections.abc import Mapping

from hookline.metrics.dialects import sglang, vllm, vllm_hidden
from hookline.metrics.metric import Alias, Metric

Names = Mapping[str, tuple[Alias, ...]]

ONLY_THERE: tuple[Metric, ...] = (*vllm_hidden.ONLY_THERE, *sglang.ONLY_THERE)
"""Metrics that another dialect has and Hookline's own has not."""

NOT_APPLICABLE: Mapping[str, Mapping[str, str]] = {
    "vllm": {**vllm.NOT_APPLICABLE, **vllm_hidden.NOT_APPLICABLE},
    "sglang": sglang.NOT_APPLICABLE,
}
"""By dialect: families that are left out, and why. Nothing is faked."""


def names_of(metric_name: str) -> Names:
    """What each dialect calls a metric of the catalogue."""
    found = {
        "sglang": sglang.NAMES.get(metric_name, ()),
        "vllm": (
            *vllm.NAMES.get(metric_name, ()),
            *vllm_hidden.NAMES.get(metric_name, ()),
        ),
    }
    return {dialect: aliases for dialect, aliases in found.items() if aliases}
