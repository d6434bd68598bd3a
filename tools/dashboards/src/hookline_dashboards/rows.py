"""The dashboard as data: its rows, and the metrics without a panel."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping

from hookline_dashboards import engine_panels, request_panels, server_panels
from hookline_dashboards.expressions import Names
from hookline_dashboards.panel import Row
from hookline_dashboards.standard_panels import StandardPanels
from hookline_metrics.metric import OWN_DIALECT, Metric

_ROWS = (
    request_panels.overview,
    request_panels.latency,
    engine_panels.scheduler,
    engine_panels.cache,
    request_panels.slo,
    request_panels.sizes,
    engine_panels.speculation,
    engine_panels.structured_outputs,
    engine_panels.kv_transfer,
    engine_panels.model,
    request_panels.tenants,
    request_panels.adapters,
    server_panels.http,
    server_panels.plugins,
)

_LAST = "likewise"
_IN_INFO = "constant, and a label of `hookline_engine_info`"

NOT_SHOWN: Mapping[str, str] = {
    "hookline_kv_block_size_tokens": _IN_INFO,
    "hookline_kv_pool_blocks": _IN_INFO,
    "hookline_context_length_tokens": _IN_INFO,
    "hookline_kv_capacity_bytes": "constant",
    "hookline_sampling_defaults_info": "constant",
    "hookline_process_start_time_seconds": "constant",
    "hookline_engine_stalled": "`hookline_engine_up` is 0 meanwhile",
    "hookline_request_last_scheduled_seconds": "queue time and time preempted are "
    "shown apart",
    "hookline_request_last_prefill_seconds": _LAST,
    "hookline_request_last_decode_seconds": _LAST,
    "hookline_request_last_inference_seconds": _LAST,
}
"""Metrics without a panel, and why."""


def dashboard_rows(
    catalogue: Iterable[Metric], dialect: str = OWN_DIALECT
) -> tuple[Row, ...]:
    """Returns the rows with the panels whose numbers a dialect has."""
    make = StandardPanels(Names(catalogue, dialect))
    return tuple(_with_queries(row(make) for row in _ROWS))


def _with_queries(rows: Iterable[Row]) -> Iterator[Row]:
    for row in rows:
        panels = tuple(panel for panel in row.panels if panel.queries)
        if panels:
            yield dataclasses.replace(row, panels=panels)
