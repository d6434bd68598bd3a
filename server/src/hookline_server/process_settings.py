"""Settings of a process that serves the API."""

import sys

from hookline_kernels.runtime.allocator import return_large_blocks
from hookline_server.connections.limits import raise_descriptor_limit

SWITCH_SECONDS = 0.0005
"""Switch interval of the process's threads.

Python's default of 5 ms is longer than the rendering of a page of metrics, which
switches threads several times.
"""


def set_up_process() -> None:
    """Makes this process fit for many connections and large bodies.

    An engine that runs in the process changes the allocator's settings again.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    raise_descriptor_limit()
    return_large_blocks()
