"""`hookline serve --headless`: this machine's engines, for a server on another one."""

import os
import signal
import threading
from types import FrameType

from hookline.config import EngineConfig
from hookline_processes.terminal import Terminal
from hookline_server.children import kill_children
from hookline_server.cli.output import say
from hookline_server.engine_sharing import require_cluster
from hookline_server.settings import ServerSettings
from hookline_server.stop_signals import SIGNALS, ignore_all

FAILURE = 1


def run_headless(config: EngineConfig, settings: ServerSettings) -> int:
    """Serves until the head node says goodbye, or a signal arrives.

    The engines then finish their requests; a second signal ends them at once.

    Raises:
        ConfigError: The head node's address or the secret does not fit, a backend
            starts the engines, or each machine has a server of its own.
    """
    node = require_cluster("headless").headless_node(config)
    stopping = _stopped_by_signals()
    indices = ", ".join(map(str, node.indices))
    say(f"Hookline runs engines for the head node at {node.address}: {indices}")
    is_well = node.run(stopping, settings.shutdown_timeout)
    return 0 if is_well else FAILURE


def _stopped_by_signals() -> threading.Event:
    stopping = threading.Event()
    terminal = Terminal()

    def stop(number: int, _: FrameType | None) -> None:
        if stopping.is_set():
            kill_children()
            os._exit(128 + number)
        stopping.set()

    def hang_up(number: int, frame: FrameType | None) -> None:
        if terminal.is_lost:
            stop(number, frame)

    for each in SIGNALS:
        signal.signal(each, stop)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        signal.signal(signal.SIGHUP, hang_up)
    ignore_all()
    return stopping
