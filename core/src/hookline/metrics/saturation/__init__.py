"""How close an engine is to the knee where latency turns up: see docs/saturation.md."""

from hookline.metrics.saturation.signal import PARTS, Saturation

__all__ = ["PARTS", "Saturation"]
