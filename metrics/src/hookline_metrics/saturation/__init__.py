"""The saturation signal of an engine; docs/saturation.md explains it."""

from hookline_metrics.saturation.capacity import ESTIMATES, CapacityReading
from hookline_metrics.saturation.demand import OthersWork
from hookline_metrics.saturation.signal import PARTS, Saturation

__all__ = ["ESTIMATES", "PARTS", "CapacityReading", "OthersWork", "Saturation"]
