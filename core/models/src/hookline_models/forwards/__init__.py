"""How a loaded model computes: probed, tried, and by the fastest kernels that agree."""
