"""A decoder's operations on CPUs and GPUs, and its steps as recordings."""
