"""Labels of SGLang's series, by the process that exposes them.

SGLang's scheduler labels series by ranks: with one process per model all are 0, and
`dp_rank` is Hookline's `engine`. Its tokenizer's series have no rank, and those of its
prefix cache name the kind of cache.
"""

from collections.abc import Mapping

from hookline_metrics.buckets import BucketFamily
from hookline_metrics.metric import Alias

Names = Mapping[str, tuple[Alias, ...]]
"""Aliases by Hookline's name of the metric."""

RANKS = {
    "engine_type": "unified",
    "tp_rank": "0",
    "pp_rank": "0",
    "moe_ep_rank": "0",
}
_TOKENIZER = {"engine_type": "unified"}
_RADIX_CACHE = {"cache_type": "RadixCache", "tp_rank": "0", "pp_rank": "0"}


def scheduler(
    name: str,
    *,
    only: Mapping[str, str] | None = None,
    values: Mapping[str, Mapping[str, str]] | None = None,
    add: Mapping[str, str] | None = None,
    rename: Mapping[str, str] | None = None,
    drop: frozenset[str] = frozenset(),
    buckets: BucketFamily | None = None,
    scale: float = 1.0,
) -> Alias:
    """`only` selects one value of each of these labels and drops the labels."""
    picked = _picked(only)
    return Alias(
        name=f"sglang:{name}",
        rename={"engine": "dp_rank", **(rename or {})},
        values={**(values or {}), **picked},
        drop=drop | picked.keys(),
        add={**RANKS, **(add or {})},
        buckets=buckets,
        scale=scale,
    )


def tokenizer(
    name: str,
    *,
    values: Mapping[str, Mapping[str, str]] | None = None,
    rename: Mapping[str, str] | None = None,
    drop: frozenset[str] = frozenset(),
    add: Mapping[str, str] | None = None,
    buckets: BucketFamily | None = None,
) -> Alias:
    return Alias(
        name=f"sglang:{name}",
        rename=rename or {},
        values=values or {},
        drop=drop | {"engine"},
        add={**_TOKENIZER, **(add or {})},
        buckets=buckets,
    )


def radix_cache(
    name: str,
    *,
    only: Mapping[str, str] | None = None,
    add: Mapping[str, str] | None = None,
    buckets: BucketFamily | None = None,
) -> Alias:
    """`only` selects one value of each of these labels and drops the labels."""
    picked = _picked(only)
    return Alias(
        name=f"sglang:{name}",
        rename={"engine": "dp_rank"},
        values=picked,
        drop=frozenset(picked),
        add={**_RADIX_CACHE, **(add or {})},
        buckets=buckets,
    )


def _picked(only: Mapping[str, str] | None) -> dict[str, dict[str, str]]:
    return {label: {value: ""} for label, value in (only or {}).items()}
