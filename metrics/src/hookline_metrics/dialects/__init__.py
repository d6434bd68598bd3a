"""The metric names of other engines, one module per dialect."""

import dataclasses
from collections.abc import Mapping

from hookline_metrics.dialects import (
    sglang,
    sglang_absent,
    vllm,
    vllm_cache_config,
    vllm_hidden,
    vllm_lora,
    vllm_offload,
    vllm_v0,
)
from hookline_metrics.dialects.deviations import DEVIATIONS
from hookline_metrics.dialects.help_texts import HELP
from hookline_metrics.metric import Alias, Metric

Names = Mapping[str, tuple[Alias, ...]]

ONLY_THERE: tuple[Metric, ...] = (
    *vllm_cache_config.ONLY_THERE,
    *vllm_hidden.ONLY_THERE,
    *vllm_v0.ONLY_THERE,
    *vllm_offload.ONLY_THERE,
    *vllm_lora.ONLY_THERE,
    *sglang.ONLY_THERE,
)
"""Metrics that only exist in another engine's dialect."""

NOT_APPLICABLE: Mapping[str, Mapping[str, str]] = {
    "vllm": {**vllm.NOT_APPLICABLE, **vllm_offload.NOT_APPLICABLE},
    "sglang": sglang_absent.NOT_APPLICABLE,
}
"""Metric families of each dialect that Hookline does not export, and why."""


def names_of(metric_name: str) -> Names:
    """The names of a metric in each other dialect."""
    found = {
        "sglang": sglang.NAMES.get(metric_name, ()),
        "vllm": (
            *vllm.NAMES.get(metric_name, ()),
            *vllm_cache_config.NAMES.get(metric_name, ()),
            *vllm_hidden.NAMES.get(metric_name, ()),
            *vllm_v0.NAMES.get(metric_name, ()),
            *vllm_offload.NAMES.get(metric_name, ()),
            *vllm_lora.NAMES.get(metric_name, ()),
        ),
    }
    return {
        dialect: tuple(_described(alias) for alias in aliases)
        for dialect, aliases in found.items()
        if aliases
    }


def _described(alias: Alias) -> Alias:
    """Gives an alias the help text and the deviation of its name, if it has them."""
    return dataclasses.replace(
        alias,
        help=HELP.get(alias.name, alias.help),
        deviation=DEVIATIONS.get(alias.name, alias.deviation),
    )
