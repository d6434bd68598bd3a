"""The engines of a machine without a front end; the head node's is on another one."""

import logging
import signal
import threading
import time
from enum import Enum

from hookline.config import EngineConfig
from hookline.exceptions import ConfigError
from hookline_cluster.config.cluster import ClusterConfig, local_engines
from hookline_cluster.machines.endpoint import head_endpoint
from hookline_cluster.machines.enlistment import Enlistment
from hookline_cluster.machines.link_keys import shared_secret
from hookline_cluster.machines.remote_engine_process import (
    DISMISSED,
    LOST,
    UNFIT,
)
from hookline_process_engine.supervision.config import SupervisionConfig
from hookline_processes.restarts import RestartBudget
from hookline_processes.supervised import Supervised

_MODULE = "hookline_cluster.machines.remote_engine_process"
_LOOK_SECONDS = 0.1
_GRACE_SECONDS = 2.0
_log = logging.getLogger(__name__)


class _Fate(Enum):
    """What becomes of an engine of this machine."""

    RUNS = "runs"
    DUE = "due"
    DISMISSED = "dismissed"
    FAILED = "failed"


class _Engine:
    """An engine and its process; one process after another."""

    def __init__(self, config: EngineConfig, secret: bytes) -> None:
        self.index = config.engine_index
        self.fate = _Fate.DUE
        self._enlistment = Enlistment(config, secret).packed()
        restarts = SupervisionConfig.of(config).engine_restart
        self._budget = RestartBudget(restarts)
        self._due = 0.0
        self._process: Supervised | None = None

    def look(self) -> None:
        """Starts the process when it is due, and finds out what ended it."""
        if self.fate is _Fate.DUE and time.monotonic() >= self._due:
            self._start()
        process = self._process
        if self.fate is _Fate.RUNS and process is not None:
            code, reason = process.exit_code, process.end_reason
            if code is not None and reason is not None:
                process.close(_GRACE_SECONDS)
                self._take_end(code, reason)

    def _start(self) -> None:
        name = f"engine {self.index}"
        try:
            self._process = Supervised(_MODULE, (self.index,), name=name)
        except OSError as error:
            self._retry(f"its process cannot be started: {error}")
            return
        self._process.send_bytes(self._enlistment)
        self.fate = _Fate.RUNS

    def drain(self) -> None:
        """Asks the process to finish its requests and to end."""
        if self.fate is _Fate.RUNS and self._process is not None:
            self._process.signal(signal.SIGTERM)
        elif self.fate is _Fate.DUE:
            self.fate = _Fate.DISMISSED

    def kill(self) -> None:
        """Ends the process at once."""
        if self._process is not None and self.fate is _Fate.RUNS:
            self._process.hang_up()
            self._process.close(_GRACE_SECONDS)

    def _take_end(self, code: int, reason: str) -> None:
        if code == DISMISSED:
            self.fate = _Fate.DISMISSED
        elif code == LOST:
            _log.warning(
                "engine %d has lost the head node, and joins it again", self.index
            )
            self._start_after(0.0)
        elif code == UNFIT:  # its own log line says why
            self.fate = _Fate.FAILED
        else:
            self._retry(reason)

    def _retry(self, reason: str) -> None:
        """Has another process take the place of one, if that is allowed."""
        if (delay := self._budget.consume()) is not None:
            _log.error("engine %d: %s; it is replaced", self.index, reason)
            self._start_after(delay)
        else:
            _log.error("engine %d: %s", self.index, reason)
            self.fate = _Fate.FAILED

    def _start_after(self, seconds: float) -> None:
        self._due = time.monotonic() + seconds
        self.fate = _Fate.DUE


class HeadlessNode:
    """Starts this machine's engines, and others in the place of those that have ended.

    For one thread.
    """

    def __init__(self, config: EngineConfig) -> None:
        """Starts nothing yet.

        Args:
            config: This machine's configuration.

        Raises:
            ConfigError: The head node's address or the secret does not fit, a backend
                starts the engines, or each machine has a server of its own.
        """
        machines = ClusterConfig.of(config).machines
        if machines.is_one_of_many:
            raise ConfigError(
                "headless",
                f"cannot be combined with {machines.mode}: each server has its API",
            )
        if machines.is_placed:
            raise ConfigError(
                "data-parallel-backend",
                f"{machines.backend} starts engines itself: leave out --headless",
            )
        endpoint = head_endpoint(machines, has_secret=machines.secret_file is not None)
        secret = shared_secret(machines.secret_file)
        self.address = str(endpoint)
        self.indices = ClusterConfig.of(config).local_indices
        self._engines = [_Engine(each, secret) for each in local_engines(config)]

    def run(self, stopping: threading.Event, drain_seconds: float) -> bool:
        """Serves until the head node says goodbye, all have failed, or `stopping`.

        Args:
            stopping: Set when the engines are to finish their requests and to end.
            drain_seconds: Maximum time for that.

        Returns:
            Whether no engine has failed.
        """
        try:
            while self._look() and not stopping.wait(_LOOK_SECONDS):
                pass
            self._drain(drain_seconds)
        finally:
            for engine in self._engines:
                engine.kill()
        return not any(each.fate is _Fate.FAILED for each in self._engines)

    def _drain(self, seconds: float) -> None:
        for engine in self._engines:
            engine.drain()
        deadline = time.monotonic() + seconds
        while self._look() and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)

    def _look(self) -> bool:
        """Returns whether an engine runs or will."""
        for engine in self._engines:
            engine.look()
        ended = (_Fate.DISMISSED, _Fate.FAILED)
        return any(engine.fate not in ended for engine in self._engines)
