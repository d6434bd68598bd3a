"""Metrics as data: the catalogue, the sums behind it, and snapshots in any dialect."""

from hookline.metrics.catalogue import CATALOGUE, DIALECTS
from hookline.metrics.metric import (
    COMMON_LABELS,
    OWN_DIALECT,
    Alias,
    Kind,
    Label,
    Metric,
    Stability,
)
from hookline.metrics.recorder import Recorder
from hookline.metrics.snapshot import Family, HistogramValue, Sample

__all__ = [
    "CATALOGUE",
    "COMMON_LABELS",
    "DIALECTS",
    "OWN_DIALECT",
    "Alias",
    "Family",
    "HistogramValue",
    "Kind",
    "Label",
    "Metric",
    "Recorder",
    "Sample",
    "Stability",
]
