"""The metric catalogue, its accumulators, and snapshots in any dialect."""

from hookline.metrics.accumulators import Exemplar
from hookline.metrics.catalogue import CATALOGUE, DIALECTS
from hookline.metrics.dialects import NOT_APPLICABLE
from hookline.metrics.metric import (
    COMMON_LABELS,
    OWN_DIALECT,
    Alias,
    Feature,
    Kind,
    Label,
    Metric,
    Scope,
    Stability,
)
from hookline.metrics.recorder import Recorder
from hookline.metrics.snapshot import Family, HistogramValue, Sample

__all__ = [
    "CATALOGUE",
    "COMMON_LABELS",
    "DIALECTS",
    "NOT_APPLICABLE",
    "OWN_DIALECT",
    "Alias",
    "Exemplar",
    "Family",
    "Feature",
    "HistogramValue",
    "Kind",
    "Label",
    "Metric",
    "Recorder",
    "Sample",
    "Scope",
    "Stability",
]
