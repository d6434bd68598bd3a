"""Every metric of Hookline, as data."""

import dataclasses

from hookline.metrics.dialects import ONLY_THERE, names_of
from hookline.metrics.http_metrics import HTTP_METRICS
from hookline.metrics.live_metrics import LIVE_METRICS
from hookline.metrics.logger_metrics import FOLDED, LOGGER_METRICS
from hookline.metrics.metric import OWN_DIALECT, Metric
from hookline.metrics.request_metrics import REQUEST_METRICS
from hookline.metrics.slo_metrics import SLO_METRICS
from hookline.metrics.state_metrics import ENGINE_METRICS
from hookline.metrics.step_metrics import STEP_METRICS
from hookline.metrics.tenant_metrics import TENANT_METRICS

_OWN: tuple[Metric, ...] = (
    *ENGINE_METRICS,
    *LIVE_METRICS,
    *STEP_METRICS,
    *REQUEST_METRICS,
    *SLO_METRICS,
    *TENANT_METRICS,
    *HTTP_METRICS,
    *LOGGER_METRICS,
    FOLDED,
)

CATALOGUE: tuple[Metric, ...] = tuple(
    dataclasses.replace(metric, names=names_of(metric.name))
    for metric in (*_OWN, *ONLY_THERE)
)

DIALECTS: tuple[str, ...] = (
    OWN_DIALECT,
    *sorted({dialect for metric in CATALOGUE for dialect in metric.names}),
)
