"""The metric catalogue, its accumulators, and snapshots in any dialect."""

from hookline.metrics.accumulators import Exemplar
from hookline.metrics.catalogue import CATALOGUE, DIALECTS
from hookline.metrics.dialects import NOT_APPLICABLE
from hookline.metrics.histogram_value import HistogramValue
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
from hookline.metrics.native_buckets import (
    ZERO_THRESHOLD,
    NativeBuckets,
    schema_of,
)
from hookline.metrics.recorder import Recorder
from hookline.metrics.snapshot import Family, Sample

__all__ = [
    "CATALOGUE",
    "COMMON_LABELS",
    "DIALECTS",
    "NOT_APPLICABLE",
    "OWN_DIALECT",
    "ZERO_THRESHOLD",
    "Alias",
    "Exemplar",
    "Family",
    "Feature",
    "HistogramValue",
    "Kind",
    "Label",
    "Metric",
    "NativeBuckets",
    "Recorder",
    "Sample",
    "Scope",
    "Stability",
    "schema_of",
]
