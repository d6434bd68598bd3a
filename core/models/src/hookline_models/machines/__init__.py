"""The machines that a worker serves on: memory, threads, graphs, and its kernels."""
