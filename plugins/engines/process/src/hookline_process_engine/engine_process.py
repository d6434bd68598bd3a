"""The engine process: `python -m hookline_process_engine.engine_process`.

Its arguments are the folder of the sockets, which only this user may enter, the index
of the engine, the index of the client that owns it, the owner's process id, and the
file descriptor and the level of the log. The owner holds the other end of standard
input, and sends the key of the messages through it. Once that closes, or the owner has
ended, the process ends.
"""

import faulthandler
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from hookline.clock import SystemClock
from hookline.core.building import build_core, build_loop
from hookline.core.failure import FailureNotice, describe_failure
from hookline.exceptions import ConfigError, EngineDeadError, ModelLoadError, RankError
from hookline.worker.executor_factory import AdaptFactory
from hookline_kernels.runtime.openmp import wait_patiently
from hookline_process_engine.engine_wire import EngineWire
from hookline_process_engine.mailbox import KEY_BYTES
from hookline_process_engine.messages import Ready
from hookline_processes.inspector import STACKS_SIGNAL, stacks_file
from hookline_processes.log_forwarding import forwarding_log
from hookline_processes.owner import wait_for_owners_end

MakeWire = Callable[[Path, int, int, bytes], EngineWire]
_IDLE_SECONDS = 60.0


def main(
    folder: Path,
    engine_index: int,
    owner_index: int,
    owner_pid: int,
    *,
    make_wire: MakeWire = EngineWire,
    adapt: AdaptFactory | None = None,
) -> int:
    """Serves until the owner goes away.

    Args:
        folder: Folder of the sockets.
        engine_index: Index of the engine.
        owner_index: Index of the client that owns it.
        owner_pid: The owner's process.
        make_wire: Connects to the owner.
        adapt: As of `build_core`.

    Returns:
        The process's exit status.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the front end decides when to end
    wait_patiently()
    stdin = sys.stdin.fileno()
    key = os.read(stdin, KEY_BYTES)
    if len(key) < KEY_BYTES:
        return 0  # the owner has gone already
    threading.Thread(
        target=_end_with_owner, args=[stdin, owner_pid, folder], daemon=True
    ).start()
    wire = make_wire(folder, engine_index, owner_index, key)
    _write_stacks_on_signal(stacks_file(folder, engine_index))
    try:
        with FailureNotice(wire.failed):
            return _serve(wire, adapt)
    finally:
        wire.close()


def _serve(wire: EngineWire, adapt: AdaptFactory | None) -> int:
    config = wire.receive_config()
    try:
        core = build_core(config, SystemClock(), adapt)
        loop = build_loop(config, core)
    except ConfigError as error:
        wire.start_failed("config", error.option, error.detail)
        return 1
    except ModelLoadError as error:
        wire.start_failed("model", error.model, error.reason)
        return 1
    except (EngineDeadError, RankError) as error:  # said in one line
        wire.failed(describe_failure(error))
        return 1
    if core.sharing is not None:
        wire.listen_to(core.sharing.bell)
    wire.ready(Ready(core.facts, core.clock_pair()))
    while True:
        for message in loop.turn(wire.receive, _IDLE_SECONDS):
            wire.send(message)


def _write_stacks_on_signal(path: Path) -> None:
    """Lets the owner see where all threads are, whatever they do.

    Into a file, because a thread that hangs may hold the log.
    """
    faulthandler.enable()
    stacks = path.open("a")  # stays open until the process ends
    faulthandler.register(STACKS_SIGNAL, stacks, all_threads=True)


def _end_with_owner(stdin: int, owner_pid: int, folder: Path) -> None:
    # Not by `sys.stdin`, whose lock the interpreter takes when it ends, and aborts if
    # a thread holds it.
    wait_for_owners_end(stdin, owner_pid)
    shutil.rmtree(folder, ignore_errors=True)  # the owner may have had no time to
    os._exit(0)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    engine_index, owner_index, owner_pid, log_end, level = map(int, sys.argv[2:])
    with forwarding_log(log_end, level):
        sys.exit(main(folder, engine_index, owner_index, owner_pid))
