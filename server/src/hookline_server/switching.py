"""How often the threads of a server's process take turns."""

SWITCH_SECONDS = 0.0005
"""Switch interval of the process's threads.

Python's default of 5 ms is longer than the rendering of a page of metrics, which
switches threads several times.
"""
