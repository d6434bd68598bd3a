"""Fuzzing of HTTP, sockets and files: `python -m hookline_faults.fuzzing`."""
