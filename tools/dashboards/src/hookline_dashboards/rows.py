"""The dashboard as data: its rows, and the metrics without a panel."""

from collections.abc import Iterable, Mapping

from hookline.metrics.metric import Metric
from hookline_dashboards import engine_panels, request_panels, server_panels
from hookline_dashboards.expressions import Names
from hookline_dashboards.panel import Row
from hookline_dashboards.standard_panels import StandardPanels

_ROWS = (
    request_panels.overview,
    request_panels.latency,
    engine_panels.scheduler,
    engine_panels.cache,
    request_panels.slo,
    request_panels.sizes,
    engine_panels.speculation,
    engine_panels.kv_transfer,
    engine_panels.model,
    request_panels.tenants,
    server_panels.http,
    server_panels.plugins,
)

_IN_INFO = "constant, and a label of `hookline_engine_info`"

NOT_SHOWN: Mapping[str, str] = {
    "hookline_kv_block_size_tokens": _IN_INFO,
    "hookline_kv_pool_blocks": _IN_INFO,
    "hookline_context_length_tokens": _IN_INFO,
    "hookline_engine_stalled": "`hookline_engine_up` is 0 meanwhile",
}
"""Metrics without a panel, and why."""


def dashboard_rows(catalogue: Iterable[Metric]) -> tuple[Row, ...]:
    """Returns the rows, without those that have no metrics in the catalogue."""
    make = StandardPanels(Names(catalogue))
    rows = (row(make) for row in _ROWS)
    return tuple(row for row in rows if row.panels)
