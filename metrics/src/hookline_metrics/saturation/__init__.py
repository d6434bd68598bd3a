"""The saturation signal of an engine; docs/saturation.md explains it."""

from typing import TYPE_CHECKING

from hookline.moved_modules import lazy_exports

if TYPE_CHECKING:  # who needs the fit of costs needs no payloads
    from hookline_metrics.saturation.capacity import ESTIMATES, CapacityReading
    from hookline_metrics.saturation.demand import OthersWork
    from hookline_metrics.saturation.signal import PARTS, Saturation

__all__ = ["ESTIMATES", "PARTS", "CapacityReading", "OthersWork", "Saturation"]

__getattr__ = lazy_exports(
    __name__,
    {
        "hookline_metrics.saturation.capacity": ("ESTIMATES", "CapacityReading"),
        "hookline_metrics.saturation.demand": ("OthersWork",),
        "hookline_metrics.saturation.signal": ("PARTS", "Saturation"),
    },
)
