"""An API server's process: `python -m hookline_server.api_servers.child`.

Its arguments are the descriptor of its channel, the parent's process id, and the
descriptor and the level of its log. Everything else comes through the channel. The
parent holds the other end of standard input: once that closes, or the parent has ended,
the process ends.
"""

import asyncio
import os
import shutil
import socket
import sys
import threading
from pathlib import Path

from hookline_processes.log_forwarding import forwarding_log
from hookline_processes.owner import wait_for_owners_end
from hookline_server.api_servers.child_life import serve_as_child
from hookline_server.children import kill_children
from hookline_server.logs.request_context import identify
from hookline_server.process_settings import set_up_process


def main(channel: int, parent: int, log_end: int, level: int) -> int:
    """Serves until the parent says so or goes away."""
    set_up_process()
    folders: set[Path] = set()
    threading.Thread(
        target=_end_with_parent, args=(parent, folders), daemon=True
    ).start()
    with forwarding_log(log_end, level) as log:
        log.addFilter(identify)
        asyncio.run(serve_as_child(socket.socket(fileno=channel), folders))
    return 0


def _end_with_parent(parent: int, folders: set[Path]) -> None:
    """Ends with the parent, which may have had no time to remove its sockets."""
    wait_for_owners_end(0, parent)
    kill_children()
    for folder in list(folders):
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


if __name__ == "__main__":
    status = main(*map(int, sys.argv[1:]))
    # All is closed. The interpreter would take a second more to free every object.
    os._exit(status)
