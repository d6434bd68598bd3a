"""Every metric of Hookline, as data."""

from hookline.metrics.logger_metrics import LOGGER_METRICS
from hookline.metrics.metric import OWN_DIALECT, Metric
from hookline.metrics.request_metrics import REQUEST_METRICS
from hookline.metrics.state_metrics import ENGINE_METRICS
from hookline.metrics.step_metrics import STEP_METRICS

CATALOGUE: tuple[Metric, ...] = (
    *ENGINE_METRICS,
    *STEP_METRICS,
    *REQUEST_METRICS,
    *LOGGER_METRICS,
)

DIALECTS: tuple[str, ...] = (
    OWN_DIALECT,
    *sorted({dialect for metric in CATALOGUE for dialect in metric.names}),
)
