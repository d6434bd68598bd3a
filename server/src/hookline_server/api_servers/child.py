"""An API server's process: `python -m hookline_server.api_servers.child`.

Everything that it needs to know comes through the channel from its parent.
"""

import asyncio
import logging
import os
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from hookline_processes.owner import Owner, run_supervised
from hookline_server.api_servers.child_life import serve_as_child
from hookline_server.children import kill_children
from hookline_server.logs.request_context import identify
from hookline_server.process_settings import set_up_process


def main(parent: Owner, _: Sequence[str]) -> int:
    """Serves until the parent says so or goes away."""
    set_up_process()
    folders: set[Path] = set()
    parent.watch(partial(_clean_up, folders))
    for handler in logging.root.handlers:
        handler.addFilter(identify)
    asyncio.run(serve_as_child(parent.channel, folders))
    return 0


def _clean_up(folders: set[Path]) -> None:
    """Does what the parent may have had no time for."""
    kill_children()
    for folder in list(folders):
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    status = run_supervised(main, ignored=())  # SIGTERM lets it drain
    # All is closed. The interpreter would take a second more to free every object.
    os._exit(status)
