"""The engine process: `python -m hookline_process_engine.engine_process`.

Its arguments are the folder of the sockets, which only this user may enter, the index
of the engine, and the index of the client that owns it. The owner sends the key of the
messages first.
"""

import faulthandler
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from hookline.engine.engine_loop import EngineLoop
from hookline.engine_setup.building import build_engine
from hookline.engine_setup.executor_factory import AdaptFactory
from hookline.engine_setup.failure import FailureNotice, describe_failure
from hookline.exceptions import ConfigError, EngineDeadError, ModelLoadError, RankError
from hookline_kernels.runtime.openmp import wait_patiently
from hookline_process_engine.counted import CountedEngine
from hookline_process_engine.engine_wire import EngineWire
from hookline_process_engine.messages import Ready
from hookline_processes.inspector import STACKS_SIGNAL, stacks_file
from hookline_processes.owner import Owner, run_supervised
from hookline_processes.private_files import open_private

MakeWire = Callable[[Path, int, int, bytes], EngineWire]
_IDLE_SECONDS = 60.0


def main(
    owner: Owner,
    folder: Path,
    engine_index: int,
    owner_index: int,
    *,
    make_wire: MakeWire = EngineWire,
    adapt: AdaptFactory | None = None,
) -> int:
    """Serves until the owner goes away.

    Args:
        owner: The process that has started this one.
        folder: Folder of the sockets.
        engine_index: Index of the engine.
        owner_index: Index of the client that owns it.
        make_wire: Connects to the owner.
        adapt: As of `build_core`.

    Returns:
        The process's exit status.
    """
    wait_patiently()
    if (key := owner.receive_bytes()) is None:
        return 0  # the owner has gone already
    # The owner may have had no time to remove the folder.
    owner.watch(partial(shutil.rmtree, folder, ignore_errors=True))
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
        engine = build_engine(config, adapt)
        if not isinstance(engine, EngineLoop):
            engine = CountedEngine(engine)
    except ConfigError as error:
        wire.start_failed("config", error.option, error.detail)
        return 1
    except ModelLoadError as error:
        wire.start_failed("model", error.model, error.reason)
        return 1
    except (EngineDeadError, RankError) as error:  # said in one line
        wire.failed(describe_failure(error))
        return 1
    wire.listen_to(engine.bell)
    wire.ready(Ready(engine.facts, engine.clock_pair()))
    while True:
        for message in engine.run_once(wire.receive, _IDLE_SECONDS):
            wire.send(message)


def _write_stacks_on_signal(path: Path) -> None:
    """Lets the owner see where all threads are, whatever they do.

    Into a file, because a thread that hangs may hold the log; not at all where none can
    be written.
    """
    faulthandler.enable()
    try:
        stacks = open_private(path, appends=True)  # stays open until the process ends
    except OSError:
        signal.signal(STACKS_SIGNAL, signal.SIG_IGN)
        return
    faulthandler.register(STACKS_SIGNAL, stacks, all_threads=True)


def _main(owner: Owner, arguments: Sequence[str]) -> int:
    return main(owner, Path(arguments[0]), *map(int, arguments[1:]))


if __name__ == "__main__":
    sys.exit(run_supervised(_main))
