"""Starts the observer process, replaces it when it ends, and ends it."""

import logging
import os
import shutil
import signal
import threading
from contextlib import suppress
from types import FrameType

import msgspec

from hookline.config import EngineConfig
from hookline.exceptions import ConfigError, HooklineError
from hookline.frontend.observing import ObserverAddress
from hookline.frozen import plain
from hookline_observer.beginning import wait_until_begun
from hookline_observer.call_marks import MarkFile, loggers_of
from hookline_observer.culprits import Culprits
from hookline_observer.messages import Begin
from hookline_observer.process import (
    FLUSH_SECONDS,
    HUNG_SECONDS,
    SHUTDOWN_GRACE_SECONDS,
)
from hookline_process_engine.ipc import socket_folder
from hookline_process_engine.mailbox import make_key
from hookline_processes.forked_children import release_folder_in_forked_children
from hookline_processes.restarts import RestartBudget
from hookline_processes.supervised import Supervised
from hookline_processes.watcher import Watcher
from hookline_registry import RegistryError

MODULE = "hookline_observer.process"
RESTARTS_PER_HOUR = 10
END_SECONDS = FLUSH_SECONDS + 2 * SHUTDOWN_GRACE_SECONDS
_FROM_OUTSIDE = (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP)
"""Exit codes of a process that others have ended, or for which memory has run out."""
_LOOK_SECONDS = 0.2
_WATCHER_SECONDS = 10.0
"""Time for the watching thread to give up a replacement that is being started."""
_log = logging.getLogger(__name__)


class ObserverProcess:
    """An observer process that this process owns; front ends reach it by its address.

    If it ends, another one takes its place under the same address, after a pause that
    grows, at most `RESTARTS_PER_HOUR` times.
    """

    def __init__(self, config: EngineConfig, *, pages: str = "") -> None:
        """Starts it and waits until its loggers are loaded.

        Args:
            config: The engine's configuration, with the loggers.
            pages: `module:attribute` of what serves the loggers' pages; empty if
                nobody does.

        Raises:
            ConfigError: An option of a logger is wrong, or the process did not start.
            RegistryError: A logger is unknown or broken.
        """
        self._config = config
        self._pages = pages
        loggers = loggers_of(config)
        self._culprits = Culprits(loggers)
        self._key = make_key()
        self._incarnation = 0
        self._is_closing = threading.Event()
        self._folder = socket_folder()
        self._marks = MarkFile(loggers)
        self._latest: Supervised | None = None
        self._num_told = 0
        self._blamed: Supervised | None = None
        self._budget = RestartBudget(RESTARTS_PER_HOUR)
        release_folder_in_forked_children(self._folder)
        try:
            self._start()
        except BaseException:
            self._marks.close()
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        self._watcher = Watcher(
            self._look,
            name="hookline-observer-watch",
            seconds=_LOOK_SECONDS,
            closing=self._is_closing,
        )

    @property
    def pid(self) -> int:
        """Id of the process that runs now, or ran last."""
        return self._process.pid

    def pass_on(self, number: int, frame: FrameType | None) -> None:
        """Handles a signal that is meant for loggers."""
        del frame
        with suppress(ProcessLookupError):  # it has ended, and is replaced
            os.kill(self.pid, number)

    def address(self, index: int = 0) -> ObserverAddress:
        """Returns the address for front end `index`."""
        return ObserverAddress(self._folder, self._key, index)

    def close(self, *, timeout_seconds: float = END_SECONDS) -> None:
        """Ends the process once its loggers have got what it has; callable twice.

        It is killed if that takes longer than `timeout_seconds`. One that is being
        started ends at once.
        """
        if self._is_closing.is_set():
            return
        self._watcher.close(_WATCHER_SECONDS)
        self._process.hang_up()
        self._process.close(timeout_seconds)
        self._marks.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def _process(self) -> Supervised:
        assert self._latest is not None, "the constructor has started it"
        return self._latest

    def _start(self) -> None:
        """Starts a process, and waits until its loggers are loaded.

        Raises:
            ConfigError: An option of a logger is wrong, or the process did not start.
            RegistryError: A logger is unknown or broken.
        """
        self._incarnation += 1
        culprits = self._culprits
        begin = Begin(
            self._key,
            self._incarnation,
            self._config,
            self._pages,
            culprits.left_out,
            culprits.set_aside,
            culprits.suspects,
        )
        body = msgspec.msgpack.encode(begin, enc_hook=plain)
        try:
            marks = self._marks.renew()
            # From here on it is the latest one, which `close` ends.
            self._latest = Supervised(
                MODULE, (self._folder, marks), name="observer", pass_fds=(marks,)
            )
        except OSError as error:
            detail = f"its process cannot be started: {error}"
            raise ConfigError("observer-process", detail) from error
        try:
            self._process.send_bytes(body)
            wait_until_begun(self._process, self._is_closing)
        except BaseException:
            self._process.kill()
            self._process.close(0.0)
            raise

    def _look(self) -> bool:
        """Replaces the process if it has ended; False if that is not allowed again."""
        if (reason := self._process.end_reason) is not None:
            self._process.close(0.0)
            self._blame()
            return self._replace(_plainer(reason))
        return self._exchange_loggers() if self._culprits.look() else True

    def _exchange_loggers(self) -> bool:
        """Lets other loggers run; what this takes is no restart that is counted."""
        _log.warning("the observer process begins again, with other loggers")
        self._process.hang_up()
        self._process.close(END_SECONDS)
        self._tell_culprits()
        try:
            self._start()
        except (HooklineError, RegistryError) as error:
            return not self._is_closing.is_set() and self._replace(str(error))
        return True

    def _blame(self) -> None:
        """Leaves out the logger that has ended the process, if it is known."""
        if self._process is self._blamed:
            return  # no other one could be started
        self._blamed = self._process
        by_itself = self._process.exit_code not in _FROM_OUTSIDE
        self._culprits.ended(self._marks.called, by_itself=by_itself)
        self._tell_culprits()

    def _tell_culprits(self) -> None:
        for logger in self._culprits.left_out[self._num_told :]:
            _log.error(
                "the logger %s has ended the observer process again and again: it is "
                "left out, and the others go on",
                logger,
            )
            self._num_told += 1
            self._budget = RestartBudget(RESTARTS_PER_HOUR)
        if self._culprits.set_aside:
            _log.warning(
                "loggers that are set aside for a while, to see which one ends the "
                "observer process: %s",
                ", ".join(self._culprits.set_aside),
            )

    def _replace(self, reason: str) -> bool:
        """Returns False if the process is not replaced any more."""
        while (delay := self._budget.consume()) is not None:
            _log.error(
                "the observer process has ended: %s; serving goes on without loggers, "
                "and it is replaced in %g s",
                reason,
                delay,
            )
            if self._is_closing.wait(delay):
                return False
            try:
                self._start()
            except (HooklineError, RegistryError) as error:
                if self._is_closing.is_set():
                    return False
                reason = str(error)
                self._blame()
            else:
                _log.warning("the observer process has been replaced")
                return True
        _log.error(
            "the observer process has ended: %s; after %d replacements within an hour "
            "it is not replaced again, and loggers get nothing more",
            reason,
            RESTARTS_PER_HOUR,
        )
        return False


def _plainer(reason: str) -> str:
    if signal.SIGALRM.name in reason:
        return f"a logger held its interpreter for more than {HUNG_SECONDS} s"
    return reason
