"""The metric catalogue, its accumulators, and snapshots in any dialect."""

from typing import TYPE_CHECKING

from hookline.moved_modules import lazy_exports

if TYPE_CHECKING:  # an engine that makes a section needs no catalogue
    from hookline_metrics.accumulators import Exemplar
    from hookline_metrics.catalogue import CATALOGUE, DIALECTS
    from hookline_metrics.dialects import NOT_APPLICABLE
    from hookline_metrics.histogram_value import HistogramValue
    from hookline_metrics.metric import (
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
    from hookline_metrics.native_buckets import (
        ZERO_THRESHOLD,
        NativeBuckets,
        schema_of,
    )
    from hookline_metrics.recorder import Recorder
    from hookline_metrics.snapshot import Family, Sample

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

__getattr__ = lazy_exports(
    __name__,
    {
        "hookline_metrics.accumulators": ("Exemplar",),
        "hookline_metrics.catalogue": ("CATALOGUE", "DIALECTS"),
        "hookline_metrics.dialects": ("NOT_APPLICABLE",),
        "hookline_metrics.histogram_value": ("HistogramValue",),
        "hookline_metrics.metric": (
            "COMMON_LABELS",
            "OWN_DIALECT",
            "Alias",
            "Feature",
            "Kind",
            "Label",
            "Metric",
            "Scope",
            "Stability",
        ),
        "hookline_metrics.native_buckets": (
            "ZERO_THRESHOLD",
            "NativeBuckets",
            "schema_of",
        ),
        "hookline_metrics.recorder": ("Recorder",),
        "hookline_metrics.snapshot": ("Family", "Sample"),
    },
)
