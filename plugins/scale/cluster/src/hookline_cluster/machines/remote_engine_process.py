"""An engine on another machine, a process of its own that is run as a module.

Its argument is the index of the engine. The headless node that owns it sends an
`Enlistment` first. It ends with its owner, and when the link to the head node is lost,
whatever it computes. Its owner then starts another one, so that nothing of the old one
is left.
"""

import logging
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

from hookline.config import EngineConfig
from hookline.engine_setup.building import DrivenEngine, build_engine
from hookline.engine_setup.failure import FailureNotice
from hookline.exceptions import ConfigError, HooklineError, ModelLoadError
from hookline.model_description import find_folder
from hookline_cluster.config.cluster import ClusterConfig
from hookline_cluster.machines.endpoint import head_endpoint
from hookline_cluster.machines.enlistment import Enlistment
from hookline_cluster.machines.folder_digest import digest_of_folder
from hookline_cluster.machines.link_keys import LinkKeys
from hookline_cluster.machines.remote_wire import RemoteWire
from hookline_kernels.runtime.openmp import wait_patiently
from hookline_process_engine.messages import Ready
from hookline_processes.owner import Owner, run_supervised

DISMISSED, FAILED, LOST, UNFIT = 0, 1, 3, 4
"""Exit status: the head node or the owner ended it, it failed, it lost the head node,
or it cannot become the engine."""
_TURN_SECONDS = 0.25
"""Maximum time until a signal or a goodbye is noticed while there is no work."""
_QUIET_TURNS = 2
"""Turns without work after which a leaving engine expects no more requests."""


_log = logging.getLogger("hookline_cluster.machines.remote_engine_process")


class _Engine:
    """The engine while it serves one head node."""

    def __init__(self, wire: RemoteWire) -> None:
        self._wire = wire
        self._is_asked_to_leave = False
        signal.signal(signal.SIGTERM, _end_now)

    def serve(self, local: EngineConfig) -> int:
        """Joins the head node and serves until it says goodbye or the owner asks."""
        folder = find_folder(local.model.model)
        config = self._wire.join(local, digest_of_folder(folder))
        try:
            engine = build_engine(config)
        except ConfigError as error:
            self._wire.start_failed("config", error.option, error.detail)
            raise
        except ModelLoadError as error:
            self._wire.start_failed("model", error.model, error.reason)
            raise
        self._wire.ready(Ready(engine.facts, engine.clock_pair()))
        with FailureNotice(self._wire.failed):
            self._run(engine)
        return DISMISSED

    def _run(self, engine: DrivenEngine) -> None:
        signal.signal(signal.SIGTERM, self._ask_to_leave)
        while not (self._wire.is_dismissed or self._is_asked_to_leave):
            self._turn(engine)
        if not self._wire.is_dismissed:
            self._drain(engine)
        self._wire.left()

    def _drain(self, engine: DrivenEngine) -> None:
        self._wire.leaving()
        quiet = 0
        while quiet < _QUIET_TURNS and not self._wire.is_dismissed:
            self._turn(engine)
            quiet = 0 if engine.has_work else quiet + 1

    def _ask_to_leave(self, _: int, __: FrameType | None) -> None:
        self._is_asked_to_leave = True

    def _turn(self, engine: DrivenEngine) -> None:
        for message in engine.run_once(self._wire.receive, _TURN_SECONDS):
            self._wire.send(message)


def main(owner: Owner, arguments: Sequence[str]) -> int:
    """Serves until the head node or the owner goes away."""
    engine_index = int(arguments[0])
    wait_patiently()
    if (enlisted := Enlistment.receive(owner)) is None:
        return DISMISSED  # the owner has gone already
    owner.watch()
    keys = LinkKeys.derive(enlisted.secret)
    machines = ClusterConfig.of(enlisted.config).machines
    endpoint = head_endpoint(machines, has_secret=True)
    wire = RemoteWire(endpoint, keys, engine_index, _end_without_head)
    try:
        return _Engine(wire).serve(enlisted.config)
    except HooklineError as error:
        _log.error("engine %d cannot serve: %s", engine_index, error)
        return UNFIT
    finally:
        wire.close()


def _end_now(_: int, __: FrameType | None) -> NoReturn:
    # There are no requests before it has joined and loaded its model.
    raise SystemExit(DISMISSED)


def _end_without_head() -> None:
    # At once, in the middle of a step: nobody wants its result.
    os._exit(LOST)


if __name__ == "__main__":
    # SIGTERM lets it leave.
    sys.exit(run_supervised(main, ignored=[signal.SIGINT]))
